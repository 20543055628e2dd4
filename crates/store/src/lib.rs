//! The store of Rappel: one log of packs, content-addressed objects, and an index that is only a
//! view of them. `docs/format.md` describes every byte.

pub mod ambient;
pub mod beneath;
pub mod block;
mod closure;
pub mod codec;
pub mod content;
pub mod disk;
pub mod document;
pub mod error;
pub mod home;
pub mod index;
pub mod lock;
pub mod log;
pub mod pack;
pub mod record;
pub mod sink;
pub mod store;
pub mod tree;
pub mod varint;
pub mod writer;

pub use error::{Error, Result};
pub use store::{Options, Store};
pub use writer::{NewRecord, Writer};
