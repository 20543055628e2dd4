//! A database on its way to another content, by SQLite's own backup into the live file.
//!
//! A backup takes the lock on its destination with its first step, before it copies anything. So the
//! first step is made with no pages to copy, from a private database of one empty page. From then on
//! nobody else writes (without a write-ahead log, nobody reads either), until the backup is over:
//! the safety copy is taken meanwhile, the target's pages are put in the place of that one page,
//! and the second step copies them all and commits. SQLite's journal makes that one change: whoever
//! has the database open sees all of it, and a crash leaves the old or the new content.
//!
//! Whether the database has a write-ahead log stays as it is now; one that is absent gets it as it
//! was captured.
//!
//! A backup borrows both connections, so a thread of its own keeps all three.

use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rappel_store::Cancel;
use rappel_store::beneath::NewFile;
use rappel_store::content::ChunkList;
use rappel_store::disk::DiskFile;
use rappel_store::held::{Handle, Hold};
use rappel_store::sink::{Sink, Source};
use rappel_types::Advice;
use rappel_types::database::{DatabasePart, Digest, Ticket};
use rusqlite::backup::{Backup, StepResult};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::pages::{self, Header, Stored};
use super::scratch::Scratch;
use super::snapshot::{Guard, HEADER, MAGIC, Mark, Snapshot, names, peek};
use super::{Database, Way, companions_of, holders};
use crate::databases::{Captured, Error, Restoring, Result, Watch};

/// The page size of a file that has none yet.
const USUAL: u32 = 4096;
/// The counter of the staged pages; that of the one page before is another, by which SQLite sees
/// that they are not the same.
const STAGED: u32 = 2;

pub(super) struct SqliteRestoring {
    database: Database,
    way: Way,
    /// What the safety copy holds.
    captured: Option<Digest>,
    /// Whether what stands in its place is removed before the commit.
    displaced: bool,
    state: State,
}

enum State {
    /// Nothing is held, nothing is staged.
    Idle,
    Held(Box<Held>),
    /// It was absent when it was looked at.
    Absent,
    /// It was absent, and is put together under another name.
    Created(Scratch<NewFile>),
}

/// A database that is held for writing.
struct Held {
    page_size: u32,
    /// What it looked like once it was held.
    mark: Mark,
    // Dropped in this order: the hold outlives the connection.
    holder: Holder,
    snapshot: Snapshot,
    _peeked: Handle,
    _hold: Hold,
    staged: Scratch<DiskFile>,
}

impl SqliteRestoring {
    pub fn new(database: Database, way: Way) -> Self {
        Self { database, way, captured: None, displaced: false, state: State::Idle }
    }

    /// Holds the database, with a backup from pages of `page_size`. `log` says that it shall have a
    /// write-ahead log again afterwards.
    fn hold(&self, page_size: Option<u32>, log: bool) -> Result<Box<Held>> {
        let path = &self.database.path;
        let held = Hold::of(path);
        let (peeked, found) = peek(path, &held)?;
        let page_size = page_size.unwrap_or(if found == 0 { USUAL } else { found });
        let disk = self.way.root.disk();
        let create = |_: &_| DiskFile::create_new(disk, &self.way.staging);
        let staged = self.way.staging()?.begin(create, DiskFile::file)?;
        staged.file.write_at(&empty_page(page_size), 0)?;
        let holder = Holder::start(path, &self.way.staging, self.database.patience, log)?;
        let never = Cancel::default();
        let guard = Guard::Holder(&held);
        let snapshot = Snapshot::take(path, guard, self.database.patience, &never)?;
        // Looked at before the connection was made and after: all three have the same file.
        let same = names(path, &peeked).map_err(unreadable(path))?
            && snapshot.is_at(path).map_err(unreadable(path))?;
        if !same {
            return Err(changed(path));
        }
        let mark = snapshot.mark().map_err(unreadable(path))?;
        Ok(Box::new(Held {
            page_size,
            mark,
            holder,
            snapshot,
            _peeked: peeked,
            _hold: held,
            staged,
        }))
    }

