//! The append lock: one writer at a time, waited for with a limit, held only to append.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// What the lock file says. Only ever read for messages and for the note about a failed sync; who
/// holds the lock is the kernel's knowledge.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Note {
    pid: u32,
    program: String,
    since: Option<rappel_types::Timestamp>,
    /// A writer could neither sync its run nor begin a new pack: nobody may append to this one,
    /// and nothing behind the given place counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    broken: Option<(u64, u64)>,
}

/// The held lock; letting go of it is dropping it.
#[derive(Debug)]
pub struct Lock {
    file: File,
    path: PathBuf,
    note: Note,
}

impl Lock {
    /// Waits up to `limit` for the lock at `path`.
    pub fn acquire(path: &Path, limit: Duration, now: rappel_types::Timestamp) -> Result<Self> {
        let mut file = open(path)?;
        let how = FlockOperation::NonBlockingLockExclusive;
        if let Err(waited_ms) = wait(&file, how, limit).map_err(Error::io("lock", path))? {
            let holder = match read_note(&mut file) {
                Some(note) => format!("held by {} (pid {})", note.program, note.pid),
                None => "held by another process".into(),
            };
            return Err(Error::Busy { holder, waited_ms });
        }
        let broken = read_note(&mut file).and_then(|note| note.broken);
        let program = std::env::args_os()
            .next()
            .and_then(|name| Some(Path::new(&name).file_name()?.to_string_lossy().into_owned()))
            .unwrap_or_default();
        let note = Note { pid: std::process::id(), program, since: Some(now), broken };
        let mut lock = Self { file, path: path.to_owned(), note };
        // A lock that cannot be annotated is a lock all the same.
        let _ = lock.write_note();
        Ok(lock)
    }

    /// The pack that nobody may append to, and where it ends, if a writer had to leave one behind.
    pub fn broken(&self) -> Option<(u64, u64)> {
        self.note.broken
    }

    /// Leaves a note about such a pack, or takes it away.
    pub fn set_broken(&mut self, broken: Option<(u64, u64)>) -> Result<()> {
        self.note.broken = broken;
        self.write_note()
    }

    fn write_note(&mut self) -> Result<()> {
        let text = serde_json::to_vec(&self.note).unwrap_or_default();
        let mut write = || {
            self.file.rewind()?;
            self.file.write_all(&text)?;
            self.file.set_len(text.len() as u64)
        };
        write().map_err(Error::io("write", &self.path))
    }
}

/// Waits up to `limit` for a lock; the inner error is how long that was in vain, in milliseconds.
fn wait(file: &File, how: FlockOperation, limit: Duration) -> std::io::Result<Result<(), u64>> {
    let start = Instant::now();
    let mut pause = Duration::from_micros(200);
    loop {
        match flock(file, how) {
            Ok(()) => return Ok(Ok(())),
            Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        if start.elapsed() >= limit {
            return Ok(Err(start.elapsed().as_millis() as u64));
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

fn read_note(file: &mut File) -> Option<Note> {
    let mut text = Vec::new();
    file.rewind().ok()?;
    file.take(4096).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

/// What a process that reads packs holds, so that gc does not take them away at once.
#[derive(Debug)]
pub struct Claim {
    file: File,
    path: PathBuf,
    limit: Duration,
}

/// That nobody else has a claim; none can be made until this is dropped.
#[derive(Debug)]
pub struct Alone<'a>(&'a Claim);

impl Claim {
    /// Says that this process reads packs. Waits up to `limit` for a gc that unlinks some.
    pub fn shared(path: &Path, limit: Duration) -> Result<Self> {
        let claim = Self { file: open(path)?, path: path.to_owned(), limit };
        claim.share()?;
        Ok(claim)
    }

    fn share(&self) -> Result<()> {
        let how = FlockOperation::NonBlockingLockShared;
        let waited = wait(&self.file, how, self.limit).map_err(Error::io("lock", &self.path))?;
        waited.map_err(|waited_ms| {
            let holder = format!("{} is held by a gc that does not end", self.path.display());
            Error::Busy { holder, waited_ms }
        })
    }

    /// Whether nobody else has a claim. While it is asked this claim may be let go for a moment, so
    /// packs can be unlinked then; whoever reads one looks again at where things are.
    pub fn alone(&self) -> Result<Option<Alone<'_>>> {
        match flock(&self.file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Alone(self))),
            Err(rustix::io::Errno::WOULDBLOCK) => {
                self.share()?;
                Ok(None)
            }
            Err(errno) => Err(Error::io("lock", &self.path)(errno.into())),
        }
    }
}

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        // The worst that a failure does is that others go on waiting until this process ends.
        let _ = self.0.share();
    }
}

/// A lock that one process at a time can have, and nobody waits for.
#[derive(Debug)]
pub struct Turn {
    _file: File,
}

impl Turn {
    /// Takes the lock at `path`; `None` if somebody else has it.
    pub fn take(path: &Path) -> Result<Option<Self>> {
        let file = open(path)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Self { _file: file })),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(errno) => Err(Error::io("lock", path)(errno.into())),
        }
    }
}

fn open(path: &Path) -> Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map_err(Error::io("open", path))
}
