//! Putting a database back in one transaction, whoever has it open and whatever fails.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use rappel_capture::databases::{Error, Fate};
use rappel_capture::files::{Environment, Request, scan};
use rappel_testing::cannot_run;
use rappel_testing::killed::{Steps, some_of, sqlite_files, was_killed};
use rappel_types::config::FilesConfig;

use crate::support::{JOURNALS, never, two_contents, watch};

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
            first: None,
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
        let Some(steps) = Steps::of(sqlite_files(&place.path("x.db"))) else {
            return cannot_run("processes cannot be traced (strace)");
        };
        let again = || {
            let _ = std::fs::remove_file(place.home.join("staged"));
            place.restore("x.db", &from).unwrap();
        };
        // Twice: from then on, each round finds the file as the one before did.
        for _ in 0..2 {
            let whole = place.play_under(steps.counting(), "restore", "x.db").ended();
            assert!(!was_killed(whole));
            again();
        }
        let made = steps.made();
        let mut fates = Vec::new();
        // At both ends step by step: there SQLite decides which content counts.
        for step in some_of(&made, 6, 4) {
            let child = place.play_under(steps.killing_at(step), "restore", "x.db");
            assert!(was_killed(child.ended()), "{journal}, {step:?}");
            let database = place.database("x.db");
            let fate = database.fate(Some(&from.digest), &target.digest, never()).unwrap();
            let open = place.open("x.db");
            let rows: u64 = open.query_row("SELECT count(*) FROM t", [], |r| r.get(0)).unwrap();
            drop(open);
            match fate {
                Fate::Committed => assert_eq!(rows, 3000, "{journal}, {step:?}"),
                Fate::Aborted => assert_eq!(rows, 2000, "{journal}, {step:?}"),
                Fate::Unknown => panic!("{journal}, {step:?}: neither"),
            }
            let is_done = fate == Fate::Committed;
            fates.push(is_done);
            if is_done {
                again();
            }
        }
        assert!(!fates[0] && fates.is_sorted(), "{journal}: {fates:?}");
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
