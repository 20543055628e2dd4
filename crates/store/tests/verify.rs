//! Damage is found, named, kept away from what is whole, and repaired where that is possible.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]

mod common;

use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use common::{
    Files, World, check_clean, delete, document, files, gc, gc_now, ids, load, noise, save,
};
use rappel_store::Error;
use rappel_store::gc::GcOptions;
use rappel_store::record::Kind;
use rappel_store::sink::{Source, id_of};
use rappel_store::verify::{Progress, Scope};
use rappel_types::{CheckpointId, ObjectId};

/// A home with log and bulk packs, retired ones and copies, and what its checkpoints hold.
fn lived_in() -> (World, Vec<(CheckpointId, Files)>) {
    let world = World::new().small();
    let store = world.open();
    let mut all = Vec::new();
    for round in 0..4u64 {
        let state = files(&[
            ("a", &noise(round, 700)),
            ("b", &noise(50, 900 + round as usize)),
            ("c/large", &noise(round / 2 + 90, 5_000)),
        ]);
        all.push((save(&store, &state), state));
    }
    delete(&store, &all.remove(0).0, true);
    gc_now(&store);
    let state = files(&[("a", b"after gc"), ("b", &noise(50, 904))]);
    all.push((save(&store, &state), state));
    (world, all)
}

fn packs(world: &World) -> Vec<PathBuf> {
    let folder = world.home.path().join("packs");
    world.packs().into_iter().map(|name| folder.join(name)).collect()
}

fn flip(path: &Path, at: u64, bit: u8) {
    let mode = std::fs::metadata(path).unwrap().permissions();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
    let file = std::fs::File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    byte[0] ^= bit;
    file.write_all_at(&byte, at).unwrap();
    std::fs::set_permissions(path, mode).unwrap();
}

#[test]
fn a_whole_store_is_clean() {
    let (world, all) = lived_in();
    let store = world.open();
    let report = store.verify(&Scope::All, None).unwrap();
    assert!(report.is_clean(), "{report:?}");
    assert_eq!(report.checkpoints, all.len() as u64);
    assert!(report.objects > 10 && report.packs > 1 && report.bytes > 10_000, "{report:?}");
    let one = store.verify(&Scope::Checkpoint(all[0].0.clone()), None).unwrap();
    assert!(one.is_clean() && one.objects > 3, "{one:?}");
}

#[test]
fn every_flipped_byte_is_found_and_hurts_nothing_else() {
    let (world, all) = lived_in();
    drop(world.open());
    let home = world.home.path();
    let index: Vec<(PathBuf, Vec<u8>)> = ["index.db", "index.db-wal"]
        .into_iter()
        .filter_map(|name| Some((home.join(name), std::fs::read(home.join(name)).ok()?)))
        .collect();
    let mut tried = 0;
    for pack in packs(&world) {
        let length = pack.metadata().unwrap().len();
        for at in (0..length).step_by(step()) {
            // Written in place: an index that was copied is not believed.
            for (path, bytes) in &index {
                std::fs::write(path, bytes).unwrap();
            }
            let _ = std::fs::remove_file(home.join("index.db-shm"));
            let bit = 1 << (at % 8);
            flip(&pack, at, bit);
            let place = format!("{} at {at}", pack.display());
            let store = world.open();
            let report = store.verify(&Scope::All, None).unwrap();
            assert!(!report.damage.is_empty(), "{place} was not noticed");
            for (id, state) in &all {
                let hurt = report.hurt.iter().any(|hurt| hurt.checkpoint == *id);
                match store.checkpoint(id).unwrap() {
                    None => panic!("{place}: {id} is not listed any more"),
                    Some(_) if hurt => {
                        if let Ok(read) = load(&store, id) {
                            assert_eq!(read, *state, "{place}: wrong bytes");
                        }
                    }
                    Some(_) => {
                        let read = load(&store, id);
                        assert_eq!(read.unwrap_or_else(|e| panic!("{place}: {id}: {e}")), *state);
                    }
                }
            }
            drop(store);
            flip(&pack, at, bit);
            tried += 1;
        }
    }
    assert!(tried > 500);
    // What was noticed was written down, and what was written down is right.
    world.forget_index();
    check_clean(&world.open());
}

