//! `rappel replay`: stepping through the past, for people and for programs.

#![allow(clippy::unwrap_used, reason = "tests may")]

mod support;

use rappel_testing::snapshot;
use rustix::process::{Pid, kill_process};
use std::io::Write;
use support::World;
use support::pty::resize;
use support::terminal::{Shown, Signal};

/// Given a session that guessed, ran a command and changed files, and a checkpoint of it.
fn worked() -> (World, String) {
    let world = World::new();
    world.json(&[
        "session",
        "start",
        "--session",
        "s1",
        "--provider",
        "claude",
        "--task",
        "Mend login",
    ]);
    let record = |arguments: &[&str]| {
        world.json(&[&["record"], arguments, &["--session", "s1"]].concat());
    };
    record(&["thought", "the cookie is not sent"]);
    record(&["command", "cargo test", "--exit-code", "101", "--stderr", "it failed"]);
    world.write("src/login.rs", "// mended\n");
    record(&["note", "almost there"]);
    let id =
        world.json(&["save", "Login works", "--session", "s1"])["id"].as_str().unwrap().to_owned();
    (world, id)
}

fn step(world: &World, arguments: &[&str]) -> serde_json::Value {
    world.json(&[&["replay"], arguments].concat())
}

#[test]
fn programs_go_forward_and_back_from_where_they_stand() {
    let (world, id) = worked();
    let all = step(&world, &[&id]);
    assert_eq!(all["read_only"], true);
    assert_eq!((&all["checkpoint"], &all["session"]), (&id.as_str().into(), &"s1".into()));
    assert_eq!(all["position"], 1);
    let total = all["total"].as_u64().unwrap();
    assert_eq!(all["steps"].as_array().unwrap().len() as u64, total);

    let second = step(&world, &["--step", "+1"]);
    assert_eq!(second["step"]["number"], 2);
    assert_eq!(step(&world, &["--step", "+1"])["step"]["number"], 3);
    assert_eq!(step(&world, &["--step", "-2"])["step"]["number"], 1);
    assert_eq!(
        step(&world, &["--step", "-2"])["step"]["number"],
        1,
        "the beginning is the end of that"
    );
    let last = step(&world, &[&id, "--step", &total.to_string()]);
    assert_eq!(last["step"]["number"], total);
    assert_eq!(step(&world, &["--step", "+1"])["step"]["number"], total);

    assert_eq!(step(&world, &["--exit"])["exited"], true);
    let over = world.run(&["replay", "--step", "+1"]);
    assert_eq!(over.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&over.stderr).contains("no replay is under way"));
}

#[test]
fn a_step_comes_with_the_agents_the_memory_and_the_files_of_then() {
    let (world, id) = worked();
    let steps = step(&world, &[&id])["steps"].clone();
    let number = |kind: &str| {
        let found = steps.as_array().unwrap().iter().find(|step| step["kind"] == kind).unwrap();
        found["number"].to_string()
    };
    let flags = ["--agents", "--memory", "--files"];
    let at =
        |kind: &str| step(&world, &[&[id.as_str(), "--step", &number(kind)], &flags[..]].concat());
    let thought = at("thought");
    assert_eq!(thought["step"]["title"], "thought (reasoning): the cookie is not sent");
    assert_eq!(thought["agents"][0]["task"], "Mend login");
    assert_eq!(thought["memory"]["command_history"].as_array().unwrap().len(), 0);
    let has = |answer: &serde_json::Value, path: &str| {
        answer["files"]["entries"].as_array().unwrap().iter().any(|entry| entry["path"] == path)
    };
    assert!(!has(&thought, "src/login.rs") && has(&thought, "a.txt"));
    let command = at("command");
    assert_eq!(command["memory"]["command_history"][0]["exit_code"], 101);
    let files = at("files");
    assert_eq!(files["step"]["title"], "files: 1 new");
    assert!(has(&files, "src/login.rs"));
    let of = |step: &serde_json::Value| step["files"]["checkpoint"] == id.as_str();
    let made = steps.as_array().unwrap().iter().rfind(|step| step["kind"] == "checkpoint").unwrap();
    let made = step(&world, &[&[&id, "--step", &made["number"].to_string()], &flags[..]].concat());
    assert!(of(&files) && of(&made) && has(&made, "src/login.rs"), "{made}");

    let beyond = world.run(&["replay", &id, "--step", "99"]);
    assert_eq!(beyond.status.code(), Some(3));
    let text = String::from_utf8_lossy(&beyond.stderr).into_owned();
    assert!(
        text.contains("there is no step 99") && text.contains("hint: steps are 1 to "),
        "{text}"
    );
    assert_eq!(world.run(&["replay", &id, "--step", "x"]).status.code(), Some(2));
    assert_eq!(world.run(&["replay", "chk_20200101_000000_aaaa"]).status.code(), Some(3));
}

