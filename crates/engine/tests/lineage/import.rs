//! What an import brings in, and what it leaves alone.

use std::sync::Arc;

use rappel::ListFilter;
use rappel::formats::Form;
use rappel::formats::portable::File;
use rappel_testing::Project;

use crate::scene::{at, file, files_of, ids, import, listed, rel, show, with_files, words};
use crate::support::{World, reference};

fn world() -> World {
    World::new(Project::new().file("own.txt", "own"))
}

#[test]
fn ids_times_parents_tags_and_files_are_kept() {
    let world = world();
    let mut first = with_files("cp-1", 1, &[("a.txt", "one"), ("src/b.txt", "two")]);
    first.tags = vec!["green".into()];
    first.document = Some(serde_json::json!({"id": "cp-1", "odd": [1, 2]}));
    let mut second = with_files("cp-2", 2, &[("a.txt", "uno"), ("c.txt", "three")]);
    second.parent = Some("cp-1".into());
    let before = world.snapshot();
    let imported = import(&world, Form::Loki, "/elsewhere/.loki", vec![second, first]);
    assert_eq!((imported.imported, imported.known), (2, 0));
    assert_eq!(world.snapshot(), before, "nothing in the workspace changes");
    let rappel = world.open();
    let (first, second) = (show(&rappel, "cp-1"), show(&rappel, "cp-2"));
    assert_eq!((first.manifest.sequence, second.manifest.sequence), (1, 2));
    assert_eq!(first.manifest.created_at, at(1));
    assert_eq!(first.manifest.tags, ["green"]);
    assert_eq!(first.manifest.description.as_deref(), Some("words of cp-1"));
    assert_eq!(second.manifest.parent.as_ref(), Some(&first.manifest.id));
    let lineage = first.lineage.unwrap();
    assert_eq!(Some(lineage.workspace), imported.lineage.map(|lineage| lineage.workspace));
    let told = (lineage.format.as_str(), lineage.id.as_str(), lineage.origin.as_str());
    assert_eq!(told, ("loki", "cp-1", "/elsewhere/.loki"));
    let files = second.manifest.files.unwrap();
    assert_eq!((files.count, files.added, files.modified, files.deleted), (2, 1, 1, 1));
    let found = files_of(&rappel, "cp-1");
    assert_eq!(found["src/b.txt"], "two");
    world.verify();
}

#[test]
fn a_workspace_that_was_never_saved_takes_an_import_and_is_saved_later() {
    let world = world();
    import(&world, Form::Caf, "/elsewhere", vec![words("one", 1)]);
    let saved = world.save("the first");
    let rappel = world.open();
    assert_eq!(show(&rappel, "latest").manifest.id.as_str(), saved);
    assert_eq!(show(&rappel, "latest").manifest.sequence, 1);
    assert!(show(&rappel, "latest").manifest.parent.is_none());
    assert_eq!(listed(&rappel), [saved.as_str(), "one"]);
}

#[test]
fn importing_the_same_thing_twice_adds_nothing_wherever_it_lies_by_then() {
    let world = world();
    let all = || vec![with_files("a", 1, &[("x", "1")]), with_files("b", 2, &[("x", "2")])];
    let first = import(&world, Form::Lugh, "/there", all());
    let size = rappel_size(&world);
    for place in ["/there", "/moved/there"] {
        let again = import(&world, Form::Lugh, place, all());
        assert_eq!((again.imported, again.known), (0, 2), "{place}");
        let workspace = again.lineage.map(|lineage| lineage.workspace);
        assert_eq!(workspace, first.lineage.as_ref().map(|lineage| lineage.workspace));
    }
    assert_eq!(rappel_size(&world), size, "nothing is written");
    // What came since belongs to the same lineage, also from the new place.
    let grown = [all(), vec![words("c", 3)]].concat();
    let again = import(&world, Form::Lugh, "/moved/there", grown);
    assert_eq!((again.imported, again.known), (1, 2));
    let lineages = world.open().lineages().unwrap();
    assert_eq!(lineages.len(), 1);
    assert_eq!(lineages[0].place, "/moved/there");
    assert_eq!(show(&world.open(), "c").manifest.sequence, 3);
}

fn rappel_size(world: &World) -> u64 {
    let packs = std::fs::read_dir(world.home.path().join("packs")).unwrap();
    packs.map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
}

#[test]
fn another_content_under_a_known_id_is_another_checkpoint() {
    let world = world();
    import(&world, Form::Loki, "/there", vec![with_files("a", 1, &[("x", "1")])]);
    let again = import(&world, Form::Loki, "/there", vec![with_files("a", 1, &[("x", "2")])]);
    assert_eq!((again.imported, again.known), (1, 0));
    let rappel = world.open();
    assert_eq!(files_of(&rappel, "a")["x"], "1");
    assert_eq!(files_of(&rappel, "loki-a")["x"], "2");
}

