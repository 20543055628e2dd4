//! Files of SQLite, named in `rappel.toml` or noticed among the files.

use rappel::types::database::DatabaseKind;
use rappel::types::{Facet, Trigger};
use rappel::{Rappel, RecoverOptions, RestoreOptions, SaveOptions};
use rappel_testing::{Fault, FaultDisk, Project};
use rusqlite::Connection;

use crate::support::{World, reference};
use rappel_types::Advice;

fn run(world: &World, path: &str, sql: &str) {
    Connection::open(world.project.path(path)).unwrap().execute_batch(sql).unwrap();
}

fn rows(world: &World, path: &str, table: &str) -> i64 {
    let connection = Connection::open(world.project.path(path)).unwrap();
    connection.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
}

fn with_database(path: &str, mode: &str) -> World {
    let world = World::new(Project::new().file("code", "1"));
    std::fs::create_dir_all(world.project.path(path).parent().unwrap()).unwrap();
    run(
        &world,
        path,
        &format!(
            "PRAGMA journal_mode = {mode}; CREATE TABLE talks (id INTEGER PRIMARY KEY, text TEXT);
             INSERT INTO talks (text) VALUES ('one'), ('two'), ('three');"
        ),
    );
    world
}

#[test]
fn one_among_the_files_is_a_database_and_comes_back_with_them() {
    for mode in ["DELETE", "WAL"] {
        let world = with_database("data/app.db", mode);
        let first = world.save("first");
        let manifest = world.open().show(&reference(&first)).unwrap().manifest;
        let part = &manifest.databases[0];
        assert_eq!((part.name.as_str(), part.kind), ("data/app.db", DatabaseKind::Sqlite));
        assert_eq!((&part.tables[..], part.row_counts["talks"]), (&["talks".to_owned()][..], 3));
        assert_eq!(manifest.files.unwrap().count, 1, "it is no part of the files");

        world.write("code", "2");
        run(&world, "data/app.db", "DELETE FROM talks WHERE id > 1; CREATE TABLE later (x);");
        let plan = world.open().plan_restore(&reference(&first), &RestoreOptions::default());
        let lines = plan.unwrap().tables;
        assert!(lines.contains(&"data/app.db: talks: 3 (now 1)".to_owned()), "{lines:?}");
        assert!(lines.iter().any(|line| line.contains("later: deleted")), "{lines:?}");

        world.restore(&first);
        assert_eq!((rows(&world, "data/app.db", "talks"), world.read("code")), (3, "1".into()));
        world.undo();
        assert_eq!((rows(&world, "data/app.db", "talks"), world.read("code")), (1, "2".into()));
        assert_eq!(rows(&world, "data/app.db", "later"), 0);
        world.redo();
        assert_eq!(rows(&world, "data/app.db", "talks"), 3);
        let unsaved = || world.open().status().unwrap().unsaved_databases;
        assert_eq!(unsaved(), [""; 0]);
        std::fs::remove_file(world.project.path("data/app.db")).unwrap();
        assert_eq!(unsaved(), ["data/app.db"]);
        world.verify();
    }
}

#[test]
fn one_that_was_removed_is_made_again() {
    let world = with_database("app.db", "WAL");
    let first = world.save("first");
    world.remove("app.db");
    world.save("without");
    world.restore(&first);
    assert_eq!(rows(&world, "app.db", "talks"), 3);
}

#[test]
fn one_that_git_ignores_is_captured_once_it_is_named() {
    let world = with_database("dev.db", "DELETE");
    world.git(&["init", "-q"]);
    world.write(".gitignore", "*.db\n");
    let first = world.save("not named");
    assert!(world.open().show(&reference(&first)).unwrap().manifest.databases.is_empty());
    world.write("rappel.toml", "[[database]]\nname = \"app\"\nurl = \"sqlite:./dev.db\"\n");
    let second = world.save("named");
    let part = world.open().show(&reference(&second)).unwrap().manifest.databases.remove(0);
    assert_eq!((part.name.as_str(), part.location.as_deref()), ("app", Some("dev.db")));
    run(&world, "dev.db", "DELETE FROM talks");
    world.restore(&second);
    assert_eq!(rows(&world, "dev.db", "talks"), 3);
}

