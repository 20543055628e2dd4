//! What git's index tracks: names only.

use std::path::Path;

use gix_index::entry::Mode;
use gix_index::hash::Kind;

use super::consulted::{Reader, open_regular};

/// The paths of one index.
pub(crate) struct Tracked {
    state: Option<gix_index::File>,
    digest: [u8; 32],
}

/// What the index says of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    /// Nothing.
    Unknown,
    /// It is tracked itself.
    File,
    /// It is a submodule.
    Submodule,
    /// Something below it is tracked.
    Folder,
}

impl Tracked {
    /// Reads the index at `path`; none is an empty one. The error is for people.
    pub fn load(path: &Path, sha256: bool, reader: &mut Reader) -> Result<Self, String> {
        let kind = if sha256 { Kind::Sha256 } else { Kind::Sha1 };
        let empty = Self { state: None, digest: *blake3::hash(b"").as_bytes() };
        if reader.note(path, false).is_none() {
            return Ok(empty);
        }
        if let Err(error) = open_regular(path) {
            return match error.kind() {
                std::io::ErrorKind::NotFound => Ok(empty),
                _ => Err(format!("git's index cannot be read: {error}")),
            };
        }
        // The checksum is not verified: git does not either, and it costs more than all the rest.
        match gix_index::File::at(path, kind, true, gix_index::decode::Options::default()) {
            Ok(state) => {
                // A split index names its other half by hash, so the first file's stamp covers both.
                let digest = digest(&state);
                Ok(Self { state: Some(state), digest })
            }
            Err(_) if reader.note(path, false).is_none() => Ok(empty),
            Err(error) => Err(format!("git's index cannot be read: {error}")),
        }
    }

    /// A hash of everything that [`Tracked::status`] depends on.
    pub fn digest(&self) -> &[u8; 32] {
        &self.digest
    }

    /// What the index says of `path`, which is relative to the repository's root.
    pub fn status(&self, path: &[u8]) -> Status {
        let Some(state) = &self.state else { return Status::Unknown };
        let entries = state.entries();
        let at = entries.partition_point(|entry| &**entry.path(state) < path);
        match entries.get(at) {
            Some(entry) if **entry.path(state) == *path => {
                return if entry.mode == Mode::COMMIT { Status::Submodule } else { Status::File };
            }
            _ => {}
        }
        let below = [path, b"/"].concat();
        let at = at + entries[at..].partition_point(|entry| *entry.path(state) < *below);
        match entries.get(at) {
            Some(entry) if entry.path(state).starts_with(&below) => Status::Folder,
            _ => Status::Unknown,
        }
    }
}

impl std::fmt::Debug for Tracked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tracked").finish_non_exhaustive()
    }
}

fn digest(state: &gix_index::File) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    let mut batch = Vec::with_capacity(64 << 10);
    for entry in state.entries() {
        batch.extend_from_slice(entry.path(state));
        batch.push(u8::from(entry.mode == Mode::COMMIT));
        batch.push(0);
        if batch.len() > 60 << 10 {
            hasher.update(&batch);
            batch.clear();
        }
    }
    *hasher.update(&batch).finalize().as_bytes()
}
