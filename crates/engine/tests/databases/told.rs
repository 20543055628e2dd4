//! What is told of databases: by `diff`, `log`, `find`, a restore that was done or finished, and by bad requests.

use rappel::types::Facet;
use rappel::{Diff, DiffOptions, ErrorKind, ListFilter, RestoreOptions, SaveOptions};
use rappel_testing::{Postgres, Project};
use rusqlite::Connection;

use crate::support::{World, path, reference};

fn world() -> World {
    World::new(Project::new().file("code", "1"))
}

fn sqlite(world: &World, path: &str, sql: &str) {
    Connection::open(world.project.path(path)).unwrap().execute_batch(sql).unwrap();
}

fn diff(world: &World) -> Diff {
    world.open().diff(&reference("latest"), None, &DiffOptions::default()).unwrap()
}

#[test]
fn a_new_file_of_sqlite_is_added_since_a_checkpoint_as_between_two() {
    let world = world();
    sqlite(&world, "old.db", "CREATE TABLE notes (x)");
    world.save("first");
    sqlite(&world, "new.db", "CREATE TABLE notes (x)");
    let only = DiffOptions { only: vec![Facet::Databases], ..DiffOptions::default() };
    let now = world.open().diff(&reference("latest"), None, &only).unwrap().databases;
    assert_eq!(now.len(), 1, "{now:?}");
    assert_eq!((now[0].name.as_str(), now[0].change), ("new.db", "added"));
    assert_eq!(diff(&world).databases, now);
    let second = world.save("second");
    let between = world.open().compare(&reference("latest~1"), &reference(&second)).unwrap();
    assert_eq!(between.databases, now);
    assert_eq!(diff(&world).databases, []);
}

#[test]
fn one_that_was_not_captured_then_is_named_and_not_called_new() {
    let world = world();
    sqlite(&world, "app.db", "CREATE TABLE notes (x)");
    let whole = std::fs::read(world.project.path("app.db")).unwrap();
    let mut damaged = whole.clone();
    // More tables than the first page has room for.
    damaged[103..105].fill(0xff);
    world.write("app.db", damaged);
    let first = world.save("it cannot be read");
    world.write("app.db", whole);
    let diff = diff(&world);
    assert_eq!(diff.databases, []);
    assert_eq!(
        diff.warnings,
        [format!("{first} could not capture database app.db; it is not compared")]
    );
}

#[test]
fn one_whose_address_is_lost_is_not_called_removed() {
    let server = Postgres::start();
    server.create("app");
    let world = world();
    world.write("rappel.toml", "[[database]]\nname = \"app\"\nurl = \"env:DATABASE_URL\"\n");
    world.write(".env", format!("DATABASE_URL={}\n", server.url("app")));
    world.save("first");
    world.write(".env", "");
    let diff = diff(&world);
    assert_eq!(diff.databases, []);
    assert!(diff.warnings[0].starts_with("database app cannot be compared: "), "{diff:?}");
}

#[test]
fn tables_with_as_many_rows_may_differ_and_virtual_ones_have_no_count() {
    let world = world();
    sqlite(
        &world,
        "app.db",
        "CREATE TABLE one (x); INSERT INTO one VALUES (1); CREATE TABLE two (x);
         CREATE VIRTUAL TABLE words USING fts5(text); INSERT INTO words VALUES ('a word');",
    );
    let first = world.save("first");
    let part = world.open().show(&reference(&first)).unwrap().manifest.databases.remove(0);
    assert_eq!((part.tables.len(), part.row_counts.get("words")), (3, None));

    sqlite(&world, "app.db", "UPDATE one SET x = 2; INSERT INTO two VALUES (1)");
    let told = diff(&world).databases.remove(0);
    let tables: Vec<_> = told.tables.iter().map(|one| (one.table.as_str(), one.change)).collect();
    assert_eq!((tables, told.others_may_differ), (vec![("two", "modified")], true));

    sqlite(
        &world,
        "app.db",
        "DROP TABLE one; DROP TABLE two; DROP TABLE words;
         CREATE VIRTUAL TABLE other USING fts5(text);",
    );
    let told = diff(&world).databases.remove(0);
    let tables: Vec<_> =
        told.tables.iter().map(|one| (one.table.as_str(), one.change, one.from, one.to)).collect();
    let expected = [
        ("one", "removed", Some(1), None),
        ("other", "added", None, None),
        ("two", "removed", Some(0), None),
        ("words", "removed", None, None),
    ];
    assert_eq!((tables, told.others_may_differ), (expected.to_vec(), false));
}

