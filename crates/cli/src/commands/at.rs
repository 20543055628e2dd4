//! `rappel at`.

use rappel::TemporalQuery;
use rappel::types::agents::SessionId;
use rappel_types::{Reference, Timestamp, When};

use crate::errors::{Exit, Result};
use crate::face;
use crate::process::Context;
use crate::values::{self, BadValue};

/// Show what an agent knew at a time: hypotheses, beliefs, gaps, approaches
///
/// By time, as precise as what was recorded; or as a checkpoint, an event or a tag has it. A time
/// beats a number, that beats a checkpoint's name; a tag says which checkpoints count.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  rappel at \"2 hours ago\"
  rappel at now --json
  rappel at --checkpoint latest
  rappel at --event 120 --session ses_20261115_143022_k7f3
  rappel at --tag verified")]
pub struct Args {
    /// The time: `now`, `2 hours ago`, `yesterday 14:00`, `2026-11-15 14:30:00`
    #[arg(value_name = "WHEN", value_parser = when_at)]
    when: Option<When>,
    /// The session [default: RAPPEL_SESSION, else the newest that runs, else the last one]
    #[arg(long, value_name = "ID", value_parser = values::session)]
    session: Option<SessionId>,
    /// As the checkpoint with this number has it
    #[arg(long, value_name = "N")]
    sequence: Option<u64>,
    /// After the event with this number
    #[arg(long, value_name = "N")]
    event: Option<u64>,
    /// As this checkpoint has it
    #[arg(long, value_name = "REF", value_parser = values::reference)]
    checkpoint: Option<Reference>,
    /// As the newest checkpoint with this tag has it
    #[arg(long, value_name = "TAG")]
    tag: Option<String>,
    /// Everything, however long its lists and texts are
    #[arg(long)]
    full: bool,
}

pub fn run(args: &Args, context: &Context) -> Result {
    let rappel = context.open()?;
    let query = TemporalQuery {
        timestamp: args.when.as_ref().map(|when| moment(when, context)).transpose()?,
        now: args.when.as_ref().is_some_and(When::is_now),
        sequence_number: args.sequence,
        event: args.event,
        checkpoint: args.checkpoint.clone(),
        tag_filter: args.tag.clone(),
        session: args.session.clone(),
        preferred: context.asking_session(None, &rappel)?,
    };
    let most = match (args.full, context.output.json) {
        (true, _) => u64::MAX,
        (false, true) => 1000,
        (false, false) => face::agents::SHOWN,
    };
    let found = rappel.query_at_most(&query, most)?;
    let output = context.output;
    if output.json {
        output.answer_json(&rappel::answers::AtAnswer::from(&found))?;
    } else {
        let told = if args.full { face::agents::state_in_full } else { face::agents::state };
        let text = told(&found, context.now(), output.paint());
        output.answer(|out| Ok(out.write_all(text.as_bytes())?))?;
    }
    Ok(Exit::Done)
}

/// A WHEN; people write the name of a checkpoint or a tag there too.
fn when_at(text: &str) -> Result<When, BadValue> {
    values::when(text).map_err(|BadValue { message, hint }| {
        let hint =
            hint.map(|hint| format!("{hint}; a checkpoint is --checkpoint REF, a tag --tag TAG"));
        BadValue { message, hint }
    })
}

/// The end of what is meant by a WHEN. Of a day that is not over, that is now: only what has not begun is yet to come.
fn moment(when: &When, context: &Context) -> Result<Timestamp> {
    let (begin, end, now) = (context.moment(when)?, context.moment_end(when)?, context.now());
    Ok(if begin <= now { end.min(now) } else { end })
}