/// Every byte takes minutes; an ordinary run looks at a part that changes with no seed, all of it
/// with `RAPPEL_TEST_ALL`.
fn step() -> usize {
    if std::env::var_os("RAPPEL_TEST_ALL").is_some() { 1 } else { 23 }
}

#[test]
fn a_missing_pack_is_damage_and_names_who_is_hurt() {
    let (world, all) = lived_in();
    let store = world.open();
    let bulk =
        packs(&world).into_iter().find(|path| path.to_string_lossy().contains("bulk-")).unwrap();
    std::fs::remove_file(&bulk).unwrap();
    let report = store.verify(&Scope::All, None).unwrap();
    assert!(!report.damage.is_empty() && !report.hurt.is_empty(), "{report:?}");
    let whole = all.iter().filter(|(id, _)| !report.hurt.iter().any(|h| h.checkpoint == *id));
    for (id, state) in whole {
        assert_eq!(load(&store, id).unwrap(), *state);
    }
    world.forget_index();
    assert!(!world.open().damage().is_empty(), "a rebuild tells");
}

#[test]
fn what_the_workspace_still_has_is_put_back() {
    let world = World::new();
    let store = world.open();
    let (kept, lost) = (noise(1, 150_000), noise(2, 160_000));
    let state = files(&[("kept", &kept), ("lost", &lost), ("small", b"small")]);
    let id = save(&store, &state);
    let other = save(&store, &files(&[("other", b"other")]));
    let log = packs(&world).remove(0);
    let bytes = std::fs::read(&log).unwrap();
    for part in [&kept, &lost] {
        let at = bytes.windows(64).position(|window| *window == part[1000..1064]).unwrap();
        flip(&log, at as u64, 1);
    }
    let store = world.open();
    let report = store.verify(&Scope::All, None).unwrap();
    assert_eq!(report.hurt.len(), 1, "{report:?}");
    assert_eq!(report.hurt[0].checkpoint, id);
    let paths: Vec<_> = report.hurt[0].paths.iter().map(ToString::to_string).collect();
    assert_eq!(paths, ["kept", "lost"]);
    let one = store.verify(&Scope::Checkpoint(id.clone()), None).unwrap();
    assert_eq!(one.hurt, report.hurt);
    assert!(store.verify(&Scope::Checkpoint(other), None).unwrap().is_clean());

    let fetch = |id: &rappel_types::ObjectId| (*id == id_of(&kept)).then(|| kept.clone());
    let repaired = store.repair(&fetch, None).unwrap();
    assert_eq!(repaired.restored_objects, 1);
    assert_eq!(repaired.lost.len(), 1, "{repaired:?}");
    assert_eq!(repaired.lost[0].paths[0].to_string(), "lost");
    let loss = store.loss(&id).unwrap().unwrap();
    assert_eq!(loss.paths.len(), 1);

    let fetch = |id: &rappel_types::ObjectId| (*id == id_of(&lost)).then(|| lost.clone());
    let repaired = store.repair(&fetch, None).unwrap();
    assert_eq!(repaired.healed, std::slice::from_ref(&id), "{repaired:?}");
    assert!(repaired.lost.is_empty());
    assert!(store.loss(&id).unwrap().is_none());
    assert_eq!(load(&store, &id).unwrap(), state);
    assert!(store.verify(&Scope::All, None).unwrap().hurt.is_empty());

    // The damaged pack has been looked at: gc leaves it, and then nothing is wrong any more.
    gc_now(&store);
    let report = store.verify(&Scope::All, None).unwrap();
    assert!(report.is_clean(), "{report:?}");
    world.forget_index();
    assert_eq!(load(&world.open(), &id).unwrap(), state);
}

