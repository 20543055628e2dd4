//! Going back: planning a restore, showing it, carrying it out.

mod counted;
mod options;
mod planning;
mod present;
mod proof;
mod report;
mod rules;
mod turn;

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use rappel_capture::databases::Names;
use rappel_capture::databases::copy_out::write_out;
use rappel_capture::files::Restored;
use rappel_capture::git::{State, create, folder_of};
use rappel_capture::restore::{self, IntentId, Intents, Job, Outcome, Scope, copy_out::Copied};
use rappel_store::beneath::Root;
use rappel_store::disk::Disk;
use rappel_store::document::{DOCUMENT_VERSION, Undo, UndoDatabase, UndoKind};
use rappel_store::index::CheckpointRow;
use rappel_store::operation::Phase;
use rappel_store::record::Kind;
use rappel_store::tree;
use rappel_types::manifest::FilesPart;
use rappel_types::plan::Conflict;
use rappel_types::reference::Base;
use rappel_types::{
    CheckpointId, Entry, Facet, Manifest, Node, Plan, Reference, RelPath, WorkspaceId,
};

use crate::agents::{AgentsPlanned, AgentsWish, Notice, positions_now};
use crate::databases::{DatabaseWish, DatabasesPlanned, check_names, not_loaded, refuse_as_file};
use crate::error::{Error, Result, plain_if};
use crate::git::{GitPlanned, GitWish, states_in, touched};
use crate::rappel::Rappel;
use crate::save::new_document;
use counted::Counted;
pub use options::RestoreOptions;
use planning::check_worktrees;
pub(crate) use present::Present;
use proof::{Prepared, Ready};
use report::report_of;
pub use report::{Done, KeptFile, RestoreReport, ShownAction, Summary};
pub(crate) use report::{describe, kept_files, restored_databases};
pub(crate) use rules::RecordedRules;

/// Which changes of a comparison a restore may carry out.
#[allow(clippy::large_enum_variant, reason = "there is one, once")]
pub(crate) enum Limit<'a> {
    /// What the options name.
    Options(&'a RestoreOptions),
    /// Exactly these paths, and this of repositories and databases. `kept` says that more was
    /// meant: it was edited since, or not asked for.
    Exactly {
        paths: &'a HashSet<RelPath>,
        git: Option<GitWish>,
        databases: Option<DatabaseWish>,
        agents: Option<AgentsWish>,
        kept: bool,
    },
}

/// How a restore is gone about.
pub(crate) struct Course<'a> {
    /// What it counts as.
    pub kind: UndoKind,
    /// The plan that was confirmed.
    pub expected: Option<&'a str>,
    /// May take something out of that plan.
    pub narrow: &'a dyn Fn(Plan) -> Result<Plan>,
    /// The commit of the restore, undo or redo that must still be the last one; 0 is none.
    pub after: Option<u64>,
}

impl<'a> Course<'a> {
    /// An ordinary restore.
    pub fn restore(expected: Option<&'a str>) -> Self {
        Self { kind: UndoKind::Restore, expected, narrow: &Ok, after: None }
    }
}

impl Limit<'_> {
    fn databases(&self) -> Option<DatabaseWish> {
        match self {
            Self::Options(options) => options.databases(),
            Self::Exactly { databases, .. } => databases.clone(),
        }
    }

    fn agents(&self) -> Option<AgentsWish> {
        match self {
            Self::Options(options) => options.agents(),
            Self::Exactly { agents, .. } => agents.clone(),
        }
    }
}

/// A plan over all facets, and what to say about it.
pub(crate) struct Planned {
    pub plan: Plan,
    pub git: GitPlanned,
    pub databases: DatabasesPlanned,
    pub agents: AgentsPlanned,
}

impl Planned {
    /// What a step keeps of repositories and databases because it was changed since.
    fn edited(&self) -> Vec<Conflict> {
        [self.git.edited.clone(), self.databases.edited.clone()].concat()
    }
}

impl Rappel {
    pub(crate) fn intents(&self) -> Intents {
        Intents::new(self.store.home().intents(), self.store.disk().clone())
            .with_patience(self.store.patience().clone())
    }

