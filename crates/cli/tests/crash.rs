//! Kill -9 around the real binary. What was acknowledged is there afterwards, and a restore is
//! finished or rolled back, never guessed.
//!
//! A few rounds here; `scripts/crash-loop N` runs as many as one likes.

#![allow(clippy::unwrap_used, reason = "tests may")]

mod support;

use std::collections::BTreeMap;
use std::process::{Child, Command, Output};
use std::time::Duration;

use rappel_testing::project::Snapshot;
use rappel_testing::{Project, snapshot};

struct World {
    ground: support::World,
    /// Acknowledged checkpoints and what they hold.
    saved: BTreeMap<String, Snapshot>,
    random: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut project = Project::new();
        for n in 0..120 {
            project =
                project.file(format!("d{}/e{}/f{n}", n % 7, n % 5), format!("{n}\n").repeat(n));
        }
        Self { ground: support::World::of(project), saved: BTreeMap::new(), random: seed * 2 + 1 }
    }

    fn roll(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % below
    }

    fn command(&self, arguments: &[&str]) -> Command {
        self.ground.command(&[&["--json"], arguments].concat())
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    fn must(&self, arguments: &[&str]) -> serde_json::Value {
        let output = self.run(arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {errors}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Starts a command and kills it after some microseconds, or lets it end.
    fn kill(&mut self, arguments: &[&str], most_us: u64) -> Output {
        let delay = Duration::from_micros(self.roll(most_us));
        let mut child: Child = self.command(arguments).spawn().unwrap();
        std::thread::sleep(delay);
        child.kill().unwrap();
        child.wait_with_output().unwrap()
    }

    fn edit(&mut self) {
        for _ in 0..=self.roll(8) {
            let n = self.roll(120);
            let path = self.ground.project.path(format!("d{}/e{}/f{n}", n % 7, n % 5));
            match self.roll(4) {
                0 => drop(std::fs::remove_file(&path)),
                1 => {
                    let folder = self.roll(3);
                    let path = self.ground.project.path(format!("new{folder}/g{n}"));
                    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                    std::fs::write(path, format!("{}", self.random)).unwrap();
                }
                _ => {
                    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                    std::fs::write(&path, format!("{}\n", self.random).repeat(n as usize)).unwrap();
                }
            }
        }
    }

    fn note(&mut self, output: &Output, state: Snapshot) {
        // An answer that was written whole was given after the commit.
        if let Ok(answer) = serde_json::from_slice::<serde_json::Value>(&output.stdout) {
            self.saved.insert(answer["id"].as_str().unwrap().to_owned(), state);
        }
    }

    fn any_saved(&mut self) -> Option<String> {
        let count = self.saved.len() as u64;
        let number = (count > 0).then(|| self.roll(count))?;
        self.saved.keys().nth(number as usize).cloned()
    }

    fn now(&self) -> Snapshot {
        snapshot(self.ground.project.root())
    }

    fn unfinished(&self) -> usize {
        self.must(&["recover"])["restores"].as_array().unwrap().len()
    }

    fn save_round(&mut self) {
        self.edit();
        let state = self.now();
        let output = self.kill(&["save", "killed"], 25_000);
        assert_eq!(self.now(), state, "a save changed the workspace");
        self.note(&output, state);
    }

    fn restore_round(&mut self) {
        self.edit();
        let Some(id) = self.any_saved() else { return };
        let (before, target) = (self.now(), self.saved[&id].clone());
        self.kill(&["restore", &id, "--confirm"], 60_000);
        if self.unfinished() == 0 {
            let now = self.now();
            assert!(now == before || now == target, "a restore was left half-done");
            return;
        }
        let refused = self.run(&["restore", &id, "--confirm"]);
        assert_eq!(refused.status.code(), Some(7));
        assert_eq!(self.must(&["save", "in the middle"])["interrupted_restore"], true);
        let (way, expected) =
            if self.roll(2) == 0 { ("--finish", target) } else { ("--rollback", before) };
        self.kill(&["recover", way], 40_000);
        if self.unfinished() > 0 {
            self.must(&["recover", way]);
        }
        assert_eq!(self.now(), expected, "{way}");
    }

    fn gc_round(&mut self) {
        if self.saved.len() > 3
            && let Some(id) = self.any_saved()
            && self.run(&["delete", &id, "--now", "--confirm"]).status.success()
        {
            self.saved.remove(&id);
        }
        self.kill(&["gc", "--now", "-y"], 30_000);
    }

    fn check(&mut self, round: u64) {
        let output = self.run(&["verify"]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "round {round}: {text}");
        for (number, (id, expected)) in self.saved.iter().enumerate() {
            let out = self.ground.project.outside().join(format!("out-{round}-{number}"));
            self.must(&["restore", id, "--to", out.to_str().unwrap()]);
            assert_eq!(&snapshot(&out), expected, "round {round}, {id}");
            std::fs::remove_dir_all(out).unwrap();
        }
    }
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn whatever_is_killed_nothing_acknowledged_is_lost() {
    let rounds = setting("RAPPEL_CRASH_ROUNDS", 4);
    let mut world = World::new(setting("RAPPEL_CRASH_SEED", 20_261_115));
    let state = world.now();
    let output = world.run(&["save", "first"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    world.note(&output, state);
    for round in 0..rounds {
        for _ in 0..4 {
            world.save_round();
            world.restore_round();
        }
        world.gc_round();
        if rounds < 20 || round % 5 == 4 || round + 1 == rounds {
            world.check(round);
        }
        println!("round {}: {} checkpoints held", round + 1, world.saved.len());
    }
}
