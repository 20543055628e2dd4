//! Where captured bytes go, and where stored bytes come from.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use rappel_types::ObjectId;

use crate::error::{Error, Result};

/// What an object is, as far as whoever stores it must know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Bytes of a file, whole or a chunk of it.
    Content,
    /// Bytes of something so large that room counts for more than time.
    Bulk,
    /// A list of chunks or a node of a tree: what a plan has to read again.
    Structure,
}

/// Something objects can be read from. What it returns has been checked against the id.
pub trait Source: Sync {
    /// The bytes of an object.
    fn get(&self, id: &ObjectId) -> Result<Arc<[u8]>>;
}

/// Something objects can be put into.
pub trait Sink: Source {
    /// Takes an object and returns its id. `base` is an object with similar content, against which
    /// it may be stored; it may be missing by now.
    fn put(&self, role: Role, bytes: &[u8], base: Option<&ObjectId>) -> Result<ObjectId>;

    /// The same for bytes that are hardly there already: that they are may be found out only when they are packed.
    fn put_new(&self, role: Role, bytes: &[u8]) -> Result<ObjectId> {
        self.put(role, bytes, None)
    }

    /// Notes an object of an earlier checkpoint that something put here refers to: it and all that
    /// it refers to must still be there at the commit.
    fn refer(&self, _id: &ObjectId) {}
}

/// The id of some bytes.
pub fn id_of(bytes: &[u8]) -> ObjectId {
    ObjectId(*blake3::hash(bytes).as_bytes())
}

/// A sink that keeps structure in memory and content not at all: a dry run's.
pub struct Scratch<'a> {
    below: &'a dyn Source,
    kept: Mutex<HashMap<ObjectId, Arc<[u8]>>>,
}

impl<'a> Scratch<'a> {
    /// A scratch pad over `below`, which is asked for what the pad does not hold.
    pub fn over(below: &'a dyn Source) -> Self {
        Self { below, kept: Mutex::default() }
    }
}

impl Source for Scratch<'_> {
    fn get(&self, id: &ObjectId) -> Result<Arc<[u8]>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner).get(id).cloned();
        kept.map_or_else(|| self.below.get(id), Ok)
    }
}

impl Sink for Scratch<'_> {
    fn put(&self, role: Role, bytes: &[u8], _base: Option<&ObjectId>) -> Result<ObjectId> {
        let id = id_of(bytes);
        if role == Role::Structure {
            self.kept.lock().unwrap_or_else(PoisonError::into_inner).insert(id, bytes.into());
        }
        Ok(id)
    }
}

/// A source of nothing, for tests and for walking a tree that must be complete by itself.
#[derive(Debug, Clone, Copy, Default)]
pub struct Nothing;

impl Source for Nothing {
    fn get(&self, id: &ObjectId) -> Result<Arc<[u8]>> {
        Err(Error::Missing(*id))
    }
}