#[test]
fn one_outside_the_workspace_is_captured_where_it_is_named() {
    let world = World::new(Project::new().file("code", "1"));
    let outside = tempfile::tempdir().unwrap();
    let path = outside.path().join("app.db");
    let open = || Connection::open(&path).unwrap();
    open().execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES (1)").unwrap();
    let address = format!("sqlite://{}", path.display());
    world.write("rappel.toml", "[[database]]\nname = \"app\"\nurl = \"env:DB_URL\"\n");
    world.write(".env", format!("DB_URL='{address}'\n"));
    world.trust();
    let first = world.save("first");
    open().execute_batch("DROP TABLE t").unwrap();
    world.restore(&first);
    let count: i64 = open().query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap();
    assert_eq!(count, 1);
}

#[test]
fn one_that_did_not_change_is_not_read_again() {
    let world = with_database("app.db", "DELETE");
    // Its times must be older than the scan for that to be believed.
    let old = filetime::FileTime::from_unix_time(1_700_000_000, 0);
    filetime::set_file_mtime(world.project.path("app.db"), old).unwrap();
    let first = world.save("first");
    world.write("code", "2");
    let second = world.save("second");
    let part = |id: &str| world.open().show(&reference(id)).unwrap().manifest.databases.remove(0);
    assert_eq!(part(&first), part(&second));
    assert_eq!(part(&second).as_of.unwrap().to_string(), first);
}

#[test]
fn a_damaged_one_is_a_partial_checkpoint() {
    let world = World::new(Project::new().file("code", "1"));
    world.write("rappel.toml", "[[database]]\nname = \"app\"\nurl = \"sqlite:app.db\"\n");
    world.write("app.db", "this is no database, whatever it is called".repeat(100));
    world.clock.advance(61_000);
    let saved = world.open().save(&SaveOptions::default()).unwrap().checkpoint.manifest;
    assert!(saved.partial, "{saved:?}");
    assert!(saved.partial_reasons[0].reason.starts_with("app: "), "{saved:?}");
}

#[test]
fn one_that_was_overwritten_is_kept_as_a_file_and_comes_back() {
    let world = with_database("app.db", "DELETE");
    let first = world.save("first");
    world.write("app.db", "garbage".repeat(1000));
    world.write("code", "2");
    world.restore(&first);
    assert_eq!((rows(&world, "app.db", "talks"), world.read("code")), (3, "1".into()));
    world.undo();
    assert_eq!((world.read("app.db"), world.read("code")), ("garbage".repeat(1000), "2".into()));
}

#[test]
fn one_of_no_bytes_does_not_keep_an_undo_from_the_rest() {
    let world = with_database("app.db", "DELETE");
    let first = world.save("first");
    world.write("app.db", "");
    world.write("code", "2");
    world.restore(&first);
    assert_eq!((rows(&world, "app.db", "talks"), world.read("code")), (3, "1".into()));
    world.undo();
    assert_eq!((rows(&world, "app.db", "talks"), world.read("code")), (3, "2".into()));
}

#[test]
fn one_that_a_link_leads_to_is_captured_once() {
    let world = with_database("real/app.db", "DELETE");
    std::os::unix::fs::symlink("real", world.project.path("link")).unwrap();
    world.write("rappel.toml", "[[database]]\nname = \"app\"\nurl = \"sqlite:link/app.db\"\n");
    let first = world.save("first");
    let manifest = world.open().show(&reference(&first)).unwrap().manifest;
    let names: Vec<_> = manifest.databases.iter().map(|part| part.name.as_str()).collect();
    assert_eq!((names, manifest.partial), (vec!["app"], false));
    run(&world, "real/app.db", "DELETE FROM talks");
    world.restore(&first);
    assert_eq!(rows(&world, "real/app.db", "talks"), 3);
}

#[test]
fn one_that_is_itself_a_link_is_captured_where_it_leads_to() {
    let world = with_database("real/app.db", "DELETE");
    std::os::unix::fs::symlink("real/app.db", world.project.path("link.db")).unwrap();
    world.write("rappel.toml", "[[database]]\nname = \"app\"\nurl = \"sqlite:link.db\"\n");
    let first = world.save("first");
    let manifest = world.open().show(&reference(&first)).unwrap().manifest;
    assert_eq!(manifest.databases[0].location.as_deref(), Some("real/app.db"), "{manifest:?}");
    assert!(!manifest.partial, "{manifest:?}");
    std::fs::remove_file(world.project.path("real/app.db")).unwrap();
    world.restore(&first);
    assert_eq!(rows(&world, "link.db", "talks"), 3);
    assert!(world.project.path("link.db").is_symlink());
}

