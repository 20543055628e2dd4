//! The room that a restore needs in the server's table of locks.

use rappel_capture::databases::{Error, Watch};
use rappel_testing::{MemoryStore, Postgres};

use crate::support::{capture, database, patient};

/// Fifty of several kinds of objects.
const SHAPES: [&str; 6] = [
    "CREATE TABLE t%1$s (a int)",
    "CREATE TABLE t%1$s (a serial PRIMARY KEY, b text, c int); CREATE INDEX ON t%1$s (c)",
    "CREATE TABLE t%1$s (a int GENERATED ALWAYS AS IDENTITY UNIQUE, b text REFERENCES whole (b))",
    "CREATE TABLE t%1$s PARTITION OF parts FOR VALUES IN (%1$s)",
    "CREATE VIEW v%1$s AS SELECT 1 AS a; CREATE MATERIALIZED VIEW m%1$s AS SELECT 1 AS a; CREATE TYPE e%1$s AS ENUM (''a'')",
    "CREATE SCHEMA s%1$s; CREATE FUNCTION f%1$s() RETURNS int LANGUAGE sql AS ''SELECT 1''",
];

#[test]
fn what_the_lock_table_takes() {
    let small =
        Postgres::start_with(&["fsync=off", "max_locks_per_transaction=10", "max_connections=10"]);
    let large = Postgres::start_with(&["fsync=off", "max_locks_per_transaction=1000"]);
    let store = MemoryStore::default();
    for (number, shape) in SHAPES.iter().enumerate() {
        let name = format!("app{number}");
        let made = format!(
            "CREATE TABLE whole (b text PRIMARY KEY); CREATE TABLE parts (a int PRIMARY KEY, b text) PARTITION BY LIST (a);
             DO $$ BEGIN FOR i IN 1..50 LOOP EXECUTE format('{shape}', i); COMMIT; END LOOP; END $$"
        );
        for server in [&small, &large] {
            server.create(&name);
            server.run(&name, &made);
        }
        let target = capture(&database(&small, &name), &store).part;
        let refused = database(&small, &name).check(&store, &target, false);
        // Few objects have room everywhere.
        let Err(Error::Refused { message, .. }) = refused else { continue };
        let foreseen: u64 = message
            .split_once("about ")
            .and_then(|(_, rest)| rest.split(' ').next()?.parse().ok())
            .unwrap_or_else(|| panic!("{message}"));
        let target = capture(&database(&large, &name), &store).part;
        let mut restoring = database(&large, &name).restoring(patient()).unwrap();
        restoring.capture(&store, None, &Watch::nobody()).unwrap();
        restoring.stage(&store, &target).unwrap();
        // One object takes one place, in however many ways it is locked.
        let taken = large.run(
            "postgres",
            "SELECT count(DISTINCT (locktype, database, relation, transactionid::text, virtualxid, classid, objid, objsubid))
             FROM pg_locks WHERE NOT fastpath",
        );
        let taken: u64 = taken.parse().unwrap();
        assert!(taken <= foreseen, "{shape}: {taken} were taken, {foreseen} foreseen");
        assert!(
            foreseen <= taken * 5 / 4 + 150,
            "{shape}: {taken} were taken, {foreseen} foreseen"
        );
    }
}
