//! What people see of the everyday commands: exit code, stdout and stderr.

#![allow(clippy::unwrap_used, reason = "tests may")]

mod support;

use support::World;

/// Given a project with two checkpoints and edits since.
fn edited() -> World {
    let world = World::new();
    world.save("Before adding Stripe");
    world.write("a.txt", "one\n2\nthree\n");
    world.write("stripe.rs", "// pay\n");
    world.save("With Stripe");
    world.write("a.txt", "one\n2\n3\n");
    world.write("scratch.txt", "later\n");
    world.remove("docs/notes.md");
    world
}

#[test]
fn save_answers_with_the_id_the_facets_and_the_way_back() {
    let world = World::new();
    assert_face!(world, "save_first", "save", "Before adding Stripe");
    assert_face!(world, "save_nothing_changed", "save");
    world.write("a.txt", "changed\n");
    world.write("new.txt", "new\n");
    world.remove("src/main.rs");
    assert_face!(world, "save_changes", "save", "-t", "green,stripe", "--meta", "step_number=3");
    assert_face!(world, "save_quiet", "save", "Again", "-q");
    assert_face!(world, "save_trigger", "save", "--trigger", "end-of-day");
}

#[test]
fn git_is_told_where_it_stands_and_what_a_restore_would_lose() {
    let world = World::new();
    let git = |arguments: &[&str]| {
        let mut command = std::process::Command::new("git");
        command.current_dir(world.project.root()).env("GIT_CONFIG_NOSYSTEM", "1");
        command.env("GIT_CONFIG_GLOBAL", "/dev/null");
        for who in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{who}_NAME"), "Ada");
            command.env(format!("GIT_{who}_EMAIL"), "ada@example.org");
            command.env(format!("GIT_{who}_DATE"), "2026-11-15T12:00:00Z");
        }
        assert!(command.args(arguments).status().unwrap().success());
    };
    git(&["init", "-q", "-b", "develop"]);
    assert_face!(world, "git_unborn", "save", "Before the first commit");
    git(&["add", "."]);
    git(&["commit", "-q", "-m", "All of it"]);
    world.write("a.txt", "changed\n");
    world.write("new.txt", "new\n");
    assert_face!(world, "git_save", "save", "Before adding Stripe");
    assert_face!(world, "git_list", "list", "1");
    assert_face!(world, "git_show", "show", "latest");
    git(&["add", "."]);
    git(&["commit", "-q", "-m", "Pay by Stripe"]);
    git(&["branch", "later"]);
    assert_face!(world, "git_restore_dry_run", "restore", "latest", "--dry-run");
    assert_face!(world, "git_restore", "restore", "latest", "--confirm");
    assert_face!(world, "git_undo", "undo");
}

#[test]
fn save_names_what_it_left_out() {
    let world = World::new();
    world
        .write("rappel.toml", "[files]\nmax_file_size = \"10B\"\n[retention]\npreset = \"lugh\"\n");
    assert_face!(world, "save_left_out", "save");
    assert_face!(world, "save_left_out_quiet", "save", "x", "-q");
    assert_face!(world, "show_left_out", "show", "latest");
}

#[test]
fn list_shows_what_there_is_and_how_to_see_more() {
    let world = World::new();
    assert_face!(world, "list_empty", "list");
    assert_face!(world, "list_empty_quiet", "list", "-q");
    let first = world.save("Before adding Stripe");
    world.write("a.txt", "changed\n");
    world.json(&["save", "-t", "green"]);
    world.write("b.txt", "new\n");
    world.json(&["save", "--trigger", "end-of-day"]);
    world.json(&["pin", &first]);
    assert_face!(world, "list", "list");
    assert_face!(world, "list_limited", "list", "1");
    assert_face!(world, "list_by_tag", "ls", "--tag", "green");
    assert_face!(world, "list_nothing_like_that", "list", "--tag", "red");
    assert_face!(world, "list_since", "list", "1", "--since", "2 hours ago");
    assert_face!(world, "list_until", "list", "--until", "yesterday");
    assert_face!(world, "list_quiet", "list", "-q");
    assert_face!(world, "list_all_workspaces", "list", "--all-workspaces");
}

#[test]
fn show_tells_everything() {
    let world = World::new();
    world.save("first");
    world.write("a.txt", "changed\n");
    let second = ["save", "Second", "-t", "x,y", "--environment", "staging"];
    let mut second = world.command(&[&second[..], &["--meta", "step_number=2"]].concat());
    assert!(second.status().unwrap().success());
    assert_face!(world, "show", "show", "latest");
    assert_face!(world, "show_files", "show", "latest~1", "--files");
}

#[test]
fn tags_and_pins_are_confirmed() {
    let world = World::new();
    world.save("first");
    assert_face!(world, "tag", "tag", "latest", "green", "a,b");
    assert_face!(world, "pin", "pin", "1");
    assert_face!(world, "unpin", "unpin", "1");
}

