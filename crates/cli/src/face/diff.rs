//! What changed, file by file.

use std::collections::HashSet;
use std::io::{self, Write};

use rappel::{Diff, FileText, FilesDiff};
use rappel_types::path::escape;
use rappel_types::{Node, RelPath};

use super::{change_word, count, git, thousands};
use crate::output::{Output, Paint, clean};

/// How many paths that are left out are named.
const NAMED: usize = 10;

/// What the second side leaves out although it is there, line by line.
fn left_out(diff: &Diff) -> Vec<String> {
    let mut lines: Vec<String> = diff
        .left_out
        .iter()
        .take(NAMED)
        .map(|one| format!("{} is there and is left out: {}", one.path, clean(&one.reason)))
        .collect();
    if let more @ 1.. = diff.left_out.len().saturating_sub(NAMED) {
        lines.push(format!("… and {} more are left out", thousands(more as u64)));
    }
    lines
}

/// Takes out the folders whose content tells the story.
pub fn leave_told(diff: &mut Diff) {
    let FilesDiff { added, modified, deleted, .. } = &diff.files;
    let told: HashSet<RelPath> = added.iter().chain(modified).chain(deleted).cloned().collect();
    diff.changes.retain(|change| told.contains(&change.path));
}

/// What differs besides files, line by line.
pub fn others(diff: &Diff) -> Vec<String> {
    let mut lines = left_out(diff);
    lines.extend(diff.git.as_ref().map(git::lines).unwrap_or_default());
    for database in &diff.databases {
        let name = clean(&database.name);
        if database.tables.is_empty() || database.change != "modified" {
            lines.push(format!("database {name}: {}", change_word(database.change)));
        }
        if database.change != "modified" {
            continue;
        }
        for table in &database.tables {
            let rows = |number: Option<u64>| number.map(|number| count(number, "row", "rows"));
            let change = match (table.change, rows(table.from), rows(table.to)) {
                ("added", _, Some(rows)) => format!("new, {rows}"),
                ("added", _, None) => "new".to_owned(),
                ("removed", Some(rows), _) => format!("deleted, had {rows}"),
                ("removed", None, _) => "deleted".to_owned(),
                (_, Some(_), Some(rows)) => {
                    format!("{} to {rows}", thousands(table.from.unwrap_or_default()))
                }
                _ => "changed".to_owned(),
            };
            lines.push(format!("database {name}: {}: {change}", clean(&table.table)));
        }
        if database.others_may_differ && !database.tables.is_empty() {
            let as_many = "other tables have as many rows as before, and may hold other values";
            lines.push(format!("database {name}: {as_many}"));
        }
    }
    lines
}

/// One file's change as a unified diff, or as a line where there are no lines to compare.
pub fn unified(out: &mut dyn Write, file: &FileText, output: &Output) -> io::Result<()> {
    let paint = output.paint();
    if let Some(from) = &file.from {
        let (from, to) = (from.to_string(), file.path.to_string());
        writeln!(out, "{} renamed to {}", paint.strong(&from), paint.strong(&to))?;
    }
    if let Some(remark) = remark(file) {
        writeln!(out, "{}: {remark}", paint.strong(&file.path.to_string()))?;
    }
    let Some(text) = &file.text else { return Ok(()) };
    for line in text.split_inclusive('\n') {
        let bare = line.trim_end_matches('\n');
        // A program gets the bytes as they are; a terminal must not be steered by them.
        let shown = if output.terminal { keep_tabs(bare) } else { bare.to_owned() };
        writeln!(out, "{}", coloured(&shown, paint))?;
    }
    Ok(())
}

fn keep_tabs(line: &str) -> String {
    line.split('\t').map(clean).collect::<Vec<_>>().join("\t")
}

/// A line of a unified diff in its colour.
pub fn coloured(line: &str, paint: Paint) -> String {
    match line.as_bytes() {
        [b'-', b'-', b'-', b' ', ..] | [b'+', b'+', b'+', b' ', ..] => paint.strong(line),
        [b'@', b'@', ..] => paint.hint(line),
        [b'+', ..] => paint.good(line),
        [b'-', ..] => paint.bad(line),
        _ => line.to_owned(),
    }
}

/// One file's change on one line: what happened, where, how much.
pub fn stat(file: &FileText, width: usize, paint: Paint) -> String {
    let what = match (&file.change.old, &file.change.new) {
        _ if file.from.is_some() => paint.warning("renamed"),
        (None, _) => paint.good("new    "),
        (_, None) => paint.bad("deleted"),
        _ => paint.warning("changed"),
    };
    let path = name(file);
    let size = match file.lines {
        Some((added, removed)) => {
            let mut parts = Vec::new();
            if added > 0 {
                parts.push(paint.good(&format!("+{}", thousands(added as u64))));
            }
            if removed > 0 {
                parts.push(paint.bad(&format!("-{}", thousands(removed as u64))));
            }
            parts.join(" ")
        }
        None => remark(file).unwrap_or_default(),
    };
    format!("  {what}  {path:width$}  {size}").trim_end().to_owned()
}

/// What a file is called, and what it was called before.
pub fn name(file: &FileText) -> String {
    match &file.from {
        Some(from) => format!("{from} => {}", file.path),
        None => file.path.to_string(),
    }
}

/// What a unified diff cannot say: modes, links, folders, and files without lines.
fn remark(file: &FileText) -> Option<String> {
    let (old, new) = (file.change.old.as_ref(), file.change.new.as_ref());
    match (old, new) {
        (
            Some(Node::File { mode: a, content: c, .. }),
            Some(Node::File { mode: b, content: d, .. }),
        ) => {
            let modes = (a != b).then(|| format!("mode {a:04o} became {b:04o}"));
            let binary = (c != d && file.text.is_none()).then(|| "binary files differ".to_owned());
            let parts: Vec<_> = [modes, binary].into_iter().flatten().collect();
            (!parts.is_empty()).then(|| parts.join(", "))
        }
        (Some(Node::Symlink { target: a }), Some(Node::Symlink { target: b })) => {
            Some(format!("link to {} became link to {}", escape(a), escape(b)))
        }
        (Some(old), Some(new)) if kind(old) != kind(new) => {
            Some(format!("{} became {}", kind(old), kind(new)))
        }
        (None, Some(node)) if file.text.is_none() => Some(format!("new {}", whole(node))),
        (Some(node), None) if file.text.is_none() => Some(format!("deleted {}", whole(node))),
        _ => None,
    }
}

fn kind(node: &Node) -> &'static str {
    match node {
        Node::Directory { .. } => "a folder",
        Node::File { .. } => "a file",
        Node::Symlink { .. } => "a link",
    }
}

fn whole(node: &Node) -> &'static str {
    match node {
        Node::Directory { .. } => "folder",
        Node::File { size: 0, .. } => "empty file",
        Node::File { .. } => "binary file",
        Node::Symlink { .. } => "link",
    }
}
