//! A lineage is never taken for the workspace's own history, however new it is.

use rappel::formats::Form;
use rappel::types::Trigger;
use rappel::types::retention::Policy;
use rappel::{ListFilter, OpenOptions, Rappel, SaveOptions, TimelineOptions};
use rappel_testing::Project;

use crate::scene::{arrivals, ids, import, listed, show, with_files, words};
use crate::support::{World, path, reference};

/// A workspace with two checkpoints, and a lineage that is newer than everything.
fn newer() -> (World, String, String) {
    let world = World::new(Project::new().file("a.txt", "1"));
    let first = world.save("first");
    world.write("a.txt", "2");
    let second = world.save("second");
    let mut future = with_files("future", 600_000, &[("a.txt", "future")]);
    future.tags = vec!["theirs".into()];
    import(&world, Form::Lugh, "/x", vec![with_files("old", 1, &[("a.txt", "old")]), future]);
    (world, first, second)
}

#[test]
fn the_newest_of_all_is_not_latest_nor_a_parent_nor_a_step() {
    let (world, first, second) = newer();
    let rappel = world.open();
    assert_eq!(show(&rappel, "latest").manifest.id.as_str(), second);
    assert_eq!(show(&rappel, "latest~1").manifest.id.as_str(), first);
    assert_eq!(show(&rappel, "@{now}").manifest.id.as_str(), second);
    assert_eq!(rappel.list(&ListFilter::default()).unwrap().latest.unwrap(), second);
    world.write("a.txt", "3");
    let third = world.save("third");
    let manifest = show(&world.open(), "latest").manifest;
    assert_eq!(manifest.id.as_str(), third);
    assert_eq!((manifest.sequence, manifest.parent.unwrap().as_str()), (3, second.as_str()));
    for expected in ["2", "1"] {
        world.undo();
        assert_eq!(world.read("a.txt"), expected);
    }
    assert!(world.open().next_undo().is_err(), "there is nothing further back");
}

#[test]
fn lists_and_timelines_join_it_and_say_so() {
    let (world, first, second) = newer();
    let rappel = world.open();
    assert_eq!(listed(&rappel), ["future", &second, &first, "old"]);
    let own = ListFilter { own: true, all: true, ..ListFilter::default() };
    assert_eq!(ids(&rappel, &own), [second.as_str(), &first]);
    assert_eq!(ids(&rappel, &ListFilter { all_workspaces: true, ..own }).len(), 2);
    let by_tag = ListFilter { tag: Some("theirs".into()), ..ListFilter::default() };
    assert_eq!(ids(&rappel, &by_tag), ["future"]);
    let by_path = ListFilter { path: Some(path("a.txt")), ..ListFilter::default() };
    assert_eq!(ids(&rappel, &by_path), ["future", &second, &first, "old"]);
    let timeline = rappel.timeline(&TimelineOptions::default()).unwrap();
    let lines: Vec<_> = timeline
        .checkpoints
        .iter()
        .map(|one| (one.id.as_str(), one.parent.as_deref(), one.current, one.lineage.is_some()))
        .collect();
    let expected = [
        ("future", Some("old"), false, true),
        (&*second, Some(&*first), true, false),
        (&*first, None, false, false),
        ("old", None, false, true),
    ];
    assert_eq!(lines, expected);
    let lanes: Vec<usize> = timeline.checkpoints.iter().map(|one| one.lane).collect();
    assert_eq!(lanes, [0, 1, 1, 0]);
}

#[test]
fn an_index_that_is_built_anew_says_the_same() {
    let (world, ..) = newer();
    let before = (listed(&world.open()), world.open().lineages().unwrap());
    for name in ["index.db", "index.db-wal", "index.db-shm"] {
        let _ = std::fs::remove_file(world.home.path().join(name));
    }
    assert_eq!((listed(&world.open()), world.open().lineages().unwrap()), before);
    assert_eq!(show(&world.open(), "lugh:future").manifest.id.as_str(), "future");
}

