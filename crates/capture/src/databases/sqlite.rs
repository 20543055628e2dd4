//! Databases of SQLite: one file, and what SQLite keeps beside it while somebody has it open.
//!
//! Reading goes past SQLite, under its locks and without a trace (`snapshot`); writing goes through
//! it, since only its own journal makes a change of many pages one change (`restoring`).
//!
//! Not guaranteed: within one process POSIX locks do not tell two users of a file apart. A program
//! that has a database open through a SQLite of its own must not call what is here for that very
//! database, but for [`Database::fingerprint`]: closing a handle of the file would take SQLite's
//! locks away. Our own connections are safe from that ([`rappel_store::held`]).

mod foreign;
mod holders;
mod locks;
mod pages;
mod reachable;
mod restoring;
pub mod rows;
mod scratch;
mod snapshot;
mod tables;
mod wal;

use std::ffi::OsString;
use std::fmt::Write;
use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rappel_store::Cancel;
use rappel_store::beneath::Root;
use rappel_store::content::ChunkList;
use rappel_store::held::{self, Hold};
use rappel_store::lock::Patience;
use rappel_store::sink::{Sink, Source};
use rappel_types::RelPath;
use rappel_types::database::{DatabaseKind, DatabasePart, Digest};

use self::scratch::Spot;
use self::snapshot::{Guard, Snapshot, absent};
use super::{Captured, Error, Fate, Fingerprint, Restoring, Result};
use crate::files::stamp::{Stamp, Trust, look};

pub use self::foreign::check_foreign;
pub use self::reachable::Reachable;
pub(crate) use self::snapshot::{HEADER, MAGIC, page_size};

/// What SQLite appends to a database's name for the files that it keeps beside it.
pub const COMPANIONS: [&str; 3] = ["-journal", "-shm", "-wal"];

/// How often a database is read that others open and close meanwhile.
const TRIES: usize = 5;

