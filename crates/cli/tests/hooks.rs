//! An agent's hooks through the real binary: payloads that were recorded, in order and out of it,
//! and hooks that are killed, lied to, or kept from their home.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]

mod support;

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use serde_json::{Value, json};
use support::agent::{AGENTS, Agent, SESSION, Told};
use support::scene::Scene;

fn triggers(checkpoints: &[Value]) -> Vec<&str> {
    checkpoints.iter().map(|one| one["trigger"].as_str().unwrap()).collect()
}

#[test]
fn a_recorded_session_is_saved_before_it_destroys_and_recorded_as_it_was() {
    let agent = Agent::new();
    let answers = agent.play("tour");
    agent.rest();
    let checkpoints = agent.checkpoints();
    let prompts: Vec<&Value> =
        checkpoints.iter().filter(|one| one["trigger"] == "prompt").collect();
    let titles: Vec<&str> =
        prompts.iter().map(|one| one["description"].as_str().unwrap()).collect();
    assert_eq!(
        titles,
        [
            "[step:edit] Make the greeting.",
            "[step:destroy] Clean the tree up.",
            "[step:delegate] Let somebody else write the note.",
            "[step:background] Start the long job.",
        ]
    );
    for (place, prompt) in prompts.iter().enumerate() {
        assert_eq!(prompt["metadata"]["provider"], "claude");
        // Each prompt was given to an agent that was started anew.
        assert_eq!(prompt["metadata"]["iteration"], 1, "{place}");
    }
    let ends: Vec<&str> = checkpoints
        .iter()
        .filter(|one| one["trigger"] == "session-end")
        .map(|one| one["description"].as_str().unwrap())
        .collect();
    assert_eq!(ends, ["session end (iterations=1)"; 4]);
    // `rm two.txt`, and later `git clean`: what they removed is in the checkpoint before.
    let held = |path: &str| {
        checkpoints.iter().any(|one| {
            let id = one["id"].as_str().unwrap();
            let cat = agent.world.command(&["cat", &format!("{id}:{path}")]).output().unwrap();
            cat.status.success()
        })
    };
    assert!(held("two.txt") && held("greeting.txt"));
    assert!(!agent.world.project.path("two.txt").exists());
    // Nothing is said but to an agent that was resumed.
    for (payload, answer) in &answers {
        let resumed = payload["source"] == "resume";
        assert_eq!(answer.is_null(), !resumed, "{payload}: {answer}");
    }
    let state = agent.state(&format!("claude:{SESSION}.2"));
    let history = state["command_history"].as_array().unwrap();
    let failed = history.iter().find(|one| one["command"] == "cat no-such-file").unwrap();
    assert_eq!(failed["exit_code"], 1);
    assert!(failed["stderr_preview"].as_str().unwrap().contains("No such file"), "{failed}");
    let removed = history.iter().find(|one| one["command"] == "rm two.txt").unwrap();
    assert_eq!(removed["exit_code"], 0);
    // The subagent is a session of its own, and its agent's child.
    let sub = agent.session("claude:a0000000000000001");
    assert_eq!(sub["parent"], format!("claude:{SESSION}.3"));
    assert_eq!(sub["status"], "completed");
}

#[test]
fn a_call_that_changes_nothing_makes_no_checkpoint() {
    let agent = Agent::new();
    agent.tell(&agent.payload("SessionStart", json!({"source": "startup"})));
    agent.tell(&agent.payload("UserPromptSubmit", json!({"prompt": "look", "prompt_id": "1"})));
    let before = agent.checkpoints().len();
    for id in ["a", "b", "c"] {
        let call = json!({"tool_name": "Bash", "tool_use_id": id, "tool_input": {"command": "ls"}});
        agent.tell(&agent.payload("PreToolUse", call.clone()));
        let mut done = call;
        done["tool_response"] = json!({"stdout": "a.txt", "stderr": ""});
        agent.tell(&agent.payload("PostToolUse", done));
    }
    agent.rest();
    assert_eq!(agent.checkpoints().len(), before);
    let state = agent.state(&format!("claude:{SESSION}"));
    assert_eq!(state["command_history"].as_array().unwrap().len(), 3);
    // One that changes something makes one, whoever changed it.
    agent.world.write("new.txt", "new\n");
    let call = json!({"tool_name": "Bash", "tool_use_id": "d", "tool_input": {"command": "ls"}});
    agent.tell(&agent.payload("PreToolUse", call));
    let checkpoints = agent.checkpoints();
    assert_eq!(checkpoints.len(), before + 1);
    assert_eq!(triggers(&checkpoints).last(), Some(&"code-modified"));
}

