//! Long answers on a terminal go through a pager, and the pager decides nothing but what is seen.

#![allow(clippy::unwrap_used, reason = "tests may")]

mod support;

use std::fmt::Write as _;

use support::World;
use support::terminal::{OnTerminal, Shown};

/// What a pager of these tests says before what it shows.
const MARK: &str = "PAGED";

/// A project whose diff, list, log and show are longer than 24 lines, with a pager that shows
/// itself.
fn long() -> World {
    let world = World::new();
    for number in 0..12 {
        world.write("a.txt", &format!("version {number}\n"));
        world.json(&["save", &format!("number {number}"), "--meta", "key=value"]);
    }
    let body = (0..60).fold(String::new(), |mut text, line| {
        let _ = writeln!(text, "line {line}");
        text
    });
    world.write("a.txt", &body);
    let long = (0..30).map(|line| format!("word {line}")).collect::<Vec<_>>().join("\n");
    world.save(&long);
    world.write("a.txt", "short again\n");
    let script = world.project.outside().join("pager");
    std::fs::write(&script, format!("#!/bin/sh\necho {MARK} \"$@\"\nexec cat\n")).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&script, mode).unwrap();
    world
}

/// What the terminal shows with that pager and these variables.
fn shown(world: &World, arguments: &[&str], variables: &[(&str, &str)]) -> Shown {
    let mut command = world.command(arguments);
    command.env("PAGER", world.project.outside().join("pager"));
    for (name, value) in variables {
        command.env(name, value);
    }
    OnTerminal::start(command).watch(|_, _, _| {})
}

#[test]
fn long_answers_go_through_the_users_pager() {
    let world = long();
    for arguments in [
        &["diff"][..],
        &["list"],
        &["log", "a.txt"],
        &["show"],
        &["cp", "list"],
        &["diff", "1", "2"],
    ] {
        let shown = shown(&world, arguments, &[]);
        // Two checkpoints with one changed line need no pager.
        let is_short = arguments == ["diff", "1", "2"];
        assert_eq!(shown.text.starts_with(MARK), !is_short, "{arguments:?}: {}", shown.text);
        assert_eq!(shown.code, 0, "{arguments:?}");
        let plain = world.run(arguments).stdout;
        let rest =
            shown.text.split_once(&format!("{MARK}\n")).map_or(&*shown.text, |(_, rest)| rest);
        let without_ages = |text: &str| text.lines().filter(|line| !line.contains("ago")).count();
        assert_eq!(without_ages(rest), without_ages(&String::from_utf8(plain).unwrap()));
    }
}

#[test]
fn without_a_pager_of_the_users_less_is_asked_to_leave_short_answers_alone() {
    let world = long();
    std::fs::rename(world.project.outside().join("pager"), world.project.outside().join("less"))
        .unwrap();
    let mut command = world.command(&["diff"]);
    let folders = [world.project.outside().to_owned(), "/usr/bin".into(), "/bin".into()];
    command.env("PATH", std::env::join_paths(folders).unwrap());
    let shown = OnTerminal::start(command).watch(|_, _, _| {});
    assert!(shown.text.starts_with(&format!("{MARK} -FRX\n")), "{}", shown.text);
}

#[test]
fn a_pager_is_for_people_at_a_terminal_only() {
    let world = long();
    for (variables, arguments) in [
        (&[("PAGER", "")][..], &["diff"][..]),
        (&[], &["diff", "--no-pager"]),
        (&[], &["--no-pager", "list"]),
        (&[], &["list", "--json"]),
        (&[("CI", "true")], &["diff"]),
        (&[("TERM", "dumb")], &["diff"]),
        (&[("CLAUDECODE", "1")], &["diff"]),
        (&[("CODEX_THREAD_ID", "x")], &["diff"]),
        (&[], &["status"]),
        (&[], &["help", "--all"]),
    ] {
        let shown = shown(&world, arguments, variables);
        assert!(!shown.text.contains(MARK), "{arguments:?} {variables:?}: {}", shown.text);
    }
    // Nor if one end is no terminal.
    let mut command = world.command(&["diff"]);
    command.env("PAGER", world.project.outside().join("pager")).env("TERM", "xterm");
    let output = command.output().unwrap();
    assert!(!String::from_utf8(output.stdout).unwrap().contains(MARK));
}

#[test]
fn arguments_of_a_pager_and_the_shells_syntax_are_heeded() {
    let world = long();
    let pager = world.project.outside().join("pager");
    let pager = pager.to_str().unwrap();
    let with_arguments = format!("{pager} --one two");
    let found = shown(&world, &["diff"], &[("PAGER", &with_arguments)]);
    assert!(found.text.starts_with(&format!("{MARK} --one two\n")), "{}", found.text);
    let piped = format!("{pager} | sed 's/line/LINE/'");
    let found = shown(&world, &["diff"], &[("PAGER", &piped)]);
    assert!(found.text.contains("-LINE 7\n") && found.code == 0, "{}", found.text);
}

#[test]
fn the_exit_code_stays_that_of_the_command() {
    let world = long();
    // More than a pipe holds, so that the answer is cut when the pager ends.
    let lines = (0..40_000).fold(String::new(), |mut text, line| {
        let _ = writeln!(text, "line {line}");
        text
    });
    world.write("large.txt", &lines);
    for pager in ["head -n 1", "false", "sh -c 'exit 3'"] {
        for arguments in [&["diff"][..], &["list"]] {
            let shown = shown(&world, arguments, &[("PAGER", pager)]);
            assert_eq!(shown.code, 0, "{pager} {arguments:?}: {}", shown.text);
            assert!(!shown.text.contains("error"), "{pager}: {}", shown.text);
        }
    }
    let failed = shown(&world, &["diff", "99"], &[]);
    assert_eq!(failed.code, 3, "{}", failed.text);
}

#[test]
fn a_pager_that_is_missing_is_none() {
    let world = long();
    for pager in ["/no/such/pager", "no-such-pager -x", "no-such-pager | cat -v 'x'; exit 127"] {
        let shown = shown(&world, &["diff"], &[("PAGER", pager)]);
        assert_eq!(shown.code, 0, "{pager}: {}", shown.text);
        assert!(shown.text.contains("-line 59\n"), "{pager}: {}", shown.text);
    }
    // Nor is there one to fall back on.
    let mut command = world.command(&["diff"]);
    command.env("PATH", world.project.outside());
    let shown = OnTerminal::start(command).watch(|_, _, _| {});
    assert!(shown.code == 0 && shown.text.contains("-line 59\n"), "{}", shown.text);
}
