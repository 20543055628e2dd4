//! The small documents beside the manifests: JSON records that say something about a checkpoint
//! or a workspace. They are never changed; a later one adds to, or overrides, an earlier one.

use std::collections::BTreeMap;

use rappel_types::agents::SessionPosition;
use rappel_types::{CheckpointId, Entry, Facet, RelPath, Timestamp, WorkspaceId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::pack::PackId;

/// What tells a workspace from others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workspace {
    /// Version of this document.
    pub version: u32,
    /// The random id.
    pub id: WorkspaceId,
    /// The root folder, escaped like a path.
    pub root: String,
    /// The root's inode.
    pub inode: u64,
    /// The file system's id.
    pub file_system: String,
    /// The machine or container.
    pub machine: String,
    /// The git repository's first commit.
    pub first_commit: Option<String>,
    /// When this was seen.
    pub at: Timestamp,
    /// Of a lineage, a history that came from elsewhere: the workspace that it was imported into.
    /// It is no folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lineage_of: Option<WorkspaceId>,
    /// Of a lineage: where it came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
}

/// Where a lineage came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The form of its checkpoints there: `lugh`, `loki` and the like.
    pub format: String,
    /// The folder or file that it was read from last, escaped like a path.
    pub place: String,
}

/// Tags, pins and metadata given to a checkpoint after it was made.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Label {
    /// Version of this document.
    pub version: u32,
    /// Tags to add.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub add: Vec<String>,
    /// Tags to take away.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remove: Vec<String>,
    /// Pinned from now on, or no longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pinned: Option<bool>,
    /// The message from now on; an empty one takes the message away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Values to set; `null` takes one away.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, Value>,
}

/// That a checkpoint was deleted. It kills only what was born before it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tombstone {
    /// Version of this document.
    pub version: u32,
    /// The checkpoint.
    pub checkpoint: CheckpointId,
    /// Its workspace.
    pub workspace: WorkspaceId,
    /// Its number there, which is never given again.
    pub sequence: u64,
    /// When.
    pub at: Timestamp,
    /// Whether its space may be freed at once.
    #[serde(default)]
    pub now: bool,
}

/// That a session was let go. Its events and stored states that were born before no longer count.
/// It is kept for good: it tells that a transcript which still lies there was told once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionTombstone {
    /// Version of this document.
    pub version: u32,
    /// The session.
    pub session: String,
    /// Its workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<WorkspaceId>,
    /// Its agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// What its agent calls it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub called: Option<String>,
    /// How many events its journal had.
    pub events: u64,
    /// The number of the last one. Numbers are never given again.
    pub last: u64,
    /// The time of the latest one.
    pub until: Timestamp,
    /// When it was let go.
    pub at: Timestamp,
    /// Whether its space may be freed at once.
    #[serde(default)]
    pub now: bool,
}

impl SessionTombstone {
    /// What the document is about. No checkpoint's id has a colon.
    pub fn key(session: &str) -> String {
        format!("session:{session}")
    }
}

/// One restore, undo or redo of a workspace: what `undo` and `redo` go by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undo {
    /// Version of this document.
    pub version: u32,
    /// The workspace.
    pub workspace: WorkspaceId,
    /// What was done.
    pub kind: UndoKind,
    /// The state before it.
    pub from: CheckpointId,
    /// The state it went to.
    pub to: CheckpointId,
    /// The facets it touched.
    pub facets: Vec<Facet>,
    /// The paths it touched.
    pub paths: Vec<RelPath>,
    /// The refs it touched, repository by repository.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub git: Vec<UndoGit>,
    /// The databases it restored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub databases: Vec<UndoDatabase>,
    /// The sessions it set back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sessions: Vec<UndoSession>,
    /// Whether it put transcripts back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub transcripts: bool,
    /// Of a restore: whether files that differ from `to` were not asked for and stayed as they were.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
    /// Of an undo: the commit after which the same could be undone as after this one; 0 is nothing.
    /// So nothing in between has to be read. Absent: it follows from what was done before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stands: Option<u64>,
    /// Those of the paths that were left with something else than `to` holds: chosen hunks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mixed: Vec<Entry>,
    /// When.
    pub at: Timestamp,
}

