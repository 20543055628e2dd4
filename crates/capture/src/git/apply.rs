//! Carrying out a plan for repositories, in either direction.
//!
//! Objects come first: they only add. Then refs move in one transaction of git's own, with their old
//! values checked; then HEADs, indexes and unfinished operations, by the same steps as files, under
//! `index.lock`; then reflogs. Like everything of a restore, each step is judged by what stands
//! there, so that it can be driven again after a crash, either way.

mod aside;
mod locks;
mod logs;
mod objects;
mod refs;

pub use objects::lacking;

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rappel_store::Error as StoreError;
use rappel_store::beneath::Root;
use rappel_types::git::{GitPlan, RefMove, RepositoryPlan, WorktreePlan};
use rappel_types::path::unescape;
use rappel_types::plan::Conflict;
use rappel_types::{Action, RelPath};

use super::create;
use super::live;
use super::program::Trouble;
use super::remove;
use super::state::State;
use crate::restore::drive::{Drive, is_structural};
use crate::restore::intent::{Header, OpenIntent};
use crate::restore::steps::Way;
use crate::restore::{Error, Job, Outcome, Result};

/// Repositories under way. Its locks are let go when it is dropped.
pub struct GitDrive<'a> {
    job: Job<'a>,
    plan: GitPlan,
    header: Header,
    way: Way,
    /// Whether everything is taken to be as the plan has it; otherwise it is looked at.
    fresh: bool,
    /// The state that is gone to.
    states: Vec<State>,
    locks: Vec<PathBuf>,
    /// What was left as it is because somebody changed it.
    pub conflicts: Vec<Conflict>,
    /// What people should know.
    pub warnings: rappel_types::Remarks,
}

/// When the files of a plan change: before the refs or after them.
enum Order<'a> {
    /// They follow, whichever way is taken.
    Follow,
    /// On the way forward they come first, and on the way back last.
    First,
    /// The other way round.
    Last,
    /// First, but for these, which come last.
    FirstBut(&'a [RelPath]),
}

impl<'a> Order<'a> {
    fn of(plan: &'a RepositoryPlan) -> Self {
        match (plan.mends, plan.spoils) {
            (false, false) => Self::Follow,
            (true, true) => Self::FirstBut(&plan.last),
            (true, false) => Self::First,
            (false, true) => Self::Last,
        }
    }

    /// The paths that change before the refs, and those that change after them.
    fn split(&self, way: Way, files: &[Action]) -> (BTreeSet<RelPath>, BTreeSet<RelPath>) {
        let first = |path: &RelPath| match self {
            Self::Follow => false,
            Self::First => way == Way::Forward,
            Self::Last => way == Way::Backward,
            Self::FirstBut(last) => last.contains(path) == (way == Way::Backward),
        };
        files.iter().map(|action| action.path.clone()).partition(first)
    }
}

/// A path as plans have it.
pub fn path_of(text: &str) -> PathBuf {
    let bytes = unescape(text).unwrap_or_else(|| text.as_bytes().to_vec());
    PathBuf::from(std::ffi::OsString::from_vec(bytes))
}

fn trouble(trouble: &Trouble) -> Error {
    let source = std::io::Error::other(trouble.to_string());
    Error::Store(StoreError::Io { action: "restore", path: "the repository".into(), source })
}

impl<'a> GitDrive<'a> {
    /// The repositories of an intent; nothing is done yet.
    pub fn new(job: Job<'a>, intent: &OpenIntent, way: Way, fresh: bool) -> Result<Self> {
        let header = intent.header().clone();
        let plan = header.git.clone();
        let checkpoint = match way {
            Way::Forward => &header.target,
            Way::Backward => &header.safety,
        };
        let states = match plan.is_empty() {
            true => Vec::new(),
            false => (job.states)(checkpoint)?,
        };
        Ok(Self {
            job,
            plan,
            header,
            way,
            fresh,
            states,
            locks: Vec::new(),
            conflicts: Vec::new(),
            warnings: rappel_types::Remarks::default(),
        })
    }

    /// Does all of it.
    pub fn run(&mut self, intent: &mut OpenIntent) -> Result<()> {
        let mut plans = self.plan.repositories.clone();
        if self.way == Way::Backward {
            plans.reverse();
        }
        for plan in plans.iter().filter(|plan| !plan.is_empty()) {
            if self.fresh {
                self.job.check_cancelled()?;
            }
            match self.way {
                Way::Forward => self.forward(plan, intent)?,
                Way::Backward => self.backward(plan, intent)?,
            }
        }
        Ok(())
    }

