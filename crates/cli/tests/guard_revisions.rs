//! Commands of git that go to a commit, through the real binary: an ignored file that the commit
//! tracks is overwritten, so the checkpoint before the command holds it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]

mod support;

use serde_json::json;
use support::World;
use support::guarded::{before, git, newest, restore, shell, world};

/// A repository whose branch `tracks` holds `settings.local` and `secret/.env`, which are ignored
/// files of the user here.
fn diverged() -> World {
    let world = world();
    git(&world, &["branch", "-m", "main"]);
    git(&world, &["checkout", "-q", "-b", "tracks"]);
    world.write("settings.local", "theirs\n");
    world.write("secret/.env", "TOKEN=theirs\n");
    git(&world, &["add", "-f", "settings.local", "secret/.env"]);
    git(&world, &["commit", "-q", "-m", "tracks what is ignored"]);
    git(&world, &["checkout", "-q", "main"]);
    world.write("settings.local", "mine\n");
    world.write("secret/.env", "TOKEN=mine\n");
    world
}

/// How many checkpoints were made before an operation.
fn operations(world: &World) -> usize {
    let list = world.json(&["list", "--trigger", "pre-operation"]);
    list["checkpoints"].as_array().unwrap().len()
}

/// Runs `command` after the hook was told of it, and restores what it took.
fn check(world: &World, command: &str) {
    let message = before(world, command);
    assert_eq!(message, None, "{command}");
    let saved = newest(world);
    assert_eq!(saved["description"], format!("Before {command}"));
    let ran =
        shell(world, &format!("git config user.name t; git config user.email t@t; {command}"));
    assert!(ran.status.success(), "{ran:?}");
    assert_eq!(world.read("settings.local"), "theirs\n", "{command} overwrites nothing");
    restore(world, &saved);
    assert_eq!(world.read("settings.local"), "mine\n", "{command}");
    assert_eq!(world.read("secret/.env"), "TOKEN=mine\n", "{command}");
}

#[test]
fn an_ignored_file_that_a_reset_overwrites_comes_back() {
    for command in
        ["git reset --hard tracks", "git reset -q --hard main@{0} && git reset --hard tracks"]
    {
        let world = diverged();
        world.save("before all");
        check(&world, command);
    }
}

#[test]
fn an_ignored_file_that_a_checkout_or_switch_overwrites_comes_back() {
    for command in [
        "git checkout -q tracks",
        "git switch -q tracks",
        "git checkout -q -",
        "git checkout -q -b new tracks",
        "git switch -q -C new tracks",
        "git checkout -q tracks -- .",
        "git restore --source=tracks .",
        "git -C secret checkout -q tracks",
        "sh -c 'git checkout -q tracks'",
    ] {
        let world = diverged();
        world.save("before all");
        check(&world, command);
    }
}

#[test]
fn an_ignored_file_that_a_merge_or_rebase_overwrites_comes_back() {
    for command in [
        "git merge -q tracks",
        "git rebase -q tracks",
        "git cherry-pick tracks",
        "git pull -q . tracks",
    ] {
        let world = diverged();
        world.save("before all");
        // The pull is not a matter of what is fetched: the branch is here.
        check(&world, command);
    }
}

#[test]
fn an_ignored_file_that_a_stash_overwrites_comes_back() {
    let world = diverged();
    git(&world, &["add", "-f", "settings.local"]);
    world.write("settings.local", "theirs\n");
    git(&world, &["add", "-f", "settings.local"]);
    git(&world, &["stash", "-q"]);
    world.write("settings.local", "mine\n");
    world.save("before all");
    assert_eq!(before(&world, "git stash pop"), None);
    let saved = newest(&world);
    let ran = shell(&world, "git stash pop");
    if ran.status.success() {
        assert_eq!(world.read("settings.local"), "theirs\n");
    }
    restore(&world, &saved);
    assert_eq!(world.read("settings.local"), "mine\n");
}

#[test]
fn a_branch_of_a_remote_alone_is_found_by_its_name() {
    let world = diverged();
    git(&world, &["update-ref", "refs/remotes/origin/feature", "tracks"]);
    git(&world, &["config", "remote.origin.url", "."]);
    git(&world, &["config", "remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*"]);
    world.save("before all");
    check(&world, "git checkout -q feature");
}

