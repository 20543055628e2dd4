//! What a repository says of itself right now: its refs, where HEAD stands, its work trees.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use gix_index::hash::ObjectId as Oid;
use rappel_store::content;
use rappel_store::held;
use rappel_store::sink::Sink;
use rappel_types::path::escape;
use rappel_types::{Content, Node, ObjectId, RelPath};

use super::bundles::Failure;
use super::folder::{self, Role};
use super::linked;
use super::memo::Remembered;
use super::place::Place;
use super::program::Git;
use super::refs::{self, Refs, Target};
use super::state::State;
use crate::error::{Error, Result};
use crate::files::Environment;
use crate::files::stamp::Kind;

/// The folders of the linked work trees of the repository at `root`, but `root` itself.
pub fn linked_folders(root: &Path, environment: &Environment) -> Vec<PathBuf> {
    let Some(place) = Place::find(root, environment) else { return Vec::new() };
    let own = place.linked();
    let linked = linked_worktrees(&place).into_iter();
    linked
        .filter(|(name, _)| own.as_ref().is_none_or(|own| own.as_bytes() != name))
        .map(|(_, folder)| folder)
        .collect()
}

/// Where a repository's work tree is.
pub fn folder_of(root: &Path, path: Option<&RelPath>) -> PathBuf {
    match path {
        Some(path) => root.join(std::ffi::OsStr::from_bytes(path.as_bytes())),
        None => root.to_owned(),
    }
}

/// The linked work trees of a repository, by name, with their folders.
pub(super) fn linked_worktrees(place: &Place) -> Vec<(Vec<u8>, PathBuf)> {
    let admin = place.common_dir.join("worktrees");
    let names = std::fs::read_dir(&admin).into_iter().flatten().flatten();
    let mut found: Vec<_> = names
        .filter_map(|entry| {
            let text = held::read(entry.path().join("gitdir")).ok()?;
            // Half a path leads to a folder that has nothing to do with it.
            let folder = std::ffi::OsStr::from_bytes(linked::work_tree_in(&text)?);
            Some((entry.file_name().as_bytes().to_vec(), entry.path().join(folder)))
        })
        .collect();
    found.sort_unstable();
    found
}

/// What the refs are that lie in files, and which of these files git cannot read.
pub(super) fn refs_of_files<'i>(
    items: impl Iterator<Item = (&'i RelPath, &'i Node)> + Clone,
    text: &mut dyn FnMut(&RelPath) -> Option<Vec<u8>>,
) -> (Refs, BTreeSet<RelPath>) {
    let (mut found, mut spoilt) = (Refs::new(), BTreeSet::new());
    let is_packed = |path: &RelPath| path.as_bytes() == b"packed-refs";
    if let Some((path, _)) = items.clone().find(|(path, _)| is_packed(path))
        && let Some(text) = text(path)
    {
        found.extend(refs::parse_packed(&text));
        if !refs::is_whole_packed(&text) {
            spoilt.insert(path.clone());
        }
    }
    for (path, node) in items {
        if !folder::is_of_a_ref(path.as_bytes()) {
            continue;
        }
        let target = match node {
            Node::File { .. } => text(path).and_then(|text| refs::parse_loose(&text)),
            // The oldest way of a symbolic ref.
            Node::Symlink { target } => Some(Target::Symbolic(target.clone())),
            Node::Directory { .. } => continue,
        };
        match target {
            Some(target) => drop(found.insert(path.clone(), target)),
            None => drop(spoilt.insert(path.clone())),
        }
    }
    // Half a name is no branch to be on.
    let is_nowhere = |(path, target): (&RelPath, &Target)| match target {
        Target::Symbolic(name) if folder::role(path.as_bytes()) == Role::Head => {
            !name.starts_with(b"refs/heads/")
                && !RelPath::new(&**name).is_ok_and(|name| found.contains_key(&name))
        }
        _ => false,
    };
    let nowhere = found.iter().filter(|one| is_nowhere(*one)).map(|(path, _)| path.clone());
    spoilt.extend(nowhere.collect::<Vec<_>>());
    found.retain(|path, _| !spoilt.contains(path) || folder::role(path.as_bytes()) != Role::Head);
    (found, spoilt)
}

/// Git's folder right now, without a look into its files.
pub(super) fn looked(common_dir: &Path) -> Result<Vec<Remembered>> {
    let node = Node::Directory { mode: 0 };
    let items = folder::list(common_dir)?.into_iter().map(|item| {
        let full = common_dir.join(std::ffi::OsStr::from_bytes(item.path.as_bytes()));
        let node = match item.stamp.kind() {
            Kind::Symlink => std::fs::read_link(full).map_or(node.clone(), |target| {
                Node::Symlink { target: target.as_os_str().as_bytes().to_vec() }
            }),
            Kind::File => {
                Node::File { mode: 0, size: 0, content: Content::Whole(ObjectId([0; 32])) }
            }
            _ => node.clone(),
        };
        Remembered { path: item.path, stamp: item.stamp, believed: false, node, base: None }
    });
    Ok(items.collect())
}

