//! Reading journals: the state of a session after any event, on any fork, at any time.

use rappel_store::index::{EventRow, Index};
use rappel_types::agents::{Event, Lineage, SessionId, SessionPosition, SessionState};
use rappel_types::{ObjectId, Timestamp};

use super::{Live, snapshot};
use crate::error::{Error, Result};
use crate::rappel::Rappel;

/// A moment of a session, as somebody asks for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment {
    pub position: SessionPosition,
    /// Only what had happened by then.
    pub at: Option<Timestamp>,
}

/// The stored state to begin with, and the events that follow it.
struct Slice {
    snapshot: Option<ObjectId>,
    rows: Vec<EventRow>,
}

impl Rappel {
    /// What a session knew at a moment, its long lists as they are stored.
    pub(crate) fn state_at(&self, session: &SessionId, moment: Moment) -> Result<SessionState> {
        Ok(self.live_at(session, moment)?.state)
    }

    /// What a session knows now.
    pub(crate) fn load_live(&self, session: &SessionId) -> Result<Live> {
        let (last, fork) = self.store.look_up(|index| {
            let fork = Lineage::new(index.forks(session.as_str())?).current();
            Ok((index.last_event(session.as_str())?, fork))
        })?;
        let Some(last) = last else { return Err(self.no_session(session.as_str())) };
        let position = SessionPosition { fork, event: last };
        let mut live = self.live_at(session, Moment { position, at: None })?;
        live.last = last;
        Ok(live)
    }

    /// The same folded from the first event on, where what is stored cannot be read: the events are the truth.
    pub(crate) fn fold_anew(&self, session: &SessionId, moment: Moment) -> Result<SessionState> {
        Ok(self.live_from(session, moment, false)?.state)
    }

    pub(super) fn live_at(&self, session: &SessionId, moment: Moment) -> Result<Live> {
        match self.live_from(session, moment, true) {
            Err(error) if error.is_unreadable() => self.live_from(session, moment, false),
            other => other,
        }
    }

    fn live_from(&self, session: &SessionId, moment: Moment, stored: bool) -> Result<Live> {
        let Slice { snapshot, rows } =
            self.store.look_up(|index| slice(index, session, moment, stored))?;
        let (mut state, snapshot_bytes) = match snapshot {
            None => (SessionState::new(session.clone()), 0),
            Some(id) => snapshot::read(self.source(), &id)?,
        };
        let mut bytes_since = 0;
        for row in &rows {
            bytes_since += row.json.len();
            state.apply(&parse(row)?);
        }
        Ok(Live {
            last: state.event,
            state,
            snapshot,
            base: None,
            events_since: rows.len() as u64,
            bytes_since,
            snapshot_bytes,
        })
    }

    /// The events that lead to a position, behind an earlier event of the same journal.
    pub(crate) fn events_to(
        &self,
        session: &SessionId,
        position: SessionPosition,
        after: u64,
    ) -> Result<Vec<Event>> {
        let rows = self.store.look_up(|index| {
            let mut parts = lineage(index, session)?.parts(position.fork, position.event);
            parts.reverse();
            let mut rows = Vec::new();
            for (fork, to) in parts {
                rows.extend(index.events(session.as_str(), fork, (after, to), None)?);
            }
            Ok(rows)
        })?;
        rows.iter().map(parse).collect()
    }
}

fn lineage(index: &Index, session: &SessionId) -> rappel_store::Result<Lineage> {
    Ok(Lineage::new(index.forks(session.as_str())?))
}

/// The newest stored state that leads to a moment, and what happened since. A fork begins with what its parent
/// knew, so that a stored state of any of them will do.
fn slice(
    index: &Index,
    session: &SessionId,
    moment: Moment,
    stored: bool,
) -> rappel_store::Result<Slice> {
    let Moment { position, at } = moment;
    let parts = lineage(index, session)?.parts(position.fork, position.event);
    let mut begin = (parts.len() - 1, None);
    for (place, (fork, to)) in parts.iter().enumerate().filter(|_| stored) {
        if let Some(found) = index.snapshot(session.as_str(), *fork, *to, at)? {
            begin = (place, Some(found));
            break;
        }
    }
    let (place, found) = begin;
    let mut rows = Vec::new();
    for (number, (fork, to)) in parts[..=place].iter().enumerate().rev() {
        let after = if number == place { found.map_or(0, |found| found.event) } else { 0 };
        rows.extend(index.events(session.as_str(), *fork, (after, *to), at)?);
    }
    Ok(Slice { snapshot: found.map(|found| found.state), rows })
}

pub(crate) fn parse(row: &EventRow) -> Result<Event> {
    Event::parse(&row.json).map_err(|error| Error::Damaged {
        message: format!("event {} of session {}: {error}", row.number, row.session),
    })
}
