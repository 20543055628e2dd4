//! What the last scan knew.

use std::path::Path;
use std::sync::Arc;

use rappel_store::disk::Disk;
use rappel_types::{CheckpointId, Node, ObjectId, RelPath};

use crate::error::Result;

/// What the last scan knew of a workspace. Only ever a hint: without it a scan finds the same,
/// slower.
#[derive(Debug, Clone)]
pub struct Cache {}

impl Cache {
    /// Reads the cache at `path`. `None` if there is none, or none that can be used.
    pub fn load(path: &Path) -> Option<Self> {
        let _ = path;
        None
    }

    /// The tree to which the next scan's changes are relative.
    pub fn base(&self) -> &ObjectId {
        unimplemented!()
    }

    /// The checkpoint that holds this tree.
    pub fn checkpoint(&self) -> Option<&CheckpointId> {
        None
    }

    /// Stores the cache at `path`. Not synced: a torn cache is no cache.
    pub fn save(&self, disk: &Arc<dyn Disk>, path: &Path) -> Result<()> {
        let _ = (disk, path);
        Ok(())
    }

    /// The cache after a restore made `changes` below `root`: it stats what was written, so that the
    /// next scan need not read it again. `base` is the tree that the workspace equals now.
    pub fn restored(
        self,
        root: &Path,
        changes: &[(RelPath, Option<Node>)],
        base: ObjectId,
        checkpoint: Option<CheckpointId>,
    ) -> Result<Self> {
        let _ = (root, changes, base, checkpoint);
        Ok(self)
    }
}

/// A cache whose tree is not committed yet.
#[derive(Debug)]
pub struct CacheDraft {}

impl CacheDraft {
    /// The cache, once the tree of the scan's changes is committed as `base`.
    pub fn finish(self, base: ObjectId, checkpoint: Option<CheckpointId>) -> Cache {
        let _ = (base, checkpoint);
        Cache {}
    }
}
