//! Folders and files that Rappel itself writes for other tools inside a workspace. They are noted in
//! the home, so that no process captures them: each tick would find them changed.

use std::path::{Path, PathBuf};

use rappel_store::{disk, held};
use rappel_types::RelPath;
use rappel_types::path::{escape_bytes, unescape};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use crate::error::Result;
use crate::rappel::Rappel;

const VERSION: u32 = 1;

/// What the home remembers of a workspace.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Written {
    version: u32,
    /// Absolute, escaped.
    folders: Vec<String>,
    /// Databases, relative to the root, escaped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    files: Vec<String>,
}

impl Rappel {
    /// The folders that Rappel writes for other tools in this workspace.
    pub(crate) fn written_folders(&self) -> Vec<PathBuf> {
        let folder = |text: &String| Some(PathBuf::from(OsString::from_vec(unescape(text)?)));
        self.written().folders.iter().filter_map(folder).collect()
    }

    /// The databases that Rappel writes for other tools in this workspace, with the files that SQLite
    /// keeps beside them.
    pub(crate) fn written_files(&self) -> Vec<RelPath> {
        let beside = ["", "-journal", "-shm", "-wal"];
        let files = self.written().files;
        let all = files.iter().flat_map(|file| beside.map(|ending| format!("{file}{ending}")));
        all.filter_map(|path| path.parse().ok()).collect()
    }

    /// From now on no save of this workspace captures that folder. It has to be there.
    pub(crate) fn exclude_written(&self, folder: &Path) -> Result<()> {
        self.settle_workspace()?;
        let folder =
            std::fs::canonicalize(folder).map_err(crate::error::Error::io("open", folder))?;
        let mut folders = self.written_folders();
        if folders.contains(&folder) {
            return Ok(());
        }
        folders.retain(|known| known.is_dir());
        folders.push(folder);
        let escape = |folder: &PathBuf| escape_bytes(folder.as_os_str().as_bytes());
        let folders = folders.iter().map(escape).collect();
        self.note_written(&Written { version: VERSION, folders, ..self.written() })
    }

    /// The same for a database, which need not be there yet.
    pub(crate) fn exclude_written_file(&self, file: &Path) -> Result<()> {
        self.settle_workspace()?;
        let Ok(inside) = file.strip_prefix(&self.root) else { return Ok(()) };
        let name = escape_bytes(inside.as_os_str().as_bytes());
        let mut written = self.written();
        if written.files.contains(&name) {
            return Ok(());
        }
        written.version = VERSION;
        written.files.push(name);
        self.note_written(&written)
    }

    fn written(&self) -> Written {
        let Some(path) = self.written_path() else { return Written::default() };
        let text = held::read_to_string(path).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    fn note_written(&self, written: &Written) -> Result<()> {
        let Some(path) = self.written_path() else { return Ok(()) };
        let json = serde_json::to_vec(written).unwrap_or_default();
        let disk = self.store.disk();
        if let Some(parent) = path.parent() {
            disk::create_dir(&**disk, parent)?;
        }
        Ok(disk::replace(disk, &path, &json)?)
    }

    fn written_path(&self) -> Option<PathBuf> {
        let id = self.workspace_id()?;
        Some(self.store.home().root().join("written").join(format!("{id}.json")))
    }
}
