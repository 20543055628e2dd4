//! `rappel stats`.

use crate::errors::{Exit, Result};
use crate::face;
use crate::process::Context;

/// Show what checkpoints cost in space, and agents in tokens and calls
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  rappel stats
  rappel stats --json | jq .ratio
  rappel stats --json | jq '.tools[] | select(.failed > 0)'")]
pub struct Args {}

pub fn run(_: &Args, context: &Context) -> Result {
    let stats = context.open()?.stats()?;
    let output = context.output;
    face::checkpoint::warn_unreadable(&stats.unreadable, output);
    if output.json {
        output.answer_json(&stats)?;
    } else {
        let text = face::health::stats(&stats, output.paint());
        output.answer(|out| Ok(out.write_all(text.as_bytes())?))?;
    }
    Ok(Exit::Done)
}
