//! Checkpoints in a list, and one of them in full.

use std::collections::HashMap;

use jiff::tz::TimeZone;
use rappel::{Checkpoint, LineageView, Listing};
use rappel_types::duration::format_duration;
use rappel_types::size::format_size;
use rappel_types::{Entry, Facet, FacetState, Manifest, Node, Timestamp, Trigger, time};

use super::saved::Agents;
use super::{
    Fields, TITLE_MAX, capitalised, changes, count, databases, git, knowledge, saved, section,
    thousands, title,
};
use crate::output::{Output, Paint, clean};

/// How many unreadable checkpoints are named.
const UNREADABLE_SHOWN: usize = 10;

/// A list of checkpoints, newest first.
pub fn list(
    heading: &str,
    listing: &Listing,
    now: Timestamp,
    with_workspace: bool,
    all: bool,
    paint: Paint,
) -> String {
    let total = thousands((listing.total + listing.folded_total) as u64);
    let mut text = format!("{} ({total} total{})\n", paint.strong(heading), besides(listing));
    if listing.folded_since > 0 {
        text.push_str(&format!("\n  {}\n", paint.faint(&folded(listing.folded_since, "since"))));
    }
    let newest = listing.checkpoints.iter().map(|one| one.manifest.sequence).max();
    let width = newest.unwrap_or(0).to_string().len();
    let shown = listing.checkpoints.iter().map(|one| &one.manifest);
    let numbers = shown.map(|one| (one.id.as_str(), one.sequence)).collect();
    let mut rest_of_list = &listing.checkpoints[..];
    for run in runs(listing, all) {
        let [checkpoint, rest @ ..] = run else { continue };
        rest_of_list = &rest_of_list[run.len()..];
        let manifest = &checkpoint.manifest;
        let is_latest = listing.latest.as_deref() == Some(manifest.id.as_str());
        let mark = if is_latest { format!("  {}", paint.good("(latest)")) } else { String::new() };
        let number = paint.faint(&format!("{:>width$}", number(checkpoint)));
        let id = paint.id(manifest.id.as_str());
        let from = checkpoint.lineage.as_ref().map(|lineage| format!("  ({})", from(lineage)));
        let from = from.map(|from| paint.faint(&from)).unwrap_or_default();
        text.push_str(&format!("\n  {number}  {id}{mark}{from}\n"));
        let indent = " ".repeat(width + 4);
        if let Some(title) = title(checkpoint) {
            text.push_str(&format!("{indent}{title}\n"));
        }
        let mut facts = vec![time::age(now, manifest.created_at)];
        if with_workspace {
            let workspace = &manifest.workspace;
            facts.push(format!("{} (workspace {})", clean(&workspace.root), workspace.id));
        }
        facts.extend(in_brief(checkpoint, counted_from(checkpoint, rest_of_list, &numbers)));
        let of_state = run.iter().filter_map(|one| listing.folded.get(one.manifest.id.as_str()));
        let of_state: usize = of_state.sum();
        facts.extend((of_state > 0).then(|| folded(of_state, "before")));
        text.push_str(&format!("{indent}{}\n", paint.faint(&facts.join(" · "))));
        if let Some(last) = rest.last() {
            let many = count(rest.len() as u64, "automatic one", "automatic ones");
            let line = format!(
                "and {many} before, down to {}, with the same files (--all shows them)",
                last.manifest.sequence
            );
            text.push_str(&format!("{indent}{}\n", paint.faint(&line)));
        }
    }
    text
}

/// The number of the checkpoint that a checkpoint's changes are counted from, where a reader of the
/// list would think of another one: the work went on from an earlier checkpoint after a restore.
fn counted_from(
    checkpoint: &Checkpoint,
    older: &[Checkpoint],
    numbers: &HashMap<&str, u64>,
) -> Option<u64> {
    let Manifest { parent, workspace, .. } = &checkpoint.manifest;
    let parent = parent.as_ref()?;
    let has_files = |one: &&Manifest| one.workspace.id == workspace.id && one.files.is_some();
    let before = older.iter().map(|one| &one.manifest).find(has_files)?;
    // A parent that the list does not show has no number that a reader could look up.
    let number = numbers.get(parent.as_str())?;
    (*parent != before.id).then_some(*number)
}

/// How many of the total a list does not show.
fn besides(listing: &Listing) -> String {
    match listing.folded_total as u64 {
        0 => String::new(),
        of_state => format!(", {} of them state-only", thousands(of_state)),
    }
}

