//! Many saves of one workspace at once: they take turns, and share captures that began after they
//! were called.
//!
//! A `[[command]]` stands in for a capture that takes long: it waits as long as the gate is there.

#![allow(clippy::unwrap_used, reason = "tests may")]

mod support;

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rappel_testing::killed::{Steps, was_killed};
use rappel_testing::{Project, cannot_run};
use serde_json::{Value, json};
use support::World;

/// No test waits longer for something that has to happen.
const LIMIT: Duration = Duration::from_secs(120);

struct Place {
    world: World,
}

impl Place {
    fn new() -> Self {
        let mut project = Project::new();
        for n in 0..200 {
            project = project.file(format!("d{}/f{n}", n % 9), format!("{n}\n"));
        }
        Self { world: World::of(project) }
    }

    /// One whose captures pass a gate, and are counted there.
    fn gated() -> Self {
        let place = Self::new();
        let (gate, passed) = (place.gate(), place.passed());
        let script = format!(
            "echo x >> {}; while [ -e {} ]; do sleep 0.01; done; echo dump",
            passed.display(),
            gate.display()
        );
        let toml = format!(
            "[[command]]\nname = \"slow\"\ncapture = [\"sh\", \"-c\", {script:?}]\n\
             restore = [\"cat\"]\n"
        );
        std::fs::write(place.world.project.path("rappel.toml"), toml).unwrap();
        place.world.trust();
        place
    }

    fn gate(&self) -> PathBuf {
        self.world.project.outside().join("gate")
    }

    fn passed(&self) -> PathBuf {
        self.world.project.outside().join("passed")
    }

    fn close(&self) {
        std::fs::write(self.gate(), "").unwrap();
    }

    fn open(&self) {
        std::fs::remove_file(self.gate()).unwrap();
    }

