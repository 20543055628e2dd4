//! A home that cannot be written to, on a file system that is mounted read-only.

#![allow(clippy::unwrap_used, reason = "tests may")]

mod support;

use std::path::Path;
use std::process::{Command, Output};

use rappel_testing::cannot_run;
use support::World;

/// Mounts a folder over itself, read-only, and runs the rest.
const MOUNTED: &str = r#"mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@""#;

/// Runs the binary where nobody can write to the home.
fn run(world: &World, arguments: &[&str]) -> Output {
    run_without(world, &world.home, arguments)
}

/// Runs the binary where nobody can write to a folder.
fn run_without(world: &World, folder: &Path, arguments: &[&str]) -> Output {
    let plain = world.command::<&str>(&[]);
    let mut command = Command::new("unshare");
    command.args(["-rm", "sh", "-c", MOUNTED]).arg(folder);
    command.arg(plain.get_program()).args(arguments);
    command.current_dir(world.project.root()).env_clear();
    command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.output().unwrap()
}

/// Whether a folder can be made read-only here at all. A test that cannot is counted as such.
fn can_mount(world: &World) -> bool {
    let tried = run_without(world, world.project.outside(), &["--version"]);
    if !tried.status.success() {
        let why = text(&tried.stderr);
        cannot_run(&format!("no read-only mount can be made (unshare -rm): {}", why.trim_end()));
    }
    tried.status.success()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Given a home with two checkpoints.
fn world() -> World {
    let world = World::new();
    world.save("first");
    world.write("a.txt", "changed\n");
    world.save("second");
    world
}

#[test]
fn checkpoints_can_be_exported() {
    let world = world();
    if !can_mount(&world) {
        return;
    }
    let file = world.project.outside().join("x.rappel");
    for more in [&[][..], &["--redact"]] {
        let to = file.to_str().unwrap();
        let output = run(&world, &[&["export", "1..2", "-o", to], more].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        let piped = run(&world, &[&["export", "1..2", "-o", "-"], more].concat());
        assert_eq!(piped.stdout, std::fs::read(&file).unwrap());
    }
}

fn assert_readable(world: &World) {
    for arguments in [
        &["list"][..],
        &["show", "latest", "--files"],
        &["diff", "1", "2"],
        &["diff", "1"],
        &["verify"],
        &["stats"],
        &["recover"],
        &["restore", "1", "--dry-run"],
    ] {
        let output = run(world, arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains("nothing can be saved"), "{arguments:?}");
    }
    assert_eq!(text(&run(world, &["cat", "1:a.txt"]).stdout), "one\ntwo\nthree\n");
    let there = world.project.outside().join("there");
    let output = run(world, &["restore", "1", "--to", there.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(std::fs::read(there.join("a.txt")).unwrap(), b"one\ntwo\nthree\n");
}

#[test]
fn what_was_saved_can_be_read() {
    let world = world();
    if !can_mount(&world) {
        return;
    }
    assert_readable(&world);
}

#[test]
fn the_view_is_made_anew_in_memory_where_it_is_missing_or_lags() {
    let world = world();
    if !can_mount(&world) {
        return;
    }
    let old = world.project.outside().join("old");
    std::fs::create_dir(&old).unwrap();
    for name in ["index.db", "index.db-wal", "index.db-shm"] {
        let _ = std::fs::copy(world.home.join(name), old.join(name));
    }
    world.write("a.txt", "third\n");
    world.save("third");
    for name in ["index.db", "index.db-wal", "index.db-shm"] {
        let _ = std::fs::copy(old.join(name), world.home.join(name));
    }
    assert!(text(&run(&world, &["list"]).stdout).contains("\"third\""));
    // Spoilt: the header is whole, nothing else is.
    let index = world.home.join("index.db");
    let mut bytes = std::fs::read(&index).unwrap();
    bytes.resize(bytes.len().max(8192), 0);
    bytes[100..].fill(0x5a);
    std::fs::write(&index, bytes).unwrap();
    let _ = std::fs::remove_file(world.home.join("index.db-wal"));
    assert!(text(&run(&world, &["list"]).stdout).contains("\"third\""));
    for name in ["index.db", "index.db-wal", "index.db-shm", "readers", "lock"] {
        let _ = std::fs::remove_file(world.home.join(name));
    }
    assert_readable(&world);
}

#[test]
fn what_would_write_says_why_it_cannot() {
    let world = world();
    if !can_mount(&world) {
        return;
    }
    let before = world.project.snapshot();
    for arguments in [
        &["save"][..],
        &["restore", "1", "-y"],
        &["undo", "-y"],
        &["tag", "1", "x"],
        &["pin", "1"],
        &["delete", "1", "-y"],
        &["undelete", "chk_20261115_143022_k7f3"],
        &["gc"],
        &["verify", "--repair"],
    ] {
        let output = run(&world, arguments);
        let said = text(&output.stderr);
        if arguments[0] == "undelete" {
            assert_eq!(output.status.code(), Some(3), "{said}");
            continue;
        }
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        let home = world.home.display();
        let error = format!(
            "error: the home {home} cannot be written to: Read-only file system (os error 30) \
             (it belongs to user 0)\nhint: make it writable again, or choose another folder with \
             --home or RAPPEL_HOME\n"
        );
        assert!(said.ends_with(&error), "{arguments:?}: {said}");
    }
    assert_eq!(world.project.snapshot(), before);
}

#[test]
fn status_says_that_nothing_can_be_saved() {
    let world = world();
    if !can_mount(&world) {
        return;
    }
    let output = run(&world, &["status"]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stdout);
    assert!(said.starts_with("Degraded"), "{said}");
    assert!(said.contains("cannot be written to: Read-only file system"), "{said}");
    assert_eq!(run(&world, &["doctor"]).status.code(), Some(1));
}

#[test]
fn transcripts_that_cannot_be_put_back_are_known_before_anything_changes() {
    let world = World::new();
    if !can_mount(&world) {
        return;
    }
    let agent = world.project.outside().join("user/.codex");
    let rollout = agent.join("sessions/rollout-1.jsonl");
    std::fs::create_dir_all(rollout.parent().unwrap()).unwrap();
    let root = world.project.root().canonicalize().unwrap();
    let line = serde_json::json!({"type": "session_meta", "timestamp": "2026-11-15T14:00:00Z",
        "payload": {"id": "one", "cwd": root}});
    std::fs::write(&rollout, format!("{line}\n")).unwrap();
    world.save("first");
    std::fs::remove_file(&rollout).unwrap();
    world.write("a.txt", "changed\n");
    let output = run_without(&world, &agent, &["restore", "1", "--confirm"]);
    assert_eq!(output.status.code(), Some(7), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("cannot be written to"), "{}", text(&output.stderr));
    assert_eq!(world.read("a.txt"), "changed\n");
    let output = world.command(&["restore", "1", "--confirm"]).output().unwrap();
    assert!(output.status.success() && rollout.exists(), "{}", text(&output.stderr));
}
