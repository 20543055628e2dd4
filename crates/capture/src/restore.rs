//! Putting a workspace's files back to what a checkpoint holds, without losing anything.
//!
//! The engine calls these in order: it takes the safety checkpoint, compares it with the target
//! ([`rappel_store::tree::diff`]), makes the plan ([`plan::plan_files`]), shows it, and has it
//! carried out ([`apply::apply`]). What a crash left half-done is finished or rolled back by
//! [`recover`]. [`copy_out::restore_to`] writes a whole checkpoint into an empty folder.
//!
//! Nothing here decides while it writes, opens a path except through
//! [`Root`], or removes a file whose content no checkpoint holds.

pub mod apply;
pub mod copy_out;
pub(crate) mod drive;
pub mod error;
mod fold;
#[doc(hidden)]
pub mod fuzz;
mod holder;
pub mod intent;
mod matching;
pub mod outcome;
pub mod plan;
pub mod probe;
mod record;
pub mod recover;
mod stage;
pub(crate) mod steps;
pub(crate) mod writers;

use rappel_store::Cancel;
use rappel_store::beneath::Root;
use rappel_store::operation::Progress;
use rappel_store::sink::Source;
use rappel_types::{CheckpointId, Node, RelPath};

use crate::databases::DatabaseDrive;
use crate::git::State;

pub use apply::{Request, apply};
pub use copy_out::{restore_beside, restore_to};
pub use error::{Error, Result};
pub use intent::{DamagedIntent, Intent, IntentId, Intents, OpenIntent, Phase};
pub use outcome::{Kept, Outcome, Written};
pub use plan::{Scope, Side, plan_files, plan_hash};
pub use probe::{Probe, RootProbe, WithoutProbe};
pub use recover::{finish, rollback, store_aside};
pub use writers::is_open_for_writing;

/// What every restore works with.
#[derive(Clone, Copy)]
pub struct Job<'a> {
    /// The folder that is restored.
    pub root: &'a Root,
    /// Where the content of both checkpoints comes from.
    pub source: &'a dyn Source,
    /// Set when the user wants to stop.
    pub cancel: &'a Cancel,
    /// Told how far it is.
    pub progress: &'a Progress,
    /// The repositories that a checkpoint holds.
    pub states: States<'a>,
    /// The databases that go the same way.
    pub databases: &'a DatabaseDrive,
}

/// Reads the repositories of a checkpoint.
pub type States<'a> = &'a (dyn Fn(&CheckpointId) -> Result<Vec<State>> + Sync);

/// What is told of a restore once everything stands, before its intent is closed: whatever must not
/// be missing when that is gone. If it fails, the restore is taken back.
pub type Record<'a> = &'a mut dyn FnMut(&Outcome) -> rappel_store::Result<()>;

impl Job<'_> {
    pub(crate) fn check_cancelled(&self) -> Result<()> {
        Ok(self.cancel.check()?)
    }

    /// The root must still be where it was: a workspace that was moved or replaced while we work
    /// is not ours to change.
    fn check_root(&self) -> Result<()> {
        if self.root.is_still_there() {
            return Ok(());
        }
        Err(Error::Replaced { root: self.root.path().to_owned() })
    }
}

/// Whether a path is exactly what a checkpoint holds there.
pub(crate) fn is_at(root: &Root, source: &dyn Source, path: &RelPath, node: &Node) -> Result<bool> {
    let Some(meta) = root.stat(path)? else { return Ok(false) };
    matching::matches(root, source, path, &meta, node, matching::Modes::DoNotCount)
}
