//! A SQLite database that other processes write to while it is saved, restored and restored again.
//! Every row that a writer was told is committed must be somewhere: in the database, or in a
//! checkpoint.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rappel_testing::Project;
use rusqlite::Connection;

use crate::support::World;

const DATABASE: &str = "RAPPEL_TEST_DATABASE";
const MODE: &str = "RAPPEL_TEST_MODE";
const RECONNECTS: &str = "RAPPEL_TEST_RECONNECTS";

/// How often each writer's database goes back and forth.
const ROUNDS: usize = 3;

fn open(path: &Path, mode: &str) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(Duration::from_secs(30))?;
    // No power is lost here, and a writer that waits for the disk seldom meets anybody.
    connection.execute_batch("PRAGMA synchronous = OFF")?;
    connection.query_row(&format!("PRAGMA journal_mode = {mode}"), [], |_| Ok(()))?;
    Ok(connection)
}

/// Not a test: what the tests below start in another process. It writes rows until its input ends,
/// and says which ones were committed.
#[test]
fn a_writer_in_another_process() {
    let Some(path) = std::env::var_os(DATABASE) else { return };
    let path = Path::new(&path);
    let mode = std::env::var(MODE).unwrap();
    let reconnects = std::env::var_os(RECONNECTS).is_some();
    let over = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _ = std::io::stdin().read(&mut [0]);
            over.store(true, Ordering::Relaxed);
        });
        let mut connection = None;
        let mut row = 0u64;
        while !over.load(Ordering::Relaxed) {
            row += 1;
            let mut write = || {
                let connection = match connection.take() {
                    Some(open) if !reconnects => connection.insert(open),
                    _ => connection.insert(open(path, &mode)?),
                };
                // Several pages, so that a journal is not written in a moment.
                connection.execute(
                    "INSERT INTO written (number, filling) VALUES (?1, randomblob(9000))",
                    [row],
                )
            };
            let said = match write() {
                Ok(_) => format!("@{row}\n"),
                Err(error)
                    if error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy) =>
                {
                    continue;
                }
                Err(error) => format!("@failed: {error}\n"),
            };
            std::io::stdout().write_all(said.as_bytes()).unwrap();
            std::io::stdout().flush().unwrap();
            std::thread::sleep(Duration::from_micros(300));
        }
    });
}

/// Another process that writes.
struct Writer {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
    acknowledged: BTreeSet<u64>,
}

impl Writer {
    fn start(path: &Path, mode: &str, reconnects: bool) -> Self {
        let name = "beside_writers::a_writer_in_another_process";
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", name, "--nocapture", "--test-threads=1"])
            .env(DATABASE, path)
            .env(MODE, mode)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        if reconnects {
            command.env(RECONNECTS, "1");
        }
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut writer = Self { child, lines, acknowledged: BTreeSet::new() };
        writer.write_on(20);
        writer
    }

    /// Waits for this many more rows.
    fn write_on(&mut self, rows: usize) {
        for _ in 0..rows {
            assert!(self.note(), "the writer ended");
        }
    }

    /// Takes note of the next row; `false` at the end.
    fn note(&mut self) -> bool {
        for line in self.lines.by_ref().map_while(Result::ok) {
            // The test harness writes to the same line before.
            if let Some((_, said)) = line.split_once('@') {
                self.acknowledged.insert(said.parse().unwrap_or_else(|_| panic!("{said}")));
                return true;
            }
        }
        false
    }

    fn end(mut self) -> BTreeSet<u64> {
        self.child.stdin.take();
        while self.note() {}
        assert!(self.child.wait().unwrap().success());
        std::mem::take(&mut self.acknowledged)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The rows of a database, which must be sound.
fn rows(path: &Path) -> BTreeSet<u64> {
    let connection = Connection::open(path).unwrap();
    connection.busy_timeout(Duration::from_secs(30)).unwrap();
    let sound: String =
        connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(sound, "ok", "{}", path.display());
    let mut rows = connection.prepare("SELECT number FROM written").unwrap();
    rows.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

/// Saves, restores and undoes beside a writer, and looks for each row of his.
fn nothing_is_lost(mode: &str, reconnects: bool) {
    let context = format!("{mode}, {}", if reconnects { "reconnecting" } else { "connected" });
    let world = World::of(Project::new().file("code", "1\n"));
    let path = world.project.path("local.db");
    let made = open(&path, mode).unwrap();
    made.execute_batch("CREATE TABLE written (number INTEGER, filling BLOB)").unwrap();
    drop(made);
    let empty = world.save("nothing is written yet");

    let mut writer = Writer::start(&path, mode, reconnects);
    let mut checkpoints = Vec::new();
    for _ in 0..ROUNDS {
        let undo = ["undo", "--overwrite", "--confirm"];
        for arguments in [&["save"][..], &["restore", &empty, "--confirm"], &undo] {
            writer.write_on(5);
            let answer = world.json(arguments);
            let made = [&answer["safety_checkpoint"], &answer["id"]];
            checkpoints.extend(made.iter().filter_map(|id| id.as_str()).map(str::to_owned));
        }
    }
    writer.write_on(5);
    let acknowledged = writer.end();

    let mut found = rows(&path);
    for id in checkpoints {
        let folder = world.project.outside().join(&id);
        world.json(&["restore", &id, "--to", folder.to_str().unwrap()]);
        found.extend(rows(&folder.join("local.db")));
    }
    let lost: Vec<_> = acknowledged.difference(&found).collect();
    assert!(lost.is_empty(), "{context}: {lost:?} of {} are lost", acknowledged.len());
}

#[test]
fn no_acknowledged_row_is_lost_with_a_journal_that_is_deleted() {
    nothing_is_lost("delete", false);
    nothing_is_lost("delete", true);
}

#[test]
fn no_acknowledged_row_is_lost_with_a_journal_that_persists() {
    nothing_is_lost("persist", false);
    nothing_is_lost("persist", true);
}

#[test]
fn no_acknowledged_row_is_lost_with_a_journal_that_is_truncated() {
    nothing_is_lost("truncate", false);
    nothing_is_lost("truncate", true);
}

#[test]
fn no_acknowledged_row_is_lost_with_a_write_ahead_log() {
    nothing_is_lost("wal", false);
    nothing_is_lost("wal", true);
}
