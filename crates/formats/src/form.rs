//! The forms, and the one way in which each is read and written.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::portable::Portable;
use crate::{Result, aiwg, caf, forge, loki, lugh};

/// A form of checkpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Form {
    /// Our own portable one. It is the engine's: its objects are the store's.
    Rappel,
    Lugh,
    Loki,
    Forge,
    Caf,
    Aiwg,
}

impl Form {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Rappel, Self::Lugh, Self::Loki, Self::Forge, Self::Caf, Self::Aiwg];

    /// Its name on the command line, in references and in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rappel => "rappel",
            Self::Lugh => "lugh",
            Self::Loki => "loki",
            Self::Forge => "forge",
            Self::Caf => "caf",
            Self::Aiwg => "aiwg",
        }
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Form {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names: Vec<&str> = Self::ALL.iter().map(|form| form.as_str()).collect();
        Self::ALL
            .into_iter()
            .find(|form| form.as_str() == text)
            .ok_or_else(|| format!("{text:?} is none of {}", names.join(", ")))
    }
}

/// What a reader needs besides the path.
pub struct Reading<'a> {
    /// An empty folder for what has to be unpacked; whoever gave it removes it. It must outlive
    /// the checkpoints that were read.
    pub scratch: &'a Path,
    /// Told how many checkpoints were read, now and then; an error stops the reading.
    pub progress: &'a mut dyn FnMut(u64) -> Result<()>,
}

/// What a reader found.
#[derive(Debug, Default)]
pub struct Found {
    /// The checkpoints, oldest first.
    pub checkpoints: Vec<Portable>,
    /// What could not be read, and why.
    pub skipped: Vec<Skipped>,
    /// The folder or file that the history lies in, as the form understands it: two readings with
    /// the same one are of the same history.
    pub place: PathBuf,
}

/// Something that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, schemars::JsonSchema, serde::Serialize)]
#[schemars(rename = "UnreadableFile")]
pub struct Skipped {
    /// Which file, escaped.
    pub path: String,
    /// Why, for people.
    pub reason: String,
}

/// What a writer wrote.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Written {
    /// The files and folders that a user would look at, one for each checkpoint where the form
    /// keeps them apart.
    pub paths: Vec<PathBuf>,
    /// What the checkpoints hold and the form cannot carry, a sentence each.
    pub left_out: Vec<String>,
}

/// Whether what lies at a path is of one form.
type Look = fn(&Path) -> bool;

/// The form of what lies at `path`, if it is one of them. Looks at names and at the beginnings of
/// files only. Our own is recognised by the engine.
pub fn detect(path: &Path) -> Option<Form> {
    let looks: [(Form, Look); 5] = [
        (Form::Lugh, lugh::is_here),
        (Form::Loki, loki::is_here),
        (Form::Aiwg, aiwg::is_here),
        (Form::Forge, forge::is_here),
        (Form::Caf, caf::is_here),
    ];
    looks.into_iter().find(|(_, is_here)| is_here(path)).map(|(form, _)| form)
}

/// Reads all checkpoints of a form at `path`. What is read is hostile until proven otherwise: a
/// reader bounds sizes, depths and counts, follows no link out of `path`, and never panics.
pub fn read(form: Form, path: &Path, reading: &mut Reading<'_>) -> Result<Found> {
    match form {
        Form::Rappel => Err(crate::Error::NotThisForm { path: path.to_owned(), form }),
        Form::Lugh => lugh::read(path, reading),
        Form::Loki => loki::read(path, reading),
        Form::Forge => forge::read(path, reading),
        Form::Caf => caf::read(path, reading),
        Form::Aiwg => aiwg::read_all(path, reading),
    }
}

/// Writes checkpoints, oldest first, below `place`: the folder of all checkpoints, or for forge
/// the file. Each is complete or not there.
pub fn write(form: Form, checkpoints: &[Portable], place: &Path) -> Result<Written> {
    let mut written = match form {
        Form::Rappel => Err(crate::Error::NotThisForm { path: place.to_owned(), form }),
        Form::Lugh => lugh::write(checkpoints, place),
        Form::Loki => loki::write(checkpoints, place),
        Form::Forge => forge::write(checkpoints, place),
        Form::Caf => caf::write(checkpoints, place),
        Form::Aiwg => aiwg::write_all(checkpoints, place),
    }?;
    written.left_out.extend(checkpoints.iter().flat_map(|one| one.left_out.clone()));
    written.left_out.sort();
    written.left_out.dedup();
    Ok(written)
}
