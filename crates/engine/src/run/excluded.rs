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
    /// Those of `[export]`, likewise. They count only as long as `rappel.toml` names them: what lies
    /// in them then is the user's own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    exports: Vec<String>,
    /// Databases, relative to the root, escaped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    files: Vec<String>,
}

impl Rappel {
    /// The folders that Rappel writes for other tools in this workspace.
    pub(crate) fn written_folders(&self) -> Vec<PathBuf> {
        let Written { folders, exports, .. } = self.written();
        let now = self.export_folder().and_then(|folder| folder.canonicalize().ok());
        let named = exports
            .iter()
            .filter_map(|text| unescaped(text))
            .filter(|one| Some(one) == now.as_ref());
        folders.iter().filter_map(|text| unescaped(text)).chain(named).collect()
    }

    /// The databases that Rappel writes for other tools in this workspace, with the files that SQLite
    /// keeps beside them.
    pub(crate) fn written_files(&self) -> Vec<RelPath> {
        let beside = ["", "-journal", "-shm", "-wal"];
        let now = self.export_database();
        let is_named = |file: &String| {
            let path = unescaped(file).map(|file| self.root.join(file));
            path.is_some() && path == now
        };
        let files: Vec<String> = self.written().files.into_iter().filter(is_named).collect();
        let all = files.iter().flat_map(|file| beside.map(|ending| format!("{file}{ending}")));
        all.filter_map(|path| path.parse().ok()).collect()
    }

    /// From now on no save of this workspace captures that folder. It has to be there.
    pub(crate) fn exclude_written(&self, folder: &Path) -> Result<()> {
        self.exclude(folder, |written| &mut written.folders)
    }

    /// The same for the folder of `[export]`, as long as `rappel.toml` names it.
    pub(crate) fn exclude_export(&self, folder: &Path) -> Result<()> {
        self.exclude(folder, |written| &mut written.exports)
    }

    fn exclude(&self, folder: &Path, list: fn(&mut Written) -> &mut Vec<String>) -> Result<()> {
        self.settle_workspace()?;
        let folder =
            std::fs::canonicalize(folder).map_err(crate::error::Error::io("open", folder))?;
        let mut written = self.written();
        if !add(list(&mut written), &folder) {
            return Ok(());
        }
        self.note_written(&Written { version: VERSION, ..written })
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

fn unescaped(text: &str) -> Option<PathBuf> {
    Some(PathBuf::from(OsString::from_vec(unescape(text)?)))
}

/// Adds a folder to those that are still there; whether it is news.
fn add(folders: &mut Vec<String>, folder: &Path) -> bool {
    let name = escape_bytes(folder.as_os_str().as_bytes());
    if folders.contains(&name) {
        return false;
    }
    folders.retain(|known| unescaped(known).is_some_and(|known| known.is_dir()));
    folders.push(name);
    true
}
