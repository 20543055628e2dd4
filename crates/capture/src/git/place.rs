//! Where a repository is and of what kind.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use gix_index::hash::Kind;
use rappel_types::RelPath;

use crate::files::Environment;
use crate::files::git::config::{Places, Settings};
use crate::files::git::consulted::Reader;
use crate::files::git::locate;
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
}

impl Place {
    /// The repository whose work tree starts at `folder`.
    pub fn find(folder: &Path, environment: &Environment) -> Option<Self> {
        let open = std::fs::File::open(folder).ok()?;
        let mut reader = Reader::new(Trust::start(&open).ok()?);
        let found = locate(folder, &mut reader)?;
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
        })
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
