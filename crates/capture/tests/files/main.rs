//! Scans of real folders: what is taken, what is noticed, what is said about the rest.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "tests say what they expect by failing"
)]

mod changes;
mod databases;
mod first;
mod git_agrees;
mod hostile;
mod project;
mod remembered;
mod selection;
