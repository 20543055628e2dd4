//! States of sessions in the store. The long lists are kept in segments of their own, which never change: the next
//! stored state names them again and adds what is new.

use std::sync::Arc;

use rappel_store::sink::{Role, Sink, Source};
use rappel_types::ObjectId;
use rappel_types::agents::{Long, STATE_MAGIC, STATE_VERSION, Segment, SessionState};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Live;
use crate::error::{Error, Result};

/// A state is stored after so many events, or so many bytes of them.
const EVENTS_MAX: u64 = 128;
const BYTES_MAX: usize = 96 << 10;
/// A large state is stored less often: what is stored must stay in proportion to what happened.
const STATE_SHARE: usize = 8;
/// So many states are stored against one that is whole.
const AGAINST_MAX: u8 = 8;
/// The newest items of a list become a segment when there are so many of them, or they take so much.
const SEGMENT_ITEMS: usize = 64;
const SEGMENT_BYTES: usize = 32 << 10;

impl Live {
    /// Whether so much happened that the state should be stored.
    pub(super) fn is_due(&self) -> bool {
        (self.events_since >= EVENTS_MAX || self.bytes_since >= BYTES_MAX)
            && self.bytes_since >= self.snapshot_bytes / STATE_SHARE
    }

    /// Stores the state, and goes on from there.
    pub(super) fn store(&mut self, sink: &dyn Sink) -> Result<ObjectId> {
        let state = &mut self.state;
        seal(&mut state.evidence, sink)?;
        seal(&mut state.verification_results, sink)?;
        seal(&mut state.notes, sink)?;
        seal(&mut state.command_history, sink)?;
        seal(&mut state.prompts, sink)?;
        seal(&mut state.thought_chain, sink)?;
        seal(&mut state.tool_state.done, sink)?;
        let json = [&STATE_MAGIC[..], &to_json(state)?].concat();
        // Against one that is whole, not against one another: reading a large state must not mean reading ten.
        let base = self.base.filter(|(_, used)| *used < AGAINST_MAX);
        let id = sink.put(Role::Structure, &json, base.as_ref().map(|(base, _)| base))?;
        self.base = Some(base.map_or((id, 0), |(base, used)| (base, used + 1)));
        self.snapshot = Some(id);
        self.snapshot_bytes = json.len();
        self.events_since = 0;
        self.bytes_since = 0;
        Ok(id)
    }
}

fn seal<T: Serialize>(list: &mut Long<T>, sink: &dyn Sink) -> Result<()> {
    if list.recent.is_empty() {
        return Ok(());
    }
    let items: Vec<&T> = list.iter().collect();
    let json = to_json(&items)?;
    if items.len() < SEGMENT_ITEMS && json.len() < SEGMENT_BYTES {
        return Ok(());
    }
    let id = sink.put(Role::Content, &json, None)?;
    list.stored.push(Segment { id, count: list.recent.len() as u64 });
    list.recent.clear();
    Ok(())
}

/// Reads a stored state, its long lists as they are; also how much it takes.
pub(super) fn read(source: &dyn Source, id: &ObjectId) -> Result<(SessionState, usize)> {
    let bytes = source.get(id)?;
    let bad = |error| Error::Damaged { message: format!("state of a session {id}: {error}") };
    let json = bytes.strip_prefix(STATE_MAGIC).unwrap_or_default();
    let state: SessionState = serde_json::from_slice(json).map_err(bad)?;
    if state.version > STATE_VERSION {
        let what = "a session's state".into();
        let found = state.version;
        return Err(rappel_store::Error::Newer { what, found, supported: STATE_VERSION }.into());
    }
    Ok((state, bytes.len()))
}

/// Which of the long lists are wanted whole, and how many items of each at most, the newest.
pub(crate) fn fill(source: &dyn Source, state: &mut SessionState, most: u64) -> Result<()> {
    load(source, &mut state.evidence, most)?;
    load(source, &mut state.verification_results, most)?;
    load(source, &mut state.notes, most)?;
    load(source, &mut state.command_history, most)?;
    load(source, &mut state.prompts, most)?;
    load(source, &mut state.thought_chain, most)?;
    load(source, &mut state.tool_state.done, most)
}

/// Takes in of the long lists of two states of one session what they do not share: the older parts that both name are
/// taken out of both.
pub(crate) fn fill_apart(
    source: &dyn Source,
    old: &mut SessionState,
    new: &mut SessionState,
) -> Result<()> {
    part_ways(&mut old.evidence, &mut new.evidence);
    part_ways(&mut old.verification_results, &mut new.verification_results);
    part_ways(&mut old.notes, &mut new.notes);
    part_ways(&mut old.command_history, &mut new.command_history);
    part_ways(&mut old.prompts, &mut new.prompts);
    part_ways(&mut old.thought_chain, &mut new.thought_chain);
    part_ways(&mut old.tool_state.done, &mut new.tool_state.done);
    fill(source, old, u64::MAX)?;
    fill(source, new, u64::MAX)
}

fn part_ways<T>(old: &mut Long<T>, new: &mut Long<T>) {
    let shared = old.stored.iter().zip(&new.stored).take_while(|(a, b)| a == b).count();
    old.stored.drain(..shared);
    new.stored.drain(..shared);
}

/// Takes segments in, newest first, until there are `most` items. Those that stay stored are counted there.
pub(crate) fn load<T: DeserializeOwned>(
    source: &dyn Source,
    list: &mut Long<T>,
    most: u64,
) -> Result<()> {
    let mut newer: Vec<Vec<Arc<T>>> = vec![std::mem::take(&mut list.recent)];
    let mut count = newer[0].len() as u64;
    while count < most
        && let Some(segment) = list.stored.pop()
    {
        let bytes = source.get(&segment.id)?;
        let items: Vec<T> = serde_json::from_slice(&bytes).map_err(|error| Error::Damaged {
            message: format!("part of a session's state {}: {error}", segment.id),
        })?;
        count += items.len() as u64;
        newer.push(items.into_iter().map(Arc::new).collect());
    }
    list.recent = newer.into_iter().rev().flatten().collect();
    Ok(())
}

fn to_json(value: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(value)
        .map_err(|error| Error::Damaged { message: format!("state of a session: {error}") })
}
