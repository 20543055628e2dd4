//! What a restore would do, or has done, as people and programs are told.

use rappel_capture::restore::{Outcome, plan_hash};
use rappel_types::plan::{ActionCounts, Conflict};
use rappel_types::size::thousands;
use rappel_types::{Action, ActionKind, CheckpointId, Facet, Plan, RelPath, Timestamp};
use rappel_types::{Advice, Remarks};
use schemars::JsonSchema;
use serde::Serialize;

use super::Planned;

/// What each side of the state will go through, for people.
#[derive(Debug, Clone, Default, PartialEq, Eq, JsonSchema, Serialize)]
#[schemars(rename = "RestoreSummary")]
pub struct Summary {
    /// Files, by what happens to them.
    pub files: ActionCounts,
    /// Git.
    pub git: Option<String>,
    /// Databases.
    pub databases: Option<String>,
    /// Agents.
    pub agents: Option<String>,
    /// Other work trees.
    pub worktrees: Option<String>,
}

impl Summary {
    /// What happens besides files, each with its name.
    pub(super) fn others(&self) -> [(&'static str, Option<String>); 4] {
        [
            ("git", self.git.clone()),
            ("other work trees", self.worktrees.clone()),
            ("databases", self.databases.clone()),
            ("agents", self.agents.clone()),
        ]
    }
}

/// What a restore would do, or has done. Its JSON is the one of `restore`.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct RestoreReport {
    /// The checkpoint that is restored.
    pub checkpoint: CheckpointId,
    /// Whether nothing was changed.
    pub dry_run: bool,
    /// The plan's hash.
    pub plan: String,
    /// In numbers.
    pub summary: Summary,
    /// What happens to git, line by line, for people.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<String>,
    /// What happens to databases, table by table, for people.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tables: Vec<String>,
    /// What happens to sessions, one by one, for people.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sessions: Vec<String>,
    /// Step by step.
    pub actions: Vec<ShownAction>,
    /// What people should know.
    pub warnings: Remarks,
    /// What forbids it, or what was left as it is because somebody changed it meanwhile.
    pub conflicts: Vec<Conflict>,
    /// What to do about warnings and conflicts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub advice: Vec<Advice>,
    /// How to go through with it, in the words of a face. The engine leaves it out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confirm_with: Option<String>,
    /// What was done; absent in a dry run.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub done: Option<Done>,
    /// The actions with what stands there before and after.
    #[serde(skip)]
    pub full_plan: Plan,
}

/// What was done.
#[derive(Debug, Clone, JsonSchema, Serialize)]
#[schemars(rename = "RestoreDone")]
pub struct Done {
    /// The checkpoint that was restored.
    pub restored_to: CheckpointId,
    /// When that was made.
    pub timestamp: Timestamp,
    /// What it was called.
    pub message: Option<String>,
    /// When the restore ended.
    pub finished_at: Timestamp,
    /// What it did, in a sentence.
    pub text: String,
    /// Whether everything is as planned.
    pub recovery_complete: bool,
    /// The checkpoint of what was there before; none if there was nothing to do.
    pub safety_checkpoint: Option<CheckpointId>,
    /// Whether every written byte was read back and compared.
    pub verified: bool,
    /// How long it took.
    pub duration_ms: u64,
    /// Displaced files that were kept, and where.
    pub kept: Vec<KeptFile>,
}

/// A displaced file that was kept.
#[derive(Debug, Clone, JsonSchema, Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct KeptFile {
    pub path: RelPath,
    pub at: RelPath,
    pub reason: String,
}

/// A step as it is shown.
#[derive(Debug, Clone, JsonSchema, Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct ShownAction {
    pub facet: Facet,
    pub action: ActionKind,
    pub path: RelPath,
    pub reason: String,
}

pub(super) fn report_of(
    checkpoint: &CheckpointId,
    planned: Planned,
    dry_run: bool,
) -> RestoreReport {
    let Planned { plan, git, databases, agents } = planned;
    // What stands in the place of a database goes with it; nobody loses a file.
    let is_displaced = |action: &Action| databases.displaced.contains(&action.path);
    let mut files = plan.counts();
    files.delete -= plan.actions.iter().filter(|action| is_displaced(action)).count() as u64;
    let shown = |action: &Action| ShownAction {
        facet: if is_displaced(action) { Facet::Databases } else { action.facet },
        action: action.action,
        path: action.path.clone(),
        reason: action.reason.clone(),
    };
    RestoreReport {
        checkpoint: checkpoint.clone(),
        dry_run,
        plan: plan_hash(checkpoint, &plan),
        summary: Summary {
            files,
            git: git.summary,
            worktrees: git.worktrees,
            databases: databases.summary,
            agents: agents.summary,
        },
        details: git.details,
        tables: databases.details,
        sessions: agents.details,
        actions: plan
            .actions
            .iter()
            .chain(&git.actions)
            .chain(&databases.actions)
            .map(shown)
            .collect(),
        warnings: plan.warnings.clone(),
        conflicts: plan.conflicts.clone(),
        advice: advice_of(&plan),
        confirm_with: None,
        done: None,
        full_plan: plan,
    }
}

/// What helps with the warnings and the conflicts of a plan, each once.
fn advice_of(plan: &Plan) -> Vec<Advice> {
    let mut all = plan.warnings.advice();
    for advice in plan.conflicts.iter().flat_map(|conflict| &conflict.advice) {
        if !all.contains(advice) {
            all.push(advice.clone());
        }
    }
    all
}

/// The databases of a plan, by name, but for those that were left as they are.
pub(crate) fn restored_databases(plan: &Plan, left: &[Conflict]) -> Vec<String> {
    let was_left = |name: &str| {
        let mut left = left.iter().filter(|one| one.is_about_a_database());
        left.any(|one| one.path.as_bytes() == name.as_bytes())
    };
    let names = plan.databases.iter().map(|one| one.name.clone());
    names.filter(|name| !was_left(name)).collect()
}

/// What was done in a sentence. `planned` is how many files the plan was about, which is what was
/// done unless somebody came in between; `others` is what was done besides.
pub(crate) fn describe(
    outcome: &Outcome,
    planned: Option<ActionCounts>,
    others: &[(&str, Option<String>)],
) -> String {
    let counts = planned.filter(|_| outcome.is_clean()).unwrap_or(outcome.counts);
    let files = format!(
        "{} new, {} changed, {} deleted",
        thousands(counts.create),
        thousands(counts.overwrite),
        thousands(counts.delete)
    );
    let any = counts.create + counts.overwrite + counts.delete > 0;
    let others = others.iter();
    let others = others.filter_map(|(what, done)| Some(format!("{what}: {}", done.as_ref()?)));
    let told: Vec<String> = any.then_some(files).into_iter().chain(others).collect();
    let mut text = match told.is_empty() {
        true => "nothing changed".to_owned(),
        false => told.join("; "),
    };
    if !outcome.conflicts.is_empty() {
        text.push_str(&match outcome.conflicts.len() {
            1 => "; 1 left as it was because it changed meanwhile".to_owned(),
            more => format!(
                "; {} left as they were because they changed meanwhile",
                thousands(more as u64)
            ),
        });
    }
    text
}

pub(crate) fn kept_files(outcome: &Outcome) -> Vec<KeptFile> {
    outcome
        .kept
        .iter()
        .map(|kept| KeptFile {
            path: kept.path.clone(),
            at: kept.at.clone(),
            reason: kept.reason.clone(),
        })
        .collect()
}
