//! What a server knows of a database and its dump does not hold: owner, encoding, locale, settings, comment, place, grants. With
//! them one that was dropped is made again as it was ([`super::create`]).
//!
//! It is asked for beside the dump, and what it does not know is left to the server's defaults. It goes into the manifest, so a
//! setting that looks like a secret is kept by its name alone.

use rappel_types::database::{DatabaseDefinition, DatabaseGrant, DatabaseSetting};
use rappel_types::secret;
use serde_json::Value;

use super::super::error::Result;
use super::session::Session;

/// Columns that only newer servers have are found by their names.
const QUERY: &str = "\
SELECT pg_catalog.json_build_array(
  pg_catalog.pg_get_userbyid(d.datdba), pg_catalog.pg_encoding_to_char(d.encoding), d.datcollate, d.datctype,
  pg_catalog.to_jsonb(d) ->> 'datlocprovider',
  COALESCE(pg_catalog.to_jsonb(d) ->> 'datlocale', pg_catalog.to_jsonb(d) ->> 'daticulocale'),
  pg_catalog.shobj_description(d.oid, 'pg_database'),
  (SELECT pg_catalog.json_agg(pg_catalog.json_build_array(r.rolname, c.setting) ORDER BY r.rolname NULLS FIRST, c.at)
   FROM pg_catalog.pg_db_role_setting s LEFT JOIN pg_catalog.pg_roles r ON r.oid = s.setrole,
     pg_catalog.unnest(s.setconfig) WITH ORDINALITY c (setting, at)
   WHERE s.setdatabase = d.oid),
  (SELECT t.spcname FROM pg_catalog.pg_tablespace t WHERE t.oid = d.dattablespace AND t.spcname <> 'pg_default'),
  CASE WHEN d.datacl IS NOT NULL THEN COALESCE(
    (SELECT pg_catalog.json_agg(pg_catalog.json_build_array(r.rolname, a.privilege_type, a.is_grantable)
       ORDER BY r.rolname NULLS FIRST, a.privilege_type)
     FROM pg_catalog.aclexplode(d.datacl) a LEFT JOIN pg_catalog.pg_roles r ON r.oid = a.grantee), '[]') END)
FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database();";

/// Asks the server.
pub fn read(session: &mut Session) -> Result<Option<DatabaseDefinition>> {
    Ok(session.rows(QUERY)?.first().and_then(|row| parse(row)))
}

fn parse(row: &[Value]) -> Option<DatabaseDefinition> {
    let text = |at: usize| row.get(at).and_then(Value::as_str).map(str::to_owned);
    let settings = row.get(7).and_then(Value::as_array).into_iter().flatten();
    Some(DatabaseDefinition {
        owner: text(0)?,
        encoding: text(1)?,
        collate: text(2)?,
        ctype: text(3)?,
        // Who has the C library's has no other name for it.
        provider: match text(4).as_deref() {
            Some("i") => Some("icu".to_owned()),
            Some("b") => Some("builtin".to_owned()),
            _ => None,
        },
        locale: text(5),
        comment: text(6),
        settings: settings.filter_map(|pair| setting(pair.as_array()?)).collect(),
        tablespace: text(8),
        grants: row
            .get(9)
            .and_then(Value::as_array)
            .map(|grants| grants.iter().filter_map(|one| grant(one.as_array()?)).collect()),
    })
}

/// A role, or none for all, a privilege, and whether it may be passed on.
fn grant(parts: &[Value]) -> Option<DatabaseGrant> {
    Some(DatabaseGrant {
        role: parts.first().and_then(Value::as_str).map(str::to_owned),
        privilege: parts.get(1)?.as_str()?.to_owned(),
        grantable: parts.get(2)?.as_bool()?,
    })
}

/// A role, or none for all, and `name=value`.
fn setting(pair: &[Value]) -> Option<DatabaseSetting> {
    let (name, value) = pair.get(1)?.as_str()?.split_once('=')?;
    let secret = secret::of_variable(name, value).is_some();
    Some(DatabaseSetting {
        role: pair.first().and_then(Value::as_str).map(str::to_owned),
        name: name.to_owned(),
        value: (!secret).then(|| value.to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_kept_by_its_name_alone() {
        let row = serde_json::json!([
            "me",
            "UTF8",
            "C",
            "C",
            "c",
            null,
            null,
            [[null, "app.mode=fast"], ["agent", "app.jwt_secret=hunter2"]]
        ]);
        let definition = parse(row.as_array().unwrap()).unwrap();
        let all: Vec<_> = definition
            .settings
            .iter()
            .map(|one| (one.role.as_deref(), one.name.as_str(), one.value.as_deref()))
            .collect();
        assert_eq!(
            all,
            [(None, "app.mode", Some("fast")), (Some("agent"), "app.jwt_secret", None)]
        );
        assert_eq!(definition.provider, None);
    }
}
