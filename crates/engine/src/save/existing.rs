//! Whether a checkpoint already says what was seen, so that no new one is made.

use rappel_store::index::CheckpointRow;
use rappel_types::{Manifest, Trigger};

use super::begin::Begun;
use super::files::CapturedFiles;
use super::look::Seen;
use super::{SaveOptions, Saved};
use crate::agents::agents_part;
use crate::checkpoint::Checkpoint;
use crate::databases::{self, CapturedDatabases};
use crate::error::Result;
use crate::git::CapturedGit;
use crate::rappel::Rappel;

/// An existing checkpoint is returned instead of a new one only if it is younger than this.
pub(super) const FRESH_MS: i64 = 60_000;

impl Rappel {
    /// The checkpoint that already says everything this request would.
    pub(super) fn existing(
        &self,
        begun: &Begun,
        options: &SaveOptions,
        seen: &Seen,
    ) -> Result<Option<Saved>> {
        if begun.takes_nothing_over() {
            return Ok(None);
        }
        let (Some(newest), Some(files), Some(git), Some(databases)) =
            (&begun.newest, &seen.files, &seen.git, &seen.databases)
        else {
            return Ok(None);
        };
        let existing = match options.if_changed {
            // Somebody else has marked the day meanwhile.
            _ if options.once_a_day && !self.day_is_over(newest, self.now()) => {
                self.readable(newest)?
            }
            true => self.unchanged(newest, (files, git, databases))?,
            // `undo` goes by the checkpoints that restores make: each has its own.
            false
                if options.trigger() == Trigger::PreRestore
                    || options.once_a_day
                    || options.adds_something() =>
            {
                None
            }
            false => self.fresh(newest, options, seen)?,
        };
        Ok(existing.map(|checkpoint| {
            let mut notes = begun.notes.clone();
            notes.extend(databases::not_restorable(&checkpoint.manifest.databases));
            Saved { advice: self.advice_on(&checkpoint), checkpoint, notes, waited: begun.waited }
        }))
    }

    /// The newest checkpoint, if it is young and holds all that was seen.
    fn fresh(
        &self,
        newest: &CheckpointRow,
        options: &SaveOptions,
        seen: &Seen,
    ) -> Result<Option<Checkpoint>> {
        let age = self.now().as_millis() - newest.created_at;
        let partial = self.config_problem.is_some() || seen.is_partial();
        if !newest.holds_files
            || !(0..FRESH_MS).contains(&age)
            || partial
            || !self.connected().is_empty()
        {
            return Ok(None);
        }
        let Some(existing) = self.readable(newest)? else { return Ok(None) };
        let same = self.says_all(&existing.manifest, options, seen)?;
        Ok(same.then_some(existing))
    }

    /// Whether a manifest holds all that was seen, and all that the request says.
    fn says_all(&self, manifest: &Manifest, options: &SaveOptions, seen: &Seen) -> Result<bool> {
        let (Some(files), Some(git), Some(databases)) = (&seen.files, &seen.git, &seen.databases)
        else {
            return Ok(false);
        };
        let part =
            self.store.look_up(|index| agents_part(index, manifest.workspace.id, &[], None))?;
        let held = manifest.agents.clone().unwrap_or_default();
        // A file that is too large is news as well: this checkpoint does not say that it is left
        // out.
        let same_files = manifest.files.as_ref().is_some_and(|part| {
            part.tree == files.tree
                && part.rules == files.scanned.rules
                && part.skipped == files.scanned.skipped
        });
        Ok(same_files
            && manifest.git == git.captured.part
            && manifest.databases == databases.parts
            && manifest.variables == self.variables()
            && !manifest.partial
            && !manifest.interrupted_restore
            && held.sessions == part.sessions
            && held.transcripts == seen.transcripts_tree()
            && !options.adds_to(manifest, self.environment(options).as_deref()))
    }

    /// A checkpoint that exists; nothing if its manifest cannot be read.
    fn readable(&self, row: &CheckpointRow) -> Result<Option<Checkpoint>> {
        match self.view(row) {
            Err(error) if error.is_unreadable() => Ok(None),
            other => Ok(Some(Checkpoint { created: false, ..other? })),
        }
    }

    /// The newest checkpoint, if it holds what was looked at just now. Databases that were not
    /// asked are not looked at.
    pub(super) fn unchanged(
        &self,
        newest: &CheckpointRow,
        (files, git, databases): (&CapturedFiles, &CapturedGit, &CapturedDatabases),
    ) -> Result<Option<Checkpoint>> {
        let Some(existing) = self.readable(newest)? else { return Ok(None) };
        let manifest = &existing.manifest;
        let held = manifest.files.as_ref();
        let same_files =
            held.is_some_and(|part| part.tree == files.tree && part.rules == files.scanned.rules);
        let same_databases = databases.parts.iter().filter(|part| !part.stale).all(|part| {
            let held = manifest.databases.iter().find(|held| held.name == part.name);
            held.is_some_and(|held| held.digest == part.digest)
        });
        let partial = files.scanned.partial.iter().chain(&git.captured.partial);
        let same_reasons = partial
            .chain(&databases.partial)
            .all(|reason| manifest.partial_reasons.contains(reason));
        let same = same_files && same_databases && same_reasons;
        let same = same && manifest.git == git.captured.part && !manifest.interrupted_restore;
        Ok(same.then_some(existing))
    }
}
