//! Files of objects that git cannot read: they make room for what they held, and are kept.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use gix_index::hash::ObjectId as Oid;
use rappel_store::Error as StoreError;
use rappel_store::held;

use super::super::bundles::Known;
use super::super::packs::{fit_together, is_intact};
use super::super::program::Git;
use crate::restore::Result;

/// So often git may fail to pack what can still be read; then the rest is left in the file aside.
const FAILURES: u32 = 64;

/// Where files of objects are kept that git cannot read.
pub(super) struct Aside<'a> {
    pub folder: PathBuf,
    /// How long objects' names are.
    pub width: usize,
    /// How many files were taken.
    pub count: usize,
    pub git: Git<'a>,
    /// What the checkpoints of both sides hold. Asked only before a pack is taken.
    pub held: &'a dyn Fn() -> Vec<Known>,
}

impl Aside<'_> {
    fn take(&mut self, path: &Path) -> Result<()> {
        std::fs::create_dir_all(&self.folder).map_err(StoreError::io("create", &self.folder))?;
        let name = path.strip_prefix(path.ancestors().nth(2).unwrap_or(path)).unwrap_or(path);
        let name: Vec<&[u8]> = name.iter().map(OsStrExt::as_bytes).collect();
        let to = self.folder.join(std::ffi::OsStr::from_bytes(&name.join(&b'-')));
        std::fs::rename(path, &to).map_err(StoreError::io("rename", path))?;
        self.count += 1;
        Ok(())
    }

    /// Folders where objects have to be.
    pub fn take_folders(&mut self, objects: &Path) -> Result<()> {
        for folder in entries(objects).filter(|at| at.file_name().is_some_and(|n| n.len() == 2)) {
            for at in entries(&folder).filter(|at| at.is_dir()) {
                self.take(&at)?;
            }
        }
        self.take_packs(&objects.join("pack"), false)
    }

    /// Loose objects that are there and yet missing.
    pub fn take_loose(&mut self, objects: &Path, missing: &BTreeSet<Oid>) -> Result<()> {
        for oid in missing {
            let hex = oid.to_string();
            let path = objects.join(&hex[..2]).join(&hex[2..]);
            if path.symlink_metadata().is_ok() {
                self.take(&path)?;
            }
        }
        Ok(())
    }

    /// Packs that are not what their indexes say. One that has no index yet may be on its way. If
    /// `all` is set, all of their bytes are read.
    pub fn take_packs(&mut self, folder: &Path, all: bool) -> Result<()> {
        let before = self.count;
        let is_index = |at: &PathBuf| at.extension().is_some_and(|end| end == "idx");
        for index in entries(folder).filter(is_index).collect::<Vec<_>>() {
            let intact = |end: &str| is_intact(&index.with_extension(end), self.width);
            if fit_together(&index, self.width) && (!all || intact("pack") && intact("idx")) {
                continue;
            }
            self.salvage(&index);
            for end in ["pack", "rev", "bitmap", "mtimes", "promisor", "keep", "idx"] {
                let path = index.with_extension(end);
                if path.symlink_metadata().is_ok() {
                    self.take(&path)?;
                }
            }
        }
        let list = folder.join("multi-pack-index");
        if self.count > before && list.symlink_metadata().is_ok() {
            self.take(&list)?;
        }
        Ok(())
    }

    /// Gives git a copy of what is whole in a damaged pack and in no checkpoint.
    fn salvage(&self, index: &Path) {
        if !is_intact(index, self.width) {
            return;
        }
        let held = (self.held)();
        let is_held = |oid: &Oid| held.iter().any(|known| known.find(oid).is_some());
        let unheld: Vec<Oid> =
            names_in(index, self.width).into_iter().filter(|oid| !is_held(oid)).collect();
        self.copy(&unheld, &mut 0);
    }

    /// Copies objects into a pack of their own; where git cannot read one of them, half by half.
    fn copy(&self, objects: &[Oid], failures: &mut u32) {
        if objects.is_empty() || *failures > FAILURES {
            return;
        }
        let input: String = objects.iter().map(|oid| format!("{oid}\n")).collect();
        match self.git.ask(&["pack-objects", "--stdout", "--quiet"], input.as_bytes()) {
            Ok(pack) => drop(self.git.ask(&["index-pack", "--stdin"], &pack)),
            Err(_) => {
                *failures += 1;
                if objects.len() > 1 {
                    let (one, other) = objects.split_at(objects.len() / 2);
                    self.copy(one, failures);
                    self.copy(other, failures);
                }
            }
        }
    }
}

/// The objects that the index of a pack names. One of the first version, which git has not written
/// for long, is not read.
fn names_in(index: &Path, width: usize) -> Vec<Oid> {
    /// Magic, version, and a table of 256 numbers; the last of them is how many objects there are.
    const NAMES: usize = 8 + 1024;
    let bytes = held::read(index).unwrap_or_default();
    let names = || -> Option<&[u8]> {
        let rest = bytes.strip_prefix(b"\xfftOc")?;
        let count = rest.get(NAMES - 8..NAMES - 4)?.iter();
        let count = count.fold(0usize, |sum, byte| sum << 8 | usize::from(*byte));
        bytes.get(NAMES..NAMES + count.checked_mul(width)?)
    };
    let names = names().unwrap_or_default().chunks_exact(width);
    names.filter_map(|name| Oid::try_from(name).ok()).collect()
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path())
}
