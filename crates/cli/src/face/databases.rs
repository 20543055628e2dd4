//! What a checkpoint holds of databases.

use rappel_types::database::{DatabaseKind, DatabasePart};
use rappel_types::size::format_size;

use super::{Fields, count, section, thousands};
use crate::output::{Paint, clean};

/// `app (postgres): 3 tables, 60 rows`.
pub fn line(part: &DatabasePart) -> String {
    let held = match part.kind {
        DatabaseKind::Command => format_size(part.bytes),
        _ => {
            let tables = count(part.tables.len() as u64, "table", "tables");
            let rows = count(part.row_counts.values().sum(), "row", "rows");
            // Virtual tables are not counted, nor are those of very large files.
            match part.row_counts.len() {
                all if all == part.tables.len() => format!("{tables}, {rows}"),
                0 => tables,
                some => format!("{tables}, {rows} in {} of them", thousands(some as u64)),
            }
        }
    };
    let mut text = format!("{} ({}): {held}", clean(&part.name), part.kind);
    if part.stale {
        let of = part.as_of.as_ref().map(|of| format!(", as of {of}")).unwrap_or_default();
        text.push_str(&format!("{of}, changed since"));
    }
    text
}

/// How many there are, and whether they are older than their checkpoint.
pub fn in_brief(parts: &[DatabasePart]) -> Option<String> {
    let all = count(parts.len() as u64, "database", "databases");
    match parts.iter().filter(|part| part.stale).count() {
        _ if parts.is_empty() => None,
        0 => Some(all),
        stale if stale == parts.len() => Some(format!("{all}, stale")),
        stale => Some(format!("{all}, {} stale", thousands(stale as u64))),
    }
}

/// A line for each.
pub fn add(fields: &mut Fields, parts: &[DatabasePart]) {
    for (at, part) in parts.iter().enumerate() {
        fields.add(if at == 0 { "Databases" } else { "" }, line(part));
    }
}

/// The tables of each, for who wants to see everything.
pub fn sections(parts: &[DatabasePart], paint: Paint) -> String {
    let mut text = String::new();
    for part in parts.iter().filter(|part| !part.tables.is_empty()) {
        let lines: Vec<String> = part
            .tables
            .iter()
            .map(|table| match part.row_counts.get(table) {
                Some(rows) => format!("{table}: {}", count(*rows, "row", "rows")),
                None => table.clone(),
            })
            .collect();
        text.push_str(&section(&format!("Tables of {}", clean(&part.name)), &lines, paint));
    }
    text
}
