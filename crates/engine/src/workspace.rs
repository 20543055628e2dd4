//! Which workspace a folder is: what is remembered about it, compared with what it is now.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rappel_store::Store;
use rappel_store::ambient;
use rappel_store::document::{self, DOCUMENT_VERSION};
use rappel_store::index::Index;
use rappel_store::record::Kind;
use rappel_types::path::{escape, unescape};
use rappel_types::{Timestamp, WorkspaceId};

use crate::error::{Error, Result};

/// How long git may think about a repository's first commit where the answer is waited for.
const FIRST_COMMIT_LIMIT: std::time::Duration = std::time::Duration::from_secs(20);

/// What a folder shows of itself today.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Evidence {
    pub root: PathBuf,
    pub inode: u64,
    pub file_system: String,
    pub machine: String,
}

/// What became of the question which workspace this is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Recognition {
    /// Same path and same folder.
    Known(document::Workspace),
    /// Same path and same repository, but another folder: a new clone.
    Recloned(document::Workspace),
    /// Nothing is known about this folder. If another one stood at this path, that is told.
    New { replaced: Option<document::Workspace>, moved_from: Option<document::Workspace> },
}

impl Recognition {
    /// What is remembered of the workspace, if it has a history.
    pub fn known(&self) -> Option<&document::Workspace> {
        match self {
            Self::Known(known) | Self::Recloned(known) => Some(known),
            Self::New { .. } => None,
        }
    }
}

impl Evidence {
    /// Looks at a folder.
    pub fn of(root: &Path, machine: &str) -> Result<Self> {
        let meta = std::fs::metadata(root).map_err(Error::io("look at", root))?;
        let file_system =
            rustix::fs::statfs(root).map(|found| format!("{:?}", found.f_fsid)).unwrap_or_default();
        let digits: String =
            file_system.chars().filter(|c| c.is_ascii_digit() || *c == ',').collect();
        Ok(Self {
            root: root.to_owned(),
            inode: meta.ino(),
            file_system: digits,
            machine: machine.to_owned(),
        })
    }

    /// What a folder that is gone showed of itself.
    pub fn remembered(seen: &document::Workspace, root: PathBuf) -> Self {
        let document::Workspace { inode, file_system, machine, .. } = seen.clone();
        Self { root, inode, file_system, machine }
    }

    pub fn path(&self) -> String {
        escape(self.root.as_os_str().as_bytes())
    }

    fn is_folder_of(&self, known: &document::Workspace) -> bool {
        known.inode == self.inode && known.file_system == self.file_system
    }

    /// The document that remembers this folder as `id`.
    pub fn document(
        &self,
        id: WorkspaceId,
        first_commit: Option<String>,
        at: Timestamp,
    ) -> document::Workspace {
        document::Workspace {
            version: DOCUMENT_VERSION,
            id,
            root: self.path(),
            inode: self.inode,
            file_system: self.file_system.clone(),
            machine: self.machine.clone(),
            first_commit,
            at,
            lineage_of: None,
            origin: None,
        }
    }
}

/// Every folder that the store remembers, each as it was last seen. A lineage is no folder, and is
/// never among them: [`crate::lineage`] knows those.
pub(crate) fn all(store: &Store) -> Result<Vec<document::Workspace>> {
    Ok(store.look_up(all_in)?)
}

/// The folder with this id, or else the one that was last seen at this path. A lineage is meant by
/// its id alone.
pub(crate) fn find(store: &Store, named: &str) -> Result<document::Workspace> {
    if let Ok(id) = named.parse::<WorkspaceId>() {
        let mut records = store.look_up(records)?.into_iter();
        if let Some(found) = records.find(|workspace| workspace.id == id) {
            return Ok(found);
        }
    }
    let known = all(store)?;
    let absolute = std::path::absolute(named).unwrap_or_else(|_| PathBuf::from(named));
    let mut newest = known.iter().rev();
    newest
        .find(|workspace| root_of(workspace).is_some_and(|root| root == absolute))
        .cloned()
        .ok_or_else(|| Error::NoWorkspace { old: named.to_owned() })
}

fn all_in(index: &mut Index) -> rappel_store::Result<Vec<document::Workspace>> {
    let mut found = records(index)?;
    found.retain(|workspace| workspace.lineage_of.is_none());
    Ok(found)
}

/// Every workspace record, of folders and of lineages, each as it was last written.
pub(crate) fn records(index: &mut Index) -> rappel_store::Result<Vec<document::Workspace>> {
    let rows = index.documents(Kind::Workspace, None)?;
    let mut found: Vec<document::Workspace> = Vec::new();
    for row in rows {
        let Ok(seen) = serde_json::from_str::<document::Workspace>(&row.json) else { continue };
        found.retain(|earlier| earlier.id != seen.id);
        found.push(seen);
    }
    Ok(found)
}

fn newest_at<'w>(known: &'w [document::Workspace], path: &str) -> Option<&'w document::Workspace> {
    known.iter().rev().find(|workspace| workspace.root == path)
}

