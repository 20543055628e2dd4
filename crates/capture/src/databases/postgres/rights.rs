//! What a user who is no superuser may not do, asked before a restore needs it.
//!
//! A restore drops everything and makes it anew. For that, everything must belong to the user or to roles that the user is a
//! member of. An object is given to its owner before any grant is loaded, so that owner must have a part in the schema.

use std::collections::BTreeSet;

use super::super::error::Result;
use super::check::{array, names, refused};
use super::demands::Demands;
use super::session::{Session, literal};
use super::tables::OURS;

/// Catalogs of objects that belong to somebody: their column for the owner, and the one for the schema where there is one.
const OWNED: [(&str, &str, Option<&str>); 17] = [
    ("pg_class", "relowner", Some("relnamespace")),
    ("pg_proc", "proowner", Some("pronamespace")),
    ("pg_type", "typowner", Some("typnamespace")),
    ("pg_operator", "oprowner", Some("oprnamespace")),
    ("pg_opclass", "opcowner", Some("opcnamespace")),
    ("pg_opfamily", "opfowner", Some("opfnamespace")),
    ("pg_collation", "collowner", Some("collnamespace")),
    ("pg_conversion", "conowner", Some("connamespace")),
    ("pg_ts_dict", "dictowner", Some("dictnamespace")),
    ("pg_ts_config", "cfgowner", Some("cfgnamespace")),
    ("pg_statistic_ext", "stxowner", Some("stxnamespace")),
    ("pg_namespace", "nspowner", None),
    ("pg_language", "lanowner", None),
    ("pg_foreign_data_wrapper", "fdwowner", None),
    ("pg_foreign_server", "srvowner", None),
    ("pg_publication", "pubowner", None),
    ("pg_extension", "extowner", None),
];

/// How a user must be related to a role to give something to it: since 16 that is told from having its rights.
const MAY_GIVE: &str = "CASE WHEN pg_catalog.current_setting('server_version_num')::int >= 160000 THEN 'SET' ELSE 'MEMBER' END";

/// How many objects a message names.
const NAMED: usize = 5;

const BE_THE_OWNER: &str = "connect as the owner of everything in the database, or as a superuser";

/// Everything that the users made and that is no part of an extension: what it is, its owner and its schema's owner.
fn objects() -> String {
    let one = |(catalog, owner, schema): (&str, &str, Option<&str>)| {
        let (join, schema) = match schema {
            Some(column) => (
                format!("JOIN pg_catalog.pg_namespace n ON n.oid = o.{column} AND {OURS}"),
                "n.nspowner",
            ),
            None => (String::new(), "NULL::oid"),
        };
        let parts = match catalog {
            // Indexes and rows' types go with their tables, arrays with their elements.
            "pg_class" => "AND o.relkind IN ('r', 'p', 'v', 'm', 'S', 'f') AND o.relpersistence <> 't'",
            "pg_type" => {
                "AND o.typcategory <> 'A' AND (o.typrelid = 0 OR EXISTS
                   (SELECT FROM pg_catalog.pg_class c WHERE c.oid = o.typrelid AND c.relkind = 'c'))"
            }
            "pg_namespace" => "AND o.nspname !~ '^pg_'",
            _ => "",
        };
        format!(
            "SELECT 'pg_catalog.{catalog}'::regclass::oid AS class, o.oid AS object, o.{owner} AS owner, {schema} AS schema_owner
             FROM pg_catalog.{catalog} o {join}
             WHERE o.oid >= 16384 {parts} AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend d
               WHERE d.classid = 'pg_catalog.{catalog}'::regclass AND d.objid = o.oid AND d.deptype = 'e')"
        )
    };
    OWNED.map(one).join(" UNION ALL ")
}

/// The names of those objects for which a condition holds.
fn those_where(session: &mut Session, condition: &str) -> Result<Vec<String>> {
    let found = names(
        session,
        &format!(
            "SELECT pg_catalog.concat_ws(' ', i.type, i.identity) FROM ({}) a,
               pg_catalog.pg_identify_object(a.class, a.object, 0) i
             WHERE {condition} LIMIT {NAMED}",
            objects()
        ),
    )?;
    Ok(found)
}

/// Refuses a restore over what is there now.
pub fn over_the_present(session: &mut Session) -> Result<()> {
    let condition = format!(
        "NOT (pg_catalog.pg_has_role(a.owner, 'USAGE') AND pg_catalog.pg_has_role(a.owner, {MAY_GIVE}))"
    );
    let found = those_where(session, &condition)?;
    if !found.is_empty() {
        return Err(refused(format!("the user does not own: {}", found.join(", ")), BE_THE_OWNER));
    }
    default_privileges(session, None)
}

