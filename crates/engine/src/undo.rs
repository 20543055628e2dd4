//! Undo and redo: any number of steps back and forward again.
//!
//! If the last restore is the last thing that happened, undo takes back just what it touched.
//! Otherwise it goes to the nearest ancestor that differs from now, by parents, and each further undo
//! goes further back. Redo takes back the last undo. A new restore ends what can be redone.

mod history;
mod prompt;
mod steps;

use std::collections::{BTreeMap, HashSet};

use rappel_store::document::{Undo, UndoDatabase, UndoGit, UndoKind, UndoSession};
use rappel_store::index::CheckpointRow;
use rappel_store::sink::Scratch;
use rappel_store::tree;
use rappel_types::Advice;
use rappel_types::database::Digest;
use rappel_types::plan::Conflict;
use rappel_types::reference::Base;
use rappel_types::{CheckpointId, Entry, Facet, Manifest, ObjectId, Reference, RelPath, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;

use crate::agents::AgentsWish;
use crate::databases::DatabaseWish;
use crate::error::{Error, Result};
use crate::git::{AlsoWorktrees, GitPresent, GitWish};
use crate::rappel::Rappel;
use crate::restore::{Course, Limit, RestoreOptions, RestoreReport};
use crate::save::parent_of;
pub use prompt::{IgnoredFiles, PromptStep};
use steps::Past;

/// What an undo or redo would do.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
#[schemars(rename = "UndoStep")]
pub struct Step {
    /// In a few words: which of the meanings it is.
    pub description: String,
    /// The checkpoint it goes to.
    pub to: CheckpointId,
    /// When that checkpoint was made.
    pub moment: Timestamp,
    /// Whether the user has to be asked.
    pub asks: bool,
    /// The checkpoint whose restore it takes back or does again.
    pub restored: Option<CheckpointId>,
    /// An earlier undo took back the rest of that restore.
    #[serde(skip)]
    pub is_rest: bool,
    /// The checkpoint that the undo went to which a redo takes back.
    #[serde(skip)]
    pub undone: Option<CheckpointId>,
    /// The paths it is about; `None` is all.
    #[serde(skip)]
    paths: Option<HashSet<RelPath>>,
    /// The state in which those paths were left; where they differ from it, somebody edited them.
    #[serde(skip)]
    left_as: Option<CheckpointId>,
    /// Paths that were left otherwise.
    #[serde(skip)]
    mixed: Vec<Entry>,
    /// What of repositories it is about.
    #[serde(skip)]
    git: Vec<UndoGit>,
    /// The databases it is about.
    #[serde(skip)]
    databases: Vec<UndoDatabase>,
    /// The sessions it is about, and whether transcripts are.
    #[serde(skip)]
    sessions: Vec<UndoSession>,
    #[serde(skip)]
    transcripts: bool,
    #[serde(skip)]
    kind: UndoKind,
    /// The commit of the last restore, undo or redo when this was found out; 0 is none.
    #[serde(skip)]
    after: u64,
}

impl Step {
    /// Whether it takes an undo back.
    pub fn is_forward(&self) -> bool {
        self.kind == UndoKind::Redo
    }

    /// A step that takes back what was done, to the checkpoint of `row`.
    fn of(
        undo: Undo,
        kind: UndoKind,
        description: String,
        row: &CheckpointRow,
        after: u64,
    ) -> Self {
        Self {
            description,
            to: undo.from,
            moment: Timestamp::from_millis(row.created_at),
            asks: false,
            restored: None,
            is_rest: false,
            undone: None,
            paths: Some(undo.paths.into_iter().collect()),
            left_as: Some(undo.to),
            mixed: undo.mixed,
            git: undo.git,
            databases: undo.databases,
            sessions: undo.sessions,
            transcripts: undo.transcripts,
            kind,
            after,
        }
    }
}

/// The present, as far as it was looked at.
struct Now<'a> {
    tree: ObjectId,
    git: GitPresent,
    /// By name; `None` is gone.
    databases: BTreeMap<String, Option<Digest>>,
    scratch: Scratch<'a>,
}

