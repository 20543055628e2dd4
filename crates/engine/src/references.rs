//! From what people write to the checkpoint that they mean.

use rappel_store::document::Tombstone;
use rappel_store::index::{CheckpointRow, Meant};
use rappel_store::record::Kind;
use rappel_types::reference::Base;
use rappel_types::{Reference, Trigger};

use crate::error::{Error, Result};
use crate::rappel::Rappel;
use crate::workspace;

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
            return self.exactly(row, reference);
        }
        let mut found = self.resolve_base(reference, files_only)?;
        for _ in 0..reference.back {
            let parent = self.ancestor(&found, |row| row.holds_files || !files_only)?;
            found = parent.ok_or_else(|| Error::NoCheckpoint {
                reference: reference.to_string(),
                nearest: Some(vec![found.id.to_string()]),
            })?;
        }
        Ok(found)
    }

    /// Whether a reference is the whole id of a checkpoint of this workspace or of a lineage of it.
    pub fn has_exactly(&self, reference: &Reference) -> bool {
        let Ok(row) = self.resolve(reference, false) else { return false };
        match &reference.base {
            Base::Id(id) => reference.back == 0 && row.id == *id,
            Base::Imported { .. } => reference.back == 0,
            _ => false,
        }
    }

    /// The same for what is asked of agents: checkpoints with files are meant, as everywhere, where there are any.
    pub(crate) fn resolve_remembered(&self, reference: &Reference) -> Result<CheckpointRow> {
        self.resolve(reference, true).or_else(|_| self.resolve(reference, false))
    }

    /// What a reference means among the workspace's checkpoints, without the steps back.
    fn resolve_base(&self, reference: &Reference, files_only: bool) -> Result<CheckpointRow> {
        let missing = |nearest| Error::NoCheckpoint { reference: reference.to_string(), nearest };
        let newest = |meant: Meant<'_>| match self.workspace_id() {
            Some(id) => self.store.look_up(|index| index.newest_of(id, meant)),
            None => Ok(None),
        };
        let meant = Meant { files_only, ..Meant::ALL };
        match &reference.base {
            Base::Latest => {
                let except = Some(Trigger::PreRestore.as_str());
                match newest(Meant { except, ..meant })? {
                    Some(row) => Ok(row),
                    None => newest(meant)?.ok_or_else(|| missing(None)),
                }
            }
            Base::Sequence(number) => {
                let found = match self.workspace_id() {
                    Some(id) => self.store.look_up(|index| index.numbered(id, *number))?,
                    None => None,
                };
                if let Some(row) = found {
                    return Ok(row);
                }
                let own = self.workspace_id();
                let is_own = |row: &CheckpointRow| Some(row.workspace) == own;
                self.refuse_deleted(|row| row.sequence == *number && is_own(row))?;
                let rows = self.rows()?;
                let mut near: Vec<_> = rows.iter().collect();
                near.sort_by_key(|row| row.sequence.abs_diff(*number));
                Err(missing((!rows.is_empty()).then(|| ids(near))))
            }
            Base::At(when) => {
                let at = when.resolve_end(self.now(), &self.options.zone).map_err(|error| {
                    Error::Usage { message: error.to_string(), advice: vec![error.hint().into()] }
                })?;
                match newest(Meant { until: Some(at.as_millis()), ..meant })? {
                    Some(row) => Ok(row),
                    None => Err(missing(self.rows()?.first().map(|first| ids([first])))),
                }
            }
            Base::Words(words) => {
                let rows = self.rows()?;
                Err(self.no_checkpoint(words, &rows))
            }
            Base::Imported { format, id } => self.by_origin((format, id), &reference.to_string()),
            Base::Id(id) => self.by_prefix(id.as_str(), reference),
        }
    }

    /// A checkpoint of this workspace, of one of its lineages, or of this folder before it adopted
    /// another history. Another one's has to be asked for there.
    fn of_here(&self, row: CheckpointRow) -> Result<CheckpointRow> {
        if self.workspace_id() == Some(row.workspace)
            || self.is_of_lineage(&row)?
            || workspace::is_of(&self.store, row.workspace, &self.evidence)?
        {
            return Ok(row);
        }
        let records = self.store.look_up(workspace::records)?;
        let seen = records.into_iter().find(|seen| seen.id == row.workspace);
        Err(Error::Elsewhere {
            checkpoint: row.id,
            workspace: row.workspace,
            root: seen.map_or_else(|| "another folder".into(), |seen| seen.root),
        })
    }

    /// A checkpoint by its whole id. One of a lineage is not meant where the text is also the beginning
    /// of an own one's id: what was imported must not hide what is here.
    fn exactly(&self, row: CheckpointRow, reference: &Reference) -> Result<CheckpointRow> {
        let own = self.workspace_id().filter(|id| *id != row.workspace);
        if let Some(own) = own {
            let text = row.id.as_str();
            let mut all = self.store.look_up(|index| index.beginning(Some(own), text))?;
            if !all.is_empty() {
                all.push(row);
                return Err(self.ambiguous(reference.to_string(), &all));
            }
        }
        self.of_here(row)
    }

    fn by_prefix(&self, text: &str, reference: &Reference) -> Result<CheckpointRow> {
        if let Ok(id) = text.parse()
            && let Some(row) = self.store.checkpoint(&id)?
        {
            return self.exactly(row, reference);
        }
        let lineages = self.lineages()?.into_iter().map(|lineage| lineage.workspace);
        let histories: Vec<_> = self.workspace_id().into_iter().chain(lineages).collect();
        let mut matching = Vec::new();
        for id in histories {
            matching.extend(self.store.look_up(|index| index.beginning(Some(id), text))?);
        }
        match &matching[..] {
            [one] => Ok(one.clone()),
            [] => {
                if let Ok(checkpoint) = text.parse()
                    && self.store.is_lost(&checkpoint)?
                {
                    return Err(Error::Lost { checkpoint });
                }
                self.refuse_deleted(|row| row.id.as_str().starts_with(text))?;
                if let Some(row) = self.store.look_up(|index| index.beginning(None, text))?.pop() {
                    return self.of_here(row);
                }
                let rows = self.rows()?;
                Err(match self.no_checkpoint(text, &rows) {
                    // With the steps back and the format, as it was written.
                    Error::NoCheckpoint { nearest, .. } => {
                        Error::NoCheckpoint { reference: reference.to_string(), nearest }
                    }
                    other => other,
                })
            }
            _ => Err(self.ambiguous(reference.to_string(), &matching)),
        }
    }
}

