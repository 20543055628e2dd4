//! Checkpoint forms of other tools. Each module reads and writes one form, and knows nothing of
//! workspaces or checkpoints of ours: the engine fills its values.

pub mod aiwg;
mod error;

pub use error::{Error, Result};
