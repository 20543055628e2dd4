//! What happened in a home, commit by commit: what the log's records say, in the order in which they
//! were committed. Gc's copies of records keep the commit that they were born with, so they change
//! nothing here, and an index that is built anew answers the same.

use rusqlite::{OptionalExtension, Transaction, params};

use super::{DocumentRow, EventRow, Index, is_incomplete};
use crate::error::Result;
use crate::log::Position;
use crate::record::Kind;

pub(super) const SCHEMA: &str = "
CREATE INDEX event_by_birth ON event (birth);
CREATE INDEX checkpoint_by_birth ON checkpoint (birth);
CREATE INDEX document_by_birth ON document (birth);
-- the commits by which gc took something away; before: the newest commit of which something may
-- have been among it.
CREATE TABLE collection (
    generation INTEGER PRIMARY KEY, sequence INTEGER NOT NULL, before INTEGER NOT NULL);
";

/// The newest commit that something in the index was born with.
const NEWEST: &str = "SELECT max(coalesce((SELECT max(birth) FROM event), 0),
    coalesce((SELECT max(birth) FROM checkpoint), 0), coalesce((SELECT max(birth) FROM document), 0))";

/// A checkpoint that was made, or brought back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MadeRow {
    /// Its id.
    pub id: String,
    /// Its workspace.
    pub workspace: rappel_types::WorkspaceId,
    /// Its number there.
    pub sequence: u64,
    /// When it was made, in milliseconds since the epoch.
    pub created_at: i64,
    /// Why it was made.
    pub trigger: String,
    /// The message that it was made with.
    pub description: Option<String>,
    /// The session that it was made in.
    pub session: Option<String>,
    /// Whether it holds files.
    pub holds_files: bool,
    /// Whether it had been deleted, and this commit brought it back.
    pub again: bool,
}

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Happened {
    /// A checkpoint was made or brought back.
    Made(MadeRow),
    /// A journal went on.
    Journal(EventRow),
    /// A document was written: a label, an undo, a tombstone, a workspace.
    Document(Kind, DocumentRow),
}

/// Takes in that gc took something away, before it is gone from the tables.
pub(super) fn note_collection(
    transaction: &Transaction<'_>,
    position: &Position,
) -> rusqlite::Result<()> {
    let known: Option<u64> = transaction
        .prepare_cached("SELECT max(generation) FROM collection")?
        .query_row([], |row| row.get(0))?;
    if position.generation <= known.unwrap_or(0) {
        return Ok(());
    }
    // An index that is being built does not know what was there.
    let before: u64 = match is_incomplete(transaction)? {
        true => position.sequence.saturating_sub(1),
        false => transaction.prepare_cached(NEWEST)?.query_row([], |row| row.get(0))?,
    };
    transaction
        .prepare_cached("INSERT OR REPLACE INTO collection VALUES (?1, ?2, ?3)")?
        .execute(params![position.generation, position.sequence, before])?;
    Ok(())
}

