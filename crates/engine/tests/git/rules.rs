//! What a restore moves, what it leaves, and what it refuses.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use rappel::types::Facet;
use rappel::{ErrorKind, Rappel, RestoreOptions, RestoreReport};
use rappel_store::disk::Op;
use rappel_testing::FaultDisk;

use crate::bench::{Bench, arg, assert_same, git, portrait};
use crate::support::{path, reference};

fn only(facet: Facet) -> RestoreOptions {
    RestoreOptions { only: Some(BTreeSet::from([facet])), ..RestoreOptions::default() }
}

fn pruning() -> RestoreOptions {
    RestoreOptions { prune_refs: true, ..RestoreOptions::default() }
}

#[test]
fn refs_made_since_stay_unless_they_are_pruned() {
    let bench = Bench::new();
    let before = bench.portrait();
    let saved = bench.save();
    bench.git(&["branch", "later", "HEAD~1"]);
    bench.git(&["tag", "later-tag"]);
    bench.git(&["reset", "-q", "--hard", "HEAD~1"]);
    let damaged = bench.portrait();
    bench.restore(&saved);
    let refs = bench.portrait().refs;
    assert!(refs.contains("refs/heads/later") && refs.contains("refs/tags/later-tag"), "{refs}");
    assert!(bench.git_dir().join("logs/refs/heads/later").exists());
    bench.undo();
    assert_same(&bench.portrait(), &damaged, "undone");
    bench.restore_with(&saved, &pruning()).unwrap();
    assert_same(&bench.portrait(), &before, "pruned");
    bench.undo();
    assert_same(&bench.portrait(), &damaged, "undone");
}

#[test]
fn a_ref_moved_after_the_restore_is_kept_by_undo() {
    let bench = Bench::new();
    let saved = bench.save();
    bench.git(&["branch", "-q", "-f", "feature/x", "main"]);
    bench.git(&["reset", "-q", "--hard", "HEAD~1"]);
    let damaged = bench.portrait();
    bench.restore(&saved);
    bench.git(&["branch", "-q", "-f", "feature/x", "main~2"]);
    let moved = bench.text(&["rev-parse", "feature/x"]);
    let report = bench.world.undo();
    let kept: Vec<_> = report.conflicts.iter().map(|conflict| conflict.path.clone()).collect();
    assert_eq!(kept, [path("refs/heads/feature/x")], "{report:?}");
    assert_eq!(bench.text(&["rev-parse", "feature/x"]), moved);
    let now = bench.portrait();
    assert_eq!((now.head, now.files, now.staged), (damaged.head, damaged.files, damaged.staged));
}

/// It must fail in this way, and nothing may have changed.
fn refused(bench: &Bench, id: &str, kind: ErrorKind) -> String {
    let before = bench.portrait();
    let error = bench.restore_with(id, &RestoreOptions::default()).unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    assert_same(&bench.portrait(), &before, "refused");
    let unfinished = bench.world.open().unfinished().unwrap();
    assert!(unfinished.restores.is_empty(), "{unfinished:?}");
    error.to_string()
}

#[test]
fn a_ref_in_the_way_of_another_is_shown_before_anything_changes() {
    for (old, new) in [("side", "side/way"), ("side/way", "side")] {
        let bench = Bench::new();
        bench.git(&["branch", old]);
        let saved = bench.save();
        bench.git(&["branch", "-D", old]);
        bench.git(&["branch", new]);
        bench.git(&["reset", "-q", "--hard", "HEAD~1"]);
        let plan = bench
            .world
            .open()
            .plan_restore(&reference(&saved), &RestoreOptions::default())
            .unwrap();
        assert_eq!(plan.conflicts.len(), 1, "{:?}", plan.conflicts);
        assert!(plan.conflicts[0].reason.contains(&format!("refs/heads/{new}")));
        refused(&bench, &saved, ErrorKind::Conflict);
        bench.restore_with(&saved, &pruning()).unwrap();
        assert!(
            bench
                .attempt(&["rev-parse", "--verify", &format!("refs/heads/{old}")])
                .status
                .success()
        );
    }
}

#[test]
fn a_branch_of_another_work_tree_is_not_moved() {
    let bench = Bench::new();
    let folder = bench.outside("other");
    bench.git(&["worktree", "add", "-q", arg(&folder), "feature/x"]);
    let saved = bench.save();
    std::fs::write(folder.join("z"), "z").unwrap();
    git(&folder, &["add", "z"]);
    git(&folder, &["commit", "-q", "-m", "z"]);
    let there = portrait(&folder);
    let report = bench.restore(&saved);
    assert_eq!(portrait(&folder).head, there.head);
    let action = report.actions.iter().find(|one| one.path == path("refs/heads/feature/x"));
    assert!(action.unwrap().reason.contains("work tree other"), "{action:?}");
}

