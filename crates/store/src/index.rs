//! The index: a view of the log in SQLite. It says where each object lies and what the small
//! documents say. It is never the only place where something is known: delete it, and it is built
//! again from the packs.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use rappel_types::{CheckpointId, Manifest, ObjectId, WorkspaceId};
use rusqlite::{Connection, OptionalExtension, Transaction, params};

use crate::document::Tombstone;
use crate::error::{Error, Result};
use crate::log::{Commit, Position};
use crate::pack::PackId;
use crate::record::Kind;

/// Rows of another version are not read: the index is rebuilt instead.
const VERSION: i64 = 1;
/// A run with more objects goes straight to the sorted table.
const RECENT_RUN_MAX: usize = 1024;
/// When this many objects wait in recent runs, they are merged into the sorted table.
const RECENT_MAX: usize = 8192;
/// The write-ahead log is emptied into the database when it is larger than this.
const WAL_MAX: u64 = 192 << 10;

const SCHEMA: &str = "
CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE pack (
    number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE,
    length INTEGER NOT NULL, hash BLOB, birth INTEGER NOT NULL,
    retired_at INTEGER, retired_by INTEGER);
-- key: the first eight bytes of the object's id; slot -1: the record itself.
CREATE TABLE object (
    key INTEGER NOT NULL, pack INTEGER NOT NULL, offset INTEGER NOT NULL, slot INTEGER NOT NULL,
    PRIMARY KEY (key, pack, offset, slot)) WITHOUT ROWID;
-- objects of the newest small runs: 8 bytes key, 4 pack, 8 offset, 4 slot each, little endian.
CREATE TABLE recent (sequence INTEGER PRIMARY KEY, objects BLOB NOT NULL);
CREATE TABLE checkpoint (
    number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, workspace INTEGER NOT NULL,
    sequence INTEGER NOT NULL, created_at INTEGER NOT NULL, trigger TEXT NOT NULL,
    holds_files INTEGER NOT NULL, manifest BLOB NOT NULL, birth INTEGER NOT NULL,
    parent TEXT, description TEXT, session TEXT, pack INTEGER NOT NULL);
CREATE INDEX checkpoint_by_workspace ON checkpoint (workspace, sequence);
CREATE TABLE document (
    kind INTEGER NOT NULL, key TEXT NOT NULL, birth INTEGER NOT NULL, id BLOB NOT NULL,
    body TEXT NOT NULL, pack INTEGER NOT NULL, offset INTEGER NOT NULL,
    PRIMARY KEY (kind, key, birth, id)) WITHOUT ROWID;
";

/// Where an object is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The pack.
    pub pack: PackId,
    /// Where its record begins.
    pub offset: u64,
    /// Its line in a block's table; `None` if the record is the object.
    pub slot: Option<u32>,
}

/// A record as the index takes it in.
#[derive(Debug)]
pub struct Entry {
    /// Where it is.
    pub pack: PackId,
    /// See `pack`.
    pub offset: u64,
    /// What it is.
    pub kind: Kind,
    /// Its id.
    pub id: ObjectId,
    /// The commit it was born with.
    pub birth: u64,
    /// What it holds.
    pub body: Body,
}

/// What a record holds, as far as the index cares.
#[derive(Debug)]
pub enum Body {
    /// A block's objects, each with its base.
    Objects(Vec<(ObjectId, Option<ObjectId>)>),
    /// The record is one object.
    Object,
    /// A manifest (also an object, because later ones are stored against it).
    Manifest(Box<Manifest>),
    /// A small document about `key`.
    Document {
        /// The checkpoint, workspace or session it is about.
        key: String,
        /// Its JSON.
        json: String,
    },
}

/// A checkpoint's row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointRow {
    /// Its name.
    pub id: CheckpointId,
    /// Its workspace.
    pub workspace: WorkspaceId,
    /// Its number there.
    pub sequence: u64,
    /// Whether it holds files.
    pub holds_files: bool,
    /// Its manifest's object.
    pub manifest: ObjectId,
    /// The commit it was born with.
    pub birth: u64,
    /// Why it was made.
    pub trigger: String,
    /// When, in milliseconds since the epoch.
    pub created_at: i64,
    /// The checkpoint it follows.
    pub parent: Option<String>,
}