#[test]
fn a_described_checkpoint_has_the_new_message_everywhere() {
    let world = World::new();
    let first = world.save("first");
    world.write("a.txt", "changed\n");
    world.save("second");
    let manifest = world.json(&["show", &first]);
    assert_face!(world, "describe", "describe", &first, "Before Stripe");
    let described = world.json(&["show", &first]);
    assert_eq!(described["description"], "Before Stripe");
    assert_eq!(described["files"], manifest["files"]);
    assert_eq!(described["created_at"], manifest["created_at"]);
    for shown in [
        world.json(&["list"]).to_string(),
        world.json(&["timeline"]).to_string(),
        world.json(&["status"]).to_string(),
    ] {
        assert!(!shown.contains("\"first\""), "{shown}");
    }
    let restored = world.json(&["restore", &first, "--confirm"]);
    assert_eq!(restored["message"], "Before Stripe");
    // A reference by words finds the new ones.
    let said = world.face(&["show", "Before Stripe"]);
    assert!(said.contains("chk_1"), "{said}");
    // The last word counts, also after the index was lost.
    world.json(&["describe", "1", "Again"]);
    for name in ["index.db", "index.db-wal", "index.db-shm"] {
        let _ = std::fs::remove_file(world.home.join(name));
    }
    assert_eq!(world.json(&["show", "1"])["description"], "Again");
    assert_face!(world, "describe_nothing", "describe", "1", "");
    assert_eq!(world.json(&["show", "1"])["description"], serde_json::Value::Null);
    assert_face!(world, "describe_unknown", "describe", "77", "x");
    world.json(&["verify"]);
}

#[test]
fn diff_shows_lines_or_names() {
    let world = edited();
    assert_face!(world, "diff", "diff", "1");
    assert_face!(world, "diff_stat", "diff", "1", "latest", "--stat");
    assert_face!(world, "diff_path", "diff", "1", "--path", "docs", "--stat");
    assert_face!(world, "diff_nothing", "diff", "2", "latest");
    assert_face!(world, "diff_other_facets", "diff", "1", "--only", "git");
}

#[test]
fn one_long_name_does_not_move_the_numbers_of_the_others() {
    let world = World::new();
    world.save("first");
    world.write(&format!("{}end.txt", "deep/".repeat(15)), "x\n");
    world.write("b.txt", &"line\n".repeat(1234));
    world.write("longer-name.txt", "x\n");
    assert_face!(world, "diff_stat_long", "diff", "1", "--stat");
}

#[test]
fn cat_prints_a_file_as_it_was() {
    let world = edited();
    assert_face!(world, "cat", "cat", "1:a.txt");
    let output = world.run(&["cat", "latest:stripe.rs"]);
    assert_eq!(output.stdout, b"// pay\n");
}

#[test]
fn restore_is_shown_confirmed_and_undone() {
    let world = edited();
    let before = world.project.snapshot();
    assert_face!(world, "restore_dry_run", "restore", "1", "--dry-run");
    assert_face!(world, "restore_dry_run", "restore", "1", "--dry-run", "--confirm");
    assert_face!(world, "restore_unconfirmed", "restore", "1");
    assert_eq!(world.project.snapshot(), before, "nothing was changed so far");
    assert_face!(world, "restore", "restore", "1", "--confirm");
    assert_eq!(world.read("a.txt"), "one\ntwo\nthree\n");
    assert_face!(world, "restore_nothing_to_do", "restore", "1");
    assert_face!(world, "undo_dry_run", "undo", "--dry-run");
    assert_face!(world, "undo", "undo");
    assert_eq!(world.project.snapshot(), before);
    assert_face!(world, "redo", "redo");
    assert_eq!(world.read("a.txt"), "one\ntwo\nthree\n");
    assert_face!(world, "undo_quiet", "undo", "-q");
    assert_eq!(world.project.snapshot(), before);
}

#[test]
fn undo_without_a_restore_goes_back_and_asks() {
    let world = edited();
    assert_face!(world, "undo_goes_back_unconfirmed", "undo");
    assert_face!(world, "undo_goes_back", "undo", "-y");
    assert_eq!(world.read("a.txt"), "one\n2\nthree\n");
    assert_face!(world, "redo_of_that", "redo");
    assert_face!(world, "redo_nothing", "redo");
}

#[test]
fn undo_keeps_what_was_edited_since() {
    let world = edited();
    world.json(&["restore", "1", "--confirm"]);
    world.write("a.txt", "edited after the restore\n");
    assert_face!(world, "undo_edited_since_dry_run", "undo", "--dry-run");
    assert_face!(world, "undo_edited_since", "undo");
    assert_eq!(world.read("a.txt"), "edited after the restore\n");
}

#[test]
fn restore_can_be_limited() {
    let world = edited();
    assert_face!(world, "restore_path", "restore", "1", "--path", "docs", "-y");
    assert_eq!(world.read("docs/notes.md"), "# Notes\n");
    assert_eq!(world.read("a.txt"), "one\n2\n3\n");
    assert_face!(
        world,
        "restore_path_unconfirmed",
        "restore",
        "1",
        "--path",
        "a.txt",
        "--only",
        "files"
    );
    assert_face!(world, "restore_other_facets", "restore", "1", "--only", "git", "--dry-run");
}

