//! A restore that brought ignored files back is taken back, through the real binary: `undo` removes
//! what the restore made, and nothing that was edited since.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]

mod support;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use support::World;
use support::guarded::{before, git, newest, restore, shell, tell, world};

/// A world whose ignored folder was removed, and the checkpoint before that.
fn removed() -> (World, Value) {
    let world = world();
    world.save("before all");
    assert_eq!(before(&world, "rm -rf secret"), None);
    assert!(shell(&world, "rm -rf secret").status.success());
    let saved = newest(&world);
    (world, saved)
}

fn undo(world: &World) -> Value {
    world.json(&["undo", "--confirm"])
}

#[test]
fn ignored_files_that_a_restore_brought_back_go_with_undo_and_come_with_redo() {
    let (world, saved) = removed();
    restore(&world, &saved);
    assert_eq!(world.read("secret/deep/key"), "key\n");
    let report = undo(&world);
    assert!(!world.project.path("secret").exists(), "{report}");
    assert_eq!(report["recovery_complete"], true, "{report}");
    // What was ignored and not restored stays.
    assert_eq!(world.read("settings.local"), "mine\n");
    world.json(&["redo", "--confirm"]);
    assert_eq!(world.read("secret/.env"), "TOKEN=1\n");
    assert_eq!(world.read("secret/deep/key"), "key\n");
}

#[test]
fn what_was_edited_or_added_since_the_restore_stays() {
    let (world, saved) = removed();
    restore(&world, &saved);
    world.write("secret/.env", "TOKEN=edited\n");
    world.write("secret/added", "new\n");
    let report = world.json_at_any_exit(&["undo", "--confirm"]);
    assert!(report.to_string().contains("edited since"), "{report}");
    assert_eq!(world.read("secret/.env"), "TOKEN=edited\n");
    assert_eq!(world.read("secret/added"), "new\n");
    assert!(!world.project.path("secret/deep").exists(), "{report}");
}

#[test]
fn what_stood_in_the_place_of_a_restored_folder_stands_there_again() {
    let (world, saved) = removed();
    world.write("secret", "a file\n");
    restore(&world, &saved);
    assert_eq!(world.read("secret/.env"), "TOKEN=1\n");
    undo(&world);
    assert_eq!(world.read("secret"), "a file\n");

    let (world, saved) = removed();
    let place = world.project.path("secret");
    std::os::unix::fs::symlink("settings.local", &place).unwrap();
    restore(&world, &saved);
    assert_eq!(world.read("secret/.env"), "TOKEN=1\n");
    undo(&world);
    assert_eq!(std::fs::read_link(&place).unwrap(), PathBuf::from("settings.local"));
}

#[test]
fn a_restored_work_tree_with_an_ignored_file_goes_with_undo() {
    let world = world();
    let place = world.project.outside().join("wt");
    git(&world, &["worktree", "add", "-q", place.to_str().unwrap()]);
    std::fs::write(place.join("my.local"), "mine\n").unwrap();
    world.save("before all");
    before(&world, &format!("git worktree remove --force {}", place.display()));
    let saved = newest(&world);
    git(&world, &["worktree", "remove", "--force", place.to_str().unwrap()]);
    restore(&world, &saved);
    assert_eq!(std::fs::read_to_string(place.join("my.local")).unwrap(), "mine\n");
    let report = undo(&world);
    assert!(!place.exists(), "{report}");

    // One that was worked in stays, and says so.
    world.json(&["redo", "--confirm"]);
    std::fs::write(place.join("my.local"), "edited\n").unwrap();
    let report = world.json_at_any_exit(&["undo", "--confirm"]);
    assert!(report.to_string().contains("worked in since"), "{report}");
    assert_eq!(std::fs::read_to_string(place.join("my.local")).unwrap(), "edited\n");
}

