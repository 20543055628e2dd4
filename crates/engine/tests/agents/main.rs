//! Agents' sessions through the library.

#[path = "../support/mod.rs"]
mod support;

mod forks;
mod journal;
mod replay;
