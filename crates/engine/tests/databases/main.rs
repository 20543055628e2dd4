//! Databases in checkpoints: what is captured of them, and how it comes back with everything else.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test may fail loudly"
)]

mod alone;
mod at_once;
mod command;
mod knowledge;
mod postgres;
mod sqlite;
#[path = "../support/mod.rs"]
mod support;
mod told;
mod unsaved;
