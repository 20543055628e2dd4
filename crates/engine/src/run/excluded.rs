//! Folders that Rappel itself writes for other tools inside a workspace. They are noted in the
//! home, so that no process captures them: each tick would find them changed.

use std::path::{Path, PathBuf};

use rappel_store::{disk, held};
use rappel_types::path::{escape_bytes, unescape};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use crate::error::Result;
use crate::rappel::Rappel;

const VERSION: u32 = 1;

/// What the home remembers of a workspace's folders.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Written {
    version: u32,
    /// Absolute, escaped.
    folders: Vec<String>,
}

impl Rappel {
    /// The folders that Rappel writes for other tools in this workspace.
    pub(crate) fn written_folders(&self) -> Vec<PathBuf> {
        let Some(path) = self.written_path() else { return Vec::new() };
        let text = held::read_to_string(path).unwrap_or_default();
        let written: Written = serde_json::from_str(&text).unwrap_or_default();
        let folder = |text: &String| Some(PathBuf::from(OsString::from_vec(unescape(text)?)));
        written.folders.iter().filter_map(folder).collect()
    }

    /// From now on no save of this workspace captures that folder. It has to be there.
    pub(crate) fn exclude_written(&self, folder: &Path) -> Result<()> {
        self.settle_workspace()?;
        let folder =
            std::fs::canonicalize(folder).map_err(crate::error::Error::io("open", folder))?;
        let mut folders = self.written_folders();
        let Some(path) = self.written_path().filter(|_| !folders.contains(&folder)) else {
            return Ok(());
        };
        folders.retain(|known| known.is_dir());
        folders.push(folder);
        let escape = |folder: &PathBuf| escape_bytes(folder.as_os_str().as_bytes());
        let written = Written { version: VERSION, folders: folders.iter().map(escape).collect() };
        let json = serde_json::to_vec(&written).unwrap_or_default();
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
