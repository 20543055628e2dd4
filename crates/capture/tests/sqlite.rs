//! Databases of SQLite: read in one piece while others write, put back in one transaction.
//!
//! Others are other processes throughout: within one process the locks of two users of a file are
//! the same.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "tests say what they expect by failing"
)]

mod sqlite_support;

use std::collections::BTreeSet;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rappel_capture::databases::sqlite::Reachable;
use rappel_capture::databases::{Error, Fate};
use rappel_capture::files::{Environment, Request, scan};
use rappel_store::{Options, Store};
use rappel_types::config::FilesConfig;
use rappel_types::database::DatabasePart;
use sqlite_support::{ABOVE, DATABASE, Place, ROLE, watch};

fn never() -> &'static AtomicBool {
    static NEVER: AtomicBool = AtomicBool::new(false);
    &NEVER
}

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

/// What the other processes of these tests do; on its own it is no test.
#[test]
fn a_part_in_another_process() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let name = std::env::var(DATABASE).unwrap();
    let place = Place::of_parent(Path::new(&std::env::var_os(ABOVE).unwrap()));
    let told = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _ = std::io::stdin().read(&mut [0]);
            told.store(true, Ordering::Relaxed);
        });
        part(&role, &place, &name, told);
    });
}

fn say(text: impl std::fmt::Display) {
    println!("@{text}");
}

fn wait(told: &AtomicBool) {
    while !told.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn part(role: &str, place: &Place, name: &str, told: &AtomicBool) {
    match role {
        "idle" => {
            let open = place.open(name);
            open.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(())).unwrap();
            say("ready");
            wait(told);
        }
        "lock" => {
            let open = place.open(name);
            open.execute_batch("BEGIN EXCLUSIVE").unwrap();
            say("ready");
            wait(told);
        }
        // Says whether it could write at once.
        "try" => {
            let open = rusqlite::Connection::open(place.path(name)).unwrap();
            say("ready");
            open.busy_timeout(Duration::ZERO).unwrap();
            match open.execute_batch("INSERT INTO t VALUES (99, '')") {
                Ok(()) => say("wrote"),
                Err(error) => say(error),
            }
        }
        // Leaves frames in the log, and ends as if it were killed.
        "leave" => {
            let open = place.open(name);
            open.execute_batch("PRAGMA wal_autocheckpoint = 0; INSERT INTO t VALUES (99)").unwrap();
            say("ready");
            wait(told);
            std::process::exit(0);
        }
        // Moves amounts between accounts; the sum stays. Few frames, so that the log starts over often.
        "transfer" => {
            let open = place.open(name);
            open.execute_batch("PRAGMA wal_autocheckpoint = 15; PRAGMA synchronous = OFF").unwrap();
            say("ready");
            let mut round = 0u64;
            while !told.load(Ordering::Relaxed) {
                round += 1;
                let (a, b) = (round * 7919 % 400, round * 104_729 % 400);
                let moved = open.execute_batch(&format!(
                    "BEGIN IMMEDIATE;
                     UPDATE account SET amount = amount - {round} WHERE id = {a};
                     UPDATE account SET amount = amount + {round} WHERE id = {b};
                     INSERT INTO entry VALUES (zeroblob({}));
                     DELETE FROM entry WHERE rowid < (SELECT max(rowid) FROM entry) - 30;
                     COMMIT",
                    round * 31 % 3000
                ));
                // SQLite does not take turns: the other writer may have been first for all of the time there is.
                if let Err(error) = moved {
                    assert!(error.to_string().contains("locked"), "{error}");
                    let _ = open.execute_batch("ROLLBACK");
                }
            }
        }
        // Adds rows, and says which are committed.
        "append" => {
            let open = place.open(name);
            open.execute_batch("PRAGMA synchronous = OFF").unwrap();
            say("ready");
            let mut row = 0u64;
            while !told.load(Ordering::Relaxed) {
                row += 1;
                match open.execute("INSERT INTO entry VALUES (?1)", [row]) {
                    Ok(_) => say(row),
                    Err(error) => say(format!("error {error}")),
                }
            }
        }
        // Every row has the same tag, whenever one looks.
        "look" => {
            let open = place.open(name);
            say("ready");
            while !told.load(Ordering::Relaxed) {
                let seen = open.query_row("SELECT count(*), min(x), max(x) FROM t", [], |row| {
                    Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?))
                });
                match seen {
                    Ok((3000, 1, 1)) => say("old"),
                    Ok((2000, 2, 2)) => say("new"),
                    Ok(mixed) => say(format!("mixed {mixed:?}")),
                    Err(error) => say(format!("error {error}")),
                }
            }
        }
        "restore" | "restore little" => {
            let part = std::fs::read(place.home.join("target.json")).unwrap();
            let target: DatabasePart = serde_json::from_slice(&part).unwrap();
            say("ready");
            if role == "restore little" {
                wait(told);
                let limit = Some(target.bytes + 1000);
                let limit = rustix::process::Rlimit { current: limit, maximum: limit };
                rustix::process::setrlimit(rustix::process::Resource::Fsize, limit).unwrap();
            }
            let mut restoring = place.database(name).restoring(place.way(name));
            restoring.capture(&place.store, None, &watch()).unwrap();
            restoring.stage(&place.store, &target).unwrap();
            say("staged");
            match restoring.commit() {
                Ok(()) => say("committed"),
                Err(error) => say(format!("error {error}")),
            }
        }
        role => panic!("nobody knows how to {role}"),
    }
}