impl Index {
    /// The commits from `from` on that something was born with, at most so many.
    pub fn commits_from(&self, from: u64, limit: usize) -> Result<Vec<u64>> {
        let fail = self.fail();
        let mut statement = self
            .connection
            .prepare_cached(
                "SELECT birth FROM (
                     SELECT * FROM (SELECT DISTINCT birth FROM event WHERE birth >= ?1
                         ORDER BY birth LIMIT ?2) UNION
                     SELECT * FROM (SELECT DISTINCT birth FROM checkpoint WHERE birth >= ?1
                         ORDER BY birth LIMIT ?2) UNION
                     SELECT * FROM (SELECT DISTINCT birth FROM document WHERE birth >= ?1
                         ORDER BY birth LIMIT ?2))
                 ORDER BY birth LIMIT ?2",
            )
            .map_err(&fail)?;
        let (from, limit) = (i64::try_from(from).unwrap_or(i64::MAX), limit as i64);
        let rows = statement.query_map([from, limit], |row| row.get(0)).map_err(&fail)?;
        rows.collect::<Result<Vec<_>, _>>().map_err(&fail)
    }

    /// What happened with one commit: workspaces first, then journals, then checkpoints, then what
    /// was said about checkpoints. The order depends on nothing but what is stored.
    pub fn happened(&self, commit: u64) -> Result<Vec<Happened>> {
        let documents = |kinds: &[Kind]| -> Result<Vec<Happened>> {
            let mut found = Vec::new();
            for kind in kinds {
                found.extend(
                    self.born(*kind, commit)?.into_iter().map(|row| Happened::Document(*kind, row)),
                );
            }
            Ok(found)
        };
        let mut found = documents(&[Kind::Workspace])?;
        let events =
            self.event_rows("WHERE birth = ?1 ORDER BY session, number", params![commit])?;
        found.extend(events.into_iter().map(Happened::Journal));
        found.extend(self.made(commit)?.into_iter().map(Happened::Made));
        found.extend(documents(&[Kind::Label, Kind::Undo, Kind::Tombstone])?);
        Ok(found)
    }

    fn made(&self, commit: u64) -> Result<Vec<MadeRow>> {
        let fail = self.fail();
        let mut statement = self
            .connection
            .prepare_cached(
                "SELECT id, workspace, sequence, created_at, trigger, description, session,
                     holds_files, EXISTS (SELECT 1 FROM document d
                         WHERE d.kind = 9 AND d.key = c.id AND d.birth < c.birth)
                 FROM checkpoint c WHERE birth = ?1 GROUP BY id ORDER BY workspace, sequence, id",
            )
            .map_err(&fail)?;
        let rows = statement.query_map([commit], |row| {
            Ok(MadeRow {
                id: row.get(0)?,
                workspace: rappel_types::WorkspaceId(row.get::<_, i64>(1)? as u64),
                sequence: row.get(2)?,
                created_at: row.get(3)?,
                trigger: row.get(4)?,
                description: row.get(5)?,
                session: row.get(6)?,
                holds_files: row.get(7)?,
                again: row.get(8)?,
            })
        });
        rows.map_err(&fail)?.collect::<Result<Vec<_>, _>>().map_err(&fail)
    }

    fn born(&self, kind: Kind, commit: u64) -> Result<Vec<DocumentRow>> {
        let fail = self.fail();
        let mut statement = self
            .connection
            .prepare_cached(
                "SELECT key, birth, body FROM document INDEXED BY document_by_birth
                 WHERE birth = ?2 AND kind = ?1 GROUP BY key, id ORDER BY key, id",
            )
            .map_err(&fail)?;
        let rows = statement.query_map(params![kind as u8, commit], super::queries::document);
        rows.map_err(&fail)?.collect::<Result<Vec<_>, _>>().map_err(&fail)
    }

    /// Whether gc may have taken something away that was born after `commit`, since it had run
    /// `generation` times. `within` asks for that commit too.
    pub fn may_lack(&self, commit: u64, within: bool, generation: u64) -> Result<bool> {
        let now = self.position()?.map_or(0, |position| position.generation);
        let (known, newest): (u64, Option<u64>) = self
            .connection
            .prepare_cached("SELECT count(*), max(before) FROM collection WHERE generation > ?1")
            .and_then(|mut statement| {
                statement.query_row([generation], |row| Ok((row.get(0)?, row.get(1)?)))
            })
            .map_err(self.fail())?;
        let lost = |before: u64| before > commit || (within && before == commit);
        Ok(now.saturating_sub(generation) != known || newest.is_some_and(lost))
    }

    /// The newest commit, and how often gc has taken something away.
    pub fn reached(&self) -> Result<(u64, u64)> {
        let sequence = self
            .connection
            .prepare_cached("SELECT value FROM meta WHERE key = 'sequence'")
            .and_then(|mut statement| statement.query_row([], |row| row.get(0)).optional())
            .map_err(self.fail())?;
        let generation = self.position()?.map_or(0, |position| position.generation);
        Ok((sequence.unwrap_or(0), generation))
    }
}
