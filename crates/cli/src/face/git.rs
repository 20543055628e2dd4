//! Where a repository stands.

use rappel::{GitDiff, RefDiff, RepositoryDiff};
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

/// What differs, in a few words: `git: 1 ref, index`.
pub fn in_short(diff: &GitDiff) -> String {
    let all: Vec<&RepositoryDiff> = diff.repositories().map(|(_, diff)| diff).collect();
    let any = |differs: fn(&RepositoryDiff) -> bool| all.iter().any(|one| differs(one));
    let sum = |number: fn(&RepositoryDiff) -> usize| all.iter().map(|one| number(one) as u64).sum();
    let head = |one: &RepositoryDiff| {
        one.branch.is_some() || (one.commit.is_some() && one.refs.is_empty())
    };
    let words = [
        any(head).then(|| "HEAD".to_owned()),
        some(sum(|one| one.refs.len()), "ref", "refs"),
        any(|one| one.index).then(|| "index".to_owned()),
        any(|one| one.operation.is_some()).then(|| "operation".to_owned()),
        some(sum(|one| one.worktrees.len()), "work tree", "work trees"),
    ];
    format!("git: {}", words.into_iter().flatten().collect::<Vec<_>>().join(", "))
}

fn some(number: u64, one: &str, many: &str) -> Option<String> {
    (number > 0).then(|| count(number, one, many))
}

/// What differs, line by line.
pub fn lines(diff: &GitDiff) -> Vec<String> {
    let lines = diff.repositories().flat_map(|(path, diff)| {
        let prefix = path.map(|path| format!("{path}: ")).unwrap_or_default();
        let lines = repository(diff).into_iter();
        lines.map(move |line| format!("{prefix}{line}"))
    });
    lines.collect()
}

fn repository(diff: &RepositoryDiff) -> Vec<String> {
    let or_none = |text: &Option<String>| clean(text.as_deref().unwrap_or("none"));
    let mut lines = Vec::new();
    if let Some(moved) = &diff.branch {
        lines.push(format!("branch {} to {}", or_none(&moved.from), or_none(&moved.to)));
    }
    if let Some(moved) = &diff.commit {
        let (from, to) = (or_none(&moved.from), or_none(&moved.to));
        lines.push(format!("commit {} to {}", short(&from), short(&to)));
    }
    if let Some(moved) = &diff.operation {
        lines.push(format!("operation {} to {}", or_none(&moved.from), or_none(&moved.to)));
    }
    lines.extend(diff.refs.iter().map(moved_ref));
    if diff.index {
        lines.push("index: what is staged differs".to_owned());
    }
    lines.extend(diff.worktrees.iter().map(|name| format!("work tree {}: differs", clean(name))));
    lines
}

fn moved_ref(one: &RefDiff) -> String {
    let value = |text: &str| match text.strip_prefix("ref: ") {
        Some(name) => clean(name),
        None => clean(short(text)),
    };
    let change = match (&one.from, &one.to) {
        (Some(from), Some(to)) if from == to => "older entries differ".to_owned(),
        (Some(from), Some(to)) => format!("{} to {}", value(from), value(to)),
        (None, Some(to)) => format!("new, at {}", value(to)),
        (Some(from), None) => format!("deleted, was at {}", value(from)),
        (None, None) => "differs".to_owned(),
    };
    format!("{}: {change}", one.name)
}

/// As much of a commit's name as people need.
pub fn short(commit: &str) -> &str {
    commit.get(..SHORT).unwrap_or(commit)
}
