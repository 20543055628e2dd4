//! A home with more packs than a process may have open files.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]

mod common;

use common::{World, check_clean, check_saved, delete, files, gc_now, ids, noise, save};
use rappel_store::Limits;
use rustix::process::{Resource, Rlimit, setrlimit};

// The only test of this file: the limit is one of the whole process.
#[test]
fn three_thousand_packs_need_few_open_files() {
    let mut world = World::new();
    // Thousands of files are not synced here one by one.
    if let Ok(folder) = tempfile::tempdir_in("/dev/shm") {
        world.home = folder;
    }
    world.limits = Limits { run_max: 256, pack_target: 1 << 10, ..Limits::default() };
    let store = world.open();
    let mut all = Vec::new();
    let mut round = 0;
    while world.packs().len() < 3_000 {
        // Of many saves: a writer keeps the packs of its own run open until they are committed.
        let state = files(&[("a", &noise(round, 120_000)), ("b", &noise(9, 500))]);
        all.push((save(&store, &state), state));
        round += 1;
    }
    drop(store);
    setrlimit(Resource::Nofile, Rlimit { current: Some(128), maximum: Some(128) }).unwrap();

    let store = world.open();
    check_saved(&store, &all);
    let state = files(&[("a", &noise(5_000, 20_000))]);
    all.push((save(&store, &state), state));
    check_clean(&store);
    drop(store);

    world.forget_index();
    let store = world.open();
    assert!(store.damage().is_empty(), "{:?}", store.damage());
    assert_eq!(ids(&store).len(), all.len());
    check_saved(&store, &all);

    let (gone, _) = all.remove(0);
    delete(&store, &gone, true);
    let before = world.packs().len();
    assert!(gc_now(&store).packs_removed > 0);
    assert!(world.packs().len() < before);
    check_saved(&store, &all);
    check_clean(&store);
}
