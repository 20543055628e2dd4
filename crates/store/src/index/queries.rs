//! Questions to the index about checkpoints, documents and packs.

use std::collections::HashSet;

use rappel_types::{CheckpointId, ObjectId, WorkspaceId};
use rusqlite::{OptionalExtension, params};

use super::{CheckpointRow, DocumentRow, Index, PackRow, RecordRow};
use crate::document::{Loss, Tombstone};
use crate::error::Result;
use crate::pack::PackId;
use crate::record::Kind;

impl Index {
    /// The checkpoints that were not deleted, of one workspace or all, oldest first.
    pub fn checkpoints(&self, workspace: Option<WorkspaceId>) -> Result<Vec<CheckpointRow>> {
        let fail = self.fail();
        let filter = workspace.map(|id| id.0 as i64);
        let mut statement = self
            .connection
            .prepare_cached(
                "SELECT id, workspace, sequence, holds_files, manifest, birth, trigger, created_at, parent
                 FROM checkpoint c
                 WHERE (?1 IS NULL OR workspace = ?1) AND NOT EXISTS (
                     SELECT 1 FROM checkpoint n WHERE n.id = c.id AND
                         (n.birth > c.birth OR (n.birth = c.birth AND n.number > c.number))) AND NOT EXISTS (
                     SELECT 1 FROM document d
                     WHERE d.kind = ?2 AND d.key = c.id AND d.birth > c.birth)
                 ORDER BY workspace, sequence",
            )
            .map_err(&fail)?;
        let rows = statement
            .query_map(params![filter, Kind::Tombstone as u8], checkpoint_row)
            .map_err(&fail)?;
        rows.collect::<Result<Vec<_>, _>>().map_err(&fail)
    }

    /// The newest checkpoint of a workspace that was not deleted.
    pub fn newest(&self, workspace: WorkspaceId) -> Result<Option<CheckpointRow>> {
        self.newest_of(workspace, false)
    }

    /// The newest of those that hold files.
    pub fn newest_with_files(&self, workspace: WorkspaceId) -> Result<Option<CheckpointRow>> {
        self.newest_of(workspace, true)
    }

    fn newest_of(&self, workspace: WorkspaceId, files_only: bool) -> Result<Option<CheckpointRow>> {
        self.connection
            .prepare_cached(
                "SELECT id, workspace, sequence, holds_files, manifest, birth, trigger, created_at, parent
                 FROM checkpoint c
                 WHERE workspace = ?1 AND (holds_files OR NOT ?3) AND NOT EXISTS (
                     SELECT 1 FROM checkpoint n WHERE n.id = c.id AND
                         (n.birth > c.birth OR (n.birth = c.birth AND n.number > c.number))) AND NOT EXISTS (
                     SELECT 1 FROM document d
                     WHERE d.kind = ?2 AND d.key = c.id AND d.birth > c.birth)
                 ORDER BY sequence DESC LIMIT 1",
            )
            .and_then(|mut statement| {
                let asked = params![workspace.0 as i64, Kind::Tombstone as u8, files_only];
                statement.query_row(asked, checkpoint_row).optional()
            })
            .map_err(self.fail())
    }

    /// A checkpoint by its exact id, deleted or not; the flag says which.
    pub fn checkpoint(&self, id: &CheckpointId) -> Result<Option<(CheckpointRow, bool)>> {
        let fail = self.fail();
        self.connection
            .prepare_cached(
                "SELECT id, workspace, sequence, holds_files, manifest, birth, trigger, created_at, parent,
                     EXISTS (SELECT 1 FROM document d
                             WHERE d.kind = ?2 AND d.key = c.id AND d.birth > c.birth)
                 FROM checkpoint c WHERE id = ?1 ORDER BY birth DESC LIMIT 1",
            )
            .and_then(|mut statement| {
                statement
                    .query_row(params![id.as_str(), Kind::Tombstone as u8], |row| {
                        Ok((checkpoint_row(row)?, row.get(9)?))
                    })
                    .optional()
            })
            .map_err(&fail)
    }

    /// The deleted checkpoints that gc has not collected yet.
    pub fn deleted(&self) -> Result<Vec<CheckpointRow>> {
        let fail = self.fail();
        let mut statement = self
            .connection
            .prepare_cached(
                "SELECT id, workspace, sequence, holds_files, manifest, birth, trigger, created_at, parent
                 FROM checkpoint c WHERE NOT EXISTS (
                     SELECT 1 FROM checkpoint n WHERE n.id = c.id AND
                         (n.birth > c.birth OR (n.birth = c.birth AND n.number > c.number))) AND EXISTS (
                     SELECT 1 FROM document d
                     WHERE d.kind = ?1 AND d.key = c.id AND d.birth > c.birth)",
            )
            .map_err(&fail)?;
        let rows = statement.query_map([Kind::Tombstone as u8], checkpoint_row).map_err(&fail)?;
        rows.collect::<Result<Vec<_>, _>>().map_err(&fail)
    }

    /// The highest sequence number that a workspace's checkpoints have had, collected and lost ones
    /// included.
    pub fn last_sequence(&self, workspace: WorkspaceId) -> Result<u64> {
        let held: u64 = self
            .connection
            .prepare_cached(
                "SELECT coalesce(max(sequence), 0) FROM checkpoint WHERE workspace = ?1",
            )
            .and_then(|mut statement| statement.query_row([workspace.0 as i64], |row| row.get(0)))
            .map_err(self.fail())?;
        let buried = self
            .documents(Kind::Tombstone, None)?
            .iter()
            .filter_map(|row| serde_json::from_str::<Tombstone>(&row.json).ok())
            .filter(|tombstone| tombstone.workspace == workspace)
            .map(|tombstone| tombstone.sequence)
            .max();
        let lost = self
            .documents(Kind::Loss, None)?
            .iter()
            .filter_map(|row| serde_json::from_str::<Loss>(&row.json).ok())
            .filter(|loss| loss.workspace == Some(workspace))
            .filter_map(|loss| loss.sequence)
            .max();
        Ok(held.max(buried.unwrap_or(0)).max(lost.unwrap_or(0)))
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

fn checkpoint_row(row: &rusqlite::Row<'_>) -> rusqlite::Result<CheckpointRow> {
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
    })
}

fn document(row: &rusqlite::Row<'_>) -> rusqlite::Result<DocumentRow> {
    Ok(DocumentRow { key: row.get(0)?, birth: row.get(1)?, json: row.get(2)? })
}
