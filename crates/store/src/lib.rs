//! The store of Rappel: one log of packs, content-addressed objects, and an index that is only a
//! view of them. `docs/format.md` describes every byte.

pub mod ambient;
pub mod beneath;
pub mod content;
pub mod disk;
pub mod error;
pub mod sink;
pub mod tree;
pub mod varint;

pub use error::{Error, Result};