#[test]
fn a_run_that_lost_its_commit_still_counts_and_is_appended_again() {
    let world = World::new();
    let store = world.open();
    let first = files(&[("a", &noise(1, 3_000))]);
    let one = save(&store, &first);
    let end_of_first = packs(&world)[0].metadata().unwrap().len();
    let second = files(&[("a", &noise(2, 3_000))]);
    let two = save(&store, &second);
    drop(store);
    let log = packs(&world).remove(0);
    let length = log.metadata().unwrap().len();
    // The last commit: only the index knows that it was there.
    flip(&log, length - 3, 1);
    let store = world.open();
    assert!(!store.verify(&Scope::All, None).unwrap().is_clean());
    assert_eq!(ids(&store), [one.clone(), two.clone()]);
    drop(store);
    let store = world.open();
    let third = files(&[("a", b"third")]);
    let three = save(&store, &third);
    drop(store);
    // The next pack says how far the log counted, so that even a rebuild finds it.
    world.forget_index();
    let store = world.open();
    let expected = [(&one, &first), (&two, &second), (&three, &third)];
    for (id, state) in expected {
        assert_eq!(load(&store, id).unwrap(), *state);
    }
    let repaired = store.repair(&|_| None, None).unwrap();
    assert!(repaired.restored_records > 0 && repaired.lost.is_empty(), "{repaired:?}");
    gc_now(&store);
    assert!(store.verify(&Scope::All, None).unwrap().is_clean());
    world.forget_index();
    let store = world.open();
    for (id, state) in expected {
        assert_eq!(load(&store, id).unwrap(), *state);
    }
    assert!(end_of_first < length);
}

#[test]
fn damage_keeps_gc_from_what_it_might_have_needed() {
    let world = World::new().small();
    let store = world.open();
    let state = files(&[("a", &noise(1, 2_000)), ("b", &noise(2, 9_000))]);
    let one = save(&store, &state);
    let gone = save(&store, &files(&[("c", &noise(3, 9_000))]));
    let last = files(&[("d", b"last")]);
    let two = save(&store, &last);
    delete(&store, &gone, true);
    drop(store);
    // The tree of the first checkpoint: what it refers to cannot be known.
    let store = world.open();
    let row = store.checkpoint(&one).unwrap().unwrap();
    let tree = store.manifest(&row).unwrap().files.unwrap().tree;
    drop(store);
    let bytes: Vec<(PathBuf, Vec<u8>)> = packs(&world)
        .into_iter()
        .map(|path| (path.clone(), std::fs::read(&path).unwrap()))
        .collect();
    let (path, at) = bytes
        .iter()
        .find_map(|(path, bytes)| {
            let at = bytes.windows(32).position(|window| *window == tree.0)?;
            Some((path.clone(), at))
        })
        .unwrap();
    flip(&path, at as u64 + 3, 4);
    let store = world.open();
    let before = world.packs();
    let report = gc_now(&store);
    assert!(report.packs_kept_for_damage > 0, "{report:?}");
    assert!(
        before.iter().any(|name| !world.packs().contains(name)),
        "what is younger than the damage is collected all the same"
    );
    assert_eq!(load(&store, &two).unwrap(), last);
    flip(&path, at as u64 + 3, 4);
    world.forget_index();
    let store = world.open();
    assert_eq!(load(&store, &one).unwrap(), state);
    let labels = store.with_index(|index| index.documents(Kind::Loss, None)).unwrap();
    assert!(labels.is_empty());
}

#[test]
fn a_pack_inside_a_file_is_not_taken_for_ours() {
    let stranger = World::new();
    let other = stranger.open();
    let mut before = 0;
    for round in 0..6u64 {
        before = stranger.pack_bytes();
        save(&other, &files(&[("foreign", &noise(round, 400))]));
    }
    // A whole run, whose commit has a higher number than any of ours will.
    let foreign = std::fs::read(packs(&stranger).remove(0)).unwrap();
    let foreign = foreign[if before > 0 { before as usize } else { 64 }..].to_vec();
    for behind in [0, 700] {
        let world = World::new();
        let store = world.open();
        // Noise around it keeps the object from being compressed: its records stand in the pack.
        let carrier = [noise(77, 200_000), foreign.clone(), noise(78, behind)].concat();
        let first = files(&[("carrier", &carrier), ("small", b"small")]);
        let one = save(&store, &first);
        let last = files(&[("own", b"own")]);
        let two = save(&store, &last);
        drop(store);
        let log = packs(&world).remove(0);
        let bytes = std::fs::read(&log).unwrap();
        assert!(bytes.windows(foreign.len()).any(|window| window == foreign), "not as it is");
        // The header of the carrier's record: its length is not known any more.
        flip(&log, 64 + 24, 0x40);
        world.forget_index();
        let store = world.open();
        assert!(!store.damage().is_empty());
        assert_eq!(ids(&store), [one.clone(), two.clone()]);
        assert_eq!(load(&store, &two).unwrap(), last);
        let report = store.verify(&Scope::All, None).unwrap();
        assert_eq!(report.hurt.len(), 1, "{report:?}");
        assert_eq!(report.hurt[0].checkpoint, one);
        let third = files(&[("third", b"3")]);
        let three = save(&store, &third);
        assert_eq!(three.as_str(), "chk_3");
        world.forget_index();
        assert_eq!(load(&world.open(), &three).unwrap(), third);
    }
}

