//! Every kind of file in git's folder, spoilt in every way, after commits that the checkpoint does
//! not hold: the restore makes the repository whole, undo brings the spoilt folder back to the
//! byte, redo makes it whole again, and nothing of Rappel's own is left in it.

#![allow(clippy::unwrap_used, reason = "tests may")]

mod support;

use std::path::{Path, PathBuf};

use rappel_testing::git::{attempt, git};
use rappel_testing::project::Snapshot;
use rappel_testing::{Project, snapshot};
use support::World;

const WAYS: [&str; 7] =
    ["empty", "zeros", "garbage", "cut", "missing", "a folder", "a folder that is not empty"];

fn commit(world: &World, text: &str) {
    world.write("file", text);
    git(world.project.root(), &["add", "."]);
    git(world.project.root(), &["commit", "-qm", text]);
}

/// Two branches and a tag, packed and loose; something staged.
fn repository() -> World {
    let world = World::of(Project::new());
    let root = world.project.root();
    git(root, &["init", "-q"]);
    commit(&world, "one");
    git(root, &["branch", "other"]);
    git(root, &["tag", "-am", "a tag", "v1"]);
    git(root, &["pack-refs", "--all"]);
    commit(&world, "two");
    world.write("staged", "staged");
    git(root, &["add", "staged"]);
    world
}

fn spoil(path: &Path, way: &str) {
    let bytes = std::fs::read(path).unwrap_or_else(|_| b"a folder, before\n".to_vec());
    if path.is_dir() {
        std::fs::remove_dir_all(path).unwrap();
    } else {
        std::fs::remove_file(path).unwrap();
    }
    match way {
        "empty" => std::fs::write(path, "").unwrap(),
        "zeros" => std::fs::write(path, vec![0; bytes.len()]).unwrap(),
        "garbage" => {
            let garbage: Vec<u8> =
                (0..bytes.len()).map(|at| (at * 89 + 131) as u8 | 0x80).collect();
            std::fs::write(path, garbage).unwrap();
        }
        "cut" => std::fs::write(path, &bytes[..bytes.len() / 2]).unwrap(),
        "missing" => {}
        folder => {
            std::fs::create_dir(path).unwrap();
            if folder != "a folder" {
                std::fs::create_dir(path.join("deeper")).unwrap();
                std::fs::write(path.join("deeper/mine"), "what is this\n").unwrap();
                std::fs::write(path.join("mine"), "what is this\n").unwrap();
            }
        }
    }
}

/// All of git's folder but the objects, of which a restore adds some, and but for refs that are
/// packed with the same value: whether git keeps one in a file of its own too is its own affair.
fn folder(world: &World) -> Snapshot {
    let root = world.project.path(".git");
    let packed = std::fs::read_to_string(root.join("packed-refs")).unwrap_or_default();
    let packed: Vec<String> = packed.lines().map(str::to_owned).collect();
    let is_packed = |path: &str| {
        let own = std::fs::read_to_string(root.join(path)).unwrap_or_default();
        packed.contains(&format!("{} {path}", own.trim_end()))
    };
    // Nor does it matter which folders it makes for refs.
    let is_packed =
        |path: &str| is_packed(path) || path.starts_with("refs/") && root.join(path).is_dir();
    let is_object = |path: &str| path == "objects" || path.starts_with("objects/");
    let all = snapshot(&root).into_iter();
    all.filter(|(path, _)| !is_object(path) && !is_packed(path)).collect()
}

fn assert_same(found: &Snapshot, expected: &Snapshot, when: &str) {
    let differs = |path: &&String| found.get(*path) != expected.get(*path);
    let paths = found.keys().chain(expected.keys()).filter(differs);
    let paths: Vec<_> = paths.map(|path| (path, found.get(path), expected.get(path))).collect();
    assert_eq!(paths, [], "{when}");
}

/// What git says of everything that the checkpoint holds.
fn portrait(world: &World) -> Vec<String> {
    let root = world.project.root();
    let questions: [&[&str]; 6] = [
        &["rev-parse", "--symbolic-full-name", "HEAD"],
        &["rev-parse", "HEAD", "other", "v1"],
        &["ls-files", "--stage"],
        &["status", "--porcelain"],
        &["reflog"],
        &["fsck", "--no-dangling", "--no-progress", "--no-reflogs"],
    ];
    questions.iter().map(|question| git(root, question)).collect()
}

