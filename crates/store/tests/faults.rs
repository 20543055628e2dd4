//! A crash after every single operation, and every operation failing, for everything that writes:
//! what was acknowledged is there to the byte, nothing unacknowledged hurts, and work goes on.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]

mod common;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use common::{DAY, Files, World, files, ids, load, noise, save, try_save};
use rappel_store::Result;
use rappel_store::gc::GcOptions;
use rappel_store::verify::Scope;
use rappel_testing::{Failure, Fault, FaultDisk, Loss};
use rappel_types::CheckpointId;

/// The checkpoints that are not deleted, with what they hold.
type Model = BTreeMap<CheckpointId, Files>;

struct Scene {
    name: &'static str,
    /// Makes the home that the act begins with.
    prepare: fn(&World) -> Model,
    /// What is done; it may fail.
    act: fn(&World) -> Result<()>,
    /// What the act makes of a model, step by step.
    steps: fn(Model) -> Vec<Model>,
}

fn id(number: u64) -> CheckpointId {
    format!("chk_{number}").parse().unwrap()
}

fn small(round: u64) -> Files {
    files(&[("a", &noise(round, 600)), ("b", &noise(7, 700 + round as usize))])
}

fn large(round: u64) -> Files {
    files(&[
        ("a", &noise(round, 600)),
        ("large", &noise(round + 40, 9_000)),
        ("larger", &noise(round + 50, 12_000)),
    ])
}

fn with(mut model: Model, number: u64, state: Files) -> Model {
    model.insert(id(number), state);
    model
}

fn without(mut model: Model, number: u64) -> Model {
    model.remove(&id(number));
    model
}

fn history(world: &World, count: u64) -> Model {
    let store = world.open();
    (1..=count).map(|round| (save(&store, &small(round)), small(round))).collect()
}

const SCENES: &[Scene] = &[
    Scene {
        name: "the first save of all",
        prepare: |_| Model::new(),
        act: |world| try_save(&world.try_open()?, &small(1)).map(drop),
        steps: |model| vec![model.clone(), with(model, 1, small(1))],
    },
    Scene {
        name: "a small save",
        prepare: |world| history(world, 2),
        act: |world| try_save(&world.try_open()?, &small(3)).map(drop),
        steps: |model| vec![model.clone(), with(model, 3, small(3))],
    },
    Scene {
        name: "a save with packs of its own",
        prepare: |world| history(world, 2),
        act: |world| try_save(&world.try_open()?, &large(3)).map(drop),
        steps: |model| vec![model.clone(), with(model, 3, large(3))],
    },
    Scene {
        name: "a save that seals the open pack",
        prepare: |world| history(world, 9),
        act: |world| {
            let store = world.try_open()?;
            try_save(&store, &small(10))?;
            try_save(&store, &small(11)).map(drop)
        },
        steps: |model| {
            let one = with(model.clone(), 10, small(10));
            vec![model, one.clone(), with(one, 11, small(11))]
        },
    },
    Scene {
        name: "a delete",
        prepare: |world| history(world, 3),
        act: |world| {
            let store = world.try_open()?;
            let rows = [store.checkpoint(&id(2))?.unwrap()];
            store.delete(&rows, true)
        },
        steps: |model| vec![model.clone(), without(model, 2)],
    },
    Scene {
        name: "an undelete",
        prepare: |world| {
            let model = history(world, 3);
            common::delete(&world.open(), &id(2), false);
            without(model, 2)
        },
        act: |world| world.try_open()?.undelete(&id(2)).map(drop),
        steps: |model| vec![model.clone(), with(model, 2, small(2))],
    },
    Scene {
        name: "a gc that copies and unlinks",
        prepare: |world| {
            let mut model = history(world, 4);
            let store = world.open();
            model.insert(save(&store, &large(5)), large(5));
            model.insert(save(&store, &large(6)), large(6));
            for number in [1, 3, 5] {
                common::delete(&store, &id(number), true);
                model.remove(&id(number));
            }
            model
        },
        act: |world| {
            let options = GcOptions { now: true, ..GcOptions::default() };
            let report = world.try_open()?.gc(&options)?;
            assert!(report.packs_copied > 0 && report.packs_removed > 1, "{report:?}");
            Ok(())
        },
        steps: |model| vec![model],
    },
    Scene {
        name: "a gc, a save and a gc after the grace",
        prepare: |world| {
            let model = history(world, 4);
            common::delete(&world.open(), &id(1), true);
            without(model, 1)
        },
        act: |world| {
            let store = world.try_open()?;
            store.gc(&GcOptions::default())?;
            try_save(&store, &large(5))?;
            world.clock.advance(2 * DAY);
            store.gc(&GcOptions::default()).map(drop)
        },
        steps: |model| vec![model.clone(), with(model, 5, large(5))],
    },
];

fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// A copy of a prepared home, on a disk that is about to fail.
fn stage(prepared: &World, fault: Fault) -> (World, Arc<FaultDisk>) {
    let disk = FaultDisk::with(fault);
    let world = World::on(disk.clone()).small();
    copy_folder(prepared.home.path(), world.home.path());
    (world, disk)
}

fn view(world: &World, place: &str) -> Model {
    let store = world.try_open().unwrap_or_else(|error| panic!("{place}: {error}"));
    ids(&store)
        .into_iter()
        .map(|id| {
            let files = load(&store, &id).unwrap_or_else(|e| panic!("{place}: {id}: {e}"));
            (id, files)
        })
        .collect()
}

/// Everything is whole, and the store goes on working.
fn check(world: &World, allowed: &[Model], place: &str) {
    let found = view(world, place);
    assert!(
        allowed.contains(&found),
        "{place}: found {:?}, allowed {:?}",
        found.keys().collect::<Vec<_>>(),
        allowed.iter().map(|model| model.keys().collect::<Vec<_>>()).collect::<Vec<_>>()
    );
    let store = world.open();
    let report = store.verify(&Scope::All, None).unwrap();
    assert!(report.is_clean(), "{place}: {report:?}");
    let next = save(&store, &small(99));
    assert_eq!(load(&store, &next).unwrap(), small(99), "{place}");
    drop(store);
    world.forget_index();
    let mut expected = found;
    expected.insert(next, small(99));
    assert_eq!(view(world, place), expected, "{place}: rebuilt");
}

fn each_scene(work: impl Fn(&Scene, &World, &[Model], u64) + Sync) {
    std::thread::scope(|scope| {
        for scene in SCENES {
            let work = &work;
            scope.spawn(move || {
                let prepared = World::new().small();
                let steps = (scene.steps)((scene.prepare)(&prepared));
                let (world, disk) = stage(&prepared, Fault::None);
                (scene.act)(&world).unwrap();
                let count = disk.count();
                assert!(count > 1, "{}: {:?}", scene.name, disk.trace());
                work(scene, &prepared, &steps, count);
            });
        }
    });
}

#[test]
fn a_crash_after_every_operation_loses_nothing_that_was_acknowledged() {
    each_scene(|scene, prepared, steps, count| {
        for at in 1..=count + 1 {
            for loss in Loss::all() {
                for keeps_index in [true, false] {
                    let (world, disk) = stage(prepared, Fault::Crash { at });
                    let place = format!("{}, {at} of {count}, {loss:?}", scene.name);
                    let done = (scene.act)(&world);
                    assert_eq!(done.is_err(), disk.has_crashed(), "{place}: {done:?}");
                    let allowed = if done.is_ok() { &steps[steps.len() - 1..] } else { steps };
                    disk.lose(loss);
                    if !keeps_index {
                        world.forget_index();
                    }
                    check(&world, allowed, &place);
                }
            }
        }
    });
}

#[test]
fn every_operation_that_fails_is_survived() {
    each_scene(|scene, prepared, steps, count| {
        for at in 1..=count {
            for failure in [Failure::Io, Failure::NoSpace, Failure::ShortWrite] {
                let (world, disk) = stage(prepared, Fault::Fail { at, failure });
                let place = format!("{}, {at} of {count}, {failure:?}", scene.name);
                let done = (scene.act)(&world);
                let allowed = if done.is_ok() { &steps[steps.len() - 1..] } else { steps };
                if failure == Failure::ShortWrite {
                    done.unwrap_or_else(|error| panic!("{place}: {error}"));
                }
                let store = world.try_open().unwrap_or_else(|error| panic!("{place}: {error}"));
                let before = view(&world, &place);
                let next = save(&store, &small(77));
                drop(store);
                // Whoever appended behind a hole would lose this now.
                disk.lose(Loss::all()[1]);
                let mut model = view(&world, &place);
                assert_eq!(model.remove(&next), Some(small(77)), "{place}");
                assert_eq!(model, before, "{place}");
                assert!(allowed.contains(&model), "{place}: {:?}", model.keys());
                model.insert(next, small(77));
                check(&world, &[model], &place);
            }
        }
    });
}

#[test]
fn a_disk_that_is_gone_for_a_while_is_survived() {
    each_scene(|scene, prepared, steps, count| {
        for at in 1..=count {
            let (world, disk) = stage(prepared, Fault::Crash { at });
            let place = format!("{}, {at} of {count}, gone for a while", scene.name);
            assert!((scene.act)(&world).is_err(), "{place}");
            // The process lives on, and what it wrote is still in memory.
            disk.set(Fault::None);
            let before = view(&world, &place);
            assert!(steps.contains(&before), "{place}: {:?}", before.keys());
            let store = world.open();
            let next = save(&store, &small(77));
            drop(store);
            disk.lose(Loss::all()[1]);
            let mut model = view(&world, &place);
            assert_eq!(model.remove(&next), Some(small(77)), "{place}");
            assert_eq!(model, before, "{place}");
            model.insert(next, small(77));
            check(&world, &[model], &place);
        }
    });
}
