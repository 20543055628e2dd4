//! Putting a database back, in one transaction that is ours from the first lock to the commit.
//!
//! 1. Begin: all tables are locked against writers, and the transaction gets its id, by which the server can be
//!    asked for its fate after a crash.
//! 2. Capture: `pg_dump` reads what nobody can change now; an inventory of the definitions is taken before.
//! 3. Stage: if definitions or sequences are not what they were before that dump, nothing is done. Else
//!    everything is dropped, and the target's dump is fed to the same `psql`, without its own
//!    transactions and timeouts.
//! 4. Commit.
//!
//! `psql` ends with the first error and when we die, and either way the server rolls back. A superuser also locks the
//! catalogs while staging, so that no definition slips in between the comparison and the drop; others may lose one that is
//! made in those milliseconds.

use std::io::Write;
use std::time::Duration;

use rappel_store::sink::{Sink, Source};
use rappel_types::Advice;
use rappel_types::database::{DatabasePart, Ticket};

use super::super::dump::{self, Stored};
use super::super::error::{Error, Result};
use super::super::sql::Rewriter;
use super::super::{Captured, Fate, Names, Restoring, Watch};
use super::inventory::{self, Inventory};
use super::session::{Failure, Session};
use super::source::watched;
use super::{Database, fate, lock, origin, trusted};

/// How a restore behaves towards others.
#[derive(Debug, Clone)]
pub struct Options {
    /// How long it waits for others to let go of their tables.
    pub lock_timeout: Duration,
    /// Whether it ends the other connections first.
    pub terminate_connections: bool,
    /// Which names without a schema are found.
    pub names: Names,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            lock_timeout: Duration::from_secs(10),
            terminate_connections: false,
            names: Names::OfTheServer,
        }
    }
}

/// A transaction on its way.
#[derive(Debug)]
pub struct Restore {
    database: Database,
    session: Session,
    options: Options,
    superuser: bool,
    ticket: Ticket,
    safety: Option<Inventory>,
}

/// The transaction is one that may write whatever the user's settings are, and takes its time.
const BEGIN: &str = "\
BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
SET LOCAL statement_timeout = 0;
SET LOCAL idle_in_transaction_session_timeout = 0;
SELECT pg_catalog.set_config(name, '0', true) FROM pg_catalog.pg_settings WHERE name = 'transaction_timeout';";

/// Whether something happens whenever somebody connects (since version 17). What it writes to would be locked by us, and our own
/// `pg_dump` would wait for that for ever. Only superusers get here where there are event triggers, and they may connect without.
const FIRES_AT_LOGIN: &str = "\
SELECT EXISTS (SELECT FROM pg_catalog.pg_event_trigger WHERE evtevent = 'login' AND evtenabled <> 'D');";

impl Restore {
    /// Begins: locks everything against writers.
    pub fn begin(database: &Database, options: Options) -> Result<Self> {
        let programs = &database.programs;
        let mut session = Session::open(programs)?;
        if session.value("SELECT pg_catalog.pg_is_in_recovery();")? == "t" {
            return Err(Error::Refused {
                message: format!("{} is a standby, which cannot be written to", programs.address),
                advice: vec![Advice::plain("connect to the primary server")],
            });
        }
        if options.terminate_connections {
            lock::terminate_others(&mut session, options.lock_timeout)?;
        }
        session.ask(BEGIN)?;
        let superuser = lock::is_superuser(&mut session)?;
        let ticket = fate::ticket(&mut session, programs)?;
        let mut database = database.clone();
        if superuser && session.value(FIRES_AT_LOGIN)? == "t" {
            database.programs.address = programs.address.with_option("-c event_triggers=off");
        }
        lock::everything(&mut session, &database.programs, options.lock_timeout)?;
        Ok(Self { database, session, options, superuser, ticket, safety: None })
    }

    /// Nothing was made, changed or dropped since the safety dump.
    fn compare(&mut self) -> Result<()> {
        let Some(safety) = self.safety.clone() else {
            return Err(Error::Conflict("nothing was captured before the restore".to_owned()));
        };
        let now = Inventory::take(&mut self.session)?;
        let difference = safety.difference(&now, &mut self.session)?;
        self.conflict(difference)
    }