    fn forward(&mut self, plan: &RepositoryPlan, intent: &mut OpenIntent) -> Result<()> {
        // What has to be whole to go is looked at before anything changes.
        let (leaving, others): (Vec<&WorktreePlan>, Vec<&WorktreePlan>) =
            plan.worktrees.iter().partition(|worktree| worktree.remove);
        if let Some(reason) = self.set_all_aside(plan, &leaving)? {
            for worktree in leaving {
                remove::bring_back(&path_of(&worktree.path), self.header.id, self.job.root.disk())?;
            }
            return self.conflict(plan, &reason);
        }
        let done = if plan.remove {
            remove::delete(&path_of(&plan.common_dir), self.header.id, self.job.root.disk())
        } else if plan.create {
            self.create(plan)
        } else {
            self.repository(plan, intent)
        };
        self.unless_in_the_way(plan, done)?;
        for worktree in leaving {
            remove::delete(&path_of(&worktree.path), self.header.id, self.job.root.disk())?;
        }
        let done = self.link(plan);
        self.unless_in_the_way(plan, done)?;
        for worktree in others {
            let done = self.worktree(plan, worktree, intent);
            self.unless_in_the_way(plan, done)?;
        }
        Ok(())
    }

    fn backward(&mut self, plan: &RepositoryPlan, intent: &mut OpenIntent) -> Result<()> {
        let done = self.link(plan);
        self.unless_in_the_way(plan, done)?;
        let done = if plan.remove {
            self.bring_repository_back(plan)
        } else if plan.create {
            self.discard(plan)
        } else {
            self.repository(plan, intent)
        };
        self.unless_in_the_way(plan, done)?;
        for worktree in &plan.worktrees {
            let done = self.worktree(plan, worktree, intent);
            self.unless_in_the_way(plan, done)?;
        }
        Ok(())
    }

    /// A file where a folder has to be, or the other way round, is somebody's change: a restore is
    /// taken back for it, a recovery goes on without what it concerns.
    fn unless_in_the_way(&mut self, plan: &RepositoryPlan, done: Result<()>) -> Result<()> {
        match done {
            Err(Error::Store(error)) if is_structural(&error) => {
                self.conflict(plan, &error.to_string())
            }
            other => other,
        }
    }

    fn state_of(&self, plan: &RepositoryPlan) -> Option<&State> {
        self.states.iter().find(|state| state.path == plan.path)
    }

    fn repository(&mut self, plan: &RepositoryPlan, intent: &mut OpenIntent) -> Result<()> {
        let common = path_of(&plan.common_dir);
        if !common.is_dir() {
            return self.conflict(plan, "its git folder is gone meanwhile");
        }
        if plan.objects || !(plan.refs.is_empty() && plan.files.is_empty()) {
            self.objects(plan)?;
        }
        // What was never begun, because somebody else has the lock, needs no lock to be taken back.
        let stands = !self.fresh && self.stands(plan, &common)?;
        self.lock(plan, &common, stands)?;
        // Git can be asked only while it can read the repository: what it cannot read now is put
        // there before the refs move, and what it cannot read then is put there after that.
        let (before, after) = Order::of(plan).split(self.way, &plan.files);
        self.files(plan, &before, intent)?;
        let moved = !self.fresh && self.have_moved(plan, &after)?;
        if !moved {
            self.refs(plan, &common)?;
        }
        for log in &plan.logs {
            if let Some(conflict) = self.log(&common, log, self.state_of(plan))? {
                self.conflicts.push(conflict);
            }
        }
        // A log of our moves is among the files that follow where git cannot read it then.
        self.unlog(plan, &common)?;
        self.files(plan, &after, intent)
    }

    /// Whether the refs have been moved before the restore was interrupted, so far that git may not
    /// be able to read them any more: the files follow them.
    fn have_moved(&self, plan: &RepositoryPlan, after: &BTreeSet<RelPath>) -> Result<bool> {
        let spoils = match self.way {
            Way::Forward => plan.spoils,
            Way::Backward => plan.mends,
        };
        if !spoils {
            return Ok(false);
        }
        let common = path_of(&plan.common_dir);
        self.unlog(plan, &common)?;
        Ok(!self.is_untouched(plan, after)?)
    }

    /// The files of git's folder, indexes and what git cannot read among them.
    fn files(
        &mut self,
        plan: &RepositoryPlan,
        these: &BTreeSet<RelPath>,
        at: &mut OpenIntent,
    ) -> Result<()> {
        if these.is_empty() {
            return Ok(());
        }
        let common = path_of(&plan.common_dir);
        let root = Root::open(&common, self.job.root.disk().clone())?;
        self.drive(&root, &plan.files, Some(these), at)?;
        for path in these {
            create::distrust_index(&common, path.as_bytes());
        }
        Ok(())
    }