/// Whether a folder has a history by now, although it had none when it was looked up: somebody else
/// began or adopted one. Under the lock.
pub(crate) fn is_known_by_now(
    index: &mut Index,
    evidence: &Evidence,
) -> rappel_store::Result<bool> {
    let known = all_in(index)?;
    let here = newest_at(&known, &evidence.path());
    Ok(here.is_some_and(|here| evidence.is_folder_of(here)))
}

/// Which workspace a folder is. The newest one with the same path counts: an older one was
/// replaced there.
pub(crate) fn recognise(store: &Store, evidence: &Evidence) -> Result<Recognition> {
    let known = all(store)?;
    let path = evidence.path();
    let here = newest_at(&known, &path);
    if let Some(here) = here {
        if evidence.is_folder_of(here) {
            return Ok(Recognition::Known(here.clone()));
        }
        if here.first_commit.is_some() && here.first_commit == first_commit(&evidence.root) {
            return Ok(Recognition::Recloned(here.clone()));
        }
    }
    let moved_from = known
        .iter()
        .rev()
        .find(|old| old.root != path && evidence.is_folder_of(old) && !is_alive(old))
        .cloned();
    Ok(Recognition::New { replaced: here.cloned(), moved_from })
}

/// Whether a workspace was last seen as this very folder, at this very place.
pub(crate) fn is_of(store: &Store, id: WorkspaceId, evidence: &Evidence) -> Result<bool> {
    let known = all(store)?;
    let seen = known.iter().find(|workspace| workspace.id == id);
    Ok(seen.is_some_and(|seen| seen.root == evidence.path() && evidence.is_folder_of(seen)))
}

/// Whether the folder that a workspace was last seen in is still that folder.
pub(crate) fn is_alive(workspace: &document::Workspace) -> bool {
    root_of(workspace)
        .and_then(|root| Evidence::of(&root, "").ok())
        .is_some_and(|evidence| evidence.is_folder_of(workspace))
}

/// The folder that a workspace was last seen in.
pub(crate) fn root_of(workspace: &document::Workspace) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStringExt;
    unescape(&workspace.root).map(|bytes| PathBuf::from(std::ffi::OsString::from_vec(bytes)))
}

/// A name for a new workspace.
pub(crate) fn new_id() -> WorkspaceId {
    WorkspaceId(ambient::random())
}

/// The first commit of a repository, asked of git if that is installed. It takes as long as the
/// history is long, so it is only asked where the answer decides something.
pub(crate) fn first_commit(root: &Path) -> Option<String> {
    FirstCommit::ask(root)?.wait()
}

/// The question after the first commit, while git thinks about it.
pub(crate) struct FirstCommit(Child);

impl FirstCommit {
    /// Begins to ask; `None` where there is no repository or no git.
    pub fn ask(root: &Path) -> Option<Self> {
        if !root.join(".git").exists() {
            return None;
        }
        let mut command = Command::new("git");
        for (name, _) in
            std::env::vars_os().filter(|(name, _)| name.as_bytes().starts_with(b"GIT_"))
        {
            command.env_remove(name);
        }
        command
            .args(["--no-optional-locks", "-c", "core.fsmonitor=false", "-c", "safe.directory=*"])
            .arg("rev-list")
            .args(["--max-parents=0", "HEAD"])
            // Neither what the user has traced nor a server is any business of this.
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_NO_LAZY_FETCH", "1")
            // Where the repository cannot be read, the one around it is another.
            .envs(root.parent().map(|above| ("GIT_CEILING_DIRECTORIES", above)))
            .current_dir(root)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        command.spawn().ok().map(Self)
    }

    /// The answer, if there is one within reasonable time: a repository may be on a disk that does
    /// not answer, or hold a pipe where git expects a file.
    fn wait(mut self) -> Option<String> {
        let start = std::time::Instant::now();
        while matches!(self.0.try_wait(), Ok(None)) {
            if start.elapsed() > FIRST_COMMIT_LIMIT {
                let _ = self.0.kill();
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        let output = self.0.wait_with_output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        // A history may have several beginnings; the last line is the oldest one.
        let line = text.lines().last()?.trim();
        (output.status.success() && !line.is_empty()).then(|| line.to_owned())
    }

    /// The answer if it is there by now; otherwise git is stopped.
    pub fn if_ready(mut self) -> Option<String> {
        match self.0.try_wait() {
            Ok(Some(_)) => self.wait(),
            _ => {
                let _ = self.0.kill();
                let _ = self.0.wait();
                None
            }
        }
    }
}

/// Whether a folder is one that somebody works in: a git work tree, or one with a `rappel.toml`.
pub fn is_project(root: &Path) -> bool {
    root.join("rappel.toml").exists() || root.join(".git").exists()
}

/// The workspace that a folder belongs to: the nearest one above it with a `rappel.toml`, else the
/// git work tree's root, else the folder itself.
pub fn find_root(start: &Path) -> PathBuf {
    let with = |name: &str| start.ancestors().find(|folder| folder.join(name).exists());
    with("rappel.toml").or_else(|| with(".git")).unwrap_or(start).to_owned()
}
