//! `rappel tag`.

use rappel_types::Reference;

use crate::errors::{Exit, Result};
use crate::output::clean;
use crate::process::Context;
use crate::values;

/// Give tags to a checkpoint
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  rappel tag latest green
  rappel tag 42 release,reviewed")]
pub struct Args {
    /// Which checkpoint
    #[arg(value_name = "REF", value_parser = values::reference)]
    pub reference: Reference,
    /// The tags, by commas or spaces
    #[arg(required = true, value_name = "TAG", value_delimiter = ',', value_parser = values::tag)]
    pub tags: Vec<String>,
}

pub fn run(args: &Args, context: &Context) -> Result {
    let checkpoint = context.open()?.tag(&args.reference, &args.tags)?;
    let output = context.output;
    if output.json {
        output.answer_json(&checkpoint)?;
    } else if !output.quiet {
        let id = output.paint().id(checkpoint.manifest.id.as_str());
        let tags = clean(&checkpoint.manifest.tags.join(", "));
        output.answer(|out| Ok(writeln!(out, "Tagged {id}: {tags}")?))?;
    }
    Ok(Exit::Done)
}