    fn conflict(&self, what: Option<String>) -> Result<()> {
        match what {
            Some(what) => Err(Error::Conflict(format!(
                "{} changed during the restore: {what}; nothing was done",
                self.database.programs.address
            ))),
            None => Ok(()),
        }
    }

    /// No definition is made by others from here on.
    fn lock_definitions(&mut self) -> Result<()> {
        let session = &mut self.session;
        if self.superuser {
            let own = session.value("SELECT pg_catalog.pg_backend_pid();")?;
            let catalogs = inventory::catalogs(session)?.into_iter();
            let names: Vec<_> = catalogs.map(|catalog| format!("pg_catalog.{catalog}")).collect();
            session.tell(&format!("LOCK TABLE {} IN SHARE MODE;", names.join(", ")));
            lock::wait(session, &self.database.programs, &own, self.options.lock_timeout)?;
        }
        Ok(())
    }

    /// No sequence moves on from here on, and none has since the safety dump.
    fn lock_sequences(&mut self) -> Result<()> {
        let session = &mut self.session;
        let own = session.value("SELECT pg_catalog.pg_backend_pid();")?;
        // Changes nothing, and takes the lock that it would take to change something.
        session.tell(
            r"SELECT pg_catalog.format('ALTER TABLE %I.%I OWNER TO %I', n.nspname, c.relname, r.rolname)
              FROM pg_catalog.pg_class c
              JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
              JOIN pg_catalog.pg_roles r ON r.oid = c.relowner
              WHERE c.relkind = 'S' AND c.relpersistence <> 't' ORDER BY c.oid \gexec",
        );
        lock::wait(session, &self.database.programs, &own, self.options.lock_timeout)?;
        let now = Inventory::sequences(session)?;
        let moved = self.safety.as_ref().and_then(|safety| safety.moved(&now));
        let what =
            moved.map(|object| inventory::describe(session, "pg_class", object)).transpose()?;
        self.conflict(what.map(|what| format!("{what} moved on")))
    }

    /// Why the dump could not be loaded.
    fn not_loaded(&self, failure: Failure) -> Error {
        let place = &self.database.programs.address;
        let hint = match failure.code.as_deref() {
            _ if failure.is_locked_out() => return lock::not_let_go(&self.database.programs),
            // Nobody but the server knows: it was shut down, or the connection was cut.
            None | Some("57P01" | "57P02" | "57P03") => return failure.into(),
            _ if failure.is_cancelled() => return failure.into(),
            Some("53200") => {
                "raise max_locks_per_transaction in postgresql.conf and restart the server"
            }
            Some("53100") => "free some space on the server's disk",
            Some("42501") => "connect as a superuser",
            Some(code) if MISSING.contains(&code) => match self.options.names {
                Names::OfTheServer => {
                    return Error::NameMissing(format!("{place}: {}", failure.words));
                }
                Names::Trusted => {
                    "it is in no schema of the user's search_path where only the user and superusers may \
                     create objects; let the function that names it set its own search_path \
                     (ALTER FUNCTION … SET search_path), or revoke CREATE on the schema"
                }
            },
            Some(_) => "nothing was changed; the message above is the server's",
        };
        Error::Refused {
            message: format!("{place}: the dump could not be loaded: {}", failure.words),
            advice: vec![Advice::plain(hint)],
        }
    }

    fn load(&mut self, source: &dyn Source, target: &DatabasePart) -> Result<()> {
        let path = match self.options.names {
            Names::OfTheServer => Vec::new(),
            Names::Trusted => trusted::path(&mut self.session, source, target)?,
        };
        self.session.ask(LOADING)?;
        if let Err(error) = feed(&mut self.session, source, target, &path) {
            // What psql says comes first: it is why it stopped listening.
            return Err(match self.session.broken() {
                Some(failure) => self.not_loaded(failure),
                None => error,
            });
        }
        let settled = self.session.ask_long(LOADED);
        settled.map(drop).map_err(|failure| self.not_loaded(failure))
    }
}

