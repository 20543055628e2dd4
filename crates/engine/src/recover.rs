//! Everything unfinished: what it is, and how to end it.

use rappel_capture::databases::Names;
use rappel_capture::restore::{self, DamagedIntent, IntentId, Job, Outcome};
use rappel_store::beneath::Root;
use rappel_store::document::{Undo, UndoKind};
use rappel_store::record::Kind;
use rappel_store::tree;
use rappel_types::Advice;
use rappel_types::Remarks;
use rappel_types::agents::AgentsPlan;
use rappel_types::plan::Conflict;
use rappel_types::{CheckpointId, ObjectId, Plan, RelPath, Timestamp, Trigger, WorkspaceId};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::HashSet;

use crate::agents::{AgentsWish, CrashedSession};
use crate::databases::Fates;
use crate::error::{Error, Result};
use crate::rappel::Rappel;
use crate::restore::{KeptFile, describe, kept_files, mixed, restored_databases};
use crate::save::SaveOptions;

/// What is unfinished in a home.
#[derive(Debug, Clone, Default, JsonSchema, Serialize)]
pub struct Unfinished {
    /// Restores.
    pub restores: Vec<UnfinishedRestore>,
    /// Sessions of this workspace whose agent ended without saying so.
    pub sessions: Vec<CrashedSession>,
    /// Intents that cannot be read.
    pub damaged: Vec<String>,
    /// Whether one of them may be of this workspace.
    pub damaged_here: bool,
}

/// What became of damaged intents.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct SetAside {
    /// Where their files are now.
    pub files: Vec<String>,
    /// The checkpoint of what is there now, half restored as it may be.
    pub safety_checkpoint: CheckpointId,
    /// The last checkpoint that was made before a restore: what was there before.
    pub before: Option<CheckpointId>,
}

/// A restore that was interrupted.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct UnfinishedRestore {
    /// Its intent.
    pub id: String,
    /// The folder.
    pub root: String,
    /// Whether that is this workspace.
    pub here: bool,
    /// The checkpoint that was to be restored.
    pub checkpoint: CheckpointId,
    /// The checkpoint of what was there before.
    pub safety_checkpoint: CheckpointId,
    /// When it began.
    pub since: Timestamp,
    /// How far it came.
    pub phase: restore::Phase,
    /// How many paths it is about.
    pub paths: usize,
    /// The databases it is about.
    pub databases: Vec<String>,
    /// Whether a database may be restored already, so that it can only be finished.
    pub past_return: bool,
    /// Whether a process is at work on it right now.
    pub running: bool,
}

/// How to end an unfinished restore.
#[derive(Debug, Clone, Copy, Default)]
pub struct RecoverOptions {
    /// Carry it on to its end, instead of taking it back.
    pub finish: bool,
    /// Finish it without the databases that are not restored yet.
    pub skip_databases: bool,
    /// Disconnect others from databases that they hold.
    pub terminate_connections: bool,
}

impl RecoverOptions {
    /// Carry it on to its end.
    pub fn finish() -> Self {
        Self { finish: true, ..Self::default() }
    }

    /// Take it back.
    pub fn rollback() -> Self {
        Self::default()
    }
}

/// How an unfinished restore was ended.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct Recovered {
    /// Its intent.
    pub id: String,
    /// `finished` or `rolled-back`.
    pub outcome: &'static str,
    /// In a sentence.
    pub message: String,
    /// The checkpoint of the half-done state.
    pub safety_checkpoint: CheckpointId,
    /// The databases that hold what was to be restored now.
    pub databases: Vec<String>,
    /// What was left as it is because somebody changed it meanwhile.
    pub conflicts: Vec<Conflict>,
    /// Displaced files that were kept.
    pub kept: Vec<KeptFile>,
    /// What people should know.
    pub warnings: Remarks,
}

