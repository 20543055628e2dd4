//! Writing journals. One event is one durable run of the store, whatever the session knows already; a checkpoint of
//! agent state that it asks for is in the same run. What is told after the fact comes many events a run.

use std::collections::HashSet;

use rappel_store::NewRecord;
use rappel_store::index::Index;
use rappel_store::record::Kind;
use rappel_types::agents::{
    Body, Event, Illegal, Lineage, NewEvent, SessionId, SessionState, SessionStatus, contradiction,
    payload, raised,
};
use rappel_types::{CheckpointId, ObjectId, Timestamp, Trigger};
use serde::Serialize;

use super::journal::parse;
use super::{Live, Notice, Snapshots};
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

impl Recorded {
    /// The id of what the event made, or of what it is about.
    pub fn id(&self) -> Option<String> {
        self.event.id.clone().or_else(|| self.event.body.about().map(str::to_owned))
    }
}

/// A stored state, as its document has it.
#[derive(Serialize)]
pub(super) struct Stored {
    version: u32,
    event: u64,
    fork: u32,
    latest_at: Timestamp,
    state: ObjectId,
}

impl Stored {
    /// The document that says that `state` is what a session knows.
    pub(super) fn of(live: &Live, state: ObjectId, now: Timestamp) -> Self {
        let SessionState { event, fork, latest_at, .. } = &live.state;
        let latest_at = latest_at.unwrap_or(now);
        Self { version: 1, event: *event, fork: *fork, latest_at, state }
    }
}

/// How events are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    /// As they happen. What does not fit is refused, and checkpoints are made of what asks for them.
    Now,
    /// After the fact. What is known or does not fit is passed over, and no checkpoint is made.
    Late,
}

/// By how much the clocks of two machines may differ.
const CLOCKS_APART_MS: i64 = 60_000;

/// What one commit adds to a journal.
#[derive(Default)]
struct Added {
    events: Vec<Event>,
    raised: Vec<raised::Raised>,
    checkpoints: Vec<(CheckpointId, Trigger)>,
}

impl Rappel {
    /// Records what happened in a session. It is durable when this returns; what it asks for (`[auto]` in
    /// `rappel.toml`) has been saved too.
    pub fn record(&self, session: &SessionId, new: NewEvent) -> Result<Recorded> {
        let new =
            new.cleaned().map_err(|error| Error::Usage { message: error.0, advice: Vec::new() })?;
        if let Some(at) = new.at {
            self.check_time(session, at)?;
        }
        let added = self.append_to(session, std::slice::from_ref(&new), Told::Now)?;
        let mut checkpoints: Vec<CheckpointId> = Vec::new();
        for event in &added.events {
            self.tell(&Notice::Event { session: session.clone(), event: Box::new(event.clone()) });
        }
        for (checkpoint, trigger) in added.checkpoints {
            self.tell(&Notice::Checkpoint { checkpoint: checkpoint.clone(), trigger });
            checkpoints.push(checkpoint);
        }
        let (made, mut notes) = self.save_raised(session, &added.raised)?;
        checkpoints.extend(made);
        notes.extend(added.events.iter().filter_map(|event| match &event.body {
            Body::Contradiction(found) => Some(format!("contradiction: {found}")),
            _ => None,
        }));
        let event = added.events.into_iter().next();
        let event =
            event.ok_or_else(|| Error::Damaged { message: "a commit without its event".into() })?;
        Ok(Recorded { event, checkpoints, notes })
    }

    /// An event happens while its session does, and not later than now.
    fn check_time(&self, session: &SessionId, at: Timestamp) -> Result<()> {
        let refuse = |message: String| Err(Error::Usage { message, advice: Vec::new() });
        let began = self.session(session)?.started_at;
        if at.millis_since(self.now()) > CLOCKS_APART_MS {
            return refuse(format!("at: {at} is yet to come"));
        }
        match began {
            Some(began) if began.millis_since(at) > CLOCKS_APART_MS => {
                refuse(format!("at: {at} is before the session began ({began})"))
            }
            _ => Ok(()),
        }
    }

    /// Tells what happened in a session before: one durable run, in which whatever the journal has already, or cannot
    /// take, is left out. The events must be [`cleaned`](NewEvent::cleaned), and few enough for a run.
    pub(crate) fn record_late(&self, session: &SessionId, new: &[NewEvent]) -> Result<()> {
        let added = self.append_to(session, new, Told::Late)?;
        for event in added.events {
            self.tell(&Notice::Event { session: session.clone(), event: Box::new(event) });
        }
        Ok(())
    }

