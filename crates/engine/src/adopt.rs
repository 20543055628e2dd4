//! Taking over the history of a folder that was moved or renamed.

use rappel_types::{CheckpointId, WorkspaceId};
use serde::Serialize;

use crate::error::{Error, Result};
use crate::rappel::Rappel;
use crate::save::workspace_record;
use crate::workspace::{self, Recognition};

/// What was taken over.
#[derive(Debug, Clone, Serialize)]
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
    pub fn adopt(&mut self, old: &str) -> Result<Adopted> {
        self.require_folder()?;
        let found = workspace::find(&self.store, old)?;
        if self.workspace_id() == Some(found.id) {
            return Err(Error::Nothing { message: "this folder has that history already".into() });
        }
        if workspace::is_alive(&found) {
            return Err(Error::Usage {
                message: format!("{} is still there and keeps its history", found.root),
                hint: Some(
                    "a copy of a folder begins a history of its own with `rappel save`".into(),
                ),
            });
        }
        let left_behind = self.rows()?.into_iter().rev().map(|row| row.id).collect();
        let first_commit = found.first_commit.clone();
        let document = self.evidence.document(found.id, first_commit, self.now());
        let record = workspace_record(&document)?;
        self.store.begin()?.commit(|_| Ok(vec![record]))?;
        let to = document.root.clone();
        self.recognition = Recognition::Known(document);
        let checkpoints = self.rows()?.len();
        Ok(Adopted { workspace: found.id, from: found.root, to, checkpoints, left_behind })
    }
}
