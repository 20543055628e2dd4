//! Checkpoint forms of other tools. Each module reads and writes one form, and knows nothing of
//! workspaces or of our store: [`Portable`] is what it shares with the engine.

pub mod aiwg;
pub mod caf;
mod error;
mod files;
pub mod forge;
pub mod form;
#[doc(hidden)]
pub mod fuzz;
pub mod loki;
pub mod lugh;
pub mod portable;
mod reading;
mod sessions;
mod shelf;
pub mod spool;
pub mod triggers;

pub use error::{Error, Result};
pub use form::{Form, detect, read, write};
pub use portable::Portable;
