//! Questions to the index about checkpoints, documents and packs.

use std::collections::HashSet;

use rappel_types::{CheckpointId, ObjectId, WorkspaceId};
use rusqlite::{OptionalExtension, params};

use super::{CheckpointRow, DocumentRow, Index, PackRow, RecordRow};
use crate::error::Result;
use crate::pack::PackId;
use crate::record::Kind;

/// What [`checkpoint_row`] reads.
macro_rules! columns {
    () => {
        "id, workspace, sequence, holds_files, manifest, birth, trigger, created_at, parent, folded"
    };
}

pub(super) const COLUMNS: &str = columns!();

/// A question for the records of checkpoints; what follows it is a condition.
macro_rules! records {
    ($condition:literal) => {
        concat!("SELECT ", columns!(), " FROM checkpoint c WHERE ", $condition)
    };
}

/// The same, for those that count: of a checkpoint's records the last, unless it was deleted since.
macro_rules! checkpoints {
    ($condition:literal) => {
        concat!(records!("live AND "), $condition)
    };
}

/// Which of a workspace's checkpoints are meant.
#[derive(Debug, Clone, Copy)]
pub struct Meant<'a> {
    /// Only those that hold files.
    pub files_only: bool,
    /// Only those with a lower number.
    pub before: Option<u64>,
    /// Only those that were made by then, in milliseconds since the epoch.
    pub until: Option<i64>,
    /// Only those that were made for another reason.
    pub except: Option<&'a str>,
}

impl Meant<'_> {
    /// All of them.
    pub const ALL: Self = Self { files_only: false, before: None, until: None, except: None };
    /// All that hold files.
    pub const WITH_FILES: Self = Self { files_only: true, ..Self::ALL };
}

impl Index {
    /// The checkpoints that were not deleted, of one workspace or all, oldest first.
    pub fn checkpoints(&self, workspace: Option<WorkspaceId>) -> Result<Vec<CheckpointRow>> {
        match workspace {
            Some(id) => self.checkpoint_rows(
                checkpoints!("workspace = ?1 ORDER BY workspace, sequence"),
                [id.0 as i64],
            ),
            None => self.checkpoint_rows(checkpoints!("TRUE ORDER BY workspace, sequence"), []),
        }
    }

    /// The newest checkpoint of a workspace that was not deleted.
    pub fn newest(&self, workspace: WorkspaceId) -> Result<Option<CheckpointRow>> {
        self.newest_of(workspace, Meant::ALL)
    }

    /// The newest of those that hold files.
    pub fn newest_with_files(&self, workspace: WorkspaceId) -> Result<Option<CheckpointRow>> {
        self.newest_of(workspace, Meant::WITH_FILES)
    }

    /// The newest of those that are meant. Takes as long as it takes to pass over newer ones.
    pub fn newest_of(
        &self,
        workspace: WorkspaceId,
        meant: Meant<'_>,
    ) -> Result<Option<CheckpointRow>> {
        let query = checkpoints!(
            "workspace = ?1 AND sequence < ?2 AND (holds_files OR NOT ?3) AND created_at <= ?4
             AND (?5 IS NULL OR trigger <> ?5) ORDER BY sequence DESC LIMIT 1"
        );
        let Meant { files_only, before, until, except } = meant;
        let before = before.and_then(|before| i64::try_from(before).ok()).unwrap_or(i64::MAX);
        let asked =
            params![workspace.0 as i64, before, files_only, until.unwrap_or(i64::MAX), except];
        Ok(self.checkpoint_rows(query, asked)?.pop())
    }

    /// A workspace's checkpoint by its number.
    pub fn numbered(&self, workspace: WorkspaceId, sequence: u64) -> Result<Option<CheckpointRow>> {
        let Ok(sequence) = i64::try_from(sequence) else { return Ok(None) };
        let query = checkpoints!("workspace = ?1 AND sequence = ?2 LIMIT 1");
        Ok(self.checkpoint_rows(query, params![workspace.0 as i64, sequence])?.pop())
    }

