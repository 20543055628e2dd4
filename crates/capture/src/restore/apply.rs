//! Carrying out a plan: written down first, all or nothing, and nothing lost.

use std::collections::BTreeMap;

use rappel_store::Cancel;
use rappel_store::beneath::Kind;
use rappel_store::threads;
use rappel_types::{Action, ActionKind, CheckpointId, Node, Plan, RelPath, Timestamp, WorkspaceId};
use rappel_types::{Advice, Remark};

use super::drive::Drive;
use super::error::{Error, Result};
use super::intent::{ClosedFolder, Draft, Intents, OpenIntent};
use super::outcome::Outcome;
use super::plan::{is_git_path, plan_hash};
use super::probe::is_loop;
use super::stage::{Ahead, check_space};
use super::steps::Way;
use super::{Job, Record};
use crate::databases::DatabaseDrive;
use crate::git::apply::GitDrive;

/// What is to be restored, and what it is called.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// Whose files.
    pub workspace: WorkspaceId,
    /// The checkpoint that is restored.
    pub target: &'a CheckpointId,
    /// The checkpoint that was just made of the present state.
    pub safety: &'a CheckpointId,
    /// What to do; every `old` of it is in the safety checkpoint.
    pub plan: &'a Plan,
    /// The present time.
    pub now: Timestamp,
}

/// Carries out a plan. An error means that nothing is changed any more, or, if it is
/// [`Error::Interrupted`], that the intent is left for [`recover`](super::recover). An outcome with conflicts
/// means that somebody changed files meanwhile: those are as they left them, or kept and named.
pub fn apply(
    job: &Job<'_>,
    intents: &Intents,
    request: &Request<'_>,
    record: Record<'_>,
) -> Result<Outcome> {
    let plan = request.plan;
    if !plan.conflicts.is_empty() {
        return Err(Error::Conflicts(plan.conflicts.clone()));
    }
    job.check_root()?;
    job.check_cancelled()?;
    let actions: Vec<Action> =
        plan.actions.iter().filter(|action| action.action != ActionKind::Skip).cloned().collect();
    check(&actions)?;
    if plan.is_empty() {
        let outcome = Outcome { warnings: plan.warnings.clone(), ..Outcome::default() };
        record(&outcome)?;
        return Ok(outcome);
    }
    check_space(job.root, actions.iter().filter_map(|action| action.new.as_ref()))?;
    let draft = Draft {
        created_at: request.now,
        workspace: request.workspace,
        target: request.target.clone(),
        safety: request.safety.clone(),
        plan: plan_hash(request.target, plan),
        closed: closed_folders(job, &actions)?,
        actions: actions.clone(),
        git: plan.git.clone(),
        databases: job.databases.plans(),
        agents: plan.agents.clone(),
    };
    let (ahead, intent) = std::thread::scope(|scope| {
        let reading = threads::beside(scope, || Ahead::read(job.source, &actions));
        let intent = intents.begin(job.root, draft);
        (reading.join().unwrap_or_default(), intent)
    });
    let mut intent = intent?;
    let source = ahead.over(job.source);
    let job = &Job { source: &source, ..*job };
    // A restore without databases can be stopped until it is written down.
    let record = &mut |outcome: &Outcome| job.cancel.close().and_then(|()| record(outcome));
    match drive(job, &mut intent, Way::Forward, true, record) {
        Ok(mut outcome) => {
            outcome.warnings.prepend(&plan.warnings);
            close(intent, &mut outcome);
            Ok(outcome)
        }
        Err(cause) if job.databases.is_committed() => {
            let intent = intent.id();
            Err(Error::MustFinish { cause: Box::new(cause), intent })
        }
        Err(cause) => Err(take_back(job, intent, cause)),
    }
}

/// Carries an intent out, in either direction: repositories first, since a folder in which one was
/// made can only be removed without it.
pub(super) fn drive(
    job: &Job<'_>,
    intent: &mut OpenIntent,
    way: Way,
    fresh: bool,
    record: Record<'_>,
) -> Result<Outcome> {
    match way {
        Way::Forward => job.databases.stage(job)?,
        Way::Backward => job.databases.release(),
    }
    // Databases are committed when the files stand, not with each of git's folders.
    let none = DatabaseDrive::default();
    let mut git = GitDrive::new(Job { databases: &none, ..*job }, intent, way, fresh)?;
    git.run(intent)?;
    let header = intent.header().clone();
    let mut outcome = Drive::new(*job, header, way, fresh)?.run(intent, record)?;
    outcome.conflicts.append(&mut git.conflicts);
    outcome.warnings.extend(std::mem::take(&mut git.warnings));
    git.settle();
    Ok(outcome)
}

