//! From what people write to the checkpoint that they mean.

use rappel_store::document::Tombstone;
use rappel_store::index::CheckpointRow;
use rappel_store::record::Kind;
use rappel_types::reference::Base;
use rappel_types::{Reference, Trigger};

use crate::browse::ListFilter;
use crate::error::{Error, Result};
use crate::rappel::Rappel;

/// How many ids are named where none is meant.
const NEAREST: usize = 3;

impl Rappel {
    /// The checkpoint that a reference means. With `files_only`, checkpoints of agent state alone
    /// are passed over by everything but an id and a sequence number.
    pub fn resolve(&self, reference: &Reference, files_only: bool) -> Result<CheckpointRow> {
        // An id needs no look at all the others.
        if let (Base::Id(id), 0) = (&reference.base, reference.back)
            && let Some(row) = self.store.checkpoint(id)?
        {
            return Ok(row);
        }
        let rows = self.rows()?;
        let mut found = self.resolve_base(reference, &rows, files_only)?;
        for _ in 0..reference.back {
            found = parent(&found, &rows, files_only).ok_or_else(|| Error::NoCheckpoint {
                reference: reference.to_string(),
                nearest: vec![found.id.to_string()],
            })?;
        }
        Ok(found)
    }

    /// The same for what is asked of agents: checkpoints with files are meant, as everywhere, where there are any.
    pub(crate) fn resolve_remembered(&self, reference: &Reference) -> Result<CheckpointRow> {
        self.resolve(reference, true).or_else(|_| self.resolve(reference, false))
    }

    /// What a reference means among the workspace's checkpoints, without the steps back.
    pub(crate) fn resolve_base(
        &self,
        reference: &Reference,
        rows: &[CheckpointRow],
        files_only: bool,
    ) -> Result<CheckpointRow> {
        let counts = |row: &&CheckpointRow| row.holds_files || !files_only;
        let missing = |nearest| Error::NoCheckpoint { reference: reference.to_string(), nearest };
        match &reference.base {
            Base::Latest => rows
                .iter()
                .rev()
                .filter(counts)
                .find(|row| row.trigger != Trigger::PreRestore.as_str())
                .or_else(|| rows.iter().rev().find(counts))
                .cloned()
                .ok_or_else(|| missing(Vec::new())),
            Base::Sequence(number) => match rows.iter().find(|row| row.sequence == *number) {
                Some(row) => Ok(row.clone()),
                None => {
                    self.refuse_deleted(|row| row.sequence == *number)?;
                    let mut near: Vec<_> = rows.iter().collect();
                    near.sort_by_key(|row| row.sequence.abs_diff(*number));
                    Err(missing(ids(near)))
                }
            },
            Base::At(when) => {
                let at = when.resolve_end(self.now(), &self.options.zone).map_err(|error| {
                    Error::Usage { message: error.to_string(), hint: Some(error.hint()) }
                })?;
                rows.iter()
                    .rev()
                    .filter(counts)
                    .find(|row| row.created_at <= at.as_millis())
                    .cloned()
                    .ok_or_else(|| missing(ids(rows.first())))
            }
            Base::Imported { id, .. } | Base::Id(id) => {
                self.by_prefix(id.as_str(), rows, reference)
            }
        }
    }

    fn by_prefix(
        &self,
        text: &str,
        rows: &[CheckpointRow],
        reference: &Reference,
    ) -> Result<CheckpointRow> {
        if let Ok(id) = text.parse()
            && let Some(row) = self.store.checkpoint(&id)?
        {
            return Ok(row);
        }
        let matching: Vec<_> =
            rows.iter().filter(|row| row.id.as_str().starts_with(text)).collect();
        match matching[..] {
            [one] => Ok(one.clone()),
            [] => {
                if let Ok(checkpoint) = text.parse()
                    && self.store.is_lost(&checkpoint)?
                {
                    return Err(Error::Lost { checkpoint });
                }
                self.refuse_deleted(|row| row.id.as_str().starts_with(text))?;
                let reference = reference.to_string();
                match self.tagged(text) {
                    tagged if tagged.is_empty() => {
                        Err(Error::NoCheckpoint { reference, nearest: nearest(text, rows) })
                    }
                    tagged => Err(Error::ATag { reference, tagged }),
                }
            }
            _ => Err(Error::Ambiguous {
                reference: reference.to_string(),
                candidates: matching.iter().take(10).map(|row| row.id.to_string()).collect(),
            }),
        }
    }
}

