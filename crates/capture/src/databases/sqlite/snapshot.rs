//! One moment of a database, held still while it is read.
//!
//! The database file and its write-ahead log are read as they lie there, under the locks that
//! SQLite's own readers take, and nothing is written: no `-wal` or `-shm` appears, no log is moved
//! into the database, no stamp moves. What keeps the moment still:
//!
//! - A shared lock on the database file. Without a log nobody writes to the file then; with one
//!   nobody leaves that mode or removes the log.
//! - With a log, a shared lock on the byte of `-shm` that stands for moving pages into the database.
//!   Without such moves the file does not change, and frames of the log that are not moved yet are
//!   not overwritten; writers append behind them and are not held up.
//! - Where there is no `-shm`, nobody has the database open. Should somebody open it meanwhile, a
//!   `-shm` appears and stays (removing it needs the lock that is held): [`Snapshot::still`]
//!   sees that, and the moment is looked for again.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use rappel_store::Cancel;
use rappel_store::held::{Handle, Hold};
use rappel_store::lock::Patience;

use super::companion;
use super::holders;
use super::locks;
use super::wal::{self, Frames, Index, Moved};
use crate::databases::{Error, Result};

/// What every database begins with.
pub(crate) const MAGIC: &[u8; 16] = b"SQLite format 3\0";
/// Length of the header at the beginning of page 1.
pub(crate) const HEADER: usize = 100;
/// How often a moment is looked for while others open and close the database.
const TRIES: usize = 20;

/// Who keeps writers away while a snapshot is read.
#[derive(Debug, Clone, Copy)]
pub(super) enum Guard<'a> {
    /// The snapshot itself.
    Own,
    /// The restore that holds the database for writing.
    Holder(&'a Hold),
}

impl Guard<'_> {
    fn is_own(self) -> bool {
        matches!(self, Guard::Own)
    }

    fn open(self, path: &Path) -> io::Result<Option<Handle>> {
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        let mut options = File::options();
        options.read(true).custom_flags(flags.bits() as i32);
        let opened = match self {
            Guard::Own => Handle::open(&options, path),
            Guard::Holder(hold) => hold.open(&options, path),
        };
        match opened {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            other => other.map(Some),
        }
    }
}

/// One moment of a database.
#[derive(Debug)]
pub(super) struct Snapshot {
    main: Handle,
    wal: Option<Handle>,
    shm: Option<Handle>,
    frames: Frames,
    length: u64,
    /// Bytes in a page; 0 in a file of no bytes.
    pub page_size: u32,
    /// How many pages there are.
    pub pages: u32,
    /// Bytes at the end of each page that are not SQLite's.
    pub reserved: u8,
    /// How texts are encoded, as the header has it.
    pub encoding: u32,
}

/// What a snapshot looked like, to see whether anybody committed since.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mark {
    header: Vec<u8>,
    length: u64,
    index: Option<Index>,
}

/// Whether `path` is a name of `file`.
pub(super) fn names(path: &Path, file: &File) -> io::Result<bool> {
    let named = match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        other => other?,
    };
    let held = file.metadata()?;
    Ok((named.dev(), named.ino()) == (held.dev(), held.ino()))
}

fn unreadable(path: &Path) -> impl FnOnce(io::Error) -> Error {
    move |error| {
        let message = format!("cannot read {}: {error}", path.display());
        match error.kind() {
            io::ErrorKind::ResourceBusy => Error::Busy(message),
            _ => Error::Unavailable(message),
        }
    }
}

/// What a damaged database is told by.
pub(super) fn damaged(path: &Path, what: &str) -> Error {
    Error::Damaged(format!(
        "{} is a damaged SQLite database: {what}. PRAGMA integrity_check tells more",
        path.display()
    ))
}

