//! How far a restore is, for whoever watches it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rappel_store::disk::{Disk, Op};

/// Counters that a running restore keeps up to date.
#[derive(Debug, Default)]
pub struct RestoreProgress {
    /// Files and links that are to be written; 0 as long as that is not known.
    pub files_to_write: AtomicU64,
    /// Those whose new content has been begun.
    pub files_written: AtomicU64,
    /// Bytes of databases that have been read.
    pub database_bytes: AtomicU64,
}

/// A disk that counts the files that come to be on it.
#[derive(Debug)]
pub(crate) struct Counted {
    pub disk: Arc<dyn Disk>,
    pub progress: Arc<RestoreProgress>,
}

impl Disk for Counted {
    fn gate(&self, op: &Op<'_>) -> io::Result<usize> {
        if matches!(op, Op::Create(_) | Op::Symlink(_)) {
            self.progress.files_written.fetch_add(1, Ordering::Relaxed);
        }
        self.disk.gate(op)
    }
}