#[test]
fn locks_of_others_are_respected() {
    for lock in [
        "index.lock",
        "refs/heads/main.lock",
        "refs/heads/feature/x.lock",
        "packed-refs.lock",
        "HEAD.lock",
    ] {
        let bench = Bench::new();
        bench.git(&["pack-refs", "--all"]);
        let saved = bench.save();
        bench.git(&["reset", "-q", "--hard", "HEAD~1"]);
        bench.git(&["checkout", "-q", "--detach"]);
        bench.git(&["branch", "-q", "-D", "feature/x"]);
        bench.git(&["branch", "extra"]);
        let lock_path = bench.git_dir().join(lock);
        std::fs::create_dir_all(lock_path.parent().unwrap()).unwrap();
        std::fs::write(&lock_path, "somebody's").unwrap();
        if lock == "packed-refs.lock" {
            // Git needs it only to delete; it may or may not be in the way.
            let _ = bench.restore_with(&saved, &RestoreOptions::default());
        } else {
            refused(&bench, &saved, ErrorKind::Busy);
        }
        assert_eq!(std::fs::read(&lock_path).unwrap(), b"somebody's", "{lock}");
        std::fs::remove_file(&lock_path).unwrap();
        bench.restore(&saved);
        assert_eq!(bench.text(&["symbolic-ref", "HEAD"]), "refs/heads/main");
        assert!(!bench.git_dir().join("index.lock").exists());
    }
}

/// Does something right after the plan was written down.
fn meanwhile(
    bench: &Bench,
    id: &str,
    act: impl FnOnce() + Send + 'static,
) -> rappel::Result<RestoreReport> {
    let disk = FaultDisk::new();
    let done = AtomicBool::new(false);
    let is_intent = move |op: &Op<'_>| {
        let hit = matches!(op, Op::Write { path, .. }
            if path.parent().is_some_and(|folder| folder.ends_with("intents")));
        hit && !done.swap(true, Ordering::Relaxed)
    };
    disk.before(is_intent, act);
    bench.world.clock.advance(1000);
    let options = rappel::OpenOptions { disk, ..bench.world.options() };
    let rappel = Rappel::open(options).unwrap();
    rappel.restore(&reference(id), &RestoreOptions::default())
}

#[test]
fn a_ref_that_moves_between_plan_and_deed_is_a_conflict() {
    let bench = Bench::on_disk();
    let saved = bench.save();
    bench.git(&["branch", "-q", "-f", "feature/x", "main"]);
    bench.git(&["reset", "-q", "--hard", "HEAD~1"]);
    let root = bench.root().to_owned();
    let error = meanwhile(&bench, &saved, move || {
        git(&root, &["branch", "-q", "-f", "feature/x", "main~1"]);
    });
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert_eq!(bench.text(&["rev-parse", "feature/x"]), bench.text(&["rev-parse", "main~1"]));
    let unfinished = bench.world.open().unfinished().unwrap();
    assert!(unfinished.restores.is_empty(), "{unfinished:?}");
    refused_nothing_else(&bench);
}

/// Everything but the one ref is as the damage left it.
fn refused_nothing_else(bench: &Bench) {
    assert!(!bench.git_dir().join("index.lock").exists());
    assert!(!bench.portrait().fsck.contains("error"));
    assert_eq!(bench.world.read("a"), "one\nmore\n");
    assert!(!bench.world.exists("new folder/c"));
}

#[test]
fn what_is_staged_between_plan_and_deed_is_not_lost() {
    let bench = Bench::on_disk();
    let saved = bench.save();
    let tip = bench.text(&["rev-parse", "main"]);
    bench.git(&["reset", "-q", "--hard", "HEAD~1"]);
    let root = bench.root().to_owned();
    let report = meanwhile(&bench, &saved, move || {
        std::fs::write(root.join("quick"), "quick").unwrap();
        git(&root, &["add", "quick"]);
    });
    let report = report.unwrap();
    assert_eq!(report.conflicts.len(), 1, "{report:?}");
    assert_eq!(report.conflicts[0].path, path("index"));
    assert!(bench.text(&["ls-files"]).lines().any(|line| line == "quick"));
    assert_eq!(bench.text(&["rev-parse", "main"]), tip);
    let unfinished = bench.world.open().unfinished().unwrap();
    assert!(unfinished.restores.is_empty(), "{unfinished:?}");
}