fn companion(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

/// The files that SQLite keeps beside the database at `path` at times.
pub fn companions(path: &Path) -> [PathBuf; 3] {
    COMPANIONS.map(|suffix| companion(path, suffix))
}

/// The same for a path in a workspace. One that would be too long is none.
pub fn companions_of(path: &RelPath) -> Vec<RelPath> {
    let name = |suffix: &&str| RelPath::new([path.as_bytes(), suffix.as_bytes()].concat()).ok();
    COMPANIONS.iter().filter_map(name).collect()
}

/// Writes what a checkpoint holds of a database, as a file of its own.
pub fn write_to(source: &dyn Source, part: &DatabasePart, out: &mut dyn io::Write) -> Result<()> {
    let header = pages::Header { counter: 1, may_have_log: true };
    pages::find(source, part)?.write_to(source, header, out)
}

/// A database of SQLite.
#[derive(Debug, Clone)]
pub struct Database {
    /// What a checkpoint calls it.
    pub name: String,
    /// Where it is, absolute.
    pub path: PathBuf,
    /// Where it is, as a manifest has it.
    pub location: Option<String>,
    /// How long others are waited for.
    pub patience: Duration,
}

/// By which ways a restore reaches a database.
#[derive(Debug, Clone)]
pub struct Way {
    /// The folder that nothing is written outside of: the workspace, or where else it lies.
    pub root: Arc<Root>,
    /// The database below it.
    pub path: RelPath,
    /// A free name below it, where one that is absent is put together. What a crash leaves there
    /// is removed by the next restore, or by [`Way::clear`].
    pub slot: RelPath,
    /// A name in a private folder, for the pages of one that is there. What a crash leaves there is
    /// removed in the same way.
    pub staging: PathBuf,
}

impl Way {
    /// Removes what a crash left there. What a restore works on stays.
    pub fn clear(&self) -> Result<()> {
        self.slot().clear()?;
        if self.staging.symlink_metadata().is_ok() {
            self.staging()?.clear()?;
        }
        Ok(())
    }

    fn slot(&self) -> Spot {
        Spot { root: self.root.clone(), path: self.slot.clone() }
    }

    fn staging(&self) -> Result<Spot> {
        let unusable = || {
            let shown = self.staging.display();
            Error::Unavailable(format!("{shown} cannot be the name of a file"))
        };
        let folder = self.staging.parent().ok_or_else(unusable)?;
        let name = self.staging.file_name().ok_or_else(unusable)?;
        let path = RelPath::new(name.as_encoded_bytes()).map_err(|_| unusable())?;
        let root = Arc::new(Root::open(folder, self.root.disk().clone())?);
        Ok(Spot { root, path })
    }
}

impl Database {
    /// A cheap look, by what the file system says of the database, its log and its journal: every
    /// commit writes to one of them. `None` if that is too young to tell the next write apart.
    pub fn fingerprint(&self) -> Result<Option<Fingerprint>> {
        let unseen = |error: std::io::Error| {
            Error::Unavailable(format!("cannot look at {}: {error}", self.path.display()))
        };
        let failed = |error: rustix::io::Errno| unseen(error.into());
        let folder = match held::open(self.path.parent().unwrap_or(Path::new("/"))) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(absent(&self.path));
            }
            other => other.map_err(unseen)?,
        };
        let trust = Trust::start(&*folder).map_err(failed)?;
        let name = self.path.file_name().unwrap_or_default();
        let mut text = String::from("1");
        for suffix in ["", "-wal", "-journal"] {
            let bytes = [name.as_encoded_bytes(), suffix.as_bytes()].concat();
            let Ok(name) = std::ffi::CString::new(bytes) else { return Ok(None) };
            let found = match look(&*folder, &name) {
                Ok(stamp) if trust.believes(&stamp) => Some(stamp),
                Ok(_) => return Ok(None),
                Err(rustix::io::Errno::NOENT) if suffix.is_empty() => {
                    return Err(absent(&self.path));
                }
                Err(rustix::io::Errno::NOENT) => None,
                Err(error) => return Err(failed(error)),
            };
            let _ = match found {
                Some(Stamp { device, inode, size, modified, changed, .. }) => {
                    write!(text, " {device:x}:{inode:x}:{size:x}:{modified:x}:{changed:x}")
                }
                None => write!(text, " -"),
            };
        }
        Ok(Some(Fingerprint(text)))
    }

    /// A look, and then all of it.
    pub fn capture(
        &self,
        sink: &dyn Sink,
        prior: Option<&DatabasePart>,
        cancel: &Cancel,
    ) -> Result<Captured> {
        let fingerprint = self.fingerprint()?;
        Ok(Captured { part: self.read(sink, prior, cancel)?, fingerprint })
    }

    /// Reads it, while others go on using it, and puts it into `sink` against what `prior` tells of.
    pub fn read(
        &self,
        sink: &dyn Sink,
        prior: Option<&DatabasePart>,
        cancel: &Cancel,
    ) -> Result<DatabasePart> {
        let former = pages::former(sink, prior);
        for _ in 0..TRIES {
            let snapshot = Snapshot::take(&self.path, Guard::Own, self.patience, cancel)?;
            let part = self.part(&snapshot, sink, &former, prior, cancel);
            if snapshot.still(&self.path) {
                return part;
            }
        }
        Err(self.restless())
    }

    fn part(
        &self,
        snapshot: &Snapshot,
        sink: &dyn Sink,
        former: &ChunkList,
        prior: Option<&DatabasePart>,
        cancel: &Cancel,
    ) -> Result<DatabasePart> {
        let taken = pages::take(snapshot, &self.path, Some(sink), former, cancel)?;
        let (tables, row_counts) = tables::list(snapshot, &self.path, &taken.glimpses)?;
        Ok(DatabasePart {
            name: self.name.clone(),
            kind: DatabaseKind::Sqlite,
            tables,
            row_counts,
            bytes: taken.bytes,
            as_of: None,
            stale: false,
            tree: taken.write(sink, prior.map(|prior| &prior.tree))?,
            digest: taken.digest,
            location: self.location.clone(),
            definition: None,
            obstacle: None,
            flaw: None,
            left_out: Vec::new(),
        })
    }

    /// What it holds now; `None` if it is absent.
    pub fn digest(&self, cancel: &Cancel) -> Result<Option<Digest>> {
        for _ in 0..TRIES {
            let snapshot = match Snapshot::take(&self.path, Guard::Own, self.patience, cancel) {
                Err(Error::Absent(_)) => return Ok(None),
                other => other?,
            };
            let taken = pages::take(&snapshot, &self.path, None, &ChunkList::default(), cancel);
            if snapshot.still(&self.path) {
                return Ok(Some(taken?.digest));
            }
        }
        Err(self.restless())
    }

    fn restless(&self) -> Error {
        let who = holders::of(&self.path);
        Error::Busy(format!("{} does not stand still{who}", self.path.display()))
    }

    /// What became of a restore that nobody saw the end of: it is told by what the database holds.
    /// What it left half written is taken back first, as SQLite does for whoever opens it next.
    pub fn fate(&self, from: Option<&Digest>, to: &Digest, cancel: &Cancel) -> Result<Fate> {
        if companion(&self.path, "-journal").exists() && self.path.exists() {
            restoring::settle(&self.path, self.patience)?;
        }
        let now = self.digest(cancel)?;
        Ok(match now {
            Some(now) if now == *to => Fate::Committed,
            now if now.as_ref() == from => Fate::Aborted,
            _ => Fate::Unknown,
        })
    }

    /// Begins to bring it to another content.
    ///
    /// As long as the result lives, [`Self::capture`] and [`Self::digest`] of this process fail as
    /// with a database that is busy.
    pub fn restoring(&self, way: Way) -> Box<dyn Restoring> {
        Box::new(restoring::SqliteRestoring::new(self.clone(), way))
    }

    /// Removes it with its companions, if it holds what `expected` says and nobody has it open. One
    /// that is absent is fine.
    pub fn remove(&self, way: &Way, expected: &Digest, cancel: &Cancel) -> Result<()> {
        let failed = |error: std::io::Error| {
            Error::Unavailable(format!("cannot lock {}: {error}", self.path.display()))
        };
        let nofollow = rustix::fs::OFlags::NOFOLLOW.bits() as i32;
        let mut options = File::options();
        options.read(true).write(true).custom_flags(nofollow);
        let hold = Hold::of(&self.path);
        let main = match hold.open(&options, &self.path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            other => Some(other.map_err(failed)?),
        };
        // Whoever comes from now on waits, and finds a file that has no name any more.
        let _main = match main {
            Some(main) => {
                let taken = Patience::from(self.patience)
                    .wait(|| locks::own(&main, locks::ALL), String::new)
                    .map_err(failed)?;
                let who = holders::of(&self.path);
                if taken.is_err() || !who.is_empty() {
                    let shown = self.path.display();
                    return Err(Error::Busy(format!("{shown} cannot be removed now{who}")));
                }
                let guard = Guard::Holder(&hold);
                let snapshot = Snapshot::take(&self.path, guard, self.patience, cancel)?;
                let nothing = ChunkList::default();
                let now = pages::take(&snapshot, &self.path, None, &nothing, cancel)?.digest;
                if now != *expected {
                    let shown = self.path.display();
                    return Err(Error::Conflict(format!("{shown} changed, and is left alone")));
                }
                way.root.unlink(&way.path)?;
                Some((main, snapshot))
            }
            None => None,
        };
        for path in companions_of(&way.path) {
            if way.root.stat(&path)?.is_some() {
                way.root.unlink(&path)?;
            }
        }
        Ok(way.root.sync_dir(way.path.parent().as_ref())?)
    }
}
