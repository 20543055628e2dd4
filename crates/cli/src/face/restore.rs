//! A restore before it is confirmed, and after it was done.

use std::collections::HashSet;

use rappel::{Checkpoint, Copied, Done, KeptFile, RestoreReport, ShownAction};
use rappel_types::plan::{ActionCounts, Conflict};
use rappel_types::size::format_size;
use rappel_types::{ActionKind, Facet, RelPath, Remark, Timestamp, time};

use super::{Fields, count, tally, thousands, title};
use crate::output::{Output, Paint, clean};

/// How many paths of each kind a plan names on a terminal.
const NAMED: usize = 10;

/// `"Before adding Stripe"  chk_…  (2 hours ago)`.
pub fn target(checkpoint: &Checkpoint, now: Timestamp, paint: Paint) -> String {
    let manifest = &checkpoint.manifest;
    let title = title(checkpoint).map(|title| format!("{title}  ")).unwrap_or_default();
    let age = time::age(now, manifest.created_at);
    format!("{title}{}  ({age})", paint.id(manifest.id.as_str()))
}

/// What a restore would do.
pub fn plan(report: &RestoreReport, output: &Output) -> String {
    let (paint, named) = (output.paint(), named(output));
    let mut fields = Fields::new(paint);
    fields
        .add_some("Files", planned(report.summary.files).map(|text| with_knowledge(text, report)));
    add_others(&mut fields, report);
    let mut text = match fields.is_empty() {
        // What is in the way was not compared.
        true if report.full_plan.conflicts.is_empty() => "  Nothing to change\n".into(),
        true => String::new(),
        false => fields.lines(),
    };
    if !report.details.is_empty() {
        text.push_str(&format!("\n{}\n", paint.strong("Git:")));
        for line in &report.details {
            text.push_str(&format!("  {}\n", clean(line)));
        }
    }
    if !report.tables.is_empty() {
        text.push_str(&format!("\n{}\n", paint.strong("Databases:")));
        for line in &report.tables {
            text.push_str(&format!("  {}\n", clean(line)));
        }
    }
    if !report.sessions.is_empty() {
        text.push_str(&format!("\n{}\n", paint.strong("Agents:")));
        for line in &report.sessions {
            text.push_str(&format!("  {}\n", clean(line)));
        }
    }
    for kind in [ActionKind::Create, ActionKind::Overwrite, ActionKind::Delete, ActionKind::Skip] {
        text.push_str(&actions(report, kind, named, paint));
    }
    let in_the_way = &report.full_plan.conflicts;
    if !in_the_way.is_empty() {
        text.push_str(&format!("\n{}\n", paint.bad("In the way:")));
        for conflict in in_the_way.iter().take(named) {
            text.push_str(&format!("  {}: {}\n", conflict.name(), clean(&conflict.reason)));
        }
        text.push_str(&more(in_the_way.len(), named));
    }
    if !report.warnings.is_empty() {
        text.push('\n');
        for warning in &report.warnings {
            text.push_str(&format!("{} {}\n", paint.warning("warning:"), clean(&warning.text)));
        }
    }
    text
}

/// What happens besides files, in the order in which facets are shown.
fn add_others(fields: &mut Fields, report: &RestoreReport) {
    let summary = &report.summary;
    for (label, text) in [
        ("Git", &summary.git),
        ("Worktrees", &summary.worktrees),
        ("Databases", &summary.databases),
        ("Agents", &summary.agents),
    ] {
        fields.add_some(label, text.as_deref().map(clean));
    }
}

/// Says how many of the files are knowledge.
fn with_knowledge(text: String, report: &RestoreReport) -> String {
    let actions = report.full_plan.actions.iter();
    let knowledge = actions.filter(|action| {
        action.facet == Facet::Knowledge
            && action.action != ActionKind::Skip
            && !action.is_about_a_folder()
    });
    match knowledge.count() as u64 {
        0 => text,
        some => format!("{text} ({} of knowledge)", thousands(some)),
    }
}

fn planned(counts: ActionCounts) -> Option<String> {
    let planned =
        [(counts.create, "new"), (counts.overwrite, "changed"), (counts.delete, "deleted")];
    let left = match counts.skip {
        0 => None,
        1 => Some("1 left as it is".into()),
        more => Some(format!("{} left as they are", thousands(more))),
    };
    let told: Vec<String> = changed(&planned).into_iter().chain(left).collect();
    (!told.is_empty()).then(|| told.join(", "))
}

/// What there is of each kind, if there is anything.
fn changed(counts: &[(u64, &str)]) -> Option<String> {
    counts.iter().any(|(number, _)| *number > 0).then(|| tally(counts, ""))
}

/// The first paths to which one thing happens. Why is said of what is left alone, where it is not
/// obvious.
fn actions(report: &RestoreReport, kind: ActionKind, named: usize, paint: Paint) -> String {
    let (heading, mark) = match kind {
        ActionKind::Create => ("New", paint.good("+")),
        ActionKind::Overwrite => ("Changed", paint.warning("~")),
        ActionKind::Delete => ("Deleted", paint.bad("-")),
        ActionKind::Skip => ("Left as they are", "=".to_owned()),
    };
    let told = told(report);
    let is_shown = |action: &&ShownAction| match is_path(action) {
        true => action.action == kind && told.contains(&action.path),
        // Those of git and databases that change have lines of their own.
        false => action.action == kind && kind == ActionKind::Skip,
    };
    let found: Vec<_> = report.actions.iter().filter(is_shown).collect();
    listing(heading, &mark, &found, named, paint)
}

