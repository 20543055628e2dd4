//! How it behaves on pipes, terminals and signals.

#![allow(clippy::unwrap_used, reason = "tests may")]

mod support;

use std::io::{BufRead, Read};
use std::time::{Duration, Instant};

use rappel_testing::killed::{Step, Steps};
use rappel_testing::{Project, cannot_run};
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
fn messages_of_several_lines_are_shown_as_a_whole() {
    let world = World::new();
    world.save("Before Stripe\n\n- keys are in \u{1b}[1mthe vault\n- tests pass\n");
    assert_face!(world, "long_message", "show", "latest");
    world.write("a.txt", "changed\n");
    world.json(&["save", " \n\t"]);
    let blank = world.json(&["show", "latest"]);
    assert_eq!(blank["description"], serde_json::Value::Null);
    assert_eq!(blank["sequence"], 2);
    assert_face!(world, "blank_message_adds_nothing", "save", "  ");
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
    let json = world.json(&["show", "latest", "--files"]);
    let names: Vec<_> =
        json["entries"].as_array().unwrap().iter().map(|entry| &entry["path"]).collect();
    assert_eq!(names, [r"back\\slash", "caf\\xe9\n"]);
    let held = world.json(&["cat", "latest:caf\\xe9\n"]);
    assert_eq!(held, serde_json::json!({"path": "caf\\xe9\n", "bytes": 1, "content": "x"}));
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
    assert!(shown.text.ends_with("Go ahead? [y/N] n\nNothing changed.\n"), "{}", shown.text);
    assert_eq!(world.read("a.txt"), "changed\n");
    let shown = world.on_terminal(&["restore", "latest"], &[("[y/N]", "y\n")]);
    assert_eq!(shown.code, 0, "{}", shown.text);
    assert!(shown.text.contains("Changed:\n  ~ a.txt"), "{}", shown.text);
    assert_eq!(world.read("a.txt"), "one\ntwo\nthree\n");
}

#[test]
fn deleting_is_asked_about_too() {
    let world = World::new();
    world.save("first");
    let shown = world.on_terminal(&["delete", "1"], &[("Delete it? [y/N]", "\n")]);
    assert_eq!(shown.code, 4);
    assert!(shown.text.ends_with("Nothing changed.\n"), "{}", shown.text);
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
    world.write("rappel.toml", "[files]\nmax_file_size = \"8TiB\"\n");
    let big = world.project.path("big.bin");
    // Reading it to its end takes longer than any test may.
    std::fs::File::create(&big).unwrap().set_len(4 << 40).unwrap();
    let child = world.command(&["save"]).spawn().unwrap();
    let reads = || {
        let open = std::fs::read_dir(format!("/proc/{}/fd", child.id())).into_iter().flatten();
        open.flatten().any(|one| std::fs::read_link(one.path()).is_ok_and(|path| path == big))
    };
    assert!(wait_until(reads), "it never opened the file");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_eq!(output.stderr, b"error: cancelled\n");
    assert_eq!(world.json(&["list"])["total"], 0);
}

/// Waits until `sign` is there; the other end has a minute for it.
fn wait_until(mut sign: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    while !sign() {
        if start.elapsed() > Duration::from_secs(60) {
            return false;
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    true
}

#[test]
fn an_interrupted_restore_stops_soon_and_is_rolled_back_or_left_for_recover() {
    let mut project = Project::new();
    for number in 0..1500 {
        project = project.file(format!("d{}/f{number}", number % 40), support::noise(300));
    }
    let world = World::of(project);
    let first = world.save("first");
    for number in 0..1500 {
        world.write(&format!("d{}/f{number}", number % 40), &format!("changed {number}\n"));
    }
    let changed = world.project.snapshot();
    let Some(steps) = Steps::of([]) else {
        return cannot_run("processes cannot be traced (strace)");
    };
    // Each thread that swaps files is told so at its first, fifth, fifteenth swap.
    for swap in [1, 5, 15] {
        let plain = world.command(&["restore", &first, "-y"]);
        let mut command = steps.signalling_at(&Step::new("renameat2", swap), "INT");
        command.arg(plain.get_program()).args(plain.get_args());
        command.current_dir(world.project.root()).env_clear();
        command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "swap {swap}: {said}");
        assert!(said.contains("cancelled"), "swap {swap}: {said}");
        let unfinished = || world.json(&["recover"])["restores"].as_array().unwrap().len();
        if unfinished() > 0 {
            world.json(&["recover", "--rollback"]);
        }
        assert_eq!(unfinished(), 0);
        assert!(world.project.snapshot() == changed, "everything is as it was");
    }
}

#[test]
fn who_is_waited_for_is_told() {
    let world = World::new();
    world.save("first");
    let lock = std::fs::File::open(world.home.join("lock")).unwrap();
    lock.lock().unwrap();
    let mut child = world.command(&["save", "second"]).spawn().unwrap();
    let mut said = std::io::BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    assert!(line.starts_with("waiting for the store: held by rappel (pid "), "{line}");
    drop(lock);
    assert!(child.wait().unwrap().success());
    assert_eq!(world.json(&["list"])["total"], 2);
}

#[test]
fn what_happens_inside_is_logged_for_whoever_asks() {
    let world = World::new();
    world.write("key.pem", "-----BEGIN PRIVATE KEY-----");
    let logged = |filter: Option<&str>, arguments: &[&str]| {
        let mut command = world.command(arguments);
        command.envs(filter.map(|filter| ("RAPPEL_LOG", filter)));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{arguments:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert_eq!(logged(None, &["save", "one"]), "");
    let first = world.json(&["show", "latest"])["id"].as_str().unwrap().to_owned();
    world.write("a.txt", "changed\n");
    for (arguments, word) in [
        (&["save", "two"][..], "saved"),
        (&["restore", &first, "-y"], "restored"),
        (&["gc"], "collected garbage"),
        (&["verify"], "verified"),
    ] {
        let said = logged(Some("debug"), arguments);
        assert!(said.contains(word), "{arguments:?}: {said}");
        assert!(!said.contains("key.pem") && !said.contains("PRIVATE"), "{said}");
    }
    assert_eq!(logged(Some("error"), &["list"]), "");
    let said = logged(Some("=/="), &["list"]);
    assert!(said.starts_with("warning: RAPPEL_LOG==/=: "), "{said}");
}

#[test]
fn pipes_in_the_place_of_settings_are_not_waited_for() {
    for name in ["rappel.toml", ".env", ".gitignore", ".git", ".git/index", ".git/HEAD"] {
        let world = World::new();
        let place = world.project.path(name);
        std::fs::create_dir_all(place.parent().unwrap()).unwrap();
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &place, kind, mode, 0).unwrap();
        for command in ["status", "save", "init"] {
            let mut child = world.command(&[command]).spawn().unwrap();
            if !wait_until(|| child.try_wait().unwrap().is_some()) {
                child.kill().unwrap();
                panic!("{command} waits for {name}");
            }
        }
    }
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
