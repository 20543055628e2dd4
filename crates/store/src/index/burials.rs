//! What follows from checkpoints that are deleted or lost: numbers that are never given again, and
//! when gc has something to collect. Asked with every save, so neither may grow with the history.

use rusqlite::{OptionalExtension, Transaction, params};

use super::Index;
use crate::document::{Loss, Tombstone};
use crate::error::Result;
use crate::gc::GRACE;
use crate::record::Kind;

pub(super) const SCHEMA: &str = "
-- the highest number of a workspace's checkpoints that were deleted or lost.
CREATE TABLE spent (workspace INTEGER PRIMARY KEY, sequence INTEGER NOT NULL);
-- due: when gc may collect the checkpoint, in milliseconds since the epoch.
CREATE TABLE burial (
    due INTEGER NOT NULL, checkpoint TEXT NOT NULL, birth INTEGER NOT NULL, pack INTEGER NOT NULL,
    PRIMARY KEY (due, checkpoint, birth, pack)) WITHOUT ROWID;
";

/// Takes in a document. One that cannot be read says nothing.
pub(super) fn insert(
    transaction: &Transaction<'_>,
    (kind, json): (Kind, &str),
    birth: u64,
    pack: u32,
) -> rusqlite::Result<()> {
    let number = match kind {
        Kind::Tombstone => {
            let Ok(tombstone) = serde_json::from_str::<Tombstone>(json) else { return Ok(()) };
            let at = tombstone.at.as_millis();
            let due = if tombstone.now { at } else { at.saturating_add(grace()) };
            transaction
                .prepare_cached("INSERT OR IGNORE INTO burial VALUES (?1, ?2, ?3, ?4)")?
                .execute(params![due, tombstone.checkpoint.as_str(), birth, pack])?;
            Some((tombstone.workspace, tombstone.sequence))
        }
        Kind::Loss => {
            let loss = serde_json::from_str::<Loss>(json).ok();
            loss.and_then(|loss| Some((loss.workspace?, loss.sequence?)))
        }
        _ => None,
    };
    if let Some((workspace, sequence)) = number {
        transaction
            .prepare_cached(
                "INSERT INTO spent VALUES (?1, ?2) ON CONFLICT (workspace)
                 DO UPDATE SET sequence = max(sequence, excluded.sequence)",
            )?
            .execute(params![workspace.0 as i64, sequence])?;
    }
    Ok(())
}

fn grace() -> i64 {
    i64::try_from(GRACE.as_millis()).unwrap_or(i64::MAX)
}

impl Index {
    /// When gc may first collect a deleted checkpoint that was not due at `since` yet.
    pub(crate) fn next_burial(&self, since: i64) -> Result<Option<i64>> {
        self.connection
            .prepare_cached(
                "SELECT due FROM burial b WHERE due > ?1 AND EXISTS (
                     SELECT 1 FROM checkpoint c WHERE c.id = b.checkpoint AND c.birth < b.birth)
                 AND NOT EXISTS (
                     SELECT 1 FROM checkpoint c WHERE c.id = b.checkpoint AND c.birth > b.birth)
                 ORDER BY due LIMIT 1",
            )
            .and_then(|mut statement| statement.query_row([since], |row| row.get(0)).optional())
            .map_err(self.fail())
    }
}
