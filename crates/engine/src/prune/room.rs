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

/// A workspace that wants the home to be smaller than it is.
struct Crowded {
    rappel: Rappel,
    limit: u64,
    /// Which of its checkpoints nothing protects.
    spare: Vec<Candidate>,
}

impl Rappel {
    /// How large the home may get.
    pub fn max_size(&self) -> Result<u64> {
        if let Some(size) = self.config.store.max_size {
            return Ok(size);
        }
        Ok(DEFAULT_MAX_SIZE.min(self.store.home().disk_size()? / 10))
    }

    /// Where the home is too large, deletes the oldest checkpoints that nothing protects. Each
    /// workspace says for its own checkpoints how large the home may get, so that no other
    /// project's `rappel.toml` reaches them.
    pub(super) fn make_room(&self) -> Result<Room> {
        let stored = folder_size(self.store.home().root());
        let max_bytes = self.max_size()?;
        let mut limits = vec![max_bytes];
        let mut workspaces = Vec::new();
        for rappel in self.all_workspaces()?.into_iter().filter(Self::is_settled) {
            let limit = rappel.max_size()?;
            if stored > limit {
                limits.push(limit);
                let spare = rappel.spare()?;
                workspaces.push(Crowded { rappel, limit, spare });
            }
        }
        // From the largest limit to the smallest: the ones with more room wait for their turn.
        limits.sort_unstable_by(|a, b| b.cmp(a));
        limits.dedup();
        let mut going: Vec<CheckpointId> = Vec::new();
        for limit in limits {
            if stored <= limit || self.remaining(stored, &going)? <= limit {
                continue;
            }
            let crowded = workspaces.iter().filter(|one| one.limit <= limit);
            let spare = crowded.flat_map(|one| &one.spare);
            let mut spare: Vec<&Candidate> = spare.filter(|one| !going.contains(&one.id)).collect();
            spare.sort_by_key(|one| (one.created_at, one.id.clone()));
            going = self.fewest(&going, &spare, stored, limit)?;
        }
        let mut deleted = Vec::new();
        for Crowded { rappel, spare, .. } in &workspaces {
            let ids = spare.iter().map(|one| one.id.clone()).filter(|id| going.contains(id));
            let plan = PruneReport::for_room(ids.collect());
            if !plan.deleted.is_empty() {
                deleted.extend(rappel.prune(plan, false)?.deleted);
            }
        }
        if stored <= max_bytes {
            return Ok(Room { full: None, deleted });
        }
        let bytes = self.remaining(stored, &deleted)?;
        tracing::info!(deleted = deleted.len(), bytes, max_bytes, "made room");
        Ok(Room { full: (bytes > max_bytes).then_some(Full { bytes, max_bytes }), deleted })
    }

    /// Those that go, and as many more as needed, oldest first, so that the rest has room; all of them
    /// if that is not enough.
    fn fewest(
        &self,
        going: &[CheckpointId],
        spare: &[&Candidate],
        stored: u64,
        limit: u64,
    ) -> Result<Vec<CheckpointId>> {
        let with = |count: usize| {
            let more = spare[..count].iter().map(|one| one.id.clone());
            going.iter().cloned().chain(more).collect::<Vec<_>>()
        };
        let (mut too_few, mut enough) = (0, spare.len());
        while enough - too_few > 1 {
            let middle = too_few.midpoint(enough);
            match self.remaining(stored, &with(middle))? <= limit {
                true => enough = middle,
                false => too_few = middle,
            }
        }
        Ok(with(enough))
    }

    /// What the home takes once everything that was deleted is collected, and `without` too.
    fn remaining(&self, stored: u64, without: &[CheckpointId]) -> Result<u64> {
        let options = GcOptions {
            now: true,
            deleted: true,
            dry_run: true,
            roots: self.checkpoints_of_open_restores()?,
            without: without.to_vec(),
            progress: Some(&|step| self.at_gc(step)),
            ..GcOptions::default()
        };
        let report = self.store.gc(&options)?;
        Ok(stored.saturating_sub(report.freed_bytes.saturating_add(report.waiting_bytes)))
    }

    /// Every workspace of the home whose folder is there: of another one nobody knows the policy.
    fn all_workspaces(&self) -> Result<Vec<Self>> {
        let known = workspace::all(&self.store)?.into_iter();
        let open = known.filter_map(|known| {
            let workspace = Some(known.id.to_string());
            Self::open(OpenOptions { workspace, ..self.options.clone() }).ok()
        });
        Ok(open.filter(|one| !one.is_gone).collect())
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
