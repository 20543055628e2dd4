//! What `save` answers: the id, one line per facet, and how to go back.

use rappel::Checkpoint;
use rappel_types::manifest::{PartialReason, Skipped};
use rappel_types::{Timestamp, time};

use super::{Fields, changes, databases, git, knowledge, thousands, title};
use crate::output::{Output, Paint, clean};

/// How many paths a warning names.
const NAMED: usize = 10;

/// The answer.
pub fn text(checkpoint: &Checkpoint, now: Timestamp, go_back: &str, paint: Paint) -> String {
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
        facets(checkpoint, paint),
        paint.faint(&format!("Go back with: {go_back}"))
    )
}

/// One line per facet that was captured.
pub fn facets(checkpoint: &Checkpoint, paint: Paint) -> String {
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
        output.warning("a restore of this workspace is unfinished; see `rappel recover`");
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