/// A small document, as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentRow {
    /// What it is about.
    pub key: String,
    /// The commit it was born with.
    pub birth: u64,
    /// Its JSON.
    pub json: String,
}

/// A pack's row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackRow {
    /// Which.
    pub pack: PackId,
    /// Length as committed (0 for log packs, which grow).
    pub length: u64,
    /// The hash over a bulk pack.
    pub hash: Option<ObjectId>,
    /// The commit that brought it.
    pub birth: u64,
    /// When it was retired, in milliseconds since the epoch.
    pub retired_at: Option<i64>,
}

/// The view.
pub struct Index {
    connection: Connection,
    path: PathBuf,
    recent: HashMap<i64, Vec<(u32, u64, i32)>>,
    recent_count: usize,
    packs: HashMap<u32, PackId>,
    data_version: i64,
}

type Row3 = (u32, u64, i32);

impl Index {
    /// Opens the database, or creates an empty one. `None` if there is one that cannot be used:
    /// the caller deletes it and asks again.
    pub fn open(path: &Path) -> Result<Option<Self>> {
        match Self::try_open(path) {
            Ok(index) => Ok(index),
            Err(Error::Index { source, .. }) if is_unusable(&source) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn try_open(path: &Path) -> Result<Option<Self>> {
        let fail = |source| Error::Index { path: path.to_owned(), source };
        let connection = Connection::open(path).map_err(fail)?;
        connection.busy_timeout(std::time::Duration::from_secs(30)).map_err(fail)?;
        connection
            .set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)
            .map_err(fail)?;
        connection
            .execute_batch(
                "PRAGMA page_size=1024; PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;
                 PRAGMA wal_autocheckpoint=0; PRAGMA temp_store=MEMORY; PRAGMA cache_size=-8192;",
            )
            .map_err(fail)?;
        let version: i64 =
            connection.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(fail)?;
        let tables: i64 = connection
            .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
            .map_err(fail)?;
        let mut index = Self {
            connection,
            path: path.to_owned(),
            recent: HashMap::new(),
            recent_count: 0,
            packs: HashMap::new(),
            data_version: -1,
        };
        if tables == 0 && version == 0 {
            let transaction = index.connection.transaction().map_err(fail)?;
            // Two processes may both find it empty; the second one finds it done.
            let tables: i64 = transaction
                .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
                .map_err(fail)?;
            if tables == 0 {
                transaction.execute_batch(SCHEMA).map_err(fail)?;
                transaction.pragma_update(None, "user_version", VERSION).map_err(fail)?;
            }
            transaction.commit().map_err(fail)?;
        } else if version != VERSION {
            return Ok(None);
        }
        index.reload()?;
        Ok(Some(index))
    }

    fn fail(&self) -> impl Fn(rusqlite::Error) -> Error + use<> {
        let path = self.path.clone();
        move |source| Error::Index { path: path.clone(), source }
    }

    /// Reads again what is kept in memory, if another process changed the database.
    pub fn reload(&mut self) -> Result<()> {
        let fail = self.fail();
        let version: i64 = self
            .connection
            .query_row("PRAGMA data_version", [], |row| row.get(0))
            .map_err(&fail)?;
        if version == self.data_version {
            return Ok(());
        }
        self.load()?;
        self.data_version = version;
        Ok(())
    }

    fn load(&mut self) -> Result<()> {
        let fail = self.fail();
        self.recent.clear();
        self.packs.clear();
        self.recent_count = 0;
        let mut statement =
            self.connection.prepare_cached("SELECT number, name FROM pack").map_err(&fail)?;
        let mut rows = statement.query([]).map_err(&fail)?;
        while let Some(row) = rows.next().map_err(&fail)? {
            let name: String = row.get(1).map_err(&fail)?;
            if let Some(pack) = PackId::from_name(&name) {
                self.packs.insert(row.get(0).map_err(&fail)?, pack);
            }
        }
        let mut statement =
            self.connection.prepare_cached("SELECT objects FROM recent").map_err(&fail)?;
        let mut rows = statement.query([]).map_err(&fail)?;
        while let Some(row) = rows.next().map_err(&fail)? {
            let blob = row.get_ref(0).map_err(&fail)?.as_blob().unwrap_or_default();
            for line in blob.chunks_exact(24) {
                let (key, place) = decode_recent(line);
                self.recent.entry(key).or_default().push(place);
                self.recent_count += 1;
            }
        }
        Ok(())
    }

    /// The last commit that the index has taken in.
    pub fn position(&self) -> Result<Option<Position>> {
        let fail = self.fail();
        let json: Option<String> = self
            .connection
            .prepare_cached("SELECT value FROM meta WHERE key = 'position'")
            .and_then(|mut statement| statement.query_row([], |row| row.get(0)).optional())
            .map_err(&fail)?;
        Ok(json.and_then(|json| {
            let (pack, offset, end, id, sequence, generation) =
                serde_json::from_str::<(u64, u64, u64, ObjectId, u64, u64)>(&json).ok()?;
            Some(Position { pack, offset, end, id, sequence, generation })
        }))
    }

    /// Every place where an object with this id may be. A hint: the record there decides.
    pub fn find(&mut self, id: &ObjectId) -> Result<Vec<Place>> {
        let key = id.key();
        let mut found: Vec<Row3> = self.recent.get(&key).cloned().unwrap_or_default();
        let fail = self.fail();
        let mut statement = self
            .connection
            .prepare_cached("SELECT pack, offset, slot FROM object WHERE key = ?1")
            .map_err(&fail)?;
        let rows = statement
            .query_map([key], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
            .map_err(&fail)?;
        for row in rows {
            found.push(row.map_err(&fail)?);
        }
        Ok(found.into_iter().filter_map(|row| self.place(row)).collect())
    }

    fn place(&self, (pack, offset, slot): Row3) -> Option<Place> {
        let pack = *self.packs.get(&pack)?;
        Some(Place { pack, offset, slot: u32::try_from(slot).ok() })
    }

    /// Whether the store holds no object at all.
    pub fn is_empty(&self) -> Result<bool> {
        if self.recent_count > 0 {
            return Ok(false);
        }
        self.connection
            .prepare_cached("SELECT NOT EXISTS (SELECT 1 FROM object)")
            .and_then(|mut statement| statement.query_row([], |row| row.get(0)))
            .map_err(self.fail())
    }

    /// Takes in a run, in one transaction. `commit` is `None` for a run whose commit is damaged.
    /// Skipped if the index already is at or behind `position`.
    pub fn apply(
        &mut self,
        entries: &[Entry],
        commit: Option<&Commit>,
        position: Option<&Position>,
    ) -> Result<()> {
        let fail = self.fail();
        let transaction = self
            .connection
            .transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)
            .map_err(&fail)?;
        let batch = Batch { entries, commit, position };
        let applied = apply_batch(&transaction, &batch, self.recent_count).map_err(&fail)?;
        transaction.commit().map_err(&fail)?;
        match applied {
            Applied::Before => self.reload()?,
            Applied::Rearranged => self.load()?,
            Applied::Added { packs, recent } => {
                self.packs.extend(packs);
                self.recent_count += recent.len();
                for (key, place) in recent {
                    self.recent.entry(key).or_default().push(place);
                }
            }
        }
        self.shrink_wal();
        Ok(())
    }

    /// Empties the write-ahead log when it has grown. Failing is fine: somebody else reads.
    fn shrink_wal(&self) {
        let mut wal = self.path.clone().into_os_string();
        wal.push("-wal");
        if std::fs::metadata(&wal).is_ok_and(|meta| meta.len() > WAL_MAX) {
            let _ = self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        }
    }

    /// Forgets everything, to be filled again from the log.
    pub fn clear(&mut self) -> Result<()> {
        let fail = self.fail();
        self.connection
            .execute_batch(
                "BEGIN IMMEDIATE; DELETE FROM meta; DELETE FROM pack; DELETE FROM object;
                 DELETE FROM recent; DELETE FROM checkpoint; DELETE FROM document; COMMIT;",
            )
            .map_err(&fail)?;
        self.load()
    }

    /// Removes objects whose chain of bases does not resolve: gc may have taken a base of what was
    /// already dead, and nobody may build on that.
    pub fn forget(&mut self, ids: &[ObjectId]) -> Result<()> {
        let fail = self.fail();
        self.merge_recent()?;
        let transaction = self.connection.transaction().map_err(&fail)?;
        for id in ids {
            transaction.execute("DELETE FROM object WHERE key = ?1", [id.key()]).map_err(&fail)?;
        }
        transaction.commit().map_err(&fail)?;
        self.load()
    }

    /// Moves the objects of recent runs into the sorted table.
    pub fn merge_recent(&mut self) -> Result<()> {
        let fail = self.fail();
        let transaction = self.connection.transaction().map_err(&fail)?;
        merge_recent(&transaction).map_err(&fail)?;
        transaction.commit().map_err(&fail)?;
        self.load()
    }

    /// The checkpoints that were not deleted, of one workspace or all, oldest first.
    pub fn checkpoints(&self, workspace: Option<WorkspaceId>) -> Result<Vec<CheckpointRow>> {
        let fail = self.fail();
        let filter = workspace.map(|id| id.0 as i64);
        let mut statement = self
            .connection
            .prepare_cached(
                "SELECT id, workspace, sequence, holds_files, manifest, birth, trigger, created_at, parent
                 FROM checkpoint c
                 WHERE (?1 IS NULL OR workspace = ?1) AND NOT EXISTS (
                     SELECT 1 FROM document d
                     WHERE d.kind = ?2 AND d.key = c.id AND d.birth > c.birth)
                 ORDER BY workspace, sequence",
            )
            .map_err(&fail)?;
        let rows = statement
            .query_map(params![filter, Kind::Tombstone as u8], checkpoint_row)
            .map_err(&fail)?;
        rows.collect::<Result<Vec<_>, _>>().map_err(&fail)
    }

    /// A checkpoint by its exact id, deleted or not; the flag says which.
    pub fn checkpoint(&self, id: &CheckpointId) -> Result<Option<(CheckpointRow, bool)>> {
        let fail = self.fail();
        self.connection
            .prepare_cached(
                "SELECT id, workspace, sequence, holds_files, manifest, birth, trigger, created_at, parent,
                     EXISTS (SELECT 1 FROM document d
                             WHERE d.kind = ?2 AND d.key = c.id AND d.birth > c.birth)
                 FROM checkpoint c WHERE id = ?1",
            )
            .and_then(|mut statement| {
                statement
                    .query_row(params![id.as_str(), Kind::Tombstone as u8], |row| {
                        Ok((checkpoint_row(row)?, row.get(9)?))
                    })
                    .optional()
            })
            .map_err(&fail)
    }

    /// The deleted checkpoints that gc has not collected yet.
    pub fn deleted(&self) -> Result<Vec<CheckpointRow>> {
        let fail = self.fail();
        let mut statement = self
            .connection
            .prepare_cached(
                "SELECT id, workspace, sequence, holds_files, manifest, birth, trigger, created_at, parent
                 FROM checkpoint c WHERE EXISTS (
                     SELECT 1 FROM document d
                     WHERE d.kind = ?1 AND d.key = c.id AND d.birth > c.birth)",
            )
            .map_err(&fail)?;
        let rows = statement.query_map([Kind::Tombstone as u8], checkpoint_row).map_err(&fail)?;
        rows.collect::<Result<Vec<_>, _>>().map_err(&fail)
    }

    /// The highest sequence number that a workspace's checkpoints have had, collected ones included.
    pub fn last_sequence(&self, workspace: WorkspaceId) -> Result<u64> {
        let held: u64 = self
            .connection
            .prepare_cached(
                "SELECT coalesce(max(sequence), 0) FROM checkpoint WHERE workspace = ?1",
            )
            .and_then(|mut statement| statement.query_row([workspace.0 as i64], |row| row.get(0)))
            .map_err(self.fail())?;
        let buried = self
            .documents(Kind::Tombstone, None)?
            .iter()
            .filter_map(|row| serde_json::from_str::<Tombstone>(&row.json).ok())
            .filter(|tombstone| tombstone.workspace == workspace)
            .map(|tombstone| tombstone.sequence)
            .max();
        Ok(held.max(buried.unwrap_or(0)))
    }

    /// The documents of a kind about `key` (or all), in the order of their birth.
    pub fn documents(&self, kind: Kind, key: Option<&str>) -> Result<Vec<DocumentRow>> {
        let fail = self.fail();
        let mut statement = self
            .connection
            .prepare_cached(
                "SELECT key, birth, body FROM document
                 WHERE kind = ?1 AND (?2 IS NULL OR key = ?2) ORDER BY birth",
            )
            .map_err(&fail)?;
        let rows = statement
            .query_map(params![kind as u8, key], |row| {
                Ok(DocumentRow { key: row.get(0)?, birth: row.get(1)?, json: row.get(2)? })
            })
            .map_err(&fail)?;
        rows.collect::<Result<Vec<_>, _>>().map_err(&fail)
    }

    /// Every pack that counts, or did until it was retired.
    pub fn packs(&self) -> Result<Vec<PackRow>> {
        let fail = self.fail();
        let mut statement = self
            .connection
            .prepare_cached(
                "SELECT name, length, hash, birth, retired_at FROM pack ORDER BY number",
            )
            .map_err(&fail)?;
        let rows = statement
            .query_map([], |row| {
                let hash: Option<Vec<u8>> = row.get(2)?;
                Ok((row.get::<_, String>(0)?, row.get(1)?, hash, row.get(3)?, row.get(4)?))
            })
            .map_err(&fail)?;
        let mut found = Vec::new();
        for row in rows {
            let (name, length, hash, birth, retired_at) = row.map_err(&fail)?;
            if let Some(pack) = PackId::from_name(&name) {
                let hash = hash.and_then(|hash| Some(ObjectId(hash.try_into().ok()?)));
                found.push(PackRow { pack, length, hash, birth, retired_at });
            }
        }
        Ok(found)
    }

    /// A number kept beside the view (a cache, like everything here).
    pub fn note(&self, key: &str) -> Result<Option<i64>> {
        self.connection
            .prepare_cached("SELECT value FROM meta WHERE key = ?1")
            .and_then(|mut statement| statement.query_row([key], |row| row.get(0)).optional())
            .map_err(self.fail())
    }

    /// Sets such a number.
    pub fn set_note(&self, key: &str, value: i64) -> Result<()> {
        self.connection
            .prepare_cached("INSERT OR REPLACE INTO meta (key, value) VALUES (?1, ?2)")
            .and_then(|mut statement| statement.execute(params![key, value]))
            .map_err(self.fail())?;
        Ok(())
    }
}

/// What taking in a run changed of what is kept in memory.
enum Applied {
    /// Nothing: somebody else had taken it in before.
    Before,
    /// The tables were rearranged.
    Rearranged,
    /// These were added.
    Added { packs: Vec<(u32, PackId)>, recent: Vec<(i64, Row3)> },
}

/// A run to take in.
struct Batch<'a> {
    entries: &'a [Entry],
    commit: Option<&'a Commit>,
    position: Option<&'a Position>,
}