impl Rappel {
    /// What `undo` would do now.
    pub fn next_undo(&self) -> Result<Step> {
        self.next_undo_over(false)
    }

    /// The same; with `overwrite`, paths that an undo has kept because they were edited count as not
    /// undone yet.
    pub fn next_undo_over(&self, overwrite: bool) -> Result<Step> {
        self.refuse_if_unfinished()?;
        let after = self.last_step()?;
        let newest = match self.workspace_id() {
            Some(id) => self.store.look_up(|index| index.newest(id))?,
            None => None,
        };
        if newest.is_none() {
            return Err(Error::NotThere {
                message: "there is nothing to undo yet".into(),
                advice: Advice::SaveFirst,
            });
        }
        let mut until = u64::MAX;
        while let Some(past) = self.with_steps(|steps| steps.top(until))? {
            let Some(row) = self.store.checkpoint(&past.undo.from)? else { break };
            if self.has_news_since(past.birth)? {
                break;
            }
            until = past.birth - 1;
            let description = match (&past.restored, past.is_rest) {
                (Some(restored), false) => format!("undo the restore of {restored}"),
                (Some(restored), true) => {
                    format!("undo the rest of the restore of {restored}")
                }
                (None, _) => format!("go back to {}", past.undo.from),
            };
            let mut step = Step::of(past.undo, UndoKind::Undo, description, &row, after);
            (step.restored, step.is_rest) = (past.restored, past.is_rest);
            if !past.is_rest || self.changes_something(&step, overwrite)? {
                return Ok(step);
            }
        }
        Ok(Self::step_to(&self.nearest_that_differs()?, after))
    }

    /// The checkpoints that `undo` and `redo` may go to by what was restored: those of restores
    /// that nothing has followed, and those of undos.
    pub(crate) fn undoable(&self) -> Result<HashSet<CheckpointId>> {
        let steps = self.possible_steps()?.into_iter();
        Ok(steps.flat_map(|undo| [undo.from, undo.to]).collect())
    }

    /// The sessions that `undo` and `redo` may set back.
    pub(crate) fn undoable_sessions(&self) -> Result<HashSet<String>> {
        let steps = self.possible_steps()?.into_iter();
        Ok(steps.flat_map(|undo| undo.sessions).map(|session| session.id).collect())
    }

    fn possible_steps(&self) -> Result<Vec<Undo>> {
        let mut found = Vec::new();
        let mut until = u64::MAX;
        while let Some(past) = self.with_steps(|steps| steps.top(until))? {
            if self.has_news_since(past.birth)? {
                break;
            }
            until = past.birth - 1;
            found.push(past.undo);
        }
        until = u64::MAX;
        while let Some(past) = self.with_steps(|steps| steps.undone(until))? {
            until = past.birth - 1;
            found.push(past.undo);
        }
        Ok(found)
    }

    /// A step to a checkpoint, whatever that changes. It asks.
    fn step_to(row: &CheckpointRow, after: u64) -> Step {
        Step {
            description: format!("go back to {}", row.id),
            to: row.id.clone(),
            moment: Timestamp::from_millis(row.created_at),
            asks: true,
            restored: None,
            is_rest: false,
            undone: None,
            paths: None,
            left_as: None,
            mixed: Vec::new(),
            git: Vec::new(),
            databases: Vec::new(),
            sessions: Vec::new(),
            transcripts: false,
            kind: UndoKind::Undo,
            after,
        }
    }

    /// Whether anything is left to do for a step.
    fn changes_something(&self, step: &Step, overwrite: bool) -> Result<bool> {
        let plan = self.plan_step(step, overwrite, &RestoreOptions::default())?.full_plan;
        Ok(!plan.is_empty() || !plan.conflicts.is_empty())
    }

    /// The checkpoint with files that the workspace stands at: the newest one, or what was restored
    /// since.
    fn position(&self) -> Result<Option<CheckpointRow>> {
        let id = self.require_known()?;
        let (position, newest) = self.store.look_up(|index| {
            let newest = index.newest(id)?;
            Ok((parent_of(index, id, newest.as_ref())?, newest))
        })?;
        let position = match position {
            Some(position) => self.store.checkpoint(&position)?,
            None => None,
        };
        match position.filter(|row| row.workspace == id).or(newest) {
            Some(here) if !here.holds_files => self.ancestor(&here, |row| row.holds_files),
            here => Ok(here),
        }
    }

