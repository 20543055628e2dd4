//! `rappel init`.

use rappel::{Answer, Asked, Wanted};

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
    let allowed = allow(context)?;
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
        for one in &allowed {
            fields.add("Allowed", clean(one));
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

/// Allows what was just written for a person on a terminal; a sentence for each thing.
fn allow(context: &Context) -> Result<Vec<String>> {
    if !context.can_ask_a_person() {
        return Ok(Vec::new());
    }
    let rappel = context.open_silently()?;
    let trust = rappel.trust();
    if trust.entries.is_empty() {
        return Ok(Vec::new());
    }
    rappel.decide(&trust, Answer::Allowed)?;
    let told = |one: &Asked| match &one.entry.what {
        Wanted::Sqlite { path } => format!("{path}, outside the workspace"),
        Wanted::Password { .. } => format!("PGPASSWORD for the server of {}", one.entry.name),
        _ => format!("the programs of {}", one.entry.name),
    };
    Ok(trust.entries.iter().map(told).collect())
}
