//! What undo takes back of repositories besides refs and files: what a restore made, and whether all
//! of that may go.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use rappel_capture::git::apply::path_of;
use rappel_capture::git::folder::{is_of_a_ref, split};
use rappel_capture::git::{Place, State, folder_of, linked, remove, status};
use rappel_store::document::{UndoGit, UndoWorktree};
use rappel_store::sink::Source;
use rappel_store::tree;
use rappel_types::git::{GitPlan, RepositoryPlan, WorktreePlan};
use rappel_types::path::escape;
use rappel_types::plan::Conflict;
use rappel_types::{Action, ActionKind, Facet, FacetState, Manifest, Node, RelPath};

use super::AlsoWorktrees;
use super::describe::named;
use super::plan::{GitPlanned, GitPresent, GitWish};
use super::worktrees::worktree_of;
use crate::error::Result;
use crate::rappel::Rappel;

/// What a plan does to repositories, for who wants to take it back.
pub(crate) fn touched(plan: &GitPlan) -> Vec<UndoGit> {
    let repositories = plan.repositories.iter().filter(|one| !one.is_empty());
    repositories
        .map(|one| UndoGit {
            path: one.path.clone(),
            refs: refs_of(one),
            whole: one.create || one.remove,
            link: one.relink || one.unlink,
            worktrees: worktrees_of(one),
        })
        .collect()
}

/// The other work trees that a plan changes.
fn worktrees_of(plan: &RepositoryPlan) -> Vec<UndoWorktree> {
    let mut found: Vec<UndoWorktree> = plan.worktrees.iter().map(of_worktree).collect();
    for (name, _) in admins(plan) {
        match found.iter_mut().find(|one| one.name == name) {
            Some(one) => one.admin = true,
            None => found.push(UndoWorktree {
                name,
                whole: false,
                link: false,
                admin: true,
                paths: Vec::new(),
            }),
        }
    }
    found
}

/// The work trees of which nothing but git's own folder comes or goes, and whether it comes.
pub(super) fn admins(plan: &RepositoryPlan) -> Vec<(String, bool)> {
    let is_folder = |node: Option<&Node>| matches!(node, Some(Node::Directory { .. }));
    let found = plan.files.iter().filter_map(|action| {
        let (Some(name), b"") = split(action.path.as_bytes()) else { return None };
        let (old, new) = (is_folder(action.old.as_ref()), is_folder(action.new.as_ref()));
        let name = escape(name);
        let is_whole = |one: &WorktreePlan| one.name == name && (one.create || one.remove);
        (old != new && !plan.worktrees.iter().any(is_whole)).then_some((name, new))
    });
    found.collect()
}

/// The refs that a plan changes: those that git moves, and those that change as files because git
/// cannot read what they are on one of the two sides.
fn refs_of(plan: &RepositoryPlan) -> Vec<RelPath> {
    let moved = plan.refs.iter().map(|step| &step.name);
    let written = plan.files.iter().map(|action| &action.path);
    let written = written.filter(|path| is_of_a_ref(path.as_bytes()));
    let names: BTreeSet<&RelPath> = moved.chain(written).collect();
    names.into_iter().cloned().collect()
}

/// What stands at `.git` and goes by a plan.
pub(crate) fn going(plan: &GitPlan) -> BTreeSet<RelPath> {
    let is_folder = |one: &RepositoryPlan| path_of(&one.common_dir).ends_with(".git");
    let going = plan.repositories.iter().filter(|one| one.unlink || (one.remove && is_folder(one)));
    going.filter_map(|one| at_git(one.path.as_ref())).collect()
}

/// The path of `.git` in a repository's work tree.
fn at_git(path: Option<&RelPath>) -> Option<RelPath> {
    path.map_or_else(|| RelPath::new(".git"), |path| path.join(b".git")).ok()
}

fn of_worktree(plan: &WorktreePlan) -> UndoWorktree {
    UndoWorktree {
        name: plan.name.clone(),
        whole: plan.create || plan.remove,
        link: plan.relink || plan.unlink,
        admin: false,
        paths: plan.actions.iter().map(|action| action.path.clone()).collect(),
    }
}

