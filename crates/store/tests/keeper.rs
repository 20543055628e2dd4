//! A process that lives: many operations on one home, while other processes do what they like.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use common::{
    Files, World, check_clean, check_saved, delete, document, files, gc_now, ids, load, load_row,
    noise, save, try_save,
};
use rappel_store::gc::{GcOptions, GcReport};
use rappel_store::record::Kind;
use rappel_store::{Error, Keeper, Store};
use rappel_types::CheckpointId;

fn keeper(world: &World) -> Keeper {
    Keeper::new(world.home.path(), world.options())
}

fn view(keeper: &Keeper) -> Store {
    keeper.open(Duration::from_secs(20).into()).unwrap()
}

/// The files of the home that this process has open, but for the index.
fn open_files(home: &Path) -> Vec<String> {
    let handles = std::fs::read_dir("/proc/self/fd").unwrap();
    let targets = handles.filter_map(|handle| std::fs::read_link(handle.unwrap().path()).ok());
    let here = targets.filter_map(|target| {
        let text = target.strip_prefix(home).ok()?.to_string_lossy().into_owned();
        (!text.starts_with("index.db")).then_some(text)
    });
    here.collect()
}

/// Writes to the index as no process of ours does, in a process of its own: closing a handle here
/// would take away SQLite's locks.
fn spoil(home: &Path, seed: u64) {
    let command = format!(
        "dd if=/dev/urandom of=index.db bs=4096 seek={} count=1 conv=notrunc 2>/dev/null",
        seed % 6
    );
    assert!(
        Command::new("sh").args(["-c", &command]).current_dir(home).status().unwrap().success()
    );
}

/// As `gc --now` does: a pack goes at once, unless another operation may be reading it.
fn gc_unless_read(store: &Store) -> GcReport {
    store.gc(&GcOptions { now: true, ..GcOptions::default() }).unwrap()
}

fn state(seed: u64) -> Files {
    files(&[("changing", &noise(seed, 3000)), ("same", b"text"), ("other", &noise(seed / 3, 900))])
}

#[test]
fn an_idle_keeper_holds_neither_a_claim_nor_a_pack_so_gc_beside_it_frees_space() {
    let world = World::new().small();
    let keeper = keeper(&world);
    let mut saved = Vec::new();
    for seed in 0..6 {
        let store = view(&keeper);
        let id = save(&store, &state(seed));
        assert_eq!(load(&store, &id).unwrap(), state(seed));
        saved.push((id, state(seed)));
    }
    assert_eq!(open_files(world.home.path()), Vec::<String>::new());

    let other = world.open();
    for (id, _) in saved.drain(..4) {
        delete(&other, &id, true);
    }
    let before = world.pack_bytes();
    let report = gc_unless_read(&other);
    assert!(!report.others_reading);
    assert!(report.packs_removed > 0 && world.pack_bytes() < before, "{report:?}");

    // What the keeper has in memory of the time before is no answer.
    let store = view(&keeper);
    assert_eq!(ids(&store), ids(&other));
    check_saved(&store, &saved);
    drop(other);
    drop(store);
    world.twice(|fresh| check_saved(fresh, &saved));
}

#[test]
fn gc_leaves_the_packs_that_another_operation_of_the_process_reads() {
    let world = World::new().small();
    let keeper = keeper(&world);
    let (first, second) = (save(&view(&keeper), &state(1)), save(&view(&keeper), &state(2)));
    let reader = view(&keeper);
    let row = reader.checkpoint(&first).unwrap().unwrap();
    let manifest = reader.manifest(&row).unwrap();

    let collector = view(&keeper);
    delete(&collector, &first, true);
    let report = gc_unless_read(&collector);
    assert!(report.others_reading && report.packs_removed == 0, "{report:?}");
    assert_eq!(reader.manifest(&row).unwrap(), manifest);
    drop(reader);
    assert!(gc_unless_read(&collector).packs_removed > 0);
    check_saved(&collector, &[(second, state(2))]);
}

#[test]
fn a_keeper_finds_a_home_and_an_index_that_took_the_place_of_those_it_knew() {
    let world = World::new();
    let keeper = keeper(&world);
    let id = save(&view(&keeper), &state(1));
    world.forget_index();
    assert_eq!(ids(&view(&keeper)), std::slice::from_ref(&id));
    assert!(world.home.path().join("index.db").exists(), "the index is built where others look");

    // Another process built it again meanwhile, and noted something in it.
    world.forget_index();
    document(&world.open(), Kind::Label, id.as_str(), "{}");
    let labels = |store: &Store| store.with_index(|index| index.documents(Kind::Label, None));
    assert_eq!(labels(&view(&keeper)).unwrap().len(), 1);

    for entry in std::fs::read_dir(world.home.path()).unwrap() {
        let path = entry.unwrap().path();
        let removed =
            if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
        removed.unwrap();
    }
    assert_eq!(ids(&view(&keeper)), []);
    let id = save(&view(&keeper), &state(7));
    world.twice(|fresh| check_saved(fresh, &[(id.clone(), state(7))]));
}