#[test]
fn one_below_a_path_that_is_asked_for_is_named() {
    let world = with_database("data/app.db", "DELETE");
    world.write("data/file", "1");
    let first = world.save("first");
    std::fs::remove_dir_all(world.project.path("data")).unwrap();
    let options =
        RestoreOptions { paths: vec!["data".parse().unwrap()], ..RestoreOptions::default() };
    let report = world.open().restore(&reference(&first), &options).unwrap();
    assert_eq!(world.read("data/file"), "1");
    let advice = Advice::RestoreDatabase { checkpoint: first, name: "data/app.db".into() };
    assert!(report.warnings.advice().contains(&advice), "{report:?}");
}

#[test]
fn one_whose_end_is_missing_is_a_file() {
    let world = with_database("whole.db", "DELETE");
    let bytes = std::fs::read(world.project.path("whole.db")).unwrap();
    world.write("short.db", &bytes[..3000]);
    world.write("one page.db", &bytes[..4096]);
    let first = world.save("first");
    let manifest = world.open().show(&reference(&first)).unwrap().manifest;
    let names: Vec<_> = manifest.databases.iter().map(|part| part.name.as_str()).collect();
    assert_eq!((names, manifest.partial), (vec!["whole.db"], false), "{manifest:?}");
    for name in ["short.db", "one page.db"] {
        std::fs::remove_file(world.project.path(name)).unwrap();
    }
    world.restore(&first);
    assert_eq!(std::fs::read(world.project.path("short.db")).unwrap(), bytes[..3000]);
    assert_eq!(std::fs::read(world.project.path("one page.db")).unwrap(), bytes[..4096]);
}

#[test]
fn one_whose_end_goes_missing_is_kept_as_a_file_and_comes_back() {
    let world = with_database("app.db", "DELETE");
    let first = world.save("first");
    let file = world.project.path("app.db");
    let bytes = std::fs::read(&file).unwrap();
    std::fs::write(&file, &bytes[..3000]).unwrap();
    world.restore(&first);
    assert_eq!(rows(&world, "app.db", "talks"), 3);
    world.undo();
    assert!(std::fs::read(&file).unwrap() == bytes[..3000]);
}

#[test]
fn one_that_could_not_be_captured_is_named_by_a_restore() {
    let world = with_database("app.db", "DELETE");
    let file = world.project.path("app.db");
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[100..4000].fill(b'x');
    std::fs::write(&file, bytes).unwrap();
    let first = world.save("first");
    std::fs::remove_file(&file).unwrap();
    let report = world.open().restore(&reference(&first), &RestoreOptions::default()).unwrap();
    let said = "does not hold app.db, which could not be captured then";
    assert!(report.warnings.iter().any(|line| line.contains(said)), "{report:?}");
}

