//! One at a time: whoever restores a workspace, or ends an unfinished restore of it, does so alone, from before
//! its safety checkpoint to its end. Otherwise two could each bring back a part.
//!
//! Saves do not wait for it; they look again when a restore went by (see [`crate::save`]).

use rappel_store::lock::Turn;
use rappel_types::WorkspaceId;

use crate::error::{Error, Result};
use crate::rappel::Rappel;

impl Rappel {
    /// Waits until nobody else restores the workspace; nobody else can until this is dropped.
    pub(crate) fn turn_to_restore(&self, workspace: WorkspaceId) -> Result<Turn> {
        self.store.require_writable()?;
        let path = self.store.home().restoring().join(workspace.to_string());
        let mut turn = None;
        let try_once = || -> Result<bool> {
            self.cancel().check()?;
            turn = Turn::take(&path)?;
            Ok(turn.is_some())
        };
        let who = || format!("another restore of {} is under way", self.root.display());
        let waited = self.store.patience().wait(try_once, who)?;
        let restoring = |waited_ms| Error::Restoring { root: self.root.clone(), waited_ms };
        waited.map_err(restoring)?;
        turn.ok_or_else(|| restoring(0))
    }
}
