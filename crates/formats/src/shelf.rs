//! The folder in which a form keeps its checkpoints, while we write there. A checkpoint's own
//! folder is put together beside its place, synced and renamed: readers find all of it or none.
//!
//! Writers take turns by a lock on the folder itself. So whatever still has the name of something
//! unfinished when the lock is ours was left by a process that died, and goes.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rappel_store::ambient;
use rappel_store::disk::{self, Disk, DiskFile, Op};
use rappel_store::lock::Patience;
use serde::Serialize;

use crate::portable::Content;
use crate::{Error, Result};

/// How long another writer is waited for.
const PATIENCE: Duration = Duration::from_secs(30);
/// How names of unfinished things begin and end.
const BEGIN: &str = ".rappel-";
const END: &str = ".partial";

/// A folder of checkpoints that only we write to at this moment.
pub(crate) struct Shelf {
    disk: Arc<dyn Disk>,
    place: PathBuf,
    _lock: File,
}

impl Shelf {
    /// Makes the folder if it is not there, and takes the lock.
    pub(crate) fn open(disk: &Arc<dyn Disk>, place: &Path) -> Result<Self> {
        disk::create_dir(&**disk, place)?;
        let lock = File::open(place).map_err(Error::io("open", place))?;
        let take = || match lock.try_lock() {
            Ok(()) => Ok(true),
            Err(std::fs::TryLockError::WouldBlock) => Ok(false),
            Err(std::fs::TryLockError::Error(error)) => Err(error),
        };
        let taken = Patience::from(PATIENCE).wait(take, String::new);
        if taken.map_err(Error::io("lock", place))?.is_err() {
            let reason = "another process writes there".to_owned();
            return Err(Error::Refused { path: place.to_owned(), reason });
        }
        let shelf = Self { disk: disk.clone(), place: place.to_owned(), _lock: lock };
        shelf.sweep()?;
        Ok(shelf)
    }

    /// Takes away what dead writers left.
    fn sweep(&self) -> Result<()> {
        for entry in std::fs::read_dir(&self.place).map_err(Error::io("list", &self.place))? {
            let entry = entry.map_err(Error::io("list", &self.place))?;
            let name = entry.file_name();
            if name.to_str().is_some_and(|name| name.starts_with(BEGIN) && name.ends_with(END)) {
                self.remove(&entry.path())?;
            }
        }
        Ok(())
    }

    fn remove(&self, path: &Path) -> Result<()> {
        let is_folder = path.symlink_metadata().is_ok_and(|meta| meta.is_dir());
        if !is_folder {
            return Ok(disk::unlink(&*self.disk, path)?);
        }
        let remove = || {
            self.disk.gate(&Op::RemoveDir(path))?;
            std::fs::remove_dir_all(path)
        };
        remove().map_err(Error::io("remove", path))
    }

    /// Where something unfinished may stand.
    fn unfinished(&self) -> PathBuf {
        self.place.join(format!("{BEGIN}{:016x}{END}", ambient::random()))
    }

    /// Begins the folder of a checkpoint.
    pub(crate) fn begin(&self) -> Result<Staged<'_>> {
        let folder = self.unfinished();
        disk::create_dir(&*self.disk, &folder)?;
        Ok(Staged { shelf: self, folder, finished: false })
    }

    /// Replaces a symbolic link: readers find the old one or the new one.
    pub(crate) fn link(&self, name: &str, target: &str) -> Result<()> {
        let (new, path) = (self.unfinished(), self.place.join(name));
        let made = || {
            self.disk.gate(&Op::Symlink(&new))?;
            std::os::unix::fs::symlink(target, &new)
        };
        made().map_err(Error::io("link", &path))?;
        self.rename(&new, &path)
    }

    /// Replaces a file, as [`Self::link`] does.
    pub(crate) fn file(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let (new, path) = (self.unfinished(), self.place.join(name));
        let file = DiskFile::create_new(&self.disk, &new)?;
        file.write_at(bytes, 0)?;
        file.sync()?;
        self.rename(&new, &path)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let rename = || {
            self.disk.gate(&Op::Rename { from, to })?;
            std::fs::rename(from, to)
        };
        rename().map_err(Error::io("rename", to))?;
        Ok(disk::sync_dir(&*self.disk, &self.place)?)
    }
}

