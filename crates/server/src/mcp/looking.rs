//! Tools that look and change nothing.

#![allow(clippy::needless_pass_by_value, reason = "every tool takes its input by value")]

use rappel::answers::{AtAnswer, ShowAnswer, ShownEntry};
use rappel::types::agents::{SessionId, ShownState};
use rappel::types::{Facet, Reference, Timestamp, When, time};
use rappel::{Checkpoint, DiffOptions, ListFilter, Rappel, TemporalQuery};

use super::answer::{Refused, Replied, Reply};
use super::caller::{Call, below_root};
use super::input;

/// A page has so many checkpoints.
const PAGE: u64 = 20;
/// And at most so many.
const PAGE_MAX: u64 = 100;
/// So many items of each long list of a session's state are told.
const ITEMS: u64 = 50;

pub fn reference(text: &str) -> Result<Reference, Refused> {
    text.parse().map_err(|error| Refused::usage(format!("{error}")))
}

fn session(
    given: Option<&str>,
    call: &Call,
    rappel: &Rappel,
) -> Result<Option<SessionId>, Refused> {
    match given {
        Some(text) => text.parse().map(Some).map_err(|error| Refused::usage(format!("{error}"))),
        None => Ok(call.session(rappel)?),
    }
}

fn limit(given: Option<u64>) -> Result<usize, Refused> {
    match given.unwrap_or(PAGE) {
        number @ 1..=PAGE_MAX => Ok(number as usize),
        number => Err(Refused::usage(format!("limit is from 1 to {PAGE_MAX}, not {number}"))),
    }
}

/// The beginning, or the end, of what a text means as a time.
fn moment(text: &str, call: &Call, end: bool) -> Result<Timestamp, Refused> {
    let bad = |error| Refused::usage(format!("{error}"));
    let when = When::parse(text).map_err(bad)?;
    let (now, zone) = call.clock();
    let moment = if end { when.resolve_end(now, &zone) } else { when.resolve(now, &zone) };
    moment.map_err(bad)
}

/// A checkpoint in a line: `chk_…  #12  "Before Stripe"  5 minutes ago  [tags]`.
pub fn line(checkpoint: &Checkpoint, now: Timestamp) -> String {
    let manifest = &checkpoint.manifest;
    let age = time::age(now, manifest.created_at);
    let mut line =
        format!("{}  #{}  {:?}  {age}", manifest.id, manifest.sequence, checkpoint.title());
    if !manifest.tags.is_empty() {
        line.push_str(&format!("  [{}]", manifest.tags.join(", ")));
    }
    if manifest.partial {
        line.push_str("  (partial)");
    }
    line
}

pub fn list(input: input::List, call: &Call) -> Replied {
    let rappel = call.open()?;
    let listing = rappel.list(&ListFilter {
        limit: Some(limit(input.limit)?),
        tag: input.tag,
        session: input.session,
        path: input.path.map(|path| below_root(&path, &rappel)).transpose()?,
        since: input.since.map(|text| moment(&text, call, false)).transpose()?,
        until: input.until.map(|text| moment(&text, call, true)).transpose()?,
        all: input.all,
        ..ListFilter::default()
    })?;
    let (now, _) = call.clock();
    let mut text = match listing.total {
        0 => "No checkpoints match.".to_owned(),
        total => format!("{} of {total} checkpoints, newest first:", listing.checkpoints.len()),
    };
    for checkpoint in &listing.checkpoints {
        text.push_str(&format!("\n{}", line(checkpoint, now)));
    }
    Ok(Reply::new(&listing, text, "rappel list --json"))
}

