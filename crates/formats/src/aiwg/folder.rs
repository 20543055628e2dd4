//! A state folder: its numbered files, read and written.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rappel_store::disk::{self, Disk};

use super::{CheckpointData, CheckpointSummary};
use crate::error::{Error, Result};
use crate::files;

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
pub(super) fn number_of(name: &str) -> Option<u64> {
    let digits = name.strip_suffix("-checkpoint.json")?;
    let number =
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())??;
    (file_name(number) == name).then_some(number)
}

/// Reads all checkpoints of a state folder. One that is not there holds none.
pub fn read(state_dir: &Path) -> Result<Folder> {
    read_numbered(&checkpoints_dir(state_dir))
}

/// Reads the numbered files of a folder.
pub(super) fn read_numbered(folder: &Path) -> Result<Folder> {
    let mut found = Folder::default();
    for name in numbered(folder)? {
        let Some(number) = number_of(&name) else { continue };
        found.last_number = found.last_number.max(number);
        let path = folder.join(name);
        match read_one(&path, number) {
            Ok(data) => found.checkpoints.push(data),
            Err(_) => found.corrupt.push(path),
        }
    }
    found.checkpoints.sort_by_key(|data| data.number);
    Ok(found)
}

/// The names of the numbered files of a folder, sorted. One that is not there has none.
pub(super) fn numbered(folder: &Path) -> Result<Vec<String>> {
    match files::names(folder, |name| number_of(name).is_some()) {
        Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
            Ok(Vec::new())
        }
        other => other,
    }
}

/// A file that can be read, and is the checkpoint that its name says; else why not.
pub(super) fn read_one(path: &Path, number: u64) -> Result<CheckpointData, String> {
    let data = from_bytes(&files::read(path, FILE_MAX)?)?;
    match data.number == number {
        true => Ok(data),
        false => Err(format!("it says that it is number {}", data.number)),
    }
}

pub(crate) fn from_bytes(bytes: &[u8]) -> Result<CheckpointData, String> {
    let value = files::parse(bytes)?;
    serde_json::from_value(value).map_err(|error| format!("not a checkpoint: {error}"))
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
        if !there.is_ok_and(|there| there.session_id == data.session_id) {
            return Err(Error::Taken { path });
        }
    }
    let mut json = serde_json::to_string_pretty(data)
        .map_err(|error| Error::Json { path: path.clone(), reason: error.to_string() })?;
    json.push('\n');
    disk::replace(disk, &path, json.as_bytes())?;
    Ok(path)
}