fn run(world: &World, arguments: &[&str], when: &str) -> String {
    let output = world.run(arguments);
    let shown = world.shown(&output);
    assert!(output.status.success(), "{when}, {arguments:?}: {shown}");
    shown
}

fn each_way(kind: &str) {
    each_of(kind, &WAYS);
}

fn each_of(kind: &str, ways: &[&str]) {
    for way in ways.iter().copied() {
        let when = format!("{kind}, {way}");
        let world = repository();
        let saved = world.save("whole");
        let whole = portrait(&world);
        commit(&world, "three");
        commit(&world, "four");
        git(world.project.root(), &["branch", "later"]);
        let place = world.project.path(format!(".git/{kind}"));
        spoil(&place, way);
        let spoilt = folder(&world);

        let said = run(&world, &["restore", &saved, "--confirm"], &when);
        assert!(!said.contains("is left as it is"), "{when}: {said}");
        assert_eq!(portrait(&world), whole, "{when}: {said}");

        run(&world, &["undo"], &when);
        assert_same(&folder(&world), &spoilt, &format!("{when}, undone"));

        let said = run(&world, &["redo"], &when);
        assert_eq!(portrait(&world), whole, "{when}, redone: {said}");
        let own: Vec<String> =
            folder(&world).into_keys().filter(|path| path.contains("rappel-")).collect();
        assert_eq!(own, Vec::<String>::new(), "{when}");
    }
}

#[test]
fn head() {
    each_way("HEAD");
}

#[test]
fn the_branch_that_is_checked_out() {
    each_way("refs/heads/main");
}

#[test]
fn packed_refs() {
    each_way("packed-refs");
}

#[test]
fn the_index() {
    each_way("index");
}

#[test]
fn the_configuration() {
    each_way("config");
}

#[test]
fn the_log_of_head() {
    each_way("logs/HEAD");
}

#[test]
fn the_log_of_a_branch() {
    each_way("logs/refs/heads/main");
}

#[test]
fn all_logs() {
    each_way("logs");
}

#[test]
fn what_is_ignored() {
    each_way("info/exclude");
}

/// A file of nobody's in there would be a ref that git cannot read; it is named and left.
#[test]
fn all_refs() {
    for kind in ["refs", "refs/heads"] {
        each_of(kind, &["empty", "garbage", "missing", "a folder"]);
    }
}

#[test]
fn what_is_set_up() {
    for kind in ["hooks", "info", "description"] {
        each_of(kind, &["empty", "missing", "a folder", "a folder that is not empty"]);
    }
}

#[test]
fn what_an_operation_leaves() {
    each_way("COMMIT_EDITMSG");
}

/// Git has to read the repository in between: the one is repaired before the refs move, the other
/// is spoilt again after that.
#[test]
fn an_undo_repairs_what_was_spoilt_since_and_puts_back_what_was_spoilt_before() {
    let world = repository();
    let saved = world.save("whole");
    commit(&world, "three");
    let place = world.project.path(".git/packed-refs");
    spoil(&place, "a folder that is not empty");
    let spoilt = folder(&world);
    run(&world, &["restore", &saved, "--confirm"], "restored");
    spoil(&world.project.path(".git/config"), "garbage");
    let since = folder(&world);
    let said = run(&world, &["undo"], "undone");
    assert!(said.contains("config repaired"), "{said}");
    assert!(said.contains("packed-refs unreadable to git as before"), "{said}");
    assert_same(&folder(&world), &spoilt, "undone");
    run(&world, &["redo"], "redone");
    assert_same(&folder(&world), &since, "redone");
}

/// The repository with another work tree, in which something is staged and something is not.
fn with_linked() -> (World, PathBuf) {
    let world = repository();
    let linked = world.project.outside().join("linked");
    git(world.project.root(), &["worktree", "add", "-q", linked.to_str().unwrap()]);
    std::fs::write(linked.join("file"), "theirs").unwrap();
    git(&linked, &["commit", "-qam", "theirs"]);
    std::fs::write(linked.join("staged there"), "staged").unwrap();
    git(&linked, &["add", "."]);
    std::fs::write(linked.join("file"), "not staged").unwrap();
    (world, linked)
}

