//! What a database's definitions are at a moment, to tell whether they are still the same later.
//!
//! Tables are locked during a restore, but nothing keeps others from making new ones, from replacing a function or from
//! calling `nextval`. What the safety dump holds is known by two inventories around it: if both are equal, then
//! so is what the dump saw. Every row of the catalogs counts, by the transaction that wrote it;
//! temporary tables do not.

use std::collections::BTreeMap;

use serde_json::Value;

use super::session::{Failure, Session, literal};

/// Catalogs whose rows are objects, which can be named. With how to leave out what is temporary.
const OBJECTS: [(&str, &str); 34] = [
    ("pg_class", "relpersistence <> 't'"),
    ("pg_type", TYPE_STAYS),
    ("pg_proc", ""),
    ("pg_namespace", "nspname !~ '^pg_(toast_)?temp_'"),
    ("pg_constraint", "conrelid NOT IN (SELECT oid FROM temporary)"),
    ("pg_trigger", "tgrelid NOT IN (SELECT oid FROM temporary)"),
    ("pg_rewrite", "ev_class NOT IN (SELECT oid FROM temporary)"),
    ("pg_attrdef", "adrelid NOT IN (SELECT oid FROM temporary)"),
    ("pg_policy", ""),
    ("pg_operator", ""),
    ("pg_opclass", ""),
    ("pg_opfamily", ""),
    ("pg_am", ""),
    ("pg_cast", ""),
    ("pg_collation", ""),
    ("pg_conversion", ""),
    ("pg_language", ""),
    ("pg_extension", ""),
    ("pg_event_trigger", ""),
    ("pg_default_acl", ""),
    ("pg_statistic_ext", ""),
    ("pg_ts_config", ""),
    ("pg_ts_dict", ""),
    ("pg_ts_parser", ""),
    ("pg_ts_template", ""),
    ("pg_foreign_data_wrapper", ""),
    ("pg_foreign_server", ""),
    ("pg_transform", ""),
    ("pg_publication", ""),
    ("pg_publication_rel", ""),
    // Since version 15.
    ("pg_publication_namespace", ""),
    // Only superusers may look there.
    ("pg_user_mapping", ""),
    ("pg_largeobject_metadata", ""),
    ("pg_enum", ""),
];

const TYPE_STAYS: &str = "typnamespace NOT IN (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname ~ '^pg_(toast_)?temp_')";

/// Catalogs whose rows are parts of objects; only their sum counts.
const PARTS: [(&str, &str); 15] = [
    ("pg_attribute", "attrelid NOT IN (SELECT oid FROM temporary)"),
    ("pg_index", "indrelid NOT IN (SELECT oid FROM temporary)"),
    ("pg_inherits", "inhrelid NOT IN (SELECT oid FROM temporary)"),
    ("pg_sequence", "seqrelid NOT IN (SELECT oid FROM temporary)"),
    ("pg_partitioned_table", "partrelid NOT IN (SELECT oid FROM temporary)"),
    ("pg_description", ""),
    ("pg_seclabel", ""),
    ("pg_init_privs", ""),
    ("pg_range", ""),
    ("pg_aggregate", ""),
    ("pg_amop", ""),
    ("pg_amproc", ""),
    ("pg_ts_config_map", ""),
    ("pg_foreign_table", ""),
    // The bytes of large objects; only superusers may look there.
    ("pg_largeobject", ""),
];

/// The definitions of a database, and the values of its sequences.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Inventory {
    /// Per catalog and object, the transaction that wrote it. Object 0 stands for the server's own ones and for catalogs of
    /// parts.
    definitions: BTreeMap<(String, u64), String>,
    /// Per sequence, its value.
    sequences: BTreeMap<u64, String>,
}

fn all_catalogs() -> impl Iterator<Item = &'static str> {
    OBJECTS.iter().chain(&PARTS).map(|(catalog, _)| *catalog)
}

/// The catalogs that are looked into: those that the server has and its user may read.
pub fn catalogs(session: &mut Session) -> Result<Vec<&'static str>, Failure> {
    let quoted: Vec<_> = all_catalogs().map(literal).collect();
    let found = session.ask(&format!(
        "SELECT relname FROM pg_catalog.pg_class
         WHERE relnamespace = 'pg_catalog'::regnamespace AND relname IN ({})
           AND pg_catalog.has_table_privilege(oid, 'SELECT');",
        quoted.join(", ")
    ))?;
    Ok(all_catalogs().filter(|catalog| found.iter().any(|name| name == catalog)).collect())
}

impl Inventory {
    /// What there is now.
    pub fn take(session: &mut Session) -> Result<Self, Failure> {
        let definitions = Self::definitions(session)?;
        Ok(Self { definitions, sequences: Self::sequences(session)? })
    }

