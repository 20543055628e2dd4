//! Which session an event belongs to. Agents end without a word, so every event looks after those
//! that did.

use rappel_types::agents::{Body, NewEvent, SessionId, SessionStatus, payload};

use super::{Event, Moment};
use crate::agents::SessionView;
use crate::error::{Error, Result};
use crate::rappel::Rappel;

/// A session whose process nobody knows is over after so long a silence.
const SILENCE_MS: i64 = 24 * 60 * 60 * 1000;

impl Rappel {
    /// The session that an event belongs to. One that is not known, or has ended, begins anew: an
    /// ended session is not revived, but is the parent of the one that goes on.
    pub(super) fn session_of(&self, event: &Event) -> Result<SessionId> {
        let main = self.session_named(event, &event.session, None)?;
        match &event.subagent {
            None => Ok(main),
            Some(subagent) => self.session_named(event, &subagent.id, Some(main)),
        }
    }

    /// Whether an event tells the end of a session once more: some agents do.
    pub(super) fn has_ended(&self, event: &Event) -> Result<bool> {
        if !matches!(event.moment, Moment::SessionEnd { .. })
            || self.live_session(&event.provider, &event.session)?.is_some()
        {
            return Ok(false);
        }
        let Some(last) = self.runs_named(&event.provider, &event.session)?.pop() else {
            return Ok(false);
        };
        Ok(self.session(&last)?.status == SessionStatus::Completed)
    }

    fn session_named(
        &self,
        event: &Event,
        name: &str,
        parent: Option<SessionId>,
    ) -> Result<SessionId> {
        if let Some(live) = self.live_session(&event.provider, name)? {
            let waits = live.set_back_to.is_some();
            if live.from_transcript || waits || (live.process.is_none() && event.process.is_some())
            {
                self.resume_session(&live.id, event.process)?;
            }
            return Ok(live.id);
        }
        let (id, before) = self.free_session_id(&event.provider, name)?;
        // A worker that was late tells something of the run that ended meanwhile.
        if let (Some(before), Some(at)) = (&before, event.at)
            && self.session(before)?.ended_at.is_some_and(|ended| at <= ended)
        {
            return Ok(before.clone());
        }
        let around = match &parent {
            None => self.session_around()?,
            Some(_) => None,
        };
        let body = Body::SessionStarted(payload::SessionStarted {
            workspace: Some(self.settle_workspace()?),
            provider: Some(event.provider.clone()),
            assistant_session_id: Some(name.to_owned()),
            parent: around.or(before).or(parent),
            process: event.process,
            ..payload::SessionStarted::default()
        });
        self.record_late(&id, &[NewEvent { at: event.at, ..NewEvent::from(body) }])?;
        Ok(id)
    }

    /// The running session that the agent was started in, as `rappel run` tells those below it.
    fn session_around(&self) -> Result<Option<SessionId>> {
        let named = (self.options.variables)("RAPPEL_SESSION");
        let Some(id) = named.and_then(|id| id.parse::<SessionId>().ok()) else { return Ok(None) };
        match self.session_as_it_stands(&id) {
            Err(Error::NoSession { .. }) => Ok(None),
            other => Ok(Some(other?).filter(|view| view.status.is_live()).map(|view| view.id)),
        }
    }

    /// The session of this workspace that goes on, by what its agent calls it.
    pub fn session_called(&self, provider: &str, name: &str) -> Result<Option<SessionId>> {
        Ok(self.live_session(provider, name)?.map(|view| view.id))
    }

    /// The session of this workspace that runs or waits and that its provider calls so.
    pub(crate) fn live_session(&self, provider: &str, name: &str) -> Result<Option<SessionView>> {
        // Its usual id first: there may be thousands that only a transcript tells of.
        let usual = format!("{provider}:{name}");
        let mut live = self.live_session_ids()?;
        live.sort_by_key(|id| *id != usual);
        for id in live {
            let Ok(id) = id.parse() else { continue };
            let view = self.session_as_it_stands(&id)?;
            let is_named = [&view.assistant_session_id, &view.conversation_id]
                .into_iter()
                .any(|known| known.as_deref() == Some(name));
            if is_named && view.provider.as_deref().is_some_and(|it| is_of(it, provider)) {
                return Ok(Some(view));
            }
        }
        Ok(None)
    }

