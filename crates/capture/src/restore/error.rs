//! Why a restore stopped, and what state that leaves things in.

use std::path::PathBuf;

use rappel_types::plan::Conflict;

use super::intent::IntentId;
use super::outcome::Outcome;

/// Shorthand for this module's results.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A restore could not be done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The disk or the store refused. Where nothing else is said, nothing was changed.
    #[error(transparent)]
    Store(#[from] rappel_store::Error),
    /// A git command is at work in the repository, as a lock of git's says.
    #[error("git is at work: {0}")]
    GitBusy(String),
    /// A git command holds `index.lock`, or one crashed and left it behind.
    #[error("git's index is locked ({})", .0.display())]
    IndexLocked(PathBuf),
    /// The plan cannot be carried out as things are. Nothing was changed.
    #[error("{}", describe(.0))]
    Conflicts(Vec<Conflict>),
    /// The folder at the root's path is not the one that was opened, or it is gone.
    #[error("{} was removed or replaced by another folder meanwhile", root.display())]
    Replaced {
        /// Where it was.
        root: PathBuf,
    },
    /// A restore of this folder, or of one above or below it, was interrupted.
    #[error("a restore of {} was interrupted and is not finished", root.display())]
    Unfinished {
        /// Its intent.
        intent: IntentId,
        /// The folder it restores.
        root: PathBuf,
    },
    /// Another process is restoring this folder, or one above or below it, right now.
    #[error("a restore of {} is running", root.display())]
    Running {
        /// Its intent.
        intent: IntentId,
        /// The folder it restores.
        root: PathBuf,
    },
    /// There is no such intent.
    #[error("there is no unfinished restore {0}")]
    NoSuchIntent(IntentId),
    /// The folder to write into is not empty.
    #[error("{} exists and is not empty", path.display())]
    NotEmpty {
        /// The folder.
        path: PathBuf,
    },
    /// A database could not be restored.
    #[error("database {name}: {error}")]
    Database {
        /// Which.
        name: String,
        /// Why.
        error: crate::databases::Error,
    },
    /// Something failed after a database was committed, so that there is no way back any more: the
    /// intent waits for `recover --finish`.
    #[error(
        "{cause}; a database was restored already, or may have been, so the rest has to be finished"
    )]
    MustFinish {
        /// What failed.
        cause: Box<Error>,
        /// The intent that is left.
        intent: IntentId,
    },
    /// Something failed in the middle; every change was taken back.
    #[error("{cause}; everything was put back")]
    RolledBack {
        /// What failed.
        cause: Box<Error>,
        /// What the way back met.
        outcome: Box<Outcome>,
    },
    /// Something failed in the middle, and so did the way back: the intent waits for `recover`.
    #[error("{cause}; putting things back failed too: {rollback}")]
    Interrupted {
        /// What failed first.
        cause: Box<Error>,
        /// What failed on the way back.
        rollback: Box<Error>,
        /// The intent that is left.
        intent: IntentId,
    },
}

impl Error {
    /// Whether something changed under us or stands in the way (exit 7).
    pub fn is_conflict(&self) -> bool {
        match self {
            Self::Conflicts(_)
            | Self::Replaced { .. }
            | Self::Unfinished { .. }
            | Self::Running { .. }
            | Self::NotEmpty { .. } => true,
            Self::Database { error, .. } => {
                matches!(error, crate::databases::Error::Conflict(_))
            }
            Self::RolledBack { cause, .. }
            | Self::Interrupted { cause, .. }
            | Self::MustFinish { cause, .. } => cause.is_conflict(),
            _ => false,
        }
    }

    /// Whether git's own locks stopped it (exit 5).
    pub fn is_git_busy(&self) -> bool {
        match self {
            Self::GitBusy(_) | Self::IndexLocked(_) => true,
            Self::RolledBack { cause, .. }
            | Self::Interrupted { cause, .. }
            | Self::MustFinish { cause, .. } => cause.is_git_busy(),
            _ => false,
        }
    }

    /// Git's lock on an index is there already.
    pub fn index_locked(lock: &std::path::Path) -> Self {
        Self::IndexLocked(lock.to_owned())
    }

    /// A conflict at one path.
    pub(crate) fn conflict(path: &rappel_types::RelPath, reason: impl Into<String>) -> Self {
        Self::Conflicts(vec![Conflict::at(path.clone(), reason)])
    }
}

fn describe(conflicts: &[Conflict]) -> String {
    match conflicts {
        [] => "the plan has conflicts".into(),
        [one] => format!("{}: {}", one.name(), one.reason),
        [first, rest @ ..] => {
            format!("{}: {} (and {} more conflicts)", first.name(), first.reason, rest.len())
        }
    }
}
