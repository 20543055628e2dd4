//! Whether a checkpoint holds anything else than the restore, undo or redo before it left.

use rappel_capture::git::State;
use rappel_store::document::{Undo, UndoGit};
use rappel_store::index::{CheckpointRow, DocumentRow, Meant};
use rappel_store::record::Kind;
use rappel_store::sink::Scratch;
use rappel_store::tree;
use rappel_types::git::WorktreePart;
use rappel_types::{CheckpointId, Manifest, Node, ObjectId, RelPath, Trigger};

use super::steps::{Page, Steps};
use crate::diff::git;
use crate::error::{Error, Result};
use crate::git::states_in;
use crate::rappel::Rappel;

impl Rappel {
    /// Asks what was done here before.
    pub(super) fn with_steps<T>(
        &self,
        question: impl FnOnce(&Steps<'_>) -> Result<T>,
    ) -> Result<T> {
        let id = match self.require_known() {
            Err(Error::NoCheckpoint { .. }) => None,
            known => Some(known?.to_string()),
        };
        let read = |until: u64, limit: usize| -> Result<Page> {
            let rows = match &id {
                Some(id) => self
                    .store
                    .look_up(|index| index.documents_back(Kind::Undo, id, until, limit))?,
                None => Vec::new(),
            };
            let parse =
                |row: &DocumentRow| Some((row.birth, serde_json::from_str(&row.json).ok()?));
            let mut steps: Vec<(u64, Undo)> = rows.iter().filter_map(parse).collect();
            steps.dedup();
            Ok(Page { steps, is_last: rows.len() < limit })
        };
        question(&Steps(&read))
    }

    /// What a new step is to say of [`Undo::stands`]. Without it, more is read later.
    pub(crate) fn stands_after(&self, undo: &Undo) -> Option<u64> {
        self.with_steps(|steps| steps.stands_after(undo)).ok().flatten()
    }

    /// The commit of the last restore, undo or redo, by whatever process; 0 is none.
    pub(crate) fn last_step(&self) -> Result<u64> {
        self.store.refresh()?;
        let newest = self.with_steps(|steps| steps.newest(u64::MAX))?;
        Ok(newest.map_or(0, |(birth, _)| birth))
    }

    /// Whether a checkpoint that was committed after `oldest` holds anything else than the restore,
    /// undo or redo before it left: by then, something else had happened.
    pub(super) fn has_news_since(&self, oldest: u64) -> Result<bool> {
        let id = self.require_known()?;
        let mut meant = Meant { except: Some(Trigger::PreRestore.as_str()), ..Meant::WITH_FILES };
        while let Some(row) = self.store.look_up(|index| index.newest_of(id, meant))?
            && row.birth > oldest
        {
            meant.before = Some(row.sequence);
            let Some(step) = self.with_steps(|steps| steps.before(row.birth))? else {
                return Ok(true);
            };
            match self.is_as_left(&row, &step) {
                Ok(true) => {}
                Ok(false) => return Ok(true),
                // What cannot be compared counts as something else.
                Err(error) if error.is_unreadable() => return Ok(true),
                Err(error) => return Err(error),
            }
        }
        Ok(false)
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
    pub(super) fn files_left(
        &self,
        step: &Undo,
        from: &Manifest,
        to: &Manifest,
    ) -> Result<Option<ObjectId>> {
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
        let states = |manifest: &Manifest| states_in(self.source(), manifest);
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