#[test]
fn of_one_id_the_first_counts_and_the_others_are_named() {
    let world = world();
    let all = vec![words("a", 5), words("a", 1), words("", 2)];
    let imported = import(&world, Form::Caf, "/there", all);
    assert_eq!((imported.imported, imported.skipped.len()), (1, 2));
    assert_eq!(imported.skipped[0].path, "a");
    assert_eq!(show(&world.open(), "a").manifest.created_at, at(5));
}

#[test]
fn a_deleted_one_comes_back_when_it_is_imported_again() {
    let world = world();
    let all = || vec![with_files("a", 1, &[("x", "1")]), with_files("b", 2, &[("x", "2")])];
    import(&world, Form::Loki, "/there", all());
    world.open().delete(&[reference("a")], false).unwrap();
    assert!(world.open().show(&reference("a")).is_err());
    let again = import(&world, Form::Loki, "/there", all());
    assert_eq!((again.imported, again.known), (1, 1));
    assert_eq!(files_of(&world.open(), "loki:a")["x"], "1");
    world.verify();
}

#[test]
fn paths_that_no_workspace_has_are_left_out_and_nonsense_is_skipped() {
    let world = world();
    let mut odd =
        with_files("odd", 1, &[("fine", "yes"), (".git/config", "[x]"), ("a/.GIT/x", "")]);
    let files = odd.files.as_mut().unwrap();
    let long = File { is_link: true, content: Arc::new(vec![b'x'; 5000]), ..file("") };
    files.entries.insert(rel("long-link"), long);
    files.entries.insert(rel("suid"), File { mode: 0o104_755, ..file("x") });
    let nonsense = with_files("nonsense", 2, &[("x", "a file"), ("x/y", "below it")]);
    let imported = import(&world, Form::Lugh, "/there", vec![odd, nonsense]);
    assert_eq!((imported.imported, imported.skipped.len()), (1, 1), "{imported:?}");
    assert_eq!(imported.skipped[0].path, "nonsense");
    let shown = show(&world.open(), "odd");
    let skipped: Vec<String> =
        shown.manifest.files.unwrap().skipped.iter().map(|one| one.path.to_string()).collect();
    assert_eq!(skipped, [".git/config", "a/.GIT/x", "long-link"]);
    let entries = world.open().files_of(&reference("odd")).unwrap();
    let mode = entries.iter().find_map(|entry| match &entry.node {
        rappel::types::Node::File { mode, .. } if entry.path == rel("suid") => Some(*mode),
        _ => None,
    });
    assert_eq!(mode, Some(0o755));
}

#[test]
fn a_content_that_cannot_be_read_skips_its_checkpoint_and_no_other() {
    struct Broken;
    impl rappel::formats::portable::Content for Broken {
        fn open(&self) -> std::io::Result<Box<dyn std::io::Read + '_>> {
            Err(std::io::Error::other("gone"))
        }
        fn len(&self) -> u64 {
            7
        }
    }
    let world = world();
    let mut broken = with_files("broken", 1, &[("x", "1")]);
    let content = Arc::new(Broken);
    broken.files.as_mut().unwrap().entries.insert(rel("y"), File { content, ..file("") });
    let imported = import(&world, Form::Lugh, "/there", vec![broken, words("fine", 2)]);
    assert_eq!((imported.imported, imported.skipped.len()), (1, 1));
    assert!(imported.skipped[0].reason.contains("gone"), "{imported:?}");
}

#[test]
fn a_thousand_are_one_commit() {
    let world = world();
    world.save("own");
    let all: Vec<_> = (0..1000)
        .map(|n| with_files(&format!("cp-{n:04}"), n, &[("x", &format!("{n}")), ("y", "same")]))
        .collect();
    let imported = import(&world, Form::Loki, "/there", all.clone());
    assert_eq!(imported.imported, 1000);
    let again = import(&world, Form::Loki, "/there", all);
    assert_eq!((again.imported, again.known), (0, 1000));
    let rappel = world.open();
    assert_eq!(listed(&rappel).len(), 1001);
    let births: std::collections::HashSet<_> =
        rappel.lineages().unwrap().iter().map(|lineage| lineage.workspace).collect();
    assert_eq!(births.len(), 1);
    let last = show(&rappel, "cp-0999").manifest;
    assert_eq!(last.parent.unwrap().as_str(), "cp-0998");
    assert_eq!(ids(&rappel, &ListFilter { limit: Some(2), ..ListFilter::default() }).len(), 2);
}
