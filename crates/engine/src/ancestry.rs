//! Which checkpoint follows which, across those that were deleted.

use std::collections::HashMap;

use rappel_store::index::CheckpointRow;

use crate::error::Result;
use crate::rappel::Rappel;

/// The checkpoints of a workspace by what they follow.
pub(crate) struct Ancestry {
    /// Oldest first.
    rows: Vec<CheckpointRow>,
    places: HashMap<String, usize>,
    /// The parents of deleted ones, as long as they are known.
    deleted: HashMap<String, Option<String>>,
}

impl Ancestry {
    /// The checkpoints, oldest first.
    pub fn rows(&self) -> &[CheckpointRow] {
        &self.rows
    }

    /// The nearest ancestor that counts. Where the trail of a deleted one is lost, it is the checkpoint made before.
    pub fn parent(
        &self,
        row: &CheckpointRow,
        counts: impl Fn(&CheckpointRow) -> bool,
    ) -> Option<&CheckpointRow> {
        let mut at = row;
        loop {
            let mut named = at.parent.as_deref()?;
            let mut steps = 0;
            let next = loop {
                if let Some(place) = self.places.get(named) {
                    break &self.rows[*place];
                }
                steps += 1;
                match self.deleted.get(named) {
                    Some(Some(parent)) if steps <= self.deleted.len() => named = parent,
                    Some(None) => return None,
                    _ => {
                        let before = self.rows.partition_point(|row| row.sequence < at.sequence);
                        break self.rows.get(before.checked_sub(1)?)?;
                    }
                }
            };
            // A parent is older, or the history was tampered with.
            if next.sequence >= at.sequence {
                return None;
            }
            if counts(next) {
                return Some(next);
            }
            at = next;
        }
    }
}

impl Rappel {
    /// How this workspace's checkpoints follow each other.
    pub(crate) fn ancestry(&self) -> Result<Ancestry> {
        let rows = self.rows()?;
        let places = rows.iter().enumerate().map(|(at, row)| (row.id.to_string(), at)).collect();
        let deleted = match self.workspace_id() {
            None => HashMap::new(),
            Some(id) => {
                let rows = self.store.look_up(|index| index.deleted())?;
                let here = rows.into_iter().filter(|row| row.workspace == id);
                here.map(|row| (row.id.to_string(), row.parent)).collect()
            }
        };
        Ok(Ancestry { rows, places, deleted })
    }
}