#[test]
fn an_index_that_says_something_else_is_built_anew_by_verify() {
    let (world, all) = lived_in();
    let database = world.index();
    for spoil in [
        "UPDATE checkpoint SET manifest = zeroblob(32) WHERE id = 'chk_3'",
        "DELETE FROM object",
        "DELETE FROM checkpoint WHERE id = 'chk_3'",
    ] {
        database.execute_batch(spoil).unwrap();
        let store = world.open();
        if spoil.contains("FROM object") {
            // The newest objects wait in another table.
            database.execute_batch("DELETE FROM recent").unwrap();
        }
        drop(store);
        let store = world.open();
        let report = store.verify(&Scope::All, None).unwrap();
        assert!(report.is_clean(), "{spoil}: {report:?}");
        for (id, state) in &all {
            assert_eq!(load(&store, id).unwrap(), *state, "{spoil}");
        }
    }
}

#[test]
fn saves_may_go_on_while_everything_is_checked() {
    let (world, _) = lived_in();
    let store = world.open();
    let over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let store = world.open();
            for round in 0..40u64 {
                save(&store, &files(&[("a", &noise(round, 3_000))]));
            }
            over.store(true, std::sync::atomic::Ordering::SeqCst);
        });
        while !over.load(std::sync::atomic::Ordering::SeqCst) {
            let report = store.verify(&Scope::All, None).unwrap();
            assert!(report.is_clean(), "{report:?}");
        }
    });
}

#[test]
fn a_pack_that_is_sealed_while_everything_is_checked_is_no_damage() {
    let world = World::new().small();
    let (store, other) = (world.open(), world.open());
    save(&store, &files(&[("a", b"one")]));
    let before = world.packs();
    let watch = |progress| {
        if progress == Progress::Reading {
            while world.packs().len() == before.len() {
                save(&other, &files(&[("a", &noise(world.pack_bytes(), 1_500))]));
            }
        }
        Ok(())
    };
    let report = store.verify(&Scope::All, Some(&watch)).unwrap();
    assert!(report.is_clean(), "{report:?}");
    assert!(world.packs().len() > before.len());
}

/// However often gc takes away what is just to be looked at: that is no damage, and damage is found
/// all the same.
#[test]
fn packs_that_gc_takes_while_everything_is_checked_are_no_damage() {
    for damaged in [false, true] {
        let world = World::new().small();
        let (store, other) = (world.open(), world.open());
        let kept = save(&store, &files(&[("kept", &noise(1, 9_000))]));
        let bulk = packs(&world).remove(0);
        if damaged {
            flip(&bulk, 4_000, 1);
        }
        let made = AtomicU64::new(2);
        let removed = AtomicU64::new(0);
        let dying = || save(&other, &files(&[("gone", &noise(made.fetch_add(1, SeqCst), 9_000))]));
        let next = Mutex::new(dying());
        let watch = |progress| {
            if progress == Progress::Reading {
                // What the log names at the end that is known to the check goes away.
                let gone = std::mem::replace(&mut *next.lock().unwrap(), dying());
                delete(&other, &gone, true);
                let grace = Duration::ZERO;
                match other.gc(&GcOptions { now: true, grace, ..GcOptions::default() }) {
                    Ok(report) => removed.fetch_add(report.packs_removed, SeqCst),
                    Err(Error::Busy { .. }) => 0,
                    Err(error) => panic!("{error}"),
                };
            }
            Ok(())
        };
        let report = store.verify(&Scope::All, Some(&watch)).unwrap();
        assert!(removed.into_inner() > 1);
        assert_eq!(report.is_clean(), !damaged, "{report:?}");
        let hurt: Vec<_> = report.hurt.iter().map(|hurt| &hurt.checkpoint).collect();
        assert_eq!(hurt, if damaged { vec![&kept] } else { vec![] });
    }
}

