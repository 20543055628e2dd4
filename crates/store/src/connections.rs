//! The connections to the index that the operations of a process share: one that writes, and a few
//! that only read.
//!
//! A process that does one thing and ends has the writing connection alone, and reads by it too. In
//! a process that lives, readers take a connection of their own, so none waits for another's
//! question or for a run that is being taken in. SQLite's write-ahead log lets them read meanwhile.

use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::error::{Error, Result};
use crate::index::{self, Index};
use crate::store::held;

/// How the operations of a process reach the index.
pub(crate) struct Connections {
    writing: Mutex<Index>,
    /// How often another index has taken the place of the one before.
    incarnation: AtomicU64,
    /// Whether one is just being filled; only ever set under the append lock.
    pub renewing: AtomicBool,
    /// How many connections may read beside the writing one. With none, that one reads too, and is
    /// used by one operation alone.
    most: usize,
    path: PathBuf,
    readers: Mutex<Readers>,
    returned: Condvar,
}

struct Readers {
    idle: Vec<Index>,
    /// How many there are, idle or in use.
    open: usize,
    /// The incarnation that the idle ones belong to.
    incarnation: u64,
    /// Which file the writing connection is to.
    identity: Option<String>,
}

/// A connection for one question.
pub(crate) enum Connection<'a> {
    /// The one that writes.
    Writing(MutexGuard<'a, Index>),
    /// One that reads.
    Reading { of: &'a Connections, incarnation: u64, index: Box<Option<Index>> },
}

impl Connections {
    /// Shares `writing`, and opens up to `most` further ones when they are needed.
    pub fn new(writing: Index, most: usize) -> Self {
        let identity = writing.identity().map(str::to_owned);
        let readers = Readers { idle: Vec::new(), open: 0, incarnation: 0, identity };
        Self {
            path: writing.path().to_owned(),
            writing: Mutex::new(writing),
            incarnation: AtomicU64::new(0),
            renewing: AtomicBool::new(false),
            most,
            readers: Mutex::new(readers),
            returned: Condvar::new(),
        }
    }

    /// How often the index was replaced.
    pub fn incarnation(&self) -> u64 {
        self.incarnation.load(Ordering::Acquire)
    }

    /// The writing connection, with what it keeps in memory as the database is now.
    pub fn writing(&self) -> Result<Connection<'_>> {
        let mut index = held(&self.writing);
        if index.is_broken_off() {
            index.end_broken_off()?;
        }
        // An operation that has the connection to itself says when it wants to know more.
        if self.most > 0 {
            index.reload()?;
        }
        Ok(Connection::Writing(index))
    }

    /// A connection to read by. Waits if all are in use.
    pub fn reading(&self) -> Result<Connection<'_>> {
        if self.most == 0 {
            return self.writing();
        }
        let mut connection = self.take()?;
        connection.reload()?;
        Ok(connection)
    }

    fn take(&self) -> Result<Connection<'_>> {
        let mut readers = held(&self.readers);
        loop {
            let incarnation = readers.incarnation;
            if let Some(index) = readers.idle.pop() {
                return Ok(Connection::Reading {
                    of: self,
                    incarnation,
                    index: Box::new(Some(index)),
                });
            }
            if readers.open < self.most {
                readers.open += 1;
                drop(readers);
                // Whatever happens from here on, dropping it gives the place back.
                let mut connection =
                    Connection::Reading { of: self, incarnation, index: Box::default() };
                let opened = self.open_another()?;
                if let Connection::Reading { index, .. } = &mut connection {
                    **index = Some(opened);
                }
                return Ok(connection);
            }
            readers = self.returned.wait(readers).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Opens another connection to the same index as the writing one. It fails as a spoilt index
    /// does if that index is not there any more.
    fn open_another(&self) -> Result<Index> {
        let opened = match self.path.is_file() {
            true => Index::open_to_read(&self.path)?,
            false => None,
        };
        let identity = held(&self.readers).identity.clone();
        let same = opened.filter(|index| index.identity() == identity.as_deref());
        same.ok_or_else(|| replaced(&self.path))
    }

    /// Puts another index in the place of the present one.
    pub fn replace(&self, other: impl FnOnce(&Index) -> Result<Index>) -> Result<()> {
        let mut writing = held(&self.writing);
        *writing = other(&writing)?;
        let incarnation = self.incarnation.fetch_add(1, Ordering::AcqRel) + 1;
        let mut readers = held(&self.readers);
        let idle = std::mem::take(&mut readers.idle);
        readers.open -= idle.len();
        readers.incarnation = incarnation;
        readers.identity = writing.identity().map(str::to_owned);
        drop((readers, writing, idle));
        self.returned.notify_all();
        Ok(())
    }

    /// Whether another process has put another index in the place of this one, or removed it.
    pub fn was_replaced(&self) -> bool {
        let identity = held(&self.readers).identity.clone();
        identity.is_some_and(|identity| !index::is_at(&identity, &self.path))
    }

    fn give_back(&self, index: Option<Index>, incarnation: u64) {
        let mut readers = held(&self.readers);
        match index.filter(|index| !index.is_broken_off() && incarnation == readers.incarnation) {
            Some(index) => readers.idle.push(index),
            None => readers.open -= 1,
        }
        drop(readers);
        self.returned.notify_one();
    }
}

/// What a connection fails with whose index is not there any more.
pub(crate) fn replaced(path: &Path) -> Error {
    let failure = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_NOTADB);
    let text = Some("another index has taken its place".to_owned());
    let source = rusqlite::Error::SqliteFailure(failure, text);
    Error::Index { path: path.to_owned(), source }
}

impl Deref for Connection<'_> {
    type Target = Index;

    fn deref(&self) -> &Index {
        match self {
            Self::Writing(index) => index,
            Self::Reading { index, .. } => {
                (**index).as_ref().expect("a connection is there until it is given back")
            }
        }
    }
}

impl DerefMut for Connection<'_> {
    fn deref_mut(&mut self) -> &mut Index {
        match self {
            Self::Writing(index) => index,
            Self::Reading { index, .. } => {
                (**index).as_mut().expect("a connection is there until it is given back")
            }
        }
    }
}

impl Drop for Connection<'_> {
    fn drop(&mut self) {
        if let Self::Reading { of, incarnation, index } = self {
            of.give_back(index.take(), *incarnation);
        }
    }
}
