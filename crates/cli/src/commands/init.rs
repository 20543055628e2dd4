//! `rappel init`.

use crate::errors::{Exit, Result};
use crate::face::Fields;
use crate::output::clean;
use crate::process::Context;

/// Write a commented rappel.toml for what is found here
///
/// Saving files needs none; it is for settings. An existing one is never overwritten.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  rappel init
  rappel init -C ~/my-app")]
pub struct Args {}

pub fn run(_: &Args, context: &Context) -> Result {
    let written = context.open()?.init()?;
    let output = context.output;
    if output.json {
        output.answer_json(&written)?;
    } else if !output.quiet {
        let mut fields = Fields::new(output.paint());
        fields.add("Git", if written.git { "yes" } else { "no" });
        if !written.databases.is_empty() {
            fields.add("Databases", clean(&written.databases.join(", ")));
        }
        if !written.unprotected.is_empty() {
            let names = clean(&written.unprotected.join(", "));
            fields.add("Not protected", format!("{names} (the file says how)"));
        }
        if !written.state_folders.is_empty() {
            fields.add("Agents", clean(&written.state_folders.join(", ")));
        }
        let save = context.suggest("save");
        output.answer(|out| {
            writeln!(out, "Wrote {}", written.path.display())?;
            out.write_all(fields.lines().as_bytes())?;
            Ok(writeln!(out, "Make a checkpoint with: {save}")?)
        })?;
    }
    Ok(Exit::Done)
}