    fn definitions(session: &mut Session) -> Result<BTreeMap<(String, u64), String>, Failure> {
        let mut definitions = BTreeMap::new();
        let catalogs = catalogs(session)?;
        for row in session.rows(&query(&catalogs))? {
            if let [Value::String(catalog), Value::Number(object), Value::String(version)] =
                &row[..]
            {
                let key = (catalog.clone(), object.as_u64().unwrap_or_default());
                definitions.insert(key, version.clone());
            }
        }
        Ok(definitions)
    }

    /// The values of all sequences.
    pub fn sequences(session: &mut Session) -> Result<BTreeMap<u64, String>, Failure> {
        let rows = session.rows(
            r"SELECT pg_catalog.format('SELECT pg_catalog.json_build_array(%s, pg_catalog.concat(last_value, is_called)) FROM %I.%I',
                c.oid, n.nspname, c.relname)
              FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
              WHERE c.relkind = 'S' AND c.relpersistence <> 't' \gexec",
        )?;
        let pair = |row: Vec<Value>| match &row[..] {
            [Value::Number(object), Value::String(value)] => {
                Some((object.as_u64()?, value.clone()))
            }
            _ => None,
        };
        Ok(rows.into_iter().filter_map(pair).collect())
    }

    /// What is different in `later`, in words for people; nothing if nothing is. Names are asked of
    /// `session`.
    pub fn difference(
        &self,
        later: &Self,
        session: &mut Session,
    ) -> Result<Option<String>, Failure> {
        let changed = |(key, version): &(&(String, u64), &String)| {
            self.definitions.get(*key) != Some(*version)
        };
        let mut changes: Vec<&(String, u64)> =
            later.definitions.iter().filter(changed).map(|(key, _)| key).collect();
        // A table is named before its columns and its type are.
        changes.sort_by_key(|(catalog, object)| {
            (*object == 0, all_catalogs().position(|known| known == catalog), *object)
        });
        if let Some(&key) = changes.first() {
            let (catalog, object) = key;
            if *object == 0 {
                return Ok(Some(format!("definitions were changed ({catalog})")));
            }
            let verb = if self.definitions.contains_key(key) { "changed" } else { "made" };
            return Ok(Some(format!("{} was {verb}", describe(session, catalog, *object)?)));
        }
        if let Some(((catalog, _), _)) =
            self.definitions.iter().find(|(key, _)| !later.definitions.contains_key(*key))
        {
            return Ok(Some(format!("something was dropped ({catalog})")));
        }
        match self.moved(&later.sequences) {
            Some(object) => {
                Ok(Some(format!("{} moved on", describe(session, "pg_class", object)?)))
            }
            None => Ok(None),
        }
    }

    /// A sequence that has another value by now.
    pub fn moved(&self, later: &BTreeMap<u64, String>) -> Option<u64> {
        let moved = later.iter().find(|(object, value)| self.sequences.get(object) != Some(value));
        moved.map(|(object, _)| *object)
    }
}

/// What an object is called, for people.
pub fn describe(session: &mut Session, catalog: &str, object: u64) -> Result<String, Failure> {
    session.value(&format!(
        "SELECT pg_catalog.translate(pg_catalog.pg_describe_object('pg_catalog.{catalog}'::regclass, {object}, 0), E'\\n', ' ');"
    ))
}

fn query(catalogs: &[&str]) -> String {
    let known = |(catalog, _): &(&str, &str)| catalogs.contains(catalog);
    let mut parts = Vec::new();
    for (catalog, stays) in OBJECTS.into_iter().filter(known) {
        let stays = if stays.is_empty() { "true" } else { stays };
        parts.push(format!(
            "SELECT '{catalog}', oid::bigint, xmin::text FROM pg_catalog.{catalog} WHERE oid >= 16384 AND {stays}"
        ));
        parts.push(format!(
            "SELECT '{catalog}', 0, {SUM} FROM pg_catalog.{catalog} r WHERE oid < 16384 AND {stays}"
        ));
    }
    for (catalog, stays) in PARTS.into_iter().filter(known) {
        let stays = if stays.is_empty() { "true" } else { stays };
        parts.push(format!(
            "SELECT '{catalog}', 0, {SUM} FROM pg_catalog.{catalog} r WHERE {stays}"
        ));
    }
    format!(
        "WITH temporary AS (SELECT oid FROM pg_catalog.pg_class WHERE relpersistence = 't') \
         SELECT pg_catalog.json_build_array(catalog, object, version) FROM ({}) rows (catalog, object, version);",
        parts.join("\nUNION ALL ")
    )
}

/// Which transactions wrote which rows, summed up.
const SUM: &str = "pg_catalog.concat(pg_catalog.count(*), ' ', \
                   pg_catalog.sum(pg_catalog.hashtextextended(pg_catalog.concat(r.ctid, r.xmin), 0)))";
