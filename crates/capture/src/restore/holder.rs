//! A folder that may hold contents that are to be written elsewhere. Where the file system shares
//! blocks between files (btrfs, XFS), a clone takes no space and nothing has to be decompressed.
//!
//! What lies in the folder is believed only after the clone was read and hashed: somebody may write
//! to the file meanwhile, but not to the clone.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rappel_store::beneath::{NewFile, Root};
use rappel_store::content;
use rappel_store::disk::Disk;
use rappel_types::{Content, RelPath};

use super::error::Result;

/// The folder.
#[derive(Debug)]
pub(super) struct Holder {
    root: Root,
    /// The file system has shown that it cannot clone.
    is_unable: AtomicBool,
}

impl Holder {
    /// Opens it; nothing if that is not possible, because nobody depends on it.
    pub fn open(folder: &Path, disk: &Arc<dyn Disk>) -> Option<Self> {
        let root = Root::open(folder, disk.clone()).ok()?;
        Some(Self { root, is_unable: AtomicBool::new(false) })
    }

    /// Fills an empty file with a clone of what stands at `path`, if that is the content that is
    /// wanted. Otherwise the file is empty.
    pub fn clone_to(
        &self,
        file: &mut NewFile,
        path: &RelPath,
        wanted: &Content,
        size: u64,
    ) -> Result<bool> {
        if self.is_unable.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let Ok(held) = self.root.open_file(path) else { return Ok(false) };
        if held.metadata().map_or(0, |found| found.len()) != size {
            return Ok(false);
        }
        if file.clone_from(&held).is_err() {
            self.is_unable.store(true, Ordering::Relaxed);
            return Ok(false);
        }
        let cloned = content::identify(&mut file.file(), size);
        let is_wanted = cloned.is_ok_and(|(content, found)| content == *wanted && found == size);
        if !is_wanted {
            file.empty()?;
        }
        Ok(is_wanted)
    }
}
