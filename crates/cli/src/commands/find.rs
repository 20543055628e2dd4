//! `rappel find`.

use std::ffi::OsString;

use rappel::ListFilter;

use crate::errors::{Exit, Failure, Result};
use crate::face;
use crate::process::Context;
use crate::values;

/// How many checkpoints are shown unless told.
const DEFAULT_LIMIT: u64 = 20;

/// Find the checkpoints where something happened
///
/// Of what agents said and did, each event is shown with the first checkpoint that holds it.
/// Several conditions must all hold.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  rappel find --tool bash
  rappel find --text \"stale cache\"
  rappel find --path src/main.rs
  rappel find --tag hypothesis_confirmed --session ses_20261115_143022_k7f3
  rappel find --tool bash --text \"cargo test\" --json | jq '.events[0]'")]
pub struct Args {
    /// How many at most [default: 20]
    #[arg(value_parser = values::limit)]
    limit: Option<u64>,
    /// Where this tool was called
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// Where this was said, in whatever case
    #[arg(long, value_name = "TEXT")]
    text: Option<String>,
    /// Where this file, or something in this folder, changed
    #[arg(long, value_name = "PATH")]
    path: Option<OsString>,
    /// Those with this tag
    #[arg(long)]
    tag: Option<String>,
    /// Those of this agent session
    #[arg(long, value_name = "ID")]
    session: Option<String>,
}

pub fn run(args: &Args, context: &Context) -> Result {
    let given = [&args.tool, &args.text, &args.tag, &args.session];
    if given.into_iter().all(Option::is_none) && args.path.is_none() {
        return Err(Failure::usage(
            "nothing to look for was given",
            "say --tool NAME, --text TEXT, --path PATH, --tag TAG or --session ID",
        ));
    }
    if args.text.as_ref().is_some_and(|text| text.trim().is_empty()) {
        return Err(Failure::usage("an empty text is everywhere", "rappel find --text WORDS"));
    }
    let rappel = context.open()?;
    let limit = args.limit.unwrap_or(DEFAULT_LIMIT);
    let found = rappel.find(&ListFilter {
        limit: Some(usize::try_from(limit).unwrap_or(usize::MAX)),
        tool: args.tool.clone(),
        text: args.text.clone(),
        path: context.paths(rappel.root(), args.path.as_slice())?.pop(),
        tag: args.tag.clone(),
        session: args.session.clone(),
        all: true,
        ..ListFilter::default()
    })?;
    let output = context.output;
    face::checkpoint::warn_unreadable(&found.unreadable, output);
    if output.json {
        output.answer_json(&found)?;
        return Ok(Exit::Done);
    }
    output.answer(|out| {
        if output.quiet {
            for checkpoint in &found.checkpoints {
                writeln!(out, "{}", checkpoint.manifest.id)?;
            }
            return Ok(());
        }
        let text = face::found::found(&found, context.now(), output.paint());
        Ok(out.write_all(text.as_bytes())?)
    })?;
    Ok(Exit::Done)
}
