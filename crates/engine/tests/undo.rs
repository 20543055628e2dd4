//! Undo and redo, any number of steps, without losing an edit.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test may fail loudly"
)]

mod support;

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use rappel::{ErrorKind, Rappel, RecoverOptions, RestoreOptions};
use rappel_store::disk::{Disk, Op};
use rappel_testing::{FaultDisk, Project};
use support::{World, path, reference};

#[test]
fn undo_reverses_just_what_the_restore_touched() {
    let world = World::new(Project::new().file("a", "1").file("b", "1"));
    let first = world.save("first");
    world.write("a", "2");
    world.restore(&first);
    world.write("b", "edited after the restore");
    let step = world.open().next_undo().unwrap();
    assert!(!step.asks);
    world.undo();
    assert_eq!((world.read("a"), world.read("b")), ("2".into(), "edited after the restore".into()));
}

#[test]
fn a_path_edited_since_is_kept_and_listed() {
    let world = World::new(Project::new().file("a", "1").file("b", "1"));
    let first = world.save("first");
    world.write("a", "2");
    world.write("b", "2");
    world.restore(&first);
    world.write("a", "3");
    let report = world.undo();
    assert_eq!((world.read("a"), world.read("b")), ("3".into(), "2".into()));
    assert_eq!(report.conflicts.len(), 1);
    assert_eq!(report.conflicts[0].path, path("a"));

    let world = World::new(Project::new().file("a", "1"));
    let first = world.save("first");
    world.write("a", "2");
    world.restore(&first);
    world.write("a", "3");
    let rappel = world.open();
    let step = rappel.next_undo().unwrap();
    let report = rappel.step(&step, true, &RestoreOptions::default()).unwrap();
    assert_eq!((world.read("a"), report.conflicts.len()), ("2".into(), 0));
}

#[test]
fn a_file_added_since_is_not_undones_business() {
    let world = World::new(Project::new().file("a", "1"));
    let first = world.save("first");
    world.write("d/x", "1");
    world.restore(&first);
    assert!(!world.exists("d"));
    world.undo();
    world.write("d/mine", "2");
    world.redo();
    assert!(!world.exists("d/x"));
    assert_eq!(world.read("d/mine"), "2");
}

#[test]
fn steps_go_back_and_forward_again() {
    let world = World::new(Project::new().file("a", "1"));
    world.save("one");
    world.write("a", "2");
    world.save("two");
    world.write("a", "3");
    world.save("three");
    world.write("a", "unsaved");
    let step = world.open().next_undo().unwrap();
    assert!(step.asks);
    for expected in ["3", "2", "1"] {
        world.undo();
        assert_eq!(world.read("a"), expected);
    }
    let error = world.open().next_undo().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Failed);
    for expected in ["2", "3", "unsaved"] {
        world.redo();
        assert_eq!(world.read("a"), expected);
    }
    assert!(world.open().next_redo().is_err());
    world.undo();
    assert_eq!(world.read("a"), "3");
}

#[test]
fn a_new_restore_ends_what_can_be_redone() {
    let world = World::new(Project::new().file("a", "1"));
    let one = world.save("one");
    world.write("a", "2");
    let two = world.save("two");
    world.restore(&one);
    world.undo();
    assert!(world.open().next_redo().is_ok());
    world.restore(&one);
    assert!(world.open().next_redo().is_err());
    world.undo();
    assert_eq!(world.read("a"), "2");
    let _ = two;
}

#[test]
fn several_restores_are_undone_one_by_one() {
    let world = World::new(Project::new().file("a", "1"));
    let one = world.save("one");
    world.write("a", "2");
    let two = world.save("two");
    world.write("a", "3");
    world.restore(&one);
    world.restore(&two);
    assert_eq!(world.read("a"), "2");
    world.undo();
    assert_eq!(world.read("a"), "1");
    world.undo();
    assert_eq!(world.read("a"), "3");
    world.redo();
    assert_eq!(world.read("a"), "1");
    world.redo();
    assert_eq!(world.read("a"), "2");
}

#[test]
fn hunks_that_were_taken_are_given_back() {
    let lines = |third: &str, last: &str| {
        let middle: String = (0..30).map(|n| format!("line {n}\n")).collect();
        format!("{third}\n{middle}{last}\n")
    };
    let world = World::new(Project::new().file("a", lines("one", "two")));
    let first = world.save("first");
    world.write("a", lines("1", "2"));
    let rappel = world.open();
    let (report, hunks) =
        rappel.hunks(&support::reference(&first), &RestoreOptions::default()).unwrap();
    assert_eq!(hunks[0].hunks.len(), 2);
    let chosen = [(path("a"), rappel::Choice::Hunks(vec![0]))].into();
    let options = RestoreOptions { expected: Some(report.plan), ..RestoreOptions::default() };
    rappel.restore_chosen(&support::reference(&first), &options, &chosen).unwrap();
    assert_eq!(world.read("a"), lines("one", "2"));
    let report = world.undo();
    assert_eq!(report.conflicts, []);
    assert_eq!(world.read("a"), lines("1", "2"));
}

