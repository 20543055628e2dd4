//! A state folder: its numbered files, read and written.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rappel_store::disk::{self, Disk};
use rappel_store::held;

use super::{CheckpointData, CheckpointSummary};
use crate::error::{Error, Result};

/// A file that is larger is no checkpoint of this form.
const FILE_MAX: u64 = 64 << 20;

/// What a state folder holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Folder {
    /// Its checkpoints, by number.
    pub checkpoints: Vec<CheckpointData>,
    /// Files whose names say that they are checkpoints and that could not be read.
    pub corrupt: Vec<PathBuf>,
    /// The highest number of any of them, corrupt ones included; 0 if there is none.
    pub last_number: u64,
}

impl Folder {
    /// The summary of all of them.
    pub fn summary(&self) -> CheckpointSummary {
        let corrupt = self.corrupt.len() as u64;
        CheckpointSummary { corrupt, ..CheckpointSummary::of(&self.checkpoints) }
    }
}

/// Where the numbered files of a state folder lie.
pub fn checkpoints_dir(state_dir: &Path) -> PathBuf {
    state_dir.join("checkpoints")
}

/// What the file of a checkpoint is called: `007-checkpoint.json`.
pub fn file_name(number: u64) -> String {
    format!("{number:03}-checkpoint.json")
}

/// The number that a file's name says.
fn number_of(name: &str) -> Option<u64> {
    let digits = name.strip_suffix("-checkpoint.json")?;
    let number =
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())??;
    (file_name(number) == name).then_some(number)
}

/// Reads all checkpoints of a state folder. One that is not there holds none.
pub fn read(state_dir: &Path) -> Result<Folder> {
    let folder = checkpoints_dir(state_dir);
    let mut found = Folder::default();
    let entries = match std::fs::read_dir(&folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(found),
        other => other.map_err(Error::io("list", &folder))?,
    };
    for entry in entries {
        let entry = entry.map_err(Error::io("list", &folder))?;
        let Some(number) = entry.file_name().to_str().and_then(number_of) else { continue };
        found.last_number = found.last_number.max(number);
        match read_one(&entry.path(), number) {
            Some(data) => found.checkpoints.push(data),
            None => found.corrupt.push(entry.path()),
        }
    }
    found.checkpoints.sort_by_key(|data| data.number);
    found.corrupt.sort();
    Ok(found)
}

/// A file that can be read, and is the checkpoint that its name says.
fn read_one(path: &Path, number: u64) -> Option<CheckpointData> {
    let meta = std::fs::metadata(path).ok()?;
    // A pipe would be waited for without end.
    if !meta.is_file() || meta.len() > FILE_MAX {
        return None;
    }
    let data: CheckpointData = serde_json::from_str(&held::read_to_string(path).ok()?).ok()?;
    (data.number == number).then_some(data)
}

/// The summary of a state folder, whoever wrote it.
pub fn summary_of(state_dir: &Path) -> Result<CheckpointSummary> {
    Ok(read(state_dir)?.summary())
}

/// The checkpoint with the highest number that can be read.
pub fn latest_in(state_dir: &Path) -> Result<Option<CheckpointData>> {
    Ok(read(state_dir)?.checkpoints.pop())
}

/// Writes a checkpoint under its number; readers find the whole file or none. A file of the same
/// session is replaced, another one's is not.
pub fn write(disk: &Arc<dyn Disk>, state_dir: &Path, data: &CheckpointData) -> Result<PathBuf> {
    let folder = checkpoints_dir(state_dir);
    disk::create_dir(&**disk, &folder)?;
    let path = folder.join(file_name(data.number));
    if path.symlink_metadata().is_ok() {
        let there = read_one(&path, data.number);
        if there.is_none_or(|there| there.session_id != data.session_id) {
            return Err(Error::Taken { path });
        }
    }
    let mut json = serde_json::to_string_pretty(data)
        .map_err(|error| Error::Json { path: path.clone(), reason: error.to_string() })?;
    json.push('\n');
    disk::replace(disk, &path, json.as_bytes())?;
    Ok(path)
}
