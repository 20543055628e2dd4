//! Setting sessions back. The journal goes on as a fork that begins with a `restored` event; what happened since stays
//! readable. These events are part of the very commit that remembers the restore for `undo`.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use rappel_store::NewRecord;
use rappel_store::document::UndoSession;
use rappel_store::held;
use rappel_store::index::Index;
use rappel_store::record::Kind;
use rappel_types::agents::{
    AgentsPlan, Body, Event, Fork, Lineage, ProcessId, SessionId, SessionMove, SessionPart,
    SessionPosition, SessionStatus, payload,
};
use rappel_types::plan::Conflict;
use rappel_types::{Advice, Remark, Remarks};
use rappel_types::{CheckpointId, Facet, Manifest, ObjectId, Timestamp};

use super::running::boot;
use super::{SessionView, process_started, resume_command};
use crate::error::Result;
use crate::rappel::Rappel;
use crate::restore::RestoreOptions;

/// How long a process may take to end by itself.
const GRACE: Duration = Duration::from_secs(5);

/// What is wanted of agents.
#[derive(Debug, Clone, Default)]
pub(crate) struct AgentsWish {
    /// Only these sessions, and where they go if that is not where the checkpoint has them; `None` is all that it holds.
    pub only: Option<Vec<(String, Option<SessionPosition>)>>,
    /// Transcripts too.
    pub transcripts: bool,
    /// The transcripts that a restore left, if that is what is taken back.
    pub made: Option<ObjectId>,
    /// What agents call the sessions whose transcripts go back although they only grew.
    pub rewound: Vec<String>,
}

/// A plan for agents, and what to say about it.
#[derive(Debug, Clone, Default)]
pub(crate) struct AgentsPlanned {
    pub plan: AgentsPlan,
    /// How many transcripts are put back.
    pub transcripts: usize,
    pub summary: Option<String>,
    pub details: Vec<String>,
    pub warnings: Remarks,
    /// What forbids it.
    pub conflicts: Vec<Conflict>,
}

impl AgentsPlanned {
    /// The same in few words, for so many transcripts.
    pub(crate) fn in_short(&self, transcripts: usize) -> Option<String> {
        let counted = |count: usize, what: &str, done: &str| {
            let many = if count == 1 { "" } else { "s" };
            (count > 0).then(|| format!("{count} {what}{many} {done}"))
        };
        let set_back = match self.plan.sessions.iter().all(|one| one.taken_back) {
            true => "as before",
            false => "set back",
        };
        let sessions = counted(self.plan.sessions.len(), "session", set_back);
        let transcripts = counted(transcripts, "transcript", "put back");
        let said: Vec<String> = sessions.into_iter().chain(transcripts).collect();
        (!said.is_empty()).then(|| said.join(", "))
    }
}

impl RestoreOptions {
    /// What to do about agents; paths are about files alone.
    pub(crate) fn agents(&self) -> Option<AgentsWish> {
        (self.wants(Facet::Agents) && self.paths.is_empty()).then(|| AgentsWish {
            transcripts: true,
            rewound: self.rewound.clone(),
            ..AgentsWish::default()
        })
    }

    /// Whether nothing but agents is meant, so that checkpoints of their state alone count.
    pub(crate) fn only_agents(&self) -> bool {
        self.only.as_ref().is_some_and(|only| only.iter().all(|facet| *facet == Facet::Agents))
    }
}

