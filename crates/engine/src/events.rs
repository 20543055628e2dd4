//! What happened in a home, typed: checkpoints, sessions, restores, deletions, by any process and in
//! the order of the commits.
//!
//! A reader begins anywhere, keeps the position of the last event it has seen, and goes on from there
//! after any pause, also in another process. [`Watcher`] wakes it when there may be more.

use rappel_store::Store;
use rappel_store::document::{Label, SessionTombstone, Tombstone, Undo, UndoKind};
use rappel_store::events::{Page, Position};
use rappel_store::index::{DocumentRow, EventRow, Happened, MadeRow};
use rappel_store::record::Kind;
pub use rappel_store::watcher::Watcher;
use rappel_types::agents;
use rappel_types::{CheckpointId, Timestamp, WorkspaceId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{Error, Result};
use crate::rappel::Rappel;

/// Some of what happened in a home.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Events {
    /// In the order of the commits.
    pub events: Vec<HomeEvent>,
    /// The position to go on from.
    pub next: String,
    /// Whether gc may have removed events after the position asked for. A reader that keeps a view of
    /// its own has to load everything again.
    pub reset: bool,
}

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HomeEvent {
    /// The position behind this event, to go on from.
    pub position: String,
    /// The number of the commit in the home.
    pub commit: u64,
    /// When it happened, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// What happened.
    #[serde(flatten)]
    pub happening: Happening,
}

/// What can happen in a home.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Happening {
    /// A checkpoint was made.
    CheckpointMade(MadeCheckpoint),
    /// A deleted checkpoint was brought back.
    CheckpointUndeleted(MadeCheckpoint),
    /// A checkpoint was deleted.
    CheckpointDeleted {
        /// Its id.
        checkpoint: CheckpointId,
        /// Its workspace.
        workspace: WorkspaceId,
        /// Whether its space may be freed at once.
        now: bool,
    },
    /// The tags, the pin, the message or the metadata of a checkpoint changed.
    CheckpointLabelled {
        /// Its id.
        checkpoint: String,
        /// Tags that it got.
        added: Vec<String>,
        /// Tags that it lost.
        removed: Vec<String>,
        /// Whether it is pinned from now on, if that changed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pinned: Option<bool>,
        /// Its message from now on, if that changed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    /// A workspace was restored to a checkpoint.
    Restored(Step),
    /// A restore was undone.
    Undone(Step),
    /// An undone restore was done again.
    Redone(Step),
    /// An agent's session began.
    SessionStarted(JournalEvent),
    /// A session was paused.
    SessionPaused(JournalEvent),
    /// A session goes on.
    SessionResumed(JournalEvent),
    /// A session ended.
    SessionEnded(JournalEvent),
    /// A session was set back to an earlier event.
    SessionRestored(JournalEvent),
    /// The journal of a session was deleted.
    SessionDeleted {
        /// Its id.
        session: String,
    },
    /// An agent recorded a thought.
    ThoughtCreated(JournalEvent),
    /// A tool call began.
    ToolStarted(JournalEvent),
    /// A tool call ended.
    ToolFinished(JournalEvent),
    /// A session's journal recorded something else; `kind` says what.
    Journal(JournalEvent),
    /// A workspace was seen for the first time, or in another place.
    WorkspaceSeen {
        /// Its id.
        workspace: WorkspaceId,
        /// Its folder, escaped like a path.
        root: String,
    },
    /// Something that this version does not know.
    Unknown,
}

/// A checkpoint that was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MadeCheckpoint {
    /// Its id.
    pub checkpoint: String,
    /// Its workspace.
    pub workspace: WorkspaceId,
    /// Its number there.
    pub sequence: u64,
    /// Why it was made.
    pub trigger: String,
    /// The message that it was made with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The session that it was made in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Whether it holds agent state alone.
    pub state_only: bool,
}

/// A restore, an undo or a redo.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// The checkpoint of the state before.
    pub from: CheckpointId,
    /// The checkpoint that was restored.
    pub to: CheckpointId,
}

/// An entry of a session's journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JournalEvent {
    /// The session.
    pub session: String,
    /// Its number in the session.
    pub number: u64,
    /// What kind of event it is.
    pub kind: String,
    /// The id of what it made, where it made something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// What it says.
    pub data: Value,
}

impl Happening {
    /// The name that streams of events use for it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::CheckpointMade(_) => "checkpoint",
            Self::CheckpointUndeleted(_) => "checkpoint.undeleted",
            Self::CheckpointDeleted { .. } => "checkpoint.deleted",
            Self::CheckpointLabelled { .. } => "checkpoint.labelled",
            Self::Restored(_) => "restore.done",
            Self::Undone(_) => "restore.undone",
            Self::Redone(_) => "restore.redone",
            Self::SessionStarted(_) => "session.started",
            Self::SessionPaused(_) => "session.paused",
            Self::SessionResumed(_) => "session.resumed",
            Self::SessionEnded(_) => "session.ended",
            Self::SessionRestored(_) => "session.restored",
            Self::SessionDeleted { .. } => "session.deleted",
            Self::ThoughtCreated(_) => "thought.created",
            Self::ToolStarted(_) => "tool.started",
            Self::ToolFinished(_) => "tool.finished",
            Self::Journal(_) => "journal",
            Self::WorkspaceSeen { .. } => "workspace",
            Self::Unknown => "unknown",
        }
    }
}

