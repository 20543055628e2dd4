//! Where somebody stands in a replay, so that the next call can go on from there. A view: lost, it begins again.

use std::collections::BTreeMap;
use std::path::PathBuf;

use rappel_store::disk;
use rappel_store::held;
use rappel_types::CheckpointId;
use rappel_types::agents::SessionId;
use serde::{Deserialize, Serialize};

use crate::rappel::Rappel;

/// One of another version is as good as none.
const VERSION: u32 = 1;
/// So many are kept.
const KEPT: usize = 64;

/// A place in a replay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplayPosition {
    /// What led to this checkpoint is replayed.
    pub checkpoint: CheckpointId,
    /// The session whose past it is.
    pub session: Option<SessionId>,
    /// The number of the step.
    pub step: usize,
}

/// The places of all who replay something in a workspace, by the session that they are in themselves.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Positions {
    version: u32,
    by: BTreeMap<String, ReplayPosition>,
}

impl Rappel {
    /// Where `who` stands: a session, or nobody in particular.
    pub fn replay_position(&self, who: Option<&SessionId>) -> Option<ReplayPosition> {
        self.positions().by.remove(key(who))
    }

    /// Remembers where `who` stands; with nothing, forgets it.
    pub fn keep_replay_position(&self, who: Option<&SessionId>, position: Option<ReplayPosition>) {
        let Some(path) = self.positions_path() else { return };
        let mut positions = self.positions();
        let before = positions.by.get(key(who)).cloned();
        if before == position {
            return;
        }
        match position {
            Some(position) => {
                if positions.by.len() >= KEPT {
                    positions.by.clear();
                }
                positions.by.insert(key(who).to_owned(), position);
            }
            None => _ = positions.by.remove(key(who)),
        }
        positions.version = VERSION;
        if let Ok(bytes) = serde_json::to_vec(&positions) {
            disk::replace_view(self.store.disk(), &path, &bytes);
        }
    }

    fn positions(&self) -> Positions {
        let read = self.positions_path().and_then(|path| held::read(path).ok());
        let read = read.and_then(|bytes| serde_json::from_slice::<Positions>(&bytes).ok());
        read.filter(|positions| positions.version == VERSION).unwrap_or_default()
    }

    fn positions_path(&self) -> Option<PathBuf> {
        self.workspace_id().map(|id| self.cache_path(id).with_extension("replay"))
    }
}

fn key(who: Option<&SessionId>) -> &str {
    who.map_or("", SessionId::as_str)
}
