//! `rappel checkpoint …` in a folder where Loki Mode works: the tool's own words, and its own folder of
//! checkpoints beside ours.

use rappel::answers::{LokiAnswer, LokiSaveAnswer, SaveAnswer};
use rappel::{ErrorKind, ListFilter, Rappel};
use rappel_types::Reference;

use super::{list, restore, save};
use crate::errors::{Exit, Failure, Result};
use crate::face::loki::{self, Row};
use crate::process::Context;

/// Whether the tool works in this workspace.
pub fn is_here(context: &Context) -> bool {
    context.open_silently().is_ok_and(|rappel| rappel.loki_place().is_some())
}

/// Makes a checkpoint, and writes it into the tool's folder too.
pub fn create(args: &save::Args, context: &Context) -> Result {
    let rappel = context.open_silently()?;
    let saved = save::make(args, &rappel, context)?;
    let checkpoint = &saved.checkpoint;
    let id = &checkpoint.manifest.id;
    let written = rappel.write_loki(id).map_err(|error| Failure {
        kind: ErrorKind::Failed,
        message: format!("{id} is saved; it could not be written for Loki Mode: {error}"),
        hint: Some(context.suggest(&format!("show {id}"))),
    })?;
    let output = context.output;
    if output.json {
        let loki = LokiAnswer::from(&written);
        output.answer_json(&LokiSaveAnswer { saved: SaveAnswer::from(&saved), loki })?;
    } else if output.quiet {
        output.answer(|out| Ok(writeln!(out, "{}", written.id)?))?;
    } else {
        let back = context.suggest(&format!("checkpoint rollback {}", written.id));
        let text = loki::created(checkpoint, &written, rappel.root(), &back, output.paint());
        output.answer(|out| Ok(out.write_all(text.as_bytes())?))?;
    }
    save::end(args, &saved, &rappel, context)
}

/// Lists the tool's checkpoints and ours together, the newest last.
pub fn list(args: &list::Args, context: &Context) -> Result {
    let rappel = context.open()?;
    let (theirs, skipped) = rappel.list_loki()?;
    let ours = rappel.list(&ListFilter::default())?;
    let is_same = |theirs: &loki::Listed, ours: &rappel::Checkpoint| {
        let seconds = |at: rappel_types::Timestamp| at.as_millis().div_euclid(1000);
        let came_from_there = ours.manifest.origin.as_ref().is_some_and(|origin| {
            (origin.format.as_str(), &origin.id) == (rappel::Form::Loki.as_str(), &theirs.id)
                && seconds(theirs.created_at) == seconds(ours.manifest.created_at)
        });
        came_from_there || theirs.rappel_id.as_deref() == Some(ours.manifest.id.as_str())
    };
    let mut rows: Vec<Row> = theirs.iter().map(Row::theirs).collect();
    for one in &ours.checkpoints {
        match theirs.iter().position(|other| is_same(other, one)) {
            // The tool's times are whole seconds; the order is told by ours.
            Some(place) => rows[place].created_at = one.manifest.created_at,
            None => rows.push(Row::ours(one)),
        }
    }
    rows.sort_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
    let total = rows.len();
    let shown = rows.split_off(total.saturating_sub(args.limit.most()));
    let output = context.output;
    if output.quiet {
        output.answer(|out| {
            shown
                .iter()
                .try_for_each(|row| Ok::<_, crate::errors::Failure>(writeln!(out, "{}", row.id)?))
        })?;
        return Ok(Exit::Done);
    }
    let first = context.suggest("checkpoint create \"before refactor\"");
    let text = loki::list(&shown, total, &first, output.paint());
    output.page(|out| Ok(out.write_all(text.as_bytes())?))?;
    for one in &skipped {
        output.warning(&format!("{}: {}", one.path, one.reason));
    }
    Ok(Exit::Done)
}

/// Shows what the tool's folder says of a checkpoint; false if it has none of this name.
pub fn show(reference: &Reference, context: &Context) -> Result<bool> {
    let rappel = context.open()?;
    let Some(found) = named(&rappel, reference)? else { return Ok(false) };
    let output = context.output;
    if output.json {
        output.answer_json(&found.document)?;
        return Ok(true);
    }
    let location = rappel.loki_place().unwrap_or_default().join(&found.id);
    let back = context.suggest(&format!("checkpoint rollback {}", found.id));
    let text = loki::shown(&found, &location, rappel.root(), &back, output.paint());
    output.page(|out| Ok(out.write_all(text.as_bytes())?))?;
    Ok(true)
}

/// What the tool's folder says of a checkpoint.
fn named(rappel: &Rappel, reference: &Reference) -> Result<Option<loki::Listed>> {
    if rappel.loki_place().is_none() {
        return Ok(None);
    }
    let name = reference.to_string();
    Ok(rappel.list_loki()?.0.into_iter().find(|one| one.id == name))
}

/// The checkpoint of ours that a name of the tool's means.
pub fn resolved(rappel: &Rappel, reference: &Reference, context: &Context) -> Result<Reference> {
    let Some(found) = named(rappel, reference)? else { return Ok(reference.clone()) };
    match found.rappel_id.and_then(|id| id.parse().ok()) {
        Some(id) => Ok(restore::exactly(&id)),
        // It may have been imported under its own name.
        None if rappel.resolve(reference, false).is_ok() => Ok(reference.clone()),
        None => Err(Failure {
            kind: ErrorKind::NotFound,
            message: format!("{} was made by Loki Mode, and Rappel does not hold it", found.id),
            hint: Some(context.suggest("import .loki")),
        }),
    }
}
