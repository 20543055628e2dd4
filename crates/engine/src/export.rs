//! Checkpoints in the forms of other tools.

mod contents;
mod loki;
mod portable;
#[cfg(test)]
mod tests;

pub(crate) use contents::scratch;
pub use loki::LokiWritten;
