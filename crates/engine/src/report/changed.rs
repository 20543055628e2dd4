//! What changed between two checkpoints, in numbers and names.

use rappel_store::tree::Change;
use rappel_types::{Facet, Manifest, Node};
use schemars::JsonSchema;
use serde::Serialize;

use super::Past;
use crate::changes::FilesDiff;
use crate::diff::{DatabaseDiff, DiffOptions, GitDiff};
use crate::error::Result;
use crate::rappel::Rappel;

/// Lines are counted only where no more files than this differ.
const COUNTED_MAX: usize = 500;
/// A large file with many other lines takes seconds to compare: then lines are not counted.
const LARGE: u64 = 256 << 10;

/// What changed.
#[derive(Debug, Clone, JsonSchema, Serialize)]
#[allow(missing_docs, reason = "the names say it")]
#[schemars(rename = "ReportChanges")]
pub struct Changed {
    /// The checkpoint before.
    pub from: String,
    /// The checkpoint after.
    pub to: String,
    pub files: FilesDiff,
    /// Lines of text that are new; `null` if too many or too large files differ to be counted.
    pub lines_added: Option<u64>,
    /// Lines of text that are gone.
    pub lines_removed: Option<u64>,
    pub git: Option<GitDiff>,
    pub databases: Vec<DatabaseDiff>,
}

impl Changed {
    /// Whether nothing did.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty() && self.git.is_none() && self.databases.is_empty()
    }
}

impl Rappel {
    /// What changed from one of the past's checkpoints to another; `None` if one of them cannot be
    /// read.
    pub(super) fn changed_between(
        &self,
        past: &mut Past<'_>,
        from: usize,
        to: usize,
    ) -> Result<Option<Changed>> {
        let Some(from) = past.manifest(from).cloned() else { return Ok(None) };
        let Some(to) = past.manifest(to).cloned() else { return Ok(None) };
        match self.changed(&from, &to) {
            Ok(changed) => Ok(Some(changed)),
            Err(error) if error.is_unreadable() => {
                past.unreadable.push(format!("{} and {}: {error}", from.id, to.id));
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn changed(&self, from: &Manifest, to: &Manifest) -> Result<Changed> {
        let mut changed = Changed {
            from: from.id.to_string(),
            to: to.id.to_string(),
            files: FilesDiff::default(),
            lines_added: Some(0),
            lines_removed: Some(0),
            git: None,
            databases: Vec::new(),
        };
        // Only what differs is looked at: most prompts leave most of it alone.
        let mut only = Vec::new();
        let tree = |manifest: &Manifest| manifest.files.as_ref().map(|files| files.tree);
        if tree(from) != tree(to) {
            only.extend([Facet::Files, Facet::Knowledge]);
        }
        if from.git != to.git {
            only.push(Facet::Git);
        }
        if from.databases != to.databases {
            only.push(Facet::Databases);
        }
        if only.is_empty() {
            return Ok(changed);
        }
        let options = DiffOptions { only, ..DiffOptions::default() };
        let diff = self.diff_manifests(from, Some(to), &options)?;
        let large =
            |node: &Option<Node>| matches!(node, Some(Node::File { size, .. }) if *size > LARGE);
        let slow = |change: &Change| large(&change.old) && large(&change.new);
        if diff.changes.len() > COUNTED_MAX || diff.changes.iter().any(slow) {
            (changed.lines_added, changed.lines_removed) = (None, None);
        } else {
            let (mut added, mut removed) = (0, 0);
            self.diff_text(&diff, &mut |file| {
                let (more, less) = file.lines.unwrap_or_default();
                added += more as u64;
                removed += less as u64;
            })?;
            (changed.lines_added, changed.lines_removed) = (Some(added), Some(removed));
        }
        changed.files = diff.files;
        changed.git = diff.git;
        changed.databases = diff.databases;
        Ok(changed)
    }
}