/// Undoes what an interrupted restore did, to the byte.
fn take_back(job: &Job<'_>, mut intent: OpenIntent, cause: Error) -> Error {
    let id = intent.id();
    // What was cancelled must not keep its own way back from being gone to its end.
    let job = &Job { cancel: Cancel::never(), ..*job };
    let back = drive(job, &mut intent, Way::Backward, false, &mut |_| Ok(()));
    let cause = Box::new(cause);
    match back {
        Ok(mut outcome) => {
            close(intent, &mut outcome);
            Error::RolledBack { cause, outcome: Box::new(outcome) }
        }
        Err(rollback) => Error::Interrupted { cause, rollback: Box::new(rollback), intent: id },
    }
}

/// Everything is done; an intent that cannot be removed only has to be finished once more.
pub(super) fn close(intent: OpenIntent, outcome: &mut Outcome) {
    let id = intent.id();
    if let Err(error) = intent.close() {
        let text = format!("everything is done, but intent {id} could not be closed ({error})");
        let finish = Advice::Recover { finish: true, rollback: false };
        outcome.warnings.push(Remark::new(text, finish));
    }
}

/// A plan that was not made by the planner is not trusted either.
fn check(actions: &[Action]) -> Result<()> {
    let mut seen: BTreeMap<&RelPath, &Action> = BTreeMap::new();
    for action in actions {
        if is_git_path(&action.path) {
            return Err(Error::conflict(&action.path, "only git writes to a `.git` folder"));
        }
        let fits = match action.action {
            ActionKind::Create => action.old.is_none() && action.new.is_some(),
            ActionKind::Overwrite => action.old.is_some() && action.new.is_some(),
            ActionKind::Delete => action.old.is_some() && action.new.is_none(),
            ActionKind::Skip => true,
        };
        if !fits {
            return Err(Error::conflict(&action.path, "the plan contradicts itself"));
        }
        if let Some((last, _)) = seen.last_key_value()
            && **last >= action.path
        {
            return Err(Error::conflict(&action.path, "the plan is not in order"));
        }
        for folder in action.path.ancestors() {
            let is_folder = |node: &Option<Node>| matches!(node, Some(Node::Directory { .. }));
            if let Some(above) = seen.get(&folder)
                && ((action.new.is_some() && !is_folder(&above.new))
                    || (action.old.is_some() && !is_folder(&above.old)))
            {
                return Err(Error::conflict(&action.path, format!("{folder} is no folder")));
            }
        }
        seen.insert(&action.path, action);
    }
    Ok(())
}

/// The folders in which something changes and that do not let their owner in.
fn closed_folders(job: &Job<'_>, actions: &[Action]) -> Result<Vec<ClosedFolder>> {
    let mut folders: BTreeMap<Option<RelPath>, Option<u32>> = BTreeMap::new();
    folders.insert(None, Some(job.root.stat_root()?.mode));
    for action in actions {
        // Without content, a folder's own bits are all that changes.
        let is_folder = |node: &Option<Node>| matches!(node, Some(Node::Directory { .. }));
        if is_folder(&action.old) && is_folder(&action.new) {
            continue;
        }
        for folder in action.path.ancestors() {
            if folders.contains_key(&Some(folder.clone())) {
                continue;
            }
            let mode = match job.root.stat(&folder) {
                Ok(Some(meta)) if meta.kind == Kind::Directory => Some(meta.mode),
                Ok(_) => None,
                // Below a link there is no folder of ours; the plan puts one in the link's place.
                Err(error) if is_loop(&error) => None,
                Err(error) => return Err(error.into()),
            };
            folders.insert(Some(folder), mode);
        }
    }
    let closed = folders.into_iter().filter_map(|(path, mode)| {
        let mode = mode.filter(|mode| mode & 0o700 != 0o700)?;
        Some(ClosedFolder { path, mode })
    });
    Ok(closed.collect())
}
