//! `rappel pin`.

use rappel_types::Reference;

use crate::errors::{Exit, Result};
use crate::process::Context;
use crate::values;

/// Keep a checkpoint from being deleted
///
/// A pinned checkpoint is deleted only after `rappel unpin`.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  rappel pin latest
  rappel list --json | jq '.checkpoints[] | select(.pinned).id'")]
pub struct Args {
    /// Which checkpoint
    #[arg(value_name = "REF", value_parser = values::reference)]
    pub reference: Reference,
}

pub fn run(args: &Args, context: &Context) -> Result {
    set(&args.reference, true, context)
}

/// Pins or unpins, and says so.
pub(super) fn set(reference: &Reference, pinned: bool, context: &Context) -> Result {
    let checkpoint = context.open()?.pin(reference, pinned)?;
    let output = context.output;
    if output.json {
        output.answer_json(&checkpoint)?;
    } else if !output.quiet {
        let id = output.paint().id(checkpoint.manifest.id.as_str());
        let text = match pinned {
            true => format!("Pinned {id}: it cannot be deleted"),
            false => format!("Unpinned {id}: it can be deleted"),
        };
        output.answer(|out| Ok(writeln!(out, "{text}")?))?;
    }
    Ok(Exit::Done)
}
