//! Before anything is displaced: the present is saved, the restore planned, and the store shows that
//! it can give back all that the plan displaces. A cache or an index only says that it should.
//!
//! Where it cannot, the safety checkpoint is made again from the workspace's bytes. Only if that does
//! not help either is the restore refused, with nothing moved.

use rappel_capture::databases::Names;
use std::time::Instant;

use rappel_capture::restore::{self, Intent};
use rappel_store::proof::Proof;
use rappel_types::plan::Conflict;
use rappel_types::{Action, ActionKind, Manifest, Plan, RelPath};

use super::{Limit, Planned, Present, Target};
use crate::databases::{Holdings, plan_databases};
use crate::error::{Error, ErrorKind, Result};
use crate::rappel::Rappel;
use crate::save::{SaveOptions, Saved};

/// A restore of which nothing is carried out yet.
pub(super) struct Prepared {
    /// The safety checkpoint.
    pub safety: Manifest,
    pub present: Present,
    pub held: Holdings,
    pub planned: Planned,
    /// Where the store cannot give back what the plan displaces.
    unproven: Vec<RelPath>,
}

/// Which side of an action goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Goes {
    /// The old content; the new one is read before that.
    Old,
    /// The old content, while the new one may stand there already.
    OldUnread,
    /// The new content: the restore is taken back.
    New,
}

impl Rappel {
    /// Saves the present and plans the restore, until all that the plan displaces is known to be held.
    pub(super) fn prepare(
        &mut self,
        target: &Target,
        limit: &Limit<'_>,
        names: Names,
    ) -> Result<Prepared> {
        // What an earlier command of this process read says nothing about the disk of now.
        self.store.forget_open_packs();
        match self.prepare_once(target, limit, names, false) {
            Ok(prepared) if prepared.unproven.is_empty() => return Ok(prepared),
            Ok(Prepared { unproven, .. }) => {
                tracing::warn!(
                    paths = unproven.len(),
                    "the store is damaged; saving everything anew"
                );
            }
            // It may be the safety checkpoint that cannot be read.
            Err(error) if error.kind() == ErrorKind::Damage => {
                tracing::warn!(%error, "the store is damaged; saving everything anew");
            }
            Err(error) => return Err(error),
        }
        let prepared = self.prepare_once(target, limit, names, true)?;
        match prepared.unproven.is_empty() {
            true => Ok(prepared),
            false => Err(refused(&prepared.unproven)),
        }
    }

    fn prepare_once(
        &mut self,
        target: &Target,
        limit: &Limit<'_>,
        names: Names,
        anew: bool,
    ) -> Result<Prepared> {
        let wish = limit.databases();
        let mut held = self.databases_to_restore(&target.manifest, wish.as_ref())?;
        held.names = names;
        let (safety, present) = self.save_present(target, &mut held, anew)?;
        let databases = plan_databases(&mut held, wish.as_ref());
        let planned = self.plan(self.source(), &present, target, limit, databases)?;
        let start = Instant::now();
        let unproven = match planned.plan.conflicts.is_empty() {
            true => self.unproven(&planned.plan, &safety, &target.manifest, Goes::Old),
            // It will not be carried out.
            false => Vec::new(),
        };
        tracing::debug!(unproven = unproven.len(), took = ?start.elapsed(), "read what the restore displaces");
        Ok(Prepared { safety, present, held, planned, unproven })
    }

    /// Saves the present before an interrupted restore is ended. What cannot be read of all that may
    /// be displaced is stored again as far as it stands anywhere: under its path, or put aside.
    pub(crate) fn save_to_recover(
        &mut self,
        options: &SaveOptions,
        held: &mut Holdings,
        intent: &Intent,
        plan: &Plan,
        finish: bool,
    ) -> Result<Saved> {
        self.store.forget_open_packs();
        let saved = self.save_holding(options, None, held)?;
        let header = &intent.header;
        let (to, goes) = match finish {
            true => (&header.target, Goes::OldUnread),
            false => (&header.safety, Goes::New),
        };
        let from = &saved.checkpoint.manifest;
        let to = self.store.checkpoint(to)?.map(|row| self.store.manifest(&row)).transpose()?;
        if self.unproven(plan, from, to.as_ref().unwrap_or(from), goes).is_empty() {
            return Ok(saved);
        }
        let writer = self.store.begin()?.distrusting(true);
        restore::store_aside(header, &self.options.disk, &writer)?;
        writer.commit(|_| Ok(Vec::new()))?;
        self.save_holding(&SaveOptions { anew: true, ..options.clone() }, None, held)
    }

