//! opencode through the real binary: what `integrate` writes and takes out again, and what the
//! plugin tells.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::needless_pass_by_value,
    reason = "tests may, and payloads are written on the spot"
)]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::World;

const SESSION: &str = "ses_00000000000000000000000001";

/// A project, and a copy of the program that is not below `target/`.
struct Scene {
    world: World,
    program: PathBuf,
}

impl Scene {
    fn new() -> Self {
        let world = World::new();
        let folder = world.project.outside().join("bin");
        fs::create_dir(&folder).unwrap();
        let program = folder.join("rappel");
        fs::hard_link(env!("CARGO_BIN_EXE_rappel"), &program)
            .or_else(|_| fs::copy(env!("CARGO_BIN_EXE_rappel"), &program).map(drop))
            .unwrap();
        Self { world, program }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let like = self.world.command(arguments);
        let mut command = Command::new(&self.program);
        command.args(like.get_args()).current_dir(self.world.project.root()).env_clear();
        for (name, value) in like.get_envs() {
            command.env(name, value.unwrap());
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let output = self.command(arguments).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {errors}");
        output
    }

    fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_slice(&self.run(&[arguments, &["--json"]].concat()).stdout).unwrap()
    }

    fn user(&self) -> PathBuf {
        self.world.project.outside().join("user")
    }

    /// Everything below the project and the user's folder, by path.
    fn everything(&self) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
        let mut found = BTreeMap::new();
        gather(self.world.project.root(), &mut found);
        gather(&self.user(), &mut found);
        found
    }

    /// Tells what the plugin would tell; the answer.
    fn tell(&self, event: &str, more: Value) -> Value {
        let mut payload =
            json!({"event": event, "cwd": self.world.project.root(), "session": SESSION});
        for (name, value) in more.as_object().unwrap() {
            payload[name] = value.clone();
        }
        let mut command = self.command(&["hook", "opencode"]);
        command.env("OPENCODE_PID", std::process::id().to_string());
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(payload.to_string().as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        self.rest();
        match output.stdout.as_slice() {
            b"" => Value::Null,
            text => serde_json::from_slice(text).unwrap(),
        }
    }

    /// Waits until all workers are done.
    fn rest(&self) {
        let start = Instant::now();
        let working = self.world.home.join("hooks/working");
        while fs::read_dir(&working).is_ok_and(|found| found.count() > 0) {
            assert!(start.elapsed() < Duration::from_secs(60), "a worker does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn prompt(&self, id: &str, text: &str) -> Value {
        let part = json!({"type": "text", "text": text});
        let output = json!({"message": {"id": id}, "parts": [part]});
        self.tell("chat.message", json!({"output": output}))
    }

    fn bash(&self, id: &str, command: &str) {
        let input = json!({"tool": "bash", "sessionID": SESSION, "callID": id});
        let output = json!({"args": {"command": command}});
        self.tell("tool.execute.before", json!({"input": input, "output": output}));
        let root = self.world.project.root();
        let ran = Command::new("sh").arg("-c").arg(command).current_dir(root).output().unwrap();
        let input = json!({"tool": "bash", "sessionID": SESSION, "callID": id, "args": {"command": command}});
        let output = json!({"output": "", "metadata": {"exit": ran.status.code()}});
        self.tell("tool.execute.after", json!({"input": input, "output": output}));
    }

    fn checkpoints(&self) -> Vec<Value> {
        let list = self.json(&["list", "--all", "200"]);
        let mut all = list["checkpoints"].as_array().unwrap().clone();
        all.reverse();
        all
    }
}

fn gather(folder: &Path, found: &mut BTreeMap<PathBuf, Option<Vec<u8>>>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => {
                gather(&path, found);
                found.insert(path, None);
            }
            false => _ = found.insert(path.clone(), Some(fs::read(&path).unwrap_or_default())),
        }
    }
}

