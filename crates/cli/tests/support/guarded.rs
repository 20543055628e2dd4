//! A repository with ignored files, commands that are about to reach them, and what was saved before.

#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]

use std::io::Write;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use super::World;

/// A git repository with an ignored folder in it.
pub fn world() -> World {
    let world = World::new();
    world.write(".gitignore", "secret/\n*.local\nnode_modules/\n");
    for arguments in [&["init", "-q"][..], &["add", "."], &["commit", "-q", "-m", "base"]] {
        git(&world, arguments);
    }
    world.write("secret/.env", "TOKEN=1\n");
    world.write("secret/deep/key", "key\n");
    world.write("settings.local", "mine\n");
    world.write("node_modules/x/index.js", "module\n");
    world
}

pub fn git(world: &World, arguments: &[&str]) {
    let status = Command::new("git")
        .current_dir(world.project.root())
        .args(["-c", "user.name=t", "-c", "user.email=t@t"])
        .args(arguments)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("HOME", world.project.outside())
        .status();
    assert!(status.unwrap().success(), "{arguments:?}");
}

/// Tells the hook of Claude Code that a command is about to run; its message for the user.
pub fn before(world: &World, command: &str) -> Option<String> {
    let call = json!({"tool_name": "Bash", "tool_input": {"command": command}});
    let answer = tell(world, "PreToolUse", &call);
    answer["systemMessage"].as_str().map(str::to_owned)
}

/// Tells the hook of an event; its answer.
pub fn tell(world: &World, event: &str, more: &Value) -> Value {
    let mut payload = json!({
        "hook_event_name": event,
        "session_id": "00000000-0000-4000-8000-000000000001",
        "cwd": world.project.root().to_str().unwrap(),
        "tool_use_id": "toolu_1",
    });
    payload.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let mut hook = world.command(&["hook", "claude"]);
    hook.env("CLAUDE_PROJECT_DIR", world.project.root()).stdin(Stdio::piped());
    let mut child = hook.spawn().unwrap();
    child.stdin.take().unwrap().write_all(payload.to_string().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap_or_default()
}

pub fn shell(world: &World, command: &str) -> Output {
    let root = world.project.root();
    Command::new("sh").current_dir(root).args(["-c", command]).output().unwrap()
}

/// The newest checkpoint before an operation, whole.
pub fn newest(world: &World) -> Value {
    let list = world.json(&["list"]);
    let all = list["checkpoints"].as_array().unwrap();
    let newest = all.iter().find(|one| one["trigger"] == "pre-operation").unwrap();
    world.json(&["show", newest["id"].as_str().unwrap()])
}

pub fn restore(world: &World, checkpoint: &Value) {
    let id = checkpoint["id"].as_str().unwrap();
    let report = world.json(&["restore", id, "--confirm"]);
    assert_eq!(report["verified"], true, "{report}");
}
