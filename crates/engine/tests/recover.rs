//! Restores that were cut short, and what other commands make of them.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test may fail loudly"
)]

mod support;

use std::sync::{Arc, Mutex};

use rappel::{ErrorKind, ListFilter, Rappel, RecoverOptions, RestoreOptions, SaveOptions};
use rappel_store::disk::Op;
use rappel_testing::{Fault, FaultDisk, Loss, Project};
use support::{World, reference};

/// A restore to `id` that loses power in the middle of its swaps.
fn interrupt(world: &World, id: &str) {
    interrupt_at(world, id, "b");
}

/// A restore to `id` that loses power before `path` is swapped. What was done before stays done.
fn interrupt_at(world: &World, id: &str, path: &'static str) {
    let disk = FaultDisk::new();
    let inner = disk.clone();
    disk.before(
        move |op| matches!(op, Op::Exchange { b, .. } if b.ends_with(path)),
        move || inner.set(Fault::Crash { at: 1 }),
    );
    let mut options = world.options();
    options.disk = disk.clone();
    let rappel = Rappel::open(options).unwrap();
    rappel.restore(&reference(id), &RestoreOptions::default()).unwrap_err();
    drop(rappel);
    disk.lose(Loss::all()[0]);
}

fn edited() -> (World, String) {
    let world = World::new(Project::new().file("a", "old a").file("b", "old b"));
    let first = world.save("first");
    world.write("a", "new a");
    world.write("b", "new b");
    (world, first)
}

#[test]
fn undo_after_a_finished_recovery_goes_to_before_the_restore() {
    let (world, first) = edited();
    let before = world.snapshot();
    interrupt(&world, &first);
    let error = world.open().next_undo().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    let recovered = world.open().recover(&RecoverOptions::finish()).unwrap();
    assert_eq!((recovered.outcome, &recovered.conflicts[..]), ("finished", &[][..]));
    assert_eq!((world.read("a"), world.read("b")), ("old a".into(), "old b".into()));
    assert!(!world.open().next_undo().unwrap().asks, "it takes back the restore");
    world.undo();
    assert_eq!(world.snapshot(), before);
    world.redo();
    assert_eq!((world.read("a"), world.read("b")), ("old a".into(), "old b".into()));
}

#[test]
fn a_restore_that_was_rolled_back_leaves_all_as_it_was_before_it() {
    let (world, first) = edited();
    world.save("second");
    interrupt(&world, &first);
    assert_eq!(world.open().status().unwrap().restores, 1);
    world.open().recover(&RecoverOptions::rollback()).unwrap();

    // The save of the half-done state is the newest one, and nothing goes on from it.
    let status = world.open().status().unwrap();
    let reasons = &status.reasons;
    assert!(!reasons.iter().any(|one| one.contains("middle of a restore")), "{reasons:?}");
    assert_eq!((status.unsaved, status.restores), (0, 0));
    let before = status.based_on.unwrap();
    let made = world.open().show(&reference(&before)).unwrap().manifest;
    assert_eq!(made.trigger, rappel_types::Trigger::PreRestore, "what was there before it");
    world.write("b", "newer");
    let third = world.save("third");
    let third = world.open().show(&reference(&third)).unwrap().manifest;
    assert_eq!(third.parent.map(|id| id.to_string()), Some(before));
    // There is no restore to take back.
    assert!(world.open().next_undo().unwrap().asks);
    assert_eq!(world.open().next_redo().unwrap_err().to_string(), "there is nothing to redo");
}

#[test]
fn what_a_restore_had_not_come_to_is_not_told_as_taken_back() {
    for (number, swapped) in [("a", 0), ("b", 1)] {
        let (world, first) = edited();
        let before = world.snapshot();
        interrupt_at(&world, &first, number);
        let recovered = world.open().recover(&RecoverOptions::rollback()).unwrap();
        let expected = match swapped {
            0 => "nothing changed",
            _ => "0 new, 1 changed, 0 deleted",
        };
        assert_eq!(recovered.message, expected, "{number}");
        assert_eq!(world.snapshot(), before);
    }
}

#[test]
fn a_damaged_intent_bars_the_restores_of_its_own_workspace_alone() {
    let (world, first) = edited();
    interrupt(&world, &first);
    let intents = std::fs::read_dir(world.home.path().join("intents")).unwrap();
    let file = intents.map(|entry| entry.unwrap().path()).next().unwrap();
    std::fs::write(&file, "spoilt").unwrap();
    let checkpoints = || world.open().list(&ListFilter::default()).unwrap().total;
    let total = checkpoints();
    let error = world.open().restore(&reference(&first), &RestoreOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damage, "{error}");
    assert!(error.to_string().contains(file.to_str().unwrap()), "{error}");
    assert_eq!(checkpoints(), total, "nothing was saved because of it");

    let other = World { project: Project::new().file("x", "1"), ..world };
    let saved = other.save("other");
    other.write("x", "2");
    other.restore(&saved);
    assert_eq!(other.read("x"), "1");
}

#[test]
fn a_save_beside_a_running_restore_does_not_take_its_staged_files() {
    let (world, first) = edited();
    let beside = world.options();
    let held: Arc<Mutex<Option<Vec<String>>>> = Arc::default();
    let seen = held.clone();
    let disk = FaultDisk::new();
    // Everything is staged, and nothing has changed places yet.
    disk.before(
        |op| matches!(op, Op::Exchange { .. }),
        move || {
            let rappel = Rappel::open(beside).unwrap();
            let options = SaveOptions { message: Some("beside".into()), ..SaveOptions::default() };
            let saved = rappel.save(&options).unwrap().checkpoint.manifest;
            assert!(saved.interrupted_restore);
            assert_eq!(rappel.status().unwrap().restores, 0, "it is at work, not unfinished");
            let files = rappel.files_of(&reference(saved.id.as_str())).unwrap();
            let names = files.iter().map(|entry| entry.path.to_string()).collect();
            *seen.lock().unwrap() = Some(names);
        },
    );
    let mut options = world.options();
    options.disk = disk;
    let rappel = Rappel::open(options).unwrap();
    rappel.restore(&reference(&first), &RestoreOptions::default()).unwrap();
    assert_eq!(held.lock().unwrap().clone(), Some(vec!["a".to_owned(), "b".to_owned()]));
    assert_eq!(world.read("a"), "old a");
}
