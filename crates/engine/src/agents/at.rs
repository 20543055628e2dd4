//! What an agent knew at a moment: by time, by checkpoint, by event.

use rappel_store::index::CheckpointRow;
use rappel_types::agents::{Body, Lineage, SessionId, SessionPart, SessionPosition, SessionState};
use rappel_types::reference::Base;
use rappel_types::{CheckpointId, Manifest, Reference, Timestamp};

use super::journal::{Moment, no_session, parse};
use super::snapshot;
use crate::browse::ListFilter;
use crate::error::{Error, Result};
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
    /// The session; the only one there is, if it is not given.
    pub session: Option<SessionId>,
}

/// What a session knew at a moment.
#[derive(Debug, Clone, PartialEq)]
pub struct StateAt {
    /// When the last thing happened that it knew.
    pub at: Option<Timestamp>,
    /// The session.
    pub session: SessionId,
    /// Where in its journal that is.
    pub position: SessionPosition,
    /// The newest checkpoint that holds no more than that.
    pub checkpoint: Option<(CheckpointId, u64)>,
    /// What it knew. Of the long lists only the newest items may be here.
    pub state: SessionState,
}

impl Rappel {
    /// What a session knew at a moment, everything it holds included.
    pub fn query_at(&self, query: &TemporalQuery) -> Result<StateAt> {
        self.query_at_most(query, u64::MAX)
    }

    /// The same with at most so many items of each long list, the newest.
    pub fn query_at_most(&self, query: &TemporalQuery, most: u64) -> Result<StateAt> {
        let (session, moment) = match query {
            TemporalQuery { timestamp: Some(at), tag_filter: None, .. } => {
                let session = self.session_looked_at(query.session.as_ref())?.id;
                let moment = self.moment_at(&session, *at)?;
                (session, moment)
            }
            TemporalQuery { timestamp: Some(at), tag_filter: Some(tag), .. } => {
                self.of_tagged(query, tag, |row| row.created_at <= at.as_millis())?
            }
            TemporalQuery { sequence_number: Some(number), .. } => {
                let reference = Reference { base: Base::Sequence(*number), back: 0 };
                let row = self.resolve(&reference, false)?;
                of_checkpoint(&self.store.manifest(&row)?, query.session.as_ref())?
            }
            TemporalQuery { event: Some(number), .. } => {
                let session = self.session_looked_at(query.session.as_ref())?.id;
                (session.clone(), self.of_event(&session, *number)?)
            }
            TemporalQuery { checkpoint: Some(reference), .. } => {
                let row = self.resolve(reference, false)?;
                of_checkpoint(&self.store.manifest(&row)?, query.session.as_ref())?
            }
            TemporalQuery { tag_filter: Some(tag), .. } => self.of_tagged(query, tag, |_| true)?,
            _ => return Err(Error::InvalidQuery),
        };
        self.state_of(session, moment, most)
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

    fn state_of(&self, session: SessionId, moment: Moment, most: u64) -> Result<StateAt> {
        let mut state = self.state_at(&session, moment)?;
        match snapshot::fill(self.source(), &mut state, most) {
            Err(error) if error.is_unreadable() => state = self.fold_anew(&session, moment)?,
            other => other?,
        }
        let position = SessionPosition { fork: moment.position.fork, event: state.event };
        let checkpoint = self.checkpoint_before(&session, position)?;
        Ok(StateAt { at: state.latest_at, session, position, checkpoint, state })
    }

    /// The newest checkpoint that holds no more of a session than a position.
    fn checkpoint_before(
        &self,
        session: &SessionId,
        position: SessionPosition,
    ) -> Result<Option<(CheckpointId, u64)>> {
        let (hits, lineage) = self.store.look_up(|index| {
            let hits = index.holders_before(session.as_str(), position.event)?;
            Ok((hits, Lineage::new(index.forks(session.as_str())?)))
        })?;
        for hit in hits {
            let SessionPosition { fork, event } = hit.position;
            if !lineage.knows(position.fork, position.event, fork, event) {
                continue;
            }
            if let Ok(id) = hit.checkpoint.parse::<CheckpointId>()
                && let Some(row) = self.store.checkpoint(&id)?
            {
                return Ok(Some((id, row.sequence)));
            }
        }
        Ok(None)
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
                None => no_session(session),
                Some(last) => Error::NotThere {
                    message: format!("session {session} has no event {number}"),
                    hint: format!("its events are 1 to {last}"),
                },
            });
        };
        let position = SessionPosition { fork: row.fork, event: number };
        Ok(Moment { position, at: None })
    }

    fn of_tagged(
        &self,
        query: &TemporalQuery,
        tag: &str,
        counts: impl Fn(&CheckpointRow) -> bool,
    ) -> Result<(SessionId, Moment)> {
        let filter = ListFilter { tag: Some(tag.to_owned()), all: true, ..ListFilter::default() };
        for checkpoint in self.list(&filter)?.checkpoints {
            let Some(row) = self.store.checkpoint(&checkpoint.manifest.id)? else { continue };
            if counts(&row) && checkpoint.manifest.agents.is_some() {
                return of_checkpoint(&checkpoint.manifest, query.session.as_ref());
            }
        }
        Err(Error::NotThere {
            message: format!("no checkpoint with agents has the tag {tag:?}"),
            hint: "rappel list shows the tags".into(),
        })
    }
}

fn of_checkpoint(manifest: &Manifest, named: Option<&SessionId>) -> Result<(SessionId, Moment)> {
    let sessions = manifest.agents.iter().flat_map(|agents| &agents.sessions);
    let sessions: Vec<&SessionPart> = sessions.collect();
    let asked = named.map(SessionId::as_str).or(manifest.session_id.as_deref());
    let found = match (asked, &sessions[..]) {
        (Some(asked), _) => sessions.iter().find(|part| part.id.as_str() == asked).copied(),
        (None, [one]) => Some(*one),
        (None, []) => None,
        (None, _) => {
            let ids: Vec<&str> = sessions.iter().map(|part| part.id.as_str()).collect();
            return Err(Error::Usage {
                message: format!("{} holds several sessions: {}", manifest.id, ids.join(", ")),
                hint: Some("--session ID".into()),
            });
        }
    };
    match found {
        Some(part) => Ok((part.id.clone(), Moment { position: part.position, at: None })),
        None => Err(Error::NotThere {
            message: match asked {
                Some(asked) => format!("{} holds no session {asked}", manifest.id),
                None => format!("{} holds no session", manifest.id),
            },
            hint: format!("rappel show {} tells what it holds", manifest.id),
        }),
    }
}
