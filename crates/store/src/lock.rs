//! The append lock: one writer at a time, waited for with a limit, held only to append.

use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::io::{Seek, Write};
use std::marker::PhantomData;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::log::{self, Position};

/// Waiting for longer than this is worth a word.
const WORTH_A_WORD: Duration = Duration::from_secs(1);

/// How long to wait for a lock, and who is told when it takes a while.
#[derive(Clone)]
pub struct Patience {
    /// How long.
    pub limit: Duration,
    /// Told once, who is waited for.
    pub told: Option<Told>,
}

/// Somebody who wants to know who is waited for.
pub type Told = Arc<dyn Fn(&str) + Send + Sync>;

impl std::fmt::Debug for Patience {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Patience").field("limit", &self.limit).finish_non_exhaustive()
    }
}

impl From<Duration> for Patience {
    fn from(limit: Duration) -> Self {
        Self { limit, told: None }
    }
}

impl Patience {
    /// Tries again and again, until it works or the time is over; the inner error is how long that
    /// was, in milliseconds. `who` says in words who is in the way.
    pub fn wait<E>(
        &self,
        mut try_once: impl FnMut() -> Result<bool, E>,
        who: impl Fn() -> String,
    ) -> Result<Result<(), u64>, E> {
        let start = Instant::now();
        let mut pause = Duration::from_micros(200);
        let mut silent = self.told.is_some();
        loop {
            if try_once()? {
                return Ok(Ok(()));
            }
            if start.elapsed() >= self.limit {
                return Ok(Err(start.elapsed().as_millis() as u64));
            }
            if let (true, Some(told)) = (silent && start.elapsed() >= WORTH_A_WORD, &self.told) {
                told(&who());
                silent = false;
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(20));
        }
    }
}

/// What the lock file says: a message between writers. Who holds the lock is the kernel's
/// knowledge.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Note {
    pid: u32,
    program: String,
    since: Option<rappel_types::Timestamp>,
    /// How far the log was durable when a writer last appended to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reached: Option<Reached>,
    /// A writer could neither sync its run nor begin a new pack: nobody may append to this one,
    /// and nothing behind the given place counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    broken: Option<(u64, u64)>,
}

/// How far the log has come, as the last writer knew it. It is written after the log is synced and
/// is not synced itself. So a note that is behind the log means nothing, and one that is ahead of
/// it means that the log has lost its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reached {
    /// The home whose log it is: a lock file may be older than the home beside it.
    home: String,
    /// Whether every commit of the home was noted, from the first one on. Otherwise something may
    /// have been lost before the first note.
    #[serde(default)]
    pub from_the_first: bool,
    /// The last commit; `None` before the first.
    pub commit: Option<Position>,
}

impl Reached {
    /// A home that has no commit yet.
    pub(crate) fn nothing(home: u64) -> Self {
        Self { home: log::home_text(home), from_the_first: true, commit: None }
    }

    /// What the lock file at `path` says about this home. `None` if it says nothing that can be
    /// understood: an older version wrote it, or it was lost.
    pub(crate) fn read(path: &Path, home: u64) -> Result<Option<Self>> {
        let note = open_existing(path)?.and_then(|file| read_note(&file));
        Ok(note.and_then(|note| note.reached).filter(|it| it.home == log::home_text(home)))
    }
}

/// The held lock; letting go of it is dropping it. It stays with the thread that took it.
#[derive(Debug)]
pub struct Lock {
    file: File,
    path: PathBuf,
    note: Note,
    _here: PhantomData<*const ()>,
}

thread_local! {
    /// The locks that this thread holds: whoever waited for one of them would wait for itself.
    static HERE: RefCell<Vec<PathBuf>> = const { RefCell::new(Vec::new()) };
}

impl Drop for Lock {
    fn drop(&mut self) {
        HERE.with_borrow_mut(|held| held.retain(|path| *path != self.path));
    }
}

/// What a reader of the log must know of the lock file.
pub trait Broken {
    /// The pack that nobody may append to, and where it ends, if a writer had to leave one behind.
    fn broken(&self) -> Option<(u64, u64)>;
}

/// Writers are held off, as far as that can be done without writing: enough to read the log.
#[derive(Debug)]
pub struct Look {
    _file: Option<File>,
    broken: Option<(u64, u64)>,
}

impl Look {
    /// Waits for whoever holds the lock at `path`; where there is no such file, nobody can.
    pub fn take(path: &Path, patience: &Patience) -> Result<Self> {
        let Some(file) = open_existing(path)? else {
            return Ok(Self { _file: None, broken: None });
        };
        let how = FlockOperation::NonBlockingLockShared;
        let waited = wait(&file, how, patience, || holder(&file));
        if let Err(waited_ms) = waited.map_err(Error::io("lock", path))? {
            return Err(Error::Busy { holder: holder(&file), waited_ms });
        }
        let broken = read_note(&file).and_then(|note| note.broken);
        Ok(Self { _file: Some(file), broken })
    }
}

impl Look {
    /// What somebody who holds the lock at `path` knows.
    pub(crate) fn beside_the_lock(path: &Path) -> Result<Self> {
        let broken = open_existing(path)?.and_then(|file| read_note(&file)?.broken);
        Ok(Self { _file: None, broken })
    }
}

impl Broken for Look {
    fn broken(&self) -> Option<(u64, u64)> {
        self.broken
    }
}

impl Broken for Lock {
    fn broken(&self) -> Option<(u64, u64)> {
        self.note.broken
    }
}

