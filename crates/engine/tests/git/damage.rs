//! What agents do to repositories, and back again.

use crate::bench::{Bench, arg, assert_same, git, portrait, text};

fn expire(bench: &Bench) {
    bench.git(&["reflog", "expire", "--expire=all", "--expire-unreachable=all", "--all"]);
    bench.git(&["gc", "-q", "--prune=now"]);
}

#[test]
fn a_hard_reset() {
    Bench::new().cycle(|bench| drop(bench.git(&["reset", "-q", "--hard", "HEAD~2"])));
}

#[test]
fn a_deleted_branch_and_tags() {
    Bench::new().cycle(|bench| {
        bench.git(&["branch", "-q", "-D", "feature/x"]);
        bench.git(&["tag", "-d", "v1", "light"]);
        bench.git(&["update-ref", "-d", "refs/notes/commits"]);
    });
}

#[test]
fn a_dropped_stash() {
    Bench::new().cycle(|bench| drop(bench.git(&["stash", "drop", "-q", "stash@{1}"])));
}

#[test]
fn a_cleared_stash() {
    Bench::new().cycle(|bench| drop(bench.git(&["stash", "clear"])));
}

#[test]
fn a_popped_stash() {
    Bench::new().cycle(|bench| {
        bench.git(&["reset", "-q", "--hard"]);
        bench.git(&["stash", "pop", "-q"]);
    });
}

#[test]
fn a_rebase_and_an_amended_commit() {
    Bench::new().cycle(|bench| {
        bench.git(&["reset", "-q", "--hard"]);
        bench.git(&["rebase", "-q", "feature/x"]);
        bench.git(&["commit", "-q", "--amend", "-m", "other words"]);
    });
}

#[test]
fn garbage_collected_for_good() {
    Bench::new().cycle(|bench| {
        bench.git(&["reset", "-q", "--hard", "HEAD~1"]);
        bench.git(&["branch", "-q", "-D", "feature/x"]);
        bench.git(&["stash", "clear"]);
        expire(bench);
    });
}

#[test]
fn staged_content_that_no_commit_has() {
    let bench = Bench::new();
    bench.world.write("staged", "staged, and then again\n");
    bench.cycle(|bench| {
        bench.git(&["reset", "-q"]);
        bench.git(&["prune", "--expire=now"]);
    });
}

#[test]
fn another_branch_and_a_detached_head() {
    let bench = Bench::new();
    bench.cycle(|bench| drop(bench.git(&["checkout", "-q", "-f", "feature/x"])));
    let bench = Bench::new();
    bench.cycle(|bench| drop(bench.git(&["checkout", "-q", "-f", "--detach", "HEAD~1"])));
    let bench = Bench::new();
    bench.git(&["checkout", "-q", "-f", "--detach", "HEAD~1"]);
    let saved = bench.cycle(|bench| {
        bench.commit("z", "z\n");
        bench.git(&["checkout", "-q", "-f", "main"]);
        expire(bench);
    });
    let git = saved.git.unwrap().root;
    assert!(git.detached && git.branch.is_none());
}

/// Two sides that do not fit together.
fn conflicting() -> Bench {
    let bench = Bench::new();
    bench.git(&["reset", "-q", "--hard"]);
    bench.git(&["checkout", "-q", "-b", "other", "HEAD~1"]);
    bench.commit("c", "other\n");
    bench.commit("e", "other\n");
    bench.git(&["checkout", "-q", "main"]);
    bench.world.write("untracked", "untracked\n");
    bench
}

fn operation(start: &[&str], end: &[&str], name: &str) {
    let bench = conflicting();
    assert!(!bench.attempt(start).status.success());
    bench.world.write("c", "half solved\n");
    let saved = bench.cycle(|bench| drop(bench.git(end)));
    let git = saved.git.unwrap().root;
    assert_eq!(git.operation.as_deref(), Some(name));
    // And it can be finished.
    let bench = conflicting();
    bench.attempt(start);
    let saved = bench.save();
    bench.git(end);
    bench.git(&["reflog", "expire", "--expire=all", "--expire-unreachable=all", "--all"]);
    bench.git(&["gc", "-q", "--prune=now"]);
    bench.restore(&saved);
    bench.world.write("c", "solved\n");
    bench.git(&["add", "c"]);
    bench.git(&[start[0], "--continue"]);
    assert!(!bench.portrait().fsck.contains("error"));
}