impl Rappel {
    /// What going to a checkpoint does to sessions. Those in `news` went on, and their journals do
    /// not know it yet.
    pub(crate) fn plan_agents(
        &self,
        target: &Manifest,
        wish: Option<&AgentsWish>,
        news: &HashSet<SessionId>,
    ) -> Result<AgentsPlanned> {
        let (Some(wish), Some(agents)) = (wish, &target.agents) else {
            return Ok(AgentsPlanned::default());
        };
        let mut planned = AgentsPlanned::default();
        if target.is_foreign() {
            // Their journals stay as they came, and what agents keep outside of the workspace too.
            if !agents.sessions.is_empty() || agents.transcripts.is_some() {
                let id = target.id.to_string();
                let text = format!("the sessions of {id} came from elsewhere and stay as they are");
                planned.warnings.push(Remark::new(text, Advice::ShowState { checkpoint: id }));
            }
            return Ok(planned);
        }
        let asked = |part: &SessionPart| {
            wish.only.as_ref().and_then(|only| only.iter().find(|(id, _)| id == part.id.as_str()))
        };
        for part in &agents.sessions {
            let asked = asked(part);
            if wish.only.is_some() && asked.is_none() {
                continue;
            }
            let (last, forks) = self.store.look_up(|index| {
                Ok((index.last_event(part.id.as_str())?, index.forks(part.id.as_str())?))
            })?;
            let fork = Lineage::new(forks.clone()).current();
            let Some(last) = last else {
                planned.warnings.push(format!("the journal of session {} is not here", part.id));
                continue;
            };
            let stood = asked.and_then(|(_, position)| *position);
            let (position, taken_back) = (stood.unwrap_or(part.position), stood.is_some());
            let went_on = !taken_back && news.contains(&part.id);
            if !went_on && stands_at(&forks, SessionPosition { fork, event: last }, position) {
                continue;
            }
            let view = self.session_as_recorded(&part.id)?;
            // A checkpoint of one workspace does not move another one's agents.
            if view.workspace.is_some_and(|of| of != target.workspace.id) {
                continue;
            }
            let at_work = view.status.is_live() && !view.process_gone;
            let status = match at_work || !part.status.is_live() {
                true => part.status,
                // Its agent is gone; somebody has to take it up again.
                false => SessionStatus::Paused,
            };
            planned.plan.sessions.push(SessionMove {
                id: part.id.clone(),
                of: position.fork,
                to: position.event,
                status,
                taken_back,
            });
            let later = last.saturating_sub(position.event);
            let mut line = match taken_back {
                true => format!("session {} goes on from event {}", part.id, position.event),
                false if went_on => format!(
                    "session {} back to event {} (what came later stays readable)",
                    part.id, position.event
                ),
                false => format!(
                    "session {} back to event {} ({later} later {} readable)",
                    part.id,
                    position.event,
                    if later == 1 { "event stays" } else { "events stay" },
                ),
            };
            if let Some(command) = resume_command(&view) {
                line.push_str(&format!("; resume it with `{}`", command.join(" ")));
            }
            planned.details.push(line);
        }
        if let (true, Some(tree)) = (wish.transcripts, &agents.transcripts)
            && let Err(error) = self.plan_transcripts(tree, wish, &mut planned)
        {
            planned.warnings.push(format!("no transcript is put back: {error}"));
        }
        planned.summary = planned.in_short(planned.transcripts);
        Ok(planned)
    }

    /// Says whose agents are at work, and what becomes of them.
    pub(crate) fn say_who_runs(
        &self,
        options: &RestoreOptions,
        planned: &mut AgentsPlanned,
    ) -> Result<()> {
        if options.agents().is_none() && !options.terminate_sessions {
            return Ok(());
        }
        for view in self.running_agents(options.own_session.as_ref())? {
            let pid = view.process.map_or(0, |process| process.pid);
            match options.terminate_sessions {
                true => planned
                    .details
                    .push(format!("session {} is ended first (process {pid})", view.id)),
                false => {
                    let text = format!(
                        "the agent of session {} is at work here (process {pid}) and is left running",
                        view.id
                    );
                    planned.warnings.push(Remark::new(text, Advice::TerminateSessions));
                }
            }
        }
        Ok(())
    }

    /// The events that set sessions back. Under the lock; those that a restore has written already are left out.
    pub(crate) fn restored_events(
        index: &Index,
        plan: &AgentsPlan,
        checkpoint: &CheckpointId,
        intent: &str,
        now: Timestamp,
    ) -> rappel_store::Result<Vec<NewRecord>> {
        let mut records = Vec::new();
        for SessionMove { id, of, to, status, taken_back } in &plan.sessions {
            let session = id.as_str();
            let written = index.session_events(Some(session))?.iter().any(|row| {
                let body = Event::parse(&row.json).ok().map(|event| event.body);
                matches!(body, Some(Body::Restored(done)) if done.intent.as_deref() == Some(intent))
            });
            let Some(last) = index.last_event(session)?.filter(|_| !written) else { continue };
            let event = Event {
                number: last + 1,
                fork: Lineage::new(index.forks(session)?).current() + 1,
                at: now,
                id: None,
                body: Body::Restored(payload::Restored {
                    checkpoint: checkpoint.clone(),
                    of: *of,
                    to: *to,
                    status: *status,
                    intent: Some(intent.to_owned()),
                    taken_back: *taken_back,
                }),
            };
            let (kind, key, json) = (Kind::Event, id.to_string(), event.to_json());
            records.push(NewRecord::Document { kind, key, json });
        }
        Ok(records)
    }

