//! Sessions as a whole: beginning, pausing, ending and finding them.

use rappel_store::ambient;
use rappel_types::Advice;
use rappel_types::agents::payload::CommandExit;
use rappel_types::agents::{
    Body, NewEvent, ProcessId, SessionId, SessionState, SessionStatus, payload,
};
use rappel_types::{CheckpointId, Timestamp, WorkspaceId, slip};
use schemars::JsonSchema;
use serde::Serialize;

use super::Recorded;
use super::journal::parse;
use super::restore::is_gone;
use crate::error::{Error, Result};
use crate::lineage::Lineage;
use crate::rappel::Rappel;
use crate::run::RunLock;

/// A session that is known from its transcript alone is shown as ended when that was silent for so
/// long. Nothing is written: it goes on where its transcript does.
const QUIET_MS: i64 = 10 * 60 * 1000;

/// How a session begins.
#[derive(Debug, Clone, Default)]
#[allow(missing_docs, reason = "the names say it")]
pub struct SessionStart {
    /// Its id; one is made up otherwise.
    pub session: Option<SessionId>,
    pub provider: Option<String>,
    pub task: Option<String>,
    pub conversation_id: Option<String>,
    pub assistant_session_id: Option<String>,
    pub parent: Option<SessionId>,
    pub process: Option<ProcessId>,
}

/// A session in a list.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct SessionView {
    pub id: SessionId,
    pub status: SessionStatus,
    pub provider: Option<String>,
    pub task: Option<String>,
    pub conversation_id: Option<String>,
    pub assistant_session_id: Option<String>,
    pub parent: Option<SessionId>,
    pub workspace: Option<WorkspaceId>,
    pub process: Option<ProcessId>,
    /// It has not ended, but its process has.
    pub process_gone: bool,
    /// Nobody records it: it is known from its transcript alone.
    pub from_transcript: bool,
    pub started_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
    /// Why it ended, where that was said.
    pub end_reason: Option<String>,
    /// How its command ended, where `rappel run` watched it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit: Option<CommandExit>,
    /// The checkpoint that a restore set it back to, if it waits there since.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set_back_to: Option<CheckpointId>,
    /// The fork that its journal is on.
    pub fork: u32,
    /// How many events it has.
    pub events: u64,
    /// The history that it came with, where it was imported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lineage: Option<Lineage>,
}

impl SessionView {
    fn of(state: SessionState, events: u64, end_reason: Option<String>) -> Self {
        let set_back_to = state.restored_to.filter(|_| state.status == SessionStatus::Paused);
        // One that was set back waits for a new process; the one that it had tells nothing of it.
        let process = state.process.filter(|_| set_back_to.is_none());
        Self {
            set_back_to,
            process_gone: state.status.is_live() && process.is_some_and(is_gone),
            end_reason: end_reason.filter(|_| !state.status.is_live()),
            id: state.session,
            status: state.status,
            provider: state.provider,
            task: state.task,
            conversation_id: state.conversation_id,
            assistant_session_id: state.assistant_session_id,
            parent: state.parent,
            workspace: state.workspace,
            process,
            from_transcript: state.from_transcript,
            started_at: state.started_at,
            ended_at: state.ended_at,
            exit: None,
            fork: state.fork,
            events,
            lineage: None,
        }
    }
}

impl Rappel {
    /// Begins a session in this workspace.
    pub fn start_session(&self, start: SessionStart) -> Result<(SessionId, Recorded)> {
        self.require_folder()?;
        let now = self.now();
        let session = match start.session {
            Some(session) => {
                if self.store.look_up(|index| index.last_event(session.as_str()))?.is_some() {
                    return Err(Error::Usage {
                        message: format!("there is a session {session} already"),
                        advice: vec![Advice::ShowSession { session: session.to_string() }],
                    });
                }
                session
            }
            None => loop {
                let session = SessionId::new(now, ambient::random() as u32);
                if self.store.look_up(|index| index.last_event(session.as_str()))?.is_none() {
                    break session;
                }
            },
        };
        if let Some(parent) = &start.parent {
            self.session(parent)?;
        }
        let body = Body::SessionStarted(payload::SessionStarted {
            workspace: Some(self.settle_workspace()?),
            provider: start.provider,
            task: start.task,
            conversation_id: start.conversation_id,
            assistant_session_id: start.assistant_session_id,
            parent: start.parent,
            process: start.process,
            from_transcript: false,
        });
        let recorded = self.record(&session, body.into())?;
        Ok((session, recorded))
    }

