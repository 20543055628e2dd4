//! Writing down what the log has lost, as soon as somebody who may write notices it. The index is a
//! view and can be gone tomorrow: that something was there must be known to the packs.

use std::collections::{HashMap, HashSet};

use rappel_types::CheckpointId;

use crate::append::{Change, Space};
use crate::document::Loss;
use crate::error::{Error, Result};
use crate::index::Suspect;
use crate::lock::Lock;
use crate::log::Tail;
use crate::pack::PackId;
use crate::record::Kind;
use crate::scan::Scan;
use crate::store::{Store, held};
use crate::writer::{NewRecord, Spool};

impl Store {
    /// Of the checkpoints that the index knew before it was built anew, keeps those in mind that
    /// damage has taken. What gc took is in packs that were retired.
    pub(crate) fn sift_suspects(&self) -> Result<()> {
        let suspects = self.with_index(|index| index.suspects())?;
        if suspects.is_empty() {
            return Ok(());
        }
        let retired: HashSet<PackId> = self
            .with_index(|index| index.packs())?
            .into_iter()
            .filter(|row| row.retired_at.is_some())
            .map(|row| row.pack)
            .collect();
        let damaged = !held(&self.damage).is_empty();
        let mut lost: Vec<Suspect> = Vec::new();
        for suspect in suspects.into_iter().filter(|_| damaged) {
            let retired =
                PackId::from_name(&suspect.pack).is_none_or(|pack| retired.contains(&pack));
            let found = self.with_index(|index| index.checkpoint(&suspect.id))?.is_some();
            if !retired && !found && !lost.iter().any(|known| known.id == suspect.id) {
                lost.push(suspect);
            }
        }
        self.with_index(|index| index.set_suspects(&lost))
    }

    /// Appends a run that says which checkpoints are lost, if there are any or if the log has lost
    /// its end: the pack that it begins says how far the log counted. True if it did.
    pub(crate) fn write_down_losses(&self, lock: &mut Lock, tail: &Tail) -> Result<bool> {
        let lost = self.with_index(|index| index.suspects())?;
        if lost.is_empty() && tail.sequence == tail.indexed_sequence() {
            return Ok(false);
        }
        let mut spool = Spool::default();
        for Suspect { id, workspace, sequence, .. } in lost {
            let loss = Loss {
                structure: true,
                workspace: Some(workspace),
                sequence: Some(sequence),
                ..Loss::of_nothing(self.clock.now())
            };
            let json = serde_json::to_string(&loss)
                .map_err(|error| Error::Damaged(format!("loss: {error}")))?;
            let new = NewRecord::Document { kind: Kind::Loss, key: id.to_string(), json };
            let (kind, record, body) = self.encode_new(new)?;
            spool.add(self, kind, &record, body)?;
        }
        let change = Change { generation: tail.generation, ..Change::default() };
        self.append(lock, tail, spool, change, Space::Urgent)?;
        self.with_index(|index| index.set_suspects(&[]))?;
        Ok(true)
    }

    /// A checkpoint that damage has taken as a whole, and what is known of it.
    pub(crate) fn lost_checkpoint(&self, id: &CheckpointId) -> Result<Option<Loss>> {
        let (loss, tombstone, found) = self.with_index(|index| {
            let loss = index.newest_document(Kind::Loss, id.as_str())?;
            let tombstone = index.newest_document(Kind::Tombstone, id.as_str())?;
            Ok((loss, tombstone, index.checkpoint(id)?.is_some()))
        })?;
        let Some(row) = loss.filter(|_| !found) else { return Ok(None) };
        let buried = tombstone.is_some_and(|tombstone| tombstone.birth > row.birth);
        let loss = serde_json::from_str::<Loss>(&row.json).ok();
        Ok(loss.filter(|loss| loss.takes_all() && !buried))
    }
}

/// The checkpoints that damage has taken as a whole, as the packs tell it: neither found since nor
/// deleted. `found` are those of which there is a manifest.
pub(crate) fn lost_checkpoints(
    scan: &Scan<'_>,
    found: impl Fn(&CheckpointId) -> bool,
) -> Vec<CheckpointId> {
    let mut last: HashMap<CheckpointId, (u64, bool)> = HashMap::new();
    for document in &scan.documents {
        let lost = match document.kind {
            Kind::Loss => {
                serde_json::from_str(&document.json).is_ok_and(|loss: Loss| loss.takes_all())
            }
            Kind::Tombstone => false,
            _ => continue,
        };
        let Ok(id) = document.key.parse::<CheckpointId>() else { continue };
        let newest = last.entry(id).or_insert((document.birth, lost));
        if newest.0 < document.birth {
            *newest = (document.birth, lost);
        }
    }
    let lost = last.into_iter().filter(|(_, (_, lost))| *lost).map(|(id, _)| id);
    let mut lost: Vec<CheckpointId> = lost.filter(|id| !found(id)).collect();
    lost.sort();
    lost
}