/// What happened in a home after a position, at most `limit` events; without a position, from the
/// beginning.
pub fn events(store: &Store, since: Option<&str>, limit: usize) -> Result<Events> {
    let since = since.map(parse).transpose()?;
    let Page { events, next, reset } = store.events(since, limit)?;
    let events = events.into_iter().map(|event| {
        let (at, happening) = read(event.happened);
        HomeEvent { position: event.position.to_string(), commit: event.commit, at, happening }
    });
    Ok(Events { events: events.collect(), next: next.to_string(), reset })
}

/// The position behind everything that has happened so far.
pub fn events_end(store: &Store) -> Result<String> {
    Ok(store.events_end()?.to_string())
}

impl Rappel {
    /// What happened in the home: see [`events`].
    pub fn events(&self, since: Option<&str>, limit: usize) -> Result<Events> {
        events(&self.store, since, limit)
    }

    /// The position behind everything that has happened in the home so far.
    pub fn events_end(&self) -> Result<String> {
        events_end(&self.store)
    }
}

fn parse(text: &str) -> Result<Position> {
    text.parse().map_err(|error: rappel_store::events::BadPosition| Error::Usage {
        message: format!("{text:?}: {error}"),
        advice: Vec::new(),
    })
}

fn read(happened: Happened) -> (Option<Timestamp>, Happening) {
    match happened {
        Happened::Made(row) => made(row),
        Happened::Journal(row) => journal(row),
        Happened::Document(kind, row) => document(kind, row).unwrap_or((None, Happening::Unknown)),
    }
}

fn made(row: MadeRow) -> (Option<Timestamp>, Happening) {
    let at = Some(Timestamp::from_millis(row.created_at));
    let made = MadeCheckpoint {
        checkpoint: row.id,
        workspace: row.workspace,
        sequence: row.sequence,
        trigger: row.trigger,
        message: row.description,
        session: row.session,
        state_only: !row.holds_files,
    };
    match row.again {
        // It was made long before it was brought back.
        true => (None, Happening::CheckpointUndeleted(made)),
        false => (at, Happening::CheckpointMade(made)),
    }
}

fn journal(row: EventRow) -> (Option<Timestamp>, Happening) {
    let at = Some(Timestamp::from_millis(row.at));
    let body = agents::Event::parse(&row.json).map(|event| event.body);
    let data = body.map_or(Value::Null, |body| body.to_value());
    let EventRow { session, number, kind, item: id, .. } = row;
    let event = JournalEvent { session, number, kind, id, data };
    let happening = match event.kind.as_str() {
        "session-started" => Happening::SessionStarted(event),
        "session-paused" => Happening::SessionPaused(event),
        "session-resumed" => Happening::SessionResumed(event),
        "session-ended" => Happening::SessionEnded(event),
        "restored" => Happening::SessionRestored(event),
        "thought" => Happening::ThoughtCreated(event),
        "tool-started" => Happening::ToolStarted(event),
        "tool" | "tool-finished" => Happening::ToolFinished(event),
        _ => Happening::Journal(event),
    };
    (at, happening)
}

fn document(kind: Kind, row: DocumentRow) -> Option<(Option<Timestamp>, Happening)> {
    let DocumentRow { key, json, .. } = row;
    Some(match kind {
        Kind::Label => {
            let Label { add: added, remove: removed, pinned, description: message, .. } =
                serde_json::from_str(&json).ok()?;
            let labelled =
                Happening::CheckpointLabelled { checkpoint: key, added, removed, pinned, message };
            (None, labelled)
        }
        Kind::Undo => {
            let Undo { workspace, kind, from, to, at, .. } = serde_json::from_str(&json).ok()?;
            let step = Step { workspace, from, to };
            let happening = match kind {
                UndoKind::Restore => Happening::Restored(step),
                UndoKind::Undo => Happening::Undone(step),
                UndoKind::Redo => Happening::Redone(step),
            };
            (Some(at), happening)
        }
        Kind::Tombstone => match serde_json::from_str::<Tombstone>(&json) {
            Ok(Tombstone { checkpoint, workspace, now, at, .. }) => {
                (Some(at), Happening::CheckpointDeleted { checkpoint, workspace, now })
            }
            Err(_) => {
                let SessionTombstone { session, at, .. } = serde_json::from_str(&json).ok()?;
                (Some(at), Happening::SessionDeleted { session })
            }
        },
        Kind::Workspace => {
            let seen: rappel_store::document::Workspace = serde_json::from_str(&json).ok()?;
            let (workspace, root) = (seen.id, seen.root);
            (Some(seen.at), Happening::WorkspaceSeen { workspace, root })
        }
        _ => return None,
    })
}