pub fn show(input: input::Show, call: &Call) -> Replied {
    let rappel = call.open()?;
    let reference = reference(&input.checkpoint)?;
    let checkpoint = rappel.show(&reference)?;
    let entries = match input.files {
        true => Some(rappel.files_of(&reference)?.iter().map(ShownEntry::from).collect::<Vec<_>>()),
        false => None,
    };
    let states = match input.state {
        true => Some(rappel.states_in(&checkpoint.manifest, ITEMS)?),
        false => None,
    };
    let (now, _) = call.clock();
    let manifest = &checkpoint.manifest;
    let mut text = line(&checkpoint, now);
    if let Some(files) = &manifest.files {
        text.push_str(&format!(
            "\nFiles: {} ({} new, {} changed, {} deleted since its parent)",
            files.count, files.added, files.modified, files.deleted
        ));
    }
    for (facet, state) in &manifest.facets {
        text.push_str(&format!("\n{}: {}", facet.as_str(), word(state)));
    }
    for reason in &manifest.partial_reasons {
        text.push_str(&format!("\nNot captured: {}", word(reason)));
    }
    let all = entries.iter().flatten();
    for entry in all {
        let (ShownEntry::Directory { path, .. }
        | ShownEntry::File { path, .. }
        | ShownEntry::Symlink { path, .. }) = entry;
        text.push_str(&format!("\n{path}"));
    }
    let states: Option<Vec<AtAnswer>> =
        states.map(|states| states.iter().map(AtAnswer::from).collect());
    for found in states.iter().flatten() {
        text.push_str(&format!("\n\nSession {}\n{}", found.session, knowledge(&found.state)));
    }
    let rest = format!("rappel show {} --files --state --json", manifest.id);
    Ok(Reply::new(&ShowAnswer { checkpoint: &checkpoint, entries, state: states }, text, rest))
}

/// A value in JSON, without the marks of a text.
fn word(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value).unwrap_or_default() {
        serde_json::Value::String(text) => text,
        other => other.to_string(),
    }
}

pub fn diff(input: input::Diff, call: &Call) -> Replied {
    let rappel = call.open()?;
    let from = reference(&input.from)?;
    let to = input.to.as_deref().map(reference).transpose()?;
    let paths =
        input.paths.iter().map(|path| below_root(path, &rappel)).collect::<Result<_, _>>()?;
    let options = DiffOptions { paths, ..DiffOptions::default() };
    let diff = rappel.diff(&from, to.as_ref(), &options)?;
    let mut text = format!("{} to {}: {}", diff.from, diff.to, diff.summary);
    for warning in &diff.warnings {
        text.push_str(&format!("\nWarning: {warning}"));
    }
    let files = &diff.files;
    for (what, paths) in
        [("new", &files.added), ("changed", &files.modified), ("deleted", &files.deleted)]
    {
        for path in paths {
            text.push_str(&format!("\n{what}: {path}"));
        }
    }
    if !input.names_only {
        let mut lines = String::new();
        rappel.diff_text(&diff, &mut |file| {
            // What does not fit is not told anyway.
            if lines.len() < super::answer::TEXT_MAX * 4
                && let Some(unified) = &file.text
            {
                lines.push('\n');
                lines.push_str(unified);
            }
        })?;
        text.push_str(&lines);
    }
    let to = input.to.map(|to| format!(" {to}")).unwrap_or_default();
    Ok(Reply::new(&diff, text, format!("rappel diff {}{to}", diff.from)))
}

pub fn at(input: input::At, call: &Call) -> Replied {
    let rappel = call.open()?;
    let when = input.when.as_deref();
    let named = input.session.as_deref().map(|text| session(Some(text), call, &rappel));
    let found = rappel.query_at_most(
        &TemporalQuery {
            timestamp: when.map(|text| moment(text, call, true)).transpose()?,
            now: when.is_some_and(|text| text.trim() == "now"),
            event: input.event,
            checkpoint: input.checkpoint.as_deref().map(reference).transpose()?,
            tag_filter: input.tag,
            session: named.transpose()?.flatten(),
            preferred: call.session(&rappel)?,
            ..TemporalQuery::default()
        },
        ITEMS,
    )?;
    let answer = AtAnswer::from(&found);
    let mut text = format!("Session {}", answer.session);
    if let Some(at) = answer.at {
        text.push_str(&format!(" at {at}, after event {}", answer.event));
    }
    if !answer.begun {
        text.push_str(": it had not begun");
    }
    text.push_str(&format!("\n{}", knowledge(&answer.state)));
    let rest = format!("rappel at --session {} --event {} --full", answer.session, answer.event);
    Ok(Reply::new(&answer, text, rest))
}

