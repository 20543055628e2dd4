//! What differs in repositories: where they stand, their refs, what is staged, their other work trees.

use std::collections::{BTreeMap, BTreeSet};

use rappel_capture::git::State;
use rappel_capture::git::plan::value;
use rappel_store::sink::Source;
use rappel_types::RelPath;
use rappel_types::git::{GitPart, WorktreePart};
use schemars::JsonSchema;
use serde::Serialize;

use super::Moved;
use crate::error::Result;

/// Older entries of the stash are nothing but lines of its log.
const STASH: &[u8] = b"refs/stash";
const STASH_LOG: &[u8] = b"logs/refs/stash";

/// What differs in the repositories of a workspace.
#[derive(Debug, Clone, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct GitDiff {
    /// In the one at its root.
    #[serde(flatten)]
    pub root: RepositoryDiff,
    /// In those nested in it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nested: Vec<NestedDiff>,
}

/// What differs in a repository below the workspace's root.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct NestedDiff {
    /// The folder in which it starts.
    pub path: RelPath,
    /// What differs.
    #[serde(flatten)]
    pub diff: RepositoryDiff,
}

/// What differs in one repository.
#[derive(Debug, Clone, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct RepositoryDiff {
    /// The branch that HEAD names.
    pub branch: Option<Moved<Option<String>>>,
    /// The commit that HEAD leads to.
    pub commit: Option<Moved<Option<String>>>,
    /// The operation under way.
    pub operation: Option<Moved<Option<String>>>,
    /// Branches, tags, stash, notes, and whatever else has a name, by it.
    pub refs: Vec<RefDiff>,
    /// Whether something else is staged.
    pub index: bool,
    /// Other work trees with other files, on another branch or commit, or that only one side has.
    pub worktrees: Vec<String>,
}

/// How one ref differs.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct RefDiff {
    /// Its full name.
    pub name: RelPath,
    /// What it was; `None` if it was not there. Equal to `to` where just older entries of the stash differ.
    pub from: Option<String>,
    /// What it is; `None` if it is gone.
    pub to: Option<String>,
}

impl GitDiff {
    /// Every repository that differs, with the folder in which it starts; `None` is the root.
    pub fn repositories(&self) -> impl Iterator<Item = (Option<&RelPath>, &RepositoryDiff)> {
        let root = (self.root != RepositoryDiff::default()).then_some((None, &self.root));
        root.into_iter().chain(self.nested.iter().map(|nested| (Some(&nested.path), &nested.diff)))
    }
}

/// The repositories of a checkpoint, or none.
pub fn states(source: &dyn Source, part: Option<&GitPart>) -> Result<Vec<State>> {
    Ok(part.map(|part| State::load(source, part)).transpose()?.unwrap_or_default())
}

/// What differs between repositories as they were and as they are; `None` if nothing does.
pub fn compare(source: &dyn Source, from: &[State], to: &[State]) -> Option<GitDiff> {
    let at = |states: &[State], path: Option<&RelPath>| {
        states.iter().find(|state| state.path.as_ref() == path).cloned().unwrap_or_default()
    };
    let of = |path| repository(source, &at(from, path), &at(to, path));
    let paths: BTreeSet<&RelPath> =
        from.iter().chain(to).filter_map(|state| state.path.as_ref()).collect();
    let nested =
        paths.into_iter().map(|path| NestedDiff { path: path.clone(), diff: of(Some(path)) });
    let nested = nested.filter(|nested| nested.diff != RepositoryDiff::default());
    let diff = GitDiff { root: of(None), nested: nested.collect() };
    (diff != GitDiff::default()).then_some(diff)
}

fn repository(source: &dyn Source, from: &State, to: &State) -> RepositoryDiff {
    RepositoryDiff {
        branch: Moved::between(&from.part.branch, &to.part.branch),
        commit: Moved::between(&from.part.commit, &to.part.commit),
        operation: Moved::between(&from.part.operation, &to.part.operation),
        refs: refs(from, to),
        index: !from.stages_as(to, source),
        worktrees: worktrees(&from.part.worktrees, &to.part.worktrees),
    }
}

fn refs(from: &State, to: &State) -> Vec<RefDiff> {
    let names: BTreeSet<&RelPath> = from.refs.keys().chain(to.refs.keys()).collect();
    // Branch and commit tell where a work tree stands.
    let names = names.into_iter().filter(|name| name.name() != b"HEAD");
    let differing = names.filter_map(|name| {
        let (old, new) = (from.refs.get(name), to.refs.get(name));
        let log = |state: &State| state.files.get(&RelPath::new(STASH_LOG).ok()?).cloned();
        let same = old == new && (name.as_bytes() != STASH || log(from) == log(to));
        let diff = || RefDiff { name: name.clone(), from: old.map(value), to: new.map(value) };
        (!same).then(diff)
    });
    differing.collect()
}

fn worktrees(from: &[WorktreePart], to: &[WorktreePart]) -> Vec<String> {
    let states = |parts: &[WorktreePart]| -> BTreeMap<String, _> {
        let state = |part: &WorktreePart| {
            let files = part.files.as_ref().map(|files| files.tree);
            (part.name.clone(), (part.branch.clone(), part.commit.clone(), files))
        };
        parts.iter().map(state).collect()
    };
    let (from, to) = (states(from), states(to));
    let names: BTreeSet<&String> = from.keys().chain(to.keys()).collect();
    names.into_iter().filter(|name| from.get(*name) != to.get(*name)).cloned().collect()
}
