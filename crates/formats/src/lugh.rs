//! The form of Lugh: a folder for each checkpoint, with `checkpoint.json`, a dump of the database, a
//! git bundle, an archive of the work trees, the agents' states and an index of the knowledge; and
//! the link `latest`.
//!
//! The seed shows the layout and how it is written. What we add stands under keys that the seed does not have: a
//! reader that goes by the seed alone finds what it expects. `docs/formats.md` lists every key.

mod archive;
mod document;
mod read;
mod write;

use std::path::Path;

use rappel_types::CheckpointId;

pub use read::read;
pub use write::{write, write_on};

/// The document of a checkpoint.
pub(crate) const DOCUMENT: &str = "checkpoint.json";
/// The dump of the first PostgreSQL database.
const SNAPSHOT: &str = "db_snapshot.sql";
const BUNDLE: &str = "git_bundle.bundle";
const ARCHIVE: &str = "worktrees.tar.gz";
const AGENTS: &str = "agent_states.json";
const KNOWLEDGE: &str = "knowledge_index.json";
/// The link to the newest checkpoint.
const LATEST: &str = "latest";
/// The version of what we add to the form.
pub(crate) const VERSION: u64 = 1;

/// Whether what lies here is of this form: one checkpoint's folder, or the folder of all.
pub fn is_here(path: &Path) -> bool {
    let is_one = |folder: &Path| {
        let found = folder.join(DOCUMENT).symlink_metadata();
        found.is_ok_and(|meta| meta.is_file())
    };
    if is_one(path) {
        return true;
    }
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .any(|entry| entry.file_name().to_str().is_some_and(is_id) && is_one(&entry.path()))
}

/// Whether a checkpoint may be called so: its folder has this name.
fn is_id(text: &str) -> bool {
    text.parse::<CheckpointId>().is_ok() && text != LATEST
}
