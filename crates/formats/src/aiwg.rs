//! The form of aiwg's checkpoint manager: numbered files `checkpoints/NNN-checkpoint.json` in a
//! state folder, each with what was known at one moment of a long session.
//!
//! The fields stand in the order in which that tool writes them, and serde keeps it. A file that
//! cannot be read as one of these is skipped and counted; no reader fails because of it.

mod folder;
mod history;

use std::collections::{BTreeMap, BTreeSet};

use rappel_types::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub(crate) use folder::from_bytes;
pub use folder::{Folder, checkpoints_dir, file_name, latest_in, read, summary_of, write};
pub use history::{is_here, read_all, write_all};
pub(crate) use history::{own, portable};

/// Fields that we do not know. They are written back.
pub type Extra = Map<String, Value>;

/// One checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckpointData {
    /// Its number in the state folder, from 1.
    pub number: u64,
    /// When it was made.
    #[schemars(with = "String")]
    pub timestamp: Timestamp,
    /// Milliseconds since the session began.
    pub duration: u64,
    /// The agent's session; `unknown` if nobody said.
    pub session_id: String,
    /// What git said.
    pub git_status: GitStatus,
    /// What lies in `.aiwg`.
    pub aiwg_state: AiwgState,
    /// Every file that was modified so far, sorted.
    pub files_modified: Vec<String>,
    /// What the processes used.
    pub memory: Memory,
    #[serde(flatten)]
    #[allow(missing_docs, reason = "the type says it")]
    pub extra: Extra,
}

/// Git's state.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[allow(missing_docs, reason = "the names say it")]
pub struct GitStatus {
    pub branch: String,
    pub modified: Vec<String>,
    pub untracked: Vec<String>,
    pub staged: Vec<String>,
    /// Why git could not be asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// The files in `.aiwg`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[allow(missing_docs, reason = "the names say it")]
pub struct AiwgState {
    pub files: Vec<String>,
    pub sizes: BTreeMap<String, u64>,
    /// Why the folder could not be read whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// Memory, in bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names say it")]
pub struct Memory {
    pub heap_used: u64,
    pub rss: u64,
    #[serde(flatten)]
    pub extra: Extra,
}

/// A session's checkpoints in short.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckpointSummary {
    /// How many there are.
    pub total: u64,
    /// The duration that the last one tells.
    pub total_duration: u64,
    /// Every file that any of them names as modified, sorted.
    pub files_modified: Vec<String>,
    /// Each one.
    pub checkpoints: Vec<SummaryEntry>,
    /// Files that look like checkpoints and could not be read. Not part of the form.
    #[serde(skip)]
    pub corrupt: u64,
}

/// One checkpoint of a summary.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names say it")]
pub struct SummaryEntry {
    pub number: u64,
    #[schemars(with = "String")]
    pub timestamp: Timestamp,
    pub duration: u64,
    /// How many files it names as modified.
    pub files_modified: u64,
    pub git_status: GitCounts,
    /// How many files `.aiwg` had.
    pub aiwg_files: u64,
}

/// How many files git named.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[allow(missing_docs, reason = "the names say it")]
pub struct GitCounts {
    pub modified: u64,
    pub staged: u64,
    pub untracked: u64,
}

impl CheckpointSummary {
    /// The summary of these checkpoints, in the order in which they are given.
    pub fn of(checkpoints: &[CheckpointData]) -> Self {
        let modified: BTreeSet<&String> =
            checkpoints.iter().flat_map(|one| &one.files_modified).collect();
        Self {
            total: checkpoints.len() as u64,
            total_duration: checkpoints.last().map_or(0, |last| last.duration),
            files_modified: modified.into_iter().cloned().collect(),
            checkpoints: checkpoints.iter().map(SummaryEntry::of).collect(),
            corrupt: 0,
        }
    }
}

impl SummaryEntry {
    fn of(data: &CheckpointData) -> Self {
        Self {
            number: data.number,
            timestamp: data.timestamp,
            duration: data.duration,
            files_modified: data.files_modified.len() as u64,
            git_status: GitCounts {
                modified: data.git_status.modified.len() as u64,
                staged: data.git_status.staged.len() as u64,
                untracked: data.git_status.untracked.len() as u64,
            },
            aiwg_files: data.aiwg_state.files.len() as u64,
        }
    }
}