const JOURNALS: [&str; 3] = ["DELETE", "TRUNCATE", "WAL"];

#[test]
fn nothing_that_this_process_reads_takes_the_locks_of_a_restore_away() {
    for journal in JOURNALS {
        let (place, target) = two_contents(journal);
        place.store.write(&place.home.join("objects"));
        let path = place.path("x.db");
        std::fs::hard_link(&path, place.path("link.db")).unwrap();
        let older = rappel_store::held::open(&path).unwrap();
        let mut restoring = place.database("x.db").restoring(place.way("x.db"));
        restoring.capture(&place.store, None, &watch()).unwrap();

        drop(older);
        let way = place.way("x.db");
        for name in ["x.db", "link.db"] {
            assert!(rappel_store::held::read(place.path(name)).is_err(), "{journal}");
            assert!(way.root.open_file(&name.parse().unwrap()).is_err(), "{journal}");
            let busy = place.database(name).digest(never());
            assert!(matches!(busy, Err(Error::Busy(_))), "{journal}: {busy:?}");
        }
        assert_eq!(journal == "WAL", place.path("x.db-shm").exists());
        assert!(rappel_store::held::read(place.path("x.db-shm")).is_err());
        let request = Request {
            root: &place.path(""),
            config: &FilesConfig::default(),
            environment: &Environment::default(),
            excluded: &[],
            excluded_paths: &[],
            databases: &[],
            cache: None,
            also: &[],
            maybe_changed: None,
            cancel: never(),
            progress: None,
        };
        let scanned = scan(request, &place.store).unwrap();
        assert_eq!(scanned.databases.len(), 2, "{journal}: {:?}", scanned.databases);

        let lines = place.play("try", "x.db").end();
        assert!(lines.iter().all(|line| line.contains("locked")), "{journal}: {lines:?}");
        restoring.stage(&place.store, &target).unwrap();
        restoring.commit().unwrap();
        drop(restoring);
        assert_eq!(place.digest("x.db"), Some(target.digest), "{journal}");
    }
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

/// A database whose rows all say 1, captured, and then another one whose rows all say 2.
fn two_contents(journal: &str) -> (Place, DatabasePart) {
    let place = Place::new();
    let open = place.open("x.db");
    open.execute_batch(&format!(
        "PRAGMA journal_mode = {journal}; CREATE TABLE t (x, pad); CREATE TABLE entry (x);
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)
         INSERT INTO t SELECT 1, hex(randomblob(400)) FROM n;"
    ))
    .unwrap();
    let target = place.capture("x.db", None).part;
    open.execute_batch(
        "UPDATE t SET x = 2, pad = hex(randomblob(200)); DELETE FROM t WHERE rowid > 2000",
    )
    .unwrap();
    drop(open);
    place.store.write(&place.home.join("objects"));
    std::fs::write(place.home.join("target.json"), serde_json::to_vec(&target).unwrap()).unwrap();
    (place, target)
}

