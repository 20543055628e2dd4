//! Many at once: writers that gc overtakes, threads on one home, and who holds the lock.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{
    Files, World, check_clean, check_saved, delete, files, gc_now, ids, load, noise, save,
    save_with, try_save,
};
use rappel_store::gc::GcOptions;
use rappel_store::sink::{Role, Sink, Source};
use rappel_store::{Error, NewRecord};
use rappel_types::CheckpointId;

#[test]
fn a_writer_that_built_on_what_gc_took_has_to_begin_again() {
    let world = World::new();
    let store = world.open();
    let dead = noise(1, 200_000);
    let gone = save(&store, &files(&[("dead", &dead)]));
    save(&store, &files(&[("kept", b"kept")]));
    let state = files(&[("dead", &dead), ("new", b"new")]);
    let other = world.open();
    let overtaken = save_with(&store, &state, |_| {
        // The object was found and counted on; now nobody needs it any more.
        delete(&other, &gone, true);
        gc_now(&other);
    });
    assert!(matches!(overtaken, Err(Error::Moved)), "{overtaken:?}");
    let again = save(&store, &state);
    assert_eq!(load(&store, &again).unwrap(), state);
    check_clean(&store);
}

#[test]
fn a_writer_whose_objects_gc_kept_goes_on() {
    let world = World::new();
    let store = world.open();
    let gone = save(&store, &files(&[("dead", &noise(1, 200_000))]));
    let kept = noise(2, 90_000);
    save(&store, &files(&[("kept", &kept)]));
    let state = files(&[("kept", &kept), ("new", b"new")]);
    let other = world.open();
    let id = save_with(&store, &state, |_| {
        delete(&other, &gone, true);
        assert!(gc_now(&other).packs_retired > 0);
    });
    assert_eq!(load(&store, &id.unwrap()).unwrap(), state);
}

#[test]
fn a_root_that_is_there_without_what_it_refers_to_does_not_count() {
    let world = World::new().small();
    let store = world.open();
    // The tree is small and lives among others; what it refers to has a pack of its own.
    let state = files(&[("large", &noise(1, 40_000))]);
    let gone = save(&store, &state);
    let tree = {
        let row = store.checkpoint(&gone).unwrap().unwrap();
        store.manifest(&row).unwrap().files.unwrap().tree
    };
    save(&store, &files(&[("kept", &noise(2, 3_000))]));
    let writer = store.begin().unwrap();
    writer.reuse([tree]);
    let other = world.open();
    delete(&other, &gone, true);
    other.gc(&GcOptions { now: true, ..GcOptions::default() }).unwrap();
    let result = writer.commit(|_| Ok(Vec::new()));
    assert!(matches!(result, Err(Error::Moved)), "{result:?}");
}

#[test]
fn what_is_committed_while_gc_copies_is_marked_too() {
    let world = World::new();
    let store = world.open();
    let dead = noise(1, 200_000);
    let gone = save(&store, &files(&[("dead", &dead)]));
    save(&store, &files(&[("kept", &noise(2, 150_000))]));
    delete(&store, &gone, true);
    let other = world.open();
    let state = files(&[("dead", &dead), ("new", b"new")]);
    let made: Mutex<Option<CheckpointId>> = Mutex::new(None);
    let progress = |step| {
        // The marks are made and the dead pack is chosen; then somebody needs it again.
        if matches!(step, rappel_store::gc::Progress::Packs { .. }) {
            made.lock().unwrap().get_or_insert_with(|| save(&other, &state));
        }
        Ok(())
    };
    let options = GcOptions { now: true, progress: Some(&progress), ..GcOptions::default() };
    store.gc(&options).unwrap();
    let id = made.into_inner().unwrap().unwrap();
    assert_eq!(load(&store, &id).unwrap(), state);
    check_clean(&store);
}

#[test]
fn a_reader_that_gc_overtakes_looks_again() {
    let world = World::new();
    let store = world.open();
    let gone = save(&store, &files(&[("dead", &noise(1, 200_000))]));
    let state = files(&[("kept", &noise(2, 150_000)), ("more", b"more")]);
    let id = save(&store, &state);
    let reader = world.open();
    delete(&store, &gone, true);
    let before = world.packs();
    gc_now(&store);
    assert!(before.iter().all(|name| !world.packs().contains(name)), "all of it moved");
    assert_eq!(load(&reader, &id).unwrap(), state);
}

#[test]
fn a_dead_object_whose_base_was_collected_is_stored_again() {
    let world = World::new().small();
    let store = world.open();
    let base = noise(1, 9_000);
    let mut edited = base.clone();
    edited[10] ^= 1;
    let one = save(&store, &files(&[("f", &base)]));
    let two = save(&store, &files(&[("f", &edited)]));
    for round in 0..6 {
        // Enough that lives in the pack with the difference, so that gc leaves it alone.
        save(&store, &files(&[("g", &noise(50 + round, 1_500))]));
    }
    for id in [&one, &two] {
        delete(&store, id, true);
    }
    store.gc(&GcOptions::default()).unwrap();
    let state = files(&[("f", &edited)]);
    let id = save(&store, &state);
    assert_eq!(load(&store, &id).unwrap(), state);
    world.clock.advance(2 * common::DAY);
    store.gc(&GcOptions::default()).unwrap();
    world.forget_index();
    assert_eq!(load(&world.open(), &id).unwrap(), state);
}

