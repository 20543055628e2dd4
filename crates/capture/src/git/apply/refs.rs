//! Moving refs: all of a plan in one transaction of git's own, with their old values checked.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rappel_store::Error as StoreError;
use rappel_types::RelPath;
use rappel_types::git::{RefMove, RepositoryPlan};
use rappel_types::plan::Conflict;

use super::super::bundles::Failure;
use super::super::folder::split;
use super::super::live;
use super::super::plan::value;
use super::super::program::{Git, Trouble};
use super::{GitDrive, path_of, trouble};
use crate::restore::steps::Way;
use crate::restore::{Error, Result};

impl GitDrive<'_> {
    /// Moves the refs: all of them, or none.
    pub(super) fn refs(&mut self, plan: &RepositoryPlan, common: &Path) -> Result<()> {
        let mut moves: Vec<RefMove> = plan.refs.clone();
        if self.way == Way::Backward {
            for step in &mut moves {
                std::mem::swap(&mut step.old, &mut step.new);
            }
        }
        if moves.is_empty() {
            return Ok(());
        }
        let now = current(common, plan)?;
        let mut wrong = Vec::new();
        moves.retain(|step| {
            let found = now.get(&step.name);
            if found != step.old.as_ref() && found != step.new.as_ref() {
                let reason = "it moved meanwhile; it is left as it is";
                wrong.push(Conflict::of_git(step.name.clone(), reason));
                return false;
            }
            found != step.new.as_ref()
        });
        if self.fresh && !wrong.is_empty() {
            return Err(Error::Conflicts(wrong));
        }
        self.conflicts.extend(wrong);
        if plan.tables {
            // They are among the files.
            return Ok(());
        }
        // Git does not take a ref away and make one in its place (`a`, `a/b`) in one transaction.
        let in_the_way = |gone: &RefMove| {
            let collides = |made: &RefMove| {
                made.old.is_none()
                    && (made.name.is_within(&gone.name) || gone.name.is_within(&made.name))
            };
            gone.new.is_none() && moves.iter().any(|made| made.name != gone.name && collides(made))
        };
        // Nor does it move a branch and detach the HEAD that names it.
        let detaches =
            |step: &RefMove| symbolic(step.old.as_deref()) && !symbolic(step.new.as_deref());
        let (first, rest): (Vec<RefMove>, Vec<RefMove>) =
            moves.clone().into_iter().partition(in_the_way);
        let (last, rest): (Vec<RefMove>, Vec<RefMove>) = rest.into_iter().partition(detaches);
        [first, rest, last].iter().try_for_each(|moves| transact(common, moves))
    }
}

/// What every ref is now, as plans have it.
pub(super) fn current(common: &Path, plan: &RepositoryPlan) -> Result<BTreeMap<RelPath, String>> {
    let git_dir = path_of(&plan.git_dir);
    let refs = live::current_refs(&git_dir, common).map_err(|failure| match failure {
        Failure::Git(words) => trouble(&words),
        Failure::Other(error) => {
            let source = std::io::Error::other(error.to_string());
            Error::Store(StoreError::Io { action: "read", path: common.to_owned(), source })
        }
    })?;
    Ok(refs.iter().map(|(name, target)| (name.clone(), value(target))).collect())
}

/// Moves refs in one transaction of git's. Symbolic ones, which old versions of git cannot take into
/// one, follow.
fn transact(common: &Path, moves: &[RefMove]) -> Result<()> {
    let git = Git::at(common);
    let zero = |like: &str| "0".repeat(like.len());
    let mut input = Vec::new();
    let mut any = false;
    let mut line = |words: &[&[u8]]| {
        input.extend_from_slice(&words.join(&b' '));
        input.push(b'\n');
    };
    line(&[b"start"]);
    // What goes makes room for what comes.
    let mut ordered: Vec<&RefMove> = moves.iter().collect();
    ordered.sort_by_key(|step| step.new.is_some());
    for step in ordered {
        if symbolic(step.new.as_deref()) || (symbolic(step.old.as_deref()) && step.new.is_none()) {
            continue;
        }
        any = true;
        let name = step.name.as_bytes();
        line(&[b"option", b"no-deref"]);
        match (&step.old, &step.new) {
            (Some(_), Some(new)) if symbolic(step.old.as_deref()) => {
                line(&[b"update", name, new.as_bytes()]);
            }
            (Some(old), Some(new)) => line(&[b"update", name, new.as_bytes(), old.as_bytes()]),
            (None, Some(new)) => line(&[b"update", name, new.as_bytes(), zero(new).as_bytes()]),
            (Some(old), None) => line(&[b"delete", name, old.as_bytes()]),
            (None, None) => {}
        }
    }
    line(&[b"prepare"]);
    line(&[b"commit"]);
    if any {
        let (status, _, words) =
            git.try_ask(&["update-ref", "--stdin"], &input).map_err(|words| trouble(&words))?;
        if !status.success() {
            if is_locked(&words) {
                return Err(Error::GitBusy(words));
            }
            let path =
                moves.first().map_or_else(|| RelPath::new("refs"), |step| Ok(step.name.clone()));
            let path = path.map_err(|error| StoreError::Damaged(error.to_string()))?;
            return Err(Error::conflict(&path, words));
        }
    }
    for step in moves {
        let (worktree, rest) = split(step.name.as_bytes());
        let dir = match worktree {
            Some(name) => common.join("worktrees").join(std::ffi::OsStr::from_bytes(name)),
            None => common.to_owned(),
        };
        let name = std::ffi::OsStr::from_bytes(rest);
        let git = Git::at(&dir);
        let answer = match &step.new {
            Some(new) if symbolic(step.new.as_deref()) => {
                let target = path_of(new.strip_prefix("ref: ").unwrap_or(new));
                git.ask(&["symbolic-ref".as_ref(), name, target.as_os_str()], b"")
            }
            None if symbolic(step.old.as_deref()) => {
                git.ask(&["symbolic-ref".as_ref(), "--delete".as_ref(), name], b"")
            }
            _ => continue,
        };
        answer.map_err(|words| match words {
            Trouble::Failed(words) if is_locked(&words) => Error::GitBusy(words),
            other => trouble(&other),
        })?;
    }
    Ok(())
}

fn symbolic(value: Option<&str>) -> bool {
    value.is_some_and(|value| value.starts_with("ref: "))
}

/// Whether git's words say that another git holds a lock.
fn is_locked(words: &str) -> bool {
    words.contains(".lock") && words.contains("File exists")
}
