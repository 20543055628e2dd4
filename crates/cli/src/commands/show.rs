//! `rappel show`.

use rappel::answers::{AtAnswer, ShowAnswer, ShownEntry};
use rappel_types::{Facet, FacetState, Manifest, Reference};

use crate::errors::{Exit, Result};
use crate::face;
use crate::face::saved::Agents;
use crate::process::Context;
use crate::values;

/// Show what a checkpoint holds
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  rappel show
  rappel show latest^
  rappel show 42
  rappel show \"@{2 hours ago}\" --files
  rappel show latest --state
  rappel show latest --json | jq .files.count")]
pub struct Args {
    /// Which checkpoint: an id, its beginning, a number, `latest`, `latest~2`, `@{WHEN}`
    #[arg(value_name = "REF", default_value = "latest", value_parser = values::reference)]
    pub reference: Reference,
    /// List its files
    #[arg(long)]
    pub files: bool,
    /// Show what its sessions knew
    #[arg(long)]
    pub state: bool,
}

/// How many items of each long list programs get.
const ITEMS: u64 = 1_000;

pub fn run(args: &Args, context: &Context) -> Result {
    let rappel = context.open()?;
    let checkpoint = rappel.show(&args.reference)?;
    let entries = match args.files {
        true => Some(rappel.files_of(&args.reference)?),
        false => None,
    };
    let output = context.output;
    let most = if output.json { ITEMS } else { face::agents::SHOWN };
    let states = match args.state {
        true => Some(rappel.states_in(&checkpoint.manifest, most)?),
        false => None,
    };
    if output.json {
        let entries = entries.map(|entries| entries.iter().map(ShownEntry::from).collect());
        let state = states.map(|states| states.iter().map(AtAnswer::from).collect());
        output.answer_json(&ShowAnswer { checkpoint: &checkpoint, entries, state })?;
        return Ok(Exit::Done);
    }
    let transcripts = rappel.transcripts_in(&checkpoint.manifest).unwrap_or_default();
    output.page(|out| {
        for entry in entries.iter().flatten() {
            writeln!(out, "{}", face::checkpoint::entry(entry))?;
        }
        if let Some(states) = &states {
            let text = face::agents::states(states, context.now(), output.paint());
            out.write_all(text.as_bytes())?;
        }
        if args.files || args.state {
            return Ok(());
        }
        let agents = Agents { transcripts, ..Agents::default() };
        let (now, zone) = (context.now(), context.zone());
        let text = face::checkpoint::full(&checkpoint, &agents, now, &zone, output.paint());
        out.write_all(text.as_bytes())?;
        if !output.quiet {
            let paint = output.paint();
            writeln!(out)?;
            for (what, command) in next(&checkpoint.manifest) {
                let line = format!("{what:18}{}", context.suggest(&command));
                writeln!(out, "{}", paint.faint(&line))?;
            }
        }
        Ok(())
    })?;
    Ok(Exit::Done)
}

/// What can be done with a checkpoint, as it holds something for it.
fn next(manifest: &Manifest) -> Vec<(&'static str, String)> {
    let id = &manifest.id;
    let sessions = manifest.agents.as_ref().is_some_and(|part| !part.sessions.is_empty());
    let captured = |facet: &Facet| manifest.state_of(*facet) == FacetState::Captured;
    let of_state = Facet::ALL.into_iter().filter(captured).eq([Facet::Agents]);
    let only = if of_state { " --only agents" } else { "" };
    // What agents elsewhere knew can be looked at, but no session here goes back to it.
    let restorable = [Facet::Files, Facet::Git, Facet::Databases];
    let comes_back = !manifest.is_foreign() || restorable.iter().any(captured);
    let mut next = Vec::new();
    if manifest.files.is_some() {
        next.push(("Its files:", format!("show {id} --files")));
    }
    if comes_back {
        next.push(("Compare with now:", format!("diff {id}{only}")));
        next.push(("Go back with:", format!("restore {id}{only}")));
    }
    if sessions {
        next.push(("What it knew:", format!("show {id} --state")));
        if !comes_back {
            next.push(("As a query:", format!("at --checkpoint {id}")));
            next.push(("Compare with now:", format!("diff {id} --only agents")));
        }
    }
    next
}
