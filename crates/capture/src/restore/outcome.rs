//! What a restore did, for the report and for the cache of the next save.

use rappel_store::beneath::Meta;
use rappel_types::Remarks;
use rappel_types::plan::{ActionCounts, Conflict};
use rappel_types::{Node, RelPath};

/// A file that was displaced and not removed, because its content may be nowhere else or because
/// somebody still writes to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// Where it stood.
    pub path: RelPath,
    /// Where it is now.
    pub at: RelPath,
    /// Why it was kept, for people.
    pub reason: String,
}

/// Something that stands where the restore put it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// Where.
    pub path: RelPath,
    /// What the file system says about it, after the last change.
    pub meta: Meta,
    /// What it holds.
    pub node: Node,
    /// Whether `meta` vouches for that: it is what the file system said before the content was
    /// compared, and was old enough then for any later write to show.
    pub proven: bool,
}

/// What a restore, or the recovery of one, did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// How many paths were created, overwritten, deleted, or left as they are.
    pub counts: ActionCounts,
    /// What people should know.
    pub warnings: Remarks,
    /// Displaced files that are still there.
    pub kept: Vec<Kept>,
    /// Paths that were left alone, or are not as planned, because somebody changed them meanwhile.
    pub conflicts: Vec<Conflict>,
    /// Everything that was written, in order, as it stands now.
    pub written: Vec<Written>,
    /// Everything that is gone, in order.
    pub deleted: Vec<RelPath>,
}

impl Outcome {
    /// Whether everything is as planned (exit 0) or something changed under us (exit 7).
    pub fn is_clean(&self) -> bool {
        self.conflicts.is_empty()
    }

    pub(super) fn conflict(&mut self, path: &RelPath, reason: impl Into<String>) {
        if !self.conflicts.iter().any(|conflict| conflict.path == *path) {
            self.conflicts.push(Conflict::at(path.clone(), reason));
        }
    }

    pub(super) fn keep(&mut self, path: &RelPath, at: &RelPath, reason: impl Into<String>) {
        if !self.kept.iter().any(|kept| kept.at == *at) {
            self.kept.push(Kept { path: path.clone(), at: at.clone(), reason: reason.into() });
        }
    }

    /// In a fixed order, whatever the order of the work was.
    pub(super) fn sort(&mut self) {
        self.conflicts.sort_by(|a, b| a.path.cmp(&b.path));
        self.kept.sort_by(|a, b| a.at.cmp(&b.at));
        self.written.sort_by(|a, b| a.path.cmp(&b.path));
        self.deleted.sort();
    }
}
