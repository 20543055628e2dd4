//! Holding a database against writers, in a transaction: all tables, and the list of large objects.
//!
//! `EXCLUSIVE` lets readers pass, `pg_dump` among them. Who cannot have the locks in time is told who
//! has them.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::super::error::{Error, Result};
use super::program::Programs;
use super::session::{Failure, Session};

/// Tables of the users. Foreign tables cannot be locked, and hold nothing here.
const TABLES: &str = "c.relkind IN ('r', 'p') AND c.relpersistence <> 't' \
                      AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'";

/// Locks everything that can be written to.
pub fn everything(session: &mut Session, programs: &Programs, patience: Duration) -> Result<()> {
    let milliseconds = patience.as_millis().max(1);
    session.ask(&format!("SET LOCAL statement_timeout = {milliseconds};"))?;
    let own = session.value("SELECT pg_catalog.pg_backend_pid();")?;
    let mut locked = 0;
    // A table that is made while we wait is found in the next round.
    loop {
        let count = session.value(&format!(
            "SELECT pg_catalog.count(*) FROM pg_catalog.pg_class c \
             JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE {TABLES};"
        ))?;
        let count: usize = count.parse().unwrap_or_default();
        if count == locked {
            break;
        }
        locked = count;
        session.tell(&format!(
            r"SELECT 'LOCK TABLE ' || pg_catalog.string_agg(pg_catalog.format('ONLY %I.%I', n.nspname, c.relname), ', ' ORDER BY c.oid)
                || ' IN EXCLUSIVE MODE'
              FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE {TABLES}
              HAVING pg_catalog.count(*) > 0 \gexec"
        ));
        wait(session, programs, &own, patience)?;
    }
    large_objects(session, programs, &own, patience)?;
    session.ask("SET LOCAL statement_timeout = 0;")?;
    Ok(())
}

/// Only a superuser may lock where large objects are kept. Without any there is nothing to lose.
fn large_objects(
    session: &mut Session,
    programs: &Programs,
    own: &str,
    patience: Duration,
) -> Result<()> {
    if is_superuser(session)? {
        // Where their bytes are must be left open: pg_dump opens them as if to write. Whether somebody
        // else did is seen by the inventory.
        session.tell("LOCK TABLE pg_catalog.pg_largeobject_metadata IN EXCLUSIVE MODE;");
        return wait(session, programs, own, patience);
    }
    let any = session.value("SELECT EXISTS (SELECT FROM pg_catalog.pg_largeobject_metadata);")?;
    if any == "t" {
        return Err(Error::Refused {
            message: format!("{} has large objects, which its user may not lock", programs.address),
            hint: Some("connect as a superuser".to_owned()),
        });
    }
    Ok(())
}

/// Whether the session's user may do anything.
pub fn is_superuser(session: &mut Session) -> Result<bool, Failure> {
    Ok(session.value("SELECT pg_catalog.current_setting('is_superuser');")? == "on")
}

/// Waits for what was told last; asks who is in the way if that takes most of the time there is.
pub fn wait(session: &mut Session, programs: &Programs, own: &str, patience: Duration) -> Result<()> {
    let in_the_way = match session.hear(Some(patience * 4 / 5)) {
        Ok(Some(_)) => return Ok(()),
        Ok(None) => who_blocks(programs, own).unwrap_or_default(),
        Err(failure) => return Err(busy(programs, failure, &[])),
    };
    match session.hear(None) {
        Ok(_) => Ok(()),
        Err(failure) => Err(busy(programs, failure, &in_the_way)),
    }
}

fn busy(programs: &Programs, failure: Failure, in_the_way: &[String]) -> Error {
    if !failure.is_locked_out() {
        return failure.into();
    }
    let mut message = format!("{}: its tables could not be locked in time", programs.address);
    if failure.is("40P01") {
        message = format!("{}: its tables could not be locked, two waited for each other", programs.address);
    }
    if !in_the_way.is_empty() {
        let _ = write!(message, "; held by {}", in_the_way.join(", "));
    }
    Error::Busy(message)
}

/// Who keeps the session with this process id waiting, for people.
fn who_blocks(programs: &Programs, own: &str) -> Result<Vec<String>> {
    let mut other = Session::open(programs)?;
    let rows = other.rows(&format!(
        "SELECT pg_catalog.json_build_array(b.pid::text, a.application_name, a.usename,
           pg_catalog.to_char(a.query_start, 'YYYY-MM-DD HH24:MI:SS TZ'), a.state)
         FROM (SELECT DISTINCT pg_catalog.unnest(pg_catalog.pg_blocking_pids({own}))) b (pid)
         LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid = b.pid ORDER BY b.pid;"
    ))?;
    let mut named = Vec::new();
    for row in rows {
        let word = |at: usize| row.get(at).and_then(Value::as_str).unwrap_or_default();
        if word(0) == "0" {
            named.push("a prepared transaction (see pg_prepared_xacts)".to_owned());
            continue;
        }
        let mut text = format!("pid {}", word(0));
        for (at, before) in [(1, "application "), (2, "user "), (3, "query started "), (4, "")] {
            if !word(at).is_empty() {
                let _ = write!(text, ", {before}{}", word(at));
            }
        }
        named.push(format!("({text})"));
    }
    Ok(named)
}

/// Ends all other connections to the database, and waits until they are gone. Not to be called in a
/// transaction: the server would show the same connections for as long as it lasts.
pub fn terminate_others(session: &mut Session, patience: Duration) -> Result<(), Failure> {
    let told = session.ask(
        "SELECT pid FROM pg_catalog.pg_stat_activity WHERE datname = pg_catalog.current_database() \
         AND pid <> pg_catalog.pg_backend_pid() AND backend_type = 'client backend' \
         AND pg_catalog.pg_terminate_backend(pid);",
    )?;
    if told.is_empty() {
        return Ok(());
    }
    let left = format!(
        "SELECT pg_catalog.count(*) FROM pg_catalog.pg_stat_activity WHERE pid IN ({});",
        told.join(", ")
    );
    let ended = Instant::now() + patience;
    while session.value(&left)? != "0" && Instant::now() < ended {
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}
