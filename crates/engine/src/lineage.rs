//! Lineages: histories that came from elsewhere. Each is a workspace record of its own beside the
//! workspace that it was imported into. Lists, timelines and references ask this module for them;
//! nothing else sees one.

use rappel_store::document;
use rappel_store::index::{CheckpointRow, Index};
use rappel_store::record::Kind;
use rappel_types::manifest::OriginPart;
use rappel_types::{CheckpointId, Manifest, WorkspaceId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::rappel::Rappel;
use crate::workspace;

/// How many checkpoints are named that a reference could mean.
const CANDIDATES: usize = 10;

/// A history that came from elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Lineage {
    /// Its workspace record.
    pub workspace: WorkspaceId,
    /// The workspace that it was imported into.
    pub of: WorkspaceId,
    /// The form that its checkpoints had.
    pub format: String,
    /// Where it was read from last.
    pub place: String,
}

/// Where a checkpoint came from, as its JSON says.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct LineageView {
    /// The workspace record of its lineage.
    pub workspace: WorkspaceId,
    /// The form that it had.
    pub format: String,
    /// Its id there.
    pub id: String,
    /// Where its lineage was read from last.
    pub origin: String,
}

impl Lineage {
    fn of_record(record: document::Workspace) -> Option<Self> {
        let of = record.lineage_of?;
        let origin = record.origin.unwrap_or_else(|| document::Origin {
            format: "unknown".into(),
            place: record.root.clone(),
        });
        Some(Self { workspace: record.id, of, format: origin.format, place: origin.place })
    }

    /// The record that remembers a lineage. Its root can never be that of a folder, so that a
    /// version that knows no lineages takes it for none either.
    pub(crate) fn record(&self, at: rappel_types::Timestamp) -> document::Workspace {
        let Self { format, place, .. } = self;
        document::Workspace {
            version: document::DOCUMENT_VERSION,
            id: self.workspace,
            root: format!("{format}:{place}"),
            inode: 0,
            file_system: String::new(),
            machine: String::new(),
            first_commit: None,
            at,
            lineage_of: Some(self.of),
            origin: Some(document::Origin { format: format.clone(), place: place.clone() }),
        }
    }
}

/// All lineages of a home, oldest first.
pub(crate) fn all_in(index: &mut Index) -> rappel_store::Result<Vec<Lineage>> {
    Ok(workspace::records(index)?.into_iter().filter_map(Lineage::of_record).collect())
}

/// The lineages of a workspace, oldest first.
pub(crate) fn lineages_in(
    index: &mut Index,
    of: WorkspaceId,
) -> rappel_store::Result<Vec<Lineage>> {
    Ok(all_in(index)?.into_iter().filter(|lineage| lineage.of == of).collect())
}

/// Puts the checkpoints of a lineage in the order of their times. They are numbered in the order in
/// which they were imported, which may be another one.
fn by_time(rows: &mut [CheckpointRow]) {
    rows.sort_by_key(|row| (row.created_at, row.sequence));
}

/// Checkpoints that come workspace by workspace, as one history for each.
pub(crate) fn apart(rows: &[CheckpointRow]) -> Vec<Vec<CheckpointRow>> {
    let of_one = |a: &CheckpointRow, b: &CheckpointRow| a.workspace == b.workspace;
    rows.chunk_by(of_one).map(<[CheckpointRow]>::to_vec).collect()
}

impl Rappel {
    /// The lineages of this workspace, oldest first.
    pub fn lineages(&self) -> Result<Vec<Lineage>> {
        match self.workspace_id() {
            Some(id) => Ok(self.store.look_up(|index| lineages_in(index, id))?),
            None => Ok(Vec::new()),
        }
    }

    /// What the JSON of a checkpoint says of where it came from.
    pub(crate) fn lineage_view(&self, manifest: &Manifest) -> Result<Option<LineageView>> {
        let Some(OriginPart { format, id, .. }) = manifest.origin.clone() else { return Ok(None) };
        let workspace = manifest.workspace.id;
        let key = workspace.to_string();
        let record = self.store.look_up(|index| index.newest_document(Kind::Workspace, &key))?;
        let record = record.and_then(|row| serde_json::from_str(&row.json).ok());
        let lineage = record.and_then(Lineage::of_record);
        let origin = lineage.map(|lineage| lineage.place).unwrap_or_default();
        Ok(Some(LineageView { workspace, format, id, origin }))
    }

