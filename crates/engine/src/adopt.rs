//! Taking over the history of a folder that was moved or renamed.

use rappel_store::document;
use rappel_types::Advice;
use rappel_types::Remark;
use rappel_types::{CheckpointId, WorkspaceId};
use schemars::JsonSchema;
use serde::Serialize;

use crate::error::{Error, Result};
use crate::rappel::Rappel;
use crate::save::workspace_record;
use crate::workspace::{self, Recognition};

/// What was taken over.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct Adopted {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// Where it was before.
    pub from: String,
    /// Where it is now.
    pub to: String,
    /// How many checkpoints came along.
    pub checkpoints: usize,
    /// Those that were made here before. They stay in a history of their own, and can be shown and
    /// restored here by their ids.
    pub left_behind: Vec<CheckpointId>,
}

impl Rappel {
    /// Takes over the history of the workspace that was at `old` (a path or an id). Never from a
    /// folder that is still where it was.
    pub fn adopt(&self, old: &str) -> Result<Adopted> {
        self.require_folder()?;
        let found = self.find_to_adopt(old)?;
        if self.workspace_id() == Some(found.id) {
            return Err(Error::Nothing {
                message: "this folder has that history already".into(),
                advice: Vec::new(),
            });
        }
        if workspace::is_alive(&found) {
            return Err(Error::Usage {
                message: format!("{} is still there and keeps its history", found.root),
                advice: vec![Advice::SaveCopy],
            });
        }
        let left_behind = self.rows()?.into_iter().rev().map(|row| row.id).collect();
        let first_commit = found.first_commit.clone();
        let document = self.evidence.document(found.id, first_commit, self.now());
        let record = workspace_record(&document)?;
        self.store.begin()?.commit(|_| Ok(vec![record]))?;
        let to = document.root.clone();
        self.recognised(Recognition::Known(document));
        let checkpoints = self.rows()?.len();
        Ok(Adopted { workspace: found.id, from: found.root, to, checkpoints, left_behind })
    }

    /// The workspace that is meant. A folder that was made again has a history of its own by now;
    /// by its path, the one before it is meant.
    fn find_to_adopt(&self, old: &str) -> Result<document::Workspace> {
        let found = workspace::find(&self.store, old)?;
        // A lineage belongs to the workspace that it was imported into.
        if found.lineage_of.is_some() {
            return Err(Error::NoWorkspace { old: old.to_owned() });
        }
        if Some(found.id) != self.workspace_id() || found.id.to_string() == old {
            return Ok(found);
        }
        let known = workspace::all(&self.store)?;
        let is_earlier = |one: &&document::Workspace| {
            one.root == found.root && one.id != found.id && !workspace::is_alive(one)
        };
        Ok(known.iter().rev().find(is_earlier).cloned().unwrap_or(found))
    }

    /// A history that this folder had before, or that of a folder around it: what became of it, in
    /// a sentence with what leads there.
    pub fn other_history(&self) -> Option<Remark> {
        if let Recognition::New { moved_from: Some(moved), .. } = &*self.recognition() {
            let adopt = Advice::Adopt { workspace: Some(moved.id.to_string()) };
            return Some(Remark::new(format!("this folder was {} before", moved.root), adopt));
        }
        let known = workspace::all(&self.store).ok()?;
        let (path, own) = (self.evidence.path(), self.workspace_id());
        let is_earlier = |old: &&document::Workspace| {
            old.root == path
                && Some(old.id) != own
                && old.machine == self.evidence.machine
                && !workspace::is_alive(old)
        };
        if let Some(old) = known.iter().rev().find(is_earlier) {
            let newest = self.store.look_up(|index| index.newest(old.id)).ok()??;
            let text =
                format!("an earlier folder at this place has a history (last: {})", newest.id);
            return Some(Remark::new(text, Advice::Adopt { workspace: Some(old.id.to_string()) }));
        }
        if own.is_some() {
            return None;
        }
        let around = |outer: &&document::Workspace| {
            let root = workspace::root_of(outer);
            root.is_some_and(|root| self.root != root && self.root.starts_with(root))
                && workspace::is_alive(outer)
        };
        let outer = known.iter().filter(around).max_by_key(|outer| outer.root.len())?;
        let text = format!("this folder lies in the workspace {}", outer.root);
        Some(Remark::new(text, Advice::OpenWorkspace { root: outer.root.clone() }))
    }
}