    /// Holds it anew for pages of another size, if it still holds what was captured.
    fn hold_again(&self, held: Box<Held>, page_size: u32) -> Result<Box<Held>> {
        let path = &self.database.path;
        let who = holders::of(path);
        if !who.is_empty() {
            return Err(Error::Refused {
                message: format!(
                    "{} has pages of {} bytes, and had {page_size} then: that cannot change while it is open{who}",
                    path.display(),
                    held.page_size,
                ),
                advice: vec![Advice::plain("close the programs that have it open")],
            });
        }
        drop(held);
        let log = end_log(path, self.database.patience)?;
        let held = self.hold(Some(page_size), log)?;
        let never = Cancel::default();
        let now = pages::take(&held.snapshot, path, None, &ChunkList::default(), &never)?.digest;
        match self.captured.as_ref() == Some(&now) {
            true => Ok(held),
            false => Err(changed(path)),
        }
    }

    /// Nothing may lie beside it that SQLite would take for a part of it.
    fn check_companions(&self) -> Result<()> {
        for path in companions_of(&self.way.path) {
            if self.way.root.stat(&path)?.is_some() {
                return Err(Error::Refused {
                    message: format!(
                        "{} is there without its database, and would be taken for a part of the restored one",
                        self.way.root.display(Some(&path)).display()
                    ),
                    advice: vec![Advice::plain("move it away")],
                });
            }
        }
        Ok(())
    }

    /// Removes the index of a log that is gone. It holds nothing of its own.
    fn remove_index(&self) -> Result<()> {
        for path in companions_of(&self.way.path) {
            if path.as_bytes().ends_with(b"-shm") && self.way.root.stat(&path)?.is_some() {
                self.way.root.unlink(&path)?;
            }
        }
        Ok(())
    }

    /// A program that has the displaced file open would go on to write beside the restored one.
    fn check_unused(&self) -> Result<()> {
        let path = &self.database.path;
        let who = holders::of(path);
        match who.is_empty() {
            true => Ok(()),
            false => Err(Error::Refused {
                message: format!("{} is damaged and cannot be replaced now{who}", path.display()),
                advice: vec![Advice::plain("close the programs that have it open")],
            }),
        }
    }

    fn create(&self, source: &dyn Source, stored: &Stored) -> Result<Scratch<NewFile>> {
        match self.displaced {
            true => self.check_unused()?,
            false => self.check_companions()?,
        }
        let mut above: Vec<_> =
            std::iter::successors(self.way.path.parent(), rappel_types::RelPath::parent).collect();
        while let Some(folder) = above.pop() {
            if self.way.root.stat(&folder)?.is_none() {
                self.way.root.create_dir(&folder, 0o777)?;
            }
        }
        let create = |_: &_| self.way.root.create_file(&self.way.slot, 0o600);
        let mut slot = self.way.slot().begin(create, NewFile::file)?;
        stored.write_to(source, Header { counter: 1, may_have_log: true }, &mut slot.file)?;
        slot.file.set_mode(stored.mode)?;
        slot.file.sync()?;
        Ok(slot)
    }

    fn place(&self, slot: Scratch<NewFile>) -> Result<()> {
        if self.way.root.stat(&self.way.path)?.is_some() {
            return Err(changed(&self.database.path));
        }
        if self.displaced {
            self.remove_index()?;
            self.check_companions()?;
        }
        slot.place(&self.way.path, &self.database.path)
    }

    fn replace(&self, held: &mut Held) -> Result<()> {
        let path = &self.database.path;
        // By its log, SQLite would write into a file that was put in its place meanwhile.
        if !held.snapshot.is_all_at(path).map_err(unreadable(path))?
            || held.snapshot.mark().map_err(unreadable(path))? != held.mark
        {
            return Err(changed(path));
        }
        held.snapshot.release();
        held.holder.commit()?;
        match held.snapshot.is_at(path) {
            Ok(true) => Ok(()),
            _ => Err(Error::Unknown(format!(
                "{} was replaced or removed by somebody in the moment in which it was restored: \
                 what is there now may be theirs, or a mixture",
                path.display()
            ))),
        }
    }
}

