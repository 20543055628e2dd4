//! The agents' part of a checkpoint: where the journals of its sessions stand.

use std::os::unix::ffi::OsStrExt;

use rappel_store::index::Index;
use rappel_types::agents::{
    AgentsPart, Body, Event, Lineage, SessionId, SessionPart, SessionPosition, SessionState,
    payload,
};
use rappel_types::{Manifest, ObjectId, RelPath, Timestamp, WorkspaceId};

use super::{Live, metadata};
use crate::error::{Error, Result};
use crate::rappel::Rappel;
use crate::save::{self, SaveOptions};
use crate::workspace::Recognition;

/// The sessions of a workspace that run or wait, and the one that asks. What `live` knows of its own session is
/// newer than the index.
pub(crate) fn agents_part(
    index: &Index,
    workspace: WorkspaceId,
    also: &[SessionId],
    live: Option<&Live>,
) -> rappel_store::Result<AgentsPart> {
    let mut part = AgentsPart::default();
    let mut ids = index.live_sessions(&workspace.to_string())?;
    ids.extend(also.iter().map(ToString::to_string));
    ids.extend(live.map(|live| live.state.session.to_string()));
    ids.sort();
    ids.dedup();
    for id in ids {
        let session = match live.filter(|live| live.state.session.as_str() == id) {
            Some(live) => Some(of_live(live)),
            None => of_index(index, &id)?,
        };
        part.sessions.extend(session);
    }
    part.active_count =
        part.sessions.iter().filter(|session| session.status.is_live()).count() as u64;
    Ok(part)
}

impl Live {
    /// Notes in the journal that a checkpoint is made for the session, and in the checkpoint how the session stands.
    pub(crate) fn note_checkpoint(
        &mut self,
        manifest: &mut Manifest,
        now: Timestamp,
    ) -> (SessionId, Event) {
        for (key, value) in metadata(&self.state, manifest.trigger, now) {
            manifest.metadata.entry(key).or_insert(value);
        }
        let body = Body::Checkpoint(payload::Checkpoint {
            checkpoint: manifest.id.clone(),
            trigger: manifest.trigger.to_string(),
        });
        let event = self.next(self.state.fork, now, None, body);
        self.take(&event);
        (self.state.session.clone(), event)
    }
}

impl Rappel {
    /// The session that asks for a checkpoint, if it has a journal.
    pub(crate) fn asking_session(&self, options: &SaveOptions) -> Result<Option<Live>> {
        let Some(session) = options.session.as_deref().and_then(|id| id.parse().ok()) else {
            return Ok(None);
        };
        let known = self.live().remove(&session);
        let live = match known {
            Some(live) => live,
            None => match self.load_live(&session) {
                Err(Error::NoSession { .. }) => return Ok(None),
                other => other?,
            },
        };
        Ok(Some(live).filter(|live| self.is_ours(&live.state)))
    }

    /// Whether a session is of this workspace: another one's is not in its checkpoints.
    pub(crate) fn is_ours(&self, state: &SessionState) -> bool {
        state.workspace.is_none() || state.workspace == self.workspace_id()
    }

    /// The agents' state folders that are there.
    pub(crate) fn state_dirs(&self) -> Vec<RelPath> {
        let is_there = |path: &&RelPath| {
            let path = self.root.join(std::ffi::OsStr::from_bytes(path.as_bytes()));
            std::fs::symlink_metadata(path).is_ok()
        };
        self.config.agents.state_dirs.iter().filter(is_there).cloned().collect()
    }

    /// The workspace's id, which a session needs before the first checkpoint gives it one.
    pub(crate) fn settle_workspace(&self) -> Result<WorkspaceId> {
        if let Some(id) = self.workspace_id() {
            return Ok(id);
        }
        let save::Identified { id, document: Some(document), begins: true, .. } = self.identify()
        else {
            return self.require_known();
        };
        let evidence = &self.evidence;
        let done = self.store.begin()?.commit(|moment| {
            if crate::workspace::is_known_by_now(moment.index, evidence)? {
                return Err(rappel_store::Error::Moved);
            }
            Ok(vec![save::workspace_record(&document)?])
        });
        match done {
            Err(rappel_store::Error::Moved) => {
                self.recognised(crate::workspace::recognise(&self.store, &self.evidence)?);
                self.require_known()
            }
            Err(error) => Err(error.into()),
            Ok(_) => {
                self.recognised(Recognition::Known(document));
                Ok(id)
            }
        }
    }
}

pub(super) fn of_live(live: &Live) -> SessionPart {
    let position = SessionPosition { fork: live.state.fork, event: live.last };
    part(&live.state, position, live.snapshot)
}

fn part(
    state: &SessionState,
    position: SessionPosition,
    snapshot: Option<ObjectId>,
) -> SessionPart {
    SessionPart {
        id: state.session.clone(),
        conversation_id: state.conversation_id.clone(),
        assistant_session_id: state.assistant_session_id.clone(),
        provider: state.provider.clone(),
        status: state.status,
        position,
        snapshot,
        latest_at: state.latest_at,
    }
}

fn of_index(index: &Index, id: &str) -> rappel_store::Result<Option<SessionPart>> {
    let Ok(session) = id.parse::<SessionId>() else { return Ok(None) };
    let Some(event) = index.last_event(id)? else { return Ok(None) };
    let mut state = SessionState::new(session);
    for row in index.session_events(Some(id))? {
        if let Ok(event) = Event::parse(&row.json) {
            state.apply(&event);
        }
    }
    let lineage = Lineage::new(index.forks(id)?);
    let fork = lineage.current();
    let mut snapshot = None;
    for (fork, to) in lineage.parts(fork, event) {
        snapshot = snapshot.or(index.snapshot(id, fork, to, None)?);
    }
    let snapshot = snapshot.map(|row| row.state);
    Ok(Some(part(&state, SessionPosition { fork, event }, snapshot)))
}
