//! Garbage is collected, and nothing else is.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]

mod common;

use common::{DAY, World, delete, document, files, gc, gc_now, ids, load, noise, save};
use rappel_store::ambient::Clock;
use rappel_store::gc::GcOptions;
use rappel_store::record::Kind;
use rappel_store::sink::{Role, Sink, Source, id_of};
use rappel_store::verify::Scope;
use rappel_store::{Error, NewRecord};
use rappel_testing::{Failure, Fault, FaultDisk};
use rappel_types::{CheckpointId, WorkspaceId};

#[test]
fn a_home_without_garbage_is_left_alone() {
    let world = World::new();
    let store = world.open();
    let first = files(&[("a", b"one"), ("b", &noise(1, 90_000))]);
    let id = save(&store, &first);
    let before = (world.packs(), world.pack_bytes());
    let report = gc_now(&store);
    assert_eq!((world.packs(), world.pack_bytes()), before);
    assert_eq!(report.dead_objects, 0);
    assert!(report.live_objects >= 3);
    assert_eq!(load(&store, &id).unwrap(), first);
}

#[test]
fn what_only_a_deleted_checkpoint_needs_is_given_back() {
    let world = World::new();
    let store = world.open();
    let shared = noise(1, 200_000);
    let gone = noise(2, 400_000);
    let first = save(&store, &files(&[("shared", &shared), ("gone", &gone)]));
    let rest = files(&[("shared", &shared), ("new", b"text")]);
    let second = save(&store, &rest);
    let before = world.pack_bytes();
    delete(&store, &first, true);
    let report = gc_now(&store);
    assert!(report.packs_retired > 0 && report.packs_copied > 0, "{report:?}");
    assert!(world.pack_bytes() < before - 350_000, "{} of {before}", world.pack_bytes());
    assert!(!report.others_reading);
    for store in [store, {
        world.forget_index();
        world.open()
    }] {
        assert_eq!(ids(&store), std::slice::from_ref(&second));
        assert_eq!(load(&store, &second).unwrap(), rest);
        assert!(store.get(&id_of(&gone)).is_err());
        assert!(store.damage().is_empty(), "{:?}", store.damage());
    }
}

#[test]
fn a_deleted_checkpoint_can_be_brought_back_within_the_grace() {
    let world = World::new();
    let store = world.open();
    let first = files(&[("a", &noise(1, 100_000))]);
    let one = save(&store, &first);
    save(&store, &files(&[("b", b"other")]));
    delete(&store, &one, false);
    assert!(store.checkpoint(&one).unwrap().is_none());
    world.clock.advance(DAY / 2);
    gc(&store);
    assert!(store.undelete(&one).unwrap());
    assert_eq!(load(&store, &one).unwrap(), first);
    world.forget_index();
    let store = world.open();
    assert_eq!(load(&store, &one).unwrap(), first);

    delete(&store, &one, false);
    world.clock.advance(2 * DAY);
    assert!(store.gc_due().unwrap());
    gc(&store);
    assert!(matches!(store.undelete(&one), Ok(false) | Err(Error::Collected(_))));
    assert!(!store.gc_due().unwrap(), "it was just done");
    world.clock.advance(2 * DAY);
    assert!(store.gc_due().unwrap(), "the retired packs wait to be unlinked");
    let report = gc(&store);
    assert!(report.packs_removed > 0 && report.waiting_bytes == 0, "{report:?}");
    assert!(!store.gc_due().unwrap());
}

#[test]
fn a_manifest_that_outlived_what_it_refers_to_is_not_brought_back() {
    let world = World::new().small();
    let store = world.open();
    let first = save(&store, &files(&[("large", &noise(1, 60_000))]));
    let rest = files(&[("kept", &noise(2, 3_000))]);
    let second = save(&store, &rest);
    delete(&store, &first, false);
    world.clock.advance(2 * DAY);
    gc(&store);
    if let Ok(true) = store.undelete(&first) {
        panic!("it came back without its bytes");
    }
    assert_eq!(load(&store, &second).unwrap(), rest);
}

