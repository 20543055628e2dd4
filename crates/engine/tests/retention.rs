//! Retention that is applied by itself, and the limit of the home's size.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test may fail loudly"
)]

mod support;

use rappel::types::Trigger;
use rappel::{Health, OpenOptions, Rappel, SaveOptions};
use rappel_testing::{Failure, Fault, FaultDisk, Loss, Project, noise, size_of};
use support::{World, reference};

const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;
const POLICY: &str = "[retention]\nscheduled = { keep = \"3d\" }\n";

impl World {
    fn saved(&self, content: &[u8]) -> String {
        self.write("a", content);
        let trigger = Some(Trigger::Scheduled);
        let saved = self.open().save(&SaveOptions { trigger, ..SaveOptions::default() }).unwrap();
        saved.checkpoint.manifest.id.to_string()
    }

    /// One checkpoint a day.
    fn days(&self, count: u64) -> Vec<String> {
        let day = |n: u64| {
            self.clock.advance(DAY_MS);
            self.saved(n.to_string().as_bytes())
        };
        (0..count).map(day).collect()
    }

    /// How many are deleted if it is due; `None` if it is not.
    fn tended(&self) -> Option<usize> {
        self.open().prune_if_due().unwrap().map(|report| report.deleted.len())
    }

    fn count(&self) -> usize {
        self.open().list(&rappel::ListFilter::default()).unwrap().total
    }
}

#[test]
fn it_is_applied_once_an_hour() {
    let world = World::new(Project::new().file("rappel.toml", POLICY));
    world.days(10);
    // The first time it only begins to count, and so it does where the note is lost.
    assert_eq!(world.tended(), None);
    world.clock.advance(DAY_MS + HOUR_MS);
    world.saved(b"today");
    assert_eq!(world.tended(), Some(8));
    assert_eq!(world.tended(), None, "it was just done");
    world.clock.advance(HOUR_MS - 1000);
    assert_eq!(world.tended(), None);
    world.clock.advance(1000);
    assert_eq!(world.tended(), Some(0));
    assert_eq!(world.count(), 3);
    // A clock that was set back by days does not stop it.
    world.clock.advance(-3 * DAY_MS);
    assert_eq!(world.tended(), Some(0));
    world.verify();
}

#[test]
fn a_policy_younger_than_a_day_deletes_nothing() {
    let world = World::new(Project::new().file("rappel.toml", POLICY));
    world.days(10);
    assert_eq!(world.tended(), None);
    // The agent writes a stricter one just before it would be applied.
    world.clock.advance(2 * DAY_MS);
    world.saved(b"today");
    world.write("rappel.toml", "[retention]\nscheduled = { keep = \"1h\" }\n");
    assert_eq!(world.tended(), Some(0), "neither the old one nor the new one");
    let next = world.open().retention_state().unwrap().next.unwrap();
    assert_eq!(next.count, 10, "status says what it will do");
    assert!(next.at.millis_since(world.open().retention_state().unwrap().applied_at) >= DAY_MS);
    world.clock.advance(DAY_MS - HOUR_MS);
    assert_eq!(world.tended(), Some(0));
    world.clock.advance(HOUR_MS);
    assert!(world.tended().unwrap() > 0);
}

#[test]
fn without_a_readable_policy_nothing_is_deleted() {
    let world = World::new(Project::new().file("rappel.toml", POLICY));
    world.days(10);
    assert_eq!(world.tended(), None);
    world.clock.advance(2 * DAY_MS);
    world.saved(b"today");
    world.write("rappel.toml", "[retention\n");
    assert_eq!(world.tended(), None);
    assert!(world.open().retention().is_err(), "nor by hand");
    assert_eq!(world.count(), 11);
}

#[test]
fn the_first_deletion_of_a_home_is_announced_once() {
    let world = World::new(Project::new().file("rappel.toml", POLICY));
    world.days(10);
    world.tended();
    assert!(world.open().take_announcement().is_none());
    world.clock.advance(DAY_MS + HOUR_MS);
    world.saved(b"today");
    assert_eq!(world.tended(), Some(8));
    assert_eq!(world.open().take_announcement().unwrap().count, 8);
    world.days(9);
    assert!(world.tended().unwrap() > 0);
    assert!(world.open().take_announcement().is_none());
    assert!(world.open().status().unwrap().retention.unwrap().deleted > 8);
}

