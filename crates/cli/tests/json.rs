//! What programs get: one JSON document on stdout, with the names of the contract.

#![allow(clippy::unwrap_used, reason = "tests may")]

mod support;

use serde_json::Value;
use support::World;

fn edited() -> World {
    let world = World::new();
    world.save("first");
    world.write("a.txt", "changed\n");
    world.write("new.txt", "new\n");
    world
}

#[test]
fn checkpoints() {
    let world = World::new();
    assert_json_face!(world, "list_empty", "list");
    assert_json_face!(world, "save", "save", "Before adding Stripe", "-t", "stripe");
    assert_eq!(world.json(&["save"])["created"], false);
    let saved = world.json(&["show", "latest"]);
    let listed = world.json(&["list"]);
    assert_eq!(listed["total"], 1);
    assert_eq!(listed["checkpoints"][0], saved);
    let entries = &world.json(&["show", "latest", "--files"])["entries"];
    insta::assert_json_snapshot!("entries", entries);
    assert_json_face!(world, "tag", "tag", "latest", "green");
    assert_eq!(world.json(&["pin", "latest"])["pinned"], true);
    assert_eq!(world.json(&["unpin", "latest"])["pinned"], false);
}

#[test]
fn differences() {
    let world = edited();
    assert_json_face!(world, "diff", "diff", "latest");
}

#[test]
fn restores() {
    let world = edited();
    assert_json_face!(world, "restore_unconfirmed", "restore", "latest");
    assert_json_face!(world, "restore", "restore", "latest", "--confirm");
    assert_json_face!(world, "undo", "undo");
    assert_json_face!(world, "recover", "recover");
    let there = world.project.outside().join("there");
    assert_json_face!(world, "restore_to", "restore", "1", "--to", there.to_str().unwrap());
}

#[test]
fn health() {
    let world = edited();
    assert_json_face!(world, "status", "status");
    assert_json_face!(world, "stats", "stats");
    assert_eq!(world.json(&["doctor"])["ok"], true);
    let world = World::new();
    std::fs::write(&world.home, "in the way").unwrap();
    assert_json_face!(world, "status_home_unusable", "status");
}

#[test]
fn flags_may_follow_or_precede_the_command() {
    let world = World::new();
    world.save("first");
    let root = world.project.root().to_str().unwrap();
    let elsewhere = world.project.outside();
    for arguments in [
        ["--json", "-C", root, "list"],
        ["list", "--json", "-C", root],
        ["-C", root, "list", "--json"],
    ] {
        let mut command = world.command(&arguments);
        let output = command.current_dir(elsewhere).output().unwrap();
        let listed: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(listed["total"], 1, "{arguments:?}");
    }
}

#[test]
fn suggested_commands_work_from_where_they_were_suggested() {
    let world = edited();
    world.write("rappel.toml", "");
    let home = world.home.to_str().unwrap();
    let plan: Value = {
        let mut command = world.command(&[
            "restore",
            "1",
            "--path",
            "../a.txt",
            "--dry-run",
            "--json",
            "--home",
            home,
        ]);
        let output = command.current_dir(world.project.path("src")).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap()
    };
    assert_eq!(plan["actions"][0]["path"], "a.txt");
    let confirm_with = plan["confirm_with"].as_str().unwrap();
    let words: Vec<&str> = confirm_with.split(' ').skip(1).collect();
    let mut command = world.command(&words);
    let output = command.current_dir(world.project.path("src")).output().unwrap();
    assert!(output.status.success(), "{confirm_with}");
    assert_eq!(world.read("a.txt"), "one\ntwo\nthree\n");
}

#[test]
fn the_environment_names_session_environment_and_home() {
    let world = World::new();
    let data = world.project.outside().join("data");
    let saved = |variables: &[(&str, &str)]| -> Value {
        let mut command = world.command(&["save", "x", "--json"]);
        command.env_remove("RAPPEL_HOME").envs(variables.iter().copied());
        serde_json::from_slice(&command.output().unwrap().stdout).unwrap()
    };
    let mut start = world.command(&["session", "start", "--session", "s9"]);
    assert!(start.env_remove("RAPPEL_HOME").output().unwrap().status.success());
    let checkpoint = saved(&[("RAPPEL_SESSION", "s9"), ("RAPPEL_ENVIRONMENT", "staging")]);
    assert_eq!(checkpoint["session_id"], "s9");
    assert_eq!(checkpoint["environment"], "staging");
    assert!(world.project.outside().join("user/.local/share/rappel/format").exists());
    saved(&[("XDG_DATA_HOME", data.to_str().unwrap())]);
    assert!(data.join("rappel/format").exists());
    assert!(!world.home.exists());
    saved(&[("RAPPEL_HOME", world.home.to_str().unwrap())]);
    assert!(world.home.join("format").exists());
}

#[test]
fn a_file_is_text_or_base_64() {
    let world = World::of(
        rappel_testing::Project::new().file("text", "h\u{e4}user\n").file("bytes", b"\xff\x00"),
    );
    world.save("first");
    let text = world.json(&["cat", "latest:text"]);
    assert_eq!(text, serde_json::json!({"path": "text", "bytes": 8, "content": "h\u{e4}user\n"}));
    let bytes = world.json(&["cat", "latest:bytes"]);
    assert_eq!(bytes, serde_json::json!({"path": "bytes", "bytes": 2, "content_base64": "/wA="}));
}