#[test]
fn one_side_at_a_time() {
    let bench = Bench::new();
    let before = bench.portrait();
    let saved = bench.save();
    bench.git(&["reset", "-q", "--hard", "HEAD~1"]);
    bench.git(&["stash", "clear"]);
    bench.world.write("new", "new\n");
    let damaged = bench.portrait();
    bench.restore_with(&saved, &only(Facet::Git)).unwrap();
    let now = bench.portrait();
    assert_eq!(now.files, damaged.files);
    assert_eq!((&now.refs, &now.head, &now.stash), (&before.refs, &before.head, &before.stash));
    assert_eq!((&now.staged, &now.inside), (&before.staged, &before.inside));
    bench.undo();
    assert_same(&bench.portrait(), &damaged, "undone");
    bench.restore_with(&saved, &only(Facet::Files)).unwrap();
    let now = bench.portrait();
    assert_eq!(now.files, before.files);
    assert_eq!(
        (&now.refs, &now.head, &now.inside),
        (&damaged.refs, &damaged.head, &damaged.inside)
    );
    bench.undo();
    assert_same(&bench.portrait(), &damaged, "undone");
}

#[test]
fn another_folder_gets_a_working_repository() {
    let bench = Bench::new();
    let before = bench.portrait();
    let saved = bench.save();
    bench.lose_git();
    std::fs::remove_dir_all(bench.root().join("d")).unwrap();
    let out = bench.restore_to(&saved, "out");
    assert_same(&portrait(&out), &before, "elsewhere");
    git(&out, &["stash", "list"]);
    assert_eq!(git(&out, &["log", "--oneline"]).split(|&b| b == b'\n').count(), 5);
    git(&out, &["commit", "-q", "-a", "-m", "goes on"]);
}

#[test]
fn a_dry_run_tells_what_is_lost_and_changes_nothing() {
    let bench = Bench::new();
    let saved = bench.save();
    bench.git(&["commit", "-q", "-m", "lost one"]);
    bench.git(&["commit", "-q", "-a", "-m", "lost two"]);
    bench.git(&["branch", "-q", "-D", "feature/x"]);
    let before = bench.portrait();
    let plan =
        bench.world.open().plan_restore(&reference(&saved), &RestoreOptions::default()).unwrap();
    let said = plan.details.join("\n");
    assert!(said.contains("main: back 2 commits to "), "{said}");
    assert!(said.contains("lost one") && said.contains("lost two"), "{said}");
    assert!(said.contains("feature/x: created at "), "{said}");
    assert!(said.contains("index: as it was, 2 files staged"), "{said}");
    assert_same(&bench.portrait(), &before, "planned");
    let options = RestoreOptions { expected: Some(plan.plan), ..RestoreOptions::default() };
    bench.restore_with(&saved, &options).unwrap();
}

#[test]
fn a_ref_that_is_the_same_name_here_is_shown_before_anything_changes() {
    for (old, new) in [("topic", "Topic"), ("topic/deep", "TOPIC"), ("Ünder", "ünder/way")] {
        let bench = Bench::new();
        bench.git(&["branch", old]);
        let saved = bench.save();
        bench.git(&["branch", "-D", old]);
        bench.git(&["branch", new]);
        bench.git(&["reset", "-q", "--hard", "HEAD~1"]);
        // As a repository is set up where names fold together.
        bench.git(&["config", "core.ignorecase", "true"]);
        let rappel = bench.world.open();
        let plan = rappel.plan_restore(&reference(&saved), &RestoreOptions::default()).unwrap();
        assert_eq!(plan.conflicts.len(), 1, "{:?}", plan.conflicts);
        assert_eq!(plan.conflicts[0].path, path(&format!("refs/heads/{old}")));
        assert!(plan.conflicts[0].reason.contains(&format!("refs/heads/{new}")));
        refused(&bench, &saved, ErrorKind::Conflict);
        // Where case counts, both have their place.
        bench.git(&["config", "core.ignorecase", "false"]);
        if !new.contains('/') && !old.contains('/') {
            bench.restore(&saved);
            for name in [old, new] {
                bench.git(&["rev-parse", "--verify", &format!("refs/heads/{name}")]);
            }
        }
    }
}

#[test]
fn refs_of_a_checkpoint_that_fold_together_are_shown() {
    let bench = Bench::new();
    bench.git(&["branch", "one"]);
    bench.git(&["branch", "One", "HEAD~1"]);
    let saved = bench.save();
    bench.git(&["branch", "-D", "one", "One"]);
    bench.git(&["config", "core.ignorecase", "true"]);
    let error = refused(&bench, &saved, ErrorKind::Conflict);
    assert!(error.contains("refs/heads/"), "{error}");
}

