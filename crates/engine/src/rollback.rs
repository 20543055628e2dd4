//! Setting agents' state back to a checkpoint while the code stays as it is.

use rappel_types::reference::Base;
use rappel_types::{Facet, Reference};

use crate::error::Result;
use crate::export::LokiWritten;
use crate::rappel::Rappel;
use crate::restore::{RestoreOptions, RestoreReport};

/// What a rollback did.
#[derive(Debug, Clone)]
pub struct RolledBack {
    /// The restore of agents' state. Its safety checkpoint is the state before.
    pub report: RestoreReport,
    /// The commit of the checkpoint: where the code would go to follow.
    pub commit: Option<String>,
    /// The state before as it was written for Loki Mode, in a workspace where that works.
    pub loki: Option<LokiWritten>,
}

impl Rappel {
    /// Sets agents' state back to a checkpoint, and nothing else. Where Loki Mode works, the state
    /// before is written into its folder, too.
    pub fn rollback(&self, reference: &Reference, options: &RestoreOptions) -> Result<RolledBack> {
        let row = self.resolve(reference, false)?;
        let exactly = Reference::new(Base::Id(row.id.clone()));
        let commit = self.show(&exactly)?.manifest.git.and_then(|git| git.root.commit);
        let only = Some([Facet::Agents].into());
        let options = RestoreOptions { only, ..options.clone() };
        let report = self.restore(&exactly, &options)?;
        let before = report.done.as_ref().and_then(|done| done.safety_checkpoint.as_ref());
        let before = before.filter(|_| self.loki_place().is_some());
        let loki = before.map(|before| self.write_loki(before)).transpose()?;
        Ok(RolledBack { report, commit, loki })
    }
}