    /// The document that an imported checkpoint was in its own form, whole.
    pub fn origin_document(&self, manifest: &Manifest) -> Result<Option<serde_json::Value>> {
        let document = manifest.origin.as_ref().and_then(|origin| origin.document);
        let Some(id) = document else { return Ok(None) };
        let json = self.source().get(&id)?;
        let bad = |error| Error::Damaged { message: format!("the document of {id}: {error}") };
        serde_json::from_slice(&json).map(Some).map_err(bad)
    }

    /// Whether a checkpoint is of a lineage of this workspace.
    pub(crate) fn is_of_lineage(&self, row: &CheckpointRow) -> Result<bool> {
        Ok(self.lineages()?.iter().any(|lineage| lineage.workspace == row.workspace))
    }

    /// The workspace's checkpoints and those of each of its lineages, oldest first.
    pub(crate) fn histories(&self) -> Result<Vec<Vec<CheckpointRow>>> {
        let mut own = self.rows()?;
        if self.is_lineage()? {
            by_time(&mut own);
        }
        let mut histories = vec![own];
        for lineage in self.lineages()? {
            let id = Some(lineage.workspace);
            let mut rows = self.store.look_up(|index| index.checkpoints(id))?;
            by_time(&mut rows);
            histories.push(rows);
        }
        Ok(histories)
    }

    /// Whether this is a lineage itself, opened by the name of its record.
    fn is_lineage(&self) -> Result<bool> {
        let Some(id) = self.workspace_id() else { return Ok(false) };
        Ok(self.store.look_up(all_in)?.iter().any(|lineage| lineage.workspace == id))
    }

    /// The checkpoints of the lineages of a form that had this id there.
    fn with_origin(&self, format: &str, id: &str) -> Result<Vec<CheckpointRow>> {
        let mut found = Vec::new();
        for lineage in self.lineages()?.into_iter().filter(|one| one.format == format) {
            let of = Some(lineage.workspace);
            let rows = self.store.look_up(|index| index.checkpoints(of))?;
            for row in rows {
                if self.had_id(&row, format, id)? {
                    found.push(row);
                }
            }
        }
        Ok(found)
    }

    /// Whether a checkpoint had this id in the form that it came from.
    fn had_id(&self, row: &CheckpointRow, format: &str, id: &str) -> Result<bool> {
        // Its id here was made of the one there: most need not be read.
        let core = if format == NUMBERED { id.trim_start_matches('0') } else { id };
        if !row.id.as_str().contains(core) {
            return Ok(false);
        }
        let manifest = match self.store.manifest(row).map_err(Error::from) {
            Err(error) if error.is_unreadable() => return Ok(false),
            other => other?,
        };
        Ok(manifest.origin.is_some_and(|origin| is_same_id(format, &origin.id, id)))
    }

    /// What `FORMAT:ID` means.
    pub(crate) fn by_origin(
        &self,
        (format, id): (&str, &CheckpointId),
        reference: &str,
    ) -> Result<CheckpointRow> {
        let mut found = self.with_origin(format, id.as_str())?;
        match found.len() {
            1 => Ok(found.remove(0)),
            0 => {
                self.refuse_deleted_origin(format, id.as_str())?;
                let lineages = self.lineages()?;
                let is_of_form = |lineage: &&Lineage| lineage.format == format;
                let of_form: Vec<WorkspaceId> =
                    lineages.iter().filter(is_of_form).map(|lineage| lineage.workspace).collect();
                let mut nearest = Vec::new();
                for id in of_form {
                    let newest = self.store.look_up(|index| index.newest(id))?;
                    nearest.extend(newest.map(|row| row.id.to_string()));
                }
                let nearest = Some(nearest).filter(|nearest| !nearest.is_empty());
                Err(Error::NoCheckpoint { reference: reference.to_owned(), nearest })
            }
            _ => Err(Error::Ambiguous {
                reference: reference.to_owned(),
                candidates: found.iter().take(CANDIDATES).map(|row| row.id.to_string()).collect(),
            }),
        }
    }