    /// Restores a checkpoint: saves the present, plans, carries the plan out. `undo` takes it back.
    pub fn restore(
        &self,
        reference: &Reference,
        options: &RestoreOptions,
    ) -> Result<RestoreReport> {
        let target = self.own_target(reference, options)?;
        options.check_facets()?;
        self.check_paths_early(&target, options)?;
        let expected = options.expected.as_deref();
        self.go_to(&target, &Limit::Options(options), &Course::restore(expected))
    }

    /// Carries out what [`Rappel::plan_restore`] planned with these options, or nothing if that is not what it would do
    /// by now.
    pub fn apply(
        &self,
        planned: &RestoreReport,
        options: &RestoreOptions,
    ) -> Result<RestoreReport> {
        let reference = Reference::new(Base::Id(planned.checkpoint.clone()));
        let options = RestoreOptions { expected: Some(planned.plan.clone()), ..options.clone() };
        self.restore(&reference, &options)
    }

    /// Writes a checkpoint's files into a folder that is absent or empty, touching nothing else.
    pub fn restore_to(
        &self,
        reference: &Reference,
        folder: &Path,
        options: &RestoreOptions,
    ) -> Result<Copied> {
        options.check_facets()?;
        let target = self.target(reference, !options.only_agents())?;
        if let Some(wish) = options.databases() {
            check_names(&target.manifest, &wish)?;
        }
        let files = match options.paths.is_empty() {
            true => target.manifest.files.as_ref(),
            false => Some(target.files()?),
        };
        for path in &options.paths {
            if tree::lookup(self.source(), &target.files()?.tree, path)?.is_none() {
                let checkpoint = target.manifest.id.to_string();
                return Err(Error::NoPath { checkpoint, path: path.to_string() });
            }
        }
        let known = options.paths.is_empty() && options.wants(Facet::Files);
        let count = files.map_or(0, |files| files.count);
        self.progress().begin(Phase::WritingOut, known.then_some(count));
        let progress = Arc::clone(&self.options.operation.progress);
        let disk = Counted { disk: self.options.disk.clone(), progress };
        let disk: &Arc<dyn Disk> = &(Arc::new(disk) as Arc<dyn Disk>);
        let cancel = self.cancel();
        // Nothing of the files is as good as a list of no paths.
        let scope = match options.wants(Facet::Files) {
            true => options.scope(),
            false => Scope::Paths(Vec::new()),
        };
        let tree = files.map(|files| &files.tree);
        let (holder, source) = (Some(self.root.as_path()), self.source());
        let mut copied =
            restore::restore_beside(holder, folder, disk, source, tree, &scope, cancel)?;
        if let Some(wish) = options.databases() {
            let root = Root::open(folder, self.options.disk.clone())?;
            for part in target.manifest.databases.iter().filter(|part| wish.means(&part.name)) {
                let written = write_out(&root, self.source(), part);
                copied.databases += u64::from(written.is_ok());
                match written {
                    Ok(path) if Some(path.to_string()) == part.location => {}
                    Ok(path) => copied.notes.push(format!("database {} is in {path}", part.name)),
                    Err(error) => copied.warnings.push(format!("database {}: {error}", part.name)),
                }
            }
        }
        let states = match options.git() {
            Some(_) => states_in(self.source(), &target.manifest)?,
            None => Vec::new(),
        };
        for state in &states {
            let work_tree = folder_of(folder, state.path.as_ref());
            match create::standalone(&work_tree, state, disk, self.source(), cancel) {
                Ok(()) => copied.repositories += 1,
                Err(error) => {
                    let place = work_tree.display();
                    copied.warnings.push(format!("the repository in {place}: {error}"));
                }
            }
        }
        Ok(copied)
    }

    pub(crate) fn target(&self, reference: &Reference, files_only: bool) -> Result<Target> {
        let row = self.resolve(reference, files_only)?;
        self.target_of(&row)
    }

    /// A checkpoint to put over this workspace's files.
    pub(crate) fn own_target(
        &self,
        reference: &Reference,
        options: &RestoreOptions,
    ) -> Result<Target> {
        self.require_folder()?;
        self.require_known()?;
        let target = self.target(reference, !options.only_agents())?;
        self.borrow_config(&target.manifest);
        self.check_remote(&target.manifest, options)?;
        check_worktrees(&target.manifest, options)?;
        Ok(target)
    }