/// Everything stands and is recorded, but the intent is still there.
#[test]
fn a_restore_killed_before_its_intent_is_closed_is_undone_once() {
    for finish in [true, false] {
        let world = World::new(Project::new().file("a", "1"));
        world.save("first");
        world.write("a", "2");
        let second = world.save("second");
        world.write("a", "3");
        let disk = FaultDisk::new();
        // The third mark of an intent, after swapping and swapped, says that it is over.
        let marks = AtomicU32::new(0);
        let is_over = move |op: &Op<'_>| {
            let mark = matches!(op, Op::Write { path, offset: 1.., .. }
                if path.parent().is_some_and(|folder| folder.ends_with("intents")));
            mark && marks.fetch_add(1, Ordering::Relaxed) == 2
        };
        disk.before(is_over, || panic!("killed"));
        let rappel = Rappel::open(rappel::OpenOptions { disk, ..world.options() }).unwrap();
        let killed = catch_unwind(AssertUnwindSafe(|| {
            rappel.restore(&reference(&second), &RestoreOptions::default())
        }));
        assert!(killed.is_err());
        drop(rappel);
        assert_eq!(world.open().next_undo().unwrap_err().kind(), ErrorKind::Conflict);

        world.clock.advance(1000);
        let recovered =
            world.open().recover(&RecoverOptions { finish, ..RecoverOptions::default() }).unwrap();
        assert!(recovered.conflicts.is_empty(), "{recovered:?}");
        assert_eq!(world.read("a"), if finish { "2" } else { "3" });
        let report = world.undo();
        assert!(report.conflicts.is_empty(), "{report:?}");
        // Taken back, the restore is no more: undo goes on from what was there before.
        assert_eq!(world.read("a"), if finish { "3" } else { "2" });
        world.undo();
        assert_eq!(world.read("a"), if finish { "2" } else { "1" });
    }
}

/// A disk on which nothing can be added to the log once a file has changed places.
#[derive(Debug, Default)]
struct FullAfterTheSwap(AtomicBool);

impl Disk for FullAfterTheSwap {
    fn gate(&self, op: &Op<'_>) -> io::Result<usize> {
        match op {
            Op::Exchange { .. } => self.0.store(true, Ordering::Relaxed),
            Op::Write { path, .. }
                if path.extension().is_some_and(|e| e == "pack")
                    && self.0.load(Ordering::Relaxed) =>
            {
                return Err(io::Error::from_raw_os_error(28));
            }
            _ => {}
        }
        Ok(usize::MAX)
    }
}

#[test]
fn a_restore_that_could_not_be_undone_is_taken_back() {
    let world = World::new(Project::new().file("a", "1"));
    let first = world.save("first");
    world.write("a", "2");
    let disk: Arc<dyn Disk> = Arc::new(FullAfterTheSwap::default());
    let rappel = Rappel::open(rappel::OpenOptions { disk, ..world.options() }).unwrap();
    rappel.restore(&reference(&first), &RestoreOptions::default()).unwrap_err();
    drop(rappel);
    assert_eq!(world.read("a"), "2");
    assert!(world.open().unfinished().unwrap().restores.is_empty());
    world.restore(&first);
    assert_eq!(world.read("a"), "1");
}

#[test]
fn what_a_restore_made_is_taken_back_whatever_the_rules_were_before() {
    // A file that was ignored stands where the checkpoint has a folder.
    let world = World::new(Project::new().file("d/x", "1").file("keep", "k"));
    world.git(&["init", "-q"]);
    let first = world.save("first");
    world.remove("d");
    world.write("d", "precious");
    world.write(".gitignore", "d\n");
    world.restore(&first);
    assert_eq!(world.read("d/x"), "1");
    world.undo();
    assert_eq!((world.read("d"), world.read(".gitignore")), ("precious".into(), "d\n".into()));
    world.redo();
    assert_eq!(world.read("d/x"), "1");

    // A state folder that git ignores, and that was not there.
    let world = World::new(Project::new().file(".loki/s", "1").file(".gitignore", ".loki\n"));
    world.git(&["init", "-q"]);
    let first = world.save("first");
    world.remove(".loki");
    world.restore(&first);
    assert_eq!(world.read(".loki/s"), "1");
    world.undo();
    assert!(!world.exists(".loki"));
}

#[test]
fn of_two_undos_at_once_one_is_a_step() {
    let world = World::new(Project::new().file("a", "1"));
    for text in ["2", "3"] {
        world.save(text);
        world.write("a", text);
    }
    world.save("last");
    let (first, second) = (world.open(), world.open());
    let (step, same) = (first.next_undo().unwrap(), second.next_undo().unwrap());
    assert_eq!(step, same);
    first.step(&step, false, &RestoreOptions::default()).unwrap();
    let error = second.step(&same, false, &RestoreOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert_eq!(world.read("a"), "2");
    world.redo();
    assert_eq!(world.read("a"), "3");
    assert!(world.open().next_redo().is_err(), "there was one step");
}
