//! Agents' sessions through the library.

#[path = "../support/mod.rs"]
mod support;

mod diff;
mod find;
mod journal;
mod stats;
mod timeline;