/// The folder of a checkpoint that is not there yet. Dropped unfinished, it never was.
pub(crate) struct Staged<'s> {
    shelf: &'s Shelf,
    folder: PathBuf,
    finished: bool,
}

impl Staged<'_> {
    /// A new file in it, by a path below it. What it is given must be ended with
    /// [`StagedFile::end`].
    pub(crate) fn create(&self, name: &Path) -> Result<StagedFile> {
        let path = self.folder.join(name);
        if let Some(above) = path.parent() {
            disk::create_dir(&*self.shelf.disk, above)?;
        }
        let file = DiskFile::create_new(&self.shelf.disk, &path)?;
        Ok(StagedFile { file, at: 0 })
    }

    /// Writes a content; one that is shorter or longer than it says is refused.
    pub(crate) fn copy(&self, name: &Path, content: &dyn Content) -> Result<()> {
        let mut file = self.create(name)?;
        let path = self.folder.join(name);
        let copied = content.open().and_then(|mut from| io::copy(&mut from, &mut file));
        let copied = copied.map_err(Error::io("write", &path))?;
        if copied != content.len() {
            let reason = format!("{copied} bytes instead of {}", content.len());
            return Err(Error::Refused { path, reason });
        }
        file.end()
    }

    /// Writes a value as JSON that people can read.
    pub(crate) fn json(&self, name: &str, value: &impl Serialize) -> Result<()> {
        let mut json = serde_json::to_vec_pretty(value).map_err(|error| Error::Json {
            path: self.folder.join(name),
            reason: error.to_string(),
        })?;
        json.push(b'\n');
        self.copy(Path::new(name), &json)
    }

    /// Syncs it and gives it its name. What has that name is replaced.
    pub(crate) fn finish(mut self, name: &str) -> Result<PathBuf> {
        let (disk, path) = (&*self.shelf.disk, self.shelf.place.join(name));
        sync_folders(disk, &self.folder)?;
        let exchange = path.symlink_metadata().is_ok();
        let rename = || -> io::Result<()> {
            if exchange {
                disk.gate(&Op::Exchange { a: &self.folder, b: &path })?;
                let flag = rustix::fs::RenameFlags::EXCHANGE;
                let cwd = rustix::fs::CWD;
                return Ok(rustix::fs::renameat_with(cwd, &self.folder, cwd, &path, flag)?);
            }
            disk.gate(&Op::Rename { from: &self.folder, to: &path })?;
            std::fs::rename(&self.folder, &path)
        };
        rename().map_err(Error::io("rename", &path))?;
        disk::sync_dir(disk, &self.shelf.place)?;
        self.finished = true;
        if exchange {
            self.shelf.remove(&self.folder)?;
        }
        Ok(path)
    }
}

impl Drop for Staged<'_> {
    fn drop(&mut self) {
        if !self.finished {
            let _ = std::fs::remove_dir_all(&self.folder);
        }
    }
}

/// Syncs a folder and all below it; the files in it are synced already.
fn sync_folders(disk: &dyn Disk, folder: &Path) -> Result<()> {
    for entry in std::fs::read_dir(folder).map_err(Error::io("list", folder))? {
        let entry = entry.map_err(Error::io("list", folder))?;
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            sync_folders(disk, &entry.path())?;
        }
    }
    Ok(disk::sync_dir(disk, folder)?)
}

/// A file that is being written from its beginning to its end.
pub(crate) struct StagedFile {
    file: DiskFile,
    at: u64,
}

impl StagedFile {
    /// Makes it durable.
    pub(crate) fn end(self) -> Result<()> {
        Ok(self.file.sync()?)
    }
}

impl Write for StagedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write_at(bytes, self.at).map_err(io::Error::other)?;
        self.at += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
