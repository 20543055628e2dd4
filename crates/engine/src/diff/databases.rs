//! What differs in databases.

use rappel_types::database::{DatabaseKind, DatabasePart};
use schemars::JsonSchema;
use serde::Serialize;

/// What differs in one database.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct DatabaseDiff {
    /// Which.
    pub name: String,
    /// Its kind.
    pub kind: DatabaseKind,
    /// `added`, `removed` or `modified`.
    pub change: &'static str,
    /// Tables with another number of rows, or that only one side has.
    pub tables: Vec<TableDiff>,
    /// Whether there are tables with as many rows as before: whether those hold other values is not known.
    pub others_may_differ: bool,
}

/// What differs in one table; no number where there is no such table, or its rows are not counted.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct TableDiff {
    pub table: String,
    /// `added`, `removed` or `modified`.
    pub change: &'static str,
    pub from: Option<u64>,
    pub to: Option<u64>,
}

/// What databases held and hold.
pub fn compare(from: &[DatabasePart], to: &[DatabasePart]) -> Vec<DatabaseDiff> {
    let named =
        |parts: &[DatabasePart], name: &str| parts.iter().find(|part| part.name == name).cloned();
    let mut names: Vec<&str> = from.iter().chain(to).map(|part| part.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let differing = names.into_iter().filter_map(|name| {
        let (old, new) = (named(from, name), named(to, name));
        let change = match (&old, &new) {
            (None, _) => "added",
            (_, None) => "removed",
            (Some(old), Some(new)) if old.digest == new.digest => return None,
            _ => "modified",
        };
        let kind = new.as_ref().or(old.as_ref())?.kind;
        let tables = tables(old.as_ref(), new.as_ref());
        let told = |table: &String| tables.iter().any(|told| told.table == *table);
        let others_may_differ = change == "modified"
            && new.iter().flat_map(|new| &new.tables).any(|table| !told(table));
        Some(DatabaseDiff { name: name.to_owned(), kind, change, tables, others_may_differ })
    });
    differing.collect()
}

fn tables(old: Option<&DatabasePart>, new: Option<&DatabasePart>) -> Vec<TableDiff> {
    let mut names: Vec<&String> =
        old.into_iter().chain(new).flat_map(|part| &part.tables).collect();
    names.sort_unstable();
    names.dedup();
    let rows = |part: Option<&DatabasePart>, table: &String| {
        part.filter(|part| part.tables.contains(table))
            .map(|part| part.row_counts.get(table).copied())
    };
    let differing = names.into_iter().filter_map(|table| {
        let (from, to) = (rows(old, table), rows(new, table));
        let change = match (from, to) {
            (None, _) => "added",
            (_, None) => "removed",
            _ => "modified",
        };
        (from != to).then(|| TableDiff {
            table: table.clone(),
            change,
            from: from.flatten(),
            to: to.flatten(),
        })
    });
    differing.collect()
}
