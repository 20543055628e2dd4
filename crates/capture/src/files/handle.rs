//! The workspace's root as an open folder: everything is looked at and opened relative to it, and
//! no symbolic link on the way is ever followed.

#![allow(clippy::disallowed_methods, reason = "folders, and files that become handles here")]

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rappel_store::held::Handle;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::stamp::{Identity, Stamp, look};
use crate::error::{Error, Result};

/// The longest path that one system call takes.
pub(crate) const LONGEST: usize = 4095;

/// An open workspace root.
#[derive(Debug)]
pub(crate) struct Root {
    folder: OwnedFd,
    /// The same folder, opened once for each thread: whoever looks up a path counts himself in and
    /// out at the open folder, and two threads at one would wait for each other.
    own: Vec<OwnedFd>,
    path: PathBuf,
    identity: Identity,
    /// Whether the kernel resolves paths without links by itself. Else it is done step by step.
    resolves: bool,
    /// Whether reading without moving the access time is permitted here, until refused once.
    quietly: AtomicBool,
}

impl Root {
    /// Opens `path`, which must be a folder.
    pub fn open(path: &Path) -> Result<Self> {
        let open = || {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let folder = rustix::fs::open(path, flags, Mode::empty())?;
            let identity = Stamp::of(&rustix::fs::fstat(&folder)?).identity();
            Ok((folder, identity))
        };
        let (folder, identity) = open().map_err(Error::io::<Errno>("open", path))?;
        // Where there are no more, the first one serves all.
        let own = (0..rayon::current_num_threads())
            .map_while(|_| rustix::fs::openat(&folder, c".", passage(), Mode::empty()).ok())
            .collect();
        let resolves = resolve(folder.as_fd(), c".", OFlags::RDONLY | OFlags::CLOEXEC).is_ok();
        let quietly = AtomicBool::new(true);
        Ok(Self { folder, own, path: path.to_owned(), identity, resolves, quietly })
    }

    /// Where it was when it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The open folder.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.folder.as_fd()
    }

    /// The open folder, for looking up paths.
    fn near(&self) -> BorrowedFd<'_> {
        let own = rayon::current_thread_index().and_then(|thread| self.own.get(thread));
        own.unwrap_or(&self.folder).as_fd()
    }

    /// Fails if another folder, or none, stands at the root's path by now.
    pub fn check_still_there(&self) -> Result<()> {
        let conflict = |reason: &str| Error::Conflict {
            path: self.path.clone(),
            reason: format!("the workspace {reason} while it was being captured"),
        };
        match rustix::fs::stat(&self.path) {
            Ok(stat) if Stamp::of(&stat).identity() == self.identity => Ok(()),
            Ok(_) => Err(conflict("was replaced by another folder")),
            Err(Errno::NOENT | Errno::NOTDIR) => Err(conflict("was removed")),
            Err(error) => Err(Error::io("look at", &self.path)(error)),
        }
    }

    /// What stands at `path`; the empty path is the root itself.
    ///
    /// Not guaranteed: that no link was followed on the way to the last component. Whoever uses the
    /// stamp compares it with one of a path whose folders were looked at too, or opens the path
    /// with one of the functions below.
    pub fn look(&self, path: &CStr) -> Result<Stamp, Errno> {
        if path.is_empty() {
            return rustix::fs::fstat(&self.folder).map(|stat| Stamp::of(&stat));
        }
        look(self.near(), path)
    }

    /// Opens a folder to look at many names in it, without permission to list it. Not guaranteed: that
    /// no link was followed; the same care is needed as with [`Root::look`].
    pub fn open_to_look(&self, path: &CStr) -> Result<OwnedFd, Errno> {
        rustix::fs::openat(self.near(), path, passage(), Mode::empty())
    }

    /// Opens a folder to list it.
    pub fn open_folder(&self, path: &[u8]) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        if path.is_empty() {
            return rustix::fs::openat(&self.folder, c".", flags, Mode::empty());
        }
        self.open_beneath(path, flags)
    }

    /// Opens a file to read it. A pipe or a device does not block; the caller checks what it got.
    pub fn open_file(&self, path: &[u8]) -> Result<Handle, Errno> {
        let flags =
            OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        #[cfg(target_os = "linux")]
        if self.quietly.load(Ordering::Relaxed) {
            match self.open_beneath(path, flags | OFlags::NOATIME) {
                // Only the owner may read without leaving a trace.
                Err(Errno::PERM) => self.quietly.store(false, Ordering::Relaxed),
                other => return Handle::new(other?),
            }
        }
        Handle::new(self.open_beneath(path, flags)?)
    }

    /// Where the link at `path` points.
    pub fn read_link(&self, path: &[u8]) -> Result<Vec<u8>, Errno> {
        let slash = path.iter().rposition(|&b| b == b'/');
        let name = &path[slash.map_or(0, |at| at + 1)..];
        let target = match slash {
            None => rustix::fs::readlinkat(&self.folder, name, Vec::new())?,
            Some(at) => {
                let folder = self.open_beneath(&path[..at], passage())?;
                rustix::fs::readlinkat(folder, name, Vec::new())?
            }
        };
        Ok(target.into_bytes())
    }

    fn open_beneath(&self, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        if self.resolves {
            let path = CString::new(path).map_err(|_| Errno::INVAL)?;
            return resolve(self.near(), &path, flags);
        }
        let mut folder: Option<OwnedFd> = None;
        let mut rest = path;
        while let Some(slash) = rest.iter().position(|&b| b == b'/') {
            let at = folder.as_ref().map_or(self.folder.as_fd(), AsFd::as_fd);
            folder = Some(rustix::fs::openat(at, &rest[..slash], passage(), Mode::empty())?);
            rest = &rest[slash + 1..];
        }
        let at = folder.as_ref().map_or(self.folder.as_fd(), AsFd::as_fd);
        rustix::fs::openat(at, rest, flags, Mode::empty())
    }
}

