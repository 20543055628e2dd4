//! Databases: read in one piece while others go on writing, and put back in one transaction.
//!
//! A capture gives a tree of ordinary files (`docs/format.md`, "Databases"), so that gc, verify and
//! repair need to know nothing of databases. A restore goes through [`Restoring`]: the database is
//! held against writers, what it holds is captured for the safety checkpoint, the target's content is
//! loaded where nobody sees it yet, and one commit makes it so. Whatever fails before the commit leaves the database as it was.

pub mod dump;
pub mod error;
pub mod postgres;
pub mod sql;

use rappel_store::sink::{Sink, Source};
use rappel_types::database::{DatabasePart, Ticket};

pub use error::{Error, Result};

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
    /// What it holds now, which nobody changes until this is committed or dropped. Called once,
    /// first. `prior` is what an earlier checkpoint holds, to store only the difference.
    fn capture(&mut self, sink: &dyn Sink, prior: Option<&DatabasePart>) -> Result<Captured>;

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
