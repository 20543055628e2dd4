//! A database of a PostgreSQL server, alone and together with everything else.

use std::io::{BufRead, Write};
use std::path::Path;

use rappel::types::{Advice, Facet, FacetState, Manifest, Trigger};
use rappel::{DiffOptions, ErrorKind, Rappel, RestoreOptions, SaveOptions};
use rappel_testing::{Postgres, Project};
use rusqlite::Connection;

use crate::support::{World, reference};

const SCHEMA: &str = "
    CREATE TABLE talks (id serial PRIMARY KEY, text text);
    INSERT INTO talks (text) SELECT 'talk ' || n FROM generate_series(1, 15) n;
    CREATE TABLE empty ();";

fn world_with(server: &Postgres) -> World {
    server.create("app");
    server.run("app", SCHEMA);
    let world = World::new(Project::new().file("code", "1"));
    world.write("rappel.toml", "[[database]]\nname = \"app\"\nurl = \"env:DATABASE_URL\"\n");
    world.write(".env", format!("DATABASE_URL=\"{}\"\n", server.url("app")));
    world
}

fn count(server: &Postgres, table: &str) -> String {
    server.run("app", &format!("SELECT count(*) FROM {table}")).trim().to_owned()
}

/// Everything of the four kinds as it is: files, git, rows here and there.
fn everything(world: &World, server: &Postgres) -> (String, String, String, i64) {
    let git = std::process::Command::new("git")
        .args(["log", "--all", "--format=%H %D"])
        .current_dir(world.project.root())
        .output()
        .unwrap();
    let log = String::from_utf8_lossy(&git.stdout).into_owned();
    let connection = Connection::open(world.project.path("local.db")).unwrap();
    let rows = connection.query_row("SELECT count(*) FROM notes", [], |row| row.get(0));
    (world.read("code"), log, server.dump("app"), rows.unwrap_or(-1))
}

#[test]
fn files_git_postgres_and_sqlite_come_back_together() {
    let server = Postgres::start();
    let world = world_with(&server);
    world.git(&["init", "-q"]);
    world.write(".gitignore", ".env\n");
    let local = || Connection::open(world.project.path("local.db")).unwrap();
    local().execute_batch("CREATE TABLE notes (x); INSERT INTO notes VALUES (1), (2)").unwrap();
    world.git(&["add", "code", "rappel.toml", ".gitignore"]);
    world.git(&["commit", "-qm", "one"]);
    let before = everything(&world, &server);
    let first = world.save("all four");
    let manifest = world.open().show(&reference(&first)).unwrap().manifest;
    let names: Vec<_> = manifest.databases.iter().map(|part| part.name.as_str()).collect();
    assert_eq!(names, ["app", "local.db"]);
    let app = &manifest.databases[0];
    assert_eq!((app.row_counts["talks"], app.row_counts["empty"]), (15, 0));

    world.write("code", "2");
    world.git(&["commit", "-qam", "two"]);
    world.git(&["branch", "further"]);
    server.run("app", "DROP TABLE talks CASCADE; CREATE TABLE other (x int); CREATE SCHEMA later;");
    local().execute_batch("DELETE FROM notes").unwrap();
    let damaged = everything(&world, &server);

    let plan = world.open().plan_restore(&reference(&first), &RestoreOptions::default()).unwrap();
    assert!(plan.tables.contains(&"app: talks: new, 15 rows".to_owned()), "{plan:?}");
    assert_eq!(everything(&world, &server), damaged, "a dry run changes nothing");

    let options = RestoreOptions { prune_refs: true, ..RestoreOptions::default() };
    let report = world.open().restore(&reference(&first), &options).unwrap();
    assert_eq!(report.conflicts, []);
    assert_eq!(everything(&world, &server), before);
    world.undo();
    assert_eq!(everything(&world, &server), damaged);
    world.redo();
    assert_eq!(everything(&world, &server), before);
    world.verify();
}

