//! Undo and redo: any number of steps back and forward again.
//!
//! If the last restore is the last thing that happened, undo takes back just what it touched.
//! Otherwise it goes to the newest checkpoint that differs from now, and each further undo goes
//! further back. Redo takes back the last undo. A new restore ends what can be redone.

use std::collections::{BTreeMap, HashSet};

use rappel_store::document::{Undo, UndoDatabase, UndoGit, UndoKind, UndoSession};
use rappel_store::index::CheckpointRow;
use rappel_store::record::Kind;
use rappel_store::sink::Scratch;
use rappel_store::tree;
use rappel_types::database::Digest;
use rappel_types::plan::Conflict;
use rappel_types::{CheckpointId, Entry, Facet, Manifest, ObjectId, RelPath, Timestamp, Trigger};
use serde::Serialize;

use crate::agents::AgentsWish;
use crate::databases::DatabaseWish;
use crate::error::{Error, Result};
use crate::git::{GitPresent, GitWish};
use crate::rappel::Rappel;
use crate::restore::{Limit, RestoreOptions, RestoreReport};

/// What an undo or redo would do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Step {
    /// In a sentence: which of the meanings it is, and to what moment it goes.
    pub description: String,
    /// The checkpoint it goes to.
    pub to: CheckpointId,
    /// When that was.
    pub moment: Timestamp,
    /// Whether the user has to be asked.
    pub asks: bool,
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
}

/// The present, as far as it was looked at.
struct Now<'a> {
    tree: ObjectId,
    git: GitPresent,
    /// By name; `None` is gone.
    databases: BTreeMap<String, Option<Digest>>,
    scratch: Scratch<'a>,
}

/// A restore, undo or redo of the past.
struct Past {
    /// The commit it was born with.
    birth: u64,
    /// What it did.
    undo: Undo,
    /// The checkpoint that the user restored, if that is what stands by it or was taken back by it.
    restored: Option<CheckpointId>,
}

/// What the documents say can be undone and redone.
#[derive(Default)]
struct History {
    /// Restores that were not undone, oldest first.
    restores: Vec<Past>,
    /// Undos that were not redone, oldest first.
    undone: Vec<Past>,
    /// Safety checkpoints that undo and redo made.
    safeties: HashSet<CheckpointId>,
}

impl Rappel {
    fn history(&self) -> Result<History> {
        let id = match self.require_known() {
            Err(Error::NoCheckpoint { .. }) => return Ok(History::default()),
            known => known?,
        };
        let rows = self.store.look_up(|i| i.documents(Kind::Undo, Some(&id.to_string())))?;
        let mut history = History::default();
        for row in rows {
            let Ok(undo) = serde_json::from_str::<Undo>(&row.json) else { continue };
            let birth = row.birth;
            match undo.kind {
                UndoKind::Restore => {
                    let restored = Some(undo.to.clone());
                    history.restores.push(Past { birth, undo, restored });
                    history.undone.clear();
                }
                UndoKind::Undo => {
                    history.safeties.insert(undo.from.clone());
                    let taken_back = history.restores.pop_if(|last| last.undo.from == undo.to);
                    let restored = taken_back.and_then(|past| past.restored);
                    history.undone.push(Past { birth, undo, restored });
                }
                UndoKind::Redo => {
                    history.safeties.insert(undo.from.clone());
                    if let Some(redone) = history.undone.pop() {
                        // What was undone stands again, and can be undone again.
                        history.restores.push(Past {
                            birth: redone.birth.max(birth),
                            undo: Undo { from: redone.undo.to, ..undo },
                            restored: redone.restored,
                        });
                    }
                }
            }
        }
        Ok(history)
    }

    /// What `undo` would do now.
    pub fn next_undo(&self) -> Result<Step> {
        self.refuse_if_unfinished()?;
        let history = self.history()?;
        let rows = self.rows()?;
        if rows.is_empty() {
            return Err(Error::NotThere {
                message: "there is nothing to undo yet".into(),
                hint: "rappel save makes the first checkpoint".into(),
            });
        }
        // Checkpoints that count as "something else happened".
        let newest_other = rows
            .iter()
            .rev()
            .find(|row| row.holds_files && row.trigger != Trigger::PreRestore.as_str());
        if let Some(Past { birth, undo: last, restored }) = history.restores.last()
            && newest_other.is_none_or(|row| row.birth < *birth)
            && let Some(row) = self.store.checkpoint(&last.from)?
        {
            return Ok(Step {
                description: match restored {
                    Some(restored) => format!("takes back the restore of {restored}"),
                    None => format!("goes back to {} again", last.from),
                },
                to: last.from.clone(),
                moment: Timestamp::from_millis(row.created_at),
                asks: false,
                paths: Some(last.paths.iter().cloned().collect()),
                left_as: Some(last.to.clone()),
                mixed: last.mixed.clone(),
                git: last.git.clone(),
                databases: last.databases.clone(),
                sessions: last.sessions.clone(),
                transcripts: last.transcripts,
                kind: UndoKind::Undo,
            });
        }
        let below = history.undone.last().and_then(|Past { birth, undo, .. }| {
            let unbroken = newest_other.is_none_or(|row| row.birth < *birth);
            let at = rows.iter().find(|row| row.id == undo.to)?;
            unbroken.then_some(at.sequence)
        });
        let row = self.newest_that_differs(&rows, &history, below)?;
        Ok(Step {
            description: format!("goes back to {}", row.id),
            to: row.id,
            moment: Timestamp::from_millis(row.created_at),
            asks: true,
            paths: None,
            left_as: None,
            mixed: Vec::new(),
            git: Vec::new(),
            databases: Vec::new(),
            sessions: Vec::new(),
            transcripts: false,
            kind: UndoKind::Undo,
        })
    }

