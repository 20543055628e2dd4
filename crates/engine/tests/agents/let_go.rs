//! Sessions that retention lets go: which, what is left of them, and what stays whole.

use rappel::types::Trigger;
use rappel::types::agents::{SessionId, SessionStatus};
use rappel::types::retention::{Policy, SessionReason};
use rappel::{Error, OpenOptions, PruneReport, Rappel, SaveOptions};
use rappel_testing::{Failure, Fault, FaultDisk, Loss, Project, noise, size_of};

use crate::journal::{note, start};
use crate::support::World;

const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;
const CONFIG: &str = "[retention]\nscheduled = { keep = \"3d\" }\nsessions = { keep = \"5d\" }\n";
/// What the notes of a session take, at least: they are hexadecimal digits of noise.
const NOTES_BYTES: u64 = 200 * 1000;

fn world() -> World {
    World::new(Project::new().file("a", "0").file("rappel.toml", CONFIG))
}

/// A session that ended after so many notes.
fn ended(rappel: &Rappel, id: &str, notes: u64) -> SessionId {
    let session = start(rappel, id);
    for number in 0..notes {
        let bytes = noise(1000, number + id.len() as u64 * 1000);
        let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        rappel.record(&session, note(&text)).unwrap();
    }
    rappel.end_session(&session, SessionStatus::Completed, None).unwrap();
    session
}

impl World {
    /// A scheduled checkpoint on each of so many days.
    fn work(&self, days: u64) {
        for day in 0..days {
            self.clock.advance(DAY_MS);
            self.write("a", day.to_string());
            let options =
                SaveOptions { trigger: Some(Trigger::Scheduled), ..SaveOptions::default() };
            self.open().save(&options).unwrap();
        }
    }

    fn plan(&self, now: bool) -> PruneReport {
        let rappel = self.open();
        let policy = rappel.retention().unwrap();
        rappel.plan_prune(policy, now).unwrap()
    }

    fn prune(&self, now: bool) -> PruneReport {
        self.open().prune(self.plan(now), now).unwrap()
    }

    /// Lets a session go once the checkpoints that refer to it are gone for good.
    fn let_go(&self, session: &str) {
        self.prune(false);
        self.clock.advance(25 * HOUR_MS);
        self.prune(false);
        let gone = self.open().is_let_go(&session.parse().unwrap()).unwrap();
        assert!(gone, "{:?}", self.plan(false).sessions);
    }

    fn session_ids(&self) -> Vec<String> {
        let sessions = self.open().sessions().unwrap();
        let mut ids: Vec<String> = sessions.iter().map(|view| view.id.to_string()).collect();
        ids.sort();
        ids
    }

    fn lose_index(&self) {
        for name in ["index.db", "index.db-wal", "index.db-shm"] {
            let _ = std::fs::remove_file(self.home.path().join(name));
        }
    }
}

fn reason_of(plan: &PruneReport, id: &str) -> SessionReason {
    plan.sessions.iter().find(|one| one.id.as_str() == id).unwrap().reason
}

