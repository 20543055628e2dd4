//! `rappel diff`.

use std::collections::HashSet;
use std::ffi::OsString;
use std::io::Write;

use rappel::{Diff, DiffOptions, FILES_NOT_COMPARED, FileText, Rappel};
use rappel_types::agents::SessionId;
use rappel_types::{Facet, Reference, RelPath};

use crate::errors::{Exit, Failure, Result};
use crate::output::Output;
use crate::process::Context;
use crate::values::Range;
use crate::{face, values};

/// Show what changed since a checkpoint, or between two
///
/// A file that has the same content in another place, or mostly the same lines, is shown as
/// renamed.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  rappel diff
  rappel diff latest^ latest --stat
  rappel diff 41..42 --name-only
  rappel diff \"@{yesterday 18:00}\" -- src
  rappel diff 41 42 --json | jq .files
  rappel diff 41 --only agents")]
pub struct Args {
    /// The checkpoint to compare from; A..B are both at once
    #[arg(value_name = "REF", default_value = "latest", value_parser = values::range)]
    pub from: Range,
    /// The checkpoint to compare with [default: the workspace as it is now]
    #[arg(value_name = "REF", value_parser = values::reference)]
    pub to: Option<Reference>,
    /// Name the files, without their lines
    #[arg(long)]
    pub stat: bool,
    /// Print only the paths that differ, one a line
    #[arg(long, conflicts_with = "stat")]
    pub name_only: bool,
    /// Only this file or folder; repeatable
    #[arg(long = "path", value_name = "PATH")]
    pub paths: Vec<OsString>,
    /// Only these facets: files, git, databases, agents, knowledge
    #[arg(long, value_name = "FACETS", value_delimiter = ',', value_parser = values::facet)]
    pub only: Vec<Facet>,
    /// Of the agents, only this session
    #[arg(long, value_name = "ID", value_parser = values::session)]
    pub session: Option<SessionId>,
    /// The same as --path
    #[arg(last = true, value_name = "PATH")]
    pub plain_paths: Vec<OsString>,
}

/// Longer names stand out of line.
const STAT_WIDTH: usize = 60;

pub fn run(args: &Args, context: &Context) -> Result {
    let rappel = context.open()?;
    let paths = context.paths(rappel.root(), args.paths.iter().chain(&args.plain_paths))?;
    let options = DiffOptions { paths, only: args.only.clone(), session: args.session.clone() };
    let Range { from, to, dots, .. } = &args.from.meant(&rappel);
    if *dots && args.to.is_some() {
        return Err(Failure::usage(
            "A..B has both ends already",
            "rappel diff A..B, or rappel diff A B",
        ));
    }
    let to = to.as_ref().or(args.to.as_ref());
    let mut diff = rappel
        .diff(from, to, &options)
        .map_err(|error| context.or_a_path(error.into(), "diff", [Some(from), to]))?;
    let output = context.output;
    if output.json {
        output.answer_json(&diff)?;
        return Ok(Exit::Done);
    }
    face::diff::leave_told(&mut diff);
    let renamed = &diff.files.renamed;
    for warning in &diff.warnings {
        output.warning(warning);
    }
    if args.name_only {
        // As in git, a renamed file goes by its new name.
        let gone: HashSet<&RelPath> = renamed.iter().map(|one| &one.from).collect();
        let named = diff.changes.iter().map(|change| &change.path);
        return output
            .page(|out| {
                for path in named.filter(|path| !gone.contains(path)) {
                    writeln!(out, "{path}")?;
                }
                Ok(())
            })
            .map(|()| Exit::Done);
    }
    output.page(|out| {
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
            let lengths = files.iter().map(|file| face::diff::name(file).chars().count());
            // One long name does not push the numbers of all others out of sight.
            let width = lengths.filter(|length| *length <= STAT_WIDTH).max().unwrap_or(0);
            for file in &files {
                writeln!(out, "{}", face::diff::stat(file, width, paint))?;
            }
            return Ok(());
        }
        unified(&rappel, &diff, out, output)
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
    let renamed = match files.renamed.len() as u64 {
        0 => String::new(),
        some => format!(" ({} renamed)", face::thousands(some)),
    };
    face::tally(&counts, nothing) + &renamed + &knowledge
}

/// Writes what changed in each file, line by line.
pub(super) fn unified(
    rappel: &Rappel,
    diff: &Diff,
    out: &mut dyn Write,
    output: &Output,
) -> Result<()> {
    let mut written = Ok(());
    rappel.diff_text(diff, &mut |file| {
        if written.is_ok() {
            written = face::diff::unified(out, &file, output);
        }
    })?;
    Ok(written?)
}