#[test]
fn readers_go_on_while_a_writer_holds_the_index_and_the_lock() {
    let world = World::new();
    let keeper = keeper(&world);
    let id = save(&view(&keeper), &state(1));
    let (writer, reader) = (view(&keeper), view(&keeper));
    // Inside the commit's closure, the append lock is held and the writing connection is in use.
    let run = writer.begin().unwrap();
    let mut seen = None;
    run.commit(|_| {
        seen = std::thread::scope(|scope| {
            let read = scope.spawn(|| {
                assert_eq!(load(&reader, &id).unwrap(), state(1));
                // An operation that begins now has nothing to catch up with, and does not wait.
                ids_read(&keeper.open(Duration::ZERO.into()).unwrap())
            });
            Some(read.join().unwrap())
        });
        let (key, json) = ("x".to_owned(), "{}".to_owned());
        Ok(vec![rappel_store::NewRecord::Document { kind: Kind::Label, key, json }])
    })
    .unwrap();
    assert_eq!(seen, Some(vec![id]));
}

fn ids_read(store: &Store) -> Vec<CheckpointId> {
    let rows = store.look_up(|index| index.checkpoints(None)).unwrap();
    rows.into_iter().map(|row| row.id).collect()
}

#[test]
fn a_read_only_home_is_kept_too() {
    let world = World::new();
    let id = save(&world.open(), &state(1));
    let lock = |mode: &str| {
        let done = Command::new("chmod").args(["-R", mode]).arg(world.home.path()).status();
        assert!(done.unwrap().success());
    };
    let keeper = keeper(&world);
    save(&view(&keeper), &state(2));
    lock("a-w");
    // The superuser writes anywhere.
    if std::fs::write(world.home.path().join("probe"), "").is_err() {
        let store = view(&keeper);
        assert!(matches!(try_save(&store, &state(3)), Err(Error::ReadOnly { .. })));
        assert_eq!(load(&store, &id).unwrap(), state(1));
        assert_eq!(ids(&view(&keeper)).len(), 2);
    }
    lock("u+w");
    let _ = std::fs::remove_file(world.home.path().join("probe"));
    save(&view(&keeper), &state(3));
    assert_eq!(ids(&view(&keeper)), ids(&world.open()));
}

/// What is known to be in the home.
#[derive(Default)]
struct Known {
    saved: BTreeMap<CheckpointId, Files>,
    /// Those that are about to be deleted, or are.
    going: BTreeSet<CheckpointId>,
}

#[test]
fn many_operations_at_once_answer_as_a_fresh_store_does() {
    let world = World::new().small();
    let keeper = keeper(&world);
    let known = Mutex::new(Known::default());
    let (over, looked) = (AtomicBool::new(false), AtomicUsize::new(0));
    let save_one = |store: &Store, seed: u64| {
        let id = loop {
            match try_save(store, &state(seed)) {
                Err(Error::Moved) => {}
                other => break other.unwrap(),
            }
        };
        known.lock().unwrap().saved.insert(id, state(seed));
    };
    save_one(&world.open(), 0);
    std::thread::scope(|scope| {
        for reader in 0..3 {
            let (keeper, known, over, looked) = (&keeper, &known, &over, &looked);
            scope.spawn(move || {
                let mut turn = reader;
                while !over.load(Ordering::Acquire) {
                    let expected: Vec<_> = {
                        let known = known.lock().unwrap();
                        let standing = known.saved.iter().filter(|it| !known.going.contains(it.0));
                        standing.map(|(id, state)| (id.clone(), state.clone())).collect()
                    };
                    let store = view(keeper);
                    let listed: BTreeSet<_> = ids_read(&store).into_iter().collect();
                    for (at, (id, state)) in expected.iter().enumerate() {
                        let went = || known.lock().unwrap().going.contains(id);
                        assert!(listed.contains(id) || went(), "{id} is not listed");
                        if at % 5 != turn % 5 {
                            continue;
                        }
                        let row = store.checkpoint(id).unwrap();
                        assert!(row.is_some() || went(), "{id} is gone");
                        let Some(row) = row else { continue };
                        match load_row(&store, &row) {
                            Ok(found) => assert_eq!(found, *state, "{id}"),
                            Err(error) => assert!(went(), "{id}: {error}"),
                        }
                    }
                    turn += 1;
                    looked.fetch_add(1, Ordering::AcqRel);
                }
            });
        }
        let mine = scope.spawn(|| {
            for seed in 1..40 {
                save_one(&view(&keeper), seed);
            }
        });
        let others = scope.spawn(|| {
            for seed in 100..130 {
                let store = world.open();
                save_one(&store, seed);
                let oldest = known.lock().unwrap().saved.keys().next().cloned().unwrap();
                if seed % 3 == 0 {
                    known.lock().unwrap().going.insert(oldest.clone());
                    delete(&store, &oldest, true);
                    known.lock().unwrap().saved.remove(&oldest);
                }
                match seed % 5 {
                    0 => drop(gc_now(&store)),
                    1 => {
                        drop(store);
                        spoil(world.home.path(), seed);
                    }
                    2 => world.forget_index(),
                    _ => {}
                }
            }
        });
        let ended = (mine.join(), others.join());
        // Each reader looks once more at least, now that everything is in.
        let before = looked.load(Ordering::Acquire);
        while ended.0.is_ok() && ended.1.is_ok() && looked.load(Ordering::Acquire) < before + 6 {
            std::thread::yield_now();
        }
        over.store(true, Ordering::Release);
        ended.0.unwrap();
        ended.1.unwrap();
    });
    let known = known.into_inner().unwrap();
    let saved: Vec<_> = known.saved.into_iter().collect();
    let of_keeper = view(&keeper);
    check_saved(&of_keeper, &saved);
    let listed = ids_read(&of_keeper);
    drop(of_keeper);
    world.twice(|fresh| {
        check_saved(fresh, &saved);
        assert_eq!(ids(fresh), listed);
        check_clean(fresh);
    });
    assert_eq!(open_files(world.home.path()), Vec::<String>::new());
}
