//! PostgreSQL, on a real server: what is noticed, captured and put back.

#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, reason = "tests may")]

mod failing;
mod mute;
mod noticing;
mod racing;
mod room;
mod round_trip;
mod secrets;
mod support;
