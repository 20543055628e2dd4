//! Writing journals. One event is one durable run of the store, whatever the session knows already; a checkpoint of
//! agent state that it asks for is in the same run.

use rappel_store::NewRecord;
use rappel_store::index::Index;
use rappel_store::record::Kind;
use rappel_types::agents::{
    Body, Event, Illegal, Lineage, NewEvent, SessionId, SessionState, contradiction, raised,
};
use rappel_types::{CheckpointId, ObjectId, Timestamp, Trigger};
use serde::Serialize;

use super::journal::{no_session, parse};
use super::{Live, Notice};
use crate::error::{Error, Result};
use crate::rappel::Rappel;

/// What came of recording something.
#[derive(Debug, Clone, PartialEq)]
pub struct Recorded {
    /// The event, as it stands in the journal.
    pub event: Event,
    /// Checkpoints that it made.
    pub checkpoints: Vec<CheckpointId>,
    /// What the user should know besides.
    pub notes: Vec<String>,
}

/// A stored state, as its document has it.
#[derive(Serialize)]
struct Stored {
    version: u32,
    event: u64,
    fork: u32,
    latest_at: Timestamp,
    state: ObjectId,
}

/// What one commit adds to a journal.
struct Added {
    events: Vec<Event>,
    raised: Vec<raised::Raised>,
    checkpoints: Vec<(CheckpointId, Trigger)>,
}

impl Rappel {
    /// Records what happened in a session. It is durable when this returns; what it asks for (`[auto]` in
    /// `rappel.toml`) has been saved too.
    pub fn record(&mut self, session: &SessionId, new: NewEvent) -> Result<Recorded> {
        let new = new.cleaned().map_err(|error| Error::Usage { message: error.0, hint: None })?;
        let starts = matches!(new.body, Body::SessionStarted(_));
        let mut added = None;
        for _ in 0..3 {
            let mut live = match self.live.remove(session) {
                Some(live) => live,
                None if starts => Live::new(session.clone()),
                None => self.load_live(session)?,
            };
            match self.append(&mut live, &new) {
                Ok(done) => {
                    self.live.insert(session.clone(), live);
                    added = Some(done);
                    break;
                }
                // Set back, or collected, meanwhile: what this process knew is not so any more.
                Err(Error::Store(rappel_store::Error::Moved)) => {}
                Err(error) => return Err(error),
            }
        }
        let added = added.ok_or(Error::Store(rappel_store::Error::Moved))?;
        let mut checkpoints: Vec<CheckpointId> = Vec::new();
        for event in &added.events {
            self.tell(&Notice::Event { session: session.clone(), event: Box::new(event.clone()) });
        }
        for (checkpoint, trigger) in added.checkpoints {
            self.tell(&Notice::Checkpoint { checkpoint: checkpoint.clone(), trigger });
            checkpoints.push(checkpoint);
        }
        let (made, notes) = self.save_raised(session, &added.raised)?;
        checkpoints.extend(made);
        let event = added.events.into_iter().next();
        let event =
            event.ok_or_else(|| Error::Damaged { message: "a commit without its event".into() })?;
        Ok(Recorded { event, checkpoints, notes })
    }

    fn append(&self, live: &mut Live, new: &NewEvent) -> Result<Added> {
        let session = live.state.session.clone();
        let writer = self.store.begin()?;
        let mut stored = None;
        if live.is_due() {
            let state = live.store(&writer)?;
            stored = Some(Stored {
                version: 1,
                event: live.state.event,
                fork: live.state.fork,
                latest_at: live.state.latest_at.unwrap_or_else(|| self.now()),
                state,
            });
        } else {
            writer.reuse(live.snapshot);
        }
        // A checkpoint of state alone may be part of this run.
        let connected = self.snapshot_connected(&writer)?.taken;
        let now = self.now();
        let thresholds = self.config.auto.thresholds;
        let mut refused = None;
        let mut added = Added { events: Vec::new(), raised: Vec::new(), checkpoints: Vec::new() };
        let done = writer.commit(|moment| {
            let index = &mut *moment.index;
            let mut refuse = |error: Error| {
                refused = Some(error);
                rappel_store::Error::Refused
            };
            catch_up(live, index)?;
            let starts = matches!(new.body, Body::SessionStarted(_));
            if live.last == 0 && !starts {
                return Err(refuse(no_session(&session)));
            }
            let late = late_end(live, index, new)?;
            if late.is_none() {
                let taken = new.id.as_deref().map(|id| index.events_about(session.as_str(), id));
                if let (Some(rows), Some(id)) = (taken.transpose()?, &new.id)
                    && !rows.is_empty()
                {
                    let illegal = Illegal::Taken { what: "item", id: id.clone() };
                    return Err(refuse(illegal_event(&session, illegal)));
                }
                if let Err(illegal) = live.state.check(new.id.as_deref(), &new.body) {
                    return Err(refuse(illegal_event(&session, illegal)));
                }
            }
            let fork = late.unwrap_or(live.state.fork);
            let event = live.next(fork, new.at.unwrap_or(now), new.id.clone(), new.body.clone());
            let call = called(&live.state, &event);
            if late.is_none() {
                live.take(&event);
                added.raised =
                    raised::by(&event, call.as_ref().map(|(tool, of)| (tool.as_str(), of)));
            }
            let follow = match late {
                None => contradiction::follow(&live.state, &event, &thresholds),
                Some(_) => Vec::new(),
            };
            added.events.push(event);
            for body in follow {
                let event = live.next(live.state.fork, now, None, body);
                live.take(&event);
                added.raised.extend(raised::by(&event, None));
                added.events.push(event);
            }
            let mut records = Vec::new();
            if let Some(stored) = &stored {
                records.push(document(Kind::Session, &session, stored)?);
            }
            let mut manifests = self.place_state_checkpoints(live, index, &added.raised, now)?;
            for manifest in &mut manifests {
                added.events.push(live.note_checkpoint(manifest, now).1);
                added.checkpoints.push((manifest.id.clone(), manifest.trigger));
            }
            for event in &added.events {
                let json = event.to_json();
                records.push(NewRecord::Document {
                    kind: Kind::Event,
                    key: session.to_string(),
                    json,
                });
            }
            records.extend(Self::finish_state_checkpoints(manifests, live, index, connected)?);
            Ok(records)
        });
        match (done, refused) {
            (Ok(_), _) => Ok(added),
            (Err(rappel_store::Error::Refused), Some(error)) => Err(error),
            (Err(error), _) => Err(error.into()),
        }
    }
}

