//! The real binary on real repositories: killed at any moment of a restore, or without a git program.
//!
//! A few rounds here; `RAPPEL_CRASH_ROUNDS` asks for more.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rappel_testing::git::{attempt, git};
use rappel_testing::project::{Snapshot, Thing};
use rappel_testing::{Project, snapshot};
use serde_json::Value;

/// Everything of a work tree that counts; of a repository that is gone, the files.
#[derive(Debug, Clone, PartialEq)]
struct Portrait {
    files: Snapshot,
    /// What git says of it.
    said: Vec<String>,
    /// Logs, index, unfinished operations.
    inside: BTreeMap<String, Thing>,
}

fn portrait(folder: &Path) -> Portrait {
    let (mut files, mut inside) = (Snapshot::new(), BTreeMap::new());
    for (path, thing) in snapshot(folder) {
        match path.strip_prefix(".git/") {
            None if path == ".git" => {}
            None => drop(files.insert(path, thing)),
            Some(rest) => {
                let first = rest.split('/').next().unwrap_or_default();
                let is_file = matches!(thing, Thing::File { .. });
                if is_file && !["objects", "refs", "packed-refs", "info"].contains(&first) {
                    inside.insert(rest.to_owned(), thing);
                }
            }
        }
    }
    let questions: [&[&str]; 6] = [
        &["for-each-ref"],
        &["symbolic-ref", "-q", "HEAD"],
        &["ls-files", "--stage"],
        &["status", "--porcelain=v2", "--untracked-files=all"],
        &["stash", "list"],
        &["fsck", "--no-dangling", "--no-progress"],
    ];
    let said = questions.map(|question| {
        let answer = attempt(folder, question);
        let gone = answer.status.code() == Some(128);
        format!("{question:?}: {}{gone}", String::from_utf8_lossy(&answer.stdout))
    });
    Portrait { files, said: said.into(), inside }
}

/// The work tree, and the linked one if it is there.
type State = (Portrait, Option<Portrait>);

