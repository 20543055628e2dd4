//! Which files a command overwrites because a commit that it goes to tracks them.
//!
//! Git writes such a file over one that it ignores, and over a folder of ignored files that stands in
//! its place, without a word. The candidates are the paths that the commit tracks, the index does not,
//! and the work tree holds. Only commands that go to a commit cost these questions to git.

use std::collections::{BTreeSet, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rappel_capture::git::{Place, program::Git};

use super::{Commit, DestructiveCommand};
use crate::rappel::Rappel;

/// With more paths than this, all ignored files of the work tree are meant.
const MOST_PATHS: usize = 4096;

/// So many commits of a range are looked at.
const MOST_COMMITS: usize = 2000;

impl Rappel {
    /// What an operation destroys, now that git was asked what its commits track; `None` if it turns
    /// out to destroy nothing.
    pub fn resolve_commits(&self, mut operation: DestructiveCommand) -> Option<DestructiveCommand> {
        for commit in std::mem::take(&mut operation.commits) {
            self.resolve_commit(&commit, &mut operation);
        }
        if operation.perhaps {
            // What stands in the way of a commit's file is lost if git ignores it; otherwise git
            // refuses to go there. Which of the two holds is for the rules of the moment to say.
            let may_reach = !operation.files.is_empty()
                || !operation.ignored.is_empty()
                || !operation.unknown.is_empty();
            if !may_reach {
                return None;
            }
        }
        operation.files.sort();
        operation.files.dedup();
        Some(operation)
    }

    fn resolve_commit(&self, commit: &Commit, operation: &mut DestructiveCommand) {
        let folder = commit.folder.canonicalize().unwrap_or_else(|_| commit.folder.clone());
        let mut above = folder.ancestors();
        let place = above
            .find(|folder| folder.join(".git").symlink_metadata().is_ok())
            .and_then(|folder| Place::find(folder, &self.options.environment));
        // Without a repository git does nothing at all.
        let Some(place) = place else { return };
        let tracked = match commit.name.contains("..") {
            true => overwritten_between(&place, &commit.name),
            false => overwritten(&place, &commit.name),
        };
        match tracked {
            Tracked::Paths(paths) if paths.len() > MOST_PATHS => {
                operation.ignored.push(place.work_tree.clone());
            }
            Tracked::Paths(paths) => operation.files.extend(paths),
            // `git checkout notes` names a file, and git refuses a commit that is not there.
            Tracked::NoCommit if folder.join(&commit.name).symlink_metadata().is_ok() => {
                operation.files.push(folder.join(&commit.name));
            }
            Tracked::NoCommit if operation.perhaps => return,
            Tracked::NoCommit | Tracked::Unreadable => {
                operation.unknown.push(commit.name.clone());
                return;
            }
        }
        // One that destroys nothing now may still do so by then; the guide page says so.
        if commit.later && !(operation.perhaps && operation.files.is_empty()) {
            operation.unknown.push(format!("the files of {} by then", commit.name));
        }
    }
}

/// What git knows of a commit.
enum Tracked {
    /// What stands in the place of files that the commit tracks and the index does not.
    Paths(Vec<PathBuf>),
    NoCommit,
    Unreadable,
}

/// What would be overwritten by the files of the commit of this name.
fn overwritten(place: &Place, name: &str) -> Tracked {
    let git = place.git();
    let Some(tree) = tree_of(&git, name) else { return Tracked::NoCommit };
    // What is in the tree and not in the index counts as deleted from the one to the other.
    let question =
        ["diff-index", "--cached", "--no-renames", "--diff-filter=D", "--name-only", "-z", &tree];
    let Ok(answer) = git.ask(&question, b"") else { return Tracked::Unreadable };
    let mut folders = HashSet::from([place.work_tree.clone()]);
    let mut found = Vec::new();
    for path in answer.split(|byte| *byte == 0).filter(|path| !path.is_empty()) {
        let path = place.work_tree.join(OsStr::from_bytes(path));
        found.extend(in_place_of(&path, &mut folders));
        if found.len() > MOST_PATHS {
            break;
        }
    }
    found.dedup();
    Tracked::Paths(found)
}

/// What would be overwritten by the files that the commits of a range touch. A range that git does
/// not know is told by its ends.
fn overwritten_between(place: &Place, range: &str) -> Tracked {
    let none = Tracked::Paths(Vec::new());
    if range.starts_with('-') || range.contains(['\n', '\0']) {
        return none;
    }
    let git = place.git();
    let most = format!("--max-count={MOST_COMMITS}");
    let question = ["log", "--format=", "--name-only", "--no-renames", "-m", "-z", &most, range];
    let (Ok(touched), Ok(tracked)) = (git.ask(&question, b""), git.ask(&["ls-files", "-z"], b""))
    else {
        return none;
    };
    let tracked: HashSet<&[u8]> = tracked.split(|byte| *byte == 0).collect();
    let touched = touched.split(|byte| *byte == 0).map(<[u8]>::trim_ascii_start);
    let touched: BTreeSet<&[u8]> = touched.filter(|path| !tracked.contains(path)).collect();
    let mut folders = HashSet::from([place.work_tree.clone()]);
    let paths = touched.iter().filter(|path| !path.is_empty());
    let paths = paths.map(|path| place.work_tree.join(OsStr::from_bytes(path)));
    Tracked::Paths(paths.filter_map(|path| in_place_of(&path, &mut folders)).collect())
}

/// What stands in the place of a path: the path itself, or a file or link where one of its folders
/// would be. `folders` remembers those that are folders.
fn in_place_of(path: &Path, folders: &mut HashSet<PathBuf>) -> Option<PathBuf> {
    let mut unknown: Vec<&Path> = Vec::new();
    for folder in path.ancestors().skip(1) {
        if folders.contains(folder) {
            break;
        }
        unknown.push(folder);
    }
    for folder in unknown.into_iter().rev() {
        if !folder.symlink_metadata().ok()?.is_dir() {
            return Some(folder.to_owned());
        }
        folders.insert(folder.to_owned());
    }
    path.symlink_metadata().ok()?;
    Some(path.to_owned())
}

/// The id of a commit's tree. A name may be that of a remote's branch, as for `git checkout`.
fn tree_of(git: &Git<'_>, name: &str) -> Option<String> {
    if name.starts_with('-') || name.contains(['\n', '\0']) {
        return None;
    }
    let id = |name: &str| {
        let tree = format!("{name}^{{tree}}");
        let answer = git.ask(&["rev-parse", "--verify", "--quiet", &tree], b"").ok()?;
        Some(String::from_utf8(answer).ok()?.trim().to_owned())
    };
    id(name).or_else(|| {
        let pattern = format!("refs/remotes/*/{name}");
        let refs = git.ask(&["for-each-ref", "--format=%(refname)", &pattern], b"").ok()?;
        id(std::str::from_utf8(&refs).ok()?.lines().next()?)
    })
}
