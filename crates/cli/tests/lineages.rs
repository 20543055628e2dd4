//! Imported histories through the binary: how they are listed, named, restored and taken back.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]

mod support;

use std::sync::{Arc, LazyLock};

use rappel::ambient::{Clock, SystemClock};
use rappel::formats::portable::{File, Files};
use rappel::formats::{Form, Portable};
use rappel::{Arrivals, OpenOptions, Rappel};
use rappel_types::{RelPath, Timestamp, Trigger};
use support::World;

/// More than a year ago, which stays so for as long as a test runs.
static START: LazyLock<i64> =
    LazyLock::new(|| SystemClock.now().as_millis() - 400 * 24 * 3_600_000);

fn checkpoint(id: &str, minute: i64, text: &str) -> Portable {
    let at = Timestamp::from_millis(*START + minute * 60_000);
    let mut one = Portable::new(id, at, Trigger::Manual);
    one.description = Some(format!("words of {id}"));
    let content = Arc::new(text.as_bytes().to_vec());
    let file = File { is_link: false, mode: 0o644, modified: None, content };
    one.files = Some(Files {
        root: "/elsewhere/app".into(),
        whole: false,
        state_dirs: Vec::new(),
        entries: [(RelPath::new("a.txt").unwrap(), file)].into(),
    });
    one
}

/// A world with one checkpoint of its own and two of aiwg's.
fn world() -> (World, String) {
    let world = World::new();
    let own = world.save("own");
    import(&world, "/elsewhere/.aiwg");
    (world, own)
}

fn import(world: &World, place: &str) {
    let rappel = Rappel::open(OpenOptions::new(world.project.root(), &world.home)).unwrap();
    let checkpoints = vec![checkpoint("001", 1, "theirs 1\n"), checkpoint("003", 3, "theirs 3\n")];
    let arrivals = Arrivals { form: Form::Aiwg, place: place.into(), checkpoints };
    rappel.import_checkpoints(&arrivals).unwrap();
}

#[test]
fn faces_say_what_came_from_elsewhere() {
    let (world, _) = world();
    insta::assert_snapshot!("list", world.face(&["list"]));
    insta::assert_snapshot!("timeline", world.face(&["timeline"]));
    insta::assert_snapshot!("find", world.face(&["find", "--path", "a.txt"]));
    let shown = world.face(&["show", "aiwg:3"]);
    assert!(shown.contains("from aiwg:003, read from /elsewhere/.aiwg"), "{shown}");
    assert!(shown.contains("2 of its lineage"), "{shown}");
    insta::assert_snapshot!("restore_dry_run", world.face(&["restore", "aiwg:3", "--dry-run"]));
    insta::assert_snapshot!("unknown", world.face(&["show", "aiwg:7"]));
    import(&world, "/another/.aiwg");
    let own = world.json(&["list", "--own"]);
    assert_eq!(own["total"], 1);
}

#[test]
fn the_json_of_a_checkpoint_names_its_lineage() {
    let (world, own) = world();
    assert!(world.json(&["show", &own])["lineage"].is_null());
    let shown = world.json(&["show", "aiwg:003"]);
    assert_eq!(shown["id"], "aiwg-003");
    let lineage = &shown["lineage"];
    assert_eq!((lineage["format"].as_str(), lineage["id"].as_str()), (Some("aiwg"), Some("003")));
    assert_eq!(lineage["origin"], "/elsewhere/.aiwg");
    let listed = world.json(&["list"]);
    let of: Vec<bool> = listed["checkpoints"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["lineage"].is_null())
        .collect();
    assert_eq!(of, [true, false, false]);
    let id = lineage["workspace"].as_str().unwrap();
    let alone = world.json(&["--workspace", id, "list"]);
    assert_eq!(alone["total"], 2);
    assert_eq!(alone["latest"], "aiwg-003");
}

#[test]
fn every_command_that_takes_a_reference_takes_it() {
    let (world, own) = world();
    for arguments in [
        &["diff", "aiwg:1", "aiwg:3"][..],
        &["diff", "aiwg:1"],
        &["cat", "aiwg:3:a.txt"],
        &["tag", "aiwg:3", "mine"],
        &["describe", "aiwg:3", "another message"],
        &["pin", "aiwg:3"],
        &["unpin", "aiwg:3"],
        &["verify", "aiwg:3"],
        &["delete", "aiwg:3", "--confirm"],
        &["undelete", "aiwg:3"],
        &["restore", "aiwg:3", "--confirm"],
        &["undo"],
    ] {
        let output = world.run(arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {said}");
    }
    assert_eq!(world.json(&["show", "latest"])["id"], own.as_str());
    assert_eq!(world.read("a.txt"), "one\ntwo\nthree\n");
}

#[test]
fn one_name_for_two_is_wrong_usage() {
    let (world, _) = world();
    import(&world, "/another/.aiwg");
    // The same content under the same ids is known, wherever it lies.
    assert_eq!(world.json(&["list"])["total"], 3);
    let rappel = Rappel::open(OpenOptions::new(world.project.root(), &world.home)).unwrap();
    let checkpoints = vec![checkpoint("001", 9, "another")];
    let place = "/third/.aiwg".into();
    let arrivals = Arrivals { form: Form::Aiwg, place, checkpoints };
    rappel.import_checkpoints(&arrivals).unwrap();
    assert_eq!(world.run(&["show", "aiwg:1"]).status.code(), Some(2));
    assert_eq!(world.run(&["show", "aiwg"]).status.code(), Some(2));
    assert_eq!(world.run(&["show", "loki:1"]).status.code(), Some(3));
}

#[test]
fn what_is_no_checkpoint_of_any_form_is_refused() {
    let world = World::new();
    insta::assert_snapshot!("import_nothing", world.face(&["import", "src"]));
    insta::assert_snapshot!("import_nowhere", world.face(&["import", "../nowhere"]));
    insta::assert_snapshot!("import_bad_format", world.face(&["import", "src", "--format", "x"]));
    assert_eq!(world.json(&["list"])["total"], 0);
}
