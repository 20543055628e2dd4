//! A repository for git to open where it cannot read the real one: an empty one that borrows the
//! real one's objects. So what a spoilt HEAD or `config` bars from git is still captured.

use std::io;
use std::path::{Path, PathBuf};

use gix_index::hash::Kind;
use rappel_store::held;
use tempfile::TempDir;

use super::program::Git;

/// See the module. It goes when it is dropped.
#[derive(Debug)]
pub struct StandIn {
    folder: TempDir,
    objects: PathBuf,
    index: PathBuf,
}

impl StandIn {
    /// A stand-in for the repository with these folders.
    pub fn new(git_dir: &Path, common_dir: &Path, hash: Kind) -> io::Result<Self> {
        let folder = tempfile::tempdir()?;
        let at = folder.path();
        std::fs::create_dir(at.join("refs"))?;
        std::fs::create_dir(at.join("info"))?;
        std::fs::write(at.join("HEAD"), "ref: refs/heads/none\n")?;
        let config = match hash {
            Kind::Sha256 => {
                "[core]\nrepositoryformatversion=1\n[extensions]\nobjectformat=sha256\n"
            }
            _ => "[core]\nrepositoryformatversion=0\n",
        };
        std::fs::write(at.join("config"), config)?;
        // Where history ends is not among the objects.
        for name in ["shallow", "info/grafts"] {
            if let Ok(bytes) = held::read(common_dir.join(name)) {
                std::fs::write(at.join(name), bytes)?;
            }
        }
        let (objects, index) = (common_dir.join("objects"), git_dir.join("index"));
        Ok(Self { folder, objects, index })
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Git on it.
    pub fn git(&self) -> Git<'_> {
        let git_dir = self.folder.path();
        Git { git_dir, index: Some(&self.index), objects: Some(&self.objects) }
    }
}
