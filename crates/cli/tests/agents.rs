//! Sessions on the command line: recording, kill -9, recall, forks, and what is said of them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use rappel_testing::Project;
use serde_json::Value;

struct World {
    project: Project,
    home: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        Self { project: Project::new().file("a.txt", "one"), home: tempfile::tempdir().unwrap() }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rappel"));
        command
            .args(arguments)
            .current_dir(self.project.root())
            .env("RAPPEL_HOME", self.home.path())
            .env("HOME", self.project.outside())
            .env_remove("RAPPEL_SESSION")
            .stdin(Stdio::null());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    fn must(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {errors}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.must(&[arguments, &["--json"]].concat())).unwrap()
    }

    fn refused(&self, arguments: &[&str], code: i32) -> String {
        let output = self.run(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {output:?}");
        String::from_utf8(output.stderr).unwrap()
    }
}

fn index(home: &Path) -> std::path::PathBuf {
    home.join("index.db")
}

#[test]
fn a_session_is_begun_recorded_asked_and_ended() {
    let world = World::new();
    let session = world.must(&[
        "session",
        "start",
        "--task",
        "fix the login",
        "--provider",
        "claude",
        "--assistant-session-id",
        "abc",
    ]);
    let thought = world.must(&["record", "thought", "the cookie is wrong", "--confidence", "0.8"]);
    let guess =
        world.must(&["record", "hypothesis", "the proxy rewrites it", "--confidence", "0.6"]);
    world.must(&[
        "record",
        "evidence",
        "without it all is well",
        "--for",
        &guess,
        "--supports",
        "--weight",
        "0.8",
    ]);
    world.must(&["record", "hypothesis", "--id", &guess, "--status", "confirmed"]);
    let call =
        world.must(&["record", "tool", "Bash", "--input", r#"{"command":"ls"}"#, "--started"]);
    world.must(&["record", "tool", "--id", &call, "--finished", "--output", "a b"]);
    world.must(&["record", "command", "make test", "--exit-code", "2", "--stderr", "no rule"]);
    world.must(&["record", "context", "branch=main"]);
    world.must(&["record", "verification", "it works", "--passed", "--for", &guess]);
    let now = world.json(&["at", "now"]);
    assert_eq!(now["session"], session.as_str());
    let state = &now["state"];
    assert_eq!(state["hypotheses"][0]["status"], "confirmed");
    assert_eq!(state["thought_chain"][0]["id"], thought.as_str());
    assert_eq!(state["tool_state"]["calls"][0]["id"], call.as_str());
    assert_eq!(state["command_history"][0]["exit_code"], 2);
    assert_eq!(state["context"]["variables"]["branch"], "main");
    assert_eq!(state["metrics"]["verifications_run"], 1);
    let brief = world.must(&["recall"]);
    assert!(brief.contains("fix the login") && brief.contains("the proxy rewrites it"), "{brief}");
    assert_eq!(world.must(&["session", "resume"]), "claude --resume abc");
    assert!(world.must(&["session", "list"]).contains(&session));
    world.must(&["session", "end"]);
    let late = world.refused(&["record", "note", "late", "--session", &session], 7);
    assert!(late.contains("ended"), "{late}");
    let query = world.refused(&["at"], 2);
    assert!(query.contains("hint:"), "{query}");
    assert!(world.refused(&["record", "note", "x"], 2).contains("session start"));
    assert!(world.refused(&["at", "now", "--session", "nobody"], 3).contains("nobody"));
}

#[test]
fn several_running_sessions_have_to_be_told_apart() {
    let world = World::new();
    world.must(&["session", "start", "--session", "one"]);
    world.must(&["session", "start", "--session", "two"]);
    let error = world.refused(&["record", "note", "x"], 2);
    assert!(error.contains("one") && error.contains("two"), "{error}");
    world.must(&["record", "note", "x", "--session", "two"]);
    let list = world.json(&["session", "list"]);
    assert_eq!(list["total"], 2);
}

#[test]
fn what_was_acknowledged_survives_kill_9_and_the_loss_of_the_index() {
    let world = World::new();
    world.must(&["session", "start", "--session", "s"]);
    let mut acknowledged = 0;
    for round in 0..4 {
        let mut child = world
            .command(&["record", "--stdin", "--session", "s"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        let writer = std::thread::spawn(move || {
            for number in 0..2000 {
                let line = match number % 5 {
                    0 => format!(r#"{{"kind":"gap","id":"g{round}-{number}","text":"why"}}"#),
                    1 => {
                        format!(r#"{{"kind":"gap","id":"g{round}-{}","filled":"so"}}"#, number - 1)
                    }
                    _ => format!(r#"{{"kind":"note","text":"{round} {number}"}}"#),
                };
                if writeln!(input, "{line}").is_err() {
                    return;
                }
            }
        });
        let mut answers = BufReader::new(child.stdout.take().unwrap()).lines();
        for _ in 0..40 + round * 23 {
            let answer: Value = serde_json::from_str(&answers.next().unwrap().unwrap()).unwrap();
            acknowledged = answer["event"].as_u64().unwrap();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        // What was written and not read by us any more counts as well.
        for answer in answers.map_while(Result::ok) {
            if let Ok(answer) = serde_json::from_str::<Value>(&answer) {
                acknowledged = answer["event"].as_u64().unwrap();
            }
        }
        writer.join().unwrap();
        for lost in [false, true] {
            if lost {
                std::fs::remove_file(index(world.home.path())).unwrap();
            }
            let shown = world.json(&["session", "show", "s"]);
            assert!(shown["session"]["events"].as_u64().unwrap() >= acknowledged, "{shown}");
            assert_eq!(shown["now"]["state"]["ignored_events"], 0);
        }
    }
    world.must(&["verify"]);
}

#[test]
fn a_restore_sets_the_session_back_and_says_how_to_go_on() {
    let world = World::new();
    world.must(&[
        "session",
        "start",
        "--session",
        "s",
        "--provider",
        "codex",
        "--assistant-session-id",
        "u1",
    ]);
    world.must(&["record", "note", "before"]);
    let then = world.json(&["save", "then", "--session", "s"])["id"].as_str().unwrap().to_owned();
    world.must(&["record", "note", "after"]);
    std::fs::write(world.project.path("a.txt"), "two").unwrap();
    let plan = world.must(&["restore", &then, "--dry-run"]);
    assert!(plan.contains("session s goes back") && plan.contains("codex resume u1"), "{plan}");
    let rolled = world.run(&["checkpoint", "rollback", &then]);
    assert!(rolled.status.success(), "{rolled:?}");
    assert!(String::from_utf8_lossy(&rolled.stderr).contains("rappel restore"), "{rolled:?}");
    let notes =
        |world: &World| world.json(&["at", "now"])["state"]["notes"].as_array().unwrap().len();
    assert_eq!(notes(&world), 1);
    assert_eq!(std::fs::read_to_string(world.project.path("a.txt")).unwrap(), "two");
    world.must(&["undo"]);
    assert_eq!(notes(&world), 2);
}

#[test]
fn a_running_call_is_waited_for_and_named() {
    let world = World::new();
    world.must(&["session", "start", "--session", "s"]);
    world.must(&["record", "tool", "Bash", "--input", "{}", "--started", "--id", "c1"]);
    let saved = world.json(&["save", "in the middle", "--wait", "10ms"]);
    assert!(saved["mid_operation"][0].as_str().unwrap().contains("c1"), "{saved}");
    assert_eq!(saved["partial"], false);
    world.must(&["record", "tool", "--id", "c1", "--finished"]);
    assert_eq!(world.json(&["save", "after it"])["mid_operation"], Value::Array(Vec::new()));
}

#[test]
fn steps_to_get_back_are_listed() {
    let world = World::new();
    world.must(&["session", "start", "--session", "s"]);
    world.must(&["save", "here"]);
    let steps = world.json(&["recover", "--steps"]);
    let kinds: Vec<&str> = steps["recovery_instructions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| step["step"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["restore_code_state", "replay_command", "manual_instruction"]);
}

#[test]
fn other_agents_are_ended_only_when_asked_for() {
    let world = World::new();
    let mut agent = Command::new("sleep").arg("600").spawn().unwrap();
    let pid = agent.id().to_string();
    world.must(&["session", "start", "--session", "s", "--pid", &pid]);
    let then = world.json(&["save", "then"])["id"].as_str().unwrap().to_owned();
    std::fs::write(world.project.path("a.txt"), "two").unwrap();
    let report = world.json(&["restore", &then, "--confirm"]);
    assert!(report["warnings"].to_string().contains("left running"), "{report}");
    assert!(agent.try_wait().unwrap().is_none());
    std::fs::write(world.project.path("a.txt"), "three").unwrap();
    world.json(&["restore", &then, "--confirm", "--terminate-sessions"]);
    assert!(!agent.wait().unwrap().success());
    let unfinished = world.json(&["recover"]);
    assert_eq!(unfinished["sessions"][0]["id"], "s");
}

#[test]
fn what_says_nothing_or_is_not_understood_is_refused() {
    let world = World::new();
    world.must(&["session", "start", "-q"]);
    for (words, said) in [
        (&["record"][..], "rappel help record"),
        (&["record", "note", "  "], "its text is empty"),
        (&["record", "thought", "x", "--confidence", "-0.5"], "between 0 and 1"),
        (&["record", "context", "B"], "KEY=VALUE"),
        (&["record", "tokens", "--model", "m"], "none are counted"),
        (&["record", "code"], "PATH"),
        (&["record", "code", "/etc/passwd"], "outside of the workspace"),
        (&["record", "command", "ls", "--stdout", "@missing"], "@FILE"),
    ] {
        let error = world.refused(words, 2);
        assert!(error.contains(said), "{words:?}: {error}");
    }
}
