//! What the last capture knew, so that the next one reads only what changed. A view: losing it costs
//! time, never data.

use std::collections::BTreeMap;

use rappel_types::{CheckpointId, Content, Node, ObjectId, RelPath};
use serde::{Deserialize, Serialize};

use super::{Care, MODE};
use crate::files::stamp::Stamp;

/// Raised when a memo means something else than before.
const VERSION: u32 = 1;

/// What is remembered of a workspace's transcripts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Memo {
    version: u32,
    /// The checkpoint that holds the tree; whoever keeps the memo sets it, and forgets the memo with
    /// the checkpoint.
    pub checkpoint: Option<CheckpointId>,
    tree: ObjectId,
    items: BTreeMap<RelPath, Remembered>,
}

/// A file of the tree.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Remembered {
    stamp: Stamp,
    /// Whether an equal stamp means an equal content.
    believed: bool,
    size: u64,
    content: Content,
    /// Set if the beginning was not read again when the file grew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    grown: Option<Grown>,
}

/// A file whose beginning was taken over from the capture before.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Grown {
    /// The chunk that the next capture reads again first.
    pub next: u64,
}

impl Remembered {
    pub fn new(stamp: Stamp, believed: bool, size: u64, content: Content) -> Self {
        Self { stamp, believed, size, content, grown: None }
    }

    /// The same for a file whose beginning was taken over.
    pub fn grown(self, grown: Option<Grown>) -> Self {
        Self { grown, ..self }
    }

    /// The chunk that is to be read again first when the file grows.
    pub fn next_to_read_again(&self) -> u64 {
        self.grown.map_or(0, |grown| grown.next)
    }

    /// Whether a file that looks like this need not be read.
    pub fn vouches_for(&self, stamp: &Stamp, care: Care) -> bool {
        let was_read = care == Care::Growth || self.grown.is_none();
        self.believed && self.stamp == *stamp && was_read
    }

    /// Whether a file that looks like this is the same one, only longer.
    pub fn grew_to(&self, stamp: &Stamp) -> bool {
        self.stamp.identity() == stamp.identity() && stamp.size > self.stamp.size
    }

    pub fn has_content_of(&self, other: &Self) -> bool {
        self.size == other.size && self.content == other.content
    }

    pub fn size(&self) -> u64 {
        self.size
    }

    pub fn content(&self) -> &Content {
        &self.content
    }

    pub fn node(&self) -> Node {
        Node::File { mode: MODE, size: self.size, content: self.content }
    }
}

impl Memo {
    pub(super) fn new(tree: ObjectId, items: BTreeMap<RelPath, Remembered>) -> Self {
        Self { version: VERSION, checkpoint: None, tree, items }
    }

    /// A memo that was kept as JSON, if it means the same today.
    pub fn from_json(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok().filter(Self::is_current)
    }

    /// Whether it means the same today.
    pub fn is_current(&self) -> bool {
        self.version == VERSION
    }

    /// The tree it is of.
    pub fn tree(&self) -> &ObjectId {
        &self.tree
    }

    pub(super) fn items(&self) -> impl Iterator<Item = (&RelPath, &Remembered)> {
        self.items.iter()
    }

    pub(super) fn item(&self, path: &RelPath) -> Option<&Remembered> {
        self.items.get(path)
    }
}
