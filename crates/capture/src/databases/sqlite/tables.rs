//! The tables of a database and how many rows each has, read from its B-trees.
//!
//! No SQL is run: a schema may call for extensions and collations that are not here, and nothing in
//! it should run because of a capture. A table's rows are the cells of its leaves; where tables keep
//! rows in inner nodes too (`WITHOUT ROWID`), those count as well. Every page was seen while it was
//! stored, so only inner nodes are read again.

use std::collections::BTreeMap;
use std::path::Path;

use super::pages::Glimpse;
use super::snapshot::{HEADER, Snapshot, damaged};
use crate::databases::Result;

/// Databases with more pages have their tables listed and not counted.
pub(super) const COUNTED_MAX: usize = 1 << 24;
/// A line of the schema is read up to here, which is far behind all that matters in it.
const LINE_MAX: usize = 64 << 10;
/// A way down a B-tree is never longer.
const DEPTH_MAX: usize = 64;

const INNER_INDEX: u8 = 2;
pub(super) const INNER_TABLE: u8 = 5;
const LEAF_INDEX: u8 = 10;
pub(super) const LEAF_TABLE: u8 = 13;

/// What virtual tables of SQLite's own extensions keep their content in.
const SHADOWS: [&str; 11] = [
    "config", "content", "data", "docsize", "idx", "node", "parent", "rowid", "segdir", "segments",
    "stat",
];

/// The tables in order, and the rows of those that were counted.
pub(super) fn list(
    snapshot: &Snapshot,
    path: &Path,
    glimpses: &[Glimpse],
) -> Result<(Vec<String>, BTreeMap<String, u64>)> {
    if glimpses.is_empty() {
        return Ok(Default::default());
    }
    let trees = Trees { snapshot, path, glimpses };
    let mut tables = trees.tables()?;
    let virtuals: Vec<String> =
        tables.iter().filter(|(_, root)| *root == 0).map(|(name, _)| name.clone()).collect();
    tables.retain(|(name, _)| {
        let shadow = virtuals.iter().any(|of| {
            let rest = name.strip_prefix(of.as_str()).and_then(|rest| rest.strip_prefix('_'));
            rest.is_some_and(|rest| SHADOWS.contains(&rest))
        });
        !shadow && !name.starts_with("sqlite_")
    });
    tables.sort();
    tables.dedup_by(|a, b| a.0 == b.0);
    let mut rows = BTreeMap::new();
    if glimpses.len() <= COUNTED_MAX {
        for (name, root) in tables.iter().filter(|(_, root)| *root != 0) {
            rows.insert(name.clone(), trees.count(*root)?);
        }
    }
    Ok((tables.into_iter().map(|(name, _)| name).collect(), rows))
}

struct Trees<'a> {
    snapshot: &'a Snapshot,
    path: &'a Path,
    glimpses: &'a [Glimpse],
}

pub(super) fn u16_at(bytes: &[u8], at: usize) -> Option<usize> {
    Some(usize::from(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?)))
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// A number of SQLite's: seven bits a byte, highest first, the ninth byte whole. And what follows.
pub(super) fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0u64;
    for (at, &byte) in bytes.iter().take(9).enumerate() {
        if at == 8 {
            return Some((value << 8 | u64::from(byte), &bytes[9..]));
        }
        value = value << 7 | u64::from(byte & 0x7f);
        if byte < 0x80 {
            return Some((value, &bytes[at + 1..]));
        }
    }
    None
}

