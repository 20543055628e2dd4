//! Databases: read in one piece while others go on writing, and put back in one transaction.
//!
//! A capture gives a tree of ordinary files (`docs/format.md`, "Databases"), so that gc, verify and
//! repair need to know nothing of databases. A restore goes through [`Restoring`]: the database is
//! held against writers, what it holds is captured for the safety checkpoint, the target's content is
//! loaded where nobody sees it yet, and one commit makes it so. Whatever fails before the commit leaves the database as it was.

pub mod command;
pub mod copy_out;
pub mod drive;
pub mod dump;
pub mod error;
mod guard;
pub mod lookup;
pub mod postgres;
pub mod sql;
pub mod sqlite;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rappel_store::Cancel;
use rappel_store::sink::{Sink, Source};
use rappel_types::database::{DatabasePart, DatabasePlan, Ticket};

pub use drive::{DatabaseDrive, Held};
pub use error::{Error, Result};
pub use guard::Guard;

/// A database that can be looked at, read and restored.
pub trait Database: Send + Sync {
    /// A look that costs little; `None` where there is no such look, so that it is always read.
    fn fingerprint(&self) -> Result<Option<Fingerprint>>;

    /// Reads all of it. `prior` is what an earlier checkpoint holds, to store only the difference. A look to go with it is
    /// taken before, so that what is committed meanwhile is seen next time.
    fn read(
        &self,
        sink: &dyn Sink,
        prior: Option<&DatabasePart>,
        watch: &Watch<'_>,
    ) -> Result<DatabasePart>;

    /// Whether a restore of `target` could succeed, as far as that is known before anything is done.
    fn check(&self, source: &dyn Source, target: &DatabasePart) -> Result<()>;

    /// Holds it against writers, to restore it. [`Error::Absent`] where there is nothing to hold:
    /// then [`Database::create`] makes an empty one.
    fn restoring(&self, how: &How<'_>) -> Result<Box<dyn Restoring>>;

    /// Makes an empty one where there is none, as `target` knew it. What could not be made like that is told.
    fn create(&self, target: &DatabasePart) -> Result<Vec<String>>;

    /// What became of a restore's commit.
    fn fate(&self, plan: &DatabasePlan) -> Result<Fate>;

    /// Removes what a restore that was killed left beside it, as far as nobody works on it.
    fn clear(&self) -> Result<()> {
        Ok(())
    }

    /// Whether it is on this machine.
    fn is_local(&self) -> bool {
        true
    }

    /// Which one it is, by whatever address it is reached; `None` where nobody can tell.
    fn identity(&self) -> Option<String> {
        None
    }
}

/// How a database is taken hold of.
#[derive(Debug, Clone, Copy)]
pub struct How<'a> {
    /// How long to wait for others to let go.
    pub patience: Duration,
    /// Whether others are made to.
    pub terminate_connections: bool,
    /// Which names that come without their schema are found while it is loaded.
    pub names: Names,
    /// Set when the user wants to stop.
    pub cancel: &'a Cancel,
}

/// Which names that come without their schema are found while a dump is loaded. The dump itself qualifies all of its
/// names; functions that it calls may not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Names {
    /// Those of the server itself. [`Error::NameMissing`] says that one was missing.
    #[default]
    OfTheServer,
    /// Also those in schemas of the user's search path where only the loading user and superusers may create objects.
    Trusted,
}

/// Who watches while a database is read.
#[derive(Debug, Clone, Copy)]
pub struct Watch<'a> {
    /// Set when the user wants to stop.
    pub cancel: &'a Cancel,
    /// How many bytes were read so far, over all databases.
    pub bytes: &'a AtomicU64,
}

impl Watch<'static> {
    /// Nobody watches.
    pub fn nobody() -> Self {
        static BYTES: AtomicU64 = AtomicU64::new(0);
        Self { cancel: Cancel::never(), bytes: &BYTES }
    }
}

impl Watch<'_> {
    /// Notes that so many more bytes were read; an error if the user wants to stop.
    pub fn read(&self, bytes: u64) -> Result<()> {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(self.cancel.check()?)
    }
}

/// A look at a database that costs little. Equal ones mean that nothing was committed in between;
/// different ones mean nothing.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Fingerprint(pub String);

/// What was read of a database.
#[derive(Debug, Clone)]
pub struct Captured {
    /// For the manifest, without `as_of`.
    pub part: DatabasePart,
    /// Taken before the content was read, so that what is committed meanwhile is seen next time.
    pub fingerprint: Option<Fingerprint>,
}

/// A database on its way to another content. Dropped before its commit, it is as it was.
pub trait Restoring: Send {
    /// What it holds now, which nobody changes until this is committed or dropped. Called first,
    /// and once more if the store could not keep it. `prior` is what an earlier checkpoint holds, to store only the difference.
    fn capture(
        &mut self,
        sink: &dyn Sink,
        prior: Option<&DatabasePart>,
        watch: &Watch<'_>,
    ) -> Result<Captured>;

    /// Called instead of [`Restoring::capture`] where that fails with [`Error::Damaged`] and the
    /// bytes are kept as a file: the files' part of the restore removes that before the commit.
    fn displace(&mut self) {}

    /// How to ask for the fate of the commit after a crash.
    fn ticket(&self) -> Option<Ticket>;

    /// Loads what a checkpoint holds, where nobody sees it yet.
    fn stage(&mut self, source: &dyn Source, target: &DatabasePart) -> Result<()>;

    /// Makes it so, durably. An error means that it is as it was, unless it is
    /// [`Error::Unknown`].
    fn commit(&mut self) -> Result<()>;
}

/// What became of a commit that nobody saw the end of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It happened.
    Committed,
    /// It did not, and will not.
    Aborted,
    /// Nobody can tell.
    Unknown,
}