    pub(crate) fn target_of(&self, row: &CheckpointRow) -> Result<Target> {
        Ok(Target { manifest: self.view(row)?.manifest })
    }

    /// Goes to a checkpoint's state, within a limit, and remembers the way back. A database that lacks a name is
    /// loaded once more, from the beginning: what was held and saved for the first attempt others may have changed
    /// by then.
    pub(crate) fn go_to(
        &self,
        target: &Target,
        limit: &Limit<'_>,
        course: &Course<'_>,
    ) -> Result<RestoreReport> {
        let went = match self.go_with(target, limit, course, Names::OfTheServer) {
            Err(error) if error.names_missing().is_some() => {
                let went = self.go_with(target, limit, course, Names::Trusted);
                went.map(|mut report| {
                    report.warnings.extend(error.names_missing());
                    report
                })
            }
            other => other,
        };
        let mut report = went.map_err(|error| error.with_rows_in(&target.manifest.id))?;
        if self.cancel().came_too_late() {
            let late = "the restore could not be cancelled any more, and was carried out";
            report.warnings.push(late.to_owned());
        }
        Ok(report)
    }

    fn go_with(
        &self,
        target: &Target,
        limit: &Limit<'_>,
        course: &Course<'_>,
        names: Names,
    ) -> Result<RestoreReport> {
        let start = Instant::now();
        self.cancel().reopen();
        self.cancel().check()?;
        let workspace = self.require_known()?;
        let _turn = self.turn_to_restore(workspace)?;
        self.refuse_if_unfinished()?;
        if let Some(after) = course.after
            && self.last_step()? != after
        {
            return Err(Error::Stepped);
        }
        // Opened first, so that a folder swapped in while the present is saved is noticed.
        let root = Root::open(&self.root, self.options.disk.clone())?;
        match self.prepare(target, limit, course, names)? {
            Prepared::Nothing(planned) => self.did_nothing(target, limit, course, *planned, start),
            Prepared::Ready(ready) => {
                let safety = ready.safety.id.clone();
                self.carry_out(target, limit, course.kind, (*ready, root), start)
                    .map_err(|error| error.after_saving(&safety))
            }
        }
    }

    /// What is answered where the workspace is as the checkpoint has it. Nothing was saved for
    /// that.
    fn did_nothing(
        &self,
        target: &Target,
        limit: &Limit<'_>,
        course: &Course<'_>,
        planned: Planned,
        start: Instant,
    ) -> Result<RestoreReport> {
        let edited = planned.edited();
        // A step that could do nothing yet is still the next one; one that has nothing to do is
        // over.
        let is_over = edited.is_empty() && !matches!(limit, Limit::Exactly { kept: true, .. });
        if course.kind != UndoKind::Restore && is_over {
            self.pass_over(self.require_known()?, course.kind, &target.manifest.id)?;
        }
        let mut report = report_of(&target.manifest.id, planned, false);
        report.conflicts.extend(edited);
        report.done = Some(Done {
            restored_to: target.manifest.id.clone(),
            timestamp: target.manifest.created_at,
            message: target.manifest.description.clone(),
            finished_at: self.now(),
            text: describe(&Outcome::default(), None, &[]),
            recovery_complete: report.conflicts.is_empty(),
            safety_checkpoint: None,
            verified: true,
            duration_ms: start.elapsed().as_millis() as u64,
            kept: Vec::new(),
        });
        Ok(report)
    }

