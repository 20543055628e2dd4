//! Others go on working while a database is captured and restored, and processes die at bad moments.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};

use rappel_capture::databases::{Fate, Restoring, Watch, dump};
use rappel_testing::killed::{Steps, some_of, was_killed};
use rappel_testing::{MemoryStore, Postgres, cannot_run};
use rappel_types::database::{DatabaseKind, DatabasePart, Ticket};

use crate::support::{at, capture, database, patient, server_with};

/// A database of pgbench's, with one branch for each client.
fn bench() -> Postgres {
    let server = server_with("SELECT 1");
    assert!(server.pgbench("app").args(["-i", "-q", "-s", "2"]).status().unwrap().success());
    server
}

/// The sum of a column of numbers in the rows of a table in a dump, and how many rows there are.
fn sum(dump: &str, table: &str, column: usize) -> (i64, usize) {
    let begin = format!("COPY public.{table} ");
    let rows = dump.split_once(&begin).unwrap().1.split_once('\n').unwrap().1;
    let rows: Vec<&str> = rows.lines().take_while(|line| *line != "\\.").collect();
    let number = |line: &&str| line.split('\t').nth(column).unwrap().parse::<i64>().unwrap();
    (rows.iter().map(number).sum(), rows.len())
}

fn text(store: &MemoryStore, part: &DatabasePart) -> String {
    let mut text = Vec::new();
    dump::write_to(store, &part.into(), &mut text).unwrap();
    String::from_utf8(text).unwrap()
}

#[test]
fn a_capture_under_load_is_of_one_moment() {
    let server = bench();
    let database = database(&server, "app");
    let mut load = server.pgbench("app").args(["-c", "2", "-T", "600", "-n"]).spawn().unwrap();
    for _ in 0..3 {
        let before = server.run("app", "SELECT count(*) FROM pgbench_history");
        while server.run("app", "SELECT count(*) FROM pgbench_history") == before {
            std::thread::yield_now();
        }
        let store = MemoryStore::default();
        let dump = text(&store, &capture(&database, &store).part);
        let (accounts, _) = sum(&dump, "pgbench_accounts", 2);
        let (branches, _) = sum(&dump, "pgbench_branches", 1);
        let (tellers, _) = sum(&dump, "pgbench_tellers", 2);
        let (history, rows) = sum(&dump, "pgbench_history", 3);
        assert!(rows > 0);
        assert_eq!((accounts, branches, tellers), (history, history, history));
    }
    load.kill().unwrap();
    load.wait().unwrap();
}

#[test]
fn a_table_that_is_rewritten_while_the_dump_waits_for_it_is_not_empty() {
    let server = server_with("CREATE TABLE t AS SELECT generate_series(1, 1000) a");
    let database = database(&server, "app");
    let mut migration = server.psql_command("app");
    let mut migration = migration.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut tell = migration.stdin.take().unwrap();
    writeln!(tell, "BEGIN; ALTER TABLE t ALTER a TYPE bigint USING a + 0; SELECT 'held';").unwrap();
    let mut heard = BufReader::new(migration.stdout.take().unwrap()).lines();
    assert!(heard.any(|line| line.unwrap().contains("held")));
    let captured = std::thread::scope(|scope| {
        let capturing = scope.spawn(|| capture(&database, &MemoryStore::default()));
        let waits = "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)";
        while server.run("postgres", waits).trim() == "f" {
            std::thread::yield_now();
        }
        writeln!(tell, "COMMIT;").unwrap();
        capturing.join().unwrap()
    });
    assert_eq!(captured.part.row_counts["t"], 1000);
    drop(tell);
    migration.wait().unwrap();
}

#[test]
fn a_restore_under_load_loses_no_committed_row() {
    let server = bench();
    let database = database(&server, "app");
    let store = MemoryStore::default();
    let target = capture(&database, &store).part;
    let mut load = server.pgbench("app");
    let mut load =
        load.args(["-c", "4", "-t", "400", "-n"]).stdout(Stdio::piped()).spawn().unwrap();
    while server.run("app", "SELECT count(*) > 20 FROM pgbench_history") == "f" {
        std::thread::yield_now();
    }
    let mut restoring = database.restoring(patient()).unwrap();
    let safety = restoring.capture(&store, Some(&target), &Watch::nobody()).unwrap().part;
    restoring.stage(&store, &target).unwrap();
    restoring.commit().unwrap();
    drop(restoring);
    let mut report = String::new();
    load.stdout.take().unwrap().read_to_string(&mut report).unwrap();
    load.wait().unwrap();
    let done = report
        .lines()
        .find_map(|line| line.strip_prefix("number of transactions actually processed: "));
    let done: u64 = done.unwrap().split('/').next().unwrap().trim().parse().unwrap();
    let saved = safety.row_counts["pgbench_history"];
    let after: u64 = server.run("app", "SELECT count(*) FROM pgbench_history").parse().unwrap();
    assert!(saved > 20);
    assert_eq!(saved + after, done, "{report}");
}

