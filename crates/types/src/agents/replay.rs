//! A session's past as steps that can be gone through one by one: what happened in it, and between that the changes of
//! files that checkpoints saw. Values only: a step knows which event it comes after, and whoever shows it folds or
//! reads what was known there.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::contradiction::Rule;
use super::event::{Body, Event, payload};
use crate::{CheckpointId, Timestamp};

/// The kind of a step that is no event: files changed.
pub const FILES: &str = "files";
/// The longest title.
const TITLE_MAX: usize = 120;
/// So many paths of a change are named.
const PATHS_MAX: usize = 200;

/// One step.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
#[schemars(rename = "ReplayedStep")]
pub struct Step {
    /// Its number, from 1.
    pub number: usize,
    /// When it happened.
    pub at: Timestamp,
    /// The last event that is known there; 0 before the first.
    pub event: u64,
    /// What happened: the event's kind, or [`FILES`].
    pub kind: String,
    /// The id of what it made or is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The checkpoint that saw the change, or that was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<CheckpointId>,
    /// In a line.
    pub title: String,
    /// In full, on as many lines as it takes.
    pub detail: String,
}

/// What a checkpoint saw of the files, compared with the one before it.
#[derive(Debug, Clone, PartialEq)]
pub struct FilesChanged {
    /// The checkpoint.
    pub checkpoint: CheckpointId,
    /// When it was made.
    pub at: Timestamp,
    /// The last event of the session that it holds.
    pub event: u64,
    /// Paths that are new.
    pub added: Vec<String>,
    /// Paths that are different.
    pub modified: Vec<String>,
    /// Paths that are gone.
    pub deleted: Vec<String>,
}

/// The steps of a journal, in its order, and of the files, in theirs: a change of files follows the last event that its
/// checkpoint holds. What only keeps the books (how far a transcript was read, what a request cost) is no step.
pub fn steps(events: &[Event], files: &[FilesChanged]) -> Vec<Step> {
    let mut steps = Vec::with_capacity(events.len() + files.len());
    let mut files = files.iter().peekable();
    let mut tools: HashMap<&str, &str> = HashMap::new();
    for event in events {
        while let Some(change) = files.next_if(|change| change.event < event.number) {
            steps.push(of_files(change));
        }
        if let (Body::ToolStarted(call), Some(id)) = (&event.body, &event.id) {
            tools.insert(id, &call.tool);
        }
        if !matches!(event.body, Body::Transcript(_) | Body::Tokens(_) | Body::TakenOver(_)) {
            steps.push(of_event(event, &tools));
        }
    }
    steps.extend(files.map(of_files));
    for (place, step) in steps.iter_mut().enumerate() {
        step.number = place + 1;
    }
    steps
}

fn of_files(change: &FilesChanged) -> Step {
    let FilesChanged { added, modified, deleted, .. } = change;
    let counts = [(added, "new"), (modified, "changed"), (deleted, "deleted")];
    let counts: Vec<String> = counts
        .iter()
        .filter(|(paths, _)| !paths.is_empty())
        .map(|(paths, what)| format!("{} {what}", paths.len()))
        .collect();
    let mut lines = vec![format!("Seen by {}", change.checkpoint)];
    let marked = [("+", added), ("~", modified), ("-", deleted)];
    let mut marked =
        marked.iter().flat_map(|(mark, paths)| paths.iter().map(move |path| (mark, path)));
    lines.extend(marked.by_ref().take(PATHS_MAX).map(|(mark, path)| format!("{mark} {path}")));
    let more = marked.count();
    if more > 0 {
        lines.push(format!("… and {more} more"));
    }
    Step {
        number: 0,
        at: change.at,
        event: change.event,
        kind: FILES.into(),
        id: None,
        checkpoint: Some(change.checkpoint.clone()),
        title: format!("files: {}", counts.join(", ")),
        detail: lines.join("\n"),
    }
}

fn of_event(event: &Event, tools: &HashMap<&str, &str>) -> Step {
    let (title, detail) = told(&event.body, tools);
    let checkpoint = match &event.body {
        Body::Restored(restored) => Some(restored.checkpoint.clone()),
        Body::Checkpoint(made) => Some(made.checkpoint.clone()),
        _ => None,
    };
    Step {
        number: 0,
        at: event.at,
        event: event.number,
        kind: event.body.kind().to_owned(),
        id: event.id.clone().or_else(|| event.body.about().map(str::to_owned)),
        checkpoint,
        title: one_line(&title),
        detail,
    }
}

