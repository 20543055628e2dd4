//! The one place that opens files of a workspace, and the list of the databases that this process
//! holds under SQLite's locks.
//!
//! SQLite locks a file with POSIX record locks. A process loses all of its record locks on a file
//! as soon as it closes *any* handle of that file, even one that only read a few bytes. Then other
//! processes write to a database that a restore believes to be its own. So:
//!
//! - Before a connection is opened, a [`Hold`] puts the database on the list.
//! - Every other file is opened as a [`Handle`]. A held file is refused ([`HELD`]).
//! - A handle of a held file is not closed but given to the hold, which closes it when the
//!   connection is gone. So neither a refused handle nor an older one takes a lock away.
//!
//! The list is asked after a file was opened, when it is certain which file it is: a look before
//! could see another file than the one that is opened next. `clippy.toml` of the crates that read
//! workspaces forbids every other way to open a file.
//!
//! Not guaranteed: SQLite's handles are not on the list. SQLite itself keeps count of its own.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard};

use rustix::io::Errno;

use crate::beneath::{Identity, Meta};

/// What opening a held file fails with. No file system refuses to open a file for reading so.
pub const HELD: Errno = Errno::TXTBSY;
/// The same in words.
pub const REFUSED: &str = "it is a database that a restore of this process holds";

static HOLDS: RwLock<Vec<Entry>> = RwLock::new(Vec::new());

/// A database on the list.
#[derive(Debug)]
struct Entry {
    number: u64,
    /// Which file it was when it was put on the list, whatever stands at its name later.
    identity: Option<Identity>,
    /// The files that SQLite locks: the database, and the index of its write-ahead log.
    names: [PathBuf; 2],
    /// Handles that others were done with.
    late: Mutex<Vec<File>>,
}

impl Entry {
    fn is(&self, file: Identity) -> bool {
        // SQLite makes and removes the index as it likes, so each name is looked up now.
        self.identity == Some(file) || self.names.iter().any(|name| identity_at(name) == Some(file))
    }
}

fn identity_at(path: &Path) -> Option<Identity> {
    rustix::fs::stat(path).ok().map(|stat| Meta::from(&stat).identity)
}

/// A database that this process has a connection to. Made before the connection, dropped after it.
#[derive(Debug)]
pub struct Hold {
    number: u64,
}

impl Hold {
    /// Puts the database at `path` on the list.
    pub fn of(path: &Path) -> Self {
        let mut index = OsString::from(path);
        index.push("-shm");
        let mut holds = HOLDS.write().unwrap_or_else(PoisonError::into_inner);
        let number = holds.last().map_or(0, |last| last.number + 1);
        holds.push(Entry {
            number,
            identity: identity_at(path),
            names: [path.to_owned(), index.into()],
            late: Mutex::default(),
        });
        Self { number }
    }

    /// Opens a file as the holder, who keeps it away from all others.
    pub fn open(&self, options: &OpenOptions, path: &Path) -> io::Result<Handle> {
        Ok(Handle(Some(options.open(path)?)))
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut holds = HOLDS.write().unwrap_or_else(PoisonError::into_inner);
        let Some(at) = holds.iter().position(|entry| entry.number == self.number) else { return };
        let entry = holds.remove(at);
        drop(holds);
        // Another hold of the same database may still need them open.
        for file in entry.late.into_inner().unwrap_or_else(PoisonError::into_inner) {
            close(file);
        }
    }
}

/// A file that is open, and that takes no lock of SQLite's away when it is closed.
#[derive(Debug)]
pub struct Handle(Option<File>);

impl Handle {
    /// Takes over a file that was just opened, unless it is held.
    pub fn new(file: impl Into<File>) -> Result<Self, Errno> {
        // One that is refused goes to its hold when it is dropped here.
        let handle = Self(Some(file.into()));
        let is_held = find(&list(), &handle).is_some();
        if is_held { Err(HELD) } else { Ok(handle) }
    }