/// Saves as if it had taken long to read the database: the checkpoint refers to what `first` holds of it.
fn save_as_of(world: &World, first: &str) -> Manifest {
    let memo = world.home.path().join("cache");
    let mut slow = std::fs::read_dir(&memo).unwrap().map(|entry| entry.unwrap().path());
    let slow = slow.find(|path| path.extension().is_some_and(|e| e == "databases")).unwrap();
    let text = std::fs::read_to_string(&slow).unwrap();
    let at = text.find("\"took_ms\":").unwrap() + "\"took_ms\":".len();
    let end = at + text[at..].find([',', '}']).unwrap();
    std::fs::write(&slow, format!("{}5000{}", &text[..at], &text[end..])).unwrap();
    world.clock.advance(61_000);
    let options = SaveOptions { trigger: Some(Trigger::Prompt), ..SaveOptions::default() };
    let saved = world.open().save(&options).unwrap().checkpoint.manifest;
    assert!(saved.databases[0].stale, "{saved:?}");
    assert_eq!(saved.databases[0].as_of.as_ref().unwrap().to_string(), first);
    saved
}

#[test]
fn what_did_not_change_is_not_dumped_again_and_what_did_is_stale_where_it_is_not_worth_it() {
    let server = Postgres::start();
    let world = world_with(&server);
    let first = world.save("first");
    world.write("code", "2");
    let second = world.save("second");
    let part = |id: &str| world.open().show(&reference(id)).unwrap().manifest.databases.remove(0);
    assert_eq!(part(&second), part(&first));
    assert_eq!(part(&second).as_of.unwrap().to_string(), first);

    // One that takes long is not read for every little thing.
    server.run("app", "INSERT INTO talks (text) VALUES ('late')");
    let saved = save_as_of(&world, &first);
    assert!(!saved.partial);

    // A restore leaves a stale one alone unless told.
    server.run("app", "DELETE FROM talks");
    let id = saved.id.to_string();
    let report = world.open().restore(&reference(&id), &RestoreOptions::default()).unwrap();
    assert!(report.warnings.advice().contains(&Advice::AllowStale), "{report:?}");
    assert_eq!(count(&server, "talks"), "0");
    let options = RestoreOptions { allow_stale: true, ..RestoreOptions::default() };
    world.open().restore(&reference(&id), &options).unwrap();
    assert_eq!(count(&server, "talks"), "15");

    // From here on it goes on from what was restored, not from what was saved before that.
    assert_eq!(world.open().status().unwrap().unsaved_databases, ["app"], "the base is stale");
    server.run("app", "DELETE FROM talks");
    world.open().restore(&reference(&first), &RestoreOptions::default()).unwrap();
    assert_eq!(world.open().status().unwrap().unsaved_databases, [""; 0]);
    server.run("app", "DELETE FROM talks");
    assert_eq!(world.open().status().unwrap().unsaved_databases, ["app"]);
    save_as_of(&world, &first);
}

#[test]
fn init_protects_each_database_once_under_a_name_of_its_own() {
    let server = Postgres::start();
    server.create("app");
    server.create("other");
    let world = World::new(Project::new().file("code", "1"));
    let [app, other] = ["app", "other"].map(|name| server.url(name));
    let drivers = other.replace("postgres://", "postgresql+asyncpg://");
    world.write(
        ".env",
        format!("DATABASE_URL={app}?pgbouncer=true\nDIRECT_URL={app}\nPOSTGRES_URL={drivers}\n"),
    );
    let written = world.open().init().unwrap();
    assert_eq!(written.databases, ["DATABASE_URL", "POSTGRES_URL"]);
    let saved = world.open().save(&SaveOptions::default()).unwrap();
    let parts = &saved.checkpoint.manifest.databases;
    let names: Vec<&str> = parts.iter().map(|part| part.name.as_str()).collect();
    assert_eq!(names, ["app", "postgres-url"], "{saved:?}");
    assert!(!saved.checkpoint.manifest.partial, "{saved:?}");
    assert!(!saved.notes.iter().any(|note| note.contains("not protected")), "{saved:?}");
}

