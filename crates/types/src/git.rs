//! The git side of a checkpoint, as the manifest has it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::manifest::FilesPart;
use crate::{Action, ObjectId, RelPath};

/// What a checkpoint knows of the repositories of a workspace: the one that starts at its root, and
/// those nested in it.
#[derive(Debug, Clone, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct GitPart {
    /// The repository at the root; empty where only nested ones are there.
    #[serde(flatten)]
    pub root: RepositoryPart,
    /// Everything that was taken of git's own folders, each repository below its key.
    pub tree: Option<ObjectId>,
    /// Repositories nested in the workspace, submodules included, by path.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nested: Vec<NestedPart>,
}

impl GitPart {
    /// All repositories with the folder in which they start; `None` is the root.
    pub fn repositories(&self) -> impl Iterator<Item = (Option<&RelPath>, &RepositoryPart)> {
        let root = (!self.root.key.is_empty()).then_some((None, &self.root));
        root.into_iter().chain(self.nested.iter().map(|nested| (Some(&nested.path), &nested.part)))
    }

    /// The repository that starts at `path`.
    pub fn repository(&self, path: Option<&RelPath>) -> Option<&RepositoryPart> {
        self.repositories().find(|(at, _)| *at == path).map(|(_, part)| part)
    }
}

/// A repository below the workspace's root.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct NestedPart {
    /// The folder in which it starts.
    pub path: RelPath,
    /// What was taken of it.
    #[serde(flatten)]
    pub part: RepositoryPart,
}

/// One repository, seen from one of its work trees.
#[derive(Debug, Clone, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct RepositoryPart {
    /// The branch that HEAD names, whether or not it has a commit yet.
    pub branch: Option<String>,
    /// The commit that HEAD leads to.
    pub commit: Option<String>,
    /// Whether HEAD names a commit and no branch.
    #[serde(default)]
    pub detached: bool,
    /// Every path that differs from HEAD or is not tracked, in order.
    #[serde(default)]
    pub dirty_files: Vec<RelPath>,
    /// Paths whose staged content differs from HEAD.
    #[serde(default)]
    pub staged: Vec<RelPath>,
    /// Paths whose content differs from what is staged.
    #[serde(default)]
    pub modified: Vec<RelPath>,
    /// Paths that are neither tracked nor ignored.
    #[serde(default)]
    pub untracked: Vec<RelPath>,
    /// How many paths these lists leave out, because they are too many to be listed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unlisted: u64,
    /// The unfinished operation: `merge`, `rebase`, `am`, `cherry-pick`, `revert`, `bisect`.
    pub operation: Option<String>,
    /// The other work trees of the repository.
    #[serde(default)]
    pub worktrees: Vec<WorktreePart>,
    /// Where in the facet's tree this repository is.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub key: String,
    /// The name of this work tree in its repository, if it is a linked one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub linked: Option<RelPath>,
    /// Where git's own folder is, seen from the workspace, if it is not `.git`: a submodule's lies
    /// in the folder of the repository around it, that of a linked work tree anywhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git_dir: Option<String>,
}

/// Another work tree of a repository.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct WorktreePart {
    /// Its name in the repository; the main one is called `main`.
    pub name: String,
    /// The branch that its HEAD names.
    pub branch: Option<String>,
    /// Where it is, absolute, escaped.
    pub path: String,
    /// The commit that its HEAD leads to.
    pub commit: Option<String>,
    /// Its files, where they were taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<FilesPart>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// What a restore does to repositories, besides to the workspace's files. Part of a plan, and of the
/// intent that carries it out.
#[derive(Debug, Clone, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct GitPlan {
    /// Repository by repository, the outermost first.
    pub repositories: Vec<RepositoryPlan>,
}

impl GitPlan {
    /// Whether nothing would change.
    pub fn is_empty(&self) -> bool {
        self.repositories.iter().all(RepositoryPlan::is_empty)
    }
}

impl GitPlan {
    /// Whether it has an order of steps that readers of intents before version 6 do not know.
    pub fn has_last(&self) -> bool {
        self.repositories.iter().any(|one| !one.last.is_empty())
    }

    /// Whether it has a step that readers of intents before version 5 do not know.
    pub fn is_of_today(&self) -> bool {
        let linked = |one: &WorktreePlan| one.relink || one.unlink;
        self.repositories
            .iter()
            .any(|one| one.mends || one.spoils || one.objects || one.worktrees.iter().any(linked))
    }
}

/// What a restore does to one repository.
#[derive(Debug, Clone, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[allow(clippy::struct_excessive_bools, reason = "each is a step of its own")]
pub struct RepositoryPlan {
    /// Where it starts; `None` is the workspace's root.
    pub path: Option<RelPath>,
    /// Git's common folder, absolute, escaped.
    pub common_dir: String,
    /// Git's folder of the work tree, absolute, escaped.
    pub git_dir: String,
    /// Whether the repository is gone and made anew.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub create: bool,
    /// Whether it goes, because a restore made it that is taken back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub remove: bool,
    /// Whether the file at `.git` that leads to it is gone and is put back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub relink: bool,
    /// Whether that file goes, because a restore put it there that is taken back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unlink: bool,
    /// Whether refs move by the tables that they are kept in, which are among the files.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tables: bool,
    /// Whether git cannot read the repository before its files are put back: they come first.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub mends: bool,
    /// Whether git cannot read it after that: an undo. Then they come last.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub spoils: bool,
    /// Of the files, those that come last although the others come first: both of the above.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub last: Vec<RelPath>,
    /// Whether objects are brought back though nothing else needs them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub objects: bool,
    /// Refs and HEADs that move, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refs: Vec<RefMove>,
    /// Reflogs, by their path in the common folder.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub logs: Vec<Action>,
    /// Other files of the common folder: indexes, unfinished operations, folders of work trees.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<Action>,
    /// Other work trees that are restored or made anew.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub worktrees: Vec<WorktreePlan>,
}

impl RepositoryPlan {
    /// Whether nothing would change.
    pub fn is_empty(&self) -> bool {
        !(self.create || self.remove || self.relink || self.unlink || self.objects)
            && self.refs.is_empty()
            && self.logs.is_empty()
            && self.files.is_empty()
            && self.worktrees.iter().all(WorktreePlan::is_empty)
    }
}

/// A ref that moves. A value is the name of an object, or `ref: ` and another ref.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct RefMove {
    /// Its name in the common folder: `HEAD`, `refs/heads/x`, `worktrees/w/HEAD`.
    pub name: RelPath,
    /// What it is now; `None` if it is not there.
    pub old: Option<String>,
    /// What it will be; `None` if it will be gone.
    pub new: Option<String>,
}

/// Another work tree that a restore brings back.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[allow(clippy::struct_excessive_bools, reason = "each is a step of its own")]
pub struct WorktreePlan {
    /// Its name in the repository.
    pub name: String,
    /// Where it is, absolute, escaped.
    pub path: String,
    /// Whether its folder is gone and made anew.
    pub create: bool,
    /// Whether its folder goes, because a restore made it that is taken back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub remove: bool,
    /// Whether its folder is there without the file at `.git`, which is put back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub relink: bool,
    /// Whether that file goes, because a restore put it there that is taken back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unlink: bool,
    /// All its files, where the folder is made anew or goes.
    pub tree: ObjectId,
    /// What changes in it, where the folder is there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<Action>,
}

impl WorktreePlan {
    /// Whether nothing would change.
    pub fn is_empty(&self) -> bool {
        !(self.create || self.remove || self.relink || self.unlink) && self.actions.is_empty()
    }
}
