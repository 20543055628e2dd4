//! The other work trees of a repository, in a restore: those that are gone come back, those that are
//! asked for are brought to their other state.

use std::collections::HashSet;
use std::path::Path;

use rappel_capture::git::State;
use rappel_capture::git::apply::path_of;
use rappel_capture::restore::{RootProbe, Scope, Side, plan_files};
use rappel_store::beneath::Root;
use rappel_store::sink::Source;
use rappel_store::tree::{self, Change};
use rappel_types::git::{RepositoryPlan, WorktreePart, WorktreePlan};
use rappel_types::manifest::{FilesPart, PartialReason};
use rappel_types::plan::Conflict;
use rappel_types::{ActionKind, FacetState, RelPath};

use super::plan::{GitPlanned, GitWish};
use crate::error::Result;
use crate::rappel::Rappel;
use crate::restore::recorded_selector;

impl Rappel {
    /// The other work trees that a restore brings back: those that are gone, and those asked for.
    /// Of an undo: just those that are taken back.
    pub(super) fn returning(
        here: &State,
        there: &State,
        wish: &GitWish,
        warnings: &mut Vec<String>,
    ) -> Vec<Returning> {
        let mut found = Vec::new();
        if there.part.linked.is_some() {
            return found;
        }
        let touched = wish.touched_at(there.path.as_ref());
        for part in &there.part.worktrees {
            let Some(files) = &part.files else { continue };
            let folder = path_of(&part.path);
            let is_gone = match std::fs::read_dir(&folder) {
                Ok(mut entries) => entries.next().is_none(),
                Err(error) => error.kind() == std::io::ErrorKind::NotFound,
            };
            let touched =
                touched.map(|touched| touched.worktrees.iter().find(|one| one.name == part.name));
            let asked = match touched {
                Some(touched) => touched.is_some(),
                None => wish.worktrees.iter().any(|name| name == "all" || *name == part.name),
            };
            let known = here.part.worktrees.iter().find(|now| now.name == part.name);
            let is_there = known.is_some_and(|now| now.path == part.path) && !is_gone;
            let unasked = touched.is_none() && is_gone;
            // Where a folder stood empty, there is nothing to bring back to it.
            let empty = touched.is_some() && files.count == 0;
            if (unasked || (asked && (is_gone || is_there))) && !empty {
                let (part, files) = (part.clone(), files.clone());
                let now = known.and_then(|now| now.files.clone());
                let paths = touched.flatten().filter(|one| !one.whole);
                let paths = paths.map(|one| one.paths.iter().cloned().collect());
                found.push(Returning { part, files, create: is_gone, now, paths });
            } else if asked && touched.is_none() && !is_gone {
                // What no safety checkpoint holds is not overwritten.
                warnings.push(format!(
                    "the work tree {} in {} was not linked to its repository when the restore \
                     began, so its files stay as they are; restore again to bring them back too",
                    part.name, part.path
                ));
            }
        }
        found
    }

    pub(super) fn plan_worktree(
        &self,
        source: &dyn Source,
        returning: &Returning,
        left: Option<&State>,
        one: &mut RepositoryPlan,
        planned: &mut GitPlanned,
    ) -> Result<()> {
        let Returning { part, files, create, now, paths } = returning;
        let mut actions = Vec::new();
        if let (false, Some(now)) = (*create, now) {
            let folder = path_of(&part.path);
            let mut changes = tree::diff(source, &now.tree, &files.tree)?;
            if let Some(paths) = paths {
                changes.retain(|change| paths.contains(&change.path));
                let left = left.and_then(|left| worktree_of(left, &part.name)?.files.as_ref());
                if let Some(left) = left {
                    keep_edited(source, left, now, part, &mut changes, &mut planned.edited)?;
                }
            }
            let sides = (now, files);
            let plan =
                self.plan_worktree_files(source, &folder, sides, &changes, &planned.blind)?;
            actions = plan.actions.into_iter().filter(|a| a.action != ActionKind::Skip).collect();
            planned.conflicts.extend(plan.conflicts);
            planned.warnings.extend(plan.warnings);
        }
        let what = match create {
            true => format!("made again with {} files", files.count),
            false => format!("{} files change", actions.len()),
        };
        if *create || !actions.is_empty() {
            planned.details.push(format!("work tree {} in {}: {what}", part.name, part.path));
        }
        one.worktrees.push(WorktreePlan {
            name: part.name.clone(),
            path: part.path.clone(),
            create: *create,
            remove: false,
            tree: files.tree,
            actions,
        });
        Ok(())
    }

    fn plan_worktree_files(
        &self,
        source: &dyn Source,
        folder: &Path,
        (now, then): (&FilesPart, &FilesPart),
        changes: &[Change],
        blind: &[PartialReason],
    ) -> Result<rappel_types::Plan> {
        let selector = recorded_selector(source, then)?;
        let root = Root::open(folder, self.options.disk.clone())?;
        let here = Side { state: FacetState::Captured, skipped: &now.skipped, partial: &[] };
        let there = Side { state: FacetState::Captured, skipped: &then.skipped, partial: blind };
        let selects = |path: &RelPath, is_folder: bool| selector.selects(path, is_folder);
        Ok(plan_files(&here, &there, changes, &Scope::All, &selects, &RootProbe(&root))?)
    }
}

/// Another work tree that a restore brings back.
pub(super) struct Returning {
    pub part: WorktreePart,
    files: FilesPart,
    create: bool,
    now: Option<FilesPart>,
    /// If given: only these paths.
    paths: Option<HashSet<RelPath>>,
}

/// A work tree of a repository, by name.
pub(super) fn worktree_of<'a>(state: &'a State, name: &str) -> Option<&'a WorktreePart> {
    state.part.worktrees.iter().find(|part| part.name == name)
}

/// Takes out what was edited since a restore left it, and is not as it would be made anyway.
fn keep_edited(
    source: &dyn Source,
    left: &FilesPart,
    now: &FilesPart,
    part: &WorktreePart,
    changes: &mut Vec<Change>,
    edited: &mut Vec<Conflict>,
) -> Result<()> {
    let since = tree::diff(source, &left.tree, &now.tree)?;
    let since: HashSet<&RelPath> = since.iter().map(|change| &change.path).collect();
    changes.retain(|change| {
        let kept = since.contains(&change.path);
        if kept {
            let reason = format!("edited since in the work tree {}, kept", part.name);
            edited.push(Conflict { path: change.path.clone(), reason });
        }
        !kept
    });
    Ok(())
}
