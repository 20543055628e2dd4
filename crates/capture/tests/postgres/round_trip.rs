//! What is captured comes back, whatever happened in between.

use std::sync::atomic::{AtomicU64, Ordering};

use rappel_capture::databases::postgres::Pace;
use rappel_store::Cancel;
use rappel_testing::MemoryStore;

use crate::support::{ZOO, capture, database, restore, server_with};

/// What an agent does to a development database, in several ways.
const DAMAGES: &[&str] = &[
    // As `migrate reset` does it.
    "DROP EVENT TRIGGER watch; DROP SCHEMA app CASCADE; DROP SCHEMA public CASCADE; CREATE SCHEMA public;
     CREATE TABLE fresh (id serial); INSERT INTO fresh DEFAULT VALUES;",
    // Other things of the same names.
    "DROP EVENT TRIGGER watch; DROP SCHEMA \"odd schema\" CASCADE; DROP TABLE base CASCADE; CREATE VIEW base AS SELECT 1 AS one;
     ALTER TABLE app.parents ADD COLUMN more text; ALTER TYPE app.mood ADD VALUE 'new';
     DROP FUNCTION app.as_string; CREATE FUNCTION app.as_string(int) RETURNS int LANGUAGE sql AS 'SELECT 1';",
    // New things of every kind.
    "ALTER EVENT TRIGGER watch DISABLE;
     CREATE SCHEMA later_schema; CREATE TABLE later_schema.t (id int); CREATE TABLE later_table (p app.pair, m app.mood);
     CREATE TYPE later_type AS ENUM ('a'); CREATE DOMAIN later_domain AS text; CREATE TYPE later_pair AS (a int);
     CREATE FUNCTION later_function(later_type, text DEFAULT ')') RETURNS int LANGUAGE sql AS 'SELECT 1';
     CREATE PROCEDURE later_procedure() LANGUAGE sql AS 'SELECT 1';
     CREATE AGGREGATE later_total (int) (sfunc = int4pl, stype = int);
     CREATE AGGREGATE later_set (ORDER BY int) (sfunc = int4_sum, stype = bigint);
     CREATE OPERATOR <<+>> (leftarg = int, rightarg = int, function = int4pl);
     CREATE OPERATOR FAMILY later_family USING btree;
     CREATE COLLATION later_collation FROM \"C\"; CREATE TEXT SEARCH CONFIGURATION later_words (COPY = simple);
     CREATE CAST (later_type AS bigint) WITH INOUT; CREATE EXTENSION hstore; CREATE SEQUENCE later_sequence;
     CREATE MATERIALIZED VIEW later_view AS SELECT * FROM app.parents;
     CREATE STATISTICS later_numbers ON a, b FROM derived;",
    // Rows, grants, owners, large objects.
    "ALTER EVENT TRIGGER watch DISABLE; DELETE FROM app.children WHERE id = 2; TRUNCATE bytes;
     SELECT lo_unlink(4711); SELECT lo_put(4712, 0, 'changed'); SELECT lo_from_bytea(99, 'new');
     ALTER SCHEMA app OWNER TO postgres; REVOKE ALL ON SCHEMA public FROM PUBLIC; COMMENT ON SCHEMA public IS 'mine';
     ALTER SCHEMA public OWNER TO zoo_owner; GRANT SELECT ON ALL TABLES IN SCHEMA app TO PUBLIC;
     ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC; DROP PUBLICATION news;
     ALTER DEFAULT PRIVILEGES FOR ROLE zoo_owner IN SCHEMA public GRANT ALL ON TABLES TO zoo_reader;
     CREATE PUBLICATION everything FOR ALL TABLES; SELECT setval('app.counter', 700); COMMENT ON EXTENSION citext IS NULL;
     DROP SERVER elsewhere CASCADE; DROP EXTENSION citext CASCADE;",
    // What only newer servers know.
    r"ALTER EVENT TRIGGER watch DISABLE; DROP SCHEMA newer CASCADE;
     SELECT current_setting('server_version_num')::int >= 180000 AS from_18 \gset
     \if :from_18
     ALTER DEFAULT PRIVILEGES FOR ROLE zoo_owner REVOKE ALL ON LARGE OBJECTS FROM zoo_owner;
     ALTER DEFAULT PRIVILEGES FOR ROLE zoo_owner GRANT UPDATE ON LARGE OBJECTS TO zoo_reader;
     \endif",
];