impl Undo {
    /// Whether nothing was changed.
    pub fn did_nothing(&self) -> bool {
        self.paths.is_empty()
            && self.git.is_empty()
            && self.databases.is_empty()
            && self.sessions.is_empty()
            && !self.transcripts
    }
}

/// A session that a restore set back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UndoSession {
    /// Its id.
    pub id: String,
    /// Where its journal stood right before: later than in the safety checkpoint, if it went on meanwhile.
    #[serde(flatten)]
    pub position: SessionPosition,
}

/// A database that a restore changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UndoDatabase {
    /// Its name.
    pub name: String,
    /// Where it was.
    pub place: String,
    /// What a cheap look at it gave right after: as long as it is the same, nobody changed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<String>,
    /// The digest of what it gave right after, where that can be something else than was loaded: a
    /// server may tell a definition in other words than those it was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loaded: Option<String>,
}

/// What a restore did to one repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UndoGit {
    /// Where it starts; `None` is the workspace's root.
    pub path: Option<RelPath>,
    /// The refs that moved.
    pub refs: Vec<RelPath>,
    /// Whether all of it was made, or taken away.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub whole: bool,
    /// Whether the file at `.git` that leads to it was put there, or taken away.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub link: bool,
    /// Other work trees that it touched.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub worktrees: Vec<UndoWorktree>,
}

/// What a restore did to another work tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UndoWorktree {
    /// Its name in the repository.
    pub name: String,
    /// Whether all of it was made, or taken away.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub whole: bool,
    /// Whether the file at its `.git` was put there, or taken away.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub link: bool,
    /// Whether git's own folder of it was put back, or taken away, while its files stayed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub admin: bool,
    /// Otherwise the paths that it touched.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<RelPath>,
}

/// What an [`Undo`] document records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UndoKind {
    /// A restore by the user.
    Restore,
    /// A step back.
    Undo,
    /// A step forward again.
    Redo,
}

/// What a repair could not bring back. A later one about the same checkpoint overrides an earlier
/// one; one that lists nothing says that all is well again. About a pack, it says that its damage
/// was looked at: gc need not keep older packs for what it might have held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loss {
    /// Version of this document.
    pub version: u32,
    /// When the repair was.
    pub at: Timestamp,
    /// Paths whose content is lost, as far as they are known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<RelPath>,
    /// Whether more is lost than `paths` can say: a part of the tree itself.
    #[serde(default)]
    pub structure: bool,
    /// Damage that was there when everything that could be was brought back, in the words of
    /// `verify`: only in the document about [`KNOWN_DAMAGE`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub known: Vec<String>,
    /// Packs that a repair found without a log, and named: only in the document about
    /// [`ADOPTED_PACKS`]. The last one counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub adopted: Vec<PackId>,
    /// The checkpoint's workspace, for whoever does not find its manifest any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<WorkspaceId>,
    /// Likewise its number there, which is never given again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u64>,
}

impl Loss {
    /// One that lists nothing.
    pub fn of_nothing(at: Timestamp) -> Self {
        Self {
            version: DOCUMENT_VERSION,
            at,
            paths: Vec::new(),
            structure: false,
            known: Vec::new(),
            adopted: Vec::new(),
            workspace: None,
            sequence: None,
        }
    }

    /// Whether nothing is left of the checkpoint if its manifest is not found.
    pub fn takes_all(&self) -> bool {
        self.structure && self.workspace.is_some()
    }
}

/// What the document with the damage that a repair has left is about.
pub const KNOWN_DAMAGE: &str = "known-damage";

/// What the document with the packs that a repair found without a log is about.
pub const ADOPTED_PACKS: &str = "adopted-packs";

/// The version of all documents of this build.
pub const DOCUMENT_VERSION: u32 = 1;
