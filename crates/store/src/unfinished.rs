//! A file on its way to its place: it stands beside it under a hidden name, locked, until it is
//! whole. A writer that was killed leaves it there. The next writer to the same place takes it away.
//!
//! The kernel lets go of the lock when the writer ends, whatever ended it. So a file of that name
//! whose lock is free has no writer any more.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{FlockOperation, OFlags, flock};

use crate::ambient;
use crate::disk::{Disk, DiskFile, unlink};
use crate::error::Result;

/// How often a file is begun again because another writer took it for one that was left.
const ATTEMPTS: usize = 8;
/// The hexadecimal digits in the name.
const DIGITS: usize = 16;

/// Begins the file that will stand at `path`, and takes away what dead writers left there.
pub(crate) fn begin(disk: &Arc<dyn Disk>, path: &Path) -> Result<DiskFile> {
    sweep(&**disk, path);
    let mut file = DiskFile::create_new(disk, &name(path))?;
    for _ in 0..ATTEMPTS {
        // A sweep may have come between the creation and the lock.
        let is_locked = flock(file.file(), FlockOperation::NonBlockingLockExclusive);
        let is_there = file.file().metadata().is_ok_and(|meta| meta.nlink() > 0);
        let is_swept = is_locked == Err(rustix::io::Errno::WOULDBLOCK) || !is_there;
        if !is_swept {
            break;
        }
        file = DiskFile::create_new(disk, &name(path))?;
    }
    Ok(file)
}

/// `.NAME.0123456789abcdef.tmp`, beside it.
fn name(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{:016x}.tmp", ambient::random()))
}

/// Takes away what dead writers left. Failing costs only space.
fn sweep(disk: &dyn Disk, path: &Path) {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let Ok(listed) = std::fs::read_dir(folder.unwrap_or(Path::new("."))) else { return };
    for entry in listed.filter_map(std::result::Result::ok) {
        if is_for(path, &entry.file_name()) && is_left(&entry.path()) {
            let _ = unlink(disk, &entry.path());
        }
    }
}

fn is_for(path: &Path, found: &OsStr) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let rest = found.as_bytes().strip_prefix(b".");
    let rest = rest.and_then(|rest| rest.strip_prefix(name.as_bytes())?.strip_prefix(b"."));
    let digits = rest.and_then(|rest| rest.strip_suffix(b".tmp"));
    let is_digit = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
    digits.is_some_and(|digits| digits.len() == DIGITS && digits.iter().all(is_digit))
}

/// Whether a file is one of this user's, as we make them, and has no writer.
fn is_left(path: &Path) -> bool {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let open = || -> std::io::Result<File> {
        #[allow(clippy::disallowed_methods, reason = "no database has such a name")]
        OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path)
    };
    let Ok(file) = open() else { return false };
    let ours = file.metadata().is_ok_and(|meta| {
        meta.is_file()
            && meta.mode() & 0o777 == 0o600
            && meta.nlink() == 1
            && meta.uid() == rustix::process::geteuid().as_raw()
    });
    ours && flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::disk::RealDisk;

    fn disk() -> Arc<dyn Disk> {
        Arc::new(RealDisk)
    }

    fn names(folder: &Path) -> Vec<String> {
        let listed = std::fs::read_dir(folder).unwrap();
        let mut names: Vec<String> =
            listed.map(|one| one.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn what_a_dead_writer_left_goes_and_that_of_a_living_one_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.rappel");
        let left = begin(&disk(), &path).unwrap();
        let left_at = left.path().to_owned();
        let living = begin(&disk(), &path).unwrap();
        assert!(left_at.exists(), "its writer lives");
        drop(left);
        let next = begin(&disk(), &path).unwrap();
        assert!(!left_at.exists());
        assert!(living.path().exists() && next.path().exists());
    }

    #[test]
    fn nothing_else_is_touched() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.rappel");
        let hex = "0123456789abcdef";
        let theirs = [
            format!(".y.rappel.{hex}.tmp"),
            format!(".x.rappel.{}.tmp", &hex[1..]),
            format!(".x.rappel.{hex}.bak"),
            format!("x.rappel.{hex}.tmp"),
            ".x.rappel.0123456789ABCDEF.tmp".to_owned(),
        ];
        for name in &theirs {
            std::fs::write(folder.path().join(name), "mine").unwrap();
            let private = std::fs::Permissions::from_mode(0o600);
            std::fs::set_permissions(folder.path().join(name), private).unwrap();
        }
        // A name like ours, but readable by others: we make none like that.
        let open = folder.path().join(format!(".x.rappel.{hex}.tmp"));
        std::fs::write(&open, "mine").unwrap();
        std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o644)).unwrap();
        drop(begin(&disk(), &path).unwrap());
        let kept = names(folder.path());
        assert!(theirs.iter().all(|name| kept.contains(name)) && open.exists(), "{kept:?}");
    }
}
