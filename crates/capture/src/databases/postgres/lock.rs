//! Holding a database against writers, in a transaction: all tables, and the list of large objects.
//!
//! `EXCLUSIVE` lets readers pass, `pg_dump` among them. Who cannot have the locks in time is told who
//! has them.

use rappel_types::Advice;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::super::error::{Error, Result};
use super::program::Programs;
use super::session::{Failure, Session, literal};
use super::tables::{self, OURS};

/// Of what belongs to one database: to this one.
const HERE: &str = "database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database())";

/// How long one waits for a table while having others. Shorter than the server waits (a second) before it looks for
/// circles and ends somebody's transaction, which should not be the application's.
const BRIEFLY: Duration = Duration::from_millis(200);

/// Locks everything that can be written to. Applications lock their tables in an order that we do not know: whenever
/// a table is not to be had soon, all are let go, and that one is waited for first.
pub fn everything(session: &mut Session, programs: &Programs, patience: Duration) -> Result<()> {
    let deadline = Instant::now() + patience;
    let own = session.value("SELECT pg_catalog.pg_backend_pid();")?;
    let mut tables = large_objects(session, programs)?;
    tables.extend(list(session)?);
    session.ask("SAVEPOINT nothing_locked;")?;
    loop {
        match in_order(session, programs, &own, &tables, deadline)? {
            // One that was made while we waited is locked in the next round.
            Missed::Nothing => {
                let before = tables.len();
                let new: Vec<_> =
                    list(session)?.into_iter().filter(|table| !tables.contains(table)).collect();
                tables.extend(new);
                if tables.len() == before {
                    break;
                }
            }
            Missed::Table(at, in_the_way) => {
                if Instant::now() >= deadline {
                    let in_the_way = match (in_the_way.is_empty(), tables.get(at)) {
                        (true, Some(table)) => who_has(programs, table).unwrap_or_default(),
                        _ => in_the_way,
                    };
                    return Err(not_in_time(programs, &in_the_way));
                }
                session.ask("ROLLBACK TO SAVEPOINT nothing_locked;")?;
                if let Some(front) = tables.get_mut(..=at) {
                    front.rotate_right(1);
                }
            }
            Missed::Gone(at) => {
                session.ask("ROLLBACK TO SAVEPOINT nothing_locked;")?;
                tables.remove(at);
            }
        }
    }
    session.ask(&format!("SET LOCAL lock_timeout = {};", patience.as_millis().max(1)))?;
    Ok(())
}

enum Missed {
    Nothing,
    /// The table at this place, with who had it.
    Table(usize, Vec<String>),
    /// The table at this place was dropped.
    Gone(usize),
}

fn in_order(
    session: &mut Session,
    programs: &Programs,
    own: &str,
    tables: &[String],
    deadline: Instant,
) -> Result<Missed> {
    for (at, table) in tables.iter().enumerate() {
        let left = deadline.saturating_duration_since(Instant::now());
        let patience = if at == 0 { left } else { left.min(BRIEFLY) };
        session.try_to(&format!(
            "SET LOCAL lock_timeout = {}; LOCK TABLE {table} IN EXCLUSIVE MODE;",
            patience.as_millis().max(1)
        ));
        let mut in_the_way = Vec::new();
        let mut heard = session.hear(Some(patience * 4 / 5))?;
        if heard.is_none() {
            in_the_way = who_blocks(programs, own).unwrap_or_default();
            heard = Some(session.answer(patience)?);
        }
        match heard.unwrap_or_default().last().map(String::as_str) {
            Some("00000") => {}
            Some("55P03" | "40P01") => return Ok(Missed::Table(at, in_the_way)),
            Some("42P01" | "3F000") => return Ok(Missed::Gone(at)),
            Some("42501") => {
                return Err(Error::Refused {
                    message: format!("the user may not lock {}", table.trim_start_matches("ONLY ")),
                    advice: vec![Advice::plain(
                        "connect as the owner of everything in the database",
                    )],
                });
            }
            other => {
                let code = other.unwrap_or_default();
                return Err(Error::Unavailable(format!("{table} cannot be locked (error {code})")));
            }
        }
    }
    Ok(Missed::Nothing)
}

fn list(session: &mut Session) -> Result<Vec<String>, Failure> {
    let text = |row: Vec<Value>| row.first()?.as_str().map(str::to_owned);
    let tables = session.rows(&format!(
        "SELECT pg_catalog.json_build_array(pg_catalog.format('ONLY %I.%I', n.nspname, c.relname)) {} ORDER BY c.oid;",
        tables::of_users()
    ))?;
    Ok(tables.into_iter().filter_map(text).collect())
}