    /// Carries out what was prepared.
    fn carry_out(
        &self,
        target: &Target,
        limit: &Limit<'_>,
        kind: UndoKind,
        (ready, root): (Ready, Root),
        start: Instant,
    ) -> Result<RestoreReport> {
        let workspace = self.require_known()?;
        let Ready { safety, present, held, planned } = ready;
        let (edited, safety) = (planned.edited(), safety.id);
        let Planned { plan, git, databases, agents } = planned;
        let ended = match limit {
            Limit::Options(options) if options.terminate_sessions => {
                self.end_agents(options.own_session.as_ref())?
            }
            _ => Vec::new(),
        };
        tracing::debug!(
            checkpoint = %target.manifest.id,
            %safety,
            actions = plan.actions.len(),
            took = ?start.elapsed(),
            "the present is saved and the restore is planned"
        );
        let states = |checkpoint: &CheckpointId| self.states_for_restore(checkpoint);
        let mut made = rappel_types::Remarks::default();
        let drive = self.drive_of(held, &mut made)?;
        let job = Job {
            root: &root,
            source: self.source(),
            cancel: self.cancel(),
            progress: self.progress(),
            states: &states,
            databases: &drive,
        };
        let request = restore::Request {
            workspace,
            target: &target.manifest.id,
            safety: &safety,
            plan: &plan,
            now: self.now(),
        };
        let (mut left, mut unmoved) = (Vec::new(), Vec::new());
        let outcome = restore::apply(&job, &self.intents(), &request, &mut |outcome| {
            let mixed = mixed(outcome, |path| Ok(present.target_at(path)))?;
            let to = &target.manifest.id;
            let partial = kind == UndoKind::Restore && present.is_more_than(&plan);
            let said = (to, partial);
            let databases =
                self.remember(workspace, kind, &safety, said, (outcome, &plan), mixed)?;
            // A view: without it the next save reads them.
            let _ = self.remember_restored(workspace, &target.manifest, &databases);
            left = self.put_back(
                &plan.agents,
                std::slice::from_ref(&safety),
                self.own_intent(&safety),
            );
            unmoved = not_loaded(&plan.databases, &databases);
            Ok(())
        })?;
        self.live().clear();
        self.tell(&Notice::Restored { checkpoint: target.manifest.id.clone() });
        tracing::info!(
            checkpoint = %target.manifest.id,
            written = outcome.written.len(),
            deleted = outcome.deleted.len(),
            conflicts = outcome.conflicts.len(),
            kept = outcome.kept.len(),
            took = ?start.elapsed(),
            "restored"
        );
        self.update_cache(&present, target, &outcome);
        let short = agents.in_short(agents.transcripts.saturating_sub(left.len()));
        let planned = Planned { plan, git, databases, agents };
        let mut report = report_of(&target.manifest.id, planned, false);
        report.summary.agents = short;
        let restored = restored_databases(&report.full_plan, &unmoved);
        report.summary.databases = (!restored.is_empty()).then(|| restored.join(", "));
        report.warnings.clone_from(&outcome.warnings);
        report.warnings.extend(made);
        report.warnings.extend(ended);
        if limit.agents().is_some() {
            report.warnings.extend(self.restore_connected(target.manifest.agents.as_ref()));
        }
        report.conflicts.clone_from(&outcome.conflicts);
        report.conflicts.extend(edited);
        report.conflicts.extend(left);
        report.conflicts.extend(unmoved);
        report.done = Some(Done {
            restored_to: target.manifest.id.clone(),
            timestamp: target.manifest.created_at,
            message: target.manifest.description.clone(),
            finished_at: self.now(),
            text: describe(&outcome, Some(report.summary.files), &report.summary.others()),
            recovery_complete: report.conflicts.is_empty(),
            safety_checkpoint: Some(safety),
            verified: true,
            duration_ms: start.elapsed().as_millis() as u64,
            kept: kept_files(&outcome),
        });
        Ok(report)
    }

    /// A database that nobody knows cannot be allowed to be remote.
    fn check_remote(&self, target: &Manifest, options: &RestoreOptions) -> Result<()> {
        let configured = self.configured_databases().into_iter();
        let configured = configured.map(|source| source.map_or_else(|one| one.0, |one| one.name));
        let mut known: Vec<String> = configured.collect();
        known.extend(target.databases.iter().map(|part| part.name.clone()));
        known.sort();
        known.dedup();
        let mut allowed = options.allow_remote_databases.iter();
        let Some(unknown) = allowed.find(|name| !known.contains(name)) else { return Ok(()) };
        Err(Error::Usage {
            message: format!("there is no database {unknown:?} to be restored on another machine"),
            advice: plain_if(!known.is_empty(), || format!("there is {}", known.join(", "))),
        })
    }

