//! What the last capture knew, so that the next one reads only what moved. A view: losing it costs
//! time, never data.

use std::path::Path;
use std::sync::Arc;

use rappel_store::disk::{self, Disk};
use rappel_store::held;
use rappel_types::git::GitPart;
use rappel_types::{CheckpointId, Content, Node, ObjectId, RelPath};
use serde::{Deserialize, Serialize};

use super::extra::Databases;
use super::packs::PackFile;
use crate::files::stamp::Stamp;

/// Raised when a memo means something else than before.
const VERSION: u32 = 1;
/// Smaller files are stored against the one before.
pub const LARGE: u64 = 64 << 10;
/// A base serves so often; then a new one is stored whole.
const USES: u32 = 32;

/// What is remembered of a workspace's repositories.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Memo {
    version: u32,
    /// The checkpoint that holds everything named here.
    pub checkpoint: Option<CheckpointId>,
    /// The files that the lists of dirty paths are about.
    pub files: Option<ObjectId>,
    /// How the databases of SQLite looked then, which are no files.
    #[serde(default)]
    pub databases: Databases,
    /// What that checkpoint says of git.
    pub part: GitPart,
    /// Repository by repository.
    pub repositories: Vec<RepositoryMemo>,
}

/// What is remembered of one repository.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RepositoryMemo {
    /// Where it starts.
    pub path: Option<RelPath>,
    /// A hash of what is staged.
    pub index: ObjectId,
    /// The files of git's folder.
    pub items: Vec<Remembered>,
    /// Its packs, as they were when they were known to be whole.
    #[serde(default)]
    pub packs: Vec<PackFile>,
}

/// A file of git's folder.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Remembered {
    /// Where.
    pub path: RelPath,
    /// What stat said of it.
    pub stamp: Stamp,
    /// Whether an equal stamp means an equal content.
    pub believed: bool,
    /// What it was.
    pub node: Node,
    /// What a large one is stored against: always the same, so that reading it back never takes more
    /// than two steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<Base>,
}

/// A former content that later ones are stored against.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Base {
    /// Which.
    pub content: Content,
    /// How many were.
    pub uses: u32,
}

impl Remembered {
    /// What a new content of the same file is stored against, and what the one after that is.
    pub fn bases(&self) -> (Option<Content>, Option<Base>) {
        let Node::File { size, content, .. } = &self.node else { return (None, None) };
        match &self.base {
            _ if *size < LARGE => (Some(*content), None),
            Some(base) if base.uses < USES => {
                (Some(base.content), Some(Base { content: base.content, uses: base.uses + 1 }))
            }
            _ => (None, None),
        }
    }
}

impl Memo {
    /// A memo of what was just captured.
    pub fn new(part: GitPart, repositories: Vec<RepositoryMemo>, databases: Databases) -> Self {
        Self { version: VERSION, checkpoint: None, files: None, databases, part, repositories }
    }

    /// The memo at `path`, if there is one that can be read.
    pub fn load(path: &Path) -> Option<Self> {
        let memo: Self = serde_json::from_slice(&held::read(path).ok()?).ok()?;
        (memo.version == VERSION).then_some(memo)
    }

    /// Writes the memo; failing costs only time.
    pub fn save(&self, disk: &Arc<dyn Disk>, path: &Path) {
        if let Ok(bytes) = serde_json::to_vec(self) {
            disk::replace_view(disk, path, &bytes);
        }
    }

    /// What is remembered of the repository at `path`.
    pub fn repository(&self, path: Option<&RelPath>) -> Option<&RepositoryMemo> {
        self.repositories.iter().find(|memo| memo.path.as_ref() == path)
    }
}
