//! A database that is not there is put together beside its place.

use std::path::Path;
use std::time::Duration;

use rappel_capture::databases::Error;
use rappel_capture::databases::sqlite::Reachable;

use crate::support::{JOURNALS, never, two_contents, watch};

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