#[test]
fn one_that_is_named_twice_is_restored_once() {
    let server = Postgres::start();
    let world = world_with(&server);
    let entry =
        |name: &str| format!("[[database]]\nname = \"{name}\"\nurl = \"env:DATABASE_URL\"\n");
    world.write("rappel.toml", format!("{}{}", entry("app"), entry("direct")));
    let first = world.save("first");
    server.run("app", "DROP TABLE talks");
    let report = world.open().restore(&reference(&first), &RestoreOptions::default()).unwrap();
    assert_eq!(count(&server, "talks"), "15");
    assert!(report.warnings.iter().any(|line| line.contains("its other name")), "{report:?}");
}

#[test]
fn one_that_two_addresses_lead_to_is_restored_once() {
    let server = Postgres::start();
    let world = world_with(&server);
    let elsewhere = world.project.path("way");
    std::os::unix::fs::symlink(server.host(), &elsewhere).unwrap();
    let second =
        format!("postgres://postgres@{}/app", elsewhere.to_str().unwrap().replace('/', "%2F"));
    let entry = |name: &str, url: &str| format!("[[database]]\nname = '{name}'\nurl = '{url}'\n");
    let config = entry("app", "env:DATABASE_URL") + &entry("direct", &second);
    world.write("rappel.toml", config);
    let first = world.save("first");
    server.run("app", "DROP TABLE talks");
    let report = world.open().restore(&reference(&first), &RestoreOptions::default()).unwrap();
    assert_eq!(count(&server, "talks"), "15");
    let said = "direct is the same database as app";
    assert!(report.warnings.iter().any(|line| line.contains(said)), "{report:?}");
}

#[test]
fn another_one_than_was_saved_is_overwritten_only_if_it_is_named() {
    let server = Postgres::start();
    let world = world_with(&server);
    let first = world.save("first");
    server.run("postgres", "CREATE DATABASE other");
    server.run("other", "CREATE TABLE mine (); ");
    server.run("app", "DROP TABLE talks");
    world.write(".env", format!("DATABASE_URL=\"{}\"\n", server.url("other")));
    let kept = server.dump("other");
    let refused = world.open().restore(&reference(&first), &RestoreOptions::default());
    let refused = refused.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict, "{refused}");
    let allow = Advice::AllowMoved { name: "app".into() };
    assert!(refused.advice().contains(&allow), "{refused}");
    assert_eq!(server.dump("other"), kept);
    let options =
        RestoreOptions { only_databases: vec!["app".to_owned()], ..RestoreOptions::default() };
    let done = world.open().restore(&reference(&first), &options).unwrap();
    // It is said before and after, so it has to be true of both.
    let is_replaced = |line: &str| line.ends_with("the restore replaces what is there");
    assert!(done.warnings.iter().any(|line| is_replaced(line)), "{:?}", done.warnings);
    assert_eq!(server.run("other", "SELECT count(*) FROM talks").trim(), "15");
    world.undo();
    assert_eq!(server.dump("other"), kept);
}

#[test]
fn one_that_could_not_be_read_is_no_difference() {
    let mut server = Postgres::start();
    let world = world_with(&server);
    let beside = Connection::open(world.project.path("beside.db")).unwrap();
    beside.execute_batch("CREATE TABLE t (x)").unwrap();
    let first = world.save("first");
    server.down();
    let second = world.save("second");
    let to = reference(&second);
    let diff = world.open().diff(&reference(&first), Some(&to), &DiffOptions::default()).unwrap();
    assert!(diff.databases.is_empty(), "{diff:?}");
    let told = "could not capture database app";
    assert!(diff.warnings.iter().any(|line| line.contains(told)), "{diff:?}");
}

#[test]
fn an_unreachable_server_makes_the_checkpoint_partial_and_bars_a_restore() {
    let mut server = Postgres::start();
    let world = world_with(&server);
    let first = world.save("first");
    world.write("code", "2");
    server.down();
    world.clock.advance(61_000);
    let saved = world.open().save(&SaveOptions::default()).unwrap().checkpoint.manifest;
    assert!(saved.partial && saved.files.is_some());
    assert_eq!(saved.state_of(Facet::Databases), FacetState::Failed);
    let diff = world.open().diff(
        &reference(&first),
        Some(&reference(saved.id.as_str())),
        &DiffOptions::default(),
    );
    let diff = diff.unwrap();
    assert!(diff.databases.is_empty(), "{diff:?}");
    assert!(diff.warnings.iter().any(|line| line.contains("not compared")), "{diff:?}");
    let restored = world.open().restore(&reference(&first), &RestoreOptions::default());
    let error = restored.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert_eq!(world.read("code"), "2");
    let options = RestoreOptions { skip: [Facet::Databases].into(), ..RestoreOptions::default() };
    world.open().restore(&reference(&first), &options).unwrap();
    assert_eq!(world.read("code"), "1");
}

