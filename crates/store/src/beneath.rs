//! A handle on a folder that nothing done through it can leave.
//!
//! Every path is a [`RelPath`], resolved below the root without following a symbolic link, so that
//! neither a hostile tree nor a link swapped in at the wrong moment can make a restore write
//! elsewhere. No folder below the root is kept open between two operations: each one resolves its
//! path anew. Every change asks the [`Disk`] first.
//!
//! Not guaranteed: that a path still leads to the same file a moment later. Whoever needs that
//! compares [`Meta`] or content after the fact.

mod attributes;
mod resolve;

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rappel_types::RelPath;
use rustix::fs::{self, AtFlags, FileType, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;

use crate::disk::{Disk, Op};
use crate::error::{Error, Result};
use crate::held::Handle;

pub use resolve::Mount;

/// Which folder this is, whatever it is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The device it is on.
    pub device: u64,
    /// Its inode there.
    pub inode: u64,
}

impl Identity {
    /// Of what a path leads to, links followed.
    pub fn of(path: &Path) -> Result<Self> {
        let stat = fs::statat(fs::CWD, path, AtFlags::empty()).map_err(io::Error::from);
        Ok(Meta::from(&stat.map_err(Error::io("look at", path))?).identity)
    }
}

/// What stands at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A regular file.
    File,
    /// A folder.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A socket, a pipe or a device.
    Special,
}

/// What the file system says about a path, of the link itself where it is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meta {
    /// File, folder, link or something else.
    pub kind: Kind,
    /// Device and inode.
    pub identity: Identity,
    /// Length in bytes.
    pub size: u64,
    /// The twelve permission bits.
    pub mode: u32,
    /// How many names the file has.
    pub links: u64,
    /// The owner's number.
    pub uid: u32,
    /// The group's number.
    pub gid: u32,
    /// When the content changed, in nanoseconds since 1970.
    pub mtime: i128,
    /// When anything about it changed, in nanoseconds since 1970.
    pub ctime: i128,
}

#[allow(
    clippy::unnecessary_cast,
    clippy::useless_conversion,
    clippy::cast_lossless,
    reason = "the fields have other widths on other platforms"
)]
impl From<&Stat> for Meta {
    fn from(stat: &Stat) -> Self {
        let nanos = |seconds: i128, nanos: i128| seconds * 1_000_000_000 + nanos;
        Self {
            kind: Kind::from(FileType::from_raw_mode(stat.st_mode)),
            identity: Identity { device: stat.st_dev as u64, inode: stat.st_ino as u64 },
            size: stat.st_size as u64,
            mode: stat.st_mode as u32 & 0o7777,
            links: stat.st_nlink as u64,
            uid: stat.st_uid,
            gid: stat.st_gid,
            mtime: nanos(stat.st_mtime as i128, stat.st_mtime_nsec as i128),
            ctime: nanos(stat.st_ctime as i128, stat.st_ctime_nsec as i128),
        }
    }
}

impl Meta {
    /// Of an open file.
    pub fn of(file: impl AsFd) -> io::Result<Self> {
        Ok(Self::from(&fs::fstat(file)?))
    }
}

impl From<FileType> for Kind {
    fn from(kind: FileType) -> Self {
        match kind {
            FileType::RegularFile => Self::File,
            FileType::Directory => Self::Directory,
            FileType::Symlink => Self::Symlink,
            _ => Self::Special,
        }
    }
}

/// How two entries changed places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exchanged {
    /// Atomically: what stood at the one name stands at the other.
    InPlace,
    /// The file system cannot do that: what was displaced stands at the name given for it.
    Aside,
}

/// A folder and everything below it, and nothing else.
#[derive(Debug)]
pub struct Root {
    handle: OwnedFd,
    path: PathBuf,
    identity: Identity,
    disk: Arc<dyn Disk>,
    /// Set once the kernel turned out to have no `openat2`.
    walks: AtomicBool,
}

impl Root {
    /// Opens an existing folder. The way to it may lead through links; the way from it never does.
    pub fn open(path: &Path, disk: Arc<dyn Disk>) -> Result<Self> {
        let open = || -> io::Result<(OwnedFd, PathBuf, Identity)> {
            let path = std::path::absolute(path)?;
            let flags = resolve::FOLDER | OFlags::CLOEXEC;
            let handle = fs::openat(fs::CWD, &path, flags, Mode::empty())?;
            let identity = Meta::of(&handle)?.identity;
            Ok((handle, path, identity))
        };
        let (handle, path, identity) = open().map_err(Error::io("open", path))?;
        Ok(Self { handle, path, identity, disk, walks: AtomicBool::new(false) })
    }

