//! `rappel cat`.

use rappel_types::{Reference, RelPath};

use crate::errors::{Exit, Result};
use crate::process::Context;
use crate::values;

/// Print a file as a checkpoint holds it
///
/// The path is relative to the workspace's root. A symbolic link prints where it points.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  rappel cat latest:src/main.rs
  rappel cat \"@{yesterday 14:00}:notes.md\" > notes-then.md
  rappel cat latest~3:Cargo.toml | diff - Cargo.toml")]
pub struct Args {
    /// Which checkpoint, and which file in it
    #[arg(value_name = "REF:PATH", value_parser = values::reference_and_path)]
    pub place: (Reference, RelPath),
}

pub fn run(args: &Args, context: &Context) -> Result {
    let (reference, path) = &args.place;
    let rappel = context.open()?;
    context.output.answer(|out| Ok(rappel.cat(reference, path, out)?))?;
    Ok(Exit::Done)
}
