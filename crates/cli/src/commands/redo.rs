//! `rappel redo`.

use super::undo;
use crate::errors::Result;
use crate::process::Context;
use crate::progress;

/// Take back the last undo
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  rappel redo
  rappel redo --dry-run")]
pub struct Args {
    #[command(flatten)]
    pub step: undo::StepArgs,
}

pub fn run(args: &Args, context: &Context) -> Result {
    let rappel = context.open()?;
    let step = progress::watch(context, "Comparing", || rappel.next_redo())?;
    undo::take("redo", &step, &args.step, &rappel, context)
}
