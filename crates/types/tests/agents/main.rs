//! An agent's session: what its events fold to, and what is told of that.

mod brief;
mod fold;
mod journal;
