//! A command that is about to destroy something, as a checkpoint before it has to know it.
//!
//! Nothing here knows a shell: crate `rappel-hooks` reads the command line and says what it reaches.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// What a command is about to destroy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operation {
    /// The command, as it was written.
    pub command: String,
    /// What it does, for people: `removes files`.
    pub does: String,
    /// The files and folders that it names, absolute.
    pub files: Vec<PathBuf>,
    /// Folders whose ignored files it takes as well, as `git clean -x` does.
    pub ignored: Vec<PathBuf>,
    /// Words that name something only the run will tell.
    pub unknown: Vec<String>,
    /// It reaches databases.
    pub databases: bool,
    /// It reaches something that no checkpoint holds: containers, other machines.
    pub elsewhere: Vec<String>,
}