/// What a restore has left alone.
fn left(report: &RestoreReport) -> Vec<&ShownAction> {
    let told = told(report);
    let is_told = |action: &ShownAction| !is_path(action) || told.contains(&action.path);
    let all = report.actions.iter();
    all.filter(|action| action.action == ActionKind::Skip && is_told(action)).collect()
}

/// `2 paths and 1 ref as they were`.
fn left_in_brief(left: &[&ShownAction]) -> Option<String> {
    let paths = left.iter().filter(|action| is_path(action)).count() as u64;
    let refs = left.len() as u64 - paths;
    let counted = [(paths, count(paths, "path", "paths")), (refs, count(refs, "ref", "refs"))];
    let told: Vec<String> =
        counted.into_iter().filter(|(number, _)| *number > 0).map(|(_, text)| text).collect();
    let as_before = if left.len() == 1 { "as it was" } else { "as they were" };
    (!told.is_empty()).then(|| format!("{} {as_before}", told.join(" and ")))
}

/// The paths that the counts are about: those that are counted are those that are listed.
fn told(report: &RestoreReport) -> HashSet<&RelPath> {
    report.full_plan.told().map(|action| &action.path).collect()
}

fn is_path(action: &ShownAction) -> bool {
    matches!(action.facet, Facet::Files | Facet::Knowledge | Facet::Agents)
}

fn listing(
    heading: &str,
    mark: &str,
    found: &[&ShownAction],
    named: usize,
    paint: Paint,
) -> String {
    if found.is_empty() {
        return String::new();
    }
    let mut text = format!("\n{}\n", paint.strong(&format!("{heading}:")));
    for action in found.iter().take(named) {
        let why = match action.action {
            ActionKind::Skip => {
                format!("  {}", paint.faint(&format!("({})", clean(&action.reason))))
            }
            _ => String::new(),
        };
        text.push_str(&format!("  {mark} {}{why}\n", action.path));
    }
    text.push_str(&more(found.len(), named));
    text
}

/// How many paths of each kind are named: on a terminal the first, for anything else all.
fn named(output: &Output) -> usize {
    if output.terminal { NAMED } else { usize::MAX }
}

fn more(all: usize, named: usize) -> String {
    match all.saturating_sub(named) {
        0 => String::new(),
        more => format!("  … and {} more\n", thousands(more as u64)),
    }
}

/// What a restore has done.
pub fn done(head: &str, report: &RestoreReport, done: &Done, output: &Output) -> String {
    let paint = output.paint();
    let mut fields = Fields::new(paint);
    let counts = report.summary.files;
    if report.conflicts.is_empty() {
        let files = changed(&[
            (counts.create, "new"),
            (counts.overwrite, "changed"),
            (counts.delete, "deleted"),
        ]);
        fields.add_some("Files", files.map(|text| with_knowledge(text, report)));
        add_others(&mut fields, report);
    } else {
        // The plan is not what was done if somebody came in between.
        fields.add("Done", clean(&done.text));
    }
    let before = done.safety_checkpoint.as_ref();
    fields.add_some("Before", before.map(|id| format!("saved as {}", paint.id(id.as_str()))));
    let left = left(report);
    fields.add_some("Left", left_in_brief(&left));
    let sessions = report.sessions.iter().map(|line| format!("  {}\n", clean(line)));
    let sessions = sessions.collect::<String>();
    // Whoever did not see the plan learns here what is not as the checkpoint has it, and why.
    let left = listing("Left as they were", "=", &left, named(output), paint);
    format!("{head}\n{}{sessions}{left}", fields.lines())
}

/// What was written into a folder of its own.
pub fn copied(copied: &Copied) -> String {
    let files = count(copied.files, "file", "files");
    let told = [
        (copied.files, format!("{files}, {}", format_size(copied.bytes))),
        (copied.databases, count(copied.databases, "database", "databases")),
        (copied.repositories, count(copied.repositories, "repository", "repositories")),
    ];
    let told: Vec<String> =
        told.into_iter().filter(|(number, _)| *number > 0).map(|(_, text)| text).collect();
    if told.is_empty() { "nothing".to_owned() } else { told.join(", ") }
}

/// What people must know about a restore that was done, on stderr.
pub fn warn(warnings: &[Remark], kept: &[KeptFile], output: &Output) {
    for warning in warnings {
        output.warning(&warning.text);
    }
    for KeptFile { path, at, reason } in kept {
        output.warning(&format!("{path} was kept as {at}: {reason}"));
    }
}

/// What was left as it is, as one message.
pub fn conflicts(conflicts: &[Conflict]) -> String {
    listed(conflicts, ["this was left as it was:", "were left as they were:"])
}

/// The same before it is done.
pub fn would_be_left(conflicts: &[Conflict]) -> String {
    listed(conflicts, ["this would be left as it is:", "would be left as they are:"])
}

fn listed(conflicts: &[Conflict], [one, many]: [&str; 2]) -> String {
    let named: Vec<_> = conflicts
        .iter()
        .take(NAMED)
        .map(|one| format!("  {}: {}", one.name(), one.reason))
        .collect();
    let head = match conflicts.len() {
        1 => one.to_owned(),
        number => format!("these {} {many}", thousands(number as u64)),
    };
    format!("{head}\n{}\n{}", named.join("\n"), more(conflicts.len(), NAMED)).trim_end().to_owned()
}