impl Trees<'_> {
    fn page(&self, number: u32) -> Result<Vec<u8>> {
        if number == 0 || number > self.snapshot.pages {
            return Err(self.damaged());
        }
        let mut page = vec![0; self.snapshot.page_size as usize];
        self.snapshot.read(self.path, number, &mut page)?;
        Ok(page)
    }

    fn damaged(&self) -> crate::databases::Error {
        damaged(self.path, "a table's pages do not hang together")
    }

    fn glimpse(&self, number: u32) -> Result<Glimpse> {
        let at = (number as usize).checked_sub(1);
        at.and_then(|at| self.glimpses.get(at)).copied().ok_or_else(|| self.damaged())
    }

    /// The cells of a node, each from its beginning to the end of the page.
    fn cells<'p>(&self, number: u32, page: &'p [u8]) -> Result<Vec<&'p [u8]>> {
        let head = if number == 1 { HEADER } else { 0 };
        let inner = matches!(page[head], INNER_INDEX | INNER_TABLE);
        let table = head + if inner { 12 } else { 8 };
        let cells = (0..u16_at(page, head + 3).unwrap_or(0))
            .map(|cell| page.get(u16_at(page, table + 2 * cell)?..));
        cells.collect::<Option<_>>().ok_or_else(|| self.damaged())
    }

    /// The nodes right below an inner one.
    fn below(&self, number: u32) -> Result<Vec<u32>> {
        let page = self.page(number)?;
        let head = if number == 1 { HEADER } else { 0 };
        let cells = self.cells(number, &page)?;
        let below = cells.iter().map(|cell| u32_at(cell, 0)).chain([u32_at(&page, head + 8)]);
        below.collect::<Option<_>>().ok_or_else(|| self.damaged())
    }

    /// Calls `node` for each node that has rows, with what was seen of it.
    fn walk(&self, root: u32, mut node: impl FnMut(u32, Glimpse) -> Result<()>) -> Result<()> {
        let kinds = match self.glimpse(root)?.kind {
            INNER_TABLE | LEAF_TABLE => [INNER_TABLE, LEAF_TABLE],
            _ => [INNER_INDEX, LEAF_INDEX],
        };
        let mut left = self.glimpses.len();
        let mut open = vec![(root, 0)];
        while let Some((number, depth)) = open.pop() {
            let glimpse = self.glimpse(number)?;
            // A page that is met more often than there are pages is met in a circle.
            left = left.checked_sub(1).ok_or_else(|| self.damaged())?;
            if !kinds.contains(&glimpse.kind) || depth > DEPTH_MAX {
                return Err(self.damaged());
            }
            if glimpse.kind != INNER_TABLE {
                node(number, glimpse)?;
            }
            if glimpse.kind == kinds[0] {
                open.extend(self.below(number)?.into_iter().rev().map(|below| (below, depth + 1)));
            }
        }
        Ok(())
    }

    fn count(&self, root: u32) -> Result<u64> {
        let mut rows = 0;
        self.walk(root, |_, glimpse| {
            rows += u64::from(glimpse.cells);
            Ok(())
        })?;
        Ok(rows)
    }

    /// Every table of the schema with its root page; that of a virtual one is 0.
    fn tables(&self) -> Result<Vec<(String, u32)>> {
        let mut tables = Vec::new();
        self.walk(1, |number, _| {
            let page = self.page(number)?;
            for cell in self.cells(number, &page)? {
                let line = self.payload(cell)?;
                let (kind, name, root) = self.line(&line).ok_or_else(|| self.damaged())?;
                if kind == "table" {
                    tables.push((name, root));
                }
            }
            Ok(())
        })?;
        Ok(tables)
    }

    /// The beginning of a row's record, put together from the pages it runs over.
    fn payload(&self, cell: &[u8]) -> Result<Vec<u8>> {
        let parse = || {
            let (length, rest) = varint(cell)?;
            let (_, rest) = varint(rest)?;
            let length = usize::try_from(length).ok()?;
            let usable =
                (self.snapshot.page_size as usize).checked_sub(self.snapshot.reserved.into())?;
            let most = usable.checked_sub(35)?;
            if length <= most {
                return Some((rest.get(..length)?.to_vec(), length, 0, usable));
            }
            let least = (usable.checked_sub(12)? * 32 / 255).checked_sub(23)?;
            let fitting = least + (length - least) % (usable - 4);
            let here = if fitting <= most { fitting } else { least };
            Some((rest.get(..here)?.to_vec(), length, u32_at(rest, here)?, usable))
        };
        let (mut bytes, length, mut next, usable) = parse().ok_or_else(|| self.damaged())?;
        while next != 0 && bytes.len() < length.min(LINE_MAX) {
            let page = self.page(next)?;
            let take = (length - bytes.len()).min(usable - 4);
            bytes.extend_from_slice(page.get(4..4 + take).unwrap_or_default());
            next = u32_at(&page, 0).unwrap_or(0);
        }
        Ok(bytes)
    }

    /// What a line of the schema is about: its kind, its name, its root page or 0.
    fn line(&self, line: &[u8]) -> Option<(String, String, u32)> {
        let (head, _) = varint(line)?;
        let mut body = usize::try_from(head).ok()?;
        let mut types = line.get(..body)?;
        (_, types) = varint(types)?;
        let mut fields: [&[u8]; 4] = Default::default();
        for field in &mut fields {
            let kind;
            (kind, types) = varint(types)?;
            let length = match kind {
                0 | 8 | 9 => 0,
                1..=4 => kind as usize,
                5 => 6,
                6 | 7 => 8,
                _ => usize::try_from((kind - 12) / 2).ok()?,
            };
            *field = line.get(body..body.checked_add(length)?)?;
            // The constants 0 and 1 take no bytes; a root page is never 1 but for the schema's own.
            if kind == 9 {
                *field = &[1];
            }
            body += length;
        }
        let [kind, name, _, root] = fields;
        let root = root.iter().fold(0u64, |root, &byte| root << 8 | u64::from(byte));
        Some((self.text(kind), self.text(name), u32::try_from(root).ok()?))
    }

    fn text(&self, bytes: &[u8]) -> String {
        decode(bytes, self.snapshot.encoding)
    }
}

/// A text in the encoding that the header names.
pub(super) fn decode(bytes: &[u8], encoding: u32) -> String {
    let wide = |word: fn([u8; 2]) -> u16| {
        let (pairs, _) = bytes.as_chunks::<2>();
        let units: Vec<u16> = pairs.iter().map(|&pair| word(pair)).collect();
        String::from_utf16_lossy(&units)
    };
    match encoding {
        2 => wide(u16::from_le_bytes),
        3 => wide(u16::from_be_bytes),
        _ => String::from_utf8_lossy(bytes).into_owned(),
    }
}