#[test]
fn old_sessions_go_and_their_space_comes_back_and_what_is_needed_stays() {
    let world = world();
    let rappel = world.open();
    ended(&rappel, "old", 200);
    start(&rappel, "running");
    let paused = start(&rappel, "paused");
    rappel.pause_session(&paused).unwrap();
    // A checkpoint by hand stays, and so does the session that it was made for.
    let held = start(&rappel, "held");
    rappel.record(&held, note("why")).unwrap();
    let for_held = SaveOptions { session: Some("held".into()), ..SaveOptions::default() };
    let kept = rappel.save(&for_held).unwrap().checkpoint.manifest.id;
    rappel.end_session(&held, SessionStatus::Completed, None).unwrap();
    world.work(7);
    ended(&world.open(), "young", 1);
    world.work(1);

    let plan = world.plan(true);
    assert_eq!(plan.let_go, ["old".parse().unwrap()], "{:?}", plan.sessions);
    assert_eq!(reason_of(&plan, "running"), SessionReason::Running);
    assert_eq!(reason_of(&plan, "paused"), SessionReason::Running);
    assert_eq!(reason_of(&plan, "held"), SessionReason::Held);
    assert_eq!(reason_of(&plan, "young"), SessionReason::Recent);
    assert!(plan.freed_bytes >= NOTES_BYTES, "{}", plan.freed_bytes);
    assert_eq!(world.session_ids().len(), 5, "a plan changes nothing");

    drop(rappel);
    let before = size_of(world.home.path());
    let report = world.prune(true);
    assert_eq!(report.let_go, ["old".parse().unwrap()]);
    world.open().gc(true, false).unwrap();
    let after = size_of(world.home.path());
    assert!(before - after >= NOTES_BYTES, "{before} bytes became {after}");
    let left = ["held", "paused", "running", "young"];
    assert_eq!(world.session_ids(), left);
    world.verify();
    // An index that is built anew says the same.
    world.lose_index();
    assert_eq!(world.session_ids(), left);
    let rappel = world.open();
    let state = rappel.state_now(&held, u64::MAX).unwrap().state;
    assert_eq!(state.notes.iter().next().unwrap().text, "why");
    rappel.show(&kept.as_str().parse().unwrap()).unwrap();
    assert!(matches!(
        rappel.session(&"old".parse().unwrap()),
        Err(Error::NoSession { let_go: Some(_), .. })
    ));
    assert!(world.prune(true).is_empty(), "there is nothing left to do");
}

#[test]
fn a_session_stays_as_long_as_its_checkpoint_can_be_brought_back() {
    let world = world();
    let rappel = world.open();
    let session = start(&rappel, "s");
    let trigger = Some(Trigger::Scheduled);
    let options = SaveOptions { session: Some("s".into()), trigger, ..SaveOptions::default() };
    rappel.save(&options).unwrap();
    rappel.end_session(&session, SessionStatus::Completed, None).unwrap();
    drop(rappel);
    world.work(8);
    assert_eq!(reason_of(&world.plan(false), "s"), SessionReason::Held);
    assert_eq!(reason_of(&world.plan(true), "s"), SessionReason::TooOld, "it goes with its last");
    assert!(!world.prune(false).deleted.is_empty());
    assert_eq!(reason_of(&world.plan(false), "s"), SessionReason::Held, "undelete is possible");
    world.clock.advance(25 * HOUR_MS);
    assert_eq!(world.prune(false).let_go, ["s".parse().unwrap()]);
    world.verify();
}

#[test]
fn for_a_day_it_can_be_brought_back() {
    let world = world();
    let session = ended(&world.open(), "s", 200);
    let told = world.open().state_now(&session, u64::MAX).unwrap().state;
    world.work(8);
    world.let_go("s");
    assert!(world.session_ids().is_empty());
    // Gc copies what lives, the hidden journal too; an index built anew still hides it.
    world.open().gc(false, false).unwrap();
    world.lose_index();
    assert!(world.session_ids().is_empty());
    assert!(world.open().is_let_go(&session).unwrap());
    assert!(world.open().bring_back_session(&session).unwrap());
    for _ in 0..2 {
        assert_eq!(world.open().state_now(&session, u64::MAX).unwrap().state, told);
        assert_eq!(world.session_ids(), ["s"]);
        world.lose_index();
    }
    assert!(!world.open().is_let_go(&session).unwrap());
    // It is old, and goes again; after a day gc takes it.
    world.let_go("s");
    world.clock.advance(25 * HOUR_MS);
    let before = size_of(world.home.path());
    world.open().gc(true, false).unwrap();
    assert!(before - size_of(world.home.path()) >= NOTES_BYTES);
    let back = world.open().bring_back_session(&session);
    assert!(back.unwrap_err().to_string().contains("gc has freed"));
    assert!(!world.open().bring_back_session(&"other".parse().unwrap()).unwrap());
    world.verify();
}