#[test]
fn others_see_one_content_or_the_other_and_no_committed_row_is_lost() {
    for journal in JOURNALS {
        let (place, target) = two_contents(journal);
        let mut readers = [place.play("look", "x.db"), place.play("look", "x.db")];
        let mut writers = [place.play("append", "x.db"), place.play("append", "x.db")];
        for reader in &mut readers {
            reader.wait_for("new");
        }
        for writer in &mut writers {
            writer.wait_for("5");
        }
        let safety = place.restore("x.db", &target).unwrap().part;
        for reader in &mut readers {
            reader.wait_for("old");
        }
        let mut said = BTreeSet::new();
        for writer in writers {
            said.extend(writer.end());
        }
        for reader in readers {
            for line in reader.end() {
                assert!(["old", "new"].contains(&&*line), "{journal}: {line}");
            }
        }
        place.create("safety.db", &safety).unwrap();
        let kept: BTreeSet<String> = ["safety.db", "x.db"]
            .iter()
            .flat_map(|name| {
                let open = place.open(name);
                let mut rows = open.prepare("SELECT x FROM entry").unwrap();
                let rows = rows.query_map([], |row| row.get::<_, u64>(0)).unwrap();
                rows.map(|row| row.unwrap().to_string()).collect::<Vec<_>>()
            })
            .collect();
        let lost: Vec<_> = said.difference(&kept).collect();
        assert!(lost.is_empty(), "{journal}: {lost:?}");
        let whole: String =
            place.open("x.db").query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(whole, "ok");
    }
}

#[test]
fn a_restore_that_is_killed_leaves_the_old_content_or_the_new() {
    for journal in JOURNALS {
        let (place, target) = two_contents(journal);
        let from = place.capture("x.db", None).part;
        let mut fates = [0, 0];
        for round in 0..24u64 {
            let mut child = place.play("restore", "x.db");
            child.wait_for("staged");
            std::thread::sleep(Duration::from_micros(round * round * 120));
            child.kill();
            let database = place.database("x.db");
            let fate = database.fate(Some(&from.digest), &target.digest, never()).unwrap();
            let open = place.open("x.db");
            let rows: u64 = open.query_row("SELECT count(*) FROM t", [], |r| r.get(0)).unwrap();
            drop(open);
            match fate {
                Fate::Committed => {
                    fates[1] += 1;
                    assert_eq!(rows, 3000, "{journal}, round {round}");
                    let _ = std::fs::remove_file(place.home.join("staged"));
                    place.restore("x.db", &from).unwrap();
                }
                Fate::Aborted => {
                    fates[0] += 1;
                    assert_eq!(rows, 2000, "{journal}, round {round}");
                }
                Fate::Unknown => panic!("{journal}, round {round}: neither"),
            }
        }
        assert!(fates[0] > 0, "{journal}: none was killed before its end");
    }
}

#[test]
fn a_restore_that_runs_out_of_space_changes_nothing() {
    let (place, target) = two_contents("WAL");
    let before = place.digest("x.db");
    let said = place.play("restore little", "x.db").end();
    assert!(said.iter().any(|line| line == "staged"), "{said:?}");
    assert!(said.iter().any(|line| line.starts_with("error ")), "{said:?}");
    assert_eq!(place.digest("x.db"), before);
    place.restore("x.db", &target).unwrap();
    assert_eq!(place.digest("x.db"), Some(target.digest));
}

