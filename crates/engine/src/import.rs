//! Taking in checkpoints that others made.

#[cfg_attr(not(test), allow(dead_code, reason = "the import into lineages calls it"))]
mod bundle;
