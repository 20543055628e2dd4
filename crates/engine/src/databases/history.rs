//! Which checkpoints hold a SQLite file otherwise than the one that they follow.

use std::collections::BTreeMap;

use rappel_store::index::CheckpointRow;
use rappel_types::database::{DatabaseKind, DatabasePart};
use rappel_types::{Facet, Manifest, RelPath};

use super::could_not_hold;
use crate::ancestry::Ancestry;
use crate::diff::holds;
use crate::error::Result;
use crate::rappel::Rappel;

impl Rappel {
    /// What a checkpoint has changed in the database at a path, or in those below it: `added`, `modified` or
    /// `deleted`; of a folder, `modified` if something in it is.
    pub(crate) fn database_change(
        &self,
        row: &CheckpointRow,
        path: &RelPath,
        ancestry: &Ancestry,
    ) -> Result<Option<&'static str>> {
        let now = self.store.manifest(row)?;
        if !holds(&now, Facet::Databases) {
            return Ok(None);
        }
        let parent = ancestry.parent(row, |row| {
            self.store.manifest(row).is_ok_and(|before| holds(&before, Facet::Databases))
        });
        let before = parent.map(|row| self.store.manifest(row)).transpose()?;
        let mut then = before.as_ref().map(|before| below(before, path)).unwrap_or_default();
        let now_held = below(&now, path);
        // What could not be read is not known to be gone.
        then.retain(|at, part| now_held.contains_key(at) || !could_not_hold(&now, &part.name));
        let same = |(a, b): (&DatabasePart, &DatabasePart)| a.digest == b.digest;
        let change = match (then.get(path), now_held.get(path)) {
            (None, Some(part)) => {
                let unknown = before.is_some_and(|before| could_not_hold(&before, &part.name));
                Some(if unknown { "modified" } else { "added" })
            }
            (Some(_), None) => Some("deleted"),
            (Some(then), Some(now)) => (!same((then, now))).then_some("modified"),
            (None, None) => {
                let equal = then.keys().eq(now_held.keys())
                    && then.values().copied().zip(now_held.values().copied()).all(same);
                (!equal).then_some("modified")
            }
        };
        Ok(change)
    }
}

/// The SQLite files at a path and below it.
pub(super) fn below<'m>(
    manifest: &'m Manifest,
    path: &RelPath,
) -> BTreeMap<RelPath, &'m DatabasePart> {
    let files = manifest.databases.iter().filter(|part| part.kind == DatabaseKind::Sqlite);
    let placed = files.filter_map(|part| Some((part.location.as_ref()?.parse().ok()?, part)));
    placed.filter(|(at, _): &(RelPath, _)| at.is_within(path)).collect()
}
