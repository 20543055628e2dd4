//! The index: a view of the log in SQLite. It says where each object lies and what the small
//! documents say. It is never the only place where something is known: delete it, and it is built
//! again from the packs.

mod burials;
mod checked;
mod figures;
mod happened;
mod journal;
mod let_go;
mod live;
mod pages;
mod queries;
mod suspects;
mod take_in;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use rappel_types::{CheckpointId, ObjectId, WorkspaceId};
use rusqlite::{Connection, OpenFlags, OptionalExtension, params};
use take_in::{Applied, Batch, apply_batch, decode_recent, is_incomplete, merge_recent};

use crate::error::{Error, Result};
use crate::log::{Commit, Position};
use crate::outline::Outline;
use crate::pack::PackId;
use crate::record::Kind;

/// Rows of another version are not read: the index is rebuilt instead.
const VERSION: i64 = 11;
/// The write-ahead log is emptied into the database when it is larger than this.
const WAL_MAX: u64 = 512 << 10;
/// How long emptying it may wait for readers.
const WAL_PATIENCE: std::time::Duration = std::time::Duration::from_millis(20);
/// Questions that are kept ready.
const STATEMENTS: usize = 128;
/// How long somebody else may keep the database to themselves.
const BUSY_LIMIT: std::time::Duration = std::time::Duration::from_secs(30);

const SCHEMA: &str = "
CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE pack (
    number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE,
    length INTEGER NOT NULL, hash BLOB, birth INTEGER NOT NULL,
    retired_at INTEGER);
-- key: the first eight bytes of the object's id; slot -1: the record itself.
CREATE TABLE object (
    key INTEGER NOT NULL, pack INTEGER NOT NULL, offset INTEGER NOT NULL, slot INTEGER NOT NULL,
    PRIMARY KEY (key, pack, offset, slot)) WITHOUT ROWID;
-- objects of the newest small runs: 8 bytes key, 4 pack, 8 offset, 4 slot each, little endian.
CREATE TABLE recent (sequence INTEGER PRIMARY KEY, objects BLOB NOT NULL);
CREATE TABLE checkpoint (
    number INTEGER PRIMARY KEY, id TEXT NOT NULL, workspace INTEGER NOT NULL,
    sequence INTEGER NOT NULL, created_at INTEGER NOT NULL, trigger TEXT NOT NULL,
    holds_files INTEGER NOT NULL, manifest BLOB NOT NULL, birth INTEGER NOT NULL,
    parent TEXT, description TEXT, session TEXT, pack INTEGER NOT NULL, offset INTEGER NOT NULL,
    folded INTEGER NOT NULL, live INTEGER NOT NULL DEFAULT 0, UNIQUE (id, birth, pack, offset));
CREATE INDEX checkpoint_by_workspace ON checkpoint (workspace, sequence);
CREATE TABLE document (
    kind INTEGER NOT NULL, key TEXT NOT NULL, birth INTEGER NOT NULL, id BLOB NOT NULL,
    body TEXT NOT NULL, pack INTEGER NOT NULL, offset INTEGER NOT NULL,
    PRIMARY KEY (kind, key, birth, id, pack, offset)) WITHOUT ROWID;
";

/// Everything the schema has, in the order in which it is made.
const SCHEMAS: [&str; 6] =
    [SCHEMA, live::SCHEMA, burials::SCHEMA, let_go::SCHEMA, journal::SCHEMA, happened::SCHEMA];

pub use figures::{ExecutionRow, ToolRow};
pub use happened::{Happened, MadeRow};
pub use journal::{CallRow, EventRow, Hit, SnapshotRow};
pub use let_go::LetGo;
pub use pages::{Key, Of, Order, Wanted};
pub use queries::Meant;
pub(crate) use suspects::Suspect;

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
    /// A block's objects.
    Objects(Vec<ObjectId>),
    /// The record is one object.
    Object,
    /// A manifest (also an object, because later ones are stored against it).
    Manifest(Box<Outline>),
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
    /// Whether lists count it with another one instead of showing it: it holds agent state alone,
    /// and not because the user asked for just a part.
    pub folded: bool,
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

/// A record that has a row: its pack, its offset there, its birth, its id.
pub(crate) type RecordRow = (PackId, u64, u64, ObjectId);

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
    /// Which file it is; `None` for one in memory.
    identity: Option<String>,
    recent: HashMap<i64, Vec<(u32, u64, i32)>>,
    recent_count: usize,
    packs: HashMap<u32, PackId>,
    generation: u64,
    data_version: i64,
}

