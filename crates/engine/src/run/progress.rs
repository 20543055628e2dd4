//! What periodic checkpoints know so far.

use std::collections::BTreeSet;

use rappel_formats::aiwg::{CheckpointData, Folder};
use rappel_types::{Manifest, ObjectId, Timestamp};

use super::periodic::Captured;
use crate::changes::summarise;
use crate::error::Result;
use crate::rappel::Rappel;

/// What is known so far.
#[derive(Default)]
pub(super) struct Progress {
    /// When the session began.
    pub started: Option<Timestamp>,
    /// The highest number that was used.
    pub last_number: u64,
    /// The checkpoints of the session.
    pub all: Vec<CheckpointData>,
    /// Those of the store.
    pub captured: Vec<Captured>,
    /// Paths that changed between two of them.
    pub modified: BTreeSet<String>,
    /// The same, and those that git called modified or staged.
    pub named: BTreeSet<String>,
    /// The files of the last one.
    pub tree: Option<ObjectId>,
}

impl Progress {
    /// Numbers go on from what a state folder has, and a session from its own files.
    pub fn take_up(&mut self, folder: Folder, session: Option<&str>) {
        self.last_number = folder.last_number;
        let of_session = |data: &CheckpointData| Some(data.session_id.as_str()) == session;
        self.all = folder.checkpoints.into_iter().filter(of_session).collect();
        self.named = self.all.iter().flat_map(|data| data.files_modified.clone()).collect();
    }

    /// Takes in what a save found.
    pub fn note(&mut self, manifest: &Manifest, changed: Vec<String>, made: Option<Captured>) {
        self.tree = manifest.files.as_ref().map(|files| files.tree).or(self.tree);
        self.named.extend(changed.iter().cloned());
        self.modified.extend(changed);
        if let Some(git) = &manifest.git {
            let paths = git.root.modified.iter().chain(&git.root.staged);
            self.named.extend(paths.map(ToString::to_string));
        }
        self.captured.extend(made);
    }

    /// Adds a checkpoint; one with the same number is replaced.
    pub fn add(&mut self, data: CheckpointData) {
        self.last_number = self.last_number.max(data.number);
        self.all.retain(|one| one.number != data.number);
        self.all.push(data);
        self.all.sort_by_key(|one| one.number);
    }
}

impl Rappel {
    /// The paths that differ between two trees.
    pub(super) fn paths_between(&self, from: &ObjectId, to: &ObjectId) -> Result<Vec<String>> {
        if from == to {
            return Ok(Vec::new());
        }
        let files = summarise(&rappel_store::tree::diff(self.source(), from, to)?);
        let paths = files.added.iter().chain(&files.modified).chain(&files.deleted);
        Ok(paths.map(ToString::to_string).collect())
    }
}
