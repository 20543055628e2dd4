//! What agents learnt between two moments, session by session.

use std::collections::BTreeSet;

use rappel_types::agents::{AgentsDiff, SessionId, SessionPart, SessionPosition, SessionState};
use rappel_types::{Facet, FacetState, Manifest, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;

use crate::agents::{Moment, fill_apart};
use crate::error::{Error, Result};
use crate::rappel::Rappel;

/// What differs in what agents know: all of it, and which sessions it is from.
#[derive(Debug, Clone, Default, PartialEq, JsonSchema, Serialize)]
pub struct AgentsCompared {
    /// Everything, whichever session it is from.
    #[serde(flatten)]
    pub all: AgentsDiff,
    /// The sessions that moved.
    pub sessions: Vec<SessionDiff>,
}

/// How far one session went.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct SessionDiff {
    /// Which.
    pub session: SessionId,
    /// Where its journal stood; nowhere if it had not begun.
    pub from: Option<SessionPosition>,
    /// Where it stands.
    pub to: Option<SessionPosition>,
    /// What it learnt, in a few words.
    pub summary: String,
    /// What it learnt.
    #[serde(skip)]
    pub diff: AgentsDiff,
}

/// One side of a comparison: the sessions that a checkpoint names, and the moment for all others.
pub(super) struct Side<'a> {
    parts: &'a [SessionPart],
    at: Timestamp,
}

impl<'a> Side<'a> {
    /// The side of a checkpoint; none if it did not look at agents.
    pub fn of(manifest: &'a Manifest) -> Option<Self> {
        let looked =
            matches!(manifest.state_of(Facet::Agents), FacetState::Captured | FacetState::Absent);
        let parts = manifest.agents.as_ref().map_or(&[][..], |agents| &agents.sessions);
        looked.then_some(Self { parts, at: manifest.created_at })
    }

    /// Whether it names no session.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// What is known now.
    pub fn now(at: Timestamp) -> Self {
        Self { parts: &[], at }
    }
}

impl Rappel {
    /// Compares what agents knew on two sides: the sessions of both, and those that came and went in between. `only`
    /// leaves out all but one.
    pub(super) fn compare_agents(
        &self,
        from: &Side<'_>,
        to: &Side<'_>,
        only: Option<&SessionId>,
    ) -> Result<AgentsCompared> {
        let mut sessions: BTreeSet<SessionId> =
            from.parts.iter().chain(to.parts).map(|part| part.id.clone()).collect();
        let between = from.at.min(to.at)..=from.at.max(to.at);
        for view in self.sessions()? {
            if view.started_at.is_some_and(|at| between.contains(&at)) {
                sessions.insert(view.id);
            }
        }
        if let Some(only) = only {
            let only = self.find_session(only)?;
            sessions.retain(|session| *session == only);
        }
        let mut compared = AgentsCompared::default();
        for session in sessions {
            let (old, new) = (self.moment_of(&session, from)?, self.moment_of(&session, to)?);
            if old == new {
                continue;
            }
            let mut before = self.state_at(&session, old)?;
            let mut after = self.state_at(&session, new)?;
            if position(&before) == position(&after) {
                continue;
            }
            let (from, to) = (position(&before), position(&after));
            fill_apart(self.source(), &mut before, &mut after)?;
            let diff = AgentsDiff::between(&before, &after);
            compared.all.extend(diff.clone());
            let summary = diff.summary();
            compared.sessions.push(SessionDiff { session, from, to, summary, diff });
        }
        Ok(compared)
    }

    /// Where a session stood: where the checkpoint has it, or where it was at that time.
    fn moment_of(&self, session: &SessionId, side: &Side<'_>) -> Result<Moment> {
        if let Some(part) = side.parts.iter().find(|part| part.id == *session) {
            return Ok(Moment { position: part.position, at: None });
        }
        match self.moment_at(session, side.at) {
            // Its journal is not here: all that is known of it is what checkpoints hold.
            Err(Error::NoSession { .. }) => {
                Ok(Moment { position: SessionPosition { fork: 0, event: 0 }, at: None })
            }
            other => other,
        }
    }
}

fn position(state: &SessionState) -> Option<SessionPosition> {
    (state.event > 0).then_some(SessionPosition { fork: state.fork, event: state.event })
}
