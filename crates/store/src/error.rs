//! What can go wrong in the store, in words that name the thing and the place.

use std::io;
use std::path::{Path, PathBuf};

use rappel_types::duration::format_duration;
use rappel_types::size::format_size;
use rappel_types::{CheckpointId, ObjectId};

/// Shorthand for this crate's results.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// ` (waited 5s)`; nothing for less than a second.
pub fn waited(milliseconds: u64) -> String {
    match milliseconds {
        ..1000 => String::new(),
        long => format!(" (waited {})", format_duration(long)),
    }
}

/// Something went wrong in the store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried: "read", "create" and so on.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// Somebody else holds the lock and did not let go in time.
    #[error("the store is busy: {holder}{}", waited(*waited_ms))]
    Busy {
        /// Who, as the lock file tells.
        holder: String,
        /// For how long we waited.
        waited_ms: u64,
    },
    /// A folder stands where a file of the home belongs.
    #[error("{} is a folder, and a file of Rappel's belongs there", path.display())]
    InTheWay {
        /// Where.
        path: PathBuf,
    },
    /// Stored bytes are not what was written.
    #[error("damaged: {0}")]
    Damaged(String),
    /// An object that should be there is not.
    #[error("object {0} is missing from the store")]
    Missing(ObjectId),
    /// Something was written by a later version.
    #[error("{what} has format version {found}; this build understands up to {supported}")]
    Newer {
        /// Which file or structure.
        what: String,
        /// Its version.
        found: u32,
        /// Ours.
        supported: u32,
    },
    /// The home cannot be used.
    #[error("{} cannot be used as a home: {reason}", path.display())]
    Unsuitable {
        /// The home.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The home can be read and not be written to.
    #[error("the home {} cannot be written to: {reason} (it belongs to user {owner})", path.display())]
    ReadOnly {
        /// The home.
        path: PathBuf,
        /// Whose it is.
        owner: u32,
        /// What the operating system said.
        reason: String,
    },
    /// The disk has no room for what is about to be written.
    #[error("not enough space on the disk of {}: {} more needed", path.display(), format_size(*missing))]
    NoSpace {
        /// A path on that disk.
        path: PathBuf,
        /// How much is missing.
        missing: u64,
    },
    /// Garbage collection removed something that this run was about to refer to; do it again.
    #[error("the store was compacted meanwhile")]
    Moved,
    /// A deleted checkpoint whose space was already given back.
    #[error("{0} cannot be brought back: gc has freed what it held")]
    Collected(CheckpointId),
    /// A session that was let go and whose space was already given back.
    #[error("session {0} cannot be brought back: gc has freed what it held")]
    SessionCollected(String),
    /// A session that was let go, and that has begun again since.
    #[error("session {0} cannot be brought back: another one has begun under its id")]
    SessionBegunAnew(String),
    /// The index could not be used.
    #[error("index {}: {source}", path.display())]
    Index {
        /// The database file.
        path: PathBuf,
        /// What SQLite said.
        source: rusqlite::Error,
    },
    /// The user asked to stop.
    #[error("cancelled")]
    Cancelled,
    /// Whoever commits found, under the lock, that it must not be; they know why.
    #[error("not committed")]
    Refused,
}

impl Error {
    /// A closure for `map_err` that keeps the action and the path.
    pub fn io(action: &'static str, path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> Self {
        let path = path.as_ref().to_owned();
        move |source| Self::Io { action, path, source }
    }

    /// Whether the disk is full, so that giving up the reserve may help.
    pub fn is_no_space(&self) -> bool {
        match self {
            Self::NoSpace { .. } => true,
            Self::Io { source, .. } => {
                use io::ErrorKind::{QuotaExceeded, StorageFull};
                matches!(source.kind(), StorageFull | QuotaExceeded)
            }
            Self::Index { source, .. } => {
                source.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull)
            }
            _ => false,
        }
    }

    /// Whether the index says what makes no sense, so that it has to be built anew.
    pub(crate) fn is_spoilt_index(&self) -> bool {
        matches!(self, Self::Index { source, .. } if crate::index::is_unusable(source))
    }

    /// Whether something could not be opened for writing, so that reading alone may still work.
    pub(crate) fn is_unwritable(&self) -> bool {
        match self {
            Self::Io { source, .. } => {
                use io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
                matches!(source.kind(), ReadOnlyFilesystem | PermissionDenied)
            }
            Self::Index { source, .. } => {
                use rusqlite::ErrorCode::{CannotOpen, PermissionDenied, ReadOnly};
                matches!(source.sqlite_error_code(), Some(CannotOpen | PermissionDenied | ReadOnly))
            }
            _ => false,
        }
    }

    /// Whether a file is not there.
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// Whether what was stored is at fault, and not the attempt to read it: too many open files, say,
    /// or a disk that gives no answer.
    pub(crate) fn is_about_content(&self) -> bool {
        self.is_damage() || self.is_not_found() || matches!(self, Self::Newer { .. })
    }

    /// Whether stored bytes are at fault, so that reading another copy may help.
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Damaged(_) | Self::Missing(_))
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Io { source, .. } => source,
            other => io::Error::other(other.to_string()),
        }
    }
}
