//! PostgreSQL, on a real server: what is noticed, captured and put back.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]

mod failing;
mod noticing;
mod round_trip;
mod support;