impl Lock {
    /// Waits for the lock at `path`.
    pub fn acquire(path: &Path, patience: &Patience, now: rappel_types::Timestamp) -> Result<Self> {
        let file = open(path)?;
        let how = FlockOperation::NonBlockingLockExclusive;
        let waited = wait(&file, how, patience, || holder(&file));
        if let Err(waited_ms) = waited.map_err(Error::io("lock", path))? {
            return Err(Error::Busy { holder: holder(&file), waited_ms });
        }
        let Note { broken, reached, .. } = read_note(&file).unwrap_or_default();
        let program = std::env::args_os()
            .next()
            .and_then(|name| Some(Path::new(&name).file_name()?.to_string_lossy().into_owned()))
            .unwrap_or_default();
        let note = Note { pid: std::process::id(), program, since: Some(now), reached, broken };
        HERE.with_borrow_mut(|held| held.push(path.to_owned()));
        let mut lock = Self { file, path: path.to_owned(), note, _here: PhantomData };
        // A lock that cannot be annotated is a lock all the same.
        let _ = lock.write_note();
        Ok(lock)
    }

    /// Whether this thread holds the lock at `path`.
    pub(crate) fn is_held_here(path: &Path) -> bool {
        HERE.with_borrow(|held| held.iter().any(|held| held == path))
    }

    /// Leaves a note about such a pack, or takes it away.
    pub fn set_broken(&mut self, broken: Option<(u64, u64)>) -> Result<()> {
        self.note.broken = broken;
        self.write_note()
    }

    /// Notes how far the log is durable now.
    pub(crate) fn set_reached(&mut self, home: u64, commit: &Position) {
        let known = self.note.reached.take().filter(|it| it.home == log::home_text(home));
        let from_the_first = known.is_some_and(|known| known.from_the_first);
        let commit = Some(commit.clone());
        self.note.reached = Some(Reached { home: log::home_text(home), from_the_first, commit });
        // Without it, a log that loses its end is noticed by the index alone.
        let _ = self.write_note();
    }

    /// Notes that a home begins here.
    pub(crate) fn set_begun(&mut self, home: u64) {
        self.note.reached = Some(Reached::nothing(home));
        let _ = self.write_note();
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

/// Waits for a lock; the inner error is how long that was in vain, in milliseconds.
fn wait(
    file: &File,
    how: FlockOperation,
    patience: &Patience,
    who: impl Fn() -> String,
) -> std::io::Result<Result<(), u64>> {
    let try_once = || match flock(file, how) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) => Ok(false),
        Err(errno) => Err(errno.into()),
    };
    patience.wait(try_once, who)
}

/// Who holds a lock, in words.
fn holder(file: &File) -> String {
    match read_note(file) {
        Some(note) => format!("held by {} (pid {})", note.program, note.pid),
        None => "held by another process".into(),
    }
}

fn read_note(file: &File) -> Option<Note> {
    use std::os::unix::fs::FileExt;
    let mut text = vec![0; 4096];
    let length = file.read_at(&mut text, 0).ok()?;
    text.truncate(length);
    // A writer that died before it cut the file may have left the end of a longer note behind it.
    serde_json::Deserializer::from_slice(&text).into_iter().next()?.ok()
}

/// What a process that reads packs holds, so that gc does not take them away at once.
#[derive(Debug)]
pub struct Claim {
    /// Absent where it cannot be made: then nobody else can either.
    file: Option<File>,
    path: PathBuf,
    patience: Patience,
}

/// That nobody else has a claim; none can be made until this is dropped.
#[derive(Debug)]
pub struct Alone<'a>(&'a Claim);

impl Claim {
    /// Says that this process reads packs. Waits for a gc that unlinks some.
    pub fn shared(path: &Path, patience: Patience) -> Result<Self> {
        let claim = Self { file: Some(open(path)?), path: path.to_owned(), patience };
        claim.share()?;
        Ok(claim)
    }

    /// The same in a home that cannot be written to.
    pub fn without_writing(path: &Path, patience: Patience) -> Result<Self> {
        let claim = Self { file: open_existing(path)?, path: path.to_owned(), patience };
        claim.share()?;
        Ok(claim)
    }

    fn share(&self) -> Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        let how = FlockOperation::NonBlockingLockShared;
        let who = || format!("{} is held by a gc that removes packs", self.path.display());
        let waited = wait(file, how, &self.patience, who);
        let waited = waited.map_err(Error::io("lock", &self.path))?;
        waited.map_err(|waited_ms| Error::Busy { holder: who(), waited_ms })
    }

    /// Whether nobody else has a claim. While it is asked this claim may be let go for a moment, so
    /// packs can be unlinked then; whoever reads one looks again at where things are.
    pub fn alone(&self) -> Result<Option<Alone<'_>>> {
        let Some(file) = &self.file else { return Ok(None) };
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
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

/// A lock that one at a time can have: whoever collects garbage, or restores a workspace. It ends
/// with the process, and no program that the process starts inherits it.
#[derive(Debug)]
pub struct Turn {
    _file: File,
}

impl Turn {
    /// Waits for the lock at `path`.
    pub fn wait(path: &Path, patience: &Patience) -> Result<Self> {
        let file = open(path)?;
        let who = || "another gc is running".to_owned();
        let how = FlockOperation::NonBlockingLockExclusive;
        match wait(&file, how, patience, who).map_err(Error::io("lock", path))? {
            Ok(()) => Ok(Self { _file: file }),
            Err(waited_ms) => Err(Error::Busy { holder: who(), waited_ms }),
        }
    }

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

fn open_existing(path: &Path) -> Result<Option<File>> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io("open", path)(error)),
    }
}