/// What a session knew, in lines.
fn knowledge(state: &ShownState) -> String {
    let mut lines = Vec::new();
    if let Some(task) = &state.task {
        lines.push(format!("Task: {task}"));
    }
    for one in state.hypotheses.iter() {
        lines.push(format!(
            "Hypothesis {} ({}, {}): {}",
            one.id, one.status, one.confidence, one.text
        ));
    }
    for one in state.beliefs.iter() {
        lines.push(format!("Belief {}: {}", one.id, word(&one.text)));
    }
    for one in state.gaps.iter() {
        lines.push(format!("Gap {}: {}", one.id, word(&one.text)));
    }
    for one in state.notes.iter() {
        lines.push(format!("Note: {}", one.text));
    }
    lines.push(format!("Approach: {}", state.current_branch));
    lines.join("\n")
}

pub fn recall(input: input::Recall, call: &Call) -> Replied {
    let rappel = call.open()?;
    let named = session(input.session.as_deref(), call, &rappel)?;
    let id = rappel.session_asked_about(named.as_ref())?.id;
    let brief = rappel.recall(&id)?;
    // The tail that names the command must fit too.
    let text = brief.to_text(super::answer::TEXT_MAX - 200);
    Ok(Reply::new(&brief, text, format!("rappel recall --session {id} --max 100000")))
}

pub fn find(input: input::Find, call: &Call) -> Replied {
    let given = [&input.tool, &input.text, &input.path, &input.tag, &input.session];
    if given.into_iter().all(Option::is_none) {
        return Err(Refused::usage("name something: tool, text, path, tag or session"));
    }
    if input.text.as_ref().is_some_and(|text| text.trim().is_empty()) {
        return Err(Refused::usage("an empty text is everywhere"));
    }
    let rappel = call.open()?;
    let found = rappel.find(&ListFilter {
        limit: Some(limit(input.limit)?),
        tool: input.tool,
        text: input.text,
        path: input.path.map(|path| below_root(&path, &rappel)).transpose()?,
        tag: input.tag,
        session: input.session,
        all: true,
        ..ListFilter::default()
    })?;
    let (now, _) = call.clock();
    let mut text = match (found.total, found.events_total) {
        (0, 0) => "Nothing matches.".to_owned(),
        (checkpoints, events) => format!("{checkpoints} checkpoints, {events} events:"),
    };
    for checkpoint in &found.checkpoints {
        text.push_str(&format!("\n{}", line(checkpoint, now)));
    }
    for event in &found.events {
        let place = event.checkpoint.as_deref().unwrap_or("no checkpoint yet");
        text.push_str(&format!("\n{} ({place}): {}", event.kind, event.excerpt));
    }
    Ok(Reply::new(&found, text, "rappel find --json"))
}

pub fn report(input: input::Report, call: &Call) -> Replied {
    let rappel = call.open()?;
    let named = input.session.as_deref().map(|text| session(Some(text), call, &rappel));
    let report = rappel.report(named.transpose()?.flatten().as_ref())?;
    let totals = &report.totals;
    let mut text = format!(
        "Session {} ({}): {} prompts, {} tool calls ({} failed), {} checkpoints, verifications {} \
         passed and {} failed",
        report.session.id,
        report.outcome,
        totals.prompts,
        totals.tool_calls,
        totals.failed,
        totals.checkpoints,
        totals.verifications_passed,
        totals.verifications_failed
    );
    for check in &report.failing {
        text.push_str(&format!("\nFailing since {}: {:?}", check.since, check.latest.text));
        let known = [("passed at", &check.good), ("before it failed:", &check.before)];
        for (what, id) in known.into_iter().filter_map(|(what, id)| Some((what, id.as_ref()?))) {
            text.push_str(&format!(", {what} {id}"));
        }
    }
    for (number, prompt) in report.prompts.iter().enumerate() {
        let said = prompt.turn.prompt.as_deref().unwrap_or("(before the first prompt)");
        let short: String = said.chars().take(200).collect();
        text.push_str(&format!("\n{}. {}", number + 1, short.replace('\n', " ")));
        if let Some(before) = &prompt.before {
            text.push_str(&format!(" (before it: {before})"));
        }
        if let Some(changed) = &prompt.changed {
            text.push_str(&format!("\n   {}", word(changed)));
        }
    }
    let rest = format!("rappel report {}", report.session.id);
    Ok(Reply::new(&report, text, rest))
}

/// The facets of a checkpoint that a restore can bring back.
pub const RESTORABLE: [Facet; 4] = [Facet::Files, Facet::Git, Facet::Databases, Facet::Agents];
