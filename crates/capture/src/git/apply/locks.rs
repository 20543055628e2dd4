//! `index.lock`, taken as git does, so that no git command works on an index that a restore changes.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rappel_store::Error as StoreError;
use rappel_store::held;
use rappel_types::Node;
use rappel_types::git::RepositoryPlan;

use super::super::folder::split;
use super::{GitDrive, path_of};
use crate::restore::intent::IntentId;
use crate::restore::{Error, Result};

impl GitDrive<'_> {
    /// Takes `index.lock` of every work tree whose index changes, as git does, and the lock of refs
    /// that are kept in tables. If `own` is set, only
    /// what this very restore left behind when it was interrupted.
    pub(super) fn lock(&mut self, plan: &RepositoryPlan, common: &Path, own: bool) -> Result<()> {
        let mut folders: BTreeSet<PathBuf> = BTreeSet::from([path_of(&plan.git_dir)]);
        for action in &plan.files {
            if let (Some(name), _) = split(action.path.as_bytes())
                && !comes_or_goes(plan, name)
            {
                folders.insert(common.join("worktrees").join(std::ffi::OsStr::from_bytes(name)));
            }
        }
        let mark = lock_mark(self.header.id);
        let folders = folders.into_iter().filter(|folder| folder.is_dir());
        let mut paths: Vec<PathBuf> = folders.map(|folder| folder.join("index.lock")).collect();
        if plan.tables {
            paths.push(common.join("reftable/tables.list.lock"));
        }
        for path in paths {
            // It says whose it is from the moment it is there.
            let staged = path.with_file_name(format!(".rappel-{}-0.lock", self.header.id));
            let made = match own {
                true => Err(std::io::ErrorKind::AlreadyExists.into()),
                false => {
                    std::fs::write(&staged, &mark).and_then(|()| std::fs::hard_link(&staged, &path))
                }
            };
            let _ = std::fs::remove_file(&staged);
            match made {
                Ok(()) => self.locks.push(path),
                Err(_) if held::read(&path).is_ok_and(|found| found == mark.as_bytes()) => {
                    self.locks.push(path);
                }
                Err(_) if own => {}
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                    return Err(Error::index_locked(&path));
                }
                Err(error) => return Err(StoreError::io("create", &path)(error).into()),
            }
        }
        Ok(())
    }
}

impl Drop for GitDrive<'_> {
    fn drop(&mut self) {
        for path in &self.locks {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Whether git's folder of a linked work tree is made or taken away: nobody is at work in it, and a
/// lock would keep it from going.
fn comes_or_goes(plan: &RepositoryPlan, worktree: &[u8]) -> bool {
    let folder = [b"worktrees/", worktree].concat();
    let mut own = plan.files.iter().filter(|action| action.path.as_bytes() == folder);
    let is_folder = |node: &Option<Node>| matches!(node, Some(Node::Directory { .. }));
    own.any(|action| !is_folder(&action.old) || !is_folder(&action.new))
}

fn lock_mark(id: IntentId) -> String {
    format!("rappel {id}\n")
}
