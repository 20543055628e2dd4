//! `rappel bisect`: the first checkpoint at which a command fails.

#![allow(clippy::unwrap_used, reason = "tests may")]

mod support;

use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Output;

use rappel_testing::project::snapshot;
use serde_json::Value;
use support::World;

/// Fails where the file has the fault.
const TEST: &str = "! grep -q fault code";

/// A project with a history, and a folder for what is needed for a while.
struct History {
    world: World,
    scratch: PathBuf,
}

impl History {
    /// So many checkpoints, the fault being in all from `first_bad` on.
    fn new(count: usize, first_bad: usize) -> Self {
        let world = World::new();
        let scratch = world.project.outside().join("scratch");
        std::fs::create_dir(&scratch).unwrap();
        let history = Self { world, scratch };
        for number in 1..=count {
            let fault = if number < first_bad { "" } else { "fault\n" };
            if number == first_bad {
                history.must(&["session", "start", "--session", "s"]);
                history.must(&["record", "prompt", "make it faster"]);
                let call = r#"{"file_path": "code"}"#;
                history.must(&["record", "tool", "Edit", "--input", call]);
            }
            history.world.write("code", &format!("{number}\n{fault}"));
            history.must(&["save", &format!("step {number}")]);
        }
        history
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.world.command(arguments).env("TMPDIR", &self.scratch).output().unwrap()
    }

    fn must(&self, arguments: &[&str]) {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
    }

    /// The number of the checkpoint with this message.
    fn step(&self, number: usize) -> String {
        let list = self.world.json(&["list", "1000", "--all"]);
        let message = format!("step {number}");
        let found = list["checkpoints"].as_array().unwrap();
        let found = found.iter().find(|one| one["description"] == message.as_str()).unwrap();
        found["id"].as_str().unwrap().to_owned()
    }

    /// Searches over all of it with a line of shell.
    fn bisect(&self, count: usize, line: &str) -> Output {
        let (good, bad) = (self.step(1), self.step(count));
        self.run(&["bisect", &good, &bad, "--json", "--", "sh", "-c", line])
    }

    fn goes_on(&self) -> Output {
        self.run(&["bisect", "--continue", "--json"])
    }

    /// Asserts that nothing of a search is left.
    fn assert_clean(&self) {
        assert_eq!(std::fs::read_dir(&self.scratch).unwrap().count(), 0);
        assert_eq!(self.goes_on().status.code(), Some(3));
    }

    /// A file beside the workspace.
    fn beside(&self, name: &str) -> String {
        self.world.project.outside().join(name).to_str().unwrap().to_owned()
    }
}

