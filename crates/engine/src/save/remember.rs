//! After the commit: what the next save is to know, and what the user is told.

use rappel_types::Advice;
use rappel_types::Manifest;

use super::Saved;
use super::look::Seen;
use super::prepared::Made;
use crate::agents::Notice;
use crate::checkpoint::Checkpoint;
use crate::databases::{self, Found};
use crate::rappel::Rappel;
use crate::workspace::Recognition;

impl Rappel {
    /// Remembers what a checkpoint holds, now that it is durable, and says so.
    pub(crate) fn acknowledge(&self, made: Made) -> Saved {
        let Made { mut begun, manifest, mut seen } = made;
        if let Some(asking) = begun.asking.take() {
            self.live().insert(asking.state.session.clone(), asking);
        }
        let (checkpoint, trigger) = (manifest.id.clone(), manifest.trigger);
        self.tell(&Notice::Checkpoint { checkpoint, trigger });
        let known = self.known();
        let known = known.unwrap_or_else(|| self.evidence.document(begun.id, None, self.now()));
        self.recognised(Recognition::Known(known));
        let mut notes = std::mem::take(&mut begun.notes);
        if let Some(git) = &seen.git {
            notes.extend(git.gone.as_ref().map(crate::git::gone));
        }
        if let Some(databases) = &mut seen.databases {
            notes.extend(std::mem::take(&mut databases.notes));
        }
        let noticed = std::mem::take(&mut seen.noticed);
        let files = seen.files.is_some();
        self.remember_seen(seen, &manifest);
        // Only now: a cache from before the damage must not be believed again.
        if files && begun.damage.news {
            self.note_lost(begun.id, &begun.damage.found);
        }
        tracing::info!(
            checkpoint = %manifest.id,
            trigger = %manifest.trigger,
            new_bytes = manifest.cost.new_bytes,
            took = ?begun.start.elapsed(),
            "saved"
        );
        notes.extend(self.config.notes.iter().chain(&self.config.unknown).cloned());
        notes.extend(self.missing_knowledge());
        notes.extend(self.refused_variables());
        notes.extend(databases::not_restorable(&manifest.databases));
        notes.extend(self.unprotected_databases().iter().map(Found::note));
        notes.extend(self.unprotected_files(&noticed).iter().map(Found::note));
        let checkpoint = Checkpoint { manifest, pinned: false, created: true, lineage: None };
        Saved { advice: self.advice_on(&checkpoint), checkpoint, notes, waited: begun.waited }
    }

    /// What to do about what a checkpoint lacks.
    pub(super) fn advice_on(&self, checkpoint: &Checkpoint) -> Vec<Advice> {
        let mut reasons = checkpoint.manifest.partial_reasons.iter();
        let untrusted = || self.untrusted();
        let lacks = reasons.any(|one| one.facet == rappel_types::Facet::Databases);
        (lacks && !untrusted().is_empty()).then_some(Advice::Trust).into_iter().collect()
    }

    /// Writes the caches for the next save. Losing them costs time, never data.
    fn remember_seen(&self, seen: Seen, manifest: &Manifest) {
        let id = manifest.workspace.id;
        if let Some(git) = seen.git {
            let tree = seen.files.as_ref().map(|files| files.tree);
            self.remember_git(id, git, tree, &manifest.id);
        }
        if let Some(databases) = seen.databases {
            self.remember_databases(id, databases, &manifest.id);
        }
        if let Some(transcripts) = seen.transcripts {
            self.remember_transcripts(id, transcripts, &manifest.id);
        }
        if let Some(captured) = seen.files {
            let cache = captured.scanned.next.finish(captured.tree, Some(manifest.id.clone()));
            self.save_cache(cache, id);
        }
    }
}
