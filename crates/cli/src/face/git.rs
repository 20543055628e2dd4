//! Where a repository stands.

use rappel_types::git::GitPart;

use super::{count, section};
use crate::output::{Paint, clean};

/// Letters of a commit's name that people need.
const SHORT: usize = 7;

/// `develop @ abc123d (2 dirty files)`, and what else is special.
pub fn line(git: &GitPart) -> String {
    let root = &git.root;
    if root.key.is_empty() {
        return count(git.nested.len() as u64, "nested repository", "nested repositories");
    }
    let mut text = match (&root.branch, &root.commit) {
        (Some(branch), Some(commit)) => format!("{} @ {}", clean(branch), short(commit)),
        (Some(branch), None) => format!("{}, no commit yet", clean(branch)),
        (None, Some(commit)) => format!("detached @ {}", short(commit)),
        (None, None) => "no commit".to_owned(),
    };
    let dirty = root.dirty_files.len() as u64 + root.unlisted;
    if dirty > 0 {
        text.push_str(&format!(" ({})", count(dirty, "dirty file", "dirty files")));
    }
    if let Some(operation) = &root.operation {
        text.push_str(&format!(", {} under way", clean(operation)));
    }
    for (number, one, many) in [
        (root.worktrees.len(), "other work tree", "other work trees"),
        (git.nested.len(), "nested repository", "nested repositories"),
    ] {
        if number > 0 {
            text.push_str(&format!(", {}", count(number as u64, one, many)));
        }
    }
    text
}

/// The lists of a repository, for who wants to see everything.
pub fn sections(git: &GitPart, paint: Paint) -> String {
    let root = &git.root;
    let mut text = String::new();
    for (heading, paths) in
        [("Staged", &root.staged), ("Modified", &root.modified), ("Untracked", &root.untracked)]
    {
        let lines: Vec<String> = paths.iter().map(ToString::to_string).collect();
        text.push_str(&section(heading, &lines, paint));
    }
    let worktrees: Vec<String> = root
        .worktrees
        .iter()
        .map(|worktree| {
            let at = worktree.branch.as_deref().or(worktree.commit.as_deref().map(short));
            format!("{} at {} in {}", worktree.name, at.unwrap_or("no commit"), worktree.path)
        })
        .collect();
    text.push_str(&section("Other work trees", &worktrees, paint));
    let nested: Vec<String> = git
        .nested
        .iter()
        .map(|nested| {
            let inner = GitPart { root: nested.part.clone(), ..GitPart::default() };
            format!("{}: {}", nested.path, line(&inner))
        })
        .collect();
    text.push_str(&section("Nested repositories", &nested, paint));
    text
}

/// As much of a commit's name as people need.
pub fn short(commit: &str) -> &str {
    commit.get(..SHORT).unwrap_or(commit)
}
