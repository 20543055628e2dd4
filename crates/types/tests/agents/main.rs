//! An agent's session: what its events fold to, and what is told of that.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]

mod brief;
mod fold;
mod journal;
mod news;
mod replay;