#[test]
fn one_that_is_dropped_before_its_commit_changes_nothing() {
    for journal in JOURNALS {
        let (place, target) = two_contents(journal);
        let before = (place.digest("x.db"), std::fs::metadata(place.path("x.db")).unwrap().ino());
        let mut restoring = place.database("x.db").restoring(place.way("x.db"));
        restoring.capture(&place.store, None, &watch()).unwrap();
        restoring.stage(&place.store, &target).unwrap();
        drop(restoring);
        assert!(!place.home.join("staged").exists());
        assert_eq!(place.digest("x.db"), before.0);
        place.restore("x.db", &target).unwrap();
        assert_eq!(std::fs::metadata(place.path("x.db")).unwrap().ino(), before.1, "the same file");
    }
}

#[test]
fn who_is_in_the_way_is_named() {
    let (place, _) = two_contents("DELETE");
    let holder = place.play("lock", "x.db");
    let mut database = place.database("x.db");
    database.patience = Duration::from_millis(50);
    let pid = format!("(pid {})", holder.id());
    let captured = database.capture(&place.store, None, never());
    assert!(matches!(&captured, Err(Error::Busy(text)) if text.contains(&pid)), "{captured:?}");
    let held = database.restoring(place.way("x.db")).capture(&place.store, None, &watch());
    assert!(matches!(&held, Err(Error::Busy(text)) if text.contains(&pid)), "{held:?}");
    holder.end();
    database.capture(&place.store, None, never()).unwrap();
}

#[test]
fn another_page_size_needs_a_database_that_nobody_has_open() {
    for journal in ["DELETE", "WAL"] {
        let (place, target) = two_contents(journal);
        let open = place.open("x.db");
        open.execute_batch(&format!(
            "PRAGMA journal_mode = DELETE; PRAGMA page_size = 1024; VACUUM; PRAGMA journal_mode = {journal}"
        ))
        .unwrap();
        drop(open);
        let before = place.digest("x.db");
        let idle = place.play("idle", "x.db");
        let refused = place.restore("x.db", &target);
        assert!(matches!(refused, Err(Error::Refused { .. })), "{refused:?}");
        assert_eq!(place.digest("x.db"), before);
        idle.end();
        let safety = place.restore("x.db", &target).unwrap().part;
        assert_eq!(place.digest("x.db"), Some(target.digest));
        let mode: String =
            place.open("x.db").query_row("PRAGMA journal_mode", [], |r| r.get(0)).unwrap();
        assert_eq!(mode, journal.to_lowercase());
        place.restore("x.db", &safety).unwrap();
        assert_eq!(place.digest("x.db"), before);
    }
}

#[test]
fn an_absent_one_is_created_and_removed_again() {
    let (place, target) = two_contents("WAL");
    place.create("sub/new.db", &target).unwrap();
    std::fs::remove_file(place.path("sub/new.db")).unwrap();
    std::fs::write(place.path("sub/new.db-wal"), "left over").unwrap();
    let refused = place.create("sub/new.db", &target);
    assert!(matches!(refused, Err(Error::Refused { .. })), "{refused:?}");
    std::fs::remove_file(place.path("sub/new.db-wal")).unwrap();
    place.create("sub/new.db", &target).unwrap();
    assert!(!place.path("sub/new.db.slot").exists());
    assert_eq!(place.digest("sub/new.db"), Some(target.digest.clone()));
    let mode: String =
        place.open("sub/new.db").query_row("PRAGMA journal_mode", [], |r| r.get(0)).unwrap();
    assert_eq!(mode, "wal", "as it was captured");

    let (database, way) = (place.database("sub/new.db"), place.way("sub/new.db"));
    let mut impatient = database.clone();
    impatient.patience = Duration::from_millis(50);
    let idle = place.play("idle", "sub/new.db");
    let busy = impatient.remove(&way, &target.digest, never());
    assert!(matches!(busy, Err(Error::Busy(_))), "{busy:?}");
    idle.end();
    place.open("sub/new.db").execute_batch("INSERT INTO entry VALUES (1)").unwrap();
    let conflict = database.remove(&way, &target.digest, never());
    assert!(matches!(conflict, Err(Error::Conflict(_))), "{conflict:?}");
    let now = place.digest("sub/new.db").unwrap();
    database.remove(&way, &now, never()).unwrap();
    assert_eq!(place.digest("sub/new.db"), None);
    assert_eq!(std::fs::read_dir(place.path("sub")).unwrap().count(), 0);
}

