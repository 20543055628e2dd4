//! What an agent knew at a moment: by time, by checkpoint, by event.

use rappel_store::index::CheckpointRow;
use rappel_types::Advice;
use rappel_types::advice::{Listed, NameOf};
use rappel_types::agents::{Body, Lineage, SessionId, SessionPart, SessionPosition, SessionState};
use rappel_types::reference::Base;
use rappel_types::{CheckpointId, Manifest, Reference, Timestamp, Trigger};

use super::journal::{Moment, parse};
use super::snapshot;
use crate::error::{Error, Result};
use crate::list::ListFilter;
use crate::rappel::Rappel;

/// Which moment is meant. A time beats a checkpoint's number, that beats an event, and that a checkpoint's name; a tag
/// says which checkpoints count, and alone means the newest of them.
#[derive(Debug, Clone, Default)]
pub struct TemporalQuery {
    /// The newest state at or before this time.
    pub timestamp: Option<Timestamp>,
    /// The checkpoint with this number.
    pub sequence_number: Option<u64>,
    /// The event with this number in the session's journal.
    pub event: Option<u64>,
    /// This checkpoint.
    pub checkpoint: Option<Reference>,
    /// Checkpoints with this tag.
    pub tag_filter: Option<String>,
    /// Now, also if the clock was set back since.
    pub now: bool,
    /// The session; the only one there is, if it is not given.
    pub session: Option<SessionId>,
    /// The session that is meant if none is given, unless a checkpoint is asked for that does not hold it.
    pub preferred: Option<SessionId>,
}

/// What a session knew at a moment.
#[derive(Debug, Clone, PartialEq)]
pub struct StateAt {
    /// When the last thing happened that it knew.
    pub at: Option<Timestamp>,
    /// When the session began, if it had not begun at that moment.
    pub begins: Option<Timestamp>,
    /// The time that was asked for is yet to come: this is the state now.
    pub ahead: bool,
    /// The session.
    pub session: SessionId,
    /// Where in its journal that is.
    pub position: SessionPosition,
    /// The checkpoint that was asked for; else the newest one that holds no more than that, and was made by the time
    /// that was asked for, or of the event. A safety save before a restore only if there is no other.
    pub checkpoint: Option<(CheckpointId, u64)>,
    /// What it knew. Of the long lists only the newest items may be here.
    pub state: SessionState,
}

impl StateAt {
    /// Whether the session had begun.
    pub fn has_begun(&self) -> bool {
        self.position.event > 0
    }
}

impl Rappel {
    /// What a session knew at a moment, everything it holds included.
    pub fn query_at(&self, query: &TemporalQuery) -> Result<StateAt> {
        self.query_at_most(query, u64::MAX)
    }

    /// The same with at most so many items of each long list, the newest.
    pub fn query_at_most(&self, query: &TemporalQuery, most: u64) -> Result<StateAt> {
        let session = query.session.as_ref().map(|named| self.find_session_or_itself(named));
        let query = &TemporalQuery { session: session.transpose()?, ..query.clone() };
        let named = query.session.as_ref().or(query.preferred.as_ref());
        match query {
            TemporalQuery { now: true, tag_filter: None, .. } => {
                self.state_now(&self.session_asked_about(named)?.id, most)
            }
            TemporalQuery { timestamp: Some(at), tag_filter: None, .. } => {
                let view = self.session_asked_about(named)?;
                let moment = self.moment_at(&view.id, *at)?;
                let found = self.state_of(view.id, moment, most)?;
                let begins = view.started_at.filter(|_| !found.has_begun());
                Ok(StateAt { begins, ahead: *at > self.now(), ..found })
            }
            TemporalQuery { timestamp: Some(at), tag_filter: Some(tag), .. } => {
                let manifest = self.tagged_with(tag, |row| row.created_at <= at.as_millis())?;
                self.state_held(&manifest, query, most)
            }
            TemporalQuery { sequence_number: Some(number), .. } => {
                let reference = Reference::new(Base::Sequence(*number));
                let row = self.resolve(&reference, false)?;
                self.state_held(&self.store.manifest(&row)?, query, most)
            }
            TemporalQuery { event: Some(number), .. } => {
                let session = self.session_asked_about(named)?.id;
                let moment = self.of_event(&session, *number)?;
                let found = self.state_of(session, moment, most)?;
                let checkpoint =
                    self.checkpoint_before(&found.session, found.position, found.at)?;
                Ok(StateAt { checkpoint, ..found })
            }
            TemporalQuery { checkpoint: Some(reference), .. } => {
                let row = self.resolve_remembered(reference)?;
                self.state_held(&self.store.manifest(&row)?, query, most)
            }
            TemporalQuery { tag_filter: Some(tag), .. } => {
                self.state_held(&self.tagged_with(tag, |_| true)?, query, most)
            }
            _ => Err(Error::InvalidQuery),
        }
    }

