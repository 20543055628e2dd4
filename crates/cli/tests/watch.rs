//! What needs a clock: `rappel watch`, the end of a day, and retention that is applied by itself.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test may fail loudly"
)]

mod support;

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rappel_testing::{Project, noise, size_of, zone_before_midnight};
use serde_json::Value;
use support::World;

/// A `rappel watch` that ends with the test.
struct Watching(Child);

impl Drop for Watching {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Watching {
    fn begin(world: &World, zone: &str) -> Self {
        let mut command = world.command(&["watch", "--quiet"]);
        command.env("TZ", zone).stdout(Stdio::null()).stderr(Stdio::null());
        let watching = Self(command.spawn().unwrap());
        until("it keeps the clock", || clock(world).is_some());
        watching
    }

    fn field(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.split_whitespace().next().unwrap().parse().unwrap()
    }
}

/// Waits for something that has to happen.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what}: not after a minute");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn clock(world: &World) -> Option<u64> {
    world.json_at_any_exit(&["status"])["watch"]["pid"].as_u64()
}

fn triggers(world: &World) -> Vec<String> {
    let list = world.json(&["list", "1000", "--all"]);
    let all = list["checkpoints"].as_array().unwrap().iter().rev();
    all.map(|one| one["trigger"].as_str().unwrap().to_owned()).collect()
}

fn save_in(world: &World, zone: &str, content: &str) {
    world.write("a", content);
    let output = world.command(&["save", content]).env("TZ", zone).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn one_process_keeps_the_clock_of_a_home() {
    let world = World::of(Project::new().file("a", "1"));
    world.save("first");
    assert_eq!(clock(&world), None);
    let mut first = Watching::begin(&world, "UTC");
    assert_eq!(clock(&world), Some(u64::from(first.0.id())));
    let second = world.run(&["watch"]);
    assert_eq!(second.status.code(), Some(5));
    let said = String::from_utf8_lossy(&second.stderr);
    assert!(said.contains(&first.0.id().to_string()), "{said}");
    // Whatever ends it, another one can take its place.
    first.0.kill().unwrap();
    first.0.wait().unwrap();
    assert_eq!(clock(&world), None);
    Watching::begin(&world, "UTC");
}

#[test]
fn midnight_marks_the_day_of_every_workspace_once() {
    let zone = zone_before_midnight(6);
    let world = World::of(Project::new().file("a", "1"));
    let other = Project::new().file("b", "1");
    save_in(&world, &zone, "by hand");
    let mut there = world.command(&["save", "there"]);
    assert!(there.current_dir(other.root()).env("TZ", &zone).status().unwrap().success());
    let _watching = Watching::begin(&world, &zone);
    until("the day is marked", || triggers(&world).iter().any(|one| one == "end-of-day"));
    let mut list = world.command(&["list", "--all", "--json"]);
    list.current_dir(other.root());
    until("the other one too", || {
        let list: Value = serde_json::from_slice(&list.output().unwrap().stdout).unwrap();
        list["checkpoints"][0]["trigger"] == "end-of-day"
    });
    // The first save of the new day finds that it was done.
    save_in(&world, &zone, "again");
    assert_eq!(triggers(&world), ["manual", "end-of-day", "manual"]);
}

#[test]
fn without_a_clock_the_first_save_after_midnight_marks_the_day() {
    let world = World::of(Project::new().file("a", "1"));
    let zone = zone_before_midnight(4);
    let start = Instant::now();
    save_in(&world, &zone, "yesterday");
    until("midnight passes", || start.elapsed() > Duration::from_secs(5));
    save_in(&world, &zone, "today");
    save_in(&world, &zone, "later");
    assert_eq!(triggers(&world), ["manual", "end-of-day", "manual", "manual"]);
}

#[test]
fn it_saves_at_intervals_while_something_changes() {
    let world = World::of(Project::new().file("a", "1"));
    world.write("rappel.toml", "[auto]\nevery = \"1s\"\n");
    world.save("first");
    let _watching = Watching::begin(&world, "CALM+6");
    world.write("a", "2");
    until("it was saved", || triggers(&world).len() == 2);
    assert_eq!(triggers(&world), ["manual", "scheduled"]);
    // Three intervals without a change, then one with.
    let waited = Instant::now();
    until("time passes", || waited.elapsed() > Duration::from_secs(3));
    assert_eq!(triggers(&world).len(), 2);
    world.write("a", "3");
    until("it was saved again", || triggers(&world).len() == 3);
}

#[test]
fn a_workspace_that_comes_later_is_looked_after_too() {
    let world = World::of(Project::new().file("a", "1"));
    world.save("first");
    let _watching = Watching::begin(&world, "CALM+6");
    let later = Project::new().file("b", "1").file("rappel.toml", "[auto]\nevery = \"1s\"\n");
    let run = |arguments: &[&str]| {
        let mut command = world.command(arguments);
        command.current_dir(later.root()).output().unwrap()
    };
    assert!(run(&["save", "first"]).status.success());
    std::fs::write(later.root().join("b"), "2").unwrap();
    until("it was saved", || {
        let list: Value = serde_json::from_slice(&run(&["list", "--json"]).stdout).unwrap();
        list["checkpoints"][0]["trigger"] == "scheduled"
    });
}

#[test]
fn it_is_small_and_sleeps() {
    let world = World::of(Project::new().file("a", "1"));
    world.save("first");
    let watching = Watching::begin(&world, "CALM+6");
    // Its first round is over once it waits without a child.
    let switches = || watching.field("voluntary_ctxt_switches:");
    let mut last = switches();
    until("it sleeps", || {
        std::thread::sleep(Duration::from_millis(300));
        let now = switches();
        let is_quiet = now == last;
        last = now;
        is_quiet
    });
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(switches(), last, "it woke up, and nothing had happened");
    let kilobytes = watching.field("VmRSS:");
    assert!(kilobytes < 20 << 10, "{kilobytes} kB");
}

#[test]
fn another_version_takes_its_place() {
    let world = World::of(Project::new().file("a", "1"));
    world.save("first");
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("rappel");
    let install = || {
        let beside = folder.path().join("new");
        std::fs::copy(env!("CARGO_BIN_EXE_rappel"), &beside).unwrap();
        std::fs::rename(&beside, &program).unwrap();
    };
    install();
    let mut command = std::process::Command::new(&program);
    command.args(["watch", "--quiet"]).env("RAPPEL_HOME", &world.home).env("TZ", "CALM+6");
    let watching = Watching(command.spawn().unwrap());
    let runs = || std::fs::read_link(format!("/proc/{}/exe", watching.0.id())).unwrap();
    until("it keeps the clock", || clock(&world).is_some());
    install();
    let inode =
        |path: &Path| std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(path).unwrap());
    until("the new one runs", || {
        runs() == program
            && inode(Path::new(&format!("/proc/{}/exe", watching.0.id()))) == inode(&program)
    });
    until("and keeps the clock", || clock(&world) == Some(u64::from(watching.0.id())));
}

