//! Databases out of a foreign checkpoint: their dumps become parts as captures make them. Whether one is ever
//! loaded is another question, which a restore asks the user.

use std::collections::BTreeSet;

use rappel_capture::databases::dump;
use rappel_capture::databases::sql::Watch;
use rappel_capture::databases::sqlite;
use rappel_formats::portable::Database;
use rappel_store::{Writer, held};
use rappel_types::database::{DatabaseKind, DatabasePart};
use rappel_types::git_name::is_git;
use rappel_types::manifest::PartialReason;
use rappel_types::{Facet, RelPath};

use crate::error::{Error, Result};
use crate::export::scratch;
use crate::rappel::Rappel;

/// A dump is no longer.
const DUMP_MAX: u64 = 1 << 40;
/// What PostgreSQL's own archives begin with: `psql` does not take them.
const ARCHIVE: &[u8] = b"PGDMP";

impl Rappel {
    /// The databases facet of a foreign checkpoint. One that cannot be taken is named.
    pub(crate) fn take_databases(
        &self,
        writer: &Writer<'_>,
        databases: &[Database],
    ) -> Result<(Vec<DatabasePart>, Vec<PartialReason>)> {
        let (mut parts, mut reasons) = (Vec::new(), Vec::new());
        let mut names = BTreeSet::new();
        for database in databases {
            let taken = match is_name(&database.name) && names.insert(&database.name) {
                true => self.take_database(writer, database)?,
                false => Err("its name is used twice, or is none".to_owned()),
            };
            match taken {
                Ok(part) => parts.push(part),
                Err(reason) => {
                    let shown: String = database.name.chars().take(100).collect();
                    let reason = format!("database {shown:?}: {reason}");
                    reasons.push(PartialReason {
                        database: Some(shown),
                        ..PartialReason::new(Facet::Databases, None, reason)
                    });
                }
            }
        }
        Ok((parts, reasons))
    }

    /// The inner error is why it is refused.
    fn take_database(
        &self,
        writer: &Writer<'_>,
        database: &Database,
    ) -> Result<Result<DatabasePart, String>> {
        let Some(dump) = &database.dump else {
            return Ok(Err("its content did not come along".to_owned()));
        };
        if dump.len() > DUMP_MAX {
            return Ok(Err(format!("its dump has more than {DUMP_MAX} bytes")));
        }
        let cache = self.store.home().cache();
        let folder = scratch(&self.store).and_then(tempfile::tempdir_in);
        let folder = folder.map_err(Error::io("create", &cache))?;
        let path = folder.path().join("dump");
        if let Err(reason) = self.copy_out(&**dump, &path) {
            return Ok(Err(reason));
        }
        let failed = |error| Error::Database { name: database.name.clone(), error };
        if database.kind == DatabaseKind::Sqlite {
            if let Err(reason) = sqlite::check_foreign(&path) {
                return Ok(Err(reason));
            }
            let source = sqlite::Database {
                name: database.name.clone(),
                path,
                location: location(&database.name),
                patience: self.options.lock_limit,
            };
            let read = source.read(writer, None, self.cancel());
            return Ok(Ok(read.map_err(failed)?));
        }
        let text = held::open(&path).map_err(Error::io("open", &path))?;
        let is_postgres = database.kind == DatabaseKind::Postgres;
        if is_postgres {
            let mut head = [0; 5];
            let read = std::os::unix::fs::FileExt::read_at(&*text, &mut head, 0);
            if read.map_err(Error::io("read", &path))? == 5 && head == ARCHIVE {
                return Ok(Err(
                    "its dump is an archive of pg_dump, which psql does not take".into()
                ));
            }
        }
        let (stored, seen) = match is_postgres {
            true => {
                let mut watched = Watch::new(text);
                let stored = dump::store(writer, &mut watched, None).map_err(failed)?;
                (stored, Some(watched.finish().0))
            }
            false => {
                let mut text = text;
                (dump::store(writer, &mut text, None).map_err(failed)?, None)
            }
        };
        let mut part = DatabasePart {
            name: database.name.clone(),
            kind: database.kind,
            tables: database.tables.clone(),
            row_counts: database.row_counts.clone(),
            bytes: stored.bytes,
            as_of: None,
            stale: false,
            tree: stored.tree,
            digest: stored.digest,
            location: None,
            definition: None,
            obstacle: None,
            flaw: None,
            left_out: Vec::new(),
        };
        if let Some(seen) = seen {
            if part.tables.is_empty() {
                part.row_counts =
                    seen.tables.into_iter().map(|one| (one.table, one.rows)).collect();
                part.tables = part.row_counts.keys().cloned().collect();
            }
            let cut = "psql does not find the end of a statement in its dump";
            part.flaw = (!seen.is_whole).then(|| cut.to_owned());
        }
        Ok(Ok(part))
    }
}

/// Whether a database may be called so: people and terminals see its name.
fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= 1000 && !name.chars().any(char::is_control)
}

/// Where a database of SQLite lies that is called by its path. A path into git's folder is none.
fn location(name: &str) -> Option<String> {
    let path: RelPath = name.parse().ok()?;
    (!path.components().any(is_git)).then(|| path.to_string())
}
