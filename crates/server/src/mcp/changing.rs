//! Tools that change something: the history, the workspace, or a session's journal.

#![allow(clippy::needless_pass_by_value, reason = "every tool takes its input by value")]

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use rappel::answers::{ExportAnswer, RecordAnswer, SaveAnswer};
use rappel::types::agents::NewEvent;
use rappel::types::{ActionKind, Facet, FacetState, RelPath};
use rappel::{
    Checkpoint, ExportOptions, ExportRange, Form, Rappel, RestoreOptions, RestoreReport,
    SaveOptions, Step,
};
use schemars::JsonSchema;
use serde::Serialize;

use super::answer::{Refused, Replied, Reply};
use super::caller::{Call, below_root};
use super::input::{self, FacetName};
use super::looking::{RESTORABLE, line, reference};
use crate::extract::exactly;

pub fn save(input: input::Save, call: &Call) -> Replied {
    rappel::check_tags(&input.tags)?;
    let rappel = call.open()?;
    let session = call.session(&rappel)?;
    let saved = rappel.save(&SaveOptions {
        message: input.message,
        tags: input.tags,
        session: session.map(|session| session.to_string()),
        ..SaveOptions::default()
    })?;
    let (now, _) = call.clock();
    let checkpoint = &saved.checkpoint;
    let mut text = match checkpoint.created {
        true => format!("Saved: {}", line(checkpoint, now)),
        false => format!("Nothing changed since: {}", line(checkpoint, now)),
    };
    for reason in &checkpoint.manifest.partial_reasons {
        let reason = serde_json::to_string(reason).unwrap_or_default();
        text.push_str(&format!("\nWarning, not captured: {reason}"));
    }
    for note in &saved.notes {
        text.push_str(&format!("\nNote: {note}"));
    }
    let rest = format!("rappel show {}", checkpoint.manifest.id);
    Ok(Reply::new(&SaveAnswer::from(&saved), text, rest))
}

/// A plan or a report of a restore, and what the agent must know.
#[derive(Debug, JsonSchema, Serialize)]
pub struct Restored<'a> {
    /// Which step an undo takes; absent for a restore.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<&'a Step>,
    /// The plan, or what was done.
    #[serde(flatten)]
    pub report: &'a RestoreReport,
    /// Files that are not what they were when the agent read them: read them again.
    pub read_again: Vec<&'a RelPath>,
    /// What stays as it is, and why.
    #[allow(clippy::struct_field_names, reason = "it is the name of the answer's key")]
    pub not_restored: Vec<NotRestored>,
}

/// Something that a restore does not bring back.
#[derive(Debug, JsonSchema, Serialize)]
pub struct NotRestored {
    /// Which part of the state.
    pub facet: &'static str,
    /// Why it stays as it is.
    pub why: &'static str,
}

fn facets(names: &[FacetName]) -> BTreeSet<Facet> {
    names.iter().copied().map(Facet::from).collect()
}

pub fn restore(input: input::Restore, call: &Call) -> Replied {
    let rappel = call.open()?;
    let reference = reference(&input.checkpoint)?;
    let mut skip = facets(&input.skip);
    // The agent goes on, and what it has recorded since is why it goes back.
    if input.only.is_empty() {
        skip.insert(Facet::Agents);
    }
    let below = |paths: &[String]| {
        paths.iter().map(|path| below_root(path, &rappel)).collect::<Result<_, _>>()
    };
    let mut options = RestoreOptions {
        paths: below(&input.paths)?,
        except: below(&input.except)?,
        only: (!input.only.is_empty()).then(|| facets(&input.only)),
        skip,
        // The session that calls goes on, whatever becomes of its past.
        own_session: call.session(&rappel)?,
        ..RestoreOptions::default()
    };
    let Some(plan) = input.plan else {
        let planned = rappel.plan_restore(&reference, &options)?;
        return Ok(planned_reply(None, &planned, &options, &rappel, "restore"));
    };
    options.expected = Some(plan);
    let report = rappel.restore(&reference, &options)?;
    Ok(done_reply(None, &report, &options, &rappel, "`undo`"))
}

