//! What counts as a change of files: the same for `status`, `diff`, `save` and `restore`.
//!
//! Files and links count, and a folder only where nothing in it tells the story. What is there and
//! is merely left out by now (ignored, too large, unreadable) was not deleted.

use rappel_capture::files::Scanned;
use rappel_store::beneath::{Kind, Root};
use rappel_store::index::CheckpointRow;
use rappel_store::sink::Source;
use rappel_store::tree::{self, Change};
use rappel_types::manifest::{PartialReason, Skipped};
use rappel_types::{Facet, Manifest, Node, ObjectId, RelPath, WorkspaceId};
use schemars::JsonSchema;
use serde::Serialize;

use crate::diff::Renamed;
use crate::error::Result;
use crate::rappel::Rappel;
use crate::save::{CapturedFiles, parent_of};

/// Paths that differ. Folders count only where nothing in them tells the story.
#[derive(Debug, Clone, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct FilesDiff {
    /// Only in the second.
    pub added: Vec<RelPath>,
    /// In both, with other content, kind or mode.
    pub modified: Vec<RelPath>,
    /// Only in the first.
    pub deleted: Vec<RelPath>,
    /// Which of the deleted ones are added ones, under another name or in another folder. Both stay
    /// in their lists.
    pub renamed: Vec<Renamed>,
}

impl FilesDiff {
    /// How many paths differ.
    pub fn len(&self) -> usize {
        self.added.len() + self.modified.len() + self.deleted.len()
    }

    /// Whether none does.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Files and links by what became of them; folders only where they are all there is to say.
pub(crate) fn summarise(changes: &[Change]) -> FilesDiff {
    let mut files = FilesDiff::default();
    for (at, change) in changes.iter().enumerate() {
        let folder = |node: &Option<Node>| matches!(node, None | Some(Node::Directory { .. }));
        let only_folder = folder(&change.old) && folder(&change.new);
        let told_below = changes.get(at + 1).is_some_and(|next| next.path.is_within(&change.path));
        if only_folder && told_below {
            continue;
        }
        let list = match (&change.old, &change.new) {
            (None, _) => &mut files.added,
            (_, None) => &mut files.deleted,
            _ => &mut files.modified,
        };
        list.push(change.path.clone());
    }
    files
}

impl Rappel {
    /// Takes out of `changes` what only looks deleted: it is there, and a look at the workspace
    /// leaves it out. Returns that, with the reason.
    pub(crate) fn take_out_left_out(
        &self,
        changes: &mut Vec<Change>,
        scanned: &Scanned,
    ) -> Result<Vec<Skipped>> {
        let seems_gone = |change: &Change| change.old.is_some() && change.new.is_none();
        if !changes.iter().any(seems_gone) {
            return Ok(Vec::new());
        }
        let root = Root::open(&self.root, self.options.disk.clone())?;
        let is_there = |change: &Change| {
            let found = root.stat(&change.path).ok().flatten().map(|meta| meta.kind);
            let kind = match &change.old {
                Some(Node::File { .. }) => Kind::File,
                Some(Node::Directory { .. }) => Kind::Directory,
                Some(Node::Symlink { .. }) => Kind::Symlink,
                None => return false,
            };
            // What cannot even be looked at is not known to be gone.
            found == Some(kind) || covering(&scanned.partial, &change.path).is_some()
        };
        let reason = |path: &RelPath| {
            if scanned.databases.contains(path) {
                return "it is captured as a database".to_owned();
            }
            why_left_out(&scanned.skipped, &scanned.partial, path)
                .unwrap_or_else(|| "it is ignored or excluded now".to_owned())
        };
        Ok(take_out(changes, |change| {
            (seems_gone(change) && is_there(change)).then(|| reason(&change.path))
        }))
    }

    /// Counts what a save found against the checkpoint that it goes on from.
    pub(crate) fn count_changes(
        &self,
        files: &mut CapturedFiles,
        id: WorkspaceId,
        newest: Option<&CheckpointRow>,
        source: &dyn Source,
    ) -> Result<()> {
        // The first save has nothing before it: all files are new, as the scan counted them.
        let Some(tree) = self.tree_before(files, id, newest)? else { return Ok(()) };
        let mut changes = tree::diff(source, &tree, &files.tree)?;
        self.take_out_left_out(&mut changes, &files.scanned)?;
        let FilesDiff { added, modified, deleted, .. } = summarise(&changes);
        files.scanned.added = added.len() as u64;
        files.scanned.modified = modified.len() as u64;
        files.scanned.deleted = deleted.len() as u64;
        Ok(())
    }

    /// The files of the checkpoint that the next one follows: the newest, or what was restored
    /// since.
    fn tree_before(
        &self,
        files: &CapturedFiles,
        id: WorkspaceId,
        newest: Option<&CheckpointRow>,
    ) -> Result<Option<ObjectId>> {
        let parent = self.store.look_up(|index| parent_of(index, id, newest))?;
        if parent.is_some() && parent == files.base_checkpoint {
            return Ok(files.base);
        }
        let row = match parent {
            Some(parent) => self.store.checkpoint(&parent)?.filter(|row| row.holds_files),
            None => None,
        };
        let Some(row) = row.as_ref().or(newest) else { return Ok(None) };
        Ok(self.store.manifest(row)?.files.map(|files| files.tree))
    }
}

/// Takes out of `changes` what only looks deleted because `to` could not or would not hold it.
pub(crate) fn take_out_unheld(changes: &mut Vec<Change>, to: &Manifest) -> Vec<Skipped> {
    let Some(files) = &to.files else { return Vec::new() };
    take_out(changes, |change| match &change.new {
        Some(_) => None,
        None => why_left_out(&files.skipped, &to.partial_reasons, &change.path),
    })
}

/// Takes out those for which there is a reason. Of a folder with all that it holds, the folder is
/// named.
fn take_out(changes: &mut Vec<Change>, reason: impl Fn(&Change) -> Option<String>) -> Vec<Skipped> {
    let mut left_out: Vec<Skipped> = Vec::new();
    changes.retain(|change| {
        let Some(reason) = reason(change) else { return true };
        if left_out.last().is_none_or(|above| !change.path.is_within(&above.path)) {
            left_out.push(Skipped { path: change.path.clone(), reason });
        }
        false
    });
    left_out
}

fn why_left_out(skipped: &[Skipped], partial: &[PartialReason], path: &RelPath) -> Option<String> {
    let skipped = skipped.iter().find(|one| path.is_within(&one.path));
    skipped.map(|one| one.reason.clone()).or_else(|| covering(partial, path))
}

/// Why a part of the files could not be looked at.
fn covering(partial: &[PartialReason], path: &RelPath) -> Option<String> {
    let covers = |one: &&PartialReason| {
        one.facet == Facet::Files && one.path.as_ref().is_some_and(|at| path.is_within(at))
    };
    partial.iter().find(covers).map(|one| one.reason.clone())
}
