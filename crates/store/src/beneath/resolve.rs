//! How a path below a root becomes an open folder: in one call that the kernel keeps below it, or
//! component by component where the kernel has no such call.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::Ordering;

use rappel_types::RelPath;
use rustix::fs::{self, AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::{Kind, Meta, Root};
use crate::error::{Error, Result};

/// How a folder is opened that is only a place to start from.
#[cfg(target_os = "linux")]
pub(super) const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY);
#[cfg(not(target_os = "linux"))]
pub(super) const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY);

/// Whether a path can be written within the root's own file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mount {
    /// It lies on the root's file system, which can be written.
    Ours,
    /// Another file system is mounted there, or above it.
    Foreign,
    /// The file system is mounted read-only.
    ReadOnly,
}

impl Root {
    /// The folder that holds `path`, and the name in it.
    pub(super) fn parent_of<'p>(&self, path: &'p RelPath) -> io::Result<(OwnedFd, &'p OsStr)> {
        let name = OsStr::from_bytes(path.name());
        let folder = path.as_bytes();
        let folder = match folder.len() - path.name().len() {
            0 => self.folder_at(b"", FOLDER)?,
            length => self.folder_at(&folder[..length - 1], FOLDER)?,
        };
        Ok((folder, name))
    }

    /// Opens the folder at `path` itself; `None` is the root.
    pub(super) fn open_folder(&self, path: Option<&RelPath>, flags: OFlags) -> io::Result<OwnedFd> {
        self.folder_at(path.map_or(&[][..], RelPath::as_bytes), flags)
    }

    fn folder_at(&self, path: &[u8], flags: OFlags) -> io::Result<OwnedFd> {
        if path.is_empty() {
            let flags = flags | OFlags::CLOEXEC;
            return Ok(fs::openat(&self.handle, c".", flags, Mode::empty())?);
        }
        if let Some(opened) = self.in_one_call(path, flags, Mode::empty(), false) {
            return Ok(opened?);
        }
        let (above, name) = self.walk(path)?;
        Ok(step(&above, name, flags)?)
    }

    /// Opens what stands at `path`; the flags decide what is done there.
    pub(super) fn open_at(&self, path: &RelPath, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
        if let Some(opened) = self.in_one_call(path.as_bytes(), flags, mode, false) {
            return Ok(opened?);
        }
        let (above, name) = self.walk(path.as_bytes())?;
        Ok(fs::openat(&above, OsStr::from_bytes(name), flags | OFlags::CLOEXEC, mode)?)
    }

    /// `openat2`, or `None` where it cannot be used.
    #[cfg(target_os = "linux")]
    fn in_one_call(
        &self,
        path: &[u8],
        flags: OFlags,
        mode: Mode,
        same_mount: bool,
    ) -> Option<Result<OwnedFd, Errno>> {
        use rustix::fs::ResolveFlags;
        if self.walks.load(Ordering::Relaxed) {
            return None;
        }
        let mut how =
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        if same_mount {
            how |= ResolveFlags::NO_XDEV;
        }
        match fs::openat2(&self.handle, path, flags | OFlags::CLOEXEC, mode, how) {
            Err(Errno::NOSYS) => {
                self.walks.store(true, Ordering::Relaxed);
                None
            }
            // Either the file is immutable, or a sandbox refuses the call: the walk will tell.
            Err(Errno::PERM | Errno::AGAIN) => None,
            other => Some(other),
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn in_one_call(
        &self,
        _path: &[u8],
        _flags: OFlags,
        _mode: Mode,
        _same_mount: bool,
    ) -> Option<Result<OwnedFd, Errno>> {
        None
    }

    /// Opens the folder above the last component, one component at a time.
    fn walk<'p>(&self, path: &'p [u8]) -> io::Result<(OwnedFd, &'p [u8])> {
        let mut components = path.split(|&b| b == b'/').peekable();
        let mut folder = fs::openat(&self.handle, c".", FOLDER | OFlags::CLOEXEC, Mode::empty())?;
        while let Some(component) = components.next() {
            if components.peek().is_none() {
                return Ok((folder, component));
            }
            folder = step(&folder, component, FOLDER)?;
        }
        Err(io::ErrorKind::InvalidInput.into())
    }

    /// Whether `path`, or the nearest folder above it that exists, can be written without leaving
    /// the root's file system.
    pub fn mount_at(&self, path: &RelPath) -> Result<Mount> {
        let mut at = Some(path.clone());
        while let Some(here) = at {
            match self.mount_of(&here) {
                Err(error) if super::is_absence(&error) => at = here.parent(),
                Err(error) if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => {
                    at = here.parent();
                }
                Err(error) => return Err(Error::io("look at", self.display(Some(&here)))(error)),
                Ok(mount) => return Ok(mount),
            }
        }
        let own = Self::writable(&self.handle);
        own.map_err(|error| Error::io("look at", self.path())(error))
    }

    fn mount_of(&self, path: &RelPath) -> io::Result<Mount> {
        #[cfg(target_os = "linux")]
        {
            let flags = OFlags::PATH | OFlags::NOFOLLOW;
            match self.in_one_call(path.as_bytes(), flags, Mode::empty(), true) {
                Some(Err(Errno::XDEV)) => return Ok(Mount::Foreign),
                Some(opened) => return Self::writable(&opened?),
                None => {}
            }
        }
        let (folder, name) = self.parent_of(path)?;
        let here = Meta::of(&folder)?;
        let stat = fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let meta = Meta::from(&stat);
        let device = if meta.kind == Kind::Directory { meta } else { here }.identity.device;
        if device != self.identity().device {
            return Ok(Mount::Foreign);
        }
        Self::writable(&folder)
    }

    fn writable(handle: &OwnedFd) -> io::Result<Mount> {
        let flags = fs::fstatvfs(handle)?.f_flag;
        let read_only = flags.contains(fs::StatVfsMountFlags::RDONLY);
        Ok(if read_only { Mount::ReadOnly } else { Mount::Ours })
    }
}

/// Opens one folder in another. A link in its place is told apart from a file, as `openat2` does.
fn step(folder: &OwnedFd, name: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    let name = OsStr::from_bytes(name);
    let flags = flags | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match fs::openat(folder, name, flags, Mode::empty()) {
        Err(Errno::NOTDIR) => {
            let stat = fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
            let is_link = Meta::from(&stat).kind == Kind::Symlink;
            Err(if is_link { Errno::LOOP } else { Errno::NOTDIR })
        }
        other => other,
    }
}
