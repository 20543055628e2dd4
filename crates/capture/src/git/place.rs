//! Where a repository is and of what kind.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gix_index::hash::Kind;
use rappel_store::held;
use rappel_types::RelPath;
use rappel_types::git::RepositoryPart;

use super::apply::path_of;
use super::live::folder_of;
use super::program::Git;
use super::stand_in::StandIn;
use crate::files::Environment;
use crate::files::git::config::{Places, Settings};
use crate::files::git::consulted::Reader;
use crate::files::git::{Place as Located, locate};
use crate::files::stamp::Trust;

/// A repository, seen from one of its work trees.
#[derive(Debug, Clone)]
#[allow(clippy::struct_excessive_bools, reason = "each is a setting of its own")]
pub struct Place {
    /// The work tree's folder.
    pub work_tree: PathBuf,
    /// What belongs to this work tree: HEAD and the index.
    pub git_dir: PathBuf,
    /// What all work trees of the repository share.
    pub common_dir: PathBuf,
    /// How objects are named.
    pub hash: Kind,
    /// Whether refs are kept in tables instead of files.
    pub reftable: bool,
    /// Whether objects may be missing, because a server has them.
    pub partial_clone: bool,
    /// Whether git changes line ends of files that it writes, for all files.
    pub converts_line_ends: bool,
    /// Whether the executable bit of files counts.
    pub file_mode: bool,
    /// Whether names that differ in nothing but case are one.
    pub ignore_case: bool,
    /// What git is given instead of a repository that it cannot read.
    pub stand_in: Option<Arc<StandIn>>,
}

impl Place {
    /// The repository whose work tree starts at `folder`.
    pub fn find(folder: &Path, environment: &Environment) -> Option<Self> {
        let open = held::open(folder).ok()?;
        let mut reader = Reader::new(Trust::start(&open).ok()?);
        let found = locate(folder, &mut reader)?;
        Self::of(folder, found, reader, environment)
    }

    /// The repository of a work tree that is not linked to it any more, or gone: what `known` says of
    /// it leads there. `None` if it is somebody else's by now.
    pub fn astray(
        root: &Path,
        path: Option<&RelPath>,
        known: &RepositoryPart,
        environment: &Environment,
    ) -> Option<Self> {
        let folder = folder_of(root, path);
        if folder.join(".git").symlink_metadata().is_ok() {
            return None;
        }
        let common_dir = root.join(path_of(known.git_dir.as_deref()?));
        let git_dir = match &known.linked {
            Some(name) => {
                let name = std::ffi::OsStr::from_bytes(name.as_bytes());
                let git_dir = common_dir.join("worktrees").join(name);
                let back = held::read(git_dir.join("gitdir")).ok()?;
                let back = Path::new(std::ffi::OsStr::from_bytes(back.trim_ascii_end())).to_owned();
                let leads_here = git_dir.join(back).parent()?.canonicalize().ok()?
                    == folder.canonicalize().ok()?;
                leads_here.then_some(git_dir)?
            }
            None => {
                let asked = Git::at(&common_dir).ask(&["config", "core.worktree"], b"");
                let leads = asked.ok()?;
                let leads = Path::new(std::ffi::OsStr::from_bytes(leads.trim_ascii_end()));
                let real = std::path::absolute(common_dir.join(leads)).ok()?;
                (plain(&real) == plain(&folder)).then(|| common_dir.clone())?
            }
        };
        if !git_dir.join("HEAD").exists() || !common_dir.join("objects").exists() {
            return None;
        }
        let open = held::open(&git_dir).ok()?;
        let reader = Reader::new(Trust::start(&open).ok()?);
        Self::of(&folder, Located { git_dir, common_dir }, reader, environment)
    }

    fn of(
        folder: &Path,
        found: Located,
        mut reader: Reader,
        environment: &Environment,
    ) -> Option<Self> {
        let places = Places { environment, git_dir: &found.git_dir };
        let mut settings = Settings::default();
        for file in places.shared() {
            settings.add(&file, places, &mut reader);
        }
        settings.add(&found.common_dir.join("config"), places, &mut reader);
        if settings.worktree_config {
            settings.add(&found.git_dir.join("config.worktree"), places, &mut reader);
        }
        let real = |path: PathBuf| path.canonicalize().ok();
        Some(Self {
            work_tree: folder.to_owned(),
            git_dir: real(found.git_dir)?,
            common_dir: real(found.common_dir)?,
            hash: if settings.sha256 { Kind::Sha256 } else { Kind::Sha1 },
            reftable: settings.reftable,
            partial_clone: settings.partial_clone,
            converts_line_ends: settings.converts_line_ends,
            file_mode: !settings.ignores_file_mode,
            ignore_case: settings.ignore_case,
            stand_in: None,
        })
    }

    /// Git, to be asked about objects and the index.
    pub fn git(&self) -> Git<'_> {
        match &self.stand_in {
            Some(stand_in) => stand_in.git(),
            None => Git::at(&self.git_dir),
        }
    }

    /// The name of this work tree among the linked ones; `None` for the main one.
    pub fn linked(&self) -> Option<RelPath> {
        let name = self.git_dir.strip_prefix(self.common_dir.join("worktrees")).ok()?;
        RelPath::new(name.as_os_str().as_bytes()).ok()
    }

    /// Where this work tree's own files are, seen from the common folder: empty for the main one.
    pub fn own_prefix(&self) -> Vec<u8> {
        match self.linked() {
            Some(name) => [b"worktrees/", name.as_bytes(), b"/"].concat(),
            None => Vec::new(),
        }
    }
}

/// A path without `.` and `..`; what is gone cannot be asked where it leads.
fn plain(path: &Path) -> PathBuf {
    use std::path::Component;
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            other => plain.push(other),
        }
    }
    plain
}
