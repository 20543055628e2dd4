//! What is known of databases from the last checkpoint, so that one that did not change is not read
//! again. A view: without it everything is read.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rappel_capture::databases::{Captured, Fingerprint};
use rappel_store::disk::{self, Disk};
use rappel_store::held;
use rappel_types::CheckpointId;
use rappel_types::database::DatabasePart;
use serde::{Deserialize, Serialize};

/// One of another version is as good as none.
const VERSION: u32 = 1;

/// What is known of one database.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Remembered {
    /// What it looked like before it was read.
    pub fingerprint: Option<Fingerprint>,
    /// What it looked like after a restore had put `part` there. Somebody may have written in between, so a save reads it
    /// all the same.
    #[serde(default)]
    pub restored: Option<Fingerprint>,
    /// What was read, or put there.
    pub part: DatabasePart,
    /// How long that took.
    pub took_ms: u64,
    /// The newest checkpoint that holds it.
    pub checkpoint: Option<CheckpointId>,
}

impl Remembered {
    /// What was just read, in so long.
    pub fn of(captured: Captured, took: Duration) -> Self {
        Self {
            fingerprint: captured.fingerprint,
            restored: None,
            part: captured.part,
            took_ms: took.as_millis() as u64,
            checkpoint: None,
        }
    }
}

/// What is known of all of them, by name.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Memo {
    version: u32,
    pub entries: BTreeMap<String, Remembered>,
}

impl Memo {
    /// What a file says; nothing if that cannot be understood.
    pub fn load(path: &Path) -> Self {
        let read = held::read(path).ok();
        let memo = read.and_then(|bytes| serde_json::from_slice::<Self>(&bytes).ok());
        memo.filter(|memo| memo.version == VERSION).unwrap_or_default()
    }

    /// Writes it down. Where that fails, the next save reads everything again.
    pub fn save(mut self, disk: &Arc<dyn Disk>, path: &Path) {
        self.version = VERSION;
        if let Ok(bytes) = serde_json::to_vec(&self) {
            disk::replace_view(disk, path, &bytes);
        }
    }
}
