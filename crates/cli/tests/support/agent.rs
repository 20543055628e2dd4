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
/// Every agent whose hooks are understood.
pub const AGENTS: [&str; 4] = ["claude", "codex", "gemini", "opencode"];

/// An agent with hooks, in a world of its own. Its process is this test.
pub struct Agent {
    pub world: World,
    pub name: &'static str,
}

/// Something that every agent tells, each in its own form.
#[derive(Clone, Copy)]
pub enum Told<'a> {
    Start,
    Resume,
    Prompt(&'a str),
    /// A command of the shell, by an id that some agents do not give.
    Before(&'a str, &'a str),
    After(&'a str, &'a str),
    Idle,
    End,
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
            "opencode" => command
                .env("RAPPEL_OPENCODE_FOLDER", root)
                .env("OPENCODE_PID", std::process::id().to_string()),
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

    /// What this agent's hook is told of something.
    pub fn says(&self, told: Told<'_>) -> Value {
        match self.name {
            "opencode" => self.says_opencode(told),
            "gemini" => self.says_gemini(told),
            name => self.says_claude(told, name == "codex"),
        }
    }

    fn says_claude(&self, told: Told<'_>, is_codex: bool) -> Value {
        let call = |id: &str, command: &str| json!({"tool_name": "Bash", "tool_use_id": id, "tool_input": {"command": command}});
        match told {
            Told::Start => self.payload("SessionStart", json!({"source": "startup"})),
            Told::Resume => self.payload("SessionStart", json!({"source": "resume"})),
            Told::Prompt(text) if is_codex => {
                self.payload("UserPromptSubmit", json!({"prompt": text}))
            }
            Told::Prompt(text) => {
                self.payload("UserPromptSubmit", json!({"prompt": text, "prompt_id": text}))
            }
            Told::Before(id, command) => self.payload("PreToolUse", call(id, command)),
            Told::After(id, command) => {
                let mut done = call(id, command);
                done["tool_response"] = match is_codex {
                    true => "Exit code: 0\nOutput:\n".into(),
                    false => json!({"stdout": "", "stderr": ""}),
                };
                self.payload("PostToolUse", done)
            }
            Told::Idle => self.payload("Stop", json!({})),
            Told::End => self.payload("SessionEnd", json!({"reason": "other"})),
        }
    }

    fn says_gemini(&self, told: Told<'_>) -> Value {
        let call = |command: &str| json!({"tool_name": "run_shell_command", "tool_input": {"command": command}});
        match told {
            Told::Start => self.payload("SessionStart", json!({"source": "startup"})),
            Told::Resume => self.payload("SessionStart", json!({"source": "resume"})),
            Told::Prompt(text) => self.payload("BeforeAgent", json!({"prompt": text})),
            Told::Before(_, command) => self.payload("BeforeTool", call(command)),
            Told::After(_, command) => {
                let mut done = call(command);
                done["tool_response"] = json!({"llmContent": "Output: (empty)"});
                self.payload("AfterTool", done)
            }
            Told::Idle => self.payload("AfterAgent", json!({})),
            Told::End => self.payload("SessionEnd", json!({"reason": "exit"})),
        }
    }

    fn says_opencode(&self, told: Told<'_>) -> Value {
        let (event, more) = match told {
            Told::Start => ("event.session.created", json!({})),
            Told::Resume => ("rappel.resumed", json!({})),
            Told::Prompt(text) => {
                let output = json!({"message": {"id": format!("msg_{}", text.replace(' ', "_"))},
                    "parts": [{"type": "text", "text": text}]});
                ("chat.message", json!({"output": output}))
            }
            Told::Before(id, command) => {
                let input = json!({"tool": "bash", "sessionID": SESSION, "callID": id});
                let output = json!({"args": {"command": command}});
                ("tool.execute.before", json!({"input": input, "output": output}))
            }
            Told::After(id, command) => {
                let input = json!({"tool": "bash", "sessionID": SESSION, "callID": id,
                    "args": {"command": command}});
                let output = json!({"output": "", "metadata": {"exit": 0}});
                ("tool.execute.after", json!({"input": input, "output": output}))
            }
            Told::Idle => ("event.session.idle", json!({})),
            Told::End => ("event.session.deleted", json!({})),
        };
        let mut payload = json!({"event": event, "session": SESSION,
            "cwd": self.world.project.root()});
        let Value::Object(more) = more else { panic!("{more}") };
        payload.as_object_mut().unwrap().extend(more);
        payload
    }

    /// Tells a hook that; what it answered.
    pub fn told(&self, told: Told<'_>) -> Value {
        self.tell(&self.says(told))
    }

    /// What an answer has the user shown.
    pub fn notice<'a>(&self, answer: &'a Value) -> &'a str {
        let name = if self.name == "opencode" { "notice" } else { "systemMessage" };
        answer[name].as_str().unwrap_or_default()
    }

    /// The main session, as the journal calls it.
    pub fn main(&self) -> String {
        format!("{}:{SESSION}", self.name)
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
