//! Sessions that are let go: which, by the policy, and the record that says so. Their journals are
//! what transcripts told too; the transcripts' own bytes lie in checkpoints and go with those.

use std::collections::HashSet;

use rappel_store::document::{DOCUMENT_VERSION, SessionTombstone};
use rappel_types::agents::SessionId;
use rappel_types::retention::{self, Candidate, Policy, SessionCandidate, SessionDecision};
use rappel_types::{CheckpointId, Timestamp};

use crate::agents::SessionView;
use crate::error::Result;
use crate::rappel::Rappel;

impl Rappel {
    /// What becomes of every session of this workspace, as if the checkpoints in `without` were
    /// gone.
    pub(super) fn decide_sessions(
        &self,
        policy: &Policy,
        checkpoints: &[Candidate],
        without: &HashSet<CheckpointId>,
    ) -> Result<Vec<SessionDecision>> {
        let undoable = self.undoable_sessions()?;
        let candidate = |view: SessionView| SessionCandidate {
            undoable: undoable.contains(view.id.as_str()),
            ended_at: view.ended_at.filter(|_| !view.status.is_live()),
            started_at: view.started_at,
            parent: view.parent,
            id: view.id,
        };
        let sessions: Vec<SessionCandidate> =
            self.sessions_as_they_stand()?.into_iter().map(candidate).collect();
        let worked = self.days_worked(checkpoints);
        let (now, zone) = (self.now(), &self.options.zone);
        retention::decide_sessions(&sessions, &worked, policy, (now, zone), |id| {
            Ok(self.store.look_up(|index| index.is_held(id.as_str(), now, without))?)
        })
    }

    /// The days on which somebody worked: those that were noted, because sessions outlive the
    /// checkpoints that tell of them, and those of the checkpoints that are there.
    pub(super) fn days_worked(&self, checkpoints: &[Candidate]) -> Vec<Timestamp> {
        let noted = self.retention_state().map(|state| state.days).unwrap_or_default();
        let saved = checkpoints.iter().map(|checkpoint| checkpoint.created_at);
        retention::one_per_day(noted.into_iter().chain(saved), &self.options.zone)
    }

    /// Lets sessions go, and says which: one that went on since it was decided stays.
    pub(super) fn let_go(&self, sessions: &[SessionId], now: bool) -> Result<Vec<SessionId>> {
        let mut going = Vec::new();
        for id in sessions {
            let view = self.session_as_it_stands(id)?;
            let (events, until) = self.store.look_up(|index| index.extent(id.as_str()))?;
            going.push(SessionTombstone {
                version: DOCUMENT_VERSION,
                session: id.to_string(),
                workspace: view.workspace,
                provider: view.provider,
                called: view.assistant_session_id.or(view.conversation_id),
                events,
                last: view.events,
                until: until.map_or_else(|| self.now(), Timestamp::from_millis),
                at: self.now(),
                now,
            });
        }
        let gone = self.store.let_go(&going)?;
        let gone: Vec<SessionId> = gone.iter().filter_map(|id| id.parse().ok()).collect();
        for id in &gone {
            self.live().remove(id);
        }
        Ok(gone)
    }

    /// Whether a session of this id was let go, and none has it now.
    pub fn is_let_go(&self, session: &SessionId) -> Result<bool> {
        Ok(self.store.look_up(|index| {
            let is_there = index.last_event(session.as_str())?.is_some();
            Ok(!is_there && index.let_go(session.as_str())?.is_some())
        })?)
    }

    /// Brings back a session that was let go, as long as gc has not taken it; false if there is
    /// none of that id.
    pub fn bring_back_session(&self, session: &SessionId) -> Result<bool> {
        Ok(self.store.bring_back_session(session.as_str())?)
    }
}