#[test]
fn a_spoilt_note_deletes_nothing_and_begins_anew() {
    let world = World::new(Project::new().file("rappel.toml", POLICY));
    world.days(10);
    for spoilt in [&b""[..], b"{", b"{\"version\": 9}", b"\xff\xff"] {
        world.tended();
        for entry in std::fs::read_dir(world.home.path().join("retention")).unwrap() {
            std::fs::write(entry.unwrap().path(), spoilt).unwrap();
        }
        world.clock.advance(HOUR_MS * 2);
        assert_eq!(world.tended(), None);
    }
    assert_eq!(world.count(), 10);
}

/// A world whose home may take so much, with `days` days of 400 kB each.
fn large(max_size: &str, days: u64) -> (World, Vec<String>) {
    let config = format!(
        "[store]\nmax_size = \"{max_size}\"\n[retention]\ndefault = {{ keep = \"90d\" }}\n"
    );
    let world = World::new(Project::new().file("rappel.toml", config));
    world.saved(b"first");
    world.tended();
    let ids = (0..days)
        .map(|day| {
            world.clock.advance(DAY_MS);
            world.saved(&noise(400_000, day))
        })
        .collect();
    (world, ids)
}

#[test]
fn above_the_limit_the_oldest_unprotected_go_and_no_more_than_needed() {
    let (world, ids) = large("2MiB", 8);
    world.open().pin(&reference(&ids[0]), true).unwrap();
    let gone = world.tended().unwrap();
    // Eight times 400 kB, of which five fit; the oldest one is pinned.
    assert!((4..=5).contains(&gone), "{gone}");
    let left: Vec<String> = {
        let listing = world.open().list(&rappel::ListFilter::default()).unwrap();
        listing.checkpoints.iter().map(|one| one.manifest.id.to_string()).collect()
    };
    assert!(left.contains(&ids[0]) && left.contains(&ids[7]) && !left.contains(&ids[1]));
    assert!(world.open().status().unwrap().retention.unwrap().full.is_none());
    // What was deleted an hour ago lies on the disk for a day: it is not counted again.
    world.clock.advance(HOUR_MS);
    assert_eq!(world.tended(), Some(0));
    world.clock.advance(2 * DAY_MS);
    world.open().gc_deleted(false).unwrap();
    assert!(size_of(world.home.path()) <= 2 << 20);
    world.verify();
}

#[test]
fn where_all_is_protected_saving_goes_on_and_status_says_so() {
    let (world, ids) = large("1MiB", 6);
    for id in &ids {
        world.open().pin(&reference(id), true).unwrap();
    }
    world.clock.advance(HOUR_MS);
    world.tended().unwrap();
    world.saved(&noise(400_000, 99));
    let status = world.open().status().unwrap();
    assert_eq!(status.state, Health::Degraded);
    assert!(status.reasons.iter().any(|one| one.contains("max_size")), "{:?}", status.reasons);
    for id in &ids {
        world.restore(id);
    }
}

#[test]
fn a_strict_preset_does_not_give_manual_or_young_checkpoints_away_for_space() {
    for preset in ["loki", "caf", "forge", "lugh"] {
        let config = format!("[store]\nmax_size = \"1KiB\"\n[retention]\npreset = \"{preset}\"\n");
        let world = World::new(Project::new().file("rappel.toml", config));
        world.saved(b"first");
        world.tended();
        world.clock.advance(2 * DAY_MS);
        world.write("a", noise(40_000, 1));
        let manual = world.save("by hand");
        world.saved(&noise(40_000, 2));
        world.saved(b"newest");
        world.tended().unwrap();
        assert!(world.open().show(&reference(&manual)).is_ok(), "{preset}");
        assert!(world.count() >= 3, "{preset}");
    }
}

/// Another workspace in the home of a world, with these rules.
struct Other<'w> {
    world: &'w World,
    project: Project,
}

impl<'w> Other<'w> {
    fn new(world: &'w World, config: &str) -> Self {
        let project = Project::new().file("rappel.toml", config).file("b", noise(300_000, 7));
        Self { world, project }
    }

    fn open(&self) -> Rappel {
        Rappel::open(self.world.options_at(self.project.root())).unwrap()
    }

    fn save(&self) {
        let trigger = Some(Trigger::Scheduled);
        self.open().save(&SaveOptions { trigger, ..SaveOptions::default() }).unwrap();
        self.open().prune_due();
    }

    fn tended(&self) -> usize {
        self.open().prune_if_due().unwrap().map_or(0, |report| report.deleted.len())
    }
}

