//! `rappel upkeep`: what a save, a hook or `watch` starts, and nobody waits for.

use crate::errors::{Exit, Result};
use crate::process::Context;

/// Apply the retention policy and free space, as far as either is due
///
/// Saves, hooks and `rappel watch` start this by themselves. `rappel prune` and `rappel gc` do the
/// same at once.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  rappel upkeep
  rappel upkeep --gc")]
pub struct Args {
    /// Also mark the end of a day, and save at intervals
    #[arg(long)]
    pub clock: bool,
    /// Free space
    #[arg(long)]
    pub gc: bool,
}

pub fn run(args: &Args, context: &Context) -> Result {
    let rappel = context.open_patiently()?;
    match args.clock {
        true => rappel.tick()?,
        false => rappel.tend(args.gc)?,
    }
    Ok(Exit::Done)
}