/// The errors of a name that was not found: of a function or operator, a table, any other object, a schema.
const MISSING: [&str; 4] = ["42883", "42P01", "42704", "3F000"];

/// A dump is read as it was written: with no schema but the server's own, so that no function of the same name takes
/// the place of the one that is meant, and with values as the server writes them. All of it ends with the transaction.
const LOADING: &str = "\
SET LOCAL search_path = '';
SET LOCAL array_nulls = on;
SET LOCAL transform_null_equals = off;
\\o /dev/null";

/// What was deferred is decided now, so that the commit has nothing left to fail by.
const LOADED: &str = "\\o\nSET LOCAL client_encoding = 'UTF8';\nSET CONSTRAINTS ALL IMMEDIATE;";

/// Writes a dump to a session, as far as that listens. What its functions call is looked for in the schemas of `path`.
fn feed(
    session: &mut Session,
    source: &dyn Source,
    target: &DatabasePart,
    path: &[String],
) -> Result<()> {
    let rewriter = Rewriter::new(session.input()).with_path(path);
    rewritten(source, target, rewriter).map(drop)
}

/// Passes a dump through a rewriter, and gives back where it went.
pub(super) fn rewritten<W: Write>(
    source: &dyn Source,
    target: &DatabasePart,
    rewriter: Rewriter<W>,
) -> Result<W> {
    let mut feed = Feed { rewriter, refused: None };
    let fed = dump::write_to(source, &Stored::from(target), &mut feed);
    match feed.refused {
        Some(error) => Err(error),
        None => fed.and_then(|()| feed.rewriter.finish()),
    }
}

/// A dump on its way through the rewriter, which has its own reasons to stop.
struct Feed<W> {
    rewriter: Rewriter<W>,
    refused: Option<Error>,
}

impl<W: Write> Write for Feed<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self.rewriter.feed(bytes) {
            Ok(()) => Ok(bytes.len()),
            Err(error) => {
                self.refused = Some(error);
                Err(std::io::ErrorKind::BrokenPipe.into())
            }
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Restoring for Restore {
    fn capture(
        &mut self,
        sink: &dyn Sink,
        prior: Option<&DatabasePart>,
        watch: &Watch<'_>,
    ) -> Result<Captured> {
        self.safety = Some(Inventory::take(&mut self.session)?);
        let part = watched(watch, |pace| super::capture::dump(&self.database, sink, prior, pace))?;
        // Our own transaction would be part of it.
        Ok(Captured { part, fingerprint: None })
    }

    fn ticket(&self) -> Option<Ticket> {
        Some(self.ticket.clone())
    }

    fn stage(&mut self, source: &dyn Source, target: &DatabasePart) -> Result<()> {
        self.lock_definitions()?;
        self.compare()?;
        if self.superuser {
            self.session.ask("SET LOCAL session_replication_role = replica;")?;
        }
        self.session.ask(include_str!("event_triggers.sql"))?;
        self.lock_sequences()?;
        let old = origin::of(source, target).is_some_and(|version| version.major < 15);
        let clear = format!("\\set dump_before_15 {old}\n{}", include_str!("clear.sql"));
        let cleared = self.session.ask_long(&clear);
        cleared.map_err(|failure| self.not_loaded(failure))?;
        self.load(source, target)
    }

    fn commit(&mut self) -> Result<()> {
        self.session.see_through();
        let still = self.session.ask("SELECT pg_catalog.pg_current_xact_id_if_assigned();")?;
        if still.first() != Some(&self.ticket.transaction) {
            self.session.kill();
            return Err(Error::Conflict(
                "the dump ended the transaction it was loaded in".to_owned(),
            ));
        }
        let Err(failure) = self.session.ask("COMMIT;") else { return Ok(()) };
        match fate::of(&self.database.programs, &self.ticket) {
            Ok(Fate::Committed) => Ok(()),
            Ok(Fate::Aborted) => Err(self.not_loaded(failure)),
            Ok(Fate::Unknown) | Err(_) => Err(Error::Unknown(format!(
                "{}: the connection was lost during the commit: {}",
                self.database.programs.address, failure.words
            ))),
        }
    }
}
