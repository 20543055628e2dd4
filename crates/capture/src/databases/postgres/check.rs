//! What stands in the way of a restore, asked before anything is done.

use std::collections::BTreeSet;

use rappel_store::sink::Source;
use rappel_types::Advice;
use rappel_types::database::DatabasePart;

use super::super::error::{Error, Result};
use super::super::sql::Rewriter;
use super::demands::Demands;
use super::lock::is_superuser;
use super::restoring::rewritten;
use super::session::{Failure, Session, literal};
use super::{Database, rights, room};

/// Refuses what cannot succeed. Nothing is changed.
pub fn check(
    database: &Database,
    source: &dyn Source,
    target: &DatabasePart,
    allow_remote: bool,
) -> Result<()> {
    let place = &database.programs.address;
    if !allow_remote && !database.is_local() {
        return Err(refused(
            format!("{place} is not on this machine"),
            Advice::AllowDatabase { name: database.name.clone() },
        ));
    }
    if let Some(flaw) = &target.flaw {
        return Err(Error::Refused { message: flaw.clone(), advice: Vec::new() });
    }
    // What the loader would refuse is refused here.
    let demands = rewritten(source, target, Rewriter::new(Demands::default()))?;
    let mut session = Session::open(&database.programs)?;
    let superuser = is_superuser(&mut session)?;
    roles(&mut session, &demands)?;
    extensions(&mut session, &demands.extensions, superuser)?;
    tablespaces(&mut session, &demands)?;
    subscriptions(&mut session)?;
    if !superuser {
        rights::of_a_dump(&mut session, &demands)?;
        event_triggers(&mut session, demands.event_triggers)?;
        large_objects(&mut session)?;
        rights::over_the_present(&mut session)?;
    }
    room::look(&mut session)?.suffices(demands.locks)
}

/// What is known to be in the way of any restore of the database as it is now, in a sentence. The dump of it
/// takes `locks`.
pub fn foreseen(session: &mut Session, locks: u64) -> Result<Option<String>> {
    let superuser = is_superuser(session)?;
    let found = in_the_way(session, superuser)
        .and_then(|()| room::look(session).and_then(|room| room.suffices(locks)));
    match found {
        Ok(()) => Ok(None),
        Err(Error::Refused { message, advice }) => Ok(Some(with_plain(&message, &advice))),
        Err(error) => Err(error),
    }
}

fn in_the_way(session: &mut Session, superuser: bool) -> Result<()> {
    subscriptions(session)?;
    if superuser {
        return Ok(());
    }
    let installed =
        names(session, "SELECT extname FROM pg_catalog.pg_extension WHERE oid >= 16384")?;
    rights::of_the_present(session)?;
    event_triggers(session, false)?;
    extensions(session, &installed.into_iter().collect(), false)?;
    large_objects(session)
}

/// Who is no superuser cannot hold them against writers.
fn large_objects(session: &mut Session) -> Result<()> {
    let any = session.value("SELECT EXISTS (SELECT FROM pg_catalog.pg_largeobject_metadata);")?;
    match any.as_str() {
        "t" => Err(refused(
            "it has large objects, which the user may not lock".to_owned(),
            "connect as a superuser",
        )),
        _ => Ok(()),
    }
}

/// A message with the advice that reads the same everywhere, for a manifest.
fn with_plain(message: &str, advice: &[Advice]) -> String {
    let plain: Vec<&str> = advice.iter().filter_map(Advice::as_plain).collect();
    match plain.is_empty() {
        true => message.to_owned(),
        false => format!("{message} ({})", plain.join("; ")),
    }
}

pub(super) fn refused(message: String, advice: impl Into<Advice>) -> Error {
    Error::Refused { message, advice: vec![advice.into()] }
}

pub(super) fn array(names: &BTreeSet<String>) -> String {
    let names: Vec<_> = names.iter().map(|name| literal(name)).collect();
    format!("ARRAY[{}]::text[]", names.join(", "))
}

/// The names that a query finds, for people. It yields one column of names.
pub(super) fn names(session: &mut Session, query: &str) -> Result<Vec<String>, Failure> {
    let rows = session
        .rows(&format!("SELECT pg_catalog.json_build_array(name) FROM ({query}) found (name);"))?;
    let text = |row: Vec<serde_json::Value>| row.first()?.as_str().map(str::to_owned);
    Ok(rows.into_iter().filter_map(text).collect())
}

/// Roles that a dump names must be there.
fn roles(session: &mut Session, demands: &Demands) -> Result<()> {
    let missing = names(
        session,
        &format!(
            "SELECT r FROM pg_catalog.unnest({}) r
             WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = r)",
            array(&demands.roles)
        ),
    )?;
    let Some(first) = missing.first() else { return Ok(()) };
    let hint = format!("create them first: CREATE ROLE \"{}\"", first.replace('"', "\"\""));
    Err(refused(
        format!("the dump names roles that the server does not have: {}", missing.join(", ")),
        hint,
    ))
}

fn extensions(session: &mut Session, wanted: &BTreeSet<String>, superuser: bool) -> Result<()> {
    let wanted = array(wanted);
    let missing = names(
        session,
        &format!(
            "SELECT e FROM pg_catalog.unnest({wanted}) e
             WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_available_extensions WHERE name = e)"
        ),
    )?;
    if !missing.is_empty() {
        return Err(refused(
            format!(
                "the dump uses extensions that the server does not have: {}",
                missing.join(", ")
            ),
            "install their packages on the server",
        ));
    }
    if superuser {
        return Ok(());
    }
    let forbidden = names(
        session,
        &format!(
            "SELECT DISTINCT v.name::text FROM pg_catalog.pg_available_extension_versions v
             JOIN pg_catalog.pg_available_extensions d ON d.name = v.name AND d.default_version = v.version
             WHERE v.name = ANY ({wanted}) AND v.superuser AND NOT v.trusted"
        ),
    )?;
    if forbidden.is_empty() {
        return Ok(());
    }
    Err(refused(
        format!("only a superuser may install the extensions: {}", forbidden.join(", ")),
        "connect as a superuser",
    ))
}

fn tablespaces(session: &mut Session, demands: &Demands) -> Result<()> {
    let missing = names(
        session,
        &format!(
            "SELECT t FROM pg_catalog.unnest({}) t
             WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_tablespace WHERE spcname = t)",
            array(&demands.tablespaces)
        ),
    )?;
    if missing.is_empty() {
        return Ok(());
    }
    Err(refused(
        format!("the dump uses tablespaces that the server does not have: {}", missing.join(", ")),
        "create them first",
    ))
}

/// A subscription cannot be dropped within a transaction: it has a counterpart on another server.
fn subscriptions(session: &mut Session) -> Result<()> {
    let found = names(
        session,
        "SELECT subname FROM pg_catalog.pg_subscription WHERE subdbid =
         (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database())",
    )?;
    if found.is_empty() {
        return Ok(());
    }
    Err(refused(
        format!("the database subscribes to another server: {}", found.join(", ")),
        "drop the subscription first; the restore brings back what the checkpoint holds of it",
    ))
}

fn event_triggers(session: &mut Session, in_the_dump: bool) -> Result<()> {
    let found = names(session, "SELECT evtname FROM pg_catalog.pg_event_trigger")?;
    if found.is_empty() && !in_the_dump {
        return Ok(());
    }
    let message = match found.first() {
        Some(_) => format!("the user may not disable the event triggers: {}", found.join(", ")),
        None => "the dump has event triggers, which the user may not make".to_owned(),
    };
    Err(refused(message, "connect as a superuser"))
}