/// What an event says, in a line and in full.
fn told(body: &Body, tools: &HashMap<&str, &str>) -> (String, String) {
    match body {
        Body::SessionStarted(start) => {
            let who = start.provider.as_deref().unwrap_or("an agent");
            (format!("session started by {who}"), start.task.clone().unwrap_or_default())
        }
        Body::SessionPaused(pause) => ("session paused".into(), said(pause.reason.as_deref())),
        Body::SessionResumed(_) => ("session resumed".into(), String::new()),
        Body::SessionEnded(end) => {
            (format!("session ended: {}", end.status), said(end.reason.as_deref()))
        }
        Body::Restored(restored) => (
            match restored.taken_back {
                true => "set back to where it was before the restore".into(),
                false => format!("set back to {}", restored.checkpoint),
            },
            format!("The journal goes on from event {} of fork {}.", restored.to, restored.of),
        ),
        Body::Prompt(prompt) => titled("prompt", &prompt.text),
        Body::Thought(thought) => {
            let (title, mut detail) =
                titled(&format!("thought ({})", thought.kind), &thought.content);
            if let Some(sure) = thought.confidence {
                detail += &format!("\n\nconfidence {sure}");
            }
            (title, detail)
        }
        Body::Tool(_) | Body::ToolStarted(_) | Body::ToolFinished(_) => of_tool(body, tools),
        Body::Hypothesis(guess) => titled(&format!("hypothesis ({})", guess.status), &guess.text),
        Body::HypothesisUpdated(update) => {
            let mut changes = Vec::new();
            changes.extend(update.status.map(|status| status.to_string()));
            changes.extend(update.confidence.map(|sure| format!("confidence {sure}")));
            changes.extend(update.text.as_ref().map(|_| "new text".to_owned()));
            let detail =
                [&update.text, &update.reason].into_iter().flatten().cloned().collect::<Vec<_>>();
            (format!("{}: {}", update.of, changes.join(", ")), detail.join("\n\n"))
        }
        Body::Evidence(evidence) => {
            let side = if evidence.supports { "for" } else { "against" };
            let head = format!("evidence {side} {} ({})", evidence.hypothesis, evidence.weight);
            titled(&head, &evidence.text)
        }
        Body::Belief(belief) => titled("belief", &belief.text),
        Body::BeliefUpdated(update) => {
            let sure = update.confidence.map(|sure| format!("confidence {sure}"));
            (
                format!("{}: {}", update.of, sure.unwrap_or_else(|| "new text".into())),
                said(update.text.as_deref()),
            )
        }
        Body::BeliefDependency(link) => {
            (format!("{} {} {}", link.of, link.kind, link.on), String::new())
        }
        Body::Gap(gap) => titled("gap", &gap.text),
        Body::GapFilled(filled) => titled(&format!("{} filled", filled.of), &filled.answer),
        Body::Verification(check) => {
            let result = if check.passed { "verification passed" } else { "verification failed" };
            let (title, detail) = titled(result, &check.text);
            (title, join(&[&detail, &said(check.output.as_deref())]))
        }
        Body::BranchCreated(branch) => (format!("approach {}", branch.name), String::new()),
        Body::BranchSwitched(branch) => {
            (format!("switched to approach {}", branch.name), String::new())
        }
        Body::BranchMerged(merge) => {
            (format!("{} merged into {}", merge.name, merge.into), String::new())
        }
        Body::Note(note) => titled("note", &note.text),
        Body::Command(command) => of_command(command),
        Body::ContextSet(set) | Body::ContextStateSet(set) => {
            (format!("{} = {}", set.key, brief_value(&set.value)), pretty(&set.value))
        }
        Body::ContextUnset(unset) | Body::ContextStateUnset(unset) => {
            (format!("{} removed", unset.key), String::new())
        }
        Body::Progress(progress) => {
            let step = progress.step_number.map(|step| format!(" {step}")).unwrap_or_default();
            titled(&format!("step{step}"), progress.text.as_deref().unwrap_or_default())
        }
        Body::Compaction(cut) => ("context compacted".into(), said(cut.text.as_deref())),
        Body::Code(code) => {
            (format!("code changed: {}", code.paths.join(", ")), code.paths.join("\n"))
        }
        Body::Contradiction(found) => {
            (format!("contradiction: {} and {}", found.first, found.second), why(found.rule).into())
        }
        Body::ContradictionCleared(found) => (
            format!("contradiction resolved: {} and {}", found.first, found.second),
            why(found.rule).into(),
        ),
        Body::Checkpoint(made) => {
            (format!("checkpoint ({}) {}", made.trigger, made.checkpoint), String::new())
        }
        Body::Tokens(_) | Body::Transcript(_) | Body::TakenOver(_) | Body::Unknown { .. } => {
            (format!("{} (not known to this version)", body.kind()), pretty(&body.to_value()))
        }
    }
}