#[test]
fn beside_it_prune_gives_the_space_back() {
    let world = World::of(Project::new().file("a", "1"));
    world.save("first");
    let _watching = Watching::begin(&world, "CALM+6");
    for seed in 0..5 {
        std::fs::write(world.project.path("large"), noise(400_000, seed)).unwrap();
        world.save("large");
    }
    let size = || size_of(&world.home);
    let before = size();
    // All are under a day old, so that prune by itself would keep them.
    world.json(&["delete", "2", "3", "4", "5", "--confirm"]);
    world.json(&["prune", "--keep-last", "1", "--now", "--confirm"]);
    world.json(&["gc", "--now", "--confirm"]);
    assert!(before - size() > 3 * 400_000, "{before} to {}", size());
    assert_eq!(world.json(&["verify"])["damage"].as_array().unwrap().len(), 0);
}

/// Makes the note on retention as old as it would be after so many hours.
fn age_retention(world: &World, hours: i64) {
    let folder = world.home.join("retention");
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        let Ok(mut note) = serde_json::from_str::<Value>(&text) else { continue };
        for key in ["applied_at", "policy_since"] {
            let Some(at) = note[key].as_str() else { continue };
            let at: rappel_types::Timestamp = at.parse().unwrap();
            let older = rappel_types::Timestamp::from_millis(at.as_millis() - hours * 3_600_000);
            note[key] = older.to_string().into();
        }
        std::fs::write(path, note.to_string()).unwrap();
    }
}

#[test]
fn a_save_applies_retention_and_a_person_is_told_once() {
    let world = World::of(Project::new().file("rappel.toml", "[retention]\npreset = \"loki\"\n"));
    for place in 0..52 {
        world.write("a", &place.to_string());
        world.save("one of many");
    }
    assert_eq!(triggers(&world).len(), 52, "not before a day has passed");
    age_retention(&world, 25);
    world.write("a", "now");
    world.save("newest");
    until("it was applied", || triggers(&world).len() == 50);
    let status = world.json_at_any_exit(&["status"]);
    until("it is noted", || world.json_at_any_exit(&["status"])["retention"]["deleted"] == 3);
    assert!(status["retention"]["applied_at"].is_string());
    // A script is not told; a person is, once.
    let pipe = String::from_utf8_lossy(&world.run(&["list"]).stderr).into_owned();
    assert_eq!(pipe, "");
    let shown = |arguments: &[&str]| world.on_terminal(arguments, &[]).text;
    let told = shown(&["stats"]);
    assert!(told.contains("deleted 3 checkpoints") && told.contains("undelete"), "{told}");
    assert!(!shown(&["stats"]).contains("undelete"));
}

#[test]
fn systemd_gets_a_unit_and_loses_it_again() {
    let world = World::of(Project::new().file("a", "1"));
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("rappel");
    std::fs::copy(env!("CARGO_BIN_EXE_rappel"), &program).unwrap();
    let run = |arguments: &[&str]| {
        let mut command = std::process::Command::new(&program);
        command.current_dir(world.project.root()).args(arguments);
        command.env("RAPPEL_HOME", &world.home).env("XDG_CONFIG_HOME", folder.path());
        command.output().unwrap()
    };
    let unit = folder.path().join("systemd/user/rappel.service");
    assert!(run(&["integrate", "systemd"]).status.success());
    let text = std::fs::read_to_string(&unit).unwrap();
    let line =
        format!("\"{}\" watch --quiet --home \"{}\"", program.display(), world.home.display());
    assert!(text.contains(&format!("ExecStart={line}\n")), "{text}");
    assert!(String::from_utf8_lossy(&run(&["integrate", "systemd"]).stdout).contains("already"));
    assert!(run(&["integrate", "systemd", "--remove"]).status.success());
    assert!(!unit.exists());
    // What somebody else wrote stays.
    std::fs::write(&unit, "[Service]\n").unwrap();
    assert_eq!(run(&["integrate", "systemd"]).status.code(), Some(7));
    assert!(run(&["integrate", "--remove", "--all"]).status.success());
    assert_eq!(std::fs::read_to_string(&unit).unwrap(), "[Service]\n");
}
