//! Retention applied: which checkpoints of the workspace go, what that frees, and their deletion.
//!
//! `rappel_types::retention` decides; this module gathers what the decision needs to know.

mod automatic;
mod room;
mod sessions;

use std::collections::{HashMap, HashSet};

use rappel_store::gc::GcOptions;
use rappel_store::index::CheckpointRow;
use rappel_store::operation::Phase;
use rappel_types::Advice;
use rappel_types::agents::SessionId;
use rappel_types::retention::{self, Candidate, Decision, Policy, Reason, Rules, SessionDecision};
use rappel_types::{CheckpointId, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;

use crate::checkpoint::Checkpoint;
use crate::error::{Error, Result};
use crate::rappel::Rappel;
pub use automatic::{FirstDeletion, Full, Retention};

const CENTURY_MS: i64 = 36_500 * 24 * 3_600_000;

/// What a policy would delete, and what came of that.
#[derive(Debug, Clone, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct PruneReport {
    /// How many checkpoints the workspace has.
    pub total: usize,
    /// How many of them stay.
    pub kept: usize,
    /// Those that go: that were deleted, or would be.
    pub deleted: Vec<CheckpointId>,
    /// What their deletion frees once gc has collected them.
    pub freed_bytes: u64,
    /// Every decision, oldest checkpoint first.
    pub decisions: Vec<Decision>,
    /// Checkpoints that cannot be read. Pruning leaves them alone.
    pub unreadable: Vec<CheckpointId>,
    /// Sessions that are let go: that were, or would be.
    pub let_go: Vec<SessionId>,
    /// What becomes of every session, newest first.
    pub sessions: Vec<SessionDecision>,
}

impl PruneReport {
    /// Whether nothing goes.
    pub fn is_empty(&self) -> bool {
        self.deleted.is_empty() && self.let_go.is_empty()
    }
}

impl PruneReport {
    /// The plan to delete these because the home is too large.
    fn for_room(deleted: Vec<CheckpointId>) -> Self {
        let decision =
            |id: &CheckpointId| Decision { id: id.clone(), keep: false, reason: Reason::NoRoom };
        let decisions = deleted.iter().map(decision).collect();
        Self { total: deleted.len(), deleted, decisions, ..Self::default() }
    }
}

impl Rappel {
    /// The policy of `rappel.toml`. A mistake in the file, or a key of `[retention]` that this
    /// version does not know, is refused: the rules that hold otherwise might delete what the
    /// user's own would keep.
    pub fn retention(&self) -> Result<&Policy> {
        let unknown = self.config.unknown.iter().find(|line| line.contains("retention"));
        let broken = self.config_problem.as_ref().map(ToString::to_string);
        match broken.or_else(|| unknown.cloned()) {
            Some(problem) => Err(Error::Usage {
                message: format!("{problem}; nothing is pruned by rules that may not be yours"),
                advice: vec![Advice::SayWhatStays],
            }),
            None => Ok(&self.config.retention),
        }
    }

    /// The policy of `rappel.toml`, or in its place so many of the newest, or so many days; applied to
    /// manual checkpoints too if that is asked for.
    pub fn policy(
        &self,
        keep_last: Option<u64>,
        keep_days: Option<u64>,
        include_manual: bool,
    ) -> Result<Policy> {
        const DAY_MS: u64 = 24 * 3_600_000;
        if keep_last.is_some() || keep_days.is_some() {
            let within = keep_days.map(|days| days.saturating_mul(DAY_MS));
            return Ok(Policy::Newest { last: keep_last, within, include_manual });
        }
        Ok(match self.retention()?.clone() {
            Policy::Rules(rules) if include_manual => {
                Policy::Rules(Rules { include_manual: true, ..rules })
            }
            policy => policy,
        })
    }

    /// What a policy would delete in this workspace, with the space that it frees. With `now` a
    /// session that nothing but deleted checkpoints refer to goes with them; otherwise it stays as
    /// long as they can be brought back.
    pub fn plan_prune(&self, policy: &Policy, now: bool) -> Result<PruneReport> {
        let (candidates, unreadable) = self.prune_candidates()?;
        let decisions = retention::decide(&candidates, policy, self.now(), &self.options.zone);
        let going = decisions.iter().filter(|decision| !decision.keep);
        let deleted: Vec<CheckpointId> = going.map(|decision| decision.id.clone()).collect();
        let total = decisions.len() + unreadable.len();
        let kept = total - deleted.len();
        let without = if now { deleted.iter().cloned().collect() } else { HashSet::new() };
        let sessions = self.decide_sessions(policy, &candidates, &without)?;
        let let_go: Vec<SessionId> =
            sessions.iter().filter(|one| !one.keep).map(|one| one.id.clone()).collect();
        let freed_bytes = self.space_of(&deleted, &let_go)?;
        Ok(PruneReport {
            total,
            kept,
            deleted,
            freed_bytes,
            decisions,
            unreadable,
            let_go,
            sessions,
        })
    }

