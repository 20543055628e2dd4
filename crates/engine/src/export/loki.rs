//! The folder of Loki Mode in a workspace: what our checkpoints look like there.

use std::path::{Path, PathBuf};

use rappel_formats::loki::{self, CHECKPOINTS, FOLDER, Listed};
use rappel_formats::portable::Files;
use rappel_formats::{Portable, form::Skipped};
use rappel_types::Advice;
use rappel_types::{CheckpointId, RelPath};
use serde_json::Value;

use crate::error::{Error, Result};
use crate::rappel::Rappel;

/// What was written for Loki Mode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LokiWritten {
    /// What the checkpoint is called there.
    pub id: String,
    /// Its folder.
    pub location: PathBuf,
    /// How many items of state were copied.
    pub items: u64,
}

impl Rappel {
    /// The tool's folder, in a workspace where it works: `LOKI_DIR`, else `.loki`.
    fn loki_folder(&self) -> Option<PathBuf> {
        let named = (self.options.variables)("LOKI_DIR").filter(|text| !text.is_empty());
        let folder = self.root.join(named.as_deref().unwrap_or(FOLDER));
        folder.is_dir().then_some(folder)
    }

    /// Where Loki Mode keeps its checkpoints, in a workspace where it works.
    pub fn loki_place(&self) -> Option<PathBuf> {
        Some(self.loki_folder()?.join(CHECKPOINTS))
    }

    /// The checkpoints in that folder, whoever made them, oldest first; and what cannot be read.
    pub fn list_loki(&self) -> Result<(Vec<Listed>, Vec<Skipped>)> {
        match self.loki_place() {
            Some(place) if loki::is_here(&place) => Ok(loki::list(&place)?),
            _ => Ok((Vec::new(), Vec::new())),
        }
    }

    /// Writes a checkpoint into that folder, as the tool would have.
    pub fn write_loki(&self, id: &CheckpointId) -> Result<LokiWritten> {
        let missing = || Error::NoCheckpoint { reference: id.to_string(), nearest: None };
        let row = self.store.checkpoint(id)?.ok_or_else(missing)?;
        let folder = self.loki_folder().ok_or_else(|| Error::NotThere {
            message: format!("there is no {FOLDER} in {}", self.root.display()),
            advice: Advice::plain("Loki Mode makes it"),
        })?;
        let mut one = self.portable(&row)?;
        if let Some(files) = &mut one.files {
            rename_state(files, &self.root, &folder);
        }
        tell_of_state(&mut one);
        let place = folder.join(CHECKPOINTS);
        let written = loki::write_on(self.store.disk(), &[one], &place)?;
        let is_usual = folder == self.root.join(FOLDER);
        if !is_usual && place.starts_with(&self.root) {
            self.exclude_written(&place)?;
        }
        let location = written.paths.into_iter().next().ok_or_else(missing)?;
        let names = std::fs::read_dir(&location).map_err(Error::io("list", &location))?;
        // All of them but the metadata.
        let items = (names.count() as u64).saturating_sub(1);
        let id = location.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(LokiWritten { id, location, items })
    }
}

/// Has the files of the tool's folder lie where the form expects them.
fn rename_state(files: &mut Files, root: &Path, folder: &Path) {
    let below = folder.strip_prefix(root).ok();
    let below = below.and_then(|path| RelPath::new(path.as_os_str().as_encoded_bytes()).ok());
    let Some(below) = below.filter(|below| below.as_bytes() != FOLDER.as_bytes()) else { return };
    let own = std::mem::take(&mut files.entries).into_iter().filter_map(|(path, file)| {
        let rest = path.is_within(&below).then(|| &path.as_bytes()[below.as_bytes().len()..])?;
        Some((RelPath::new([FOLDER.as_bytes(), rest].concat()).ok()?, file))
    });
    files.entries = own.collect();
}

/// Phase and iteration, as the tool's own state has them, unless somebody said otherwise.
fn tell_of_state(one: &mut Portable) {
    let path: Option<RelPath> = format!("{FOLDER}/state/orchestrator.json").parse().ok();
    let file = one.files.as_ref().zip(path).and_then(|(files, path)| files.entries.get(&path));
    let file = file.filter(|file| !file.is_link && file.content.len() <= 16 << 20);
    let Some(state) = file.and_then(|file| {
        serde_json::from_reader::<_, Value>(std::io::BufReader::new(file.content.open().ok()?)).ok()
    }) else {
        return;
    };
    let keys = [
        ("phase", &["currentPhase", "phase"][..]),
        ("iteration", &["currentIteration", "iteration", "iterationCount"][..]),
    ];
    for (name, keys) in keys {
        if let Some(value) = keys.iter().find_map(|key| state.get(key)) {
            one.metadata.entry(name.to_owned()).or_insert_with(|| value.clone());
        }
    }
}