#[test]
fn a_missing_log_pack_is_told_from_a_retired_one() {
    let world = World::new().small();
    let store = world.open();
    let mut made = Vec::new();
    while world.packs().len() < 4 {
        made.push(save(&store, &files(&[("a", &noise(made.len() as u64, 1_500))])));
    }
    // The first pack loses most of what it holds and goes; the others stay.
    for id in &made[..made.len() / 3] {
        delete(&store, id, true);
    }
    let before = world.packs();
    store.gc(&rappel_store::gc::GcOptions::default()).unwrap();
    world.clock.advance(2 * common::DAY);
    store.gc(&rappel_store::gc::GcOptions::default()).unwrap();
    let gone = before.iter().filter(|name| !world.packs().contains(name)).count();
    assert!(gone > 0, "{before:?}");
    let report = store.verify(&Scope::All, None).unwrap();
    assert!(report.is_clean(), "{report:?}");
    let kept = before.into_iter().find(|name| world.packs().contains(name)).unwrap();
    std::fs::remove_file(world.home.path().join("packs").join(&kept)).unwrap();
    let report = store.verify(&Scope::All, None).unwrap();
    assert!(report.damage.contains(&format!("{kept}: it is missing")), "{report:?}");
}

/// A commit goes on naming a bulk pack that gc has taken away. Who says that it was retired must
/// outlive the log pack that said so first.
#[test]
fn a_retired_pack_is_not_missed_when_the_commit_that_retired_it_is_gone() {
    let world = World::new().small();
    let store = world.open();
    let collect = || {
        gc(&store);
        world.clock.advance(2 * common::DAY);
        gc(&store);
    };
    let fill = |from: u64| {
        let logs = || world.packs().iter().filter(|name| name.starts_with("log")).count();
        let (before, mut made) = (logs(), Vec::new());
        while logs() == before {
            made.push(save(&store, &files(&[("a", &noise(from + made.len() as u64, 1_500))])));
        }
        made
    };
    // The first log pack names a bulk pack, and is full of what lives.
    let large = save(&store, &files(&[("large", &noise(1, 9_000))]));
    let bulk = world.packs().into_iter().find(|name| name.starts_with("bulk")).unwrap();
    fill(100);
    // The second retires it, and is then full of what dies.
    delete(&store, &large, true);
    collect();
    assert!(!world.packs().contains(&bulk));
    let dying = fill(200);
    for id in &dying[1..dying.len() - 1] {
        delete(&store, id, true);
    }
    collect();
    assert!(world.packs().contains(&"log-0000000001.pack".into()), "{:?}", world.packs());
    assert!(!world.packs().contains(&"log-0000000002.pack".into()), "{:?}", world.packs());
    world.twice(|store| {
        assert!(store.damage().is_empty(), "{:?}", store.damage());
        check_clean(store);
    });
}

/// Whatever a file in `packs/` is called and holds: it is told, and nothing else suffers.
#[test]
fn absurd_pack_numbers_neither_panic_nor_take_for_ever() {
    for name in ["log-0000000000.pack", "log-9999999999.pack", "bulk-ffffffffffffffff.pack"] {
        for copy in [false, true] {
            let world = World::new();
            let state = files(&[("a", b"one"), ("b", &noise(1, 3000))]);
            let id = save(&world.open(), &state);
            let packs = world.home.path().join("packs");
            let bytes = match copy {
                // A whole pack, with a commit that the log has somewhere else.
                true => std::fs::read(packs.join("log-0000000001.pack")).unwrap(),
                false => b"not a pack".to_vec(),
            };
            std::fs::write(packs.join(name), bytes).unwrap();
            for _ in 0..2 {
                let store = world.open();
                assert_eq!(load(&store, &id).unwrap(), state, "{name} {copy}");
                store.verify(&Scope::All, None).unwrap();
                // After the highest number there is no next one: that is told, and nothing is
                // written where nobody would find it.
                let committed = store.begin().and_then(|writer| writer.commit(|_| Ok(Vec::new())));
                if name.starts_with("log-9") {
                    assert!(committed.is_err_and(|error| error.is_damage()), "{name} {copy}");
                }
                drop(store);
                world.forget_index();
            }
        }
    }
}

