//! Files that are read before anything else, because something is about to change them.
//!
//! A hook captures the workspace before an editor's call, and the agent may not wait for the end of
//! that. What the call is about to change is known by name, so it is read before the walk begins. The
//! scan then takes these bytes for what stands at those paths, whatever stands there by then.
//!
//! Not guaranteed: that a file comes into the checkpoint which is gone by the time of the walk, or
//! which is larger than [`LARGEST`].

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use rappel_store::held::HELD;
use rappel_types::RelPath;
use rustix::io::Errno;

use super::databases;
use super::handle::Root;
use super::stamp::{Kind, Stamp};
use crate::error::Result;

/// A larger file is read when its turn comes.
const LARGEST: u64 = 8 << 20;
/// How many paths are read first.
const MOST: usize = 64;
/// How often a file is read before it counts as one that does not stand still.
const TRIES: usize = 3;

/// What stood at some paths before a scan.
#[derive(Debug, Default)]
pub struct First(BTreeMap<Vec<u8>, Before>);

/// What stood at one of them.
#[derive(Debug)]
pub(crate) enum Before {
    /// Nothing.
    Absent,
    /// A file with these bytes.
    File { stamp: Stamp, bytes: Vec<u8> },
}

impl First {
    /// Reads these paths below `root`. What is no ordinary file is left to the scan.
    pub fn read(root: &Path, paths: &[RelPath]) -> Result<Self> {
        if paths.is_empty() {
            return Ok(Self::default());
        }
        let root = Root::open(root)?;
        let read = paths.iter().take(MOST).filter_map(|path| {
            let path = path.as_bytes();
            Some((path.to_vec(), read(&root, path)?))
        });
        Ok(Self(read.collect()))
    }

    /// What stood at a path.
    pub(crate) fn at(&self, path: &[u8]) -> Option<&Before> {
        self.0.get(path)
    }
}

fn read(root: &Root, path: &[u8]) -> Option<Before> {
    for _ in 0..TRIES {
        let file = match root.open_file(path) {
            Ok(file) => file,
            Err(Errno::NOENT | Errno::NOTDIR) => return Some(Before::Absent),
            Err(HELD | _) => return None,
        };
        let stamp = Stamp::of(&rustix::fs::fstat(&file).ok()?);
        let is_taken = stamp.kind() == Kind::File && stamp.size <= LARGEST;
        if !is_taken || databases::is_one(root, path, &file) {
            return None;
        }
        let mut bytes = Vec::with_capacity(stamp.size as usize);
        (&*file).take(LARGEST).read_to_end(&mut bytes).ok()?;
        let stands = Stamp::of(&rustix::fs::fstat(&file).ok()?) == stamp;
        if stands && bytes.len() as u64 == stamp.size {
            return Some(Before::File { stamp, bytes });
        }
    }
    None
}
