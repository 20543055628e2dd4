//! Kill -9 of a restore over files, git, SQLite, Postgres and a command: at moments that are made to
//! last, and at random ones.
//!
//! A few random rounds here; `RAPPEL_CRASH_ROUNDS` asks for more.

use std::process::{Child, Output};
use std::time::{Duration, Instant};

use crate::scene::{Portrait, Ran, Scene, wait_until};

/// A scene with a checkpoint, damaged since.
struct Damaged {
    scene: Scene,
    id: String,
    target: Portrait,
    before: Portrait,
}

impl Damaged {
    fn new() -> Self {
        let scene = Scene::whole();
        let target = scene.portrait();
        let id = scene.world.save("whole");
        scene.damage();
        let before = scene.portrait();
        Self { scene, id, target, before }
    }

    fn start(&self) -> Child {
        self.scene.start(&["restore", &self.id, "--confirm"])
    }

    /// Closes a gate of the command's.
    fn close(&self, gate: &str) {
        let outside = self.scene.outside();
        for left in ["abort", "reached"] {
            let _ = std::fs::remove_file(outside.join(left));
        }
        std::fs::write(outside.join(gate), "").unwrap();
    }

    /// Waits until the command stands at its gate.
    fn wait_at_gate(&self) {
        let reached = self.scene.outside().join("reached");
        // The number is written whole or not at all as far as it matters: a line end ends it.
        wait_until("the command stands at its gate", || {
            std::fs::read_to_string(&reached).is_ok_and(|text| text.ends_with('\n'))
        });
    }

    /// Has the command that stands at a gate end without doing anything, and waits for that.
    fn give_up(&self, gate: &str) {
        let outside = self.scene.outside();
        let process = std::fs::read_to_string(outside.join("reached")).unwrap();
        std::fs::write(outside.join("abort"), "").unwrap();
        let process = format!("/proc/{}", process.trim());
        wait_until("the command has ended", || {
            let state = std::fs::read_to_string(format!("{process}/stat"));
            state.is_err() || state.is_ok_and(|text| text.contains(") Z "))
        });
        std::fs::remove_file(outside.join(gate)).unwrap();
        std::fs::remove_file(outside.join("abort")).unwrap();
    }

    fn wait_for_a_lock(&self) {
        wait_until("a session waits for a lock", || {
            self.scene.server.run("app", "SELECT count(*) FROM pg_locks WHERE NOT granted") != "0"
        });
    }

    /// Runs it; what outlived its killed parent may hold something for a moment.
    fn patiently(&self, arguments: &[&str]) -> Ran {
        for _ in 0..200 {
            let ran = self.scene.run(arguments);
            if ran.code != Some(5) {
                return ran;
            }
        }
        panic!("{arguments:?}: busy for good");
    }

    fn must(&self, arguments: &[&str]) {
        let ran = self.patiently(arguments);
        assert_eq!(ran.code, Some(0), "{arguments:?}: {ran:?}");
    }

    fn assert_now(&self, expected: &Portrait, told: &str) {
        assert_portrait(&self.scene.portrait(), expected, told);
        let left = std::fs::read_dir(self.scene.world.project.root()).unwrap();
        for name in left.map(|entry| entry.unwrap().file_name().into_string().unwrap()) {
            assert!(!name.starts_with(".rappel-"), "{name} is left, {told}");
        }
    }

    /// Nothing can be taken back any more; everything can be finished, and then be undone.
    fn assert_only_forward(&self) {
        assert_eq!(self.scene.unfinished(), 1);
        let refused = self.patiently(&["recover", "--rollback"]);
        assert_eq!(refused.code, Some(7), "{refused:?}");
        assert!(refused.words.contains("recover --finish"), "{refused:?}");
        self.must(&["recover", "--finish"]);
        self.assert_now(&self.target, "finished");
        assert_eq!(self.scene.unfinished(), 0);
        self.must(&["undo"]);
        self.assert_now(&self.before, "undone");
    }
}