#[test]
fn the_history_of_a_path_knows_the_database_that_lies_there() {
    let world = world();
    let none = world.save("none");
    std::fs::create_dir(world.project.path("data")).unwrap();
    sqlite(&world, "data/app.db", "CREATE TABLE notes (x)");
    let made = world.save("made");
    world.write("code", "2");
    world.save("something else");
    sqlite(&world, "data/app.db", "INSERT INTO notes VALUES (1)");
    world.clock.advance(61_000);
    let options = SaveOptions { only: Some([Facet::Databases].into()), ..SaveOptions::default() };
    let filled = world.open().save(&options).unwrap().checkpoint.manifest.id.to_string();
    world.write("code", "3");
    world.clock.advance(61_000);
    let options = SaveOptions { skip: [Facet::Databases].into(), ..SaveOptions::default() };
    world.open().save(&options).unwrap();
    world.remove("data/app.db");
    let gone = world.save("gone");

    let log = world.open().log(&path("data/app.db"), None).unwrap();
    let told: Vec<_> =
        log.changes.iter().map(|one| (one.checkpoint.as_str(), one.change)).collect();
    let expected = [(&*gone, "deleted"), (&*filled, "modified"), (&*made, "added")];
    assert_eq!(told, expected);
    for below in ["data/app.db", "data"] {
        let filter = ListFilter { path: Some(path(below)), all: true, ..ListFilter::default() };
        let listed = world.open().list(&filter).unwrap().checkpoints;
        let ids: Vec<_> = listed.iter().map(|one| one.manifest.id.to_string()).collect();
        assert_eq!(ids, [gone.clone(), filled.clone(), made.clone()], "{below}");
        assert!(!ids.contains(&none));
    }
}

#[test]
fn a_restore_of_databases_alone_says_that_and_nothing_of_files() {
    let world = world();
    world.git(&["init", "-q"]);
    sqlite(&world, "app.db", "CREATE TABLE notes (x)");
    let first = world.save("first");
    sqlite(&world, "app.db", "INSERT INTO notes VALUES (1)");
    let report = world.restore(&first);
    assert_eq!(report.done.unwrap().text, "databases: app.db");
    assert_eq!(world.restore(&first).done.unwrap().text, "nothing changed");
    world.write("code", "2");
    assert_eq!(world.restore(&first).done.unwrap().text, "0 new, 1 changed, 0 deleted");
    let folder = world.project.outside().join("copy");
    let options = RestoreOptions {
        only: Some([Facet::Databases, Facet::Git].into()),
        ..RestoreOptions::default()
    };
    let copied = world.open().restore_to(&reference(&first), &folder, &options).unwrap();
    assert_eq!((copied.files, copied.databases, copied.repositories), (0, 1, 1));
}

#[test]
fn requests_that_contradict_themselves_or_name_nobody_are_refused() {
    let world = world();
    sqlite(&world, "app.db", "CREATE TABLE notes (x)");
    let first = reference(&world.save("first"));
    let named =
        RestoreOptions { only_databases: vec!["app.db".into()], ..RestoreOptions::default() };
    let folder = world.project.outside().join("copy");
    for (options, said) in [
        (
            RestoreOptions { only: Some([Facet::Files].into()), ..named.clone() },
            "database app.db is asked for, and databases are left out",
        ),
        (
            RestoreOptions { skip: [Facet::Databases].into(), ..named },
            "database app.db is asked for, and databases are left out",
        ),
        (
            RestoreOptions {
                allow_remote_databases: vec!["nope".into()],
                ..RestoreOptions::default()
            },
            "there is no database \"nope\" to be restored on another machine",
        ),
    ] {
        let rappel = world.open();
        for error in [
            rappel.plan_restore(&first, &options).unwrap_err(),
            rappel.restore(&first, &options).unwrap_err(),
        ] {
            assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::Usage, said));
        }
    }
    let nobody =
        RestoreOptions { only_databases: vec!["nope".into()], ..RestoreOptions::default() };
    let error = world.open().restore_to(&first, &folder, &nobody).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
    assert!(!folder.exists());
}

#[test]
fn a_command_that_gives_nothing_any_more_and_one_that_could_not_load_are_told() {
    let world = world();
    let place = world.project.outside().join("state");
    let configure = |restore: &str| {
        let entry = format!(
            "[[command]]\nname = \"state\"\ncapture = [\"cat\", {place:?}]\nrestore = [{restore:?}]\n"
        );
        world.write("rappel.toml", entry);
        world.trust();
    };
    configure("cat");
    let notes = |state: &str| {
        std::fs::write(&place, state).unwrap();
        world.clock.advance(61_000);
        let notes = world.open().save(&SaveOptions::default()).unwrap().notes;
        notes.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(notes("something"), [""; 0]);
    let said = "the capture command of database state gave nothing; it gave 9 B before";
    assert_eq!(notes(""), [said]);
    assert_eq!(notes(""), [""; 0], "that is known by now");
    configure("./not-there");
    let said = "database state is saved, but could not be restored: its restore command \"./not-there\" is not there";
    assert_eq!(notes("more"), [said]);
    assert_eq!(world.open().status().unwrap().reasons, [said]);
}
