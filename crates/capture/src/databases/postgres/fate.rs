//! What became of a transaction whose end nobody saw: the server knows.

use std::time::{Duration, Instant};

use rappel_types::database::Ticket;

use super::super::Fate;
use super::super::error::Result;
use super::program::Programs;
use super::session::{Failure, Session, literal};

/// A server's own identity, and that of the database in it.
pub const IDENTITY: &str = "\
SELECT pg_catalog.concat((SELECT system_identifier FROM pg_catalog.pg_control_system()), '/', oid)
FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database();";

/// Leaves a trace in the server's log under the id of the transaction.
const TRACE: &str = "SELECT pg_catalog.pg_logical_emit_message(true, 'rappel', 'restore');";

/// A ticket for the transaction that the session is in. After a crash the server would give away again an id of which its
/// log does not know: so a trace of it is written there, and the log made durable by a commit beside it.
pub fn ticket(session: &mut Session, programs: &Programs) -> Result<Ticket> {
    let server = session.value(IDENTITY)?;
    let transaction = session.value("SELECT pg_catalog.pg_current_xact_id();")?;
    session.ask(TRACE)?;
    Session::open(programs)?.ask(&format!("SET LOCAL synchronous_commit = on\\; {TRACE}"))?;
    Ok(Ticket { server, transaction })
}

/// How long a transaction whose client is gone may go on before it is ended, and then until it must be.
const PATIENCE: Duration = Duration::from_secs(5);

/// What became of the ticket's transaction. One that still runs has lost its client: it is ended.
pub fn of(programs: &Programs, ticket: &Ticket) -> Result<Fate> {
    let mut session = Session::open(programs)?;
    if session.value(IDENTITY)? != ticket.server {
        return Ok(Fate::Unknown);
    }
    let asked =
        format!("SELECT pg_catalog.pg_xact_status({}::xid8);", literal(&ticket.transaction));
    let begun = Instant::now();
    let mut told = false;
    loop {
        match session.value(&asked) {
            Ok(status) if status == "committed" => return Ok(Fate::Committed),
            Ok(status) if status == "aborted" => return Ok(Fate::Aborted),
            Ok(status) if status == "in progress" => {}
            // Too long ago to be known, or not yet: then the server was set back.
            Ok(_) | Err(Failure { code: Some(_), .. }) => return Ok(Fate::Unknown),
            Err(failure) => return Err(failure.into()),
        }
        if begun.elapsed() > PATIENCE * 2 {
            return Ok(Fate::Unknown);
        }
        if begun.elapsed() > PATIENCE && !told {
            told = true;
            session.ask(&format!(
                "SELECT pg_catalog.pg_terminate_backend(pid) FROM pg_catalog.pg_stat_activity \
                 WHERE backend_xid = {}::xid8::xid;",
                literal(&ticket.transaction)
            ))?;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
