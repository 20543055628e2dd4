//! `rappel run`: exit codes, signals, what is recorded, and what a crash leaves.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]

mod support;

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use support::World;

/// A command that says its number, and ends once somebody closes its stdin.
const UNTIL_CLOSED: &str = "echo begun $$; read line; exit 0";

/// A run that has begun.
struct Begun {
    run: Child,
    /// The command's process.
    command: Pid,
    out: BufReader<ChildStdout>,
}

impl Begun {
    /// Starts `sh -c script`, whose first line has to be `begun PID`.
    fn start(world: &World, flags: &[&str], script: &str) -> Self {
        let words = [&["run"], flags, &["--", "sh", "-c", script]].concat();
        let mut run = world.command(&words).stdin(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(run.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        let pid = line.trim().strip_prefix("begun ").unwrap_or_else(|| panic!("{line:?}"));
        Self { run, command: Pid::from_raw(pid.parse().unwrap()).unwrap(), out }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.run), signal).unwrap();
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Waits for its end; what it said on stderr.
    fn end(mut self) -> (std::process::ExitStatus, String) {
        drop(self.run.stdin.take());
        let mut errors = String::new();
        let mut stderr = self.run.stderr.take().unwrap();
        stderr.read_to_string(&mut errors).unwrap();
        (self.run.wait().unwrap(), errors)
    }
}

fn checkpoints(world: &World) -> Vec<Value> {
    let mut all = world.json(&["list", "100", "--all"])["checkpoints"].take();
    all.as_array_mut().unwrap().reverse();
    all.as_array().unwrap().clone()
}

fn newest_session(world: &World) -> Value {
    world.json(&["session", "list"])["sessions"][0].take()
}

#[test]
fn a_run_is_covered_from_its_first_second_to_its_end() {
    let world = World::new();
    let script = "cat a.txt; echo two > a.txt; echo new > b.txt; rm docs/notes.md; exit 3";
    let output = world.run(&["run", "--", "sh", "-c", script]);
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "one\ntwo\nthree\n");
    let said = String::from_utf8_lossy(&output.stderr);
    for words in ["Exit code 3", "2 checkpoints", "3 files: a.txt, b.txt, docs/notes.md", "peak"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let all = checkpoints(&world);
    let triggers: Vec<&str> = all.iter().map(|one| one["trigger"].as_str().unwrap()).collect();
    assert_eq!(triggers, ["session-start", "session-end"]);
    assert_eq!(all[1]["description"], "session end (iterations=0)");
    assert_eq!(all[1]["metadata"]["exit_code"], 3);
    let process = &all[1]["process"];
    assert!(process["rss"].as_u64() >= process["heap_used"].as_u64(), "{process}");
    let session = newest_session(&world);
    assert_eq!((&session["status"], &session["exit"]["code"]), (&json!("failed"), &json!(3)));
    let shown = world.json(&["session", "show", session["id"].as_str().unwrap()]);
    assert_eq!(shown["files_modified"], json!(["a.txt", "b.txt", "docs/notes.md"]));
    let text = world.face(&["session", "show"]);
    assert!(text.contains("modified     3 files: a.txt"), "{text}");
    assert_eq!(world.json(&["recover"])["sessions"], json!([]));

    // All of it comes back, not only its names.
    let first = all[0]["id"].as_str().unwrap();
    assert!(world.run(&["restore", first, "--confirm"]).status.success());
    assert_eq!(world.read("a.txt"), "one\ntwo\nthree\n");
    assert_eq!(world.read("docs/notes.md"), "# Notes\n");
}

#[test]
fn the_end_of_a_command_is_the_end_of_the_run() {
    let world = World::new();
    for (script, code, signal) in [
        ("exit 0", Some(0), None),
        ("exit 255", Some(255), None),
        ("kill -TERM $$", None, Some(15)),
        ("kill -KILL $$", None, Some(9)),
        ("kill -SEGV $$", None, Some(11)),
    ] {
        let status = world.run(&["run", "--", "sh", "-c", script]).status;
        assert_eq!((status.code(), status.signal()), (code, signal), "{script}");
        let session = newest_session(&world);
        assert_eq!(session["exit"]["signal"].as_i64(), signal.map(i64::from), "{script}");
        // A shell says 128 and the signal.
        let line = format!("{} run -- sh -c '{script}'; echo $?", env!("CARGO_BIN_EXE_rappel"));
        let mut shell = Command::new("sh");
        shell.args(["-c", &line]).current_dir(world.project.root());
        for (name, value) in world.command(&["x"]).get_envs() {
            shell.env(name, value.unwrap());
        }
        let output = shell.output().unwrap();
        let expected = code.unwrap_or_else(|| 128 + signal.unwrap());
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(said.trim(), expected.to_string(), "{script}");
    }
    let missing = world.run(&["run", "--", "no-such-command"]);
    assert_eq!(missing.status.code(), Some(127));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("cannot run no-such-command"));
    assert_eq!(world.run(&["run", "--", "./a.txt"]).status.code(), Some(126));
    assert_eq!(newest_session(&world)["status"], "failed");
}