type Row3 = (u32, u64, i32);

impl Index {
    /// Opens the database that is there. `None` if it cannot be used, or is not finished: whoever
    /// holds the lock replaces it.
    pub fn open(path: &Path) -> Result<Option<Self>> {
        Self::open_or_create(path, OpenFlags::default() & !OpenFlags::SQLITE_OPEN_CREATE)
    }

    /// The same, for somebody who does not write to it.
    pub(crate) fn open_to_read(path: &Path) -> Result<Option<Self>> {
        let Some(index) = Self::open(path)? else { return Ok(None) };
        // There may be several in one process, and the system keeps the pages too.
        let settings = "PRAGMA query_only=ON; PRAGMA cache_size=-2048;";
        index.connection.execute_batch(settings).map_err(index.fail())?;
        Ok(Some(index))
    }

    /// Creates an empty one. Only under the lock, and where there is none.
    pub(crate) fn create(path: &Path) -> Result<Option<Self>> {
        create_private(path)?;
        Self::open_or_create(path, OpenFlags::default())
    }

    fn open_or_create(path: &Path, flags: OpenFlags) -> Result<Option<Self>> {
        let start = std::time::Instant::now();
        loop {
            match Self::try_open(path, flags) {
                Err(Error::Index { source, .. }) if is_unusable(&source) => return Ok(None),
                // While a new database is given its write-ahead log, SQLite turns others away at
                // once instead of letting them wait.
                Err(Error::Index { source, .. })
                    if is_busy(&source) && start.elapsed() < BUSY_LIMIT =>
                {
                    std::thread::sleep(std::time::Duration::from_millis(2));
                }
                other => return other,
            }
        }
    }

    /// A view of its own, for a home that cannot be written to: a copy of the database where that
    /// can be read as it is, else an empty one.
    pub fn in_memory(path: &Path) -> Result<Self> {
        let fail = |source| Error::Index { path: path.to_owned(), source };
        let mut connection = Connection::open_in_memory().map_err(fail)?;
        if copy_into(path, &mut connection).is_err() {
            connection = Connection::open_in_memory().map_err(fail)?;
            for schema in SCHEMAS {
                connection.execute_batch(schema).map_err(fail)?;
            }
        }
        let mut index = Self::over(connection, path);
        index.reload()?;
        Ok(index)
    }

    fn over(connection: Connection, path: &Path) -> Self {
        Self {
            connection,
            path: path.to_owned(),
            identity: None,
            recent: HashMap::new(),
            recent_count: 0,
            packs: HashMap::new(),
            generation: 0,
            data_version: -1,
        }
    }

