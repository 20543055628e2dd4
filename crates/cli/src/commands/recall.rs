//! `rappel recall`.

use rappel::types::agents::SessionId;
use rappel::types::agents::brief::DEFAULT_MAX;

use crate::errors::{Exit, Result};
use crate::process::Context;
use crate::values;

/// Print a brief for an agent that has lost its context
///
/// What it was to do, what it found out and ruled out, what is open, what it did last, and where it
/// can be brought back to.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  rappel recall
  rappel recall --max 3000
  rappel recall --session ses_20261115_143022_k7f3 --json")]
pub struct Args {
    /// The session [default: RAPPEL_SESSION, else the newest that runs, else the last one]
    #[arg(long, value_name = "ID", value_parser = values::session)]
    session: Option<SessionId>,
    /// At most so many characters; the goal, what is open and what was ruled out are always told
    #[arg(long, value_name = "CHARS", default_value_t = DEFAULT_MAX)]
    max: usize,
}

pub fn run(args: &Args, context: &Context) -> Result {
    let rappel = context.open()?;
    let named = context.asking_session(args.session.as_ref(), &rappel)?;
    let session = rappel.session_asked_about(named.as_ref())?.id;
    let brief = rappel.recall(&session)?;
    let output = context.output;
    if output.json {
        output.answer_json(&brief)?;
    } else {
        let text = brief.to_text(args.max);
        output.answer(|out| Ok(writeln!(out, "{}", text.trim_end())?))?;
    }
    Ok(Exit::Done)
}
