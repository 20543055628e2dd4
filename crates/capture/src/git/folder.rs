//! Git's own folder as a list of files: what of it belongs to a checkpoint, and what each file is
//! for. Objects are not among them; they are taken by [`super::bundles`].

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rappel_types::RelPath;

use crate::error::{Error, Result};
use crate::files::stamp::{Kind, Stamp};

/// What a file in git's folder is for. Decides when a restore brings it back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Where a work tree stands.
    Head,
    /// A ref, or many.
    Refs,
    /// What refs were before.
    Log,
    /// What is staged.
    Index,
    /// An operation under way, or what it leaves for the next one.
    Operation,
    /// An object of Git LFS.
    LargeFile,
    /// Set-up: brought back only with a repository that is gone.
    Setup,
}

/// Folders that are taken, besides the files that lie directly in git's folder.
const FOLDERS: [&[u8]; 12] = [
    b"branches",
    b"hooks",
    b"info",
    b"lfs",
    b"logs",
    b"rebase-apply",
    b"rebase-merge",
    b"refs",
    b"reftable",
    b"rr-cache",
    b"sequencer",
    b"worktrees",
];

/// Files of the moment that mean nothing later.
const MOMENTARY: [&[u8]; 3] = [b"gc.pid", b"gc.log", b"fsmonitor--daemon.ipc"];

/// Whether a file of git's folder is one of those.
pub fn is_momentary(path: &[u8]) -> bool {
    MOMENTARY.contains(&split(path).1)
}

const OPERATIONS: [&[u8]; 9] = [
    b"AUTO_MERGE",
    b"CHERRY_PICK_HEAD",
    b"COMMIT_EDITMSG",
    b"FETCH_HEAD",
    b"ORIG_HEAD",
    b"REBASE_HEAD",
    b"REVERT_HEAD",
    b"SQUASH_MSG",
    b"MERGE_RR",
];

/// What git leaves behind of commands that are over.
const LEFTOVERS: [&[u8]; 3] = [b"COMMIT_EDITMSG", b"FETCH_HEAD", b"ORIG_HEAD"];

/// Whether a file is there although no operation goes on.
pub fn is_leftover(path: &[u8]) -> bool {
    LEFTOVERS.contains(&split(path).1)
}

/// Splits a path in the common folder into the linked work tree it belongs to and the rest.
pub fn split(path: &[u8]) -> (Option<&[u8]>, &[u8]) {
    let Some(rest) = path.strip_prefix(b"worktrees/") else { return (None, path) };
    match rest.iter().position(|&b| b == b'/') {
        Some(slash) => (Some(&rest[..slash]), &rest[slash + 1..]),
        None => (Some(rest), b""),
    }
}

/// What the file at `path` in the common folder is for.
pub fn role(path: &[u8]) -> Role {
    let (_, path) = split(path);
    let first = path.split(|&b| b == b'/').next().unwrap_or_default();
    match first {
        b"HEAD" => Role::Head,
        b"refs" | b"packed-refs" | b"reftable" => Role::Refs,
        b"logs" => Role::Log,
        b"lfs" => Role::LargeFile,
        b"index" => Role::Index,
        b"rebase-apply" | b"rebase-merge" | b"sequencer" => Role::Operation,
        _ if first.starts_with(b"sharedindex.") => Role::Index,
        _ if first.starts_with(b"MERGE_") || first.starts_with(b"BISECT_") => Role::Operation,
        _ if first.starts_with(b"NOTES_MERGE_") || OPERATIONS.contains(&first) => Role::Operation,
        _ => Role::Setup,
    }
}

/// A file, link or folder in git's folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Where, in the common folder.
    pub path: RelPath,
    /// What stat says of it.
    pub stamp: Stamp,
}

/// Everything in git's common folder that belongs to a checkpoint, in the order in which it has to
/// be read: a ref that is being packed is first written to its new place and then removed from
/// its old one, so loose ones are looked at before packed ones.
pub fn list(common_dir: &Path) -> Result<Vec<Item>> {
    let mut items = Vec::new();
    level(common_dir, b"", true, &mut items)?;
    items.sort_by_key(|item| item.path.as_bytes() == b"packed-refs");
    Ok(items)
}

/// The files of a git folder, or of the one of a linked work tree.
fn level(root: &Path, prefix: &[u8], common: bool, items: &mut Vec<Item>) -> Result<()> {
    for (name, path, stamp) in entries(root, prefix)? {
        match stamp.kind() {
            Kind::Folder if FOLDERS.contains(&&*name) => {
                if name == b"worktrees" && common {
                    items.push(Item { path: path.clone(), stamp });
                    for (_, path, stamp) in entries(root, path.as_bytes())? {
                        let kind = stamp.kind();
                        // What is no folder stands in the place of one.
                        if matches!(kind, Kind::Folder | Kind::File | Kind::Symlink) {
                            items.push(Item { path: path.clone(), stamp });
                        }
                        if kind == Kind::Folder {
                            level(root, path.as_bytes(), false, items)?;
                        }
                    }
                } else if name == b"lfs" {
                    large_files(root, &path, items)?;
                } else if name != b"worktrees" {
                    items.push(Item { path: path.clone(), stamp });
                    whole(root, &path, items)?;
                }
            }
            // A folder in the place of a file, which git cannot read.
            Kind::Folder if is_file_of_git(&name) => {
                items.push(Item { path: path.clone(), stamp });
                whole(root, &path, items)?;
            }
            Kind::File | Kind::Symlink if !MOMENTARY.contains(&&*name) => {
                items.push(Item { path, stamp });
            }
            _ => {}
        }
    }
    Ok(())
}

