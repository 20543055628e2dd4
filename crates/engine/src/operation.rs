//! What goes along with each opened workspace: how its long work is stopped, and how far it is.
//!
//! The types are the store's ([`rappel_store::operation`]), because every crate below asks and tells
//! them. Here the steps that the store reports become phases.

use rappel_store::operation::{Cancel, Phase, Progress};
use rappel_store::{gc, verify};

use crate::rappel::Rappel;

impl Rappel {
    /// Asked between the steps of long work.
    pub(crate) fn cancel(&self) -> &Cancel {
        &self.options.operation.cancel
    }

    /// Told how far long work is.
    pub(crate) fn progress(&self) -> &Progress {
        &self.options.operation.progress
    }

    /// Watches the store collect garbage, and stops that if it is cancelled.
    pub(crate) fn at_gc(&self, step: gc::Progress) -> rappel_store::Result<()> {
        match step {
            gc::Progress::Reading => self.progress().begin(Phase::ReadingPacks, None),
            gc::Progress::Packs { done, total } => {
                self.progress().begin(Phase::Copying, Some(total as u64));
                self.progress().reach(Phase::Copying, done as u64);
            }
        }
        self.cancel().check()
    }

    /// Watches the store check what it holds, and stops that if it is cancelled.
    pub(crate) fn at_verify(&self, step: verify::Progress) -> rappel_store::Result<()> {
        match step {
            verify::Progress::Reading => {
                self.progress().begin(Phase::ReadingPacks, None);
                self.progress().prepare(Phase::CheckingObjects, None);
            }
            verify::Progress::Objects { done, total } => {
                self.progress().begin(Phase::CheckingObjects, Some(total as u64));
                self.progress().reach(Phase::CheckingObjects, done as u64);
            }
        }
        self.cancel().check()
    }
}
