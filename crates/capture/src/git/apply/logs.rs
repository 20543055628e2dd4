//! Reflogs: given their other content, without a line of anybody else's being lost.

use std::collections::BTreeSet;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rappel_store::Error as StoreError;
use rappel_store::beneath::Root;
use rappel_store::content;
use rappel_store::held::{self, Handle};
use rappel_types::git::RepositoryPlan;
use rappel_types::plan::Conflict;
use rappel_types::{Action, Node, RelPath};

use super::super::folder::split;
use super::super::state::State;
use super::GitDrive;
use crate::restore::Result;
use crate::restore::intent::IntentId;
use crate::restore::steps::Way;

/// The words in a reflog that tell our own entries.
const OURS: &[u8] = b"rappel <rappel@localhost>";

impl GitDrive<'_> {
    /// Gives a reflog its other content. What git added to it for our own moves goes; anything
    /// that somebody else added stays, and the log with it.
    pub(super) fn log(
        &self,
        common: &Path,
        action: &Action,
        state: Option<&State>,
    ) -> Result<Option<Conflict>> {
        use std::io::ErrorKind::{IsADirectory, NotADirectory, NotFound};
        let path = common.join(std::ffi::OsStr::from_bytes(action.path.as_bytes()));
        let bytes = |node: &Option<Node>| -> Result<Option<Vec<u8>>> {
            let Some(node) = node else { return Ok(None) };
            let Node::File { size, content, .. } = node else { return Ok(None) };
            Ok(Some(content::read(self.job.source, content, *size, *size)?))
        };
        let staged = staged_log(&action.path, self.header.id)?;
        // Left by this very restore before it was interrupted.
        let _ = std::fs::remove_file(common.join(std::ffi::OsStr::from_bytes(staged.as_bytes())));
        let (from, to) = match self.way {
            Way::Forward => (bytes(&action.old)?, bytes(&action.new)?),
            Way::Backward => (bytes(&action.new)?, bytes(&action.old)?),
        };
        let now = match held::read(&path) {
            // Where `a` was and `a/b` is, or the other way round, there is a folder or a file instead.
            Err(error) if matches!(error.kind(), NotFound | NotADirectory | IsADirectory) => None,
            other => Some(other.map_err(StoreError::io("read", &path))?),
        };
        let grew_from = |before: &Option<Vec<u8>>| {
            let before = before.as_deref().unwrap_or_default();
            let rest = now.as_deref().unwrap_or_default().strip_prefix(before);
            rest.is_some_and(|rest| {
                let mut lines = rest.split(|&b| b == b'\n').filter(|line| !line.is_empty());
                lines.all(|line| line.windows(OURS.len()).any(|words| words == OURS))
            })
        };
        if now == to {
            return Ok(None);
        }
        if now.is_some() && !grew_from(&from) && !grew_from(&to) && !grew_from(&None) {
            let reason = "it was written to meanwhile; it is left as it is";
            return Ok(Some(Conflict::of_git(action.path.clone(), reason)));
        }
        let root = Root::open(common, self.job.root.disk().clone())?;
        let Some(to) = to else {
            root.unlink(&action.path)?;
            root.sync_dir(action.path.parent().as_ref())?;
            remove_empty_above(&root, &action.path, state);
            return Ok(None);
        };
        for folder in action.path.ancestors() {
            if root.stat(&folder)?.is_none() {
                root.create_dir(&folder, 0o755)?;
            }
        }
        // Folders without logs are left by refs that are gone.
        remove_empty_folders(&path);
        let mut file = root.create_file(&staged, 0o644)?;
        file.write_all(&to).map_err(StoreError::io("write", &path))?;
        file.sync()?;
        root.rename(&staged, &action.path)?;
        root.sync_dir(action.path.parent().as_ref())?;
        Ok(None)
    }

    /// Takes back what git logged for our moves where the plan does not bring a log along.
    pub(super) fn unlog(&self, plan: &RepositoryPlan, common: &Path) -> Result<()> {
        let Some(state) = self.state_of(plan) else { return Ok(()) };
        let mut names: BTreeSet<RelPath> = plan.refs.iter().map(|step| step.name.clone()).collect();
        // A move of the branch that HEAD names is logged for both.
        names.extend(plan.refs.iter().filter_map(|step| {
            let (worktree, _) = split(step.name.as_bytes());
            let own = worktree.map_or(Vec::new(), |name| [b"worktrees/", name, b"/"].concat());
            RelPath::new([&*own, b"HEAD"].concat()).ok()
        }));
        for name in names {
            let (_, rest) = split(name.as_bytes());
            let own = &name.as_bytes()[..name.as_bytes().len() - rest.len()];
            let Ok(log) = RelPath::new([own, b"logs/", rest].concat()) else { continue };
            let full = common.join(std::ffi::OsStr::from_bytes(log.as_bytes()));
            let Ok(bytes) = held::read(&full) else { continue };
            let mut kept = bytes.as_slice();
            while let Some(rest) = without_own_entry(kept) {
                kept = rest;
            }
            if kept.len() == bytes.len() {
                continue;
            }
            let root = Root::open(common, self.job.root.disk().clone())?;
            if kept.is_empty() && !state.files.contains_key(&log) {
                root.unlink(&log)?;
                remove_empty_above(&root, &log, Some(state));
            } else {
                let open = Handle::open(std::fs::File::options().write(true), &full);
                let cut = open.and_then(|file| file.set_len(kept.len() as u64));
                cut.map_err(StoreError::io("write", &full))?;
            }
        }
        Ok(())
    }
}

/// A log without its last entry, if that is ours.
fn without_own_entry(log: &[u8]) -> Option<&[u8]> {
    let lines = log.strip_suffix(b"\n")?;
    let start = lines.iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1);
    let is_ours = lines[start..].windows(OURS.len()).any(|words| words == OURS);
    is_ours.then_some(&log[..start])
}

/// Removes the folders above a log that is gone, if they are empty and the state that is gone to
/// does not hold them.
fn remove_empty_above(root: &Root, log: &RelPath, state: Option<&State>) {
    let Some(state) = state else { return };
    let above: Vec<RelPath> = log.ancestors().collect();
    for folder in above.iter().rev() {
        if state.files.contains_key(folder) || root.remove_dir(folder).is_err() {
            return;
        }
    }
}

/// Removes a folder that holds nothing but folders; anything else stays.
fn remove_empty_folders(path: &Path) {
    if !path.symlink_metadata().is_ok_and(|meta| meta.is_dir()) {
        return;
    }
    for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
        remove_empty_folders(&entry.path());
    }
    let _ = std::fs::remove_dir(path);
}

fn staged_log(path: &RelPath, id: IntentId) -> Result<RelPath> {
    let name = format!(".rappel-{id}-0.log");
    let staged = match path.parent() {
        Some(folder) => folder.join(name.as_bytes()),
        None => RelPath::new(name),
    };
    Ok(staged.map_err(|error| StoreError::Damaged(error.to_string()))?)
}