#[test]
fn no_folder_is_recognised_as_a_lineage() {
    let (world, _, second) = newer();
    let id = world.open().lineages().unwrap()[0].workspace.to_string();
    assert!(world.open().adopt(&id).is_err());
    assert!(world.open().other_history().is_none());
    let stats = world.open().stats().unwrap();
    assert_eq!(stats.workspaces.len(), 2);
    assert!(stats.workspaces.iter().any(|one| one.root == "lugh:/x"));
    // A folder that was moved takes its history over, and the lineage with it.
    let moved = world.project.root().with_file_name("moved");
    std::fs::rename(world.project.root(), &moved).unwrap();
    let there = Rappel::open(world.options_at(&moved)).unwrap();
    assert!(there.other_history().is_some());
    there.adopt(world.project.root().to_str().unwrap()).unwrap();
    assert_eq!(show(&there, "latest").manifest.id.as_str(), second);
    assert_eq!(show(&there, "lugh:future").manifest.id.as_str(), "future");
    std::fs::rename(&moved, world.project.root()).unwrap();
}

#[test]
fn retention_leaves_it_alone_unless_it_is_named() {
    let world = World::new(Project::new().file("a.txt", "1"));
    for n in 0..3 {
        world.write("a.txt", n.to_string());
        world.save("own");
    }
    let mut all: Vec<_> = (0..4).map(|n| with_files(&format!("cp-{n}"), n, &[])).collect();
    for one in &mut all {
        one.trigger = Trigger::Prompt;
    }
    import(&world, Form::Loki, "/x", all);
    world.clock.advance(400 * 24 * 3_600_000);
    let strict = Policy::Newest { last: Some(1), within: None, include_manual: true };
    let plan = world.open().plan_prune(&strict, false).unwrap();
    assert!(plan.decisions.iter().all(|one| !one.id.as_str().starts_with("cp-")), "{plan:?}");
    world.open().prune(plan, true).unwrap();
    assert_eq!(listed(&world.open()).iter().filter(|id| id.starts_with("cp-")).count(), 4);
    let workspace = Some(world.open().lineages().unwrap()[0].workspace.to_string());
    let named = Rappel::open(OpenOptions { workspace, ..world.options() }).unwrap();
    assert_eq!(listed(&named), ["cp-3", "cp-2", "cp-1", "cp-0"]);
    assert_eq!(show(&named, "latest").manifest.id.as_str(), "cp-3");
    let plan = named.plan_prune(&strict, false).unwrap();
    assert_eq!(plan.deleted.len(), 3, "{plan:?}");
    named.prune(plan, true).unwrap();
    assert_eq!(show(&world.open(), "loki:cp-3").manifest.id.as_str(), "cp-3");
    assert!(world.open().show(&reference("loki:cp-0")).is_err());
    assert!(named.save(&SaveOptions::default()).is_err(), "a lineage is no folder");
    let more = arrivals(Form::Caf, "/y", vec![words("a", 1)]);
    assert!(named.import_checkpoints(&more).is_err());
}

#[test]
fn gc_keeps_the_document_of_an_imported_checkpoint() {
    let world = World::new(Project::new().file("a.txt", "1"));
    let mut one = with_files("one", 1, &[("x", "kept")]);
    let document = serde_json::json!({"id": "one", "unknown": "kept whole", "deep": {"a": [1]}});
    one.document = Some(document.clone());
    import(&world, Form::Caf, "/x", vec![one, with_files("two", 2, &[("y", "goes")])]);
    world.open().delete(&[reference("two")], true).unwrap();
    world.clock.advance(48 * 3_600_000);
    world.open().gc_deleted(false).unwrap();
    world.verify();
    let manifest = show(&world.open(), "one").manifest;
    let found = world.open().origin_document(&manifest).unwrap();
    assert_eq!(found, Some(document));
}

#[test]
fn labels_are_given_to_it_as_to_any_other() {
    let (world, ..) = newer();
    let rappel = world.open();
    rappel.tag(&reference("lugh:future"), &["mine".into()]).unwrap();
    rappel.describe(&reference("future"), "another message").unwrap();
    rappel.pin(&reference("lugh:future"), true).unwrap();
    let shown = show(&rappel, "future");
    assert!(shown.pinned && shown.manifest.tags.contains(&"mine".into()));
    assert_eq!(shown.manifest.description.as_deref(), Some("another message"));
    assert!(rappel.delete(&[reference("future")], false).is_err(), "it is pinned");
    assert!(rappel.verify(Some(&reference("lugh:old"))).unwrap().is_clean());
}
