//! Agents' sessions through the library.

#[path = "../support/mod.rs"]
mod support;

mod diff;
mod journal;
