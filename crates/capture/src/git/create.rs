//! Making anew what is gone: a repository, a linked work tree. Everything is written beside its place
//! and gets its name when it is whole.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rappel_store::Cancel;
use rappel_store::Error as StoreError;
use rappel_store::beneath::Root;
use rappel_store::content;
use rappel_store::disk::{Disk, Op};
use rappel_store::held;
use rappel_store::sink::Source;
use rappel_store::tree;
use rappel_types::git::GitPlan;
use rappel_types::{Entry, Node, ObjectId, RelPath};

use super::apply::path_of;
use super::bundles::Bundle;
use super::folder::split;
use super::program::{Git, Trouble};
use super::remove;
use super::state::State;
use crate::restore::copy_out::write_entries;
use crate::restore::intent::IntentId;
use crate::restore::{Error, Job, Result, is_at};

pub(super) fn failed(path: &Path, trouble: &Trouble) -> Error {
    let source = std::io::Error::other(trouble.to_string());
    Error::Store(StoreError::Io { action: "restore", path: path.to_owned(), source })
}

/// Where something is made that will be at `path`.
pub(super) fn staging(path: &Path, id: IntentId) -> PathBuf {
    path.with_file_name(format!(".rappel-{id}-0.new"))
}

/// Every folder in which a plan makes something, or to which it moves what goes.
pub fn staging_folders(plan: &GitPlan, id: IntentId) -> Vec<PathBuf> {
    let whole = plan.repositories.iter().filter(|one| one.create || one.remove);
    let repositories = whole.map(|repository| path_of(&repository.common_dir));
    let worktrees = plan.repositories.iter().flat_map(|repository| &repository.worktrees);
    let worktrees = worktrees.map(|worktree| path_of(&worktree.path));
    let paths = repositories.chain(worktrees);
    paths.flat_map(|path| [staging(&path, id), remove::aside(&path, id)]).collect()
}

/// The mark in a repository that we made, for as long as its restore is not over.
fn mark(common_dir: &Path, id: IntentId) -> PathBuf {
    common_dir.join(format!("rappel-{id}"))
}

/// Whether a file in git's folder is such a mark.
pub(super) fn is_mark(path: &[u8]) -> bool {
    let id = path.strip_prefix(b"rappel-").and_then(|id| std::str::from_utf8(id).ok());
    id.is_some_and(|id| id.parse::<IntentId>().is_ok())
}

/// Whether a repository was made by this restore.
pub fn is_ours(common_dir: &Path, id: IntentId) -> bool {
    mark(common_dir, id).exists()
}

/// The restore is over.
pub fn forget(common_dir: &Path, id: IntentId) {
    let _ = std::fs::remove_file(mark(common_dir, id));
}

/// Makes the repository of a state: history, refs, stash, reflogs, index, set-up.
pub fn repository(
    common_dir: &Path,
    state: &State,
    id: IntentId,
    disk: &Arc<dyn Disk>,
    source: &dyn Source,
    cancel: &Cancel,
) -> Result<()> {
    if let Some(folder) = common_dir.parent() {
        std::fs::create_dir_all(folder).map_err(StoreError::io("create", folder))?;
    }
    let staged = staging(common_dir, id);
    remove_all(&staged)?;
    let marked = mark(&staged, id);
    let entries =
        state.files.iter().map(|(path, node)| Entry { path: path.clone(), node: node.clone() });
    let made = build(&staged, entries.collect(), &state.bundles, disk, source, cancel)
        .and_then(|()| Ok(std::fs::write(&marked, "").map_err(StoreError::io("write", &marked))?))
        .and_then(|()| rename(disk, &staged, common_dir));
    if made.is_err() {
        let _ = remove_all(&staged);
    }
    made
}

/// Makes the repository of a state for a folder elsewhere: its own work tree is the main one there,
/// and it has no others.
pub fn standalone(
    work_tree: &Path,
    state: &State,
    disk: &Arc<dyn Disk>,
    source: &dyn Source,
    cancel: &Cancel,
) -> Result<()> {
    let own = state.part.linked.as_ref().map(RelPath::as_bytes);
    let mut files: std::collections::BTreeMap<RelPath, Node> = state
        .files
        .iter()
        .filter(|(path, _)| split(path.as_bytes()).0.is_none() && path.as_bytes() != b"worktrees")
        .map(|(path, node)| (path.clone(), node.clone()))
        .collect();
    for (path, node) in &state.files {
        let (worktree, rest) = split(path.as_bytes());
        let is_link = matches!(rest, b"gitdir" | b"commondir" | b"locked" | b"");
        if own.is_some()
            && worktree == own
            && !is_link
            && let Ok(path) = RelPath::new(rest)
        {
            files.insert(path, node.clone());
        }
    }
    let inside =
        state.part.git_dir.as_deref().filter(|at| state.gitfile.is_some() && !at.starts_with('/'));
    let git_dir = match inside {
        // A submodule's folder stays where its gitfile says.
        Some(_) => return submodule(work_tree, state, files, disk, source, cancel),
        None => work_tree.join(".git"),
    };
    let entries = files.into_iter().map(|(path, node)| Entry { path, node }).collect();
    build(&git_dir, entries, &state.bundles, disk, source, cancel)
}

