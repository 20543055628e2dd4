//! Our own portable form: what of a checkpoint goes into a bundle. The store writes it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;

use rappel_store::bundle::{self, Bundle, Contents, Document, Part};
use rappel_store::document::{DOCUMENT_VERSION, Label};
use rappel_store::index::CheckpointRow;
use rappel_store::operation::Phase;
use rappel_store::overlay::Overlay;
use rappel_store::sink::Source;
use rappel_store::verify::Scope;
use rappel_types::Advice;
use rappel_types::agents::{Lineage, SessionPosition};
use rappel_types::{Manifest, ObjectId};

use super::redact;
use crate::checkpoint::Checkpoint;
use crate::error::{Error, Result};
use crate::rappel::Rappel;

/// What the file is called if nobody says.
pub(super) fn file_name(rows: &[CheckpointRow]) -> String {
    match rows {
        [first, .., last] => format!("{}..{}.rappel", first.id, last.id),
        [one] => format!("{}.rappel", one.id),
        [] => "nothing.rappel".into(),
    }
}

/// Refuses to replace a file that is no bundle.
pub(super) fn check_target(path: &Path) -> Result<()> {
    let Ok(meta) = path.symlink_metadata() else { return Ok(()) };
    if meta.is_file() && (meta.len() == 0 || Bundle::is_one(path)) {
        return Ok(());
    }
    Err(Error::Usage {
        message: format!("{} is there already, and is no bundle of checkpoints", path.display()),
        advice: vec![Advice::NamePlace { variable: None }],
    })
}

/// The same error with the file that could not be written.
pub(super) fn at(error: Error, path: &Path) -> Error {
    match error {
        Error::Store(rappel_store::Error::Io { action, source, .. }) => {
            Error::Io { action, path: path.to_owned(), source }
        }
        other => other,
    }
}

impl Rappel {
    /// Writes a bundle; gives what was left out of it. What has to be made anew lies in `folder`
    /// meanwhile, or in the home.
    pub(super) fn write_bundle(
        &self,
        rows: &[CheckpointRow],
        redacted: bool,
        folder: Option<&Path>,
        out: &mut dyn Write,
    ) -> Result<Vec<String>> {
        if !redacted {
            let contents = self.contents(rows)?;
            self.bundle(rows, self.source(), &contents, &|id| self.store.holds(id), out)?;
            return Ok(Vec::new());
        }
        let cache = self.store.home().cache();
        let overlay = Overlay::over(self.source(), self.store.disk(), folder.unwrap_or(&cache))?;
        let mut left_out = Vec::new();
        let mut contents = self.contents(rows)?;
        for json in &mut contents.manifests {
            self.go_on()?;
            let mut manifest: Manifest = rappel_store::store::decode_manifest(json)?;
            let out = redact::manifest(&mut manifest, &overlay)
                .map_err(|error| self.hurt(rows, error))?;
            left_out.extend(out.into_iter().map(|what| format!("{}: {what}", manifest.id)));
            *json = serde_json::to_vec(&manifest)
                .map_err(|error| Error::Damaged { message: format!("manifest: {error}") })?;
        }
        for document in &mut contents.documents {
            redact::document(document);
        }
        // A text that happens to name an object must not bring in what was left out.
        self.bundle(rows, &overlay, &contents, &|id| overlay.holds(id), out)?;
        Ok(left_out)
    }

    fn bundle(
        &self,
        rows: &[CheckpointRow],
        source: &dyn Source,
        contents: &Contents,
        holds: &dyn Fn(&ObjectId) -> bool,
        out: &mut dyn Write,
    ) -> Result<()> {
        self.progress().begin(Phase::WritingOut, None);
        let mut watch = |written| {
            self.progress().reach(Phase::WritingOut, written);
            self.cancel().check()
        };
        let written = bundle::write(source, contents, holds, out, &mut watch);
        written.map(drop).map_err(|error| self.hurt(rows, error.into()))
    }

