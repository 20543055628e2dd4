//! Writing checkpoints out: in our own portable form, which holds everything, or in the form of
//! another tool, which holds what that has words for.
//!
//! Nothing here changes a checkpoint or the workspace, and nothing needs a home that can be written
//! to. What the user trusts never leaves the home.

mod automatic;
mod bundle;
mod contents;
mod loki;
mod portable;
mod redact;
#[cfg(test)]
mod tests;

use std::io::Write;
use std::path::{Path, PathBuf};

use rappel_formats::Form;
use rappel_store::disk;
use rappel_store::index::CheckpointRow;
use rappel_store::operation::Phase;
use rappel_types::Advice;
use rappel_types::{CheckpointId, Reference};
use schemars::JsonSchema;
use serde::Serialize;

use crate::error::{Error, Result};
use crate::rappel::Rappel;

pub use automatic::ExportFailure;
pub(crate) use contents::scratch;
pub use loki::LokiWritten;

/// Checkpoints to write out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExportRange {
    /// One.
    One(Reference),
    /// All from one to another, both included, by their numbers.
    Through(Reference, Reference),
}

/// What to write out, and how.
#[derive(Debug, Clone)]
pub struct ExportOptions {
    /// Which checkpoints. They are written oldest first, each once.
    pub checkpoints: Vec<ExportRange>,
    /// In which form.
    pub form: Form,
    /// Where to: the file of a bundle or of forge, or the folder of all checkpoints. Without it,
    /// where [`Rappel::export_place`] says, seen from the workspace's root.
    pub place: Option<PathBuf>,
    /// Leave out what looks like a secret.
    pub redact: bool,
    /// Also bring this SQLite database of CAF's up to date.
    pub sqlite: Option<PathBuf>,
}

impl ExportOptions {
    /// One checkpoint in our own form.
    pub fn new(reference: Reference) -> Self {
        Self {
            checkpoints: vec![ExportRange::One(reference)],
            form: Form::Rappel,
            place: None,
            redact: false,
            sqlite: None,
        }
    }
}

/// What was written out.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Exported {
    /// The files and folders.
    pub paths: Vec<PathBuf>,
    /// The form's name.
    pub form: &'static str,
    /// What the checkpoints hold and this does not, a sentence each.
    pub left_out: Vec<String>,
    /// The checkpoints, oldest first.
    pub checkpoints: Vec<CheckpointId>,
}

impl Rappel {
    /// Writes checkpoints out. Each file is whole or not there.
    pub fn export(&self, options: &ExportOptions) -> Result<Exported> {
        self.go_on()?;
        let rows = self.chosen(&options.checkpoints)?;
        let place = match &options.place {
            Some(place) => place.clone(),
            None => self.export_place(options.form, &self.root)?,
        };
        let mut exported = match options.form {
            Form::Rappel => self.export_bundle(&rows, options, &place)?,
            form => self.export_portables(&rows, options, form, &place)?,
        };
        if let Some(file) = &options.sqlite {
            let (portables, _) = self.portables(&rows, Form::Caf, options.redact)?;
            let written = rappel_formats::caf::sqlite::write(file, &portables)?;
            exported.paths.extend(written.paths);
            exported.left_out.extend(written.left_out);
        }
        Ok(exported)
    }

    /// Writes checkpoints in our own form to a stream, from its first byte to its last. What has to
    /// be made anew lies in the folder `place` meanwhile, under no name; without it, in the home.
    pub fn export_to(&self, options: &ExportOptions, out: &mut dyn Write) -> Result<Exported> {
        if options.form != Form::Rappel || options.sqlite.is_some() {
            return Err(Error::Usage {
                message: "only a bundle can be written to a stream".into(),
                advice: vec![Advice::ChooseFormat { forms: vec![Form::Rappel.to_string()] }],
            });
        }
        let rows = self.chosen(&options.checkpoints)?;
        let left_out = self.write_bundle(&rows, options.redact, options.place.as_deref(), out)?;
        Ok(exported(&rows, Form::Rappel, Vec::new(), left_out))
    }

