//! Databases of SQLite among the files: noticed, left out, and remembered.

use rappel_capture::files::{Cache, Restored};
use rappel_types::ObjectId;
use rusqlite::Connection;

use crate::project::{Project, leaves, path};

fn project() -> Project {
    let project = Project::new();
    project.write("code.rs", "fn main() {}");
    project
}

fn database(project: &Project, name: &str, sql: &str) -> Connection {
    project.write(".keep", "");
    let connection = Connection::open(project.at(name)).unwrap();
    connection.execute_batch(sql).unwrap();
    connection
}

#[test]
fn a_database_is_noticed_and_left_out_with_all_that_lies_beside_it() {
    let mut project = project();
    project.write("sub/notes-wal", "no companion").write("lone.db-journal", "of nothing");
    let open = database(
        &project,
        "sub/app.db",
        "PRAGMA journal_mode = WAL; CREATE TABLE t (x); INSERT INTO t VALUES (1)",
    );
    assert!(project.at("sub/app.db-wal").exists() && project.at("sub/app.db-shm").exists());
    project.write("empty.db", "").write("text.db", "SQLite format 3, they say");
    for _ in 0..3 {
        let scanned = project.save_checked();
        assert_eq!(scanned.databases, [path("sub/app.db")]);
        assert_eq!(scanned.partial, []);
        project.settle();
    }
    let names = [".keep", "code.rs", "empty.db", "lone.db-journal", "sub/notes-wal", "text.db"];
    assert_eq!(leaves(&project.fresh()), names);
    let scanned = project.fresh();
    assert!(!project.selector(&scanned).selects(&path("sub/app.db-wal"), false));
    drop(open);
}

#[test]
fn what_a_restore_puts_together_is_no_database_of_the_workspace() {
    let mut project = project();
    project.write("sub/.rappel-0123456789abcdef-0.sqlite.txt", "mine");
    let slot = "sub/.rappel-0123456789abcdef-0.sqlite";
    drop(database(&project, slot, "CREATE TABLE t (x)"));
    project.write(".rappel-0123456789abcdef-0.sqlite", "not a database yet");
    let scanned = project.save_checked();
    assert_eq!((&scanned.databases[..], &scanned.partial[..]), (&[][..], &[][..]));
    let names = [".keep", "code.rs", "sub/.rappel-0123456789abcdef-0.sqlite.txt"];
    assert_eq!(leaves(&project.fresh()), names);
    let scanned = project.fresh();
    assert!(!project.selector(&scanned).selects(&path(slot), false));
}

#[test]
fn a_scan_with_a_cache_opens_nothing_to_know_it() {
    let mut project = project();
    drop(database(&project, "app.db", "CREATE TABLE t (x)"));
    project.settle();
    project.save();
    project.settle();
    project.save();
    // Nothing may have changed, so nothing is even looked at.
    let cache = Cache::load(&project.cache_file()).unwrap();
    let scanned = project.try_scan(Some(cache), Some(&[])).unwrap();
    assert_eq!(scanned.databases, [path("app.db")]);
    let puts = project.sink.puts();
    assert_eq!(project.save().databases, [path("app.db")]);
    assert_eq!(project.sink.puts(), puts);
}

#[test]
fn what_becomes_a_database_leaves_the_files_and_what_ceases_to_be_one_comes_back() {
    let mut project = project();
    project.write("x", "text").write("x-wal", "text too");
    project.settle();
    project.save_checked();
    assert!(project.tree.contains_key(&path("x-wal")));
    project.remove("x");
    drop(database(&project, "x", "CREATE TABLE t (x)"));
    project.write("x-wal", "text too");
    let scanned = project.save_checked();
    assert_eq!((scanned.deleted, &scanned.databases[..]), (0, &[path("x")][..]));
    assert!(!project.tree.contains_key(&path("x-wal")));
    project.settle();
    project.save_checked();
    // In place, so that the folder's stamp does not move.
    std::fs::write(project.at("x"), "text again").unwrap();
    let scanned = project.save_checked();
    assert_eq!(scanned.databases, []);
    assert_eq!(project.text("x"), "text again");
    assert_eq!(project.text("x-wal"), "text too");
}

#[test]
fn a_large_database_is_noticed_too() {
    let mut project = project();
    project.config.max_file_size = 4096;
    let sql = "CREATE TABLE t (x); INSERT INTO t VALUES (zeroblob(100000))";
    drop(database(&project, "big.db", sql));
    project.write("big.bin", vec![0; 8192]);
    for _ in 0..3 {
        let scanned = project.save_checked();
        assert_eq!(scanned.databases, [path("big.db")]);
        assert_eq!(scanned.skipped.len(), 1);
        project.settle();
    }
}

#[test]
fn a_named_one_is_left_out_whatever_it_is() {
    let mut project = project();
    project
        .write("data/app.sqlite", "not yet")
        .write("data/app.sqlite-wal", "")
        .write("data/x", "");
    project.databases = vec![path("data/app.sqlite")];
    let scanned = project.save_checked();
    assert_eq!(scanned.databases, []);
    assert_eq!(leaves(&project.fresh()), ["code.rs", "data/x"]);
    let left_out = project.selector(&scanned).selects(&path("data/app.sqlite"), false);
    assert!(!left_out);
}

#[test]
fn one_that_is_asked_for_is_a_file_unless_somebody_works_with_it() {
    let mut project = project();
    let open = database(&project, "app.db", "PRAGMA journal_mode = WAL; CREATE TABLE t (x)");
    project.save_checked();
    project.also = vec![path("app.db")];
    let scanned = project.save_checked();
    assert_eq!(scanned.partial.len(), 1, "{:?}", scanned.partial);
    assert_eq!(scanned.partial[0].path, Some(path("app.db")));
    drop(open);
    assert!(!project.at("app.db-wal").exists());
    let scanned = project.save_checked();
    assert_eq!((scanned.partial.len(), scanned.databases.len()), (0, 0));
    assert!(project.tree.contains_key(&path("app.db")));
    project.also.clear();
    project.settle();
    assert_eq!(project.save_checked().databases, [path("app.db")]);
    assert!(!project.tree.contains_key(&path("app.db")));
}

#[test]
fn a_restored_file_that_is_a_database_is_noticed() {
    let mut project = project();
    drop(database(&project, "app.db", "CREATE TABLE t (x)"));
    project.also = vec![path("app.db")];
    project.save_checked();
    let node = project.tree[&path("app.db")].clone();
    project.also.clear();
    project.save_checked();
    let cache = Cache::load(&project.cache_file()).unwrap();
    let disk: std::sync::Arc<dyn rappel_store::disk::Disk> =
        std::sync::Arc::new(rappel_store::disk::RealDisk);
    let root = rappel_store::beneath::Root::open(&project.root, disk.clone()).unwrap();
    project.settle();
    let proof = root.stat(&path("app.db")).unwrap();
    let restored = Restored { path: path("app.db"), node: Some(node.clone()), proof };
    let mut cache = cache.restored(&project.root, &[restored], ObjectId([8; 32]), None).unwrap();
    project.tree.insert(path("app.db"), node);
    cache.save(&disk, &project.cache_file()).unwrap();
    assert_eq!(project.save_checked().databases, [path("app.db")]);
}