struct World {
    project: Project,
    home: PathBuf,
    linked: PathBuf,
    random: u64,
    damages: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let project = Project::new();
        let (home, linked) = (project.outside().join("home"), project.outside().join("linked"));
        let world = Self { project, home, linked, random: seed * 2 + 1, damages: 0 };
        let root = world.root();
        git(root, &["init", "-q"]);
        for n in 0..12 {
            world.write(&format!("d{}/f{n}", n % 3), &format!("{n}\n").repeat(n));
            git(root, &["add", "."]);
            git(root, &["commit", "-q", "-m", &format!("commit {n}")]);
            if n % 3 == 0 {
                git(root, &["branch", &format!("b{n}")]);
            }
        }
        world.write("d0/f0", "stashed\n");
        git(root, &["stash", "push", "-q"]);
        git(root, &["worktree", "add", "-q", "-b", "linked", world.linked.to_str().unwrap()]);
        std::fs::write(world.linked.join("dirty"), "dirty\n").unwrap();
        world.write("staged", "staged\n");
        git(root, &["add", "staged"]);
        world.write("staged", "staged and changed\n");
        world
    }

    fn root(&self) -> &Path {
        self.project.root()
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.project.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn roll(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % below
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rappel"));
        command
            .arg("--json")
            .args(arguments)
            .current_dir(self.root())
            .env("RAPPEL_HOME", &self.home)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs it; a git that outlived its killed parent may hold a lock for a moment.
    fn must(&self, arguments: &[&str]) -> Value {
        for _ in 0..200 {
            let output = self.command(arguments).output().unwrap();
            let errors = String::from_utf8_lossy(&output.stderr);
            if output.status.code() == Some(5) {
                continue;
            }
            assert!(output.status.success(), "{arguments:?}: {errors}");
            return serde_json::from_slice(&output.stdout).unwrap();
        }
        panic!("{arguments:?}: busy for good");
    }

    /// Starts it and kills it in the later part of the given time.
    fn kill(&mut self, arguments: &[&str], most_us: u64) {
        let delay = Duration::from_micros(most_us / 3 + self.roll(most_us * 2 / 3 + 1));
        let mut child = self.command(arguments).spawn().unwrap();
        std::thread::sleep(delay);
        child.kill().unwrap();
        child.wait_with_output().unwrap();
    }

    fn now(&self) -> State {
        let there = self.linked.exists().then(|| portrait(&self.linked));
        (portrait(self.root()), there)
    }

    /// Does the next of four kinds of damage.
    fn damage(&mut self) {
        let root = self.root().to_owned();
        let linked = self.linked.to_str().unwrap().to_owned();
        let kind = self.damages % 4;
        self.damages += 1;
        if kind == 0 {
            std::fs::remove_dir_all(root.join(".git")).unwrap();
            std::fs::remove_dir_all(&self.linked).unwrap();
            return;
        }
        git(&root, &["reset", "-q", "--hard", "HEAD~2"]);
        git(&root, &["branch", "-q", "-D", "b3"]);
        git(&root, &["branch", "-q", "-f", "b6", "HEAD~4"]);
        git(&root, &["stash", "clear"]);
        if kind == 1 {
            git(&root, &["worktree", "remove", "--force", &linked]);
            git(&root, &["branch", "-q", "-D", "linked"]);
        }
        if kind == 2 {
            git(&root, &["reflog", "expire", "--expire=all", "--expire-unreachable=all", "--all"]);
            git(&root, &["gc", "-q", "--prune=now"]);
        }
    }

    /// Ends what was killed on its way `from` one state `to` another, either way, killing that too.
    /// Counts 1 if there was something to end.
    fn end(&mut self, round: u64, most_us: u64, from: &State, to: &State) -> u64 {
        if self.unfinished() == 0 {
            let now = self.now();
            let expected = if now.0.said == to.0.said { to } else { from };
            assert_state(&now, expected, &format!("round {round}, nothing unfinished"));
            return 0;
        }
        let (way, expected) = match self.roll(2) {
            0 => ("--finish", to),
            _ => ("--rollback", from),
        };
        self.kill(&["recover", way], most_us);
        if self.unfinished() > 0 {
            self.must(&["recover", way]);
        }
        assert_state(&self.now(), expected, &format!("round {round}, {way}"));
        1
    }

    fn assert_nothing_left(&self) {
        let left = std::fs::read_dir(self.project.outside()).unwrap();
        for entry in left.chain(std::fs::read_dir(self.root()).unwrap()) {
            let name = entry.unwrap().file_name();
            assert!(!name.to_string_lossy().starts_with(".rappel-"), "{} is left", name.display());
        }
    }

    fn unfinished(&self) -> usize {
        self.must(&["recover"])["restores"].as_array().unwrap().len()
    }
}

fn assert_state(now: &State, expected: &State, told: &str) {
    assert_eq!(now.0.said, expected.0.said, "{told}");
    assert_eq!(now.0.files, expected.0.files, "{told}");
    let names = |of: &Portrait| of.inside.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&now.0), names(&expected.0), "{told}");
    for (name, thing) in &now.0.inside {
        if let (Thing::File { bytes, .. }, Thing::File { bytes: other, .. }) =
            (thing, &expected.0.inside[name])
        {
            assert_eq!(
                String::from_utf8_lossy(bytes),
                String::from_utf8_lossy(other),
                "{name}, {told}"
            );
        }
        assert_eq!(thing, &expected.0.inside[name], "{name}, {told}");
    }
    assert_eq!(now.1, expected.1, "{told}");
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn a_restore_killed_at_any_moment_is_finished_or_taken_back() {
    let mut world = World::new(setting("RAPPEL_CRASH_SEED", 20_261_116));
    let target = world.now();
    let id = world.must(&["save", "whole"])["id"].as_str().unwrap().to_owned();
    let mut interrupted = 0;
    // How long one takes here, so that the kills fall into it.
    world.damage();
    let start = std::time::Instant::now();
    world.must(&["restore", &id, "--confirm", "--worktree", "all"]);
    let most_us = start.elapsed().as_micros() as u64;
    for round in 0..setting("RAPPEL_CRASH_ROUNDS", 8) {
        world.damage();
        let before = world.now();
        world.kill(&["restore", &id, "--confirm", "--worktree", "all"], most_us);
        interrupted += world.end(round, most_us, &before, &target);
        world.must(&["restore", &id, "--confirm", "--worktree", "all"]);
        assert_state(&world.now(), &target, &format!("round {round}, restored"));
        world.assert_nothing_left();
    }
    println!("{interrupted} restores were interrupted");
}