    /// A path that nobody knows is a mistake, found before anything is saved because of it.
    fn check_paths_early(&self, target: &Target, options: &RestoreOptions) -> Result<()> {
        let root = Root::open(&self.root, self.options.disk.clone())?;
        for path in options.named_paths() {
            refuse_as_file(&target.manifest, path)?;
            let here = root.stat(path).is_ok_and(|found| found.is_some());
            if !here && tree::lookup(self.source(), &target.files()?.tree, path)?.is_none() {
                let checkpoint = target.manifest.id.to_string();
                return Err(Error::NoPath { checkpoint, path: path.to_string() });
            }
        }
        Ok(())
    }

    /// A restore may begin only where none is unfinished.
    pub(crate) fn refuse_if_unfinished(&self) -> Result<()> {
        if let Some(id) = self.workspace_id()
            && let Some(damaged) = self.intents().damaged_of(id)?
        {
            return Err(Error::DamagedIntent { path: damaged.path, reason: damaged.reason });
        }
        match self.open_intents()?.first() {
            Some(intent) if self.intents().is_running(intent.header.id) => {
                Err(Error::Restoring { root: intent.header.root_path(), waited_ms: 0 })
            }
            Some(intent) => Err(Error::Restore(restore::Error::Unfinished {
                intent: intent.header.id,
                root: intent.header.root_path(),
            })),
            None => Ok(()),
        }
    }

    /// The intent of the restore before which a checkpoint was made.
    fn own_intent(&self, safety: &CheckpointId) -> Option<IntentId> {
        let open = self.open_intents().ok()?;
        open.into_iter()
            .map(|intent| intent.header)
            .find(|own| own.safety == *safety)
            .map(|own| own.id)
    }

    pub(crate) fn states_for_restore(
        &self,
        checkpoint: &CheckpointId,
    ) -> restore::Result<Vec<State>> {
        self.states_of(checkpoint).map_err(|error| match error {
            Error::Store(error) => restore::Error::Store(error),
            other => {
                let reason = format!("the repositories of {checkpoint}: {other}");
                restore::Error::Store(rappel_store::Error::Damaged(reason))
            }
        })
    }

    /// Remembers what was done, for `undo` and `redo`. Returns how it left the databases.
    pub(crate) fn remember(
        &self,
        workspace: WorkspaceId,
        kind: UndoKind,
        from: &CheckpointId,
        (to, partial): (&CheckpointId, bool),
        (outcome, plan): (&Outcome, &Plan),
        mixed: Vec<Entry>,
    ) -> rappel_store::Result<Vec<UndoDatabase>> {
        let mut paths: Vec<RelPath> =
            outcome.written.iter().map(|written| written.path.clone()).collect();
        paths.extend(outcome.deleted.iter().cloned());
        // The file of a damaged database went, and the restored one stands in its place.
        let deletes = |path: &RelPath| plan.actions.iter().any(|action| action.deletes(path));
        let places = plan.databases.iter().filter_map(|one| one.place.parse().ok());
        paths.extend(places.filter(deletes));
        paths.sort();
        paths.dedup();
        let all = plan.databases.iter();
        let databases: Vec<UndoDatabase> = all.map(|one| self.look_at_database(one)).collect();
        let undo = Undo {
            version: DOCUMENT_VERSION,
            workspace,
            kind,
            from: from.clone(),
            to: to.clone(),
            mixed,
            facets: facets_of(plan),
            git: touched(&plan.git),
            databases: databases.clone(),
            sessions: self.store.look_up(|index| positions_now(index, &plan.agents))?,
            transcripts: plan.agents.transcripts.is_some(),
            partial,
            paths,
            stands: None,
            at: self.now(),
        };
        let undo = Undo { stands: self.stands_after(&undo), ..undo };
        self.store.begin()?.commit(|moment| {
            let sessions = positions_now(moment.index, &plan.agents)?;
            let undo = Undo { sessions, ..undo };
            // What was saved before a restore belongs to no other one.
            let mark = from.as_str();
            let mut records = Self::restored_events(moment.index, &plan.agents, to, mark, undo.at)?;
            records.push(new_document(Kind::Undo, workspace.to_string(), &undo)?);
            Ok(records)
        })?;
        Ok(databases)
    }