    /// Sessions of this workspace whose agent is at work in another process than the one that asks.
    pub fn running_agents(&self, own: Option<&SessionId>) -> Result<Vec<SessionView>> {
        let mut sessions = self.sessions()?;
        sessions.retain(|view| {
            view.status.is_live()
                && is_alive(view)
                && Some(&view.id) != own
                && !view.process.is_some_and(is_ancestor)
        });
        Ok(sessions)
    }

    /// Ends the processes of other sessions: asks them to, and after a while makes them.
    pub(crate) fn end_agents(&self, own: Option<&SessionId>) -> Result<Vec<String>> {
        let mut said = Vec::new();
        for view in self.running_agents(own)? {
            let Some(process) = view.process else { continue };
            let ended = end(process);
            said.push(match ended {
                true => {
                    format!("the agent of session {} (process {}) was ended", view.id, process.pid)
                }
                false => format!(
                    "the agent of session {} (process {}) cannot be ended",
                    view.id, process.pid
                ),
            });
        }
        Ok(said)
    }
}

/// Where the journals of the sessions stand that a plan sets back. Under the lock.
pub(crate) fn positions_now(
    index: &Index,
    plan: &AgentsPlan,
) -> rappel_store::Result<Vec<UndoSession>> {
    let position = |id: &str| -> rappel_store::Result<SessionPosition> {
        let fork = Lineage::new(index.forks(id)?).current();
        Ok(SessionPosition { fork, event: index.last_event(id)?.unwrap_or(0) })
    };
    let sessions = plan.sessions.iter().map(|one| one.id.to_string());
    sessions.map(|id| Ok(UndoSession { position: position(&id)?, id })).collect()
}

/// Whether a session stands at a position, or was set back to it, in however many steps, and has not gone on since.
fn stands_at(forks: &[Fork], mut now: SessionPosition, position: SessionPosition) -> bool {
    while now != position {
        let set_back = |one: &&Fork| (one.fork, one.begins) == (now.fork, now.event);
        let Some(from) = forks.iter().find(set_back) else { return false };
        // Forks come from earlier events, so that this ends; what says otherwise is not followed.
        if from.to >= now.event {
            return false;
        }
        now = SessionPosition { fork: from.of, event: from.to };
    }
    true
}

/// Whether the process that a session names is there, and is the one that it named.
fn is_alive(view: &SessionView) -> bool {
    view.process.is_some_and(is_same)
}

/// Whether a process that was noted with its start is gone.
pub(super) fn is_gone(process: ProcessId) -> bool {
    process.started != 0 && !is_same(process)
}

/// Whether a process is still there.
pub(crate) fn is_same(process: ProcessId) -> bool {
    if process.boot != 0 && process.boot != boot() {
        return false;
    }
    match process_started(process.pid) {
        None => false,
        Some(started) => process.started != 0 && started == process.started,
    }
}

/// Whether this process was started by that one, directly or not.
fn is_ancestor(process: ProcessId) -> bool {
    let mut pid = std::process::id();
    // Not endless, whatever is read there.
    for _ in 0..64 {
        if pid == process.pid {
            return true;
        }
        let Ok(stat) = held::read_to_string(format!("/proc/{pid}/stat")) else { return false };
        let parent = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1));
        match parent.and_then(|parent| parent.parse().ok()) {
            // The first process of a container may be the agent.
            Some(parent) if parent >= 1 => pid = parent,
            _ => return false,
        }
    }
    false
}

fn end(process: ProcessId) -> bool {
    use rustix::process::{Pid, Signal, kill_process};
    let Some(pid) = i32::try_from(process.pid).ok().and_then(Pid::from_raw) else { return false };
    let start = Instant::now();
    let _ = kill_process(pid, Signal::TERM);
    while is_same(process) && start.elapsed() < GRACE {
        std::thread::sleep(Duration::from_millis(20));
    }
    if is_same(process) {
        let _ = kill_process(pid, Signal::KILL);
    }
    while is_same(process) && start.elapsed() < GRACE * 2 {
        std::thread::sleep(Duration::from_millis(20));
    }
    !is_same(process)
}
