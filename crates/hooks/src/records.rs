//! What `integrate` has to remember to take back exactly what it did: `integrations/` in Rappel's
//! home, one file for each folder of an agent's settings. None of the user's settings are in it.
//!
//! Losing a record costs little: hooks and files of ours are known by their marks. What is empty
//! then counts as ours.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::files::{self, FileError, Result};
use crate::hook_settings::Empty;
use crate::json_text::Edits;
use crate::scope::Scope;

const VERSION: u32 = 1;
/// How often the lock is asked for, twenty times a second.
const PATIENCE: usize = 200;

/// What was done in one folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    version: u32,
    /// Whose folder it is; nothing in records of versions that knew one agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The folder: `.claude`.
    pub folder: PathBuf,
    /// Settings files in it, by their names.
    #[serde(default)]
    pub settings: BTreeMap<String, Settings>,
    /// The entries of our server for MCP that we wrote, by the names of their files.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub servers: BTreeMap<String, serde_json::Value>,
    /// Folders that were not there before, outermost first.
    #[serde(default)]
    pub made: Vec<PathBuf>,
}

/// What was done to a settings file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// The file was there before.
    pub existed: bool,
    /// A checksum of the text that we wrote.
    pub checksum: String,
    /// What makes of that text the one before.
    pub reverse: Edits,
    /// What was empty in the one before, for a text that the user has edited since.
    #[serde(default, skip_serializing_if = "Empty::is_empty")]
    pub empty: Empty,
    /// For whom it was done; nothing in records of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<Scope>,
}

impl Settings {
    /// What was done to a file whose text is now this.
    pub fn new(existed: bool, text: &str, reverse: Edits) -> Self {
        Self { existed, checksum: checksum(text), reverse, empty: Empty::new(), scope: None }
    }

    /// What there was before, if the text is still the one that we wrote; the inner `None` is no
    /// file at all.
    pub fn before(&self, text: &str) -> Option<Option<String>> {
        if checksum(text) != self.checksum {
            return None;
        }
        match self.existed {
            true => self.reverse.apply(text).map(Some),
            false => Some(None),
        }
    }
}

/// A record of a later version is left alone.
fn is_later(text: &str) -> bool {
    let found: Option<serde_json::Value> = serde_json::from_str(text).ok();
    found.and_then(|found| found.get("version")?.as_u64()).is_some_and(|it| it > VERSION.into())
}

/// A checksum of a text.
pub fn checksum(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex().to_string()
}

/// All records, held against other processes of ours until this is dropped.
#[derive(Debug)]
pub struct Records {
    folder: PathBuf,
    _lock: File,
}

impl Records {
    /// The records in a home, as soon as no other process has them.
    pub fn open(home: &Path) -> Result<Self> {
        let folder = home.join("integrations");
        let failed = |action, path: &Path| {
            let path = path.to_owned();
            move |source| FileError::Io { action, path, source }
        };
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder);
        made.map_err(failed("create", &folder))?;
        let path = folder.join("lock");
        let mut options = File::options();
        let lock =
            options.create(true).truncate(false).write(true).mode(files::PRIVATE).open(&path);
        let lock = lock.map_err(failed("lock", &path))?;
        for _ in 0..PATIENCE {
            match lock.try_lock() {
                Ok(()) => return Ok(Self { folder, _lock: lock }),
                Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(50)),
                Err(TryLockError::Error(error)) => return Err(failed("lock", &path)(error)),
            }
        }
        Err(FileError::Locked)
    }

    /// The records in a home, if anything was ever recorded there.
    pub fn open_existing(home: &Path) -> Result<Option<Self>> {
        match home.join("integrations").is_dir() {
            true => Self::open(home).map(Some),
            false => Ok(None),
        }
    }

    /// The record of a folder; an empty one if there is none that can be read.
    pub fn of(&self, folder: &Path) -> Record {
        let found = files::read(&self.path(folder)).ok().flatten();
        let found = found.and_then(|text| serde_json::from_str::<Record>(&text).ok());
        let found = found.filter(|record| record.version == VERSION && record.folder == folder);
        found.unwrap_or_else(|| Record {
            version: VERSION,
            agent: None,
            folder: folder.to_owned(),
            settings: BTreeMap::new(),
            servers: BTreeMap::new(),
            made: Vec::new(),
        })
    }

    /// Keeps a record; one that says nothing is removed.
    pub fn keep(&self, record: &Record) -> Result<()> {
        let is_empty =
            record.settings.is_empty() && record.servers.is_empty() && record.made.is_empty();
        let text = match is_empty {
            true => None,
            false => Some(
                serde_json::to_string_pretty(record)
                    .map_err(|_| FileError::NotText { path: record.folder.clone() })?,
            ),
        };
        let path = self.path(&record.folder);
        let replace = |found: Option<&str>| match found {
            Some(found) if is_later(found) => Ok(Some(found.to_owned())),
            _ => Ok(text.clone()),
        };
        files::update::<FileError>(&path, files::PRIVATE, replace).map(drop)
    }

    /// Every folder that there is a record of.
    pub fn folders(&self) -> Vec<PathBuf> {
        self.all().into_iter().map(|record| record.folder).collect()
    }

    /// Every record, by folder.
    pub fn all(&self) -> Vec<Record> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let text = entries.filter_map(|entry| files::read(&entry.path()).ok().flatten());
        let records = text.filter_map(|text| serde_json::from_str::<Record>(&text).ok());
        let mut records: Vec<Record> = records.collect();
        records.sort_by(|one, other| one.folder.cmp(&other.folder));
        records
    }

    fn path(&self, folder: &Path) -> PathBuf {
        let name = blake3::hash(folder.as_os_str().as_encoded_bytes()).to_hex();
        self.folder.join(format!("{}.json", &name[..16]))
    }
}
