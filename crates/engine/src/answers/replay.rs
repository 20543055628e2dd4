//! Answers of a replay: one step, or all of them in short.

use rappel_types::agents::replay::Step;
use rappel_types::agents::{SessionId, ShownState};
use rappel_types::{CheckpointId, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;

use super::ShownEntry;
use crate::replay::{AgentAt, FilesAt, Replay};

/// What is being replayed. A replay changes nothing.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct ReplayHead<'a> {
    /// Always true: a replay changes nothing.
    pub read_only: bool,
    /// The checkpoint that the steps lead to.
    pub checkpoint: &'a CheckpointId,
    /// The session whose past it is.
    pub session: Option<&'a SessionId>,
    /// How many steps there are.
    pub total: usize,
}

impl<'a> From<&'a Replay<'_>> for ReplayHead<'a> {
    fn from(replay: &'a Replay<'_>) -> Self {
        Self {
            read_only: true,
            checkpoint: &replay.checkpoint.manifest.id,
            session: replay.session.as_ref(),
            total: replay.steps.len(),
        }
    }
}

/// All steps in short.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct ReplayOverview<'a> {
    /// What is being replayed.
    #[serde(flatten)]
    pub replay: ReplayHead<'a>,
    /// The number of the step at which the replay stands.
    pub position: usize,
    /// The steps, oldest first.
    pub steps: Vec<StepTitle<'a>>,
}

/// A step in short.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct StepTitle<'a> {
    /// Its number, from 1.
    pub number: usize,
    /// When it happened.
    pub at: Timestamp,
    /// The event's number in the session's journal.
    pub event: u64,
    /// What kind of step it is: `prompt`, `thought`, `tool`, `files`, `checkpoint` and so on.
    pub kind: &'a str,
    /// The step in one line.
    pub title: &'a str,
}

impl<'a> ReplayOverview<'a> {
    /// All steps of a replay that stands at step `position`.
    pub fn new(replay: &'a Replay<'_>, position: usize) -> Self {
        let title = |step: &'a Step| StepTitle {
            number: step.number,
            at: step.at,
            event: step.event,
            kind: &step.kind,
            title: &step.title,
        };
        let steps = replay.steps.iter().map(title).collect();
        Self { replay: replay.into(), position, steps }
    }
}

/// One step, with what else was asked for.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct ReplayStep<'a> {
    /// What is being replayed.
    #[serde(flatten)]
    pub replay: ReplayHead<'a>,
    /// The step.
    pub step: &'a Step,
    /// The agents that were at work there, if they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agents: Option<Vec<AgentAt>>,
    /// What the session knew there, if that was asked for; null if no session had begun.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Option<ShownState>>,
    /// The files that were there, if they were asked for; null if no checkpoint holds them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<Option<ReplayFiles>>,
}

/// The files that were there at a step.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct ReplayFiles {
    /// The checkpoint that holds them.
    pub checkpoint: CheckpointId,
    /// Every path.
    pub entries: Vec<ShownEntry>,
}

impl From<FilesAt> for ReplayFiles {
    fn from(files: FilesAt) -> Self {
        let entries = files.entries.iter().map(ShownEntry::from).collect();
        Self { checkpoint: files.checkpoint, entries }
    }
}

/// A replay that is over.
#[derive(Debug, Clone, Copy, JsonSchema, Serialize)]
pub struct ReplayExitAnswer {
    /// Always true.
    pub exited: bool,
    /// Always true: a replay changes nothing.
    pub read_only: bool,
}

impl Default for ReplayExitAnswer {
    fn default() -> Self {
        Self { exited: true, read_only: true }
    }
}