    /// How many captures have reached the gate.
    fn at_the_gate(&self) -> usize {
        std::fs::read_to_string(self.passed()).unwrap_or_default().lines().count()
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.world.project.path(name), text).unwrap();
    }

    fn start(&self, arguments: &[&str]) -> Child {
        self.world.command(&[arguments, &["--json"]].concat()).spawn().unwrap()
    }

    /// Starts a save and waits until it stands in the queue.
    fn start_waiting(&self, arguments: &[&str]) -> Child {
        let child = self.start(arguments);
        until("a save arrives", || self.is_in_queue(&child));
        child
    }

    /// Starts a save whose capture waits at the gate.
    fn start_leader(&self) -> Child {
        let before = self.at_the_gate();
        self.close();
        let leader = self.start(&["save", "leader"]);
        until("the leader captures", || self.at_the_gate() > before);
        leader
    }

    /// Whether a process has the queue's file open and sleeps.
    fn is_in_queue(&self, child: &Child) -> bool {
        let (Some(queue), process) = (self.queue(), format!("/proc/{}", child.id())) else {
            return false;
        };
        let descriptors = std::fs::read_dir(format!("{process}/fd")).into_iter().flatten();
        let has_it = descriptors
            .flatten()
            .any(|entry| std::fs::read_link(entry.path()).is_ok_and(|target| target == queue));
        let stat = std::fs::read_to_string(format!("{process}/stat")).unwrap_or_default();
        has_it && stat.rsplit(')').next().is_some_and(|rest| rest.trim().starts_with('S'))
    }

    fn queue(&self) -> Option<PathBuf> {
        let folder = std::fs::read_dir(self.world.home.join("saving")).ok()?;
        folder.flatten().map(|entry| entry.path().canonicalize().unwrap()).next()
    }

    /// How many captures the queue has counted.
    fn captures(&self) -> u64 {
        let text = std::fs::read_to_string(self.queue().unwrap()).unwrap();
        let note: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        note["begun"].as_u64().unwrap()
    }

    /// The paths that a checkpoint holds below a folder, with their contents.
    fn content(&self, id: &str, path: &str) -> Option<String> {
        let output = self.world.run(&["cat", &format!("{id}:{path}")]);
        output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
    }
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < LIMIT, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn answer(child: Child) -> Value {
    let output = child.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn id(checkpoint: &Value) -> &str {
    checkpoint["id"].as_str().unwrap()
}

#[test]
fn fifty_saves_share_a_capture_and_each_has_its_own_manifest() {
    let place = Place::gated();
    let leader = place.start_leader();
    let saves: Vec<Child> =
        (0..50).map(|n| place.start_waiting(&["save", &format!("save {n}")])).collect();
    place.write("late", "written after all were called\n");
    place.open();
    let first = answer(leader);
    let answers: Vec<Value> = saves.into_iter().map(answer).collect();
    assert!(place.at_the_gate() <= 5, "{} captures", place.at_the_gate());

    let list = place.world.json(&["list", "100"]);
    let list = list["checkpoints"].as_array().unwrap();
    assert_eq!(list.len(), 51);
    for (n, checkpoint) in answers.iter().enumerate() {
        assert_eq!(checkpoint["description"], format!("save {n}"));
        assert_eq!(checkpoint["created"], true);
        assert_eq!(checkpoint["facets"]["databases"], "captured");
        let listed = list.iter().find(|one| one["id"] == checkpoint["id"]).unwrap();
        assert_eq!(listed["files"]["tree"], checkpoint["files"]["tree"]);
    }
    // A line without branches: each follows the one before it.
    let mut newest_first = list.iter();
    let mut child = newest_first.next().unwrap();
    for parent in newest_first {
        assert_eq!(child["parent"], parent["id"]);
        child = parent;
    }
    assert_eq!(child["id"], first["id"]);
    assert!(place.world.run(&["verify"]).status.success());
}

#[test]
fn saves_that_add_nothing_are_answered_with_the_same_checkpoint() {
    let place = Place::gated();
    let leader = place.start_leader();
    let saves: Vec<Child> = (0..10).map(|_| place.start_waiting(&["save"])).collect();
    place.write("new", "so that the leader's capture is not enough\n");
    place.open();
    answer(leader);
    let answers: Vec<Value> = saves.into_iter().map(answer).collect();
    let made = answers.iter().filter(|one| one["created"] == true).count();
    assert_eq!(made, 1);
    assert!(answers.iter().all(|one| one["id"] == answers[0]["id"]));
}

#[test]
fn a_save_never_uses_a_capture_that_began_before_it_was_called() {
    let place = Place::gated();
    for round in 0..5 {
        let leader = place.start_leader();
        let name = format!("round{round}");
        place.write(&name, "here\n");
        let save = place.start_waiting(&["save", "later"]);
        place.open();
        answer(leader);
        let later = answer(save);
        assert_eq!(place.content(id(&later), &name).as_deref(), Some("here\n"));
    }
    assert_eq!(place.at_the_gate(), 10);
}

#[test]
fn every_checkpoint_holds_what_was_there_when_its_save_was_called() {
    let place = Place::new();
    place.world.save("first");
    let mut saves = Vec::new();
    for n in 0..50 {
        place.write(&format!("written{n}"), &format!("{n}\n"));
        saves.push(place.start(&["save", &format!("save {n}")]));
    }
    let answers: Vec<Value> = saves.into_iter().map(answer).collect();
    for (n, checkpoint) in answers.iter().enumerate() {
        for before in [0, n / 2, n] {
            let held = place.content(id(checkpoint), &format!("written{before}"));
            assert_eq!(held.as_deref(), Some(&*format!("{before}\n")), "save {n}");
        }
    }
    assert!(place.world.run(&["verify"]).status.success());
}

#[test]
fn a_note_that_is_cut_off_again_and_again_costs_captures_and_no_file() {
    let place = Place::new();
    place.world.save("first");
    let queue = place.queue().unwrap();
    let is_over = AtomicBool::new(false);
    let answers: Vec<Value> = std::thread::scope(|scope| {
        let enemy = scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let file = OpenOptions::new().write(true).open(&queue).unwrap();
                file.set_len(0).unwrap();
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let saves: Vec<Child> = (0..50)
            .map(|n| {
                place.write(&format!("written{n}"), &format!("{n}\n"));
                place.start(&["save", &format!("save {n}")])
            })
            .collect();
        let answers = saves.into_iter().map(answer).collect();
        is_over.store(true, Ordering::Relaxed);
        enemy.join().unwrap();
        answers
    });
    for (n, checkpoint) in answers.iter().enumerate() {
        let held = place.content(id(checkpoint), &format!("written{n}"));
        assert_eq!(held.as_deref(), Some(&*format!("{n}\n")), "save {n}");
    }
}

#[test]
fn a_save_that_arrives_while_the_note_is_cut_off_captures_by_itself() {
    let place = Place::gated();
    place.world.save("first");
    let leader = place.start_leader();
    let file = OpenOptions::new().write(true).open(place.queue().unwrap()).unwrap();
    file.set_len(0).unwrap();
    place.write("late", "late\n");
    let save = place.start_waiting(&["save", "late"]);
    place.open();
    answer(leader);
    assert_eq!(place.content(id(&answer(save)), "late").as_deref(), Some("late\n"));
}

#[test]
fn a_killed_leader_strands_nobody() {
    let place = Place::gated();
    let mut leader = place.start_leader();
    let saves: Vec<Child> =
        (0..8).map(|n| place.start_waiting(&["save", &format!("save {n}")])).collect();
    place.write("late", "late\n");
    leader.kill().unwrap();
    leader.wait().unwrap();
    // Another one leads now.
    until("another save leads", || place.at_the_gate() == 2);
    place.open();
    for save in saves {
        let checkpoint = answer(save);
        assert_eq!(place.content(id(&checkpoint), "late").as_deref(), Some("late\n"));
    }
    assert!(place.at_the_gate() <= 4, "{} captures", place.at_the_gate());
    assert_eq!(place.world.json(&["list"])["total"], 8);
}

#[test]
fn a_leader_that_is_killed_at_any_step_of_its_note_leaves_a_queue_that_works() {
    let place = Place::new();
    place.world.save("first");
    let queue = place.queue().unwrap();
    let Some(steps) = Steps::of([queue.clone()]) else {
        return cannot_run("strace cannot trace processes here");
    };
    let under = |mut strace: Command, message: &str| {
        let plain = place.world.command(&["save", message]);
        strace.arg(plain.get_program()).args(plain.get_args());
        strace.current_dir(place.world.project.root()).env_clear();
        strace.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
        strace.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        strace.status().unwrap()
    };
    assert!(under(steps.counting(), "counted").success());
    let made = steps.made();
    assert!(made.len() >= 4, "a note when it begins, and one when it is durable: {made:?}");
    for (n, step) in made.iter().enumerate() {
        place.write("n", &format!("{n}\n"));
        assert!(was_killed(under(steps.killing_at(step), "killed")), "{step:?}");
        let saves: Vec<Child> = (0..4).map(|_| place.start(&["save", "next"])).collect();
        for save in saves {
            let checkpoint = answer(save);
            assert_eq!(place.content(id(&checkpoint), "n").unwrap(), format!("{n}\n"));
        }
    }
    // A note that nobody can read is none.
    for text in ["", "{", "{\"version\":1}\n0000"] {
        std::fs::write(&queue, text).unwrap();
        let saves: Vec<Child> = (0..4).map(|_| place.start(&["save", "again"])).collect();
        for save in saves {
            answer(save);
        }
    }
    assert!(place.world.run(&["verify"]).status.success());
}

#[test]
fn a_save_before_an_operation_waits_for_no_capture() {
    let place = Place::gated();
    let mut leader = place.start_leader();
    let arguments = ["save", "--trigger", "pre-operation", "--skip", "databases"];
    let before = answer(place.start(&arguments));
    assert_eq!(before["trigger"], "pre-operation");
    assert!(leader.try_wait().unwrap().is_none(), "the leader is still at it");
    // What came between keeps those who wait from using what is older.
    let save = place.start_waiting(&["save", "waiting"]);
    place.write("more", "more\n");
    let between = answer(place.start(&arguments));
    assert_eq!(place.content(id(&between), "more").as_deref(), Some("more\n"));
    place.open();
    answer(leader);
    let last = answer(save);
    assert_eq!(place.content(id(&last), "more").as_deref(), Some("more\n"));
}

#[test]
fn a_save_inside_a_capture_command_waits_for_nothing() {
    let place = Place::new();
    let toml = format!(
        "[[command]]\nname = \"inner\"\ntimeout = \"20s\"\n\
         capture = [\"sh\", \"-c\", \"{} save inside -q >&2 && echo done\"]\nrestore = [\"cat\"]\n",
        env!("CARGO_BIN_EXE_rappel")
    );
    place.write("rappel.toml", &toml);
    place.world.trust();
    let outer = answer(place.start(&["save", "outside"]));
    assert_eq!(outer["partial"], false, "{outer}");
    assert_eq!(outer["facets"]["databases"], "captured");
    let list = place.world.json(&["list"]);
    let said: Vec<&str> = list["checkpoints"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["description"].as_str().unwrap())
        .collect();
    assert_eq!(said, ["outside", "inside"]);
}

#[test]
fn other_facets_and_other_rules_are_captured_by_themselves() {
    let place = Place::gated();
    let leader = place.start_leader();
    let all = place.start_waiting(&["save", "all"]);
    let files = place.start_waiting(&["save", "files", "--only", "files"]);
    // The rules change after these were called and before the next one is.
    let toml = std::fs::read_to_string(place.world.project.path("rappel.toml")).unwrap();
    place.write("rappel.toml", &format!("{toml}\n[files]\nexclude = [\"d1/**\"]\n"));
    place.world.trust();
    let less = place.start_waiting(&["save", "less"]);
    place.open();
    answer(leader);
    let (all, files, less) = (answer(all), answer(files), answer(less));
    assert_eq!(all["facets"]["databases"], "captured");
    assert_eq!(files["facets"]["databases"], "not-asked");
    assert_eq!(files["facets"]["git"], "not-asked");
    assert!(place.content(id(&less), "d1/f1").is_none(), "its rules leave that out");
}

#[test]
fn fifty_hooks_at_once_make_a_handful_of_captures_and_none_fails() {
    let place = Place::gated();
    place.world.save("before");
    let before = place.captures();
    place.write("edited", "by the agent\n");
    let payload = |n: usize| {
        json!({
            "session_id": "one", "transcript_path": "/nowhere", "hook_event_name": "PostToolUse",
            "cwd": place.world.project.root(), "tool_name": "Write", "tool_use_id": format!("t{n}"),
            "tool_input": {"file_path": "edited"}, "tool_response": {"success": true}
        })
    };
    let leader = place.start_leader();
    let mut hooks = Vec::new();
    for n in 0..50 {
        let mut command = place.world.command(&["hook", "claude"]);
        command
            .env("CLAUDE_PROJECT_DIR", place.world.project.root())
            .env("CLAUDE_PID", std::process::id().to_string())
            .stdin(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(payload(n).to_string().as_bytes()).unwrap();
        hooks.push(child);
    }
    // Their budget is two seconds; the queue is longer. The workers stay.
    let outputs: Vec<Output> =
        hooks.into_iter().map(|hook| hook.wait_with_output().unwrap()).collect();
    assert!(outputs.iter().all(|output| output.status.success()));
    place.open();
    answer(leader);
    let working = place.world.home.join("hooks/working");
    until("the workers are done", || {
        std::fs::read_dir(&working).is_ok_and(|mut left| left.next().is_none())
    });
    let status = place.world.json_at_any_exit(&["status"]);
    assert!(!status.to_string().contains("could not"), "{status}");
    assert!(place.captures() - before <= 5, "{} captures", place.captures() - before);
    let latest = place.world.json(&["show", "latest"]);
    assert_eq!(place.content(id(&latest), "edited").as_deref(), Some("by the agent\n"));
    let session = place.world.json(&["session", "list"]);
    assert_eq!(session["sessions"].as_array().map(Vec::len), Some(1), "{session}");
}
