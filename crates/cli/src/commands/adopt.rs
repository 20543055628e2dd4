//! `rappel adopt`.

use std::path::Path;

use rappel_types::WorkspaceId;

use crate::errors::{Exit, Result};
use crate::face;
use crate::output::clean;
use crate::process::Context;
use crate::values;

/// Take over the history of a folder that was moved or renamed
///
/// Never from a folder that is still where it was.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  rappel adopt ../old-name
  rappel adopt 0123456789abcdef")]
pub struct Args {
    /// Where the folder was, or the workspace's id
    #[arg(value_name = "OLD_ROOT")]
    pub old: String,
}

pub fn run(args: &Args, context: &Context) -> Result {
    let old = match args.old.parse::<WorkspaceId>() {
        Ok(_) => args.old.clone(),
        Err(_) => {
            let path = values::without_dots(&context.absolute(Path::new(&args.old)));
            path.to_string_lossy().into_owned()
        }
    };
    let adopted = context.open()?.adopt(&old)?;
    let output = context.output;
    if output.json {
        output.answer_json(&adopted)?;
    } else if !output.quiet {
        let checkpoints = face::count(adopted.checkpoints as u64, "checkpoint", "checkpoints");
        let (from, to) = (clean(&adopted.from), clean(&adopted.to));
        output.answer(|out| Ok(writeln!(out, "{to} goes on with {checkpoints} of {from}")?))?;
    }
    if let Some(newest) = adopted.left_behind.first() {
        let left = adopted.left_behind.len() as u64;
        let stay = if left == 1 { "stays" } else { "stay" };
        output.warning(&format!(
            "{} made here before {stay} in a history apart; `rappel list --all-workspaces` shows \
             it, and `rappel restore {newest}` goes there",
            face::count(left, "checkpoint", "checkpoints")
        ));
    }
    Ok(Exit::Done)
}
