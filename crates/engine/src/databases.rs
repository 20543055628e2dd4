//! Databases as part of a checkpoint.

mod candidates;
mod found;
mod history;
mod memo;
mod plan;
mod present;
mod recover;
mod sources;
mod unsaved;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

use rappel_capture::databases::{Captured, Error as DatabaseError, Fingerprint, Watch};
use rappel_store::document::UndoDatabase;
use rappel_store::held;
use rappel_store::sink::Sink;
use rappel_types::Advice;
use rappel_types::Remark;
use rappel_types::config::DatabaseUrl;
use rappel_types::database::{DatabaseKind, DatabasePart};
use rappel_types::manifest::PartialReason;
use rappel_types::size::format_size;
use rappel_types::{
    CheckpointId, Facet, FacetState, Manifest, ObjectId, RelPath, Trigger, WorkspaceId,
};

use crate::error::{Error, Result};
use crate::rappel::Rappel;
pub(crate) use candidates::check_names;
pub(crate) use found::Found;
use memo::{Memo, Remembered};
pub(crate) use plan::{
    DatabaseWish, DatabasesPlanned, Holding, Holdings, not_loaded, plan_databases,
};
pub(crate) use present::{PresentDatabases, not_captured};
pub(crate) use recover::Fates;
pub(crate) use sources::followed;
use sources::{Named, Source};

/// A database that takes no longer than this to read is read again with every checkpoint.
const QUICK: Duration = Duration::from_millis(100);

/// What a save read of databases, or took over.
#[derive(Default)]
pub(crate) struct CapturedDatabases {
    /// For the manifest. What was read for it has no `as_of` yet.
    pub parts: Vec<DatabasePart>,
    /// What should be there and is not.
    pub partial: Vec<PartialReason>,
    /// What people should know.
    pub notes: Vec<String>,
    /// Whether there are any at all.
    pub any: bool,
    /// What the next save may know.
    memo: Memo,
    /// What was known of those that could not be read.
    unread: BTreeMap<String, Remembered>,
    /// Checkpoints on which all depends that was taken over without a look.
    pub bases: Vec<CheckpointId>,
}

impl CapturedDatabases {
    pub fn state(&self) -> FacetState {
        match (self.any, self.parts.is_empty()) {
            (false, _) => FacetState::Absent,
            (true, false) => FacetState::Captured,
            (true, true) => FacetState::Failed,
        }
    }

    /// Everything that a manifest with this refers to.
    pub fn trees(&self) -> impl Iterator<Item = ObjectId> {
        self.parts.iter().map(|part| part.tree)
    }

    fn add(&mut self, part: DatabasePart, remembered: Remembered) {
        self.memo.entries.insert(part.name.clone(), remembered);
        self.parts.push(part);
    }

    fn fail(&mut self, name: &str, reason: &str) {
        let reason = format!("{name}: {reason}");
        let database = Some(name.to_owned());
        self.partial.push(PartialReason { facet: Facet::Databases, path: None, database, reason });
    }

    /// What two looks gave, as one.
    pub fn and(mut self, other: Self) -> Self {
        self.parts.extend(other.parts);
        self.parts.sort_by(|a, b| a.name.cmp(&b.name));
        self.partial.extend(other.partial);
        self.notes.extend(other.notes);
        self.memo.entries.extend(other.memo.entries);
        self.unread.extend(other.unread);
        self.bases.extend(other.bases);
        self.any |= other.any;
        self
    }
}

/// How a save reads databases.
pub(crate) struct Reading<'a> {
    pub id: WorkspaceId,
    pub trigger: Trigger,
    /// Whether they are read, however long that takes; `None` leaves it to the trigger.
    pub read: Option<bool>,
    /// What was stored may not be believed in.
    pub distrust: bool,
    pub watch: Watch<'a>,
}

impl Rappel {
    /// Reads databases, but for those that are held.
    pub(crate) fn capture_databases(
        &self,
        sources: impl IntoIterator<Item = Source>,
        sink: &dyn Sink,
        reading: &Reading<'_>,
        held: &[String],
    ) -> Result<CapturedDatabases> {
        let mut captured = CapturedDatabases::default();
        let memo = self.database_memo(reading)?;
        for source in sources {
            captured.any = true;
            match source {
                Ok(named) if held.contains(&named.name) => {}
                Ok(named) => self.capture_database(&named, sink, reading, &memo, &mut captured)?,
                Err((name, error)) => match self.known_to_a_shell(&name, reading, &memo) {
                    Some(known) => {
                        captured.bases.extend(known.checkpoint.clone());
                        captured.add(known.part.clone(), known);
                    }
                    None => captured.fail(&name, &error.to_string()),
                },
            }
        }
        Ok(captured)
    }

