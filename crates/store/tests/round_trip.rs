//! Objects and checkpoints survive being written, reopened and rebuilt.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]

use std::collections::BTreeMap;
use std::path::Path;

use rappel_store::sink::{Role, Sink, Source, id_of};
use rappel_store::writer::Moment;
use rappel_store::{NewRecord, Options, Store};
use rappel_types::manifest::{Cost, MANIFEST_VERSION, WorkspacePart};
use rappel_types::{CheckpointId, Manifest, Timestamp, Trigger, WorkspaceId};

fn manifest(id: &str, sequence: u64) -> Box<Manifest> {
    Box::new(Manifest {
        version: MANIFEST_VERSION,
        id: id.parse().unwrap(),
        sequence,
        parent: None,
        created_at: Timestamp::from_millis(1_800_000_000_000),
        trigger: Trigger::Manual,
        description: Some("a test".into()),
        tags: vec![],
        environment: None,
        variables: BTreeMap::new(),
        session_id: None,
        workspace: WorkspacePart { id: WorkspaceId(1), root: "/w".into(), name: "w".into() },
        facets: BTreeMap::new(),
        partial: false,
        partial_reasons: vec![],
        mid_operation: vec![],
        interrupted_restore: false,
        files: None,
        git: None,
        databases: vec![],
        agents: None,
        knowledge: None,
        process: None,
        metadata: BTreeMap::new(),
        origin: None,
        cost: Cost::default(),
    })
}

fn open(home: &Path) -> Store {
    Store::open(home, Options::default()).unwrap()
}

fn save(store: &Store, number: u64, objects: &[Vec<u8>]) {
    let writer = store.begin().unwrap();
    let mut base = None;
    for bytes in objects {
        base = Some(writer.put(Role::Content, bytes, base.as_ref()).unwrap());
    }
    let id = format!("chk_{number}");
    let make = |moment: &mut Moment<'_>| {
        let rows = moment.index.checkpoints(None)?;
        let base = rows.last().map(|row| row.manifest);
        Ok(vec![NewRecord::Manifest { manifest: manifest(&id, number), base }])
    };
    writer.commit(make).unwrap();
}

fn objects(seed: u64, count: usize, length: usize) -> Vec<Vec<u8>> {
    (0..count)
        .map(|n| {
            let mut state = seed * 1000 + n as u64 + 1;
            (0..length)
                .map(|_| {
                    state ^= state << 13;
                    state ^= state >> 7;
                    state ^= state << 17;
                    state as u8
                })
                .collect()
        })
        .collect()
}

fn check(store: &Store, all: &[Vec<Vec<u8>>]) {
    for objects in all {
        for bytes in objects {
            assert_eq!(&*store.get(&id_of(bytes)).unwrap(), &bytes[..]);
        }
    }
    let rows = store.with_index(|index| index.checkpoints(None)).unwrap();
    assert_eq!(rows.len(), all.len());
    for (number, row) in rows.iter().enumerate() {
        let id: CheckpointId = format!("chk_{}", number + 1).parse().unwrap();
        assert_eq!(row.id, id);
        assert_eq!(store.manifest(row).unwrap().id, id);
    }
    assert!(store.damage().is_empty(), "{:?}", store.damage());
}

#[test]
fn what_is_put_as_new_is_stored_once() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    let text = "a line of a dump that is long enough for a record\n".repeat(20_000).into_bytes();
    let noise = objects(3, 1, 300_000).remove(0);
    let small = b"too small for a record of its own".to_vec();
    let all = [text, noise, small];
    let put = |number: u64| {
        let writer = store.begin().unwrap();
        for bytes in all.iter().chain(&all) {
            assert_eq!(writer.put_new(Role::Content, bytes).unwrap(), id_of(bytes));
        }
        assert_eq!(writer.put(Role::Content, &all[0], None).unwrap(), id_of(&all[0]));
        let manifest = manifest(&format!("chk_{number}"), number);
        let make = |_: &mut Moment<'_>| Ok(vec![NewRecord::Manifest { manifest, base: None }]);
        writer.commit(make).unwrap().new_bytes
    };
    let first = put(1);
    assert!((300_000..320_000).contains(&first), "{first}");
    assert_eq!(put(2), 0);
    check(&store, &[all.to_vec(), vec![]]);
}

