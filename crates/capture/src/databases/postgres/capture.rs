//! Reading a database: `pg_dump`, straight into the store.

use std::collections::BTreeMap;
use std::io::Read;
use std::process::ChildStdout;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rappel_store::sink::Sink;
use rappel_types::database::{DatabaseKind, DatabasePart};

use super::super::dump::{self, Stored};
use super::super::error::{Error, Result};
use super::super::sql::Watch;
use super::Database;

/// How long `pg_dump` waits for a table that somebody has to himself (a migration under way), in milliseconds.
const LOCK_WAIT: &str = "--lock-wait-timeout=10000";
/// Without it every dump would hold another key. It protects `psql` from commands in a dump, which we refuse ourselves.
const KEY: &str = "--restrict-key=rappel";
/// How much of its output may wait to be read.
#[cfg(target_os = "linux")]
const PIPE: usize = 1 << 20;
/// How far behind it in the order of processes we are.
#[cfg(target_os = "linux")]
const BEHIND: i32 = 5;
/// How long it is left alone; a server that fills the pipe in less is not known.
const MOMENT: Duration = Duration::from_millis(1);
/// The output of a small database is taken as it comes.
const SMALL: u64 = 1 << 20;

/// Who follows a capture.
#[derive(Clone, Copy, Default)]
pub struct Pace<'a> {
    /// Is told how many bytes have been read, now and then.
    pub progress: Option<&'a (dyn Fn(u64) + Sync)>,
    /// Ends it when set.
    pub cancel: Option<&'a AtomicBool>,
}

/// Stores what `pg_dump` says. What it leaves out by itself: nothing but roles and tablespaces, which belong to the server.
pub fn dump(
    database: &Database,
    sink: &dyn Sink,
    prior: Option<&DatabasePart>,
    pace: &Pace<'_>,
) -> Result<DatabasePart> {
    match dump_with(&[LOCK_WAIT, KEY], database, sink, prior, pace) {
        // One that does not know the key names it, and has none. To ask for its version first would take as long every time.
        Err(Error::Unavailable(words)) if words.contains("restrict-key") => {
            dump_with(&[LOCK_WAIT], database, sink, prior, pace)
        }
        other => other,
    }
}

fn dump_with(
    options: &[&str],
    database: &Database,
    sink: &dyn Sink,
    prior: Option<&DatabasePart>,
    pace: &Pace<'_>,
) -> Result<DatabasePart> {
    let programs = &database.programs;
    let mut running = programs.connect("pg_dump", options, &[])?;
    drop(running.stdin.take());
    let Some(stdout) = running.stdout.take() else {
        return Err(Error::Unavailable("pg_dump has no output".to_owned()));
    };
    let roomy = widen(&stdout);
    let mut watched = Watch::new(Paced { inner: stdout, bytes: 0, roomy, pace: *pace });
    let prior = prior.map(Stored::from);
    let stored = std::thread::scope(|scope| {
        let storing = scope.spawn(|| {
            step_back();
            dump::store(sink, &mut watched, prior.as_ref())
        });
        storing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    if is_set(pace.cancel) {
        running.kill();
        return Err(Error::Unavailable("the capture was cancelled".to_owned()));
    }
    let stored = match stored {
        Ok(stored) => stored,
        Err(error) => {
            running.kill();
            return Err(error);
        }
    };
    let (tables, _) = watched.finish();
    // A dump that was cut short looks like any other; only the program knows.
    let (status, words) = running.end();
    if !status.is_some_and(|status| status.success()) {
        return Err(programs.explain("pg_dump", &words));
    }
    let row_counts: BTreeMap<String, u64> =
        tables.into_iter().map(|table| (table.table, table.rows)).collect();
    Ok(DatabasePart {
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
    })
}

/// Gives its output more room; says whether that was possible.
fn widen(stdout: &ChildStdout) -> bool {
    #[cfg(target_os = "linux")]
    return rustix::pipe::fcntl_setpipe_size(stdout, PIPE).is_ok();
    #[cfg(not(target_os = "linux"))]
    return false;
}

/// Lets `pg_dump` go first from here on, wherever this thread and those that it starts compete with it: while it waits, the server
/// waits too, and nothing else is as slow.
fn step_back() {
    // Elsewhere this would be about the whole process.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::setpriority_process(None, BEHIND);
}

fn is_set(flag: Option<&AtomicBool>) -> bool {
    flag.is_some_and(|flag| flag.load(Ordering::Relaxed))
}

/// The output of a program, in large pieces. One that writes little at a time would wake us for each of them, which on a
/// machine with few cores takes more from it than what is done with them; so it is left alone for a moment now and then.
struct Paced<'a, R> {
    inner: R,
    bytes: u64,
    /// Whether what it writes meanwhile has a place.
    roomy: bool,
    pace: Pace<'a>,
}

impl<R: Read> Read for Paced<'_, R> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let mut filled = 0;
        while filled < out.len() {
            if is_set(self.pace.cancel) {
                return Err(std::io::Error::other("cancelled"));
            }
            match self.inner.read(&mut out[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            if self.roomy && filled < out.len() && self.bytes + filled as u64 > SMALL {
                std::thread::sleep(MOMENT);
            }
        }
        self.bytes += filled as u64;
        if let Some(progress) = self.pace.progress {
            progress(self.bytes);
        }
        Ok(filled)
    }
}
