//! A database file that came from elsewhere.

use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

/// Looks whether a file is a whole database of SQLite; the error says what is wrong. The file must be a copy of
/// ours: SQLite may write beside it. No SQL of its schema is run.
#[allow(clippy::disallowed_methods, reason = "the file is a copy of ours, which nobody holds")]
pub fn check_foreign(path: &Path) -> Result<(), String> {
    let check = || -> rusqlite::Result<String> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        let connection = Connection::open_with_flags(path, flags)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
        connection.pragma_update(None, "cell_size_check", true)?;
        connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
    };
    match check() {
        Ok(answer) if answer == "ok" => Ok(()),
        Ok(answer) => Err(format!("it is damaged: {answer}")),
        Err(error) => Err(format!("it is no database of SQLite: {error}")),
    }
}