/// What git says in a linked work tree, and of it.
fn portrait_of(linked: &Path) -> Vec<String> {
    let questions: [&[&str]; 6] = [
        &["status", "--porcelain=v2", "--branch"],
        &["rev-parse", "HEAD"],
        &["ls-files", "--stage"],
        &["diff"],
        &["reflog"],
        &["worktree", "list", "--porcelain"],
    ];
    questions.iter().map(|question| git(linked, question)).collect()
}

/// Spoils something of the linked work tree, restores, undoes and redoes.
fn linked_each_of(kind: &str, ways: &[&str]) {
    for way in ways.iter().copied() {
        let when = format!("{kind}, {way}");
        let (world, linked) = with_linked();
        let saved = world.save("whole");
        let (whole, there, files) = (portrait(&world), portrait_of(&linked), snapshot(&linked));
        commit(&world, "three");
        let place = world.project.path(format!(".git/{kind}"));
        let good = place.is_file().then(|| std::fs::read(&place).unwrap());
        spoil(&place, way);
        let spoilt = folder(&world);

        let said = run(&world, &["restore", &saved, "--confirm"], &when);
        assert!(!said.contains("is left as it is"), "{when}: {said}");
        let is_whole = |then: &str, said: &str| {
            let when = format!("{when}, {then}: {said}");
            if let Some(good) = &good {
                assert_eq!(&std::fs::read(&place).unwrap(), good, "{when}");
            }
            assert_eq!(portrait_of(&linked), there, "{when}");
            assert_eq!(portrait(&world), whole, "{when}");
            // Nobody asked for its files.
            assert_eq!(snapshot(&linked), files, "{when}");
            git(&linked, &["worktree", "prune"]);
            assert_eq!(portrait_of(&linked), there, "{when}, pruned");
        };
        is_whole("restored", &said);
        let again = run(&world, &["restore", &saved, "--confirm"], &when);
        assert!(again.contains("Nothing to change"), "{when}: {again}");

        run(&world, &["undo"], &when);
        assert_same(&folder(&world), &spoilt, &format!("{when}, undone"));
        assert_eq!(snapshot(&linked), files, "{when}, undone");

        let said = run(&world, &["redo"], &when);
        is_whole("redone", &said);
        let own: Vec<String> =
            folder(&world).into_keys().filter(|path| path.contains("rappel-")).collect();
        assert_eq!(own, Vec::<String>::new(), "{when}");
    }
}

#[test]
fn what_git_has_to_read_of_a_linked_work_tree() {
    for name in ["HEAD", "commondir", "gitdir"] {
        linked_each_of(&format!("worktrees/linked/{name}"), &WAYS);
    }
}

#[test]
fn the_index_and_the_logs_of_a_linked_work_tree() {
    for name in ["index", "ORIG_HEAD", "logs/HEAD"] {
        linked_each_of(&format!("worktrees/linked/{name}"), &WAYS);
    }
}

#[test]
fn git_s_folder_of_a_linked_work_tree() {
    for kind in ["worktrees", "worktrees/linked"] {
        linked_each_of(kind, &["empty", "garbage", "missing", "a folder"]);
    }
}

#[test]
fn a_save_says_which_linked_work_tree_git_cannot_read() {
    for name in ["HEAD", "commondir", "gitdir", "index"] {
        for way in WAYS {
            if (name, way) == ("index", "missing") {
                // That is an index without a file in it.
                continue;
            }
            let (world, _) = with_linked();
            world.save("whole");
            spoil(&world.project.path(format!(".git/worktrees/linked/{name}")), way);
            let made = world.json(&["save", "spoilt"]);
            assert_eq!(made["partial"], true, "{name}, {way}: {made}");
            let status = world.json_at_any_exit(&["status"]);
            assert_eq!(status["state"], "degraded", "{name}, {way}: {status}");
            let reasons = status["reasons"].to_string();
            assert!(reasons.contains(&format!("worktrees/linked/{name}")), "{way}: {status}");
        }
    }
}