    /// The nearest checkpoint on the way back from where the workspace stands that holds anything
    /// else than there is now.
    fn nearest_that_differs(&self) -> Result<CheckpointRow> {
        let mut now = self.now_of_everything()?;
        let mut next = self.position()?;
        while let Some(row) = next {
            // What rules keep out of a restore may differ for good.
            if self.differs(&self.store.manifest(&row)?, &mut now)?
                && self.would_change(&row.id, &RestoreOptions::default())?
            {
                return Ok(row);
            }
            next = self.ancestor(&row, |row| row.holds_files)?;
        }
        Err(Error::Nothing {
            message: "there is nothing further back to go to".into(),
            advice: vec![Advice::RestoreAny],
        })
    }

    fn would_change(&self, to: &CheckpointId, options: &RestoreOptions) -> Result<bool> {
        let plan = self.plan_restore(&exactly(to), options)?.full_plan;
        Ok(!plan.is_empty() || !plan.conflicts.is_empty())
    }

    /// Everything as it is now, in memory only.
    fn now_of_everything(&self) -> Result<Now<'_>> {
        let id = self.require_known()?;
        let scratch = Scratch::over(self.source());
        let files = self.scan(&scratch, self.load_cache(id)?, &[])?;
        let git = self.look_at_git(&files, None, &AlsoWorktrees::new(), &scratch)?;
        Ok(Now { tree: files.tree, git, databases: BTreeMap::new(), scratch })
    }

    /// Whether a checkpoint holds anything else than there is now: files, git, or databases.
    fn differs(&self, manifest: &Manifest, now: &mut Now<'_>) -> Result<bool> {
        if manifest.files.as_ref().is_none_or(|files| files.tree != now.tree) {
            return Ok(manifest.files.is_some());
        }
        let wish = GitWish { prune: true, ..GitWish::default() };
        if !self.plan_git(&now.scratch, &now.git, manifest, &wish)?.plan.is_empty() {
            return Ok(true);
        }
        for part in manifest.databases.iter().filter(|part| !part.stale) {
            if !now.databases.contains_key(&part.name) {
                let found = self.present_databases(std::slice::from_ref(part), &now.scratch)?;
                let digest = found.parts.into_iter().next().map(|part| part.digest);
                now.databases.insert(part.name.clone(), digest);
            }
            if now.databases.get(&part.name).is_some_and(|now| now.as_ref() != Some(&part.digest)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// What `redo` would do now.
    pub fn next_redo(&self) -> Result<Step> {
        self.refuse_if_unfinished()?;
        let after = self.last_step()?;
        let Some(Past { undo: last, restored, birth, .. }) =
            self.with_steps(|steps| steps.undone(u64::MAX))?
        else {
            return Err(Error::Nothing {
                message: "there is nothing to redo".into(),
                advice: Vec::new(),
            });
        };
        let Some(row) = self.store.checkpoint(&last.from)? else {
            return Err(Error::Nothing {
                message: format!("{}, which redo would go to, was deleted", last.from),
                advice: vec![Advice::Undelete { id: last.from.to_string() }],
            });
        };
        let description = match &restored {
            Some(restored) => format!("redo the restore of {restored}"),
            None => format!("take back the undo to {}", last.to),
        };
        let undone = last.to.clone();
        let mut step = Step::of(last, UndoKind::Redo, description, &row, after);
        (step.restored, step.undone) = (restored, Some(undone));
        // What was saved since would be set back with it.
        step.asks = self.has_news_since(birth)?;
        Ok(step)
    }

    /// Carries out an undo or redo. A path that was edited since is kept and listed, unless
    /// `overwrite`.
    pub fn step(
        &self,
        step: &Step,
        overwrite: bool,
        options: &RestoreOptions,
    ) -> Result<RestoreReport> {
        let deleted = || Error::Deleted { checkpoint: step.to.clone() };
        let row = self.store.checkpoint(&step.to)?.ok_or_else(deleted)?;
        let target = self.target_of(&row)?;
        self.borrow_config(&target.manifest);
        let course = Course {
            kind: step.kind,
            expected: options.expected.as_deref(),
            narrow: &Ok,
            after: Some(step.after),
        };
        let Some((paths, edited)) = self.paths_of(step, overwrite, options)? else {
            return self.go_to(&target, &Limit::Options(options), &course);
        };
        // One in part that finds nothing to do is no step.
        let kept = !edited.is_empty() || options.is_partial();
        let limit = self.limit_of(step, (&paths, kept), overwrite, options)?;
        let mut report = self.go_to(&target, &limit, &course)?;
        report.conflicts.extend(edited);
        if let Some(done) = &mut report.done {
            done.recovery_complete = report.conflicts.is_empty();
        }
        Ok(report)
    }

    /// The paths that a step is about, and those that it keeps because they were edited since;
    /// `None` if it is about all there are.
    fn paths_of(
        &self,
        step: &Step,
        overwrite: bool,
        options: &RestoreOptions,
    ) -> Result<Option<(HashSet<RelPath>, Vec<Conflict>)>> {
        let Some(mut paths) = step.paths.clone() else { return Ok(None) };
        if !options.wants(Facet::Files) && !options.wants(Facet::Knowledge) {
            paths.clear();
        }
        paths.retain(|path| !options.except.iter().any(|kept| path.is_within(kept)));
        if !options.paths.is_empty() {
            paths.retain(|path| options.paths.iter().any(|chosen| path.is_within(chosen)));
            if paths.is_empty() {
                let path = options.paths[0].to_string();
                return Err(Error::NoPath { checkpoint: step.to.to_string(), path });
            }
        }
        let edited = match (&step.left_as, overwrite) {
            (Some(left_as), false) => self.edited_since(step, left_as, &paths)?,
            _ => Vec::new(),
        };
        paths.retain(|path| !edited.contains(path));
        let kept = edited.into_iter().map(|path| {
            let (checkpoint, paths) = (step.to.to_string(), vec![path.to_string()]);
            let advice = vec![Advice::Overwrite, Advice::Restore { checkpoint, paths }];
            Conflict::at(path, "edited since, kept").with(advice)
        });
        Ok(Some((paths, kept.collect())))
    }

    /// What a step takes back of what was done to repositories.
    fn git_wish(
        &self,
        step: &Step,
        overwrite: bool,
        options: &RestoreOptions,
    ) -> Result<Option<GitWish>> {
        if step.git.is_empty() || options.git().is_none() {
            return Ok(None);
        }
        let left = match &step.left_as {
            Some(left_as) if !overwrite => self.states_of(left_as)?,
            _ => Vec::new(),
        };
        let touched = Some(step.git.clone());
        Ok(Some(GitWish { touched, left, ..GitWish::default() }))
    }

    /// What a step takes back.
    fn limit_of<'a>(
        &self,
        step: &Step,
        (paths, kept): (&'a HashSet<RelPath>, bool),
        overwrite: bool,
        options: &RestoreOptions,
    ) -> Result<Limit<'a>> {
        let git = self.git_wish(step, overwrite, options)?;
        let databases = self.database_wish(step, overwrite, options)?;
        let made = match &step.left_as {
            Some(left_as) if step.transcripts => self.transcripts_of(left_as)?,
            _ => None,
        };
        let agents = options.agents().map(|wish| AgentsWish {
            only: Some(
                step.sessions.iter().map(|one| (one.id.clone(), Some(one.position))).collect(),
            ),
            transcripts: wish.transcripts && step.transcripts,
            made,
            rewound: wish.rewound,
        });
        Ok(Limit::Exactly { paths, git, databases, agents, kept })
    }

    /// What a step takes back of what was done to databases.
    fn database_wish(
        &self,
        step: &Step,
        overwrite: bool,
        options: &RestoreOptions,
    ) -> Result<Option<DatabaseWish>> {
        let Some(wish) = options.databases().filter(|_| !step.databases.is_empty()) else {
            return Ok(None);
        };
        let left = match &step.left_as {
            Some(left_as) if !overwrite => self.store.checkpoint(left_as)?,
            _ => None,
        };
        let left = left.map(|row| self.store.manifest(&row)).transpose()?;
        Ok(Some(DatabaseWish {
            touched: Some(step.databases.clone()),
            left: left.map(|manifest| manifest.databases),
            allow_stale: true,
            // Only what the restore touched comes back.
            with_files: false,
            ..wish
        }))
    }

    /// What an undo or redo would do, without doing it.
    pub fn plan_step(
        &self,
        step: &Step,
        overwrite: bool,
        options: &RestoreOptions,
    ) -> Result<RestoreReport> {
        let Some((paths, edited)) = self.paths_of(step, overwrite, options)? else {
            return self.plan_restore(&exactly(&step.to), options);
        };
        let limit = self.limit_of(step, (&paths, !edited.is_empty()), overwrite, options)?;
        let mut report = self.plan_exactly(&step.to, &limit)?;
        report.conflicts.extend(edited);
        Ok(report)
    }

    /// Those of `paths` that are no longer as a checkpoint left them, nor as the step would make them.
    fn edited_since(
        &self,
        step: &Step,
        left_as: &CheckpointId,
        paths: &HashSet<RelPath>,
    ) -> Result<Vec<RelPath>> {
        let Some(row) = self.store.checkpoint(left_as)? else { return Ok(Vec::new()) };
        let manifest = self.store.manifest(&row)?;
        let Some(files) = &manifest.files else { return Ok(Vec::new()) };
        let id = self.require_known()?;
        let scratch = Scratch::over(self.source());
        let also: Vec<RelPath> = {
            let mut also: Vec<_> = paths.iter().cloned().collect();
            also.sort();
            also
        };
        let now = self.scan(&scratch, self.load_cache(id)?, &also)?;
        let mut changes = tree::diff(&scratch, &files.tree, &now.tree)?;
        changes.retain(|change| paths.contains(&change.path) && !only_folders(change));
        let target = match (changes.is_empty(), self.store.checkpoint(&step.to)?) {
            (false, Some(row)) => self.store.manifest(&row)?.files,
            _ => None,
        };
        let target = target.map(|files| tree::Lookup::new(self.source(), files.tree));
        let mut edited = Vec::new();
        for change in changes {
            let left = step.mixed.iter().find(|entry| entry.path == change.path);
            let is_left = left.is_some_and(|entry| change.new.as_ref() == Some(&entry.node));
            let is_made = match &target {
                Some(target) => target.find(&change.path)? == change.new,
                None => false,
            };
            if !is_left && !is_made && !self.is_database_of(&manifest, &change.path, &scratch) {
                edited.push(change.path);
            }
        }
        Ok(edited)
    }

    /// Whether a SQLite database stands at `path` just as a checkpoint holds it.
    fn is_database_of(&self, manifest: &Manifest, path: &RelPath, scratch: &Scratch<'_>) -> bool {
        let place = path.to_string();
        let mut parts = manifest.databases.iter();
        let Some(part) = parts.find(|part| part.location.as_ref() == Some(&place)) else {
            return false;
        };
        let Some(Ok(named)) = self.database_of(part) else { return false };
        let Ok(reading) = self.reading() else { return false };
        let now = named.database.read(scratch, Some(part), &reading.watch);
        now.is_ok_and(|now| now.digest == part.digest)
    }
}

/// Just this checkpoint.
fn exactly(id: &CheckpointId) -> Reference {
    Reference::new(Base::Id(id.clone()))
}

/// Everything but agents: their sessions go on even where nothing else changes.
fn without_agents() -> RestoreOptions {
    RestoreOptions { skip: [Facet::Agents].into(), ..RestoreOptions::default() }
}

/// Whether a difference is only about a folder being there or its mode: nothing anybody typed.
fn only_folders(change: &tree::Change) -> bool {
    let folder_or_nothing = |node: &Option<rappel_types::Node>| {
        matches!(node, None | Some(rappel_types::Node::Directory { .. }))
    };
    folder_or_nothing(&change.old) && folder_or_nothing(&change.new)
}