#[test]
fn a_file_that_was_put_in_its_place_is_left_alone() {
    for journal in JOURNALS {
        let (place, target) = two_contents(journal);
        let sql = "CREATE TABLE precious (x); INSERT INTO precious VALUES ('kept nowhere else')";
        place.open("n.db").execute_batch(sql).unwrap();
        let theirs = (place.digest("n.db"), place.dump("n.db"));
        let mut restoring = place.database("x.db").restoring(place.way("x.db"));
        restoring.capture(&place.store, None, &watch()).unwrap();
        restoring.stage(&place.store, &target).unwrap();
        std::fs::rename(place.path("n.db"), place.path("x.db")).unwrap();
        let replaced = restoring.commit();
        assert!(matches!(replaced, Err(Error::Conflict(_))), "{journal}: {replaced:?}");
        drop(restoring);
        assert_eq!((place.digest("x.db"), place.dump("x.db")), theirs, "{journal}");
    }
}

#[test]
fn a_log_that_was_replaced_is_noticed() {
    for suffix in ["-wal", "-shm"] {
        let (place, target) = two_contents("WAL");
        let mut restoring = place.database("x.db").restoring(place.way("x.db"));
        restoring.capture(&place.store, None, &watch()).unwrap();
        restoring.stage(&place.store, &target).unwrap();
        let beside = place.path(&format!("x.db{suffix}"));
        std::fs::copy(&beside, place.path("copy")).unwrap();
        std::fs::rename(place.path("copy"), &beside).unwrap();
        let replaced = restoring.commit();
        assert!(matches!(replaced, Err(Error::Conflict(_))), "{suffix}: {replaced:?}");
    }
}

#[test]
fn one_restore_at_a_time_puts_an_absent_one_together() {
    let (place, target) = two_contents("DELETE");
    let begin = || {
        let mut restoring = place.database("new.db").restoring(place.way("new.db"));
        let absent = restoring.capture(&place.store, None, &watch());
        assert!(matches!(absent, Err(Error::Absent(_))), "{absent:?}");
        restoring
    };
    let (mut first, mut second) = (begin(), begin());
    first.stage(&place.store, &target).unwrap();
    let busy = second.stage(&place.store, &target);
    assert!(matches!(busy, Err(Error::Busy(_))), "{busy:?}");
    drop(second);
    assert!(place.path("new.db.slot").exists(), "it is the first one's");
    // Staged anew by the one that has it.
    first.stage(&place.store, &target).unwrap();
    first.commit().unwrap();
    drop(first);
    assert_eq!(place.digest("new.db"), Some(target.digest.clone()));
    assert!(!place.path("new.db.slot").exists());

    std::fs::remove_file(place.path("new.db")).unwrap();
    let mut third = begin();
    third.stage(&place.store, &target).unwrap();
    std::fs::write(place.path("other"), "theirs").unwrap();
    std::fs::rename(place.path("other"), place.path("new.db.slot")).unwrap();
    let replaced = third.commit();
    assert!(matches!(replaced, Err(Error::Conflict(_))), "{replaced:?}");
    drop(third);
    assert!(!place.path("new.db").exists());
    assert_eq!(std::fs::read(place.path("new.db.slot")).unwrap(), b"theirs");
}

/// Locks a file as a restore does that works on it.
fn work_on(path: &Path) -> std::fs::File {
    let file = std::fs::File::create(path).unwrap();
    rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();
    file
}

