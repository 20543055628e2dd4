//! A fingerprint differs after every commit, and not otherwise.

use rappel_testing::Postgres;

use crate::support::{at, database};

const TABLES: &str = "
    CREATE TABLE t (id int PRIMARY KEY, body text);
    CREATE UNLOGGED TABLE u (id int);
    CREATE SEQUENCE s CACHE 1;
    CREATE ROLE app LOGIN PASSWORD 'pw';
    ALTER TABLE t OWNER TO app; ALTER TABLE u OWNER TO app; ALTER SEQUENCE s OWNER TO app;
    INSERT INTO t SELECT n, 'row' FROM generate_series(1, 100) n;
    INSERT INTO u VALUES (1);
    SELECT nextval('s');";

const CHANGES: &[&str] = &[
    "INSERT INTO t VALUES (1000, 'x')",
    "UPDATE t SET body = 'y' WHERE id = 1",
    "DELETE FROM t WHERE id = 2",
    "COPY t FROM stdin;\n1001\tx\n\\.\n",
    "CREATE TABLE made (id int)",
    "ALTER TABLE t ADD COLUMN more int",
    "CREATE INDEX CONCURRENTLY ON t (body)",
    "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "COMMENT ON TABLE t IS 'words'",
    "GRANT SELECT ON t TO PUBLIC",
    "SELECT lo_from_bytea(4711, 'content')",
    "SELECT lo_put(4711, 0, 'C')",
    "SELECT lo_unlink(4711)",
    "BEGIN; SAVEPOINT a; INSERT INTO t VALUES (1002, 'x'); RELEASE a; COMMIT",
    "SET synchronous_commit = off; INSERT INTO t VALUES (1003, 'x')",
    "INSERT INTO u VALUES (2)",
    "SELECT nextval('s')",
    "SELECT nextval('s')",
    "SELECT setval('s', 77)",
    "TRUNCATE t",
    "DROP TABLE u",
];

#[test]
fn every_commit_is_noticed() {
    let server = Postgres::start();
    server.create("app");
    server.run("app", TABLES);
    // Who may not see the server's processes is told by its log, which also moves by itself.
    for (address, exact) in [(server.url("app"), true), (server.url_as("app:pw", "app"), false)] {
        server.run("app", "BEGIN; DROP TABLE IF EXISTS made; DROP FUNCTION IF EXISTS f; COMMIT");
        let database = at(&address);
        for change in CHANGES {
            let before = database.fingerprint().unwrap();
            if exact {
                assert_eq!(before, database.fingerprint().unwrap(), "before {change}");
            }
            server.run("app", change);
            assert_ne!(before, database.fingerprint().unwrap(), "after {change}");
        }
        server.run(
            "app",
            "DROP INDEX t_body_idx; ALTER TABLE t DROP COLUMN more; CREATE UNLOGGED TABLE u (id int);
             INSERT INTO t SELECT n, 'row' FROM generate_series(1, 100) n; ALTER TABLE u OWNER TO app;",
        );
    }
}

#[test]
fn a_sequence_that_is_set_without_a_transaction_is_noticed() {
    let server = Postgres::start();
    server.create("app");
    // Servers before 15 have no such sequences.
    let made = "DO $$ BEGIN CREATE UNLOGGED SEQUENCE q; EXCEPTION WHEN feature_not_supported THEN CREATE SEQUENCE q; END $$";
    server.run("app", made);
    let database = at(&server.url("app"));
    for value in [7, 500] {
        let before = database.fingerprint().unwrap();
        server.run("app", &format!("SELECT setval('q', {value}, false)"));
        assert_ne!(before, database.fingerprint().unwrap(), "{value}");
    }
}

#[test]
fn a_prepared_transaction_is_noticed_when_it_is_committed() {
    let server = Postgres::start();
    server.create("app");
    server.run("app", TABLES);
    server.run("app", "BEGIN; INSERT INTO t VALUES (1000, 'x'); PREPARE TRANSACTION 'later'");
    let database = database(&server, "app");
    let before = database.fingerprint().unwrap();
    assert_eq!(before, database.fingerprint().unwrap());
    server.run("app", "COMMIT PREPARED 'later'");
    assert_ne!(before, database.fingerprint().unwrap());
}

#[test]
fn nothing_is_noticed_where_nothing_happened() {
    let server = Postgres::start();
    server.create("app");
    server.run("app", TABLES);
    let database = database(&server, "app");
    let before = database.fingerprint().unwrap();
    server.run("app", "SELECT count(*) FROM t");
    server.run("app", "BEGIN; SELECT * FROM t; ROLLBACK");
    server.run("app", "SELECT pg_stat_reset()");
    server.run("app", "CHECKPOINT");
    assert_eq!(before, database.fingerprint().unwrap());
}

#[test]
fn what_follows_a_rollback_or_a_reset_of_the_statistics_is_noticed() {
    let server = Postgres::start();
    server.create("app");
    server.run("app", TABLES);
    let database = database(&server, "app");
    let before = database.fingerprint().unwrap();
    server.run("app", "BEGIN; INSERT INTO t VALUES (1, 'x') ON CONFLICT DO NOTHING; ROLLBACK");
    server.run("app", "SELECT pg_stat_reset()");
    server.run("app", "INSERT INTO t VALUES (1000, 'x')");
    server.run("app", "SELECT pg_stat_reset()");
    assert_ne!(before, database.fingerprint().unwrap());
}

#[test]
fn a_restart_or_a_crash_is_noticed() {
    let mut server = Postgres::start();
    server.create("app");
    server.run("app", TABLES);
    let looks = |server: &Postgres| {
        [database(server, "app"), at(&server.url_as("app:pw", "app"))]
            .map(|database| database.fingerprint().unwrap())
    };
    let first = looks(&server);
    server.down();
    server.up();
    let second = looks(&server);
    server.crash();
    server.up();
    let third = looks(&server);
    assert_eq!(server.run("app", "SELECT count(*) FROM u"), "0", "unlogged tables are emptied");
    let pid =
        server.run("app", "SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'");
    server.kill_backend(&pid);
    // The server notices, ends the others and starts over.
    while server.log().matches("reinitializing").count() < 1 {
        std::thread::yield_now();
    }
    server.wait_until_it_answers();
    let fourth = looks(&server);
    for (before, after) in [(&first, &second), (&second, &third), (&third, &fourth)] {
        for (before, after) in before.iter().zip(after) {
            assert_ne!(before, after);
        }
    }
}
