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
    // People paste it into a shell, whatever an agent said that its session is called.
    let hostile = ["--provider", "claude", "--assistant-session-id", "x; touch owned"];
    let other = world.must(&[&["session", "start"], &hostile[..]].concat());
    let said = world.run(&["session", "resume", &other]);
    assert!(!String::from_utf8_lossy(&said.stdout).contains("touch"), "{said:?}");
    world.must(&["session", "end", &other]);
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
fn the_state_and_the_history_of_a_context_are_part_of_what_was_known() {
    let world = World::new();
    let session = world.must(&["session", "start", "-q"]);
    world.must(&["record", "context", "target=staging"]);
    world.must(&["record", "context", "--state", r#"plan={"step":2}"#]);
    world.must(&["record", "context", "--state", "lost=1"]);
    world.must(&["record", "prompt", "find it"]);
    world.must(&["record", "thought", "hm"]);
    world.must(&["record", "thought", "--type", "text", "found it"]);
    world.must(&["save", "-m", "before"]);
    world.must(&["record", "context", "--state", "--unset", "lost"]);
    let refused = world.refused(&["record", "context", "--state", "--unset", "target"], 3);
    assert!(refused.contains("context's state"), "{refused}");

    let now = &world.json(&["at", "now"])["state"]["context"];
    assert_eq!(now["variables"], serde_json::json!({"target": "staging"}));
    assert_eq!(now["state"], serde_json::json!({"plan": {"step": 2}}));
    let said = |one: &Value| (one["role"].clone(), one["content"].clone());
    let history: Vec<_> = now["history"].as_array().unwrap().iter().map(said).collect();
    let pair = |role: &str, text: &str| (Value::from(role), Value::from(text));
    assert_eq!(history, [pair("user", "find it"), pair("assistant", "found it")]);

    // A checkpoint has it as it was, also from the journal alone.
    std::fs::remove_file(index(world.home.path())).unwrap();
    let then =
        &world.json(&["at", "--checkpoint", "latest", "--session", &session])["state"]["context"];
    assert_eq!(then["state"], serde_json::json!({"plan": {"step": 2}, "lost": 1}));
    assert!(world.must(&["at", "now"]).contains("plan={\"step\":2}"));
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
    assert!(plan.contains("session s back to event") && plan.contains("codex resume u1"), "{plan}");
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
fn a_save_and_what_it_made_tell_of_agents() {
    let world = World::new();
    let nobody = world.must(&["save", "before any agent"]);
    assert!(!nobody.contains("Agents") && !nobody.contains("Waited"), "{nobody}");
    world.must(&["session", "start", "--session", "s", "--task", "fix the login"]);
    world.must(&["record", "tool", "Bash", "--input", "{}", "--started", "--id", "c1"]);
    let saved = world.must(&["save", "in the middle", "--wait", "10ms"]);
    assert!(saved.contains("  Agents   1 session\n"), "{saved}");
    assert!(saved.contains("  Running  Bash (c1 in session s)\n"), "{saved}");
    assert!(saved.contains(" for tool calls that were running\n"), "{saved}");
    let shown = world.must(&["show", "latest"]);
    assert!(shown.contains("1 session\n") && shown.contains("Bash (c1 in session s)"), "{shown}");
    assert!(!shown.contains("Waited"), "{shown}");
}

#[test]
fn what_the_sessions_of_a_checkpoint_knew_is_shown() {
    let world = World::new();
    world.must(&["save", "before any agent"]);
    assert_eq!(world.must(&["show", "latest", "--state"]), "It holds no session.");
    assert_eq!(world.json(&["show", "latest", "--state"])["state"], serde_json::json!([]));
    for session in ["one", "two"] {
        world.must(&["session", "start", "--session", session]);
        world.must(&["record", "note", &format!("by {session}"), "--session", session]);
    }
    world.must(&["save", "then"]);
    world.must(&["record", "note", "later", "--session", "one"]);
    let text = world.must(&["show", "latest", "--state"]);
    assert!(text.contains("by one") && text.contains("by two"), "{text}");
    assert!(!text.contains("later"), "{text}");
    let shown = world.json(&["show", "latest", "--state"]);
    assert_eq!(shown["description"], "then");
    let notes = |place: usize| {
        let found = &shown["state"][place];
        (found["session"].clone(), found["state"]["notes"][0]["text"].clone())
    };
    assert_eq!(notes(0), ("one".into(), "by one".into()));
    assert_eq!(notes(1), ("two".into(), "by two".into()));
    assert_eq!(world.json(&["show", "latest"]).get("state"), None);
}

#[test]
fn a_session_whose_process_is_gone_is_not_said_to_run() {
    let world = World::new();
    world.must(&["save", "here"]);
    let mut agent = Command::new("sleep").arg("600").spawn().unwrap();
    let pid = agent.id().to_string();
    world.must(&["session", "start", "--session", "lost", "--provider", "claude", "--pid", &pid]);
    world.must(&["session", "start", "--session", "alive-and-well"]);
    world.must(&["record", "tool", "Bash", "--input", "{}", "--started", "--session", "lost"]);
    agent.kill().unwrap();
    agent.wait().unwrap();
    let list = world.must(&["session", "list"]);
    let rows: Vec<&str> = list.lines().collect();
    assert_eq!(rows.len(), 2, "{list}");
    let row = |id: &str| rows.iter().find(|row| row.starts_with(id)).copied().unwrap();
    assert!(row("lost").contains("  running (its process is gone)  claude"), "{list}");
    assert!(row("alive-and-well").contains("  running                        agent "), "{list}");
    let status = world.run(&["status"]);
    let text = String::from_utf8(status.stdout).unwrap();
    assert!(text.contains("Sessions     alive-and-well\n"), "{text}");
    assert!(text.contains("Crashed      lost (the process is gone)\n"), "{text}");
    let hints = String::from_utf8(status.stderr).unwrap();
    assert!(hints.contains("hint: rappel recover"), "{hints}");
    assert_eq!(status.status.code(), Some(0), "what is saved is as well protected as before");
    let saved = world.json(&["save", "a forgotten call"]);
    assert_eq!(saved["waited_ms"], 0);
    assert!(saved["mid_operation"][0].as_str().unwrap().contains("in session lost"), "{saved}");
}

#[test]
fn a_session_is_shown_with_what_it_was_asked_and_why_it_ended() {
    let world = World::new();
    world.must(&["session", "start", "--session", "s"]);
    let events = [
        r#"{"kind":"prompt","text":"mend the login"}"#,
        r#"{"kind":"prompt","text":"and the logout"}"#,
        r#"{"kind":"progress","step_number":3,"text":"tests are green"}"#,
    ];
    let mut child =
        world.command(&["record", "--stdin"]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
    let child = child.as_mut().unwrap();
    child.stdin.take().unwrap().write_all(events.join("\n").as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
    world.must(&["session", "end", "--status", "failed", "--reason", "out of tokens"]);
    assert!(world.must(&["session", "list"]).contains("\n    mend the login"), "the first prompt");
    let shown = world.must(&["session", "show", "s"]);
    assert!(shown.contains("because      out of tokens"), "{shown}");
    assert!(shown.contains("Asked last: and the logout"), "{shown}");
    assert!(shown.contains("Progress: step 3: tests are green"), "{shown}");
}

#[test]
fn a_restore_of_agents_alone_tells_of_nothing_else_and_undo_names_what_it_takes_back() {
    let world = World::new();
    world.must(&["session", "start", "--session", "s"]);
    let first = world.json(&["save", "first"])["id"].as_str().unwrap().to_owned();
    world.must(&["record", "note", "after"]);
    let set_back = || world.must(&["session", "show", "s"]);
    let restored = world.must(&["restore", &first, "--only", "agents", "--confirm"]);
    assert!(restored.contains("Agents  1 session set back"), "{restored}");
    assert!(!restored.contains("Files"), "{restored}");
    let named = format!("Set back to: {first}");
    assert!(set_back().contains(&named));
    let takes_back = format!("Undone: the restore of \"first\"  {first}  (");
    for _ in 0..2 {
        let undone = world.must(&["undo"]);
        assert!(undone.starts_with(&takes_back), "{undone}");
        assert!(undone.contains("Agents  1 session as before"), "{undone}");
        assert!(!undone.contains("Files"), "{undone}");
        assert!(!set_back().contains("Set back to"), "{}", set_back());
        let redone = world.must(&["redo"]);
        assert!(redone.starts_with(&format!("Redone: back to \"first\"  {first}  (")), "{redone}");
        assert!(set_back().contains(&named), "{}", set_back());
    }
    let again = world.must(&["restore", &first, "--only", "agents", "--dry-run"]);
    assert!(again.contains("Nothing to change") && !again.contains("Files"), "{again}");
}

#[test]
fn in_a_fresh_project_there_is_nothing_to_undo_yet() {
    let world = World::new();
    let error = world.refused(&["undo"], 3);
    assert!(
        error.contains("nothing to undo yet") && error.contains("hint: rappel save"),
        "{error}"
    );
    assert!(world.refused(&["redo"], 1).contains("nothing to redo"));
}

#[test]
fn a_list_is_about_what_differs_and_all_counts_say_what_they_count() {
    let world = World::new();
    world.must(&["session", "start", "--session", "s"]);
    let guess = world.must(&["record", "hypothesis", "it is the proxy"]);
    for status in ["testing", "confirmed", "testing"] {
        world.must(&["record", "hypothesis", "--id", &guess, "--status", status]);
    }
    for _ in 0..12 {
        world.must(&["record", "verification", "it works", "--passed"]);
    }
    world.must(&["save", "by hand"]);
    let list = world.must(&["list"]);
    assert!(list.starts_with("Checkpoints (17 total, 3 of them state-only)\n"), "{list}");
    let automatic =
        "and 12 automatic ones before, down to 1, with the same files (--all shows them)";
    assert!(list.contains(automatic), "{list}");
    assert_eq!(list.matches("Auto-checkpoint").count(), 1, "{list}");
    let all = world.must(&["list", "--all"]);
    assert!(all.starts_with("Checkpoints (17 total)\n"), "{all}");
    assert_eq!(all.matches("Auto-checkpoint").count(), 16, "{all}");
    let counted = "  17, 3 of them state-only\n";
    for command in ["status", "stats"] {
        let text = world.must(&[command]);
        assert!(text.contains(counted), "{command}: {text}");
    }
}

#[test]
fn a_save_for_a_session_that_is_not_there_is_refused() {
    let world = World::new();
    let error = world.refused(&["save", "--session", "nope"], 3);
    assert!(error.contains("no session \"nope\"") && error.contains("hint: rappel session list"));
    assert_eq!(world.json(&["list", "--all"])["total"], 0);
}

#[test]
fn what_says_nothing_or_is_not_understood_is_refused() {
    let world = World::new();
    world.must(&["session", "start", "-q"]);
    let malformed = world
        .command(&["record", "note", "x"])
        .env("RAPPEL_SESSION", "no session!")
        .output()
        .unwrap();
    assert_eq!(malformed.status.code(), Some(2), "another session was taken for it");
    world.refused(&["session", "start", "--pid", "4194304"], 2);
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

#[test]
fn nobodys_agent_is_ended_for_a_restore_that_something_bars() {
    let world = World::new();
    std::fs::write(world.project.path("d"), "a file").unwrap();
    let mut agent = Command::new("sleep").arg("600").spawn().unwrap();
    world.must(&["session", "start", "--pid", &agent.id().to_string()]);
    let then = world.json(&["save", "then"])["id"].as_str().unwrap().to_owned();
    std::fs::remove_file(world.project.path("d")).unwrap();
    std::fs::create_dir(world.project.path("d")).unwrap();
    std::fs::write(world.project.path("d/kept"), "ignored").unwrap();
    std::fs::write(world.project.path(".rappelignore"), "kept\n").unwrap();
    world.refused(&["restore", &then, "--confirm", "--terminate-sessions"], 7);
    assert!(agent.try_wait().unwrap().is_none(), "it was ended for nothing");
    agent.kill().unwrap();
    agent.wait().unwrap();
}