#[test]
fn what_is_written_goes_again_and_leaves_the_bytes_that_were_there() {
    let config = "{\n  // mine\n  \"model\": \"x/y\", // both\n  \"mcp\": {\n    \"other\": {\"type\": \"local\", \"command\": [\"x\"]},\n  },\n}\n";
    for flags in [&[][..], &["--shared"], &["--user"]] {
        let scene = Scene::new();
        scene.world.write("opencode.jsonc", config);
        scene.world.write(".opencode/opencode.json", "{}");
        let folder = scene.user().join(".config/opencode");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("opencode.json"), "{\"a\": 1}").unwrap();
        let before = scene.everything();
        let install = [&["integrate", "opencode", "--mcp"], flags].concat();
        let told = scene.json(&install);
        assert_eq!(told["agent"], "opencode");
        let plugin = PathBuf::from(told["settings"].as_str().unwrap());
        let text = fs::read_to_string(&plugin).unwrap();
        let wanted =
            if flags == ["--shared"] { "\"rappel\"" } else { scene.program.to_str().unwrap() };
        assert!(text.contains(wanted), "{text}");
        let changed: Vec<PathBuf> = scene
            .everything()
            .into_iter()
            .filter(|(path, bytes)| before.get(path) != Some(bytes))
            .map(|(path, _)| path)
            .collect();
        let has = |end: &str| changed.iter().any(|path| path.ends_with(end));
        assert!(has("plugins/rappel.js") && has("commands/rappel/undo.md"), "{changed:?}");
        assert!(has("skills/rappel/SKILL.md"));
        let server =
            ["opencode.json", "opencode.jsonc"].into_iter().filter(|name| has(name)).count();
        assert_eq!(server, 1, "{changed:?}");
        // The second time changes nothing.
        let there = scene.everything();
        assert_eq!(scene.json(&install)["changed"], false);
        assert_eq!(scene.everything(), there);
        let status = scene.world.json_at_any_exit(&["status"]);
        assert!(
            status["integrations"].to_string().contains("opencode"),
            "{}",
            status["integrations"]
        );
        scene.json(&[&["integrate", "opencode", "--remove"], flags].concat());
        assert_eq!(scene.everything(), before, "{flags:?}");
    }
}

#[test]
fn what_only_this_user_has_is_not_listed_by_git() {
    let scene = Scene::new();
    let git = |arguments: &[&str]| rappel_testing::git::git(scene.world.project.root(), arguments);
    git(&["init", "-q"]);
    let before = git(&["status", "--porcelain", "-uall"]);
    scene.json(&["integrate", "opencode"]);
    assert_eq!(git(&["status", "--porcelain", "-uall"]), before);
    // opencode keeps a list of its own in that folder.
    assert!(!scene.world.project.path(".opencode/.gitignore").exists());
    scene.json(&["integrate", "opencode", "--remove"]);
    scene.json(&["integrate", "opencode", "--shared"]);
    assert!(git(&["status", "--porcelain", "-uall"]).contains(".opencode/plugins/rappel.js"));
}

#[test]
fn a_plugin_that_the_user_edited_is_the_users() {
    let scene = Scene::new();
    scene.json(&["integrate", "opencode"]);
    let path = scene.world.project.path(".opencode/plugins/rappel.js");
    let edited = fs::read_to_string(&path).unwrap().replace("toast", "shout");
    fs::write(&path, &edited).unwrap();
    for changed in [true, false] {
        // It still calls Rappel, so not everything is done.
        let output =
            scene.command(&["integrate", "opencode", "--remove", "--json"]).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let told: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(told["changed"], changed);
        assert_eq!(told["kept"], json!([path]));
        let notes = told["notes"].as_array().unwrap();
        assert_eq!(notes.len(), 1, "{told}");
        let note = notes[0].as_str().unwrap();
        assert!(note.contains("Delete it yourself") && !note.contains("--remove"), "{note}");
    }
    let said = scene.command(&["integrate", "opencode", "--remove"]).output().unwrap();
    assert_eq!(said.stdout, b"Nothing was removed.\n");
    assert_eq!(fs::read_to_string(&path).unwrap(), edited);
    // Everything else of ours is gone, and the rest goes once the user has removed the plugin.
    let mut left = BTreeMap::new();
    gather(&scene.world.project.path(".opencode"), &mut left);
    let left: Vec<PathBuf> = left.into_keys().collect();
    assert_eq!(left, [scene.world.project.path(".opencode/plugins"), path.clone()]);
    fs::remove_file(&path).unwrap();
    scene.run(&["integrate", "opencode", "--remove"]);
    assert!(!scene.world.project.path(".opencode").exists());
}

