//! What `status` says of hooks.

use rappel_types::Timestamp;

use super::{Failure, Workers};
use crate::rappel::Rappel;

/// A failure is bad news for so long, or until something was saved since.
const NEWS_MS: i64 = 60 * 60 * 1000;

impl Rappel {
    /// The last failure of a hook in this workspace that is still worth telling.
    pub(crate) fn hook_failure(&self, saved_at: Option<Timestamp>) -> Option<Failure> {
        let root = self.root.to_string_lossy();
        let failures = Workers::of(self.store.home().root()).failures();
        let ours = |one: &Failure| one.root.as_ref().is_none_or(|there| *there == root);
        let last = failures.into_iter().rev().find(ours)?;
        let is_new = self.now().millis_since(last.at) < NEWS_MS;
        (is_new || saved_at.is_none_or(|saved| saved < last.at)).then_some(last)
    }
}
