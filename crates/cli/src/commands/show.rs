//! `rappel show`.

use rappel::Checkpoint;
use rappel_types::{Entry, Facet, FacetState, Manifest, Reference};
use serde::Serialize;
use serde_json::{Value, json};

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

/// The checkpoint, and its paths and what its sessions knew if they were asked for.
#[derive(Serialize)]
struct Answer<'a> {
    #[serde(flatten)]
    checkpoint: &'a Checkpoint,
    #[serde(skip_serializing_if = "Option::is_none")]
    entries: Option<Vec<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<Vec<Value>>,
}

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
        let entries = entries.map(|entries| entries.iter().map(entry_json).collect());
        let state = states.map(|states| states.iter().map(rappel::at_json).collect());
        output.answer_json(&Answer { checkpoint: &checkpoint, entries, state })?;
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
    let mut next = Vec::new();
    if manifest.files.is_some() {
        next.push(("Its files:", format!("show {id} --files")));
    }
    next.push(("Compare with now:", format!("diff {id}{only}")));
    next.push(("Go back with:", format!("restore {id}{only}")));
    if sessions {
        next.push(("What it knew:", format!("show {id} --state")));
    }
    next
}

/// An entry without the names that objects have in the store, which nobody outside can use.
pub fn entry_json(entry: &Entry) -> Value {
    use rappel_types::{Node, path::escape_bytes};
    let path = &entry.path;
    match &entry.node {
        Node::Directory { mode } => {
            json!({"path": path, "kind": "directory", "mode": format!("{mode:04o}")})
        }
        Node::File { mode, size, .. } => {
            json!({"path": path, "kind": "file", "mode": format!("{mode:04o}"), "size": size})
        }
        Node::Symlink { target } => {
            json!({"path": path, "kind": "symlink", "target": escape_bytes(target)})
        }
    }
}