#[test]
fn restore_goes_elsewhere_without_a_question() {
    let world = edited();
    let there = world.project.outside().join("there");
    assert_face!(world, "restore_to", "restore", "1", "--to", there.to_str().unwrap());
    assert_eq!(std::fs::read(there.join("a.txt")).unwrap(), b"one\ntwo\nthree\n");
    assert_face!(world, "restore_to_full", "restore", "1", "--to", there.to_str().unwrap());
}

#[test]
fn undo_says_where_there_is_nothing_to_undo() {
    let world = World::new();
    assert_face!(world, "undo_never_saved", "undo", "--dry-run");
    world.save("first");
    assert_face!(world, "undo_nothing_dry_run", "undo", "--dry-run");
}

#[test]
fn folders_count_where_nothing_in_them_does() {
    let world = World::new();
    world.save("first");
    world.remove("src/main.rs");
    std::fs::remove_dir(world.project.path("src")).unwrap();
    std::fs::create_dir(world.project.path("empty")).unwrap();
    assert_face!(world, "restore_with_folders", "restore", "1", "-y");
    std::fs::create_dir(world.project.path("empty")).unwrap();
    assert_face!(world, "restore_folders_alone", "restore", "1", "--dry-run");
    world.json(&["restore", "1", "-y"]);
    assert!(!world.project.path("empty").exists());
}

#[test]
fn undo_can_go_elsewhere_too() {
    let world = edited();
    let there = world.project.outside().join("there");
    assert_face!(world, "undo_to", "undo", "--to", there.to_str().unwrap());
    assert_eq!(std::fs::read(there.join("a.txt")).unwrap(), b"one\n2\nthree\n");
    assert_eq!(world.read("a.txt"), "one\n2\n3\n");
}

#[test]
fn what_is_in_the_way_is_told_before_anything_changes() {
    let world = World::new();
    world.write("rappel.toml", "[files]\nexclude = [\"a.txt/**\"]\n");
    world.save("a file");
    world.remove("a.txt");
    world.write("a.txt/precious", "never captured\n");
    assert_face!(world, "restore_in_the_way", "restore", "1", "--dry-run");
    assert_face!(world, "restore_in_the_way_confirmed", "restore", "1", "--confirm");
    assert_eq!(world.read("a.txt/precious"), "never captured\n");
}

#[test]
fn a_partial_save_names_what_is_missing() {
    let world = World::new();
    // Deeper than a path can be long: it is there, and cannot be captured, even as root.
    let script = "d=$(printf '%0250d' 0); for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17; do
                  mkdir $d; cd $d; done; echo x > file";
    let shell = std::process::Command::new("sh")
        .args(["-c", script])
        .current_dir(world.project.root())
        .status();
    assert!(shell.unwrap().success());
    let output = world.run(&["save", "--require-complete"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("warning: the checkpoint is partial"), "{said}");
    let output = world.run(&["save", "again"]);
    assert_eq!(output.status.code(), Some(0), "a partial save is a save");
    assert_eq!(world.json(&["show", "latest"])["partial"], true);
    assert_eq!(world.json(&["list"])["total"], 2);
}

#[test]
fn a_plan_that_changed_is_not_carried_out() {
    let world = edited();
    let plan = world.json(&["restore", "1", "--dry-run"])["plan"].as_str().unwrap().to_owned();
    world.write("a.txt", "meanwhile\n");
    assert_face!(world, "restore_other_plan", "restore", "1", "--plan", &plan, "--confirm");
    assert_eq!(world.read("a.txt"), "meanwhile\n");
    let plan = world.json(&["restore", "1", "--dry-run"])["plan"].as_str().unwrap().to_owned();
    let output = world.run(&["restore", "1", "--plan", &plan, "--confirm"]);
    assert!(output.status.success());
}

#[test]
fn the_seeds_verbs_mean_the_same() {
    let world = World::new();
    assert_face!(world, "cp_create", "checkpoint", "create", "before refactor");
    assert_face!(world, "cp", "cp");
    assert_face!(world, "cp_list", "cp", "ls", "1");
    for verb in ["show", "diff"] {
        assert!(world.run(&["cp", verb, "latest"]).status.success(), "{verb}");
    }
    assert_face!(world, "cp_restore", "cp", "restore", "latest");
    assert_face!(world, "cp_delete", "cp", "delete", "latest");
    assert_face!(world, "cp_help", "cp", "help");
    assert!(world.run(&["cp", "timeline"]).status.success());
    assert!(world.run(&["cp", "at", "--help"]).status.success());
    assert!(world.run(&["cp", "cleanup", "--dry-run"]).status.success());
    assert_eq!(world.run(&["cp", "rollback"]).status.code(), Some(2), "it needs a reference");
}
