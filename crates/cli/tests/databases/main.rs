//! The real binary on real databases: what it says of them, and what it does when it is refused,
//! killed or watched.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail loudly")]

mod beside_writers;
mod crash;
mod damaged;
mod faces;
mod foreseen;
mod load;
mod names;
mod pooled;
mod redis;
mod refusals;
mod scene;
mod secrets;
#[path = "../support/mod.rs"]
mod support;