/// What every ref is right now.
pub(super) fn current_refs(git_dir: &Path, common_dir: &Path) -> Result<Refs, Failure> {
    if common_dir.join("reftable").is_dir() {
        return refs_of_tables(git_dir, common_dir);
    }
    let items = looked(common_dir)?;
    let items = items.iter().map(|item| (&item.path, &item.node));
    let mut text = |path: &RelPath| {
        held::read(common_dir.join(std::ffi::OsStr::from_bytes(path.as_bytes()))).ok()
    };
    Ok(refs_of_files(items, &mut text).0)
}

/// Refs that are kept in tables, as git tells them.
pub(super) fn refs_of_tables(git_dir: &Path, common_dir: &Path) -> Result<Refs, Failure> {
    let git = Git::at(git_dir);
    let format = "--format=%(objectname) %(refname) %(symref)";
    let answer = git.ask(&["for-each-ref", format], b"")?;
    let mut found = Refs::new();
    for line in answer.split(|&b| b == b'\n') {
        let mut words = line.split(|&b| b == b' ');
        let (Some(oid), Some(name), symref) = (words.next(), words.next(), words.next()) else {
            continue;
        };
        let target = match symref {
            Some(target) if !target.is_empty() => Some(Target::Symbolic(target.to_vec())),
            _ => Oid::from_hex(oid).ok().map(Target::Object),
        };
        if let (Ok(name), Some(target)) = (RelPath::new(name), target) {
            found.insert(name, target);
        }
    }
    let admin = common_dir.join("worktrees");
    let linked = std::fs::read_dir(&admin).into_iter().flatten().flatten();
    let mut places = vec![(b"HEAD".to_vec(), common_dir.to_owned())];
    places.extend(linked.map(|entry| {
        let name = [b"worktrees/", entry.file_name().as_bytes(), b"/HEAD"].concat();
        (name, entry.path())
    }));
    for (name, dir) in places {
        let Ok(name) = RelPath::new(name) else { continue };
        let git = Git::at(&dir);
        let symbolic = git.try_ask(&["symbolic-ref", "-q", "HEAD"], b"")?;
        let detached = git.try_ask(&["rev-parse", "-q", "--verify", "HEAD"], b"")?;
        let target = match (symbolic.0.success(), detached.0.success()) {
            (true, _) => Some(Target::Symbolic(symbolic.1.trim_ascii_end().to_vec())),
            (false, true) => Oid::from_hex(detached.1.trim_ascii_end()).ok().map(Target::Object),
            _ => None,
        };
        found.extend(target.map(|target| (name, target)));
    }
    Ok(found)
}

pub(super) fn branch(target: Option<&Target>) -> Option<String> {
    match target? {
        Target::Symbolic(name) => Some(escape(name.strip_prefix(b"refs/heads/").unwrap_or(name))),
        Target::Object(_) => None,
    }
}

/// Where HEAD of the work tree stands.
pub(super) fn head(place: &Place, state: &mut State) {
    let Ok(name) = RelPath::new([&*place.own_prefix(), b"HEAD"].concat()) else { return };
    state.part.branch = branch(state.refs.get(&name));
    state.part.detached = matches!(state.refs.get(&name), Some(Target::Object(_)));
    state.part.commit = refs::resolve(&state.refs, &name).map(ToString::to_string);
}

/// Files that tell of an unfinished operation.
const SIGNS: [(&str, &str); 7] = [
    ("rebase-apply/applying", "am"),
    ("rebase-merge", "rebase"),
    ("rebase-apply", "rebase"),
    ("CHERRY_PICK_HEAD", "cherry-pick"),
    ("REVERT_HEAD", "revert"),
    ("MERGE_HEAD", "merge"),
    ("BISECT_LOG", "bisect"),
];

/// The operation that is under way in the work tree.
pub(super) fn operation(place: &Place, files: &BTreeMap<RelPath, Node>) -> Option<&'static str> {
    let prefix = place.own_prefix();
    let has = |name: &str| {
        RelPath::new([&*prefix, name.as_bytes()].concat())
            .is_ok_and(|path| files.contains_key(&path))
    };
    SIGNS.into_iter().find(|(file, _)| has(file)).map(|(_, name)| name)
}

/// What stands at `.git`, where that is a file.
pub(super) fn gitfile(place: &Place, sink: &dyn Sink) -> Result<Option<Node>> {
    let path = place.work_tree.join(".git");
    if !path.symlink_metadata().is_ok_and(|meta| meta.is_file()) {
        return Ok(None);
    }
    let bytes = held::read(&path).map_err(Error::io("read", &path))?;
    let (content, size) = content::store(sink, &mut &*bytes, bytes.len() as u64, None)?;
    Ok(Some(Node::File { mode: 0o644, size, content }))
}

/// Where git's common folder is, if it is not `.git` in the work tree: below the workspace as a
/// relative path, elsewhere as an absolute one.
pub(super) fn elsewhere(root: &Path, path: Option<&RelPath>, place: &Place) -> Option<String> {
    let usual = folder_of(root, path).join(".git");
    if usual.canonicalize().is_ok_and(|usual| usual == place.common_dir) {
        return None;
    }
    let real = root.canonicalize().unwrap_or_else(|_| root.to_owned());
    let shown = place.common_dir.strip_prefix(&real).unwrap_or(&place.common_dir);
    Some(escape(shown.as_os_str().as_bytes()))
}
