//! Going through the past step by step: what led to a checkpoint, what was known and which files were there after each
//! step. Only reads; where somebody stands in it is a view in the cache ([`position`]).

mod position;

use rappel_store::index::CheckpointRow;
use rappel_store::tree;
use rappel_types::Advice;
use rappel_types::agents::replay::{self, FILES, FilesChanged, Step};
use rappel_types::agents::{Event, SessionId, SessionPart, SessionStatus, ShownState};
use rappel_types::{
    CheckpointId, Entry, Manifest, ObjectId, Reference, RelPath, Timestamp, Trigger,
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::agents::{StateAt, TemporalQuery};
use crate::answers::ReplayStep;
use crate::changes::summarise;
use crate::checkpoint::Checkpoint;
use crate::error::{Error, Result};
use crate::rappel::Rappel;

pub use position::ReplayPosition;

/// So many checkpoints with files are gone through, the newest.
const CHECKPOINTS_MAX: usize = 1_000;
/// The kind of the event that a checkpoint was made for a session.
const CHECKPOINT: &str = "checkpoint";

/// What led to a checkpoint.
pub struct Replay<'a> {
    rappel: &'a Rappel,
    /// The checkpoint.
    pub checkpoint: Checkpoint,
    /// The session whose past it is; without one there are only changes of files.
    pub session: Option<SessionId>,
    /// Everything that happened, oldest first.
    pub steps: Vec<Step>,
    /// What checkpoints with files hold, by the last event that they know, oldest first.
    trees: Vec<Seen>,
}

/// A checkpoint with files on the way.
struct Seen {
    checkpoint: CheckpointId,
    at: Timestamp,
    event: u64,
    tree: ObjectId,
}

impl Seen {
    /// What it saw of the files, if anything was different.
    fn changed(&self, changes: &[tree::Change]) -> Option<FilesChanged> {
        let files = summarise(changes);
        let names = |paths: &[RelPath]| paths.iter().map(ToString::to_string).collect();
        (!changes.is_empty()).then(|| FilesChanged {
            checkpoint: self.checkpoint.clone(),
            at: self.at,
            event: self.event,
            added: names(&files.added),
            modified: names(&files.modified),
            deleted: names(&files.deleted),
        })
    }
}

/// A session as it stood at a step.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct AgentAt {
    pub id: SessionId,
    pub provider: Option<String>,
    pub status: SessionStatus,
    pub task: Option<String>,
    pub parent: Option<SessionId>,
    /// The last event of it that had happened.
    pub event: u64,
    /// Tool calls that were running.
    pub running: Vec<String>,
}

/// The files at a step.
#[derive(Debug, Clone, PartialEq)]
pub struct FilesAt {
    /// The checkpoint that holds them: the newest one at or before the step.
    pub checkpoint: CheckpointId,
    /// Every path.
    pub entries: Vec<Entry>,
}

impl Rappel {
    /// What led to a checkpoint, to be gone through. Nothing is changed by it. `session` says whose past is meant where
    /// the checkpoint holds several sessions.
    pub fn replay(&self, reference: &Reference, session: Option<&SessionId>) -> Result<Replay<'_>> {
        let row = self.resolve_remembered(reference)?;
        let checkpoint = self.view(&row)?;
        let session = session.map(|named| self.find_session_or_itself(named)).transpose()?;
        let part = session_of(&checkpoint.manifest, session.as_ref())?;
        let events = match part {
            Some(part) => self.events_to(&part.id, part.position, 0)?,
            None => Vec::new(),
        };
        let id = part.map(|part| part.id.clone());
        let trees = self.seen_files(&row, id.as_ref(), &events)?;
        let mut changes = Vec::new();
        // Without a session there is no beginning but that of the history.
        if let (None, Some(first)) = (&id, trees.first()) {
            let ancestry = self.joined_ancestry()?;
            let row = ancestry.rows().iter().find(|row| row.id == first.checkpoint);
            match row.map(|row| self.changes_of(row, &ancestry)).transpose() {
                Ok(found) => changes.extend(first.changed(&found.unwrap_or_default())),
                Err(error) if error.is_unreadable() => {}
                Err(error) => return Err(error),
            }
        }
        for pair in trees.windows(2) {
            let [before, after] = pair else { continue };
            let found = tree::diff(self.source(), &before.tree, &after.tree)?;
            changes.extend(after.changed(&found));
        }
        let steps = replay::steps(&events, &changes);
        Ok(Replay { rappel: self, checkpoint, session: id, steps, trees })
    }

    /// The checkpoints with files that lead to one, oldest first. The first of them is where the session began, or what
    /// was there before.
    fn seen_files(
        &self,
        row: &CheckpointRow,
        session: Option<&SessionId>,
        events: &[Event],
    ) -> Result<Vec<Seen>> {
        let begun = events.first().map(|event| event.at.as_millis());
        let with_files = |row: &CheckpointRow| row.holds_files;
        let mut seen = Vec::new();
        let mut next = match row.holds_files {
            true => Some(row.clone()),
            false => self.ancestor(row, with_files)?,
        };
        while let Some(row) = next
            && seen.len() < CHECKPOINTS_MAX
        {
            let manifest = match self.store.manifest(&row).map_err(Error::from) {
                Ok(manifest) => manifest,
                // One that cannot be read is passed over; what came of it is seen by the next.
                Err(error) if error.is_unreadable() => {
                    next = self.ancestor(&row, with_files)?;
                    continue;
                }
                Err(error) => return Err(error),
            };
            let first =
                begun.is_some_and(|begun| row.created_at < begun) || starts(&manifest, session);
            if let Some(files) = &manifest.files {
                seen.push(Seen {
                    checkpoint: manifest.id.clone(),
                    at: manifest.created_at,
                    event: event_in(&manifest, session, events),
                    tree: files.tree,
                });
            }
            next = if first { None } else { self.ancestor(&row, with_files)? };
        }
        seen.reverse();
        Ok(seen)
    }
}