/// Flags for a folder that is only passed through.
fn passage() -> OFlags {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    #[cfg(target_os = "linux")]
    let flags = flags | OFlags::PATH;
    flags
}

#[cfg(target_os = "linux")]
fn resolve(folder: BorrowedFd<'_>, path: &CStr, flags: OFlags) -> Result<OwnedFd, Errno> {
    use rustix::fs::ResolveFlags;
    let how = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(folder, path, flags, Mode::empty(), how)
}

#[cfg(not(target_os = "linux"))]
fn resolve(_: BorrowedFd<'_>, _: &CStr, _: OFlags) -> Result<OwnedFd, Errno> {
    Err(Errno::NOSYS)
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::fs::symlink;

    use super::*;

    fn root() -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("a/b")).unwrap();
        std::fs::write(folder.path().join("a/b/file"), "here").unwrap();
        symlink("a", folder.path().join("way")).unwrap();
        symlink("b/file", folder.path().join("a/link")).unwrap();
        let root = Root::open(folder.path()).unwrap();
        (folder, root)
    }

    #[test]
    fn no_link_is_followed_whoever_resolves_the_path() {
        let (_folder, mut root) = root();
        for resolves in [root.resolves, false] {
            root.resolves = resolves;
            let mut text = String::new();
            root.open_file(b"a/b/file").unwrap().read_to_string(&mut text).unwrap();
            assert_eq!(text, "here");
            assert_eq!(root.read_link(b"a/link").unwrap(), b"b/file");
            assert_eq!(root.read_link(b"way").unwrap(), b"a");
            assert!(root.open_file(b"way/b/file").is_err());
            assert!(root.open_file(b"a/link").is_err());
            assert!(root.open_folder(b"way").is_err());
            assert!(root.read_link(b"way/link").is_err());
            root.open_folder(b"a/b").unwrap();
        }
    }

    #[test]
    fn a_root_that_went_away_is_noticed() {
        let (folder, root) = root();
        root.check_still_there().unwrap();
        let aside = folder.path().with_extension("aside");
        std::fs::rename(folder.path(), &aside).unwrap();
        assert!(root.check_still_there().unwrap_err().is_conflict());
        std::fs::create_dir(folder.path()).unwrap();
        assert!(root.check_still_there().unwrap_err().to_string().contains("replaced"));
        std::fs::remove_dir_all(aside).unwrap();
    }
}
