//! `rappel find`.

use std::ffi::OsString;

use rappel::ListFilter;

use crate::args::Limit;
use crate::errors::{Exit, Failure, Result};
use crate::face;
use crate::process::{Context, quote};

/// Find the checkpoints where something happened
///
/// Shows each matching event of an agent with the first checkpoint that contains it. Several
/// conditions must all hold.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  rappel find --tool bash
  rappel find --text \"stale cache\"
  rappel find --path src/main.rs
  rappel find --tag hypothesis_confirmed --session ses_20261115_143022_k7f3
  rappel find --tool bash --text \"cargo test\" --json | jq '.events[0]'")]
pub struct Args {
    #[command(flatten)]
    limit: Limit,
    /// Checkpoints where this tool was called
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// Checkpoints with events that contain this text; case does not matter
    #[arg(long, value_name = "TEXT")]
    text: Option<String>,
    /// Checkpoints that changed this file, or something in this folder
    #[arg(long, value_name = "PATH")]
    path: Option<OsString>,
    /// Checkpoints with this tag
    #[arg(long)]
    tag: Option<String>,
    /// Checkpoints of this agent session
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// The same as --path
    #[arg(last = true, value_name = "PATH", conflicts_with = "path")]
    plain_path: Option<OsString>,
}

pub fn run(args: &Args, context: &Context) -> Result {
    let given = [&args.tool, &args.text, &args.tag, &args.session];
    let path = args.path.as_ref().or(args.plain_path.as_ref());
    if given.into_iter().all(Option::is_none) && path.is_none() {
        return Err(Failure::usage(
            "name something to find",
            "say --tool NAME, --text TEXT, --path PATH, --tag TAG or --session ID",
        ));
    }
    if args.text.as_ref().is_some_and(|text| text.trim().is_empty()) {
        return Err(Failure::usage("an empty text is everywhere", "rappel find --text WORDS"));
    }
    let rappel = context.open()?;
    let found = rappel.find(&ListFilter {
        limit: Some(args.limit.most()),
        tool: args.tool.clone(),
        text: args.text.clone(),
        path: context.paths(rappel.root(), path)?.pop(),
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
        out.write_all(text.as_bytes())?;
        if found.total == 0
            && let Some(tag) = &args.tag
            && let Some(meant) = rappel.nearest_tag(tag)?
        {
            writeln!(out, "Did you mean --tag {}?", quote(&meant))?;
        }
        Ok(())
    })?;
    Ok(Exit::Done)
}
