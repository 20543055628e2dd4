//! Where something happened: which events say or do it, and which checkpoint holds each first.

use std::collections::{HashMap, HashSet};

use rappel_store::index::{CallRow, CheckpointRow, EventRow, Hit};
use rappel_types::Timestamp;
use rappel_types::agents::{Body, Event, Lineage, tools};
use schemars::JsonSchema;
use serde::Serialize;

use crate::checkpoint::Checkpoint;
use crate::error::Result;
use crate::list::{ListFilter, Listing};
use crate::rappel::Rappel;

/// How many events are told at most, the newest.
const EVENTS_MAX: usize = 1000;

/// What was looked for and found.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct Found {
    /// How many checkpoints there are, whatever the limit.
    pub total: usize,
    /// The newest of them.
    pub checkpoints: Vec<Checkpoint>,
    /// How many events there are, whatever the limit.
    pub events_total: usize,
    /// The events in those checkpoints, and those that no checkpoint holds yet; the newest thousand, newest first.
    pub events: Vec<FoundEvent>,
    /// Checkpoints that cannot be read.
    pub unreadable: Vec<String>,
}

/// An event that was looked for.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct FoundEvent {
    /// Its session.
    pub session: String,
    /// Its number there.
    pub event: u64,
    /// The id of what it made.
    pub id: Option<String>,
    /// What it is called.
    pub kind: String,
    /// When it happened.
    pub at: Timestamp,
    /// What it says, where that was looked for, or how it begins.
    pub excerpt: String,
    /// The checkpoint that was the first to hold it, of those that were asked for.
    pub checkpoint: Option<String>,
    #[serde(skip)]
    pub(crate) fork: u32,
}

impl Rappel {
    /// The checkpoints where something holds, with the events that say so.
    pub fn find(&self, filter: &ListFilter) -> Result<Found> {
        let (listing, mut events) = self.find_listed(filter)?;
        let Listing { total, checkpoints, unreadable, .. } = listing;
        let events_total = events.len();
        let shown: HashSet<&str> = checkpoints.iter().map(|one| one.manifest.id.as_str()).collect();
        events.retain(|event| event.checkpoint.as_deref().is_none_or(|id| shown.contains(id)));
        events.truncate(EVENTS_MAX);
        self.read_unread(&mut events)?;
        Ok(Found { total, checkpoints, events_total, events, unreadable })
    }

    /// The events that a filter means, newest first, each with the first of `rows` that holds it.
    pub(crate) fn find_events(
        &self,
        filter: &ListFilter,
        rows: &[CheckpointRow],
    ) -> Result<Vec<FoundEvent>> {
        let mut events = match (&filter.tool, &filter.text) {
            (Some(tool), None) => self.calls_of(tool)?,
            (Some(tool), Some(text)) => self.calls_that_say(tool, text)?,
            (None, Some(text)) => self.events_that_say(text)?,
            (None, None) => return Ok(Vec::new()),
        };
        if let Some(session) = &filter.session {
            events.retain(|event| event.session == *session);
        }
        if !filter.all_workspaces {
            let Some(workspace) = self.workspace_id() else { return Ok(Vec::new()) };
            let mut histories = vec![workspace];
            if !filter.own {
                histories.extend(self.lineages()?.iter().map(|lineage| lineage.workspace));
            }
            let mut here: HashSet<String> = HashSet::new();
            for id in histories {
                here.extend(self.store.look_up(|index| index.sessions(&id.to_string()))?);
            }
            events.retain(|event| here.contains(&event.session));
        }
        self.find_holders(&mut events, rows)?;
        events.sort_by(|a, b| (b.at, &b.session, b.event).cmp(&(a.at, &a.session, a.event)));
        Ok(events)
    }

    fn events_that_say(&self, text: &str) -> Result<Vec<FoundEvent>> {
        Ok(self.store.look_up(|index| {
            let mut found = Vec::new();
            index.events_saying(text, &mut |row| {
                let said = Event::parse(&row.json).ok().and_then(|event| event.body.excerpt(text));
                found.extend(said.map(|excerpt| FoundEvent::of(row, excerpt)));
            })?;
            Ok(found)
        })?)
    }

