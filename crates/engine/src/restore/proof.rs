//! Before anything is displaced: the restore is planned, the present is saved if there is something
//! to do, and the store shows that it can give back all that the plan displaces. A cache or an
//! index only says that it should.
//!
//! Where it cannot, the safety checkpoint is made again from the workspace's bytes. Only if that does
//! not help either is the restore refused, with nothing moved.

use rappel_capture::databases::Names;
use std::time::Instant;

use rappel_capture::restore::{self, Intent, plan_hash};
use rappel_store::operation::Phase;
use rappel_store::proof::Proof;
use rappel_types::plan::Conflict;
use rappel_types::{Action, ActionKind, Manifest, Plan, RelPath, Trigger};

use super::{Course, Limit, Planned, Present, Target};
use crate::databases::{Holdings, plan_databases};
use crate::error::{Error, Result};
use crate::rappel::Rappel;
use crate::save::{SaveOptions, Saved};

/// How often the present is looked at, where the store turns out not to hold what it should.
const ATTEMPTS: usize = 3;

/// What came of the preparations.
pub(super) enum Prepared {
    /// The workspace is as the target has it. Nothing was saved.
    Nothing(Box<Planned>),
    /// The present is saved.
    Ready(Box<Ready>),
}

/// A restore of which nothing is carried out yet.
pub(super) struct Ready {
    /// The safety checkpoint.
    pub safety: Manifest,
    pub present: Present,
    pub held: Holdings,
    pub planned: Planned,
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
    /// Plans the restore and saves the present, until all that the plan displaces is known to be
    /// held. Where there is nothing to do, or the plan is refused, nothing is saved.
    pub(super) fn prepare(
        &self,
        target: &Target,
        limit: &Limit<'_>,
        course: &Course<'_>,
        names: Names,
    ) -> Result<Prepared> {
        // What an earlier command of this process read says nothing about the disk of now.
        self.store.forget_open_packs();
        let mut anew = false;
        for _ in 0..ATTEMPTS {
            match self.prepare_once(target, limit, course, names, anew) {
                // Gc took something that the cache still believed in.
                Err(Error::Store(rappel_store::Error::Moved)) => {
                    tracing::debug!("the store was compacted meanwhile; looking anew");
                }
                Err(error) if error.is_unreadable() && !anew => {
                    tracing::warn!(%error, "the store is damaged; saving everything anew");
                }
                Err(error) => return Err(error),
                Ok(Prepared::Ready(ready)) => {
                    let unproven = self.not_given_back(&ready, target);
                    if unproven.is_empty() {
                        return Ok(Prepared::Ready(ready));
                    }
                    if anew {
                        return Err(refused(&unproven).after_saving(&ready.safety.id));
                    }
                    let paths = unproven.len();
                    tracing::warn!(paths, "the store is damaged; saving everything anew");
                }
                Ok(nothing) => return Ok(nothing),
            }
            anew = true;
        }
        Err(Error::Store(rappel_store::Error::Moved))
    }

    /// Looks at the present, plans, and saves the present if there is something to do.
    fn prepare_once(
        &self,
        target: &Target,
        limit: &Limit<'_>,
        course: &Course<'_>,
        names: Names,
        anew: bool,
    ) -> Result<Prepared> {
        let wish = limit.databases();
        let mut held = self.databases_to_restore(&target.manifest, wish.as_ref())?;
        held.names = names;
        let mut also = self.to_take_too(target, anew)?;
        also.extend(self.made_by(limit, target)?);
        also.sort();
        also.dedup();
        let also_worktrees = self.made_in_worktrees(limit)?;
        loop {
            let mut options = safety_options(target, &also, anew);
            options.also_worktrees.clone_from(&also_worktrees);
            let begun = self.begin_save(&options, anew)?;
            let prepared = self.prepare_save(begun, &options, &mut held)?.into_new()?;
            self.progress().begin(Phase::Planning, None);
            let present = match self.present_of(&prepared, target, &also, &mut held)? {
                Ok(present) => present,
                // The loop is for rules that changed since the last save.
                Err(more) => {
                    also.extend(more);
                    also.sort();
                    also.dedup();
                    continue;
                }
            };
            let databases = plan_databases(&mut held, wish.as_ref());
            let mut planned = self.plan(prepared.source(), &present, target, limit, databases)?;
            let found = plan_hash(&target.manifest.id, &planned.plan);
            if let Some(expected) = course.expected
                && expected != found
            {
                return Err(Error::PlanChanged { expected: expected.to_owned(), found });
            }
            planned.plan = (course.narrow)(planned.plan)?;
            if !planned.plan.conflicts.is_empty() {
                return Err(Error::InTheWay { conflicts: planned.plan.conflicts });
            }
            self.refuse_while_git_works(&planned.plan, &present.git.states)?;
            if planned.plan.is_empty() && !self.connects_to(target, limit) {
                return Ok(Prepared::Nothing(Box::new(planned)));
            }
            self.cancel().check()?;
            let made = prepared.commit(self)?;
            self.progress().begin(Phase::SavingPresent, None);
            let safety = self.acknowledge(made).checkpoint.manifest;
            return Ok(Prepared::Ready(Box::new(Ready { safety, present, held, planned })));
        }
    }

    /// Whether a system of the program that embeds this library is brought back.
    fn connects_to(&self, target: &Target, limit: &Limit<'_>) -> bool {
        let held = target.manifest.agents.as_ref().map(|agents| &agents.connected);
        let holds = |name: &str| held.is_some_and(|held| held.contains_key(name));
        limit.agents().is_some() && self.connected().iter().any(|system| holds(system.name()))
    }

    /// What the store cannot give back of what a restore displaces, now that it is saved.
    fn not_given_back(&self, ready: &Ready, target: &Target) -> Vec<RelPath> {
        let Ready { safety, present, planned, .. } = ready;
        let start = Instant::now();
        let mut unproven = self.unproven(&planned.plan, safety, &target.manifest, Goes::Old);
        if !self.is_as_planned(present, target).unwrap_or(false) {
            unproven.push(named("files"));
        }
        tracing::debug!(unproven = unproven.len(), took = ?start.elapsed(), "read what the restore displaces");
        unproven
    }

    /// Saves the present before an interrupted restore is ended. What cannot be read of all that may
    /// be displaced is stored again as far as it stands anywhere: under its path, or put aside.
    pub(crate) fn save_to_recover(
        &self,
        options: &SaveOptions,
        held: &mut Holdings,
        intent: &Intent,
        plan: &Plan,
        finish: bool,
    ) -> Result<Saved> {
        self.store.forget_open_packs();
        let saved = self.save_holding(options, held)?;
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
        self.save_holding(&SaveOptions { anew: true, ..options.clone() }, held)
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
    let reason = "the store's copy of it is damaged and could not be stored again";
    let conflict = |path: &RelPath| Conflict::at(path.clone(), reason);
    Error::InTheWay { conflicts: unproven.iter().map(conflict).collect() }
}

/// What the safety checkpoint takes: the present, with every path that the target holds, whatever
/// today's rules say. With `anew`, no cache is believed.
fn safety_options(target: &Target, also: &[RelPath], anew: bool) -> SaveOptions {
    let sessions = target.manifest.agents.iter().flat_map(|agents| &agents.sessions);
    SaveOptions {
        message: Some("Pre-restore auto-save".into()),
        trigger: Some(Trigger::PreRestore),
        also: also.to_vec(),
        also_git: target.manifest.git.clone(),
        also_sessions: sessions.map(|part| part.id.clone()).collect(),
        anew,
        ..SaveOptions::default()
    }
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
