//! Damage is found and named, and what the workspace still has is brought back.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test may fail loudly"
)]

mod support;

use std::collections::HashSet;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use rappel::{ErrorKind, Rappel, RecoverOptions, RestoreOptions};
use rappel_store::disk::{Disk, Op};
use rappel_testing::records::records;
use rappel_testing::{Fault, FaultDisk, Loss, Project, noise};
use support::{World, path, reference};

/// Flips one byte in the middle of the largest pack.
fn damage(world: &World) {
    let packs = std::fs::read_dir(world.home.path().join("packs")).unwrap();
    let largest =
        packs.map(|entry| entry.unwrap().path()).max_by_key(|path| path.metadata().unwrap().len());
    let path = largest.unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x40;
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, bytes).unwrap();
}

/// The content of a file that is a record of its own, or most of one.
fn content(seed: u64) -> Vec<u8> {
    noise(40_000, seed)
}

#[test]
fn repair_fetches_lost_content_from_the_workspace() {
    let world = World::new(Project::new().file("a", content(1)).file("b", content(2)));
    let id = world.save("first");
    damage(&world);
    let report = world.open().verify(None).unwrap();
    assert!(!report.is_clean());
    assert_eq!(report.hurt.len(), 1);
    let repaired = world.open().repair().unwrap();
    assert!(repaired.restored_objects > 0, "{repaired:?}");
    assert!(repaired.lost.is_empty(), "{repaired:?}");
    world.write("a", "gone");
    world.write("b", "gone");
    world.restore(&id);
    assert_eq!(std::fs::read(world.project.path("a")).unwrap(), content(1));
    assert_eq!(std::fs::read(world.project.path("b")).unwrap(), content(2));
}

#[test]
fn what_cannot_be_brought_back_is_named_and_the_rest_still_restores() {
    let world = World::new(Project::new().file("a", content(1)));
    let first = world.save("first");
    damage(&world);
    world.write("a", "new content");
    let repaired = world.open().repair().unwrap();
    assert_eq!(repaired.lost.len(), 1, "{repaired:?}");
    assert_eq!(repaired.lost[0].checkpoint.to_string(), first);
    let second = world.save("second");
    world.write("a", "edited");
    world.restore(&second);
    assert_eq!(world.read("a"), "new content");
    let error = world.open().cat(&reference(&first), &support::path("a"), &mut Vec::new());
    assert!(error.is_err());
}

