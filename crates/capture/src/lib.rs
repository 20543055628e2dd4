//! What Rappel captures: one module per kind of state, each able to read it and to put it back.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests hold no database"))]

pub mod agents;
pub mod databases;
pub mod error;
pub mod files;
pub mod git;
pub mod restore;

pub use error::{Error, Result};
#[doc(hidden)]
pub use restore::fuzz;