impl Rappel {
    /// Everything unfinished in the home.
    pub fn unfinished(&self) -> Result<Unfinished> {
        let intents = self.intents();
        let listing = intents.list()?;
        let restores = listing
            .open
            .into_iter()
            .map(|intent| UnfinishedRestore {
                id: intent.header.id.to_string(),
                here: intent.header.root_path() == self.root,
                running: intents.is_running(intent.header.id),
                root: intent.header.root,
                checkpoint: intent.header.target,
                safety_checkpoint: intent.header.safety,
                since: intent.header.created_at,
                phase: intent.phase,
                paths: intent.header.actions.len(),
                databases: intent.header.databases.into_iter().map(|one| one.name).collect(),
                past_return: !intent.begun.is_empty(),
            })
            .collect();
        let damaged = listing
            .damaged
            .into_iter()
            .map(|damaged| format!("{}: {}", damaged.path.display(), damaged.reason))
            .collect();
        let damaged_here = !self.damaged_intents()?.is_empty();
        Ok(Unfinished { restores, sessions: self.crashed_sessions()?, damaged, damaged_here })
    }

    /// Damaged intents of this workspace, and those of which nobody knows whose they are.
    pub(crate) fn damaged_intents(&self) -> Result<Vec<DamagedIntent>> {
        let mut damaged = self.intents().list()?.damaged;
        let own = self.workspace_id();
        damaged.retain(|one| one.workspace.is_none() || one.workspace == own);
        Ok(damaged)
    }

    /// Takes damaged intents out of the way, so that this workspace can be restored again. What they
    /// left undone cannot be told; so the present is saved first, with whatever a restore had staged
    /// in it, and nothing else changes.
    pub fn set_aside(&self) -> Result<SetAside> {
        self.store.require_writable()?;
        let workspace = self.require_known()?;
        let _turn = self.turn_to_restore(workspace)?;
        let damaged = self.damaged_intents()?;
        if damaged.is_empty() {
            let message = "no restore is unfinished here whose plan cannot be read".into();
            return Err(Error::Nothing { message, advice: Vec::new() });
        }
        let rows = self.rows()?;
        let before = rows.iter().rev().find(|row| row.trigger == Trigger::PreRestore.as_str());
        let before = before.map(|row| row.id.clone());
        let options = SaveOptions {
            message: Some("Pre-recover auto-save".into()),
            trigger: Some(Trigger::PreRestore),
            ..SaveOptions::default()
        };
        let safety_checkpoint = self.save(&options)?.checkpoint.manifest.id;
        let intents = self.intents();
        let mut files = Vec::new();
        for one in &damaged {
            files.push(intents.set_aside(one)?.display().to_string());
        }
        tracing::info!(count = files.len(), "damaged intents set aside");
        Ok(SetAside { files, safety_checkpoint, before })
    }

    /// Ends this workspace's unfinished restore: carries it on, or takes it back.
    pub fn recover(&self, options: &RecoverOptions) -> Result<Recovered> {
        match self.recover_with(*options, Names::OfTheServer) {
            Err(error) if error.names_missing().is_some() => {
                let said = error.names_missing();
                let mut recovered = self.recover_with(*options, Names::Trusted)?;
                recovered.warnings.extend(said);
                Ok(recovered)
            }
            other => other,
        }
    }

