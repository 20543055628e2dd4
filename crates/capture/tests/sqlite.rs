//! Databases of SQLite: read in one piece while others write, put back in one transaction.

mod sqlite_support;

use std::sync::atomic::AtomicBool;

use rappel_capture::databases::sqlite::companions;
use rappel_capture::databases::{Error, Fate};
use rusqlite::Connection;
use sqlite_support::*;

const NEVER: AtomicBool = AtomicBool::new(false);

#[test]
fn a_database_comes_back_whatever_its_shape() {
    for page_size in [512, 1024, 4096, 16384, 32768, 65536] {
        for (journal, vacuum, encoding) in [
            ("DELETE", "NONE", "UTF-8"),
            ("WAL", "FULL", "UTF-16le"),
            ("PERSIST", "INCREMENTAL", "UTF-16be"),
        ] {
            let place = Place::new();
            let made = place.open("x.db");
            made.execute_batch(&format!(
                "PRAGMA encoding = '{encoding}'; PRAGMA page_size = {page_size};
                 PRAGMA auto_vacuum = {vacuum}; PRAGMA journal_mode = {journal};
                 PRAGMA user_version = 7;
                 CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT);
                 CREATE TABLE pairs (a TEXT, b INTEGER, PRIMARY KEY (a, b)) WITHOUT ROWID;
                 CREATE TABLE blobs (b BLOB);
                 CREATE TABLE none (x);
                 CREATE INDEX by_v ON t (v);
                 CREATE VIEW seen AS SELECT v FROM t;
                 CREATE VIRTUAL TABLE words USING fts5 (body);
                 WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)
                 INSERT INTO t SELECT i, 'row ' || i || hex(randomblob(20)) FROM n;
                 INSERT INTO pairs SELECT v, id FROM t WHERE id <= 1000;
                 INSERT INTO blobs VALUES (randomblob(300000)), (randomblob(10));
                 INSERT INTO words SELECT v FROM t WHERE id < 50;"
            ))
            .unwrap();
            let text = place.dump("x.db");
            let first = place.capture("x.db", None);
            assert_eq!(first.part.tables, ["blobs", "none", "pairs", "t", "words"]);
            let counts: Vec<_> = first.part.row_counts.iter().map(|(k, v)| (&**k, *v)).collect();
            assert_eq!(counts, [("blobs", 2), ("none", 0), ("pairs", 1000), ("t", 3000)]);
            made.execute_batch(
                "DELETE FROM t WHERE id % 3 = 0; DROP TABLE pairs; CREATE TABLE new (x);
                 INSERT INTO new VALUES (1); INSERT INTO words VALUES ('later');
                 UPDATE blobs SET b = zeroblob(900000);",
            )
            .unwrap();
            drop(made);
            let context = format!("{page_size} {journal} {vacuum}");
            let safety = place.restore("x.db", &first.part).unwrap();
            assert_ne!(safety.part.digest, first.part.digest);
            assert_eq!(place.dump("x.db"), text, "{context}");
            assert_eq!(place.digest("x.db"), Some(first.part.digest.clone()), "{context}");
            let again = place.open("x.db");
            let mode: String = again.query_row("PRAGMA journal_mode", [], |r| r.get(0)).unwrap();
            assert_eq!(mode == "wal", journal == "WAL", "{context}");
            let whole: String =
                again.query_row("PRAGMA integrity_check", [], |r| r.get(0)).unwrap();
            assert_eq!(whole, "ok", "{context}");
            drop(again);
            place.restore("x.db", &safety.part).unwrap();
            assert_eq!(place.digest("x.db"), Some(safety.part.digest), "{context}");
        }
    }
}

#[test]
fn what_is_in_the_log_only_is_captured() {
    let place = Place::new();
    let made = place.open("x.db");
    made.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0; CREATE TABLE t (x);
         INSERT INTO t VALUES (1);",
    )
    .unwrap();
    let part = place.capture("x.db", None).part;
    assert_eq!(part.row_counts["t"], 1);
    made.execute_batch("INSERT INTO t VALUES (2)").unwrap();
    assert_eq!(place.capture("x.db", Some(&part)).part.row_counts["t"], 2);
    // Nobody has the copy open, and it has no -shm: the log's own checksums say what counts.
    for suffix in ["", "-wal"] {
        let name = |of: &str| place.path(&format!("{of}.db{suffix}"));
        std::fs::copy(name("x"), name("copy")).unwrap();
    }
    let before = place.files("copy.db");
    let copy = place.capture("copy.db", None).part;
    assert_eq!(copy.row_counts["t"], 2);
    assert_eq!(place.files("copy.db"), before);
    // The last frame is torn: its transaction never was.
    let mut wal = std::fs::read(place.path("copy.db-wal")).unwrap();
    let last = wal.len() - 1;
    wal[last] ^= 1;
    std::fs::write(place.path("copy.db-wal"), wal).unwrap();
    assert_eq!(place.capture("copy.db", None).part.row_counts["t"], 1);
}
