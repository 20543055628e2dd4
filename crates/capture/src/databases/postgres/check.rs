//! What stands in the way of a restore, asked before anything is done.

use std::collections::BTreeSet;

use rappel_store::sink::Source;
use rappel_types::database::DatabasePart;

use super::super::dump::{self, Stored};
use super::super::error::{Error, Result};
use super::Database;
use super::demands::Demands;
use super::lock::is_superuser;
use super::session::{Failure, Session, literal};
use super::tables::OURS;

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
            format!("to restore to it all the same: --allow-remote-database {}", database.name),
        ));
    }
    let mut demands = Demands::default();
    dump::write_to(source, &Stored::from(target), &mut demands)?;
    let mut session = Session::open(&database.programs)?;
    let superuser = is_superuser(&mut session)?;
    roles(&mut session, &demands, superuser)?;
    extensions(&mut session, &demands.extensions, superuser)?;
    tablespaces(&mut session, &demands)?;
    subscriptions(&mut session)?;
    if !superuser {
        event_triggers(&mut session, demands.event_triggers)?;
        owned_by_others(&mut session)?;
    }
    locks(&mut session, &demands)
}

/// What is known to be in the way of any restore of the database as it is now, in a sentence.
pub fn foreseen(session: &mut Session) -> Result<Option<String>> {
    if is_superuser(session)? {
        return Ok(None);
    }
    let installed =
        names(session, "SELECT extname FROM pg_catalog.pg_extension WHERE oid >= 16384")?;
    let installed: BTreeSet<String> = installed.into_iter().collect();
    let found = owned_by_others(session)
        .and_then(|()| event_triggers(session, false))
        .and_then(|()| extensions(session, &installed, false))
        .and_then(|()| large_objects(session));
    match found {
        Ok(()) => Ok(None),
        Err(Error::Refused { message, hint }) => {
            let hint = hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
            Ok(Some(format!("{message}{hint}")))
        }
        Err(error) => Err(error),
    }
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

fn refused(message: String, hint: impl Into<String>) -> Error {
    Error::Refused { message, hint: Some(hint.into()) }
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

fn roles(session: &mut Session, demands: &Demands, superuser: bool) -> Result<()> {
    let missing = names(
        session,
        &format!(
            "SELECT r FROM pg_catalog.unnest({}) r
             WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = r)",
            array(&demands.roles)
        ),
    )?;
    if let Some(first) = missing.first() {
        let hint = format!("create them first: CREATE ROLE \"{}\"", first.replace('"', "\"\""));
        return Err(refused(
            format!("the dump names roles that the server does not have: {}", missing.join(", ")),
            hint,
        ));
    }
    if superuser {
        return Ok(());
    }
    let foreign = names(
        session,
        &format!(
            "SELECT r FROM pg_catalog.unnest({}) r WHERE NOT pg_catalog.pg_has_role(r, 'MEMBER')
             UNION SELECT r FROM pg_catalog.unnest({}) r WHERE NOT pg_catalog.pg_has_role(r, 'MEMBER')
               AND NOT EXISTS (SELECT FROM pg_catalog.pg_namespace
                               WHERE nspname = 'public' AND pg_catalog.pg_get_userbyid(nspowner) = r)",
            array(&demands.owners),
            // To give it to whom it belongs takes no right.
            array(&demands.public_owner.iter().cloned().collect())
        ),
    )?;
    if foreign.is_empty() {
        return Ok(());
    }
    Err(refused(
        format!(
            "what the dump holds belongs to roles that the user is no member of: {}",
            foreign.join(", ")
        ),
        "connect as a superuser, or grant membership in them",
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

fn owned_by_others(session: &mut Session) -> Result<()> {
    let found = names(
        session,
        &format!(
            "SELECT pg_catalog.format('%I.%I', n.nspname, c.relname) FROM pg_catalog.pg_class c
             JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
             WHERE {OURS} AND NOT pg_catalog.pg_has_role(c.relowner, 'USAGE')
             UNION ALL
             SELECT pg_catalog.format('%I.%I', n.nspname, p.proname) FROM pg_catalog.pg_proc p
             JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
             WHERE {OURS} AND NOT pg_catalog.pg_has_role(p.proowner, 'USAGE')
               AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend d WHERE d.objid = p.oid AND d.deptype = 'e')
             UNION ALL
             SELECT pg_catalog.quote_ident(n.nspname) FROM pg_catalog.pg_namespace n
             WHERE {OURS} AND n.nspname <> 'public' AND NOT pg_catalog.pg_has_role(n.nspowner, 'USAGE')
             LIMIT 5"
        ),
    )?;
    if found.is_empty() {
        return Ok(());
    }
    Err(refused(
        format!("the user does not own: {}", found.join(", ")),
        "connect as the owner of everything in the database, or as a superuser",
    ))
}

/// Every object that is dropped or made takes a lock until the commit. The factors are measured.
fn locks(session: &mut Session, demands: &Demands) -> Result<()> {
    let row = session.rows(
        "SELECT pg_catalog.json_build_array(
           pg_catalog.current_setting('max_locks_per_transaction')::bigint,
           pg_catalog.current_setting('max_connections')::bigint
             + pg_catalog.current_setting('max_prepared_transactions')::bigint,
           (SELECT pg_catalog.count(*) FROM (SELECT DISTINCT classid, objid FROM pg_catalog.pg_depend WHERE objid >= 16384) d)
             + (SELECT pg_catalog.count(*) FROM pg_catalog.pg_largeobject_metadata));",
    )?;
    let number = |at: usize| row.first().and_then(|row| row.get(at)?.as_u64()).unwrap_or_default();
    let (each, slots, objects) = (number(0), number(1), number(2));
    let needed = objects + objects / 4 + demands.creates * 2;
    if slots == 0 || needed <= each * slots {
        return Ok(());
    }
    Err(refused(
        format!(
            "the server's table of locks is too small: about {needed} are needed, it has {}",
            each * slots
        ),
        format!(
            "set max_locks_per_transaction = {} in postgresql.conf and restart the server",
            (needed * 5 / 4).div_ceil(slots)
        ),
    ))
}