/// It is said once, as of a repository that is gone.
#[test]
fn a_save_says_that_a_linked_work_tree_has_lost_git_s_folder() {
    for kind in ["worktrees", "worktrees/linked"] {
        let (world, linked) = with_linked();
        world.save("whole");
        spoil(&world.project.path(format!(".git/{kind}")), "missing");
        let made = world.json(&["save", "lost"]);
        let words = format!("the work tree linked in {} has lost git's folder", linked.display());
        assert!(made["partial_reasons"].to_string().contains(&words), "{kind}: {made}");
        assert_eq!(world.json_at_any_exit(&["status"])["state"], "degraded", "{kind}");
        assert_eq!(world.json(&["save", "again"])["partial"], false, "{kind}");
        assert_eq!(world.json(&["status"])["state"], "protected", "{kind}");
    }
}

#[test]
fn a_linked_work_tree_that_was_removed_is_no_loss() {
    let (world, linked) = with_linked();
    world.save("whole");
    let path = linked.to_str().unwrap();
    git(world.project.root(), &["worktree", "remove", "--force", path]);
    assert_eq!(world.json(&["save", "removed"])["partial"], false);
}

/// The files of a work tree that git did not know are in no safety checkpoint: they come back when
/// it is known again.
#[test]
fn a_linked_work_tree_that_is_asked_for_comes_back_with_the_second_restore() {
    for kind in ["worktrees", "worktrees/linked", "worktrees/linked/gitdir"] {
        let (world, linked) = with_linked();
        let saved = world.save("whole");
        let (there, files) = (portrait_of(&linked), snapshot(&linked));
        spoil(&world.project.path(format!(".git/{kind}")), "missing");
        std::fs::write(linked.join("file"), "work of another agent").unwrap();
        let asked = ["restore", &saved, "--worktree", "linked", "--confirm"];
        let said = run(&world, &asked, kind);
        assert!(said.contains("restore again"), "{kind}: {said}");
        assert_eq!(std::fs::read_to_string(linked.join("file")).unwrap(), "work of another agent");
        let said = run(&world, &asked, kind);
        assert!(!said.contains("restore again"), "{kind}: {said}");
        assert_eq!((portrait_of(&linked), snapshot(&linked)), (there, files), "{kind}: {said}");
        let said = run(&world, &asked, kind);
        assert!(said.contains("Nothing to change"), "{kind}: {said}");
        run(&world, &["undo"], kind);
        assert_eq!(std::fs::read_to_string(linked.join("file")).unwrap(), "work of another agent");
    }
}

#[test]
fn an_undo_keeps_git_s_folder_of_a_linked_work_tree_that_was_worked_in_since() {
    let (world, linked) = with_linked();
    let saved = world.save("whole");
    spoil(&world.project.path(".git/worktrees"), "missing");
    world.write("file", "changed");
    run(&world, &["restore", &saved, "--confirm"], "restored");
    git(&linked, &["commit", "-qam", "since"]);
    let since = portrait_of(&linked);
    let undone = world.run(&["undo"]);
    let said = world.shown(&undone);
    assert!(said.contains("worked in since"), "{said}");
    assert_eq!(portrait_of(&linked), since, "{said}");
    assert_eq!(world.read("file"), "changed", "{said}");
}

/// One that was made in another place since has nothing to do with the checkpoint's.
#[test]
fn a_work_tree_of_the_same_name_elsewhere_gets_nothing_of_the_checkpoint_s() {
    let (world, linked) = with_linked();
    let root = world.project.root();
    let saved = world.save("whole");
    git(root, &["worktree", "remove", "--force", linked.to_str().unwrap()]);
    let elsewhere = world.project.outside().join("elsewhere/linked");
    let to = elsewhere.to_str().unwrap();
    git(root, &["worktree", "add", "-q", "--no-checkout", "--detach", to, "other"]);
    let before = snapshot(&world.project.path(".git/worktrees"));
    world.write("file", "changed");
    run(&world, &["restore", &saved, "--confirm"], "restored");
    assert_eq!(snapshot(&world.project.path(".git/worktrees")), before);
}