impl Restoring for SqliteRestoring {
    fn capture(
        &mut self,
        sink: &dyn Sink,
        prior: Option<&DatabasePart>,
        watch: &Watch<'_>,
    ) -> Result<Captured> {
        // Held once more, if the store could not keep what was read.
        self.state = State::Idle;
        let held = self.hold(None, false);
        if matches!(held, Err(Error::Absent(_))) {
            self.state = State::Absent;
        }
        let held = held?;
        let former = pages::former(sink, prior);
        let part = self.database.part(&held.snapshot, sink, &former, prior, watch.cancel)?;
        self.captured = Some(part.digest.clone());
        self.state = State::Held(held);
        Ok(Captured { part, fingerprint: None })
    }

    fn displace(&mut self) {
        self.state = State::Absent;
        self.displaced = true;
    }

    fn ticket(&self) -> Option<Ticket> {
        None
    }

    fn stage(&mut self, source: &dyn Source, target: &DatabasePart) -> Result<()> {
        let stored = pages::find(source, target)?;
        if stored.size == 0 {
            return Err(Error::Refused {
                message: format!("{} was a file of no bytes", self.database.path.display()),
                advice: vec![Advice::plain("delete the database, if that is what you want")],
            });
        }
        let mut held = match std::mem::replace(&mut self.state, State::Idle) {
            State::Held(held) => held,
            other => {
                // What was staged before goes first.
                drop(other);
                if !self.displaced && self.way.root.stat(&self.way.path)?.is_some() {
                    return Err(changed(&self.database.path));
                }
                self.state = State::Created(self.create(source, &stored)?);
                return Ok(());
            }
        };
        if held.page_size != stored.page_size {
            held = self.hold_again(held, stored.page_size)?;
        }
        let mut out = Appended { file: &held.staged.file, at: 0 };
        stored.write_to(source, Header { counter: STAGED, may_have_log: false }, &mut out)?;
        self.state = State::Held(held);
        Ok(())
    }

    fn commit(&mut self) -> Result<()> {
        match std::mem::replace(&mut self.state, State::Idle) {
            State::Held(mut held) => self.replace(&mut held),
            State::Created(slot) => self.place(slot),
            State::Absent | State::Idle => Err(Error::Conflict("nothing is staged".into())),
        }
    }
}

