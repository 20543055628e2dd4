//! Which files an operation reaches beyond those that a checkpoint takes anyway.
//!
//! A path that git's rules ignore is taken if the operation names it, up to the limits;
//! a path that Rappel's own rules leave out stays left out. A restore of another checkpoint does
//! not delete these paths: no rules select them.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rappel_capture::files::{Judged, builtin};
use rappel_capture::git::{self, apply::path_of};
use rappel_types::git::GitPart;
use rappel_types::manifest::Skipped;
use rappel_types::{Manifest, RelPath};

use super::rules::Root;
use super::{DestructiveCommand, LeftOut};
use crate::error::Result;
use crate::rappel::Rappel;

/// All files together that are taken although git ignores them.
const MOST_BYTES: u64 = 1 << 30;
/// So many of them, at most.
const MOST_FILES: usize = 200_000;

/// What a checkpoint before an operation takes besides, and what it cannot.
#[derive(Debug, Default)]
pub(super) struct Reached {
    pub also: Vec<RelPath>,
    /// The same, in other work trees of the repository.
    pub worktrees: BTreeMap<PathBuf, Vec<RelPath>>,
    /// A file among those is a database.
    pub databases: bool,
    pub left_out: LeftOut,
}

impl Rappel {
    /// Whether an operation names anything in the workspace.
    pub(super) fn reaches_files(&self, operation: &DestructiveCommand) -> bool {
        let mut paths = operation.files.iter().chain(&operation.ignored);
        paths.any(|path| settled(path).starts_with(&self.root) || self.root.starts_with(path))
    }

    /// Whether an operation reaches a work tree that git knows and the newest checkpoint does not: the
    /// rules that tell its ignored files are not recorded yet.
    pub(super) fn reaches_new_worktree(
        &self,
        operation: &DestructiveCommand,
        newest: Option<&Manifest>,
    ) -> bool {
        let environment = &self.options.environment;
        let mut linked = git::linked_folders(&self.root, environment);
        let mut known = Vec::new();
        let parts = newest.and_then(|newest| newest.git.as_ref()).into_iter();
        for (path, part) in parts.flat_map(GitPart::repositories) {
            if let Some(path) = path {
                let folder = git::folder_of(&self.root, Some(path));
                linked.extend(git::linked_folders(&folder, environment));
            }
            let held = part.worktrees.iter().filter(|one| one.files.is_some());
            known.extend(held.map(|worktree| path_of(&worktree.path)));
        }
        let is_new = |folder: &PathBuf| folder.is_dir() && !known.contains(folder);
        let mut named = operation.files.iter().chain(&operation.ignored).map(|path| settled(path));
        let new: Vec<PathBuf> =
            linked.into_iter().filter(is_new).map(|folder| settled(&folder)).collect();
        !new.is_empty()
            && named.any(|path| {
                new.iter().any(|folder| path.starts_with(folder) || folder.starts_with(&path))
            })
    }

    /// What of an operation's reach a checkpoint left out by itself: files that are too large, pipes.
    pub(super) fn skipped_of(
        &self,
        operation: &DestructiveCommand,
        made: &Manifest,
    ) -> Vec<Skipped> {
        let DestructiveCommand { files, ignored, untracked, .. } = operation;
        let named: Vec<PathBuf> =
            files.iter().chain(ignored).chain(untracked).map(|path| settled(path)).collect();
        let skipped = made.files.iter().flat_map(|files| &files.skipped);
        let is_named = |one: &&Skipped| {
            let path = self.root.join(OsStr::from_bytes(one.path.as_bytes()));
            named.iter().any(|named| path.starts_with(named))
        };
        skipped.filter(is_named).cloned().collect()
    }

    /// What an operation reaches.
    pub(super) fn reached_by(&self, operation: &DestructiveCommand) -> Result<Reached> {
        let mut reached = Reached::default();
        reached.left_out.unknown.clone_from(&operation.unknown);
        reached.left_out.elsewhere.clone_from(&operation.elsewhere);
        let newest = self.newest_files()?;
        let roots = self.roots(newest.as_ref());
        let mut room = Room { each: self.config.files.max_file_size, left: MOST_BYTES };
        for path in with_targets(operation.files.iter().chain(&operation.ignored)) {
            let reaches =
                |root: &&Root| path.starts_with(&root.folder) || root.folder.starts_with(&path);
            let mut is_inside = false;
            for root in roots.iter().filter(reaches) {
                is_inside = true;
                let below = path.strip_prefix(&root.folder).unwrap_or(Path::new(""));
                let mut walk =
                    Walk { root, roots: &roots, room, also: Vec::new(), left_out: Vec::new() };
                walk.run(below);
                walk.take_named(below);
                room = walk.room;
                reached.databases |= root.has_database_in(&path);
                let Walk { also, left_out, .. } = walk;
                if root.folder == self.root {
                    reached.also.extend(also);
                    reached.left_out.paths.extend(left_out);
                } else {
                    reached.worktrees.entry(root.folder.clone()).or_default().extend(also);
                    // A manifest's paths are the workspace's.
                    let shown = left_out.iter().map(|one| {
                        format!("{}/{} ({})", root.folder.display(), one.path, one.reason)
                    });
                    reached.left_out.outside.extend(shown);
                }
            }
            let exists = path.symlink_metadata().is_ok() || !path.is_absolute();
            if exists && !(is_inside && self.root.starts_with(&path) == (path == self.root)) {
                reached.left_out.outside.push(path.display().to_string());
            }
        }
        reached.also.sort();
        reached.also.dedup();
        reached.left_out.paths.sort();
        reached.left_out.paths.dedup();
        Ok(reached)
    }
}

