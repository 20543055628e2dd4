//! The agents' part of a checkpoint.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::session::{SessionId, SessionStatus};
use crate::{ObjectId, RelPath, Timestamp};

/// The agents of a checkpoint: where their journals stood, and what lies in their folders.
#[derive(Debug, Clone, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct AgentsPart {
    /// Sessions that were running or paused.
    pub active_count: u64,
    /// The sessions: those, and the one that asked for the checkpoint.
    #[serde(default)]
    pub sessions: Vec<SessionPart>,
    /// Folders in the workspace that hold agents' state; their entries are in the files' tree.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub state_dirs: Vec<RelPath>,
    /// Transcripts, by provider and path below the agent's home.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transcripts: Option<ObjectId>,
    /// What systems that are connected to the library gave, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub connected: BTreeMap<String, ObjectId>,
}

/// A session as a checkpoint has it.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct SessionPart {
    /// Its id.
    pub id: SessionId,
    /// What its agent calls the conversation.
    pub conversation_id: Option<String>,
    /// What its agent calls the session.
    pub assistant_session_id: Option<String>,
    /// Whose agent it is.
    pub provider: Option<String>,
    /// How it stood.
    pub status: SessionStatus,
    /// Where its journal stood.
    #[serde(flatten)]
    pub position: SessionPosition,
    /// The newest stored state at or before that; what happened since is in the journal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<ObjectId>,
    /// When its newest event happened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latest_at: Option<Timestamp>,
}

/// A place in a session's journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct SessionPosition {
    /// The fork.
    #[serde(default)]
    pub fork: u32,
    /// The last event.
    pub event: u64,
}