#[test]
fn the_journal_is_the_same_whatever_the_order() {
    let in_order = Agent::new();
    let recorded = in_order.recorded("tour");
    let first = recorded.iter().position(|one| one["hook_event_name"] == "Stop").unwrap();
    let journal = |agent: &Agent| -> BTreeMap<String, Value> {
        let state = agent.state(&format!("claude:{SESSION}"));
        let calls = state["tool_state"]["calls"].as_array().unwrap().clone();
        let mut told: BTreeMap<String, Value> = calls
            .into_iter()
            .map(|call| (call["id"].as_str().unwrap().to_owned(), call["success"].clone()))
            .collect();
        for prompt in state["prompts"].as_array().into_iter().flatten() {
            told.insert(prompt["id"].to_string(), prompt["text"].clone());
        }
        told
    };
    for payload in &recorded[..first] {
        in_order.tell(payload);
    }
    let expected = journal(&in_order);
    assert_eq!(expected.len(), 3, "{expected:?}");
    // Backwards, and everything twice.
    let shuffled = Agent::new();
    let own = shuffled.recorded("tour");
    for payload in own[..first].iter().rev().chain(&own[..first]) {
        shuffled.tell(payload);
    }
    assert_eq!(journal(&shuffled), expected);
    // All at once.
    let racing = Agent::new();
    let own = racing.recorded("tour");
    racing.tell(&own[0]);
    let hooks: Vec<Child> = own[1..first].iter().map(|payload| racing.start(payload)).collect();
    for hook in hooks {
        assert!(hook.wait_with_output().unwrap().status.success());
    }
    racing.rest();
    assert_eq!(journal(&racing), expected);
}

#[test]
fn a_refused_call_is_closed_when_its_session_goes_on() {
    let agent = Agent::new();
    let recorded = agent.recorded("ask");
    for payload in &recorded {
        agent.tell(payload);
        agent.rest();
    }
    let state = agent.state(&format!("claude:{SESSION}"));
    let calls = state["tool_state"]["calls"].as_array().unwrap();
    assert!(calls.iter().all(|call| !call["completed_at"].is_null()), "{calls:?}");
    let refused = calls.iter().find(|call| call["id"] == "toolu_refused_0_000001_0").unwrap();
    assert_eq!(refused["success"], false);
}

#[test]
fn nothing_that_a_hook_is_told_stops_the_agent() {
    let agent = Agent::new();
    let huge = "x".repeat(3 << 20);
    let payloads: Vec<Vec<u8>> = vec![
        Vec::new(),
        b"nonsense".to_vec(),
        b"[]".to_vec(),
        b"{}".to_vec(),
        b"{\"hook_event_name\": 7, \"session_id\": []}".to_vec(),
        agent.payload("SomethingNew", json!({"what": "ever"})).to_string().into_bytes(),
        agent.payload("PreToolUse", json!({})).to_string().into_bytes(),
        agent.payload("UserPromptSubmit", json!({"prompt": huge})).to_string().into_bytes(),
        agent
            .payload(
                "PostToolUse",
                json!({"tool_name": "Bash", "tool_input": 3, "tool_use_id": ""}),
            )
            .to_string()
            .into_bytes(),
    ];
    for payload in &payloads {
        let output = agent.tell_bytes(payload);
        let start = String::from_utf8_lossy(&payload[..payload.len().min(80)]).into_owned();
        assert_eq!(output.status.code(), Some(0), "{start}: {output:?}");
    }
    agent.rest();
    // A home that cannot be used is told once a session, in the agent's own form.
    std::fs::remove_dir_all(&agent.world.home).unwrap();
    std::fs::write(&agent.world.home, "no folder").unwrap();
    let prompt = agent.payload("UserPromptSubmit", json!({"prompt": "go on"}));
    let told = agent.tell(&prompt);
    assert!(told["systemMessage"].as_str().unwrap().contains("could not save"), "{told}");
    let wrong = agent.world.command(&["hook", "claude", "--no-such-flag"]).output().unwrap();
    assert_eq!(wrong.status.code(), Some(0), "{wrong:?}");
}

