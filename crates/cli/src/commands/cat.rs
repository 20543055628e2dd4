//! `rappel cat`.

use std::path::Path;

use rappel::answers::FileContent;
use rappel_types::{PathError, Reference, RelPath};

use crate::errors::{Exit, Failure, Result};
use crate::process::Context;
use crate::values;

/// Print a file as a checkpoint holds it
///
/// The path is relative to the workspace's root, or to the present folder if it begins with ./ or ../
/// A symbolic link prints where it points; a SQLite database is printed as one file. With --json,
/// content that is not UTF-8 is given in base 64.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  rappel cat latest:src/main.rs
  rappel cat latest:./main.rs
  rappel cat \"@{yesterday 14:00}:notes.md\" > notes-then.md
  rappel cat latest~3:Cargo.toml | diff - Cargo.toml
  rappel cat latest:data/app.db > /tmp/app.db")]
pub struct Args {
    /// Which checkpoint, and which file in it
    #[arg(value_name = "REF:PATH", value_parser = values::reference_and_path)]
    pub place: (Reference, String),
}

pub fn run(args: &Args, context: &Context) -> Result {
    let (reference, given) = &args.place;
    let rappel = context.open()?;
    let path = path(given, rappel.root(), context)?;
    if context.output.json {
        let mut bytes = Vec::new();
        rappel.cat(reference, &path, &mut bytes)?;
        context.output.answer_json(&FileContent::new(path, bytes))?;
        return Ok(Exit::Done);
    }
    context.output.answer(|out| Ok(rappel.cat(reference, &path, out)?))?;
    Ok(Exit::Done)
}

/// The path of `REF:PATH`: counted from the root, or with `./` and `../` from the present folder.
fn path(given: &str, root: &Path, context: &Context) -> Result<RelPath> {
    if given.starts_with("./") || given.starts_with("../") {
        let found = context.paths(root, [&given.into()])?.pop();
        return found.ok_or_else(|| {
            Failure::usage("that is the whole workspace", "rappel show REF --files lists it")
        });
    }
    given.parse().map_err(|error: PathError| {
        let hint =
            "the path is relative to the workspace's root; `./` begins at the present folder";
        Failure::usage(error.to_string(), hint)
    })
}
