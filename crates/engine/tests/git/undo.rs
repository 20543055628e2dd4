//! Undo takes back all that a restore did to repositories, and nothing that anybody did since.

use std::path::Path;

use rappel::{RestoreOptions, RestoreReport};
use rappel_testing::project::Snapshot;
use rappel_testing::snapshot;

use crate::bench::{Bench, arg, assert_same, git, portrait, text};

fn with_worktree(name: &str) -> RestoreOptions {
    RestoreOptions { worktrees: vec![name.into()], ..RestoreOptions::default() }
}

/// Everything at a path, or nothing.
fn all(folder: &Path) -> Option<Snapshot> {
    folder.exists().then(|| snapshot(folder))
}

/// A work tree with something of every kind in it.
fn with_other(bench: &Bench) -> std::path::PathBuf {
    let folder = bench.outside("other");
    bench.git(&["worktree", "add", "-q", "-b", "other", arg(&folder), "feature/x"]);
    std::fs::write(folder.join("a"), "dirty\n").unwrap();
    std::fs::create_dir(folder.join("deep")).unwrap();
    std::fs::write(folder.join("deep/untracked"), "untracked\n").unwrap();
    std::fs::write(folder.join("s"), "staged\n").unwrap();
    git(&folder, &["add", "s"]);
    folder
}

fn conflicts(report: &RestoreReport) -> Vec<String> {
    report.conflicts.iter().map(|one| format!("{}: {}", one.path, one.reason)).collect()
}

#[test]
fn the_files_of_another_work_tree_come_back_too() {
    let bench = Bench::new();
    let folder = with_other(&bench);
    let saved = bench.save();
    let before = portrait(&folder);
    std::fs::write(folder.join("a"), "work of another agent\n").unwrap();
    std::fs::remove_dir_all(folder.join("deep")).unwrap();
    std::fs::write(folder.join("more"), "more\n").unwrap();
    git(&folder, &["add", "a", "more"]);
    git(&folder, &["commit", "-q", "-m", "of another agent"]);
    std::fs::write(folder.join("loose"), "loose\n").unwrap();
    let (here, there) = (bench.portrait(), portrait(&folder));
    let plan = bench.world.open();
    let plan = plan.plan_restore(&crate::support::reference(&saved), &with_worktree("other"));
    assert_eq!(plan.unwrap().conflicts, []);
    bench.restore_with(&saved, &with_worktree("other")).unwrap();
    assert_same(&portrait(&folder), &before, "restored");
    bench.undo();
    assert_same(&portrait(&folder), &there, "undone");
    assert_same(&bench.portrait(), &here, "undone");
    bench.redo();
    assert_same(&portrait(&folder), &before, "redone");
    bench.undo();
    assert_same(&portrait(&folder), &there, "undone again");
}

#[test]
fn what_was_edited_in_another_work_tree_since_is_kept() {
    let bench = Bench::new();
    let folder = with_other(&bench);
    let saved = bench.save();
    std::fs::write(folder.join("a"), "of another agent\n").unwrap();
    std::fs::write(folder.join("x"), "of another agent\n").unwrap();
    bench.restore_with(&saved, &with_worktree("other")).unwrap();
    std::fs::write(folder.join("a"), "edited since\n").unwrap();
    let report = bench.world.undo();
    assert_eq!(conflicts(&report), ["a: edited since in the work tree other, kept"]);
    assert_eq!(std::fs::read(folder.join("a")).unwrap(), b"edited since\n");
    assert_eq!(std::fs::read(folder.join("x")).unwrap(), b"of another agent\n");
}

