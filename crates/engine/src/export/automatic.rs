//! `[export]`: checkpoints of chosen triggers are written out as they are made, once the user has
//! allowed it.
//!
//! It happens after a checkpoint is acknowledged and can neither fail nor undo a save: a failure is
//! noted in the home, `status` tells it, and the next save tries again. The note also says how far
//! it came, so that what a crash or a full disk kept from being written follows later.

use std::path::{Path, PathBuf};

use rappel_formats::Form;
use rappel_store::index::CheckpointRow;
use rappel_store::lock::Turn;
use rappel_store::{disk, held, tree};
use rappel_types::Advice;
use rappel_types::config::ExportConfig;
use rappel_types::git_name::is_git;
use rappel_types::path::escape_bytes;
use rappel_types::{Reference, RelPath, Timestamp, WorkspaceId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::os::unix::ffi::OsStrExt;

use super::{ExportOptions, ExportRange};
use crate::databases::followed;
use crate::error::{Error, Result};
use crate::rappel::Rappel;
use crate::trust::Wanted;

const VERSION: u32 = 1;

/// How far a workspace's checkpoints were written out.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Note {
    version: u32,
    /// The number of the last checkpoint that was, or that need not be.
    written: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    failure: Option<ExportFailure>,
}

/// That a checkpoint could not be written out.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct ExportFailure {
    /// When.
    pub at: Timestamp,
    /// Why.
    pub message: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub advice: Vec<Advice>,
}

/// Where everything goes.
struct Places {
    form: Option<Form>,
    place: Option<PathBuf>,
    sqlite: Option<PathBuf>,
}

impl Rappel {
    /// Why checkpoints that `[export]` asks for are not written out, if that is so.
    pub fn export_failure(&self) -> Option<ExportFailure> {
        self.config.export.as_ref()?;
        self.read_note(self.workspace_id()?).failure
    }

    /// The folder that `[export]` names today.
    pub(crate) fn export_folder(&self) -> Option<PathBuf> {
        let places = self.places(self.config.export.as_ref()?);
        Some(own_folder(places.form?, &places.place?))
    }

    /// The database that `[export]` names today.
    pub(crate) fn export_database(&self) -> Option<PathBuf> {
        self.places(self.config.export.as_ref()?).sqlite
    }

    /// What `[export]` wants to write to.
    pub(crate) fn wanted_by_export(&self, export: &ExportConfig) -> Wanted {
        let places = self.places(export);
        let text = |path: PathBuf| escape_bytes(path.as_os_str().as_bytes());
        Wanted::Export {
            format: places.form.map(|form| form.to_string()),
            place: places.place.map(text),
            sqlite: places.sqlite.map(text),
        }
    }

    /// Writes out what `[export]` asks for and is not there yet. A save does this itself unless it
    /// was asked to leave it. Never fails: a failure is noted, and `status` tells it.
    pub fn write_new_ones_out(&self) {
        let (Some(export), Some(id)) = (&self.config.export, self.workspace_id()) else { return };
        if self.store.require_writable().is_err() {
            return;
        }
        let tried = self.write_out(export, id);
        if let Err(error) = &tried {
            tracing::warn!(%error, "a checkpoint was not written out");
            let (message, advice) = (error.to_string(), error.advice());
            let failure = Some(ExportFailure { at: self.now(), message, advice });
            let note = Note { failure, ..self.read_note(id) };
            // Where not even this can be written, the home itself is in trouble, and says so.
            let _ = self.write_note(id, &note);
        }
    }

    fn write_out(&self, export: &ExportConfig, id: WorkspaceId) -> Result<()> {
        let folder = self.notes_folder();
        disk::create_dir(&**self.store.disk(), &folder)?;
        let _turn = Turn::wait(&folder.join(format!("{id}.lock")), self.store.patience())?;
        let rows = self.rows()?;
        let Some(newest) = rows.last().map(|row| row.sequence) else { return Ok(()) };
        if !self.note_path(id).exists() {
            // What was made before `[export]` was, stays where it is.
            let written = newest.saturating_sub(1);
            self.write_note(id, &Note { version: VERSION, written, failure: None })?;
        }
        let note = self.read_note(id);
        let asked = |row: &&CheckpointRow| {
            let trigger = row.trigger.parse().ok();
            row.sequence > note.written && trigger.is_some_and(|one| export.triggers.contains(&one))
        };
        let new: Vec<&CheckpointRow> = rows.iter().filter(asked).collect();
        if !new.is_empty() {
            self.allow_export(self.wanted_by_export(export)).map_err(|error| Error::Usage {
                message: error.to_string(),
                advice: vec![Advice::Trust],
            })?;
            self.write_these(&new, &self.places(export))?;
        }
        if note.written != newest || note.failure.is_some() {
            self.write_note(id, &Note { version: VERSION, written: newest, failure: None })?;
        }
        Ok(())
    }

