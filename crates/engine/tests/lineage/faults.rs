//! Imports that are cut short, run out of room, or meet others: all of it is there, or nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rappel::formats::{Form, Portable};
use rappel::{Arrivals, OpenOptions, Rappel, SaveOptions};
use rappel_testing::{Failure, Fault, FaultDisk, Loss, Project, noise};

use crate::scene::{arrivals, import, listed, session, with_files};
use crate::support::World;

fn world() -> World {
    World::new(Project::new().file("a.txt", "own"))
}

/// Enough for a pack of its own, and a journal.
fn all() -> Vec<Portable> {
    let large: String = noise(9 << 20, 7).iter().map(|byte| char::from(b'a' + byte % 26)).collect();
    let mut first = with_files("one", 1, &[("x", "1"), ("large", &large)]);
    first.sessions = vec![session("s", &["a"])];
    let mut second = with_files("two", 2, &[("x", "2")]);
    second.sessions = vec![session("s", &["a", "b"])];
    vec![first, second]
}

fn arriving() -> Arrivals {
    arrivals(Form::Lugh, "/there", all())
}

fn on(world: &World, disk: &Arc<FaultDisk>) -> OpenOptions {
    OpenOptions { disk: disk.clone(), ..world.options() }
}

/// What is listed after a fault: nothing of the import, or all of it; and it can be done again.
fn assert_all_or_nothing(world: &World, when: &str) {
    let rappel = world.open();
    let found = listed(&rappel);
    let foreign: Vec<&String> = found.iter().filter(|id| !id.starts_with("chk_")).collect();
    assert!(foreign.is_empty() || foreign == ["two", "one"], "{when}: {found:?}");
    let lineages = rappel.lineages().unwrap();
    assert_eq!(lineages.len(), usize::from(!foreign.is_empty()), "{when}");
    world.verify();
    let again = rappel.import_checkpoints(&arriving()).unwrap();
    assert_eq!(again.imported + again.known, 2, "{when}");
    assert_eq!(listed(&rappel)[..2], ["two", "one"], "{when}");
    world.verify();
    let left = world.home.path().join("importing");
    assert_eq!(std::fs::read_dir(left).unwrap().count(), 0, "{when}");
}

#[test]
fn power_that_fails_at_any_step_leaves_nothing_or_all() {
    let steps = {
        let world = world();
        let disk = FaultDisk::new();
        let rappel = Rappel::open(on(&world, &disk)).unwrap();
        let before = disk.count();
        rappel.import_checkpoints(&arriving()).unwrap();
        disk.count() - before
    };
    assert!(steps > 3, "{steps}");
    for at in 1..=steps {
        for loss in [Loss::all()[0], Loss::all()[4]] {
            let world = world();
            let disk = FaultDisk::new();
            let rappel = Rappel::open(on(&world, &disk)).unwrap();
            disk.set(Fault::Crash { at });
            let _ = rappel.import_checkpoints(&arriving());
            drop(rappel);
            disk.lose(loss);
            assert_all_or_nothing(&world, &format!("step {at}, {loss:?}"));
        }
    }
}

#[test]
fn a_full_disk_at_any_step_fails_the_import_and_nothing_else() {
    for at in 1..12 {
        let world = world();
        let disk = FaultDisk::new();
        let rappel = Rappel::open(on(&world, &disk)).unwrap();
        disk.set(Fault::Fail { at, failure: Failure::NoSpace });
        let _ = rappel.import_checkpoints(&arriving());
        disk.set(Fault::None);
        drop(rappel);
        assert_all_or_nothing(&world, &format!("full at {at}"));
    }
}

#[test]
fn two_imports_of_one_thing_at_once_import_it_once() {
    let world = world();
    let done: Vec<_> = std::thread::scope(|scope| {
        let one = || {
            let rappel = world.open();
            rappel.import_checkpoints(&arriving()).unwrap()
        };
        let threads: Vec<_> = (0..3).map(|_| scope.spawn(one)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let imported: u64 = done.iter().map(|one| one.imported).sum();
    let known: u64 = done.iter().map(|one| one.known).sum();
    assert_eq!((imported, known), (2, 4));
    assert_eq!(world.open().lineages().unwrap().len(), 1);
    assert_eq!(listed(&world.open()), ["two", "one"]);
}

#[test]
fn saves_and_an_import_at_once_neither_wait_nor_mix() {
    let world = world();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let rappel = world.open();
            for number in 0..20 {
                world.write("a.txt", number.to_string());
                rappel.save(&SaveOptions::default()).unwrap();
            }
            stop.store(true, Ordering::Relaxed);
        });
        let mut round = 0;
        while !stop.load(Ordering::Relaxed) || round == 0 {
            round += 1;
            let one = with_files(&format!("cp-{round}"), round, &[("x", "1")]);
            import(&world, Form::Loki, "/there", vec![one]);
        }
    });
    let own = listed(&world.open()).iter().filter(|id| id.starts_with("chk_")).count();
    assert_eq!(own, 20);
    assert_eq!(world.open().lineages().unwrap().len(), 1);
    world.verify();
}

#[test]
fn an_import_that_is_cancelled_leaves_nothing() {
    let world = world();
    let rappel = world.open();
    let options = world.options();
    options.operation.cancel.cancel();
    let cancelled = Rappel::open(options).unwrap();
    assert!(cancelled.import_checkpoints(&arriving()).is_err());
    assert!(listed(&rappel).is_empty() && rappel.workspace_id().is_none());
    assert_all_or_nothing(&world, "cancelled");
}

#[test]
fn what_a_killed_import_unpacked_goes_with_the_next_gc() {
    let world = world();
    let left = world.home.path().join("importing/0123456789abcdef/files");
    world.open();
    std::fs::create_dir_all(&left).unwrap();
    std::fs::write(left.join("x"), "left").unwrap();
    world.open().gc(false, true).unwrap();
    assert!(left.exists(), "a dry run removes nothing");
    world.open().gc(false, false).unwrap();
    assert!(!left.exists());
}
