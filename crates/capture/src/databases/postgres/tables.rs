//! Which tables there are, and in which files their rows lie: whoever empties or rewrites one gives it a new file.

use std::collections::HashMap;

use serde_json::Value;

use super::super::error::Result;
use super::session::Session;

/// Of schemas `n`: the users' own.
pub const OURS: &str = "n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'";

/// What the users' tables are selected by, as `c` in schemas `n`. Foreign tables hold nothing here.
pub fn of_users() -> String {
    format!(
        "FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
         WHERE c.relkind IN ('r', 'p') AND c.relpersistence <> 't' AND {OURS}"
    )
}

/// Tables by schema and name, with what tells them from others of the same name.
pub type Tables = HashMap<Vec<Value>, Vec<Value>>;

/// Looks at all tables.
pub fn look(session: &mut Session) -> Result<Tables> {
    let rows = session.rows(&format!(
        "SELECT pg_catalog.json_build_array(n.nspname, c.relname, c.oid::text, pg_catalog.pg_relation_filenode(c.oid)::text) {};",
        of_users()
    ))?;
    let rows = rows.into_iter();
    Ok(rows.filter(|row| row.len() == 4).map(|mut row| (row.drain(..2).collect(), row)).collect())
}

/// Whether a table that was there is another one now.
pub fn is_any_replaced(before: &Tables, after: &Tables) -> bool {
    before.iter().any(|(name, table)| after.get(name).is_some_and(|now| now != table))
}
