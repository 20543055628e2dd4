//! Taking away what a restore made, when that restore is taken back: a repository, a linked work
//! tree.
//!
//! It goes only if a checkpoint holds everything in it. It is moved aside, compared there once more,
//! and deleted under yet another name, so that after a crash its name tells how far it came: what
//! was only moved aside goes back, what was being deleted is made again from the checkpoint.

use std::collections::{BTreeMap, HashSet};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gix_index::hash::ObjectId as Oid;
use rappel_store::Error as StoreError;
use rappel_store::beneath::{Identity, Root};
use rappel_store::disk::Disk;
use rappel_store::sink::Source;
use rappel_store::tree;
use rappel_types::{Node, ObjectId, RelPath};

use super::bundles::Known;
use super::create::{failed, is_mark, remove_all, rename, staging};
use super::folder;
use super::program::Git;
use super::state::State;
use crate::restore::intent::IntentId;
use crate::restore::writers::open_for_writing;
use crate::restore::{Result, is_at};

/// Where something is moved to that will be deleted, until it was compared.
pub fn aside(path: &Path, id: IntentId) -> PathBuf {
    path.with_file_name(format!(".rappel-{id}-0.old"))
}

fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// Why something cannot go, for people; `None` if it can.
pub type Unheld = Option<String>;

/// Moves something aside, unless it holds what no checkpoint has.
pub fn set_aside(
    path: &Path,
    id: IntentId,
    disk: &Arc<dyn Disk>,
    unheld: &dyn Fn(&Path) -> Result<Unheld>,
) -> Result<Unheld> {
    let aside = aside(path, id);
    if !exists(&aside) {
        if !exists(path) {
            return Ok(None);
        }
        if let Some(reason) = unheld(path)? {
            return Ok(Some(reason));
        }
        rename(disk, path, &aside)?;
    }
    // Nobody finds it by its name any more; whoever came before that has left something.
    match unheld(&aside) {
        Ok(None) => Ok(None),
        other => {
            rename(disk, &aside, path)?;
            other
        }
    }
}

/// Deletes what was moved aside.
pub fn delete(path: &Path, id: IntentId, disk: &Arc<dyn Disk>) -> Result<()> {
    let (aside, doomed) = (aside(path, id), staging(path, id));
    if exists(&aside) {
        remove_all(&doomed)?;
        rename(disk, &aside, &doomed)?;
    }
    remove_all(&doomed)
}

/// What became of an attempt to bring something back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Back {
    /// It stands where it stood.
    Stands,
    /// It was deleted and has to be made again.
    Deleted,
    /// Something else stands in its place; it is still aside.
    Taken,
}

/// Brings back what was moved aside.
pub fn bring_back(path: &Path, id: IntentId, disk: &Arc<dyn Disk>) -> Result<Back> {
    let aside = aside(path, id);
    match (exists(path), exists(&aside)) {
        (true, true) => return Ok(Back::Taken),
        (true, false) => return Ok(Back::Stands),
        (false, true) => {
            rename(disk, &aside, path)?;
            return Ok(Back::Stands);
        }
        (false, false) => {}
    }
    remove_all(&staging(path, id))?;
    Ok(Back::Deleted)
}

/// What of a linked work tree no checkpoint holds; `tree` are its files as one has them.
pub fn unheld_in_worktree(
    folder: &Path,
    tree: &ObjectId,
    disk: &Arc<dyn Disk>,
    source: &dyn Source,
) -> Result<Unheld> {
    let held: BTreeMap<RelPath, Node> =
        tree::read(source, tree)?.into_iter().map(|entry| (entry.path, entry.node)).collect();
    let root = Root::open(folder, disk.clone())?;
    let mut files = HashSet::new();
    for (path, is_folder, identity) in below(folder)? {
        files.insert(identity);
        // The link to the repository, which is made again with it.
        if path.as_bytes() == b".git" && !is_folder {
            continue;
        }
        let same = match held.get(&path) {
            Some(Node::Directory { .. }) => is_folder,
            Some(node) => is_at(&root, source, &path, node)?,
            None => false,
        };
        if !same {
            return Ok(Some(format!("{path} in it is not in any checkpoint")));
        }
    }
    Ok(written_to(&files))
}