/// Where refs are kept in tables, the HEAD of a linked work tree is in its own.
#[test]
fn a_linked_work_tree_of_a_repository_with_tables() {
    let world = World::of(Project::new());
    let root = world.project.root();
    if !attempt(root, &["init", "-q", "--ref-format=reftable"]).status.success() {
        rappel_testing::cannot_run("this git has no reftable");
        return;
    }
    commit(&world, "one");
    let linked = world.project.outside().join("linked");
    git(root, &["worktree", "add", "-q", linked.to_str().unwrap()]);
    std::fs::write(linked.join("file"), "theirs").unwrap();
    git(&linked, &["commit", "-qam", "theirs"]);
    let saved = world.save("whole");
    let (there, files) = (portrait_of(&linked), snapshot(&linked));
    for kind in ["", "/linked", "/linked/reftable", "/linked/HEAD", "/linked/commondir"] {
        let place = world.project.path(format!(".git/worktrees{kind}"));
        spoil(&place, "missing");
        run(&world, &["restore", &saved, "--confirm"], kind);
        assert_eq!((portrait_of(&linked), snapshot(&linked)), (there.clone(), files.clone()));
        run(&world, &["undo"], kind);
        assert!(!place.exists(), "{kind}");
        run(&world, &["redo"], kind);
        assert_eq!(portrait_of(&linked), there, "{kind}, redone");
    }
}

/// The workspace is the linked one.
#[test]
fn a_linked_work_tree_that_is_the_workspace() {
    for name in ["HEAD", "commondir", "gitdir", "index", "logs/HEAD"] {
        for way in WAYS {
            let when = format!("{name}, {way}");
            let (world, linked) = with_linked();
            let command = |arguments: &[&str]| {
                let output = world.command(arguments).current_dir(&linked).output().unwrap();
                (output.status.success(), world.shown(&output))
            };
            let (done, said) = command(&["save", "whole"]);
            assert!(done, "{when}: {said}");
            let (there, files) = (portrait_of(&linked), snapshot(&linked));
            let place = world.project.path(format!(".git/worktrees/linked/{name}"));
            let good = std::fs::read(&place).unwrap();
            spoil(&place, way);
            let spoilt = folder(&world);
            let (done, said) = command(&["restore", "latest", "--confirm"]);
            assert!(done, "{when}: {said}");
            assert_eq!(std::fs::read(&place).unwrap(), good, "{when}: {said}");
            assert_eq!((portrait_of(&linked), snapshot(&linked)), (there.clone(), files), "{when}");
            let (done, said) = command(&["undo"]);
            assert!(done, "{when}: {said}");
            assert_same(&folder(&world), &spoilt, &format!("{when}, undone"));
            let (done, said) = command(&["redo"]);
            assert!(done, "{when}: {said}");
            assert_eq!(portrait_of(&linked), there, "{when}, redone");
        }
    }
}

#[test]
fn the_summary_says_what_is_done_to_work_trees() {
    let world = repository();
    let linked = world.project.outside().join("linked");
    git(world.project.root(), &["worktree", "add", "-q", linked.to_str().unwrap()]);
    let saved = world.save("whole");
    std::fs::remove_file(linked.join(".git")).unwrap();
    let said = run(&world, &["restore", &saved, "--confirm"], "restored");
    assert!(said.contains("Worktrees  1 linked again"), "{said}");
    let said = run(&world, &["undo"], "undone");
    assert!(said.contains("Worktrees  1 without its link again"), "{said}");
    run(&world, &["redo"], "redone");
    std::fs::remove_dir_all(&linked).unwrap();
    let said = run(&world, &["restore", &saved, "--confirm"], "restored");
    assert!(said.contains("Worktrees  1 made again") && !said.contains("Git "), "{said}");
    let said = run(&world, &["undo"], "undone");
    assert!(said.contains("Worktrees  1 taken away") && !said.contains("Git "), "{said}");
    run(&world, &["redo"], "redone");
    spoil(&world.project.path(".git/worktrees"), "missing");
    let said = run(&world, &["restore", &saved, "--confirm"], "restored");
    assert!(said.contains("Worktrees  1 with git's folder put back"), "{said}");
    let said = run(&world, &["undo"], "undone");
    assert!(said.contains("Worktrees  1 without git's folder again"), "{said}");
}
