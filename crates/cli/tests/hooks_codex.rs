//! Codex's hooks through the real binary: payloads that the real program sent, and what it lets us
//! answer.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]

mod support;

use std::path::PathBuf;

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
