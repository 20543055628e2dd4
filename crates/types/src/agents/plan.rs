//! What a restore does to agents.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::session::{SessionId, SessionStatus};
use crate::ObjectId;

/// What happens to sessions and transcripts.
#[derive(Debug, Clone, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct AgentsPlan {
    /// Sessions that are set back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sessions: Vec<SessionMove>,
    /// The tree of transcripts of which something is put back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transcripts: Option<ObjectId>,
    /// A transcript that is as this tree has it is put back although it only grew: a restore made it so, and an undo
    /// takes that back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made: Option<ObjectId>,
    /// What agents call the sessions whose transcripts are put back although they only grew: the user asked for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rewound: Vec<String>,
}

/// A session that goes on from an earlier event.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct SessionMove {
    /// Which.
    pub id: SessionId,
    /// The fork of that event.
    pub of: u32,
    /// The event.
    pub to: u64,
    /// How it stands then.
    pub status: SessionStatus,
    /// It was there before: a restore, or the undo of one, is taken back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub taken_back: bool,
}

impl AgentsPlan {
    /// Whether nothing happens.
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty() && self.transcripts.is_none()
    }
}
