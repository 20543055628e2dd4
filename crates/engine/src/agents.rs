//! Agents' sessions: recording what happens in them, and knowing what they knew at any moment.
//!
//! A session's journal is in the store, an event a record; what it knows is folded from it (`rappel_types::agents`).
//! So that nothing has to be folded from the start, the state is stored every so often, in parts that the next one
//! shares ([`snapshot`]). A [`Live`] state in memory makes the next event cost the same whatever came before.

mod append;
mod at;
mod auto;
mod board;
mod calls;
mod capture;
mod connected;
mod conversation;
mod find;
mod folders;
mod imported;
mod ingest;
mod journal;
mod opencode;
mod patches;
mod prompts;
mod put_back;
mod recall;
mod recovery;
mod restore;
mod running;
mod sessions;
mod snapshot;
mod stats;
mod transcripts;

use std::collections::HashMap;

use rappel_types::agents::{SessionId, SessionState};
use rappel_types::{CheckpointId, ObjectId};

pub use append::Recorded;
pub(crate) use append::catch_up;
pub use at::{StateAt, TemporalQuery};
pub(crate) use auto::{automatic, metadata};
pub use board::{
    AgentState, BoardBelief, BoardDependency, BoardEvidence, BoardGap, BoardHypothesis,
    BoardVerification,
};
pub(crate) use capture::agents_part;
pub(crate) use connected::Snapshots;
pub use connected::{Connected, ConnectedError};
pub use find::{Found, FoundEvent};
pub(crate) use folders::{KNOWN as STATE_FOLDERS, include as include_folders};
pub(crate) use imported::{ImportedSession, session_name};
pub(crate) use ingest::{call_id, hashed, named};
pub(crate) use journal::{Moment, parse as parse_event};
pub(crate) use prompts::{heard_id, is_heard};
pub use rappel_types::agents::state_json;
pub use recall::resume_command;
pub use recovery::{CrashedSession, RecoveryPoint, RecoveryStep, UnfinishedCall};
pub(crate) use restore::{AgentsPlanned, AgentsWish, is_same, positions_now};
pub(crate) use running::Running;
pub use running::{process_id, process_started};
pub use sessions::{SessionStart, SessionView};
pub(crate) use snapshot::fill_apart;
pub use stats::{AgentStats, ExecutionStats, ToolStats};
pub(crate) use transcripts::{CapturedTranscripts, Transcripts};

/// A session as this process knows it.
#[derive(Debug, Clone)]
pub(crate) struct Live {
    pub state: SessionState,
    /// The newest stored state, and how much happened since.
    pub snapshot: Option<ObjectId>,
    pub events_since: u64,
    /// The last state that was stored whole, and how many were stored against it since.
    pub base: Option<(ObjectId, u8)>,
    pub bytes_since: usize,
    /// About how much the stored state takes, its long lists apart.
    pub snapshot_bytes: usize,
    /// The last event of the session, whatever its fork.
    pub last: u64,
}

/// The sessions that this process has written to.
pub(crate) type LiveSessions = HashMap<SessionId, Live>;

/// What listeners are told.
#[derive(Debug, Clone, PartialEq)]
pub enum Notice {
    /// An event was recorded.
    Event {
        /// The session.
        session: SessionId,
        /// The event.
        event: Box<rappel_types::agents::Event>,
    },
    /// A checkpoint was made.
    Checkpoint {
        /// Which.
        checkpoint: CheckpointId,
        /// Why.
        trigger: rappel_types::Trigger,
    },
    /// A workspace was restored.
    Restored {
        /// To what.
        checkpoint: CheckpointId,
    },
}
