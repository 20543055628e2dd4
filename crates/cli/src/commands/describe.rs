//! `rappel describe`.

use rappel_types::Reference;

use crate::errors::{Exit, Result};
use crate::output::clean;
use crate::process::Context;
use crate::values;

/// Give a checkpoint another message
///
/// The checkpoint itself is not written again: the message is kept beside it, as tags are.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  rappel describe latest 'Tests pass, before the refactoring'
  rappel describe 42 'Green again'")]
pub struct Args {
    /// Which checkpoint
    #[arg(value_name = "REF", value_parser = values::reference)]
    pub reference: Reference,
    /// The new message; an empty one takes the present one away
    #[arg(value_name = "MESSAGE")]
    pub message: String,
}

pub fn run(args: &Args, context: &Context) -> Result {
    let checkpoint = context.open()?.describe(&args.reference, &args.message)?;
    let output = context.output;
    if output.json {
        output.answer_json(&checkpoint)?;
    } else if !output.quiet {
        let id = output.paint().id(checkpoint.manifest.id.as_str());
        let said = match &checkpoint.manifest.description {
            Some(message) => format!("Described {id}: {}", clean(message)),
            None => format!("{id} has no message"),
        };
        output.answer(|out| Ok(writeln!(out, "{said}")?))?;
    }
    Ok(Exit::Done)
}
