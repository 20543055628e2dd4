//! The present before a restore: saved, or only looked at in a dry run.

use rappel_capture::git::State;
use rappel_store::beneath::Root;
use rappel_store::sink::{Scratch, Source};
use rappel_store::tree::{self, Change};
use rappel_types::manifest::PartialReason;
use rappel_types::{Facet, FacetState, Manifest, Node, ObjectId, RelPath, Trigger};

use super::Target;
use crate::databases::Holdings;
use crate::error::{Error, Result};
use crate::git::GitPresent;
use crate::rappel::Rappel;
use crate::save::{CapturedFiles, SaveOptions};

/// The present, as a restore compares it.
pub(crate) struct Present {
    pub tree: ObjectId,
    /// From here to the target.
    pub changes: Vec<Change>,
    pub state: FacetState,
    pub skipped: Vec<rappel_types::manifest::Skipped>,
    pub partial: Vec<PartialReason>,
    pub git: GitPresent,
}

impl Present {
    /// What the target holds at a path that differs from it.
    pub fn target_at(&self, path: &RelPath) -> Option<Node> {
        let at = self.changes.binary_search_by(|change| change.path.cmp(path)).ok()?;
        self.changes[at].new.clone()
    }
}

impl Rappel {
    /// The safety checkpoint: the present, with every path that the target holds, whatever today's
    /// rules say. With `anew`, no cache is believed.
    pub(crate) fn save_present(
        &mut self,
        target: &Target,
        held: &mut Holdings,
        anew: bool,
    ) -> Result<(Manifest, Present)> {
        // What the last save did not hold is known before; the loop is for rules that changed since.
        let mut known: Option<(ObjectId, Vec<Change>)> = None;
        let mut also = Vec::new();
        if !anew && let Some(cache) = self.load_cache(self.require_known()?)? {
            let changes = changes_to(self.source(), cache.base(), target)?;
            also = self.unheld(&changes)?;
            known = Some((*cache.base(), changes));
            self.keep_cache(cache);
        }
        loop {
            let options = SaveOptions {
                message: Some("Pre-restore auto-save".into()),
                trigger: Some(Trigger::PreRestore),
                also: also.clone(),
                also_git: target.manifest.git.clone(),
                also_sessions: target
                    .manifest
                    .agents
                    .iter()
                    .flat_map(|agents| agents.sessions.iter().map(|part| part.id.clone()))
                    .collect(),
                anew,
                ..SaveOptions::default()
            };
            let saved = self.save_holding(&options, None, held)?;
            // Their bytes are saved before they are removed.
            let displaced = held.displace_damaged();
            if !displaced.is_empty() {
                also.extend(displaced);
                also.sort();
                also.dedup();
                continue;
            }
            let manifest = saved.checkpoint.manifest;
            let Some(files) = manifest.files.clone() else {
                return Err(Error::Damaged { message: "a safety checkpoint without files".into() });
            };
            let changes = match known.take() {
                Some((tree, changes)) if tree == files.tree => changes,
                _ => changes_to(self.source(), &files.tree, target)?,
            };
            let unheld = self.unheld(&changes)?;
            if unheld.is_empty() || unheld.iter().all(|path| also.contains(path)) {
                held.check_displaced(|path| is_kept(self.source(), &files.tree, path))?;
                let present = Present {
                    tree: files.tree,
                    changes,
                    state: FacetState::Captured,
                    skipped: files.skipped,
                    partial: manifest.partial_reasons.clone(),
                    git: GitPresent {
                        state: manifest
                            .facets
                            .get(&Facet::Git)
                            .copied()
                            .unwrap_or(FacetState::NotAsked),
                        states: match &manifest.git {
                            Some(part) => State::load(self.source(), part)?,
                            None => Vec::new(),
                        },
                        partial: manifest
                            .partial_reasons
                            .iter()
                            .filter(|reason| reason.facet == Facet::Git)
                            .cloned()
                            .collect(),
                        stored: true,
                    },
                };
                return Ok((manifest, present));
            }
            also.extend(unheld);
            also.sort();
            also.dedup();
        }
    }

    /// As [`Rappel::save_present`], in memory only.
    pub(super) fn look(
        &self,
        scratch: &Scratch<'_>,
        target: &Target,
        held: &mut Holdings,
    ) -> Result<Present> {
        let id = self.require_known()?;
        let mut also = held.displace_damaged();
        also.sort();
        loop {
            let files = self.scan(scratch, self.load_cache(id)?, &also, None)?;
            let tree = files.tree;
            let changes = changes_to(scratch, &tree, target)?;
            let unheld = self.unheld(&changes)?;
            if unheld.is_empty() || unheld.iter().all(|path| also.contains(path)) {
                held.check_displaced(|path| is_kept(scratch, &tree, path))?;
                let git = self.look_at_git(&files, target.manifest.git.as_ref(), scratch)?;
                let CapturedFiles { scanned, .. } = files;
                return Ok(Present {
                    tree,
                    changes,
                    state: FacetState::Captured,
                    skipped: scanned.skipped,
                    partial: scanned.partial,
                    git,
                });
            }
            also.extend(unheld);
            also.sort();
            also.dedup();
        }
    }

    /// Paths that the target holds and that exist, but that a look at the present did not take.
    fn unheld(&self, changes: &[Change]) -> Result<Vec<RelPath>> {
        let root = Root::open(&self.root, self.options.disk.clone())?;
        // What can only be reached through a link is not there.
        let exists = |path: &RelPath| root.stat(path).is_ok_and(|found| found.is_some());
        Ok(changes
            .iter()
            .filter(|change| change.old.is_none() && exists(&change.path))
            .map(|change| change.path.clone())
            .collect())
    }
}

/// Whether a tree has a file at this path.
fn is_kept(source: &dyn Source, tree: &ObjectId, path: &RelPath) -> Result<bool> {
    Ok(matches!(tree::lookup(source, tree, path)?, Some(Node::File { .. })))
}

/// From a tree to what the target holds of files; nothing, if it holds none.
fn changes_to(source: &dyn Source, from: &ObjectId, target: &Target) -> Result<Vec<Change>> {
    match &target.manifest.files {
        Some(files) => Ok(tree::diff(source, from, &files.tree)?),
        None => Ok(Vec::new()),
    }
}
