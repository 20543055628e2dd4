//! Any tree, any sequence of edits, saves, deletes, gc, restores, undos and lost indexes equals a
//! simple model kept beside it.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test may fail loudly"
)]

mod support;

use std::collections::BTreeMap;

use proptest::prelude::*;
use rappel::{ErrorKind, ListFilter, RestoreOptions};
use rappel_testing::Project;
use rappel_testing::project::Snapshot;
use support::{World, reference};

#[derive(Debug, Clone)]
enum Step {
    Write(u8, u16),
    Remove(u8),
    Link(u8, u8),
    Mode(u8, bool),
    Save,
    Restore(u8),
    Undo,
    Delete(u8, bool),
    Gc(bool),
    LoseIndex,
    LoseCache,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (any::<u8>(), any::<u16>()).prop_map(|(n, size)| Step::Write(n, size % 3000)),
        2 => any::<u8>().prop_map(Step::Remove),
        1 => (any::<u8>(), any::<u8>()).prop_map(|(n, to)| Step::Link(n, to)),
        1 => (any::<u8>(), any::<bool>()).prop_map(|(n, on)| Step::Mode(n, on)),
        4 => Just(Step::Save),
        3 => any::<u8>().prop_map(Step::Restore),
        1 => Just(Step::Undo),
        2 => (any::<u8>(), any::<bool>()).prop_map(|(n, now)| Step::Delete(n, now)),
        1 => any::<bool>().prop_map(Step::Gc),
        1 => Just(Step::LoseIndex),
        1 => Just(Step::LoseCache),
    ]
}

/// One of a few paths, so that files, folders and links get in each other's way.
fn path(number: u8) -> String {
    let names = ["a", "b", "c"];
    let pick = |shift: u8| names[usize::from(number >> shift) % 3];
    match number % 3 {
        0 => pick(2).to_owned(),
        1 => format!("{}/{}", pick(2), pick(4)),
        _ => format!("{}/{}/{}", pick(2), pick(4), pick(6)),
    }
}

/// Makes room for something at a path: what stands there or above it goes.
fn clear(world: &World, path: &str) {
    let mut above = String::new();
    for part in path.split('/') {
        above.push_str(part);
        let full = world.project.path(&above);
        let is_folder = std::fs::symlink_metadata(&full).is_ok_and(|meta| meta.is_dir());
        if world.exists(&above) && (!is_folder || above == path) {
            match is_folder {
                true => std::fs::remove_dir_all(&full).unwrap(),
                false => std::fs::remove_file(&full).unwrap(),
            }
        }
        above.push('/');
    }
}

fn run(steps: &[Step]) {
    let world = World::new(Project::in_memory().file("a", "start"));
    let mut saved: BTreeMap<String, Snapshot> = BTreeMap::new();
    let pick = |saved: &BTreeMap<String, Snapshot>, n: u8| {
        let count = saved.len().max(1);
        saved.keys().nth(usize::from(n) % count).cloned()
    };
    for step in steps {
        match step {
            Step::Write(number, size) => {
                let path = path(*number);
                clear(&world, &path);
                world.write(&path, format!("{number} {size}\n").repeat(usize::from(*size) / 8));
            }
            Step::Remove(number) => {
                let path = path(*number);
                if world.exists(&path) {
                    clear(&world, &path);
                }
            }
            Step::Link(number, to) => {
                let (from, to) = (path(*number), path(*to));
                clear(&world, &from);
                let full = world.project.path(&from);
                std::fs::create_dir_all(full.parent().unwrap()).unwrap();
                std::os::unix::fs::symlink(to, full).unwrap();
            }
            Step::Mode(number, on) => {
                use std::os::unix::fs::PermissionsExt;
                let full = world.project.path(path(*number));
                if std::fs::symlink_metadata(&full).is_ok_and(|meta| meta.is_file()) {
                    let mode = if *on { 0o755 } else { 0o640 };
                    std::fs::set_permissions(full, PermissionsExt::from_mode(mode)).unwrap();
                }
            }
            Step::Save => {
                saved.insert(world.save("model"), world.snapshot());
            }
            Step::Restore(number) => {
                if let Some(id) = pick(&saved, *number) {
                    let before = world.snapshot();
                    world.restore(&id);
                    assert_eq!(world.snapshot(), saved[&id]);
                    // A restore that had nothing to do is no step.
                    if number % 2 == 0 && world.snapshot() != before {
                        world.undo();
                        assert_eq!(world.snapshot(), before);
                    }
                }
            }
            Step::Undo => {
                let rappel = world.open();
                let before = world.snapshot();
                if let Ok(step) = rappel.next_undo()
                    && let Err(error) = rappel.step(&step, true, &RestoreOptions::default())
                {
                    // Something made since stands in the way of what would come back.
                    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
                    assert_eq!(world.snapshot(), before);
                }
            }
            Step::Delete(number, now) => {
                if let Some(id) = pick(&saved, *number) {
                    world.open().delete(&[reference(&id)], *now).unwrap();
                    saved.remove(&id);
                }
            }
            Step::Gc(now) => {
                world.clock.advance(3_600_000 * 13);
                world.open().gc(*now, false).unwrap();
            }
            Step::LoseIndex => {
                for name in ["index.db", "index.db-wal", "index.db-shm"] {
                    let _ = std::fs::remove_file(world.home.path().join(name));
                }
            }
            Step::LoseCache => {
                let _ = std::fs::remove_dir_all(world.home.path().join("cache"));
            }
        }
    }
    if saved.is_empty() {
        return;
    }
    world.verify();
    let all = ListFilter { all: true, ..ListFilter::default() };
    let listed = world.open().list(&all).unwrap();
    for id in saved.keys() {
        assert!(listed.checkpoints.iter().any(|c| c.manifest.id.as_str() == id), "{id} is gone");
    }
    for (number, (id, expected)) in saved.iter().enumerate() {
        let out = world.project.outside().join(format!("out{number}"));
        world.open().restore_to(&reference(id), &out, &RestoreOptions::default()).unwrap();
        assert_eq!(&rappel_testing::snapshot(&out), expected, "{id}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn everything_equals_the_model(steps in prop::collection::vec(step(), 1..40)) {
        run(&steps);
    }
}