    /// What the sessions of a checkpoint knew when it was made, with at most so many items of each long list.
    pub fn states_in(&self, manifest: &Manifest, most: u64) -> Result<Vec<StateAt>> {
        let sessions = manifest.agents.iter().flat_map(|agents| &agents.sessions);
        let moment = |part: &SessionPart| Moment { position: part.position, at: None };
        sessions.map(|part| self.state_of(part.id.clone(), moment(part), most)).collect()
    }

    /// What a session knows now.
    pub fn state_now(&self, session: &SessionId, most: u64) -> Result<StateAt> {
        let view = self.session(session)?;
        let position = SessionPosition { fork: view.fork, event: u64::MAX };
        self.state_of(view.id, Moment { position, at: None }, most)
    }

    /// What a session knew as a checkpoint has it.
    fn state_held(&self, manifest: &Manifest, query: &TemporalQuery, most: u64) -> Result<StateAt> {
        let part = part_meant(manifest, query.session.as_ref(), query.preferred.as_ref())?;
        let moment = Moment { position: part.position, at: None };
        let found = self.state_of(part.id.clone(), moment, most)?;
        Ok(StateAt { checkpoint: Some((manifest.id.clone(), manifest.sequence)), ..found })
    }

    fn state_of(&self, session: SessionId, moment: Moment, most: u64) -> Result<StateAt> {
        let mut state = self.state_at(&session, moment)?;
        match snapshot::fill(self.source(), &mut state, most) {
            Err(error) if error.is_unreadable() => state = self.fold_anew(&session, moment)?,
            other => other?,
        }
        let position = SessionPosition { fork: moment.position.fork, event: state.event };
        let checkpoint = self.checkpoint_before(&session, position, moment.at)?;
        let at = state.latest_at;
        Ok(StateAt { at, begins: None, ahead: false, session, position, checkpoint, state })
    }

    /// The newest checkpoint that holds no more of a session than a position and was made by then; a safety save before a
    /// restore only if there is no other.
    fn checkpoint_before(
        &self,
        session: &SessionId,
        position: SessionPosition,
        by: Option<Timestamp>,
    ) -> Result<Option<(CheckpointId, u64)>> {
        let (hits, lineage) = self.store.look_up(|index| {
            let hits = index.holders_before(session.as_str(), position.event)?;
            Ok((hits, Lineage::new(index.forks(session.as_str())?)))
        })?;
        let mut safety = None;
        for hit in hits {
            let SessionPosition { fork, event } = hit.position;
            if lineage.knows(position.fork, position.event, fork, event)
                && let Ok(id) = hit.checkpoint.parse::<CheckpointId>()
                && let Some(row) = self.store.checkpoint(&id)?
                && by.is_none_or(|by| row.created_at <= by.as_millis())
            {
                if row.trigger != Trigger::PreRestore.as_str() {
                    return Ok(Some((id, row.sequence)));
                }
                safety.get_or_insert((id, row.sequence));
            }
        }
        Ok(safety)
    }

