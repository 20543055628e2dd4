//! Checkpoints that come from elsewhere.

#[allow(dead_code, reason = "the import of whole checkpoints calls it")]
mod databases;
#[allow(dead_code, reason = "the import of whole checkpoints calls it")]
mod git;