#[test]
fn an_ignored_file_of_a_work_tree_that_stands_needs_its_name_and_restore_says_so() {
    let world = world();
    let place = world.project.outside().join("wt");
    git(&world, &["worktree", "add", "-q", place.to_str().unwrap()]);
    let file = place.join("my.local");
    std::fs::write(&file, "mine\n").unwrap();
    world.save("before all");
    assert_eq!(before(&world, &format!("rm {}", file.display())), None);
    let saved = newest(&world);
    std::fs::remove_file(&file).unwrap();
    world.write("a.txt", "changed\n");
    let id = saved["id"].as_str().unwrap();
    let report = world.json(&["restore", id, "--confirm"]);
    assert!(!file.exists());
    let said = report["warnings"].to_string();
    assert!(said.contains("lacks 1 file that git ignores"), "{report}");
    assert!(said.contains("--worktree wt"), "{report}");
    // Another content is told too, even where there is nothing else to change.
    std::fs::write(&file, "theirs\n").unwrap();
    let report = world.json(&["restore", id, "--confirm"]);
    let said = report["warnings"].to_string();
    assert!(said.contains("has another content of 1 file that git ignores"), "{report}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "theirs\n");
    std::fs::remove_file(&file).unwrap();
    let report = world.json(&["restore", id, "--worktree", "wt", "--confirm"]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine\n", "{report}");
    assert!(!report["warnings"].to_string().contains("lacks"), "{report}");
    undo(&world);
    assert!(!file.exists());
}

/// A work tree in an ignored folder, made after the last save.
fn new_worktree(world: &World) -> PathBuf {
    world.write(".gitignore", "secret/\n*.local\nnode_modules/\n.claude/\n");
    world.save("before all");
    let place = world.project.path(".claude/worktrees/one");
    git(world, &["worktree", "add", "-q", ".claude/worktrees/one"]);
    std::fs::write(place.join("my.local"), "mine\n").unwrap();
    std::fs::write(place.join("new.txt"), "new\n").unwrap();
    place
}

/// Removes a work tree as git does, and has one restore bring it back.
fn check_comes_back(world: &World, place: &Path) {
    let saved = newest(world);
    git(world, &["worktree", "remove", "--force", place.to_str().unwrap()]);
    assert!(!place.exists());
    restore(world, &saved);
    for (name, text) in [("new.txt", "new\n"), ("my.local", "mine\n")] {
        assert_eq!(std::fs::read_to_string(place.join(name)).unwrap(), text);
    }
}

#[test]
fn a_work_tree_that_is_new_since_the_last_save_comes_back_with_its_ignored_files() {
    for command in ["git worktree remove --force .claude/worktrees/one", "rm -rf .claude"] {
        let world = world();
        let place = new_worktree(&world);
        assert_eq!(before(&world, command), None, "{command}");
        check_comes_back(&world, &place);
    }
}

#[test]
fn a_work_tree_outside_of_a_workspace_that_was_never_saved_comes_back_whole() {
    let world = world();
    let place = world.project.outside().join("wt");
    git(&world, &["worktree", "add", "-q", place.to_str().unwrap()]);
    std::fs::write(place.join("my.local"), "mine\n").unwrap();
    std::fs::write(place.join("new.txt"), "new\n").unwrap();
    let command = format!("git worktree remove --force {}", place.display());
    assert_eq!(before(&world, &command), None);
    check_comes_back(&world, &place);
}

#[test]
fn the_work_tree_that_an_agent_leaves_comes_back_with_its_ignored_files() {
    let world = world();
    let place = new_worktree(&world);
    let call = json!({
        "tool_name": "ExitWorktree",
        "tool_input": {"action": "remove", "discard_changes": true},
        "cwd": place,
    });
    let answer = tell(&world, "PreToolUse", &call);
    assert_eq!(answer["systemMessage"], Value::Null, "{answer}");
    check_comes_back(&world, &place);
}

#[test]
fn the_work_tree_that_an_event_says_is_removed_comes_back_with_its_ignored_files() {
    let world = world();
    let place = new_worktree(&world);
    let answer = tell(&world, "WorktreeRemove", &json!({"worktree_path": place}));
    assert_eq!(answer["systemMessage"], Value::Null, "{answer}");
    assert_eq!(newest(&world)["description"], "Before WorktreeRemove");
    check_comes_back(&world, &place);
}
