//! `rappel report`: what a run did, prompt by prompt.

#![allow(clippy::unwrap_used, reason = "tests may")]

mod support;

use std::io::Write;
use std::process::{Command, Stdio};

use rappel_testing::git::git;
use rusqlite::Connection;
use serde_json::{Value, json};
use support::World;
use support::agent::Agent;

fn must(world: &World, arguments: &[&str]) -> String {
    let output = world.run(arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// Records events that have no verb of their own.
fn tell(world: &World, session: &str, lines: &[Value]) {
    let mut command = world.command(&["record", "--stdin", "--session", session]);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// A night's work: two prompts, with everything that a report tells.
fn night() -> World {
    let world = World::new();
    world.write("rappel.toml", "[[database]]\nname = \"app\"\nurl = \"sqlite:app.db\"\n");
    let database = Connection::open(world.project.path("app.db")).unwrap();
    database.execute_batch("CREATE TABLE users (x); INSERT INTO users VALUES (1);").unwrap();
    let root = world.project.root();
    git(root, &["init", "-q"]);
    git(root, &["add", "a.txt", "src", "docs"]);
    git(root, &["commit", "-q", "-m", "base"]);
    must(&world, &["session", "start", "--session", "night", "--task", "Repair the login"]);
    must(&world, &["save", "evening"]);

    must(&world, &["record", "prompt", "Find out why *login* fails"]);
    world.write("a.txt", "one\n2\n3\n");
    world.write("new.rs", "// new\n");
    must(&world, &["record", "command", "cargo test", "--exit-code", "101"]);
    must(&world, &["record", "command", "cargo build", "--exit-code", "0"]);
    must(
        &world,
        &["record", "tool", "Edit", "--input", r#"{"file_path": "x.rs"}"#, "--error", "no"],
    );
    let id = must(&world, &["record", "hypothesis", "a race in the cache", "-q"]);
    must(&world, &["record", "hypothesis", "--id", id.trim(), "--status", "rejected"]);
    must(&world, &["record", "verification", "unit tests", "--failed"]);
    let count =
        |output: u64| json!({"kind": "tokens", "message": "m1", "input": 100, "output": output});
    tell(&world, "night", &[count(10), count(50)]);
    must(&world, &["save", "midnight"]);

    must(&world, &["record", "prompt", "Now repair it"]);
    world.remove("docs/notes.md");
    git(root, &["commit", "-q", "-a", "-m", "Repaired"]);
    database.execute_batch("INSERT INTO users VALUES (2), (3);").unwrap();
    must(&world, &["record", "verification", "all tests", "--passed"]);
    must(&world, &["session", "start", "--session", "helper", "--parent", "night"]);
    must(&world, &["record", "command", "false", "--exit-code", "1", "--session", "helper"]);
    tell(&world, "helper", &[json!({"kind": "tokens", "input": 7})]);
    must(&world, &["session", "end", "--session", "helper"]);
    must(&world, &["save", "morning"]);
    must(&world, &["session", "end", "night", "--status", "failed"]);
    world
}

#[test]
fn a_report_tells_prompt_by_prompt_what_a_night_brought() {
    let world = night();
    let report = world.json(&["report"]);
    assert_eq!(report["session"]["id"], "night");
    assert_eq!(report["outcome"], "failed");
    let prompts = report["prompts"].as_array().unwrap();
    assert_eq!(prompts.len(), 3);
    assert_eq!(prompts[0]["prompt"], Value::Null);

    let first = &prompts[1];
    assert_eq!(first["prompt"], "Find out why *login* fails");
    assert_eq!(first["changed"]["files"]["added"], json!(["new.rs"]));
    assert_eq!(first["changed"]["files"]["modified"], json!(["a.txt"]));
    assert_eq!(first["changed"]["lines_added"], 3);
    assert_eq!(first["changed"]["lines_removed"], 2);
    assert_eq!(first["changed"]["git"], Value::Null);
    assert_eq!(first["changed"]["databases"], json!([]));
    let failed = first["failed"].as_array().unwrap();
    assert_eq!((failed.len(), &failed[0]["text"]), (2, &json!("cargo test")));
    assert_eq!(failed[0]["exit_code"], 101);
    assert_eq!((&failed[1]["tool"], &failed[1]["text"]), (&json!("Edit"), &json!("x.rs")));
    assert_eq!(first["ruled_out"][0]["text"], "a race in the cache");
    assert_eq!(first["verifications"], json!([{"text": "unit tests", "passed": false}]));
    // A later count of the same request replaces the earlier.
    assert_eq!((&first["tokens"]["input"], &first["tokens"]["output"]), (&json!(100), &json!(50)));

    let second = &prompts[2];
    assert_eq!(second["changed"]["files"]["deleted"], json!(["docs/notes.md"]));
    assert!(second["changed"]["git"]["commit"]["to"].is_string(), "{second}");
    let table = &second["changed"]["databases"][0]["tables"][0];
    assert_eq!((&table["from"], &table["to"]), (&json!(1), &json!(3)));
    assert_eq!(second["verifications"], json!([{"text": "all tests", "passed": true}]));
    assert_eq!(second["agents"][0]["session"]["id"], "helper");
    assert_eq!(second["agents"][0]["totals"]["failed"], 1);

    // What fails now, and the ways back.
    let listed = world.json(&["list", "100"])["checkpoints"].clone();
    let saved = |words: &str| {
        let all = listed.as_array().unwrap();
        all.iter().find(|one| one["description"] == words).unwrap()["id"].clone()
    };
    let failing = report["failing"].as_array().unwrap();
    let texts: Vec<&Value> = failing.iter().map(|one| &one["text"]).collect();
    assert_eq!(texts, ["unit tests", "cargo test"]);
    assert!(failing.iter().all(|one| one["before"] == saved("evening")), "{failing:?}");
    assert_eq!((&first["before"], &second["before"]), (&saved("evening"), &saved("midnight")));

    let totals = &report["totals"];
    assert_eq!((&totals["prompts"], &totals["failed"]), (&json!(2), &json!(3)));
    assert_eq!(totals["tokens"]["input"], 107);
    assert_eq!(report["changed"]["files"]["deleted"], json!(["docs/notes.md"]));
}

#[test]
fn text_and_markdown_say_the_same() {
    let world = night();
    let text = must(&world, &["report"]);
    for words in [
        "Session night: Repair the login\n",
        "Ended      failed, ",
        "1 passed, 1 failed",
        "\"Find out why *login* fails\"",
        "1 new, 1 changed (+3 -2): new.rs, a.txt",
        "Failing    unit tests, first ",
        "Go back    rappel restore chk_",
        "cargo test (exit 101)",
        "Edit: x.rs (no)",
        "a race in the cache",
        "app.users: 1 to 3",
        "commit ",
        "Agent helper",
        "150 (100 in, 50 out)",
    ] {
        assert!(text.contains(words), "{words}:\n{text}");
    }
    let markdown = must(&world, &["report", "night", "--markdown"]);
    for words in [
        "# Session night: Repair the login\n",
        "## 1. \"Find out why \\*login\\* fails\"\n",
        "- **Failed**: cargo test (exit 101)\n",
        "- **Rows**: app.users: 1 to 3\n",
        "- Agent helper\n  - **Ended**",
    ] {
        assert!(markdown.contains(words), "{words}:\n{markdown}");
    }
    // A subagent's own report is that of a session, and tells nothing of changes by others.
    let own = must(&world, &["report", "helper"]);
    assert!(own.starts_with("Session helper\n"), "{own}");
    // It writes nothing.
    let before = world.json(&["list", "100", "--all"])["total"].clone();
    must(&world, &["report"]);
    assert_eq!(world.json(&["list", "100", "--all"])["total"], before);
}

#[test]
fn a_session_whose_agent_is_gone_is_said_to_have_crashed() {
    let world = World::new();
    assert_eq!(world.run(&["report"]).status.code(), Some(3));
    let mut agent = Command::new("sleep").arg("600").spawn().unwrap();
    let pid = agent.id().to_string();
    must(&world, &["session", "start", "--session", "s", "--pid", &pid]);
    must(&world, &["record", "prompt", "Go"]);
    let call = ["record", "tool", "Bash", "--input", r#"{"command": "make"}"#, "--started"];
    must(&world, &call);
    agent.kill().unwrap();
    agent.wait().unwrap();
    let report = world.json(&["report"]);
    assert_eq!(report["outcome"], "crashed");
    assert_eq!(report["unfinished"][0]["text"], "make");
    // There is no checkpoint that could tell what changed.
    assert_eq!(report["prompts"][1]["changed"], Value::Null);
    let text = must(&world, &["report"]);
    assert!(text.contains("its agent is gone") && text.contains("Bash: make"), "{text}");
    assert_eq!(world.run(&["report", "nobody"]).status.code(), Some(3));
}

#[test]
fn what_hooks_saved_before_a_prompt_is_not_put_down_to_it() {
    let agent = Agent::new();
    agent.tell(&agent.payload("SessionStart", json!({"source": "startup"})));
    // The user edits by hand, then asks.
    agent.world.write("by-hand.txt", "mine\n");
    let ask = |text: &str| agent.payload("UserPromptSubmit", json!({"prompt": text}));
    agent.tell(&ask("first"));
    agent.world.write("by-agent.txt", "its\n");
    agent.tell(&ask("second"));
    agent.tell(&agent.payload("SessionEnd", json!({"reason": "exit"})));
    agent.rest();
    let report = agent.json(&["report"]);
    let prompts = report["prompts"].as_array().unwrap();
    let of = |text: &str| prompts.iter().find(|one| one["prompt"] == text).unwrap();
    assert_eq!(of("first")["changed"]["files"]["added"], json!(["by-agent.txt"]), "{report:#}");
    assert_eq!(of("second")["changed"]["files"]["added"], json!([]));
}

/// One prompt of an agent with hooks, which writes a file.
fn prompt_that_writes(agent: &Agent, id: &str, path: &str) {
    let prompt = json!({"prompt": format!("Write {path}"), "prompt_id": id});
    agent.tell(&agent.payload("UserPromptSubmit", prompt));
    agent.world.write(path, "text\n");
    agent.tell(&agent.payload("Stop", json!({})));
    agent.rest();
}

#[test]
fn what_a_restore_took_back_is_no_work_of_the_prompt_before_it() {
    // Files alone go back; then everything does, so that the second prompt is on no fork any more.
    for only in [&["--only", "files"][..], &[]] {
        let agent = Agent::new();
        let world = &agent.world;
        agent.tell(&agent.payload("SessionStart", json!({"source": "startup"})));
        prompt_that_writes(&agent, "p1", "first.rs");
        prompt_that_writes(&agent, "p2", "second.rs");
        let before_second = world.json(&["list", "--all", "--trigger", "prompt"]);
        let before_second = before_second["checkpoints"][0]["id"].as_str().unwrap();
        must(world, &[&["restore", before_second, "--confirm"], only].concat());
        assert!(!world.project.path("second.rs").exists());
        prompt_that_writes(&agent, "p3", "third.rs");

        let report = world.json(&["report"]);
        let prompts = report["prompts"].as_array().unwrap().iter();
        let told: Vec<(Value, Value)> = prompts
            .filter(|one| one["prompt"].is_string())
            .map(|one| (one["prompt"].clone(), one["changed"]["files"].clone()))
            .collect();
        let wrote = |path: &str| {
            let files = json!({"added": [path], "modified": [], "deleted": [], "renamed": []});
            (json!(format!("Write {path}")), files)
        };
        let mut expected = vec![wrote("first.rs"), wrote("third.rs")];
        if !only.is_empty() {
            expected.insert(1, wrote("second.rs"));
        }
        assert_eq!(told, expected, "{only:?}");
    }
}

#[test]
fn lines_of_large_files_are_not_counted_and_that_is_said() {
    let world = World::new();
    let large = |word: &str| format!("{word} of a large file\n").repeat(20_000);
    world.write("large.txt", &large("line"));
    must(&world, &["session", "start", "--session", "s"]);
    must(&world, &["save", "before"]);
    must(&world, &["record", "prompt", "Rewrite it"]);
    world.write("large.txt", &large("row"));
    must(&world, &["save", "after"]);
    let report = world.json(&["report"]);
    let changed = &report["prompts"][1]["changed"];
    assert_eq!(changed["files"]["modified"], json!(["large.txt"]));
    assert_eq!(changed["lines_added"], Value::Null);
    let text = must(&world, &["report"]);
    assert!(text.contains("1 changed: large.txt"), "{text}");
}

#[test]
fn what_others_do_after_a_crash_is_not_the_sessions_work() {
    let world = World::new();
    let mut agent = Command::new("sleep").arg("600").spawn().unwrap();
    let pid = agent.id().to_string();
    let evening = world.save("evening");
    must(&world, &["session", "start", "--session", "s", "--pid", &pid]);
    must(&world, &["record", "prompt", "Go"]);
    world.write("its.rs", "// its\n");
    must(&world, &["save", "its"]);
    must(&world, &["record", "note", "the last thing that it said"]);
    agent.kill().unwrap();
    agent.wait().unwrap();
    let told = world.json(&["report"])["changed"]["files"].clone();
    assert_eq!(told["added"], json!(["its.rs"]));
    world.write("mine.rs", "// mine\n");
    must(&world, &["restore", &evening, "--confirm", "--only", "files"]);
    world.write("more.rs", "// mine\n");
    must(&world, &["save", "morning"]);
    assert_eq!(world.json(&["report"])["changed"]["files"], told);
}

#[test]
fn a_check_fails_until_the_files_that_broke_it_go_back() {
    let world = World::new();
    must(&world, &["session", "start", "--session", "s"]);
    must(&world, &["record", "prompt", "Make it faster"]);
    world.write("readme.txt", "one");
    let good = world.save("good");
    must(&world, &["record", "verification", "unit tests", "--passed"]);
    must(&world, &["record", "prompt", "Even faster"]);
    world.write("readme.txt", "two");
    world.write("src/main.rs", "broken");
    must(&world, &["record", "verification", "unit tests", "--failed"]);
    must(&world, &["save", "broken"]);
    must(&world, &["session", "end", "s"]);
    let failing = || world.json(&["report", "s"])["failing"].as_array().unwrap().len();
    assert_eq!(failing(), 1);
    must(&world, &["restore", &good, "--confirm", "--path", "readme.txt"]);
    assert_eq!(failing(), 1, "what broke it is still there");
    must(&world, &["restore", &good, "--confirm", "--only", "files"]);
    assert_eq!(failing(), 0);
}

#[test]
fn the_end_of_a_long_output_is_kept() {
    let world = World::new();
    must(&world, &["session", "start", "--session", "s"]);
    must(&world, &["record", "prompt", "Test it"]);
    let output = format!("{}AssertionError: 210 != 12", "collected one more test\n".repeat(50));
    let check = ["record", "verification", "unit tests", "--failed", "--output", &output];
    must(&world, &check);
    let failing = world.json(&["report", "s"])["failing"][0].clone();
    assert!(failing.to_string().contains("AssertionError: 210 != 12"), "{failing}");
}

#[test]
fn what_stood_there_before_a_session_is_not_its_work() {
    let world = World::new();
    world.write("a.txt", "a");
    must(&world, &["save", "one"]);
    world.write("human.txt", "by hand");
    must(&world, &["session", "start", "--session", "s"]);
    must(&world, &["record", "note", "nothing to do"]);
    must(&world, &["session", "end", "s"]);
    let report = world.json(&["report", "s"]);
    assert_eq!(report["changed"]["files"]["added"], json!([]), "{report}");
    assert_eq!(world.json(&["report", "--session", "s"])["session"]["id"], "s");
    // The way back to before the session keeps what the user had written.
    let before = report["prompts"][0]["before"].as_str().unwrap();
    must(&world, &["restore", before, "--confirm"]);
    assert_eq!(world.read("human.txt"), "by hand");
}

#[test]
fn what_a_session_was_set_back_from_is_not_put_down_to_the_prompt_before() {
    let world = World::new();
    must(&world, &["session", "start", "--session", "s"]);
    must(&world, &["record", "prompt", "First"]);
    world.write("first.rs", "// first\n");
    let middle = world.save("middle");
    // Prompts that somebody records make no checkpoint.
    must(&world, &["record", "prompt", "Second"]);
    world.write("second.rs", "// second\n");
    must(&world, &["session", "end", "s"]);
    must(&world, &["restore", &middle, "--confirm"]);
    let report = world.json(&["report", "s"]);
    let first = report["prompts"].as_array().unwrap().iter().find(|one| one["prompt"] == "First");
    let changed = &first.unwrap()["changed"]["files"];
    assert_eq!(changed["added"], json!(["first.rs"]), "{report}");
    assert_eq!(report["changed"]["files"]["added"], json!(["first.rs"]));
}

#[test]
fn a_restore_and_its_undo_leave_a_session_as_it_ended() {
    let world = World::new();
    must(&world, &["session", "start", "--session", "s"]);
    must(&world, &["record", "prompt", "First"]);
    world.write("first.rs", "// first\n");
    let middle = world.save("middle");
    must(&world, &["record", "prompt", "Second"]);
    world.write("second.rs", "// second\n");
    must(&world, &["record", "command", "cargo test", "--exit-code", "1"]);
    must(&world, &["session", "end", "s"]);
    must(&world, &["save", "end"]);
    let ended = world.json(&["report", "s"])["session"]["ended_at"].clone();
    let report = world.json(&["report", "s"]);
    assert!(ended.is_string(), "{ended}");
    must(&world, &["restore", &middle, "--confirm"]);
    assert_eq!(world.json(&["report", "s"])["session"]["ended_at"], Value::Null);
    must(&world, &["undo"]);
    assert_eq!(world.json(&["report", "s"])["session"]["ended_at"], ended);
    let after = world.json(&["report", "s"]);
    for key in ["outcome", "changed", "totals", "duration_ms"] {
        assert_eq!(after[key], report[key], "{key}");
    }
}