    /// Says that a session waits.
    pub fn pause_session(&self, session: &SessionId) -> Result<Recorded> {
        self.record(session, Body::SessionPaused(payload::SessionPaused::default()).into())
    }

    /// Says that a paused session goes on.
    pub fn resume_session(
        &self,
        session: &SessionId,
        process: Option<ProcessId>,
    ) -> Result<Recorded> {
        let body = payload::SessionResumed { process, from_transcript: false };
        self.record(session, Body::SessionResumed(body).into())
    }

    /// Ends a session.
    pub fn end_session(
        &self,
        session: &SessionId,
        status: SessionStatus,
        reason: Option<String>,
    ) -> Result<Recorded> {
        if status.is_live() {
            return Err(Error::Usage {
                message: format!("a session does not end {status}"),
                advice: vec![Advice::SayHowItEnded],
            });
        }
        let body = Body::SessionEnded(payload::SessionEnded { status, reason, exit: None });
        self.record(session, NewEvent::from(body))
    }

    /// All sessions of this workspace, newest first.
    pub fn sessions(&self) -> Result<Vec<SessionView>> {
        let Some(workspace) = self.workspace_id() else { return Ok(Vec::new()) };
        let ids = self.store.look_up(|index| index.sessions(&workspace.to_string()))?;
        let ids = ids.iter().filter_map(|id| id.parse().ok());
        let mut found = ids.map(|id| self.session(&id)).collect::<Result<Vec<SessionView>>>()?;
        found.sort_by_key(|view| std::cmp::Reverse((view.started_at, view.id.clone())));
        Ok(found)
    }

    /// The same with the sessions of its lineages, each of which names its lineage.
    pub fn sessions_and_imported(&self) -> Result<Vec<SessionView>> {
        let mut found = self.sessions()?;
        for lineage in self.lineages()? {
            let of = lineage.workspace.to_string();
            let ids = self.store.look_up(|index| index.sessions(&of))?;
            for id in ids.iter().filter_map(|id| id.parse().ok()) {
                found.push(SessionView { lineage: Some(lineage.clone()), ..self.session(&id)? });
            }
        }
        found.sort_by_key(|view| std::cmp::Reverse((view.started_at, view.id.clone())));
        Ok(found)
    }

    /// The same as [`Self::sessions`] in no order, and without what those without a task are about.
    pub(crate) fn sessions_as_they_stand(&self) -> Result<Vec<SessionView>> {
        let Some(workspace) = self.workspace_id() else { return Ok(Vec::new()) };
        let ids = self.store.look_up(|index| index.sessions(&workspace.to_string()))?;
        let ids = ids.iter().filter_map(|id| id.parse().ok());
        ids.map(|id| self.session_as_it_stands(&id)).collect()
    }

    /// The sessions of this workspace that run or wait.
    pub(crate) fn live_session_ids(&self) -> Result<Vec<String>> {
        let Some(workspace) = self.workspace_id() else { return Ok(Vec::new()) };
        Ok(self.store.look_up(|index| index.live_sessions(&workspace.to_string()))?)
    }

    /// One session, of whatever workspace.
    pub fn session(&self, session: &SessionId) -> Result<SessionView> {
        let mut view = self.session_as_it_stands(session)?;
        if view.task.is_none() {
            let prompt = self.store.look_up(|index| index.first_prompt(session.as_str()))?;
            if let Some(Body::Prompt(prompt)) = prompt.and_then(|row| Some(parse(&row).ok()?.body))
            {
                view.task = Some(prompt.text);
            }
        }
        Ok(view)
    }