/// The checkpoints one by one, but automatic ones that follow each other with the same files together.
fn runs(listing: &Listing, all: bool) -> impl Iterator<Item = &[Checkpoint]> {
    let plain = |one: &Checkpoint| {
        let Manifest { trigger, tags, partial, .. } = &one.manifest;
        let automatic = one.manifest.is_automatic() && *trigger != Trigger::PreRestore;
        // Two tags are its own; what has more is worth a line.
        automatic && tags.len() <= 2 && !partial && !one.pinned
    };
    listing.checkpoints.chunk_by(move |newer, older| {
        let is_latest = listing.latest.as_deref() == Some(older.manifest.id.as_str());
        let holds = |Checkpoint { manifest, .. }: &Checkpoint| {
            let tree = manifest.files.as_ref().map(|files| files.tree);
            (tree, manifest.git.clone(), manifest.workspace.id)
        };
        let foldable = !all && !is_latest && plain(newer) && plain(older);
        foldable && holds(newer) == holds(older)
    })
}

/// `3 state-only before (--all shows them)`: what belongs to a checkpoint in a list.
pub fn folded(count: usize, when: &str) -> String {
    format!("{} state-only {when} (--all shows them)", thousands(count as u64))
}

/// The number that a reference may name a checkpoint by: an imported one has none.
pub fn number(checkpoint: &Checkpoint) -> String {
    match checkpoint.lineage {
        Some(_) => "-".into(),
        None => checkpoint.manifest.sequence.to_string(),
    }
}

/// `from aiwg:003`: what an imported checkpoint was where it came from.
pub fn from(lineage: &LineageView) -> String {
    format!("from {}:{}", clean(&lineage.format), clean(&lineage.id))
}