#[test]
fn recording_into_one_that_was_let_go_is_refused_and_its_numbers_are_not_given_again() {
    let world = world();
    let holder = world.open();
    let session = ended(&holder, "s", 5);
    let last = holder.session(&session).unwrap().events;
    world.work(8);
    world.prune(true);
    // The process that wrote the journal still has its state in memory.
    let refused = holder.record(&session, note("late"));
    let Err(Error::NoSession { let_go: Some(_), .. }) = &refused else { panic!("{refused:?}") };
    let saved = holder.save(&SaveOptions { session: Some("s".into()), ..SaveOptions::default() });
    saved.unwrap();
    assert!(world.session_ids().is_empty());
    // Beginning again is no recording into the old one.
    let again = start(&holder, "s");
    let event = holder.record(&again, note("new")).unwrap().event;
    assert!(event.number > last + 1, "after its own beginning");
    world.open().gc(true, false).unwrap();
    for _ in 0..2 {
        let rappel = world.open();
        let state = rappel.state_now(&again, u64::MAX).unwrap().state;
        assert_eq!(state.notes.len(), 1);
        assert_eq!(rappel.session(&again).unwrap().status, SessionStatus::Running);
        world.lose_index();
    }
    world.verify();
}

#[test]
fn one_that_went_on_since_the_plan_stays() {
    let world = world();
    let session = ended(&world.open(), "s", 5);
    world.work(8);
    let plan = world.plan(true);
    assert_eq!(plan.let_go.len(), 1);
    // A checkpoint is made for it before the plan is carried out.
    let options = SaveOptions { session: Some("s".into()), ..SaveOptions::default() };
    world.open().save(&options).unwrap();
    let done = world.open().prune(plan, true).unwrap();
    assert!(done.let_go.is_empty());
    assert_eq!(world.open().state_now(&session, u64::MAX).unwrap().state.notes.len(), 5);
}

#[test]
fn numbers_of_checkpoints_to_keep_say_nothing_of_sessions() {
    let world = world();
    ended(&world.open(), "s", 1);
    world.work(8);
    let policy = Policy::Newest { last: Some(1), within: None, include_manual: true };
    let plan = world.open().plan_prune(&policy, true).unwrap();
    assert!(plan.let_go.is_empty());
    assert_eq!(reason_of(&plan, "s"), SessionReason::Forever);
}

#[test]
fn it_is_applied_by_itself() {
    let world = world();
    ended(&world.open(), "s", 1);
    world.work(8);
    assert!(world.open().prune_if_due().unwrap().is_none(), "it begins to count");
    world.clock.advance(DAY_MS + HOUR_MS);
    // The checkpoint of its end goes first, and can be brought back for a day.
    let report = world.open().prune_if_due().unwrap().unwrap();
    assert!(!report.deleted.is_empty() && report.let_go.is_empty());
    world.clock.advance(DAY_MS + HOUR_MS);
    let report = world.open().prune_if_due().unwrap().unwrap();
    assert_eq!(report.let_go, ["s".parse().unwrap()]);
    assert!(world.session_ids().is_empty());
}

/// Everything that letting go does to a disk, stopped at each step: by a crash that loses what was
/// not synced, and by a disk that refuses.
#[test]
fn interrupted_at_any_step_nothing_that_stays_is_lost() {
    for step in 1.. {
        let mut reached = false;
        for crash in [true, false] {
            let world = world();
            ended(&world.open(), "s", 3);
            let kept = start(&world.open(), "kept");
            world.open().record(&kept, note("why")).unwrap();
            world.work(8);
            let disk = FaultDisk::with(match crash {
                true => Fault::Crash { at: step },
                false => Fault::Fail { at: step, failure: Failure::NoSpace },
            });
            let rappel = Rappel::open(OpenOptions { disk: disk.clone(), ..world.options() });
            let done = rappel.and_then(|rappel| {
                let plan = rappel.plan_prune(rappel.retention()?, true)?;
                rappel.prune(plan, true)?;
                rappel.gc(true, false)
            });
            drop(done);
            reached |= disk.count() >= step;
            if disk.has_crashed() {
                disk.lose(Loss::all()[0]);
            }
            world.verify();
            world.prune(true);
            world.open().gc(true, false).unwrap();
            world.verify();
            assert_eq!(world.session_ids(), ["kept"], "crash {crash} at step {step}");
            let state = world.open().state_now(&kept, u64::MAX).unwrap().state;
            assert_eq!(state.notes.iter().next().unwrap().text, "why");
        }
        if !reached {
            assert!(step > 5, "nothing was stopped");
            return;
        }
    }
}
