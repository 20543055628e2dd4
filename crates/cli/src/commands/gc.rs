//! `rappel gc`.

use crate::errors::{Exit, Result};
use crate::process::Context;
use crate::{face, progress};

/// Free what nothing needs any more
///
/// What was deleted is freed a day later; --now does not wait. A save starts this by itself when
/// it is overdue.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  rappel gc
  rappel gc --dry-run
  rappel gc --now")]
pub struct Args {
    /// Do not wait out the day of grace
    #[arg(long)]
    pub now: bool,
    /// Show what would be freed, and free nothing
    #[arg(long)]
    pub dry_run: bool,
}

pub fn run(args: &Args, context: &Context) -> Result {
    let rappel = context.open()?;
    let report = progress::spinner(context, "Freeing space", || rappel.gc(args.now, args.dry_run))?;
    let output = context.output;
    if output.json {
        output.answer_json(&report)?;
    } else if !output.quiet {
        let text = face::health::gc(&report, args.dry_run, output.paint());
        output.answer(|out| Ok(out.write_all(text.as_bytes())?))?;
    }
    Ok(Exit::Done)
}