pub fn undo(input: input::Undo, call: &Call) -> Replied {
    let rappel = call.open()?;
    let step = match input.redo {
        true => rappel.next_redo()?,
        false => rappel.next_undo_over(input.overwrite)?,
    };
    let mut options = RestoreOptions {
        only: (!input.only.is_empty()).then(|| facets(&input.only)),
        skip: facets(&input.skip),
        own_session: call.session(&rappel)?,
        ..RestoreOptions::default()
    };
    if step.asks && input.plan.is_none() {
        let planned = rappel.plan_step(&step, input.overwrite, &options)?;
        return Ok(planned_reply(Some(&step), &planned, &options, &rappel, "undo"));
    }
    options.expected = input.plan;
    let report = rappel.step(&step, input.overwrite, &options)?;
    let back = if input.redo { "`undo`" } else { "`undo` with `redo` = true" };
    Ok(done_reply(Some(&step), &report, &options, &rappel, back))
}

/// What a restore with these options leaves alone.
fn not_restored(checkpoint: &Checkpoint, options: &RestoreOptions) -> Vec<NotRestored> {
    let mut left = Vec::new();
    for facet in RESTORABLE {
        let asked = options.only.as_ref().is_none_or(|only| only.contains(&facet))
            && !options.skip.contains(&facet)
            && (options.paths.is_empty() || facet == Facet::Files);
        let why = match (asked, checkpoint.manifest.state_of(facet)) {
            (false, _) if facet == Facet::Agents && options.only.is_none() => {
                "your session goes on, with everything that you recorded"
            }
            (false, _) => "it was not asked for",
            (true, FacetState::Captured | FacetState::Absent) => continue,
            (true, FacetState::NotAsked) => "the checkpoint does not hold it",
            (true, FacetState::Failed) => "it could not be captured when the checkpoint was made",
        };
        left.push(NotRestored { facet: facet.as_str(), why });
    }
    left
}

/// The answer around a report.
fn around<'a>(
    step: Option<&'a Step>,
    report: &'a RestoreReport,
    options: &RestoreOptions,
    rappel: &Rappel,
) -> Restored<'a> {
    let changes = |kind: &ActionKind| !matches!(kind, ActionKind::Skip);
    let files = report.actions.iter().filter(|one| one.facet == Facet::Files);
    let not_restored = match (step, rappel.show(&exactly(&report.checkpoint))) {
        // An undo is about what the restore touched, and no more.
        (None, Ok(checkpoint)) => not_restored(&checkpoint, options),
        _ => Vec::new(),
    };
    Restored {
        step,
        report,
        read_again: files.filter(|one| changes(&one.action)).map(|one| &one.path).collect(),
        not_restored,
    }
}

fn name(report: &RestoreReport, rappel: &Rappel) -> String {
    match rappel.show(&exactly(&report.checkpoint)) {
        Ok(checkpoint) => format!("{} {:?}", report.checkpoint, checkpoint.title()),
        Err(_) => report.checkpoint.to_string(),
    }
}

/// What a plan does, or a restore did, in lines.
fn lines(answer: &Restored<'_>) -> String {
    let report = answer.report;
    let files = &report.summary.files;
    let mut text = format!(
        "Files: {} new, {} changed, {} deleted, {} left as they are.",
        files.create, files.overwrite, files.delete, files.skip
    );
    let summary = &report.summary;
    for (what, said) in [
        ("Git", &summary.git),
        ("Work trees", &summary.worktrees),
        ("Databases", &summary.databases),
        ("Agents", &summary.agents),
    ] {
        if let Some(said) = said {
            text.push_str(&format!("\n{what}: {said}"));
        }
    }
    for one in &answer.not_restored {
        text.push_str(&format!("\nNot restored: {}, because {}.", one.facet, one.why));
    }
    for warning in &report.warnings {
        text.push_str(&format!("\nWarning: {warning}"));
    }
    for conflict in &report.conflicts {
        text.push_str(&format!("\nLeft as it is: {}: {}", conflict.path, conflict.reason));
    }
    text
}