fn is_unusable(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase, SchemaChanged};
    let corrupt =
        matches!(error.sqlite_error_code(), Some(DatabaseCorrupt | NotADatabase | SchemaChanged));
    corrupt
        || matches!(error, rusqlite::Error::SqliteFailure(_, Some(text)) if text.contains("no such"))
}

fn checkpoint_row(row: &rusqlite::Row<'_>) -> rusqlite::Result<CheckpointRow> {
    let id: String = row.get(0)?;
    let manifest: [u8; 32] = row.get(4)?;
    Ok(CheckpointRow {
        id: id.parse().map_err(|error| {
            rusqlite::Error::FromSqlConversionFailure(
                0,
                rusqlite::types::Type::Text,
                Box::new(error),
            )
        })?,
        workspace: WorkspaceId(row.get::<_, i64>(1)? as u64),
        sequence: row.get(2)?,
        holds_files: row.get(3)?,
        manifest: ObjectId(manifest),
        birth: row.get(5)?,
        trigger: row.get(6)?,
        created_at: row.get(7)?,
        parent: row.get(8)?,
    })
}

fn encode_recent(out: &mut Vec<u8>, key: i64, (pack, offset, slot): Row3) {
    out.extend_from_slice(&key.to_le_bytes());
    out.extend_from_slice(&pack.to_le_bytes());
    out.extend_from_slice(&offset.to_le_bytes());
    out.extend_from_slice(&slot.to_le_bytes());
}

