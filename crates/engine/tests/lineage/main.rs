//! Histories that came from elsewhere, beside a workspace's own.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test may fail loudly"
)]

#[path = "../support/mod.rs"]
mod support;

mod apart;
mod faults;
mod foreign;
mod import;
mod names;
mod restore;
mod scene;
mod sessions;