#[test]
fn an_undo_killed_at_any_moment_is_finished_or_taken_back() {
    let mut world = World::new(setting("RAPPEL_CRASH_SEED", 20_261_117));
    let target = world.now();
    let id = world.must(&["save", "whole"])["id"].as_str().unwrap().to_owned();
    let (mut interrupted, mut most_us) = (0, 0);
    for round in 0..setting("RAPPEL_CRASH_ROUNDS", 8) {
        world.damage();
        let before = world.now();
        world.must(&["restore", &id, "--confirm", "--worktree", "all"]);
        assert_state(&world.now(), &target, &format!("round {round}, restored"));
        if round == 0 {
            let start = std::time::Instant::now();
            world.must(&["undo"]);
            most_us = start.elapsed().as_micros() as u64;
            assert_state(&world.now(), &before, "undone");
            world.must(&["redo"]);
            assert_state(&world.now(), &target, "redone");
        }
        world.kill(&["undo"], most_us);
        interrupted += world.end(round, most_us, &target, &before);
        world.assert_nothing_left();
        world.must(&["restore", &id, "--confirm", "--worktree", "all"]);
        assert_state(&world.now(), &target, &format!("round {round}, restored again"));
    }
    println!("{interrupted} undos were interrupted");
}

#[test]
fn what_the_user_has_traced_stays_out_of_it() {
    let world = World::new(2);
    let outside = world.project.outside();
    let (log, folder) = (outside.join("trace"), outside.join("traces"));
    std::fs::create_dir(&folder).unwrap();
    let config = outside.join("config");
    let text = format!("[trace2]\n\teventTarget = {0}\n\tnormalTarget = {0}\n", log.display());
    std::fs::write(&config, &text).unwrap();
    for name in ["trace2.eventTarget", "trace2.perfTarget"] {
        git(world.root(), &["config", name, log.to_str().unwrap()]);
    }
    let run = |arguments: &[&str]| {
        let mut command = world.command(arguments);
        for name in ["GIT_TRACE2", "GIT_TRACE2_EVENT", "GIT_TRACE2_PERF", "GIT_TRACE_SETUP"] {
            command.env(name, &log);
        }
        command.env("GIT_TRACE", &log).env("GIT_TRACE2_PARENT_SID", "x").env("HOME", outside);
        command.env("GIT_TRACE2_EVENT", &folder).env("GIT_CONFIG_GLOBAL", &config);
        let output = command.output().unwrap();
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {words}");
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    // A git that is not kept from it would leave a trace here.
    let id = run(&["save", "traced"])["id"].as_str().unwrap().to_owned();
    world.write("d1/f1", "more\n");
    git(world.root(), &["commit", "-q", "-a", "-m", "more"]);
    let _ = std::fs::remove_file(&log);
    run(&["save"]);
    run(&["restore", &id, "--confirm", "--only", "git"]);
    run(&["undo"]);
    run(&["status"]);
    let traces = std::fs::read_dir(&folder).unwrap().count();
    assert_eq!((log.exists(), traces), (false, 0));
}

#[test]
fn without_a_git_program_files_are_still_captured() {
    let world = World::new(1);
    let empty = world.project.outside().join("empty");
    std::fs::create_dir(&empty).unwrap();
    let run = |arguments: &[&str]| {
        let output = world.command(arguments).env("PATH", &empty).output().unwrap();
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        (output.status.code(), answer)
    };
    let (code, saved) = run(&["save", "without git"]);
    assert_eq!(code, Some(0));
    assert_eq!(
        (&saved["facets"]["files"], &saved["facets"]["git"]),
        (&"captured".into(), &"failed".into())
    );
    assert_eq!(saved["partial"], true);
    let reasons = saved["partial_reasons"].to_string();
    assert!(reasons.contains("git program is not installed"), "{reasons}");
    assert_eq!(saved["files"]["count"], 13);
    let (code, status) = run(&["status"]);
    assert_eq!((code, &status["state"]), (Some(1), &"degraded".into()), "{status}");

    // What was captured with git is restored without it as far as that goes.
    let whole = world.must(&["save", "with git"])["id"].as_str().unwrap().to_owned();
    let before = portrait(world.root());
    world.write("staged", "damaged\n");
    let (code, _) = run(&["restore", &whole, "--confirm"]);
    assert_eq!(code, Some(0));
    assert_eq!(portrait(world.root()), before);
}

/// What a power loss leaves: nothing, zeros, garbage, or a folder in its place.
#[test]
fn a_spoilt_head_is_told_and_put_back_and_never_sticks() {
    let world = World::new(3);
    let id = world.must(&["save", "whole"])["id"].as_str().unwrap().to_owned();
    let before = portrait(world.root());
    let head = world.root().join(".git/HEAD");
    let spoil = |way: &str| {
        std::fs::remove_file(&head).unwrap();
        match way {
            "empty" => std::fs::write(&head, "").unwrap(),
            "zeros" => std::fs::write(&head, [0; 21]).unwrap(),
            "garbage" => std::fs::write(&head, "\u{7f}x\u{1}y\n").unwrap(),
            _ => std::fs::create_dir(&head).unwrap(),
        }
    };
    for way in ["empty", "zeros", "garbage", "folder"] {
        spoil(way);
        world.write("d1/f1", way);
        let saved = world.must(&["save", way]);
        assert_eq!(saved["partial"], true, "{way}");
        let reasons = saved["partial_reasons"].to_string();
        assert!(reasons.contains("git cannot read HEAD"), "{way}: {reasons}");
        let status = world.command(&["status"]).output().unwrap();
        assert_eq!(status.status.code(), Some(1), "{way}");
        // The files alone do not need git.
        world.must(&["restore", &id, "--confirm", "--only", "files"]);
        assert_eq!(portrait(world.root()).files, before.files, "{way}");
        let plan = world.must(&["restore", &id, "--dry-run"]);
        let details = plan["details"].to_string();
        assert!(details.contains("HEAD: git cannot read it; it is put back"), "{way}: {details}");
        world.must(&["restore", &id, "--confirm"]);
        assert_eq!(portrait(world.root()), before, "{way}");
        world.must(&["undo"]);
        assert_eq!(head.is_dir(), way == "folder", "{way}");
        world.must(&["redo"]);
        assert_eq!(portrait(world.root()), before, "{way}");
    }
}

#[test]
fn without_a_git_program_a_plan_promises_nothing_of_git() {
    let world = World::new(4);
    let id = world.must(&["save", "whole"])["id"].as_str().unwrap().to_owned();
    git(world.root(), &["reset", "-q", "--hard", "HEAD~1"]);
    world.must(&["save", "moved"]);
    let empty = world.project.outside().join("empty");
    std::fs::create_dir(&empty).unwrap();
    let output =
        world.command(&["restore", &id, "--dry-run"]).env("PATH", &empty).output().unwrap();
    let plan: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(plan["details"], Value::Null, "{plan}");
    assert!(plan["warnings"].to_string().contains("git program is not installed"), "{plan}");
    let actions = plan["actions"].as_array().unwrap();
    assert!(actions.iter().all(|one| one["facet"] != "git"), "{plan}");
    let tip = attempt(world.root(), &["rev-parse", "HEAD"]).stdout;
    let done = world.command(&["restore", &id, "--confirm"]).env("PATH", &empty).output().unwrap();
    assert_eq!(done.status.code(), Some(0), "{}", String::from_utf8_lossy(&done.stderr));
    assert_eq!(attempt(world.root(), &["rev-parse", "HEAD"]).stdout, tip);
}
