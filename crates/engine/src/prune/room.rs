//! The limit of a home's size. What counts is what remains once everything that was deleted is
//! collected, not what lies on the disk today: otherwise the same bytes would be freed twice.

use rappel_store::gc::GcOptions;
use rappel_types::CheckpointId;
use rappel_types::config::DEFAULT_MAX_SIZE;
use rappel_types::retention::{self, Candidate, Policy};

use super::PruneReport;
use super::automatic::Full;
use crate::error::Result;
use crate::rappel::{OpenOptions, Rappel};
use crate::status::folder_size;
use crate::workspace;

/// What became of the limit.
pub(super) struct Room {
    /// That the home stays too large.
    pub full: Option<Full>,
    /// What was deleted for it.
    pub deleted: Vec<CheckpointId>,
}

impl Rappel {
    /// How large the home may get.
    pub fn max_size(&self) -> Result<u64> {
        if let Some(size) = self.config.store.max_size {
            return Ok(size);
        }
        Ok(DEFAULT_MAX_SIZE.min(self.store.home().disk_size()? / 10))
    }

    /// Where the home is too large, deletes the oldest checkpoints that nothing protects, of all
    /// its workspaces; if `may_delete`.
    pub(super) fn make_room(&self, may_delete: bool) -> Result<Room> {
        let max_bytes = self.max_size()?;
        let roomy = Room { full: None, deleted: Vec::new() };
        let stored = folder_size(self.store.home().root());
        if stored <= max_bytes {
            return Ok(roomy);
        }
        let left = self.remaining(stored, &[])?;
        if left <= max_bytes {
            return Ok(roomy);
        }
        let full = |bytes| Some(Full { bytes, max_bytes });
        if !may_delete {
            return Ok(Room { full: full(left), ..roomy });
        }
        let workspaces = self.all_workspaces()?;
        // Each with the place of its workspace.
        let mut spare: Vec<(Candidate, usize)> = Vec::new();
        for (place, rappel) in workspaces.iter().enumerate() {
            spare.extend(rappel.spare()?.into_iter().map(|one| (one, place)));
        }
        spare.sort_by_key(|(one, place)| (one.created_at, *place, one.sequence));
        let ids: Vec<CheckpointId> = spare.iter().map(|(one, _)| one.id.clone()).collect();
        let count = self.fewest(&ids, stored, max_bytes)?;
        let mut deleted = Vec::new();
        for (place, rappel) in workspaces.iter().enumerate() {
            let going = spare[..count].iter().filter(|(_, of)| *of == place);
            let plan = PruneReport::for_room(going.map(|(one, _)| one.id.clone()).collect());
            if !plan.deleted.is_empty() {
                deleted.extend(rappel.prune(plan, false)?.deleted);
            }
        }
        let left = self.remaining(stored, &deleted)?;
        tracing::info!(deleted = deleted.len(), left, max_bytes, "made room");
        Ok(Room { full: full(left).filter(|_| left > max_bytes), deleted })
    }

    /// How many of these have to go, oldest first, so that the rest has room; all if that is not
    /// enough.
    fn fewest(&self, ids: &[CheckpointId], stored: u64, max_bytes: u64) -> Result<usize> {
        let (mut too_few, mut enough) = (0, ids.len());
        while enough - too_few > 1 {
            let middle = too_few.midpoint(enough);
            match self.remaining(stored, &ids[..middle])? <= max_bytes {
                true => enough = middle,
                false => too_few = middle,
            }
        }
        Ok(enough)
    }

    /// What the home takes once everything that was deleted is collected, and `without` too.
    fn remaining(&self, stored: u64, without: &[CheckpointId]) -> Result<u64> {
        let options = GcOptions {
            now: true,
            deleted: true,
            dry_run: true,
            roots: self.checkpoints_of_open_restores()?,
            without: without.to_vec(),
            ..GcOptions::default()
        };
        let report = self.store.gc(&options)?;
        Ok(stored.saturating_sub(report.freed_bytes.saturating_add(report.waiting_bytes)))
    }

    /// Every workspace of the home that can be opened.
    fn all_workspaces(&self) -> Result<Vec<Self>> {
        let known = workspace::all(&self.store)?.into_iter();
        let open = known.filter_map(|known| {
            let workspace = Some(known.id.to_string());
            Self::open(OpenOptions { workspace, ..self.options.clone() }).ok()
        });
        Ok(open.collect())
    }

    /// The checkpoints that nothing protects: neither the policy, nor what protects checkpoints from
    /// the ordinary one, because a strict preset says how many to keep and not what to do without
    /// room. Where the policy cannot be read, that is none.
    fn spare(&self) -> Result<Vec<Candidate>> {
        let Ok(policy) = self.retention() else { return Ok(Vec::new()) };
        let (found, _) = self.prune_candidates()?;
        let decided = |policy| retention::decide(&found, policy, self.now(), &self.options.zone);
        let protected = decided(policy).into_iter().zip(decided(&Policy::default()));
        let protected =
            protected.map(|(own, usual)| own.reason.protects() || usual.reason.protects());
        let protected: Vec<bool> = protected.collect();
        let spare = found.into_iter().zip(protected).filter(|(_, protected)| !protected);
        Ok(spare.map(|(found, _)| found).collect())
    }
}