    /// The last dump of a database whose address only the user's shell knows, where it is the clock
    /// that saves: it is stale then, and nothing failed.
    fn known_to_a_shell(
        &self,
        name: &str,
        reading: &Reading<'_>,
        memo: &Memo,
    ) -> Option<Remembered> {
        let by_clock = matches!(reading.trigger, Trigger::EndOfDay | Trigger::Scheduled);
        let config = self.config.databases.iter().find(|config| config.name == name)?;
        let DatabaseUrl::Variable(variable) = &config.url else { return None };
        if !by_clock || self.variable(variable).is_some() {
            return None;
        }
        let mut known = memo.entries.get(name)?.clone();
        known.part.stale = true;
        Some(known)
    }

    /// A sentence for each file that was a database when it was last saved and is an ordinary file
    /// now, as far as it was noticed among the files: one that is configured is a partial reason.
    pub(crate) fn no_databases_any_more(
        &self,
        now: &CapturedDatabases,
        reading: &Reading<'_>,
        held: &[String],
    ) -> Result<Vec<String>> {
        let memo = self.database_memo(reading)?;
        let is_known = |name: &String| {
            now.memo.entries.contains_key(name)
                || now.unread.contains_key(name)
                || held.contains(name)
        };
        let mut said = Vec::new();
        for (name, known) in memo.entries.iter().filter(|(name, _)| !is_known(name)) {
            let was_noticed = known.part.location.as_ref() == Some(name);
            let is_file = name.parse::<RelPath>().is_ok_and(|path| self.is_ordinary_file(&path));
            if !was_noticed || !is_file {
                continue;
            }
            // Once is enough.
            let newest = self.store.look_up(|index| index.newest_with_files(reading.id))?;
            if newest.map(|row| row.id) == known.checkpoint {
                said.push(format!(
                    "{name} was a database when it was last saved, and is none now: it is saved as a file"
                ));
            }
        }
        Ok(said)
    }

    /// Whether a file stands there that does not begin as SQLite's do.
    fn is_ordinary_file(&self, path: &RelPath) -> bool {
        let place = self.root.join(OsStr::from_bytes(path.as_bytes()));
        let is_file = std::fs::symlink_metadata(&place).is_ok_and(|meta| meta.is_file());
        let mut head = Vec::new();
        let read = held::open(&place).map(|file| file.take(16).read_to_end(&mut head));
        is_file && matches!(read, Ok(Ok(_))) && head != *b"SQLite format 3\0"
    }

    /// Takes hold of what a restore may change and reads it, which nobody changes any more then. Commands
    /// cannot be held: they are read before, so that nobody waits for them.
    pub(crate) fn capture_held(
        &self,
        holdings: &mut Holdings,
        sink: &dyn Sink,
        reading: &Reading<'_>,
    ) -> Result<CapturedDatabases> {
        let mut captured = CapturedDatabases::default();
        if holdings.all.is_empty() {
            return Ok(captured);
        }
        let memo = self.database_memo(reading)?;
        for commands in [true, false] {
            let meant = |one: &Holding| {
                !one.is_displaced && (one.named.kind == DatabaseKind::Command) == commands
            };
            self.take_hold(holdings, meant)?;
            let held = holdings.all.iter_mut().filter(|one| meant(one));
            read_held(held, sink, reading, &memo, &mut captured)?;
        }
        for holding in holdings.all.iter().filter(|one| one.is_displaced) {
            captured.any = true;
            let reason = holding.damaged.as_deref().unwrap_or("it is damaged");
            captured.fail(&holding.named.name, &format!("{reason} (its bytes are a file here)"));
        }
        Ok(captured)
    }

    fn capture_database(
        &self,
        named: &Named,
        sink: &dyn Sink,
        reading: &Reading<'_>,
        memo: &Memo,
        captured: &mut CapturedDatabases,
    ) -> Result<()> {
        let start = Instant::now();
        let known = memo.entries.get(&named.name).filter(|known| known.part.kind == named.kind);
        match self.read_database(named, sink, reading, known) {
            Ok(Read::Unchanged(known)) => {
                captured.bases.extend(known.checkpoint.clone());
                captured.add(known.part.clone(), known);
            }
            Ok(Read::Anew(read)) => {
                tracing::debug!(name = named.name, bytes = read.part.bytes, took = ?start.elapsed(), "read a database");
                let part = read.part.clone();
                captured.notes.extend(known.and_then(|known| emptied(&known.part, &part)));
                captured.add(part, Remembered::of(read, start.elapsed()));
            }
            Err(DatabaseError::Store(error)) => return Err(error.into()),
            Err(error) => {
                captured.fail(&named.name, &error.to_string());
                // The next one that can be read need not be stored whole.
                captured.unread.extend(known.map(|known| (named.name.clone(), known.clone())));
            }
        }
        Ok(())
    }

