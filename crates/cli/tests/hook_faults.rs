//! Hooks where something is wrong: the agent's stream, the settings, the home. For every agent.

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
use support::agent::{AGENTS, Agent, Told};

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
    for agent in AGENTS.map(Agent::called) {
        let name = agent.name;
        let mut hook = agent.hook().spawn().unwrap();
        let mut stream = hook.stdin.take().unwrap();
        let start = agent.says(Told::Start);
        stream.write_all(start.to_string().as_bytes()).unwrap();
        let output = end(hook);
        assert_eq!(output.status.code(), Some(0), "{name}: {output:?}");
        agent.rest();
        // What it was told before is heard.
        assert_eq!(agent.checkpoints().len(), 1, "{name}");
        drop(stream);
    }
    // One that is told nothing, or half of it, says so, whatever the agent.
    let agent = Agent::new();
    agent.told(Told::Start);
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
    for agent in AGENTS.map(Agent::called) {
        let name = agent.name;
        agent.told(Told::Prompt("make it better"));
        assert!(!agent.told(Told::Resume).is_null(), "{name}");
        // Nothing can be answered in no time; the worker finishes all the same.
        agent.world.write("rappel.toml", "[hooks]\nother = \"1ms\"\n");
        assert_eq!(agent.told(Told::Resume), Value::Null, "{name}");
        agent.rest();
        assert_eq!(failures(&agent), "", "{name}");
        // A value that makes no sense is warned of, and the agent waits as ever.
        agent.world.write("rappel.toml", "[hooks]\nother = \"soon\"\nbefore_call = 3\n");
        assert!(!agent.told(Told::Resume).is_null(), "{name}");
        agent.rest();
        assert_eq!(failures(&agent), "", "{name}");
        let output = agent.world.run(&["status"]);
        let words = [output.stdout, output.stderr].concat();
        let words = String::from_utf8_lossy(&words).into_owned();
        assert!(words.contains("hooks.other") && words.contains("hooks.before_call"), "{words}");
    }
}

#[test]
fn a_home_that_is_locked_for_long_is_waited_for() {
    let locked = AGENTS.map(|name| {
        let agent = Agent::called(name);
        agent.told(Told::Start);
        agent.rest();
        let before = agent.checkpoints().len();
        agent.world.write("a.txt", "changed\n");
        agent.world.write("rappel.toml", "[hooks]\nother = \"100ms\"\nbefore_call = \"100ms\"\n");
        let lock = fs::File::open(agent.world.home.join("lock")).unwrap();
        flock(&lock, FlockOperation::LockExclusive).unwrap();
        assert_eq!(agent.told(Told::Prompt("go on")), Value::Null, "{name}");
        let told = agent.told(Told::Before("a", "ls"));
        assert!(agent.notice(&told).contains("still saving"), "{name}: {told}");
        agent.told(Told::After("a", "ls"));
        (agent, lock, before)
    });
    // Longer than any command waits for the lock.
    std::thread::sleep(Duration::from_secs(32));
    for (agent, lock, before) in locked {
        drop(lock);
        agent.rest();
        let name = agent.name;
        assert_eq!(failures(&agent), "", "{name}");
        let made = &agent.checkpoints()[before..];
        assert!(made.iter().any(|one| one["trigger"] == "prompt"), "{name}: {made:?}");
        let state = agent.state(&agent.main());
        assert_eq!(state["prompts"].as_array().unwrap().len(), 1, "{name}");
        let calls = state["tool_state"]["calls"].as_array().unwrap();
        assert_eq!(calls.len(), 1, "{name}: {calls:?}");
        assert_eq!(calls[0]["success"], true, "{name}: {calls:?}");
    }
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
            printf '%s' "$line" | "$2" hook "$4" >"$3/$n.out" 2>"$3/$n.err"; echo $? >"$3/$n.code"
            n=$((n + 1))
        done <"$1"
        while [ -n "$(ls -A "$0/hooks/working" 2>/dev/null)" ]; do sleep 0.02; done"#
    );
    let hook = agent.hook();
    let mut command = Command::new("unshare");
    command.args(["-rm", "sh", "-c", &script]).arg(&agent.world.home).arg(&told);
    command.arg(hook.get_program()).arg(&answers).arg(agent.name).env_clear().stdin(Stdio::null());
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
    let told = [
        Told::Start,
        Told::Prompt("go on"),
        Told::Before("a", "ls"),
        Told::After("a", "ls"),
        Told::Idle,
        Told::End,
    ];
    told.iter().map(|told| agent.says(*told)).collect()
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
    for agent in AGENTS.map(Agent::called) {
        if !can_mount(agent.world.project.outside()) {
            return;
        }
        agent.world.save("first");
        agent.world.write("a.txt", "changed\n");
        let prepare = r#"mount --bind "$0" "$0"; mount -o remount,bind,ro "$0""#;
        let said = never_stopped(&hooks_where(&agent, prepare, &work(&agent)));
        assert!(said[0].contains("could not save"), "{}: {said:?}", agent.name);
        // Never where it would make the agent go on.
        assert_eq!((said[4].as_str(), said[5].as_str()), ("", ""), "{}: {said:?}", agent.name);
    }
}