impl Rappel {
    /// Repositories that a restore made and that were not there before it: they go, if a checkpoint
    /// holds everything in them and nobody has worked there since; otherwise they stay and are named.
    pub(super) fn plan_removals(
        &self,
        source: &dyn Source,
        present: &GitPresent,
        (target, states): (&Manifest, &[State]),
        wish: &GitWish,
        planned: &mut GitPlanned,
    ) -> Result<()> {
        let mut whole: Vec<&UndoGit> = wish.touched.iter().flatten().collect();
        whole.retain(|one| one.whole && states.iter().all(|state| state.path != one.path));
        // The innermost first: a submodule's folder is in that of the repository around it.
        whole.sort_by(|a, b| b.path.cmp(&a.path));
        let mut except = Vec::new();
        for touched in whole {
            let path = touched.path.as_ref();
            let Some(here) = present.states.iter().find(|state| state.path == touched.path) else {
                continue;
            };
            let folder = folder_of(&self.root, path);
            let Some(place) = Place::find(&folder, &self.options.environment) else { continue };
            let looked = target.state_of(Facet::Git);
            let left = wish.left_at(path);
            let kept = planned.edited.len();
            let leaving = self.leaving(source, here, None, (touched, left), &place, planned)?;
            let stays = if !matches!(looked, FacetState::Absent | FacetState::Captured) {
                Some("the checkpoint does not know whether it was there".to_owned())
            } else if planned.edited.len() > kept {
                Some("one of its work trees stays".to_owned())
            } else if left.is_some_and(|left| was_worked_in(here, left, &place, source)) {
                Some("it was worked in since".to_owned())
            } else {
                let disk = &self.options.disk;
                let (common, stored) = (&place.common_dir, present.stored);
                let from = (source, disk);
                remove::unheld_in_repository(common, here, from, &except, stored)?
            };
            let Some(shown) = at_git(path) else { continue };
            let name = named(path);
            if let Some(reason) = stays {
                let reason = format!("{name} was made by the restore, and is kept: {reason}");
                planned.edited.push(Conflict::of_git(shown, reason));
                continue;
            }
            planned.details.push(format!("{name}: taken away, the restore made it"));
            planned.say_leaving(&leaving);
            planned.actions.push(Action {
                facet: Facet::Git,
                action: ActionKind::Delete,
                path: shown,
                reason: "the restore made it".into(),
                old: None,
                new: None,
            });
            planned.plan.repositories.push(RepositoryPlan {
                path: touched.path.clone(),
                common_dir: escape(place.common_dir.as_os_str().as_bytes()),
                git_dir: escape(place.git_dir.as_os_str().as_bytes()),
                remove: true,
                unlink: touched.link,
                worktrees: leaving,
                ..RepositoryPlan::default()
            });
            except.push(place.common_dir);
        }
        Ok(())
    }

    /// What a restore put into other work trees and is still there, ignored files too.
    pub(crate) fn left_in_worktrees(&self, wish: &GitWish) -> Result<AlsoWorktrees> {
        let mut found = AlsoWorktrees::new();
        for touched in wish.touched.iter().flatten() {
            let Some(left) = wish.left_at(touched.path.as_ref()) else { continue };
            for one in &touched.worktrees {
                let Some(part) = worktree_of(left, &one.name) else { continue };
                let folder = path_of(&part.path);
                let mut paths = match &part.files {
                    Some(files) if one.whole => {
                        let entries = tree::read(self.source(), &files.tree)?;
                        entries.into_iter().map(|entry| entry.path).collect()
                    }
                    _ => one.paths.clone(),
                };
                let place = |path: &RelPath| folder.join(OsStr::from_bytes(path.as_bytes()));
                paths.retain(|path| place(path).symlink_metadata().is_ok());
                paths.sort();
                found.insert(folder, paths);
            }
        }
        Ok(found)
    }