#[test]
fn init_names_a_file_once_however_it_is_written() {
    for (value, file) in [
        ("file:./dev.db", "prisma/dev.db"),
        ("sqlite:///db.sqlite3", "db.sqlite3"),
        ("sqlite+aiosqlite:///./db.sqlite3", "db.sqlite3"),
        ("sqlite://db.sqlite3", "db.sqlite3"),
    ] {
        let world = with_database(file, "DELETE");
        std::fs::create_dir(world.project.path(".git")).unwrap();
        std::fs::write(world.project.path(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
        for folder in [".git/objects", ".git/refs"] {
            std::fs::create_dir(world.project.path(folder)).unwrap();
        }
        world.write(".gitignore", "*.db\n*.sqlite3\n.env\n");
        world.write(".env", format!("DATABASE_URL=\"{value}\"\nSHADOW_DATABASE_URL=file:./x.db\n"));
        let written = world.open().init().unwrap();
        assert_eq!(written.databases, ["DATABASE_URL"], "{value}");
        let saved = world.open().save(&SaveOptions::default()).unwrap().checkpoint.manifest;
        assert_eq!(saved.databases[0].location.as_deref(), Some(file), "{value}: {saved:?}");
        assert!(!saved.partial, "{value}: {saved:?}");
        std::fs::remove_file(world.project.path(file)).unwrap();
        world.restore(saved.id.as_str());
        assert_eq!(rows(&world, file, "talks"), 3, "{value}");
    }
}

#[test]
fn one_that_has_two_names_is_restored_once() {
    let world = with_database("app.db", "DELETE");
    std::fs::hard_link(world.project.path("app.db"), world.project.path("also.db")).unwrap();
    let first = world.save("first");
    run(&world, "app.db", "DELETE FROM talks");
    world.restore(&first);
    assert_eq!((rows(&world, "app.db", "talks"), rows(&world, "also.db", "talks")), (3, 3));
    world.undo();
    assert_eq!(rows(&world, "also.db", "talks"), 0);
}

#[test]
fn a_trigger_that_takes_no_databases_still_reads_quick_ones() {
    let world = with_database("app.db", "WAL");
    world.save("first");
    run(&world, "app.db", "DELETE FROM talks");
    world.clock.advance(61_000);
    let options = SaveOptions { trigger: Some(Trigger::Scheduled), ..SaveOptions::default() };
    let saved = world.open().save(&options).unwrap().checkpoint.manifest;
    assert_eq!((saved.databases[0].stale, saved.databases[0].row_counts["talks"]), (false, 0));
}

#[test]
fn files_alone_leave_it_as_it_is() {
    let world = with_database("app.db", "WAL");
    let first = world.save("first");
    world.write("code", "2");
    run(&world, "app.db", "DELETE FROM talks");
    let options = RestoreOptions { only: Some([Facet::Files].into()), ..Default::default() };
    world.open().restore(&reference(&first), &options).unwrap();
    assert_eq!((rows(&world, "app.db", "talks"), world.read("code")), (0, "1".into()));
}

#[test]
fn undo_goes_to_the_checkpoint_that_differs_in_a_database_alone() {
    let world = with_database("app.db", "DELETE");
    world.save("first");
    world.write("code", "2");
    world.save("second");
    run(&world, "app.db", "DELETE FROM talks");
    let rappel = world.open();
    let step = rappel.next_undo().unwrap();
    rappel.step(&step, false, &RestoreOptions::default()).unwrap();
    assert_eq!((rows(&world, "app.db", "talks"), world.read("code")), (3, "2".into()));
}

#[test]
fn an_undo_that_kept_everything_can_be_done_again_with_overwrite() {
    let world = with_database("app.db", "DELETE");
    let first = world.save("first");
    run(&world, "app.db", "DELETE FROM talks WHERE id = 1");
    world.restore(&first);
    run(&world, "app.db", "DELETE FROM talks WHERE id > 1");
    let undo = |overwrite| {
        let rappel = world.open();
        let step = rappel.next_undo().unwrap();
        assert!(!step.asks, "it takes back the restore");
        rappel.step(&step, overwrite, &RestoreOptions::default()).unwrap()
    };
    let report = undo(false);
    assert_eq!(report.conflicts[0].advice, [Advice::Overwrite], "{report:?}");
    assert_eq!(rows(&world, "app.db", "talks"), 1);
    undo(true);
    assert_eq!(rows(&world, "app.db", "talks"), 2);
}

#[test]
fn a_restore_that_brings_back_the_configuration_goes_by_it() {
    let world = with_database("dev.db", "DELETE");
    world.git(&["init", "-q"]);
    world.write(".gitignore", "*.db\n");
    world.write("rappel.toml", "[[database]]\nname = \"app\"\nurl = \"sqlite:dev.db\"\n");
    let first = world.save("first");
    world.remove("rappel.toml");
    run(&world, "dev.db", "DELETE FROM talks");
    world.restore(&first);
    assert!(world.exists("rappel.toml"));
    assert_eq!(rows(&world, "dev.db", "talks"), 3);
}

#[test]
fn one_that_git_ignores_is_found_and_told() {
    let world = with_database("data/dev.db", "DELETE");
    world.git(&["init", "-q"]);
    world.write(".gitignore", "*.db\n");
    let saved = world.open().save(&SaveOptions::default()).unwrap();
    let told = "database found, not protected: data/dev.db";
    assert!(saved.notes.iter().any(|note| note.contains(told)), "{:?}", saved.notes);
    let status = world.open().status().unwrap();
    assert!(status.reasons.iter().any(|reason| reason.contains(told)), "{status:?}");
    world.open().init().unwrap();
    let saved = world.open().save(&SaveOptions::default()).unwrap();
    assert_eq!(saved.checkpoint.manifest.databases[0].name, "dev");
    assert!(!saved.notes.iter().any(|note| note.contains(told)), "{:?}", saved.notes);
}

#[test]
fn undo_takes_back_the_database_that_was_restored_and_no_other_of_its_name() {
    let world = World::new(Project::new().file("code", "1"));
    let config = |file: &str| format!("[[database]]\nname = \"app\"\nurl = \"sqlite:{file}\"\n");
    let value = |file: &str| -> String {
        let connection = Connection::open(world.project.path(file)).unwrap();
        connection.query_row("SELECT v FROM t", [], |row| row.get(0)).unwrap()
    };
    let make = |file: &str| {
        run(&world, file, &format!("CREATE TABLE t (v); INSERT INTO t VALUES ('of {file}')"));
    };
    make("a.db");
    world.write("rappel.toml", config("a.db"));
    let first = world.save("first");
    make("b.db");
    let second = world.save("with both");
    world.write("rappel.toml", config("b.db"));
    let named = RestoreOptions { only_databases: vec!["app".into()], ..RestoreOptions::default() };
    let report = world.open().restore(&reference(&first), &named).unwrap();
    assert!(report.warnings.iter().any(|warning| warning.contains("b.db")), "{report:?}");
    assert_eq!((value("a.db"), value("b.db")), ("of a.db".into(), "of a.db".into()));
    let safety = report.done.unwrap().safety_checkpoint.unwrap().to_string();
    let held = world.open().show(&reference(&safety)).unwrap().manifest.databases;
    let places: Vec<_> = held.iter().filter_map(|part| part.location.as_deref()).collect();
    assert_eq!(places, ["a.db", "b.db"], "both are in the safety checkpoint");
    world.undo();
    assert_eq!((value("a.db"), value("b.db")), ("of a.db".into(), "of b.db".into()));
    assert_eq!(world.read("rappel.toml"), config("b.db"));
    // Two databases of a checkpoint cannot both go to one place.
    let restored = world.open().restore(&reference(&second), &RestoreOptions::default());
    assert_eq!(restored.unwrap_err().kind(), rappel::ErrorKind::Conflict);
    assert_eq!((value("a.db"), value("b.db")), ("of a.db".into(), "of b.db".into()));
}

#[test]
fn one_file_under_two_names_is_named_once() {
    let world = with_database("app.db", "DELETE");
    let entry = |name: &str, url: &str| format!("[[database]]\nname = {name:?}\nurl = {url:?}\n");
    world.write("rappel.toml", entry("one", "sqlite:app.db") + &entry("two", "sqlite:./app.db"));
    let saved = world.open().save(&SaveOptions::default()).unwrap().checkpoint.manifest;
    assert_eq!(saved.databases.len(), 1);
    assert!(saved.partial_reasons[0].reason.contains("the same as one"), "{saved:?}");
}

#[test]
fn one_of_several_is_restored_by_its_name() {
    let world = World::new(Project::new().file("code", "1"));
    let execute = |name: &str, statements: &str| {
        Connection::open(world.project.path(name)).unwrap().execute_batch(statements).unwrap();
    };
    let rows = |name: &str| -> i64 {
        let connection = Connection::open(world.project.path(name)).unwrap();
        connection.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap()
    };
    for name in ["a.db", "b.db"] {
        execute(name, "CREATE TABLE t (x); INSERT INTO t VALUES (1)");
    }
    let first = world.save("first");
    for name in ["a.db", "b.db"] {
        execute(name, "DELETE FROM t");
    }
    world.write("code", "2");
    let only = |name: &str| RestoreOptions {
        only_databases: vec![name.to_owned()],
        ..RestoreOptions::default()
    };
    let error = world.open().restore(&reference(&first), &only("c.db")).unwrap_err();
    assert_eq!(error.advice(), [Advice::plain("it holds a.db, b.db")]);
    world.open().restore(&reference(&first), &only("b.db")).unwrap();
    assert_eq!((rows("a.db"), rows("b.db"), world.read("code")), (0, 1, "2".into()));
    let elsewhere = tempfile::tempdir().unwrap();
    world.open().restore_to(&reference(&first), elsewhere.path(), &only("a.db")).unwrap();
    let written = std::fs::read_dir(elsewhere.path()).unwrap();
    let written: Vec<_> = written.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(written, ["a.db"]);
    assert_eq!(world.undo().conflicts, []);
    assert_eq!((rows("a.db"), rows("b.db")), (0, 0));

    // An undo of everything can be narrowed like a restore.
    world.restore(&first);
    let rappel = world.open();
    let step = rappel.next_undo().unwrap();
    rappel.step(&step, false, &only("a.db")).unwrap();
    assert_eq!((rows("a.db"), rows("b.db"), world.read("code")), (0, 1, "1".into()));
}

#[test]
fn a_restore_of_its_path_is_told_that_it_is_a_database() {
    let world = World::new(Project::new().file("code", "1"));
    let connection = Connection::open(world.project.path("app.db")).unwrap();
    connection.execute_batch("CREATE TABLE t (x)").unwrap();
    let first = world.save("first");
    let (rappel, reference) = (world.open(), reference(&first));
    let path = crate::support::path("app.db");
    let options = RestoreOptions { paths: vec![path.clone()], ..RestoreOptions::default() };
    for error in [
        rappel.plan_restore(&reference, &options).unwrap_err(),
        world.open().restore(&reference, &options).unwrap_err(),
    ] {
        assert!(error.to_string().contains("app.db is a database"), "{error}");
        let [Advice::RestoreOrWriteDatabase { name, .. }] = &error.advice()[..] else {
            panic!("{error}: {:?}", error.advice())
        };
        assert_eq!(name, "app.db");
    }
    let stats = rappel.stats().unwrap();
    assert!(stats.database_bytes > 0 && stats.logical_bytes > stats.database_bytes, "{stats:?}");
}

#[test]
fn undo_reaches_a_file_outside_that_was_allowed_by_an_earlier_text() {
    let world = World::new(Project::new().file("code", "1"));
    let outside = tempfile::tempdir().unwrap();
    let path = std::fs::canonicalize(outside.path()).unwrap().join("app.db");
    let run = |words: &str| {
        Connection::open(&path).unwrap().execute_batch(words).unwrap();
    };
    run("CREATE TABLE t (x)");
    world.write(
        "rappel.toml",
        format!("[[database]]\nname = \"app\"\nurl = \"sqlite:{}\"\n", path.display()),
    );
    world.trust();
    let first = world.save("first");
    run("CREATE TABLE other (x)");
    world.restore(&first);
    world.write("rappel.toml", "");
    let tables = || -> i64 {
        let connection = Connection::open(&path).unwrap();
        connection.query_row("SELECT count(*) FROM sqlite_master", [], |row| row.get(0)).unwrap()
    };
    world.open().revoke_trust().unwrap();
    let rappel = world.open();
    let step = rappel.next_undo().unwrap();
    let plan = rappel.plan_step(&step, false, &RestoreOptions::default()).unwrap();
    assert!(plan.conflicts[0].advice.contains(&Advice::Trust), "{plan:?}");
    drop(rappel);
    assert_eq!(tables(), 1);
    world.write(
        "rappel.toml",
        format!("[[database]]\nname = \"app\"\nurl = \"sqlite:{}\"\n", path.display()),
    );
    world.trust();
    world.write("rappel.toml", "");
    world.undo();
    assert_eq!(tables(), 2);
}

#[test]
fn a_restore_over_a_damaged_one_that_is_cut_short_can_go_either_way() {
    const DAMAGED: &[u8] = b"this was a database";
    for finish in [true, false] {
        let mut met = 0;
        for at in 1.. {
            let world = with_database("app.db", "DELETE");
            let first = world.save("first");
            let file = world.project.path("app.db");
            std::fs::write(&file, DAMAGED).unwrap();
            let disk = FaultDisk::new();
            disk.set(Fault::Crash { at });
            let mut options = world.options();
            options.disk = disk.clone();
            let restored = Rappel::open(options)
                .and_then(|rappel| rappel.restore(&reference(&first), &RestoreOptions::default()));
            if restored.is_ok() {
                break;
            }
            let context = format!("operation {at}, finish: {finish}");
            let is_damaged = || std::fs::read(&file).is_ok_and(|bytes| bytes == DAMAGED);
            if world.open().unfinished().unwrap().restores.is_empty() {
                assert!(is_damaged() || rows(&world, "app.db", "talks") == 3, "{context}");
                continue;
            }
            met += 1;
            let options =
                if finish { RecoverOptions::finish() } else { RecoverOptions::rollback() };
            match world.open().recover(&options) {
                Ok(recovered) => {
                    assert_eq!(recovered.conflicts, [], "{context}");
                    match finish {
                        true => assert_eq!(rows(&world, "app.db", "talks"), 3, "{context}"),
                        false => assert!(is_damaged(), "{context}"),
                    }
                }
                // Once a database is committed, there is only the way forward.
                Err(error) => {
                    assert!(!finish, "{context}: {error}");
                    world.open().recover(&RecoverOptions::finish()).unwrap();
                    assert_eq!(rows(&world, "app.db", "talks"), 3, "{context}");
                }
            }
        }
        assert!(met > 5, "{met}");
    }
}