fn decode_recent(line: &[u8]) -> (i64, Row3) {
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

fn merge_recent(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
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

fn apply_batch(
    transaction: &Transaction<'_>,
    batch: &Batch<'_>,
    recent_count: usize,
) -> rusqlite::Result<Applied> {
    if let Some(position) = batch.position {
        let known: Option<u64> = transaction
            .prepare_cached("SELECT value FROM meta WHERE key = 'sequence'")?
            .query_row([], |row| row.get(0))
            .optional()?;
        if known.is_some_and(|known| known >= position.sequence) {
            return Ok(Applied::Before);
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
                for (slot, (id, _)) in slots.iter().enumerate() {
                    objects.push((id.key(), (number, entry.offset, slot as i32)));
                }
            }
            Body::Object => objects.push((entry.id.key(), (number, entry.offset, -1))),
            Body::Manifest(manifest) => {
                objects.push((entry.id.key(), (number, entry.offset, -1)));
                insert_checkpoint(transaction, entry, manifest, number)?;
            }
            Body::Document { key, json } => {
                transaction
                    .prepare_cached(
                        "INSERT OR REPLACE INTO document (kind, key, birth, id, body, pack, offset)
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
    if let Some(position) = batch.position {
        let json = serde_json::to_string(&(
            position.pack,
            position.offset,
            position.end,
            position.id,
            position.sequence,
            position.generation,
        ))
        .unwrap_or_default();
        transaction
            .prepare_cached("INSERT OR REPLACE INTO meta (key, value) VALUES ('position', ?1)")?
            .execute([json])?;
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
    manifest: &Manifest,
    pack: u32,
) -> rusqlite::Result<()> {
    // A copy made by gc keeps its birth; an undeleted checkpoint has a later one, and that counts.
    transaction
        .prepare_cached(
            "INSERT INTO checkpoint (id, workspace, sequence, created_at, trigger, holds_files,
                 manifest, birth, parent, description, session, pack)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
             ON CONFLICT (id) DO UPDATE
             SET birth = max(birth, excluded.birth), pack = excluded.pack",
        )?
        .execute(params![
            manifest.id.as_str(),
            manifest.workspace.id.0 as i64,
            manifest.sequence,
            manifest.created_at.as_millis(),
            manifest.trigger.as_str(),
            manifest.holds_files(),
            entry.id.0,
            entry.birth,
            manifest.parent.as_ref().map(CheckpointId::as_str),
            manifest.description,
            manifest.session_id,
            pack,
        ])?;
    Ok(())
}

fn retire(transaction: &Transaction<'_>, commit: &Commit) -> rusqlite::Result<()> {
    merge_recent(transaction)?;
    for pack in &commit.retired {
        let number = pack_number(transaction, *pack, 0)?;
        transaction.execute(
            "UPDATE pack SET retired_at = ?2, retired_by = ?3 WHERE number = ?1",
            params![number, commit.at.as_millis(), commit.sequence],
        )?;
        for table in ["object", "document", "checkpoint"] {
            transaction.execute(&format!("DELETE FROM {table} WHERE pack = ?1"), [number])?;
        }
    }
    Ok(())
}
