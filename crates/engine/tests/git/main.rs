//! Repositories, with the real git: what is captured of them, and how it comes back.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test may fail loudly"
)]

mod bench;
mod damage;
mod in_the_way;
mod kinds;
mod model;
mod objects;
mod quiet;
mod rules;
mod spoilt;
#[path = "../support/mod.rs"]
mod support;
mod undo;
mod unsaved;