#[test]
fn a_lost_pack_is_told_and_the_next_save_is_whole_all_the_same() {
    let big = noise(9 << 20, 1);
    let world = World::new(Project::new().file("small", "1"));
    world.write("big", &big);
    let first = world.save("first");
    let bulk: Vec<_> = std::fs::read_dir(world.home.path().join("packs"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("bulk-"))
        .collect();
    assert!(!bulk.is_empty(), "large enough for a pack of its own");
    for pack in &bulk {
        std::fs::remove_file(pack).unwrap();
    }
    let status = world.open().status().unwrap();
    assert_eq!(status.state, rappel::Health::Degraded, "{status:?}");
    assert!(status.reasons.iter().any(|reason| reason.contains("missing")), "{status:?}");

    let saved = world.open().save(&rappel::SaveOptions::default()).unwrap();
    assert!(saved.checkpoint.created, "an unreadable checkpoint says nothing");
    assert!(saved.notes.iter().any(|note| note.contains("missing")), "{:?}", saved.notes);
    let read = |id: &str| {
        let mut held = Vec::new();
        world.open().cat(&reference(id), &path("big"), &mut held).map(|()| held)
    };
    assert!(read(&first).is_ok(), "content-addressed: the first one is whole again");
    assert_eq!(read(&saved.checkpoint.manifest.id.to_string()).unwrap(), big);
    let again = world.open().save(&rappel::SaveOptions::default()).unwrap();
    assert!(again.notes.iter().all(|note| !note.contains("missing")), "only once");
}

/// A disk that spoils all content that is written to packs, as long as it is told to.
#[derive(Debug)]
struct Spoiling {
    home: PathBuf,
    /// Records that are left as they are.
    known: Mutex<HashSet<(PathBuf, usize)>>,
    on: AtomicBool,
}

impl Disk for Spoiling {
    fn gate(&self, op: &Op<'_>) -> io::Result<usize> {
        if let Op::Sync(path) = op
            && path.extension().is_some_and(|extension| extension == "pack")
            && self.on.load(Ordering::Relaxed)
        {
            let mut known = self.known.lock().unwrap();
            for record in records(&self.home) {
                // What is that long is content of files.
                if record.length > 20_000 && known.insert((record.pack.clone(), record.at)) {
                    record.damage();
                }
            }
        }
        Ok(usize::MAX)
    }
}

#[test]
fn a_restore_is_refused_if_the_store_can_give_nothing_back() {
    let world = World::new(Project::new().file("a", content(1)).file("b", "kept"));
    let first = world.save("first");
    world.write("a", content(2));
    let known = records(world.home.path()).into_iter().map(|one| (one.pack, one.at)).collect();
    let home = world.home.path().to_owned();
    let (known, on) = (Mutex::new(known), AtomicBool::new(true));
    let disk = Arc::new(Spoiling { home, known, on });
    let before = world.snapshot();
    let open = || {
        let disk: Arc<dyn Disk> = disk.clone();
        Rappel::open(rappel::OpenOptions { disk, ..world.options() }).unwrap()
    };
    let error = open().restore(&reference(&first), &RestoreOptions::default()).unwrap_err();
    assert_eq!(world.snapshot(), before, "nothing has moved");
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert!(world.open().unfinished().unwrap().restores.is_empty());
    disk.on.store(false, Ordering::Relaxed);
    open().restore(&reference(&first), &RestoreOptions::default()).unwrap();
    assert_eq!(std::fs::read(world.project.path("a")).unwrap(), content(1));
    world.undo();
    assert_eq!(world.snapshot(), before);
}

/// A restore loses power after its first swap, and then the store loses what was swapped out.
#[test]
fn a_recovery_stores_again_what_it_is_about_to_displace() {
    for finish in [true, false] {
        let world = World::new(Project::new().file("a", content(1)).file("b", content(2)));
        let first = world.save("first");
        let of_first: HashSet<_> =
            records(world.home.path()).into_iter().map(|one| (one.pack, one.at)).collect();
        world.write("a", content(3));
        world.write("b", content(4));
        let before = world.snapshot();
        let disk = FaultDisk::new();
        let inner = disk.clone();
        disk.before(
            |op| matches!(op, Op::Exchange { b, .. } if b.ends_with("b")),
            move || inner.set(Fault::Crash { at: 1 }),
        );
        let rappel =
            Rappel::open(rappel::OpenOptions { disk: disk.clone(), ..world.options() }).unwrap();
        rappel.restore(&reference(&first), &RestoreOptions::default()).unwrap_err();
        drop(rappel);
        disk.lose(Loss::all()[0]);
        let mut damaged = 0;
        for record in records(world.home.path()) {
            let old = of_first.contains(&(record.pack.clone(), record.at));
            // The content that goes: of the first checkpoint on the way back, else of the safety one.
            if record.length > 20_000 && old != finish {
                record.damage();
                damaged += 1;
            }
        }
        assert!(damaged > 0);
        let options = RecoverOptions { finish, ..RecoverOptions::default() };
        let recovered = world.open().recover(&options).unwrap();
        assert_eq!(recovered.conflicts, [], "{recovered:?}");
        if finish {
            assert_eq!(std::fs::read(world.project.path("a")).unwrap(), content(1));
            world.undo();
            assert_eq!(world.snapshot(), before);
        } else {
            assert_eq!(world.snapshot(), before);
            world.restore(&first);
            assert_eq!(std::fs::read(world.project.path("b")).unwrap(), content(2));
        }
    }
}
