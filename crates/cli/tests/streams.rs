//! How it behaves on pipes, terminals and signals.

#![allow(clippy::unwrap_used, reason = "tests may")]

mod support;

use std::io::Read;
use std::time::{Duration, Instant};

use rappel_testing::Project;
use rustix::process::{Pid, Signal, kill_process};
use support::World;

#[test]
fn a_closed_pipe_is_no_error() {
    let long = support::noise(300_000);
    let world = World::of(Project::new().file("long.txt", &long));
    world.save("first");
    for arguments in [&["cat", "latest:long.txt"][..], &["list"], &["--version"], &["help"]] {
        let mut child = world.command(arguments).spawn().unwrap();
        let mut start = [0; 1];
        let mut stdout = child.stdout.take().unwrap();
        stdout.read_exact(&mut start).unwrap();
        drop(stdout);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{arguments:?}");
    }
}

#[test]
fn colours_are_for_those_who_want_them() {
    let world = World::new();
    world.save("first");
    let coloured = |arguments: &[&str], variable: Option<&str>| {
        let mut command = world.command(arguments);
        if let Some(name) = variable {
            command.env(name, "1");
        }
        command.output().unwrap().stdout.contains(&0x1b)
    };
    assert!(!coloured(&["list"], None), "a pipe is no terminal");
    assert!(coloured(&["list", "--color", "always"], None));
    assert!(!coloured(&["list", "--color", "never"], None));
    assert!(!coloured(&["list"], Some("NO_COLOR")));
}

#[test]
fn text_from_elsewhere_cannot_steer_the_terminal() {
    let world = World::new();
    world.save("\u{1b}[2Jgone\nsecond line");
    assert_face!(world, "hostile_message", "list");
}

#[test]
fn odd_names_are_escaped_and_can_be_given_back() {
    let world = World::of(
        Project::new()
            .file(b"caf\xe9\n", "x")
            .mode(b"caf\xe9\n", 0o644)
            .file(b"back\\slash", "y")
            .mode(b"back\\slash", 0o600),
    );
    world.save("odd");
    assert_face!(world, "odd_names", "show", "latest", "--files");
    assert_eq!(world.run(&["cat", r"latest:caf\xe9\x0a"]).stdout, b"x");
    std::fs::remove_file(world.project.path(b"caf\xe9\n")).unwrap();
    let output = world.run(&["restore", "latest", "--path", r"caf\xe9\x0a", "-y"]);
    assert!(output.status.success());
    assert!(world.project.path(b"caf\xe9\n").exists());
}

#[test]
fn a_terminal_is_asked() {
    let world = World::new();
    world.save("first");
    world.write("a.txt", "changed\n");
    let shown = world.on_terminal(&["restore", "latest"], &[("[y/N]", "n\n")]);
    assert_eq!(shown.code, 4);
    assert!(shown.text.contains("nothing was changed"), "{}", shown.text);
    assert_eq!(world.read("a.txt"), "changed\n");
    let shown = world.on_terminal(&["restore", "latest"], &[("[y/N]", "y\n")]);
    assert_eq!(shown.code, 0, "{}", shown.text);
    assert!(shown.text.contains("Overwrite:\n  ~ a.txt"), "{}", shown.text);
    assert_eq!(world.read("a.txt"), "one\ntwo\nthree\n");
}

#[test]
fn deleting_is_asked_about_too() {
    let world = World::new();
    world.save("first");
    let shown = world.on_terminal(&["delete", "1"], &[("Delete it? [y/N]", "\n")]);
    assert_eq!(shown.code, 4);
    assert_eq!(world.json(&["list"])["total"], 1);
}

#[test]
fn hunks_are_picked_on_a_terminal() {
    let lines = (0..40).map(|n| format!("line {n}\n")).collect::<Vec<_>>().concat();
    let world = World::of(Project::new().file("a.txt", &lines).file("b.txt", "b\n"));
    world.save("first");
    let edited = lines.replace("line 3\n", "three\n").replace("line 30\n", "thirty\n");
    world.write("a.txt", &edited);
    world.remove("b.txt");
    let ask = "Take this back [y,n,a,d,q,?]? ";
    let shown = world.on_terminal(
        &["restore", "latest", "--patch"],
        &[(ask, "?\n"), (ask, "y\n"), (ask, "n\n"), (ask, "n\n")],
    );
    assert_eq!(shown.code, 0, "{}", shown.text);
    assert_eq!(world.read("a.txt"), lines.replace("line 30\n", "thirty\n"));
    assert!(!world.project.path("b.txt").exists());
}

#[test]
fn an_interrupted_save_stops_soon_and_leaves_nothing() {
    let world = World::of(Project::new());
    let big = std::fs::File::create(world.project.path("big.bin")).unwrap();
    big.set_len(200 << 20).unwrap();
    let child = world.command(&["save"]).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(60));
    let start = Instant::now();
    let id = Pid::from_child(&child);
    kill_process(id, Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    let total = world.json(&["list"])["total"].as_u64().unwrap();
    // A save that was quicker than the signal is there; any other left nothing.
    assert_eq!(total, u64::from(output.status.success()));
}

#[test]
fn help_is_grouped_and_complete() {
    let world = World::new();
    assert_face!(world, "help", "help");
    assert_eq!(world.face(&["--help"]), world.face(&["help"]));
    assert_eq!(world.face(&["help"]), world.shown_without_arguments());
    assert_face!(world, "help_all", "help", "--all");
    assert_face!(world, "help_restore", "restore", "-h");
    assert_face!(world, "help_unknown", "help", "xyzzy");
    assert_eq!(world.run(&["help", "cp", "create"]).status.code(), Some(0));
    let version = world.run(&["--version"]);
    assert!(version.stdout.starts_with(b"rappel "));
    for shell in ["bash", "zsh", "fish"] {
        let script = world.run(&["completions", shell]).stdout;
        assert!(String::from_utf8_lossy(&script).contains("restore"), "{shell}");
    }
}

impl World {
    fn shown_without_arguments(&self) -> String {
        self.face(&[])
    }
}
