//! Writing a whole checkpoint into a folder of its own, fast: folders first, files by two threads
//! in the order in which they are stored, modes last, one sync at the end.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rappel_store::Cancel;
use rappel_store::beneath::Root;
use rappel_store::disk::{Disk, Op};
use rappel_store::held;
use rappel_store::sink::Source;
use rappel_store::threads;
use rappel_store::{Error as StoreError, content, tree};
use rappel_types::Remarks;
use rappel_types::{Entry, Node, ObjectId, RelPath};

use super::error::{Error, Result};
use super::holder::Holder;
use super::plan::{Scope, is_git_path};
use super::stage::check_space;

/// Writing is mostly the kernel's work, and that goes on for one thread while the other decodes.
const THREADS: usize = 2;
/// Entries that a thread takes at once: neighbours share compressed blocks.
const SHARE: usize = 256;

/// Smaller files are written sooner than cloned.
const CLONED_FROM: u64 = 64 << 10;

/// What was written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Copied {
    /// Regular files and links.
    pub files: u64,
    /// Folders.
    pub folders: u64,
    /// Bytes of files.
    pub bytes: u64,
    /// Databases.
    pub databases: u64,
    /// Repositories.
    pub repositories: u64,
    /// What else was written, and where.
    pub notes: Vec<String>,
    /// What was left out, and why.
    pub warnings: Remarks,
}

/// Writes the tree at `tree`, or what `scope` names of it, into `folder`, which must be absent or
/// empty. After an error or a stop, what was written is removed again.
pub fn restore_to(
    folder: &Path,
    disk: &Arc<dyn Disk>,
    source: &dyn Source,
    tree: Option<&ObjectId>,
    scope: &Scope,
    cancel: &Cancel,
) -> Result<Copied> {
    restore_beside(None, folder, disk, source, tree, scope, cancel)
}

/// The same where a folder may hold some of the files already, as the workspace does: a large one
/// is cloned from there, where the file system can do that and the clone proves to be what is wanted.
pub fn restore_beside(
    holder: Option<&Path>,
    folder: &Path,
    disk: &Arc<dyn Disk>,
    source: &dyn Source,
    tree: Option<&ObjectId>,
    scope: &Scope,
    cancel: &Cancel,
) -> Result<Copied> {
    let mut warnings = Remarks::default();
    let entries = match tree {
        Some(tree) => entries_of(source, tree, scope, &mut warnings)?,
        None => Vec::new(),
    };
    let holder = holder.and_then(|holder| Holder::open(holder, disk));
    let copied = write(folder, disk, (source, holder.as_ref()), entries, cancel)?;
    Ok(Copied { warnings, ..copied })
}

/// Writes entries into a folder that is absent or empty.
pub(crate) fn write_entries(
    folder: &Path,
    disk: &Arc<dyn Disk>,
    source: &dyn Source,
    entries: Vec<Entry>,
    cancel: &Cancel,
) -> Result<Copied> {
    write(folder, disk, (source, None), entries, cancel)
}

/// Where contents come from: the store, and a folder that may hold them.
type From<'a> = (&'a dyn Source, Option<&'a Holder>);

fn write(
    folder: &Path,
    disk: &Arc<dyn Disk>,
    from: From<'_>,
    entries: Vec<Entry>,
    cancel: &Cancel,
) -> Result<Copied> {
    let mut copied = Copied::default();
    let entries = with_folders(entries);
    let made = prepare(folder, &**disk)?;
    let root = Root::open(folder, disk.clone())?;
    if !root.list(None)?.is_empty() {
        return Err(Error::NotEmpty { path: folder.to_owned() });
    }
    let begun = AtomicUsize::new(0);
    let written = check_space(&root, entries.iter().map(|entry| &entry.node))
        .and_then(|()| write_all(&root, from, &entries, &begun, cancel));
    if let Err(error) = written {
        clear(&root, &entries, begun.into_inner());
        drop(root);
        if made {
            let _ = std::fs::remove_dir(folder);
        }
        return Err(error);
    }
    for entry in &entries {
        match &entry.node {
            Node::Directory { .. } => copied.folders += 1,
            Node::File { size, .. } => {
                copied.files += 1;
                copied.bytes += size;
            }
            Node::Symlink { .. } => copied.files += 1,
        }
    }
    Ok(copied)
}

/// Makes the folder if it is absent; says whether it did.
fn prepare(folder: &Path, disk: &dyn Disk) -> Result<bool> {
    match std::fs::symlink_metadata(folder) {
        Ok(meta) if meta.is_dir() => Ok(false),
        Ok(_) => Err(Error::NotEmpty { path: folder.to_owned() }),
        Err(_) => {
            let make = || {
                disk.gate(&Op::CreateDir(folder))?;
                std::fs::create_dir_all(folder)
            };
            make().map_err(StoreError::io("create", folder))?;
            Ok(true)
        }
    }
}

/// What is to be written.
fn entries_of(
    source: &dyn Source,
    tree: &ObjectId,
    scope: &Scope,
    warnings: &mut Remarks,
) -> Result<Vec<Entry>> {
    let mut entries = tree::read(source, tree)?;
    entries.retain(|entry| {
        let git = is_git_path(&entry.path);
        if git {
            warnings.push(format!("{}: only git writes to a `.git` folder", entry.path));
        }
        !git
    });
    if *scope != Scope::All {
        let chosen = |entry: &&Entry| scope.includes(&entry.path);
        let above: BTreeSet<RelPath> =
            entries.iter().filter(chosen).flat_map(|entry| entry.path.ancestors()).collect();
        entries.retain(|entry| scope.includes(&entry.path) || above.contains(&entry.path));
    }
    Ok(entries)
}

