//! Damage is found and named, and what the workspace still has is brought back.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail loudly")]

mod support;

use rappel_testing::Project;
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

fn noise(seed: u32) -> Vec<u8> {
    (0..40_000u32).map(|n| (n.wrapping_mul(2_654_435_761) ^ seed).to_be_bytes()[1]).collect()
}

#[test]
fn repair_fetches_lost_content_from_the_workspace() {
    let world = World::new(Project::new().file("a", noise(1)).file("b", noise(2)));
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
    assert_eq!(std::fs::read(world.project.path("a")).unwrap(), noise(1));
    assert_eq!(std::fs::read(world.project.path("b")).unwrap(), noise(2));
}

#[test]
fn what_cannot_be_brought_back_is_named_and_the_rest_still_restores() {
    let world = World::new(Project::new().file("a", noise(1)));
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
    let mut state = 1_u64;
    let big: Vec<u8> = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    })
    .take(9 << 20)
    .collect();
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