    fn write_these(&self, rows: &[&CheckpointRow], places: &Places) -> Result<()> {
        if let (Some(form), Some(place)) = (places.form, &places.place) {
            let own = own_folder(form, place);
            // Once it is left out of what saves take, no checkpoint holds anything of it.
            if !self.written_folders().contains(&own) {
                self.check_unsaved(&own)?;
            }
            disk::create_dir(&**self.store.disk(), &own)?;
            if own.starts_with(&self.root) {
                self.exclude_export(&own)?;
            }
            match form {
                // One file each: the form has one file for all that are written at once.
                Form::Forge | Form::Rappel => {
                    for row in rows {
                        let name = match form {
                            Form::Forge => format!("{}.json", row.id),
                            _ => format!("{}.rappel", row.id),
                        };
                        self.export(&options(&[row], form, place.join(name)))?;
                    }
                }
                _ => _ = self.export(&options(rows, form, place.clone()))?,
            }
        }
        if let Some(file) = &places.sqlite {
            self.check_unsaved(file)?;
            if file.starts_with(&self.root) {
                self.exclude_written_file(file)?;
            }
            let rows: Vec<CheckpointRow> = rows.iter().map(|row| (*row).clone()).collect();
            let (portables, _) = self.portables(&rows, Form::Caf, false)?;
            rappel_formats::caf::sqlite::write(file, &portables)?;
        }
        Ok(())
    }

    /// Refuses a place that holds what checkpoints hold: from then on no save would take it.
    fn check_unsaved(&self, place: &Path) -> Result<()> {
        let refused = |why: &str| {
            Err(Error::Usage {
                message: format!("[export] cannot write to {}: {why}", place.display()),
                advice: vec!["name another folder in rappel.toml".into()],
            })
        };
        if self.root.starts_with(place) {
            return refused("the workspace lies in it");
        }
        let Ok(inside) = place.strip_prefix(&self.root) else { return Ok(()) };
        let Ok(inside) = RelPath::new(inside.as_os_str().as_bytes()) else {
            return refused("its name cannot be used");
        };
        if inside.components().any(is_git) {
            return refused("it is a folder of git's own");
        }
        let newest = self.rows()?.into_iter().rev().find(|row| row.holds_files);
        let Some(newest) = newest else { return Ok(()) };
        let manifest = self.store.manifest(&newest)?;
        let is_below = |path: &RelPath| path.is_within(&inside) || *path == inside;
        let tree = manifest.files.as_ref().map(|files| files.tree);
        let entries = tree.map(|tree| tree::read(self.source(), &tree)).transpose()?;
        let held = entries.iter().flatten().map(|entry| &entry.path);
        let mut databases = manifest.databases.iter().filter_map(|one| one.name.parse().ok());
        if held.into_iter().any(is_below) || databases.any(|path| is_below(&path)) {
            return refused("it holds files that checkpoints hold");
        }
        Ok(())
    }

    fn places(&self, export: &ExportConfig) -> Places {
        let form: Option<Form> = export.format.and_then(|name| name.parse().ok());
        let real = |path: &str| followed(self.root.join(path));
        let place = form.and_then(|form| match (&export.dir, form) {
            (Some(dir), _) => Some(real(dir)),
            (None, Form::Rappel | Form::Forge) => Some(followed(self.root.join("checkpoints"))),
            (None, form) => self.export_place(form, &self.root).ok().map(followed),
        });
        Places { form, place, sqlite: export.sqlite.as_deref().map(real) }
    }

    fn notes_folder(&self) -> PathBuf {
        self.store.home().root().join("exports")
    }

    fn note_path(&self, id: WorkspaceId) -> PathBuf {
        self.notes_folder().join(format!("{id}.json"))
    }

    fn read_note(&self, id: WorkspaceId) -> Note {
        let text = held::read_to_string(self.note_path(id)).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    fn write_note(&self, id: WorkspaceId, note: &Note) -> Result<()> {
        let json = serde_json::to_vec(note).unwrap_or_default();
        disk::create_dir(&**self.store.disk(), &self.notes_folder())?;
        Ok(disk::replace(self.store.disk(), &self.note_path(id), &json)?)
    }
}

fn options(rows: &[&CheckpointRow], form: Form, place: PathBuf) -> ExportOptions {
    let reference =
        |row: &&CheckpointRow| Reference::new(rappel_types::reference::Base::Id(row.id.clone()));
    let checkpoints = rows.iter().map(|row| ExportRange::One(reference(row))).collect();
    ExportOptions { checkpoints, form, place: Some(place), redact: false, sqlite: None }
}

/// The folder that holds nothing but what a form's writer wrote.
fn own_folder(form: Form, place: &Path) -> PathBuf {
    match form {
        Form::Aiwg => rappel_formats::aiwg::checkpoints_dir(place),
        _ => place.to_owned(),
    }
}