    /// Where the store cannot give back what a plan displaces on the way from the state of one
    /// checkpoint to that of another.
    fn unproven(&self, plan: &Plan, from: &Manifest, to: &Manifest, goes: Goes) -> Vec<RelPath> {
        let mut proof = Proof::new(self.source());
        let carried_out = |action: &&Action| action.action != ActionKind::Skip;
        let mut displaced = |actions: &[Action]| {
            for action in actions.iter().filter(carried_out) {
                let (old, new) = match goes {
                    Goes::Old => (action.old.as_ref(), action.new.as_ref()),
                    // Whether only the mode changes still has to show.
                    Goes::OldUnread if !is_mode_only(action) => (action.old.as_ref(), None),
                    Goes::New if !is_mode_only(action) => (action.new.as_ref(), None),
                    _ => continue,
                };
                proof.node(&action.path, old, new);
            }
        };
        displaced(&plan.actions);
        let repositories = plan.git.repositories.iter().filter(|one| !one.is_empty());
        for repository in repositories.clone() {
            displaced(&repository.files);
            displaced(&repository.logs);
            for worktree in &repository.worktrees {
                displaced(&worktree.actions);
            }
        }
        for worktree in repositories.clone().flat_map(|repository| &repository.worktrees) {
            let whole = match goes {
                Goes::Old | Goes::OldUnread => worktree.remove,
                Goes::New => worktree.create,
            };
            if whole {
                proof.tree(&named(&worktree.name), &worktree.tree, None, |_| true);
            }
        }
        if let (Some(part), Some(_)) = (&from.git, repositories.clone().next())
            && let Some(tree) = &part.tree
        {
            let meant = repositories.filter_map(|one| part.repository(one.path.as_ref()));
            let folders: Vec<RelPath> = meant.map(|part| named(&part.key)).collect();
            let meant = |path: &RelPath| folders.iter().any(|folder| path.is_within(folder));
            let new = to.git.as_ref().and_then(|part| part.tree.as_ref());
            proof.tree(&named(".git"), tree, new, meant);
        }
        for database in &plan.databases {
            let part_in = |manifest: &'_ Manifest| {
                let part = manifest.databases.iter().find(|part| part.name == database.name);
                part.map(|part| part.tree)
            };
            if let Some(tree) = part_in(from) {
                proof.tree(&named(&database.name), &tree, part_in(to).as_ref(), |_| true);
            }
        }
        let transcripts = from.agents.as_ref().and_then(|agents| agents.transcripts);
        if let (Some(new), Some(tree)) = (&plan.agents.transcripts, transcripts) {
            proof.tree(&named("transcripts"), &tree, Some(new), |_| true);
        }
        proof.unproven()
    }
}

/// The restore is not begun.
fn refused(unproven: &[RelPath]) -> Error {
    let reason =
        "the store's copy of it is damaged and could not be stored again; nothing was changed";
    let conflict = |path: &RelPath| Conflict { path: path.clone(), reason: reason.into() };
    Error::Restore(restore::Error::Conflicts(unproven.iter().map(conflict).collect()))
}

fn is_mode_only(action: &Action) -> bool {
    use rappel_types::Node::File;
    matches!(
        (&action.old, &action.new),
        (Some(File { content: old, .. }), Some(File { content: new, .. })) if old == new
    )
}

/// A name where a path is expected.
fn named(name: &str) -> RelPath {
    RelPath::new(name).or_else(|_| RelPath::new("store")).expect("a plain name is a path")
}
