//! Agents' sessions through the library.

#[path = "../support/mod.rs"]
mod support;

mod diff;
mod find;
mod forks;
mod journal;
mod replay;
mod stats;
mod timeline;