#[test]
fn another_projects_limit_does_not_reach_this_one() {
    let (world, ids) = large("20GiB", 5);
    let other = Other::new(&world, "[store]\nmax_size = \"1KiB\"\n");
    for day in 0..4 {
        std::fs::write(other.project.path("b"), noise(300_000, 10 + day)).unwrap();
        other.save();
        world.clock.advance(2 * DAY_MS);
        world.saved(&noise(1000, 20 + day));
    }
    assert!(other.tended() > 0, "its own go");
    for id in &ids {
        assert!(world.open().show(&reference(id)).is_ok(), "{id}");
    }
}

#[test]
fn a_limit_that_changed_waits_a_day() {
    let (world, ids) = large("20GiB", 5);
    world.clock.advance(DAY_MS + HOUR_MS);
    assert_eq!(world.tended(), Some(0));
    world.write(
        "rappel.toml",
        "[store]\nmax_size = \"1KiB\"\n[retention]\ndefault = { keep = \"90d\" }\n",
    );
    world.clock.advance(HOUR_MS);
    assert_eq!(world.tended(), Some(0), "it is new");
    assert!(world.open().show(&reference(&ids[0])).is_ok());
    world.clock.advance(DAY_MS);
    assert!(world.tended().unwrap() > 0);
}

#[test]
fn what_a_workspace_keeps_stays_when_its_folder_or_its_rules_are_gone() {
    let rules = "[store]\nmax_size = \"1KiB\"\n[retention]\ndefault = { keep = \"90d\" }\n";
    for gone in ["folder", "rules"] {
        let (world, _) = large("1KiB", 3);
        let forever =
            "[store]\nmax_size = \"1KiB\"\n[retention]\ndefault = { keep = \"forever\" }\n";
        let other = Other::new(&world, forever);
        for day in 0..4 {
            std::fs::write(other.project.path("b"), noise(1000, 10 + day)).unwrap();
            other.save();
            world.clock.advance(DAY_MS);
        }
        let id = other.open().workspace_id().unwrap().to_string();
        match gone {
            "folder" => std::fs::rename(other.project.root(), other.project.outside().join("away")),
            _ => std::fs::remove_file(other.project.path("rappel.toml")),
        }
        .unwrap();
        world.write("rappel.toml", rules);
        world.tended();
        let options = OpenOptions { workspace: Some(id), ..world.options() };
        let left = Rappel::open(options).unwrap().list(&rappel::ListFilter::default()).unwrap();
        assert_eq!(left.total, 4, "{gone}");
    }
}

#[test]
fn two_processes_delete_once() {
    let world = World::new(Project::new().file("rappel.toml", POLICY));
    world.days(10);
    world.tended();
    world.clock.advance(DAY_MS + HOUR_MS);
    world.saved(b"today");
    let counts: Vec<usize> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| world.tended().unwrap_or(0))).collect();
        threads.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert_eq!(counts.iter().sum::<usize>(), 8, "{counts:?}");
    assert_eq!(world.open().retention_state().unwrap().deleted, 8);
}

/// Everything that `upkeep` does to a disk, stopped at each step: by a crash that loses what was not
/// synced, and by a disk that refuses.
#[test]
fn interrupted_at_any_step_it_loses_nothing_that_stays() {
    for step in 1.. {
        let mut reached = false;
        for crash in [true, false] {
            let world = World::new(Project::new().file("rappel.toml", POLICY));
            world.days(6);
            world.tended();
            world.clock.advance(DAY_MS + HOUR_MS);
            let newest = world.saved(b"today");
            let disk = FaultDisk::with(match crash {
                true => Fault::Crash { at: step },
                false => Fault::Fail { at: step, failure: Failure::NoSpace },
            });
            let rappel = Rappel::open(OpenOptions { disk: disk.clone(), ..world.options() });
            let done = rappel.and_then(|rappel| {
                rappel.tend(true)?;
                rappel.gc_deleted(false)
            });
            drop(done);
            reached |= disk.count() >= step;
            if disk.has_crashed() {
                disk.lose(Loss::all()[0]);
            }
            world.clock.advance(2 * HOUR_MS);
            world.open().tend(true).unwrap();
            world.open().gc_deleted(false).unwrap();
            world.verify();
            let left = world.open().list(&rappel::ListFilter::default()).unwrap();
            assert_eq!(left.total, 3, "crash {crash} at step {step}");
            world.restore(&newest);
            assert_eq!(world.read("a"), "today");
        }
        if !reached {
            assert!(step > 5, "nothing was stopped");
            return;
        }
    }
}
