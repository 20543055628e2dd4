//! What other processes do with a database while it is saved or restored.

use std::io::Read;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rappel_types::database::DatabasePart;

use crate::support::{ABOVE, DATABASE, Place, ROLE, watch};

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
        // Moves amounts between accounts; the sum stays. Few frames, so that the log starts over
        // often.
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
                // SQLite does not take turns: the other writer may have been first for all of the
                // time there is.
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