impl Replay<'_> {
    /// A step by its number, from 1.
    pub fn step(&self, number: usize) -> Result<&Step> {
        number.checked_sub(1).and_then(|place| self.steps.get(place)).ok_or_else(|| {
            Error::NotThere {
                message: format!("there is no step {number}"),
                advice: match self.steps.len() {
                    0 => "nothing was recorded, and no file changed".into(),
                    last => format!("steps are 1 to {last}").into(),
                },
            }
        })
    }

    /// A step with what else is asked for: the agents there, so many items of what the session knew,
    /// the files.
    pub fn answer(
        &self,
        number: usize,
        agents: bool,
        memory: Option<u64>,
        files: bool,
    ) -> Result<ReplayStep<'_>> {
        let step = self.step(number)?;
        let memory = memory.map(|most| self.state_at(number, most)).transpose()?;
        let files = files.then(|| self.files_at(number)).transpose()?;
        Ok(ReplayStep {
            replay: self.into(),
            step,
            agents: agents.then(|| self.agents_at(number)).transpose()?,
            memory: memory.map(|found| found.map(|found| ShownState::from(&found.state))),
            files: files.map(|found| found.map(Into::into)),
        })
    }

    /// What the session knew after a step, with at most so many items of each long list. Nothing where there is no
    /// session, or it had not begun.
    pub fn state_at(&self, number: usize, most: u64) -> Result<Option<StateAt>> {
        let step = self.step(number)?;
        let Some(session) = self.session.clone().filter(|_| step.event > 0) else {
            return Ok(None);
        };
        let query = TemporalQuery {
            event: Some(step.event),
            session: Some(session),
            ..TemporalQuery::default()
        };
        self.rappel.query_at_most(&query, most).map(Some)
    }

    /// The files as the newest checkpoint at or before a step holds them. Nothing where there is none.
    pub fn files_at(&self, number: usize) -> Result<Option<FilesAt>> {
        let step = self.step(number)?;
        // What a checkpoint saw is there at its own steps, and after the last event that it knows.
        let own = step.checkpoint.as_ref().filter(|_| [FILES, CHECKPOINT].contains(&&*step.kind));
        let place = own
            .and_then(|own| self.trees.iter().position(|one| one.checkpoint == *own))
            .or_else(|| self.trees.iter().rposition(|one| one.event < step.event));
        let Some(seen) = self.trees.get(place.unwrap_or(0)) else { return Ok(None) };
        let entries = tree::read(self.rappel.source(), &seen.tree)?;
        Ok(Some(FilesAt { checkpoint: seen.checkpoint.clone(), entries }))
    }

    /// The sessions that were running or waiting at a step, and the one whose past this is.
    pub fn agents_at(&self, number: usize) -> Result<Vec<AgentAt>> {
        let step = self.step(number)?;
        let mut found = Vec::new();
        for view in self.rappel.sessions()? {
            let own = self.session.as_ref() == Some(&view.id);
            let over = view.ended_at.is_some_and(|ended| ended < step.at) && !view.status.is_live();
            if !own && (over || view.started_at.is_none_or(|started| started > step.at)) {
                continue;
            }
            let state = if own {
                self.state_at(number, 0)?
            } else {
                let query = TemporalQuery {
                    timestamp: Some(step.at),
                    session: Some(view.id.clone()),
                    ..TemporalQuery::default()
                };
                Some(self.rappel.query_at_most(&query, 0)?)
            };
            let Some(StateAt { state, .. }) = state.filter(StateAt::has_begun) else { continue };
            if own || state.status.is_live() {
                found.push(AgentAt {
                    running: state
                        .tool_state
                        .running
                        .iter()
                        .map(|call| call.tool.clone())
                        .collect(),
                    id: state.session,
                    provider: state.provider,
                    status: state.status,
                    task: state.task,
                    parent: state.parent,
                    event: state.event,
                });
            }
        }
        Ok(found)
    }
}

/// The session whose past is meant.
fn session_of<'m>(
    manifest: &'m Manifest,
    named: Option<&SessionId>,
) -> Result<Option<&'m SessionPart>> {
    let sessions = manifest.agents.as_ref().map_or(&[][..], |agents| &agents.sessions);
    let find = |id: &str| sessions.iter().find(|part| part.id.as_str() == id);
    if let Some(named) = named {
        return find(named.as_str()).map(Some).ok_or_else(|| Error::NotThere {
            message: format!("{} holds no session {named}", manifest.id),
            advice: Advice::ShowCheckpoint { checkpoint: manifest.id.to_string() },
        });
    }
    // The one that asked for the checkpoint; else the one in which something happened last.
    let asked = manifest.session_id.as_deref().and_then(find);
    Ok(asked.or_else(|| sessions.iter().max_by_key(|part| part.latest_at)))
}

fn starts(manifest: &Manifest, session: Option<&SessionId>) -> bool {
    manifest.trigger == Trigger::SessionStart
        && session.is_some()
        && manifest.session_id.as_deref() == session.map(SessionId::as_str)
}

/// The last event of the session that a checkpoint knows.
fn event_in(manifest: &Manifest, session: Option<&SessionId>, events: &[Event]) -> u64 {
    let sessions = manifest.agents.iter().flat_map(|agents| &agents.sessions);
    let part = sessions.into_iter().find(|part| Some(&part.id) == session);
    let known = match part {
        Some(part) => events.iter().rev().find(|event| event.number <= part.position.event),
        None => events.iter().rev().find(|event| event.at <= manifest.created_at),
    };
    known.map_or(0, |event| event.number)
}
