//! `rappel report`.

use rappel::types::agents::SessionId;

use crate::errors::{Exit, Result};
use crate::face;
use crate::process::Context;
use crate::values;

/// Tell what a session did, prompt by prompt
///
/// For the morning after: what changed in files, git and databases, which commands failed, what was
/// verified and ruled out, tokens, time and memory, and how it ended. Changes are those of the
/// workspace between the checkpoints around a prompt, whoever made them.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  rappel report
  rappel report --markdown > report.md
  rappel report ses_20261115_143022_k7f3 --json")]
pub struct Args {
    /// Which session [default: the newest that no other session sent, running or ended]
    #[arg(value_name = "SESSION", value_parser = values::session)]
    pub session: Option<SessionId>,
    /// The same, as other commands take it
    #[arg(long = "session", value_name = "ID", hide = true, conflicts_with = "session")]
    #[arg(value_parser = values::session)]
    pub named: Option<SessionId>,
    /// Write Markdown
    #[arg(long, conflicts_with = "json")]
    pub markdown: bool,
}

pub fn run(args: &Args, context: &Context) -> Result {
    let report = context.open()?.report(args.session.as_ref().or(args.named.as_ref()))?;
    let output = context.output;
    if output.json {
        output.answer_json(&report)?;
        return Ok(Exit::Done);
    }
    let text = match args.markdown {
        true => face::report::markdown(&report, context.now()),
        false => face::report::text(&report, context.now(), output.paint()),
    };
    output.page(|out| Ok(out.write_all(text.as_bytes())?))?;
    Ok(Exit::Done)
}