    /// Reads a database, unless what is known of it still holds or a look must do for now.
    fn read_database(
        &self,
        named: &Named,
        sink: &dyn Sink,
        reading: &Reading<'_>,
        known: Option<&Remembered>,
    ) -> rappel_capture::databases::Result<Read> {
        let fingerprint = named.database.fingerprint()?;
        if let Some(known) = known {
            if fingerprint.is_some() && fingerprint == known.fingerprint {
                let mut known = known.clone();
                known.part.stale = false;
                return Ok(Read::Unchanged(known));
            }
            let by_trigger = || self.config.capture.databases.contains(&reading.trigger);
            let worth_it = reading.read.unwrap_or_else(by_trigger);
            if !worth_it && known.took_ms > QUICK.as_millis() as u64 {
                let mut known = known.clone();
                known.part.stale = true;
                return Ok(Read::Unchanged(known));
            }
        }
        let prior = known.map(|known| &known.part);
        let mut part = named.database.read(sink, prior, &reading.watch)?;
        // Read again and found to be the same: it is as of when it was first read.
        if let Some(prior) = prior.filter(|prior| prior.digest == part.digest) {
            part.as_of.clone_from(&prior.as_of);
            part.tree = prior.tree;
        }
        Ok(Read::Anew(Captured { part, fingerprint }))
    }

    /// What a save may know of databases.
    fn database_memo(&self, reading: &Reading<'_>) -> Result<Memo> {
        if reading.distrust {
            return Ok(Memo::default());
        }
        let mut memo = Memo::load(&self.databases_path(reading.id));
        let mut gone = Vec::new();
        for (name, known) in &memo.entries {
            let there = match &known.checkpoint {
                Some(checkpoint) => self.store.checkpoint(checkpoint)?.is_some(),
                None => false,
            };
            if !there {
                gone.push(name.clone());
            }
        }
        for name in gone {
            memo.entries.remove(&name);
        }
        Ok(memo)
    }

    /// Remembers what a restore left databases with: `left` has how each looked afterwards.
    pub(crate) fn remember_restored(
        &self,
        id: WorkspaceId,
        target: &Manifest,
        left: &[UndoDatabase],
    ) -> Result<()> {
        if left.is_empty() {
            return Ok(());
        }
        let mut memo = self.database_memo(&self.reading()?)?;
        for one in left {
            let Some(part) = target.databases.iter().find(|part| part.name == one.name) else {
                continue;
            };
            let mut part = part.clone();
            part.as_of.get_or_insert_with(|| target.id.clone());
            part.stale = false;
            let took_ms = memo.entries.get(&one.name).map_or(0, |known| known.took_ms);
            let restored = one.left.clone().map(Fingerprint);
            let checkpoint = Some(target.id.clone());
            let known = Remembered { fingerprint: None, restored, part, took_ms, checkpoint };
            memo.entries.insert(one.name.clone(), known);
        }
        memo.save(self.store.disk(), &self.databases_path(id));
        Ok(())
    }

    /// Remembers what was captured, now that a checkpoint holds it.
    pub(crate) fn remember_databases(
        &self,
        id: WorkspaceId,
        captured: CapturedDatabases,
        made: &CheckpointId,
    ) {
        if !captured.any {
            return;
        }
        let mut memo = captured.memo;
        for known in memo.entries.values_mut() {
            known.checkpoint = Some(made.clone());
            known.part.as_of.get_or_insert_with(|| made.clone());
        }
        memo.entries.extend(captured.unread);
        memo.save(self.store.disk(), &self.databases_path(id));
    }

    fn databases_path(&self, id: WorkspaceId) -> std::path::PathBuf {
        self.cache_path(id).with_extension("databases")
    }
}

