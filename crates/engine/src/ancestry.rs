//! Which checkpoint follows which, across those that were deleted.

use std::collections::HashMap;

use rappel_store::index::{CheckpointRow, Meant};

use crate::error::Result;
use crate::rappel::Rappel;

/// The checkpoints of a workspace by what they follow, and perhaps those of its lineages.
pub(crate) struct Ancestry {
    /// History by history, the workspace's own first; oldest first in each.
    rows: Vec<CheckpointRow>,
    places: HashMap<String, usize>,
    /// The parents of deleted ones, as long as they are known.
    deleted: HashMap<String, Option<String>>,
}

impl Ancestry {
    /// The checkpoints, oldest first in each history.
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
                        break self.before(at)?;
                    }
                }
            };
            // A parent is older and of the same history, or that was tampered with.
            if next.sequence >= at.sequence || next.workspace != at.workspace {
                return None;
            }
            if counts(next) {
                return Some(next);
            }
            at = next;
        }
    }
}

impl Ancestry {
    /// The checkpoint of the same history that was made before.
    fn before(&self, row: &CheckpointRow) -> Option<&CheckpointRow> {
        let is_before =
            |one: &&CheckpointRow| one.workspace == row.workspace && one.sequence < row.sequence;
        let rows = match self.places.get(row.id.as_str()) {
            Some(place) => &self.rows[..*place],
            None => &self.rows[..],
        };
        rows.iter().rev().find(is_before)
    }
}

impl Rappel {
    /// The nearest ancestor that counts, as [`Ancestry::parent`] has it, without a look at the
    /// whole history.
    pub(crate) fn ancestor(
        &self,
        row: &CheckpointRow,
        counts: impl Fn(&CheckpointRow) -> bool,
    ) -> Result<Option<CheckpointRow>> {
        let mut at = row.clone();
        loop {
            let Some(next) = self.parent_row(&at)?.filter(|next| next.sequence < at.sequence)
            else {
                return Ok(None);
            };
            if counts(&next) {
                return Ok(Some(next));
            }
            at = next;
        }
    }

    fn parent_row(&self, row: &CheckpointRow) -> Result<Option<CheckpointRow>> {
        let mut named = row.parent.clone();
        let mut below = row.sequence;
        loop {
            let Some(parent) = named else { return Ok(None) };
            let found = match parent.parse() {
                Ok(id) => self.store.look_up(|index| index.checkpoint(&id))?,
                Err(_) => None,
            };
            match found.filter(|(found, _)| found.workspace == row.workspace) {
                Some((found, false)) => return Ok(Some(found)),
                // A parent is older, or the history was tampered with.
                Some((found, true)) if found.sequence < below => {
                    below = found.sequence;
                    named = found.parent;
                }
                _ => {
                    let before = Meant { before: Some(row.sequence), ..Meant::ALL };
                    return Ok(self
                        .store
                        .look_up(|index| index.newest_of(row.workspace, before))?);
                }
            }
        }
    }

    /// How this workspace's checkpoints follow each other.
    pub(crate) fn ancestry(&self) -> Result<Ancestry> {
        self.ancestry_of(vec![self.rows()?])
    }

    /// The same with those of its lineages.
    pub(crate) fn joined_ancestry(&self) -> Result<Ancestry> {
        self.ancestry_of(self.histories()?)
    }

    fn ancestry_of(&self, histories: Vec<Vec<CheckpointRow>>) -> Result<Ancestry> {
        let rows: Vec<CheckpointRow> = histories.into_iter().flatten().collect();
        let places = rows.iter().enumerate().map(|(at, row)| (row.id.to_string(), at)).collect();
        let deleted = match self.workspace_id() {
            None => HashMap::new(),
            Some(_) => {
                let deleted = self.store.look_up(|index| index.deleted())?;
                deleted.into_iter().map(|row| (row.id.to_string(), row.parent)).collect()
            }
        };
        Ok(Ancestry { rows, places, deleted })
    }
}