/// Says which checkpoints are there and cannot be read.
pub fn warn_unreadable(ids: &[String], output: &Output) {
    if ids.is_empty() {
        return;
    }
    let more = match ids.len().saturating_sub(UNREADABLE_SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let shown = ids[..ids.len().min(UNREADABLE_SHOWN)].join(", ");
    output.warning(&format!("cannot be read: {shown}{more}; rappel verify tells why"));
}

/// What a list tells about a checkpoint besides its age.
fn in_brief(checkpoint: &Checkpoint, counted_from: Option<u64>) -> Vec<String> {
    let manifest = &checkpoint.manifest;
    let mut facts = Vec::new();
    if let Some(files) = &manifest.files {
        facts.push(count(files.count, "file", "files"));
        let since = counted_from.map(|number| format!(" since #{number}")).unwrap_or_default();
        facts.push(format!("{}{since}", changes(files)));
    }
    facts.extend(manifest.git.as_ref().map(git::line));
    facts.extend(databases::in_brief(&manifest.databases));
    if manifest.partial {
        facts.push("partial".into());
    }
    if manifest.interrupted_restore {
        facts.push("during an unfinished restore".into());
    }
    if checkpoint.pinned {
        facts.push("pinned".into());
    }
    facts.extend(manifest.tags.iter().map(|tag| format!("#{}", clean(tag))));
    facts
}

/// Everything about one checkpoint.
pub fn full(
    checkpoint: &Checkpoint,
    agents: &Agents,
    now: Timestamp,
    zone: &TimeZone,
    paint: Paint,
) -> String {
    let manifest = &checkpoint.manifest;
    let mut text = format!("{} {}", paint.strong("Checkpoint"), paint.id(manifest.id.as_str()));
    if let Some(title) = title(checkpoint) {
        text.push_str(&format!("  {title}"));
    }
    text.push('\n');
    text.push_str(&message(manifest.description.as_deref().unwrap_or_default()));
    let mut fields = Fields::new(paint);
    let of = if checkpoint.lineage.is_some() { " of its lineage" } else { "" };
    fields.add("Number", format!("{}{of}", manifest.sequence));
    fields.add(
        "Made",
        format!("{} ({})", time::age(now, manifest.created_at), local(manifest.created_at, zone)),
    );
    fields.add("Trigger", manifest.trigger.as_str());
    fields.add_some("Parent", manifest.parent.as_ref().map(ToString::to_string));
    if !manifest.tags.is_empty() {
        fields.add("Tags", clean(&manifest.tags.join(", ")));
    }
    if checkpoint.pinned {
        fields.add("Pinned", "yes");
    }
    fields.add_some("Session", manifest.session_id.as_deref().map(clean));
    fields.add_some("Environment", manifest.environment.as_deref().map(clean));
    for (name, value) in &manifest.variables {
        fields.add("Variable", format!("{}={}", clean(name), clean(value)));
    }
    if let Some(lineage) = &checkpoint.lineage {
        let place = clean(&lineage.origin);
        fields.add("Came", format!("{}, read from {place}", from(lineage)));
        fields.add("Lineage", lineage.workspace.to_string());
    }
    fields.add("Workspace", clean(&manifest.workspace.root));
    if let Some(files) = &manifest.files {
        fields.add(
            "Files",
            format!(
                "{} in {}, {}",
                thousands(files.count),
                format_size(files.bytes),
                changes(files)
            ),
        );
    }
    fields.add_some("Git", manifest.git.as_ref().map(git::line));
    databases::add(&mut fields, &manifest.databases);
    fields.add_some("Memory", manifest.process.as_ref().and_then(memory));
    fields.add_some("Knowledge", manifest.knowledge.as_ref().map(knowledge));
    agents.add(&mut fields, manifest);
    for facet in Facet::ALL {
        match manifest.state_of(facet) {
            FacetState::Failed => {
                fields.add(&capitalised(facet.as_str()), paint.bad("could not be captured"));
            }
            FacetState::Absent if facet == Facet::Git => fields.add("Git", "none"),
            FacetState::Absent | FacetState::Captured | FacetState::NotAsked => {}
        }
    }
    for (key, value) in &manifest.metadata {
        let said = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        match (key.as_str(), value.as_u64()) {
            ("duration_ms", Some(long)) => fields.add("Session time", format_duration(long)),
            ("step_number", Some(step)) => fields.add("Step", thousands(step)),
            ("tokens_used", Some(tokens)) => fields.add("Tokens", thousands(tokens)),
            ("operation", _) if value.is_object() => fields.add("Operation", operation(value)),
            ("checkpoint_reason", _) if said.replace('_', "-") == manifest.trigger.as_str() => {}
            _ => fields.add(&clean(key), clean(&said)),
        }
    }
    let new = format!("{} new", format_size(manifest.cost.new_bytes));
    // One that was made along with something else took no time of its own.
    fields.add(
        "Cost",
        match manifest.cost.wall_ms.ceil() as u64 {
            0 => new,
            long => format!("{}, {new}", format_duration(long)),
        },
    );
    text.push_str(&fields.lines());
    if manifest.interrupted_restore {
        text.push_str("\nA restore was unfinished when it was made.\n");
    }
    if let Some(part) = &manifest.git {
        text.push_str(&git::sections(part, paint));
    }
    text.push_str(&databases::sections(&manifest.databases, paint));
    let reasons: Vec<_> = manifest.partial_reasons.iter().map(saved::reason).collect();
    text.push_str(&section("Missing (should have been captured)", &reasons, paint));
    let skipped: Vec<_> = manifest
        .files
        .iter()
        .flat_map(|files| &files.skipped)
        .map(|skipped| format!("{}: {}", skipped.path, skipped.reason))
        .collect();
    text.push_str(&section("Left out by a rule", &skipped, paint));
    text
}

/// A message that the title has not told as a whole.
fn message(words: &str) -> String {
    let words = words.trim();
    if words.lines().count() < 2 && words.chars().count() <= TITLE_MAX {
        return String::new();
    }
    let lines: String = words
        .lines()
        .map(|line| format!("    {}", clean(line)).trim_end().to_owned() + "\n")
        .collect();
    format!("\n{lines}\n")
}

/// A moment as the clock on the wall here shows it.
pub fn local(at: Timestamp, zone: &TimeZone) -> String {
    at.0.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// One path of a checkpoint: its mode, size and name.
pub fn entry(entry: &Entry) -> String {
    let path = &entry.path;
    match &entry.node {
        Node::Directory { mode } => format!("d{} {:>10} {path}/", permissions(*mode), ""),
        Node::Symlink { target } => {
            format!(
                "l{} {:>10} {path} -> {}",
                permissions(0o777),
                "",
                rappel_types::path::escape(target)
            )
        }
        Node::File { mode, size, .. } => {
            format!("-{} {:>10} {path}", permissions(*mode), format_size(*size))
        }
    }
}

fn permissions(mode: u32) -> String {
    (0..9)
        .map(|bit| match mode >> (8 - bit) & 1 {
            0 => '-',
            _ => ['r', 'w', 'x'][bit as usize % 3],
        })
        .collect()
}

/// What a command was about to do, and what of that the checkpoint does not hold.
fn operation(value: &serde_json::Value) -> String {
    let mut said = value.get("does").and_then(|does| does.as_str()).unwrap_or_default().to_owned();
    for (key, kind) in [
        ("databases", "databases not saved"),
        ("outside", "outside the workspace and not saved"),
        ("unknown", "unknown before it runs"),
        ("elsewhere", "beyond any checkpoint"),
    ] {
        let words = value.get(key).and_then(|words| words.as_array()).into_iter().flatten();
        let words: Vec<&str> = words.filter_map(|word| word.as_str()).collect();
        if !words.is_empty() {
            said.push_str(&format!("; {kind}: {}", words.join(", ")));
        }
    }
    clean(&said)
}

/// The memory of the processes that a checkpoint is about.
fn memory(process: &serde_json::Value) -> Option<String> {
    let bytes = |name: &str| process.get(name)?.as_u64().map(format_size);
    Some(format!("{} (anonymous {})", bytes("rss")?, bytes("heap_used")?))
}