impl Rappel {
    /// This workspace's deleted checkpoints that can still be brought back, oldest first.
    pub(crate) fn deleted_rows(&self) -> Result<Vec<CheckpointRow>> {
        let Some(id) = self.workspace_id() else { return Ok(Vec::new()) };
        let mut rows = self.store.look_up(|index| index.deleted())?;
        rows.retain(|row| row.workspace == id && self.store.manifest(row).is_ok());
        let mut found = Vec::with_capacity(rows.len());
        for row in rows {
            if !self.deleted_for_good(&row)? {
                found.push(row);
            }
        }
        found.sort_by_key(|row| row.sequence);
        Ok(found)
    }

    /// Whether a deleted checkpoint was deleted without a day of grace.
    pub(crate) fn deleted_for_good(&self, row: &CheckpointRow) -> Result<bool> {
        let key = Some(row.id.as_str());
        let tombstones = self.store.look_up(|index| index.documents(Kind::Tombstone, key))?;
        let last = tombstones.last().and_then(|row| serde_json::from_str(&row.json).ok());
        Ok(last.is_some_and(|tombstone: Tombstone| tombstone.now))
    }

    /// Whoever asks for a deleted checkpoint is told that it was one.
    fn refuse_deleted(&self, meant: impl Fn(&CheckpointRow) -> bool) -> Result<()> {
        match self.deleted_rows()?.into_iter().rev().find(|row| meant(row)) {
            Some(row) => Err(Error::Deleted { checkpoint: row.id }),
            None => Ok(()),
        }
    }

    /// The newest checkpoints with a tag: people take one for a reference.
    fn tagged(&self, tag: &str) -> Vec<String> {
        let filter = ListFilter { tag: Some(tag.into()), ..ListFilter::default() };
        let listing = self.list(&filter).map(|listing| listing.checkpoints).unwrap_or_default();
        listing.iter().take(NEAREST).map(|one| one.manifest.id.to_string()).collect()
    }
}

/// The ids of the first rows.
fn ids<'r>(rows: impl IntoIterator<Item = &'r CheckpointRow>) -> Vec<String> {
    rows.into_iter().take(NEAREST).map(|row| row.id.to_string()).collect()
}

/// The checkpoint before one: its parent, or whatever precedes that if it was deleted.
pub(crate) fn parent(
    row: &CheckpointRow,
    rows: &[CheckpointRow],
    files_only: bool,
) -> Option<CheckpointRow> {
    let mut at = row.clone();
    loop {
        let named = at.parent.clone()?;
        let next = rows
            .iter()
            .find(|row| row.id.as_str() == named)
            .or_else(|| rows.iter().rev().find(|row| row.sequence < at.sequence))?;
        if next.sequence >= at.sequence {
            return None;
        }
        if next.holds_files || !files_only {
            return Some(next.clone());
        }
        at = next.clone();
    }
}

/// The ids that share the longest beginning with `text`; the newest where none does.
fn nearest(text: &str, rows: &[CheckpointRow]) -> Vec<String> {
    let shared = |id: &str| id.bytes().zip(text.bytes()).take_while(|(a, b)| a == b).count();
    let mut scored: Vec<_> = rows.iter().rev().map(|row| (shared(row.id.as_str()), row)).collect();
    scored.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
    let alike = scored.iter().take_while(|(score, _)| *score > "chk_".len()).count();
    let number = if alike == 0 { NEAREST } else { alike };
    ids(scored.into_iter().take(number).map(|(_, row)| row))
}
