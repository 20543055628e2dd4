//! What the rules that a checkpoint recorded say of a file: whether git ignores it, and whether it is
//! taken all the same.
//!
//! Git's rules are asked as the checkpoint recorded them, with the ignore files that lie in the
//! workspace now.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rappel_capture::files::{Judged, Selector};
use rappel_capture::git::apply::path_of;
use rappel_store::{content, held, tree};
use rappel_types::git::GitPart;
use rappel_types::manifest::FilesPart;
use rappel_types::{CheckpointId, Manifest, Node, RelPath};

use super::reach::with_targets;
use crate::error::{Error, Result};
use crate::rappel::Rappel;

/// Larger rule files are none.
const RULE_FILE_MAX: u64 = 1 << 20;

/// What has become of an ignored file since a checkpoint took it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Unchanged,
    Overwritten,
    Gone,
}

impl Rappel {
    /// The newest checkpoint that holds files.
    pub(super) fn newest_files(&self) -> Result<Option<Manifest>> {
        let Some(id) = self.workspace_id() else { return Ok(None) };
        let Some(row) = self.store.look_up(|index| index.newest_with_files(id))? else {
            return Ok(None);
        };
        match self.store.manifest(&row).map_err(Error::from) {
            Err(error) if error.is_unreadable() => Ok(None),
            other => other.map(Some),
        }
    }

    /// Whether a checkpoint's rules take each of these files, as far as they are in the workspace.
    pub(super) fn rules_take(&self, manifest: &Manifest, files: &[PathBuf]) -> bool {
        let root = manifest.files.as_ref().and_then(|part| Root::of(self.root.clone(), part));
        let Some(root) = root else { return false };
        self.inside(files)
            .all(|(path, found)| root.selector.judge(&path, found.is_dir()) == Judged::Taken)
    }

    /// Those of these files that are in the workspace and not too large.
    pub(super) fn small_files(&self, files: &[PathBuf]) -> Vec<RelPath> {
        let most = self.config.files.max_file_size;
        let is_git =
            |path: &RelPath| path.as_bytes().split(|b| *b == b'/').any(|name| name == b".git");
        let small = self.inside(files).filter(|(_, found)| found.is_file() && found.len() <= most);
        small.map(|(path, _)| path).filter(|path| !is_git(path)).collect()
    }

    /// Those of these files that are there and in the workspace, and what a link among them leads to.
    fn inside(&self, files: &[PathBuf]) -> impl Iterator<Item = (RelPath, Metadata)> {
        with_targets(files).into_iter().filter_map(|file| {
            let below = file.strip_prefix(&self.root).ok()?;
            let path = RelPath::new(below.as_os_str().as_bytes()).ok()?;
            Some((path, file.symlink_metadata().ok()?))
        })
    }

    /// The files that checkpoints took although git ignored them, and that are not any more what
    /// they were, each with a checkpoint that holds it: of one that is gone the newest, of one that
    /// was overwritten the first. The checkpoints stand in their order, and the one before them is
    /// `before`.
    pub(crate) fn ignored_and_lost(
        &self,
        before: &Manifest,
        checkpoints: &[Manifest],
    ) -> Result<Vec<(CheckpointId, Vec<RelPath>)>> {
        let mut lost: BTreeMap<RelPath, (usize, Fate)> = BTreeMap::new();
        let mut last = before.files.as_ref().map(|files| files.tree);
        for (number, manifest) in checkpoints.iter().enumerate() {
            let Some(part) = &manifest.files else { continue };
            let changes = match last.replace(part.tree) {
                Some(last) => tree::diff(self.source(), &last, &part.tree)?,
                None => continue,
            };
            let Some(root) = Root::of(self.root.clone(), part) else { continue };
            for change in changes {
                let Some(node) = change.new else { continue };
                let is_folder = matches!(node, Node::Directory { .. });
                if root.selector.judge(&change.path, is_folder) != Judged::Ignored {
                    continue;
                }
                let place = self.root.join(OsStr::from_bytes(change.path.as_bytes()));
                match fate(&place, &node) {
                    Fate::Unchanged => {}
                    Fate::Gone => drop(lost.insert(change.path, (number, Fate::Gone))),
                    Fate::Overwritten => {
                        lost.entry(change.path).or_insert((number, Fate::Overwritten));
                    }
                }
            }
        }
        let mut found: BTreeMap<usize, Vec<RelPath>> = BTreeMap::new();
        for (path, (number, _)) in lost {
            found.entry(number).or_default().push(path);
        }
        let named =
            |(number, paths): (usize, Vec<RelPath>)| (checkpoints[number].id.clone(), paths);
        Ok(found.into_iter().rev().map(named).collect())
    }

    /// The folders that a checkpoint takes files from: the workspace and other work trees.
    pub(super) fn roots(&self, newest: Option<&Manifest>) -> Vec<Root> {
        let Some(newest) = newest else { return Vec::new() };
        let mut roots = Vec::new();
        let parts = newest.git.iter().flat_map(GitPart::repositories);
        for worktree in parts.flat_map(|(_, part)| &part.worktrees) {
            let folder = path_of(&worktree.path);
            if let Some(files) =
                worktree.files.as_ref().filter(|_| folder != self.root && folder.is_dir())
            {
                roots.extend(Root::of(folder, files));
            }
        }
        let own = newest.files.as_ref();
        roots.extend(own.and_then(|files| Root::of(self.root.clone(), files)));
        roots
    }
}

/// A folder that a checkpoint takes files from, and the rules that choose them.
pub(super) struct Root {
    pub folder: PathBuf,
    pub selector: Selector<'static>,
    /// Paths that are left out because of what they are: databases, and Rappel's own folders.
    pub excluded: Vec<RelPath>,
}

impl Root {
    pub fn of(folder: PathBuf, files: &FilesPart) -> Option<Self> {
        let base = folder.clone();
        let read = move |path: &RelPath| {
            let path = base.join(OsStr::from_bytes(path.as_bytes()));
            let found = path.symlink_metadata().ok()?;
            let is_rule_file = found.is_file() && found.len() <= RULE_FILE_MAX;
            is_rule_file.then(|| held::read(&path).ok()).flatten()
        };
        let selector = Selector::recorded(&files.rules, read).ok()?;
        Some(Self { folder, selector, excluded: files.rules.excluded_roots.clone() })
    }

    /// Whether `path` is, or holds, a database.
    pub fn has_database_in(&self, path: &Path) -> bool {
        let mut places =
            self.excluded.iter().map(|one| self.folder.join(OsStr::from_bytes(one.as_bytes())));
        places.any(|place| place.starts_with(path) && place.is_file())
    }
}

/// What has become of a file that a checkpoint holds as `node`, by what stands at its place.
pub(crate) fn fate(place: &Path, node: &Node) -> Fate {
    let Ok(found) = place.symlink_metadata() else { return Fate::Gone };
    let is_same = match node {
        Node::Directory { .. } => found.is_dir(),
        Node::Symlink { target } => {
            std::fs::read_link(place).is_ok_and(|to| to.as_os_str().as_bytes() == target)
        }
        Node::File { size, content: known, .. } => {
            let read = |file: held::Handle| content::identify(&mut &*file, *size).ok();
            let is_like = found.is_file() && found.len() == *size;
            let now = is_like.then(|| held::open(place).ok().and_then(read)).flatten();
            now.is_some_and(|(content, size_now)| content == *known && size_now == *size)
        }
    };
    if is_same { Fate::Unchanged } else { Fate::Overwritten }
}
