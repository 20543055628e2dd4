//! What is known of the checkpoint that a search ended at: what it changed, and what agents did
//! between it and the one before.

use rappel_types::agents::{Body, Event, SessionId, SessionPosition};
use rappel_types::reference::Base;
use rappel_types::{CheckpointId, Manifest, Reference, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;

use crate::checkpoint::Checkpoint;
use crate::diff::Diff;
use crate::error::Result;
use crate::rappel::Rappel;

/// So many tool calls are named at most, the newest.
const CALLS: usize = 50;

/// What is known of a first bad checkpoint.
#[derive(Debug, JsonSchema, Serialize)]
pub struct Culprit {
    /// The checkpoint.
    pub checkpoint: Checkpoint,
    /// The session whose work it holds.
    pub session: Option<SessionId>,
    /// What the user had asked for.
    pub prompt: Option<String>,
    /// What was called since the last good one.
    pub tool_calls: Vec<CulpritCall>,
    /// What differs from the last good one.
    pub diff: Diff,
}

/// A tool call between the last good checkpoint and the first bad one.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct CulpritCall {
    pub id: Option<String>,
    pub at: Timestamp,
    pub tool: String,
    /// How what it was given begins.
    pub text: String,
}

impl Rappel {
    pub(super) fn culprit(&self, good: &CheckpointId, bad: &CheckpointId) -> Result<Culprit> {
        let reference = |id: &CheckpointId| Reference::new(Base::Id(id.clone()));
        let (good, bad) = (reference(good), reference(bad));
        let diff = self.compare(&good, &bad)?;
        let before = self.show(&good)?.manifest;
        let checkpoint = self.show(&bad)?;
        let mut culprit =
            Culprit { checkpoint, session: None, prompt: None, tool_calls: Vec::new(), diff };
        let manifest = &culprit.checkpoint.manifest;
        let Some((session, position)) = worked(manifest, &before) else { return Ok(culprit) };
        // A journal that cannot be read hides who it was, not what changed.
        let events = self.events_to(&session, position, 0).unwrap_or_default();
        let known = position_of(&before, &session).map_or(0, |position| position.event);
        culprit.prompt = events.iter().rev().find_map(|event| match &event.body {
            Body::Prompt(prompt) => Some(prompt.text.clone()),
            _ => None,
        });
        let since = events.iter().filter(|event| event.number > known);
        let mut calls: Vec<CulpritCall> = since.filter_map(call).collect();
        calls.drain(..calls.len().saturating_sub(CALLS));
        culprit.tool_calls = calls;
        culprit.session = Some(session);
        Ok(culprit)
    }
}

/// The session that worked between two checkpoints: the one that made the later, else the first
/// that went on.
fn worked(bad: &Manifest, good: &Manifest) -> Option<(SessionId, SessionPosition)> {
    let own = bad.session_id.as_deref();
    let parts = bad.agents.iter().flat_map(|agents| &agents.sessions);
    let moved = |id: &SessionId, position: SessionPosition| {
        position_of(good, id).is_none_or(|before| before != position)
    };
    let mut parts: Vec<_> = parts.map(|part| (part.id.clone(), part.position)).collect();
    parts.sort_by_key(|(id, position)| (Some(id.as_str()) != own, !moved(id, *position)));
    parts.into_iter().find(|(id, position)| Some(id.as_str()) == own || moved(id, *position))
}

fn position_of(manifest: &Manifest, session: &SessionId) -> Option<SessionPosition> {
    let mut parts = manifest.agents.iter().flat_map(|agents| &agents.sessions);
    parts.find(|part| part.id == *session).map(|part| part.position)
}

fn call(event: &Event) -> Option<CulpritCall> {
    let tool = match &event.body {
        Body::Tool(call) => call.tool.clone(),
        Body::ToolStarted(call) => call.tool.clone(),
        _ => return None,
    };
    Some(CulpritCall { id: event.id.clone(), at: event.at, tool, text: event.body.opening() })
}
