//! A home, and a run, with more packs than a process may have open files.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]

mod common;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use common::{
    Files, World, check_clean, check_saved, delete, files, gc_now, ids, noise, save, save_with,
};
use rappel_store::disk::{Disk, Op};
use rappel_store::gc::GcOptions;
use rappel_store::{Error, Limits};
use rustix::process::{Resource, Rlimit, setrlimit};

/// Counts the packs that the process has open whenever one is created.
#[derive(Debug, Default)]
struct Counting {
    most: AtomicUsize,
}

impl Disk for Counting {
    fn gate(&self, op: &Op<'_>) -> io::Result<usize> {
        if matches!(op, Op::Create(_)) {
            self.most.fetch_max(open_packs(), Ordering::Relaxed);
        }
        Ok(usize::MAX)
    }
}

/// Files in a run, and how large they are.
const RUN: u64 = 300;
const RECORD: usize = rappel_store::block::BLOCK_TARGET;

fn open_packs() -> usize {
    let handles = std::fs::read_dir("/proc/self/fd").unwrap();
    let targets = handles.filter_map(|handle| std::fs::read_link(handle.unwrap().path()).ok());
    targets.filter(|target| target.extension().is_some_and(|end| end == "pack")).count()
}

fn tiny(mut world: World) -> World {
    // Thousands of files are not synced here one by one.
    if let Ok(folder) = tempfile::tempdir_in("/dev/shm") {
        world.home = folder;
    }
    world.limits = Limits { run_max: 256, pack_target: 1 << 10, ..Limits::default() };
    world
}

#[test]
fn three_thousand_packs_need_few_open_files() {
    let disk = Arc::new(Counting::default());
    let world = tiny(World::on(disk.clone()));
    let limit = Some(128);
    setrlimit(Resource::Nofile, Rlimit { current: limit, maximum: limit }).unwrap();
    let store = world.open();
    let mut all = Vec::new();
    while world.packs().len() < 3_000 {
        // A record of this size is a pack of its own here: each run has many.
        let round = all.len() as u64;
        let many: Vec<(String, Vec<u8>)> =
            (0..RUN).map(|file| (format!("{file}"), noise(round * RUN + file, RECORD))).collect();
        let many: Vec<(&str, &[u8])> = many.iter().map(|(name, it)| (&**name, &**it)).collect();
        let state = files(&many);
        all.push((save(&store, &state), state));
    }
    drop(store);

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

    let (gone, _) = all.remove(1);
    delete(&store, &gone, true);
    let before = world.packs().len();
    assert!(gc_now(&store).packs_removed > 0);
    assert!(world.packs().len() < before);
    check_saved(&store, &all);
    check_clean(&store);
    let most = disk.most.load(Ordering::Relaxed);
    assert!(most <= 64, "{most} packs were open at once");
}

#[test]
fn a_run_whose_packs_gc_took_for_a_dead_writers_is_done_again() {
    let world = tiny(World::new());
    let store = world.open();
    let names: Vec<String> = (0..10).map(|number| number.to_string()).collect();
    let contents: Vec<Vec<u8>> = (0..10).map(|seed| noise(seed, RECORD)).collect();
    let state: Files = names.into_iter().zip(contents).collect();
    let other = world.open();
    // As if the machine had slept for longer than the grace.
    let collect = |_: &_| {
        let options = GcOptions { now: true, grace: Duration::ZERO, ..GcOptions::default() };
        assert!(other.gc(&options).unwrap().packs_removed > 0);
    };
    assert!(matches!(save_with(&store, &state, collect), Err(Error::Moved)));
    assert!(ids(&store).is_empty());
    let all = [(save(&store, &state), state)];
    check_saved(&store, &all);
    check_clean(&store);
}
