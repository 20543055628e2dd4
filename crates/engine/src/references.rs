//! From what people write to the checkpoint that they mean.

use rappel_store::index::CheckpointRow;
use rappel_types::reference::Base;
use rappel_types::{Reference, Trigger};

use crate::error::{Error, Result};
use crate::rappel::Rappel;

impl Rappel {
    /// The checkpoint that a reference means. With `files_only`, checkpoints of agent state alone
    /// are passed over by everything but an id and a sequence number.
    pub fn resolve(&self, reference: &Reference, files_only: bool) -> Result<CheckpointRow> {
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

    fn resolve_base(
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
            Base::Sequence(number) => rows
                .iter()
                .find(|row| row.sequence == *number)
                .cloned()
                .ok_or_else(|| missing(Vec::new())),
            Base::At(when) => {
                let at = when.resolve_end(self.now(), &self.options.zone).map_err(|error| {
                    Error::Usage { message: error.to_string(), hint: Some(error.hint()) }
                })?;
                rows.iter()
                    .rev()
                    .filter(counts)
                    .find(|row| row.created_at <= at.as_millis())
                    .cloned()
                    .ok_or_else(|| {
                        missing(rows.first().map(|row| row.id.to_string()).into_iter().collect())
                    })
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
            [] => Err(Error::NoCheckpoint {
                reference: reference.to_string(),
                nearest: nearest(text, rows),
            }),
            _ => Err(Error::Ambiguous {
                reference: reference.to_string(),
                candidates: matching.iter().take(10).map(|row| row.id.to_string()).collect(),
            }),
        }
    }
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

/// Up to three ids that share the longest beginning with `text`.
fn nearest(text: &str, rows: &[CheckpointRow]) -> Vec<String> {
    let shared = |id: &str| id.bytes().zip(text.bytes()).take_while(|(a, b)| a == b).count();
    let mut scored: Vec<_> = rows.iter().rev().map(|row| (shared(row.id.as_str()), row)).collect();
    scored.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
    scored
        .into_iter()
        .take_while(|(score, _)| *score > "chk_".len())
        .take(3)
        .map(|(_, row)| row.id.to_string())
        .collect()
}