#[test]
fn a_work_tree_that_was_made_again_goes_again() {
    let bench = Bench::new();
    let folder = with_other(&bench);
    let saved = bench.save();
    let before = portrait(&folder);
    for only_the_folder in [false, true] {
        match only_the_folder {
            true => std::fs::remove_dir_all(&folder).unwrap(),
            false => {
                bench.git(&["worktree", "remove", "--force", arg(&folder)]);
                bench.git(&["branch", "-q", "-D", "other"]);
            }
        }
        let damaged = bench.portrait();
        bench.restore(&saved);
        assert_same(&portrait(&folder), &before, "restored");
        let restored = bench.portrait();
        bench.undo();
        assert_eq!(all(&folder), None);
        assert_same(&bench.portrait(), &damaged, "undone");
        bench.redo();
        assert_same(&portrait(&folder), &before, "redone");
        assert_same(&bench.portrait(), &restored, "redone");
    }
}

#[test]
fn a_work_tree_that_was_made_again_stays_if_it_holds_anything_else() {
    type Deed = fn(&Path);
    let deeds: [(&str, Deed); 5] = [
        ("an ignored file", |folder| std::fs::write(folder.join("junk.ignored"), "x").unwrap()),
        ("a new file", |folder| std::fs::write(folder.join("fresh"), "x").unwrap()),
        ("an edit", |folder| std::fs::write(folder.join("a"), "edit\n").unwrap()),
        ("something staged", |folder| drop(git(folder, &["add", "a"]))),
        ("a commit", |folder| drop(git(folder, &["commit", "-q", "-m", "mine"]))),
    ];
    for (what, deed) in deeds {
        let bench = Bench::new();
        bench.world.write(".git/info/exclude", "*.ignored\n");
        let folder = with_other(&bench);
        let saved = bench.save();
        bench.git(&["worktree", "remove", "--force", arg(&folder)]);
        bench.restore(&saved);
        deed(&folder);
        let (there, everything) = (portrait(&folder), all(&folder));
        let report = bench.world.undo();
        let said = conflicts(&report);
        assert_eq!(said.len(), 1, "{what}: {said:?}");
        assert!(said[0].contains("worktrees/other: the work tree other in"), "{said:?}");
        assert_eq!(all(&folder), everything, "{what}");
        let now = portrait(&folder);
        assert_eq!((now.head, now.staged, now.status), (there.head, there.staged, there.status));
    }
}

#[test]
fn a_repository_that_was_made_again_stays_if_it_holds_anything_else() {
    type Deed = fn(&Bench);
    let deeds: [(&str, Deed); 5] = [
        ("a commit", |bench| bench.commit("fresh", "x\n")),
        ("an object that nothing leads to", |bench| {
            bench.world.write("loose", "only an object\n");
            bench.git(&["hash-object", "-w", "loose"]);
            bench.world.remove("loose");
        }),
        ("a folder of another program", |bench| bench.world.write(".git/svn/x", "y")),
        ("a lock", |bench| bench.world.write(".git/index.lock", "")),
        ("a submodule", |bench| bench.world.write(".git/modules/sub/HEAD", "x")),
    ];
    for (what, deed) in deeds {
        let bench = Bench::new();
        let saved = bench.save();
        bench.lose_git();
        bench.restore(&saved);
        deed(&bench);
        let inside = all(&bench.git_dir());
        let report = bench.world.undo();
        let said = conflicts(&report);
        assert_eq!(said.len(), 1, "{what}: {said:?}");
        assert!(said[0].starts_with(".git: the repository was made by the restore"), "{said:?}");
        assert_eq!(all(&bench.git_dir()), inside, "{what}");
    }
}