    fn recover_with(&self, options: RecoverOptions, names: Names) -> Result<Recovered> {
        let RecoverOptions { finish, skip_databases, terminate_connections } = options;
        if skip_databases && !finish {
            return Err(Error::Usage {
                message: "databases can only be left out of a restore that is finished".into(),
                advice: vec![Advice::FinishWithoutDatabases],
            });
        }
        self.store.require_writable()?;
        let workspace = self.workspace_id();
        let _turn = workspace.map(|id| self.turn_to_restore(id)).transpose()?;
        let open = self.open_intents()?;
        let Some(intent) = open.iter().find(|intent| intent.header.root_path() == self.root) else {
            if let Some(damaged) = self.damaged_intents()?.into_iter().next() {
                return Err(Error::DamagedIntent { path: damaged.path, reason: damaged.reason });
            }
            return match open.first() {
                Some(other) => Err(Error::Usage {
                    message: format!("the unfinished restore is of {}", other.header.root),
                    advice: vec![Advice::RecoverElsewhere { root: other.header.root.clone() }],
                }),
                None => Err(Error::Nothing {
                    message: "no restore is unfinished here".into(),
                    advice: Vec::new(),
                }),
            };
        };
        let id: IntentId = intent.header.id;
        let (before, target) = (intent.header.safety.clone(), intent.header.target.clone());
        let also = intent.header.actions.iter().map(|action| action.path.clone()).collect();
        let all = intent.header.databases.clone();
        let mut plan = Plan {
            git: intent.header.git.clone(),
            databases: all.clone(),
            agents: intent.header.agents.clone(),
            ..Plan::default()
        };
        if let Some(row) = self.store.checkpoint(&target)? {
            self.borrow_config(&self.store.manifest(&row)?);
        }
        let (fates, mut warnings) = match skip_databases {
            true => Fates::without_the_rest(intent),
            false => (self.fates_of(intent)?, Remarks::default()),
        };
        if skip_databases {
            // What was never begun is nothing that `undo` has to take back.
            plan.databases.retain(|one| fates.committed.contains(&one.name));
        }
        if let (false, Some(name)) = (finish, fates.committed.first()) {
            return Err(Error::PastReturn { database: name.clone() });
        }
        let opened = self.intents().take(id)?;
        let wanted = if finish { &fates.open[..] } else { &[] };
        let mut held = self.hold_again(&target, wanted, terminate_connections, names)?;
        let options = SaveOptions {
            message: Some("Pre-recover auto-save".into()),
            trigger: Some(Trigger::PreRestore),
            also,
            ..SaveOptions::default()
        };
        let plan_of_files = Plan { actions: intent.header.actions.clone(), ..plan.clone() };
        let saved = self.save_to_recover(&options, &mut held, intent, &plan_of_files, finish)?;
        let committed = !fates.committed.is_empty();
        let (databases, left) = self.drive_again(held, wanted, committed, &mut warnings)?;
        let root = Root::open(&self.root, self.options.disk.clone())?;
        let states = |checkpoint: &CheckpointId| self.states_for_restore(checkpoint);
        let job = Job {
            root: &root,
            source: self.source(),
            cancel: self.cancel(),
            progress: self.progress(),
            states: &states,
            databases: &databases,
        };
        let workspace = self.require_known()?;
        let now = &saved.checkpoint.manifest.id;
        // It may have come as far as that, and have been interrupted before its intent was closed.
        let recorded = self.last_undo(workspace)?;
        let recorded = recorded.filter(|undo| (&undo.from, &undo.to) == (&before, &target));
        // On the way back, transcripts and sessions are as the first checkpoint has them.
        let back = match self.store.checkpoint(&before)? {
            Some(row) if !finish && recorded.is_some() => {
                let wish = AgentsWish {
                    only: Some(
                        plan.agents.sessions.iter().map(|one| (one.id.to_string(), None)).collect(),
                    ),
                    transcripts: plan.agents.transcripts.is_some(),
                    made: plan.agents.transcripts,
                    rewound: Vec::new(),
                };
                let manifest = self.store.manifest(&row)?;
                let planned = self.plan_agents(&manifest, Some(&wish), &HashSet::new())?;
                AgentsPlan { made: wish.made, ..planned.plan }
            }
            _ => AgentsPlan::default(),
        };
        let held = [before.clone(), now.clone()];
        let mut unput = Vec::new();
        let mut outcome: Outcome = match (finish, recorded) {
            (true, None) => restore::finish(&job, opened, &mut |outcome| {
                // Otherwise `undo` would go to the half-done state.
                let Some(row) = self.store.checkpoint(&target)? else { return Ok(()) };
                let tree = self.store.manifest(&row)?.files.map(|files| files.tree);
                let mixed = mixed(outcome, |path| match &tree {
                    Some(tree) => tree::lookup(self.source(), tree, path),
                    None => Ok(None),
                })?;
                let partial = self.is_more_than(&plan_of_files, &before, tree.as_ref())?;
                self.remember(
                    workspace,
                    UndoKind::Restore,
                    &before,
                    (&target, partial),
                    (outcome, &plan_of_files),
                    mixed,
                )?;
                unput = self.put_back(&plan.agents, &held, Some(id));
                Ok(())
            })?,
            (true, Some(_)) => restore::finish(&job, opened, &mut |_| {
                self.pass_over(workspace, UndoKind::Restore, &target)?;
                unput = self.put_back(&plan.agents, &held, Some(id));
                Ok(())
            })?,
            // The checkpoint of the half-done state is the newest one, and nothing goes on from it.
            (false, None) => restore::rollback(&job, opened, &mut |_| {
                self.pass_over(workspace, UndoKind::Restore, &before)
            })?,
            (false, Some(undo)) => restore::rollback(&job, opened, &mut |outcome| {
                // What was recorded is not so any more.
                let kind = match undo.kind {
                    UndoKind::Restore | UndoKind::Redo => UndoKind::Undo,
                    UndoKind::Undo => UndoKind::Redo,
                };
                let plan = Plan { agents: back.clone(), ..plan.clone() };
                self.remember(
                    workspace,
                    kind,
                    now,
                    (&before, false),
                    (outcome, &plan),
                    Vec::new(),
                )?;
                unput = self.put_back(&plan.agents, &held, Some(id));
                Ok(())
            })?,
        };
        drop(databases);
        self.clear_databases(&all, &target);
        // Of those that were begun and left at that, nobody can tell.
        let databases = match finish && !skip_databases {
            true => restored_databases(&plan, &left),
            false => Vec::new(),
        };
        // A restored database may stand where the files' part removed a damaged one.
        let stands = |place: &str| {
            databases
                .iter()
                .any(|name| all.iter().any(|one| one.name == *name && one.place == place))
        };
        let removed = |path: &RelPath| plan_of_files.actions.iter().any(|one| one.deletes(path));
        outcome.conflicts.retain(|one| !removed(&one.path) || !stands(&one.path.to_string()));
        let git = if finish { "as the checkpoint has it" } else { "as it was" };
        outcome.conflicts.extend(left);
        outcome.conflicts.extend(unput);
        outcome.warnings.extend(warnings);
        tracing::info!(intent = %id, finish, conflicts = outcome.conflicts.len(), "recovered");
        Ok(Recovered {
            id: id.to_string(),
            outcome: if finish { "finished" } else { "rolled-back" },
            message: describe(
                &outcome,
                None,
                &[
                    ("git", (!plan.git.is_empty()).then(|| git.to_owned())),
                    ("databases", (!databases.is_empty()).then(|| databases.join(", "))),
                ],
            ),
            databases,
            safety_checkpoint: saved.checkpoint.manifest.id,
            kept: kept_files(&outcome),
            conflicts: outcome.conflicts,
            warnings: outcome.warnings,
        })
    }

    /// Whether more files differ between the checkpoint before a restore and its target than the
    /// plan was about: the others were not asked for.
    fn is_more_than(
        &self,
        plan: &Plan,
        before: &CheckpointId,
        target: Option<&ObjectId>,
    ) -> rappel_store::Result<bool> {
        let before = match self.store.checkpoint(before)? {
            Some(row) => self.store.manifest(&row)?.files.map(|files| files.tree),
            None => None,
        };
        let (Some(before), Some(target)) = (before, target) else { return Ok(false) };
        let planned: HashSet<&RelPath> = plan.actions.iter().map(|action| &action.path).collect();
        let changes = tree::diff(self.source(), &before, target)?;
        Ok(changes.iter().any(|change| !planned.contains(&change.path)))
    }

    /// The newest restore, undo or redo of a workspace.
    fn last_undo(&self, workspace: WorkspaceId) -> Result<Option<Undo>> {
        let key = workspace.to_string();
        let row = self.store.look_up(|index| index.newest_document(Kind::Undo, &key))?;
        Ok(row.and_then(|row| serde_json::from_str(&row.json).ok()))
    }
}
