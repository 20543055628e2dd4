//! Taking runs into the index, each in one transaction.

use std::collections::HashMap;

use rappel_types::CheckpointId;
use rusqlite::{OptionalExtension, Transaction, params};

use super::{Body, Entry, Row3, burials, happened, journal, let_go, live, position_text};
use crate::gc::sweep::NEXT;
use crate::log::{Commit, Position};
use crate::outline::Outline;
use crate::pack::PackId;
use crate::record::Kind;

/// A run with more objects goes straight to the sorted table.
const RECENT_RUN_MAX: usize = 1024;
/// When this many objects wait in recent runs, they are merged into the sorted table.
const RECENT_MAX: usize = 8192;

/// Whose rows go with their pack.
const TABLES: [&str; 9] =
    ["object", "document", "checkpoint", "tagged", "burial", "let_go", "event", "snapshot", "held"];

/// What taking in a run changed of what is kept in memory.
pub(super) enum Applied {
    /// Nothing: somebody else had taken it in before, or is just building the index anew.
    Before,
    /// The tables were rearranged.
    Rearranged,
    /// These were added.
    Added { packs: Vec<(u32, PackId)>, recent: Vec<(i64, Row3)> },
}

/// A run to take in.
pub(super) struct Batch<'a> {
    pub entries: &'a [Entry],
    pub commit: Option<&'a Commit>,
    pub position: Option<&'a Position>,
    /// The sequence that the index must be at; `None` takes any below the run's.
    pub behind: Option<u64>,
}

fn encode_recent(out: &mut Vec<u8>, key: i64, (pack, offset, slot): Row3) {
    out.extend_from_slice(&key.to_le_bytes());
    out.extend_from_slice(&pack.to_le_bytes());
    out.extend_from_slice(&offset.to_le_bytes());
    out.extend_from_slice(&slot.to_le_bytes());
}

pub(super) fn decode_recent(line: &[u8]) -> (i64, Row3) {
    let mut cursor = crate::varint::Cursor::new(line, "recent objects");
    let mut bytes = |_| cursor.array::<8>().unwrap_or_default();
    let key = i64::from_le_bytes(bytes(0));
    let mixed = bytes(1);
    let rest = bytes(2);
    let pack = u32::from_le_bytes([mixed[0], mixed[1], mixed[2], mixed[3]]);
    let offset = u64::from_le_bytes([
        mixed[4], mixed[5], mixed[6], mixed[7], rest[0], rest[1], rest[2], rest[3],
    ]);
    let slot = i32::from_le_bytes([rest[4], rest[5], rest[6], rest[7]]);
    (key, (pack, offset, slot))
}

fn pack_number(transaction: &Transaction<'_>, pack: PackId, birth: u64) -> rusqlite::Result<u32> {
    let name = pack.to_string();
    transaction
        .prepare_cached("INSERT OR IGNORE INTO pack (name, length, birth) VALUES (?1, 0, ?2)")?
        .execute(params![name, birth])?;
    transaction
        .prepare_cached("SELECT number FROM pack WHERE name = ?1")?
        .query_row([name], |row| row.get(0))
}

pub(super) fn merge_recent(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    let mut rows: Vec<(i64, Row3)> = Vec::new();
    {
        let mut statement = transaction.prepare_cached("SELECT objects FROM recent")?;
        let mut found = statement.query([])?;
        while let Some(row) = found.next()? {
            let blob = row.get_ref(0)?.as_blob().unwrap_or_default();
            rows.extend(blob.chunks_exact(24).map(decode_recent));
        }
    }
    insert_objects(transaction, rows)?;
    transaction.execute("DELETE FROM recent", [])?;
    Ok(())
}

fn insert_objects(
    transaction: &Transaction<'_>,
    mut rows: Vec<(i64, Row3)>,
) -> rusqlite::Result<()> {
    rows.sort_unstable();
    let mut insert = transaction.prepare_cached(
        "INSERT OR IGNORE INTO object (key, pack, offset, slot) VALUES (?1, ?2, ?3, ?4)",
    )?;
    for (key, (pack, offset, slot)) in rows {
        insert.execute(params![key, pack, offset, slot])?;
    }
    Ok(())
}

