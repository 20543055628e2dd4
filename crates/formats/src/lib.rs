//! Checkpoint forms of other tools. Each module reads and writes one form, and knows nothing of
//! workspaces or of our store: [`Portable`] is what it shares with the engine.

pub mod aiwg;
pub mod caf;
mod error;
pub mod forge;
pub mod form;
#[doc(hidden)]
pub mod fuzz;
pub mod loki;
pub mod lugh;
pub mod portable;
mod reading;
mod shelf;
pub mod spool;

pub use error::{Error, Result};
pub use form::{Form, detect, read, write};
pub use portable::Portable;