#[test]
fn damage_that_a_repair_has_seen_and_nobody_needs_is_no_failure() {
    let world = World::new();
    let (kept, fine) = (noise(1, 150_000), noise(2, 160_000));
    let id = save(&world.open(), &files(&[("kept", &kept), ("fine", &fine)]));
    let log = packs(&world).remove(0);
    let bytes = std::fs::read(&log).unwrap();
    let place = |part: &[u8]| {
        bytes.windows(64).position(|window| *window == part[1000..1064]).unwrap() as u64
    };
    flip(&log, place(&kept), 1);
    let store = world.open();
    let before = store.verify(&Scope::All, None).unwrap();
    assert!(!before.is_clean() && before.known.is_empty(), "{before:?}");
    let fetch = |wanted: &ObjectId| (id_of(&kept) == *wanted).then(|| kept.clone());
    let repaired = store.repair(&fetch, None).unwrap();
    assert_eq!(repaired.lost, [], "{repaired:?}");
    assert!(!store.damage_seen());
    drop(store);
    for _ in 0..2 {
        let store = world.open();
        let after = store.verify(&Scope::All, None).unwrap();
        assert!(after.is_clean() && !after.known.is_empty(), "{after:?}");
        assert!(load(&store, &id).is_ok());
        drop(store);
        assert!(!world.open().damage_seen());
        world.forget_index();
    }
    // Further damage is news.
    flip(&log, place(&fine), 1);
    let again = world.open().verify(&Scope::All, None).unwrap();
    assert!(!again.is_clean() && again.hurt.len() == 1, "{again:?}");
}

#[test]
fn what_a_tree_that_is_back_needs_is_put_back_too() {
    let world = World::new();
    let store = world.open();
    let content = noise(1, 3000);
    let id = save(&store, &files(&[("a", &content)]));
    let row = store.checkpoint(&id).unwrap().unwrap();
    let node = store.manifest(&row).unwrap().files.unwrap().tree;
    let known = [(node, store.get(&node).unwrap().to_vec()), (id_of(&content), content)];
    drop(store);
    // The content as it is, and the tree in the record after it.
    let log = packs(&world).remove(0);
    let bytes = std::fs::read(&log).unwrap();
    let part = &known[1].1[1000..1064];
    let at = bytes.windows(64).position(|window| window == part).unwrap();
    flip(&log, at as u64, 1);
    let tree = bytes.windows(node.0.len()).position(|window| window == node.0).unwrap();
    flip(&log, tree as u64 + 8, 1);
    let store = world.open();
    assert!(store.verify(&Scope::All, None).unwrap().hurt[0].structure);
    let fetch = |wanted: &ObjectId| {
        known.iter().find(|(id, _)| id == wanted).map(|(_, bytes)| bytes.clone())
    };
    let repaired = store.repair(&fetch, None).unwrap();
    assert_eq!((repaired.restored_objects, &repaired.lost[..]), (2, &[][..]), "{repaired:?}");
    assert!(load(&store, &id).is_ok());
}

/// How the end of the log is lost: cut off behind a commit, cut off in the middle of a run, or with
/// the whole pack.
#[derive(Debug, Clone, Copy)]
enum Cut {
    BehindCommit,
    InRun,
    Pack,
}

