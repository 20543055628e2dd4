//! What can go wrong with a file of another tool.

use std::io;
use std::path::{Path, PathBuf};

/// Why a file could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system refused.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// With what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file could not be written durably.
    #[error("{0}")]
    Store(#[from] rappel_store::Error),
    /// A checkpoint of another session has this number.
    #[error("{} is a checkpoint of another session", path.display())]
    Taken {
        /// Its file.
        path: PathBuf,
    },
    /// The value cannot be written as JSON.
    #[error("cannot write {} as JSON: {reason}", path.display())]
    Json {
        /// Where it was to go.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

impl Error {
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }
}

/// What this crate returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;
