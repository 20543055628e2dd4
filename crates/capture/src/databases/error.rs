//! What can go wrong with a database, sorted by what it means for a checkpoint or a restore.
//! No message ever holds a password.

use rappel_store::Error as StoreError;

/// Shorthand for results about databases.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Something went wrong with a database.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It cannot be had: no such server, program, file, password. A checkpoint is made without it.
    #[error("{0}")]
    Unavailable(String),
    /// A program that it needs is not installed, or too old; says which to install. Otherwise as
    /// [`Error::Unavailable`].
    #[error("{0}")]
    NoProgram(String),
    /// What stands in its place is no database, or a damaged one. Its bytes can be kept as a file.
    #[error("{0}")]
    Damaged(String),
    /// It is not there at all, and could be created.
    #[error("{0}")]
    Absent(String),
    /// Others hold it and did not let go in time; says who.
    #[error("{0}")]
    Busy(String),
    /// It changed while it was worked on. Nothing was done.
    #[error("{0}")]
    Conflict(String),
    /// It must not or cannot be restored; says what to do.
    #[error("{message}")]
    Refused {
        /// Why.
        message: String,
        /// What to do.
        advice: Vec<rappel_types::Advice>,
    },
    /// A function that the dump calls names something without its schema, and it was not found. Nothing was done; it
    /// may be found with [`super::Names::Trusted`].
    #[error("{0}")]
    NameMissing(String),
    /// The user has not allowed what `rappel.toml` would run or reach for it. Nothing was run.
    #[error("{0}")]
    Untrusted(String),
    /// The connection was lost in the middle of a commit: it may or may not have happened.
    #[error("{0}")]
    Unknown(String),
    /// The store could not take or give something.
    #[error(transparent)]
    Store(#[from] StoreError),
}
