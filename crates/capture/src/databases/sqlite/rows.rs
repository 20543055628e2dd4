//! The rows of a table, in the order of their row ids, from any of them on.
//!
//! They are read from the B-tree itself, without SQL and without a trace, as `snapshot`
//! reads pages. A look at the newest rows of a large table reads a handful of pages.
//!
//! Not read: tables without row ids, and virtual ones.

use std::path::Path;
use std::time::Duration;

use rappel_store::Cancel;

use super::TRIES;
use super::holders;
use super::snapshot::{Guard, HEADER, Snapshot, damaged};
use super::tables::{INNER_TABLE, LEAF_TABLE, decode, u16_at, u32_at, varint};
use crate::databases::{Error, Result};

/// A way down a B-tree is never longer.
const DEPTH_MAX: usize = 64;
/// A longer row is not read.
const ROW_MAX: usize = 256 << 20;

/// One moment of a database, to read rows from.
#[derive(Debug)]
pub struct Rows<'a> {
    snapshot: Snapshot,
    path: &'a Path,
}

/// A table of the schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    root: u32,
    columns: Vec<String>,
}

/// What a column of a row holds.
#[derive(Debug, Clone, PartialEq)]
pub enum Field {
    /// Nothing.
    Null,
    /// A number.
    Integer(i64),
    /// A text.
    Text(String),
    /// Anything else.
    Other,
}

/// One row. What lies on other pages is read when it is asked for.
#[derive(Debug)]
pub struct Row<'a> {
    rows: &'a Rows<'a>,
    columns: &'a [String],
    /// Its row id.
    pub id: i64,
    /// The record as far as it was read, and how long it is.
    record: Vec<u8>,
    length: usize,
    /// The page that goes on with it, or 0.
    next: u32,
}

