//! Where functions may look for names that come without their schema, while a dump is loaded.
//!
//! A restore runs what is found there with the rights of its user. So only schemas count in which nobody but that user and
//! superusers may create objects, as the dump has it: what it loads into them was made under those rights.

use std::collections::{BTreeMap, BTreeSet};

use rappel_store::sink::Source;
use rappel_types::database::DatabasePart;

use super::super::dump::{self, Stored};
use super::super::error::Result;
use super::check::{array, names};
use super::create::list;
use super::demands::{Creator, Demands};
use super::origin;
use super::session::{Failure, Session, literal};

/// The schemas of the user's search path that may be trusted, in its order.
pub fn path(
    session: &mut Session,
    source: &dyn Source,
    target: &DatabasePart,
) -> Result<Vec<String>> {
    let mut demands = Demands::default();
    // Before 15 everybody may create something in `public`, unless the dump says otherwise.
    if origin::of(source, target).is_none_or(|version| version.major < 15) {
        demands.creators.entry("public".to_owned()).or_default().insert(Creator::Everybody);
    }
    dump::write_to(source, &Stored::from(target), &mut demands)?;
    let mut creators = demands.creators;
    let public = creators.entry("public".to_owned()).or_default();
    if demands.public_owner.is_none() {
        public.insert(Creator::Role("pg_database_owner".to_owned()));
    }
    let trusted = trusted(session, &creators)?;
    let path = users_path(session)?;
    Ok(path.into_iter().filter(|schema| trusted.contains(schema)).collect())
}

/// The search path that the user's connections have.
fn users_path(session: &mut Session) -> Result<Vec<String>, Failure> {
    let path = session
        .value("SELECT reset_val FROM pg_catalog.pg_settings WHERE name = 'search_path';")?;
    let user = session.value("SELECT session_user;")?;
    let own = |name: String| if name == "$user" { user.clone() } else { name };
    Ok(list(&path).into_iter().map(own).collect())
}

/// The schemas in which no role but the session's user and superusers may create objects, be it as a member of another.
fn trusted(
    session: &mut Session,
    creators: &BTreeMap<String, BTreeSet<Creator>>,
) -> Result<Vec<String>, Failure> {
    let mut rows = Vec::new();
    for (schema, creators) in creators {
        let roles = creators.iter().map(|creator| match creator {
            Creator::Everybody => None,
            Creator::Role(role) => Some(role.clone()),
        });
        if let Some(roles) = roles.collect::<Option<BTreeSet<String>>>() {
            rows.push(format!("({}, {})", literal(schema), array(&roles)));
        }
    }
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    // The server's own roles are nobody by themselves.
    names(
        session,
        &format!(
            "SELECT s.name FROM (VALUES {}) s (name, creators)
             WHERE NOT EXISTS (
               SELECT FROM pg_catalog.unnest(s.creators) c
               JOIN pg_catalog.pg_roles o ON o.rolname = c
               JOIN pg_catalog.pg_roles r ON pg_catalog.pg_has_role(r.oid, o.oid, 'MEMBER')
               WHERE NOT r.rolsuper AND r.rolname <> current_user AND r.rolname !~ '^pg_')",
            rows.join(", ")
        ),
    )
}
