//! Pruning a real history: what stays, what comes back, and that the space does.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test may fail loudly"
)]

mod support;

use rappel::types::Trigger;
use rappel::types::retention::{Policy, Preset, Reason};
use rappel::{PruneReport, SaveOptions};
use rappel_testing::{Project, noise, size_of};
use support::{World, reference};

const DAY_MS: i64 = 24 * 3_600_000;

impl World {
    fn saved_for(&self, trigger: Trigger, content: &str) -> String {
        self.write("a", content);
        let trigger = Some(trigger);
        let saved = self.open().save(&SaveOptions { trigger, ..SaveOptions::default() }).unwrap();
        saved.checkpoint.manifest.id.to_string()
    }

    /// One checkpoint a day, each with its own content.
    fn days(&self, count: usize) -> Vec<String> {
        let day = |n: usize| {
            self.clock.advance(DAY_MS);
            self.saved_for(Trigger::Scheduled, &n.to_string())
        };
        (0..count).map(day).collect()
    }

    fn pruned(&self, policy: &Policy) -> PruneReport {
        let rappel = self.open();
        let plan = rappel.plan_prune(policy, false).unwrap();
        rappel.prune(plan, false).unwrap()
    }
}

fn newest(last: u64) -> Policy {
    Policy::Newest { last: Some(last), within: None, include_manual: false }
}

#[test]
fn the_policy_of_the_configuration_is_applied() {
    let world = World::new(Project::new().file("a", "0"));
    world.write("rappel.toml", "[retention]\nscheduled = { keep = \"3d\" }\n");
    let manual = world.save("by hand");
    let ids = world.days(10);
    let policy = world.open().retention().unwrap().clone();
    let report = world.pruned(&policy);
    assert_eq!((report.total, report.kept, report.deleted.len()), (11, 5, 6));
    // Again it deletes nothing.
    assert!(world.pruned(&policy).deleted.is_empty());
    let list = world.open().list(&rappel::ListFilter::default()).unwrap();
    assert_eq!(list.total, 5);
    world.restore(&manual);
    world.restore(&ids[7]);
    world.verify();
}

#[test]
fn a_pruned_checkpoint_comes_back_within_a_day() {
    let world = World::new(Project::new().file("a", "0"));
    let ids = world.days(6);
    let report = world.pruned(&newest(2));
    assert_eq!(report.deleted.len(), 4);
    world.open().undelete(&ids[0]).unwrap();
    world.restore(&ids[0]);
    assert_eq!(world.read("a"), "0");
}

#[test]
fn pins_and_what_undo_needs_stay() {
    let world = World::new(Project::new().file("a", "0"));
    let ids = world.days(8);
    world.open().pin(&reference(&ids[1]), true).unwrap();
    world.restore(&ids[2]);
    world.clock.advance(5 * DAY_MS);
    let plan = world.open().plan_prune(&Policy::Preset(Preset::Lugh), false).unwrap();
    let reason = |id: &str| {
        let found = plan.decisions.iter().find(|decision| decision.id.as_str() == id);
        found.unwrap().reason
    };
    assert_eq!(reason(&ids[1]), Reason::Pinned);
    assert_eq!(reason(&ids[2]), Reason::Undoable);
    world.open().prune(plan, true).unwrap();
    world.open().gc(true, false).unwrap();
    // The restore can be taken back all the same, and the undo too.
    world.undo();
    assert_eq!(world.read("a"), "7");
    world.redo();
    assert_eq!(world.read("a"), "2");
    world.verify();
}

#[test]
fn a_pin_that_comes_between_plan_and_deletion_holds() {
    let world = World::new(Project::new().file("a", "0"));
    let ids = world.days(5);
    let rappel = world.open();
    let plan = rappel.plan_prune(&newest(1), false).unwrap();
    world.open().pin(&reference(&ids[0]), true).unwrap();
    let report = rappel.prune(plan, true).unwrap();
    assert!(!report.deleted.iter().any(|id| id.as_str() == ids[0]));
    world.restore(&ids[0]);
}

#[test]
fn the_space_that_the_plan_names_comes_back() {
    let world = World::new(Project::new().file("a", "0"));
    for day in 0..6 {
        world.clock.advance(DAY_MS);
        world.write("large", noise(400_000, day));
        world.saved_for(Trigger::Scheduled, &day.to_string());
    }
    let size = || size_of(world.home.path());
    let before = size();
    let plan = world.open().plan_prune(&newest(1), false).unwrap();
    assert!((4 * 400_000..6 * 400_000).contains(&plan.freed_bytes), "{}", plan.freed_bytes);
    assert_eq!(size() / 100_000, before / 100_000, "a plan changes nothing");
    world.open().prune(plan, true).unwrap();
    world.open().gc(true, false).unwrap();
    assert!(before - size() > 4 * 400_000, "{before} to {}", size());
    world.verify();
}

#[test]
fn a_running_session_keeps_its_checkpoints() {
    let world = World::new(Project::new().file("a", "0"));
    let (session, _) = world.open().start_session(rappel::SessionStart::default()).unwrap();
    world.clock.advance(DAY_MS);
    world.write("a", "in the session");
    let options = SaveOptions {
        session: Some(session.to_string()),
        trigger: Some(Trigger::CodeModified),
        ..SaveOptions::default()
    };
    let kept = world.open().save(&options).unwrap().checkpoint.manifest.id;
    world.days(9);
    let reason = |world: &World| {
        let plan = world.open().plan_prune(&newest(1), false).unwrap();
        plan.decisions.into_iter().find(|decision| decision.id == kept).unwrap().reason
    };
    assert_eq!(reason(&world), Reason::RecentSession);
    let status = rappel::types::agents::SessionStatus::Completed;
    world.open().end_session(&session, status, None).unwrap();
    assert_eq!(reason(&world), Reason::RecentSession);
    world.days(4);
    assert_eq!(reason(&world), Reason::TooMany);
}

#[test]
fn a_holiday_changes_nothing() {
    let world = World::new(Project::new().file("a", "0"));
    world.days(5);
    let policy = world.open().retention().unwrap().clone();
    let before = world.open().plan_prune(&policy, false).unwrap();
    world.clock.advance(60 * DAY_MS);
    let after = world.open().plan_prune(&policy, false).unwrap();
    assert_eq!(before.deleted, after.deleted);
}