/// AI3: with `--json`, stdout is the summary alone.
#[test]
fn as_json_the_summary_is_the_only_answer() {
    let world = World::new();
    let script = "echo to stdout; echo to stderr >&2; echo x > new.txt";
    let output = world.run(&["run", "--json", "--", "sh", "-c", script]);
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    let keys: Vec<&String> = summary.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["checkpoints", "filesModified", "total", "totalDuration"]);
    assert_eq!((&summary["total"], &summary["filesModified"]), (&json!(2), &json!(["new.txt"])));
    let mut entry = summary["checkpoints"][1].clone();
    entry["timestamp"].take();
    entry["duration"].take();
    let git = json!({"modified": 0, "staged": 0, "untracked": 0});
    let expected = json!({
        "number": 2, "timestamp": null, "duration": null, "filesModified": 1,
        "gitStatus": git, "aiwgFiles": 0,
    });
    assert_eq!(entry, expected);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("to stdout\n") && said.contains("to stderr\n"), "{said}");
}

fn kept_lines(world: &World) -> Vec<String> {
    let session = newest_session(world);
    let lines = session["exit"]["output"].as_array().unwrap_or_else(|| panic!("{session}")).iter();
    lines.map(|line| line.as_str().unwrap().to_owned()).collect()
}

#[test]
fn the_last_lines_are_kept_without_secrets() {
    let world = World::new();
    let secret = "ghp_abcdefghijklmnopqrstuvwxyz0123456789";
    let script = format!("echo out; echo token {secret} >&2; printf unfinished; exit 4");
    let output = world.run(&["run", "--keep-output", "--", "sh", "-c", &script]);
    assert_eq!(output.status.code(), Some(4));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "out\nunfinished");
    assert!(String::from_utf8_lossy(&output.stderr).contains(secret), "it is passed on whole");
    // Two streams that lead to two places have no order.
    let mut lines = kept_lines(&world);
    lines.sort();
    assert_eq!(lines, ["out", "token [redacted: github token]", "unfinished"]);

    // Those that lead to one place do.
    let script = "for n in $(seq 300); do echo line $n; done; echo error >&2; echo end";
    let output = world.run(&["run", "--json", "--keep-output", "--", "sh", "-c", script]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("line 1\n") && said.ends_with("line 300\nerror\nend\n"), "{said}");
    let lines = kept_lines(&world);
    assert_eq!(lines.len(), 200);
    assert_eq!(
        (lines[0].as_str(), &lines[197..]),
        ("line 103", &["line 300", "error", "end"].map(str::to_owned)[..])
    );

    let plain = world.run(&["run", "--", "echo", "hello"]);
    assert_eq!(String::from_utf8_lossy(&plain.stdout), "hello\n");
    assert_eq!(newest_session(&world)["exit"]["output"], Value::Null);
}

/// SIGTERM goes to the command, what changed is saved while it ends, and nothing kills it.
#[test]
fn a_request_to_terminate_is_passed_on_and_what_changed_is_saved() {
    let world = World::new();
    let gate = world.project.outside().join("gate");
    let script = format!(
        "trap 'echo asked' TERM; echo begun $$; echo mid > mid.txt; echo ready; \
         until [ -e {} ]; do sleep 0.05; done; echo late > late.txt; exit 6",
        gate.display()
    );
    let mut begun = Begun::start(&world, &[], &script);
    assert_eq!(begun.line(), "ready");
    begun.signal(Signal::TERM);
    assert_eq!(begun.line(), "asked");
    let mut told = String::new();
    let mut errors = BufReader::new(begun.run.stderr.take().unwrap());
    while !told.contains("waiting for the command") {
        assert_ne!(errors.read_line(&mut told).unwrap(), 0, "{told}");
    }
    assert!(told.contains("holds everything"), "{told}");
    let all = checkpoints(&world);
    assert_eq!(all.last().unwrap()["trigger"], "scheduled");
    let held = world.run(&["cat", "latest:mid.txt"]);
    assert_eq!(String::from_utf8_lossy(&held.stdout), "mid\n");
    // The command still runs.
    kill_process(begun.command, Signal::TERM).unwrap();
    assert_eq!(begun.line(), "asked");
    std::fs::write(gate, "").unwrap();
    let status = begun.run.wait().unwrap();
    assert_eq!(status.code(), Some(6));
    let held = world.run(&["cat", "latest:late.txt"]);
    assert_eq!(String::from_utf8_lossy(&held.stdout), "late\n");
}

