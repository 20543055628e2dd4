//! `rappel undelete`.

use crate::errors::{Exit, Result};
use crate::face;
use crate::process::Context;

/// Bring back a deleted checkpoint
///
/// Works for a day after `rappel delete`, unless that was told --now. `rappel list --deleted` shows
/// which there are.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  rappel undelete chk_20261115_143022_k7f3
  rappel undelete 3")]
pub struct Args {
    /// The checkpoint's id, the beginning of it, or its number
    pub id: String,
}

pub fn run(args: &Args, context: &Context) -> Result {
    let checkpoint = context.open()?.undelete(&args.id)?;
    let output = context.output;
    if output.json {
        output.answer_json(&checkpoint)?;
    } else if !output.quiet {
        let target = face::restore::target(&checkpoint, context.now(), output.paint());
        output.answer(|out| Ok(writeln!(out, "Brought back {target}")?))?;
    }
    Ok(Exit::Done)
}
