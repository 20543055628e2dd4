//! The gate through which every change to a disk goes, so that tests can make it fail.
//!
//! Production code uses [`RealDisk`], which lets everything pass. The test's twin
//! (`rappel-testing`) counts the operations, fails the one it was told to, and after a simulated
//! power loss takes back what had not been synced. Nothing in the store, the intents or a restore
//! may change a file without asking here first.

use std::fmt::Debug;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, Result};

/// A change that is about to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Op<'a> {
    /// A new file.
    Create(&'a Path),
    /// Bytes at an offset of an open file.
    Write {
        path: &'a Path,
        offset: u64,
        bytes: &'a [u8],
    },
    /// A file's content is made durable.
    Sync(&'a Path),
    /// A folder's entries are made durable.
    SyncDir(&'a Path),
    /// A whole file system is made durable.
    SyncAll(&'a Path),
    Rename {
        from: &'a Path,
        to: &'a Path,
    },
    /// Two entries change places at once.
    Exchange {
        a: &'a Path,
        b: &'a Path,
    },
    Link {
        from: &'a Path,
        to: &'a Path,
    },
    Symlink(&'a Path),
    CreateDir(&'a Path),
    RemoveDir(&'a Path),
    Unlink(&'a Path),
    SetMode(&'a Path),
    Truncate {
        path: &'a Path,
        length: u64,
    },
}

/// Decides whether a change may happen.
pub trait Disk: Debug + Send + Sync {
    /// Asked right before `op` is carried out. An error is returned to whoever wanted it, as if
    /// the operating system had said so; for a write, the number is how many bytes may be written.
    fn gate(&self, op: &Op<'_>) -> io::Result<usize>;
}

/// The disk as it is.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn gate(&self, _op: &Op<'_>) -> io::Result<usize> {
        Ok(usize::MAX)
    }
}

/// A file that is only written through the gate.
#[derive(Debug)]
pub struct DiskFile {
    file: File,
    path: PathBuf,
    disk: Arc<dyn Disk>,
}

impl DiskFile {
    /// Creates a private file (0600) that must not exist yet.
    pub fn create_new(disk: &Arc<dyn Disk>, path: &Path) -> Result<Self> {
        let create = || {
            disk.gate(&Op::Create(path))?;
            OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)
        };
        let file = create().map_err(Error::io("create", path))?;
        Ok(Self { file, path: path.to_owned(), disk: disk.clone() })
    }

    /// Opens an existing file for writing.
    pub fn open(disk: &Arc<dyn Disk>, path: &Path) -> Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(path)
            .map_err(Error::io("open", path))?;
        Ok(Self { file, path: path.to_owned(), disk: disk.clone() })
    }

    /// Writes all of `bytes` at `offset`.
    pub fn write_at(&self, mut bytes: &[u8], mut offset: u64) -> Result<()> {
        let mut step = || -> io::Result<()> {
            while !bytes.is_empty() {
                let allowed = self.disk.gate(&Op::Write { path: &self.path, offset, bytes })?;
                let now = &bytes[..bytes.len().min(allowed)];
                let written = self.file.write_at(now, offset)?;
                if written == 0 {
                    return Err(io::ErrorKind::WriteZero.into());
                }
                bytes = &bytes[written..];
                offset += written as u64;
            }
            Ok(())
        };
        step().map_err(Error::io("write", &self.path))
    }

    /// Makes the content durable.
    pub fn sync(&self) -> Result<()> {
        let sync = || {
            self.disk.gate(&Op::Sync(&self.path))?;
            self.file.sync_data()
        };
        sync().map_err(Error::io("sync", &self.path))
    }

    /// Lets the disk begin with what was written between two offsets, so that a sync to come is short. A hint:
    /// nothing is durable before that sync.
    pub fn begin_sync(&self, from: u64, to: u64) {
        // Whoever says that he will not need the pages has them written out without waiting for it.
        #[cfg(target_os = "linux")]
        if let Some(length) = std::num::NonZeroU64::new(to.saturating_sub(from)) {
            let advice = rustix::fs::Advice::DontNeed;
            let _ = rustix::fs::fadvise(&self.file, from, Some(length), advice);
        }
        #[cfg(not(target_os = "linux"))]
        let _ = (from, to);
    }

    /// Sets the permission bits.
    pub fn set_mode(&self, mode: u32) -> Result<()> {
        let set = || {
            self.disk.gate(&Op::SetMode(&self.path))?;
            self.file.set_permissions(std::fs::Permissions::from_mode(mode))
        };
        set().map_err(Error::io("set the mode of", &self.path))
    }

    /// The open file, for reading and locking.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Makes the content of a file durable that others may have written.
pub fn sync_file(disk: &dyn Disk, path: &Path) -> Result<()> {
    let sync = || {
        disk.gate(&Op::Sync(path))?;
        File::open(path)?.sync_data()
    };
    sync().map_err(Error::io("sync", path))
}

/// Makes a folder's entries durable.
pub fn sync_dir(disk: &dyn Disk, path: &Path) -> Result<()> {
    let sync = || {
        disk.gate(&Op::SyncDir(path))?;
        File::open(path)?.sync_all()
    };
    sync().map_err(Error::io("sync", path))
}

/// Removes a file; one that is already gone is fine.
pub fn unlink(disk: &dyn Disk, path: &Path) -> Result<()> {
    let unlink = || {
        disk.gate(&Op::Unlink(path))?;
        match std::fs::remove_file(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    };
    unlink().map_err(Error::io("remove", path))
}

/// Creates a private folder (0700) with the ones above it; one that exists is fine.
pub fn create_dir(disk: &dyn Disk, path: &Path) -> Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    let create = || {
        if path.is_dir() {
            return Ok(());
        }
        disk.gate(&Op::CreateDir(path))?;
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
    };
    create().map_err(Error::io("create", path))
}

/// Replaces the file at `path`, which is a view and may be lost, by one with `bytes`. Whoever reads it
/// finds the one or the other; failing costs only time.
pub fn replace_view(disk: &Arc<dyn Disk>, path: &Path, bytes: &[u8]) {
    let unfinished = path.with_extension(format!("{:016x}.tmp", crate::ambient::random()));
    let write = || {
        DiskFile::create_new(disk, &unfinished).ok()?.write_at(bytes, 0).ok()?;
        disk.gate(&Op::Rename { from: &unfinished, to: path }).ok()?;
        std::fs::rename(&unfinished, path).ok()
    };
    if write().is_none() {
        let _ = unlink(&**disk, &unfinished);
    }
}

/// Replaces the file at `path` by one with `bytes`: written beside it, synced, renamed, folder
/// synced.
pub fn replace(disk: &Arc<dyn Disk>, path: &Path, bytes: &[u8]) -> Result<()> {
    let temporary = path.with_extension(format!("{:016x}.tmp", crate::ambient::random()));
    let file = DiskFile::create_new(disk, &temporary)?;
    file.write_at(bytes, 0)?;
    file.sync()?;
    let rename = || {
        disk.gate(&Op::Rename { from: &temporary, to: path })?;
        std::fs::rename(&temporary, path)
    };
    rename().map_err(Error::io("rename", path))?;
    match path.parent() {
        Some(folder) => sync_dir(&**disk, folder),
        None => Ok(()),
    }
}

/// How much of a stream is gathered before it is written.
const STREAM: usize = 1 << 20;

/// As [`replace`], for more bytes than should be in memory: `write` gets a stream into the file that
/// will stand at `path`. If anything fails, nothing of it is left; what a killed writer left there goes.
pub fn replace_by_stream<T, E: From<Error>>(
    disk: &Arc<dyn Disk>,
    path: &Path,
    write: impl FnOnce(&mut dyn io::Write) -> Result<T, E>,
) -> Result<T, E> {
    let mut out = Stream { file: crate::unfinished::begin(disk, path)?, buffer: Vec::new(), at: 0 };
    let temporary = out.file.path().to_owned();
    let finish = |out: &mut Stream| -> Result<()> {
        out.drain()?;
        out.file.sync()?;
        let rename = || {
            disk.gate(&Op::Rename { from: &temporary, to: path })?;
            std::fs::rename(&temporary, path)
        };
        rename().map_err(Error::io("rename", path))
    };
    let written = write(&mut out).and_then(|written| {
        finish(&mut out)?;
        Ok(written)
    });
    if written.is_err() {
        // The first error is the one to tell.
        let _ = unlink(&**disk, &temporary);
        return written;
    }
    match path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        Some(folder) => sync_dir(&**disk, folder)?,
        None => sync_dir(&**disk, Path::new("."))?,
    }
    written
}

/// A file that is written from its beginning to its end.
struct Stream {
    file: DiskFile,
    buffer: Vec<u8>,
    at: u64,
}

impl Stream {
    fn drain(&mut self) -> Result<()> {
        self.file.write_at(&self.buffer, self.at)?;
        self.at += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}

impl io::Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= STREAM {
            self.drain()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(self.drain()?)
    }
}
