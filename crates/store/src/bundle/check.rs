//! Whether a bundle whose bytes are whole makes sense: names, journals, and what its checkpoints
//! need. Nothing in it may be missing, and nothing may be there that no checkpoint asks for.

use std::collections::{HashMap, HashSet};

use rappel_types::agents::{Body, Event, Fork, Lineage, SessionId, SessionPosition};
use rappel_types::{CheckpointId, ObjectId};

use super::read::bad;
use super::{Bundle, Part, Roots};
use crate::closure::named_in;
use crate::document::{DOCUMENT_VERSION, Label};
use crate::error::{Error, Result};
use crate::log::NUMBER_MAX;
use crate::verify::Hurt;
use crate::verify::tally::Tally;

pub(super) fn check(bundle: &Bundle) -> Result<()> {
    names(bundle)?;
    journals(bundle)?;
    objects(bundle)
}

/// The number of an event, for the order of documents.
pub(super) fn event_number(json: &str) -> Result<u64> {
    let event = Event::parse(json).map_err(|error| bad(&format!("an event: {error}")))?;
    match event.number {
        number @ 1..=NUMBER_MAX => Ok(number),
        other => Err(bad(&format!("an event has the number {other}"))),
    }
}

/// One history: each name once, in order, and no checkpoint follows a later one.
fn names(bundle: &Bundle) -> Result<()> {
    let mut known: HashSet<&CheckpointId> = HashSet::new();
    let all: HashSet<&CheckpointId> = bundle.manifests().map(|manifest| &manifest.id).collect();
    let mut before: Option<(u64, rappel_types::WorkspaceId)> = None;
    for manifest in bundle.manifests() {
        let id = &manifest.id;
        if !known.insert(id) {
            return Err(bad(&format!("{id} is there twice")));
        }
        let now = (manifest.sequence, manifest.workspace.id);
        let fits = before.is_none_or(|then| then.0 < now.0 && then.1 == now.1);
        if !fits || !(1..=NUMBER_MAX).contains(&now.0) {
            return Err(bad(&format!("{id} is not in its place")));
        }
        before = Some(now);
        let parent = manifest.parent.as_ref();
        if parent
            .is_some_and(|parent| all.contains(parent) && (parent == id || !known.contains(parent)))
        {
            return Err(bad(&format!("{id} follows a later checkpoint")));
        }
    }
    for document in bundle.documents().iter().filter(|one| one.kind == Part::Label) {
        let about = document.key.parse().ok();
        if !about.is_some_and(|about: CheckpointId| known.contains(&about)) {
            return Err(bad(&format!("a label of {:?}, which is not in it", document.key)));
        }
        let label: Label = serde_json::from_str(&document.json)
            .map_err(|error| bad(&format!("the label of {}: {error}", document.key)))?;
        if label.version > DOCUMENT_VERSION {
            let what = format!("the label of {}", document.key);
            let (found, supported) = (label.version, DOCUMENT_VERSION);
            return Err(Error::Newer { what, found, supported });
        }
    }
    Ok(())
}

/// Journals of the sessions that checkpoints hold, as far as they hold them.
fn journals(bundle: &Bundle) -> Result<()> {
    let mut positions: HashMap<&SessionId, Vec<SessionPosition>> = HashMap::new();
    for manifest in bundle.manifests() {
        for session in manifest.agents.iter().flat_map(|agents| &agents.sessions) {
            positions.entry(&session.id).or_default().push(session.position);
        }
    }
    let mut events: HashMap<SessionId, Vec<Event>> = HashMap::new();
    for document in bundle.documents().iter().filter(|one| one.kind == Part::Event) {
        let session = document.key.parse().ok();
        let session = session.filter(|id| positions.contains_key(id)).ok_or_else(|| {
            bad(&format!("an event of session {:?}, which no checkpoint holds", document.key))
        })?;
        let event = Event::parse(&document.json).map_err(|error| bad(&error.to_string()))?;
        events.entry(session).or_default().push(event);
    }
    for (session, positions) in positions {
        let found = events.get(session).map_or(&[][..], |events| events);
        if found.is_empty() && positions.iter().any(|position| position.event > 0) {
            return Err(bad(&format!("the journal of session {session} is missing")));
        }
        let held = held(found, &positions);
        let is_held = |event: &Event| held.get(&event.fork).is_some_and(|to| event.number <= *to);
        if let Some(event) = found.iter().find(|event| !is_held(event)) {
            let number = event.number;
            return Err(bad(&format!("event {number} of {session}, which no checkpoint holds")));
        }
    }
    Ok(())
}

/// How far positions know each fork.
fn held(events: &[Event], positions: &[SessionPosition]) -> HashMap<u32, u64> {
    let forks = events.iter().filter_map(|event| match &event.body {
        Body::Restored(restored) => {
            let (fork, begins) = (event.fork, event.number);
            Some(Fork { fork, begins, of: restored.of, to: restored.to })
        }
        _ => None,
    });
    let lineage = Lineage::new(forks.collect());
    let mut held: HashMap<u32, u64> = HashMap::new();
    for position in positions {
        for (fork, to) in lineage.parts(position.fork, position.event) {
            let known = held.entry(fork).or_default();
            *known = (*known).max(to);
        }
    }
    held
}

/// Every object that checkpoints need, and no other.
fn objects(bundle: &Bundle) -> Result<()> {
    let mut tally = Tally::new(bundle);
    for (_, json, manifest) in &bundle.manifests {
        let mut hurt = Hurt { structure: false, ..Hurt::unreadable(manifest.id.clone()) };
        let roots = Roots::of(manifest);
        for tree in &roots.trees {
            tally.tree(tree, &mut hurt);
        }
        let named = named(json)?.into_iter().filter(|id| bundle.holds(id));
        for object in roots.others.iter().copied().chain(named) {
            if !tally.follow(object) {
                hurt.structure = true;
            }
        }
        if let Some(newer) = tally.newer.first() {
            return Err(Error::Damaged(newer.clone()));
        }
        if hurt.structure || !hurt.paths.is_empty() {
            let paths: Vec<String> = hurt.paths.iter().take(3).map(ToString::to_string).collect();
            let why = tally.misshapen.first().or(tally.errors.first()).cloned();
            let why = why.unwrap_or_else(|| "an object is missing".into());
            let what = match paths.is_empty() {
                true => why,
                false => format!("{} ({why})", paths.join(", ")),
            };
            return Err(bad(&format!("{} cannot be read as a whole: {what}", manifest.id)));
        }
    }
    for document in bundle.documents() {
        for object in named(document.json.as_bytes())? {
            if bundle.holds(&object) && !tally.follow(object) {
                return Err(bad(&format!("object {object} is missing")));
            }
        }
    }
    match bundle.ids().find(|id| !tally.seen.contains(*id)) {
        None => Ok(()),
        Some(id) => Err(bad(&format!("no checkpoint in it needs object {id}"))),
    }
}

fn named(json: &[u8]) -> Result<Vec<ObjectId>> {
    let json = serde_json::from_slice(json).map_err(|error| bad(&error.to_string()))?;
    let mut named = Vec::new();
    named_in(&json, &mut named);
    Ok(named)
}
