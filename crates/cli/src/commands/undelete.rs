//! `rappel undelete`.

use crate::errors::{Exit, Result};
use crate::face;
use crate::process::Context;

/// Bring back deleted checkpoints
///
/// Works for a day after `rappel delete`, unless that was told --now. `rappel list --deleted` shows
/// which there are.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  rappel undelete chk_20261115_143022_k7f3
  rappel undelete 3 4 5")]
pub struct Args {
    /// Each checkpoint's id, the beginning of it, or its number
    #[arg(value_name = "ID", required = true)]
    pub ids: Vec<String>,
}

pub fn run(args: &Args, context: &Context) -> Result {
    let back = context.open()?.undelete_all(&args.ids)?;
    let output = context.output;
    if output.json {
        match &back[..] {
            [one] => output.answer_json(one)?,
            all => output.answer_json(&serde_json::json!({ "checkpoints": all }))?,
        }
    } else if !output.quiet {
        for checkpoint in &back {
            let target = face::restore::target(checkpoint, context.now(), output.paint());
            output.answer(|out| Ok(writeln!(out, "Brought back {target}")?))?;
        }
    }
    Ok(Exit::Done)
}
