//! Gemini CLI's hooks through the real binary: payloads that the real program sent, and what it
//! lets us answer.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]

mod support;

use rappel::ambient::{Clock, SystemClock};
use serde_json::{Value, json};
use support::agent::{Agent, SESSION};

fn described(checkpoints: &[Value], trigger: &str) -> Vec<String> {
    let of = checkpoints.iter().filter(|one| one["trigger"] == trigger);
    of.map(|one| one["description"].as_str().unwrap_or_default().to_owned()).collect()
}

fn calls(agent: &Agent, session: &str) -> Vec<Value> {
    agent.state(session)["tool_state"]["calls"].as_array().unwrap().clone()
}

#[test]
fn a_recorded_session_is_saved_before_it_destroys_and_recorded_as_it_was() {
    let agent = Agent::called("gemini");
    let answers = agent.play("tour");
    agent.rest();
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
    // The check before every request is no compaction.
    assert_eq!(described(&checkpoints, "context-compaction"), Vec::<String>::new());
    for (payload, answer) in &answers {
        assert_eq!(answer.is_null(), payload["source"] != "resume", "{payload}: {answer}");
    }
    let state = agent.state(&format!("gemini:{SESSION}.2"));
    let history = state["command_history"].as_array().unwrap();
    let failed = history.iter().find(|one| one["command"] == "cat no-such-file").unwrap();
    assert_eq!(failed["exit_code"], 1);
    assert_eq!(failed["stdout_preview"], "cat: no-such-file: No such file or directory");
    // Each call once, and ended, although none has an id; parallel ones too.
    let all = calls(&agent, &format!("gemini:{SESSION}.2"));
    assert_eq!(all.len(), 5);
    assert!(all.iter().all(|call| !call["completed_at"].is_null()), "{all:?}");
    // A subagent's calls come as the main session's: whose they are is told by the transcripts.
    let tools: Vec<String> = calls(&agent, &format!("gemini:{SESSION}.3"))
        .iter()
        .map(|call| call["tool"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(tools, ["invoke_agent", "run_shell_command"]);
    // Whatever the agent calls its shell, it is found by the common name.
    let found = agent.json(&["find", "--tool", "bash"]);
    assert_eq!(found["events_total"], 7, "{found}");
    assert!(agent.world.project.path("note.txt").exists());
}

#[test]
fn an_end_that_is_told_again_and_a_summary_that_was_asked_for() {
    let agent = Agent::called("gemini");
    agent.play("terminal");
    agent.rest();
    let checkpoints = agent.checkpoints();
    assert_eq!(described(&checkpoints, "context-compaction").len(), 1);
    // Of three ends one counts, and the clearing is no end of the other kind.
    assert_eq!(described(&checkpoints, "session-end").len(), 1);
    assert!(
        described(&checkpoints, "pre-operation")
            .contains(&"Before the session is cleared".to_owned())
    );
    let sessions = agent.json(&["session", "list"]);
    let sessions = sessions["sessions"].as_array().unwrap();
    assert_eq!(sessions.len(), 2);
    assert!(sessions.iter().all(|one| one["status"] == "completed"), "{sessions:?}");
    let slow = calls(&agent, &format!("gemini:{SESSION}"));
    let slow = slow.last().unwrap();
    assert_eq!(
        (&slow["success"], &slow["error"]),
        (&false.into(), &"the user cancelled it".into())
    );
}

#[test]
fn the_same_command_again_is_another_call_and_a_refused_one_is_closed() {
    let agent = Agent::called("gemini");
    agent.tell(&agent.payload("SessionStart", json!({"source": "startup"})));
    let call = json!({"tool_name": "run_shell_command", "tool_input": {"command": "make test"}});
    let mut done = call.clone();
    done["tool_response"] = json!({"llmContent": "Output: ok\nProcess Group PGID: 1"});
    for _ in 0..3 {
        agent.tell(&agent.payload("BeforeAgent", json!({"prompt": "again"})));
        agent.tell(&agent.payload("BeforeTool", call.clone()));
        agent.tell(&agent.payload("AfterTool", done.clone()));
    }
    agent.tell(&agent.payload("BeforeTool", call));
    agent.tell(&agent.payload("AfterAgent", json!({"prompt": "again"})));
    agent.rest();
    let all = calls(&agent, &format!("gemini:{SESSION}"));
    let success: Vec<&Value> = all.iter().map(|call| &call["success"]).collect();
    assert_eq!(success, [&json!(true), &json!(true), &json!(true), &json!(false)]);
}

#[test]
fn a_command_that_was_cancelled_or_goes_on_has_no_exit_code() {
    const LIMIT: &str = "Command was automatically cancelled because it exceeded the timeout of \
                         5.0 minutes without output. There was no output before it was cancelled.";
    const MOVED: &str =
        "Command moved to background (PID: 7). Output hidden. Press Ctrl+B to view.";
    let wrapped = |said: &str| format!("<untrusted_context>\n{said}\n</untrusted_context>");
    let agent = Agent::called("gemini");
    agent.tell(&agent.payload("SessionStart", json!({"source": "startup"})));
    agent.tell(&agent.payload("BeforeAgent", json!({"prompt": "run the tests"})));
    for (command, said) in [("sleep 999", LIMIT), ("make serve", MOVED)] {
        let call = json!({"tool_name": "run_shell_command", "tool_input": {"command": command}});
        agent.tell(&agent.payload("BeforeTool", call.clone()));
        let mut done = call;
        done["tool_response"] = json!({"llmContent": wrapped(said)});
        agent.tell(&agent.payload("AfterTool", done));
    }
    agent.rest();
    let session = format!("gemini:{SESSION}");
    let told: Vec<[Value; 3]> = calls(&agent, &session)
        .iter()
        .map(|call| ["success", "presumed", "error"].map(|name| call[name].clone()))
        .collect();
    let why = "Gemini CLI cancelled it: it took too long";
    assert_eq!(told[0][0], false);
    assert_eq!(told[0][2], why);
    assert_eq!((&told[1][0], &told[1][1]), (&json!(true), &json!(true)));
    let state = agent.state(&session);
    let history = state["command_history"].as_array().unwrap();
    assert!(history.iter().all(|one| one["exit_code"].is_null()), "{history:?}");
    // The session file calls the same a success, and is read the same.
    let made =
        [("tool__1", "sleep 998", LIMIT), ("tool__2", "make", MOVED)].map(|(id, ran, said)| {
            json!({"id": id, "name": "run_shell_command", "args": {"command": ran},
            "status": "success",
            "result": [{"functionResponse": {"response": {"output": wrapped(said)}}}]})
        });
    let message = json!({"id": "m3", "type": "gemini", "content": "", "toolCalls": made});
    session_file(&agent, &[message]);
    agent.json(&["save", "with the transcript"]);
    let all = calls(&agent, &session);
    let success = |id: &str| all.iter().find(|call| call["id"] == id).unwrap()["success"].clone();
    assert_eq!((success("tool__1"), success("tool__2")), (json!(false), json!(true)));
}

/// The session file of Gemini CLI, with the same prompt and call as its hooks told.
fn session_file(agent: &Agent, more: &[Value]) {
    let at = SystemClock.now().to_string();
    let folder = agent.world.project.outside().join("user/.gemini/tmp/project");
    std::fs::create_dir_all(folder.join("chats")).unwrap();
    let root = agent.world.project.root().to_str().unwrap();
    std::fs::write(folder.join(".project_root"), root).unwrap();
    let mut lines = vec![
        json!({"sessionId": SESSION, "projectHash": "x", "startTime": at, "kind": "main"}),
        json!({"id": "m1", "timestamp": at, "type": "user", "content": [
            {"text": "<hook_context>known before</hook_context>\n\nrun the tests"}]}),
        json!({"id": "m2", "timestamp": at, "type": "gemini", "content": "I run them.",
            "toolCalls": [{"id": "run__1", "name": "run_shell_command",
                "args": {"command": "make test"}, "status": "success", "timestamp": at,
                "result": [{"functionResponse": {"response": {"output": "Output: ok"}}}]}]}),
    ];
    lines.extend(more.iter().map(|line| {
        let mut line = line.clone();
        line["timestamp"] = at.as_str().into();
        line
    }));
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    std::fs::write(folder.join("chats/session-2026-11-16T19-59-00000000.jsonl"), text).unwrap();
}

#[test]
fn what_hooks_and_the_session_file_tell_is_told_once() {
    for transcript_first in [false, true] {
        let agent = Agent::called("gemini");
        agent.tell(&agent.payload("SessionStart", json!({"source": "startup"})));
        let prompt = "<hook_context>known before</hook_context>\n\nrun the tests";
        let call =
            json!({"tool_name": "run_shell_command", "tool_input": {"command": "make test"}});
        let mut done = call.clone();
        done["tool_response"] = json!({"llmContent": "Output: ok\nProcess Group PGID: 1"});
        if transcript_first {
            session_file(&agent, &[]);
            agent.json(&["save", "with the transcript"]);
        }
        agent.tell(&agent.payload("BeforeAgent", json!({"prompt": prompt})));
        agent.tell(&agent.payload("BeforeTool", call));
        agent.tell(&agent.payload("AfterTool", done));
        agent.rest();
        if !transcript_first {
            session_file(&agent, &[]);
        }
        agent.json(&["save", "once more"]);
        let session = format!("gemini:{SESSION}");
        let all = calls(&agent, &session);
        assert_eq!(all.len(), 1, "{transcript_first}: {all:?}");
        assert_eq!(all[0]["success"], true);
        let titles = described(&agent.checkpoints(), "prompt");
        assert_eq!(titles, ["run the tests"]);
        let report = agent.json(&["report", &session]);
        let turns = report["prompts"].as_array().unwrap().iter();
        let prompts = turns.filter(|one| !one["prompt"].is_null()).count();
        assert_eq!(prompts, 1, "{report}");
    }
}

/// Adds a prompt and its answer to the session file.
fn goes_on(agent: &Agent, number: u32, prompt: &str) {
    let folder = agent.world.project.outside().join("user/.gemini/tmp/project");
    let path = folder.join("chats/session-2026-11-16T19-59-00000000.jsonl");
    let at = SystemClock.now().to_string();
    let mut text = std::fs::read_to_string(&path).unwrap_or_default();
    if text.is_empty() {
        std::fs::create_dir_all(folder.join("chats")).unwrap();
        let root = agent.world.project.root().to_str().unwrap();
        std::fs::write(folder.join(".project_root"), root).unwrap();
        let head = json!({"sessionId": SESSION, "projectHash": "x", "startTime": at,
            "kind": "main"});
        text.push_str(&format!("{head}\n"));
    }
    let asked = json!({"id": format!("m{number}"), "timestamp": at, "type": "user",
        "content": [{"text": prompt}]});
    let said = json!({"id": format!("a{number}"), "timestamp": at, "type": "gemini",
        "content": format!("Answer {number}.")});
    std::fs::write(&path, format!("{text}{asked}\n{said}\n")).unwrap();
}

fn conversation(agent: &Agent) -> String {
    let folder = agent.world.project.outside().join("user/.gemini/tmp/project");
    std::fs::read_to_string(folder.join("chats/session-2026-11-16T19-59-00000000.jsonl")).unwrap()
}

#[test]
fn a_conversation_goes_back_after_its_files_and_is_told_as_one_restore() {
    use std::os::unix::fs::PermissionsExt;
    let agent = Agent::called("gemini");
    let first = agent.json(&["save", "before any session"])["id"].as_str().unwrap().to_owned();
    agent.tell(&agent.payload("SessionStart", json!({"source": "startup"})));
    let ask = |text: &str| agent.tell(&agent.payload("BeforeAgent", json!({"prompt": text})));
    ask("add x");
    agent.world.write("x", "x\n");
    goes_on(&agent, 1, "add x");
    let call = json!({"tool_name": "run_shell_command", "tool_input": {"command": "make"}});
    agent.tell(&agent.payload("AfterTool", call.clone()));
    ask("spoil it");
    agent.world.write("a.txt", "spoilt\n");
    goes_on(&agent, 2, "spoil it");
    agent.tell(&agent.payload("AfterTool", call));
    agent.tell(&agent.payload("SessionEnd", json!({"reason": "exit"})));
    agent.rest();
    let file = agent.world.project.outside().join("user/.gemini/tmp/project/chats");
    let file = file.join("session-2026-11-16T19-59-00000000.jsonl");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let session = format!("gemini:{SESSION}");

    // A checkpoint that does not hold the session is no way back for its conversation.
    let wrong = ["restore", &first, "--only", "agents", "--conversation", &session, "--confirm"];
    let wrong = agent.world.command(&wrong).output().unwrap();
    let words = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert_eq!(wrong.status.code(), Some(3), "{words}");
    let held = agent.checkpoints().pop().unwrap()["id"].as_str().unwrap().to_owned();
    assert!(words.contains("does not hold session") && words.contains(&held), "{words}");

    let undo = |more: &[&str]| {
        let output = agent.world.command(&[&["undo", "--prompt"], more].concat()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    undo(&[]);
    assert_eq!(agent.world.read("a.txt"), "one\ntwo\nthree\n");
    assert!(conversation(&agent).contains("Answer 2."));
    let words = undo(&["--conversation"]);
    assert!(words.contains("spoil it"), "{words}");
    assert!(
        conversation(&agent).contains("Answer 1.") && !conversation(&agent).contains("Answer 2.")
    );
    assert_eq!(agent.world.read("x"), "x\n");
    let mode = std::fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o644, "the agent's own");

    // It waits, and goes on as the same session.
    let waits = agent.session(&session);
    assert_eq!((&waits["status"], &waits["process"]), (&"paused".into(), &Value::Null));
    let told = agent.tell(&agent.payload("SessionStart", json!({"source": "resume"})));
    assert_eq!(agent.session(&session)["status"], "running");
    let words = told["hookSpecificOutput"]["additionalContext"].as_str().unwrap();
    assert!(words.contains("a.txt") && !words.contains("was not set back"), "{words}");
    assert_eq!(words.matches("Rappel took a step back").count(), 1, "{words}");
}

#[test]
fn a_conversation_that_went_on_is_not_overwritten_by_a_redo() {
    let agent = Agent::called("gemini");
    agent.tell(&agent.payload("SessionStart", json!({"source": "startup"})));
    for (number, prompt, path) in [(1, "add x", "x"), (2, "spoil it", "a.txt")] {
        agent.tell(&agent.payload("BeforeAgent", json!({"prompt": prompt})));
        agent.world.write(path, prompt);
        goes_on(&agent, number, prompt);
        let call = json!({"tool_name": "run_shell_command", "tool_input": {"command": "make"}});
        agent.tell(&agent.payload("AfterTool", call));
    }
    agent.tell(&agent.payload("SessionEnd", json!({"reason": "exit"})));
    agent.rest();
    let run = |arguments: &[&str]| {
        let output = agent.world.command(arguments).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    };
    run(&["undo", "--prompt", "--conversation", "--confirm"]);
    assert!(!conversation(&agent).contains("Answer 2."));
    // Nothing went on since: it comes back, and goes again.
    run(&["redo", "--confirm"]);
    assert!(conversation(&agent).contains("Answer 2."));
    run(&["undo", "--confirm"]);
    goes_on(&agent, 3, "another way");
    run(&["redo", "--confirm"]);
    let said = conversation(&agent);
    assert!(said.contains("Answer 3.") && !said.contains("Answer 2."), "{said}");
    assert_eq!(agent.world.read("a.txt"), "spoil it", "the files are as the redo has them");
}

#[test]
fn what_was_known_comes_back_after_a_summary_that_nobody_announced() {
    let agent = Agent::called("gemini");
    agent.tell(&agent.payload("SessionStart", json!({"source": "startup"})));
    agent.tell(&agent.payload("BeforeAgent", json!({"prompt": "run the tests"})));
    let call = json!({"tool_name": "run_shell_command", "tool_input": {"command": "make test"}});
    agent.tell(&agent.payload("BeforeTool", call.clone()));
    let mut done = call;
    done["tool_response"] = json!({"llmContent": "Output: ok\nProcess Group PGID: 1"});
    session_file(&agent, &[]);
    assert_eq!(agent.tell(&agent.payload("AfterTool", done.clone())), Value::Null);
    // The conversation is replaced by a summary.
    let summary = json!({"id": "s1", "type": "user", "content": [{"text": "In short: tests."}]});
    session_file(&agent, &[json!({"$set": {"messages": [summary]}})]);
    let answer = agent.tell(&agent.payload("AfterTool", done.clone()));
    let own = &answer["hookSpecificOutput"];
    assert_eq!(own["hookEventName"], "AfterTool", "{answer}");
    assert!(own["additionalContext"].as_str().unwrap().contains("run the tests"), "{answer}");
    // Once.
    assert_eq!(agent.tell(&agent.payload("AfterTool", done)), Value::Null);
}

#[test]
fn a_typed_command_is_answered_and_a_command_file_is_no_prompt() {
    let agent = Agent::called("gemini");
    agent.tell(&agent.payload("SessionStart", json!({"source": "startup"})));
    let prompt = |text: &str| agent.tell(&agent.payload("BeforeAgent", json!({"prompt": text})));
    assert_eq!(prompt("make it better"), Value::Null);
    agent.world.write("a.txt", "spoilt\n");
    let answer = prompt("rappel undo --prompt --confirm");
    assert_eq!(answer["decision"], "block", "{answer}");
    assert_eq!(agent.world.read("a.txt"), "one\ntwo\nthree\n");
    // What a restore changed is told, by an event that Gemini CLI passes on.
    let call = json!({"tool_name": "run_shell_command", "tool_input": {"command": "ls"}});
    assert_eq!(agent.tell(&agent.payload("BeforeTool", call.clone())), Value::Null);
    let mut done = call;
    done["tool_response"] = json!({"llmContent": "Output: a.txt"});
    let answer = agent.tell(&agent.payload("AfterTool", done));
    let words = answer["hookSpecificOutput"]["additionalContext"].as_str().unwrap();
    assert!(words.contains("a.txt"), "{words}");
    let before = agent.checkpoints().len();
    let ran = "done\n\nAbove is what Rappel answered to the user's command `/rappel:list`. It is …";
    assert_eq!(prompt(ran), Value::Null);
    assert_eq!(agent.checkpoints().len(), before);
}

#[test]
fn a_call_that_changes_nothing_makes_no_checkpoint() {
    let agent = Agent::called("gemini");
    agent.tell(&agent.payload("SessionStart", json!({"source": "startup"})));
    agent.tell(&agent.payload("BeforeAgent", json!({"prompt": "look"})));
    let before = agent.checkpoints().len();
    for command in ["ls", "cat a.txt", "ls"] {
        let call = json!({"tool_name": "run_shell_command", "tool_input": {"command": command}});
        agent.tell(&agent.payload("BeforeTool", call.clone()));
        let mut done = call;
        done["tool_response"] = json!({"llmContent": "Output: x"});
        agent.tell(&agent.payload("AfterTool", done));
    }
    agent.rest();
    assert_eq!(agent.checkpoints().len(), before);
    assert_eq!(calls(&agent, &format!("gemini:{SESSION}")).len(), 3);
}

#[test]
fn nothing_that_a_hook_is_told_stops_gemini() {
    let agent = Agent::called("gemini");
    let root = agent.world.project.root().to_str().unwrap().to_owned();
    for payload in [
        String::new(),
        "[]".into(),
        "{\"hook_event_name\": null}".into(),
        json!({"hook_event_name": "AfterAgent", "session_id": ""}).to_string(),
        json!({"hook_event_name": "BeforeTool", "session_id": "s", "cwd": root}).to_string(),
        json!({"hook_event_name": "Novelty", "session_id": "s", "cwd": root}).to_string(),
        json!({"hook_event_name": "PreCompress", "session_id": "s", "trigger": "auto"}).to_string(),
        json!({"hook_event_name": "AfterTool", "session_id": "s", "cwd": root,
            "tool_name": "run_shell_command", "tool_input": {"command": ["ls"]},
            "tool_response": {"llmContent": {"odd": 1}, "error": {"odd": 2}}})
        .to_string(),
        json!({"hook_event_name": "BeforeTool", "session_id": "s", "cwd": "relative",
            "tool_name": "write_file", "tool_input": {"file_path": "../../etc/passwd"}})
        .to_string(),
    ] {
        let output = agent.tell_bytes(payload.as_bytes());
        assert_eq!(output.status.code(), Some(0), "{payload}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{payload}");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(!said.contains("block"), "{payload}: {said}");
    }
}