    /// Where a form's checkpoints go if nobody says, seen from a folder.
    pub fn export_place(&self, form: Form, folder: &Path) -> Result<PathBuf> {
        let variable = |name: &str| {
            let value = (self.options.variables)(name).filter(|value| !value.is_empty());
            value.map(|value| folder.join(value))
        };
        Ok(match form {
            Form::Rappel => folder.to_owned(),
            Form::Lugh => {
                let user = self.options.environment.home.as_ref();
                let home = variable("LUGH_HOME").or_else(|| Some(user?.join(".lugh")));
                let home = home.ok_or_else(|| Error::Usage {
                    message: "there is no home folder to write Lugh's checkpoints to".into(),
                    advice: vec![Advice::NamePlace { variable: Some("LUGH_HOME".into()) }],
                })?;
                home.join("checkpoints")
            }
            Form::Loki => {
                let folder = variable("LOKI_DIR").unwrap_or_else(|| folder.join(".loki"));
                folder.join("state").join("checkpoints")
            }
            Form::Forge => folder.join("checkpoints.json"),
            Form::Caf => folder.join("checkpoints"),
            Form::Aiwg => folder.join(".aiwg"),
        })
    }

    /// The rows that are meant, oldest first, of one history.
    fn chosen(&self, ranges: &[ExportRange]) -> Result<Vec<CheckpointRow>> {
        let mut rows: Vec<CheckpointRow> = Vec::new();
        for range in ranges {
            match range {
                ExportRange::One(reference) => rows.push(self.resolve(reference, false)?),
                ExportRange::Through(from, to) => {
                    let (first, last) = (self.resolve(from, false)?, self.resolve(to, false)?);
                    if first.workspace == last.workspace && first.sequence > last.sequence {
                        return Err(Error::Usage {
                            message: format!("{from} is later than {to}"),
                            advice: vec![Advice::SwapRange {
                                from: to.to_string(),
                                to: from.to_string(),
                            }],
                        });
                    }
                    let all =
                        self.store.look_up(|index| index.checkpoints(Some(first.workspace)))?;
                    let between = first.sequence..=last.sequence;
                    rows.extend(all.into_iter().filter(|row| between.contains(&row.sequence)));
                    rows.push(last);
                }
            }
        }
        rows.sort_by_key(|row| row.sequence);
        rows.dedup_by(|a, b| a.id == b.id);
        let Some(first) = rows.first() else {
            let advice = vec![Advice::NameExport];
            return Err(Error::Usage { message: "no checkpoint is named".into(), advice });
        };
        if let Some(other) = rows.iter().find(|row| row.workspace != first.workspace) {
            return Err(Error::Usage {
                message: format!("{} and {} are of two histories", first.id, other.id),
                advice: vec!["export them one by one".into()],
            });
        }
        Ok(rows)
    }

    fn export_bundle(
        &self,
        rows: &[CheckpointRow],
        options: &ExportOptions,
        place: &Path,
    ) -> Result<Exported> {
        let path = match place.is_dir() {
            true => place.join(bundle::file_name(rows)),
            false => place.to_owned(),
        };
        bundle::check_target(&path)?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        let left_out = disk::replace_by_stream(self.store.disk(), &path, |out| {
            let left_out = self.write_bundle(rows, options.redact, Some(folder), out)?;
            self.cancel().close()?;
            Ok(left_out)
        });
        let left_out = left_out.map_err(|error| bundle::at(error, &path))?;
        Ok(exported(rows, Form::Rappel, vec![path], left_out))
    }

    fn export_portables(
        &self,
        rows: &[CheckpointRow],
        options: &ExportOptions,
        form: Form,
        place: &Path,
    ) -> Result<Exported> {
        let (portables, mut left_out) = self.portables(rows, form, options.redact)?;
        self.cancel().close()?;
        let written = rappel_formats::write(form, &portables, place)?;
        left_out.extend(written.left_out);
        Ok(exported(rows, form, written.paths, left_out))
    }

    /// The checkpoints as all forms share them, and what was left out of them.
    fn portables(
        &self,
        rows: &[CheckpointRow],
        form: Form,
        redacted: bool,
    ) -> Result<(Vec<rappel_formats::Portable>, Vec<String>)> {
        let mut left_out = Vec::new();
        let mut portables = Vec::with_capacity(rows.len());
        self.progress().begin(Phase::WritingOut, Some(rows.len() as u64));
        for row in rows {
            self.go_on()?;
            let mut portable = self.portable(row)?;
            self.back_to_origin(row, form, &mut portable)?;
            if redacted {
                let out = redact::portable(&mut portable)?;
                left_out.extend(out.into_iter().map(|what| format!("{}: {what}", row.id)));
            }
            portables.push(portable);
            self.progress().add(Phase::WritingOut, 1, 0);
        }
        Ok((portables, left_out))
    }
}

fn exported(
    rows: &[CheckpointRow],
    form: Form,
    paths: Vec<PathBuf>,
    left_out: Vec<String>,
) -> Exported {
    let checkpoints = rows.iter().map(|row| row.id.clone()).collect();
    Exported { paths, form: form.as_str(), left_out, checkpoints }
}
