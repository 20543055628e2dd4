//! What can go wrong while capturing or restoring, in words that name the thing and the place.

use std::io;
use std::path::{Path, PathBuf};

/// Shorthand for this crate's results.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Something went wrong while capturing or restoring.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried: "read", "open" and so on.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// The store could not take or give something.
    #[error(transparent)]
    Store(#[from] rappel_store::Error),
    /// A pattern of the configuration means nothing.
    #[error("files.{key}: {glob:?} is not a pattern: {reason}")]
    BadGlob {
        /// `include` or `exclude`.
        key: &'static str,
        /// As it was written.
        glob: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A folder that must not become a workspace.
    #[error("{} cannot be a workspace: {reason}", path.display())]
    UnsuitableRoot {
        /// The folder.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// Something else changed what was being worked on.
    #[error("{}: {reason}", path.display())]
    Conflict {
        /// Where.
        path: PathBuf,
        /// What happened.
        reason: String,
    },
    /// The user asked to stop.
    #[error("cancelled")]
    Cancelled,
}

impl Error {
    /// A closure for `map_err` that keeps the action and the path.
    pub fn io<E: Into<io::Error>>(
        action: &'static str,
        path: impl AsRef<Path>,
    ) -> impl FnOnce(E) -> Self {
        let path = path.as_ref().to_owned();
        move |source| Self::Io { action, path, source: source.into() }
    }

    /// Whether something changed under us, so that the same request may succeed later.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Conflict { .. })
    }
}
