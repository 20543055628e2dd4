//! The session of a supervised command. As long as the supervisor lives, it holds the lock of a
//! file in the home; a session that is marked running and whose lock is free has crashed.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rappel_store::disk;
use rappel_store::held::{self, Handle};
use rappel_types::Advice;
use rappel_types::agents::payload::CommandExit;
use rappel_types::agents::{Body, Illegal, NewEvent, ProcessId, SessionId, SessionStatus, payload};
use rappel_types::{Timestamp, redact};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::exit::describe_exit;
use crate::agents::{SessionView, is_same, process_id};
use crate::error::{Error, Result};
use crate::hook::Workers;
use crate::rappel::Rappel;

/// How the session of a command begins.
#[derive(Debug, Clone, Default)]
pub struct RunStart {
    /// Its id: a new one, or one of a run that crashed and goes on. One is made up otherwise.
    pub session: Option<SessionId>,
    /// The command as one would type it.
    pub command: String,
    /// The session around it.
    pub parent: Option<SessionId>,
    /// The process that supervises.
    pub process: Option<ProcessId>,
}

/// A session that this process supervises, as long as this lives.
#[derive(Debug)]
pub struct RunSession {
    id: SessionId,
    started_at: Option<Timestamp>,
    path: PathBuf,
    lock: Option<Handle>,
}

/// What the lock of a run says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunLock {
    /// Nobody supervises that session, and nobody did.
    None,
    /// A process supervises it.
    Held,
    /// The process that did is gone.
    Free,
}

impl RunSession {
    /// Which session.
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// When it began.
    pub fn started_at(&self) -> Option<Timestamp> {
        self.started_at
    }

    /// Notes which process the command is, so that `recover` can tell whether it goes on without us.
    /// Without the note nothing but that is lost.
    pub fn note_command(&self, pid: u32) {
        let note = process_id(pid).map(|command| Note { version: NOTE_VERSION, command });
        let note = note.and_then(|note| serde_json::to_vec(&note).ok());
        if let (Some(file), Some(text)) = (&self.lock, note) {
            let _ = file.write_all_at(&text, 0).and_then(|()| file.set_len(text.len() as u64));
        }
    }
}

/// The version of the note in a run's file.
const NOTE_VERSION: u32 = 1;

/// What the file of a run says.
#[derive(Debug, Serialize, Deserialize)]
struct Note {
    version: u32,
    command: ProcessId,
}

impl Rappel {
    /// Begins the session of a command, or goes on with the one of a run that crashed. Makes no
    /// checkpoint.
    pub fn begin_run(&self, start: RunStart) -> Result<RunSession> {
        let known = match &start.session {
            Some(session) => match self.session(session) {
                Err(Error::NoSession { .. }) => None,
                other => Some(other?),
            },
            None => None,
        };
        if let Some(view) = &known {
            may_go_on(view)?;
            if let Some(pid) = self.command_left_running(&view.id) {
                return Err(Error::Usage {
                    message: format!(
                        "the command of session {} still runs (process {pid})",
                        view.id
                    ),
                    advice: vec![Advice::WaitOrBeginSession],
                });
            }
        }
        let id = match (known.is_some(), start.session) {
            (_, Some(id)) => id,
            _ => SessionId::new(self.now(), rappel_store::ambient::random() as u32),
        };
        let (path, lock) = self.lock_run(&id)?;
        let body = match &known {
            Some(_) => Body::SessionResumed(payload::SessionResumed {
                process: start.process,
                from_transcript: false,
            }),
            None => Body::SessionStarted(payload::SessionStarted {
                workspace: Some(self.settle_workspace()?),
                task: Some(redact::text(&start.command).into_owned()),
                parent: start.parent,
                process: start.process,
                ..payload::SessionStarted::default()
            }),
        };
        if let Err(error) = self.record_late(&id, &[NewEvent::from(body)]) {
            if known.is_none() {
                // Without a session the file marks nothing.
                let _ = disk::unlink(&**self.store.disk(), &path);
            }
            return Err(error);
        }
        let started_at = self.session_as_it_stands(&id)?.started_at;
        Ok(RunSession { id, started_at, path, lock: Some(lock) })
    }

    /// Ends it with what became of the command. Makes no checkpoint.
    pub fn end_run(&self, mut run: RunSession, exit: CommandExit) -> Result<()> {
        let status = match exit.code {
            Some(0) => SessionStatus::Completed,
            _ => SessionStatus::Failed,
        };
        let reason = Some(describe_exit(&exit));
        let end = payload::SessionEnded { status, reason, exit: Some(exit) };
        self.record_late(&run.id, &[NewEvent::from(Body::SessionEnded(end))])?;
        // The lock goes last: until here a crash leaves a session that `recover` finds.
        disk::unlink(&**self.store.disk(), &run.path)?;
        run.lock = None;
        Ok(())
    }

