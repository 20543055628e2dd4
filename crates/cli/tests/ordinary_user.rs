//! What an ordinary user gets where the system says no, which root never hears.

#![allow(clippy::unwrap_used, reason = "tests may")]

mod support;

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rappel_testing::user;
use support::World;

/// A world that belongs to an ordinary user: to us, or to another if we are root.
struct Ordinary {
    world: World,
    program: PathBuf,
}

impl Ordinary {
    fn new() -> Self {
        let world = World::new();
        std::fs::create_dir(&world.home).unwrap();
        let outside = world.project.outside();
        let program = user::copy_program(env!("CARGO_BIN_EXE_rappel").as_ref(), outside);
        user::give_away(outside);
        Self { world, program }
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.run_by(&[], arguments)
    }

    /// Runs it by another program, which is given with its own arguments.
    fn run_by(&self, other: &[&str], arguments: &[&str]) -> Output {
        let mut all: Vec<&OsStr> = other.iter().map(AsRef::as_ref).collect();
        all.push(self.program.as_ref());
        all.extend(arguments.iter().map(OsStr::new));
        let mut command = Command::new(all[0]);
        let plain = self.world.command(arguments);
        command.args(&all[1..]).current_dir(self.world.project.root()).env_clear();
        command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
        user::by_ordinary_user(&mut command).output().unwrap()
    }

    fn write(&self, path: &str, text: &str) {
        self.world.write(path, text);
        user::give_away(self.world.project.root());
    }
}

fn mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_folder_that_cannot_be_looked_into_is_a_conflict() {
    let world = Ordinary::new();
    assert_eq!(world.run(&["save", "first"]).status.code(), Some(0));
    world.write("a.txt", "changed\n");
    let src = world.world.project.path("src");
    mode(&src, 0o000);
    for arguments in [&["restore", "1", "--dry-run"][..], &["restore", "1", "-y"]] {
        let output = world.run(arguments);
        let said = text(&output.stdout) + &text(&output.stderr);
        assert_eq!(output.status.code(), Some(7), "{arguments:?}: {said}");
        assert!(said.contains("src/main.rs: what stands there cannot be seen"), "{said}");
    }
    assert_eq!(world.world.read("a.txt"), "changed\n");
    let output = world.run(&["restore", "1", "--path", "a.txt", "-y"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(world.world.read("a.txt"), "one\ntwo\nthree\n");
    mode(&src, 0o755);
}

#[test]
fn a_home_that_became_unwritable_can_still_be_read() {
    let world = Ordinary::new();
    assert_eq!(world.run(&["save", "first"]).status.code(), Some(0));
    let home = &world.world.home;
    let names: Vec<_> =
        std::fs::read_dir(home).unwrap().map(|entry| entry.unwrap().path()).collect();
    for path in &names {
        mode(path, if path.is_dir() { 0o500 } else { 0o400 });
    }
    mode(home, 0o500);
    for arguments in [&["list"][..], &["show", "1"], &["cat", "1:a.txt"], &["verify"]] {
        let output = world.run(arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", text(&output.stderr));
    }
    let output = world.run(&["save", "second"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("cannot be written to: Permission denied"));
    assert!(text(&world.run(&["status"]).stdout).starts_with("Degraded"));
    for path in [home].into_iter().chain(&names) {
        mode(path, 0o700);
    }
}

#[test]
fn a_thread_that_cannot_be_started_is_no_panic() {
    let world = Ordinary::new();
    assert_eq!(world.run(&["save", "first"]).status.code(), Some(0));
    world.write("a.txt", "changed\n");
    let alone = ["prlimit", "--nproc=1"];
    for arguments in [
        &["status"][..],
        &["list"],
        &["diff"],
        &["verify"],
        &["save", "second"],
        &["restore", "1", "-y"],
        &["restore", "1", "--to", "elsewhere"],
        &["gc"],
    ] {
        let output = world.run_by(&alone, arguments);
        let said = text(&output.stderr);
        let code = output.status.code();
        assert!(code.is_some_and(|code| code != 101), "{arguments:?}: {output:?}");
        assert!(!said.contains("panicked"), "{arguments:?}: {said}");
        if arguments[0] == "save" {
            assert!(said.contains("cannot start a thread"), "{said}");
        }
    }
    assert_eq!(world.run(&["save", "third"]).status.code(), Some(0));
    assert_eq!(world.run(&["verify"]).status.code(), Some(0));
}

#[test]
fn a_home_below_a_folder_that_cannot_be_written_to_is_named() {
    let world = Ordinary::new();
    let closed = world.world.project.outside().join("closed");
    std::fs::create_dir(&closed).unwrap();
    user::give_away(&closed);
    mode(&closed, 0o555);
    let home = closed.join("home");
    let home = home.to_str().unwrap();
    let output = world.run(&["save", "--home", home]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(&format!("{home}: Permission denied")), "{said}");
    assert!(!closed.join("home").exists());
}

#[test]
fn a_folder_that_nobody_may_open_comes_back_with_the_rest() {
    let world = Ordinary::new();
    let project = &world.world.project;
    std::fs::create_dir(project.path("closed")).unwrap();
    user::give_away(project.root());
    mode(&project.path("closed"), 0o000);
    assert_eq!(world.run(&["save", "first"]).status.code(), Some(0));
    mode(&project.path("closed"), 0o755);
    std::fs::remove_dir(project.path("closed")).unwrap();
    std::fs::remove_file(project.path("a.txt")).unwrap();
    let output = world.run(&["restore", "1", "-y"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(project.path("a.txt").exists());
    let restored = std::fs::metadata(project.path("closed")).unwrap().permissions().mode();
    assert_eq!(restored & 0o777, 0o000);
}

/// Files of root in the project of an ordinary user, as containers leave them: a run goes on, and
/// each of its checkpoints names what it lacks.
#[test]
fn a_run_beside_files_of_root_names_what_it_cannot_read() {
    let world = Ordinary::new();
    let secret = world.world.project.path("secret.txt");
    std::fs::write(&secret, "of root").unwrap();
    mode(&secret, 0o000);
    let output = world.run(&["run", "--", "sh", "-c", "echo two > a.txt; exit 9"]);
    assert_eq!(output.status.code(), Some(9), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("incomplete"), "{}", text(&output.stderr));
    let shown = world.run(&["show", "latest", "--json"]);
    let shown: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!(shown["trigger"], "session-end");
    assert_eq!(shown["partial_reasons"][0]["path"], "secret.txt", "{shown}");
    assert_eq!(shown["files"]["modified"], 1);
}
