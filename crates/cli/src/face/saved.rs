//! What `save` answers: the id, one line per facet, and how to go back.

use std::time::Duration;

use rappel::Checkpoint;
use rappel_types::duration::format_duration;
use rappel_types::manifest::{PartialReason, Skipped};
use rappel_types::size::format_size;
use rappel_types::{Manifest, Timestamp, time};

use super::{Fields, changes, count, databases, git, knowledge, thousands, title};
use crate::output::{Output, Paint, clean};

/// How many paths a warning names.
const NAMED: usize = 10;

/// The answer. What is told of the agents is `agents`.
pub fn text(
    checkpoint: &Checkpoint,
    agents: &Agents,
    now: Timestamp,
    go_back: &str,
    paint: Paint,
) -> String {
    let manifest = &checkpoint.manifest;
    let id = paint.id(manifest.id.as_str());
    let title = title(checkpoint).map(|title| format!("  {title}")).unwrap_or_default();
    let head = if checkpoint.created {
        format!("{} {id}{title}", paint.good("Saved"))
    } else {
        let age = time::age(now, manifest.created_at);
        format!("Nothing changed since {id}{title}, saved {age}")
    };
    format!(
        "{head}\n{}{}\n",
        facets(checkpoint, agents, paint),
        paint.faint(&format!("Go back with: {go_back}"))
    )
}

/// What a checkpoint does not say of agents itself.
#[derive(Debug, Default)]
pub struct Agents {
    /// How many transcripts it holds, and their bytes.
    pub transcripts: (u64, u64),
    /// How long it was waited for tool calls.
    pub waited: Duration,
}

impl Agents {
    /// A line each, where there is something to tell.
    pub fn add(&self, fields: &mut Fields, manifest: &Manifest) {
        let sessions = manifest.agents.as_ref().map_or(0, |agents| agents.sessions.len() as u64);
        let (transcripts, bytes) = self.transcripts;
        let mut held = Vec::new();
        if sessions > 0 {
            held.push(count(sessions, "session", "sessions"));
        }
        if transcripts > 0 {
            let many = count(transcripts, "transcript", "transcripts");
            held.push(format!("{many} ({})", format_size(bytes)));
        }
        if !held.is_empty() {
            fields.add("Agents", held.join(", "));
        }
        if !manifest.mid_operation.is_empty() {
            fields.add("Running", clean(&manifest.mid_operation.join(", ")));
        }
        if !self.waited.is_zero() {
            let long = format_duration(self.waited.as_millis() as u64);
            fields.add("Waited", format!("{long} for tool calls that were running"));
        }
    }
}

/// One line per facet that was captured.
fn facets(checkpoint: &Checkpoint, agents: &Agents, paint: Paint) -> String {
    let mut fields = Fields::new(paint);
    fields.add_some(
        "Files",
        checkpoint.manifest.files.as_ref().map(|files| {
            let count = thousands(files.count);
            // What was new in an older checkpoint is not news.
            if checkpoint.created { format!("{count} ({})", changes(files)) } else { count }
        }),
    );
    fields.add_some("Git", checkpoint.manifest.git.as_ref().map(git::line));
    databases::add(&mut fields, &checkpoint.manifest.databases);
    fields.add_some("Knowledge", checkpoint.manifest.knowledge.as_ref().map(knowledge));
    agents.add(&mut fields, &checkpoint.manifest);
    fields.lines()
}

/// What is missing and what was left out, on stderr.
pub fn warn(checkpoint: &Checkpoint, output: &Output) {
    let manifest = &checkpoint.manifest;
    if !manifest.partial_reasons.is_empty() {
        output.warning(&missing(&manifest.partial_reasons));
        list(output, manifest.partial_reasons.iter().map(reason));
    }
    let skipped = manifest.files.as_ref().map_or(&[][..], |files| &files.skipped);
    if checkpoint.created && !skipped.is_empty() && !output.quiet && !output.json {
        output.note(&left_out(skipped.len()));
        list(output, skipped.iter().map(|Skipped { path, reason }| format!("{path}: {reason}")));
    }
    if manifest.interrupted_restore {
        output.warning(
            "a restore of this workspace was under way, or is unfinished; see `rappel recover`",
        );
    }
}

/// The head of the warning about what could not be captured.
pub fn missing(reasons: &[PartialReason]) -> String {
    match reasons.len() {
        1 => "the checkpoint is partial: this could not be captured".into(),
        count => format!(
            "the checkpoint is partial: these {} could not be captured",
            thousands(count as u64)
        ),
    }
}

fn left_out(count: usize) -> String {
    match count {
        1 => "one path was left out by a rule".into(),
        count => format!("{} paths were left out by a rule", thousands(count as u64)),
    }
}

/// What could not be captured, and why.
pub fn reason(reason: &PartialReason) -> String {
    match &reason.path {
        Some(path) => format!("{path}: {}", reason.reason),
        None => format!("{}: {}", reason.facet, reason.reason),
    }
}

fn list(output: &Output, lines: impl ExactSizeIterator<Item = String>) {
    if output.json {
        return;
    }
    let all = lines.len();
    for line in lines.take(NAMED) {
        output.tell(&format!("  {}", clean(&line)));
    }
    if all > NAMED {
        output.tell(&format!("  … and {} more", thousands((all - NAMED) as u64)));
    }
}