/// A save that cannot end in time is told, with the checkpoint since which nothing is saved. It
/// goes on, and so does the command.
#[test]
fn a_save_that_is_late_on_a_request_to_terminate_is_told() {
    use rustix::fs::{FlockOperation, flock};
    let world = World::new();
    let script = "trap 'echo asked' TERM; echo begun $$; echo mid > mid.txt; echo ready; \
                  while [ ! -e go ]; do sleep 0.05; done; exit 0";
    let mut begun = Begun::start(&world, &[], script);
    assert_eq!(begun.line(), "ready");
    let first = checkpoints(&world).last().unwrap()["id"].as_str().unwrap().to_owned();
    let lock = std::fs::File::open(world.home.join("lock")).unwrap();
    flock(&lock, FlockOperation::LockExclusive).unwrap();
    begun.signal(Signal::TERM);
    assert_eq!(begun.line(), "asked");
    let mut errors = BufReader::new(begun.run.stderr.take().unwrap());
    let mut told = String::new();
    while !told.contains("the save goes on") {
        assert_ne!(errors.read_line(&mut told).unwrap(), 0, "{told}");
    }
    assert!(told.contains(&format!("everything since {first} is not saved yet")), "{told}");
    drop(lock);
    world.write("go", "");
    assert!(begun.run.wait().unwrap().success(), "nothing killed it");
    let held = world.run(&["cat", "latest:mid.txt"]);
    assert_eq!(String::from_utf8_lossy(&held.stdout), "mid\n");
}

/// SIGTERM while the first checkpoint is made: there is no command yet to pass it on to. The
/// checkpoint is finished, and the command is not begun.
#[test]
fn a_request_to_terminate_during_the_first_checkpoint_keeps_the_command_from_beginning() {
    let world = World::new();
    let outside = world.project.outside();
    let (began, go) = (outside.join("began"), outside.join("go"));
    for fifo in [&began, &go] {
        assert!(Command::new("mkfifo").arg(fifo).status().unwrap().success());
    }
    let capture = format!("echo x > {}; cat {}", began.display(), go.display());
    let config = "[[command]]\nname = \"slow\"\nrestore = [\"cat\"]\n";
    world.write("rappel.toml", &format!("{config}capture = [\"sh\", \"-c\", {capture:?}]\n"));
    assert!(world.run(&["trust", "--yes"]).status.success());
    let mut run = world.command(&["run", "--session", "night", "--", "touch", "ran"]);
    let run = run.spawn().unwrap();
    // The capture of the first checkpoint is under way.
    assert_eq!(std::fs::read_to_string(&began).unwrap(), "x\n");
    kill_process(Pid::from_child(&run), Signal::TERM).unwrap();
    std::fs::write(&go, "content").unwrap();
    let output = run.wait_with_output().unwrap();
    assert_eq!(output.status.signal(), Some(15), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("the command was not begun"), "{said}");
    assert!(!world.project.path("ran").exists());
    assert_eq!(checkpoints(&world).len(), 1);
    assert_eq!(world.json(&["session", "show", "night"])["session"]["status"], "failed");
    assert_eq!(world.json(&["recover"])["sessions"], json!([]));
}

