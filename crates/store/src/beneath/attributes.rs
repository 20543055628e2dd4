//! Permissions, owners and extended attributes of what lies below a root.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use rappel_types::RelPath;
use rustix::fs::{self, AtFlags, Gid, Mode, OFlags, Uid, XattrFlags};
use rustix::io::Errno;

use super::{Kind, Meta, NewFile, Root};
use crate::disk::Op;
use crate::error::Result;
use crate::held::Handle;

impl Root {
    /// Sets the permission bits of a file or folder, never of what a link points to; `None` is the
    /// root.
    pub fn set_mode(&self, path: Option<&RelPath>, mode: u32) -> Result<()> {
        self.gated("set the mode of", path, |shown| {
            self.disk.gate(&Op::SetMode(shown))?;
            let mode = Mode::from_raw_mode(mode & 0o7777);
            let Some(path) = path else {
                let root = self.open_folder(None, OFlags::RDONLY | OFlags::DIRECTORY)?;
                return Ok(fs::fchmod(&root, mode)?);
            };
            #[cfg(target_os = "linux")]
            {
                // A handle that needs no permission on the file, so that one of mode 000 can be
                // changed too; the kernel resolves its own link to exactly that file.
                let flags = OFlags::PATH | OFlags::NOFOLLOW;
                let handle = self.open_at(path, flags, Mode::empty())?;
                if Meta::of(&handle)?.kind == Kind::Symlink {
                    return Err(Errno::LOOP.into());
                }
                let link = format!("/proc/self/fd/{}", handle.as_raw_fd());
                match fs::chmod(link, mode) {
                    Err(Errno::NOENT) => {}
                    other => return Ok(other?),
                }
            }
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
            let file = Handle::new(self.open_at(path, flags, Mode::empty())?)?;
            Ok(fs::fchmod(&file, mode)?)
        })
    }

    /// Sets permission bits and, if `durably`, syncs them. The handle for that is opened before:
    /// afterwards the file may not let us in any more.
    pub fn set_mode_durably(&self, path: Option<&RelPath>, mode: u32, durably: bool) -> Result<()> {
        let handle = match path {
            Some(path) if durably => {
                let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
                self.open_at(path, flags, Mode::empty()).ok()
            }
            None if durably => self.open_folder(None, OFlags::RDONLY | OFlags::DIRECTORY).ok(),
            _ => None,
        };
        let handle = handle.and_then(|handle| Handle::new(handle).ok());
        self.set_mode(path, mode)?;
        let Some(file) = handle else { return Ok(()) };
        self.gated("sync", path, |shown| {
            match Meta::of(&file)?.kind {
                Kind::Directory => self.disk.gate(&Op::SyncDir(shown))?,
                _ => self.disk.gate(&Op::Sync(shown))?,
            };
            file.sync_all()
        })
    }

    /// Gives the link at `to` the owner of what stands at `from`; says what could not be done.
    pub fn copy_link_owner(&self, from: &RelPath, to: &RelPath) -> Vec<String> {
        let copy = || -> io::Result<()> {
            let (source, old) = self.parent_of(from)?;
            let (folder, new) = self.parent_of(to)?;
            let old = Meta::from(&fs::statat(&source, old, AtFlags::SYMLINK_NOFOLLOW)?);
            let ours = Meta::from(&fs::statat(&folder, new, AtFlags::SYMLINK_NOFOLLOW)?);
            if (old.uid, old.gid) == (ours.uid, ours.gid) {
                return Ok(());
            }
            let (uid, gid) = (Uid::from_raw(old.uid), Gid::from_raw(old.gid));
            Ok(fs::chownat(&folder, new, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?)
        };
        copy().err().map(|error| format!("the owner ({error})")).into_iter().collect()
    }
}

impl NewFile {
    /// Gives this file the owner, the access list and the extended attributes of `from`, and says
    /// what could not be copied. The permission bits are to be set afterwards: changing the owner
    /// clears some of them, and an access list sets others.
    pub fn copy_attributes(&self, from: &File) -> Vec<String> {
        let mut failed = Vec::new();
        if let Err(error) = copy_owner(from, &self.file) {
            failed.push(format!("the owner ({error})"));
        }
        match names_of(from) {
            Ok(names) => {
                for name in names {
                    if let Err(error) = copy_one(from, &self.file, &name) {
                        failed.push(format!("{} ({error})", name.to_string_lossy()));
                    }
                }
            }
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
            Err(error) => failed.push(format!("extended attributes ({error})")),
        }
        failed
    }
}

fn copy_owner(from: &File, to: &File) -> io::Result<()> {
    let (old, new) = (Meta::of(from)?, Meta::of(to)?);
    if (old.uid, old.gid) == (new.uid, new.gid) {
        return Ok(());
    }
    let (uid, gid) = (Uid::from_raw(old.uid), Gid::from_raw(old.gid));
    match fs::fchown(to, Some(uid), Some(gid)) {
        // Giving a file away needs privileges; giving it to one of our groups may not.
        Err(error) if old.uid != new.uid => {
            let _ = fs::fchown(to, None, Some(gid));
            Err(error.into())
        }
        other => Ok(other?),
    }
}

/// The names of a file's extended attributes, with access lists and labels.
fn names_of(file: &File) -> Result<Vec<OsString>, Errno> {
    let mut buffer = vec![0u8; 1024];
    let length = loop {
        match fs::flistxattr(file, buffer.as_mut_slice()) {
            Err(Errno::RANGE) if buffer.len() < 1 << 20 => buffer.resize(buffer.len() * 4, 0),
            other => break other?,
        }
    };
    buffer.truncate(length);
    let names = buffer.split(|&b| b == 0).filter(|name| !name.is_empty());
    Ok(names.map(|name| OsString::from_vec(name.to_vec())).collect())
}

fn copy_one(from: &File, to: &File, name: &OsStr) -> Result<(), Errno> {
    let mut value = vec![0u8; 256];
    let length = loop {
        match fs::fgetxattr(from, name, value.as_mut_slice()) {
            Err(Errno::RANGE) if value.len() < 1 << 20 => value.resize(value.len() * 4, 0),
            other => break other?,
        }
    };
    value.truncate(length);
    match fs::fsetxattr(to, name, &value, XattrFlags::empty()) {
        // Labels are the system's to give; a file that already has the same one is fine.
        Err(_) if name.as_bytes().starts_with(b"security.") && has(to, name, &value) => Ok(()),
        other => other,
    }
}

fn has(file: &File, name: &OsStr, value: &[u8]) -> bool {
    let mut present = vec![0u8; value.len() + 1];
    fs::fgetxattr(file, name, present.as_mut_slice())
        .is_ok_and(|length| &present[..length] == value)
}
