//! What the documents of past restores, undos and redos say can be undone and redone, and whether a
//! checkpoint since holds anything else than the last of them left.

use rappel_capture::git::State;
use rappel_store::document::{Undo, UndoGit, UndoKind, UndoWorktree};
use rappel_store::index::{CheckpointRow, Meant};
use rappel_store::record::Kind;
use rappel_store::sink::Scratch;
use rappel_store::tree;
use rappel_types::git::WorktreePart;
use rappel_types::{CheckpointId, Manifest, Node, ObjectId, RelPath, Trigger};

use crate::diff::git;
use crate::error::{Error, Result};
use crate::rappel::Rappel;

/// A restore, undo or redo of the past.
pub(super) struct Past {
    /// The commit it was born with.
    pub birth: u64,
    /// What it did; of a restore that was undone in part, what is left of that.
    pub undo: Undo,
    /// The checkpoint that the user restored, if that is what stands by it or was taken back by it.
    pub restored: Option<CheckpointId>,
    /// Whether it was undone in part.
    pub is_rest: bool,
}

/// What the documents say can be undone and redone.
#[derive(Default)]
pub(super) struct History {
    /// Restores that were not undone, oldest first.
    pub restores: Vec<Past>,
    /// Undos that were not redone, oldest first.
    pub undone: Vec<Past>,
    /// Everything that was done, oldest first, each with the commit it was born with.
    steps: Vec<(u64, Undo)>,
}

impl History {
    /// The commit of the last thing that was done; 0 is none.
    pub fn last(&self) -> u64 {
        self.steps.last().map_or(0, |(birth, _)| *birth)
    }

    fn add(&mut self, birth: u64, undo: Undo) {
        // A restore that had nothing to do is nothing to take back. It was remembered once.
        if undo.kind == UndoKind::Restore && did_nothing(&undo) {
            return;
        }
        self.steps.push((birth, undo.clone()));
        match undo.kind {
            UndoKind::Restore => {
                let restored = Some(undo.to.clone());
                self.restores.push(Past { birth, undo, restored, is_rest: false });
                self.undone.clear();
            }
            UndoKind::Undo => {
                let mut restored = None;
                if let Some(mut past) = self.restores.pop_if(|last| last.undo.from == undo.to) {
                    restored.clone_from(&past.restored);
                    past.is_rest = true;
                    // One that found nothing to do has ended the step: there is no rest of it.
                    if !did_nothing(&undo) && take_out(&mut past.undo, &undo) {
                        self.restores.push(past);
                    }
                }
                if !did_nothing(&undo) {
                    self.undone.push(Past { birth, undo, restored, is_rest: false });
                }
            }
            UndoKind::Redo => {
                if let Some(redone) = self.undone.pop().filter(|_| !did_nothing(&undo)) {
                    // What was undone stands again, and can be undone again.
                    self.restores.push(Past {
                        birth: redone.birth.max(birth),
                        undo: Undo { from: redone.undo.to, ..undo },
                        restored: redone.restored,
                        is_rest: false,
                    });
                }
            }
        }
    }
}

/// Takes out of a restore what an undo took back; false if nothing is left.
fn take_out(restore: &mut Undo, undo: &Undo) -> bool {
    restore.paths.retain(|path| undo.paths.binary_search(path).is_err());
    restore.git.retain_mut(|one| match undo.git.iter().find(|undone| undone.path == one.path) {
        Some(undone) => take_out_git(one, undone),
        None => true,
    });
    let undone = |name: &str| undo.databases.iter().any(|one| one.name == name);
    restore.databases.retain(|one| !undone(&one.name));
    restore.sessions.retain(|one| undo.sessions.iter().all(|undone| undone.id != one.id));
    restore.transcripts &= !undo.transcripts;
    !did_nothing(restore)
}

/// Whether a restore, undo or redo changed nothing.
fn did_nothing(undo: &Undo) -> bool {
    undo.paths.is_empty()
        && undo.git.is_empty()
        && undo.databases.is_empty()
        && undo.sessions.is_empty()
        && !undo.transcripts
}

fn take_out_git(one: &mut UndoGit, undone: &UndoGit) -> bool {
    one.refs.retain(|name| !undone.refs.contains(name));
    one.whole &= !undone.whole;
    one.link &= !undone.link;
    one.worktrees.retain_mut(|worktree| {
        let undone = undone.worktrees.iter().find(|undone| undone.name == worktree.name);
        undone.is_none_or(|undone| take_out_worktree(worktree, undone))
    });
    !one.refs.is_empty() || one.whole || one.link || !one.worktrees.is_empty()
}

fn take_out_worktree(one: &mut UndoWorktree, undone: &UndoWorktree) -> bool {
    one.paths.retain(|path| !undone.paths.contains(path));
    one.whole &= !undone.whole;
    one.link &= !undone.link;
    one.admin &= !undone.admin;
    one.whole || one.link || one.admin || !one.paths.is_empty()
}

impl Rappel {
    pub(super) fn history(&self) -> Result<History> {
        let id = match self.require_known() {
            Err(Error::NoCheckpoint { .. }) => return Ok(History::default()),
            known => known?,
        };
        let rows = self.store.look_up(|i| i.documents(Kind::Undo, Some(&id.to_string())))?;
        let mut history = History::default();
        for row in rows {
            if let Ok(undo) = serde_json::from_str::<Undo>(&row.json) {
                history.add(row.birth, undo);
            }
        }
        Ok(history)
    }