    /// The checkpoints whose id begins like this, of one workspace or all, oldest first.
    pub fn beginning(
        &self,
        workspace: Option<WorkspaceId>,
        text: &str,
    ) -> Result<Vec<CheckpointRow>> {
        // Ids are of letters, digits and a few signs, all below this character.
        let end = format!("{text}\u{7f}");
        let query = checkpoints!(
            "id >= ?1 AND id < ?2 AND (?3 IS NULL OR workspace = ?3) ORDER BY workspace, sequence"
        );
        self.checkpoint_rows(query, params![text, end, workspace.map(|id| id.0 as i64)])
    }

    fn checkpoint_rows(
        &self,
        query: &str,
        asked: impl rusqlite::Params,
    ) -> Result<Vec<CheckpointRow>> {
        let fail = self.fail();
        let mut statement = self.connection.prepare_cached(query).map_err(&fail)?;
        let rows = statement.query_map(asked, checkpoint_row).map_err(&fail)?;
        rows.collect::<Result<Vec<_>, _>>().map_err(&fail)
    }

    /// A checkpoint by its exact id, deleted or not; the flag says which.
    pub fn checkpoint(&self, id: &CheckpointId) -> Result<Option<(CheckpointRow, bool)>> {
        let query = records!("id = ?1 ORDER BY birth DESC LIMIT 1");
        let Some(row) = self.checkpoint_rows(query, [id.as_str()])?.pop() else { return Ok(None) };
        let tombstone = self.newest_document(Kind::Tombstone, id.as_str())?;
        let deleted = tombstone.is_some_and(|tombstone| tombstone.birth > row.birth);
        Ok(Some((row, deleted)))
    }

