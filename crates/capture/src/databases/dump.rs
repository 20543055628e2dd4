//! Storing dumps.
use std::io::{Read, Write};

use rappel_store::sink::{Sink, Source};
use rappel_types::ObjectId;
use rappel_types::database::Digest;

use super::Result;

/// A dump.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// Its tree.
    pub tree: ObjectId,
    /// The hash of its bytes.
    pub digest: Digest,
    /// How many bytes it has.
    pub bytes: u64,
}
impl Stored {
    /// The dump that a checkpoint holds.
    pub fn of(part: &rappel_types::database::DatabasePart) -> Self {
        Self { tree: part.tree, digest: part.digest.clone(), bytes: part.bytes }
    }
}
/// Stores.
pub fn store(_: &dyn Sink, _: &mut (dyn Read + Send), _: Option<&Stored>) -> Result<Stored> {
    todo!()
}
/// Writes.
pub fn write_to(_: &dyn Source, _: &Stored, _: &mut dyn Write) -> Result<()> {
    todo!()
}