/// Three checkpoints, of which the log has lost the last two; and what the first one holds.
fn beheaded(cut: Cut) -> (World, [CheckpointId; 3], Files) {
    let world = World::new();
    let store = world.open();
    let first = files(&[("a", &noise(1, 3_000))]);
    let one = save(&store, &first);
    if matches!(cut, Cut::Pack) {
        // The next run begins a pack of its own.
        let limits = rappel_store::Limits { pack_target: 1, ..world.limits };
        let next = rappel_store::Store::open(
            world.home.path(),
            rappel_store::Options { limits, ..world.options() },
        );
        document(&next.unwrap(), Kind::Label, one.as_str(), r#"{"version":1}"#);
    }
    let log = packs(&world).pop().unwrap();
    let end = log.metadata().unwrap().len();
    let two = save(&store, &files(&[("a", &noise(2, 3_000))]));
    let three = save(&store, &files(&[("a", &noise(3, 3_000))]));
    drop(store);
    match cut {
        Cut::Pack => std::fs::remove_file(&log).unwrap(),
        Cut::BehindCommit | Cut::InRun => {
            let more = if matches!(cut, Cut::InRun) { 700 } else { 0 };
            let file = std::fs::File::options().write(true).open(&log).unwrap();
            file.set_len(end + more).unwrap();
        }
    }
    (world, [one, two, three], first)
}

fn lost(store: &rappel_store::Store) -> Vec<CheckpointId> {
    let report = store.verify(&Scope::All, None).unwrap();
    assert_eq!(report.is_clean(), report.hurt.is_empty() && report.damage.is_empty());
    report.hurt.into_iter().filter(|hurt| hurt.lost).map(|hurt| hurt.checkpoint).collect()
}

#[test]
fn a_log_that_lost_its_end_is_known_to_the_packs() {
    for cut in [Cut::BehindCommit, Cut::InRun, Cut::Pack] {
        let (world, [one, two, three], first) = beheaded(cut);
        // Whoever opens it notices, and from then on it needs no index to be known.
        drop(world.open());
        world.twice(|store| {
            assert_eq!(lost(store), [two.clone(), three.clone()], "{cut:?}");
            assert_eq!(ids(store), std::slice::from_ref(&one), "{cut:?}");
        });
        // Numbers are not given again, whatever was lost.
        let four = save(&world.open(), &files(&[("a", b"four")]));
        assert_eq!(four.as_str(), "chk_4");
        // Neither gc nor a repair lets it be forgotten.
        delete(&world.open(), &four, true);
        let five = save(&world.open(), &files(&[("a", b"five")]));
        gc_now(&world.open());
        world.twice(|store| {
            let report = store.verify(&Scope::All, None).unwrap();
            assert!(!report.damage.is_empty(), "{cut:?}: {report:?}");
            assert_eq!(lost(store), [two.clone(), three.clone()], "{cut:?}");
        });
        let repaired = world.open().repair(&|_| None, None).unwrap();
        assert_eq!(repaired.lost.len(), 2, "{cut:?}: {repaired:?}");
        gc_now(&world.open());
        world.twice(|store| assert_eq!(lost(store), [two.clone(), three.clone()], "{cut:?}"));
        // Only whoever lets go of them is not told any more.
        let store = world.open();
        assert!(store.is_lost(&two).unwrap() && !store.is_lost(&one).unwrap());
        store.delete_lost(&[two, three]).unwrap();
        world.twice(check_clean);
        gc_now(&world.open());
        world.twice(|store| {
            check_clean(store);
            assert_eq!(load(store, &one).unwrap(), first, "{cut:?}");
            assert_eq!(ids(store), [one.clone(), five.clone()], "{cut:?}");
        });
    }
}

#[test]
fn a_log_pack_that_is_missing_is_damage_by_the_packs_alone() {
    let (world, ids, _) = beheaded(Cut::Pack);
    assert!(!world.open().verify(&Scope::All, None).unwrap().is_clean());
    world.forget_index();
    let store = world.open();
    assert!(store.damage_seen(), "{:?}", store.damage());
    let report = store.verify(&Scope::All, None).unwrap();
    assert!(report.damage.iter().any(|damage| damage.contains("missing")), "{report:?}");
    assert_eq!(report.hurt.len(), ids.len() - 1, "{report:?}");
}

/// An index of long ago knows packs that gc has retired since: nothing of that is a loss.
#[test]
fn an_old_index_beside_a_newer_log_is_no_damage() {
    let world = World::new();
    let store = world.open();
    let one = save(&store, &files(&[("a", &noise(1, 3_000))]));
    drop(store);
    let index: Vec<(PathBuf, Vec<u8>)> = ["index.db", "index.db-wal"]
        .into_iter()
        .map(|name| world.home.path().join(name))
        .filter_map(|path| Some((path.clone(), std::fs::read(&path).ok()?)))
        .collect();
    let store = world.open();
    delete(&store, &one, true);
    let two = save(&store, &files(&[("b", &noise(2, 3_000))]));
    gc_now(&store);
    drop(store);
    world.forget_index();
    for (path, bytes) in &index {
        std::fs::write(path, bytes).unwrap();
    }
    world.twice(|store| {
        check_clean(store);
        assert!(!store.damage_seen());
        assert_eq!(ids(store), std::slice::from_ref(&two));
    });
}
