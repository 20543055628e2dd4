//! Changes to names, each with what is needed to take it back.

use std::collections::{HashMap, HashSet};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rappel_store::disk::Op;
use rustix::fs::{CWD, RenameFlags, renameat_with};

type FileId = (u64, u64);

/// A change to names that is about to happen. It may still fail, so that undoing first looks
/// whether it happened.
#[derive(Debug)]
pub enum NameOp {
    /// Something new: a file, link or second name.
    Add {
        path: PathBuf,
    },
    AddFolder {
        path: PathBuf,
    },
    RemoveFolder {
        path: PathBuf,
        file: FileId,
        mode: u32,
    },
    Remove {
        path: PathBuf,
        saved: PathBuf,
    },
    Rename {
        from: PathBuf,
        to: PathBuf,
        file: FileId,
        saved: Option<PathBuf>,
    },
    Exchange {
        a: PathBuf,
        b: PathBuf,
        file: FileId,
    },
    Mode {
        path: PathBuf,
        file: FileId,
        mode: u32,
    },
}

fn id(path: &Path) -> Option<FileId> {
    let meta = std::fs::symlink_metadata(path).ok()?;
    Some((meta.dev(), meta.ino()))
}

/// Keeps a file that is about to lose its name; `None` if there is none, or if it is a folder.
fn save(path: &Path, graveyard: &Path) -> Option<PathBuf> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let meta = std::fs::symlink_metadata(path).ok()?;
    if meta.is_dir() {
        return None;
    }
    let saved = graveyard.join(NEXT.fetch_add(1, Ordering::Relaxed).to_string());
    std::fs::hard_link(path, &saved).expect("a test's folders are all on one file system");
    Some(saved)
}

impl NameOp {
    /// What `op` is about to change; `None` if it changes no names, or cannot succeed.
    pub fn of(op: &Op<'_>, graveyard: &Path) -> Option<Self> {
        match *op {
            Op::Create(path) | Op::Symlink(path) | Op::Link { to: path, .. } => {
                id(path).is_none().then(|| Self::Add { path: path.to_owned() })
            }
            Op::CreateDir(path) => {
                id(path).is_none().then(|| Self::AddFolder { path: path.to_owned() })
            }
            Op::RemoveDir(path) => {
                let mode = std::fs::symlink_metadata(path).ok()?.mode();
                Some(Self::RemoveFolder { path: path.to_owned(), file: id(path)?, mode })
            }
            Op::Unlink(path) => {
                Some(Self::Remove { path: path.to_owned(), saved: save(path, graveyard)? })
            }
            Op::Rename { from, to } => Some(Self::Rename {
                from: from.to_owned(),
                to: to.to_owned(),
                file: id(from)?,
                saved: save(to, graveyard),
            }),
            Op::Exchange { a, b } => {
                Some(Self::Exchange { a: a.to_owned(), b: b.to_owned(), file: id(a)? })
            }
            Op::SetMode(path) => {
                let mode = std::fs::symlink_metadata(path).ok()?.mode();
                Some(Self::Mode { path: path.to_owned(), file: id(path)?, mode })
            }
            _ => None,
        }
    }

    fn paths(&self) -> Vec<&Path> {
        match self {
            Self::Add { path }
            | Self::AddFolder { path }
            | Self::RemoveFolder { path, .. }
            | Self::Remove { path, .. }
            | Self::Mode { path, .. } => vec![path],
            Self::Rename { from, to, .. } => vec![from, to],
            Self::Exchange { a, b, .. } => vec![a, b],
        }
    }

    fn touches(&self, folder: &Path) -> bool {
        match self {
            Self::Mode { path, .. } => path == folder,
            _ => self.paths().iter().any(|path| path.parent() == Some(folder)),
        }
    }

    /// Whether this is a change of the permission bits of `file`.
    pub fn is_mode_of(&self, file: FileId) -> bool {
        matches!(self, Self::Mode { file: other, .. } if *other == file)
    }

    /// Takes the change back, if it happened. A removed folder comes back as another one; `again`
    /// says which that is, for the changes before.
    pub fn undo(&self, again: &mut HashMap<FileId, FileId>) {
        let is = |path: &Path, file: &FileId| id(path) == Some(*again.get(file).unwrap_or(file));
        match self {
            Self::Add { path } => drop(std::fs::remove_file(path)),
            Self::AddFolder { path } => drop(std::fs::remove_dir(path)),
            Self::RemoveFolder { path, file, mode } => {
                if std::fs::create_dir(path).is_ok() {
                    set_mode(path, *mode);
                    again.extend(id(path).map(|now| (*file, now)));
                }
            }
            Self::Remove { path, saved } => drop(std::fs::hard_link(saved, path)),
            Self::Rename { from, to, file, saved } => {
                if is(to, file) && id(from).is_none() {
                    std::fs::rename(to, from).unwrap();
                    if let Some(saved) = saved {
                        std::fs::hard_link(saved, to).unwrap();
                    }
                }
            }
            Self::Exchange { a, b, file } => {
                if is(b, file) {
                    renameat_with(CWD, a, CWD, b, RenameFlags::EXCHANGE).unwrap();
                }
            }
            Self::Mode { path, file, mode } => {
                if is(path, file) {
                    set_mode(path, *mode);
                }
            }
        }
    }
}

fn set_mode(path: &Path, mode: u32) {
    let mode = std::fs::Permissions::from_mode(mode & 0o7777);
    std::fs::set_permissions(path, mode).unwrap();
}

/// Forgets how to undo what the sync of `folder` makes durable, and whatever that depends on.
pub fn settle(ops: &mut Vec<NameOp>, folder: &Path) {
    let mut needed: HashSet<PathBuf> = HashSet::new();
    let mut durable = vec![false; ops.len()];
    for (at, op) in ops.iter().enumerate().rev() {
        let paths = op.paths();
        let depended_on = paths.iter().any(|path| needed.contains(*path));
        if op.touches(folder) || depended_on {
            durable[at] = true;
            for path in paths {
                needed.insert(path.to_owned());
                needed.extend(path.parent().map(Path::to_owned));
            }
        }
    }
    let mut at = 0;
    ops.retain(|_| {
        at += 1;
        !durable[at - 1]
    });
}
