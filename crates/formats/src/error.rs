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
    /// What lies there is of another form, or of none.
    #[error("{} holds no checkpoints in the form of {form}", path.display())]
    NotThisForm {
        /// What was read.
        path: PathBuf,
        /// What it was read as.
        form: crate::Form,
    },
    /// Nothing of it can be taken, because of what it is.
    #[error("{}: {reason}", path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// Why, for people.
        reason: String,
    },
    /// It was made by a newer version than this one reads.
    #[error(
        "{} is of version {found}; this build reads {supported}: use a newer rappel, or let the tool \
         write version {supported}",
        path.display()
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// The version that it says.
        found: String,
        /// The version that is needed.
        supported: &'static str,
    },
    /// Whoever asked for it wants no more.
    #[error("stopped")]
    Stopped,
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
