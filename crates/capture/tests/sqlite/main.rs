//! Databases of SQLite: read in one piece while others write, put back in one transaction.
//!
//! Others are other processes throughout: within one process the locks of two users of a file are
//! the same.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "tests say what they expect by failing"
)]

mod absent;
mod capturing;
mod noticing;
mod others;
mod restoring;
mod support;
