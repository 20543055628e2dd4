//! `rappel delete`.

use rappel::answers::DeleteAnswer;
use rappel::{Checkpoint, ErrorKind, GcReport, Rappel};
use rappel_types::size::format_size;
use rappel_types::{CheckpointId, Reference, time};

use super::restore::exactly;
use crate::errors::{Exit, Failure, Result};
use crate::process::Context;
use crate::{confirm, face, progress, values};

/// Delete checkpoints
///
/// Only what no other checkpoint needs is freed, after a day in which `rappel undelete` brings
/// them back.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  rappel delete 3 4 5
  rappel delete chk_20261115_143022 --confirm
  rappel delete 3 --now --confirm")]
pub struct Args {
    /// Which checkpoints
    #[arg(required = true, value_name = "REF", value_parser = values::reference)]
    pub references: Vec<Reference>,
    /// Delete without asking
    #[arg(short = 'y', long, visible_alias = "yes")]
    pub confirm: bool,
    /// Free the space at once; they cannot be brought back
    #[arg(long)]
    pub now: bool,
}

pub fn run(args: &Args, context: &Context) -> Result {
    let rappel = context.open()?;
    let output = context.output;
    let mut doomed: Vec<Checkpoint> = Vec::new();
    let mut lost: Vec<CheckpointId> = Vec::new();
    // Nothing is known of these but where they are.
    let mut unreadable: Vec<Reference> = Vec::new();
    for reference in &args.references {
        let checkpoint = match rappel.show(reference) {
            Err(rappel::Error::Lost { checkpoint }) => {
                lost.push(checkpoint);
                continue;
            }
            Err(error) if error.kind() == ErrorKind::Damage => {
                unreadable.push(reference.clone());
                continue;
            }
            other => other?,
        };
        if !doomed.iter().any(|known| known.manifest.id == checkpoint.manifest.id) {
            doomed.push(checkpoint);
        }
    }
    if let Some(pinned) = doomed.iter().find(|one| one.pinned) {
        let checkpoint = pinned.manifest.id.clone();
        return Err(rappel::Error::Pinned { checkpoint }.into());
    }
    // There is nothing to lose any more in those that are lost.
    let any = !doomed.is_empty() || !unreadable.is_empty();
    if !args.confirm && any && !ask(&doomed, &unreadable, args, context)? {
        return Ok(confirm::DECLINED);
    }
    // The ids that were shown, whatever the references mean by now.
    let ids = doomed.iter().map(|one| &one.manifest.id).chain(&lost);
    let references: Vec<_> = ids.map(exactly).chain(unreadable).collect();
    let deleted = rappel.delete(&references, args.now)?;
    let (freed, failure) = match args.now.then(|| free_now(&rappel, context)) {
        Some(Ok(freed)) => (freed, None),
        Some(Err(error)) => (None, Some(error)),
        None => (None, None),
    };
    // They are deleted, whatever became of their space.
    let done = failure.map_or(Ok(Exit::Done), Err);
    if output.json {
        output.answer_json(&DeleteAnswer {
            deleted: &deleted,
            now: args.now,
            gc: freed.as_ref(),
        })?;
        return done;
    }
    if output.quiet {
        return done;
    }
    output.answer(|out| {
        for id in &deleted {
            writeln!(out, "Deleted {}", output.paint().id(id.as_str()))?;
        }
        if let Some(freed) = &freed {
            writeln!(out, "Freed {}", format_size(freed.freed_bytes))?;
        }
        if doomed.is_empty() {
            return Ok(());
        }
        if let (false, [id]) = (args.now, &deleted[..]) {
            let back = context.suggest(&format!("undelete {id}"));
            writeln!(out, "For a day, bring it back with: {back}")?;
        } else if !args.now {
            let back = context.suggest("undelete ID");
            writeln!(out, "For a day, bring one back with: {back}")?;
        }
        Ok(())
    })?;
    done
}

/// What gc freed; nothing if another one is at it, which will find what was deleted too.
pub(super) fn free_now(rappel: &Rappel, context: &Context) -> Result<Option<GcReport>> {
    match progress::watch(context, "Freeing space", || rappel.free_deleted_for_good()) {
        Ok(None) => {
            context.output.note("the space comes back with the next `rappel gc`: one is running");
            Ok(None)
        }
        Ok(freed) => Ok(freed),
        Err(error) => Err(Failure {
            kind: error.kind(),
            message: format!("deleted, but the space could not be freed: {error}"),
            hint: Some(context.suggest("gc --now")),
        }),
    }
}

fn ask(
    doomed: &[Checkpoint],
    unreadable: &[Reference],
    args: &Args,
    context: &Context,
) -> Result<bool> {
    let output = context.output;
    let paint = output.paint_stderr();
    let mut words = "delete".to_owned();
    for checkpoint in doomed {
        let manifest = &checkpoint.manifest;
        words.push_str(&format!(" {}", manifest.id));
        let title = face::title(checkpoint).map(|title| format!("  {title}")).unwrap_or_default();
        let age = time::age(context.now(), manifest.created_at);
        if !output.json {
            output.tell(&format!("  {}{title}  ({age})", paint.id(manifest.id.as_str())));
        }
    }
    for reference in unreadable {
        words.push_str(&format!(" {reference}"));
        if !output.json {
            output.tell(&format!("  {reference}  (it cannot be read)"));
        }
    }
    words.push_str(if args.now { " --now --confirm" } else { " --confirm" });
    let question = match (doomed.len() + unreadable.len(), args.now) {
        (1, false) => "Delete it?",
        (_, false) => "Delete them?",
        (1, true) => "Delete it at once and for good?",
        (_, true) => "Delete them at once and for good?",
    };
    confirm::require(context, question, &context.suggest(&words))
}