#[test]
fn an_ignored_folder_or_file_in_the_place_of_a_tracked_one_comes_back() {
    let world = world();
    git(&world, &["branch", "-m", "main"]);
    git(&world, &["checkout", "-q", "-b", "tracks"]);
    std::fs::remove_dir_all(world.project.path("secret")).unwrap();
    world.write("secret", "a file\n");
    world.remove("settings.local");
    world.write("settings.local/in", "a folder\n");
    git(&world, &["add", "-f", "secret", "settings.local/in"]);
    git(&world, &["commit", "-q", "-m", "other kinds"]);
    git(&world, &["checkout", "-q", "main"]);
    world.write("secret/deep/key", "key\n");
    world.write("settings.local", "mine\n");
    world.save("before all");
    assert_eq!(before(&world, "git checkout -q tracks"), None);
    let saved = newest(&world);
    assert!(shell(&world, "git checkout -q tracks").status.success());
    assert_eq!(world.read("secret"), "a file\n");
    // No rule of the checkpoint selects what stands in the folder, so the restore does not delete it.
    let id = saved["id"].as_str().unwrap();
    let refused = world.run(&["restore", id, "--confirm"]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("settings.local/in, which would be lost"), "{refused:?}");
    std::fs::remove_dir_all(world.project.path("settings.local")).unwrap();
    restore(&world, &saved);
    assert_eq!(world.read("secret/deep/key"), "key\n");
    assert_eq!(world.read("settings.local"), "mine\n");
}

#[test]
fn a_command_that_overwrites_nothing_is_no_operation() {
    let world = diverged();
    git(&world, &["branch", "plain"]);
    world.save("before all");
    for command in [
        "git checkout plain",
        "git switch plain",
        "git merge plain",
        "git checkout -b new",
        "git pull",
        "git checkout nosuchbranch",
    ] {
        assert_eq!(before(&world, command), None, "{command}");
    }
    assert_eq!(operations(&world), 0);
    let run = world.run(&["guard", "--line", "git checkout plain"]);
    assert!(run.stderr.is_empty() && run.status.success(), "{run:?}");
    let run = world.run(&["guard", "--line", "git checkout tracks"]);
    let said = String::from_utf8_lossy(&run.stderr).into_owned();
    assert!(said.starts_with("rappel: saved ") && said.lines().count() == 1, "{said}");
    assert_eq!(operations(&world), 1);
}

#[test]
fn a_revision_that_only_the_run_tells_is_named() {
    let world = diverged();
    world.save("before all");
    let said = before(&world, "git reset --hard \"$WHERE\"").unwrap();
    assert!(said.contains("unknown before it runs: \"$WHERE\""), "{said}");
    let said = before(&world, "git reset --hard nosuchcommit").unwrap();
    assert!(said.contains("unknown before it runs: nosuchcommit"), "{said}");
    git(&world, &["update-ref", "refs/remotes/origin/main", "tracks"]);
    let said = before(&world, "git fetch && git reset --hard origin/main").unwrap();
    assert!(said.contains("the files of origin/main by then"), "{said}");
    assert_eq!(
        newest(&world)["metadata"]["operation"]["unknown"],
        json!(["the files of origin/main by then"])
    );
}

/// A commit in the middle of those that are replayed tracks the file; the ones at the ends do not.
#[test]
fn an_ignored_file_that_only_a_commit_in_between_tracks_is_saved() {
    for command in ["git cherry-pick main..passes", "git rebase -q main passes"] {
        let world = world();
        git(&world, &["branch", "-m", "main"]);
        git(&world, &["checkout", "-q", "-b", "passes"]);
        let commit = |message: &str| git(&world, &["commit", "-q", "-m", message]);
        world.write("one.txt", "1\n");
        git(&world, &["add", "one.txt"]);
        commit("one");
        world.write("settings.local", "theirs\n");
        git(&world, &["add", "-f", "settings.local"]);
        commit("tracks what is ignored");
        git(&world, &["rm", "-q", "settings.local"]);
        commit("no longer");
        world.write("two.txt", "2\n");
        git(&world, &["add", "two.txt"]);
        commit("two");
        world.write("three.txt", "3\n");
        git(&world, &["add", "three.txt"]);
        commit("three");
        git(&world, &["checkout", "-q", "main"]);
        git(&world, &["commit", "-q", "--allow-empty", "-m", "main went on"]);
        world.write("settings.local", "mine\n");
        world.save("before all");
        before(&world, command);
        let saved = newest(&world);
        assert_eq!(saved["description"], format!("Before {command}"));
        let ran =
            shell(&world, &format!("git config user.name t; git config user.email t@t; {command}"));
        assert!(ran.status.success(), "{ran:?}");
        assert!(!world.project.path("settings.local").exists(), "{command} takes nothing");
        restore(&world, &saved);
        assert_eq!(world.read("settings.local"), "mine\n", "{command}");
    }
}