#[test]
fn a_session_is_saved_before_it_destroys_and_its_prompt_can_be_undone() {
    let scene = Scene::new();
    scene.tell("event.session.created", json!({}));
    scene.prompt("msg_1", "Make a file.");
    scene.bash("call_1", "echo new > new.txt");
    scene.tell("event.session.idle", json!({}));
    scene.prompt("msg_2", "Clean up.");
    scene.bash("call_2", "rm new.txt a.txt");
    scene.tell("event.session.idle", json!({}));
    assert!(!scene.world.project.path("a.txt").exists());

    let checkpoints = scene.checkpoints();
    let of = |trigger: &str| checkpoints.iter().filter(|one| one["trigger"] == trigger).count();
    assert_eq!((of("prompt"), of("pre-operation"), of("session-start")), (2, 1, 1));
    let before = checkpoints.iter().find(|one| one["trigger"] == "pre-operation").unwrap();
    let cat = format!("{}:new.txt", before["id"].as_str().unwrap());
    assert_eq!(scene.run(&["cat", &cat]).stdout, b"new\n");
    let session = format!("opencode:{SESSION}");
    let state = scene.json(&["at", "now", "--session", &session])["state"].clone();
    let history: Vec<&str> = state["command_history"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["command"].as_str().unwrap())
        .collect();
    assert_eq!(history, ["echo new > new.txt", "rm new.txt a.txt"]);

    let undo = ["undo", "--prompt", "--conversation", "--session", &session, "--confirm"];
    let told = String::from_utf8(scene.run(&undo).stdout).unwrap();
    assert_eq!(scene.world.read("new.txt"), "new\n");
    assert!(scene.world.project.path("a.txt").exists());
    assert!(told.contains("opencode keeps its conversations") && told.contains("/fork"), "{told}");
    // The model learns what was put back, once.
    let answer = scene.prompt("msg_3", "Go on.");
    assert!(answer["context"].as_str().unwrap().contains("a.txt"), "{answer}");
    assert_eq!(scene.prompt("msg_4", "And on."), Value::Null);
}

#[test]
fn a_call_that_changes_nothing_makes_no_checkpoint() {
    let scene = Scene::new();
    scene.tell("event.session.created", json!({}));
    scene.prompt("msg_1", "Look around.");
    let before = scene.checkpoints().len();
    for id in ["call_1", "call_2", "call_3"] {
        scene.bash(id, "ls");
    }
    assert_eq!(scene.checkpoints().len(), before);
    let session = format!("opencode:{SESSION}");
    let state = scene.json(&["at", "now", "--session", &session])["state"].clone();
    assert_eq!(state["command_history"].as_array().unwrap().len(), 3);
}

#[test]
fn a_command_for_rappel_is_answered() {
    let scene = Scene::new();
    scene.tell("event.session.created", json!({}));
    let typed = scene.prompt("msg_1", "rappel list");
    assert!(typed["reply"].as_str().unwrap().contains("chk_"), "{typed}");
    let input = json!({"command": "rappel/list", "sessionID": SESSION, "arguments": "5"});
    let slash = scene.tell("command.execute.before", json!({"input": input}));
    assert!(slash["reply"].as_str().unwrap().contains("chk_"), "{slash}");
    let input =
        json!({"command": "rappel/nothing", "sessionID": SESSION, "arguments": "$(touch x)"});
    let unknown = scene.tell("command.execute.before", json!({"input": input}));
    assert!(unknown["reply"].as_str().unwrap().contains("no command"), "{unknown}");
    assert!(!scene.world.project.path("x").exists());
}

#[test]
fn after_a_compaction_the_model_is_told_what_was_known() {
    let scene = Scene::new();
    scene.tell("event.session.created", json!({}));
    scene.prompt("msg_1", "Find out why the basket loses items.");
    let input = json!({"sessionID": SESSION});
    assert_eq!(scene.tell("experimental.session.compacting", json!({"input": input})), Value::Null);
    let told = scene.tell("event.session.compacted", json!({}));
    assert!(told["context"].as_str().unwrap().contains("why the basket loses items"), "{told}");
    assert!(scene.checkpoints().iter().any(|one| one["trigger"] == "context-compaction"));
}