#[test]
fn retired_packs_wait_for_the_grace_and_for_readers() {
    let world = World::new();
    let store = world.open();
    let one = save(&store, &files(&[("a", &noise(1, 300_000))]));
    let rest = files(&[("b", b"rest")]);
    let two = save(&store, &rest);
    delete(&store, &one, true);
    let report = gc(&store);
    assert!(report.waiting_bytes > 300_000 && report.packs_removed == 0, "{report:?}");

    let reader = world.open();
    let options = GcOptions { now: true, ..GcOptions::default() };
    let report = store.gc(&options).unwrap();
    assert!(report.others_reading && report.packs_removed == 0, "{report:?}");
    assert_eq!(load(&reader, &two).unwrap(), rest);
    drop(reader);
    let report = store.gc(&options).unwrap();
    assert!(!report.others_reading && report.packs_removed > 0, "{report:?}");
    assert_eq!(load(&store, &two).unwrap(), rest);
    assert_eq!(load(&world.open(), &two).unwrap(), rest);
}

#[test]
fn the_index_is_the_same_whenever_it_is_rebuilt() {
    let world = World::new().small();
    let store = world.open();
    let mut kept = Vec::new();
    for round in 0..12u64 {
        let all = files(&[
            ("changing", &noise(round, 2_000)),
            ("growing", &noise(7, 3_000 + round as usize * 10)),
            ("large", &noise(round / 4 + 100, 30_000)),
        ]);
        let id = save(&store, &all);
        if round % 3 == 0 {
            delete(&store, &id, true);
        } else {
            kept.push((id, all));
        }
    }
    document(&store, Kind::Label, kept[0].0.as_str(), r#"{"version":1,"add":["tag"]}"#);
    let check = |moment: &str| {
        let live = world.open();
        let view = |store: &rappel_store::Store| {
            let deleted = store.with_index(|index| index.deleted()).unwrap();
            let labels = store.with_index(|index| index.documents(Kind::Label, None)).unwrap();
            let stones = store.with_index(|index| index.documents(Kind::Tombstone, None)).unwrap();
            let rows = store.with_index(|index| index.checkpoints(None)).unwrap();
            let last = store.with_index(|index| index.last_sequence(WorkspaceId(1))).unwrap();
            let mut deleted: Vec<_> = deleted.into_iter().map(|row| row.id).collect();
            deleted.sort();
            (rows, deleted, labels, stones, last)
        };
        let before = view(&live);
        drop(live);
        world.forget_index();
        let rebuilt = world.open();
        assert_eq!(view(&rebuilt), before, "{moment}");
        assert_eq!(before.4, 12, "numbers are never given again");
        assert!(rebuilt.damage().is_empty(), "{moment}: {:?}", rebuilt.damage());
        assert_eq!(ids(&rebuilt).len(), kept.len());
        for (id, all) in &kept {
            assert_eq!(load(&rebuilt, id).unwrap(), *all, "{moment}");
        }
    };
    check("before gc");
    let report = gc(&store);
    assert!(report.packs_retired > 0, "{report:?}");
    check("before unlinking");
    world.clock.advance(2 * DAY);
    let report = gc(&store);
    assert!(report.packs_removed > 0, "{report:?}");
    check("after unlinking");
    gc_now(&world.open());
    check("after another gc");
}

#[test]
fn a_dry_run_changes_nothing() {
    let world = World::new();
    let store = world.open();
    let one = save(&store, &files(&[("a", &noise(1, 300_000))]));
    save(&store, &files(&[("b", b"rest")]));
    delete(&store, &one, true);
    let before = (world.packs(), world.pack_bytes());
    let options = GcOptions { dry_run: true, now: true, ..GcOptions::default() };
    let report = store.gc(&options).unwrap();
    assert!(report.freed_bytes > 290_000 && report.dead_objects > 0, "{report:?}");
    assert_eq!((world.packs(), world.pack_bytes()), before);
}

#[test]
fn checkpoints_of_undo_and_open_restores_stay() {
    let world = World::new();
    let store = world.open();
    let safety = files(&[("a", &noise(1, 100_000))]);
    let target = files(&[("a", &noise(2, 100_000))]);
    let (from, to) = (save(&store, &safety), save(&store, &target));
    let intended = files(&[("a", &noise(3, 100_000))]);
    let open = save(&store, &intended);
    save(&store, &files(&[("b", b"rest")]));
    let undo = format!(
        r#"{{"version":1,"workspace":"0000000000000001","kind":"restore","from":"{from}","to":"{to}","facets":[],"paths":[],"at":"2030-01-01T00:00:00Z"}}"#
    );
    document(&store, Kind::Undo, "0000000000000001", &undo);
    for id in [&from, &to, &open] {
        delete(&store, id, false);
    }
    world.clock.advance(3 * DAY);
    let roots = vec![open.clone()];
    store.gc(&GcOptions { roots, now: true, ..GcOptions::default() }).unwrap();
    for (id, files) in [(&from, &safety), (&to, &target), (&open, &intended)] {
        assert!(store.undelete(id).unwrap());
        assert_eq!(load(&store, id).unwrap(), *files);
    }
}

#[test]
fn long_histories_of_small_edits_survive_many_collections() {
    let world = World::new().small();
    let store = world.open();
    let mut text = noise(5, 4_000);
    let mut all = Vec::new();
    for round in 0..70usize {
        text[round * 13] ^= 0x55;
        let state = files(&[("text", &text), ("other", &noise(round as u64, 300))]);
        all.push((save(&store, &state), state));
        if round % 7 == 6 {
            let (id, _) = all.remove(round % 5);
            delete(&store, &id, true);
            gc_now(&store);
        }
    }
    world.forget_index();
    let store = world.open();
    assert!(store.damage().is_empty(), "{:?}", store.damage());
    for (id, state) in &all {
        assert_eq!(load(&store, id).unwrap(), *state);
    }
}

#[test]
fn packs_that_are_older_than_the_log_are_not_taken_for_garbage() {
    let world = World::new().small();
    save(&world.open(), &files(&[("large", &noise(1, 40_000))]));
    let bulk = || {
        let mut packs = world.packs();
        packs.retain(|name| name.starts_with("bulk-"));
        packs
    };
    let before = bulk();
    assert!(!before.is_empty());
    // The log is lost, and the index with it: nothing says that those packs ever counted.
    for name in world.packs().iter().filter(|name| name.starts_with("log-")) {
        std::fs::remove_file(world.home.path().join("packs").join(name)).unwrap();
    }
    world.forget_index();
    let store = world.open();
    save(&store, &files(&[("a", b"one")]));
    gc(&store);
    assert_eq!(bulk(), before);
}

#[test]
fn what_dead_writers_left_goes_after_the_grace() {
    let world = World::new().small();
    let store = world.open();
    save(&store, &files(&[("a", b"one")]));
    let leftover = world.home.path().join("packs/bulk-00000000000000aa.pack");
    std::fs::write(&leftover, b"half a pack").unwrap();
    // The clock of this world is far ahead of the file's, so that it is old.
    let busy = std::fs::File::open(&leftover).unwrap();
    rustix::fs::flock(&busy, rustix::fs::FlockOperation::LockExclusive).unwrap();
    gc(&store);
    assert!(leftover.exists(), "a writer holds it");
    drop(busy);
    gc(&store);
    assert!(!leftover.exists());
}

#[test]
fn a_second_gc_does_not_wait_for_the_first() {
    let world = World::new();
    let store = world.open();
    save(&store, &files(&[("a", b"one")]));
    let other = world.open();
    let tried = std::cell::Cell::new(false);
    let progress = |_| {
        let second = other.gc(&GcOptions::default());
        assert!(matches!(second, Err(Error::Busy { .. })), "{second:?}");
        tried.set(true);
        Ok(())
    };
    store.gc(&GcOptions { progress: Some(&progress), ..GcOptions::default() }).unwrap();
    assert!(tried.get());
}

#[test]
fn delete_and_gc_work_on_a_full_disk() {
    let disk = FaultDisk::new();
    let mut world = World::on(disk.clone());
    world.limits.reserve_from = 1;
    let store = world.open();
    let rest = files(&[("b", b"rest")]);
    let one = save(&store, &files(&[("a", &noise(1, 100_000))]));
    let two = save(&store, &rest);
    let reserve = world.home.path().join("reserve");
    gc(&store);
    for act in [
        (|store, id| delete(store, id, true)) as fn(&rappel_store::Store, &CheckpointId),
        |store, _| assert!(gc_now(store).packs_retired > 0),
    ] {
        assert!(reserve.exists());
        // The first write finds the disk full; the reserve makes room.
        disk.set(Fault::Fail { at: 1, failure: Failure::NoSpace });
        act(&store, &one);
        disk.set(Fault::None);
        store.tend_reserve().unwrap();
    }
    assert_eq!(load(&store, &two).unwrap(), rest);
    assert_eq!(ids(&store), [two]);
    assert!(store.verify(&rappel_store::verify::Scope::All, None).unwrap().is_clean());
}

#[test]
fn a_small_home_has_no_reserve_and_a_large_one_does() {
    let mut world = World::new();
    world.limits.reserve_from = 100_000;
    let store = world.open();
    save(&store, &files(&[("a", b"one")]));
    gc(&store);
    let reserve = world.home.path().join("reserve");
    assert!(!reserve.exists());
    save(&store, &files(&[("a", &noise(1, 200_000))]));
    gc(&store);
    assert_eq!(reserve.metadata().unwrap().len(), 16 << 20);
}

#[test]
fn the_manifest_of_a_deleted_checkpoint_stays_readable_as_long_as_its_pack() {
    let world = World::new().small();
    let store = world.open();
    let mut dead = Vec::new();
    while world.packs().len() < 2 {
        let round = dead.len() as u64;
        dead.push(save(&store, &files(&[("a", &noise(round, 2_500))])));
    }
    // Its manifest is stored against one in the pack before, where nothing will live.
    dead.push(save(&store, &files(&[("b", b"small")])));
    for id in &dead {
        delete(&store, id, true);
    }
    let mut kept = Vec::new();
    for round in 0..4 {
        let state = files(&[("c", &noise(100 + round, 2_600))]);
        kept.push((save(&store, &state), state));
    }
    let report = gc(&store);
    assert!(report.packs_retired > 0, "{report:?}");
    world.clock.advance(2 * DAY);
    assert!(gc(&store).packs_removed > 0);
    drop(store);
    world.forget_index();
    let store = world.open();
    assert!(store.damage().is_empty(), "{:?}", store.damage());
    let deleted = store.with_index(|index| index.deleted()).unwrap();
    assert!(!deleted.is_empty(), "one of them is still in its pack");
    let report = store.verify(&rappel_store::verify::Scope::All, None).unwrap();
    assert!(report.is_clean(), "{report:?}");
    assert_eq!(gc_now(&store).packs_kept_for_damage, 0);
    for (id, state) in &kept {
        assert_eq!(load(&store, id).unwrap(), *state);
    }
}

#[test]
fn a_pack_that_was_retired_stays_so_when_the_pack_with_that_commit_goes() {
    let world = World::new();
    let store = world.open();
    let retired = |store: &rappel_store::Store| -> Vec<String> {
        let rows = store.with_index(|index| index.packs()).unwrap();
        let gone = rows.into_iter().filter(|row| row.retired_at.is_some());
        gone.map(|row| row.pack.to_string()).collect()
    };
    let mut state = files(&[("kept", &noise(1, 300))]);
    let mut spoil = |store: &rappel_store::Store, seed: u64| {
        state.insert("dead".into(), noise(seed, 40_000));
        let id = save(store, &state);
        state.remove("dead");
        save(store, &state);
        delete(store, &id, true);
    };
    spoil(&store, 10);
    gc(&store);
    let first = retired(&store);
    assert!(first.iter().any(|name| name.starts_with("log-")), "{first:?}");
    spoil(&store, 20);
    gc(&store);
    let second = retired(&store);
    assert!(second.len() > first.len(), "the commit that retired the first is retired too");
    let before = ids(&store);
    drop(store);
    // A crash while both are unlinked: only the later ones are gone.
    for name in second.iter().filter(|name| !first.contains(name)) {
        std::fs::remove_file(world.home.path().join("packs").join(name)).unwrap();
    }
    world.forget_index();
    let store = world.open();
    assert!(first.iter().all(|name| world.packs().contains(name)));
    assert_eq!(ids(&store), before);
    assert!(store.damage().is_empty(), "{:?}", store.damage());
    assert!(store.verify(&rappel_store::verify::Scope::All, None).unwrap().is_clean());
    world.clock.advance(2 * DAY);
    gc(&store);
    assert!(first.iter().all(|name| !world.packs().contains(name)));
    assert_eq!(load(&store, &before[0]).unwrap(), state);
}

/// What an index can say that is wrong, and that would cost a live pack if gc believed it.
#[test]
fn gc_takes_no_pack_because_of_what_the_index_says() {
    let lies = [
        ("a pack is retired", "UPDATE pack SET retired_at = 1"),
        (
            "a pack has another name",
            "UPDATE pack SET name = 'bulk-00000000000000ff.pack' WHERE number = (SELECT max(number) FROM pack WHERE name LIKE 'bulk-%')",
        ),
        ("no pack is known", "DELETE FROM pack"),
        ("no checkpoint is known", "DELETE FROM checkpoint"),
    ];
    for (what, lie) in lies {
        let world = World::new().small();
        let store = world.open();
        let mut all = Vec::new();
        for round in 0..4 {
            let state = files(&[("a", &noise(round, 30_000)), ("b", &noise(9, 500))]);
            all.push((save(&store, &state), state));
        }
        drop(store);
        world.index().execute_batch(lie).unwrap();
        // Nothing is young enough to be spared.
        world.clock.advance(3_000 * DAY);
        let before = world.packs();
        let store = world.open();
        let report = gc_now(&store);
        assert_eq!((report.packs_removed, world.packs()), (0, before), "{what}");
        // The index that lied has been built anew.
        assert_eq!(ids(&store).len(), all.len(), "{what}");
        common::check_saved(&store, &all);
        drop(store);
        world.forget_index();
        common::check_saved(&world.open(), &all);
    }
}

/// A later version may have written something whose references this one cannot follow.
#[test]
fn nothing_is_collected_below_what_a_later_version_wrote() {
    for magic in [b"RTR\x02", b"RCL\x02", b"RSS\x02"] {
        let world = World::new().small();
        let store = world.open();
        let child = noise(7, 9_000);
        let writer = store.begin().unwrap();
        let below = writer.put(Role::Content, &child, None).unwrap();
        let node = [&magic[..], &below.0].concat();
        let node = writer.put(Role::Structure, &node, None).unwrap();
        let json = format!(r#"{{"version":1,"tree":"{node}"}}"#);
        let (kind, key) = (Kind::Workspace, "later".to_owned());
        writer.commit(|_| Ok(vec![NewRecord::Document { kind, key, json }])).unwrap();
        let gone = save(&store, &files(&[("a", &noise(8, 9_000))]));
        delete(&store, &gone, true);
        let report = gc_now(&store);
        assert!(report.packs_kept_for_damage > 0, "{magic:?}: {report:?}");
        world.twice(|store| assert_eq!(*store.get(&below).unwrap(), child[..], "{magic:?}"));
        let report = world.open().verify(&Scope::All, None).unwrap();
        assert!(report.is_clean(), "{magic:?}: {report:?}");
    }
}

#[test]
fn a_document_of_a_later_version_keeps_what_is_as_old() {
    let world = World::new().small();
    let store = world.open();
    let state = files(&[("a", &noise(8, 9_000))]);
    let id = save(&store, &state);
    let row = store.checkpoint(&id).unwrap().unwrap();
    // Whatever it says in that version: this one must not act on it.
    let json = format!(
        r#"{{"version":2,"checkpoint":"{id}","workspace":"{}","sequence":{},"at":"{}","now":true}}"#,
        row.workspace,
        row.sequence,
        world.clock.now(),
    );
    document(&store, Kind::Tombstone, id.as_str(), &json);
    gc_now(&store);
    let row = store.with_index(|index| index.checkpoint(&id)).unwrap().unwrap().0;
    assert!(store.get(&row.manifest).is_ok());
    let tree = store.manifest(&row).unwrap().files.unwrap().tree;
    assert_eq!(rappel_store::tree::read(&store, &tree).unwrap().len(), state.len());
}

#[test]
fn a_process_that_is_open_does_not_write_to_what_a_later_version_took_over() {
    let world = World::new();
    let store = world.open();
    save(&store, &files(&[("a", b"one")]));
    let format = world.home.path().join("format");
    let text = std::fs::read_to_string(&format).unwrap();
    std::fs::write(&format, text.replace("rappel 1", "rappel 2") + "needs 9.9.9\n").unwrap();
    let error = common::try_save(&store, &files(&[("a", b"two")])).unwrap_err();
    assert!(error.to_string().contains("needs rappel 9.9.9 or later"), "{error}");
    assert!(matches!(world.try_open(), Err(rappel_store::Error::Newer { .. })));
}
