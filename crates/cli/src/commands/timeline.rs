//! `rappel timeline`.

use rappel::TimelineOptions;

use crate::args::Limit;
use crate::errors::{Exit, Result};
use crate::face;
use crate::process::Context;

/// Draw the checkpoints as a graph, newest first
///
/// A fork is where the work went on from an earlier checkpoint after a restore.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  rappel timeline
  rappel timeline 100 --all
  rappel timeline --json | jq -r '.checkpoints[] | [.lane, .id] | @tsv'")]
pub struct Args {
    #[command(flatten)]
    limit: Limit,
    /// Also show state-only checkpoints; without this they are only counted
    #[arg(long)]
    all: bool,
}

pub fn run(args: &Args, context: &Context) -> Result {
    let rappel = context.open()?;
    let options = TimelineOptions { limit: Some(args.limit.most()), all: args.all };
    let timeline = rappel.timeline(&options)?;
    let output = context.output;
    face::checkpoint::warn_unreadable(&timeline.unreadable, output);
    if output.json {
        output.answer_json(&timeline)?;
        return Ok(Exit::Done);
    }
    output.answer(|out| {
        if output.quiet {
            for checkpoint in &timeline.checkpoints {
                writeln!(out, "{}", checkpoint.id)?;
            }
            return Ok(());
        }
        if timeline.checkpoints.is_empty() && timeline.folded_since == 0 {
            let save = context.suggest("save \"Before I begin\"");
            let root = rappel.root().display();
            writeln!(out, "No checkpoints of {root} yet.\nMake the first one with: {save}")?;
            return Ok(());
        }
        let paint = output.paint();
        let text = face::timeline::graph(&timeline, context.now(), paint);
        out.write_all(text.as_bytes())?;
        let shown = timeline.checkpoints.len();
        if timeline.total > shown {
            let all = if args.all { " --all" } else { "" };
            let more = context.suggest(&format!("timeline {}{all}", shown.saturating_mul(2)));
            writeln!(out, "{}", paint.faint(&format!("Show more: {more}")))?;
        }
        Ok(())
    })?;
    Ok(Exit::Done)
}