    /// Deletes what a plan says. As with every deletion checkpoints and sessions can be brought
    /// back for a day, unless `now`. A checkpoint that was pinned, or that a restore needs, since
    /// the plan was made stays; so does a session that went on.
    pub fn prune(&self, plan: PruneReport, now: bool) -> Result<PruneReport> {
        self.cancel().reopen();
        let needed = self.needed_by_steps()?;
        let mut going: Vec<CheckpointRow> = Vec::new();
        for id in &plan.deleted {
            self.cancel().check()?;
            let Some(row) = self.store.checkpoint(id)? else { continue };
            let stays = needed.contains(id) || self.view(&row).is_ok_and(|one| one.pinned);
            if !stays {
                going.push(row);
            }
        }
        let created = going.iter().map(|row| Timestamp::from_millis(row.created_at));
        let noted = self.days_worked(&[]).into_iter().chain(created);
        self.cancel().close()?;
        self.progress().begin(Phase::Deleting, Some(going.len() as u64));
        self.note_days(retention::one_per_day(noted, &self.options.zone));
        self.store.delete(&going, now)?;
        let let_go = self.let_go(&plan.let_go, now)?;
        tracing::info!(
            deleted = going.len(),
            total = plan.total,
            sessions = let_go.len(),
            "pruned"
        );
        let deleted: Vec<CheckpointId> = going.into_iter().map(|row| row.id).collect();
        Ok(PruneReport { kept: plan.total - deleted.len(), deleted, let_go, ..plan })
    }

    /// The space that the deletion of these checkpoints and sessions gives back.
    fn space_of(&self, deleted: &[CheckpointId], sessions: &[SessionId]) -> Result<u64> {
        if deleted.is_empty() && sessions.is_empty() {
            return Ok(0);
        }
        let dry_run = |without: &[CheckpointId], sessions: &[SessionId]| {
            let roots = self.checkpoints_of_open_restores()?;
            let options = GcOptions {
                now: true,
                deleted: true,
                dry_run: true,
                roots,
                without: without.to_vec(),
                progress: Some(&|step| self.at_gc(step)),
                without_sessions: sessions.iter().map(ToString::to_string).collect(),
                ..GcOptions::default()
            };
            Ok::<_, crate::Error>(self.store.gc(&options)?.freed_bytes)
        };
        Ok(dry_run(deleted, sessions)?.saturating_sub(dry_run(&[], &[])?))
    }

    /// What a decision needs to know of each checkpoint, oldest first; and those that cannot be
    /// read.
    fn prune_candidates(&self) -> Result<(Vec<Candidate>, Vec<CheckpointId>)> {
        let undoable = self.needed_by_steps()?;
        let held = self.holding_sessions()?;
        let mut found = Vec::new();
        let mut unreadable = Vec::new();
        for row in self.rows()? {
            match self.view(&row) {
                Ok(checkpoint) => found.push(candidate(&row, checkpoint, &undoable, &held)),
                Err(error) if error.is_unreadable() => unreadable.push(row.id),
                Err(error) => return Err(error),
            }
        }
        Ok((found, unreadable))
    }

    /// Checkpoints that an unfinished restore, `undo` or `redo` may go to.
    fn needed_by_steps(&self) -> Result<HashSet<CheckpointId>> {
        let mut needed = self.undoable()?;
        needed.extend(self.checkpoints_of_open_restores()?);
        Ok(needed)
    }

    /// Until when each session protects its checkpoints, as far as one does. One that runs has no
    /// end in sight.
    fn holding_sessions(&self) -> Result<HashMap<SessionId, Timestamp>> {
        let now = self.now();
        let after =
            |end: Timestamp| Timestamp::from_millis(end.as_millis() + retention::RECENT_MS as i64);
        let no_end_in_sight = Timestamp::from_millis(now.as_millis() + CENTURY_MS);
        let sessions = self.sessions()?.into_iter().map(|one| {
            let end = one.ended_at.filter(|_| !one.status.is_live());
            (one.id, end.map_or(no_end_in_sight, after))
        });
        Ok(sessions.filter(|(_, until)| now < *until).collect())
    }
}

fn candidate(
    row: &CheckpointRow,
    checkpoint: Checkpoint,
    undoable: &HashSet<CheckpointId>,
    held: &HashMap<SessionId, Timestamp>,
) -> Candidate {
    let manifest = checkpoint.manifest;
    let session: Option<SessionId> =
        manifest.session_id.as_ref().and_then(|session| session.parse().ok());
    Candidate {
        undoable: undoable.contains(&manifest.id),
        session_holds_until: session.and_then(|session| held.get(&session).copied()),
        id: manifest.id,
        sequence: row.sequence,
        created_at: manifest.created_at,
        trigger: manifest.trigger,
        session: manifest.session_id,
        holds_files: row.holds_files,
        pinned: checkpoint.pinned,
        tags: manifest.tags,
    }
}