#[test]
fn people_are_told_that_it_is_read_only() {
    let (world, id) = worked();
    let shown = String::from_utf8(world.run(&["replay", &id]).stdout).unwrap();
    assert!(shown.contains("Read-only: nothing is changed."), "{shown}");
    assert!(shown.contains("thought (reasoning): the cookie is not sent"), "{shown}");
    assert!(shown.contains("[101] cargo test"), "{shown}");
    let next =
        String::from_utf8(world.run(&["replay", "--step", "+1", "--memory"]).stdout).unwrap();
    assert!(next.contains("Step 2 of "), "{next}");
    assert!(next.contains("Task: Mend login"), "{next}");
    assert!(next.contains("s1 at event 2, +00:00:"), "{next}");
    assert!(shown.contains("\n1  +00:00:00  session started by claude\n"), "{shown}");
    assert!(!shown.contains("just now") && !next.contains("just now"), "{shown}{next}");
}

#[test]
fn everything_is_left_as_it_was() {
    let (world, id) = worked();
    let index = || {
        let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
        let path = world.home.join("index.db");
        let index = rusqlite::Connection::open_with_flags(path, flags).unwrap();
        let count = |table: &str| -> u64 {
            index.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
        };
        ["checkpoint", "event", "session", "snapshot", "held", "document"].map(count)
    };
    let seen = || {
        let home = ["packs", "intents"].map(|part| snapshot(&world.home.join(part)));
        (snapshot(world.project.root()), home, index())
    };
    let before = seen();
    step(&world, &[&id, "--step", "3", "--agents", "--memory", "--files"]);
    step(&world, &["--step", "-1"]);
    let shown = world.on_terminal(&["replay", &id], &[("read-only", "jjmfaGgq")]);
    assert!(shown.code == 0 && given_back(&shown), "{shown:?}");
    step(&world, &["--exit"]);
    assert_eq!(seen(), before);
}

#[test]
fn on_a_terminal_it_takes_the_whole_screen_and_gives_it_back() {
    let (world, id) = worked();
    for keys in ["jmq", "j\u{4}", "/x\u{4}", "\u{3}"] {
        let shown = world.on_terminal(&["replay", &id], &[("read-only", keys)]);
        assert_eq!(shown.code, 0, "{keys:?}: {}", shown.text);
        assert!(given_back(&shown), "{keys:?}: {shown:?}");
    }
}

#[test]
fn a_terminal_that_is_closed_ends_it() {
    let (world, id) = worked();
    assert_eq!(world.start_on_terminal(&["replay", &id]).hang_up("read-only"), 0);
}

#[test]
fn a_terminal_of_another_size_is_drawn_anew() {
    let (world, id) = worked();
    let (mut drawn, mut left) = (None, false);
    let shown = world.start_on_terminal(&["replay", &id]).watch(|text, mut master, child| {
        // The last word of the screen.
        let whole = |text: &str| text.contains("exit");
        match drawn {
            None if whole(text) => {
                drawn = Some(text.len());
                resize(master, 100, 30);
                kill_process(Pid::from_child(child), Signal::WINCH).unwrap();
            }
            Some(before) if !left && whole(&text[before..]) => {
                left = true;
                master.write_all(b"q").unwrap();
            }
            _ => {}
        }
    });
    assert!(left && given_back(&shown), "{shown:?}");
    assert!(shown.text.contains("\u{1b}[30;1H"), "down to the last line: {shown:?}");
}

#[test]
fn a_signal_ends_it_as_ever_once_the_screen_is_given_back() {
    let (world, id) = worked();
    for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
        let shown = world.signalled_on_terminal(&["replay", &id], "read-only", signal);
        assert_eq!(shown.code, -1, "{signal:?} ended it");
        assert!(given_back(&shown), "{signal:?}: {shown:?}");
    }
}

/// Whether the terminal was taken over, the other screen entered, and all of that taken back.
fn given_back(shown: &Shown) -> bool {
    let (entered, left) = (shown.text.find("\u{1b}[?1049h"), shown.text.rfind("\u{1b}[?1049l"));
    entered.is_some() && left > entered && shown.changed && shown.as_before
}