    /// Work trees that a restore made, and that go by the same rule.
    pub(super) fn leaving(
        &self,
        source: &dyn Source,
        here: &State,
        there: Option<&State>,
        (touched, left): (&UndoGit, Option<&State>),
        place: &Place,
        planned: &mut GitPlanned,
    ) -> Result<Vec<WorktreePlan>> {
        let mut leaving = Vec::new();
        for one in touched.worktrees.iter().filter(|one| one.whole) {
            let before = there.and_then(|there| worktree_of(there, &one.name)?.files.as_ref());
            let Some(part) = worktree_of(here, &one.name) else { continue };
            let (None | Some(0), Some(files)) = (before.map(|files| files.count), &part.files)
            else {
                continue;
            };
            let folder = path_of(&part.path);
            let own = path_of(&one.name);
            let own = [b"worktrees/", own.as_os_str().as_bytes(), b"/"].concat();
            let worked_in = left.is_some_and(|left| {
                let was = worktree_of(left, &one.name);
                let same = |was: &rappel_types::git::WorktreePart| {
                    let tree = was.files.as_ref().map(|files| files.tree);
                    (&was.branch, &was.commit, tree)
                        == (&part.branch, &part.commit, Some(files.tree))
                };
                !was.is_some_and(same) || index_differs(here, left, &own, place, source)
            });
            let stays = match worked_in {
                true => Some("it was worked in since".to_owned()),
                false => {
                    let disk = &self.options.disk;
                    remove::unheld_in_worktree(&folder, &files.tree, disk, source)?
                }
            };
            if let Some(reason) = stays {
                let name = &part.name;
                let reason = format!(
                    "the work tree {name} in {} was made by the restore, and is kept: {reason}",
                    part.path
                );
                if let Ok(path) = RelPath::new(own.strip_suffix(b"/").unwrap_or(&own)) {
                    planned.edited.push(Conflict::of_git(path, reason));
                }
                continue;
            }
            leaving.push(WorktreePlan {
                name: part.name.clone(),
                path: part.path.clone(),
                create: false,
                remove: true,
                relink: false,
                unlink: false,
                tree: files.tree,
                actions: Vec::new(),
            });
        }
        Ok(leaving)
    }
}

impl GitPlanned {
    /// Git's own folders of work trees that a restore put back while their files stayed. They go,
    /// unless somebody has worked there since.
    pub(super) fn leaving_admins(
        &mut self,
        (here, there): (&State, &State),
        (touched, left): (&UndoGit, Option<&State>),
        place: &Place,
        source: &dyn Source,
    ) -> Vec<Vec<u8>> {
        let mut leaving = Vec::new();
        for one in touched.worktrees.iter().filter(|one| one.admin && !one.whole) {
            let name = path_of(&one.name).as_os_str().as_bytes().to_vec();
            if !linked::is_there(here, &name) || linked::is_there(there, &name) {
                continue;
            }
            let own = [b"worktrees/", &*name, b"/"].concat();
            let worked_in = left.is_some_and(|left| {
                let stands = |state: &State| {
                    let part = worktree_of(state, &one.name);
                    part.map(|part| (part.branch.clone(), part.commit.clone()))
                };
                stands(here) != stands(left) || index_differs(here, left, &own, place, source)
            });
            match (worked_in, linked::folder_of(&name)) {
                (true, Some(path)) => {
                    let reason = format!(
                        "git's folder of the work tree {} was put back by the restore, and is kept: \
                         it was worked in since",
                        one.name
                    );
                    self.edited.push(Conflict::of_git(path, reason));
                }
                _ => {
                    let name = &one.name;
                    self.details.push(format!("work tree {name}: without git's folder, as it was"));
                    leaving.push(path_of(name).as_os_str().as_bytes().to_vec());
                }
            }
        }
        leaving
    }

    pub(super) fn say_leaving(&mut self, leaving: &[WorktreePlan]) {
        self.details.extend(leaving.iter().map(|one| {
            format!("work tree {} in {}: taken away, the restore made it", one.name, one.path)
        }));
    }
}

/// Whether a repository is not as it was left.
fn was_worked_in(here: &State, left: &State, place: &Place, source: &dyn Source) -> bool {
    here.refs != left.refs || index_differs(here, left, &place.own_prefix(), place, source)
}

/// Whether something else is staged than what was left.
fn index_differs(
    here: &State,
    left: &State,
    own: &[u8],
    place: &Place,
    source: &dyn Source,
) -> bool {
    let Ok(path) = RelPath::new([own, b"index"].concat()) else { return false };
    match (here.files.get(&path), left.files.get(&path)) {
        (Some(here), Some(left)) => !status::stages_the_same(here, left, place.hash, source),
        (here, left) => here.is_some() != left.is_some(),
    }
}