impl Snapshot {
    /// Waits for a moment in which nobody writes. `limit` is how long.
    pub fn take(path: &Path, guard: Guard<'_>, limit: Duration, cancel: &Cancel) -> Result<Self> {
        for _ in 0..TRIES {
            if cancel.is_cancelled() {
                return Err(rappel_store::Error::Cancelled.into());
            }
            if let Ok(snapshot) = Self::attempt(path, guard, limit, cancel)? {
                return Ok(snapshot);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Err(Error::Busy(format!("{} does not stand still{}", path.display(), holders::of(path))))
    }

    fn attempt(
        path: &Path,
        guard: Guard<'_>,
        limit: Duration,
        cancel: &Cancel,
    ) -> Result<Result<Self, Moved>> {
        let main = open_when_free(path, guard, limit, cancel)?.ok_or_else(|| absent(path))?;
        let meta = main.metadata().map_err(unreadable(path))?;
        if !meta.is_file() {
            return Err(Error::Unavailable(format!("{} is not a regular file", path.display())));
        }
        // From here on, what is locked is let go with this.
        let mut snapshot = Self {
            main,
            wal: None,
            shm: None,
            frames: Frames::default(),
            length: 0,
            page_size: 0,
            pages: 0,
            reserved: 0,
            encoding: 1,
        };
        let main = &snapshot.main;
        if guard.is_own() {
            wait(path, limit, cancel, || {
                let taken =
                    locks::share(main, locks::PENDING)? && locks::share(main, locks::SHARED)?;
                locks::release(main, locks::PENDING)?;
                Ok(taken)
            })?;
        }
        let mut header = [0; HEADER];
        let length = main.metadata().map_err(unreadable(path))?.len();
        if !names(path, main).map_err(unreadable(path))? {
            return Ok(Err(Moved));
        }
        if length == 0 {
            refuse_log_of_nothing(main, path, guard)?;
            return Ok(Ok(snapshot));
        }
        if length < HEADER as u64 {
            return Err(no_database(path));
        }
        main.read_exact_at(&mut header, 0).map_err(unreadable(path))?;
        let page_size = page_size(&header).ok_or_else(|| match header.starts_with(MAGIC) {
            true => damaged(path, "its page size is none"),
            false => no_database(path),
        })?;
        if guard.is_own() && is_hot(main, path).map_err(unreadable(path))? {
            return Err(Error::Unavailable(format!(
                "a program stopped in the middle of a transaction on {}, and left a -journal that says how to take it back: \
                 open the database once, with that program or with sqlite3, and it is whole again",
                path.display()
            )));
        }
        snapshot.length = length;
        snapshot.page_size = page_size;
        snapshot.wal = guard.open(&companion(path, "-wal")).map_err(unreadable(path))?;
        snapshot.shm = match guard.open(&companion(path, "-shm")) {
            // A restore of this process took the database meanwhile: its end is waited for.
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => return Ok(Err(Moved)),
            other => other.map_err(unreadable(path))?,
        };
        if snapshot.find_frames(path, limit, cancel)?.is_err() {
            return Ok(Err(Moved));
        }
        // The length is known for sure only now that nobody moves pages.
        snapshot.length = snapshot.main.metadata().map_err(unreadable(path))?.len();
        let mut first = vec![0; page_size as usize];
        snapshot.pages = 1;
        snapshot.read(path, 1, &mut first)?;
        if !first.starts_with(MAGIC) || self::page_size(&first) != Some(page_size) {
            return Err(damaged(path, "its header is none"));
        }
        let number = |at: usize| {
            first.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_be_bytes)
        };
        let there = u32::try_from(snapshot.length / u64::from(page_size)).unwrap_or(u32::MAX);
        let said = Some(number(28)).filter(|&said| said != 0 && number(24) == number(92));
        snapshot.pages = snapshot.frames.pages.or(said).unwrap_or(there);
        snapshot.reserved = first[20];
        snapshot.encoding = number(56);
        Ok(Ok(snapshot))
    }

    fn find_frames(
        &mut self,
        path: &Path,
        limit: Duration,
        cancel: &Cancel,
    ) -> Result<Result<(), Moved>> {
        let mut index = None;
        if let Some(shm) = &self.shm {
            wait(path, limit, cancel, || locks::share(shm, locks::CHECKPOINT))?;
            if locks::is_held(shm, locks::CONNECTED).map_err(unreadable(path))? {
                index = Index::read(shm).map_err(unreadable(path))?;
                if index.is_none() {
                    return Ok(Err(Moved));
                }
            }
        }
        let Some(wal) = &self.wal else { return Ok(Ok(())) };
        let found = match &index {
            Some(index) => wal::indexed(wal, index, self.page_size).map_err(unreadable(path))?,
            None => Ok(wal::scanned(wal, self.page_size).map_err(unreadable(path))?),
        };
        Ok(found.map(|frames| self.frames = frames))
    }

    /// Whether what was read since is one moment.
    pub fn still(&self, path: &Path) -> bool {
        let there = |suffix| std::fs::symlink_metadata(companion(path, suffix)).is_ok();
        self.page_size == 0 || self.shm.is_some() || !there("-shm")
    }

    /// Whether `path` still names the database that was opened.
    pub fn is_at(&self, path: &Path) -> io::Result<bool> {
        names(path, &self.main)
    }

    /// The same, with all that SQLite keeps beside it.
    pub fn is_all_at(&self, path: &Path) -> io::Result<bool> {
        let beside = [("-wal", &self.wal), ("-shm", &self.shm)];
        for (suffix, held) in beside {
            if let Some(held) = held
                && !names(&companion(path, suffix), held)?
            {
                return Ok(false);
            }
        }
        self.is_at(path)
    }

    /// Something that differs after any commit, as long as these handles are open.
    pub fn mark(&self) -> io::Result<Mark> {
        let mut header = vec![0; HEADER];
        let length = self.main.metadata()?.len();
        if length > 0 {
            self.main.read_exact_at(&mut header, 0)?;
        }
        let index = self.shm.as_ref().map(|shm| Index::read(shm)).transpose()?.flatten();
        Ok(Mark { header, length, index })
    }

    /// Lets others move pages into the database again. What is read from now on is any moment.
    pub fn release(&self) {
        if let Some(shm) = &self.shm {
            // One that cannot be let go goes with the handle.
            let _ = locks::release(shm, locks::CHECKPOINT);
        }
    }

    /// The permission bits of the database file.
    pub fn mode(&self) -> io::Result<u32> {
        Ok(self.main.metadata()?.mode() & 0o7777)
    }

    /// The page that SQLite's locks lie in; it holds nothing.
    pub fn lock_page(&self) -> u32 {
        match self.page_size {
            0 => 0,
            size => 0x4000_0000 / size + 1,
        }
    }

    /// Reads whole pages from page `first` on.
    pub fn read(&self, path: &Path, first: u32, buffer: &mut [u8]) -> Result<()> {
        let size = self.page_size as usize;
        let start = u64::from(first - 1) * u64::from(self.page_size);
        let there = (self.length.saturating_sub(start)).min(buffer.len() as u64) as usize;
        self.main.read_exact_at(&mut buffer[..there], start).map_err(unreadable(path))?;
        let beyond = there / size;
        if self.frames.places.is_empty() && there == buffer.len() {
            return Ok(());
        }
        for (at, page) in buffer.chunks_exact_mut(size).enumerate() {
            let number = first + at as u32;
            match (&self.wal, self.frames.places.get(&number)) {
                (Some(wal), Some(&place)) => {
                    wal.read_exact_at(page, place).map_err(unreadable(path))?;
                }
                _ if at < beyond => {}
                _ if number == self.lock_page() => page.fill(0),
                _ => return Err(damaged(path, "it ends before its last page")),
            }
        }
        Ok(())
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        // The handles may stay open for longer, in the keeping of a hold. The locks may not: the
        // holder waits for them.
        let _ = locks::release(&self.main, locks::ALL);
        self.release();
    }
}

/// Bytes in a page, as a header has it.
pub(crate) fn page_size(header: &[u8]) -> Option<u32> {
    let size = u32::from(u16::from_be_bytes([*header.get(16)?, *header.get(17)?]));
    let size = if size == 1 { 65536 } else { size };
    let valid = header.starts_with(MAGIC) && size.is_power_of_two() && size >= 512;
    valid.then_some(size)
}

/// Bytes in a page of the database at `path`, without waiting for anybody, and the handle by which
/// that was seen. 0 in a file of no bytes.
pub(super) fn peek(path: &Path, hold: &Hold) -> Result<(Handle, u32)> {
    let opened = Guard::Holder(hold).open(path).map_err(unreadable(path))?;
    let main = opened.ok_or_else(|| absent(path))?;
    if main.metadata().map_err(unreadable(path))?.len() == 0 {
        refuse_log_of_nothing(&main, path, Guard::Holder(hold))?;
        return Ok((main, 0));
    }
    let mut header = [0; HEADER];
    main.read_exact_at(&mut header, 0).map_err(|_| no_database(path))?;
    let size = page_size(&header).ok_or_else(|| no_database(path))?;
    Ok((main, size))
}

/// A file that lost its pages is no empty database: SQLite would delete its log or journal unread.
fn refuse_log_of_nothing(main: &File, path: &Path, guard: Guard<'_>) -> Result<()> {
    let log = guard.open(&companion(path, "-wal")).map_err(unreadable(path))?;
    if log.is_some_and(|log| log.metadata().is_ok_and(|meta| meta.len() > 0)) {
        return Err(damaged(path, "it is empty, and a log (-wal) lies beside it"));
    }
    match is_hot(main, path).map_err(unreadable(path))? {
        true => Err(damaged(path, "it is empty, and a -journal lies beside it")),
        false => Ok(()),
    }
}

pub(super) fn absent(path: &Path) -> Error {
    Error::Absent(format!("{} is not there", path.display()))
}

fn no_database(path: &Path) -> Error {
    Error::Damaged(format!("{} is not a SQLite database, or it is encrypted", path.display()))
}

/// Opens a database. One that a restore of this process holds is waited for, as SQLite's locks make
/// a reader wait for a restore of another process.
fn open_when_free(
    path: &Path,
    guard: Guard<'_>,
    limit: Duration,
    cancel: &Cancel,
) -> Result<Option<Handle>> {
    let mut opened = None;
    wait(path, limit, cancel, || match guard.open(path) {
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => Ok(false),
        other => {
            opened = other?;
            Ok(true)
        }
    })?;
    Ok(opened)
}

/// Whether a transaction was left half written, so that its journal has to be played back first.
fn is_hot(main: &File, path: &Path) -> io::Result<bool> {
    let Some(journal) = Guard::Own.open(&companion(path, "-journal"))? else { return Ok(false) };
    let mut first = [0];
    // One that is over is removed, cut to nothing, or has its header overwritten.
    if journal.read_at(&mut first, 0)? == 0 || first == [0] {
        return Ok(false);
    }
    // One that is still being written belongs to a writer that waits for us.
    if locks::is_held(main, locks::RESERVED)? {
        return Ok(false);
    }
    Ok(true)
}

fn wait(
    path: &Path,
    limit: Duration,
    cancel: &Cancel,
    mut take: impl FnMut() -> io::Result<bool>,
) -> Result<()> {
    let waited = Patience::from(limit).wait(
        || match cancel.is_cancelled() {
            true => Err(rappel_store::Error::Cancelled.into()),
            false => take().map_err(unreadable(path)),
        },
        String::new,
    )?;
    waited.map_err(|_| {
        Error::Busy(format!("{} is being written{}", path.display(), holders::of(path)))
    })
}