    /// Where it was when it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Which folder it is.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// The gate that every change passes.
    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// `path` as the user knows it; `None` is the root itself. For messages only.
    pub fn display(&self, path: Option<&RelPath>) -> PathBuf {
        match path {
            Some(path) => self.path.join(OsStr::from_bytes(path.as_bytes())),
            None => self.path.clone(),
        }
    }

    /// Whether the root's path still leads to the folder that was opened: false once it was
    /// removed, moved away or replaced by another.
    pub fn is_still_there(&self) -> bool {
        let there = fs::statat(fs::CWD, &self.path, AtFlags::empty());
        there.is_ok_and(|stat| Meta::from(&stat).identity == self.identity)
    }

    fn gated<T>(
        &self,
        action: &'static str,
        path: Option<&RelPath>,
        op: impl FnOnce(&Path) -> io::Result<T>,
    ) -> Result<T> {
        let shown = self.display(path);
        op(&shown).map_err(|source| Error::Io { action, path: shown, source })
    }

    /// What stands at `path`; `None` if nothing does, or if a file stands where its folder should.
    pub fn stat(&self, path: &RelPath) -> Result<Option<Meta>> {
        let stat = || -> io::Result<Meta> {
            let (folder, name) = self.parent_of(path)?;
            Ok(Meta::from(&fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)?))
        };
        match stat() {
            Ok(meta) => Ok(Some(meta)),
            Err(error) if is_absence(&error) => Ok(None),
            Err(error) => Err(Error::io("look at", self.display(Some(path)))(error)),
        }
    }

    /// What the root itself is.
    pub fn stat_root(&self) -> Result<Meta> {
        Meta::of(&self.handle).map_err(Error::io("look at", &self.path))
    }

    /// Opens a regular file for reading. Anything else is refused, without waiting for the other
    /// end of a pipe.
    pub fn open_file(&self, path: &RelPath) -> Result<Handle> {
        let open = || -> io::Result<Handle> {
            let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW;
            let file = Handle::new(self.open_at(path, flags, Mode::empty())?)?;
            if Meta::of(&file)?.kind != Kind::File {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
            }
            Ok(file)
        };
        open().map_err(|error| Error::io("open", self.display(Some(path)))(error))
    }

    /// Where a symbolic link points.
    pub fn read_link(&self, path: &RelPath) -> Result<Vec<u8>> {
        let read = || -> io::Result<Vec<u8>> {
            let (folder, name) = self.parent_of(path)?;
            Ok(fs::readlinkat(&folder, name, Vec::new())?.into_bytes())
        };
        read().map_err(|error| Error::io("read the link", self.display(Some(path)))(error))
    }

    /// The names in a folder with what they are, sorted; `None` is the root.
    pub fn list(&self, path: Option<&RelPath>) -> Result<Vec<(Vec<u8>, Kind)>> {
        let list = || -> io::Result<Vec<(Vec<u8>, Kind)>> {
            let folder = self.open_folder(path, OFlags::RDONLY | OFlags::DIRECTORY)?;
            let mut names = Vec::new();
            for entry in fs::Dir::read_from(&folder)? {
                let entry = entry?;
                let name = entry.file_name().to_bytes();
                if name == b"." || name == b".." {
                    continue;
                }
                let kind = match entry.file_type() {
                    FileType::Unknown => {
                        let stat =
                            fs::statat(&folder, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)?;
                        Meta::from(&stat).kind
                    }
                    known => Kind::from(known),
                };
                names.push((name.to_vec(), kind));
            }
            names.sort_unstable_by(|a, b| a.0.cmp(&b.0));
            Ok(names)
        };
        list().map_err(|error| Error::io("list", self.display(path))(error))
    }

    /// Creates a file that must not exist yet, with these permission bits as far as the process's
    /// mask lets them through.
    pub fn create_file(&self, path: &RelPath, mode: u32) -> Result<NewFile> {
        self.gated("create", Some(path), |shown| {
            self.disk.gate(&Op::Create(shown))?;
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
            let file = File::from(self.open_at(path, flags, Mode::from_raw_mode(mode & 0o777))?);
            Ok(NewFile { file, path: shown.to_owned(), disk: self.disk.clone(), length: 0 })
        })
    }

    /// Moves an entry, over whatever stands at `to`.
    pub fn rename(&self, from: &RelPath, to: &RelPath) -> Result<()> {
        let target = self.display(Some(to));
        self.gated("rename", Some(from), |shown| {
            self.disk.gate(&Op::Rename { from: shown, to: &target })?;
            let (source, old) = self.parent_of(from)?;
            let (folder, new) = self.parent_of(to)?;
            Ok(fs::renameat(&source, old, &folder, new)?)
        })
    }

    /// Moves an entry to a name that must be free.
    pub fn rename_noreplace(&self, from: &RelPath, to: &RelPath) -> Result<()> {
        let target = self.display(Some(to));
        self.gated("rename", Some(from), |shown| {
            self.disk.gate(&Op::Rename { from: shown, to: &target })?;
            let (source, old) = self.parent_of(from)?;
            let (folder, new) = self.parent_of(to)?;
            match fs::renameat_with(&source, old, &folder, new, RenameFlags::NOREPLACE) {
                Err(error) if is_unsupported(&error.into()) => {}
                other => return Ok(other?),
            }
            let stat = fs::statat(&source, old, AtFlags::SYMLINK_NOFOLLOW)?;
            if Meta::from(&stat).kind == Kind::Directory {
                // A folder cannot be linked. Renaming it fails by itself over anything but an
                // empty folder, so only that needs a look.
                if fs::statat(&folder, new, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
                    return Err(Errno::EXIST.into());
                }
                return Ok(fs::renameat(&source, old, &folder, new)?);
            }
            fs::linkat(&source, old, &folder, new, AtFlags::empty())?;
            Ok(fs::unlinkat(&source, old, AtFlags::empty())?)
        })
    }

    /// Puts what stands at `new` in the place of what stands at `path`, which goes to `new`. Where
    /// the file system cannot exchange, the old entry goes to `aside` instead: linked there first
    /// if it is no folder, so that `path` never stands empty. Not guaranteed there: that a file
    /// put at `path` between the two moves survives.
    pub fn exchange(&self, new: &RelPath, path: &RelPath, aside: &RelPath) -> Result<Exchanged> {
        let staged = self.display(Some(new));
        let exchanged = self.gated("exchange", Some(path), |shown| {
            let exchange = || -> io::Result<()> {
                self.disk.gate(&Op::Exchange { a: &staged, b: shown })?;
                let (folder, old) = self.parent_of(path)?;
                let (source, name) = self.parent_of(new)?;
                Ok(fs::renameat_with(&source, name, &folder, old, RenameFlags::EXCHANGE)?)
            };
            match exchange() {
                Err(error) if is_unsupported(&error) => Ok(false),
                other => other.map(|()| true),
            }
        })?;
        if exchanged {
            return Ok(Exchanged::InPlace);
        }
        self.displace(new, path, aside)?;
        Ok(Exchanged::Aside)
    }

    /// The slow way of [`Self::exchange`].
    fn displace(&self, new: &RelPath, path: &RelPath, aside: &RelPath) -> Result<()> {
        let (old, staged) = (self.stat(path)?, self.stat(new)?);
        let is_folder = |meta: &Option<Meta>| meta.is_some_and(|m| m.kind == Kind::Directory);
        if is_folder(&old) || is_folder(&staged) {
            self.rename_noreplace(path, aside)?;
            return self.rename_noreplace(new, path);
        }
        let linked = self.stat(aside)?.map(|meta| meta.identity);
        if linked.is_none() || linked != old.map(|meta| meta.identity) {
            self.link(path, aside)?;
        }
        self.rename(new, path)
    }

    /// Gives a file a second name, which must be free.
    pub fn link(&self, from: &RelPath, to: &RelPath) -> Result<()> {
        let target = self.display(Some(to));
        self.gated("link", Some(from), |shown| {
            self.disk.gate(&Op::Link { from: shown, to: &target })?;
            let (source, old) = self.parent_of(from)?;
            let (folder, new) = self.parent_of(to)?;
            Ok(fs::linkat(&source, old, &folder, new, AtFlags::empty())?)
        })
    }

    /// Creates a symbolic link, which may point anywhere: nothing here ever follows it.
    pub fn symlink(&self, target: &[u8], path: &RelPath) -> Result<()> {
        self.gated("create", Some(path), |shown| {
            self.disk.gate(&Op::Symlink(shown))?;
            let (folder, name) = self.parent_of(path)?;
            Ok(fs::symlinkat(target, &folder, name)?)
        })
    }

    /// Creates a folder whose own folder exists.
    pub fn create_dir(&self, path: &RelPath, mode: u32) -> Result<()> {
        self.gated("create", Some(path), |shown| {
            self.disk.gate(&Op::CreateDir(shown))?;
            let (folder, name) = self.parent_of(path)?;
            Ok(fs::mkdirat(&folder, name, Mode::from_raw_mode(mode & 0o777))?)
        })
    }

    /// Removes an empty folder.
    pub fn remove_dir(&self, path: &RelPath) -> Result<()> {
        self.gated("remove", Some(path), |shown| {
            self.disk.gate(&Op::RemoveDir(shown))?;
            let (folder, name) = self.parent_of(path)?;
            Ok(fs::unlinkat(&folder, name, AtFlags::REMOVEDIR)?)
        })
    }

    /// Removes a name that is no folder.
    pub fn unlink(&self, path: &RelPath) -> Result<()> {
        self.gated("remove", Some(path), |shown| {
            self.disk.gate(&Op::Unlink(shown))?;
            let (folder, name) = self.parent_of(path)?;
            Ok(fs::unlinkat(&folder, name, AtFlags::empty())?)
        })
    }

    /// Makes a file's content and attributes durable.
    pub fn sync_file(&self, path: &RelPath) -> Result<()> {
        let file = self.open_file(path)?;
        self.gated("sync", Some(path), |shown| {
            self.disk.gate(&Op::Sync(shown))?;
            file.sync_all()
        })
    }

    /// Makes a folder's entries durable; `None` is the root.
    pub fn sync_dir(&self, path: Option<&RelPath>) -> Result<()> {
        self.gated("sync", path, |shown| {
            self.disk.gate(&Op::SyncDir(shown))?;
            let folder = self.open_folder(path, OFlags::RDONLY | OFlags::DIRECTORY)?;
            File::from(folder).sync_all()
        })
    }

    /// Makes everything on this file system durable.
    pub fn sync_all(&self) -> Result<()> {
        self.gated("sync the disk of", None, |shown| {
            self.disk.gate(&Op::SyncAll(shown))?;
            let folder = self.open_folder(None, OFlags::RDONLY | OFlags::DIRECTORY)?;
            #[cfg(target_os = "linux")]
            fs::syncfs(&folder)?;
            #[cfg(not(target_os = "linux"))]
            {
                drop(folder);
                fs::sync();
            }
            Ok(())
        })
    }

    /// How many bytes the file system has left for us.
    pub fn free_space(&self) -> Result<u64> {
        let free = fs::fstatvfs(&self.handle).map_err(io::Error::from);
        let free = free.map_err(Error::io("ask for the free space of", &self.path))?;
        Ok(free.f_bavail.saturating_mul(free.f_frsize))
    }
}