fn planned_reply(
    step: Option<&Step>,
    report: &RestoreReport,
    options: &RestoreOptions,
    rappel: &Rappel,
    tool: &str,
) -> Reply {
    let answer = around(step, report, options, rappel);
    let mut text = format!("Plan to go back to {}.\n{}", name(report, rappel), lines(&answer));
    for action in &report.actions {
        let action_name = serde_json::to_value(action.action).unwrap_or_default();
        text.push_str(&format!("\n  {} {}", action_name.as_str().unwrap_or_default(), action.path));
    }
    text.push_str(&match report.full_plan.is_empty() {
        true => "\nThere is nothing to do.".to_owned(),
        false => format!(
            "\n\nNothing was changed yet. Show the user what goes. To do exactly this, call \
             `{tool}` again with the same arguments and plan = {:?}. The present is saved first; \
             `undo` takes it back.",
            report.plan
        ),
    });
    let rest = match step {
        None => format!("restore {}", report.checkpoint),
        Some(step) if step.is_forward() => "redo".to_owned(),
        Some(_) => "undo".to_owned(),
    };
    Reply::new(&answer, text, format!("rappel {rest} --dry-run --json"))
}

/// What was done; `back` is the call that takes it back.
fn done_reply(
    step: Option<&Step>,
    report: &RestoreReport,
    options: &RestoreOptions,
    rappel: &Rappel,
    back: &str,
) -> Reply {
    let answer = around(step, report, options, rappel);
    let changed = report.done.as_ref().is_some_and(|done| done.safety_checkpoint.is_some());
    let said = match (changed, report.conflicts.is_empty()) {
        (true, _) => "The workspace is back at",
        (false, true) => "Nothing had to be changed for",
        (false, false) => "Nothing was changed: all that there is to do was left as it is, for",
    };
    let mut text = format!("{said} {}.\n{}", name(report, rappel), lines(&answer));
    if let Some(done) = &report.done {
        for kept in &done.kept {
            text.push_str(&format!("\nKept: {} at {} ({})", kept.path, kept.at, kept.reason));
        }
        if let Some(safety) = &done.safety_checkpoint {
            text.push_str(&format!(
                "\nWhat was there before is saved as {safety}; {back} brings it back."
            ));
        }
    }
    if changed {
        text.push_str(
            "\nThis conversation was not set back: it tells of things that were undone. Your session \
             goes on. What you remember of the files may no longer be so; read these again before \
             you go on:",
        );
        for path in &answer.read_again {
            text.push_str(&format!("\n  {path}"));
        }
    }
    let rest = format!("rappel diff {} --name-only", report.checkpoint);
    Reply::new(&answer, text, rest)
}

pub fn record(input: input::Record, call: &Call) -> Replied {
    let json = serde_json::to_string(&input)
        .map_err(|error| Refused::usage(format!("the event cannot be read: {error}")))?;
    let event = NewEvent::parse(&json).map_err(|error| Refused::usage(error.to_string()))?;
    let rappel = call.open()?;
    let session = match &input.session {
        Some(text) => text.parse().map_err(|error| Refused::usage(format!("{error}")))?,
        None => call.session_or_new(&rappel)?,
    };
    let recorded = rappel.record(&session, event)?;
    let answer = RecordAnswer::new(Some(&session), &recorded);
    let mut text = match &answer.id {
        Some(id) => format!("Recorded as {id} in session {session}."),
        None => format!("Recorded as event {} of session {session}.", answer.event),
    };
    for id in answer.checkpoints {
        text.push_str(&format!("\nIt made checkpoint {id}."));
    }
    for note in answer.notes {
        text.push_str(&format!("\nNote: {note}"));
    }
    let rest = format!("rappel session show {session}");
    Ok(Reply::new(&answer, text, rest))
}

pub fn export(input: input::Export, call: &Call) -> Replied {
    let rappel = call.open()?;
    let form = match input.format.as_deref() {
        None => Form::Rappel,
        Some(name) => name.parse().map_err(|error: String| Refused::usage(error))?,
    };
    let place = match input.to {
        // A model calls: it may write into the workspace, and nowhere else.
        Some(to) => {
            let to = below_root(&to, &rappel)?;
            rappel.root().join(OsStr::from_bytes(to.as_bytes()))
        }
        None => rappel.export_place(form, rappel.root())?,
    };
    let exported = rappel.export(&ExportOptions {
        checkpoints: vec![ExportRange::One(reference(&input.checkpoint)?)],
        form,
        place: Some(place),
        redact: input.redact,
        sqlite: None,
    })?;
    let mut text = "Wrote:".to_owned();
    for path in &exported.paths {
        text.push_str(&format!("\n{}", path.display()));
    }
    for what in &exported.left_out {
        text.push_str(&format!("\nLeft out: {what}"));
    }
    let answer = ExportAnswer { exported: &exported, redacted: input.redact };
    Ok(Reply::new(&answer, text, "rappel export --help"))
}