#[test]
fn a_merge_under_way() {
    operation(&["merge", "-q", "other"], &["merge", "--abort"], "merge");
}

#[test]
fn a_rebase_under_way() {
    operation(&["rebase", "-q", "other"], &["rebase", "--abort"], "rebase");
}

#[test]
fn an_old_fashioned_rebase_under_way() {
    operation(&["rebase", "-q", "--apply", "other"], &["rebase", "--abort"], "rebase");
}

#[test]
fn a_cherry_pick_under_way() {
    operation(&["cherry-pick", "other~1", "other"], &["cherry-pick", "--abort"], "cherry-pick");
}

#[test]
fn a_revert_under_way() {
    let bench = conflicting();
    bench.commit("c", "four\n");
    assert!(!bench.attempt(&["revert", "--no-edit", "HEAD~1"]).status.success());
    let saved = bench.cycle(|bench| drop(bench.git(&["revert", "--abort"])));
    assert_eq!(saved.git.unwrap().root.operation.as_deref(), Some("revert"));
}

#[test]
fn a_bisection_under_way() {
    let bench = conflicting();
    bench.git(&["bisect", "start", "HEAD", "HEAD~3"]);
    let saved = bench.cycle(|bench| drop(bench.git(&["bisect", "reset"])));
    assert_eq!(saved.git.unwrap().root.operation.as_deref(), Some("bisect"));
}

#[test]
fn an_operation_begun_since_is_over() {
    let bench = conflicting();
    bench.cycle(|bench| drop(bench.attempt(&["merge", "other"])));
    let bench = conflicting();
    bench.cycle(|bench| drop(bench.attempt(&["rebase", "other"])));
    let bench = conflicting();
    bench.cycle(|bench| drop(bench.git(&["bisect", "start", "HEAD", "HEAD~3"])));
}

#[test]
fn a_repository_without_a_commit() {
    let bench = Bench::empty();
    bench.world.write("a", "one\n");
    let saved = bench.manifest();
    let git = saved.git.unwrap().root;
    assert_eq!((git.branch.as_deref(), git.commit), (Some("main"), None));
    let bench = Bench::empty();
    bench.world.write("a", "one\n");
    bench.git(&["add", "a"]);
    bench.world.write("b", "two\n");
    bench.cycle(|bench| drop(bench.git(&["rm", "-q", "-f", "--cached", "a"])));
    let before = {
        bench.git(&["add", "a"]);
        bench.portrait()
    };
    let saved = bench.save();
    bench.lose_git();
    bench.restore(&saved);
    assert_same(&bench.portrait(), &before, "restored");
    // The first commit is taken back.
    let bench = Bench::empty();
    bench.world.write("a", "one\n");
    bench.git(&["add", "a"]);
    let before = bench.portrait();
    let saved = bench.save();
    bench.git(&["commit", "-q", "-m", "first"]);
    let options = rappel::RestoreOptions { prune_refs: true, ..Default::default() };
    bench.restore_with(&saved, &options).unwrap();
    assert_same(&bench.portrait(), &before, "restored");
}

#[test]
fn everything_is_gone() {
    let bench = Bench::new();
    bench.git(&["config", "user.nick", "x"]);
    bench.world.write(".git/hooks/pre-commit", "#!/bin/sh\nexit 0\n");
    bench.world.write(".git/info/exclude", "ignored\n");
    bench.git(&["pack-refs", "--all"]);
    bench.commit("after", "packing\n");
    let setup = |bench: &Bench| {
        ["config", "hooks/pre-commit", "info/exclude", "packed-refs", "description"]
            .map(|name| std::fs::read(bench.git_dir().join(name)).unwrap())
    };
    let (before, before_setup) = (bench.portrait(), setup(&bench));
    let saved = bench.save();
    bench.lose_git();
    bench.world.write("a", "damaged\n");
    bench.restore(&saved);
    assert_same(&bench.portrait(), &before, "restored");
    assert_eq!(setup(&bench), before_setup);
    assert!(!bench.git_dir().read_dir().unwrap().any(|entry| {
        let name = entry.unwrap().file_name();
        name.to_string_lossy().contains("rappel")
    }));
    // What was absent is absent again.
    bench.undo();
    assert_eq!(bench.world.read("a"), "damaged\n");
    assert!(!bench.git_dir().exists());
    bench.redo();
    assert_same(&bench.portrait(), &before, "redone");
}