    /// Opens a file with these options, unless it is held.
    pub fn open(options: &OpenOptions, path: &Path) -> io::Result<Self> {
        let refused = |_| io::Error::new(io::ErrorKind::ResourceBusy, REFUSED);
        Self::new(options.open(path)?).map_err(refused)
    }
}

impl Deref for Handle {
    type Target = File;

    fn deref(&self) -> &File {
        self.0.as_ref().expect("a handle has its file until it is dropped")
    }
}

impl AsFd for Handle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        File::as_fd(self)
    }
}

impl Read for Handle {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&**self).read(buffer)
    }

    fn read_to_end(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        (&**self).read_to_end(buffer)
    }

    fn read_to_string(&mut self, buffer: &mut String) -> io::Result<usize> {
        (&**self).read_to_string(buffer)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if let Some(file) = self.0.take() {
            close(file);
        }
    }
}

fn list() -> RwLockReadGuard<'static, Vec<Entry>> {
    HOLDS.read().unwrap_or_else(PoisonError::into_inner)
}

fn find<'a>(holds: &'a [Entry], file: &File) -> Option<&'a Entry> {
    // In most processes nothing is ever held; those need not look at the file.
    let identity = if holds.is_empty() { None } else { Meta::of(file).ok() }?.identity;
    holds.iter().find(|entry| entry.is(identity))
}

/// Closes a file, or hands it to its hold. No hold begins between the question and the end of it.
fn close(file: File) {
    let holds = list();
    match find(&holds, &file) {
        Some(entry) => entry.late.lock().unwrap_or_else(PoisonError::into_inner).push(file),
        None => drop(file),
    }
}

/// Opens a file to read it, unless it is held.
pub fn open(path: impl AsRef<Path>) -> io::Result<Handle> {
    Handle::open(File::options().read(true), path.as_ref())
}

/// Reads a file, unless it is held.
pub fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads a text, unless it is held.
pub fn read_to_string(path: impl AsRef<Path>) -> io::Result<String> {
    let mut text = String::new();
    open(path)?.read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_held_file_is_opened_by_its_holder_only_whatever_it_is_called() {
        let folder = tempfile::tempdir().unwrap();
        let [database, index, link, other] =
            ["x.db", "x.db-shm", "link", "other"].map(|name| folder.path().join(name));
        std::fs::write(&database, "1").unwrap();
        std::fs::write(&other, "2").unwrap();
        std::fs::hard_link(&database, &link).unwrap();

        let hold = Hold::of(&database);
        std::fs::write(&index, "3").unwrap();
        for path in [&database, &link, &index] {
            let error = read(path).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::ResourceBusy, "{}", path.display());
        }
        assert_eq!(read(&other).unwrap(), b"2");
        assert!(hold.open(File::options().read(true), &database).is_ok());

        let again = Hold::of(&database);
        drop(hold);
        assert!(read(&link).is_err(), "each hold counts");
        std::fs::rename(&database, folder.path().join("moved")).unwrap();
        assert!(read(&link).is_err(), "a hold is of a file, not of a name");
        drop(again);
        assert_eq!(read(&link).unwrap(), b"1");
    }

    #[test]
    fn a_handle_of_a_held_file_is_closed_with_the_hold() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("x.db");
        std::fs::write(&database, "1").unwrap();
        let number = identity_at(&database).unwrap();
        let open_handles = || {
            let handles = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
            handles.filter(|handle| identity_at(&handle.path()) == Some(number)).count()
        };
        let older = open(&database).unwrap();
        let (hold, another) = (Hold::of(&database), Hold::of(&database));
        drop(older);
        drop(hold.open(File::options().read(true), &database).unwrap());
        drop(read(&database).unwrap_err());
        assert_eq!(open_handles(), 3);
        drop(hold);
        assert_eq!(open_handles(), 3, "the other hold needs them as well");
        drop(another);
        assert_eq!(open_handles(), 0);
    }
}