/// How much may still be taken although git ignores it.
#[derive(Debug, Clone, Copy)]
struct Room {
    /// The largest file.
    each: u64,
    /// Bytes of all files together.
    left: u64,
}

impl Room {
    /// Takes a file of this size, or says why it is left out.
    fn take(&mut self, size: u64) -> Result<(), &'static str> {
        if size > self.each {
            return Err("it is larger than max_file_size");
        }
        let rest = self.left.checked_sub(size);
        self.left = rest.ok_or("ignored files of more than 1 GiB are not taken")?;
        Ok(())
    }
}

/// A walk over what an operation names in one root.
struct Walk<'a> {
    root: &'a Root,
    roots: &'a [Root],
    room: Room,
    also: Vec<RelPath>,
    left_out: Vec<Skipped>,
}

impl Walk<'_> {
    fn run(&mut self, below: &Path) {
        let mut waiting = vec![below.to_owned()];
        while let Some(path) = waiting.pop() {
            if self.visit(&path) {
                let folder = self.root.folder.join(&path);
                let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
                waiting.extend(entries.map(|entry| path.join(entry.file_name())));
            }
        }
    }

    /// Takes a file that is named itself, whatever rules there are by the time of the save.
    fn take_named(&mut self, below: &Path) {
        let Ok(path) = RelPath::new(below.as_os_str().as_bytes()) else { return };
        let found = self.root.folder.join(below).symlink_metadata();
        let is_small = found.is_ok_and(|found| found.is_file() && found.len() <= self.room.each);
        if is_small && self.root.selector.judge(&path, false) == Judged::Taken {
            self.also.push(path);
        }
    }

    /// Looks at one path; whether it is a folder to go into.
    fn visit(&mut self, below: &Path) -> bool {
        let whole = self.root.folder.join(below);
        let Ok(found) = whole.symlink_metadata() else { return false };
        if below.as_os_str().is_empty() {
            return found.is_dir();
        }
        let is_other = |root: &Root| root.folder == whole && root.folder != self.root.folder;
        // A work tree within the workspace is taken as a work tree.
        if self.roots.iter().any(is_other) {
            return false;
        }
        let Ok(path) = RelPath::new(below.as_os_str().as_bytes()) else { return false };
        match self.root.selector.judge(&path, found.is_dir()) {
            Judged::Taken => found.is_dir(),
            Judged::Refused => {
                let is_git = below.file_name().is_some_and(|name| name == ".git");
                if is_git && self.is_ignored(below.parent()) {
                    self.leave(path, "git's folder of a repository in an ignored folder");
                } else if !is_git && !self.root.excluded.contains(&path) {
                    self.leave(path, "Rappel's own rules leave it out");
                }
                false
            }
            Judged::Ignored if found.is_dir() => {
                let exists = |path: &[u8]| self.root.folder.join(OsStr::from_bytes(path)).exists();
                if builtin::is_build_folder(path.as_bytes(), &exists) {
                    self.leave(path, "a build or dependency folder");
                    return false;
                }
                self.also.push(path);
                true
            }
            Judged::Ignored => {
                self.take(path, found.len());
                false
            }
        }
    }

    /// Whether git ignores a folder, so that a repository in it is not captured as one.
    fn is_ignored(&self, folder: Option<&Path>) -> bool {
        let path = folder.and_then(|folder| RelPath::new(folder.as_os_str().as_bytes()).ok());
        path.is_some_and(|path| self.root.selector.judge(&path, true) == Judged::Ignored)
    }

    fn take(&mut self, path: RelPath, size: u64) {
        match self.room.take(size) {
            Ok(()) if self.also.len() >= MOST_FILES => {
                self.leave(path, "more than 200000 ignored files are not taken");
            }
            Ok(()) => self.also.push(path),
            Err(reason) => self.leave(path, reason),
        }
    }

    fn leave(&mut self, path: RelPath, reason: &str) {
        self.left_out.push(Skipped { path, reason: reason.into() });
    }
}

/// Where paths really are; for a link both itself and what it leads to, because a command may mean
/// either.
pub(super) fn with_targets<'p>(paths: impl IntoIterator<Item = &'p PathBuf>) -> BTreeSet<PathBuf> {
    let both = paths.into_iter().flat_map(|path| {
        let is_link = path.symlink_metadata().is_ok_and(|found| found.is_symlink());
        let target = is_link.then(|| path.canonicalize().ok()).flatten();
        std::iter::once(settled(path)).chain(target)
    });
    both.collect()
}

/// A path whose folder is where it really is. What the path names may be a link, and stays one.
fn settled(path: &Path) -> PathBuf {
    let whole = || path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return whole() };
    match folder.canonicalize() {
        Ok(folder) => folder.join(name),
        Err(_) => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_taken_up_to_the_limit_of_each_and_of_all_together() {
        let mut room = Room { each: 700 << 20, left: MOST_BYTES };
        assert!(room.take((700 << 20) + 1).is_err_and(|why| why.contains("max_file_size")));
        assert!(room.take(700 << 20).is_ok());
        assert!(room.take(700 << 20).is_err_and(|why| why.contains("1 GiB")));
        // A smaller one still fits.
        assert!(room.take(324 << 20).is_ok());
        assert!(room.take(1).is_err() && room.take(0).is_ok());
    }
}