/// Reads what is held.
fn read_held<'h>(
    held: impl Iterator<Item = &'h mut Holding>,
    sink: &dyn Sink,
    reading: &Reading<'_>,
    memo: &Memo,
    captured: &mut CapturedDatabases,
) -> Result<()> {
    for holding in held {
        captured.any = true;
        let start = Instant::now();
        let prior = memo.entries.get(&holding.named.name).map(|known| &known.part);
        if let Some(reason) = &holding.unreadable {
            captured.fail(&holding.named.name, reason);
        }
        let Some(restoring) = &mut holding.restoring else { continue };
        // What cannot be saved is not touched: the restore ends here, or says that it is in the way.
        let read = match restoring.capture(sink, prior, &reading.watch) {
            Err(DatabaseError::Absent(_)) => continue,
            Err(DatabaseError::Damaged(reason)) => {
                captured.fail(&holding.named.name, &reason);
                holding.damaged = Some(reason.clone());
                holding.cannot_be_saved(reason);
                continue;
            }
            Err(DatabaseError::Unavailable(reason))
                if holding.named.kind != DatabaseKind::Postgres =>
            {
                captured.fail(&holding.named.name, &reason);
                holding.cannot_be_saved(reason);
                continue;
            }
            other => other
                .map_err(|error| Error::Database { name: holding.named.name.clone(), error })?,
        };
        holding.now = Some(read.part.clone());
        let part = read.part.clone();
        captured.add(part, Remembered::of(read, start.elapsed()));
    }
    Ok(())
}

/// The databases that were to be held and could not be read ([`CapturedDatabases::fail`] says so).
fn lacking(manifest: &Manifest) -> impl Iterator<Item = &str> {
    manifest.partial_reasons.iter().filter_map(PartialReason::database)
}

/// Whether a database was to be held and could not be read ([`CapturedDatabases::fail`] says so).
pub(crate) fn could_not_hold(manifest: &Manifest, name: &str) -> bool {
    manifest.databases.iter().all(|part| part.name != name)
        && lacking(manifest).any(|lacks| lacks == name)
}

/// A sentence for each database below paths that are asked for: files come back by their path, databases by their name.
pub(crate) fn left_alone_below(manifest: &Manifest, paths: &[RelPath]) -> Vec<Remark> {
    let found: BTreeMap<_, _> =
        paths.iter().flat_map(|path| history::below(manifest, path)).collect();
    let id = &manifest.id;
    found
        .values()
        .map(|part| {
            let (checkpoint, name) = (id.to_string(), part.name.clone());
            let text = format!("{name} is a database and is left alone");
            Remark::new(text, Advice::RestoreDatabase { checkpoint, name })
        })
        .collect()
}

/// The database of SQLite whose file lies there.
pub(crate) fn sqlite_at<'m>(manifest: &'m Manifest, path: &RelPath) -> Option<&'m DatabasePart> {
    let text = path.to_string();
    let is_here = |part: &&DatabasePart| {
        part.kind == DatabaseKind::Sqlite && part.location.as_deref() == Some(&text)
    };
    manifest.databases.iter().find(is_here)
}

/// Who asks for the file of a database is told that it is one.
pub(crate) fn refuse_as_file(manifest: &Manifest, path: &RelPath) -> Result<()> {
    let Some(part) = sqlite_at(manifest, path) else { return Ok(()) };
    let (id, name) = (&manifest.id, &part.name);
    Err(Error::Usage {
        message: format!("{path} is a database, which {id} holds as such and not as a file"),
        advice: vec![Advice::RestoreOrWriteDatabase {
            checkpoint: id.to_string(),
            name: name.clone(),
        }],
    })
}

/// What is said of a command that gives nothing any more: a dump that failed may well look like that.
fn emptied(then: &DatabasePart, now: &DatabasePart) -> Option<String> {
    let emptied = now.kind == DatabaseKind::Command && now.bytes == 0 && then.bytes > 0;
    emptied.then(|| {
        let (name, before) = (&now.name, format_size(then.bytes));
        format!("the capture command of database {name} gave nothing; it gave {before} before")
    })
}

/// A sentence for each database of a checkpoint that could not be restored as it was when it was read.
pub(crate) fn not_restorable(parts: &[DatabasePart]) -> impl Iterator<Item = String> {
    parts.iter().filter_map(|part| {
        let obstacle = part.flaw.as_ref().or(part.obstacle.as_ref())?;
        Some(format!("database {} is saved, but could not be restored: {obstacle}", part.name))
    })
}

/// What is known of a database that has not changed since it was last read.
fn known_unchanged(named: &Named, memo: &Memo) -> Option<DatabasePart> {
    let known = memo.entries.get(&named.name)?;
    let now = named.database.fingerprint().ok()??;
    (known.fingerprint.as_ref() == Some(&now)).then(|| known.part.clone())
}

enum Read {
    Unchanged(Remembered),
    Anew(Captured),
}