    /// An id for a session that begins, and the newest one that was called so before.
    fn free_session_id(
        &self,
        provider: &str,
        name: &str,
    ) -> Result<(SessionId, Option<SessionId>)> {
        let runs = self.runs_named(provider, name)?;
        // What the agent calls it may be no id of ours.
        let id = run_id(provider, name, runs.len() + 1)
            .unwrap_or_else(|| SessionId::new(self.now(), rappel_store::ambient::random() as u32));
        Ok((id, runs.last().cloned()))
    }

    /// The sessions that hooks began for what an agent calls one session, oldest first.
    fn runs_named(&self, provider: &str, name: &str) -> Result<Vec<SessionId>> {
        let mut runs = Vec::new();
        while let Some(id) = run_id(provider, name, runs.len() + 1) {
            if self.store.look_up(|index| index.last_event(id.as_str()))?.is_none() {
                break;
            }
            runs.push(id);
        }
        Ok(runs)
    }

    /// All runs of the agent's session that a session is a run of, oldest first.
    pub(crate) fn runs_of(&self, session: &SessionId) -> Result<Vec<SessionView>> {
        let view = self.session(session)?;
        let provider = view.provider.as_deref().map(maker);
        let runs = match (provider, &view.assistant_session_id) {
            (Some(provider), Some(name)) => self.runs_named(provider, name)?,
            _ => Vec::new(),
        };
        let others = runs.iter().filter(|run| **run != view.id);
        let others: Vec<SessionView> =
            others.map(|run| self.session(run)).collect::<Result<_>>()?;
        let mut runs = vec![view];
        runs.extend(others);
        runs.sort_by_key(|run| run.started_at);
        Ok(runs)
    }

    /// The session that goes on from one that has ended, as its agent calls both by one name.
    pub(crate) fn newest_run_of(&self, session: &SessionId) -> Result<SessionId> {
        let view = self.session(session)?;
        let (Some(provider), Some(name)) = (view.provider, view.assistant_session_id) else {
            return Ok(session.clone());
        };
        if let Some(live) = self.live_session(&provider, &name)? {
            return Ok(live.id);
        }
        Ok(self.free_session_id(&provider, &name)?.1.unwrap_or_else(|| session.clone()))
    }

    /// Ends the sessions of agents that are gone. They ended when they were last heard of.
    pub(super) fn end_gone_sessions(&self) -> Result<()> {
        for id in self.live_session_ids()? {
            let Ok(id) = id.parse::<SessionId>() else { continue };
            let view = self.session_as_it_stands(&id)?;
            // One that was set back had ended before, and waits to be taken up.
            let waits = view.set_back_to.is_some();
            if view.assistant_session_id.is_none() || view.from_transcript || waits {
                continue;
            }
            let reason = match view.process {
                Some(_) if view.process_gone => "its agent's process is gone",
                Some(_) => continue,
                None => "it was silent for a day",
            };
            let heard_at = self.load_live(&id)?.state.latest_at;
            let silent = heard_at.is_none_or(|at| self.now().millis_since(at) > SILENCE_MS);
            if view.process_gone || silent {
                self.close_calls(&id, heard_at)?;
                self.end_heard(&id, SessionStatus::Failed, reason, heard_at)?;
            }
        }
        Ok(())
    }

    pub(super) fn end_heard(
        &self,
        session: &SessionId,
        status: SessionStatus,
        reason: &str,
        at: Option<rappel_types::Timestamp>,
    ) -> Result<()> {
        let reason = Some(reason.to_owned());
        let end = NewEvent::from(Body::SessionEnded(payload::SessionEnded {
            status,
            reason,
            exit: None,
        }));
        self.record_late(session, &[NewEvent { at, ..end }])
    }
}

/// Whether two names mean the same maker.
fn is_of(known: &str, provider: &str) -> bool {
    maker(known) == provider
}

/// The maker that a session names: `claude-code` is `claude`.
fn maker(known: &str) -> &str {
    known.strip_suffix("-code").unwrap_or(known)
}

/// The id of the session for an agent's `number`th run, if it can be one.
fn run_id(provider: &str, name: &str, number: usize) -> Option<SessionId> {
    let text = match number {
        1 => format!("{provider}:{name}"),
        number => format!("{provider}:{name}.{number}"),
    };
    text.parse().ok()
}
