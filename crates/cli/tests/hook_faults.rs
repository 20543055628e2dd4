//! Hooks where something is wrong: the agent's stream, the settings, the home.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]

mod support;

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rappel_testing::cannot_run;
use rustix::fs::{FlockOperation, flock};
use serde_json::{Value, json};
use support::agent::{Agent, SESSION};

/// Waits for a hook that must end by itself.
fn end(mut hook: Child) -> Output {
    let start = Instant::now();
    while hook.try_wait().unwrap().is_none() {
        if start.elapsed() > Duration::from_secs(60) {
            hook.kill().unwrap();
            panic!("the hook does not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    hook.wait_with_output().unwrap()
}

fn failures(agent: &Agent) -> String {
    fs::read_to_string(agent.world.home.join("hooks/failures.json")).unwrap_or_default()
}

#[test]
fn an_agent_that_never_closes_the_stream_does_not_hang_its_hook() {
    let agent = Agent::new();
    let mut hook = agent.hook().spawn().unwrap();
    let mut stream = hook.stdin.take().unwrap();
    let start = agent.payload("SessionStart", json!({"source": "startup"}));
    stream.write_all(start.to_string().as_bytes()).unwrap();
    let output = end(hook);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    agent.rest();
    // What it was told before is heard.
    assert_eq!(agent.checkpoints().len(), 1);
    drop(stream);
    // One that is told nothing, or half of it, says so.
    for part in ["", "{\"hook_event_name\": \"Stop\", "] {
        let mut hook = agent.hook().spawn().unwrap();
        let mut stream = hook.stdin.take().unwrap();
        stream.write_all(part.as_bytes()).unwrap();
        let output = end(hook);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        drop(stream);
    }
    assert!(failures(&agent).contains("payload"), "{}", failures(&agent));
}

#[test]
fn how_long_an_agent_waits_is_a_setting() {
    let agent = Agent::new();
    let resume = agent.payload("SessionStart", json!({"source": "resume"}));
    let ask = json!({"prompt": "make it better", "prompt_id": "1"});
    agent.tell(&agent.payload("UserPromptSubmit", ask));
    assert!(!agent.tell(&resume).is_null());
    // Nothing can be answered in no time; the worker finishes all the same.
    agent.world.write("rappel.toml", "[hooks]\nother = \"1ms\"\n");
    assert_eq!(agent.tell(&resume), Value::Null);
    agent.rest();
    assert_eq!(failures(&agent), "");
    // A value that makes no sense is warned of, and the agent waits as ever.
    agent.world.write("rappel.toml", "[hooks]\nother = \"soon\"\nbefore_call = 3\n");
    assert!(!agent.tell(&resume).is_null());
    agent.rest();
    assert_eq!(failures(&agent), "");
    let output = agent.world.run(&["status"]);
    let words = [output.stdout, output.stderr].concat();
    let words = String::from_utf8_lossy(&words).into_owned();
    assert!(words.contains("hooks.other") && words.contains("hooks.before_call"), "{words}");
}

#[test]
fn a_home_that_is_locked_for_long_is_waited_for() {
    let agent = Agent::new();
    agent.tell(&agent.payload("SessionStart", json!({"source": "startup"})));
    agent.rest();
    let before = agent.checkpoints().len();
    agent.world.write("a.txt", "changed\n");
    agent.world.write("rappel.toml", "[hooks]\nother = \"100ms\"\nbefore_call = \"100ms\"\n");
    let lock = fs::File::open(agent.world.home.join("lock")).unwrap();
    flock(&lock, FlockOperation::LockExclusive).unwrap();
    let prompt = json!({"prompt": "go on", "prompt_id": "1"});
    assert_eq!(agent.tell(&agent.payload("UserPromptSubmit", prompt)), Value::Null);
    let call = json!({"tool_name": "Bash", "tool_use_id": "a", "tool_input": {"command": "ls"}});
    let told = agent.tell(&agent.payload("PreToolUse", call.clone()));
    assert!(told["systemMessage"].as_str().unwrap().contains("still saving"), "{told}");
    agent.tell(&agent.payload("PostToolUse", call));
    // Longer than any command waits for the lock.
    std::thread::sleep(Duration::from_secs(32));
    drop(lock);
    agent.rest();
    assert_eq!(failures(&agent), "");
    let made = &agent.checkpoints()[before..];
    assert!(made.iter().any(|one| one["trigger"] == "prompt"), "{made:?}");
    let state = agent.state(&format!("claude:{SESSION}"));
    assert_eq!(state["prompts"].as_array().unwrap().len(), 1);
    let calls = state["tool_state"]["calls"].as_array().unwrap();
    assert_eq!(calls.len(), 1, "{calls:?}");
    assert_eq!(calls[0]["success"], true, "{calls:?}");
}

/// Runs hooks in a place of their own: `prepare` is done to the home first, as a shell says it.
fn hooks_where(agent: &Agent, prepare: &str, payloads: &[Value]) -> Vec<Output> {
    let told = agent.world.project.outside().join("told");
    fs::write(&told, payloads.iter().map(|one| format!("{one}\n")).collect::<String>()).unwrap();
    let answers = agent.world.project.outside().join("answers");
    fs::create_dir_all(&answers).unwrap();
    // Each payload is a line; each answer a file, with the exit code behind it.
    let script = format!(
        r#"set -e; {prepare}; set +e; n=0
        while IFS= read -r line; do
            printf '%s' "$line" | "$2" hook claude >"$3/$n.out" 2>"$3/$n.err"; echo $? >"$3/$n.code"
            n=$((n + 1))
        done <"$1"
        while [ -n "$(ls -A "$0/hooks/working" 2>/dev/null)" ]; do sleep 0.02; done"#
    );
    let hook = agent.hook();
    let mut command = Command::new("unshare");
    command.args(["-rm", "sh", "-c", &script]).arg(&agent.world.home).arg(&told);
    command.arg(hook.get_program()).arg(&answers).env_clear().stdin(Stdio::null());
    command.envs(hook.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let done = command.current_dir(agent.world.project.root()).output().unwrap();
    assert!(done.status.success(), "{done:?}");
    let read = |name: String| fs::read(answers.join(name)).unwrap();
    let output = |place: usize| Output {
        status: std::os::unix::process::ExitStatusExt::from_raw(
            String::from_utf8(read(format!("{place}.code")))
                .unwrap()
                .trim()
                .parse::<i32>()
                .unwrap()
                << 8,
        ),
        stdout: read(format!("{place}.out")),
        stderr: read(format!("{place}.err")),
    };
    (0..payloads.len()).map(output).collect()
}

fn can_mount(folder: &Path) -> bool {
    let mut command = Command::new("unshare");
    command.args(["-rm", "sh", "-c", "mount -t tmpfs none \"$0\""]).arg(folder);
    let works = command.output().is_ok_and(|output| output.status.success());
    if !works {
        cannot_run("no file system can be mounted (unshare -rm)");
    }
    works
}

/// What an agent tells of a small piece of work.
fn work(agent: &Agent) -> Vec<Value> {
    let call = json!({"tool_name": "Bash", "tool_use_id": "a", "tool_input": {"command": "ls"}});
    vec![
        agent.payload("SessionStart", json!({"source": "startup"})),
        agent.payload("UserPromptSubmit", json!({"prompt": "go on", "prompt_id": "1"})),
        agent.payload("PreToolUse", call.clone()),
        agent.payload("PostToolUse", call),
        agent.payload("Stop", json!({})),
        agent.payload("SessionEnd", json!({"reason": "other"})),
    ]
}

fn never_stopped(outputs: &[Output]) -> Vec<String> {
    for output in outputs {
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    }
    let text = |output: &Output| String::from_utf8_lossy(&output.stdout).into_owned();
    outputs.iter().map(text).collect()
}

#[test]
fn a_read_only_home_stops_no_agent_and_is_told() {
    let agent = Agent::new();
    if !can_mount(agent.world.project.outside()) {
        return;
    }
    agent.world.save("first");
    agent.world.write("a.txt", "changed\n");
    let prepare = r#"mount --bind "$0" "$0"; mount -o remount,bind,ro "$0""#;
    let said = never_stopped(&hooks_where(&agent, prepare, &work(&agent)));
    assert!(said[0].contains("could not save"), "{said:?}");
    // Never where it would make the agent go on.
    assert_eq!((said[4].as_str(), said[5].as_str()), ("", ""), "{said:?}");
}

#[test]
fn a_full_home_stops_no_agent_and_is_told_once() {
    let agent = Agent::new();
    if !can_mount(agent.world.project.outside()) {
        return;
    }
    fs::create_dir_all(&agent.world.home).unwrap();
    agent.world.write("large.bin", &support::noise(400_000));
    let prepare = r#"mount -t tmpfs -o size=1m none "$0""#;
    let said = never_stopped(&hooks_where(&agent, prepare, &work(&agent)));
    let told = said.iter().filter(|said| said.contains("could not save")).count();
    assert_eq!(told, 1, "{said:?}");
}

#[test]
fn a_save_that_reads_slowly_does_not_hold_the_agent() {
    let agent = Agent::new();
    agent.tell(&agent.payload("SessionStart", json!({"source": "startup"})));
    agent.rest();
    let before = agent.checkpoints().len();
    agent.world.write("rappel.toml", "[hooks]\nbefore_call = \"100ms\"\n");
    let hook = agent.hook();
    // Each file takes 20 ms to open, for the hook and for its worker.
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=openat"]);
    command.args(["-e", "inject=openat:delay_enter=20000"]).arg(hook.get_program());
    command.args(hook.get_args()).env_clear().current_dir(agent.world.project.root());
    command.envs(hook.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let call =
        json!({"tool_name": "Bash", "tool_use_id": "a", "tool_input": {"command": "rm a.txt"}});
    let payload = agent.payload("PreToolUse", call).to_string();
    child.stdin.take().unwrap().write_all(payload.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(told.contains("still saving"), "{told}");
    agent.rest();
    assert_eq!(failures(&agent), "");
    let checkpoints = agent.checkpoints();
    assert_eq!(checkpoints.len(), before + 1);
    let begun = checkpoints.last().unwrap()["mid_operation"].to_string();
    assert!(begun.contains("Bash (a in session"), "{begun}");
}