#[test]
fn undo_works_where_a_dump_is_not_the_same_once_it_is_loaded() {
    let server = Postgres::start();
    let world = world_with(&server);
    // The columns of a child come in another order when it is made in one go.
    server.run(
        "app",
        "CREATE TABLE parent (a int); CREATE TABLE child (c int) INHERITS (parent);
         ALTER TABLE parent ADD COLUMN z int; INSERT INTO child VALUES (1, 2, 3);",
    );
    let first = world.save("first");
    server.run("app", "DELETE FROM talks");
    world.restore(&first);
    assert_eq!(count(&server, "talks"), "15");
    let report = world.undo();
    assert_eq!(report.conflicts, [], "nobody changed it since");
    assert_eq!((count(&server, "talks"), count(&server, "child")), ("0".into(), "1".into()));
}

#[test]
fn what_changes_no_row_and_no_definition_since_a_restore_is_no_change() {
    let server = Postgres::start();
    let world = world_with(&server);
    // The server tells this check in other words once it was loaded.
    server.run("app", "CREATE TABLE kinds (x varchar(9) CHECK (x IN ('a', 'b')))");
    let first = world.save("first");
    server.run("app", "DELETE FROM talks");
    world.restore(&first);
    server.run("app", "ANALYZE");
    let report = world.undo();
    assert_eq!(report.conflicts, [], "nobody changed it since");
    assert_eq!(count(&server, "talks"), "0");

    world.restore(&first);
    server.run("app", "INSERT INTO kinds VALUES ('b')");
    let conflicts = world.undo().conflicts;
    assert_eq!(conflicts.len(), 1, "{conflicts:?}");
    assert!(conflicts[0].reason.contains("changed since"), "{conflicts:?}");
    assert_eq!(count(&server, "kinds"), "1");
}

#[test]
fn a_dropped_database_is_made_again() {
    let server = Postgres::start();
    let world = world_with(&server);
    let first = world.save("first");
    server.run("postgres", "DROP DATABASE app");
    let report = world.restore(&first);
    assert_eq!(count(&server, "talks"), "15");
    assert!(report.warnings.is_empty(), "it is as it was: {:?}", report.warnings);
}

#[test]
fn one_that_its_user_could_not_restore_is_told_before_that_is_needed() {
    let server = Postgres::start();
    let world = world_with(&server);
    server.run(
        "app",
        "CREATE ROLE agent LOGIN PASSWORD 'agent';
         GRANT SELECT ON ALL TABLES IN SCHEMA public TO agent; GRANT SELECT ON ALL SEQUENCES IN SCHEMA public TO agent",
    );
    let url = server.url_as("agent:agent", "app");
    world.write(".env", format!("DATABASE_URL='{url}'\n"));
    let words = "could not be restored: the user does not own";
    let saved = world.open().save(&SaveOptions::default()).unwrap();
    assert!(!saved.checkpoint.manifest.partial, "{saved:?}");
    assert!(saved.notes.iter().any(|note| note.contains(words)), "{:?}", saved.notes);
    let status = world.open().status().unwrap();
    assert!(status.reasons.iter().any(|reason| reason.contains(words)), "{status:?}");

    world.write(".env", format!("DATABASE_URL='{}'\n", server.url("app")));
    world.save("as the owner");
    let status = world.open().status().unwrap();
    assert!(!status.reasons.iter().any(|reason| reason.contains(words)), "{status:?}");
}

