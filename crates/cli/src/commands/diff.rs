//! `rappel diff`.

use std::collections::HashSet;
use std::ffi::OsString;

use rappel::{Diff, DiffOptions, FILES_NOT_COMPARED, FileText, FilesDiff};
use rappel_types::agents::SessionId;
use rappel_types::{Facet, Reference, RelPath};

use crate::errors::{Exit, Result};
use crate::process::Context;
use crate::{face, values};

/// Show what changed since a checkpoint, or between two
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  rappel diff latest
  rappel diff latest~3 latest --stat
  rappel diff \"@{yesterday 18:00}\" --path src
  rappel diff 41 42 --json | jq .files
  rappel diff 41 --only agents")]
pub struct Args {
    /// The checkpoint to compare from
    #[arg(value_name = "REF", value_parser = values::reference)]
    pub from: Reference,
    /// The checkpoint to compare with [default: the workspace as it is now]
    #[arg(value_name = "REF", value_parser = values::reference)]
    pub to: Option<Reference>,
    /// Name the files, without their lines
    #[arg(long)]
    pub stat: bool,
    /// Only this file or folder; repeatable
    #[arg(long = "path", value_name = "PATH")]
    pub paths: Vec<OsString>,
    /// Only these facets: files, git, databases, agents, knowledge
    #[arg(long, value_name = "FACETS", value_delimiter = ',', value_parser = values::facet)]
    pub only: Vec<Facet>,
    /// Of the agents, only this session
    #[arg(long, value_name = "ID", value_parser = values::session)]
    pub session: Option<SessionId>,
}

/// Longer names stand out of line.
const STAT_WIDTH: usize = 60;

pub fn run(args: &Args, context: &Context) -> Result {
    let rappel = context.open()?;
    let paths = context.paths(rappel.root(), &args.paths)?;
    let options = DiffOptions { paths, only: args.only.clone(), session: args.session.clone() };
    let mut diff = rappel.diff(&args.from, args.to.as_ref(), &options)?;
    let output = context.output;
    if output.json {
        output.answer_json(&diff)?;
        return Ok(Exit::Done);
    }
    // Folders whose content tells the story are not told themselves.
    let FilesDiff { added, modified, deleted } = &diff.files;
    let told: HashSet<RelPath> = added.iter().chain(modified).chain(deleted).cloned().collect();
    diff.changes.retain(|change| told.contains(&change.path));
    for warning in &diff.warnings {
        output.warning(warning);
    }
    output.answer(|out| {
        let paint = output.paint();
        if !output.quiet {
            let to = if diff.against_workspace { "now" } else { &diff.to };
            let head = format!("{} to {}", paint.id(&diff.from), paint.id(to));
            writeln!(out, "{head}: {}", in_numbers(&diff, &args.only))?;
            for line in face::diff::others(&diff) {
                writeln!(out, "  {line}")?;
            }
            if let Some(agents) = &diff.agents {
                let text = face::diff_agents::sessions(agents, args.stat, paint);
                out.write_all(text.as_bytes())?;
            }
        }
        if args.stat {
            let mut files: Vec<FileText> = Vec::new();
            rappel.diff_text(&diff, &mut |file| files.push(FileText { text: None, ..file }))?;
            let lengths = files.iter().map(|file| file.path.to_string().chars().count());
            // One long name does not push the numbers of all others out of sight.
            let width = lengths.filter(|length| *length <= STAT_WIDTH).max().unwrap_or(0);
            for file in &files {
                writeln!(out, "{}", face::diff::stat(file, width, paint))?;
            }
            return Ok(());
        }
        let mut written = Ok(());
        rappel.diff_text(&diff, &mut |file| {
            if written.is_ok() {
                written = face::diff::unified(out, &file, output);
            }
        })?;
        Ok(written?)
    })?;
    Ok(Exit::Done)
}

/// In the words of `save`.
fn in_numbers(diff: &Diff, only: &[Facet]) -> String {
    let only_knowledge = only.contains(&Facet::Knowledge) && !only.contains(&Facet::Files);
    let files = &diff.files;
    let counts = [
        (files.added.len() as u64, "new"),
        (files.modified.len() as u64, "changed"),
        (files.deleted.len() as u64, "deleted"),
    ];
    let knowledge = match diff.knowledge as u64 {
        0 => String::new(),
        some if some == counts.iter().map(|(number, _)| number).sum::<u64>() => {
            " in knowledge".into()
        }
        some => format!(", {} of them knowledge", face::thousands(some)),
    };
    let nothing = match (diff.files_compared, &diff.agents) {
        (true, _) if only_knowledge => "no difference in knowledge",
        (true, _) => "no difference in files",
        (false, Some(agents)) if agents.all.is_empty() => "no difference in agents",
        (false, Some(_)) if diff.time_delta_ms < 0 => "what agents did not know yet",
        (false, Some(agents)) if agents.all.has_lost() => "what agents learnt and lost",
        (false, Some(_)) => "what agents learnt",
        (false, None) => FILES_NOT_COMPARED,
    };
    face::tally(&counts, nothing) + &knowledge
}