#[test]
fn writers_readers_and_gc_in_threads_lose_nothing() {
    let world = World::new().small();
    drop(world.open());
    let over = AtomicBool::new(false);
    let saved: Mutex<Vec<(CheckpointId, Files)>> = Mutex::default();
    std::thread::scope(|scope| {
        let (world, saved, over) = (&world, &saved, &over);
        let writers: Vec<_> = (0..3u64)
            .map(|writer| {
                scope.spawn(move || {
                    let store = world.open();
                    for round in 0..20u64 {
                        let state = files(&[
                            ("own", &noise(writer * 100 + round, 900)),
                            ("shared", &noise(round / 3, 2_500)),
                        ]);
                        let id = loop {
                            match try_save(&store, &state) {
                                Err(Error::Moved) => {}
                                other => break other.unwrap(),
                            }
                        };
                        saved.lock().unwrap().push((id, state));
                    }
                })
            })
            .collect();
        scope.spawn(move || {
            let store = world.open();
            while !over.load(Ordering::SeqCst) {
                let victim = {
                    let mut saved = saved.lock().unwrap();
                    (saved.len() > 6).then(|| saved.remove(2).0)
                };
                if let Some(id) = victim {
                    delete(&store, &id, true);
                }
                match store.gc(&GcOptions { now: true, ..GcOptions::default() }) {
                    Ok(_) | Err(Error::Moved) => {}
                    Err(error) => panic!("{error}"),
                }
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        scope.spawn(move || {
            let store = world.open();
            while !over.load(Ordering::SeqCst) {
                let one = saved.lock().unwrap().first().cloned();
                if let Some((id, state)) = one {
                    match load(&store, &id) {
                        Ok(found) => assert_eq!(found, state),
                        // Deleted and collected meanwhile.
                        Err(error) => {
                            let still = saved.lock().unwrap().iter().any(|(held, _)| *held == id);
                            assert!(!still, "{id}: {error}");
                        }
                    }
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        for writer in writers {
            writer.join().unwrap();
        }
        over.store(true, Ordering::SeqCst);
    });
    let saved = saved.into_inner().unwrap();
    world.twice(|store| {
        check_clean(store);
        assert_eq!(ids(store).len(), saved.len());
        check_saved(store, &saved);
    });
}

#[test]
fn whoever_waits_too_long_is_told_for_whom() {
    let mut world = World::new();
    world.limits.run_max = 1 << 20;
    let store = world.open();
    save(&store, &files(&[("a", b"one")]));
    let patient = rappel_store::Store::open(
        world.home.path(),
        rappel_store::Options { lock_limit: Duration::from_millis(60), ..world.options() },
    )
    .unwrap();
    let writer = store.begin().unwrap();
    writer.put(Role::Content, b"something", None).unwrap();
    writer
        .commit(|_| {
            let other = patient.begin().unwrap().commit(|_| Ok(Vec::new()));
            match other {
                Err(Error::Busy { holder, waited_ms }) => {
                    assert!(holder.contains(&std::process::id().to_string()), "{holder}");
                    assert!(waited_ms >= 60);
                }
                other => panic!("{other:?}"),
            }
            Ok(Vec::<NewRecord>::new())
        })
        .unwrap();
    assert!(patient.begin().unwrap().commit(|_| Ok(Vec::new())).is_ok());
    assert!(store.get(&rappel_store::sink::id_of(b"something")).is_ok());
}

#[test]
fn nobody_waits_for_ever_for_a_gc_that_removes_packs() {
    let world = World::new();
    save(&world.open(), &files(&[("a", b"one")]));
    let readers = std::fs::File::open(world.home.path().join("readers")).unwrap();
    readers.lock().unwrap();
    let options =
        rappel_store::Options { lock_limit: Duration::from_millis(60), ..world.options() };
    match rappel_store::Store::open(world.home.path(), options) {
        Err(Error::Busy { holder, waited_ms }) => {
            assert!(holder.contains("readers"), "{holder}");
            assert!(waited_ms >= 60);
        }
        other => panic!("{:?}", other.err()),
    }
    drop(readers);
    world.open();
}

#[test]
fn whoever_waits_for_a_second_is_told_for_whom() {
    let world = World::new();
    save(&world.open(), &files(&[("a", b"one")]));
    let lock = std::fs::File::open(world.home.path().join("lock")).unwrap();
    lock.lock().unwrap();
    let said: Arc<Mutex<Vec<String>>> = Arc::default();
    let heard = said.clone();
    let told: rappel_store::lock::Told =
        Arc::new(move |who| heard.lock().unwrap().push(who.into()));
    let options = rappel_store::Options {
        lock_limit: Duration::from_millis(1300),
        waiting: Some(told),
        ..world.options()
    };
    let store = rappel_store::Store::open(world.home.path(), options).unwrap();
    let error = store.begin().unwrap().commit(|_| Ok(Vec::new())).err();
    assert!(matches!(error, Some(Error::Busy { .. })), "{error:?}");
    let said = said.lock().unwrap();
    // Once, however long it takes.
    assert_eq!(said.len(), 1);
    assert!(said[0].contains("pid"), "{said:?}");
}