#[test]
fn everything_with_its_work_trees_goes_again() {
    let bench = Bench::new();
    let folder = with_other(&bench);
    let saved = bench.save();
    let before = bench.portrait();
    std::fs::remove_dir_all(&folder).unwrap();
    bench.lose_git();
    let damaged = all(bench.root());
    bench.restore(&saved);
    assert_same(&bench.portrait(), &before, "restored");
    // Looking leaves nothing that would keep it.
    bench.git(&["status"]);
    bench.git(&["log", "-1"]);
    let (before, before_there) = (bench.portrait(), portrait(&folder));
    let step = bench.world.open().next_undo().unwrap();
    let plan = bench.world.open().plan_step(&step, false, &RestoreOptions::default()).unwrap();
    let said = plan.details.join("\n");
    assert!(said.contains("the repository: taken away, the restore made it"), "{plan:?}");
    assert!(said.contains("work tree other in"), "{said}");
    bench.undo();
    assert_eq!((all(bench.root()), all(&folder)), (damaged, None));
    bench.redo();
    assert_same(&bench.portrait(), &before, "redone");
    assert_same(&portrait(&folder), &before_there, "redone");
}

#[test]
fn nested_repositories_go_again() {
    let bench = Bench::new();
    let source = Bench::new();
    source.git(&["reset", "-q", "--hard"]);
    bench.git(&["submodule", "--quiet", "add", arg(source.root()), "libs/sub"]);
    bench.git(&["commit", "-q", "-m", "with a submodule"]);
    bench.git(&["clone", "-q", arg(source.root()), "nested"]);
    let saved = bench.save();
    let before = all(bench.root()).unwrap();
    let names = |all: &Snapshot| -> Vec<String> {
        all.keys().filter(|path| !path.contains("/objects")).cloned().collect()
    };
    for lost in [&[".git"][..], &["nested", "libs"], &[".git", "nested", "libs"]] {
        for name in lost {
            std::fs::remove_dir_all(bench.root().join(name)).unwrap();
        }
        let damaged = all(bench.root());
        bench.restore(&saved);
        assert_eq!(names(&all(bench.root()).unwrap()), names(&before), "{lost:?}");
        bench.undo();
        let (found, damaged) = (all(bench.root()).unwrap(), damaged.unwrap());
        let more: Vec<&String> = found.keys().filter(|one| !damaged.contains_key(*one)).collect();
        let less: Vec<&String> = damaged.keys().filter(|one| !found.contains_key(*one)).collect();
        assert_eq!((more, less), (Vec::new(), Vec::new()), "{lost:?}");
        assert_eq!(found, damaged, "{lost:?}");
        bench.redo();
        assert_eq!(text(&bench.root().join("nested"), &["status", "--porcelain"]), "");
        assert_eq!(text(&bench.root().join("libs/sub"), &["status", "--porcelain"]), "");
    }
}

#[test]
fn a_ref_that_moved_since_goes_back_if_it_is_asked() {
    let bench = Bench::new();
    let saved = bench.save();
    bench.git(&["branch", "-q", "-f", "feature/x", "main"]);
    let damaged = bench.portrait();
    bench.restore(&saved);
    bench.git(&["branch", "-q", "-f", "feature/x", "main~2"]);
    bench.world.clock.advance(1000);
    let rappel = bench.world.open();
    let step = rappel.next_undo().unwrap();
    let plan = rappel.plan_step(&step, false, &RestoreOptions::default()).unwrap();
    assert_eq!(conflicts(&plan), ["refs/heads/feature/x: it moved since, kept"]);
    let report = rappel.step(&step, true, &RestoreOptions::default()).unwrap();
    assert_eq!(report.conflicts, []);
    assert_eq!(bench.portrait().refs, damaged.refs);
}

#[test]
fn a_repository_made_since_is_not_written_over_by_redo() {
    let bench = Bench::new();
    let saved = bench.save();
    bench.lose_git();
    bench.restore(&saved);
    bench.undo();
    bench.git(&["init", "-q"]);
    bench.world.write("mine", "mine\n");
    bench.git(&["add", "mine"]);
    let mine = bench.portrait();
    let report = bench.world.redo();
    assert_eq!(conflicts(&report), [".git: the repository is there already; it is kept as it is"]);
    let now = bench.portrait();
    assert_eq!((now.refs, now.head, now.staged), (mine.refs, mine.head, mine.staged));
    assert_eq!(now.inside, mine.inside);
}