    /// Remembers that the workspace stands at a checkpoint, and that nothing had to be done for that:
    /// there is nothing to take back. After an undo or redo, the next one goes further.
    pub(crate) fn pass_over(
        &self,
        workspace: WorkspaceId,
        kind: UndoKind,
        to: &CheckpointId,
    ) -> rappel_store::Result<()> {
        let undo = Undo {
            version: DOCUMENT_VERSION,
            workspace,
            kind,
            from: to.clone(),
            to: to.clone(),
            mixed: Vec::new(),
            facets: Vec::new(),
            git: Vec::new(),
            databases: Vec::new(),
            sessions: Vec::new(),
            transcripts: false,
            partial: false,
            paths: Vec::new(),
            stands: None,
            at: self.now(),
        };
        let undo = Undo { stands: self.stands_after(&undo), ..undo };
        let record = new_document(Kind::Undo, workspace.to_string(), &undo)?;
        self.store.begin()?.commit(|_| Ok(vec![record]))?;
        Ok(())
    }

    /// Tells the cache what the restore wrote, so that the next save need not read it again. Only
    /// where the workspace now equals the target: otherwise the next save looks for itself.
    fn update_cache(&self, present: &Present, target: &Target, outcome: &Outcome) {
        let update = || -> Result<()> {
            let (Some(id), Some(files)) = (self.workspace_id(), &target.manifest.files) else {
                return Ok(());
            };
            let written = outcome.written.iter().map(|written| Restored {
                path: written.path.clone(),
                node: Some(written.node.clone()),
                proof: written.proven.then_some(written.meta),
            });
            let deleted = outcome.deleted.iter().map(|path| Restored {
                path: path.clone(),
                node: None,
                proof: None,
            });
            let mut restored: Vec<Restored> = written.chain(deleted).collect();
            restored.sort_by(|a, b| a.path.cmp(&b.path));
            let wanted = present.changes.iter().map(|change| (&change.path, &change.new));
            let done = restored.iter().map(|change| (&change.path, &change.node));
            if !wanted.eq(done) || !outcome.is_clean() {
                return Ok(());
            }
            let Some(cache) = self.load_cache(id)? else { return Ok(()) };
            if *cache.base() != present.tree {
                // Another process has saved since: its cache knows nothing of this restore.
                return Ok(());
            }
            let checkpoint = Some(target.manifest.id.clone());
            let cache = cache.restored(&self.root, &restored, files.tree, checkpoint)?;
            self.save_cache(cache, id);
            Ok(())
        };
        // A cache that could not be updated makes the next save slower, not wrong.
        let _ = update();
    }
}

/// A checkpoint to go to.
pub(crate) struct Target {
    pub manifest: Manifest,
}

impl Target {
    /// Its files, for whoever asks for just those.
    pub fn files(&self) -> Result<&FilesPart> {
        self.manifest.files.as_ref().ok_or_else(|| Error::Usage {
            message: format!("{} holds no files", self.manifest.id),
            advice: Vec::new(),
        })
    }
}

/// What was written and is not what the target holds there: chosen hunks.
pub(crate) fn mixed(
    outcome: &Outcome,
    mut target: impl FnMut(&RelPath) -> rappel_store::Result<Option<Node>>,
) -> rappel_store::Result<Vec<Entry>> {
    let mut mixed = Vec::new();
    for written in &outcome.written {
        if target(&written.path)?.as_ref() != Some(&written.node) {
            mixed.push(Entry { path: written.path.clone(), node: written.node.clone() });
        }
    }
    Ok(mixed)
}

/// The facets that a plan is about.
fn facets_of(plan: &Plan) -> Vec<Facet> {
    let mut facets = vec![Facet::Files];
    facets.extend((!plan.git.is_empty()).then_some(Facet::Git));
    facets.extend((!plan.databases.is_empty()).then_some(Facet::Databases));
    facets.extend((!plan.agents.is_empty()).then_some(Facet::Agents));
    facets
}