#[test]
fn who_holds_a_table_is_named_and_can_be_ended() {
    let server = Postgres::start();
    let world = world_with(&server);
    let first = world.save("first");
    server.run("app", "DELETE FROM talks");
    world.write("code", "2");
    let mut holder = server
        .psql_command("app")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = holder.stdin.take().unwrap();
    writeln!(input, "SET application_name = 'migration';\nBEGIN;\nLOCK TABLE talks;\n\\echo held")
        .unwrap();
    let output = std::io::BufReader::new(holder.stdout.take().unwrap());
    assert!(output.lines().map_while(Result::ok).any(|line| line.contains("held")));
    let restored = world.open().restore(&reference(&first), &RestoreOptions::default());
    let error = restored.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    assert!(error.to_string().contains("migration"), "{error}");
    assert_eq!(world.read("code"), "2", "nothing was changed");
    let options = RestoreOptions { terminate_connections: true, ..RestoreOptions::default() };
    world.open().restore(&reference(&first), &options).unwrap();
    assert_eq!((count(&server, "talks"), world.read("code")), ("15".into(), "1".into()));
    drop(input);
    let _ = holder.wait();
}

#[test]
fn no_password_reaches_the_home() {
    let server = Postgres::start();
    let world = world_with(&server);
    server.run("postgres", "CREATE ROLE agent LOGIN SUPERUSER PASSWORD 'hunter2-in-the-url'");
    let url = server.url_as("agent", "app");
    let url = url.replacen("agent", "agent:hunter2-in-the-url", 1);
    world.write(".env", format!("DATABASE_URL='{url}'\n"));
    world.write(".rappelignore", ".env\n");
    let rappel: Rappel = world.open();
    world.clock.advance(61_000);
    let saved = rappel.save(&SaveOptions::default()).unwrap();
    assert!(!saved.checkpoint.manifest.partial, "{saved:?}");
    assert!(!serde_json::to_string(&saved.checkpoint).unwrap().contains("hunter2"));
    drop(rappel);
    search(world.home.path());
}

/// No file at or below a folder holds the password.
fn search(folder: &Path) {
    for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            search(&entry);
        } else {
            let bytes = std::fs::read(&entry).unwrap();
            assert!(!bytes.windows(7).any(|part| part == b"hunter2"), "{}", entry.display());
        }
    }
}

#[test]
fn writers_wait_for_nothing_but_the_databases_themselves() {
    let server = Postgres::start();
    let world = world_with(&server);
    let outside = tempfile::tempdir().unwrap();
    let at = |name: &str| outside.path().join(name);
    let (gate, reached, state) = (at("gate"), at("reached"), at("state"));
    std::fs::write(&state, "one").unwrap();
    // Tells that it runs, and waits for as long as the gate is closed.
    let capture = format!(
        "if [ -e '{gate}' ]; then touch '{}'; while [ -e '{gate}' ]; do sleep 0.02; done; fi; cat '{}'",
        reached.display(),
        state.display(),
        gate = gate.display(),
    );
    let config = format!(
        "{}[[command]]\nname = \"state\"\ncapture = {:?}\nrestore = [\"cp\", \"/dev/stdin\", {:?}]\n",
        world.read("rappel.toml"),
        ["sh", "-c", &capture],
        state.to_str().unwrap(),
    );
    world.write("rappel.toml", config);
    world.trust();
    let first = world.save("first");
    server.run("app", "DELETE FROM talks");
    std::fs::write(&state, "two").unwrap();
    std::fs::write(&gate, "").unwrap();
    std::thread::scope(|scope| {
        let restore = scope.spawn(|| world.restore(&first));
        while !reached.exists() {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let late = "SET lock_timeout = '20s'; INSERT INTO talks (text) VALUES ('late')";
        server.run("app", late);
        std::fs::remove_file(&gate).unwrap();
        restore.join().unwrap();
    });
    assert_eq!(count(&server, "talks"), "15");
    assert_eq!(std::fs::read_to_string(&state).unwrap(), "one");
    // What was written meanwhile is in the safety checkpoint.
    assert_eq!(world.undo().conflicts, []);
    assert_eq!(server.run("app", "SELECT string_agg(text, ',') FROM talks"), "late");
}