#[test]
fn what_was_saved_is_there_after_reopening_and_rebuilding() {
    let home = tempfile::tempdir().unwrap();
    let small = objects(1, 40, 3000);
    let large = objects(2, 40, 400_000);
    let edited: Vec<_> = small
        .iter()
        .map(|bytes| {
            let mut bytes = bytes.clone();
            bytes[100] ^= 1;
            bytes
        })
        .collect();
    let all = [small, large, edited];
    {
        let store = open(home.path());
        for (number, objects) in all.iter().enumerate() {
            save(&store, number as u64 + 1, objects);
        }
        check(&store, &all);
    }
    check(&open(home.path()), &all);
    for name in ["index.db", "index.db-wal", "index.db-shm"] {
        let _ = std::fs::remove_file(home.path().join(name));
    }
    check(&open(home.path()), &all);
    std::fs::write(home.path().join("index.db"), b"this is no database").unwrap();
    let _ = std::fs::remove_file(home.path().join("index.db-wal"));
    check(&open(home.path()), &all);
}

#[test]
fn a_small_edit_costs_little() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    let text: Vec<u8> = objects(7, 1, 50_000).remove(0);
    save(&store, 1, std::slice::from_ref(&text));
    let size = || -> u64 {
        std::fs::read_dir(home.path().join("packs"))
            .unwrap()
            .map(|entry| entry.unwrap().metadata().unwrap().len())
            .sum()
    };
    let before = size();
    let mut edited = text.clone();
    edited.extend_from_slice(b"one more line\n");
    let writer = store.begin().unwrap();
    writer.put(Role::Content, &edited, Some(&id_of(&text))).unwrap();
    writer.commit(|_| Ok(vec![])).unwrap();
    assert!(size() - before < 1000, "{}", size() - before);
    assert_eq!(&*store.get(&id_of(&edited)).unwrap(), &edited[..]);
}

#[test]
fn two_stores_on_one_home_see_each_others_work() {
    let home = tempfile::tempdir().unwrap();
    let (one, two) = (open(home.path()), open(home.path()));
    let (first, second) = (objects(1, 3, 100), objects(2, 3, 100));
    save(&one, 1, &first);
    save(&two, 2, &second);
    check(&one, &[first.clone(), second.clone()]);
    check(&two, &[first, second]);
}

#[test]
fn many_open_a_new_home_at_once() {
    for _ in 0..5 {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("home");
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| open(&path));
            }
        });
    }
}

#[test]
fn a_run_without_a_commit_gives_its_space_back() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    save(&store, 1, &objects(1, 3, 100));
    let count = || std::fs::read_dir(home.path().join("packs")).unwrap().count();
    let before = count();
    let writer = store.begin().unwrap();
    for bytes in objects(2, 60, 400_000) {
        writer.put(Role::Content, &bytes, None).unwrap();
    }
    assert!(count() > before, "the run is large enough for a pack of its own");
    drop(writer);
    assert_eq!(count(), before);
}

#[test]
fn a_long_history_of_manifests_can_be_read_to_the_end() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    // Each manifest is offered the one before it as its base.
    let all: Vec<Vec<Vec<u8>>> = (0..230).map(|round| objects(round + 1, 1, 40)).collect();
    for (number, objects) in all.iter().enumerate() {
        save(&store, number as u64 + 1, objects);
    }
    check(&store, &all);
}

#[test]
fn a_run_gives_back_what_it_was_given_before_it_is_committed() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let before = objects(1, 3, 4000);
    save(&store, 1, std::slice::from_ref(&before[0]));
    // Small ones wait, fill blocks and spill into packs; large ones are records of their own.
    let mut all = objects(2, 3000, 4000);
    all.extend(objects(3, 4, 300_000));
    let mut edited = before[0].clone();
    edited[7] ^= 1;
    let base = id_of(&before[0]);
    let writer = store.begin().unwrap();
    for (place, bytes) in all.iter().enumerate() {
        let role = if place % 2 == 0 { Role::Content } else { Role::Structure };
        assert_eq!(writer.put(role, bytes, None).unwrap(), id_of(bytes));
    }
    writer.put(Role::Content, &edited, Some(&base)).unwrap();
    for bytes in all.iter().chain([&edited, &before[0]]) {
        assert_eq!(&*writer.get(&id_of(bytes)).unwrap(), &bytes[..]);
    }
    assert!(store.get(&id_of(&edited)).is_err(), "nothing of it counts yet");
    drop(writer);
    let packs = std::fs::read_dir(store.home().packs()).unwrap().count();
    assert_eq!(packs, 1, "and it leaves nothing behind");
}
