//! What `status` tells of databases since the last checkpoint.

use rappel::types::Facet;
use rappel::{Health, SaveOptions, Status};
use rappel_testing::{Postgres, Project};
use rusqlite::Connection;

use crate::support::World;

fn world_with(server: &Postgres) -> World {
    server.create("app");
    server.run("app", "CREATE TABLE talks (text text)");
    let world = World::new(Project::new().file("code", "1"));
    world.write("rappel.toml", "[[database]]\nname = \"app\"\nurl = \"env:DATABASE_URL\"\n");
    world.write(".env", format!("DATABASE_URL=\"{}\"\n", server.url("app")));
    world.save("first");
    assert_eq!(status(&world).state, Health::Protected);
    world
}

fn status(world: &World) -> Status {
    world.open().status().unwrap()
}

fn sqlite(world: &World, path: &str, sql: &str) {
    Connection::open(world.project.path(path)).unwrap().execute_batch(sql).unwrap();
}

/// The one reason why it is degraded.
fn degraded(world: &World) -> String {
    let mut status = status(world);
    assert_eq!((status.state, status.reasons.len()), (Health::Degraded, 1), "{status:?}");
    status.reasons.remove(0)
}

#[test]
fn a_server_that_is_down_and_a_database_that_was_dropped_are_told() {
    let server = Postgres::start();
    let world = world_with(&server);
    server.run("postgres", "DROP DATABASE app");
    let reason = degraded(&world);
    assert!(reason.starts_with("database app cannot be looked at: "), "{reason}");
    assert!(reason.contains("does not exist"), "{reason}");
    drop(server);
    let reason = degraded(&world);
    assert!(reason.starts_with("database app cannot be looked at: "), "{reason}");
    world.write(".env", "");
    let reason = degraded(&world);
    assert!(reason.contains("DATABASE_URL is set neither"), "{reason}");
}

#[test]
fn what_changed_is_unsaved_after_a_save_without_databases_too() {
    let server = Postgres::start();
    let world = world_with(&server);
    let save_the_rest = || {
        world.write("code", "2");
        world.clock.advance(61_000);
        let options = SaveOptions { skip: [Facet::Databases].into(), ..SaveOptions::default() };
        world.open().save(&options).unwrap();
    };
    save_the_rest();
    assert_eq!(status(&world).unsaved_databases, [""; 0], "an earlier one holds all of it");
    server.run("app", "INSERT INTO talks VALUES ('unsaved')");
    save_the_rest();
    assert_eq!(status(&world).unsaved_databases, ["app"]);
    world.save("all");
    assert_eq!(status(&world).unsaved_databases, [""; 0]);
}

#[test]
fn what_a_command_dumps_is_not_looked_at_and_that_is_told() {
    let world = World::new(Project::new().file("code", "1"));
    let entry =
        "[[command]]\nname = \"state\"\ncapture = [\"echo\", \"one\"]\nrestore = [\"cat\"]\n";
    world.write("rappel.toml", entry);
    world.trust();
    world.save("first");
    let status = status(&world);
    assert_eq!((status.state, &status.unsaved_databases[..]), (Health::Protected, &[][..]));
    assert_eq!(status.databases_not_looked_at, ["state"]);
}

#[test]
fn a_new_file_of_sqlite_is_unsaved_and_one_that_is_left_out_is_not_protected() {
    let world = World::new(Project::new().file("code", "1"));
    world.git(&["init", "-q"]);
    world.write(".gitignore", "ignored.db\n");
    world.save("first");
    sqlite(&world, "new.db", "CREATE TABLE notes (x)");
    let now = status(&world);
    assert_eq!(
        (now.state, &now.unsaved_databases[..]),
        (Health::Protected, &["new.db".into()][..])
    );
    assert_eq!(now.unsaved, 0);
    sqlite(&world, "ignored.db", "CREATE TABLE notes (x)");
    assert!(degraded(&world).starts_with("database found, not protected: ignored.db"));
    world.remove("ignored.db");
    world.save("second");
    assert_eq!(status(&world).unsaved_databases, [""; 0]);
    // However short the time since the last look is.
    for row in 0..5 {
        sqlite(&world, "new.db", &format!("INSERT INTO notes VALUES ({row})"));
        assert_eq!(status(&world).unsaved_databases, ["new.db"]);
        world.save("another row");
        assert_eq!(status(&world).unsaved_databases, [""; 0]);
    }
}

#[test]
fn one_that_could_not_be_read_needs_no_entry() {
    let world = World::new(Project::new().file("code", "1"));
    sqlite(&world, "app.db", "CREATE TABLE notes (x)");
    let mut bytes = std::fs::read(world.project.path("app.db")).unwrap();
    // More tables than the first page has room for.
    bytes[103..105].fill(0xff);
    world.write("app.db", bytes);
    world.clock.advance(61_000);
    let saved = world.open().save(&SaveOptions::default()).unwrap();
    assert!(saved.checkpoint.manifest.partial, "{:?}", saved.checkpoint.manifest);
    assert!(!saved.notes.iter().any(|note| note.contains("not protected")), "{:?}", saved.notes);
    let status = status(&world);
    assert!(status.reasons.iter().any(|one| one.starts_with("the last checkpoint is partial")));
    assert!(!status.reasons.iter().any(|one| one.contains("not protected")), "{status:?}");
    assert_eq!(status.unsaved_databases, ["app.db"]);
}
