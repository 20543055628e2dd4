//! A disk that counts the files that come to be on it.

use std::io;
use std::sync::Arc;

use rappel_store::disk::{Disk, Op};
use rappel_store::operation::{Phase, Progress};

/// A disk that tells how many files were written out to it.
#[derive(Debug)]
pub(super) struct Counted {
    pub disk: Arc<dyn Disk>,
    pub progress: Arc<Progress>,
}

impl Disk for Counted {
    fn gate(&self, op: &Op<'_>) -> io::Result<usize> {
        let passed = self.disk.gate(op)?;
        match op {
            Op::Create(_) | Op::Symlink(_) => self.progress.add(Phase::WritingOut, 1, 0),
            _ => {}
        }
        Ok(passed)
    }
}