    /// What a run and the sessions below it did.
    pub fn run_totals(&self, session: &SessionId) -> Result<RunTotals> {
        let mut totals = RunTotals::default();
        for one in self.with_those_below(&self.session(session)?)? {
            let state = self.load_live(&one.id)?.state;
            totals.prompts += state.prompts.len();
            let tokens = state.progress.tokens.total();
            if tokens > 0 {
                *totals.tokens.get_or_insert(0) += tokens;
            }
        }
        Ok(totals)
    }

    /// Notes in the journal of a session that files changed. Nothing where it has no journal.
    pub(super) fn note_changed(&self, session: &str, paths: Vec<String>) -> Result<()> {
        let Ok(id) = session.parse::<SessionId>() else { return Ok(()) };
        if paths.is_empty() || self.store.look_up(|index| index.last_event(id.as_str()))?.is_none()
        {
            return Ok(());
        }
        let body = Body::Code(payload::Code { paths });
        self.record_late(&id, &[NewEvent::from(body)])
    }

    /// Remembers that something of a run failed, so that `status` can tell.
    pub fn note_run_failure(&self, message: &str) {
        Workers::of(self.store.home().root()).note_run_failure(&self.root, message);
    }

    fn lock_run(&self, session: &SessionId) -> Result<(PathBuf, Handle)> {
        let path = self.run_lock_path(session);
        if let Some(folder) = path.parent() {
            disk::create_dir(&**self.store.disk(), folder)?;
        }
        let file = open_lock(&path, true).map_err(Error::io("open", &path))?;
        if flock(&*file, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(is_running(session));
        }
        Ok((path, file))
    }

    /// What the lock of a session's run says.
    pub(crate) fn run_lock(&self, session: &SessionId) -> RunLock {
        let path = self.run_lock_path(session);
        let Ok(file) = open_lock(&path, false) else { return RunLock::None };
        // A shared one, so that two that ask do not take each other for the run.
        match flock(&*file, FlockOperation::NonBlockingLockShared) {
            Err(_) => RunLock::Held,
            // It may have ended between the two.
            Ok(()) if !path.exists() => RunLock::None,
            Ok(()) => RunLock::Free,
        }
    }

    /// The process of a run's command, if it goes on although the run that began it is gone.
    pub(crate) fn command_left_running(&self, session: &SessionId) -> Option<u32> {
        if self.run_lock(session) != RunLock::Free {
            return None;
        }
        let text = held::read(self.run_lock_path(session)).ok()?;
        let note: Note = serde_json::from_slice(&text).ok()?;
        let goes_on = note.version == NOTE_VERSION && is_same(note.command);
        goes_on.then_some(note.command.pid)
    }

    /// Whether a supervised command runs in this workspace: what it changes is saved by itself.
    pub(crate) fn is_supervised(&self) -> Result<bool> {
        let ids = self.live_session_ids()?;
        let mut ids = ids.iter().filter_map(|id| id.parse::<SessionId>().ok());
        Ok(ids.any(|id| self.run_lock(&id) == RunLock::Held))
    }

    fn run_lock_path(&self, session: &SessionId) -> PathBuf {
        let name = blake3::hash(session.as_str().as_bytes()).to_hex();
        self.store.home().root().join("runs").join(&name[..32])
    }
}

/// What a run and the sessions below it did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RunTotals {
    /// Prompts.
    pub prompts: u64,
    /// Tokens, where an agent tells them.
    pub tokens: Option<u64>,
}

fn open_lock(path: &Path, create: bool) -> std::io::Result<Handle> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut how = File::options();
    how.read(true).write(create).create(create).mode(0o600);
    Handle::open(&how, path)
}

fn is_running(session: &SessionId) -> Error {
    Error::Usage {
        message: format!("session {session} is running"),
        advice: vec![Advice::BeginSession],
    }
}

fn may_go_on(view: &SessionView) -> Result<()> {
    if !view.status.is_live() {
        let (session, illegal) = (view.id.to_string(), Illegal::Ended(view.status));
        return Err(Error::IllegalEvent { session, illegal });
    }
    // One that nobody supervised, and that has no process, may be taken up.
    match view.process.is_some() && !view.process_gone {
        true => Err(is_running(&view.id)),
        false => Ok(()),
    }
}