impl Rappel {
    /// The deleted checkpoints of this workspace and its lineages that can still be brought back,
    /// oldest first.
    pub(crate) fn deleted_rows(&self) -> Result<Vec<CheckpointRow>> {
        let Some(id) = self.workspace_id() else { return Ok(Vec::new()) };
        let lineages: Vec<_> = self.lineages()?.iter().map(|lineage| lineage.workspace).collect();
        let mut rows = self.store.look_up(|index| index.deleted())?;
        rows.retain(|row| row.workspace == id || lineages.contains(&row.workspace));
        rows.retain(|row| self.store.manifest(row).is_ok());
        let mut found = Vec::with_capacity(rows.len());
        for row in rows {
            if !self.deleted_for_good(&row)? {
                found.push(row);
            }
        }
        found.sort_by_key(|row| (row.workspace != id, row.workspace, row.sequence));
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
}

/// The ids of the first rows.
fn ids<'r>(rows: impl IntoIterator<Item = &'r CheckpointRow>) -> Vec<String> {
    rows.into_iter().take(NEAREST).map(|row| row.id.to_string()).collect()
}

/// The ids that share more than `chk_` with the beginning of `text`, the longest first.
pub(crate) fn nearest(text: &str, rows: &[CheckpointRow]) -> Vec<String> {
    let shared = |id: &str| id.bytes().zip(text.bytes()).take_while(|(a, b)| a == b).count();
    let mut scored: Vec<_> = rows.iter().rev().map(|row| (shared(row.id.as_str()), row)).collect();
    scored.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
    let alike = scored.iter().take_while(|(score, _)| *score > "chk_".len()).count();
    ids(scored.into_iter().take(alike).map(|(_, row)| row))
}
