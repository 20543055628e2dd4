//! Whether a database changed, and what is no change.

use std::time::Duration;

use rappel_capture::databases::Error;

use crate::support::{Place, two_contents, watch};

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
fn an_absent_one_has_no_fingerprint_to_go_by() {
    let place = Place::new();
    for name in ["none.db", "no/folder.db"] {
        let found = place.database(name).fingerprint();
        assert!(matches!(found, Err(Error::Absent(_))), "{found:?}");
    }
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
