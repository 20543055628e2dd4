//! The end of a day: one mark for each local day that was worked on, whoever makes it.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test may fail loudly"
)]

mod support;

use jiff::tz::TimeZone;
use rappel::types::Trigger;
use rappel::{OpenOptions, Rappel, SaveOptions};
use rappel_testing::Project;
use support::World;

const HOUR_MS: i64 = 3_600_000;

/// A world whose clock stands at 14:30 UTC.
struct Days {
    world: World,
    zone: TimeZone,
}

impl Days {
    fn new(zone: &str) -> Self {
        let zone = TimeZone::get(zone).unwrap();
        Self { world: World::new(Project::new().file("a", "0")), zone }
    }

    fn open(&self) -> Rappel {
        let zone = self.zone.clone();
        Rappel::open(OpenOptions { ends_days: true, zone, ..self.world.options() }).unwrap()
    }

    fn wait(&self, hours: i64) {
        self.world.clock.advance(hours * HOUR_MS);
    }

    fn save(&self, content: &str) {
        self.world.write("a", content);
        self.open().save(&SaveOptions::default()).unwrap();
    }

    /// A hook that saves only what changed.
    fn hook(&self) {
        let options = SaveOptions {
            trigger: Some(Trigger::CodeModified),
            if_changed: true,
            ..SaveOptions::default()
        };
        self.open().save(&options).unwrap();
    }

    /// The triggers of all checkpoints, oldest first.
    fn triggers(&self) -> Vec<&'static str> {
        let all = rappel::ListFilter { all: true, ..Default::default() };
        let listing = self.open().list(&all).unwrap();
        listing.checkpoints.iter().rev().map(|one| one.manifest.trigger.as_str()).collect()
    }

    fn marks(&self) -> usize {
        self.triggers().iter().filter(|one| **one == "end-of-day").count()
    }
}

#[test]
fn the_first_save_after_midnight_marks_the_day() {
    let days = Days::new("UTC");
    days.save("1");
    days.wait(2);
    days.save("2");
    assert_eq!(days.marks(), 0);
    days.wait(9);
    days.save("3");
    assert_eq!(days.triggers(), ["manual", "manual", "end-of-day", "manual"]);
    days.wait(1);
    days.save("4");
    days.hook();
    assert_eq!(days.marks(), 1);
    let all = days.open().list(&rappel::ListFilter::default()).unwrap();
    let sequences: Vec<u64> = all.checkpoints.iter().map(|one| one.manifest.sequence).collect();
    assert_eq!(sequences, [5, 4, 3, 2, 1]);
    days.world.verify();
}

#[test]
fn a_hook_that_finds_nothing_new_marks_it_too() {
    let days = Days::new("UTC");
    days.save("1");
    days.wait(12);
    days.hook();
    assert_eq!(days.triggers(), ["manual", "end-of-day"]);
    days.hook();
    // A weekend without work has no marks, and Monday's first hook adds none: Friday has its own.
    days.wait(60);
    days.hook();
    assert_eq!(days.marks(), 1);
}

#[test]
fn a_clock_marks_what_changed_without_a_save() {
    let days = Days::new("UTC");
    days.save("1");
    days.wait(10);
    assert!(days.open().end_day().unwrap().is_some());
    assert!(days.open().end_day().unwrap().is_none(), "once a day");
    days.wait(24);
    assert!(days.open().end_day().unwrap().is_none(), "an idle day has no end");
    days.world.write("a", "2");
    days.wait(24);
    assert!(days.open().end_day().unwrap().is_some());
    assert_eq!(days.marks(), 2);
}

#[test]
fn midnight_is_the_users() {
    // 14:30 UTC is 20:15 in Kathmandu: the day ends in under four hours.
    let days = Days::new("Asia/Kathmandu");
    days.save("1");
    days.wait(3);
    days.save("2");
    assert_eq!(days.marks(), 0);
    days.wait(1);
    days.save("3");
    assert_eq!(days.marks(), 1);
    // Whoever flies west has the same day once more, and no second mark.
    let west = Days { zone: TimeZone::get("America/Los_Angeles").unwrap(), ..days };
    west.wait(1);
    west.save("4");
    west.wait(12);
    west.save("5");
    assert_eq!(west.marks(), 1);
    west.wait(24);
    west.save("6");
    assert_eq!(west.marks(), 2);
}

#[test]
fn it_can_be_turned_off() {
    let days = Days::new("UTC");
    days.world.write("rappel.toml", "[auto]\nend-of-day = false\n");
    days.save("1");
    days.wait(24);
    days.save("2");
    days.hook();
    assert!(days.open().end_day().unwrap().is_none());
    assert_eq!(days.marks(), 0);
}

#[test]
fn many_at_midnight_make_one_mark() {
    let days = Days::new("UTC");
    days.save("1");
    days.wait(12);
    days.world.write("a", "2");
    std::thread::scope(|scope| {
        for place in 0..8 {
            let days = &days;
            scope.spawn(move || match place % 3 {
                0 => drop(days.open().end_day().unwrap()),
                1 => days.hook(),
                _ => drop(days.open().save(&SaveOptions::default()).unwrap()),
            });
        }
    });
    assert_eq!(days.marks(), 1);
    days.world.verify();
}

#[test]
fn undo_goes_over_marks() {
    let days = Days::new("UTC");
    days.save("1");
    days.wait(12);
    days.save("2");
    days.wait(1);
    let id = days.open().list(&rappel::ListFilter::default()).unwrap().checkpoints.pop().unwrap();
    let id = id.manifest.id.to_string();
    days.world.restore(&id);
    assert_eq!(days.world.read("a"), "1");
    days.world.undo();
    assert_eq!(days.world.read("a"), "2");
    days.world.redo();
    assert_eq!(days.world.read("a"), "1");
}