/// Adds the folders that are not listed by themselves.
fn with_folders(mut entries: Vec<Entry>) -> Vec<Entry> {
    entries.sort_by(|a, b| a.path.cmp(&b.path));
    let mut known: BTreeSet<RelPath> = BTreeSet::new();
    let mut unsaid = Vec::new();
    for entry in &entries {
        if let Some(folder) = entry.path.parent()
            && !known.contains(&folder)
        {
            for folder in entry.path.ancestors().filter(|folder| !known.contains(folder)) {
                unsaid.push(Entry { path: folder, node: Node::Directory { mode: 0o755 } });
            }
            known.extend(entry.path.ancestors());
        }
        if matches!(entry.node, Node::Directory { .. }) {
            known.insert(entry.path.clone());
        }
    }
    if !unsaid.is_empty() {
        entries.extend(unsaid);
        entries.sort_by(|a, b| a.path.cmp(&b.path));
    }
    entries
}

fn write_all(
    root: &Root,
    from: From<'_>,
    entries: &[Entry],
    next: &AtomicUsize,
    cancel: &Cancel,
) -> Result<()> {
    let mask = creation_mask();
    let mut later = Vec::new();
    for entry in entries {
        let Node::Directory { mode } = entry.node else { continue };
        check_cancelled(cancel)?;
        root.create_dir(&entry.path, mode | 0o700).map_err(|error| folding(&entry.path, error))?;
        if mode & 0o700 != 0o700 || mode & (mask | 0o7000) != 0 {
            later.push((&entry.path, mode));
        }
    }
    let failed = AtomicBool::new(false);
    let work = || -> Result<()> {
        loop {
            let start = next.fetch_add(SHARE, Ordering::Relaxed);
            let Some(share) = entries.get(start..entries.len().min(start + SHARE)) else {
                return Ok(());
            };
            if share.is_empty() {
                return Ok(());
            }
            for entry in share {
                if failed.load(Ordering::Relaxed) {
                    return Ok(());
                }
                let done =
                    check_cancelled(cancel).and_then(|()| write_one(root, from, entry, mask));
                if done.is_err() {
                    failed.store(true, Ordering::Relaxed);
                    return done;
                }
            }
        }
    };
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..THREADS).map(|_| threads::beside(scope, work)).collect();
        let mut result = work();
        for other in others {
            result = result.and(other.join().unwrap_or_else(|_| {
                let path = root.path().to_owned();
                let source = std::io::Error::other("a thread died");
                Err(StoreError::Io { action: "write to", path, source }.into())
            }));
        }
        result
    })?;
    for (path, mode) in later.into_iter().rev() {
        root.set_mode(Some(path), mode)?;
    }
    Ok(root.sync_all()?)
}

fn write_one(root: &Root, (source, holder): From<'_>, entry: &Entry, mask: u32) -> Result<()> {
    let path = &entry.path;
    match &entry.node {
        Node::Directory { .. } => Ok(()),
        Node::Symlink { target } => {
            root.symlink(target, path).map_err(|error| folding(path, error))
        }
        Node::File { mode, size, content } => {
            let mut file = root.create_file(path, *mode).map_err(|error| folding(path, error))?;
            let cloned = match holder.filter(|_| *size >= CLONED_FROM) {
                Some(holder) => holder.clone_to(&mut file, path, content, *size)?,
                None => false,
            };
            if !cloned {
                content::write_to(source, content, *size, &mut file)?;
            }
            if mode & (mask | 0o7000) != 0 {
                file.set_mode(*mode)?;
            }
            Ok(())
        }
    }
}

/// In a folder that was empty, a name that is taken is one that this file system takes for
/// another.
fn folding(path: &RelPath, error: StoreError) -> Error {
    match &error {
        StoreError::Io { source, .. } if source.kind() == std::io::ErrorKind::AlreadyExists => {
            Error::conflict(path, "on this file system it is the same as another name")
        }
        _ => error.into(),
    }
}

fn check_cancelled(cancel: &Cancel) -> Result<()> {
    if cancel.is_cancelled() {
        return Err(StoreError::Cancelled.into());
    }
    Ok(())
}

/// Removes what was written, as far as it goes: all folders, and of the rest what lies before
/// `begun`.
fn clear(root: &Root, entries: &[Entry], begun: usize) {
    for (at, entry) in entries.iter().enumerate().rev() {
        let is_folder = matches!(entry.node, Node::Directory { .. });
        if at >= begun && !is_folder {
            continue;
        }
        let _ = match entry.node {
            Node::Directory { .. } => {
                let _ = root.set_mode(Some(&entry.path), 0o700);
                root.remove_dir(&entry.path)
            }
            _ => root.unlink(&entry.path),
        };
    }
}

/// The bits that the process's mask takes away from new files; all of them if that is unknown, so
/// that each mode is set once more.
fn creation_mask() -> u32 {
    let status = held::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    mask.and_then(|mask| u32::from_str_radix(mask.trim(), 8).ok()).unwrap_or(0o777)
}