/// Refuses to load again what is there now.
pub fn of_the_present(session: &mut Session) -> Result<()> {
    over_the_present(session)?;
    let found = those_where(
        session,
        "a.owner <> (SELECT oid FROM pg_catalog.pg_roles WHERE rolname = current_user)
           AND a.schema_owner IS NOT NULL AND NOT pg_catalog.pg_has_role(a.owner, a.schema_owner, 'USAGE')",
    )?;
    if !found.is_empty() {
        let message =
            format!("its owner may not create objects in the schema of: {}", found.join(", "));
        return Err(refused(message, BE_THE_OWNER));
    }
    let needs_database = names(
        session,
        &format!(
            "SELECT nspname FROM pg_catalog.pg_namespace n WHERE {OURS} AND n.oid >= 16384
             UNION ALL SELECT extname FROM pg_catalog.pg_extension WHERE oid >= 16384
             UNION ALL SELECT pubname FROM pg_catalog.pg_publication"
        ),
    )?;
    create_in_database(session, !needs_database.is_empty())?;
    let in_public = those_where(
        session,
        "a.schema_owner = (SELECT nspowner FROM pg_catalog.pg_namespace WHERE nspname = 'public')",
    )?;
    create_in_public(session, !in_public.is_empty())
}

/// Refuses to load what a dump holds.
pub fn of_a_dump(session: &mut Session, demands: &Demands) -> Result<()> {
    let foreign = names(
        session,
        &format!(
            "SELECT r FROM pg_catalog.unnest({}) r WHERE NOT pg_catalog.pg_has_role(r, {MAY_GIVE})
             UNION SELECT r FROM pg_catalog.unnest({}) r WHERE NOT pg_catalog.pg_has_role(r, {MAY_GIVE})
               AND NOT EXISTS (SELECT FROM pg_catalog.pg_namespace
                               WHERE nspname = 'public' AND pg_catalog.pg_get_userbyid(nspowner) = r)",
            array(&demands.owners),
            // To give it to whom it belongs takes no right.
            array(&demands.public_owner.iter().cloned().collect())
        ),
    )?;
    if !foreign.is_empty() {
        return Err(refused(
            format!(
                "what the dump holds belongs to roles that the user is no member of: {}",
                foreign.join(", ")
            ),
            "connect as a superuser, or grant membership in them",
        ));
    }
    default_privileges(session, Some(&demands.default_privileges))?;
    for (schema, owners) in &demands.owners_in {
        owners_in_schema(session, demands, schema, owners)?;
    }
    let schemas = demands.creators.keys().any(|schema| schema != "public");
    create_in_database(session, schemas || !demands.extensions.is_empty())?;
    create_in_public(session, demands.owners_in.contains_key("public"))
}

/// Owners to whom nothing can be given in a schema, since they have no part in it yet when it is loaded.
fn owners_in_schema(
    session: &mut Session,
    demands: &Demands,
    schema: &str,
    owners: &BTreeSet<String>,
) -> Result<()> {
    let own_owner = match schema {
        "public" => demands.public_owner.as_ref(),
        schema => demands.schema_owners.get(schema),
    };
    // The loading user's own, unless the dump says otherwise; `public` is there before.
    let holder = match (own_owner, schema) {
        (Some(owner), _) => literal(owner),
        (None, "public") => {
            "(SELECT pg_catalog.pg_get_userbyid(nspowner) FROM pg_catalog.pg_namespace WHERE nspname = 'public')".to_owned()
        }
        (None, _) => "current_user".to_owned(),
    };
    let found = names(
        session,
        &format!(
            "SELECT r FROM pg_catalog.unnest({}) r
             WHERE r <> current_user AND NOT pg_catalog.pg_has_role(r::name, {holder}::name, 'USAGE')",
            array(owners)
        ),
    )?;
    if found.is_empty() {
        return Ok(());
    }
    Err(refused(
        format!(
            "schema {schema} holds objects of roles that may not create objects there: {}",
            found.join(", ")
        ),
        "connect as a superuser",
    ))
}

/// Privileges that objects get which a role makes later: those of a dump, or those that are there.
fn default_privileges(session: &mut Session, dump: Option<&BTreeSet<String>>) -> Result<()> {
    let roles = match dump {
        Some(roles) => format!("pg_catalog.unnest({})", array(roles)),
        None => {
            "(SELECT DISTINCT pg_catalog.pg_get_userbyid(defaclrole)::text FROM pg_catalog.pg_default_acl)"
                .to_owned()
        }
    };
    let found = names(
        session,
        &format!("SELECT r FROM {roles} d (r) WHERE NOT pg_catalog.pg_has_role(r, 'USAGE')"),
    )?;
    if found.is_empty() {
        return Ok(());
    }
    Err(refused(
        format!("the user may not change the default privileges of: {}", found.join(", ")),
        "connect as a superuser, or grant membership in these roles",
    ))
}

/// Schemas, extensions and publications are made in the database itself.
fn create_in_database(session: &mut Session, needed: bool) -> Result<()> {
    let may = "SELECT pg_catalog.has_database_privilege(pg_catalog.current_database(), 'CREATE');";
    if !needed || session.value(may)? == "t" {
        return Ok(());
    }
    Err(refused(
        "the user may not create schemas and extensions in the database".to_owned(),
        "grant CREATE on the database, or connect as its owner",
    ))
}

/// `public` is not made anew: what lies in it needs a right there.
fn create_in_public(session: &mut Session, needed: bool) -> Result<()> {
    let may_not = "SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = 'public'
      AND NOT pg_catalog.has_schema_privilege(oid, 'CREATE'));";
    if !needed || session.value(may_not)? != "t" {
        return Ok(());
    }
    Err(refused(
        "the user may not create objects in the schema public".to_owned(),
        "grant CREATE on it, or connect as the owner of the database",
    ))
}