/// A file that [`Root::create_file`] made and that is still being written.
#[derive(Debug)]
pub struct NewFile {
    file: File,
    path: PathBuf,
    disk: Arc<dyn Disk>,
    length: u64,
}

impl NewFile {
    /// Makes content and attributes durable.
    pub fn sync(&self) -> Result<()> {
        let sync = || {
            self.disk.gate(&Op::Sync(&self.path))?;
            self.file.sync_all()
        };
        sync().map_err(Error::io("sync", &self.path))
    }

    /// Sets the permission bits.
    pub fn set_mode(&self, mode: u32) -> Result<()> {
        let set = || -> io::Result<()> {
            self.disk.gate(&Op::SetMode(&self.path))?;
            Ok(fs::fchmod(&self.file, Mode::from_raw_mode(mode & 0o7777))?)
        };
        set().map_err(Error::io("set the mode of", &self.path))
    }

    /// Has this file, which is empty, share the blocks of another one, until either is written to.
    /// Fails where the file system cannot do that, and has written nothing then.
    #[cfg(target_os = "linux")]
    pub fn clone_from(&mut self, other: &File) -> io::Result<()> {
        self.disk.gate(&Op::Write { path: &self.path, offset: 0, bytes: &[] })?;
        fs::ioctl_ficlone(&self.file, other)?;
        self.length = self.file.metadata()?.len();
        Ok(())
    }

    /// Has this file, which is empty, share the blocks of another one: not on this system.
    #[cfg(not(target_os = "linux"))]
    pub fn clone_from(&mut self, _: &File) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Takes away what was written.
    pub fn empty(&mut self) -> Result<()> {
        let empty = || {
            self.disk.gate(&Op::Truncate { path: &self.path, length: 0 })?;
            self.file.set_len(0)
        };
        empty().map_err(Error::io("empty", &self.path))?;
        self.length = 0;
        Ok(())
    }

    /// The open file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// How much was written.
    pub fn length(&self) -> u64 {
        self.length
    }
}

impl io::Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        let op = Op::Write { path: &self.path, offset: self.length, bytes };
        let allowed = self.disk.gate(&op)?;
        let written = self.file.write_at(&bytes[..bytes.len().min(allowed)], self.length)?;
        self.length += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether an error says that nothing stands at a path.
fn is_absence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Whether a rename failed only because this file system knows no flags.
fn is_unsupported(error: &io::Error) -> bool {
    let known = [Errno::INVAL, Errno::NOSYS, Errno::OPNOTSUPP].map(Errno::raw_os_error);
    error.raw_os_error().is_some_and(|code| known.contains(&code))
}

#[cfg(test)]
mod tests;
