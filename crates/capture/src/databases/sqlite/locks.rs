//! Locks on ranges of a file, by which SQLite's processes keep out of each other's way.
//!
//! SQLite locks with POSIX record locks, which a process loses when it closes *any* handle of the
//! file. Those taken here belong to the open handle instead and are lost with that handle only; the
//! kernel lets the two kinds exclude each other. Nothing else offers them safely, hence the one
//! unsafe call: `fcntl` with a handle that is open and a structure that lives on the stack.
//!
//! Closing a handle of a database still takes away what SQLite holds on it *in this process*:
//! [`rappel_store::held`] sees to it that none is closed while there is a connection.

#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// A range of a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Range {
    pub start: u64,
    pub length: u64,
}

const fn range(start: u64, length: u64) -> Range {
    Range { start, length }
}

/// Held for writing by whoever waits for readers to go: no new ones may come.
pub(super) const PENDING: Range = range(0x4000_0000, 1);
/// Held by the one that is about to write.
pub(super) const RESERVED: Range = range(0x4000_0001, 1);
/// Held by all readers together, or by the one writer alone.
pub(super) const SHARED: Range = range(0x4000_0002, 510);
/// All of these: nobody but the holder has anything to do with the database.
pub(super) const ALL: Range = range(0x4000_0000, 512);
/// In `-shm`: held by whoever moves pages from the write-ahead log into the database.
pub(super) const CHECKPOINT: Range = range(121, 1);
/// In `-shm`: held by everybody who has the database open.
pub(super) const CONNECTED: Range = range(128, 1);

fn request(kind: libc::c_int, range: Range) -> libc::flock {
    // SAFETY: all fields are numbers, for which zero is valid.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as _;
    lock.l_whence = libc::SEEK_SET as _;
    lock.l_start = range.start as _;
    lock.l_len = range.length as _;
    lock
}

fn set(file: &File, kind: libc::c_int, range: Range) -> io::Result<bool> {
    let lock = request(kind, range);
    // SAFETY: the handle is open, and the kernel only reads the structure.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) } == 0 {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EAGAIN | libc::EACCES) => Ok(false),
        _ => Err(error),
    }
}

/// Takes `range` together with others; `false` if somebody has it alone.
pub(super) fn share(file: &File, range: Range) -> io::Result<bool> {
    set(file, libc::F_RDLCK as _, range)
}

/// Takes `range` alone; `false` if somebody has any of it. The file must be open for writing.
pub(super) fn own(file: &File, range: Range) -> io::Result<bool> {
    set(file, libc::F_WRLCK as _, range)
}

/// Lets go of `range`.
pub(super) fn release(file: &File, range: Range) -> io::Result<()> {
    set(file, libc::F_UNLCK as _, range).map(|_| ())
}

/// Whether somebody else holds any of `range`, in whatever way.
pub(super) fn is_held(file: &File, range: Range) -> io::Result<bool> {
    let mut lock = request(libc::F_WRLCK as _, range);
    // SAFETY: the handle is open, and the structure outlives the call.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &raw mut lock) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(i32::from(lock.l_type) != i32::from(libc::F_UNLCK as i16))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_share_and_a_writer_is_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        let open = || {
            let mut options = File::options();
            options.read(true).write(true).create(true).truncate(false).open(&path).unwrap()
        };
        let (one, two) = (open(), open());
        assert!(share(&one, SHARED).unwrap() && share(&two, SHARED).unwrap());
        assert!(!own(&one, ALL).unwrap());
        assert!(is_held(&one, SHARED).unwrap() && !is_held(&one, PENDING).unwrap());
        release(&two, SHARED).unwrap();
        assert!(own(&one, ALL).unwrap());
        assert!(!share(&two, SHARED).unwrap() && is_held(&two, RESERVED).unwrap());
        drop(open());
        assert!(!share(&two, SHARED).unwrap(), "another handle's end changes nothing");
        drop(one);
        assert!(share(&two, SHARED).unwrap());
    }
}
