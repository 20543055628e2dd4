//! What a session has been told already. It is only a view: where it is lost, something is told
//! twice.

use std::path::PathBuf;

use rappel_store::disk;
use rappel_store::held;
use rappel_types::agents::SessionId;
use serde::{Deserialize, Serialize};

use crate::rappel::Rappel;

/// What a session was told.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Memory {
    /// The restore that it was told of last, by the place of its record in the log.
    pub restore: u64,
    /// The event that told of the last compaction after which it was given a brief.
    pub compaction: u64,
    /// The newest prompts that hooks told of it, or that are the transcript's and were matched.
    pub prompts: Vec<String>,
}

/// So many prompts are remembered: more than anybody types in two minutes.
const PROMPTS: usize = 50;

impl Memory {
    pub fn read(rappel: &Rappel, session: &SessionId) -> Self {
        let text = held::read_to_string(path(rappel, session)).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// Remembers a prompt.
    pub fn note_prompt(&mut self, id: String) {
        self.prompts.push(id);
        let old = self.prompts.len().saturating_sub(PROMPTS);
        self.prompts.drain(..old);
    }

    pub fn write(&self, rappel: &Rappel, session: &SessionId) {
        let (disk, path) = (rappel.store.disk(), path(rappel, session));
        let Ok(text) = serde_json::to_string(self) else { return };
        let folder = folder(rappel);
        let made = disk::create_dir(&**disk, &rappel.store.home().cache())
            .and_then(|()| disk::create_dir(&**disk, &folder));
        if made.is_ok() {
            disk::replace_view(disk, &path, text.as_bytes());
        }
    }
}

fn folder(rappel: &Rappel) -> PathBuf {
    rappel.store.home().cache().join("told")
}

fn path(rappel: &Rappel, session: &SessionId) -> PathBuf {
    folder(rappel).join(&blake3::hash(session.as_str().as_bytes()).to_hex()[..32])
}