    /// The same, where nobody asks what a session without a task is about.
    pub(crate) fn session_as_it_stands(&self, session: &SessionId) -> Result<SessionView> {
        let mut view = self.session_as_recorded(session)?;
        if let Some(ended) = self.ended_unheard(&view)? {
            view.status = SessionStatus::Completed;
            view.ended_at = Some(ended);
        }
        Ok(view)
    }

    /// The same as its journal has it: one that nobody records runs there until its transcript was
    /// silent for a day.
    pub(crate) fn session_as_recorded(&self, session: &SessionId) -> Result<SessionView> {
        let id = session.as_str();
        let (rows, events) = self
            .store
            .look_up(|index| Ok((index.session_events(Some(id))?, index.last_event(id)?)))?;
        let Some(events) = events else { return Err(self.no_session(id)) };
        let mut state = SessionState::new(session.clone());
        let (mut end_reason, mut exit, mut ends) = (None, None, Vec::new());
        // One that cannot be read tells nothing of how the session stands.
        for event in rows.iter().filter_map(|row| parse(row).ok()) {
            state.apply(&event);
            match event.body {
                Body::SessionEnded(end) => {
                    ends.push((event.number, event.at));
                    (end_reason, exit) = (end.reason, end.exit);
                }
                // Events between these are not looked at: the end that counts again is among them.
                Body::Restored(restored) if !restored.status.is_live() => {
                    let end = ends.iter().rfind(|(number, _)| *number <= restored.to);
                    state.ended_at = end.map(|(_, at)| *at);
                }
                _ => {}
            }
        }
        let mut view = SessionView::of(state, events, end_reason);
        view.exit = exit.filter(|_| !view.status.is_live());
        // The lock of a run knows better, also where processes have other numbers.
        if view.status.is_live() {
            view.process_gone = match self.run_lock(session) {
                RunLock::None => view.process_gone,
                RunLock::Held => false,
                RunLock::Free => true,
            };
        }
        Ok(view)
    }

    /// When a session ended that nobody records, as far as that can be told: a subagent with its
    /// parent, any other with the last line of a transcript that no longer grows.
    fn ended_unheard(&self, view: &SessionView) -> Result<Option<Timestamp>> {
        if !view.from_transcript || view.process.is_some() || view.status != SessionStatus::Running
        {
            return Ok(None);
        }
        let last = self.store.look_up(|index| index.event(view.id.as_str(), view.events))?;
        let latest = last.map(|row| Timestamp::from_millis(row.at));
        if latest.is_some_and(|at| self.now().millis_since(at) > QUIET_MS) {
            return Ok(latest);
        }
        let Some(parent) = view.parent.as_ref().filter(|parent| **parent != view.id) else {
            return Ok(None);
        };
        let parent = match self.session_as_it_stands(parent) {
            Err(Error::NoSession { .. }) => return Ok(None),
            other => other?,
        };
        let ended = parent.ended_at.filter(|_| !parent.status.is_live());
        Ok(ended.map(|ended| latest.map_or(ended, |latest| latest.min(ended))))
    }