    /// The deleted checkpoints that gc has not collected yet.
    pub fn deleted(&self) -> Result<Vec<CheckpointRow>> {
        let query = records!(
            "NOT EXISTS (
                SELECT 1 FROM checkpoint n WHERE n.id = c.id AND
                    (n.birth > c.birth OR (n.birth = c.birth AND n.number > c.number))) AND EXISTS (
                SELECT 1 FROM document d WHERE d.kind = 9 AND d.key = c.id AND d.birth > c.birth)"
        );
        self.checkpoint_rows(query, [])
    }

    /// The highest sequence number that a workspace's checkpoints have had, collected and lost ones
    /// included.
    pub fn last_sequence(&self, workspace: WorkspaceId) -> Result<u64> {
        self.connection
            .prepare_cached(
                "SELECT max(
                     coalesce((SELECT max(sequence) FROM checkpoint WHERE workspace = ?1), 0),
                     coalesce((SELECT sequence FROM spent WHERE workspace = ?1), 0))",
            )
            .and_then(|mut statement| statement.query_row([workspace.0 as i64], |row| row.get(0)))
            .map_err(self.fail())
    }

    /// The documents of a kind about `key` (or all), in the order of their birth.
    pub fn documents(&self, kind: Kind, key: Option<&str>) -> Result<Vec<DocumentRow>> {
        let fail = self.fail();
        let mut statement = self
            .connection
            .prepare_cached(
                "SELECT key, birth, body FROM document
                 WHERE kind = ?1 AND (?2 IS NULL OR key = ?2)
                 GROUP BY key, birth, id ORDER BY birth",
            )
            .map_err(&fail)?;
        let rows = statement.query_map(params![kind as u8, key], document).map_err(&fail)?;
        rows.collect::<Result<Vec<_>, _>>().map_err(&fail)
    }

    /// So many documents of a kind about `key`, from those born with this commit back, without a
    /// look at the others. One of which gc made a copy may be among them twice.
    pub fn documents_back(
        &self,
        kind: Kind,
        key: &str,
        until: u64,
        limit: usize,
    ) -> Result<Vec<DocumentRow>> {
        let fail = self.fail();
        let mut statement = self
            .connection
            .prepare_cached(
                "SELECT key, birth, body FROM document
                 WHERE kind = ?1 AND key = ?2 AND birth <= ?3
                 ORDER BY birth DESC, id DESC LIMIT ?4",
            )
            .map_err(&fail)?;
        let until = i64::try_from(until).unwrap_or(i64::MAX);
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = statement.query_map(params![kind as u8, key, until, limit], document);
        rows.map_err(&fail)?.collect::<Result<Vec<_>, _>>().map_err(&fail)
    }

    /// The newest document of a kind about `key`, without a look at the others.
    pub fn newest_document(&self, kind: Kind, key: &str) -> Result<Option<DocumentRow>> {
        self.connection
            .prepare_cached(
                "SELECT key, birth, body FROM document
                 WHERE kind = ?1 AND key = ?2 ORDER BY birth DESC, id DESC LIMIT 1",
            )
            .and_then(|mut statement| {
                statement.query_row(params![kind as u8, key], document).optional()
            })
            .map_err(self.fail())
    }

    /// The records of manifests, and those of documents but for journals, that were born with this
    /// commit or before.
    pub(crate) fn records(&self, birth: u64) -> Result<(HashSet<RecordRow>, HashSet<RecordRow>)> {
        let of = |table: &str, id: &str| {
            let fail = self.fail();
            let query = format!(
                "SELECT p.name, r.offset, r.birth, r.{id}
                 FROM {table} r JOIN pack p ON p.number = r.pack WHERE r.birth <= ?1"
            );
            let mut statement = self.connection.prepare_cached(&query).map_err(&fail)?;
            let mut rows = statement.query([birth]).map_err(&fail)?;
            let mut found = HashSet::new();
            while let Some(row) = rows.next().map_err(&fail)? {
                let name: String = row.get(0).map_err(&fail)?;
                if let Some(pack) = PackId::from_name(&name) {
                    let (offset, birth) = (row.get(1).map_err(&fail)?, row.get(2).map_err(&fail)?);
                    found.insert((pack, offset, birth, ObjectId(row.get(3).map_err(&fail)?)));
                }
            }
            Ok(found)
        };
        Ok((of("checkpoint", "manifest")?, of("document", "id")?))
    }

    /// Every pack that counts, or did until it was retired.
    pub fn packs(&self) -> Result<Vec<PackRow>> {
        let fail = self.fail();
        let mut statement = self
            .connection
            .prepare_cached(
                "SELECT name, length, hash, birth, retired_at FROM pack ORDER BY number",
            )
            .map_err(&fail)?;
        let rows = statement
            .query_map([], |row| {
                let hash: Option<Vec<u8>> = row.get(2)?;
                Ok((row.get::<_, String>(0)?, row.get(1)?, hash, row.get(3)?, row.get(4)?))
            })
            .map_err(&fail)?;
        let mut found = Vec::new();
        for row in rows {
            let (name, length, hash, birth, retired_at) = row.map_err(&fail)?;
            if let Some(pack) = PackId::from_name(&name) {
                let hash = hash.and_then(|hash| Some(ObjectId(hash.try_into().ok()?)));
                found.push(PackRow { pack, length, hash, birth, retired_at });
            }
        }
        Ok(found)
    }
}

pub(super) fn checkpoint_row(row: &rusqlite::Row<'_>) -> rusqlite::Result<CheckpointRow> {
    let id: String = row.get(0)?;
    let manifest: [u8; 32] = row.get(4)?;
    Ok(CheckpointRow {
        id: id.parse().map_err(|error| {
            rusqlite::Error::FromSqlConversionFailure(
                0,
                rusqlite::types::Type::Text,
                Box::new(error),
            )
        })?,
        workspace: WorkspaceId(row.get::<_, i64>(1)? as u64),
        sequence: row.get(2)?,
        holds_files: row.get(3)?,
        manifest: ObjectId(manifest),
        birth: row.get(5)?,
        trigger: row.get(6)?,
        created_at: row.get(7)?,
        parent: row.get(8)?,
        folded: row.get(9)?,
    })
}

pub(super) fn document(row: &rusqlite::Row<'_>) -> rusqlite::Result<DocumentRow> {
    Ok(DocumentRow { key: row.get(0)?, birth: row.get(1)?, json: row.get(2)? })
}