/// The thread that holds a database, and what it is told.
struct Holder {
    orders: Option<Sender<()>>,
    results: Receiver<Result<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Holder {
    fn start(path: &Path, staged: &Path, limit: Duration, log: bool) -> Result<Self> {
        let (orders, ordered) = channel();
        let (report, results) = channel();
        let (path, staged) = (path.to_owned(), staged.to_owned());
        let thread = std::thread::Builder::new()
            .name("sqlite".into())
            .spawn(move || {
                let done = hold(&path, &staged, limit, &ordered, &report);
                if log {
                    // Without it the database is as good; whoever wants it says so when it opens it.
                    let _ = begin_log(&path, limit);
                }
                // Nobody who listens any more need be told.
                let _ = report.send(done);
            })
            .map_err(|error| Error::Unavailable(format!("cannot start a thread: {error}")))?;
        let holder = Self { orders: Some(orders), results, thread: Some(thread) };
        holder.result()?;
        Ok(holder)
    }

    fn commit(&mut self) -> Result<()> {
        if let Some(orders) = &self.orders {
            let _ = orders.send(());
        }
        self.result()
    }

    fn result(&self) -> Result<()> {
        let ended = || Error::Unavailable("the thread that held the database ended".into());
        self.results.recv().map_err(|_| ended())?
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Holds the database until told to commit, or until nobody can tell any more. Reports once when it
/// is held; what is returned is the end of it.
fn hold(
    path: &Path,
    staged: &Path,
    limit: Duration,
    orders: &Receiver<()>,
    report: &Sender<Result<()>>,
) -> Result<()> {
    let failed = |error| translate(path, &error);
    let flags = OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_READ_ONLY;
    #[expect(clippy::disallowed_methods, reason = "nobody else knows the staged file")]
    let pages = Connection::open_with_flags(staged, flags).map_err(failed)?;
    let mut live = Live::open(path, limit).map_err(failed)?;
    let live = &mut live.connection;
    // Until the commit, closing it changes nothing: a log that belongs to a damaged file is kept.
    let at_end = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
    live.set_db_config(at_end, true).map_err(failed)?;
    // Durable in every mode, with the removal of a journal.
    live.pragma_update(None, "synchronous", "EXTRA").map_err(failed)?;
    {
        let backup = Backup::new(&pages, live).map_err(failed)?;
        match backup.step(0).map_err(failed)? {
            StepResult::More => {}
            StepResult::Busy | StepResult::Locked => return Err(busy(path)),
            _ => return Err(Error::Unavailable("a backup ended before it began".into())),
        }
        let _ = report.send(Ok(()));
        if orders.recv().is_err() {
            return Ok(());
        }
        match backup.step(-1).map_err(failed)? {
            StepResult::Done => {}
            StepResult::Busy | StepResult::Locked => return Err(busy(path)),
            _ => return Err(Error::Unavailable("a backup did not end".into())),
        }
    }
    // It is committed. That a long log is moved into the file is a kindness.
    let _ = live.set_db_config(at_end, false);
    let _ = live.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
    Ok(())
}

/// Ends the write-ahead log of a database that nobody has open, without which its pages can get
/// another size. Whether it had one.
fn end_log(path: &Path, limit: Duration) -> Result<bool> {
    let failed = |error| translate(path, &error);
    let live = Live::open(path, limit).map_err(failed)?;
    let live = &live.connection;
    let mode: String =
        live.query_row("PRAGMA journal_mode", [], |row| row.get(0)).map_err(failed)?;
    let log = mode.eq_ignore_ascii_case("wal");
    if log {
        live.query_row("PRAGMA journal_mode = DELETE", [], |_| Ok(())).map_err(failed)?;
    }
    Ok(log)
}

fn begin_log(path: &Path, limit: Duration) -> rusqlite::Result<()> {
    let live = Live::open(path, limit)?;
    live.connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))
}

/// A connection to a user's database. Nothing else may be: its locks are safe as long as it lives.
struct Live {
    // Dropped in this order.
    connection: Connection,
    _hold: Hold,
}

impl Live {
    fn open(path: &Path, limit: Duration) -> rusqlite::Result<Self> {
        let hold = Hold::of(path);
        let flags = OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_READ_WRITE;
        #[expect(clippy::disallowed_methods, reason = "the one place, and the file is held")]
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(limit)?;
        Ok(Self { connection, _hold: hold })
    }
}

/// Opens the database as anybody would, and so takes back what a crash left half written.
pub(super) fn settle(path: &Path, limit: Duration) -> Result<()> {
    Live::open(path, limit)
        .and_then(|live| live.connection.query_row("PRAGMA user_version", [], |_| Ok(())))
        .map_err(|error| translate(path, &error))
}

fn busy(path: &Path) -> Error {
    Error::Busy(format!("{} is in use{}", path.display(), holders::of(path)))
}

fn changed(path: &Path) -> Error {
    Error::Conflict(format!("{} changed meanwhile; nothing was done to it", path.display()))
}

fn unreadable(path: &Path) -> impl FnOnce(io::Error) -> Error {
    move |error| Error::Unavailable(format!("cannot read {}: {error}", path.display()))
}

fn translate(path: &Path, error: &rusqlite::Error) -> Error {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => busy(path),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            Error::Damaged(format!("{}: {error}", path.display()))
        }
        _ => Error::Unavailable(format!("{}: {error}", path.display())),
    }
}

/// A database without anything in it.
fn empty_page(page_size: u32) -> Vec<u8> {
    let mut page = vec![0; page_size as usize];
    page[..16].copy_from_slice(MAGIC);
    let size = u16::try_from(page_size).unwrap_or(1).to_be_bytes();
    page[16..18].copy_from_slice(&size);
    page[18..24].copy_from_slice(&[1, 1, 0, 64, 32, 32]);
    // One page, schema format 4, UTF-8; the counter and the size agree.
    for (at, value) in [(27, 1), (31, 1), (47, 4), (59, 1), (95, 1)] {
        page[at] = value;
    }
    page[HEADER] = 13;
    let content = if page_size == 65536 { [0, 0] } else { (page_size as u16).to_be_bytes() };
    page[HEADER + 5..HEADER + 7].copy_from_slice(&content);
    page
}

struct Appended<'a> {
    file: &'a DiskFile,
    at: u64,
}

impl io::Write for Appended<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write_at(bytes, self.at).map_err(io::Error::other)?;
        self.at += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