    /// The session that a user names: by its id, or by a beginning of it that no other one has.
    /// Where all that begin so are runs of one agent's session, the newest is meant.
    pub fn find_session(&self, named: &SessionId) -> Result<SessionId> {
        let text = named.as_str();
        if self.store.look_up(|index| index.last_event(text))?.is_some() {
            return Ok(named.clone());
        }
        let mut found: Vec<SessionView> = Vec::new();
        let own = self.workspace_id().into_iter();
        let imported = self.lineages()?.into_iter().map(|lineage| lineage.workspace);
        for workspace in own.chain(imported) {
            let ids = self.store.look_up(|index| index.sessions(&workspace.to_string()))?;
            for id in ids.iter().filter(|id| id.starts_with(text)) {
                let Ok(id) = id.parse() else { continue };
                found.push(self.session_as_it_stands(&id)?);
            }
        }
        found.sort_by_key(|view| (view.started_at, view.id.clone()));
        let Some(newest) = found.last() else { return Err(self.no_session(text)) };
        let called = |view: &SessionView| {
            view.assistant_session_id.clone().unwrap_or_else(|| view.id.to_string())
        };
        if found.iter().all(|view| called(view) == called(newest)) {
            return Ok(newest.id.clone());
        }
        let ids: Vec<String> = found.iter().map(|view| format!("  {}", view.id)).collect();
        Err(Error::Usage {
            message: format!("several sessions begin with {text}:\n{}", ids.join("\n")),
            advice: vec![Advice::NameSession],
        })
    }

    /// The same where a session may be meant whose journal is not here.
    pub(crate) fn find_session_or_itself(&self, named: &SessionId) -> Result<SessionId> {
        match self.find_session(named) {
            Err(Error::NoSession { .. }) => Ok(named.clone()),
            other => other,
        }
    }

    /// That there is no such session, with the one of this workspace that was most likely meant.
    pub(crate) fn no_session(&self, session: &str) -> Error {
        let workspace = self.workspace_id().map(|id| id.to_string());
        let known = workspace.and_then(|id| self.store.look_up(|index| index.sessions(&id)).ok());
        let known = known.unwrap_or_default();
        let nearest = slip::nearest(session, known.iter().map(String::as_str));
        let let_go = self.store.look_up(|index| index.let_go(session)).ok().flatten();
        Error::NoSession {
            session: session.to_owned(),
            nearest: nearest.map(str::to_owned),
            let_go: let_go.map(|one| one.at),
        }
    }

    /// The session that is meant: the one that is named, else the only one that runs here. One that somebody records
    /// is meant rather than those that are known from their transcripts alone.
    pub fn session_meant(&self, named: Option<&SessionId>) -> Result<SessionView> {
        if let Some(named) = named {
            return self.session(&self.find_session(named)?);
        }
        let mut running = self.sessions()?;
        running.retain(|view| view.status.is_live());
        if running.iter().any(|view| !view.from_transcript) {
            running.retain(|view| !view.from_transcript);
        }
        match running.len() {
            1 => Ok(running.remove(0)),
            0 => Err(Error::Usage {
                message: "no session is running in this workspace".into(),
                advice: vec![Advice::StartOrNameSession],
            }),
            _ => {
                let ids: Vec<String> = running.iter().map(|view| view.id.to_string()).collect();
                Err(Error::Usage {
                    message: format!("several sessions are running: {}", ids.join(", ")),
                    advice: vec![Advice::NameSession],
                })
            }
        }
    }

    /// The session whose past is meant: as [`Rappel::session_meant`], or the newest one if nobody records one.
    pub fn session_looked_at(&self, named: Option<&SessionId>) -> Result<SessionView> {
        match self.session_meant(named) {
            Err(Error::Usage { message, advice }) => {
                let sessions = self.sessions()?;
                let recorded = |view: &SessionView| view.status.is_live() && !view.from_transcript;
                let several = sessions.iter().any(recorded);
                match sessions.into_iter().next() {
                    Some(newest) if !several => Ok(newest),
                    _ => Err(Error::Usage { message, advice }),
                }
            }
            other => other,
        }
    }

    /// The session that an agent asks about: the one that is named, else the newest one that runs and that no
    /// other began. Where none runs, the newest that no other began.
    pub fn session_asked_about(&self, named: Option<&SessionId>) -> Result<SessionView> {
        if let Some(named) = named {
            return self.session(&self.find_session(named)?);
        }
        let rank = |view: &SessionView| (view.status.is_live(), view.parent.is_none());
        // They come newest first; of equals the first counts.
        let best = self.sessions()?.into_iter().rev().max_by_key(rank);
        best.map_or_else(|| self.session_meant(None), Ok)
    }
}
