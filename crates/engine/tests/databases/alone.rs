//! Checkpoints that hold databases and no files.

use rappel::types::{Facet, FacetState};
use rappel::{DiffOptions, FILES_NOT_COMPARED, ListFilter, RestoreOptions, SaveOptions};
use rappel_testing::Project;
use rusqlite::Connection;

use crate::support::{World, reference};

fn execute(world: &World, statements: &str) {
    Connection::open(world.project.path("app.db")).unwrap().execute_batch(statements).unwrap();
}

fn rows(world: &World) -> i64 {
    let connection = Connection::open(world.project.path("app.db")).unwrap();
    connection.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap()
}

/// A checkpoint with everything, then two more rows and a checkpoint of the database alone, whose id
/// it gives, then damage to all.
fn damaged() -> (World, String, String) {
    let world = World::new(Project::new().file("code", "1"));
    execute(&world, "CREATE TABLE t (x); INSERT INTO t VALUES (1)");
    let whole = world.save("everything");
    execute(&world, "INSERT INTO t VALUES (2), (3)");
    world.clock.advance(61_000);
    let only = Some([Facet::Databases].into());
    let saved = world.open().save(&SaveOptions { only, ..SaveOptions::default() }).unwrap();
    let manifest = saved.checkpoint.manifest;
    assert!(manifest.files.is_none());
    assert_eq!(manifest.state_of(Facet::Databases), FacetState::Captured);
    execute(&world, "DELETE FROM t");
    world.write("code", "2");
    (world, whole, manifest.id.to_string())
}

#[test]
fn it_is_restored_and_taken_back_and_the_files_are_left_alone() {
    let (world, _, alone) = damaged();
    let left = "holds no files; they are left alone";
    let only =
        RestoreOptions { only: Some([Facet::Databases].into()), ..RestoreOptions::default() };
    for (options, told) in [(RestoreOptions::default(), true), (only, false)] {
        let plan = world.open().plan_restore(&reference(&alone), &options).unwrap();
        assert_eq!(plan.summary.databases.as_deref(), Some("app.db"));
        assert_eq!(plan.warnings.iter().any(|line| line.contains(left)), told, "{plan:?}");
        let report = world.open().restore(&reference(&alone), &options).unwrap();
        assert_eq!((report.full_plan.actions.len(), report.conflicts.len()), (0, 0), "{report:?}");
        assert_eq!((rows(&world), world.read("code")), (3, "2".into()));
        assert_eq!(world.undo().conflicts, []);
        assert_eq!((rows(&world), world.read("code")), (0, "2".into()));
        assert_eq!(world.redo().conflicts, []);
        assert_eq!((rows(&world), world.read("code")), (3, "2".into()));
        world.undo();
    }
    world.verify();
}

#[test]
fn it_can_be_written_elsewhere_and_has_no_paths() {
    let (world, _, alone) = damaged();
    let elsewhere = tempfile::tempdir().unwrap();
    let options = RestoreOptions::default();
    world.open().restore_to(&reference(&alone), elsewhere.path(), &options).unwrap();
    let connection = Connection::open(elsewhere.path().join("app.db")).unwrap();
    let rows: i64 = connection.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap();
    assert_eq!(rows, 3);
    assert!(!elsewhere.path().join("code").exists());

    let paths = vec![crate::support::path("code")];
    let options = RestoreOptions { paths, ..RestoreOptions::default() };
    let error = world.open().restore(&reference(&alone), &options).unwrap_err().to_string();
    assert!(error.contains("code") || error.contains("no files"), "{error}");
    assert_eq!(world.read("code"), "2");
}

#[test]
fn it_is_listed_and_compared_and_is_never_the_latest() {
    let (world, whole, alone) = damaged();
    let rappel = world.open();
    let listing = rappel.list(&ListFilter::default()).unwrap();
    let listed: Vec<_> =
        listing.checkpoints.iter().map(|one| one.manifest.id.to_string()).collect();
    assert_eq!(listed, [alone.clone(), whole.clone()]);
    assert_eq!(listing.latest.as_ref(), Some(&whole));
    assert_eq!(rappel.resolve(&reference("latest"), true).unwrap().id.to_string(), whole);

    let compare = |from: &str, to: Option<&str>| {
        let to = to.map(reference);
        rappel.diff(&reference(from), to.as_ref(), &DiffOptions::default()).unwrap()
    };
    for diff in
        [compare(&alone, None), compare(&whole, Some(&alone)), compare(&alone, Some(&whole))]
    {
        assert_eq!(diff.summary, FILES_NOT_COMPARED);
        assert!(diff.warnings[0].contains(&alone) && diff.changes.is_empty(), "{diff:?}");
        assert_eq!((diff.databases.len(), diff.databases[0].change), (1, "modified"), "{diff:?}");
    }
}

#[test]
fn what_one_side_did_not_look_at_is_no_difference() {
    let (world, whole, _) = damaged();
    world.clock.advance(61_000);
    let only = Some([Facet::Files].into());
    let saved = world.open().save(&SaveOptions { only, ..SaveOptions::default() }).unwrap();
    let files = saved.checkpoint.manifest.id.to_string();
    for (from, to) in [(&whole, &files), (&files, &whole)] {
        let (from, to) = (reference(from), reference(to));
        let diff = world.open().diff(&from, Some(&to), &DiffOptions::default()).unwrap();
        assert_eq!(diff.files.modified.len(), 1);
        assert!(diff.databases.is_empty(), "{diff:?}");
        assert!(diff.warnings.iter().any(|line| line.contains("no databases")), "{diff:?}");
    }
}
