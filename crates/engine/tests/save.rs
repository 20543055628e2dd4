//! What a save says, and when it returns what is there already.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test may fail loudly"
)]

mod support;

use rappel::types::{Facet, FacetState, Trigger};
use rappel::{ErrorKind, ListFilter, SaveOptions};
use rappel_testing::Project;
use support::{World, reference};

#[test]
fn nothing_new_within_a_minute_is_the_same_checkpoint() {
    let world = World::new(Project::new().file("a", "1"));
    let first = world.open().save(&SaveOptions::default()).unwrap().checkpoint;
    assert!(first.created);
    let again = world.open().save(&SaveOptions::default()).unwrap().checkpoint;
    assert!(!again.created);
    assert_eq!(again.manifest.id, first.manifest.id);

    let adding = [
        SaveOptions { message: Some("words".into()), ..SaveOptions::default() },
        SaveOptions { tags: vec!["t".into()], ..SaveOptions::default() },
        SaveOptions { session: Some("s".into()), ..SaveOptions::default() },
        SaveOptions { metadata: [("k".to_owned(), 1.into())].into(), ..SaveOptions::default() },
    ];
    for options in adding {
        assert!(world.open().save(&options).unwrap().checkpoint.created, "{options:?}");
    }
    world.write("a", "2");
    assert!(world.open().save(&SaveOptions::default()).unwrap().checkpoint.created);
    world.clock.advance(61_000);
    assert!(world.open().save(&SaveOptions::default()).unwrap().checkpoint.created);
}

#[test]
fn a_trigger_that_is_kept_longer_adds_something() {
    let world = World::new(Project::new().file("a", "1"));
    let with = |trigger| SaveOptions { trigger: Some(trigger), ..SaveOptions::default() };
    world.open().save(&with(Trigger::PreOperation)).unwrap();
    assert!(world.open().save(&with(Trigger::Manual)).unwrap().checkpoint.created);
    assert!(!world.open().save(&with(Trigger::PreOperation)).unwrap().checkpoint.created);
}

#[test]
fn numbers_names_and_times_follow_the_order_even_if_the_clock_steps_back() {
    let world = World::new(Project::new().file("a", "1"));
    let first = world.save("first");
    world.clock.advance(-3_600_000);
    world.write("a", "2");
    let second = world.save("second");
    let rappel = world.open();
    let (first, second) =
        (rappel.show(&reference(&first)).unwrap(), rappel.show(&reference(&second)).unwrap());
    assert_eq!((first.manifest.sequence, second.manifest.sequence), (1, 2));
    assert!(second.manifest.created_at >= first.manifest.created_at);
    assert_eq!(rappel.resolve(&reference("latest"), true).unwrap().id, second.manifest.id);
    assert_eq!(rappel.resolve(&reference("1"), true).unwrap().id, first.manifest.id);
    assert_eq!(rappel.resolve(&reference("latest~"), true).unwrap().id, first.manifest.id);
}

#[test]
fn references_that_mean_nothing_or_too_much() {
    let world = World::new(Project::new().file("a", "1"));
    let first = world.save("first");
    for round in 0..40 {
        // Ten in one second, so that a prefix is ambiguous.
        if round % 10 == 0 {
            world.clock.advance(1000);
        }
        let options = SaveOptions { message: Some(format!("{round}")), ..SaveOptions::default() };
        world.open().save(&options).unwrap();
    }
    let rappel = world.open();
    let kind = |text: &str| rappel.resolve(&reference(text), true).unwrap_err().kind();
    assert_eq!(kind("chk_19990101"), ErrorKind::NotFound);
    assert_eq!(kind("4000"), ErrorKind::NotFound);
    assert_eq!(kind("chk_2026"), ErrorKind::Usage);
    assert_eq!(kind("1~1"), ErrorKind::NotFound);
    assert_eq!(kind("@{2001-01-01}"), ErrorKind::NotFound);
    assert_eq!(rappel.resolve(&reference(&first[..19]), true).unwrap().id.to_string(), first);
    assert!(rappel.resolve(&reference("@{now}"), true).is_ok());
}

#[test]
fn facets_that_are_not_built_are_not_asked() {
    let world = World::new(Project::new().file("a", "1"));
    let manifest = world.open().save(&SaveOptions::default()).unwrap().checkpoint.manifest;
    assert_eq!(manifest.state_of(Facet::Files), FacetState::Captured);
    assert_eq!(manifest.state_of(Facet::Databases), FacetState::Absent);
    assert_eq!(manifest.state_of(Facet::Knowledge), FacetState::Absent);
    assert_eq!(manifest.state_of(Facet::Agents), FacetState::Absent);
    assert_eq!(manifest.state_of(Facet::Process), FacetState::NotAsked);
}

#[test]
fn the_home_inside_the_workspace_is_not_captured() {
    let project = Project::new().file("a", "1");
    let home = project.path(".rappel-home");
    let mut options = rappel::OpenOptions::new(project.root(), &home);
    options.machine = "m".into();
    let rappel = rappel::Rappel::open(options).unwrap();
    let saved = rappel.save(&SaveOptions::default()).unwrap();
    assert_eq!(saved.checkpoint.manifest.files.unwrap().count, 1);
}