    fn newest_that_differs(
        &self,
        rows: &[CheckpointRow],
        history: &History,
        below: Option<u64>,
    ) -> Result<CheckpointRow> {
        let mut now = self.now_of_everything()?;
        for row in rows.iter().rev() {
            let candidate = row.holds_files
                && below.is_none_or(|below| row.sequence < below)
                && !history.safeties.contains(&row.id);
            if !candidate {
                continue;
            }
            if self.differs(&self.store.manifest(row)?, &mut now)? {
                return Ok(row.clone());
            }
        }
        Err(Error::Nothing { message: "there is nothing further back to go to".into() })
    }

    /// Everything as it is now, in memory only.
    fn now_of_everything(&self) -> Result<Now<'_>> {
        let id = self.require_known()?;
        let scratch = Scratch::over(self.source());
        let files = self.scan(&scratch, self.load_cache(id)?, &[], None)?;
        let git = self.look_at_git(&files, None, &scratch)?;
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
        let history = self.history()?;
        let Some(Past { undo: last, restored, .. }) = history.undone.last() else {
            return Err(Error::Nothing { message: "there is nothing to redo".into() });
        };
        let Some(row) = self.store.checkpoint(&last.from)? else {
            return Err(Error::Nothing {
                message: format!("{}, which redo would go to, was deleted", last.from),
            });
        };
        Ok(Step {
            description: match restored {
                Some(restored) => format!("takes back the undo: {restored} is restored again"),
                None => format!("takes back the undo that went to {}", last.to),
            },
            to: last.from.clone(),
            moment: Timestamp::from_millis(row.created_at),
            asks: false,
            paths: Some(last.paths.iter().cloned().collect()),
            left_as: Some(last.to.clone()),
            mixed: last.mixed.clone(),
            git: last.git.clone(),
            databases: last.databases.clone(),
            sessions: last.sessions.clone(),
            transcripts: last.transcripts,
            kind: UndoKind::Redo,
        })
    }

    /// Carries out an undo or redo. A path that was edited since is kept and listed, unless
    /// `overwrite`.
    pub fn step(
        &mut self,
        step: &Step,
        overwrite: bool,
        options: &RestoreOptions,
    ) -> Result<RestoreReport> {
        let deleted = || Error::Deleted { checkpoint: step.to.clone() };
        let row = self.store.checkpoint(&step.to)?.ok_or_else(deleted)?;
        let target = self.target_of(&row)?;
        self.borrow_config(&target.manifest);
        let kind = step.kind;
        let Some((paths, edited)) = self.paths_of(step, overwrite, options)? else {
            let expected = options.expected.as_deref();
            return self.go_to(&target, &Limit::Options(options), kind, expected, &Ok);
        };
        let expected = options.expected.as_deref();
        let limit = self.limit_of(step, (&paths, !edited.is_empty()), overwrite, options)?;
        let mut report = self.go_to(&target, &limit, kind, expected, &Ok)?;
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
        if !options.paths.is_empty() {
            paths.retain(|path| options.paths.iter().any(|chosen| path.is_within(chosen)));
            if paths.is_empty() {
                let path = options.paths[0].to_string();
                return Err(Error::NoPath { checkpoint: step.to.to_string(), path });
            }
        }
        let edited = match (&step.left_as, overwrite) {
            (Some(left_as), false) => self.edited_since(left_as, &step.mixed, &paths)?,
            _ => Vec::new(),
        };
        paths.retain(|path| !edited.contains(path));
        let kept = edited.into_iter().map(|path| Conflict {
            reason: format!(
                "edited since, kept (--overwrite takes it too, or rappel restore {} --path {path})",
                step.to
            ),
            path,
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
            let base = rappel_types::reference::Base::Id(step.to.clone());
            return self.plan_restore(&rappel_types::Reference { base, back: 0 }, options);
        };
        let limit = self.limit_of(step, (&paths, !edited.is_empty()), overwrite, options)?;
        let mut report = self.plan_exactly(&step.to, &limit)?;
        let kept = edited.iter().map(|one| format!("{}: {}", one.path, one.reason));
        report.warnings.extend(kept);
        Ok(report)
    }

    /// Those of `paths` that are no longer as a checkpoint left them.
    fn edited_since(
        &self,
        left_as: &CheckpointId,
        mixed: &[Entry],
        paths: &HashSet<RelPath>,
    ) -> Result<Vec<RelPath>> {
        let Some(row) = self.store.checkpoint(left_as)? else { return Ok(Vec::new()) };
        let Some(files) = self.store.manifest(&row)?.files else { return Ok(Vec::new()) };
        let id = self.require_known()?;
        let scratch = Scratch::over(self.source());
        let also: Vec<RelPath> = {
            let mut also: Vec<_> = paths.iter().cloned().collect();
            also.sort();
            also
        };
        let now = self.scan(&scratch, self.load_cache(id)?, &also, None)?;
        let changes = tree::diff(&scratch, &files.tree, &now.tree)?;
        Ok(changes
            .into_iter()
            .filter(|change| paths.contains(&change.path))
            .filter(|change| !only_folders(change))
            .filter(|change| {
                let left = mixed.iter().find(|entry| entry.path == change.path);
                left.is_none_or(|entry| change.new.as_ref() != Some(&entry.node))
            })
            .map(|change| change.path)
            .collect())
    }
}

/// Whether a difference is only about a folder being there or its mode: nothing anybody typed.
fn only_folders(change: &tree::Change) -> bool {
    let folder_or_nothing = |node: &Option<rappel_types::Node>| {
        matches!(node, None | Some(rappel_types::Node::Directory { .. }))
    };
    folder_or_nothing(&change.old) && folder_or_nothing(&change.new)
}