fn submodule(
    work_tree: &Path,
    state: &State,
    files: std::collections::BTreeMap<RelPath, Node>,
    disk: &Arc<dyn Disk>,
    source: &dyn Source,
    cancel: &Cancel,
) -> Result<()> {
    gitfile(work_tree, state, source)?;
    let text = held::read(work_tree.join(".git")).unwrap_or_default();
    let target = text.strip_prefix(b"gitdir: ").unwrap_or_default().trim_ascii_end();
    let target = Path::new(std::ffi::OsStr::from_bytes(target)).to_owned();
    let git_dir = work_tree.join(target);
    if let Some(folder) = git_dir.parent() {
        std::fs::create_dir_all(folder).map_err(StoreError::io("create", folder))?;
    }
    let entries = files.into_iter().map(|(path, node)| Entry { path, node }).collect();
    build(&git_dir, entries, &state.bundles, disk, source, cancel)
}

fn build(
    git_dir: &Path,
    entries: Vec<Entry>,
    bundles: &[Bundle],
    disk: &Arc<dyn Disk>,
    source: &dyn Source,
    cancel: &Cancel,
) -> Result<()> {
    let mut entries = entries;
    for folder in ["objects", "objects/info", "objects/pack", "refs"] {
        let path = RelPath::new(folder).map_err(|error| StoreError::Damaged(error.to_string()))?;
        if !entries.iter().any(|entry| entry.path == path) {
            entries.push(Entry { path, node: Node::Directory { mode: 0o755 } });
        }
    }
    let paths: Vec<RelPath> = entries.iter().map(|entry| entry.path.clone()).collect();
    write_entries(git_dir, disk, source, entries, cancel)?;
    for path in &paths {
        distrust_index(git_dir, path.as_bytes());
    }
    let git = Git::at(git_dir);
    let promised = is_partial_clone(&git);
    for bundle in bundles {
        unpack(&git, bundle, promised, source)?;
    }
    Ok(Root::open(git_dir, disk.clone())?.sync_all()?)
}

/// Makes git compare contents where an index that was just written vouches for files. It does so by
/// itself only for what was written in the moment of the index's own time, and that is another one
/// now: a change made then would not be seen any more. An old time makes every entry doubtful until
/// git writes the index again.
pub fn distrust_index(common_dir: &Path, path: &[u8]) {
    use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_OMIT};
    if split(path).1 != b"index" {
        return;
    }
    let times = Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec: 1, tv_nsec: 0 },
    };
    let path = common_dir.join(std::ffi::OsStr::from_bytes(path));
    // A file that is not there is none to doubt.
    let _ = rustix::fs::utimensat(CWD, &path, &times, AtFlags::SYMLINK_NOFOLLOW);
}

/// Whether a server has what the repository lacks.
pub fn is_partial_clone(git: &Git<'_>) -> bool {
    let pattern = r"^(extensions\.partialclone|remote\..*\.promisor)$";
    let asked = git.try_ask(&["config", "--get-regexp", pattern], b"");
    asked.is_ok_and(|(status, _, _)| status.success())
}

/// Gives the objects of a bundle to a repository. `promised`: what they refer to and is not there
/// can be had from a server.
pub fn unpack(git: &Git<'_>, bundle: &Bundle, promised: bool, source: &dyn Source) -> Result<()> {
    let Node::File { size, content, .. } = &bundle.pack else { return Ok(()) };
    let wrong = |words: Trouble| failed(git.git_dir, &words);
    let args: &[&str] = match promised {
        true => &["index-pack", "--stdin", "--promisor"],
        false => &["index-pack", "--stdin"],
    };
    let mut running = git.start(args).map_err(wrong)?;
    if let Some(mut stdin) = running.child.stdin.take() {
        let written = content::write_to(source, content, *size, &mut stdin);
        drop(stdin);
        // Git says better why it stopped listening.
        if let Err(error) = written {
            running.succeed().map_err(wrong)?;
            return Err(error.into());
        }
    }
    // Its answer is the pack's name.
    if let Some(mut stdout) = running.child.stdout.take() {
        let _ = std::io::copy(&mut stdout, &mut std::io::sink());
    }
    running.succeed().map_err(wrong)
}

/// Puts the file at `.git` back that leads to a repository elsewhere.
pub fn gitfile(work_tree: &Path, state: &State, source: &dyn Source) -> Result<()> {
    let Some(Node::File { size, content, .. }) = &state.gitfile else { return Ok(()) };
    let path = work_tree.join(".git");
    if path.symlink_metadata().is_ok() {
        return Ok(());
    }
    let bytes = content::read(source, content, *size, 64 << 10)?;
    std::fs::create_dir_all(work_tree).map_err(StoreError::io("create", work_tree))?;
    Ok(std::fs::write(&path, bytes).map_err(StoreError::io("write", &path))?)
}