#[test]
fn a_work_tree_that_was_seen_only_in_part_authorises_no_delete() {
    let bench = Bench::new();
    let folder = bench.outside("other");
    bench.git(&["worktree", "add", "-q", "-b", "other", arg(&folder), "feature/x"]);
    let stop = AtomicBool::new(false);
    let partial = std::thread::scope(|scope| {
        // A file that never holds still cannot be taken.
        scope.spawn(|| {
            for n in 0u64.. {
                std::fs::write(folder.join("busy"), n.to_string().repeat(1 + n as usize % 9))
                    .unwrap();
                if stop.load(Ordering::Relaxed) {
                    return;
                }
            }
        });
        let saved = (0..200).map(|_| bench.manifest()).find(|manifest| manifest.partial);
        stop.store(true, Ordering::Relaxed);
        saved.unwrap()
    });
    assert!(partial.partial_reasons.iter().all(|one| one.reason.contains("work tree other")));
    std::fs::write(folder.join("later"), "later\n").unwrap();
    std::fs::write(folder.join("x"), "changed\n").unwrap();
    let options = RestoreOptions { worktrees: vec!["other".into()], ..RestoreOptions::default() };
    bench.restore_with(partial.id.as_str(), &options).unwrap();
    // What it holds comes back; what it may have missed stays.
    assert_eq!(std::fs::read(folder.join("x")).unwrap(), b"feature\n");
    assert!(folder.join("later").exists() && folder.join("busy").exists());
}

#[test]
fn a_git_at_work_stops_every_restore_in_its_work_tree() {
    let bench = Bench::new();
    let other = bench.outside("other");
    bench.git(&["worktree", "add", "-q", "-b", "other", arg(&other)]);
    let saved = bench.save();
    let lock = bench.git_dir().join("index.lock");
    std::fs::write(&lock, "").unwrap();
    // Nothing to change is nothing to stop.
    bench.restore(&saved);
    bench.world.write("c", "other files alone\n");
    for options in [RestoreOptions::default(), only(Facet::Files)] {
        let error = bench.restore_with(&saved, &options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
        assert!(error.to_string().contains("index.lock"), "{error}");
        assert_eq!(bench.world.read("c"), "other files alone\n");
    }
    std::fs::rename(&lock, bench.git_dir().join("worktrees/other/index.lock")).unwrap();
    std::fs::write(other.join("a"), "changed\n").unwrap();
    let worktrees = vec!["other".to_owned()];
    let options = RestoreOptions { worktrees, ..RestoreOptions::default() };
    let error = bench.restore_with(&saved, &options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    assert_eq!(std::fs::read_to_string(other.join("a")).unwrap(), "changed\n");
    std::fs::remove_file(bench.git_dir().join("worktrees/other/index.lock")).unwrap();
    bench.restore_with(&saved, &options).unwrap();
    assert_eq!(bench.world.read("c"), "dirty\n");
}

#[test]
fn before_the_first_commit() {
    for staged in [false, true] {
        let bench = Bench::empty();
        bench.world.write("a", "one\n");
        if staged {
            bench.git(&["add", "a"]);
        }
        let said = |bench: &Bench| {
            let words = |arguments: &[&str]| bench.attempt(arguments).stdout;
            (words(&["status", "--porcelain=v2", "--branch"]), words(&["for-each-ref"]))
        };
        let (then, saved) = (said(&bench), bench.save());
        bench.commit("a", "two\n");
        bench.commit("b", "more\n");
        let after = bench.portrait();
        let plan = bench.world.open().plan_restore(&reference(&saved), &RestoreOptions::default());
        let details = plan.unwrap().details;
        assert!(details[0].starts_with("main: back to before its first commit"), "{details:?}");
        bench.restore(&saved);
        assert_eq!(said(&bench), then);
        bench.undo();
        assert_same(&bench.portrait(), &after, "undone");
        bench.redo();
        assert_eq!(said(&bench), then);
        bench.undo();
        // Another work tree stands on it: it stays, and the index with it.
        bench.git(&["checkout", "-q", "-b", "side"]);
        bench.git(&["worktree", "add", "-q", arg(&bench.outside("w")), "main"]);
        bench.git(&["symbolic-ref", "HEAD", "refs/heads/main"]);
        bench.restore(&saved);
        assert_eq!(bench.text(&["ls-files"]), "a\nb");
    }
}

#[test]
fn a_line_about_a_nested_repository_says_which() {
    let bench = Bench::new();
    let inner = bench.root().join("inner");
    std::fs::create_dir(&inner).unwrap();
    git(&inner, &["init", "-q"]);
    std::fs::write(inner.join("i"), "i\n").unwrap();
    git(&inner, &["add", "i"]);
    git(&inner, &["commit", "-q", "-m", "i"]);
    let saved = bench.save();
    git(&inner, &["rm", "-q", "--cached", "i"]);
    let plan = bench.world.open().plan_restore(&reference(&saved), &RestoreOptions::default());
    assert_eq!(plan.unwrap().details, ["inner: index: as it was, nothing staged"]);
}