fn assert_portrait(now: &Portrait, expected: &Portrait, told: &str) {
    assert_eq!(now.files, expected.files, "{told}");
    assert_eq!(now.git, expected.git, "{told}");
    assert_eq!(now.sqlite, expected.sqlite, "{told}");
    assert_eq!(now.postgres, expected.postgres, "{told}");
    assert_eq!(now.state, expected.state, "{told}");
}

fn kill(mut child: Child) -> Output {
    child.kill().unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn killed_before_its_intent_it_has_changed_nothing() {
    let damaged = Damaged::new();
    // While it waits for somebody's table.
    let holder = damaged.scene.holder("LOCK TABLE sessions IN ROW EXCLUSIVE MODE");
    let restore = damaged.start();
    damaged.wait_for_a_lock();
    kill(restore);
    drop(holder);
    assert_eq!(damaged.scene.unfinished(), 0);
    damaged.assert_now(&damaged.before, "waiting for a table");

    // While the present is saved.
    damaged.close("gate-capture");
    let restore = damaged.start();
    damaged.wait_at_gate();
    kill(restore);
    // It is in nobody's way any more, even while a program that it started still runs: the next comes as far.
    std::fs::remove_file(damaged.scene.outside().join("reached")).unwrap();
    let next = damaged.start();
    damaged.wait_at_gate();
    kill(next);
    damaged.give_up("gate-capture");
    assert_eq!(damaged.scene.unfinished(), 0);
    damaged.assert_now(&damaged.before, "saving the present");
    damaged.must(&["restore", &damaged.id, "--confirm"]);
    damaged.assert_now(&damaged.target, "restored");
}

#[test]
fn killed_while_a_dump_is_loaded_it_goes_either_way() {
    for (way, told) in [("--rollback", "rolled back"), ("--finish", "finished")] {
        let mut damaged = Damaged::new();
        // A sequence that somebody used in an open transaction cannot be replaced yet.
        let holder = damaged.scene.holder("SELECT nextval('conversations_id_seq')");
        damaged.before = damaged.scene.portrait();
        let restore = damaged.start();
        damaged.wait_for_a_lock();
        assert_eq!(damaged.scene.unfinished(), 1);
        kill(restore);
        drop(holder);
        assert_eq!(damaged.scene.unfinished(), 1);
        damaged.must(&["recover", way]);
        let expected = if way == "--finish" { &damaged.target } else { &damaged.before };
        damaged.assert_now(expected, told);
    }
}

#[test]
fn killed_in_the_middle_of_a_commit_the_server_is_asked_for_its_outcome() {
    let mut damaged = Damaged::new();
    // Waits for a sequence once it has its transaction.
    let holder = damaged.scene.holder("SELECT nextval('conversations_id_seq')");
    damaged.before = damaged.scene.portrait();
    let server = &damaged.scene.server;
    let restore = damaged.start();
    damaged.wait_for_a_lock();
    // From here on a commit is written down and then waits for a standby that never comes.
    server.run("postgres", "ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
    server.run("postgres", "SELECT pg_reload_conf()");
    wait_until("the server has read its settings", || {
        server.run("postgres", "SHOW synchronous_standby_names") == "nobody"
    });
    drop(holder);
    wait_until("the commit waits", || {
        let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
        server.run("postgres", waiting) != "0"
    });
    kill(restore);
    assert_eq!(std::fs::read_to_string(damaged.scene.outside().join("state")).unwrap(), "two");
    let refused = damaged.patiently(&["recover", "--rollback"]);
    assert_eq!(refused.code, Some(7), "{refused:?}");
    server.run("postgres", "ALTER SYSTEM RESET synchronous_standby_names");
    server.run("postgres", "SELECT pg_reload_conf()");
    wait_until("nobody waits for a standby any more", || {
        server.run("postgres", "SHOW synchronous_standby_names").is_empty()
    });
    damaged.assert_only_forward();
}

#[test]
fn killed_between_two_commits_it_can_only_go_forward() {
    let damaged = Damaged::new();
    damaged.close("gate");
    let restore = damaged.start();
    damaged.wait_at_gate();
    kill(restore);
    let half = damaged.scene.portrait();
    assert_eq!((&half.sqlite, &half.postgres), (&damaged.target.sqlite, &damaged.target.postgres));
    assert_eq!(half.state, damaged.before.state);
    damaged.give_up("gate");
    assert_eq!(damaged.scene.world.json(&["recover"])["restores"][0]["running"], false);
    damaged.assert_only_forward();
}

#[test]
fn a_command_that_fails_last_leaves_a_restore_that_can_be_finished() {
    let damaged = Damaged::new();
    damaged.close("gate");
    let restore = damaged.start();
    damaged.wait_at_gate();
    damaged.give_up("gate");
    let output = Ran::of(&restore.wait_with_output().unwrap());
    assert!(matches!(output.code, Some(1 | 7)), "{output:?}");
    assert!(output.words.contains("recover --finish"), "{output:?}");
    damaged.assert_only_forward();
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// A source of numbers that is the same every time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }
}

impl Damaged {
    /// Whatever a kill left is old or new, or becomes what is asked for; then it is as it was before.
    fn settle(&self, dice: &mut Dice, most: u64, told: &str) -> Settled {
        let postgres = self.scene.server.dump("app");
        let either = [&self.before.postgres, &self.target.postgres];
        assert!(either.contains(&&postgres), "{told}: {postgres}");
        let (mut expected, mut settled) = (&self.target, Settled::Whole);
        if self.scene.unfinished() == 0 {
            if self.scene.portrait().files == self.before.files {
                expected = &self.before;
            }
        } else {
            settled = Settled::Finished;
            if dice.roll(2) == 0 {
                let ran = self.patiently(&["recover", "--rollback"]);
                (expected, settled) = match ran.code {
                    Some(0) => (&self.before, Settled::RolledBack),
                    Some(7) if ran.words.contains("recover --finish") => {
                        (&self.target, Settled::PastReturn)
                    }
                    _ => panic!("{told}: {ran:?}"),
                };
            }
            if expected == &self.target {
                let recover = self.scene.start(&["recover", "--finish"]);
                std::thread::sleep(Duration::from_micros(dice.roll(most)));
                kill(recover);
                self.must(&["recover", "--finish"]);
            }
        }
        self.assert_now(expected, told);
        if expected == &self.target {
            self.must(&["undo"]);
            self.assert_now(&self.before, &format!("{told}, undone"));
        }
        settled
    }

    /// How long a restore takes here, so that kills fall into it.
    fn measured(&self) -> u64 {
        let start = Instant::now();
        self.must(&["restore", &self.id, "--confirm"]);
        let most = start.elapsed().as_micros() as u64;
        self.must(&["undo"]);
        self.assert_now(&self.before, "undone");
        most
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Settled {
    Whole,
    RolledBack,
    Finished,
    PastReturn,
}

#[test]
fn killed_at_any_moment_it_is_old_or_new_and_never_a_mix() {
    let damaged = Damaged::new();
    let mut dice = Dice(setting("RAPPEL_CRASH_SEED", 20_261_118) * 2 + 1);
    let most = damaged.measured();
    let mut outcomes = Vec::new();
    for round in 0..setting("RAPPEL_CRASH_ROUNDS", 6) {
        let restore = damaged.start();
        std::thread::sleep(Duration::from_micros(most / 4 + dice.roll(most)));
        kill(restore);
        outcomes.push(damaged.settle(&mut dice, most, &format!("round {round}")));
    }
    damaged.must(&["verify"]);
    println!("{outcomes:?}");
}

#[test]
fn killed_as_soon_as_the_files_have_moved_it_is_still_old_or_new() {
    let damaged = Damaged::new();
    let mut dice = Dice(setting("RAPPEL_CRASH_SEED", 20_261_119) * 2 + 1);
    let most = damaged.measured();
    let mut outcomes = Vec::new();
    for round in 0..setting("RAPPEL_CRASH_ROUNDS", 4) {
        let mut restore = damaged.start();
        // From here to the first commit it is a matter of milliseconds.
        while damaged.scene.world.read("code") != "1\n" && restore.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_micros(200));
        }
        std::thread::sleep(Duration::from_micros(dice.roll(4) * 1000));
        kill(restore);
        outcomes.push(damaged.settle(&mut dice, most, &format!("round {round}")));
    }
    damaged.must(&["verify"]);
    println!("{outcomes:?}");
}