/// Not a test: what the test below starts and kills. Says what it has done so far.
#[test]
fn a_restore_to_be_killed() {
    let Ok(url) = std::env::var("RAPPEL_TEST_RESTORE_URL") else { return };
    let text = std::fs::read_to_string(std::env::var("RAPPEL_TEST_RESTORE_DUMP").unwrap()).unwrap();
    let store = MemoryStore::default();
    let stored = dump::store(&store, &mut text.as_bytes(), None).unwrap();
    let target = DatabasePart {
        name: "app".to_owned(),
        kind: DatabaseKind::Postgres,
        tables: Vec::new(),
        row_counts: std::collections::BTreeMap::new(),
        bytes: stored.bytes,
        as_of: None,
        stale: false,
        tree: stored.tree,
        digest: stored.digest,
        location: None,
        definition: None,
        obstacle: None,
        flaw: None,
        left_out: Vec::new(),
    };
    let database = at(&url);
    let mut restoring = database.restoring(patient()).unwrap();
    let ticket = restoring.ticket().unwrap();
    println!("\nticket {} {}", ticket.server, ticket.transaction);
    restoring.capture(&store, None, &Watch::nobody()).unwrap();
    println!("\ncaptured");
    restoring.stage(&store, &target).unwrap();
    println!("\nstaged");
    restoring.commit().unwrap();
    println!("\ncommitted");
}

#[test]
fn a_killed_restore_is_old_or_new_and_the_server_knows_which() {
    let server = server_with(
        "CREATE TABLE t (id int PRIMARY KEY, body text);
         INSERT INTO t SELECT n, repeat('x', 200) FROM generate_series(1, 20000) n;",
    );
    let new = server.dump("app");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("dump.sql");
    std::fs::write(&file, &new).unwrap();
    let database = database(&server, "app");
    let Some(steps) = Steps::of([]) else {
        return cannot_run("processes cannot be traced (strace)");
    };
    // What the server knew before and after, and what it says of the transaction that was begun.
    let restore = |mut command: Command| {
        server.run("app", "DROP TABLE IF EXISTS t; DROP TABLE IF EXISTS old; CREATE TABLE old (id int); INSERT INTO old VALUES (1);");
        let old = server.dump("app");
        let output = command
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "racing::a_restore_to_be_killed", "--nocapture"])
            .env("RAPPEL_TEST_RESTORE_URL", server.url("app"))
            .env("RAPPEL_TEST_RESTORE_DUMP", &file)
            .output()
            .unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        let ticket = said.lines().find_map(|line| line.strip_prefix("ticket "));
        let ticket = ticket.and_then(|words| words.split_once(' '));
        let fate = ticket.map_or(Fate::Aborted, |(server, transaction)| {
            let (server, transaction) = (server.to_owned(), transaction.to_owned());
            database.fate(&Ticket { server, transaction }).unwrap()
        });
        let expected = match fate {
            Fate::Committed => &new,
            Fate::Aborted => &old,
            Fate::Unknown => panic!("killed after {said}"),
        };
        assert_eq!(&server.dump("app"), expected, "killed after {said}");
        (fate, was_killed(output.status))
    };
    assert_eq!(restore(steps.counting()), (Fate::Committed, false));
    let made = steps.made();
    let some = some_of(&made, 4, 5);
    let fates: Vec<_> = some.into_iter().map(|step| restore(steps.killing_at(step))).collect();
    assert!(fates.iter().all(|(_, killed)| *killed), "{fates:?}");
    assert_eq!(fates[0].0, Fate::Aborted);
    assert_eq!(fates[fates.len() - 1].0, Fate::Committed, "the last step says that it is done");
}

#[test]
fn a_server_that_dies_in_the_middle_is_as_it_was() {
    let mut server = server_with("CREATE TABLE t (id int); INSERT INTO t VALUES (1);");
    let database = database(&server, "app");
    let store = MemoryStore::default();
    let target = capture(&database, &store).part;
    server.run("app", "DROP TABLE t");
    let before = server.dump("app");
    let mut restoring: Box<dyn Restoring + '_> = database.restoring(patient()).unwrap();
    restoring.capture(&store, None, &Watch::nobody()).unwrap();
    restoring.stage(&store, &target).unwrap();
    let ticket = restoring.ticket().unwrap();
    server.crash();
    let error = restoring.commit().unwrap_err();
    drop(restoring);
    server.up();
    assert_eq!(database.fate(&ticket).unwrap(), Fate::Aborted, "{error}");
    assert_eq!(server.dump("app"), before);
}
