//! A checkpoint in the words that all forms share.

use rappel_formats::Portable;
use rappel_store::index::CheckpointRow;

use crate::error::Result;
use crate::rappel::Rappel;

impl Rappel {
    /// Makes one of a checkpoint.
    pub(crate) fn portable(&self, row: &CheckpointRow) -> Result<Portable> {
        let manifest = self.view(row)?.manifest;
        let mut portable =
            Portable::new(manifest.id.as_str(), manifest.created_at, manifest.trigger);
        portable.parent = manifest.parent.map(|parent| parent.to_string());
        portable.description = manifest.description;
        portable.tags = manifest.tags;
        portable.environment = manifest.environment;
        portable.session = manifest.session_id;
        portable.partial = manifest.partial_reasons.into_iter().map(|one| one.reason).collect();
        portable.metadata = manifest.metadata;
        Ok(portable)
    }
}