#[test]
fn pages_that_another_restore_works_on_stay() {
    let (place, target) = two_contents("WAL");
    let (before, staged) = (place.digest("x.db"), place.home.join("staged"));
    let other = work_on(&staged);
    let busy = place.restore("x.db", &target);
    assert!(matches!(busy, Err(Error::Busy(_))), "{busy:?}");
    assert!(staged.exists());
    assert_eq!(place.digest("x.db"), before);
    drop(other);
    place.restore("x.db", &target).unwrap();
    assert!(!staged.exists());
    assert_eq!(place.digest("x.db"), Some(target.digest));
}

#[test]
fn what_a_crash_left_is_cleared_and_what_is_worked_on_stays() {
    let (place, target) = two_contents("DELETE");
    let reachable = Reachable { database: place.database("new.db"), way: place.way("new.db") };
    let left = [place.path("new.db.slot"), place.home.join("staged")];
    rappel_capture::databases::Database::clear(&reachable).unwrap();
    let working = left.each_ref().map(|path| work_on(path));
    rappel_capture::databases::Database::clear(&reachable).unwrap();
    assert!(left.iter().all(|path| path.exists()));
    drop(working);
    rappel_capture::databases::Database::clear(&reachable).unwrap();
    assert!(left.iter().all(|path| !path.exists()));
    std::fs::write(&left[0], "half of a database").unwrap();
    place.create("new.db", &target).unwrap();
    assert_eq!(place.digest("new.db"), Some(target.digest));
}

#[test]
fn an_absent_one_has_no_fingerprint_to_go_by() {
    let place = Place::new();
    for name in ["none.db", "no/folder.db"] {
        let found = place.database(name).fingerprint();
        assert!(matches!(found, Err(Error::Absent(_))), "{found:?}");
    }
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

#[test]
fn equal_fingerprints_mean_that_nothing_was_committed() {
    let place = Place::new();
    let open = place.open("x.db");
    open.execute_batch("PRAGMA mmap_size = 1000000; CREATE TABLE t (x)").unwrap();
    let database = place.database("x.db");
    let mut believed = 0;
    for round in 0..300 {
        match round % 60 {
            0 => open.execute_batch("PRAGMA journal_mode = WAL").unwrap(),
            20 => open.execute_batch("PRAGMA journal_mode = DELETE").unwrap(),
            40 => open.execute_batch("PRAGMA journal_mode = PERSIST").unwrap(),
            30 => open.execute_batch("PRAGMA locking_mode = EXCLUSIVE").unwrap(),
            35 => open.execute_batch("PRAGMA locking_mode = NORMAL").unwrap(),
            _ => {}
        }
        // Often within the same tick, sometimes long after.
        if round % 7 == 0 {
            std::thread::sleep(Duration::from_millis(25));
        }
        let before = database.fingerprint().unwrap();
        assert!(before.is_none() || database.fingerprint().unwrap() == before);
        let sql = match round % 3 {
            0 => "INSERT INTO t VALUES (1)",
            1 => "UPDATE t SET x = x + 1",
            _ => "PRAGMA wal_checkpoint; UPDATE t SET x = x + 1",
        };
        open.execute_batch(sql).unwrap();
        let after = database.fingerprint().unwrap();
        assert!(before.is_none() || before != after, "round {round}");
        believed += u32::from(before.is_some());
    }
    assert!(believed > 20);
}

#[test]
fn counters_and_journal_modes_are_no_content() {
    let place = Place::new();
    place.open("x.db").execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES (5)").unwrap();
    let first = place.capture("x.db", None).part;
    place
        .open("x.db")
        .execute_batch("PRAGMA journal_mode = WAL; UPDATE t SET x = 6; UPDATE t SET x = 5")
        .unwrap();
    let second = place.capture("x.db", Some(&first)).part;
    assert_eq!(second.digest, first.digest);
    place.open("x.db").execute_batch("PRAGMA journal_mode = DELETE").unwrap();
    assert_eq!(place.capture("x.db", Some(&first)).part.tree, first.tree);
    place.open("x.db").execute_batch("PRAGMA user_version = 3").unwrap();
    assert_ne!(place.capture("x.db", Some(&first)).part.digest, first.digest);
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