fn of_tool(body: &Body, tools: &HashMap<&str, &str>) -> (String, String) {
    match body {
        Body::ToolStarted(call) => (
            format!("{} started: {}", call.tool, brief_value(&call.arguments)),
            pretty(&call.arguments),
        ),
        Body::Tool(call) => {
            let failed = if call.success { "" } else { " failed" };
            let head = format!("{}{failed}: {}", call.tool, brief_value(&call.arguments));
            (head, outcome(&pretty(&call.arguments), &call.result, call.error.as_deref()))
        }
        Body::ToolFinished(done) => {
            let tool = tools.get(done.of.as_str()).copied().unwrap_or(&done.of);
            let how = if done.success { "finished" } else { "failed" };
            let said = done.error.clone().unwrap_or_else(|| brief_value(&done.result));
            (format!("{tool} {how}: {said}"), outcome("", &done.result, done.error.as_deref()))
        }
        _ => Default::default(),
    }
}

fn of_command(command: &payload::Command) -> (String, String) {
    let code = command.exit_code.map(|code| format!("[{code}] ")).unwrap_or_default();
    let place = command.working_dir.as_ref().map(|place| format!("in {place}")).unwrap_or_default();
    let detail =
        join(&[&command.command, &place, &command.stdout_preview, &command.stderr_preview]);
    (format!("{code}{}", command.command), detail)
}

fn outcome(arguments: &str, result: &Value, error: Option<&str>) -> String {
    let result = if result.is_null() { String::new() } else { pretty(result) };
    join(&[arguments, &result, &said(error)])
}

fn why(rule: Rule) -> &'static str {
    match rule {
        Rule::Beliefs => "Two beliefs that contradict each other are both held.",
        Rule::Refuted => "A confirmed hypothesis has strong evidence against it.",
        Rule::Required => "A belief that is held requires one that is not held any more.",
    }
}

fn titled(what: &str, text: &str) -> (String, String) {
    let title = if text.is_empty() { what.to_owned() } else { format!("{what}: {text}") };
    (title, text.to_owned())
}

fn said(text: Option<&str>) -> String {
    text.unwrap_or_default().to_owned()
}

/// The parts that say something, with a line between them.
fn join(parts: &[&str]) -> String {
    let parts: Vec<&str> =
        parts.iter().map(|part| part.trim_end()).filter(|part| !part.is_empty()).collect();
    parts.join("\n\n")
}

/// What a value says in a line: the command, file or pattern that a tool was called with, where it has one.
fn brief_value(value: &Value) -> String {
    let telling = ["command", "file_path", "path", "pattern", "query", "url", "prompt"];
    let found = telling.iter().find_map(|key| value.get(key)).and_then(Value::as_str);
    match found.or(value.as_str()) {
        Some(text) => text.to_owned(),
        None if value.is_null() => String::new(),
        None => value.to_string(),
    }
}

fn pretty(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => serde_json::to_string_pretty(other).unwrap_or_default(),
    }
}

fn one_line(text: &str) -> String {
    // Enough for a title, however long the text is.
    let words: Vec<&str> = text.split_whitespace().take(TITLE_MAX).collect();
    let line = words.join(" ");
    match line.char_indices().nth(TITLE_MAX) {
        None => line.trim_end_matches(':').to_owned(),
        Some((end, _)) => format!("{}…", &line[..end]),
    }
}
