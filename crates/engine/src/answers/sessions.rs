//! Answers about agents' sessions.

use rappel_types::agents::{SessionId, ShownState};
use rappel_types::{CheckpointId, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;

use crate::agents::{Recorded, SessionView, StateAt};

/// What a session knew at a moment.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct AtAnswer {
    /// When the last thing happened that the session knew.
    pub at: Option<Timestamp>,
    /// Whether the session had begun at that moment.
    pub begun: bool,
    /// When the session began, if it had not begun at that moment.
    pub begins_at: Option<Timestamp>,
    /// Whether the time that was asked for is yet to come. Then this is the state now.
    pub future: bool,
    /// The session.
    pub session: SessionId,
    /// The fork of the session's journal. A restore begins a new one.
    pub fork: u32,
    /// The last event of the journal that the session knew.
    pub event: u64,
    /// The number of the checkpoint in `checkpoint`.
    pub sequence: Option<u64>,
    /// The checkpoint that was asked for, or the newest one that holds no more than this.
    pub checkpoint: Option<CheckpointId>,
    /// What the session knew.
    pub state: ShownState,
}

impl From<&StateAt> for AtAnswer {
    fn from(found: &StateAt) -> Self {
        Self {
            at: found.at,
            begun: found.has_begun(),
            begins_at: found.begins,
            future: found.ahead,
            session: found.session.clone(),
            fork: found.position.fork,
            event: found.position.event,
            sequence: found.checkpoint.as_ref().map(|(_, sequence)| *sequence),
            checkpoint: found.checkpoint.as_ref().map(|(id, _)| id.clone()),
            state: ShownState::from(&found.state),
        }
    }
}

/// A workspace's sessions.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct SessionsAnswer<'a> {
    /// How many there are.
    pub total: usize,
    /// The sessions, newest first.
    pub sessions: &'a [SessionView],
}

impl<'a> From<&'a [SessionView]> for SessionsAnswer<'a> {
    fn from(sessions: &'a [SessionView]) -> Self {
        Self { total: sessions.len(), sessions }
    }
}

/// One session, what it changed and what it knows now.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct SessionShowAnswer<'a> {
    /// The session.
    pub session: &'a SessionView,
    /// Files that the session changed.
    pub files_modified: &'a [String],
    /// What the session knows now.
    pub now: AtAnswer,
}

/// A session that began, paused or ended.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct SessionAnswer<'a> {
    /// The session.
    #[serde(flatten)]
    pub session: &'a SessionView,
    /// The number of the event that says so in the session's journal.
    pub event: u64,
    /// Checkpoints that the event made.
    pub checkpoints: &'a [CheckpointId],
    /// What the user should know besides, in sentences.
    pub notes: &'a [String],
}

impl<'a> SessionAnswer<'a> {
    /// The session, and what was recorded of it.
    pub fn new(session: &'a SessionView, recorded: &'a Recorded) -> Self {
        let Recorded { event, checkpoints, notes } = recorded;
        Self { session, event: event.number, checkpoints, notes }
    }
}

/// A session that resumes, and how its agent does.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct ResumeAnswer<'a> {
    /// The session.
    pub session: &'a SessionView,
    /// The agent's own command, word by word; null if Rappel does not know it.
    pub command: Option<&'a [String]>,
    /// Checkpoints that this made.
    pub checkpoints: &'a [CheckpointId],
}

/// An event that was recorded.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct RecordAnswer<'a> {
    /// The session; absent where one answer follows for each line of a stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<&'a SessionId>,
    /// The event's number in the session's journal.
    pub event: u64,
    /// The id of what the event made, or of what it is about.
    pub id: Option<String>,
    /// Checkpoints that the event made.
    pub checkpoints: &'a [CheckpointId],
    /// What the user should know besides, in sentences.
    pub notes: &'a [String],
}

impl<'a> RecordAnswer<'a> {
    /// What was recorded, in the session if it is to be named.
    pub fn new(session: Option<&'a SessionId>, recorded: &'a Recorded) -> Self {
        let Recorded { event, checkpoints, notes } = recorded;
        Self { session, event: event.number, id: recorded.id(), checkpoints, notes }
    }
}

/// The answer to one line of a stream of events.
#[derive(Debug, Clone, JsonSchema, Serialize)]
#[serde(untagged)]
pub enum LineAnswer<'a> {
    /// The event was recorded.
    Recorded(RecordAnswer<'a>),
    /// The line was refused; the lines after it are not.
    Refused {
        /// Why.
        error: LineError<'a>,
    },
}

/// Why a line was refused.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct LineError<'a> {
    /// The kind of error.
    pub kind: &'a str,
    /// What is wrong, for people.
    pub message: &'a str,
    /// What to do about it.
    pub hint: Option<&'a str>,
    /// Which line it is, counted from 1.
    pub line: u64,
}