#[test]
fn a_removed_work_tree() {
    let bench = Bench::new();
    let folder = bench.outside("issue 42");
    bench.git(&["worktree", "add", "-q", "-b", "fix/42", arg(&folder), "feature/x"]);
    std::fs::write(folder.join("a"), "dirty\n").unwrap();
    std::fs::write(folder.join("untracked"), "untracked\n").unwrap();
    std::fs::write(folder.join("s"), "staged\n").unwrap();
    git(&folder, &["add", "s"]);
    let (before, before_there) = (bench.portrait(), portrait(&folder));
    let manifest = bench.manifest();
    assert_eq!(manifest.partial_reasons, []);
    let worktrees = manifest.git.unwrap().root.worktrees;
    assert_eq!(worktrees.len(), 1);
    assert_eq!(worktrees[0].branch.as_deref(), Some("fix/42"));
    assert_eq!(worktrees[0].commit.as_deref(), Some(&*text(&folder, &["rev-parse", "HEAD"])));
    let saved = manifest.id.to_string();

    bench.git(&["worktree", "remove", "--force", arg(&folder)]);
    bench.git(&["branch", "-D", "fix/42"]);
    expire(&bench);
    bench.restore(&saved);
    assert_same(&bench.portrait(), &before, "restored");
    assert_same(&portrait(&folder), &before_there, "restored");

    // Only the folder is gone.
    std::fs::remove_dir_all(&folder).unwrap();
    bench.restore(&saved);
    assert_same(&portrait(&folder), &before_there, "restored");

    // The repository as well.
    std::fs::remove_dir_all(&folder).unwrap();
    bench.lose_git();
    bench.restore(&saved);
    assert_same(&bench.portrait(), &before, "restored");
    assert_same(&portrait(&folder), &before_there, "restored");

    // The repository alone.
    bench.lose_git();
    bench.restore(&saved);
    assert_same(&portrait(&folder), &before_there, "restored");
}

#[test]
fn a_work_tree_that_is_there_is_left_as_it_is() {
    let bench = Bench::new();
    let folder = bench.outside("other");
    bench.git(&["worktree", "add", "-q", "-b", "other", arg(&folder), "feature/x"]);
    let saved = bench.save();
    let (before, before_there) = (bench.portrait(), portrait(&folder));
    std::fs::write(folder.join("a"), "work of another agent\n").unwrap();
    git(&folder, &["add", "a"]);
    git(&folder, &["commit", "-q", "-m", "of another agent"]);
    std::fs::write(folder.join("s"), "staged\n").unwrap();
    git(&folder, &["add", "s"]);
    bench.git(&["reset", "-q", "--hard", "HEAD~1"]);
    let there = portrait(&folder);
    let report = bench.restore(&saved);
    let now = portrait(&folder);
    assert_eq!(
        (now.files, now.staged, now.status, now.head),
        (there.files, there.staged, there.status, there.head)
    );
    let skipped = report.actions.iter().find(|one| one.path.as_bytes() == b"refs/heads/other");
    assert!(skipped.unwrap().reason.contains("checked out"), "{skipped:?}");
    assert_eq!(bench.portrait().files, before.files);
    assert_eq!(bench.text(&["rev-parse", "main"]), before.head.lines().last().unwrap());
    // Unless it is asked for.
    let options = rappel::RestoreOptions { worktrees: vec!["other".into()], ..Default::default() };
    bench.restore_with(&saved, &options).unwrap();
    assert_same(&bench.portrait(), &before, "restored");
    assert_same(&portrait(&folder), &before_there, "restored");
}

#[test]
fn folders_that_only_the_index_has() {
    let bench = Bench::new();
    bench.git(&["write-tree"]);
    bench.cycle(|bench| {
        bench.git(&["reset", "-q"]);
        bench.git(&["prune", "--expire=now"]);
    });
}
