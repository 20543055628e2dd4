//! Reading a database: `pg_dump`, straight into the store.

use std::collections::BTreeMap;
use std::io::Read;
use std::process::ChildStdout;
use std::time::Duration;

use rappel_store::Cancel;
use rappel_store::sink::Sink;
use rappel_store::threads;
use rappel_types::database::{DatabaseKind, DatabasePart};
use rustix::event::{PollFd, PollFlags, Timespec};

use super::super::dump::{self, Stored};
use super::super::error::{Error, Result};
use super::super::sql::Watch;
use super::session::Session;
use super::{Database, check, definition, left_out, lock, tables};

/// How long `pg_dump` waits for a table that somebody has to himself (a migration under way), in milliseconds.
const LOCK_WAIT: &str = "--lock-wait-timeout=10000";
/// Without it every dump would hold another key. It protects `psql` from commands in a dump, which we refuse ourselves.
const KEY: &str = "--restrict-key=rappel";
/// How many times as long as for an answer is waited for more of a dump: a server may have many tables to look at first.
const LONGER: u32 = 10;

/// Who follows a capture.
#[derive(Clone, Copy, Default)]
pub struct Pace<'a> {
    /// Is told how many bytes have been read, now and then.
    pub progress: Option<&'a (dyn Fn(u64) + Sync)>,
    /// Ends it when set.
    pub cancel: Option<&'a Cancel>,
}

/// How often a dump is made anew because tables were replaced under it.
const ATTEMPTS: usize = 3;

/// Stores what `pg_dump` says. What it leaves out by itself: nothing but roles and tablespaces, which belong to the server.
///
/// `pg_dump` looks first, and then waits for tables that somebody has to himself. What he puts in their place (`TRUNCATE`,
/// `ALTER TABLE`) has no rows for a look that is older: so where a table was replaced, all is read again.
pub fn dump(
    database: &Database,
    sink: &dyn Sink,
    prior: Option<&DatabasePart>,
    pace: &Pace<'_>,
) -> Result<DatabasePart> {
    let mut asked = Asked { database, session: database.connection().take() };
    for _ in 0..ATTEMPTS {
        let before = asked.about(tables::look)?;
        let (part, definition) = std::thread::scope(|scope| {
            let beside =
                threads::beside(scope, || asked.about(definition::read).unwrap_or_default());
            let dumped = match dump_with(&[LOCK_WAIT, KEY], database, sink, prior, pace) {
                // One that does not know the key names it, and has none. To ask for its version first would take as long every time.
                Err(Error::Unavailable(words)) if words.contains("restrict-key") => {
                    dump_with(&[LOCK_WAIT], database, sink, prior, pace)
                }
                other => other,
            };
            (dumped, beside.join().unwrap_or_default())
        });
        let (part, locks) = part?;
        if !tables::is_any_replaced(&before, &asked.about(tables::look)?) {
            return Ok(DatabasePart { definition, ..asked.judged(part, locks) });
        }
    }
    let place = &database.programs.address;
    Err(Error::Busy(format!("{place}: its tables are made anew again and again (by a migration?)")))
}

/// A session beside the dump.
struct Asked<'a> {
    database: &'a Database,
    session: Option<Session>,
}

impl Asked<'_> {
    /// Asks in the session that there is, or if that is over, in a new one.
    fn about<T>(&mut self, question: impl Fn(&mut Session) -> Result<T>) -> Result<T> {
        if let Some(answer) = self.session.as_mut().and_then(|session| question(session).ok()) {
            return Ok(answer);
        }
        question(self.session.insert(Session::open(&self.database.programs)?))
    }

    /// A dump that takes so many locks, with what would be in the way of its restore, and what that leaves out. A server
    /// that does not tell is no reason not to have the dump.
    fn judged(&mut self, part: DatabasePart, locks: u64) -> DatabasePart {
        let obstacle = self.about(|session| check::foreseen(session, locks)).unwrap_or_default();
        let left_out = self.about(|session| Ok(left_out::notes(session)?)).unwrap_or_default();
        let orphans = || self.about(|session| Ok(left_out::orphans(session)?)).unwrap_or_default();
        let flaw = part.flaw.clone().or_else(orphans);
        DatabasePart { obstacle, left_out, flaw, ..part }
    }
}

fn dump_with(
    options: &[&str],
    database: &Database,
    sink: &dyn Sink,
    prior: Option<&DatabasePart>,
    pace: &Pace<'_>,
) -> Result<(DatabasePart, u64)> {
    let programs = &database.programs;
    let mut running = programs.connect("pg_dump", options, &[])?;
    drop(running.stdin.take());
    let Some(stdout) = running.stdout.take() else {
        return Err(Error::Unavailable("pg_dump has no output".to_owned()));
    };
    let patience = programs.silence * LONGER;
    let paced = Paced { stdout, bytes: 0, pace: *pace, patience };
    let mut watched = Watch::new(paced);
    let stored = dump::store(sink, &mut watched, prior.map(Stored::from).as_ref());
    if is_set(pace.cancel) || is_set(Some(&programs.cancel)) {
        running.kill();
        return Err(rappel_store::Error::Cancelled.into());
    }
    let (seen, paced) = watched.finish();
    let stored = match stored {
        Ok(stored) => stored,
        Err(error) => {
            running.kill();
            return Err(if paced.patience.is_zero() { programs.mute(patience) } else { error });
        }
    };
    // A dump that was cut short looks like any other; only the program knows.
    let (status, words) = running.end();
    if !status.is_some_and(|status| status.success()) {
        return Err(match programs.explain("pg_dump", &words) {
            Error::Busy(_) => lock::unreadable(programs),
            other => other,
        });
    }
    let row_counts: BTreeMap<String, u64> =
        seen.tables.into_iter().map(|table| (table.table, table.rows)).collect();
    let flaw = (!seen.is_whole).then(|| {
        "psql does not find the end of a statement in its dump (is a column named begin in the body of a function?)"
            .to_owned()
    });
    let part = DatabasePart {
        name: database.name.clone(),
        kind: DatabaseKind::Postgres,
        tables: row_counts.keys().cloned().collect(),
        row_counts,
        bytes: stored.bytes,
        as_of: None,
        stale: false,
        tree: stored.tree,
        digest: stored.digest,
        location: Some(programs.address.to_string()),
        definition: None,
        obstacle: None,
        flaw,
        left_out: Vec::new(),
    };
    Ok((part, seen.locks))
}

fn is_set(cancel: Option<&Cancel>) -> bool {
    cancel.is_some_and(Cancel::is_cancelled)
}

struct Paced<'a> {
    stdout: ChildStdout,
    bytes: u64,
    pace: Pace<'a>,
    /// How long it may say nothing; zero once it did for so long.
    patience: Duration,
}

impl Paced<'_> {
    /// Waits until there is something to read.
    fn wait(&mut self) -> std::io::Result<()> {
        let mut awaited = [PollFd::new(&self.stdout, PollFlags::IN)];
        let patience = Timespec::try_from(self.patience).ok();
        match rustix::event::poll(&mut awaited, patience.as_ref()) {
            Ok(0) => {
                self.patience = Duration::ZERO;
                Err(std::io::ErrorKind::TimedOut.into())
            }
            Ok(_) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl Read for Paced<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        if is_set(self.pace.cancel) {
            return Err(std::io::Error::other("cancelled"));
        }
        self.wait()?;
        let count = self.stdout.read(out)?;
        self.bytes += count as u64;
        if let Some(progress) = self.pace.progress {
            progress(self.bytes);
        }
        Ok(count)
    }
}