/// Only the supervisor was killed: the command goes on, and is not called gone.
#[test]
fn a_command_that_goes_on_without_its_run_is_told_as_running() {
    let world = World::new();
    let mut begun = Begun::start(&world, &["--session", "night"], "echo begun $$; read line");
    // The command may say something before `run` has noted its process.
    let noted = |entry: std::fs::DirEntry| entry.metadata().unwrap().len() > 0;
    while !std::fs::read_dir(world.home.join("runs")).unwrap().any(|one| noted(one.unwrap())) {}
    // Waiting for a process closes what it reads from.
    let input = begun.run.stdin.take();
    begun.run.kill().unwrap();
    begun.run.wait().unwrap();
    let running = || world.json(&["recover"])["sessions"][0]["still_running"].take();
    assert_eq!(running(), json!(begun.command.as_raw_nonzero().get()));
    let text = world.face(&["recover"]);
    let process = format!("The command still runs (process {})", begun.command.as_raw_nonzero());
    for words in [&*process, "goes on without `rappel run`", "Once it has ended, go on with:"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(!text.contains("agent is gone"), "{text}");
    let second = world.run(&["run", "--session", "night", "--", "true"]);
    assert_eq!(second.status.code(), Some(2), "{second:?}");
    assert!(String::from_utf8_lossy(&second.stderr).contains("still runs"), "{second:?}");
    // It ends when its stdin does.
    drop(input);
    while running() != Value::Null {}
    let text = world.face(&["recover"]);
    assert!(text.contains("agent is gone") && !text.contains("still runs"), "{text}");
    assert!(world.run(&["run", "--session", "night", "--", "true"]).status.success());
}

/// `recover` after kill -9 of the supervisor: the session is found, and taken up by one command.
#[test]
fn a_killed_run_is_found_and_taken_up() {
    let world = World::new();
    let script = "echo begun $$; echo two > a.txt; read line; exit 0";
    let mut begun = Begun::start(&world, &["--session", "night", "--interval", "100ms"], script);
    // Wait for a checkpoint that holds the change.
    while String::from_utf8_lossy(&world.run(&["cat", "latest:a.txt"]).stdout) != "two\n" {
        assert!(begun.run.try_wait().unwrap().is_none());
    }
    assert_eq!(world.json(&["recover"])["sessions"], json!([]), "it runs");
    let again = world.run(&["run", "--session", "night", "--", "true"]);
    assert_eq!(again.status.code(), Some(2), "{again:?}");
    begun.run.kill().unwrap();
    begun.run.wait().unwrap();
    let last = checkpoints(&world).last().unwrap()["id"].clone();
    let crashed = world.json(&["recover"])["sessions"].take();
    let [one] = &crashed.as_array().unwrap()[..] else { panic!("{crashed}") };
    assert_eq!((&one["id"], &one["last_checkpoint"]), (&json!("night"), &last));
    assert_eq!(one["files_modified"], json!(["a.txt"]));
    assert_eq!(one["unfinished_call"], Value::Null);
    assert!(one["age_ms"].is_u64() && one["duration_ms"].is_u64(), "{one}");
    let resume = one["resume"].as_str().unwrap();
    assert!(resume.starts_with("rappel run --session night -- sh -c "), "{resume}");
    let text = world.face(&["recover"]);
    for words in ["night", "Last checkpoint", "1 file: a.txt", "Ran for", resume] {
        assert!(text.contains(words), "{words}: {text}");
    }
    // The command is an orphan now; it ends when its stdin does.
    drop(begun.run.stdin.take());
    while world.json(&["recover"])["sessions"][0]["still_running"] != Value::Null {}
    let taken_up = world.run(&["run", "--session", "night", "--", "true"]);
    assert!(taken_up.status.success(), "{taken_up:?}");
    assert_eq!(world.json(&["recover"])["sessions"], json!([]));
    assert_eq!(world.json(&["session", "show", "night"])["session"]["status"], "completed");
    let ended = world.run(&["run", "--session", "night", "--", "true"]);
    assert_eq!(ended.status.code(), Some(7), "an ended session stays ended");
}

/// `recover` after kill -9 of the agent below: its hook's session, a child of the run's, is found
/// with the call that was running, and the run itself ends as its command did.
#[test]
fn a_killed_agent_is_found_below_its_run() {
    let world = World::new();
    let rappel = env!("CARGO_BIN_EXE_rappel");
    let payload = |event: &str, more: &str| {
        format!(
            r#"{{"hook_event_name":"{event}","session_id":"abc","cwd":"{}"{more}}}"#,
            world.project.root().display()
        )
    };
    let start = payload("SessionStart", r#","source":"startup""#);
    let call = payload(
        "PreToolUse",
        r#","tool_name":"Bash","tool_input":{"command":"make test"},"tool_use_id":"toolu_1""#,
    );
    let script = format!(
        "export CLAUDE_PID=$$; echo '{start}' | {rappel} hook claude; \
         echo '{call}' | {rappel} hook claude; echo x > made.txt; echo begun $$; read line"
    );
    let begun = Begun::start(&world, &["--session", "night"], &script);
    let agent = world.json(&["session", "show", "claude:abc"])["session"].take();
    assert_eq!(agent["parent"], "night");
    kill_process(begun.command, Signal::KILL).unwrap();
    let (status, said) = begun.end();
    assert_eq!(status.signal(), Some(9));
    assert!(said.contains("Killed by signal 9 (KILL)"), "{said}");
    let run = world.json(&["session", "show", "night"])["session"].take();
    assert_eq!((&run["status"], &run["exit"]["signal"]), (&json!("failed"), &json!(9)));
    let crashed = world.json(&["recover"])["sessions"].take();
    assert_eq!(crashed[0]["id"], "claude:abc", "{crashed}");
    assert_eq!(crashed[0]["unfinished_call"]["tool"], "Bash");
    assert_eq!(crashed[0]["resume"], "claude --resume abc");
    assert!(crashed[0]["last_checkpoint"].is_string());
}

/// The numbered files of a state folder, live; a folder that cannot be written stops nothing.
#[test]
fn a_state_folder_is_written_live() {
    let world = World::new();
    let begun =
        Begun::start(&world, &["--state-dir", ".aiwg/001", "--interval", "100ms"], UNTIL_CLOSED);
    let folder = world.project.path(".aiwg/001/checkpoints");
    while std::fs::read_dir(&folder).unwrap().count() < 3 {
        assert_eq!(checkpoints(&world).len(), 1, "nothing changed");
    }
    assert!(begun.end().0.success());
    let first = std::fs::read_to_string(folder.join("001-checkpoint.json")).unwrap();
    let order = ["number", "timestamp", "duration", "sessionId", "gitStatus", "branch", "modified"];
    let rest = ["untracked", "staged", "aiwgState", "files", "sizes", "filesModified", "memory"];
    let places: Vec<usize> = order
        .iter()
        .chain(&rest)
        .chain(&["heapUsed", "rss"])
        .map(|key| first.find(&format!("\"{key}\"")).unwrap())
        .collect();
    assert!(places.is_sorted(), "{first}");

    world.write("state/checkpoints", "in the way");
    let output = world.run(&["run", "--state-dir", "state", "--", "sh", "-c", "exit 5"]);
    assert_eq!(output.status.code(), Some(5));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("rappel: ") && said.contains("state/checkpoints"), "{said}");
    let status = world.json_at_any_exit(&["status"]);
    assert_eq!(status["state"], "degraded", "{status}");
}

/// As in a container: another namespace of mounts and processes, the home on a bind mount, files of
/// root. The crash of a run in there is seen from outside, where its process has another number.
#[test]
fn a_run_in_a_container_is_seen_from_outside() {
    let world = World::new();
    let can = Command::new("unshare").args(["-mpf", "--mount-proc", "true"]).status();
    if !can.is_ok_and(|status| status.success()) {
        rappel_testing::cannot_run("unshare is not allowed here");
        return;
    }
    let mounted = world.project.outside().join("mounted");
    std::fs::create_dir(&mounted).unwrap();
    std::fs::create_dir_all(&world.home).unwrap();
    let rappel = env!("CARGO_BIN_EXE_rappel");
    let script = format!(
        "mount --bind {} {} && exec {rappel} --home {} run --session inside -- \
         sh -c 'echo two > a.txt; chmod 600 a.txt; echo begun $$; read line'",
        world.home.display(),
        mounted.display(),
        mounted.display(),
    );
    let template = world.command(&["x"]);
    let mut command = Command::new("unshare");
    command.args(["-mpf", "--mount-proc", "--kill-child", "sh", "-c", &script]);
    command.current_dir(world.project.root()).env_clear();
    for (name, value) in template.get_envs() {
        command.env(name, value.unwrap());
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut container = command.spawn().unwrap();
    let mut out = BufReader::new(container.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert!(line.starts_with("begun "), "{line}");
    assert_eq!(world.json(&["recover"])["sessions"], json!([]), "it runs");
    // The whole container is killed.
    container.kill().unwrap();
    container.wait().unwrap();
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    let crashed = world.json(&["recover"])["sessions"].take();
    assert_eq!(crashed[0]["id"], "inside", "{crashed}");
    assert!(crashed[0]["last_checkpoint"].is_string(), "{crashed}");
    let resumed = world.run(&["run", "--session", "inside", "--", "cat", "a.txt"]);
    assert_eq!(String::from_utf8_lossy(&resumed.stdout), "two\n");
}