/// Reads a database at one moment. `read` may be called again, when others opened the database
/// meanwhile: it must give the same then.
pub fn read<T>(
    path: &Path,
    patience: Duration,
    cancel: &Cancel,
    mut read: impl FnMut(&Rows<'_>) -> Result<T>,
) -> Result<T> {
    for _ in 0..TRIES {
        let snapshot = Snapshot::take(path, Guard::Own, patience, cancel)?;
        let rows = Rows { snapshot, path };
        let found = read(&rows);
        if rows.snapshot.still(path) {
            return found;
        }
    }
    let who = holders::of(path);
    Err(Error::Busy(format!("{} does not stand still{who}", path.display())))
}

impl Rows<'_> {
    /// The table of that name; nothing if there is none whose rows can be read.
    pub fn table(&self, name: &str) -> Result<Option<Table>> {
        if self.snapshot.page_size == 0 {
            return Ok(None);
        }
        let names = ["type", "name", "tbl_name", "rootpage", "sql"];
        let schema = Table { root: 1, columns: names.map(str::to_owned).to_vec() };
        let mut found = None;
        self.after(&schema, i64::MIN, &mut |row| {
            let is_table = row.text("type")?.as_deref() == Some("table");
            if is_table && row.text("name")?.as_deref() == Some(name) {
                let root = row.integer("rootpage")?.and_then(|root| u32::try_from(root).ok());
                let sql = row.text("sql")?.unwrap_or_default();
                found = root.filter(|root| *root != 0).zip(columns(&sql));
                return Ok(false);
            }
            Ok(true)
        })?;
        Ok(found.map(|(root, columns)| Table { root, columns }))
    }

    /// Gives the rows whose ids are greater than `id`, in order, until `take` says that it has enough.
    pub fn after(
        &self,
        table: &Table,
        id: i64,
        take: &mut dyn FnMut(&mut Row<'_>) -> Result<bool>,
    ) -> Result<()> {
        let mut left = self.snapshot.pages;
        self.walk(table, table.root, id, 0, &mut left, take).map(drop)
    }

    /// The row of that id.
    pub fn get<T>(
        &self,
        table: &Table,
        id: i64,
        take: impl FnOnce(&mut Row<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        let Some(before) = id.checked_sub(1) else { return Ok(None) };
        let (mut take, mut found) = (Some(take), None);
        self.after(table, before, &mut |row| {
            if let Some(take) = take.take().filter(|_| row.id == id) {
                found = Some(take(row)?);
            }
            Ok(false)
        })?;
        Ok(found)
    }

    /// The row with the greatest id.
    pub fn last<T>(
        &self,
        table: &Table,
        take: impl FnOnce(&mut Row<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        let mut number = table.root;
        for _ in 0..DEPTH_MAX {
            let page = self.page(number)?;
            let head = if number == 1 { HEADER } else { 0 };
            if page.get(head) == Some(&INNER_TABLE) {
                number = u32_at(&page, head + 8).ok_or_else(|| self.damaged())?;
                continue;
            }
            if page.get(head) != Some(&LEAF_TABLE) {
                break;
            }
            let count = u16_at(&page, head + 3).ok_or_else(|| self.damaged())?;
            let Some(at) = count.checked_sub(1) else { return Ok(None) };
            let cell = u16_at(&page, head + 8 + 2 * at).and_then(|place| page.get(place..));
            let row = cell.and_then(|cell| self.row(table, cell));
            return take(&mut row.ok_or_else(|| self.damaged())?).map(Some);
        }
        Err(self.damaged())
    }

    /// Goes through a node; false once `take` has enough.
    fn walk(
        &self,
        table: &Table,
        number: u32,
        id: i64,
        depth: usize,
        left: &mut u32,
        take: &mut dyn FnMut(&mut Row<'_>) -> Result<bool>,
    ) -> Result<bool> {
        // A node that is met more often than there are pages is met in a circle.
        *left = left.checked_sub(1).ok_or_else(|| self.damaged())?;
        if depth > DEPTH_MAX {
            return Err(self.damaged());
        }
        let page = self.page(number)?;
        let head = if number == 1 { HEADER } else { 0 };
        let kind = page.get(head).copied().unwrap_or_default();
        let count = u16_at(&page, head + 3).ok_or_else(|| self.damaged())?;
        let cell = |at: usize, places: usize| {
            let place = u16_at(&page, head + places + 2 * at);
            place.and_then(|place| page.get(place..)).ok_or_else(|| self.damaged())
        };
        match kind {
            INNER_TABLE => {
                for at in 0..count {
                    let cell = cell(at, 12)?;
                    let below = u32_at(cell, 0).ok_or_else(|| self.damaged())?;
                    let (greatest, _) =
                        cell.get(4..).and_then(varint).ok_or_else(|| self.damaged())?;
                    if (greatest as i64) > id
                        && !self.walk(table, below, id, depth + 1, left, take)?
                    {
                        return Ok(false);
                    }
                }
                let last = u32_at(&page, head + 8).ok_or_else(|| self.damaged())?;
                self.walk(table, last, id, depth + 1, left, take)
            }
            LEAF_TABLE => {
                for at in 0..count {
                    let mut row = self.row(table, cell(at, 8)?).ok_or_else(|| self.damaged())?;
                    if row.id > id && !take(&mut row)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            _ => Err(self.damaged()),
        }
    }

    fn row<'a>(&'a self, table: &'a Table, cell: &[u8]) -> Option<Row<'a>> {
        let (length, rest) = varint(cell)?;
        let (id, rest) = varint(rest)?;
        let length = usize::try_from(length).ok()?;
        let usable = self.usable()?;
        let most = usable.checked_sub(35)?;
        let (here, next) = if length <= most {
            (length, 0)
        } else {
            let least = (usable.checked_sub(12)? * 32 / 255).checked_sub(23)?;
            let fitting = least + (length - least) % (usable - 4);
            let here = if fitting <= most { fitting } else { least };
            (here, u32_at(rest, here)?)
        };
        let record = rest.get(..here)?.to_vec();
        Some(Row { rows: self, columns: &table.columns, id: id as i64, record, length, next })
    }

    /// How many bytes of a page are SQLite's.
    fn usable(&self) -> Option<usize> {
        let usable =
            (self.snapshot.page_size as usize).checked_sub(self.snapshot.reserved.into())?;
        // SQLite takes no less; more than 40 bytes is all that is needed here.
        Some(usable).filter(|usable| *usable >= 480)
    }

    fn page(&self, number: u32) -> Result<Vec<u8>> {
        if number == 0 || number > self.snapshot.pages {
            return Err(self.damaged());
        }
        let mut page = vec![0; self.snapshot.page_size as usize];
        self.snapshot.read(self.path, number, &mut page)?;
        Ok(page)
    }

    fn damaged(&self) -> Error {
        damaged(self.path, "the rows of a table cannot be read")
    }
}

impl Row<'_> {
    /// The text in a column; nothing if it holds none, or there is no such column.
    pub fn text(&mut self, column: &str) -> Result<Option<String>> {
        Ok(match self.field(column)? {
            Field::Text(text) => Some(text),
            _ => None,
        })
    }

    /// The number in a column; nothing if it holds none, or there is no such column.
    pub fn integer(&mut self, column: &str) -> Result<Option<i64>> {
        Ok(match self.field(column)? {
            Field::Integer(number) => Some(number),
            _ => None,
        })
    }

    /// What a column holds. One that was added after the row was written holds nothing.
    pub fn field(&mut self, column: &str) -> Result<Field> {
        let Some(at) = self.columns.iter().position(|name| name.eq_ignore_ascii_case(column))
        else {
            return Ok(Field::Null);
        };
        let head = varint(&self.record).ok_or_else(|| self.rows.damaged())?.0;
        let head = usize::try_from(head).map_err(|_| self.rows.damaged())?;
        self.have(head)?;
        let (kind, from) = self.place(at, head).ok_or_else(|| self.rows.damaged())?;
        let end = from.checked_add(width(kind)).ok_or_else(|| self.rows.damaged())?;
        self.have(end)?;
        let bytes = self.record.get(from..end).ok_or_else(|| self.rows.damaged())?;
        Ok(match kind {
            0 => Field::Null,
            8 | 9 => Field::Integer(kind as i64 - 8),
            1..=6 => {
                let negative = bytes.first().is_some_and(|first| *first >= 0x80);
                let start = if negative { -1 } else { 0 };
                Field::Integer(bytes.iter().fold(start, |all, byte| all << 8 | i64::from(*byte)))
            }
            kind if kind >= 13 && kind % 2 == 1 => {
                Field::Text(decode(bytes, self.rows.snapshot.encoding))
            }
            _ => Field::Other,
        })
    }

    /// The kind of a column and where it begins; nothing if the record is damaged. A column that the
    /// record does not have is of the kind that holds nothing.
    fn place(&self, column: usize, head: usize) -> Option<(u64, usize)> {
        let (_, mut kinds) = varint(self.record.get(..head)?)?;
        let mut from = head;
        for _ in 0..column {
            if kinds.is_empty() {
                break;
            }
            let kind;
            (kind, kinds) = varint(kinds)?;
            from = from.checked_add(width(kind))?;
        }
        match kinds.is_empty() {
            true => Some((0, head)),
            false => Some((varint(kinds)?.0, from)),
        }
    }

    /// Reads on until the record's first `length` bytes are there.
    fn have(&mut self, length: usize) -> Result<()> {
        if length > self.length || length > ROW_MAX {
            return Err(self.rows.damaged());
        }
        let usable = self.rows.usable().ok_or_else(|| self.rows.damaged())?;
        while self.record.len() < length {
            let page = self.rows.page(self.next)?;
            let rest = (self.length - self.record.len()).min(usable - 4);
            self.record.extend_from_slice(page.get(4..4 + rest).unwrap_or_default());
            self.next = u32_at(&page, 0).unwrap_or(0);
        }
        Ok(())
    }
}

/// How many bytes a value of a kind takes.
fn width(kind: u64) -> usize {
    match kind {
        0 | 8..=11 => 0,
        1..=4 => kind as usize,
        5 => 6,
        6 | 7 => 8,
        _ => usize::try_from((kind - 12) / 2).unwrap_or(usize::MAX),
    }
}

/// What the rules of a table begin with, behind its columns.
const RULES: [&str; 5] = ["constraint", "primary", "foreign", "unique", "check"];

/// The columns that a line of the schema names, in order; nothing if the table has no row ids.
fn columns(sql: &str) -> Option<Vec<String>> {
    let open = sql.find('(')?;
    let mut parts = vec![String::new()];
    let (mut depth, mut quote) = (0, None);
    let mut behind = sql.len();
    for (at, char) in sql.char_indices().skip_while(|(at, _)| *at < open) {
        let within = match (quote, char) {
            (Some(end), char) => {
                quote = Some(end).filter(|end| *end != char);
                true
            }
            (None, '`' | '"' | '\'') => {
                quote = Some(char);
                true
            }
            (None, '[') => {
                quote = Some(']');
                true
            }
            (None, '(') => {
                depth += 1;
                depth > 1
            }
            (None, ')') => {
                depth -= 1;
                depth > 0
            }
            (None, ',') if depth == 1 => {
                parts.push(String::new());
                false
            }
            _ => true,
        };
        if within && let Some(part) = parts.last_mut() {
            part.push(char);
        }
        if depth == 0 {
            behind = at + 1;
            break;
        }
    }
    let rest: Vec<&str> = sql.get(behind..)?.split_whitespace().collect();
    let is_without = |pair: &[&str]| {
        pair[0].trim_matches(',').eq_ignore_ascii_case("without")
            && pair[1].trim_matches(',').eq_ignore_ascii_case("rowid")
    };
    if rest.windows(2).any(is_without) {
        return None;
    }
    let names = parts.iter().filter_map(|part| name(part));
    Some(
        names
            .take_while(|(name, quoted)| {
                *quoted || !RULES.iter().any(|rule| name.eq_ignore_ascii_case(rule))
            })
            .map(|(name, _)| name)
            .collect(),
    )
}

/// The name at the start of a column's definition, and whether it stands in quotes.
fn name(part: &str) -> Option<(String, bool)> {
    let part = part.trim_start();
    let first = part.chars().next()?;
    let end = match first {
        '`' | '"' | '\'' => first,
        '[' => ']',
        _ => {
            let end = part.find(|char: char| char.is_whitespace() || char == '(');
            return Some((part[..end.unwrap_or(part.len())].to_owned(), false));
        }
    };
    let rest = &part[1..];
    Some((rest[..rest.find(end)?].to_owned(), true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_named_in_order() {
        let sql = "CREATE TABLE `part` (\n `id` text PRIMARY KEY,\n [time, x] integer DEFAULT (1, 2), \"check\" text, \
                   data text DEFAULT ',)' NOT NULL, CONSTRAINT `fk` FOREIGN KEY (`id`) REFERENCES `x`(`id`))";
        assert_eq!(columns(sql).unwrap(), ["id", "time, x", "check", "data"]);
        assert_eq!(columns("CREATE TABLE x(a PRIMARY KEY) WITHOUT  ROWID"), None);
        assert_eq!(columns("CREATE TABLE x(a) STRICT").unwrap(), ["a"]);
        assert_eq!(columns("nonsense"), None);
    }
}