    /// Where a session was at a time.
    pub(crate) fn moment_at(&self, session: &SessionId, at: Timestamp) -> Result<Moment> {
        let position = SessionPosition { fork: self.fork_at(session, at)?, event: u64::MAX };
        Ok(Moment { position, at: Some(at) })
    }

    /// The fork that a session was on at a time.
    fn fork_at(&self, session: &SessionId, at: Timestamp) -> Result<u32> {
        let rows = self.store.look_up(|index| index.session_events(Some(session.as_str())))?;
        let events = rows.iter().filter_map(|row| parse(row).ok());
        let forks =
            events.filter(|event| matches!(event.body, Body::Restored(_)) && event.at <= at);
        Ok(forks.map(|event| event.fork).max().unwrap_or(0))
    }

    fn of_event(&self, session: &SessionId, number: u64) -> Result<Moment> {
        let before = number.saturating_sub(1).min(i64::MAX as u64 - 1);
        let rows = self.store.look_up(|index| index.some_events(session.as_str(), before, 1))?;
        let Some(row) = rows.first().filter(|row| row.number == number) else {
            let last = self.store.look_up(|index| index.last_event(session.as_str()))?;
            return Err(match last {
                None => self.no_session(session.as_str()),
                Some(last) => Error::NotThere {
                    message: format!("session {session} has no event {number}"),
                    advice: Advice::plain(format!("its events are 1 to {last}")),
                },
            });
        };
        let position = SessionPosition { fork: row.fork, event: number };
        Ok(Moment { position, at: None })
    }

    /// The newest checkpoint with agents and a tag, of those that count.
    fn tagged_with(&self, tag: &str, counts: impl Fn(&CheckpointRow) -> bool) -> Result<Manifest> {
        let tag_of = Some(tag.to_owned());
        let filter = ListFilter { tag: tag_of, all: true, own: true, ..ListFilter::default() };
        for checkpoint in self.list(&filter)?.checkpoints {
            let Some(row) = self.store.checkpoint(&checkpoint.manifest.id)? else { continue };
            if counts(&row) && checkpoint.manifest.agents.is_some() {
                return Ok(checkpoint.manifest);
            }
        }
        let advice = match self.nearest_tag(tag)? {
            Some(nearest) => Advice::DidYouMean { what: NameOf::TagOfAny, names: vec![nearest] },
            None => Advice::ListCheckpoints { filter: Listed::Tags },
        };
        let message = format!("no checkpoint with agents has the tag {tag:?}");
        Err(Error::NotThere { message, advice })
    }
}

/// The session of a checkpoint that is meant: the one that is named, else the preferred one, the one that it was made
/// for or the only one.
fn part_meant<'m>(
    manifest: &'m Manifest,
    named: Option<&SessionId>,
    preferred: Option<&SessionId>,
) -> Result<&'m SessionPart> {
    let sessions = manifest.agents.as_ref().map_or(&[][..], |agents| &agents.sessions);
    let part = |id: &str| sessions.iter().find(|part| part.id.as_str() == id);
    let missing = |message| Error::NotThere {
        message,
        advice: Advice::ShowCheckpoint { checkpoint: manifest.id.to_string() },
    };
    if let Some(named) = named {
        return part(named.as_str())
            .ok_or_else(|| missing(format!("{} holds no session {named}", manifest.id)));
    }
    let likely = [preferred.map(SessionId::as_str), manifest.session_id.as_deref()];
    match (likely.into_iter().flatten().find_map(part), sessions) {
        (Some(part), _) | (None, [part]) => Ok(part),
        (None, []) => Err(missing(format!("{} holds no session", manifest.id))),
        (None, _) => {
            let ids: Vec<&str> = sessions.iter().map(|part| part.id.as_str()).collect();
            Err(Error::Usage {
                message: format!("{} holds several sessions: {}", manifest.id, ids.join(", ")),
                advice: vec![Advice::NameSession],
            })
        }
    }
}
