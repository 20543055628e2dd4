//! Agents' sessions through the library.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test may fail loudly"
)]

#[path = "../support/mod.rs"]
mod support;

mod at;
mod diff;
mod find;
mod forks;
mod journal;
mod let_go;
mod library;
mod opencode;
mod recall;
mod replay;
mod stats;
mod timeline;
mod transcripts;
mod whole;