    /// The deleted checkpoints that `FORMAT:ID` means.
    pub(crate) fn deleted_with_origin(&self, format: &str, id: &str) -> Result<Vec<CheckpointRow>> {
        let mut found = Vec::new();
        let own = self.workspace_id();
        for row in self.deleted_rows()?.into_iter().filter(|row| Some(row.workspace) != own) {
            if self.had_id(&row, format, id)? {
                found.push(row);
            }
        }
        Ok(found)
    }

    fn refuse_deleted_origin(&self, format: &str, id: &str) -> Result<()> {
        match self.deleted_with_origin(format, id)?.pop() {
            Some(row) => Err(Error::Deleted { checkpoint: row.id }),
            None => Ok(()),
        }
    }

    /// The checkpoints that a reference could mean, so that each can be named: own ones by their
    /// ids, imported ones as `FORMAT:ID`, or by their ids here where that means several.
    pub(crate) fn ambiguous(&self, reference: String, rows: &[CheckpointRow]) -> Error {
        let mut names: Vec<(String, String)> = Vec::new();
        for row in rows.iter().take(CANDIDATES) {
            let origin = self.store.manifest(row).ok().and_then(|manifest| manifest.origin);
            let name = origin.map(|origin| format!("{}:{}", origin.format, origin.id));
            names.push((name.unwrap_or_else(|| row.id.to_string()), row.id.to_string()));
        }
        let is_alone = |name: &str| names.iter().filter(|(other, _)| other == name).count() == 1;
        let candidates =
            names.iter().map(|(name, id)| if is_alone(name) { name } else { id }.clone());
        Error::Ambiguous { reference, candidates: candidates.collect() }
    }
}

/// The form whose ids are numbers with leading zeros, which people leave out.
const NUMBERED: &str = "aiwg";

fn is_same_id(format: &str, known: &str, asked: &str) -> bool {
    let number = |text: &str| text.parse::<u64>().ok().filter(|_| format == NUMBERED);
    known == asked || (number(known).is_some() && number(known) == number(asked))
}

/// Several histories, each oldest first, as one, newest first. Within each the order is kept, even if
/// the clock stepped back; of two at the same time, the one of the earlier history comes first.
pub(crate) fn merge(mut histories: Vec<Vec<CheckpointRow>>) -> Vec<CheckpointRow> {
    let mut merged = Vec::with_capacity(histories.iter().map(Vec::len).sum());
    loop {
        let heads = histories.iter().enumerate();
        let heads = heads.filter_map(|(at, rows)| Some((rows.last()?.created_at, at)));
        let newest = heads.max_by_key(|(at, number)| (*at, std::cmp::Reverse(*number)));
        let next = newest.and_then(|(_, number)| histories[number].pop());
        match next {
            Some(row) => merged.push(row),
            None => return merged,
        }
    }
}

#[cfg(test)]
mod tests {
    use rappel_types::ObjectId;

    use super::*;

    fn row(workspace: u64, sequence: u64, created_at: i64) -> CheckpointRow {
        CheckpointRow {
            id: format!("chk_{workspace}_{sequence}").parse().unwrap(),
            workspace: WorkspaceId(workspace),
            sequence,
            holds_files: true,
            manifest: ObjectId([0; 32]),
            birth: sequence,
            trigger: "manual".into(),
            created_at,
            parent: None,
            folded: false,
        }
    }

    #[test]
    fn histories_are_joined_by_time_and_keep_their_own_order() {
        let own = vec![row(1, 1, 10), row(1, 2, 5), row(1, 3, 30)];
        let other = vec![row(2, 1, 10), row(2, 2, 40)];
        let merged = merge(vec![own, other]);
        let ids: Vec<&str> = merged.iter().map(|row| row.id.as_str()).collect();
        assert_eq!(ids, ["chk_2_2", "chk_1_3", "chk_2_1", "chk_1_2", "chk_1_1"]);
    }

    #[test]
    fn leading_zeros_are_left_out_only_where_ids_are_numbers() {
        assert!(is_same_id("aiwg", "003", "3") && is_same_id("aiwg", "003", "003"));
        assert!(!is_same_id("loki", "003", "3") && !is_same_id("aiwg", "a3", "3"));
    }
}
