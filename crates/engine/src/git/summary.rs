//! What a restore does to repositories, in one line for all of them and one for their work trees.

use rappel_capture::git::folder::{Role, is_leftover, role};
use rappel_types::git::{RepositoryPlan, WorktreePlan};
use rappel_types::{Action, ActionKind};

use super::plan::GitPlanned;
use super::take_back::admins;

/// So many files are named.
const NAMED: usize = 3;

impl GitPlanned {
    pub(super) fn summarise(&mut self) {
        if self.plan.is_empty() {
            return;
        }
        let all = &self.plan.repositories;
        let is_ref = |one: &&Action| one.path.name() != b".git";
        let refs = |kind: ActionKind| {
            self.actions.iter().filter(is_ref).filter(|one| one.action == kind).count()
        };
        let repositories =
            |is: fn(&RepositoryPlan) -> bool| all.iter().filter(|one| is(one)).count();
        let mut parts = Vec::new();
        let repository = ("repository", "repositories");
        parts.extend(counted(repositories(|one| one.create), repository, "made again"));
        parts.extend(counted(refs(ActionKind::Create), ("ref", "refs"), "created"));
        parts.extend(counted(refs(ActionKind::Overwrite), ("ref", "refs"), "moved"));
        parts.extend(counted(refs(ActionKind::Delete), ("ref", "refs"), "deleted"));
        parts.extend(counted(repositories(|one| one.remove), repository, "taken away"));
        parts.extend(listed(&self.mended, "repaired"));
        parts.extend(listed(&self.spoilt, "unreadable to git as before"));
        if all.iter().any(|one| one.objects) {
            parts.push("missing objects restored".into());
        }
        if parts.is_empty() {
            parts.extend(of_files(all));
        }
        self.summary = (!parts.is_empty()).then(|| parts.join(", "));

        let worktrees = |is: fn(&WorktreePlan) -> bool| {
            all.iter().flat_map(|one| &one.worktrees).filter(move |one| is(one)).count()
        };
        let admins = |comes: bool| -> usize {
            let all = all.iter().flat_map(admins);
            all.filter(|(_, one)| *one == comes).count()
        };
        let parts = [
            (worktrees(|one| one.create), "made again"),
            (worktrees(|one| one.remove), "taken away"),
            (admins(true), "with git's folder put back"),
            (admins(false), "without git's folder again"),
            (worktrees(|one| one.relink), "linked again"),
            (worktrees(|one| one.unlink), "without its link again"),
            (worktrees(|one| !one.actions.is_empty()), "with files that change"),
        ];
        let parts: Vec<String> = parts
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        self.worktrees = (!parts.is_empty()).then(|| parts.join(", "));
    }
}

fn counted(count: usize, (one, many): (&str, &str), what: &str) -> Option<String> {
    match count {
        0 => None,
        1 => Some(format!("1 {one} {what}")),
        count => Some(format!("{count} {many} {what}")),
    }
}

fn listed(names: &[String], what: &str) -> Option<String> {
    if names.is_empty() {
        return None;
    }
    let shown = names[..names.len().min(NAMED)].join(", ");
    Some(match names.len().saturating_sub(NAMED) {
        0 => format!("{shown} {what}"),
        more => format!("{shown} and {more} more {what}"),
    })
}

/// What changes besides refs. The folder of a work tree is told with the work tree.
fn of_files(all: &[RepositoryPlan]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut say = |what: &str| {
        if !found.iter().any(|known| known == what) {
            found.push(what.to_owned());
        }
    };
    for plan in all {
        if plan.relink || plan.unlink {
            say(if plan.relink { "linked again" } else { "without its link again" });
        }
        let of_worktree = |action: &&Action| action.path.as_bytes().starts_with(b"worktrees/");
        for action in plan.files.iter().filter(|action| !of_worktree(action)) {
            match role(action.path.as_bytes()) {
                Role::Index => say("index restored"),
                Role::LargeFile => say("large files restored"),
                Role::Operation if !is_leftover(action.path.as_bytes()) => {
                    say("operation restored");
                }
                _ => say("files of git restored"),
            }
        }
        if !plan.logs.is_empty() {
            say("reflogs restored");
        }
    }
    found
}
