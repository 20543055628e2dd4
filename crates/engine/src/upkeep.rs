//! Upkeep: deleting, collecting garbage, verifying.

use rappel_store::gc::{GcOptions, GcReport};
use rappel_store::index::CheckpointRow;
use rappel_types::{CheckpointId, Reference};

use crate::checkpoint::Checkpoint;
use crate::error::{Error, Result};
use crate::rappel::Rappel;

impl Rappel {
    /// Deletes checkpoints. What others need stays; the space comes back after a day, or with the
    /// next gc if `now`. An unfinished restore's checkpoints cannot be deleted.
    pub fn delete(&self, references: &[Reference], now: bool) -> Result<Vec<CheckpointId>> {
        let mut rows: Vec<CheckpointRow> = Vec::new();
        for reference in references {
            let row = self.resolve(reference, false)?;
            if !rows.iter().any(|known| known.id == row.id) {
                rows.push(row);
            }
        }
        let needed = self.checkpoints_of_open_restores()?;
        if let Some(row) = rows.iter().find(|row| needed.contains(&row.id)) {
            return Err(Error::Usage {
                message: format!("{} is needed by an unfinished restore", row.id),
                hint: Some("rappel recover".into()),
            });
        }
        self.store.delete(&rows, now)?;
        Ok(rows.into_iter().map(|row| row.id).collect())
    }

    /// Brings back a deleted checkpoint, as long as gc has not taken it.
    pub fn undelete(&self, id: &str) -> Result<Checkpoint> {
        let missing = || Error::NoCheckpoint { reference: id.to_owned(), nearest: Vec::new() };
        let id: CheckpointId = id.parse().map_err(|_| missing())?;
        self.store.undelete(&id)?;
        let row = self.store.checkpoint(&id)?.ok_or_else(missing)?;
        self.view(&row)
    }

    /// Frees what nothing needs any more.
    pub fn gc(&self, now: bool, dry_run: bool) -> Result<GcReport> {
        let roots = self.checkpoints_of_open_restores()?;
        let options = GcOptions { now, dry_run, roots, ..GcOptions::default() };
        Ok(self.store.gc(&options)?)
    }

    /// Whether gc has something to do, cheaply.
    pub fn gc_due(&self) -> bool {
        self.store.gc_due().unwrap_or(false)
    }

    /// Checkpoints that an unfinished restore may still need, in any workspace.
    pub(crate) fn checkpoints_of_open_restores(&self) -> Result<Vec<CheckpointId>> {
        let open = self.intents().list()?.open;
        Ok(open
            .into_iter()
            .flat_map(|intent| [intent.header.target, intent.header.safety])
            .collect())
    }
}
