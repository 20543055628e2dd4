//! Reading a database: in one piece, without a trace, and as little as it costs.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;

use rappel_capture::databases::Error;
use rappel_store::{Options, Store};
use rappel_types::database::DatabasePart;

use crate::support::{JOURNALS, Place, never, two_contents};

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

#[test]
fn no_capture_sees_half_a_transaction() {
    for journal in JOURNALS {
        let place = Place::new();
        place.store.write(&place.home.join("objects"));
        place
            .open("x.db")
            .execute_batch(&format!(
                "PRAGMA page_size = 1024; PRAGMA journal_mode = {journal};
                 CREATE TABLE account (id INTEGER PRIMARY KEY, amount INTEGER, pad TEXT);
                 CREATE TABLE entry (x);
                 WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 399)
                 INSERT INTO account SELECT i, 1000, hex(randomblob(100)) FROM n;"
            ))
            .unwrap();
        let writers = [place.play("transfer", "x.db"), place.play("transfer", "x.db")];
        let mut prior: Option<DatabasePart> = None;
        let mut seen = BTreeSet::new();
        for round in 0..40 {
            let part = place.capture("x.db", prior.as_ref()).part;
            let copy = format!("copy{round}.db");
            place.create(&copy, &part).unwrap();
            let open = place.open(&copy);
            let sum: i64 =
                open.query_row("SELECT sum(amount) FROM account", [], |r| r.get(0)).unwrap();
            assert_eq!(sum, 400_000, "{journal}, round {round}");
            let whole: String = open.query_row("PRAGMA integrity_check", [], |r| r.get(0)).unwrap();
            assert_eq!(whole, "ok", "{journal}, round {round}");
            let rows: u64 = open.query_row("SELECT count(*) FROM entry", [], |r| r.get(0)).unwrap();
            assert_eq!(part.row_counts["entry"], rows);
            seen.insert(part.digest.to_string());
            prior = Some(part);
        }
        assert!(seen.len() > 10, "{journal}: the writers wrote, {} contents", seen.len());
        for writer in writers {
            writer.end();
        }
    }
}

#[test]
fn a_capture_leaves_no_trace() {
    let place = Place::new();
    place.store.write(&place.home.join("objects"));
    let sql = "PRAGMA journal_mode = WAL; CREATE TABLE t (x); INSERT INTO t VALUES (1)";
    place.open("x.db").execute_batch(sql).unwrap();
    let capture = |expected: u64, context: &str| {
        let before = place.files("x.db");
        let part = place.capture("x.db", None).part;
        place.digest("x.db").unwrap();
        assert_eq!(part.row_counts["t"], expected, "{context}");
        assert_eq!(place.files("x.db"), before, "{context}");
    };
    assert!(place.files("x.db")[1..].iter().all(Option::is_none));
    capture(1, "closed");
    let idle = place.play("idle", "x.db");
    assert!(place.files("x.db")[3].is_some());
    capture(1, "open and idle");
    place.play("leave", "x.db").end();
    capture(2, "open, with frames in the log");
    idle.kill();
    assert!(place.files("x.db")[3].as_ref().is_some_and(|wal| !wal.0.is_empty()));
    capture(2, "left behind, with frames in the log");
    std::fs::remove_file(place.path("x.db-shm")).unwrap();
    capture(2, "left behind, without its index");
    let folder = place.path("");
    std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o555)).unwrap();
    capture(2, "in a folder that cannot be written to");
    std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o755)).unwrap();
}

#[test]
fn what_is_no_whole_database_is_said_to_be_none() {
    let (place, _) = two_contents("DELETE");
    let bytes = std::fs::read(place.path("x.db")).unwrap();
    let reason = |bytes: &[u8]| {
        std::fs::write(place.path("y.db"), bytes).unwrap();
        match place.database("y.db").capture(&place.store, None, never()) {
            Err(Error::Damaged(reason)) => reason,
            other => panic!("{other:?}"),
        }
    };
    assert!(reason(b"some text").contains("not a SQLite database"));
    let encrypted: Vec<u8> = bytes.iter().map(|byte| byte ^ 0x5a).collect();
    assert!(reason(&encrypted).contains("or it is encrypted"));
    assert!(reason(&bytes[..bytes.len() / 2]).contains("damaged"));
    let mut damaged = bytes.clone();
    damaged[100] = 77;
    assert!(reason(&damaged).contains("damaged"));
    let mut circle = bytes.clone();
    let root = 4096..8192;
    circle[root.start + 8..root.start + 12].copy_from_slice(&2u32.to_be_bytes());
    assert!(reason(&circle).contains("damaged"));
    std::fs::write(place.path("y.db"), &bytes).unwrap();
    std::fs::write(place.path("y.db-journal"), b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7rest").unwrap();
    let hot = place.database("y.db").capture(&place.store, None, never());
    assert!(matches!(&hot, Err(Error::Unavailable(text)) if text.contains("-journal")), "{hot:?}");
    let absent = place.database("z.db").capture(&place.store, None, never());
    assert!(matches!(absent, Err(Error::Absent(_))), "{absent:?}");
    std::fs::write(place.path("empty.db"), "").unwrap();
    let part = place.capture("empty.db", None).part;
    assert_eq!((part.bytes, part.tables.len()), (0, 0));
}

/// The pages that differ between two states of a database file.
fn changed_pages(before: &[u8], after: &[u8]) -> u64 {
    let pages = after.chunks(4096).enumerate();
    pages.filter(|(at, page)| before.chunks(4096).nth(*at) != Some(page)).count() as u64
}

#[test]
fn a_change_costs_its_pages() {
    let place = Place::new();
    let open = place.open("x.db");
    open.execute_batch(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, x);
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30000)
         INSERT INTO t SELECT i, randomblob(500) FROM n;",
    )
    .unwrap();
    let home = tempfile::tempdir().unwrap();
    let store = Store::open(home.path(), Options::default()).unwrap();
    let save = |prior: Option<&DatabasePart>| {
        let run = store.begin().unwrap();
        let part = place.database("x.db").capture(&run, prior, never()).unwrap().part;
        (part, run.commit(|_| Ok(Vec::new())).unwrap().new_bytes)
    };
    let (mut part, _) = save(None);
    let steps = [
        ("nothing", "SELECT 1"),
        ("together", "UPDATE t SET x = randomblob(500) WHERE id BETWEEN 10000 AND 10300"),
        ("scattered", "UPDATE t SET x = randomblob(500) WHERE id % 100 = 7"),
        ("scattered again", "UPDATE t SET x = randomblob(500) WHERE id % 100 = 8"),
        ("one", "UPDATE t SET x = randomblob(500) WHERE id = 77"),
        ("at the end", "INSERT INTO t SELECT NULL, randomblob(500) FROM t LIMIT 500"),
    ];
    for (what, sql) in steps {
        let before = std::fs::read(place.path("x.db")).unwrap();
        open.execute_batch(sql).unwrap();
        let after = std::fs::read(place.path("x.db")).unwrap();
        let changed = changed_pages(&before, &after) * 4096;
        let (next, bytes) = save(Some(&part));
        println!("{what}: {changed} bytes of pages, {bytes} bytes stored");
        match changed {
            0 => assert_eq!((next.tree, bytes), (part.tree, 0)),
            _ => assert!(bytes <= changed * 3 / 2 + 2048, "{what}: {bytes} for {changed}"),
        }
        part = next;
    }
}