    /// Which checkpoint cannot be read as a whole, where that is why it failed.
    fn hurt(&self, rows: &[CheckpointRow], error: Error) -> Error {
        if !error.is_unreadable() {
            return error;
        }
        for row in rows {
            let Ok(report) = self.store.verify(&Scope::Checkpoint(row.id.clone()), None) else {
                continue;
            };
            if let Some(hurt) = report.hurt.first() {
                let paths: Vec<String> =
                    hurt.paths.iter().take(3).map(ToString::to_string).collect();
                let more = hurt.paths.len().saturating_sub(paths.len());
                let what = match (paths.is_empty(), more) {
                    (true, _) => error.to_string(),
                    (false, 0) => paths.join(", "),
                    (false, more) => format!("{} and {more} more", paths.join(", ")),
                };
                let message =
                    format!("{} cannot be read as a whole, and was not exported: {what}", row.id);
                return Error::Damaged { message };
            }
        }
        let ids: Vec<&str> = rows.iter().take(3).map(|row| row.id.as_str()).collect();
        let message =
            format!("{} cannot be read as a whole, and was not exported: {error}", ids.join(", "));
        Error::Damaged { message }
    }

    /// The manifests as they are, and what the home says of them elsewhere.
    fn contents(&self, rows: &[CheckpointRow]) -> Result<Contents> {
        let mut contents = Contents::default();
        let mut positions: BTreeMap<String, BTreeSet<(u32, u64)>> = BTreeMap::new();
        for row in rows {
            let json =
                self.store.get(&row.manifest).map_err(|error| self.hurt(rows, error.into()))?;
            let manifest = rappel_store::store::decode_manifest(&json)?;
            for session in manifest.agents.iter().flat_map(|agents| &agents.sessions) {
                let SessionPosition { fork, event } = session.position;
                positions.entry(session.id.to_string()).or_default().insert((fork, event));
            }
            if let Some(label) = label(&manifest, &self.view(row)?) {
                let json = serde_json::to_string(&label)
                    .map_err(|error| Error::Damaged { message: format!("label: {error}") })?;
                let key = row.id.to_string();
                contents.documents.push(Document { kind: Part::Label, key, number: 0, json });
            }
            contents.manifests.push(json.to_vec());
        }
        for (session, positions) in positions {
            self.go_on()?;
            contents.documents.extend(self.journal(&session, &positions)?);
        }
        Ok(contents)
    }

    /// The events of a session that positions in its journal know.
    fn journal(&self, session: &str, positions: &BTreeSet<(u32, u64)>) -> Result<Vec<Document>> {
        let rows = self.store.look_up(|index| {
            let lineage = Lineage::new(index.forks(session)?);
            let mut known: BTreeMap<u32, u64> = BTreeMap::new();
            for (fork, event) in positions {
                for (fork, to) in lineage.parts(*fork, *event) {
                    let reached = known.entry(fork).or_default();
                    *reached = (*reached).max(to);
                }
            }
            let mut rows = Vec::new();
            for (fork, to) in known {
                rows.extend(index.events(session, fork, (0, to), None)?);
            }
            Ok(rows)
        })?;
        let document = |row: rappel_store::index::EventRow| Document {
            kind: Part::Event,
            key: row.session,
            number: row.number,
            json: row.json,
        };
        Ok(rows.into_iter().map(document).collect())
    }
}

/// All labels of a checkpoint as one; `None` if it says no more than its manifest.
fn label(manifest: &Manifest, now: &Checkpoint) -> Option<Label> {
    let (then, now_manifest) = (manifest, &now.manifest);
    let mut label = Label { version: DOCUMENT_VERSION, ..Label::default() };
    label.add = now_manifest.tags.iter().filter(|tag| !then.tags.contains(tag)).cloned().collect();
    label.remove =
        then.tags.iter().filter(|tag| !now_manifest.tags.contains(tag)).cloned().collect();
    label.pinned = now.pinned.then_some(true);
    if now_manifest.description != then.description {
        label.description = Some(now_manifest.description.clone().unwrap_or_default());
    }
    for (key, value) in &now_manifest.metadata {
        if then.metadata.get(key) != Some(value) {
            label.metadata.insert(key.clone(), value.clone());
        }
    }
    for key in then.metadata.keys() {
        if !now_manifest.metadata.contains_key(key) {
            label.metadata.insert(key.clone(), serde_json::Value::Null);
        }
    }
    let nothing = Label { version: DOCUMENT_VERSION, ..Label::default() };
    (label != nothing).then_some(label)
}