    /// The commit of the last restore, undo or redo, by whatever process; 0 is none.
    pub(crate) fn last_step(&self) -> Result<u64> {
        self.store.refresh()?;
        let id = match self.require_known() {
            Err(Error::NoCheckpoint { .. }) => return Ok(0),
            known => known?,
        };
        let newest =
            self.store.look_up(|index| index.newest_document(Kind::Undo, &id.to_string()))?;
        match newest.map(|row| (row.birth, serde_json::from_str::<Undo>(&row.json))) {
            Some((birth, Ok(_))) => Ok(birth),
            Some((_, Err(_))) => Ok(self.history()?.last()),
            None => Ok(0),
        }
    }

    /// The commit of the newest checkpoint that holds anything else than the restore, undo or redo
    /// before it left: by then, something else had happened. None older than the last restore is
    /// looked at.
    pub(super) fn last_news(&self, history: &History) -> Result<Option<u64>> {
        match history.restores.first() {
            Some(oldest) => self.news_since(history, oldest.birth),
            None => Ok(None),
        }
    }

    /// The same, among those that were committed after `oldest`.
    pub(super) fn news_since(&self, history: &History, oldest: u64) -> Result<Option<u64>> {
        let id = self.require_known()?;
        let mut meant = Meant { except: Some(Trigger::PreRestore.as_str()), ..Meant::WITH_FILES };
        while let Some(row) = self.store.look_up(|index| index.newest_of(id, meant))?
            && row.birth > oldest
        {
            meant.before = Some(row.sequence);
            let before = history.steps.partition_point(|(birth, _)| *birth < row.birth);
            let Some((_, step)) = before.checked_sub(1).map(|at| &history.steps[at]) else {
                return Ok(Some(row.birth));
            };
            match self.is_as_left(&row, step) {
                Ok(true) => {}
                Ok(false) => return Ok(Some(row.birth)),
                // What cannot be compared counts as something else.
                Err(error) if error.is_unreadable() => return Ok(Some(row.birth)),
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Whether a checkpoint holds just what a step left.
    fn is_as_left(&self, row: &CheckpointRow, step: &Undo) -> Result<bool> {
        let manifest = |id: &CheckpointId| match self.store.checkpoint(id)? {
            Some(row) => Ok::<_, Error>(Some(self.store.manifest(&row)?)),
            None => Ok(None),
        };
        let (Some(from), Some(to)) = (manifest(&step.from)?, manifest(&step.to)?) else {
            return Ok(false);
        };
        let held = self.store.manifest(row)?;
        Ok(held.files.as_ref().map(|files| files.tree) == self.files_left(step, &from, &to)?
            && self.git_is_as_left(step, (&from, &to), &held)?
            && databases_are_as_left(step, (&from, &to), &held))
    }

    /// The tree of files that a step left.
    fn files_left(&self, step: &Undo, from: &Manifest, to: &Manifest) -> Result<Option<ObjectId>> {
        let Some(files) = &from.files else { return Ok(None) };
        let there = to.files.as_ref().map(|to| tree::Lookup::new(self.source(), to.tree));
        let left = |path: &RelPath| -> Result<Option<Node>> {
            match (step.mixed.iter().find(|entry| entry.path == *path), &there) {
                (Some(mixed), _) => Ok(Some(mixed.node.clone())),
                (None, Some(there)) => Ok(there.find(path)?),
                (None, None) => Ok(None),
            }
        };
        let changes = step.paths.iter().map(|path| Ok((path.clone(), left(path)?)));
        let changes = changes.collect::<Result<Vec<_>>>()?;
        let scratch = Scratch::over(self.source());
        Ok(Some(tree::update(&scratch, &files.tree, &changes)?))
    }

    fn git_is_as_left(
        &self,
        step: &Undo,
        (from, to): (&Manifest, &Manifest),
        held: &Manifest,
    ) -> Result<bool> {
        if held.git == from.git && step.git.is_empty() {
            return Ok(true);
        }
        let states = |manifest: &Manifest| git::states(self.source(), manifest.git.as_ref());
        let (from, to, held) = (states(from)?, states(to)?, states(held)?);
        let untouched =
            from.iter().filter(|state| step.git.iter().all(|one| one.path != state.path));
        let mut left: Vec<State> = untouched.cloned().collect();
        for one in &step.git {
            let Some(state) = to.iter().find(|state| state.path == one.path) else { continue };
            let before = from.iter().find(|state| state.path == one.path);
            left.push(state_left(state.clone(), before, one));
        }
        Ok(git::compare(self.source(), &left, &held).is_none())
    }
}

/// A repository as a step left it: refs that the checkpoint does not have stay unless they were
/// touched, and so do other work trees.
fn state_left(mut state: State, before: Option<&State>, step: &UndoGit) -> State {
    let Some(before) = before else { return state };
    for (name, target) in &before.refs {
        if !step.refs.contains(name) && !state.refs.contains_key(name) {
            state.refs.insert(name.clone(), target.clone());
        }
    }
    let touched = |part: &WorktreePart| step.worktrees.iter().any(|one| one.name == part.name);
    let others = before.part.worktrees.iter().filter(|part| !touched(part));
    state.part.worktrees.retain(touched);
    state.part.worktrees.extend(others.cloned());
    state
}

fn databases_are_as_left(step: &Undo, (from, to): (&Manifest, &Manifest), held: &Manifest) -> bool {
    held.databases.iter().filter(|part| !part.stale).all(|part| {
        let restored = step.databases.iter().find(|one| one.name == part.name);
        let manifest = if restored.is_some() { to } else { from };
        let left = manifest.databases.iter().find(|left| left.name == part.name);
        // A command may give something else than it was given.
        let given = restored.and_then(|one| one.left.as_ref());
        left.is_some_and(|left| left.digest == part.digest)
            || given.is_some_and(|given| *given == part.digest.to_string())
    })
}