    fn append_to(&self, session: &SessionId, new: &[NewEvent], told: Told) -> Result<Added> {
        let starts = new.iter().any(|new| matches!(new.body, Body::SessionStarted(_)));
        for _ in 0..3 {
            let known = self.live().remove(session);
            let mut live = match known {
                Some(live) => live,
                None if starts => Live::new(session.clone()),
                None => self.load_live(session)?,
            };
            match self.append(&mut live, new, told) {
                Ok(added) => {
                    self.live().insert(session.clone(), live);
                    return Ok(added);
                }
                // Set back, or collected, meanwhile: what this process knew is not so any more.
                Err(Error::Store(rappel_store::Error::Moved)) => {}
                Err(error) => return Err(error),
            }
        }
        Err(Error::Store(rappel_store::Error::Moved))
    }

    fn append(&self, live: &mut Live, new: &[NewEvent], told: Told) -> Result<Added> {
        let session = live.state.session.clone();
        let writer = self.store.begin()?;
        let mut stored = None;
        if live.is_due() {
            let state = live.store(&writer)?;
            stored = Some(Stored::of(live, state, self.now()));
        } else {
            writer.reuse(live.snapshot);
        }
        // A checkpoint of state alone may be part of this run.
        let connected = match told {
            Told::Now => self.snapshot_connected(&writer)?,
            Told::Late => Snapshots::default(),
        };
        let now = self.now();
        let mut refused = None;
        let mut added = Added::default();
        let done = writer.commit(|moment| {
            let index = &mut *moment.index;
            catch_up(live, index)?;
            let mut seen = HashSet::new();
            for new in new {
                // How far a transcript was read is worth writing only together with something that it told.
                if matches!(new.body, Body::Transcript(_)) && added.events.is_empty() {
                    continue;
                }
                let at = new.at.unwrap_or(now);
                let fork = match admit(live, index, new, at, told, &mut seen) {
                    Ok(fork) => fork,
                    Err(Refusal::Store(error)) => return Err(error),
                    Err(Refusal::Illegal(Illegal::Ended(_)))
                        if told == Told::Late && is_activity(live, &new.body) =>
                    {
                        live.state.fork
                    }
                    Err(Refusal::Illegal(_)) if told == Told::Late => continue,
                    Err(Refusal::Illegal(illegal)) => {
                        refused = Some(illegal_event(&session, illegal));
                        return Err(rappel_store::Error::Refused);
                    }
                    Err(Refusal::NoSession) => {
                        let (session, nearest, let_go) = (session.to_string(), None, None);
                        refused = Some(Error::NoSession { session, nearest, let_go });
                        return Err(rappel_store::Error::Refused);
                    }
                };
                if told == Told::Late && fork == live.state.fork && goes_on(live, &new.body, at) {
                    let process = None;
                    let resumed = payload::SessionResumed { process, from_transcript: true };
                    let resumed = NewEvent::from(Body::SessionResumed(resumed));
                    let resumed = NewEvent { at: Some(at), ..resumed };
                    self.take_in(live, &resumed, fork, now, &mut added);
                }
                match free_id(live, index, new)? {
                    None => self.take_in(live, new, fork, now, &mut added),
                    Some(id) => {
                        let named = NewEvent { id: Some(id), ..new.clone() };
                        self.take_in(live, &named, fork, now, &mut added);
                    }
                }
            }
            if told == Told::Late {
                added.raised.clear();
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
            // All of it was known: there is nothing to write.
            if records.is_empty() { Err(rappel_store::Error::Refused) } else { Ok(records) }
        });
        match (done, refused) {
            (Ok(_), _) | (Err(rappel_store::Error::Refused), None) => Ok(added),
            (Err(rappel_store::Error::Refused), Some(error)) => Err(error),
            (Err(error), _) => Err(error.into()),
        }
    }

    /// Takes an event that was admitted to a fork, and what follows from it.
    fn take_in(
        &self,
        live: &mut Live,
        new: &NewEvent,
        fork: u32,
        now: Timestamp,
        added: &mut Added,
    ) {
        let event = live.next(fork, new.at.unwrap_or(now), new.id.clone(), new.body.clone());
        if fork != live.state.fork {
            added.events.push(event);
            return;
        }
        let call = called(&live.state, &event);
        live.take(&event);
        added
            .raised
            .extend(raised::by(&event, call.as_ref().map(|(tool, of)| (tool.as_str(), of))));
        let follow = contradiction::follow(&live.state, &event, &self.config.auto.thresholds);
        added.events.push(event);
        for body in follow {
            let event = live.next(live.state.fork, now, None, body);
            live.take(&event);
            added.raised.extend(raised::by(&event, None));
            added.events.push(event);
        }
    }
}

/// Why an event is not taken.
enum Refusal {
    NoSession,
    Illegal(Illegal),
    Store(rappel_store::Error),
}

impl From<rappel_store::Error> for Refusal {
    fn from(error: rappel_store::Error) -> Self {
        Self::Store(error)
    }
}

/// The fork that an event goes to. `seen` are the ids of this very run. Under the lock.
fn admit(
    live: &Live,
    index: &Index,
    new: &NewEvent,
    at: Timestamp,
    told: Told,
    seen: &mut HashSet<String>,
) -> std::result::Result<u32, Refusal> {
    let starts = matches!(new.body, Body::SessionStarted(_));
    if live.last == 0 && !starts {
        return Err(Refusal::NoSession);
    }
    if let Body::ToolFinished(done) = &new.body
        && !seen.insert(format!("end of {}", done.of))
    {
        return Err(Refusal::Illegal(Illegal::NotRunning(done.of.clone())));
    }
    if let Some(fork) = late_end(live, index, new)? {
        return Ok(fork);
    }
    if let Some(id) = &new.id {
        let taken = !seen.insert(id.clone())
            || !index.events_about(live.state.session.as_str(), id)?.is_empty();
        if taken {
            return Err(Refusal::Illegal(Illegal::Taken { what: "thing called", id: id.clone() }));
        }
    }
    let id = new.id.as_deref();
    let legal = match told {
        Told::Now => live.state.check(id, &new.body),
        Told::Late => live.state.check_late(id, at, &new.body),
    };
    legal.map_err(Refusal::Illegal)?;
    Ok(live.state.fork)
}

/// An id for what an event makes, where the one that it would be given was chosen by somebody before.
fn free_id(live: &Live, index: &Index, new: &NewEvent) -> rappel_store::Result<Option<String>> {
    let (None, Some(prefix)) = (&new.id, new.body.prefix()) else { return Ok(None) };
    let session = live.state.session.as_str();
    let own = format!("{prefix}{}", live.last + 1);
    if index.events_about(session, &own)?.is_empty() {
        return Ok(None);
    }
    let mut again = 2;
    while !index.events_about(session, &format!("{own}-{again}"))?.is_empty() {
        again += 1;
    }
    Ok(Some(format!("{own}-{again}")))
}

/// Whether something shows that the agent was at work.
fn is_activity(live: &Live, body: &Body) -> bool {
    match body {
        Body::Prompt(_) | Body::Thought(_) | Body::ToolStarted(_) | Body::Compaction(_) => true,
        Body::ToolFinished(done) => live.state.tool_state.running.get(&done.of).is_some(),
        _ => false,
    }
}

/// Whether something shows that a session that waits, or is over, goes on.
fn goes_on(live: &Live, body: &Body, at: Timestamp) -> bool {
    let SessionState { status, from_transcript, latest_at, .. } = &live.state;
    let waits = *status == SessionStatus::Paused && *from_transcript && Some(at) > *latest_at;
    is_activity(live, body) && (waits || live.state.is_over(at))
}

impl Live {
    pub(super) fn new(session: SessionId) -> Self {
        Self {
            state: SessionState::new(session),
            snapshot: None,
            base: None,
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
    let last = index.last_event(&session)?;
    if last == Some(live.last) {
        return Ok(());
    }
    if live.last == 0 && last.is_none() {
        // One that was let go may have had this id. Its numbers are not given again.
        live.last = index.let_go(&session)?.map_or(0, |gone| gone.last);
        return Ok(());
    }
    if live.last > 0 && index.event(&session, live.last)?.is_none() {
        // Let go meanwhile: what this process knew is gone.
        return Err(rappel_store::Error::Moved);
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
