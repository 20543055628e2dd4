//! An agent whose hooks are the real binary.

#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]

use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::World;

pub const SESSION: &str = "00000000-0000-4000-8000-000000000001";

/// An agent with hooks, in a world of its own. Its process is this test.
pub struct Agent {
    pub world: World,
    name: &'static str,
}

impl Agent {
    pub fn new() -> Self {
        Self::called("claude")
    }

    pub fn called(name: &'static str) -> Self {
        let agent = Self { world: World::new(), name };
        for arguments in [&["init", "-q"][..], &["add", "."], &["commit", "-q", "-m", "base"]] {
            agent.git(arguments);
        }
        agent
    }

    pub fn git(&self, arguments: &[&str]) {
        let status = Command::new("git")
            .current_dir(self.world.project.root())
            .args(["-c", "user.name=t", "-c", "user.email=t@t"])
            .args(arguments)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("HOME", self.world.project.outside())
            .status();
        assert!(status.unwrap().success());
    }

    pub fn hook(&self) -> Command {
        let mut command = self.world.command(&["hook", self.name]);
        let root = self.world.project.root();
        match self.name {
            "claude" => command
                .env("CLAUDE_PROJECT_DIR", root)
                .env("CLAUDE_PID", std::process::id().to_string()),
            // Gemini CLI sets both, and is not Claude Code.
            "gemini" => command.env("GEMINI_PROJECT_DIR", root).env("CLAUDE_PROJECT_DIR", root),
            _ => &mut command,
        };
        command.stdin(Stdio::piped());
        command
    }

    /// Starts a hook that is told something.
    pub fn start(&self, payload: &Value) -> Child {
        let mut child = self.hook().spawn().unwrap();
        child.stdin.take().unwrap().write_all(payload.to_string().as_bytes()).unwrap();
        child
    }

    /// Has a hook told something.
    pub fn tell_bytes(&self, payload: &[u8]) -> Output {
        let mut child = self.hook().spawn().unwrap();
        // One that does not read to its end is no reason to fail.
        let _ = child.stdin.take().unwrap().write_all(payload);
        child.wait_with_output().unwrap()
    }

    /// The same, and what it answered.
    pub fn tell(&self, payload: &Value) -> Value {
        let output = self.tell_bytes(payload.to_string().as_bytes());
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{payload}");
        match output.stdout.is_empty() {
            true => Value::Null,
            false => serde_json::from_slice(&output.stdout).unwrap(),
        }
    }

    /// A payload of the main session.
    pub fn payload(&self, event: &str, more: Value) -> Value {
        let mut payload = json!({
            "hook_event_name": event,
            "session_id": SESSION,
            "cwd": self.world.project.root().to_str().unwrap(),
        });
        let Value::Object(more) = more else { panic!("{more}") };
        payload.as_object_mut().unwrap().extend(more);
        payload
    }

    /// Does what a call does, as far as the tests look at it.
    pub fn act(&self, payload: &Value) {
        let input = &payload["tool_input"];
        let root = self.world.project.root();
        if payload["tool_name"] == "apply_patch" {
            return self.patch(input["command"].as_str().unwrap());
        }
        if let Some(path) = input["file_path"].as_str() {
            let text = input["content"].as_str().or_else(|| input["new_string"].as_str());
            std::fs::write(root.join(path.rsplit('/').next().unwrap()), text.unwrap()).unwrap();
        }
        if let Some(command) = input["command"].as_str() {
            // Nobody waits for a recorded pause.
            let command = command.replace("sleep 6", "true").replace("sleep 3;", "");
            let _ = Command::new("sh").current_dir(root).args(["-c", &command]).output().unwrap();
        }
    }

    /// Does what a recorded patch of Codex does: one file, whole or one line of it.
    fn patch(&self, patch: &str) {
        let lines: Vec<&str> = patch.lines().collect();
        let name = lines[1].rsplit(' ').next().unwrap();
        let added = lines.iter().filter_map(|line| line.strip_prefix('+'));
        let text: String = added.map(|line| format!("{line}\n")).collect();
        std::fs::write(self.world.project.path(name), text).unwrap();
    }

    /// Plays what was recorded, tool calls included.
    pub fn play(&self, name: &str) -> Vec<(Value, Value)> {
        let recorded = self.recorded(name);
        let mut answers = Vec::new();
        for payload in recorded {
            let event = payload["hook_event_name"].as_str().unwrap();
            if event.starts_with("PostToolUse") || event == "AfterTool" {
                self.act(&payload);
            }
            let answer = self.tell(&payload);
            answers.push((payload, answer));
        }
        answers
    }

    pub fn recorded(&self, name: &str) -> Vec<Value> {
        let path: PathBuf = [
            env!("CARGO_MANIFEST_DIR"),
            "tests/fixtures/hooks",
            &format!("{}-{name}.jsonl", self.name),
        ]
        .iter()
        .collect();
        let root = self.world.project.root().to_str().unwrap();
        let text = std::fs::read_to_string(path).unwrap().replace("/home/dev/project", root);
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Waits until no worker is at work.
    pub fn rest(&self) {
        let start = Instant::now();
        let working = self.world.home.join("hooks/working");
        while std::fs::read_dir(&working).is_ok_and(|found| found.count() > 0) {
            assert!(start.elapsed() < Duration::from_secs(60), "a worker does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub fn json(&self, arguments: &[&str]) -> Value {
        let output = self.world.command(&[arguments, &["--json"]].concat()).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
    }

    pub fn checkpoints(&self) -> Vec<Value> {
        let mut all = self.json(&["list", "1000", "--all"])["checkpoints"].take();
        all.as_array_mut().unwrap().reverse();
        all.as_array().unwrap().clone()
    }

    pub fn session(&self, id: &str) -> Value {
        self.json(&["session", "show", id])["session"].take()
    }

    pub fn state(&self, session: &str) -> Value {
        self.json(&["at", "now", "--session", session])["state"].take()
    }
}