    /// The calls of a tool, unread.
    fn calls_of(&self, tool: &str) -> Result<Vec<FoundEvent>> {
        let mut calls = Vec::new();
        for tool in tools::meant_by(tool) {
            let found = self.store.look_up(|index| index.tool_calls(tool))?;
            calls.extend(found.into_iter().map(FoundEvent::unread));
        }
        Ok(calls)
    }

    /// Looks what events are of which nobody has looked at more than where they are.
    fn read_unread(&self, events: &mut [FoundEvent]) -> Result<()> {
        for found in events.iter_mut().filter(|one| one.kind.is_empty()) {
            let row = self.store.look_up(|index| index.event(&found.session, found.event))?;
            let Some(row) = row else { continue };
            let opening = Event::parse(&row.json).map(|event| event.body.opening());
            let checkpoint = found.checkpoint.take();
            *found = FoundEvent { checkpoint, ..FoundEvent::of(row, opening.unwrap_or_default()) };
        }
        Ok(())
    }

    /// The calls of a tool that say something in what they were given or gave.
    fn calls_that_say(&self, tool: &str, text: &str) -> Result<Vec<FoundEvent>> {
        let names = tools::meant_by(tool);
        Ok(self.store.look_up(|index| {
            let mut found = Vec::new();
            let rows: Result<Vec<_>, _> =
                names.iter().map(|tool| index.tool_events(tool)).collect();
            for row in rows?.into_iter().flatten() {
                let Ok(event) = Event::parse(&row.json) else { continue };
                let mut said = event.body.excerpt(text);
                if let (None, Some(id), Body::ToolStarted(_)) = (&said, &row.item, &event.body) {
                    let about = index.events_about(&row.session, id)?;
                    let ends = about.iter().filter_map(|row| Event::parse(&row.json).ok());
                    said = ends
                        .filter(|event| matches!(event.body, Body::ToolFinished(_)))
                        .find_map(|event| event.body.excerpt(text));
                }
                found.extend(said.map(|excerpt| FoundEvent::of(row, excerpt)));
            }
            Ok(found)
        })?)
    }

    fn find_holders(&self, events: &mut [FoundEvent], rows: &[CheckpointRow]) -> Result<()> {
        let places: Vec<_> =
            events.iter().map(|one| (one.session.as_str(), one.event, one.fork)).collect();
        let found = self.first_holders(&places, rows)?;
        for (event, checkpoint) in events.iter_mut().zip(found) {
            event.checkpoint = checkpoint;
        }
        Ok(())
    }

    /// The first of `rows` that holds each event: its session, its number, its fork.
    pub(crate) fn first_holders(
        &self,
        events: &[(&str, u64, u32)],
        rows: &[CheckpointRow],
    ) -> Result<Vec<Option<String>>> {
        let counts: HashSet<&str> = rows.iter().map(|row| row.id.as_str()).collect();
        let mut journals: HashMap<&str, (Vec<Hit>, Lineage)> = HashMap::new();
        let mut found = Vec::with_capacity(events.len());
        for &(session, event, fork) in events {
            if !journals.contains_key(session) {
                let (mut held, lineage) = self.store.look_up(|index| {
                    let forks = index.forks(session)?;
                    Ok((index.held(session)?, Lineage::new(forks)))
                })?;
                held.retain(|hit| counts.contains(&*hit.checkpoint));
                journals.insert(session, (held, lineage));
            }
            let knows = |hit: &&Hit, lineage: &Lineage| {
                lineage.knows(hit.position.fork, hit.position.event, fork, event)
            };
            found.push(journals.get(session).and_then(|(held, lineage)| {
                let first = held.partition_point(|hit| hit.position.event < event);
                held[first..]
                    .iter()
                    .find(|hit| knows(hit, lineage))
                    .map(|hit| hit.checkpoint.clone())
            }));
        }
        Ok(found)
    }
}

impl FoundEvent {
    fn of(row: EventRow, excerpt: String) -> Self {
        Self {
            session: row.session,
            event: row.number,
            id: row.item,
            kind: row.kind,
            at: Timestamp::from_millis(row.at),
            excerpt,
            checkpoint: None,
            fork: row.fork,
        }
    }

    /// Where it is; what it is, nobody has looked yet.
    fn unread(row: CallRow) -> Self {
        Self {
            session: row.session,
            event: row.number,
            id: None,
            kind: String::new(),
            at: Timestamp::from_millis(row.at),
            excerpt: String::new(),
            checkpoint: None,
            fork: row.fork,
        }
    }
}
