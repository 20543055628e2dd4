//! The journals of imported sessions. Such a session comes as states, one with each checkpoint; the
//! events that lead from each to the next become its journal, so that whatever reads journals reads
//! it. Where something was taken back, the journal goes on as a fork. It always ends: nobody is at
//! work in it.

use std::collections::HashMap;

use rappel_formats::portable::Session;
use rappel_store::record::Kind;
use rappel_store::{NewRecord, Writer};
use rappel_types::agents::{
    Body, Event, NewEvent, SessionId, SessionPart, SessionPosition, SessionState, SessionStatus,
    news, payload,
};
use rappel_types::{CheckpointId, Timestamp, WorkspaceId};

use super::append::Stored;
use super::capture::of_live;
use super::journal::Moment;
use super::{Live, snapshot};
use crate::error::{Error, Result};
use crate::rappel::Rappel;
use crate::save::new_document;

/// The longest id of a session.
const NAME_MAX: usize = 128;

/// A session on its way in.
pub(crate) struct ImportedSession {
    /// As its journal has it.
    at: Told,
    /// The newest fork.
    fork: u32,
    /// The last event of its journal when the import began.
    before: u64,
    /// As it was when it had just begun.
    first: Option<Told>,
    /// As it was with checkpoints that others follow, by their ids where they came from.
    kept: HashMap<String, Told>,
}

/// What a session knew at a moment.
#[derive(Clone)]
struct Told {
    live: Live,
    /// The same as it was read: its lists whole, and nothing cleaned. The next state is compared
    /// with this.
    read: SessionState,
}

/// What an imported session is called: a foreign journal never mixes with one of this home.
pub(crate) fn session_name(form: &str, lineage: WorkspaceId, id: &str) -> Result<SessionId> {
    let legal = |c: char| c.is_ascii_alphanumeric() || "_-.:".contains(c);
    let prefix = format!("{form}.{lineage}:");
    let room = NAME_MAX - prefix.len();
    let is_fine = id.len() <= room && id.chars().all(legal);
    let name = match is_fine {
        true => id.to_owned(),
        // Two that look alike then are told apart by this.
        false => {
            let kept: String = id.chars().filter(|c| legal(*c)).take(room - 17).collect();
            format!("{kept}-{}", &blake3::hash(id.as_bytes()).to_hex()[..16])
        }
    };
    let named = format!("{prefix}{name}");
    named.parse().map_err(|_| Error::Damaged { message: format!("{named} is no session's id") })
}

impl Rappel {
    /// A session with the journal that earlier imports gave it.
    pub(crate) fn imported_session(&self, id: &SessionId) -> Result<ImportedSession> {
        let (at, first) = match self.load_live(id) {
            Err(Error::NoSession { .. }) => {
                let (live, read) = (Live::new(id.clone()), SessionState::new(id.clone()));
                (Told { live, read }, None)
            }
            other => {
                let position = SessionPosition { fork: 0, event: 1 };
                let first = self.live_at(id, Moment { position, at: None })?;
                (self.told(other?)?, Some(self.told(first)?))
            }
        };
        let (fork, before) = (at.live.state.fork, at.live.last);
        Ok(ImportedSession { at, fork, before, first, kept: HashMap::new() })
    }

    /// What a session knew with a checkpoint of an earlier import.
    pub(crate) fn keep_imported(
        &self,
        session: &mut ImportedSession,
        id: &str,
        parts: &[SessionPart],
    ) -> Result<()> {
        let own = session.id();
        let part = parts.iter().find(|part| part.id == own);
        if let (Some(part), false) = (part, session.kept.contains_key(id)) {
            let moment = Moment { position: part.position, at: None };
            let told = self.told(self.live_at(&own, moment)?)?;
            session.kept.insert(id.to_owned(), told);
        }
        Ok(())
    }

    fn told(&self, live: Live) -> Result<Told> {
        let mut read = live.state.clone();
        snapshot::fill(self.source(), &mut read, u64::MAX)?;
        Ok(Told { live, read })
    }
}

/// A state as it was read, as one of a session of this home.
fn adopted(id: &SessionId, lineage: WorkspaceId, session: &Session, at: Timestamp) -> SessionState {
    let mut state = session.state.clone();
    state.session = id.clone();
    state.workspace = Some(lineage);
    state.status = session.status;
    state.provider = session.provider.clone().or(state.provider);
    state.task = session.task.clone().or(state.task);
    state.conversation_id = session.conversation_id.clone().or(state.conversation_id);
    let assistant = session.assistant_session_id.clone();
    state.assistant_session_id = assistant.or(state.assistant_session_id);
    state.started_at = session.started_at.or(state.started_at).or(Some(at));
    state.latest_at = state.latest_at.or(Some(at));
    // What these name is not here.
    state.process = None;
    state.parent = None;
    state.last_checkpoint = None;
    state.restored_to = None;
    state.transcripts.clear();
    state
}