    /// Whether each of these files is as it was before this way was taken.
    fn is_untouched(&self, plan: &RepositoryPlan, these: &BTreeSet<RelPath>) -> Result<bool> {
        let root = Root::open(&path_of(&plan.common_dir), self.job.root.disk().clone())?;
        let before = |action: &Action| match self.way {
            Way::Forward => action.old.clone(),
            Way::Backward => action.new.clone(),
        };
        let these = plan.files.iter().filter(|action| these.contains(&action.path));
        let mut all = these.map(|action| self.is_at(&root, action, before(action)));
        all.try_fold(true, |all, one| Ok(all && one?))
    }

    fn is_at(
        &self,
        root: &Root,
        action: &Action,
        node: Option<rappel_types::Node>,
    ) -> Result<bool> {
        match node {
            Some(node) => crate::restore::is_at(root, self.job.source, &action.path, &node),
            None => Ok(root.stat(&action.path).is_ok_and(|found| found.is_none())),
        }
    }

    /// Whether refs and files are already as they will be.
    fn stands(&self, plan: &RepositoryPlan, common: &Path) -> Result<bool> {
        let forward = self.way == Way::Forward;
        if !plan.refs.is_empty() {
            let now = refs::current(common, plan)?;
            let wanted = |step: &RefMove| {
                let value = if forward { &step.new } else { &step.old };
                now.get(&step.name) == value.as_ref()
            };
            if !plan.refs.iter().all(wanted) {
                return Ok(false);
            }
        }
        let root = Root::open(common, self.job.root.disk().clone())?;
        for action in &plan.files {
            let node = if forward { &action.new } else { &action.old };
            if !self.is_at(&root, action, node.clone())? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Something is not as it was: the restore stops, or goes on without it after a crash.
    fn conflict(&mut self, plan: &RepositoryPlan, reason: &str) -> Result<()> {
        let path = plan.path.clone().map_or_else(|| RelPath::new(".git"), |at| at.join(b".git"));
        let Ok(path) = path else { return Ok(()) };
        if self.fresh {
            return Err(Error::Conflicts(vec![Conflict::of_git(path, reason)]));
        }
        self.conflicts.push(Conflict::of_git(path, reason));
        Ok(())
    }

    /// Brings files of a folder to the other state, by the steps that all files go through: all of
    /// them, or just `these`.
    fn drive(
        &mut self,
        root: &Root,
        actions: &[Action],
        these: Option<&BTreeSet<RelPath>>,
        intent: &mut OpenIntent,
    ) -> Result<()> {
        let header =
            Header { actions: actions.to_vec(), closed: Vec::new(), ..self.header.clone() };
        let job = Job { root, ..self.job };
        let mut drive = Drive::new(job, header, self.way, self.fresh)?;
        if let Some(these) = these {
            drive.limit_to(these);
        }
        let outcome: Outcome = drive.run(intent, &mut |_| Ok(()))?;
        self.conflicts.extend(outcome.conflicts);
        self.warnings.extend(outcome.warnings);
        Ok(())
    }

    /// Makes a repository that is gone.
    fn create(&mut self, plan: &RepositoryPlan) -> Result<()> {
        let common = path_of(&plan.common_dir);
        if common.exists() {
            return match create::is_ours(&common, self.header.id) {
                true => Ok(()),
                false => self.conflict(plan, "another repository appeared there meanwhile"),
            };
        }
        let Some(state) = self.state_of(plan) else {
            return self.conflict(plan, "the checkpoint does not hold it");
        };
        let (disk, source) = (self.job.root.disk(), self.job.source);
        create::repository(&common, state, self.header.id, disk, source, self.job.cancel)
    }

    /// Takes a repository away again that was not there before.
    fn discard(&mut self, plan: &RepositoryPlan) -> Result<()> {
        let common = path_of(&plan.common_dir);
        create::discard_staged(&common, self.header.id)?;
        if !common.exists() {
            return Ok(());
        }
        if !create::is_ours(&common, self.header.id) {
            return self.conflict(plan, "another repository appeared there meanwhile");
        }
        create::discard(&common, self.header.id)
    }

    /// Moves everything aside that goes; says why something stays if it does.
    fn set_all_aside(
        &self,
        plan: &RepositoryPlan,
        leaving: &[&WorktreePlan],
    ) -> Result<remove::Unheld> {
        for worktree in leaving {
            if let Some(reason) = self.set_worktree_aside(worktree)? {
                return Ok(Some(reason));
            }
        }
        if plan.remove { self.set_repository_aside(plan) } else { Ok(None) }
    }

    /// Moves a repository aside that goes; says why it stays if it does.
    fn set_repository_aside(&self, plan: &RepositoryPlan) -> Result<remove::Unheld> {
        let (job, common) = (&self.job, path_of(&plan.common_dir));
        let held = (job.states)(&self.header.safety)?;
        let Some(held) = held.iter().find(|state| state.path == plan.path) else {
            return Ok(Some("the safety checkpoint does not hold it".into()));
        };
        remove::set_aside(&common, self.header.id, job.root.disk(), &|at| {
            remove::unheld_in_repository(at, held, (job.source, job.root.disk()), &[], true)
        })
    }

    /// Brings back a repository that was to go.
    fn bring_repository_back(&mut self, plan: &RepositoryPlan) -> Result<()> {
        let common = path_of(&plan.common_dir);
        match remove::bring_back(&common, self.header.id, self.job.root.disk())? {
            remove::Back::Stands => Ok(()),
            remove::Back::Deleted => self.create(plan),
            remove::Back::Taken => {
                self.conflict(plan, "another repository appeared there meanwhile")
            }
        }
    }

    /// Puts the file at `.git` there that leads to the repository, or takes it away.
    fn link(&mut self, plan: &RepositoryPlan) -> Result<()> {
        if !plan.relink && !plan.unlink {
            return Ok(());
        }
        let work_tree = live::folder_of(self.job.root.path(), plan.path.as_ref());
        // The checkpoint in which it is linked: the one that is gone to, or the one that is left.
        let checkpoint = match plan.relink {
            true => &self.header.target,
            false => &self.header.safety,
        };
        let states = (self.job.states)(checkpoint)?;
        let Some(state) = states.iter().find(|state| state.path == plan.path) else {
            return self.conflict(plan, "the checkpoint does not hold it");
        };
        match (plan.relink, self.way) {
            (true, Way::Forward) | (false, Way::Backward) => {
                create::gitfile(&work_tree, state, self.job.source)
            }
            _ => create::remove_gitfile(&work_tree, state, &self.job),
        }
    }

    /// Moves a work tree aside that goes; says why it stays if it does.
    fn set_worktree_aside(&self, worktree: &WorktreePlan) -> Result<remove::Unheld> {
        let (job, folder) = (&self.job, path_of(&worktree.path));
        let stays = remove::set_aside(&folder, self.header.id, job.root.disk(), &|at| {
            remove::unheld_in_worktree(at, &worktree.tree, job.root.disk(), job.source)
        })?;
        Ok(stays.map(|reason| format!("the work tree {} stays: {reason}", worktree.name)))
    }

    /// Brings another work tree to its other state.
    fn worktree(
        &mut self,
        plan: &RepositoryPlan,
        worktree: &WorktreePlan,
        intent: &mut OpenIntent,
    ) -> Result<()> {
        let folder = path_of(&worktree.path);
        let admin = path_of(&plan.common_dir).join("worktrees").join(path_of(&worktree.name));
        if worktree.relink || worktree.unlink {
            create::link_worktree(&folder, &admin, worktree.relink == (self.way == Way::Forward))?;
        }
        if !worktree.create && !worktree.remove {
            if worktree.actions.is_empty() {
                return Ok(());
            }
            let root = Root::open(&folder, self.job.root.disk().clone())?;
            return self.drive(&root, &worktree.actions, None, intent);
        }
        let (job, id) = (&self.job, self.header.id);
        if self.way == Way::Forward {
            return create::worktree(&folder, &admin, &worktree.tree, id, job);
        }
        if worktree.create {
            self.warnings.extend(create::discard_worktree(&folder, &worktree.tree, id, job)?);
            return Ok(());
        }
        match remove::bring_back(&folder, id, job.root.disk())? {
            remove::Back::Stands => Ok(()),
            remove::Back::Deleted => create::worktree(&folder, &admin, &worktree.tree, id, job),
            remove::Back::Taken => self.conflict(plan, "another work tree appeared meanwhile"),
        }
    }

    /// Everything stands, and the marks of what was made anew are not needed any more.
    pub fn settle(&self) {
        for plan in self.plan.repositories.iter().filter(|plan| plan.create || plan.remove) {
            create::forget(&path_of(&plan.common_dir), self.header.id);
        }
    }
}
