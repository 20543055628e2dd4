//! A folder of the home for what an import has to unpack. It goes with the import; what a killed one
//! left goes with the next import or gc.

use std::path::{Path, PathBuf};

use rappel_store::ambient;
use rappel_store::home::Home;
use rappel_store::lock::Turn;

use crate::error::{Error, Result};
use crate::rappel::Rappel;

/// See the module.
pub(super) struct Scratch {
    folder: PathBuf,
    inside: PathBuf,
    /// Says that somebody is at work here.
    _turn: Turn,
}

impl Scratch {
    /// An empty folder.
    pub fn new(home: &Home) -> Result<Self> {
        let all = home.importing();
        private(&all)?;
        sweep(&all);
        loop {
            let folder = all.join(format!("{:016x}", ambient::random()));
            private(&folder)?;
            // A sweep of another process may have come between; then this one tries again.
            let Ok(Some(turn)) = Turn::take(&folder.join("lock")) else { continue };
            let inside = folder.join("files");
            if folder.join("lock").exists() && private(&inside).is_ok() {
                return Ok(Self { folder, inside, _turn: turn });
            }
        }
    }

    /// Where to unpack.
    pub fn path(&self) -> &Path {
        &self.inside
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What stays goes with the next import.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Rappel {
    /// Removes what killed imports left.
    pub(crate) fn sweep_imports(&self) {
        sweep(&self.store.home().importing());
    }
}

fn sweep(all: &Path) {
    let Ok(entries) = std::fs::read_dir(all) else { return };
    for folder in entries.flatten().map(|entry| entry.path()) {
        // Whoever is at work holds the lock; the kernel lets go of a dead process's.
        if let Ok(Some(_turn)) = Turn::take(&folder.join("lock")) {
            let _ = std::fs::remove_dir_all(&folder);
        }
    }
}

/// Makes a folder that only its owner may enter.
fn private(folder: &Path) -> Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(Error::io("create", folder))
}