#[test]
fn a_hook_whose_folder_is_gone_saves_what_its_agent_works_on() {
    let agent = Agent::new();
    let gone = agent.world.project.outside().join("gone");
    std::fs::create_dir(&gone).unwrap();
    // The shell goes there, and takes it away before it becomes the hook.
    let hook = agent.hook();
    let mut shell = Command::new("sh");
    shell.args(["-c", "cd \"$1\" && rmdir \"$1\" && exec \"$2\" hook claude", "sh"]);
    shell.arg(&gone).arg(hook.get_program()).stdin(Stdio::piped()).env_clear();
    shell.envs(hook.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut child = shell.spawn().unwrap();
    let start = agent.payload("SessionStart", json!({"source": "startup"}));
    child.stdin.take().unwrap().write_all(start.to_string().as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
    agent.rest();
    assert_eq!(agent.checkpoints().len(), 1);
}

#[test]
fn an_agent_is_told_the_truth_once_after_a_restore() {
    let agent = Agent::new();
    agent.tell(&agent.payload("SessionStart", json!({"source": "startup"})));
    agent.world.write("a.txt", "changed\n");
    let id = agent.json(&["save", "changed"])["id"].as_str().unwrap().to_owned();
    agent.world.write("a.txt", "spoilt\n");
    agent.world.write("docs/notes.md", "spoilt\n");
    agent.json(&["restore", &id, "--confirm", "--path", "docs"]);
    agent.json(&["restore", &id, "--confirm"]);
    // Not where it would make the agent go on, or be an error.
    assert_eq!(agent.tell(&agent.payload("Stop", json!({}))), Value::Null);
    let call = json!({"tool_name": "Bash", "tool_use_id": "a", "tool_input": {"command": "ls"}});
    let told = agent.tell(&agent.payload("PreToolUse", call.clone()));
    let words = told["hookSpecificOutput"]["additionalContext"].as_str().unwrap();
    assert_eq!(told["hookSpecificOutput"]["hookEventName"], "PreToolUse");
    // Of both.
    let named = ["a.txt", "docs/notes.md", &id];
    assert!(named.iter().all(|name| words.contains(name)), "{words}");
    let mut other = call;
    other["tool_use_id"] = "b".into();
    assert_eq!(agent.tell(&agent.payload("PreToolUse", other)), Value::Null);
}

/// A process that ends with the test, however that ends.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_session_whose_agent_is_gone_ends_at_the_next_event() {
    use std::os::unix::process::CommandExt;
    for agent in AGENTS.map(Agent::called) {
        let name = agent.name;
        let payload = agent.world.project.outside().join("payload");
        std::fs::write(&payload, agent.says(Told::Start).to_string()).unwrap();
        // A process that is called after its agent runs the hook, and says so where it is asked to.
        let hook = agent.hook();
        let script = r#"export CLAUDE_PID=$$ OPENCODE_PID=$$
            "$0" hook "$1" <"$2"; : >"$3"; exec sleep 60"#;
        let told = agent.world.project.outside().join("told");
        let mut command = Command::new("bash");
        command.arg0(name).args(["-c", script]).arg(hook.get_program()).arg(name).arg(&payload);
        command.arg(&told).stdout(Stdio::null()).current_dir(agent.world.project.root());
        command.env_clear().envs(hook.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let child = Ended(command.spawn().unwrap());
        let start = Instant::now();
        while !told.exists() {
            assert!(start.elapsed() < Duration::from_secs(60), "{name}: its hook does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
        agent.rest();
        assert_eq!(agent.session(&agent.main())["process"]["pid"], child.0.id(), "{name}");
        assert_eq!(agent.session(&agent.main())["status"], "running", "{name}");
        drop(child);
        // The same session, resumed by another process, is another session of ours.
        agent.told(Told::Resume);
        let gone = agent.session(&agent.main());
        assert_eq!(
            (&gone["status"], &gone["end_reason"]),
            (&"failed".into(), &"its agent's process is gone".into()),
            "{name}"
        );
        let goes_on = agent.session(&format!("{}.2", agent.main()));
        assert_eq!(goes_on["status"], "running", "{name}");
        assert_eq!(goes_on["parent"], agent.main(), "{name}");
    }
}

#[test]
fn a_hook_that_is_killed_leaves_a_worker_that_finishes() {
    for agent in AGENTS.map(Agent::called) {
        let name = agent.name;
        agent.told(Told::Start);
        agent.rest();
        let before = agent.checkpoints().len();
        agent.world.write("a.txt", "changed\n");
        // Somebody else has the store, so that the worker has to wait.
        let lock = std::fs::File::open(agent.world.home.join("lock")).unwrap();
        flock(&lock, FlockOperation::LockExclusive).unwrap();
        // It waits before it looks at anything: to begin this session.
        let mut payload = agent.says(Told::Before("a", "rm a.txt"));
        let session = if name == "opencode" { "session" } else { "session_id" };
        payload[session] = "another".into();
        let mut hook = agent.start(&payload);
        let working = agent.world.home.join("hooks/working");
        while std::fs::read_dir(&working).unwrap().count() == 0 {
            std::thread::sleep(Duration::from_millis(2));
        }
        hook.kill().unwrap();
        hook.wait().unwrap();
        drop(lock);
        agent.rest();
        let failures = std::fs::read_to_string(agent.world.home.join("hooks/failures.json"));
        assert!(failures.is_err(), "{name}: {failures:?}");
        let checkpoints = agent.checkpoints();
        assert_eq!(checkpoints.len(), before + 1, "{name}");
        // The agent did not wait, so the call may have begun.
        let begun = checkpoints.last().unwrap()["mid_operation"].to_string();
        assert!(begun.contains(&format!("in session {name}:another")), "{name}: {begun}");
    }
}

#[test]
fn a_worker_that_died_is_told_by_the_next_event_and_by_status() {
    for agent in AGENTS.map(Agent::called) {
        let name = agent.name;
        agent.told(Told::Start);
        agent.rest();
        agent.world.write("a.txt", "changed\n");
        let lock = std::fs::File::open(agent.world.home.join("lock")).unwrap();
        flock(&lock, FlockOperation::LockExclusive).unwrap();
        let hook = agent.start(&agent.says(Told::Before("a", "rm a.txt")));
        let working = agent.world.home.join("hooks/working");
        let worker: u32 = loop {
            let mut found = std::fs::read_dir(&working).into_iter().flatten().flatten();
            let name = found.next().map(|entry| entry.file_name().to_str().unwrap().to_owned());
            match name.filter(|name| !name.starts_with('.')) {
                Some(name) => break name.split('-').next().unwrap().parse().unwrap(),
                None => std::thread::sleep(Duration::from_millis(2)),
            }
        };
        let pid = rustix::process::Pid::from_raw(worker.try_into().unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        let output = hook.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{name}");
        drop(lock);
        let before = agent.checkpoints().len();
        agent.told(Told::Before("b", "ls"));
        agent.rest();
        assert_eq!(agent.checkpoints().len(), before + 1, "{name}");
        let status = agent.json(&["status"]);
        assert_eq!(status["state"], "degraded", "{name}: {status}");
        assert!(status.to_string().contains("has no checkpoint before it"), "{name}: {status}");
    }
}

#[test]
fn a_typed_command_is_answered_and_the_model_sees_nothing_of_it() {
    let agent = Agent::new();
    agent.tell(&agent.payload("SessionStart", json!({"source": "startup"})));
    let prompt =
        |text: &str| agent.tell(&agent.payload("UserPromptSubmit", json!({"prompt": text})));
    assert_eq!(prompt("make it better"), Value::Null);
    agent.world.write("a.txt", "spoilt\n");
    let before = agent.checkpoints().len();
    let answer = prompt("rappel list");
    assert_eq!(answer["decision"], "block");
    assert!(answer["reason"].as_str().unwrap().contains("make it better"), "{answer}");
    assert!(!answer["reason"].as_str().unwrap().contains('\u{1b}'));
    // Nothing of it is a prompt of the session.
    assert_eq!(agent.checkpoints().len(), before);
    // A restore shows its plan, and is done when it is confirmed.
    let answer = prompt("/rappel:restore latest");
    let text = answer["reason"].as_str().unwrap();
    assert!(text.contains("To do it, type: rappel restore"), "{answer}");
    assert!(text.ends_with("--confirm") && !text.contains("terminal"), "{answer}");
    assert_eq!(agent.world.read("a.txt"), "spoilt\n");
    let answer = prompt("/rappel:restore latest --confirm");
    assert_eq!(answer["decision"], "block", "{answer}");
    assert_eq!(agent.world.read("a.txt"), "one\ntwo\nthree\n");
    // Paths may follow two dashes.
    agent.world.write("a.txt", "spoilt\n");
    agent.world.write("docs/notes.md", "spoilt\n");
    let answer = prompt("/rappel:restore latest --confirm -- docs");
    assert_eq!(agent.world.read("docs/notes.md"), "# Notes\n", "{answer}");
    assert_eq!(agent.world.read("a.txt"), "spoilt\n");
    // What only looks like a command is for the model; what is typed with a slash is always
    // answered.
    assert!(prompt("rappel diff looks odd to me")["decision"].is_null());
    assert!(prompt("rappel is a fine program")["decision"].is_null());
    assert_eq!(prompt("/rappel:nosuch")["decision"], "block");
    assert_eq!(prompt("/rappel:undo 'open")["decision"], "block");
}

#[test]
fn a_prompt_is_undone_and_its_words_come_back() {
    let agent = Agent::new();
    agent.tell(&agent.payload("SessionStart", json!({"source": "startup"})));
    let ask = |id: &str, text: &str| {
        agent.tell(&agent.payload("UserPromptSubmit", json!({"prompt": text, "prompt_id": id})));
    };
    let done = |id: &str| {
        let call = json!({"tool_name": "Bash", "tool_use_id": id, "tool_input": {"command": "x"}});
        agent.tell(&agent.payload("PostToolUse", call));
    };
    ask("p1", "add x");
    agent.world.write("x", "x\n");
    done("c1");
    ask("p2", "tidy up\nand be quick");
    agent.world.write("a.txt", "spoilt\n");
    done("c2");
    agent.world.remove("x");
    done("c3");
    // In the agent's shell, which tells what it calls its session.
    let undo = |more: &[&str]| {
        let mut command = agent.world.command(&[&["undo", "--prompt"], more].concat());
        command.env("CLAUDE_CODE_SESSION_ID", SESSION).output().unwrap()
    };
    let output = undo(&[]);
    let words = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{output:?}");
    assert!(words.contains("tidy up\nand be quick"), "{words}");
    assert_eq!(
        (agent.world.read("x"), agent.world.read("a.txt")),
        ("x\n".into(), "one\ntwo\nthree\n".into())
    );
    // The conversation of the same prompt. The agent is at work, so it stays, and the way to set it
    // back is told.
    let output = undo(&["--conversation"]);
    let words = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{output:?}");
    assert!(words.contains("tidy up") && words.contains("claude --resume"), "{words}");
    assert!(words.contains("--only agents"), "{words}");
    assert_eq!(agent.world.read("x"), "x\n");
    let mut prompts = agent.checkpoints().into_iter().filter(|one| one["trigger"] == "prompt");
    let id = prompts.next_back().unwrap()["id"].as_str().unwrap().to_owned();
    let session = format!("claude:{SESSION}");
    let back = ["restore", &id, "--only", "agents", "--conversation", &session, "--confirm"];
    let busy = agent.world.command(&back).output().unwrap();
    assert_eq!(busy.status.code(), Some(5), "{busy:?}");
    // Again: further back.
    let output = undo(&[]);
    let words = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(words.contains("add x"), "{words}");
    assert!(!agent.world.project.path("x").exists());
    // The one that ended is known by the same name as the one that goes on.
    agent.tell(&agent.payload("SessionEnd", json!({"reason": "other"})));
    agent.tell(&agent.payload("SessionStart", json!({"source": "resume"})));
    // In a shell of the user's: there is one session, and all its prompts are undone.
    let nobody = agent.world.command(&["undo", "--prompt"]).output().unwrap();
    assert_eq!(nobody.status.code(), Some(1), "{nobody:?}");
    assert!(String::from_utf8_lossy(&nobody.stderr).contains("undone already"), "{nobody:?}");
    ask("p3", "once more");
    agent.world.write("y", "y\n");
    done("c4");
    let ended = format!("claude:{SESSION}");
    let plan =
        agent.world.command(&["undo", "--prompt", "--session", &ended, "--dry-run"]).output();
    let words = String::from_utf8_lossy(&plan.unwrap().stdout).into_owned();
    assert!(
        words.contains("once more") && words.contains(&format!("--session {ended}.2")),
        "{words}"
    );
    // Where another agent worked since, it asks.
    let mut other = agent.payload("UserPromptSubmit", json!({"prompt": "mine", "prompt_id": "o1"}));
    other["session_id"] = "another".into();
    agent.tell(&other);
    // Nobody's prompt: those that there are.
    let nobody = agent.world.command(&["undo", "--prompt"]).output().unwrap();
    assert_eq!(nobody.status.code(), Some(2), "{nobody:?}");
    assert!(String::from_utf8_lossy(&nobody.stderr).contains("tidy up"), "{nobody:?}");
    let output = undo(&[]);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    assert!(undo(&["--confirm"]).status.success());
    assert!(!agent.world.project.path("y").exists());
}

#[test]
fn a_prompt_that_changed_nothing_is_not_passed_over() {
    let agent = Agent::new();
    agent.tell(&agent.payload("SessionStart", json!({"source": "startup"})));
    let ask = |id: &str, text: &str| {
        agent.tell(&agent.payload("UserPromptSubmit", json!({"prompt": text, "prompt_id": id})));
    };
    ask("p1", "add x");
    agent.world.write("x", "x\n");
    let call = json!({"tool_name": "Bash", "tool_use_id": "c", "tool_input": {"command": "x"}});
    agent.tell(&agent.payload("PostToolUse", call));
    ask("p2", "what is x?");
    agent.tell(&agent.payload("Stop", json!({})));
    let undo = |more: &[&str]| {
        let output = agent.world.command(&[&["undo", "--prompt"], more].concat()).output().unwrap();
        let words = String::from_utf8_lossy(&[output.stderr, output.stdout].concat()).into_owned();
        (output.status.code(), words)
    };
    let (code, words) = undo(&[]);
    assert_eq!(code, Some(1), "{words}");
    assert!(words.contains("your last prompt, \"what is x?\", changed nothing"), "{words}");
    assert!(words.contains("is \"add x\"") && words.contains("1 file)"), "{words}");
    assert_eq!(agent.world.read("x"), "x\n");
    // The way to what was perhaps meant.
    let restore = words.split("rappel restore ").nth(1).unwrap().trim();
    let plan = agent.json(&["restore", restore, "--dry-run"]);
    assert_eq!(plan["summary"]["files"]["delete"], 1, "{plan}");
    // What only git's rules hide is named too.
    ask("p3", "make it");
    agent.world.write(".gitignore", "*.o\n");
    agent.git(&["add", ".gitignore"]);
    agent.git(&["commit", "-q", "-m", "rules"]);
    agent.world.write("a.o", "made\n");
    ask("p4", "clean it");
    let call = json!({"tool_name": "Bash", "tool_use_id": "d",
        "tool_input": {"command": "rm a.o"}});
    agent.tell(&agent.payload("PreToolUse", call.clone()));
    agent.world.remove("a.o");
    agent.tell(&agent.payload("PostToolUse", call));
    let (code, words) = undo(&[]);
    assert_eq!(code, Some(1), "{words}");
    assert!(words.contains("changed only files that git ignores"), "{words}");
    assert!(words.contains("--path a.o"), "{words}");
}

#[test]
fn the_history_of_a_file_names_the_call_that_changed_it() {
    let agent = Agent::new();
    agent.world.write("loose.txt", "loose\n");
    agent.tell(&agent.payload("SessionStart", json!({"source": "startup"})));
    let run = |id: &str, command: &str, act: &dyn Fn()| {
        let call =
            json!({"tool_name": "Bash", "tool_use_id": id, "tool_input": {"command": command}});
        agent.tell(&agent.payload("PreToolUse", call.clone()));
        act();
        agent.tell(&agent.payload("PostToolUse", call));
    };
    run("c1", "sed -i s/one/1/ a.txt", &|| agent.world.write("a.txt", "1\n"));
    run("c2", "ls", &|| {});
    run("c3", "git reset --hard -q && git clean -fdq", &|| {
        agent.world.remove("a.txt");
        agent.world.remove("loose.txt");
    });
    run("c4", "cat a.txt", &|| {});
    let told = |path: &str| {
        let log = agent.json(&["log", path]);
        let changes = log["changes"].as_array().unwrap().clone();
        let calls = |one: &Value| -> Vec<String> {
            let events = one["events"].as_array().unwrap().iter();
            events.map(|event| event["id"].as_str().unwrap().to_owned()).collect()
        };
        changes
            .iter()
            .map(|one| (one["change"].as_str().unwrap().to_owned(), calls(one)))
            .collect::<Vec<_>>()
    };
    let deleted = ("deleted".to_owned(), vec!["c3".to_owned()]);
    assert_eq!(told("a.txt")[..2], [deleted.clone(), ("modified".into(), vec!["c1".into()])]);
    assert_eq!(told("loose.txt")[0], deleted);
}

#[test]
fn an_agent_without_hooks_is_at_work_only_while_its_transcript_grows() {
    use rappel::ambient::{Clock, SystemClock};
    let scene = Scene::new();
    scene.json(&["integrate", "claude"]);
    let root = scene.world.project.root().canonicalize().unwrap();
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let name: String = root.to_str().unwrap().chars().map(plain).collect();
    let folder = scene.world.project.outside().join("user/.claude/projects").join(name);
    std::fs::create_dir_all(&folder).unwrap();
    let work = |session: &str, minutes_ago: i64| {
        let at = SystemClock.now().as_millis() - minutes_ago * 60_000;
        let line = json!({
            "parentUuid": null, "uuid": "u0", "isSidechain": false, "cwd": root.to_str().unwrap(),
            "sessionId": session, "type": "user",
            "timestamp": rappel::types::Timestamp::from_millis(at).to_string(),
            "message": {"role": "user", "content": "look"},
        });
        std::fs::write(folder.join(format!("{session}.jsonl")), format!("{line}\n")).unwrap();
        scene.json(&["save", session]);
        // One that is silent is an exit code of its own.
        let status = scene.run(&["status", "--json"]).stdout;
        let status: Value = serde_json::from_slice(&status).unwrap();
        status["integrations"][0]["state"].clone()
    };
    let session = |id: &str| scene.json(&["session", "show", id])["session"].clone();
    assert_eq!(work("old", 11), "installed");
    let old = session("claude:old");
    assert_eq!((&old["status"], old["ended_at"].is_string()), (&"completed".into(), true), "{old}");
    assert_eq!(work("new", 0), "silent");
    assert_eq!(session("claude:new")["status"], "running");
}

#[test]
fn the_beginning_of_a_sessions_id_names_it() {
    let agent = Agent::new();
    let start = agent.payload("SessionStart", json!({"source": "startup"}));
    agent.tell(&start);
    let show = |id: &str| agent.world.command(&["session", "show", id, "--json"]).output().unwrap();
    assert!(show("claude:0000").status.success());
    assert_eq!(agent.json(&["list", "--session", "claude:0000"])["total"], 1);
    assert!(agent.json(&["report", "claude:0000"])["session"]["id"].is_string());
    // A later run of the same session is the same one.
    agent.tell(&agent.payload("SessionEnd", json!({"reason": "other"})));
    agent.tell(&agent.payload("SessionStart", json!({"source": "resume"})));
    assert_eq!(agent.session("claude:0000")["id"], format!("claude:{SESSION}.2"));
    assert_eq!(agent.session(&format!("claude:{SESSION}"))["status"], "completed");
    let mut other = start;
    other["session_id"] = "00000000-other".into();
    agent.tell(&other);
    let several = show("claude:0000");
    assert_eq!(several.status.code(), Some(2), "{several:?}");
    let words = String::from_utf8_lossy(&several.stderr).into_owned();
    assert!(words.contains("claude:00000000-other") && words.contains(SESSION), "{words}");
    assert_eq!(show("claude:1").status.code(), Some(3));
}

#[test]
fn what_was_known_comes_back_after_a_compaction() {
    let agent = Agent::new();
    let answers = agent.play("compact");
    agent.rest();
    let compacted = answers.iter().find(|(payload, _)| payload["source"] == "compact").unwrap();
    let words = compacted.1["hookSpecificOutput"]["additionalContext"].as_str().unwrap();
    assert!(words.contains("Work until the context is full"), "{words}");
    assert!(words.chars().count() <= 8000);
    let checkpoints = agent.checkpoints();
    assert!(triggers(&checkpoints).contains(&"context-compaction"));
}

#[test]
fn a_session_that_moves_into_a_work_tree_stays_where_it_started() {
    let agent = Agent::new();
    agent.play("worktree");
    agent.rest();
    let sessions = agent.json(&["session", "list"]);
    let ids: Vec<&str> = sessions["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["id"].as_str().unwrap())
        .collect();
    assert!(ids.iter().all(|id| id.starts_with(&format!("claude:{SESSION}"))), "{ids:?}");
    let checkpoints = agent.checkpoints();
    let before = checkpoints.iter().find(|one| one["description"] == "Before ExitWorktree");
    assert_eq!(before.unwrap()["trigger"], "pre-operation");
}

#[test]
fn what_no_person_typed_is_no_command_and_long_answers_are_cut() {
    let agent = Agent::new();
    agent.world.write("long.txt", &"0123456789".repeat(3_000));
    agent.tell(&agent.payload("SessionStart", json!({"source": "startup"})));
    let own = json!({"prompt": "rappel list", "agent_id": "a1", "agent_type": "x"});
    assert!(agent.tell(&agent.payload("UserPromptSubmit", own))["decision"].is_null());
    let made = json!({"prompt": "<task-notification>\nrappel list"});
    assert!(agent.tell(&agent.payload("UserPromptSubmit", made))["decision"].is_null());
    // One that only begins like those is a person's.
    let typed = json!({"prompt": "<Button> is broken, fix it"});
    agent.tell(&agent.payload("UserPromptSubmit", typed));
    let checkpoints = agent.checkpoints();
    let prompts = checkpoints.iter().filter(|one| one["trigger"] == "prompt");
    let titles: Vec<&str> = prompts.map(|one| one["description"].as_str().unwrap()).collect();
    assert_eq!(titles, ["<Button> is broken, fix it"]);
    let typed = json!({"prompt": "rappel cat latest:long.txt"});
    let answer = agent.tell(&agent.payload("UserPromptSubmit", typed));
    let words = answer["reason"].as_str().unwrap();
    assert!(words.ends_with("The rest: rappel cat latest:long.txt"), "{words}");
    assert!((20_000..20_100).contains(&words.chars().count()));
}

#[test]
fn a_recorded_terminal_is_cleared_and_interrupted_and_says_what_phase_it_was_in() {
    let agent = Agent::new();
    agent.world.write(".loki/state/orchestrator.json", "{\"currentPhase\": \"build\"}");
    agent.play("terminal");
    agent.rest();
    let checkpoints = agent.checkpoints();
    for one in checkpoints.iter().filter(|one| one["trigger"] == "prompt") {
        let metadata = &one["metadata"];
        assert_eq!(
            (&metadata["phase"], &metadata["provider"]),
            (&"build".into(), &"claude".into())
        );
        assert_eq!(metadata["task_description"], one["description"]);
        assert!(metadata["iteration"].as_u64().unwrap() >= 1, "{metadata}");
    }
    let is_cleared = |one: &&Value| one["description"] == "Before the session is cleared";
    let cleared: Vec<&Value> = checkpoints.iter().filter(is_cleared).collect();
    assert_eq!(cleared.len(), 1);
    assert_eq!(cleared[0]["trigger"], "pre-operation");
    // The interrupted call had no later event of its own.
    let state = agent.state(&format!("claude:{SESSION}"));
    let calls = state["tool_state"]["calls"].as_array().unwrap();
    assert!(calls.iter().all(|call| !call["completed_at"].is_null()), "{calls:?}");
    let slow = calls.iter().find(|call| call["id"].as_str().unwrap().contains("slow")).unwrap();
    assert_eq!(slow["success"], false);
}