/// Where large objects are listed, which only a superuser may lock. Without any there is nothing to lose. Where their bytes
/// are must be left open: `pg_dump` opens them as if to write. Whether somebody else did is seen by the inventory.
fn large_objects(session: &mut Session, programs: &Programs) -> Result<Vec<String>> {
    if is_superuser(session)? {
        return Ok(vec!["pg_catalog.pg_largeobject_metadata".to_owned()]);
    }
    let any = session.value("SELECT EXISTS (SELECT FROM pg_catalog.pg_largeobject_metadata);")?;
    if any == "t" {
        return Err(Error::Refused {
            message: format!("{} has large objects, which its user may not lock", programs.address),
            advice: vec![Advice::plain("connect as a superuser")],
        });
    }
    Ok(Vec::new())
}

/// Whether the session's user may do anything.
pub fn is_superuser(session: &mut Session) -> Result<bool, Failure> {
    Ok(session.value("SELECT pg_catalog.current_setting('is_superuser');")? == "on")
}

/// Waits for what was told last; asks who is in the way if that takes most of the time there is.
pub fn wait(
    session: &mut Session,
    programs: &Programs,
    own: &str,
    patience: Duration,
) -> Result<()> {
    let in_the_way = match session.hear(Some(patience * 4 / 5)) {
        Ok(Some(_)) => return Ok(()),
        Ok(None) => who_blocks(programs, own).unwrap_or_default(),
        Err(failure) => return Err(busy(programs, failure, &[])),
    };
    match session.answer(patience) {
        Ok(_) => Ok(()),
        Err(failure) => Err(busy(programs, failure, &in_the_way)),
    }
}

fn busy(programs: &Programs, failure: Failure, in_the_way: &[String]) -> Error {
    if failure.is_locked_out() { not_in_time(programs, in_the_way) } else { failure.into() }
}

fn not_in_time(programs: &Programs, in_the_way: &[String]) -> Error {
    let mut message = format!("{}: its tables could not be locked in time", programs.address);
    if !in_the_way.is_empty() {
        let _ = write!(message, "; held by {}", in_the_way.join(", "));
    }
    Error::Busy(message)
}

/// What there is to say when a table could not be dropped in time: who still uses any, be it to read.
pub fn not_let_go(programs: &Programs) -> Error {
    let users = format!(
        "SELECT DISTINCT COALESCE(pid, 0) FROM pg_catalog.pg_locks
           JOIN pg_catalog.pg_class c ON c.oid = relation JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
         WHERE granted AND {OURS} AND {HERE}"
    );
    not_in_time(programs, &who(programs, &users).unwrap_or_default())
}

/// What there is to say when a table could not even be read in time: who has it to himself.
pub fn unreadable(programs: &Programs) -> Error {
    let in_the_way = who(
        programs,
        &format!(
            "SELECT DISTINCT COALESCE(pid, 0) FROM pg_catalog.pg_locks
             WHERE granted AND locktype = 'relation' AND mode = 'AccessExclusiveLock' AND {HERE}"
        ),
    );
    let mut message = format!("{}: another program locks a table", programs.address);
    if let Ok(named @ [_, ..]) = in_the_way.as_deref() {
        let _ = write!(message, ": {}", named.join(", "));
    }
    Error::Busy(message)
}

/// Who keeps the session with this process id waiting, for people.
fn who_blocks(programs: &Programs, own: &str) -> Result<Vec<String>> {
    who(programs, &format!("SELECT DISTINCT pg_catalog.unnest(pg_catalog.pg_blocking_pids({own}))"))
}

/// Who has a table so that it cannot be locked, for people.
fn who_has(programs: &Programs, table: &str) -> Result<Vec<String>> {
    let table = literal(table.trim_start_matches("ONLY "));
    who(
        programs,
        &format!(
            "SELECT DISTINCT COALESCE(pid, 0) FROM pg_catalog.pg_locks
             WHERE granted AND relation = {table}::regclass AND mode <> 'AccessShareLock' AND {HERE}"
        ),
    )
}

fn who(programs: &Programs, processes: &str) -> Result<Vec<String>> {
    let mut other = Session::open(programs)?;
    let rows = other.rows(&format!(
        "SELECT pg_catalog.json_build_array(b.pid::text, a.application_name, a.usename,
           pg_catalog.to_char(a.query_start, 'YYYY-MM-DD HH24:MI:SS TZ'), a.state)
         FROM ({processes}) b (pid) LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid = b.pid ORDER BY b.pid;"
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
        "SELECT pid FROM pg_catalog.pg_stat_activity
         WHERE CASE WHEN datname = pg_catalog.current_database() AND pid <> pg_catalog.pg_backend_pid()
                      AND backend_type = 'client backend'
               THEN pg_catalog.pg_terminate_backend(pid) END;",
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