impl ImportedSession {
    /// Its id.
    pub fn id(&self) -> SessionId {
        self.at.live.state.session.clone()
    }

    /// The last event of its journal when the import began: nobody may have written since.
    pub fn before(&self) -> u64 {
        self.before
    }

    /// Tells what is known with a checkpoint, and says where the journal stands then. `parent` is the
    /// checkpoint that it follows, by its id where it came from.
    pub fn take(
        &mut self,
        writer: &Writer<'_>,
        (session, lineage): (&Session, WorkspaceId),
        (checkpoint, at): (&CheckpointId, Timestamp),
        parent: Option<&str>,
    ) -> Result<SessionPart> {
        let state = adopted(&self.id(), lineage, session, at);
        let events = match news(&self.at.read, &state) {
            Some(events) => events,
            None => {
                self.set_back(writer, parent, &state, (checkpoint, at))?;
                news(&self.at.read, &state).unwrap_or_default()
            }
        };
        for event in events {
            self.append(writer, event, at)?;
        }
        Ok(of_live(&self.at.live))
    }

    /// Remembers what is known with a checkpoint that others follow.
    pub fn keep(&mut self, id: &str) {
        self.kept.insert(id.to_owned(), self.at.clone());
    }

    /// Goes back to where `state` can be reached from: the checkpoint that it follows, or else the
    /// beginning.
    fn set_back(
        &mut self,
        writer: &Writer<'_>,
        parent: Option<&str>,
        state: &SessionState,
        (checkpoint, at): (&CheckpointId, Timestamp),
    ) -> Result<()> {
        let leads_there = |told: &&Told| news(&told.read, state).is_some();
        let parent = parent.and_then(|parent| self.kept.get(parent)).filter(leads_there);
        let Some(from) = parent.or(self.first.as_ref()).cloned() else { return Ok(()) };
        let (of, to) = (from.live.state.fork, from.live.state.event);
        let last = self.at.live.last;
        self.at = from;
        self.at.live.last = last;
        self.fork += 1;
        let body = Body::Restored(payload::Restored {
            checkpoint: checkpoint.clone(),
            of,
            to,
            status: SessionStatus::Running,
            intent: None,
            taken_back: false,
        });
        let event = self.at.live.next(self.fork, at, None, body);
        self.write(writer, &event)?;
        self.at.read.apply(&event);
        Ok(())
    }

    fn append(&mut self, writer: &Writer<'_>, new: NewEvent, at: Timestamp) -> Result<()> {
        let at = new.at.unwrap_or(at);
        let (fork, number) = (self.at.live.state.fork, self.at.live.last + 1);
        let id = new.id.clone();
        let id = id.or_else(|| new.body.prefix().map(|prefix| format!("{prefix}{number}")));
        let (id_then, body) = (id.clone(), new.body.clone());
        self.at.read.apply(&Event { number, fork, at, id: id_then, body });
        // What says too much, or nothing, has no place in a journal.
        let Ok(cleaned) = (NewEvent { id, ..new }).cleaned() else { return Ok(()) };
        let event = self.at.live.next(fork, at, cleaned.id, cleaned.body);
        self.write(writer, &event)?;
        self.first.get_or_insert_with(|| self.at.clone());
        Ok(())
    }

    fn write(&mut self, writer: &Writer<'_>, event: &Event) -> Result<()> {
        let live = &mut self.at.live;
        live.take(event);
        let key = live.state.session.to_string();
        let json = event.to_json();
        writer.add(NewRecord::Document { kind: Kind::Event, key: key.clone(), json })?;
        if live.is_due() {
            let state = live.store(writer)?;
            let stored = Stored::of(live, state, event.at);
            writer.add(new_document(Kind::Session, key, &stored)?)?;
        }
        Ok(())
    }

    /// Ends it, if it has not ended where it came from.
    pub fn end(&mut self, writer: &Writer<'_>, at: Timestamp) -> Result<()> {
        let state = &self.at.live.state;
        if !state.status.is_live() || self.at.live.last == self.before {
            return Ok(());
        }
        let at = state.latest_at.unwrap_or(at);
        let body = Body::SessionEnded(payload::SessionEnded {
            status: SessionStatus::Completed,
            reason: Some("imported".into()),
            exit: None,
        });
        self.append(writer, NewEvent { at: Some(at), id: None, body }, at)
    }
}