/// Whether a path in git's folder, or in the one of a work tree, is always that of a folder.
pub fn is_folder_of_git(path: &[u8]) -> bool {
    const BELOW: [&[u8]; 4] = [b"refs/heads", b"refs/tags", b"logs/refs", b"logs/refs/heads"];
    FOLDERS.contains(&path) || BELOW.contains(&path)
}

/// Whether a path in git's folder can be that of a ref in a file of its own.
pub fn is_of_a_ref(path: &[u8]) -> bool {
    let (_, rest) = split(path);
    rest == b"HEAD" || rest.starts_with(b"refs/")
}

/// Whether a name in git's folder is always that of a file.
fn is_file_of_git(name: &[u8]) -> bool {
    matches!(name, b"config" | b"config.worktree" | b"description" | b"shallow")
        || matches!(name, b"commondir" | b"gitdir" | b"locked")
        || !matches!(role(name), Role::Setup | Role::LargeFile | Role::Log)
}

/// The objects of Git LFS that are here.
fn large_files(root: &Path, lfs: &RelPath, items: &mut Vec<Item>) -> Result<()> {
    let Ok(objects) = lfs.join(b"objects") else { return Ok(()) };
    whole(root, &objects, items)
}

/// Everything below a folder.
fn whole(root: &Path, folder: &RelPath, items: &mut Vec<Item>) -> Result<()> {
    for (_, path, stamp) in entries(root, folder.as_bytes())? {
        match stamp.kind() {
            Kind::Folder => {
                items.push(Item { path: path.clone(), stamp });
                whole(root, &path, items)?;
            }
            Kind::File | Kind::Symlink => items.push(Item { path, stamp }),
            Kind::Special(_) => {}
        }
    }
    Ok(())
}

type Found = (Vec<u8>, RelPath, Stamp);

/// What a folder holds, by name; locks and what vanishes meanwhile are passed over.
fn entries(root: &Path, folder: &[u8]) -> Result<Vec<Found>> {
    let full = root.join(std::ffi::OsStr::from_bytes(folder));
    let listed = match std::fs::read_dir(&full) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(Error::io("list", &full))?,
    };
    let mut found = Vec::new();
    for entry in listed {
        let entry = entry.map_err(Error::io("list", &full))?;
        let name = entry.file_name().as_bytes().to_vec();
        // Locks, and what a restore of ours stages or marks.
        if name.ends_with(b".lock") || name.starts_with(b".rappel-") || name.starts_with(b"rappel-")
        {
            continue;
        }
        let path = if folder.is_empty() { name.clone() } else { [folder, b"/", &name].concat() };
        let Ok(path) = RelPath::new(path) else { continue };
        let Ok(stat) = rustix::fs::lstat(entry.path()) else { continue };
        found.push((name, path, Stamp::of(&stat)));
    }
    found.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_has_a_role() {
        for (path, expected) in [
            ("HEAD", Role::Head),
            ("worktrees/a/HEAD", Role::Head),
            ("refs/heads/x", Role::Refs),
            ("packed-refs", Role::Refs),
            ("reftable/tables.list", Role::Refs),
            ("logs/refs/stash", Role::Log),
            ("worktrees/a/logs/HEAD", Role::Log),
            ("index", Role::Index),
            ("sharedindex.123", Role::Index),
            ("worktrees/a/index", Role::Index),
            ("MERGE_HEAD", Role::Operation),
            ("rebase-merge/done", Role::Operation),
            ("BISECT_LOG", Role::Operation),
            ("lfs/objects/aa/bb/cc", Role::LargeFile),
            ("config", Role::Setup),
            ("info/exclude", Role::Setup),
            ("worktrees/a/gitdir", Role::Setup),
            ("gitk.cache", Role::Setup),
        ] {
            assert_eq!(role(path.as_bytes()), expected, "{path}");
        }
    }

    #[test]
    fn locks_objects_and_pipes_are_not_listed() {
        let folder = tempfile::tempdir().unwrap();
        for path in ["HEAD", "index.lock", "objects/aa/bb", "refs/heads/a.lock", "refs/heads/a"] {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "x").unwrap();
        }
        std::fs::write(folder.path().join("packed-refs"), "").unwrap();
        std::fs::create_dir_all(folder.path().join("worktrees/w/refs")).unwrap();
        let listed = list(folder.path()).unwrap();
        let names: Vec<String> = listed.iter().map(|item| item.path.to_string()).collect();
        let expected = [
            "HEAD",
            "refs",
            "refs/heads",
            "refs/heads/a",
            "worktrees",
            "worktrees/w",
            "worktrees/w/refs",
            "packed-refs",
        ];
        assert_eq!(names, expected);
    }
}