    fn try_open(path: &Path, flags: OpenFlags) -> Result<Option<Self>> {
        let fail = |source| Error::Index { path: path.to_owned(), source };
        let before = identity(path)?;
        let connection = checked::open(path, flags).map_err(fail)?;
        connection.busy_timeout(BUSY_LIMIT).map_err(fail)?;
        // As many as there are questions: asking must not mean parsing.
        connection.set_prepared_statement_cache_capacity(STATEMENTS);
        connection
            .set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)
            .map_err(fail)?;
        connection
            .execute_batch(
                // Not synced while it is made: one that a power loss leaves half-made is made again.
                "PRAGMA synchronous=OFF; PRAGMA journal_mode=WAL;
                 PRAGMA wal_autocheckpoint=0; PRAGMA temp_store=MEMORY; PRAGMA cache_size=-8192;",
            )
            .map_err(fail)?;
        let version: i64 =
            connection.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(fail)?;
        let tables: i64 = connection
            .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
            .map_err(fail)?;
        // SQLite opens the write-ahead log by its name, later than the database. If another process
        // replaced both in between, the two do not belong together.
        let identity = identity(path)?;
        if identity != before {
            return Ok(None);
        }
        let mut index = Self::over(connection, path);
        let is_new = tables == 0 && version == 0;
        if is_new && !flags.contains(OpenFlags::SQLITE_OPEN_CREATE) {
            return Ok(None);
        }
        if is_new {
            let transaction = index.connection.transaction().map_err(fail)?;
            // Two processes may both find it empty; the second one finds it done.
            let tables: i64 = transaction
                .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
                .map_err(fail)?;
            if tables == 0 {
                for schema in SCHEMAS {
                    transaction.execute_batch(schema).map_err(fail)?;
                }
                // Nobody may take it for that of an empty home before it is filled.
                transaction
                    .execute(
                        "INSERT INTO meta (key, value) VALUES ('identity', ?1), ('incomplete', 1)",
                        [&identity],
                    )
                    .map_err(fail)?;
                transaction.pragma_update(None, "user_version", VERSION).map_err(fail)?;
            }
            transaction.commit().map_err(fail)?;
        } else if version != VERSION
            || known_identity(&index.connection).map_err(fail)?.as_deref() != Some(&identity)
        {
            return Ok(None);
        }
        index.identity = Some(identity);
        index.connection.execute_batch("PRAGMA synchronous=NORMAL").map_err(fail)?;
        index.reload()?;
        Ok(Some(index))
    }

    /// Whether another process has put another index in the place of this one.
    pub(crate) fn was_replaced(&self) -> bool {
        self.identity.as_ref().is_some_and(|identity| !is_at(identity, &self.path))
    }

    /// Which file it is; `None` for one in memory.
    pub(crate) fn identity(&self) -> Option<&str> {
        self.identity.as_deref()
    }

    /// Where it is, or where the original of one in memory is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether a question was broken off before its end, because a thread panicked in it.
    pub(crate) fn is_broken_off(&self) -> bool {
        !self.connection.is_autocommit()
    }

    /// Ends such a question.
    pub(crate) fn end_broken_off(&self) -> Result<()> {
        self.connection.execute_batch("ROLLBACK").map_err(self.fail())
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
            .prepare_cached("PRAGMA data_version")
            .and_then(|mut statement| statement.query_row([], |row| row.get(0)))
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
        self.generation = self.position()?.map_or(0, |position| position.generation);
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

    /// How often gc had taken something away when what is kept in memory was read.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The last commit that the index has taken in.
    pub fn position(&self) -> Result<Option<Position>> {
        self.stored_position("position")
    }

    /// The last commit that is known to have been durable: the position, or a later one that was
    /// there when the index had to be built anew.
    pub fn acknowledged(&self) -> Result<Option<Position>> {
        let position = self.position()?;
        let before = self.stored_position("acknowledged")?;
        let sequence = |position: &Option<Position>| position.as_ref().map_or(0, |p| p.sequence);
        Ok(if sequence(&before) > sequence(&position) { before } else { position })
    }

    fn stored_position(&self, key: &str) -> Result<Option<Position>> {
        let fail = self.fail();
        let json: Option<String> = self
            .connection
            .prepare_cached("SELECT value FROM meta WHERE key = ?1")
            .and_then(|mut statement| statement.query_row([key], |row| row.get(0)).optional())
            .map_err(&fail)?;
        Ok(json.and_then(|json| {
            let (pack, offset, end, id, sequence, generation) =
                serde_json::from_str::<(u64, u64, u64, ObjectId, u64, u64)>(&json).ok()?;
            Some(Position { pack, offset, end, id, sequence, generation })
        }))
    }

    /// Where an object with this id may be according to the newest runs, which are in memory.
    pub fn find_recent(&self, id: &ObjectId) -> Vec<Place> {
        let rows = self.recent.get(&id.key()).into_iter().flatten();
        rows.filter_map(|row| self.place(*row)).collect()
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

    /// How many records of objects are known.
    pub(crate) fn count_objects(&self) -> Result<usize> {
        let merged: usize = self
            .connection
            .query_row("SELECT count(*) FROM object", [], |row| row.get(0))
            .map_err(self.fail())?;
        Ok(merged + self.recent_count)
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

    /// Takes in a run that was found in the log, in one transaction, by whoever holds the lock.
    /// `commit` is `None` for a run whose commit is damaged. Skipped if the index already is at or
    /// behind `position`.
    pub fn apply(
        &mut self,
        entries: &[Entry],
        commit: Option<&Commit>,
        position: Option<&Position>,
    ) -> Result<()> {
        self.take_in(&Batch { entries, commit, position, behind: None })
    }

    /// Takes in a run that was just written, without the lock. Skipped unless the index is exactly
    /// at the commit before it: somebody else may have taken it in, or be building the index anew.
    pub fn apply_own(
        &mut self,
        entries: &[Entry],
        commit: &Commit,
        position: &Position,
        behind: u64,
    ) -> Result<()> {
        let (commit, position) = (Some(commit), Some(position));
        self.take_in(&Batch { entries, commit, position, behind: Some(behind) })
    }

    fn take_in(&mut self, batch: &Batch<'_>) -> Result<()> {
        let fail = self.fail();
        let transaction = self
            .connection
            .transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)
            .map_err(&fail)?;
        let applied = apply_batch(&transaction, batch, self.recent_count).map_err(&fail)?;
        transaction.commit().map_err(&fail)?;
        match applied {
            Applied::Before => self.reload()?,
            Applied::Rearranged => self.load()?,
            Applied::Added { packs, recent } => {
                if let Some(position) = batch.position {
                    self.generation = position.generation;
                }
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

    /// Empties the write-ahead log when it has grown.
    fn shrink_wal(&self) {
        let mut wal = self.path.clone().into_os_string();
        wal.push("-wal");
        if std::fs::metadata(&wal).is_ok_and(|meta| meta.len() > WAL_MAX) {
            self.empty_wal();
        }
    }

    /// Moves what is in the write-ahead log to the database. Failing is fine: somebody else reads,
    /// and this one does not wait long for that to end.
    pub(crate) fn empty_wal(&self) {
        let _ = self.connection.busy_timeout(WAL_PATIENCE);
        let _ = self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        let _ = self.connection.busy_timeout(BUSY_LIMIT);
    }

    /// Forgets everything, to be filled again from the log, and says that it is incomplete until
    /// [`Index::complete`]. What is known to have been acknowledged stays known, and so do the
    /// checkpoints that were listed, until it is clear whether they are lost.
    pub fn clear(&mut self) -> Result<()> {
        let fail = self.fail();
        let acknowledged = self.acknowledged()?.map(|position| position_text(&position));
        let listed = self.all_suspects()?;
        let transaction = self.connection.transaction().map_err(&fail)?;
        transaction
            .execute_batch(
                "DELETE FROM meta WHERE key <> 'identity'; DELETE FROM pack; DELETE FROM object; DELETE FROM recent;
                 DELETE FROM checkpoint; DELETE FROM document; DELETE FROM event;
                 DELETE FROM snapshot; DELETE FROM held; DELETE FROM session;
                 DELETE FROM spent; DELETE FROM burial; DELETE FROM collection; DELETE FROM tagged;
                 INSERT INTO meta (key, value) VALUES ('incomplete', 1);",
            )
            .map_err(&fail)?;
        if let Some(text) = acknowledged {
            transaction
                .execute("INSERT INTO meta (key, value) VALUES ('acknowledged', ?1)", [text])
                .map_err(&fail)?;
        }
        suspects::store(&transaction, &listed).map_err(&fail)?;
        transaction.commit().map_err(&fail)?;
        self.load()
    }

    /// What `work` finds, and whether the index was whole in that very moment.
    pub fn at_one_moment<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<(T, bool)> {
        self.connection.execute_batch("BEGIN").map_err(self.fail())?;
        let found = work(self).and_then(|found| Ok((found, !self.is_incomplete()?)));
        let ended = self.connection.execute_batch("COMMIT").map_err(self.fail());
        found.and_then(|found| ended.map(|()| found))
    }

    /// Says that something is missing that lies before the position: whoever finds it so later
    /// builds the index anew.
    pub fn set_incomplete(&self) -> Result<()> {
        self.set_note("incomplete", 1)
    }

    /// Whether that was said.
    pub fn is_incomplete(&self) -> Result<bool> {
        is_incomplete(&self.connection).map_err(self.fail())
    }

    /// Says that nothing is missing.
    pub fn complete(&self) -> Result<()> {
        self.connection
            .execute("DELETE FROM meta WHERE key = 'incomplete'", [])
            .map_err(self.fail())?;
        Ok(())
    }

    /// Moves the objects of recent runs into the sorted table.
    pub fn merge_recent(&mut self) -> Result<()> {
        let fail = self.fail();
        let transaction = self.connection.transaction().map_err(&fail)?;
        merge_recent(&transaction).map_err(&fail)?;
        transaction.commit().map_err(&fail)?;
        self.load()
    }

    /// A number kept beside the view (a cache, like everything here).
    pub fn note(&self, key: &str) -> Result<Option<i64>> {
        self.connection
            .prepare_cached("SELECT value FROM meta WHERE key = ?1")
            .and_then(|mut statement| statement.query_row([key], |row| row.get(0)).optional())
            .map_err(self.fail())
    }

    /// Takes such a number away.
    pub fn forget_note(&self, key: &str) -> Result<()> {
        self.connection
            .prepare_cached("DELETE FROM meta WHERE key = ?1")
            .and_then(|mut statement| statement.execute([key]))
            .map_err(self.fail())?;
        Ok(())
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

/// Copies a database that is only read, with what its write-ahead log adds.
fn copy_into(path: &Path, copy: &mut Connection) -> rusqlite::Result<()> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let original = checked::open(path, flags)?;
    let version: i64 = original.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    if version != VERSION || known_identity(&original)? != identity(path).ok() {
        return Err(rusqlite::Error::QueryReturnedNoRows);
    }
    let backup = rusqlite::backup::Backup::new(&original, copy)?;
    let done = backup.step(-1)? == rusqlite::backup::StepResult::Done;
    drop(backup);
    // A spoilt database could not be removed later, as it is where the home can be written to.
    let found: String = copy.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    match done && found == "ok" {
        true => Ok(()),
        false => Err(rusqlite::Error::QueryReturnedNoRows),
    }
}

/// What tells a file from a copy of it. An index that was copied while it was in use is a mixture:
/// its pages, its write-ahead log and the packs beside it may be of different moments.
fn identity(path: &Path) -> Result<String> {
    use std::os::unix::fs::MetadataExt;
    let meta = std::fs::metadata(path).map_err(Error::io("read", path))?;
    let born = meta.created().ok().and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
    // The number of the device may change with every start of the machine.
    let besides = born.map_or(u128::from(meta.dev()), |since| since.as_nanos());
    Ok(format!("{}-{besides}", meta.ino()))
}

/// Whether the file at `path` is the one with this identity.
pub(crate) fn is_at(identity: &str, path: &Path) -> bool {
    self::identity(path).is_ok_and(|found| found == identity)
}

fn known_identity(connection: &Connection) -> rusqlite::Result<Option<String>> {
    connection
        .prepare_cached("SELECT value FROM meta WHERE key = 'identity'")?
        .query_row([], |row| row.get(0))
        .optional()
}

/// SQLite gives its other files the mode of the database. One that exists is not opened: closing
/// it would take away the locks of another connection of this process (see [`crate::held`]).
fn create_private(path: &Path) -> Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = std::fs::OpenOptions::new();
    let created = match options.write(true).create_new(true).mode(0o600).open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            rustix::fs::access(path, rustix::fs::Access::WRITE_OK).map_err(Into::into)
        }
        other => other.map(drop),
    };
    created.map_err(Error::io("open", path))
}

fn position_text(position: &Position) -> String {
    let Position { pack, offset, end, id, sequence, generation } = position;
    serde_json::json!([pack, offset, end, id, sequence, generation]).to_string()
}

fn is_busy(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{DatabaseBusy, DatabaseLocked};
    matches!(error.sqlite_error_code(), Some(DatabaseBusy | DatabaseLocked))
}

/// Whether what a database says makes no sense, so that it has to be built anew. A full disk, a busy
/// database or a disk that cannot be read are something else.
pub(crate) fn is_unusable(error: &rusqlite::Error) -> bool {
    use rusqlite::Error as E;
    use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase, SchemaChanged};
    use rusqlite::ffi::{SQLITE_IOERR_CORRUPTFS, SQLITE_IOERR_DATA, SQLITE_IOERR_SHORT_READ};
    match error {
        E::SqliteFailure(failure, text) => {
            matches!(failure.code, DatabaseCorrupt | NotADatabase | SchemaChanged)
                || [SQLITE_IOERR_DATA, SQLITE_IOERR_CORRUPTFS, SQLITE_IOERR_SHORT_READ]
                    .contains(&failure.extended_code)
                || text.as_ref().is_some_and(|text| text.contains("no such"))
        }
        E::FromSqlConversionFailure(..)
        | E::IntegralValueOutOfRange(..)
        | E::InvalidColumnType(..)
        | E::InvalidColumnIndex(_)
        | E::Utf8Error(..) => true,
        E::SqlInputError { msg, .. } => msg.contains("no such"),
        _ => false,
    }
}