/// Takes the file at `.git` away again, if it is the one that a state has.
pub fn remove_gitfile(work_tree: &Path, state: &State, job: &Job<'_>) -> Result<()> {
    let path = RelPath::new(".git").map_err(|error| StoreError::Damaged(error.to_string()))?;
    let Some(node) = &state.gitfile else { return Ok(()) };
    if !work_tree.is_dir() {
        return Ok(());
    }
    let root = Root::open(work_tree, job.root.disk().clone())?;
    if root.stat(&path)?.is_some() && is_at(&root, job.source, &path, node)? {
        root.unlink(&path)?;
    }
    Ok(())
}

/// Takes away what this restore began to make and did not finish.
pub fn discard_staged(common_dir: &Path, id: IntentId) -> Result<()> {
    remove_all(&staging(common_dir, id))
}

/// Takes away a repository that this restore made.
pub fn discard(common_dir: &Path, id: IntentId) -> Result<()> {
    let staged = staging(common_dir, id);
    remove_all(&staged)?;
    std::fs::rename(common_dir, &staged).map_err(StoreError::io("rename", common_dir))?;
    remove_all(&staged)
}

/// Makes a linked work tree that is gone; git's own folder of it is there by now.
pub fn worktree(
    folder: &Path,
    admin: &Path,
    tree: &ObjectId,
    id: IntentId,
    job: &Job<'_>,
) -> Result<()> {
    if folder.join(".git").exists() {
        return Ok(());
    }
    let disk = job.root.disk();
    if let Some(above) = folder.parent() {
        std::fs::create_dir_all(above).map_err(StoreError::io("create", above))?;
    }
    let staged = staging(folder, id);
    remove_all(&staged)?;
    let entries = tree::read(job.source, tree)?;
    let link = staged.join(".git");
    let text = link_text(admin);
    let made = write_entries(&staged, disk, job.source, entries, job.cancel)
        .and_then(|_| Ok(std::fs::write(&link, text).map_err(StoreError::io("write", &link))?))
        .and_then(|()| Ok(Root::open(&staged, disk.clone())?.sync_all()?))
        .and_then(|()| {
            // An empty folder in its place makes room; anything else stays.
            let _ = std::fs::remove_dir(folder);
            rename(disk, &staged, folder)
        });
    if made.is_err() {
        let _ = remove_all(&staged);
    }
    made
}

/// The file at `.git` of a linked work tree.
fn link_text(admin: &Path) -> Vec<u8> {
    [b"gitdir: ", admin.as_os_str().as_bytes(), b"\n"].concat()
}

/// Puts the file at `.git` of a linked work tree there, unless something is, or takes just that away.
pub fn link_worktree(folder: &Path, admin: &Path, put: bool) -> Result<()> {
    let (link, text) = (folder.join(".git"), link_text(admin));
    let here = link.symlink_metadata().is_ok();
    let done = match put {
        true if !here => std::fs::write(&link, text),
        false if held::read(&link).is_ok_and(|found| found == text) => std::fs::remove_file(&link),
        _ => Ok(()),
    };
    Ok(done.map_err(StoreError::io("link", &link))?)
}

/// Takes away a linked work tree that this restore made, if nobody has worked in it; otherwise says
/// that it stays.
pub fn discard_worktree(
    folder: &Path,
    tree: &ObjectId,
    id: IntentId,
    job: &Job<'_>,
) -> Result<Option<String>> {
    let staged = staging(folder, id);
    remove_all(&staged)?;
    if !folder.exists() {
        return Ok(None);
    }
    let root = Root::open(folder, job.root.disk().clone())?;
    let entries = tree::read(job.source, tree)?;
    let mut same = true;
    for entry in &entries {
        same &= is_at(&root, job.source, &entry.path, &entry.node)?;
    }
    let found = count(folder);
    if !same || found != entries.len() + 1 {
        return Ok(Some(format!("{} was worked in meanwhile; it stays", folder.display())));
    }
    std::fs::rename(folder, &staged).map_err(StoreError::io("rename", folder))?;
    remove_all(&staged)?;
    Ok(None)
}

/// How many things lie below a folder.
fn count(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| {
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            1 + if is_folder { count(&entry.path()) } else { 0 }
        })
        .sum()
}

pub(super) fn rename(disk: &Arc<dyn Disk>, from: &Path, to: &Path) -> Result<()> {
    let rename = || {
        disk.gate(&Op::Rename { from, to })?;
        rustix::fs::renameat_with(
            rustix::fs::CWD,
            from,
            rustix::fs::CWD,
            to,
            rustix::fs::RenameFlags::NOREPLACE,
        )?;
        if let Some(folder) = to.parent() {
            rappel_store::disk::sync_dir(&**disk, folder).map_err(std::io::Error::other)?;
        }
        Ok::<_, std::io::Error>(())
    };
    Ok(rename().map_err(StoreError::io("rename", from))?)
}

pub(super) fn remove_all(path: &Path) -> Result<()> {
    match std::fs::remove_dir_all(path) {
        // What would be below a file is not there.
        Err(error)
            if !matches!(
                error.kind(),
                std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory
            ) =>
        {
            Err(StoreError::io("remove", path)(error).into())
        }
        _ => Ok(()),
    }
}
