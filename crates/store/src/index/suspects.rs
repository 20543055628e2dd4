//! Checkpoints that the index knew before it was built anew. Where the log is damaged, those that
//! do not come back are lost, and nobody else can say which they are.

use rappel_types::{CheckpointId, WorkspaceId};
use rusqlite::{OptionalExtension, Transaction, params};
use serde::{Deserialize, Serialize};

use super::Index;
use crate::error::Result;
use crate::record::Kind;

const KEY: &str = "suspects";

/// A checkpoint that may be lost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Suspect {
    pub id: CheckpointId,
    pub workspace: WorkspaceId,
    /// Its number there.
    pub sequence: u64,
    /// The name of the pack that its manifest was in.
    pub pack: String,
}

impl Index {
    /// Those that are remembered.
    pub(crate) fn suspects(&self) -> Result<Vec<Suspect>> {
        let text: Option<String> = self
            .connection
            .prepare_cached("SELECT value FROM meta WHERE key = ?1")
            .and_then(|mut statement| statement.query_row([KEY], |row| row.get(0)).optional())
            .map_err(self.fail())?;
        Ok(text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default())
    }

    /// Remembers these and no others.
    pub(crate) fn set_suspects(&mut self, suspects: &[Suspect]) -> Result<()> {
        let fail = self.fail();
        let transaction = self.connection.transaction().map_err(&fail)?;
        store(&transaction, suspects).map_err(&fail)?;
        transaction.commit().map_err(&fail)
    }

    /// Those that are remembered and everything that is listed now.
    pub(super) fn all_suspects(&self) -> Result<Vec<Suspect>> {
        let mut found = self.suspects()?;
        let fail = self.fail();
        let mut statement = self
            .connection
            .prepare_cached(
                "SELECT c.id, c.workspace, c.sequence, p.name
                 FROM checkpoint c JOIN pack p ON p.number = c.pack
                 WHERE NOT EXISTS (
                     SELECT 1 FROM document d
                     WHERE d.kind = ?1 AND d.key = c.id AND d.birth > c.birth)",
            )
            .map_err(&fail)?;
        let mut rows = statement.query(params![Kind::Tombstone as u8]).map_err(&fail)?;
        while let Some(row) = rows.next().map_err(&fail)? {
            let id: String = row.get(0).map_err(&fail)?;
            let Ok(id) = id.parse() else { continue };
            found.push(Suspect {
                id,
                workspace: WorkspaceId(row.get::<_, i64>(1).map_err(&fail)? as u64),
                sequence: row.get(2).map_err(&fail)?,
                pack: row.get(3).map_err(&fail)?,
            });
        }
        Ok(found)
    }
}

pub(super) fn store(transaction: &Transaction<'_>, suspects: &[Suspect]) -> rusqlite::Result<()> {
    if suspects.is_empty() {
        transaction.execute("DELETE FROM meta WHERE key = ?1", [KEY])?;
        return Ok(());
    }
    // A list of texts and numbers cannot fail to become JSON.
    let text = serde_json::to_string(suspects).unwrap_or_default();
    transaction
        .execute("INSERT OR REPLACE INTO meta (key, value) VALUES (?1, ?2)", params![KEY, text])?;
    Ok(())
}
