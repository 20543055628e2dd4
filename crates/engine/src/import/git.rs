//! Git's state of an imported checkpoint, made of the bundle that came with it.

use std::path::Path;

use rappel_formats::portable::{Files, Git};
use rappel_store::Writer;
use rappel_types::Facet;
use rappel_types::git::GitPart;
use rappel_types::manifest::PartialReason;

use crate::error::Result;
use crate::rappel::Rappel;

impl Rappel {
    /// What the manifest says of git. Nothing is taken yet: the checkpoint says so.
    #[allow(clippy::unused_self, clippy::unnecessary_wraps, reason = "what is to come needs both")]
    pub(super) fn take_git(
        &self,
        _writer: &Writer<'_>,
        _git: &Git,
        _files: Option<&Files>,
        _scratch: &Path,
    ) -> Result<(Option<GitPart>, Vec<PartialReason>)> {
        let reason = "git's state is not taken out of imported checkpoints yet".into();
        Ok((None, vec![PartialReason { facet: Facet::Git, path: None, reason }]))
    }
}