/// What of a repository no checkpoint holds; `state` is how one has it. Folders in `except` are
/// somebody else's concern. Objects are left out where nothing was stored: a dry run.
pub fn unheld_in_repository(
    common_dir: &Path,
    state: &State,
    (source, disk): (&dyn Source, &Arc<dyn Disk>),
    except: &[PathBuf],
    objects: bool,
) -> Result<Unheld> {
    let root = Root::open(common_dir, disk.clone())?;
    let mut files = HashSet::new();
    for (path, is_folder, identity) in below(common_dir)? {
        let full = common_dir.join(std::ffi::OsStr::from_bytes(path.as_bytes()));
        if is_folder || except.iter().any(|folder| full.starts_with(folder)) {
            continue;
        }
        files.insert(identity);
        let same = match path.as_bytes().strip_prefix(b"objects/") {
            Some(name) => is_of_objects(name),
            None if folder::is_momentary(path.as_bytes()) || is_mark(path.as_bytes()) => true,
            None => match state.files.get(&path) {
                Some(node) => is_at(&root, source, &path, node)?,
                None => false,
            },
        };
        if !same {
            return Ok(Some(format!("{path} in it is not in any checkpoint")));
        }
    }
    if let Some(reason) = written_to(&files) {
        return Ok(Some(reason));
    }
    if !objects {
        return Ok(None);
    }
    let list = ["cat-file", "--batch-all-objects", "--unordered", "--batch-check=%(objectname)"];
    let answer = Git::at(common_dir).ask(&list, b"");
    let answer = answer.map_err(|trouble| failed(common_dir, &trouble))?;
    let names: Vec<Oid> =
        answer.split(|&b| b == b'\n').filter_map(|hex| Oid::from_hex(hex).ok()).collect();
    let Some(width) = names.first().map(|oid| oid.as_bytes().len()) else { return Ok(None) };
    let known = Known::of(&state.bundles, width, source);
    Ok(match names.iter().filter(|oid| known.find(oid).is_none()).count() {
        0 => None,
        1 => Some("an object in it is not in any checkpoint".to_owned()),
        many => Some(format!("{many} objects in it are not in any checkpoint")),
    })
}

/// Whether a file below `objects` is one that git keeps objects in, or can make again from them.
fn is_of_objects(name: &[u8]) -> bool {
    let hex = |bytes: &[u8]| !bytes.is_empty() && bytes.iter().all(u8::is_ascii_hexdigit);
    match name.iter().position(|&b| b == b'/').map(|at| (&name[..at], &name[at + 1..])) {
        Some((b"pack", file)) => {
            let made = [&b".pack"[..], b".idx", b".rev", b".bitmap", b".mtimes", b".promisor"];
            file.starts_with(b"multi-pack-index")
                || file.starts_with(b"pack-") && made.iter().any(|end| file.ends_with(end))
        }
        Some((b"info", file)) => file == b"packs" || file.starts_with(b"commit-graph"),
        Some((folder, file)) => folder.len() == 2 && hex(folder) && hex(file),
        None => false,
    }
}

fn written_to(files: &HashSet<Identity>) -> Unheld {
    let writers = open_for_writing(files);
    (!writers.is_empty()).then(|| "a process is writing to a file in it".to_owned())
}

/// Everything below a folder: where, whether it is a folder, and which.
fn below(folder: &Path) -> Result<Vec<(RelPath, bool, Identity)>> {
    use std::os::unix::fs::MetadataExt;
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(at) = open.pop() {
        let entries = std::fs::read_dir(&at).map_err(StoreError::io("list", &at))?;
        for entry in entries {
            let entry = entry.map_err(StoreError::io("list", &at))?;
            let path = entry.path();
            let meta = path.symlink_metadata().map_err(StoreError::io("look at", &path))?;
            let name = path.strip_prefix(folder).unwrap_or(&path).as_os_str().as_bytes();
            let name = RelPath::new(name).map_err(|e| StoreError::Damaged(e.to_string()))?;
            found.push((name, meta.is_dir(), Identity { device: meta.dev(), inode: meta.ino() }));
            if meta.is_dir() {
                open.push(path);
            }
        }
    }
    found.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    Ok(found)
}