pub(super) fn apply_batch(
    transaction: &Transaction<'_>,
    batch: &Batch<'_>,
    recent_count: usize,
) -> rusqlite::Result<Applied> {
    if let Some(position) = batch.position {
        let known: Option<u64> = transaction
            .prepare_cached("SELECT value FROM meta WHERE key = 'sequence'")?
            .query_row([], |row| row.get(0))
            .optional()?;
        let known = known.unwrap_or(0);
        let fits = match batch.behind {
            Some(behind) => known == behind && !is_incomplete(transaction)?,
            None => known < position.sequence,
        };
        if !fits {
            return Ok(Applied::Before);
        }
        if position.generation > 0 {
            happened::note_collection(transaction, position)?;
        }
    }
    let mut objects: Vec<(i64, Row3)> = Vec::new();
    let mut numbers: HashMap<PackId, u32> = HashMap::new();
    if let Some(commit) = batch.commit {
        for named in &commit.packs {
            let birth = named.birth.unwrap_or(commit.sequence);
            let number = pack_number(transaction, named.pack, birth)?;
            transaction
                .prepare_cached("UPDATE pack SET length = ?2, hash = ?3 WHERE number = ?1")?
                .execute(params![number, named.length, named.hash.0])?;
        }
    }
    for entry in batch.entries {
        let number = match numbers.get(&entry.pack) {
            Some(number) => *number,
            None => {
                let number = pack_number(transaction, entry.pack, entry.birth)?;
                numbers.insert(entry.pack, number);
                number
            }
        };
        match &entry.body {
            Body::Objects(slots) => {
                for (slot, id) in slots.iter().enumerate() {
                    objects.push((id.key(), (number, entry.offset, slot as i32)));
                }
            }
            Body::Object => objects.push((entry.id.key(), (number, entry.offset, -1))),
            Body::Manifest(outline) => {
                objects.push((entry.id.key(), (number, entry.offset, -1)));
                insert_checkpoint(transaction, entry, outline, number)?;
            }
            Body::Document { key, json } if entry.kind == Kind::Event => {
                journal::insert_event(transaction, key, json, (entry.birth, number))?;
            }
            Body::Document { key, json } if entry.kind == Kind::Session => {
                journal::insert_snapshot(transaction, key, json, (entry.birth, number))?;
            }
            Body::Document { key, json } => {
                transaction
                    .prepare_cached(
                        "INSERT OR IGNORE INTO document (kind, key, birth, id, body, pack, offset)
                         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                    )?
                    .execute(params![
                        entry.kind as u8,
                        key,
                        entry.birth,
                        entry.id.0,
                        json,
                        number,
                        entry.offset
                    ])?;
                burials::insert(transaction, (entry.kind, json), entry.birth, number)?;
                match entry.kind {
                    Kind::Tombstone => let_go::insert(transaction, json, entry.birth, number)?,
                    Kind::Label => {
                        live::insert_label(transaction, (key, json), entry.birth, number)?;
                    }
                    _ => {}
                }
            }
        }
    }
    let mut rearranged = false;
    let mut recent = Vec::new();
    if objects.len() > RECENT_RUN_MAX || batch.commit.is_none() {
        insert_objects(transaction, objects)?;
    } else if let Some(commit) = batch.commit
        && !objects.is_empty()
    {
        let mut blob = Vec::with_capacity(objects.len() * 24);
        for (key, place) in &objects {
            encode_recent(&mut blob, *key, *place);
        }
        transaction
            .prepare_cached("INSERT OR REPLACE INTO recent (sequence, objects) VALUES (?1, ?2)")?
            .execute(params![commit.sequence, blob])?;
        rearranged = recent_count + objects.len() > RECENT_MAX;
        if rearranged {
            merge_recent(transaction)?;
        }
        recent = objects;
    }
    if let Some(commit) = batch.commit
        && !commit.retired.is_empty()
    {
        retire(transaction, commit)?;
        rearranged = true;
    }
    let deletes = batch.entries.iter().any(|entry| entry.kind == Kind::Tombstone);
    if deletes || batch.commit.is_some_and(|commit| !commit.retired.is_empty()) {
        transaction.execute("DELETE FROM meta WHERE key = ?1", [NEXT])?;
    }
    if let Some(position) = batch.position {
        transaction
            .prepare_cached("INSERT OR REPLACE INTO meta (key, value) VALUES ('position', ?1)")?
            .execute([position_text(position)])?;
        transaction
            .prepare_cached("INSERT OR REPLACE INTO meta (key, value) VALUES ('sequence', ?1)")?
            .execute([position.sequence])?;
    }
    if rearranged {
        return Ok(Applied::Rearranged);
    }
    let packs = numbers.into_iter().map(|(pack, number)| (number, pack)).collect();
    Ok(Applied::Added { packs, recent })
}

fn insert_checkpoint(
    transaction: &Transaction<'_>,
    entry: &Entry,
    outline: &Outline,
    pack: u32,
) -> rusqlite::Result<()> {
    // One row per record: of several, the one with the highest birth counts, and which of them go
    // with their pack is known only then.
    transaction
        .prepare_cached(
            "INSERT OR IGNORE INTO checkpoint (id, workspace, sequence, created_at, trigger,
                 holds_files, manifest, birth, parent, description, session, pack, offset,
                 folded)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
        )?
        .execute(params![
            outline.id.as_str(),
            outline.workspace.0 as i64,
            outline.sequence,
            outline.created_at.as_millis(),
            outline.trigger,
            outline.holds_files,
            entry.id.0,
            entry.birth,
            outline.parent.as_ref().map(CheckpointId::as_str),
            outline.description,
            outline.session,
            pack,
            entry.offset,
            live::is_folded(outline),
        ])?;
    live::insert_tags(transaction, outline, pack)?;
    journal::insert_held(transaction, outline, pack)
}

fn retire(transaction: &Transaction<'_>, commit: &Commit) -> rusqlite::Result<()> {
    merge_recent(transaction)?;
    for pack in &commit.retired {
        let number = pack_number(transaction, *pack, 0)?;
        // A pack is listed as long as it exists; its grace runs from the first time.
        transaction.execute(
            "UPDATE pack SET retired_at = coalesce(retired_at, ?2) WHERE number = ?1",
            params![number, commit.at.as_millis()],
        )?;
        for table in TABLES {
            transaction.execute(&format!("DELETE FROM {table} WHERE pack = ?1"), [number])?;
        }
    }
    Ok(())
}

/// Whether the index is being built and lacks something that lies before its position.
pub(super) fn is_incomplete(connection: &rusqlite::Connection) -> rusqlite::Result<bool> {
    connection
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM meta WHERE key = 'incomplete')")?
        .query_row([], |row| row.get(0))
}