#[test]
fn one_of_everything_comes_back() {
    let server = server_with(ZOO);
    let database = database(&server, "app");
    let store = MemoryStore::default();
    let dumped = server.dump("app");
    let target = capture(&database, &store).part;
    // Before 15 pg_dump tells neither the owner of the schema `public`, nor its rights where it was dropped and made anew.
    let told = database.versions().unwrap().client.major >= 15;
    for damage in DAMAGES.iter().filter(|damage| told || !damage.contains("SCHEMA public")) {
        server.run("app", damage);
        let damaged = server.dump("app");
        assert_ne!(damaged, dumped);
        let safety = restore(&database, &store, &target).unwrap();
        assert_eq!(server.dump("app"), dumped, "after {damage}");
        assert_eq!(capture(&database, &store).part.digest, target.digest);
        // And the way back: what the restore displaced is in the safety dump.
        restore(&database, &store, &safety.part).unwrap();
        assert_eq!(server.dump("app"), damaged, "back to {damage}");
        restore(&database, &store, &target).unwrap();
        assert_eq!(server.dump("app"), dumped);
    }
}

/// Since version 17 the server itself does not let them be made.
const CALLS_BY_NAME_ALONE: &str = r"
    CREATE TABLE notes (text text CHECK (length(text) > 0));
    INSERT INTO notes VALUES ('Work');
    CREATE FUNCTION plain(text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT lower($1)';
    CREATE FUNCTION twice(text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT plain($1) || plain($1)';
    ALTER TABLE notes ADD CHECK (twice(text) <> '');
    SELECT current_setting('server_version_num')::int < 170000 AS before_17 \gset
    \if :before_17
    CREATE INDEX ON notes (twice(text));
    CREATE TABLE made (text text, doubled text GENERATED ALWAYS AS (twice(text)) STORED);
    INSERT INTO made VALUES ('x');
    CREATE MATERIALIZED VIEW seen AS SELECT twice(text) FROM notes;
    \endif";

#[test]
fn functions_that_call_others_by_name_alone_come_back() {
    let server = server_with(CALLS_BY_NAME_ALONE);
    let database = database(&server, "app");
    let store = MemoryStore::default();
    let before = server.dump("app");
    let target = capture(&database, &store).part;
    server.run("app", "DROP FUNCTION plain CASCADE; DROP TABLE notes CASCADE");
    restore(&database, &store, &target).unwrap();
    assert_eq!(server.dump("app"), before);
}

#[test]
fn tables_and_rows_are_counted() {
    let server = server_with(ZOO);
    let target = capture(&database(&server, "app"), &MemoryStore::default()).part;
    assert!(target.tables.is_sorted());
    let rows = |table: &str| target.row_counts.get(table).copied();
    assert_eq!(rows("app.parents"), Some(2));
    assert_eq!(rows("app.log_2025"), Some(1));
    assert_eq!(rows("empty_table"), Some(0));
    assert_eq!(rows("no_columns"), Some(1));
    assert_eq!(rows("Odd \"name\" – ñ"), Some(5));
    assert_eq!(rows("base"), Some(0), "what inherits is counted by itself");
    assert_eq!(target.bytes, server.dump("app").len() as u64);
}

#[test]
fn an_unchanged_database_gives_an_equal_dump() {
    let server = server_with(ZOO);
    let database = database(&server, "app");
    let store = MemoryStore::default();
    let first = capture(&database, &store);
    let second = capture(&database, &store);
    assert_eq!(first.part, second.part);
    assert_eq!(first.fingerprint, second.fingerprint);
}

#[test]
fn a_capture_is_followed_and_can_be_ended() {
    let server = server_with(
        "CREATE TABLE t AS SELECT n, repeat('x', 100) AS x FROM generate_series(1, 20000) n",
    );
    let database = database(&server, "app");
    let store = MemoryStore::default();
    let told = AtomicU64::new(0);
    let progress = |bytes: u64| told.store(bytes, Ordering::Relaxed);
    let pace = Pace { progress: Some(&progress), cancel: None };
    let part = database.capture(&store, None, &pace).unwrap().part;
    assert!(told.load(Ordering::Relaxed) >= part.bytes);

    let cancel = Cancel::default();
    let progress = |_: u64| cancel.cancel();
    let pace = Pace { progress: Some(&progress), cancel: Some(&cancel) };
    let error = database.capture(&store, None, &pace).unwrap_err();
    assert!(error.to_string().contains("cancelled"), "{error}");
}
