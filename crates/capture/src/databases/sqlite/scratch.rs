//! Files that a restore puts together before they count, each by one restore at a time.
//!
//! Their names follow from the database, so that what a crash leaves is found again; two restores of
//! one database want the same names. Whoever works on such a file holds a lock on it, which ends
//! with its process: a file that can be locked is what a crash left.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use rappel_store::beneath::{Identity, Kind, Meta, Root};
use rappel_types::RelPath;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::databases::{Error, Result};

/// Where such a file has its place.
#[derive(Debug, Clone)]
pub(super) struct Spot {
    pub root: Arc<Root>,
    pub path: RelPath,
}

/// Such a file that this restore works on. It is gone with this, unless it got another name.
#[derive(Debug)]
pub(super) struct Scratch<F> {
    spot: Spot,
    identity: Identity,
    pub file: F,
}

impl Spot {
    /// Removes what a crash left. `false` if it is none: somebody works on it, or it is no file.
    pub fn clear(&self) -> Result<bool> {
        match self.root.stat(&self.path)? {
            None => return Ok(true),
            Some(meta) if meta.kind != Kind::File => return Ok(false),
            Some(_) => {}
        }
        let file = match self.root.open_file(&self.path) {
            Err(_) if self.root.stat(&self.path)?.is_none() => return Ok(true),
            other => other?,
        };
        if !self.lock(&file)? {
            return Ok(false);
        }
        // It may have been placed, or removed, before it was locked.
        if self.is(self.identity(&file)?)? {
            self.root.unlink(&self.path)?;
        }
        Ok(true)
    }

    /// Begins a file there, which `create` makes and `handle` shows.
    pub fn begin<F>(
        self,
        create: impl FnOnce(&Self) -> rappel_store::Result<F>,
        handle: impl Fn(&F) -> &File,
    ) -> Result<Scratch<F>> {
        if !self.clear()? {
            return Err(self.busy());
        }
        let file = match create(&self) {
            Err(_) if self.root.stat(&self.path)?.is_some() => return Err(self.busy()),
            other => other?,
        };
        let identity = self.identity(handle(&file))?;
        // Whoever came between takes it for what a crash left, and has the turn.
        if !self.lock(handle(&file))? || !self.is(identity)? {
            return Err(self.busy());
        }
        Ok(Scratch { spot: self, identity, file })
    }

    fn lock(&self, file: &File) -> Result<bool> {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(true),
            Err(Errno::WOULDBLOCK) => Ok(false),
            Err(error) => Err(self.failed("lock", &error.into())),
        }
    }

    fn identity(&self, file: &File) -> Result<Identity> {
        Ok(Meta::of(file).map_err(|error| self.failed("look at", &error))?.identity)
    }

    fn is(&self, identity: Identity) -> Result<bool> {
        Ok(self.root.stat(&self.path)?.is_some_and(|meta| meta.identity == identity))
    }

    fn failed(&self, what: &str, error: &std::io::Error) -> Error {
        let shown = self.root.display(Some(&self.path));
        Error::Unavailable(format!("cannot {what} {}: {error}", shown.display()))
    }

    fn busy(&self) -> Error {
        let shown = self.root.display(Some(&self.path));
        Error::Busy(format!("another restore of the same database uses {}", shown.display()))
    }
}

impl<F> Scratch<F> {
    /// Gives it its name, where nothing may stand yet. `shown` is what people call that.
    pub fn place(self, path: &RelPath, shown: &Path) -> Result<()> {
        let Spot { root, path: here } = &self.spot;
        if !self.spot.is(self.identity)? {
            return Err(Error::Conflict(format!(
                "{} was replaced or removed by another program; {} is left as it was",
                root.display(Some(here)).display(),
                shown.display()
            )));
        }
        root.rename_noreplace(here, path)?;
        root.sync_dir(path.parent().as_ref())?;
        match root.stat(path)? {
            Some(meta) if meta.identity == self.identity => Ok(()),
            _ => Err(Error::Unknown(format!(
                "{} was put there, and is another file now: another program replaced or removed it",
                shown.display()
            ))),
        }
    }
}

impl<F> Drop for Scratch<F> {
    fn drop(&mut self) {
        // Still locked. What cannot be removed now is cleared by the next restore.
        if self.spot.is(self.identity).is_ok_and(|there| there) {
            let _ = self.spot.root.unlink(&self.spot.path);
        }
    }
}
