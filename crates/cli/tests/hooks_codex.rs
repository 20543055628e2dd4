//! Codex's hooks through the real binary: payloads that the real program sent, and what it lets us
//! answer.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]

mod support;

use std::path::PathBuf;

use rappel::ambient::{Clock, SystemClock};
use serde_json::{Value, json};
use support::agent::{Agent, SESSION};

fn fixture(name: &str) -> PathBuf {
    let recorded = "../capture/tests/fixtures/transcripts/recorded/codex-0.166.0";
    [env!("CARGO_MANIFEST_DIR"), recorded, name].iter().collect()
}

/// Plays what was recorded. The rollout is the one of that session.
fn play(agent: &Agent, name: &str) -> Vec<(Value, Value)> {
    let mut answers = Vec::new();
    for mut payload in agent.recorded(name) {
        payload["transcript_path"] = fixture("tour-1.jsonl").to_str().unwrap().into();
        if payload["hook_event_name"] == "PostToolUse" {
            agent.act(&payload);
        }
        let answer = agent.tell(&payload);
        answers.push((payload, answer));
    }
    agent.rest();
    answers
}

fn described(checkpoints: &[Value], trigger: &str) -> Vec<String> {
    let of = checkpoints.iter().filter(|one| one["trigger"] == trigger);
    of.map(|one| one["description"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn a_recorded_session_is_saved_before_it_destroys_and_recorded_as_it_was() {
    let agent = Agent::called("codex");
    let answers = play(&agent, "tour");
    let checkpoints = agent.checkpoints();
    assert_eq!(
        described(&checkpoints, "prompt"),
        [
            "[step:edit] Make the greeting.",
            "[step:destroy] Clean the tree up.",
            "[step:delegate] Let somebody else write the note.",
            "[step:background] Start the long job.",
        ]
    );
    assert_eq!(described(&checkpoints, "session-end"), ["session end (iterations=1)"; 4]);
    let before = described(&checkpoints, "pre-operation");
    assert!(before.contains(&"Before rm two.txt".to_owned()), "{before:?}");
    // Nothing is said but to an agent that was resumed, and only in fields that Codex knows.
    for (payload, answer) in &answers {
        assert_eq!(answer.is_null(), payload["source"] != "resume", "{payload}: {answer}");
        if let Some(answer) = answer.as_object() {
            assert_eq!(answer.keys().collect::<Vec<_>>(), ["hookSpecificOutput"]);
            let own = answer["hookSpecificOutput"].as_object().unwrap();
            assert_eq!(own.keys().collect::<Vec<_>>(), ["additionalContext", "hookEventName"]);
        }
    }
    // Codex's hooks tell no exit code; its rollout does.
    let state = agent.state(&format!("codex:{SESSION}.2"));
    let history = state["command_history"].as_array().unwrap();
    let code = |command: &str| {
        let found = history.iter().find(|one| one["command"] == command).unwrap();
        found["exit_code"].clone()
    };
    assert_eq!((code("cat no-such-file"), code("rm two.txt")), (1.into(), 0.into()));
    let calls = state["tool_state"]["calls"].as_array().unwrap();
    let failed: Vec<&Value> = calls.iter().filter(|call| call["success"] == false).collect();
    assert_eq!(failed.len(), 1, "{failed:?}");
    // The patch names its file from the agent's folder on.
    let state = agent.state(&format!("codex:{SESSION}"));
    let greeting = agent.world.project.path("greeting.txt");
    let touched = serde_json::to_string(&state).unwrap();
    assert!(touched.contains(greeting.to_str().unwrap()), "{touched}");
    // The subagent is a session of its own; what its agent told it is no prompt of a person.
    let sub = agent.session("codex:00000000-0000-4000-8000-000000000006");
    assert_eq!(sub["parent"], format!("codex:{SESSION}.3"));
    assert_eq!(sub["status"], "completed");
}

#[test]
fn an_interrupt_closes_the_call_and_each_session_ends() {
    let agent = Agent::called("codex");
    play(&agent, "terminal");
    let state = agent.state(&format!("codex:{SESSION}"));
    let calls = state["tool_state"]["calls"].as_array().unwrap();
    let slow = calls.iter().find(|call| call["id"].as_str().unwrap().contains("slow")).unwrap();
    assert_eq!(
        (&slow["success"], &slow["error"]),
        (&false.into(), &"it was refused or interrupted".into())
    );
    for session in [SESSION, "00000000-0000-4000-8000-000000000006"] {
        assert_eq!(agent.session(&format!("codex:{session}"))["status"], "completed");
    }
}

#[test]
fn what_was_known_comes_back_after_a_compaction() {
    let agent = Agent::called("codex");
    let answers = play(&agent, "compact");
    let compacted = answers.iter().find(|(payload, _)| payload["source"] == "compact").unwrap();
    let words = compacted.1["hookSpecificOutput"]["additionalContext"].as_str().unwrap();
    assert!(words.contains("Work until the context is full"), "{words}");
    let checkpoints = agent.checkpoints();
    assert_eq!(described(&checkpoints, "context-compaction").len(), 2);
}

#[test]
fn a_command_whose_end_nobody_told_is_presumed_done() {
    let agent = Agent::called("codex");
    let session = json!({"source": "startup", "model": "m"});
    agent.tell(&agent.payload("SessionStart", session));
    let call =
        json!({"tool_name": "Bash", "tool_use_id": "c1", "tool_input": {"command": "false"}});
    agent.tell(&agent.payload("PreToolUse", call.clone()));
    let mut done = call;
    done["tool_response"] = "".into();
    done["transcript_path"] = Value::Null;
    agent.tell(&agent.payload("PostToolUse", done));
    let state = agent.state(&format!("codex:{SESSION}"));
    assert_eq!(state["command_history"][0]["exit_code"], Value::Null);
    let call = &state["tool_state"]["calls"][0];
    assert_eq!((&call["success"], &call["presumed"]), (&true.into(), &true.into()));
}

#[test]
fn a_typed_command_is_answered_in_codexs_form() {
    let agent = Agent::called("codex");
    agent.tell(&agent.payload("SessionStart", json!({"source": "startup"})));
    let prompt =
        |text: &str| agent.tell(&agent.payload("UserPromptSubmit", json!({"prompt": text})));
    assert_eq!(prompt("make it better"), Value::Null);
    agent.world.write("a.txt", "spoilt\n");
    let answer = prompt("rappel undo --prompt --confirm");
    assert_eq!(answer["decision"], "block", "{answer}");
    let keys: Vec<&String> = answer.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["decision", "reason"]);
    assert!(answer["reason"].as_str().unwrap().contains("make it better"), "{answer}");
    assert_eq!(agent.world.read("a.txt"), "one\ntwo\nthree\n");
    // What its agent tells a subagent is no command.
    let own = json!({"prompt": "rappel list", "agent_id": "a1", "agent_type": "default"});
    assert_eq!(agent.tell(&agent.payload("UserPromptSubmit", own)), Value::Null);
}

#[test]
fn a_call_that_changes_nothing_makes_no_checkpoint() {
    let agent = Agent::called("codex");
    agent.tell(&agent.payload("SessionStart", json!({"source": "startup"})));
    agent.tell(&agent.payload("UserPromptSubmit", json!({"prompt": "look"})));
    let before = agent.checkpoints().len();
    for id in ["a", "b", "c"] {
        let call = json!({"tool_name": "Bash", "tool_use_id": id, "tool_input": {"command": "ls"}});
        agent.tell(&agent.payload("PreToolUse", call.clone()));
        let mut done = call;
        done["tool_response"] = "a.txt".into();
        agent.tell(&agent.payload("PostToolUse", done));
    }
    agent.rest();
    assert_eq!(agent.checkpoints().len(), before);
    let state = agent.state(&format!("codex:{SESSION}"));
    assert_eq!(state["command_history"].as_array().unwrap().len(), 3);
}

/// The rollout of the session, with so many prompts and their answers.
fn rollout(prompts: &[&str]) -> String {
    let at = SystemClock.now().to_string();
    let line = |kind: &str, payload: Value| {
        format!("{}\n", json!({"timestamp": at, "type": kind, "payload": payload}))
    };
    let mut text = line("session_meta", json!({"id": SESSION, "cwd": "CWD", "source": "cli"}));
    for prompt in prompts {
        text.push_str(&line("event_msg", json!({"type": "user_message", "message": prompt})));
        let answer = json!({"type": "message", "role": "assistant",
            "content": [{"type": "output_text", "text": format!("Answer to {prompt}.")}]});
        text.push_str(&line("response_item", answer));
    }
    text
}

/// A session with two prompts, each of which changed a file; where its rollout is.
fn two_prompts(agent: &Agent) -> PathBuf {
    let codex = agent.world.project.outside().join("user/.codex");
    let path = codex.join("sessions/2026/11/16");
    let path = path.join(format!("rollout-2026-11-16T19-56-00-{SESSION}.jsonl"));
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let root = agent.world.project.root().to_str().unwrap();
    agent.tell(&agent.payload("SessionStart", json!({"source": "startup"})));
    let prompts = ["add x", "spoil it"];
    for (place, file) in ["x", "a.txt"].into_iter().enumerate() {
        agent.tell(&agent.payload("UserPromptSubmit", json!({"prompt": prompts[place]})));
        agent.world.write(file, "spoilt\n");
        std::fs::write(&path, rollout(&prompts[..=place]).replace("CWD", root)).unwrap();
        let call = json!({"tool_name": "Bash", "tool_use_id": format!("c{place}"),
            "tool_input": {"command": "make"}});
        agent.tell(&agent.payload("PostToolUse", call));
    }
    agent.rest();
    path
}

fn run(agent: &Agent, arguments: &[&str]) -> (Option<i32>, String) {
    let output = agent.world.command(arguments).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn a_conversation_goes_back_once_its_agent_is_gone() {
    let agent = Agent::called("codex");
    let path = two_prompts(&agent);
    let read = || std::fs::read_to_string(&path).unwrap();
    let session = format!("codex:{SESSION}");
    let shown = path.ancestors().nth(5).unwrap().join("thread_history_1.sqlite");
    std::fs::write(&shown, "what its terminal shows").unwrap();
    // Its process is not known: until the session ends, it may have the conversation in memory.
    assert_eq!(agent.session(&session)["process"], Value::Null);
    let before = agent.checkpoints();
    let before = before.iter().rfind(|one| one["trigger"] == "prompt").unwrap()["id"].clone();
    let back = ["restore", before.as_str().unwrap(), "--only", "agents", "--confirm"];
    let back = [&back[..], &["--conversation", &session]].concat();
    let (code, words) = run(&agent, &back);
    assert_eq!(code, Some(5), "{words}");
    assert!(words.contains("still at work"), "{words}");
    assert!(words.contains(&format!("rappel session end {session}")), "{words}");
    assert!(read().contains("Answer to spoil it."));
    agent.tell(&agent.payload("SessionEnd", json!({})));
    agent.rest();

    let (code, words) = run(&agent, &["undo", "--prompt", "--conversation"]);
    assert_eq!(code, Some(0), "{words}");
    assert_eq!(agent.world.read("a.txt"), "one\ntwo\nthree\n");
    assert!(read().contains("Answer to add x.") && !read().contains("spoil it"), "{}", read());
    assert!(words.contains(&format!("codex resume {SESSION}")), "{words}");
    // Its terminal shows the conversation from elsewhere, which is told and not touched.
    assert!(words.contains(shown.to_str().unwrap()), "{words}");
    assert_eq!(std::fs::read_to_string(&shown).unwrap(), "what its terminal shows");
    assert_eq!(agent.session(&session)["status"], "paused");
}

#[test]
fn a_rollout_that_codex_archived_or_compressed_is_not_brought_back_as_an_old_twin() {
    let agent = Agent::called("codex");
    let path = two_prompts(&agent);
    agent.tell(&agent.payload("SessionEnd", json!({})));
    agent.rest();
    let before = agent.checkpoints();
    let before = before.iter().rfind(|one| one["trigger"] == "prompt").unwrap()["id"].clone();
    let before = before.as_str().unwrap();
    let whole = std::fs::read_to_string(&path).unwrap();
    let archive = path.ancestors().nth(5).unwrap().join("archived_sessions");
    let archived = archive.join(path.file_name().unwrap());
    std::fs::create_dir(&archive).unwrap();
    std::fs::rename(&path, &archived).unwrap();
    let (code, words) = run(&agent, &["restore", before, "--confirm"]);
    assert_eq!(code, Some(0), "{words}");
    assert!(!path.exists() && std::fs::read_to_string(&archived).unwrap() == whole);
    let (_, words) = run(&agent, &["restore", before, "--dry-run"]);
    assert!(words.contains(&format!("keeps it at {}", archived.display())), "{words}");
    // Where that is asked for, it goes back in the archive; and undo takes that back.
    let session = format!("codex:{SESSION}");
    let back = ["restore", before, "--only", "agents", "--confirm", "--conversation", &session];
    let (code, words) = run(&agent, &back);
    assert_eq!(code, Some(0), "{words}");
    let now = std::fs::read_to_string(&archived).unwrap();
    assert!(!path.exists() && now.contains("add x") && !now.contains("spoil it"), "{now}");
    let (code, words) = run(&agent, &["undo", "--confirm"]);
    assert_eq!((code, path.exists()), (Some(0), false), "{words}");
    assert_eq!(std::fs::read_to_string(&archived).unwrap(), whole);
    // A compressed one cannot be set back, and a plain file beside it would hide it.
    let compressed = path.with_extension("jsonl.zst");
    std::fs::rename(&archived, &compressed).unwrap();
    let (code, words) = run(&agent, &back);
    assert_ne!(code, Some(0), "{words}");
    assert!(words.contains("has compressed it"), "{words}");
    assert!(!path.exists() && std::fs::read_to_string(&compressed).unwrap() == whole);
}

#[test]
fn a_failure_is_kept_for_an_event_at_which_codex_shows_it() {
    let agent = Agent::called("codex");
    agent.tell(&agent.payload("SessionStart", json!({"source": "startup"})));
    agent.rest();
    // A home of a later version cannot be opened.
    std::fs::write(agent.world.home.join("format"), "rappel 99\nhome 0123456789abcdef\n").unwrap();
    for silent in ["Stop", "SubagentStop", "PreCompact"] {
        assert_eq!(agent.tell(&agent.payload(silent, json!({}))), Value::Null, "{silent}");
    }
    let call =
        json!({"tool_name": "Bash", "tool_use_id": "c1", "tool_input": {"command": "rm a.txt"}});
    let told = agent.tell(&agent.payload("PreToolUse", call.clone()));
    assert!(told["systemMessage"].as_str().unwrap().contains("could not save"), "{told}");
    assert_eq!(agent.tell(&agent.payload("PostToolUse", call)), Value::Null, "once");
}

#[test]
fn nothing_that_a_hook_is_told_stops_codex() {
    let agent = Agent::called("codex");
    let root = agent.world.project.root().to_str().unwrap().to_owned();
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    for payload in [
        String::new(),
        "null".into(),
        "{".into(),
        "{\"hook_event_name\": 1}".into(),
        json!({"hook_event_name": "Stop", "session_id": ""}).to_string(),
        json!({"hook_event_name": "PreToolUse", "session_id": "s", "cwd": root}).to_string(),
        json!({"hook_event_name": "Novelty", "session_id": "s", "cwd": root}).to_string(),
        format!("{{\"hook_event_name\":\"PreToolUse\",\"session_id\":\"s\",\"cwd\":\"{root}\",\"tool_name\":\"Bash\",\"tool_input\":{deep}}}"),
        json!({"hook_event_name": "PostToolUse", "session_id": "s", "cwd": root, "tool_name": "Bash",
            "tool_use_id": "x", "tool_input": {"command": "ls"}, "tool_response": 7,
            "transcript_path": "/dev/zero"}).to_string(),
        json!({"hook_event_name": "PreToolUse", "session_id": "s", "cwd": root,
            "tool_name": "apply_patch", "tool_use_id": "y",
            "tool_input": {"command": "*** Update File: ../../../../etc/passwd\n"}}).to_string(),
        json!({"hook_event_name": "PreToolUse", "session_id": "s", "cwd": root,
            "tool_name": "mcp__rappel__save", "tool_use_id": "z", "tool_input": {}}).to_string(),
    ] {
        let output = agent.tell_bytes(payload.as_bytes());
        assert_eq!(output.status.code(), Some(0), "{payload}");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(!said.contains("block"), "{payload}: {said}");
    }
}