fn answer(output: &Output) -> Value {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn words(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_planted_fault_is_found_among_200_checkpoints() {
    let history = History::new(200, 137);
    let world = &history.world;
    world.write("code", "200\nfault\nnot saved\n");
    let before = (snapshot(world.project.root()), world.json(&["list", "1"])["total"].clone());
    let found = answer(&history.bisect(200, &format!("touch left; echo noise; {TEST}")));
    assert_eq!(found["first_bad"], history.step(137).as_str());
    assert_eq!(found["last_good"], history.step(136).as_str());
    assert_eq!(found["culprit"]["checkpoint"]["description"], "step 137");
    assert_eq!(found["culprit"]["session"], "s");
    assert_eq!(found["culprit"]["prompt"], "make it faster");
    assert_eq!(found["culprit"]["tool_calls"][0]["tool"], "Edit");
    assert_eq!(found["culprit"]["diff"]["files"]["modified"], serde_json::json!(["code"]));
    let tested = found["tested"].as_array().unwrap();
    assert!(tested.len() <= 12, "{} runs", tested.len());
    // The workspace is as it was, and so is its history.
    assert_eq!(
        before,
        (snapshot(world.project.root()), world.json(&["list", "1"])["total"].clone())
    );
    history.assert_clean();

    let (good, bad) = (history.step(1), history.step(200));
    let told = history.run(&["bisect", &good, &bad, "--", "sh", "-c", TEST]);
    let text = String::from_utf8(told.stdout).unwrap();
    for words in ["First bad checkpoint:", "\"step 137\"", "make it faster", "Edit: code", "+fault"]
    {
        assert!(text.contains(words), "{words}:\n{text}");
    }
}

#[test]
fn a_command_that_answers_by_chance_is_noticed() {
    let history = History::new(10, 10);
    // From the fifth on, it fails the first time that it is asked.
    let seen = history.beside("seen");
    let line = format!(
        "grep -q fault code && exit 1; n=$(cat code); [ -e {seen}-$n ] && exit 0; \
         touch {seen}-$n; [ $n -lt 5 ]"
    );
    let output = history.bisect(10, &line);
    assert_eq!(output.status.code(), Some(1));
    assert!(words(&output).contains("contradicts itself"), "{}", words(&output));
    assert!(words(&output).contains(&history.step(5)), "{}", words(&output));
    history.assert_clean();

    let output = history.bisect(10, "false");
    assert_eq!(output.status.code(), Some(1));
    assert!(words(&output).contains("fails at"), "{}", words(&output));
    let output = history.bisect(10, "true");
    assert!(words(&output).contains("succeeds at"), "{}", words(&output));
    history.assert_clean();
}

#[test]
fn a_killed_search_goes_on_where_it_was() {
    let history = History::new(30, 21);
    let runs = history.beside("runs");
    let count = || std::fs::read_to_string(&runs).unwrap().lines().count();
    let line = |kill_at: usize| {
        format!("echo run >> {runs}; [ $(wc -l < {runs}) = {kill_at} ] && kill -9 $PPID; {TEST}")
    };
    let killed = history.bisect(30, &line(4));
    assert_eq!(killed.status.signal(), Some(9));
    assert_eq!(std::fs::read_dir(&history.scratch).unwrap().count(), 1);
    // Nobody begins another one over it.
    let other = history.bisect(30, TEST);
    assert_eq!(other.status.code(), Some(7), "{}", words(&other));
    let found = answer(&history.goes_on());
    assert_eq!(found["first_bad"], history.step(21).as_str());
    // One answer was lost, and no more.
    assert_eq!(count(), found["tested"].as_array().unwrap().len() + 1);
    history.assert_clean();

    std::fs::remove_file(&runs).unwrap();
    assert_eq!(history.bisect(30, &line(3)).status.signal(), Some(9));
    history.must(&["bisect", "--abort"]);
    history.assert_clean();
    history.must(&["bisect", "--abort"]);
    history.must(&["verify"]);
}

#[test]
fn a_search_that_is_asked_to_stop_can_go_on() {
    let history = History::new(10, 4);
    let stopped = history.beside("stopped");
    let line = format!("[ -e {stopped} ] || kill -INT $PPID; touch {stopped}; {TEST}");
    let output = history.bisect(10, &line);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(words(&output).contains("--continue"), "{}", words(&output));
    assert_eq!(answer(&history.goes_on())["first_bad"], history.step(4).as_str());
    history.assert_clean();
}

#[test]
fn only_what_the_bad_one_comes_from_is_tested() {
    let history = History::new(4, 3);
    // Steps 3 and 4 are given up: the work goes on from the second.
    history.must(&["restore", &history.step(2), "--confirm"]);
    for number in 5..=8 {
        let fault = if number < 7 { "" } else { "fault\n" };
        history.world.write("code", &format!("{number}\n{fault}"));
        history.must(&["save", &format!("step {number}")]);
    }
    let found = answer(&history.bisect(8, TEST));
    assert_eq!(found["first_bad"], history.step(7).as_str());
    let tested = found["tested"].to_string();
    assert!(!tested.contains(&history.step(3)) && !tested.contains(&history.step(4)), "{tested}");
    let abandoned = history.step(4);
    let bad = history.step(8);
    let output = history.run(&["bisect", &abandoned, &bad, "--", "true"]);
    assert_eq!(output.status.code(), Some(2), "{}", words(&output));
    assert!(words(&output).contains("does not come from"), "{}", words(&output));
}

#[test]
fn a_checkpoint_that_was_deleted_meanwhile_is_passed_over() {
    let history = History::new(9, 6);
    let line = format!("[ $(head -1 code) = 5 ] && kill -9 $PPID; {TEST}");
    assert_eq!(history.bisect(9, &line).status.signal(), Some(9));
    let gone = history.step(5);
    history.must(&["delete", &gone, "--confirm"]);
    let output = history.goes_on();
    assert_eq!(output.status.code(), Some(1), "{}", words(&output));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["skipped"], serde_json::json!([gone]));
    assert_eq!(found["first_bad"], history.step(6).as_str());
}

#[test]
fn exit_codes_mean_what_they_mean_in_git() {
    let history = History::new(20, 12);
    // 125: cannot be tested. The fault may have come with any of those.
    let line = format!("n=$(head -1 code); [ $n -ge 9 ] && [ $n -le 13 ] && exit 125; {TEST}");
    let output = history.bisect(20, &line);
    assert_eq!(output.status.code(), Some(1));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["last_good"], history.step(8).as_str());
    assert_eq!(found["first_bad"], history.step(14).as_str());
    assert_eq!(found["skipped"].as_array().unwrap().len(), 5);
    let output = history.bisect(20, "exit 125");
    assert!(words(&output).contains("cannot be tested"), "{}", words(&output));
    history.assert_clean();

    // 128 and more, and what cannot be started, stop the search; it can go on.
    let broken = history.beside("broken");
    std::fs::write(&broken, "").unwrap();
    let line = format!("[ -e {broken} ] && exit 130; {TEST}");
    let output = history.bisect(20, &line);
    assert_eq!(output.status.code(), Some(1));
    assert!(words(&output).contains("exit code 130"), "{}", words(&output));
    std::fs::remove_file(&broken).unwrap();
    assert_eq!(answer(&history.goes_on())["first_bad"], history.step(12).as_str());
    let (good, bad) = (history.step(1), history.step(20));
    let output = history.run(&["bisect", &good, &bad, "--", "./not-there"]);
    assert!(words(&output).contains("cannot run ./not-there"), "{}", words(&output));
    history.must(&["bisect", "--abort"]);
    history.assert_clean();
    // The older one comes first.
    let output = history.run(&["bisect", &bad, &good, "--", "true"]);
    assert_eq!(output.status.code(), Some(2), "{}", words(&output));
}

#[test]
fn two_searches_of_a_workspace_do_not_meet() {
    let history = History::new(4, 3);
    let (rappel, root) = (env!("CARGO_BIN_EXE_rappel"), history.world.project.root().display());
    let code = history.beside("code-of-the-other");
    let line = format!("{rappel} -C {root} bisect --abort; echo $? >> {code}; {TEST}");
    assert_eq!(answer(&history.bisect(4, &line))["first_bad"], history.step(3).as_str());
    let codes = std::fs::read_to_string(code).unwrap();
    assert!(codes.lines().all(|code| code == "5"), "{codes}");
}