#[test]
fn a_full_home_stops_no_agent_and_is_told_once() {
    for agent in AGENTS.map(Agent::called) {
        if !can_mount(agent.world.project.outside()) {
            return;
        }
        fs::create_dir_all(&agent.world.home).unwrap();
        agent.world.write("large.bin", &support::noise(400_000));
        let prepare = r#"mount -t tmpfs -o size=1m none "$0""#;
        let said = never_stopped(&hooks_where(&agent, prepare, &work(&agent)));
        let told = said.iter().filter(|said| said.contains("could not save")).count();
        assert_eq!(told, 1, "{}: {said:?}", agent.name);
    }
}

#[test]
fn a_save_that_reads_slowly_does_not_hold_the_agent() {
    for agent in AGENTS.map(Agent::called) {
        let name = agent.name;
        agent.told(Told::Start);
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
        let payload = agent.says(Told::Before("a", "rm a.txt")).to_string();
        child.stdin.take().unwrap().write_all(payload.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{name}: {output:?}");
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(told.contains("still saving"), "{name}: {told}");
        agent.rest();
        assert_eq!(failures(&agent), "", "{name}");
        let checkpoints = agent.checkpoints();
        assert_eq!(checkpoints.len(), before + 1, "{name}");
        let begun = checkpoints.last().unwrap()["mid_operation"].to_string();
        assert!(begun.contains(&format!("in session {}", agent.main())), "{name}: {begun}");
    }
}

#[test]
fn an_event_that_is_told_backwards_or_all_at_once_comes_to_the_same() {
    // Gemini CLI gives its calls no ids: `any_order` of the hooks' own tests has it.
    for name in ["codex", "opencode"] {
        let events = [
            Told::Start,
            Told::Prompt("add x"),
            Told::Before("a", "ls"),
            Told::After("a", "ls"),
            Told::Before("b", "pwd"),
            Told::After("b", "pwd"),
        ];
        let journal = |agent: &Agent| {
            let state = agent.state(&agent.main());
            let calls = state["tool_state"]["calls"].as_array().unwrap().iter();
            let calls = calls.map(|call| format!("{} {}", call["id"], call["success"]));
            let prompts = state["prompts"].as_array().unwrap().iter();
            let prompts = prompts.map(|prompt| prompt["text"].to_string());
            let mut told: Vec<String> = calls.chain(prompts).collect();
            told.sort();
            told
        };
        let in_order = Agent::called(name);
        for told in &events {
            in_order.told(*told);
        }
        in_order.rest();
        let expected = journal(&in_order);
        assert_eq!(expected.len(), 3, "{expected:?}");
        let backwards = Agent::called(name);
        // Calls are told twice; Codex gives its prompts no ids.
        for told in events.iter().rev().chain(&events[2..]) {
            backwards.told(*told);
        }
        backwards.rest();
        assert_eq!(journal(&backwards), expected, "{name} backwards");
        let racing = Agent::called(name);
        racing.told(events[0]);
        let hooks: Vec<Child> =
            events[1..].iter().map(|told| racing.start(&racing.says(*told))).collect();
        for hook in hooks {
            assert!(end(hook).status.success());
        }
        racing.rest();
        assert_eq!(journal(&racing), expected, "{name} racing");
    }
}

#[test]
fn hostile_payloads_stop_no_agent() {
    for agent in AGENTS.map(Agent::called) {
        let before = agent.says(Told::Before("a", "ls"));
        let mut payloads: Vec<String> =
            ["", "null", "[]", "{}", "{\"event\": 7}", "nonsense"].map(str::to_owned).to_vec();
        // Each field as something else than it should be.
        for field in before.as_object().unwrap().keys() {
            for odd in [Value::Null, json!(7), json!("\u{0}../../etc"), json!([[]]), json!({})] {
                let mut payload = before.clone();
                payload[field] = odd;
                payloads.push(payload.to_string());
            }
        }
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        payloads.push(before.to_string().replace("\"ls\"", &deep));
        for payload in payloads {
            let output = agent.tell_bytes(payload.as_bytes());
            assert_eq!(output.status.code(), Some(0), "{}: {payload}", agent.name);
            assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{}: {payload}", agent.name);
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(!said.contains("block") && !said.contains("reply"), "{payload}: {said}");
        }
        agent.rest();
    }
}
