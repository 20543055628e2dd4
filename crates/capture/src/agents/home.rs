//! An agent's home as an open folder that is only looked at. The way to it may lead through links,
//! the way from it never does.

use std::ffi::CString;
use std::path::{Path, PathBuf};

use rappel_store::held::Handle;
use rappel_types::RelPath;
use rustix::io::Errno;

use crate::error::Result;
use crate::files::handle::Root;
use crate::files::stamp::{Kind, Stamp, Trust, look};

pub(super) struct Home {
    root: Root,
}

impl Home {
    pub fn open(path: &Path) -> Result<Self> {
        Ok(Self { root: Root::open(path)? })
    }

    pub fn path(&self) -> &Path {
        self.root.path()
    }

    /// `path` as people know it.
    pub fn display(&self, path: &RelPath) -> PathBuf {
        use std::os::unix::ffi::OsStrExt;
        self.path().join(std::ffi::OsStr::from_bytes(path.as_bytes()))
    }

    /// When a look at a file can be believed later.
    pub fn trust(&self) -> Result<Trust, Errno> {
        Trust::start(self.root.as_fd())
    }

    /// What a folder holds, by name. A folder that is not there holds nothing.
    pub fn list(&self, folder: &RelPath) -> Result<Vec<(RelPath, Stamp)>, Errno> {
        let open = match self.root.open_folder(folder.as_bytes()) {
            Err(Errno::NOENT) => return Ok(Vec::new()),
            // A link to a folder is no folder either.
            Err(Errno::NOTDIR) => match self.look(folder).map(|stamp| stamp.kind()) {
                Ok(Kind::Symlink) => return Err(Errno::LOOP),
                _ => return Ok(Vec::new()),
            },
            other => other?,
        };
        let mut found = Vec::new();
        for entry in rustix::fs::Dir::read_from(&open)? {
            let entry = entry?;
            let name = entry.file_name();
            let Ok(path) = folder.join(name.to_bytes()) else { continue };
            // What vanishes meanwhile is not there.
            if let Ok(stamp) = look(&open, name) {
                found.push((path, stamp));
            }
        }
        found.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        Ok(found)
    }

    /// What stands at a path.
    pub fn look(&self, path: &RelPath) -> Result<Stamp, Errno> {
        let name = CString::new(path.name()).map_err(|_| Errno::INVAL)?;
        let folder = path.parent();
        let folder = self.root.open_folder(folder.as_ref().map_or(b"", RelPath::as_bytes))?;
        look(&folder, &name)
    }

    /// Opens a file to read it. The caller looks at what it got.
    pub fn open_file(&self, path: &RelPath) -> Result<Handle, Errno> {
        self.root.open_file(path.as_bytes())
    }
}
