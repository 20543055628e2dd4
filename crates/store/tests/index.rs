//! The index is a view: whatever happens to it, it is built again.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]

mod common;

use common::{Files, World, check_saved, files, gc_now, ids, noise, save};
use rappel_store::sink::{Source, id_of};
use rappel_types::CheckpointId;

fn home() -> (World, Vec<(CheckpointId, Files)>) {
    let world = World::new().small();
    let store = world.open();
    let all = (0..40u64)
        .map(|round| {
            let state = files(&[
                ("a", &noise(round, 300)),
                ("b", &noise(9, 500 + round as usize)),
                ("c", &noise(round / 10 + 70, 6_000)),
            ]);
            (save(&store, &state), state)
        })
        .collect();
    (world, all)
}

fn check(world: &World, all: &[(CheckpointId, Files)], what: &str) {
    let store = world.open();
    assert_eq!(ids(&store).len(), all.len(), "{what}");
    check_saved(&store, all);
    assert!(store.damage().is_empty(), "{what}: {:?}", store.damage());
}

type Spoil<'a> = Box<dyn Fn() + 'a>;

#[test]
fn an_index_that_is_gone_or_spoilt_is_built_again() {
    let (world, all) = home();
    let path = world.home.path().join("index.db");
    let spoil: [(&str, Spoil<'_>); 5] = [
        ("deleted", Box::new(|| {})),
        ("empty", Box::new(|| std::fs::write(&path, b"").unwrap())),
        ("garbage", Box::new(|| std::fs::write(&path, noise(1, 9_000)).unwrap())),
        (
            "of an older version",
            Box::new(|| {
                let database = rusqlite::Connection::open(&path).unwrap();
                database
                    .execute_batch("CREATE TABLE object (key); PRAGMA user_version = 1;")
                    .unwrap();
            }),
        ),
        (
            "of another program",
            Box::new(|| {
                let database = rusqlite::Connection::open(&path).unwrap();
                database.execute_batch("CREATE TABLE thing (name TEXT);").unwrap();
            }),
        ),
    ];
    for (what, spoil) in spoil {
        world.forget_index();
        spoil();
        check(&world, &all, what);
    }
}

#[test]
fn an_index_whose_log_was_left_behind_is_built_again() {
    let (world, all) = home();
    let path = world.home.path().join("index.db");
    assert!(world.home.path().join("index.db-wal").exists());
    std::fs::remove_file(path).unwrap();
    check(&world, &all, "only the database deleted");
}

/// Spoils a page, given the whole database and the page's number.
type SpoilPage = fn(&mut [u8], usize);

const SPOILS: [(&str, SpoilPage); 5] = [
    ("a flipped bit", |bytes, page| bytes[page * PAGE + page * 37 % PAGE] ^= 1 << (page % 8)),
    ("zeros", |bytes, page| bytes[page * PAGE..][..PAGE].fill(0)),
    ("garbage", |bytes, page| {
        bytes[page * PAGE..][..PAGE].copy_from_slice(&noise(page as u64, PAGE));
    }),
    ("another page", |bytes, page| {
        let other = (page + 1) % (bytes.len() / PAGE);
        bytes.copy_within(other * PAGE..(other + 1) * PAGE, page * PAGE);
    }),
    ("its second half of zeros", |bytes, page| bytes[page * PAGE + PAGE / 2..][..PAGE / 2].fill(0)),
];
const PAGE: usize = 1024;

#[test]
fn whatever_page_is_spoilt_everything_is_found_all_the_same() {
    let (world, all) = home();
    let path = world.home.path().join("index.db");
    drop(world.index());
    let mut whole = std::fs::read(&path).unwrap();
    assert!(whole.len() > 30 * PAGE, "{}", whole.len());
    for page in 0..whole.len() / PAGE {
        let (what, spoil) = SPOILS[page % SPOILS.len()];
        let mut spoilt = whole.clone();
        spoil(&mut spoilt, page);
        // In place: a copy would not be believed anyway.
        std::fs::write(&path, spoilt).unwrap();
        for beside in ["index.db-wal", "index.db-shm"] {
            let _ = std::fs::remove_file(world.home.path().join(beside));
        }
        let store = world.open();
        assert_eq!(ids(&store).len(), all.len(), "page {page}: {what}");
        check_saved(&store, &all);
        assert!(store.damage().is_empty(), "page {page}: {what}: {:?}", store.damage());
        drop(store);
        // It was noticed and is another file now, or the page was not needed.
        drop(world.index());
        whole = std::fs::read(&path).unwrap();
    }
}

#[test]
fn a_log_of_the_index_that_is_spoilt_costs_nothing() {
    let (world, all) = home();
    let beside = |suffix: &str| world.home.path().join(format!("index.db{suffix}"));
    let (database, log) = (beside(""), beside("-wal"));
    let whole = [&database, &log].map(|path| std::fs::read(path).unwrap());
    assert!(whole[1].len() > 8 * PAGE, "{}", whole[1].len());
    for part in 0..16 {
        let mut spoilt = whole[1].clone();
        let at = spoilt.len() * part / 16;
        spoilt[at] ^= 1 << (part % 8);
        std::fs::write(&database, &whole[0]).unwrap();
        std::fs::write(&log, spoilt).unwrap();
        let _ = std::fs::remove_file(beside("-shm"));
        check(&world, &all, &format!("byte {at} of the log"));
    }
}

#[test]
fn a_copy_of_a_home_builds_an_index_of_its_own() {
    let (world, all) = home();
    // What a copy of a home in use has: an index of one moment beside packs of another.
    let path = world.home.path().join("index.db");
    drop(world.index());
    world.index().execute_batch("DELETE FROM checkpoint; DELETE FROM object").unwrap();
    let lying = std::fs::read(&path).unwrap();
    world.forget_index();
    std::fs::write(&path, lying).unwrap();
    check(&world, &all, "a copied index");
}

#[test]
fn a_truncated_index_is_built_again_or_was_not_needed() {
    let (world, all) = home();
    let path = world.home.path().join("index.db");
    // Everything into the database itself, so that cutting it hurts.
    drop(world.index());
    let whole = std::fs::read(&path).unwrap();
    for part in [1, 2, 3, 5, 8] {
        world.forget_index();
        std::fs::write(&path, &whole[..whole.len() * part / 9]).unwrap();
        check(&world, &all, &format!("{part} ninths"));
    }
}

#[test]
fn a_build_that_was_interrupted_is_begun_again() {
    let (world, all) = home();
    gc_now(&world.open());
    // As a process leaves it that died while it waited for a base.
    world
        .index()
        .execute_batch(
            "INSERT INTO meta (key, value) VALUES ('incomplete', 1);
             DELETE FROM checkpoint WHERE sequence % 3 = 0;",
        )
        .unwrap();
    save(&world.open(), &files(&[("later", b"later")]));
    let store = world.open();
    assert_eq!(ids(&store).len(), all.len() + 1);
    check_saved(&store, &all);
}

#[test]
fn what_is_not_taken_in_yet_is_waited_for() {
    let (world, all) = home();
    let large = &all[39].1["c"];
    world
        .index()
        .execute_batch(
            "INSERT INTO meta (key, value) VALUES ('incomplete', 1);
             DELETE FROM object; DELETE FROM recent;",
        )
        .unwrap();
    assert_eq!(*world.open().get(&id_of(large)).unwrap(), **large);
}

#[test]
fn an_index_from_another_time_is_noticed() {
    let (world, mut all) = home();
    let path = world.home.path().join("index.db");
    let wal = world.home.path().join("index.db-wal");
    let old = (std::fs::read(&path).unwrap(), std::fs::read(&wal).ok());
    let state = files(&[("later", b"later")]);
    all.push((save(&world.open(), &state), state));
    world.forget_index();
    std::fs::write(&path, &old.0).unwrap();
    if let Some(bytes) = &old.1 {
        std::fs::write(&wal, bytes).unwrap();
    }
    check(&world, &all, "an older index");

    // And one that knows more than the log, because the home came back from an older backup.
    let packs = world.home.path().join("packs");
    let backup: Vec<_> = world
        .packs()
        .into_iter()
        .map(|name| (name.clone(), std::fs::read(packs.join(name)).unwrap()))
        .collect();
    save(&world.open(), &files(&[("lost", b"lost")]));
    for name in world.packs() {
        std::fs::remove_file(packs.join(name)).unwrap();
    }
    for (name, bytes) in &backup {
        std::fs::write(packs.join(name), bytes).unwrap();
    }
    let store = world.open();
    assert!(!store.damage().is_empty(), "what was acknowledged and is gone is told");
    assert_eq!(ids(&store).len(), all.len());
    check_saved(&store, &all);
}
