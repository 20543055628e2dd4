//! A folder of the home for what an import has to unpack. It goes with the import; what a killed one
//! left goes with the next import or gc.

use std::path::{Path, PathBuf};

use rappel_store::ambient;
use rappel_store::home::Home;
use rappel_store::lock::Turn;

use crate::error::{Error, Result};
use crate::rappel::Rappel;

/// How often a folder is made until it stays.
const ATTEMPTS: usize = 8;

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
        for _ in 1..ATTEMPTS {
            // The sweep of another process may come between; then this one tries again.
            if let Ok(Some(made)) = Self::make(&all) {
                return Ok(made);
            }
        }
        Self::make(&all)?.ok_or_else(|| Error::Usage {
            message: format!("another process keeps removing what is made in {}", all.display()),
            advice: Vec::new(),
        })
    }

    fn make(all: &Path) -> Result<Option<Self>> {
        let folder = all.join(format!("{:016x}", ambient::random()));
        private(&folder)?;
        let Some(turn) = Turn::take(&folder.join("lock"))? else { return Ok(None) };
        if !folder.join("lock").exists() {
            return Ok(None);
        }
        let inside = folder.join("files");
        private(&inside)?;
        Ok(Some(Self { folder, inside, _turn: turn }))
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