#[test]
fn labels_are_seen_and_survive_a_rebuild() {
    let world = World::new(Project::new().file("a", "1"));
    let id = world.save("first");
    let rappel = world.open();
    rappel.tag(&reference(&id), &["good".into(), "known".into()]).unwrap();
    rappel.pin(&reference(&id), true).unwrap();
    drop(rappel);
    for name in ["index.db", "index.db-wal", "index.db-shm"] {
        let _ = std::fs::remove_file(world.home.path().join(name));
    }
    let shown = world.open().show(&reference(&id)).unwrap();
    assert!(shown.pinned);
    assert_eq!(shown.manifest.tags, ["good", "known"]);
    let tagged = ListFilter { tag: Some("good".into()), ..ListFilter::default() };
    assert_eq!(world.open().list(&tagged).unwrap().total, 1);
    let error = world.open().tag(&reference(&id), &["two words".into()]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
}

#[test]
fn deleted_checkpoints_come_back_until_they_are_collected() {
    let world = World::new(Project::new().file("a", "1"));
    let first = world.save("first");
    world.write("a", "2");
    let second = world.save("second");
    let rappel = world.open();
    rappel.delete(&[reference(&first)], false).unwrap();
    assert_eq!(rappel.list(&ListFilter::default()).unwrap().total, 1);
    rappel.gc(false, false).unwrap();
    rappel.undelete(&first).unwrap();
    assert_eq!(rappel.list(&ListFilter::default()).unwrap().total, 2);
    rappel.delete(&[reference(&first)], true).unwrap();
    rappel.gc(true, false).unwrap();
    assert!(rappel.undelete(&first).is_err());
    drop(rappel);
    world.verify();
    world.write("a", "3");
    world.restore(&second);
    assert_eq!(world.read("a"), "2");
    let third = world.save("third");
    assert_eq!(world.open().show(&reference(&third)).unwrap().manifest.sequence, 4);
}

#[test]
fn without_a_cache_the_counts_are_the_same() {
    let world = World::new(Project::new().file("a", "1").file("b", "1").file("c", "1"));
    world.save("first");
    world.write("a", "2");
    world.remove("b");
    world.write("d", "1");
    std::fs::remove_dir_all(world.home.path().join("cache")).unwrap();
    let id = world.save("second");
    let files = world.open().show(&reference(&id)).unwrap().manifest.files.unwrap();
    assert_eq!((files.added, files.modified, files.deleted), (1, 1, 1));
}

#[test]
fn an_open_workspace_can_be_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<rappel::Rappel>();
}

#[test]
fn a_second_copy_of_a_project_shares_its_bytes() {
    let noise: Vec<u8> =
        (0..30_000u32).map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()[1]).collect();
    let world = World::new(Project::new().file("one/a", &noise).file("two/a", &noise));
    let new_bytes = |name: &str| {
        let options = world.options_at(&world.project.path(name));
        let rappel = rappel::Rappel::open(options).unwrap();
        rappel.save(&SaveOptions::default()).unwrap().checkpoint.manifest.cost.new_bytes
    };
    let (first, second) = (new_bytes("one"), new_bytes("two"));
    assert!(second * 10 < first, "{first} bytes, then {second}");
}

#[test]
fn a_save_leaves_the_repository_alone() {
    let world = World::new(Project::new().file("a", "1").file("b", "1"));
    world.git(&["init", "-q"]);
    world.git(&["add", "-A"]);
    world.git(&["commit", "-qm", "first"]);
    world.write("a", "2");
    world.git(&["add", "a"]);
    world.write("b", "2");
    let before = world.snapshot();
    assert!(before.contains_key(".git/index"));
    world.save("first");
    world.save("second");
    assert_eq!(world.snapshot(), before);
}

#[test]
fn a_work_tree_and_clones_share_files_and_objects_of_git() {
    let mut state = 1_u64;
    let mut noise = || {
        // Xorshift: nothing that compresses, so that the bytes count.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[0]
    };
    let noise: Vec<u8> = (0..300_000).map(|_| noise()).collect();
    let world = World::new(Project::new().file("repository/a", &noise));
    let git = |folder: &str, arguments: &[&str]| {
        rappel_testing::git::git(&world.project.path(folder), arguments);
    };
    git("repository", &["init", "-q"]);
    git("repository", &["add", "."]);
    git("repository", &["commit", "-qm", "first"]);
    git("repository", &["worktree", "add", "-q", "../tree", "-b", "other"]);
    git("repository", &["clone", "-q", ".", "../clone"]);
    let url = format!("file://{}", world.project.path("repository").display());
    git("repository", &["clone", "-q", &url, "../copied"]);
    let new_bytes = |name: &str| {
        let options = world.options_at(&world.project.path(name));
        let rappel = rappel::Rappel::open(options).unwrap();
        rappel.save(&SaveOptions::default()).unwrap().checkpoint.manifest.cost.new_bytes
    };
    let first = new_bytes("repository");
    for other in ["tree", "clone", "copied"] {
        let bytes = new_bytes(other);
        assert!(bytes * 10 < first, "{other}: {first} bytes, then {bytes}");
    }
}