impl Live {
    pub(super) fn new(session: SessionId) -> Self {
        Self {
            state: SessionState::new(session),
            snapshot: None,
            events_since: 0,
            bytes_since: 0,
            snapshot_bytes: 0,
            last: 0,
        }
    }

    /// The next event of the journal.
    pub(crate) fn next(
        &mut self,
        fork: u32,
        at: Timestamp,
        id: Option<String>,
        body: Body,
    ) -> Event {
        self.last += 1;
        let number = self.last;
        let id = id.or_else(|| body.prefix().map(|prefix| format!("{prefix}{number}")));
        Event { number, fork, at, id, body }
    }

    pub(crate) fn take(&mut self, event: &Event) {
        self.state.apply(event);
        self.events_since += 1;
        self.bytes_since += 64 + weight(&event.body);
    }
}

/// About how long an event's JSON is.
fn weight(body: &Body) -> usize {
    match body {
        Body::Thought(thought) => thought.content.len(),
        Body::Note(note) => note.text.len(),
        Body::Tool(_) | Body::ToolStarted(_) | Body::ToolFinished(_) | Body::Command(_) => {
            body.to_value().to_string().len()
        }
        _ => 128,
    }
}

/// Takes in what others wrote to the session meanwhile. Under the lock.
pub(crate) fn catch_up(live: &mut Live, index: &Index) -> rappel_store::Result<()> {
    let session = live.state.session.to_string();
    let last = index.last_event(&session)?.unwrap_or(0);
    if last == live.last {
        return Ok(());
    }
    let damaged = |error: Error| rappel_store::Error::Damaged(error.to_string());
    let current = Lineage::new(index.forks(&session)?).current();
    if current != live.state.fork {
        // Set back meanwhile: what this process knew is of another fork.
        return Err(rappel_store::Error::Moved);
    }
    for row in index.events_after(&session, live.last)? {
        let event = parse(&row).map_err(damaged)?;
        if event.fork == current {
            live.take(&event);
        }
        live.last = event.number;
    }
    Ok(())
}

/// The fork of a tool call that ends and is not known here: it began before the session was set back, and its end
/// belongs there.
fn late_end(live: &Live, index: &Index, new: &NewEvent) -> rappel_store::Result<Option<u32>> {
    let Body::ToolFinished(done) = &new.body else { return Ok(None) };
    if live.state.tool_state.running.get(&done.of).is_some() || live.state.fork == 0 {
        return Ok(None);
    }
    let rows = index.events_about(live.state.session.as_str(), &done.of)?;
    let started = rows.iter().find(|row| row.kind == "tool-started");
    let ended = |fork: u32| rows.iter().any(|row| row.kind == "tool-finished" && row.fork == fork);
    Ok(started.map(|row| row.fork).filter(|fork| *fork != live.state.fork && !ended(*fork)))
}

/// The tool of a call that this event ends.
fn called(state: &SessionState, event: &Event) -> Option<(String, serde_json::Value)> {
    let Body::ToolFinished(done) = &event.body else { return None };
    let call = state.tool_state.running.get(&done.of)?;
    Some((call.tool.clone(), call.arguments.clone()))
}

fn document(
    kind: Kind,
    session: &SessionId,
    document: &impl Serialize,
) -> rappel_store::Result<NewRecord> {
    crate::save::new_document(kind, session.to_string(), document)
}

fn illegal_event(session: &SessionId, illegal: Illegal) -> Error {
    Error::IllegalEvent { session: session.to_string(), illegal }
}
