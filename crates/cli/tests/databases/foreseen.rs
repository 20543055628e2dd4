//! A restore that would be refused is announced: by `save`, and in the plan.

use crate::scene::Scene;

/// What a superuser did to the database of an ordinary user, what undoes it, and what the announcement names.
const IN_THE_WAY: &[(&str, &str, &str)] = &[
    ("CREATE TYPE theirs AS ENUM ('a')", "DROP TYPE theirs", "type public.theirs"),
    (
        "CREATE OPERATOR <<>> (leftarg = int, rightarg = int, function = int4pl)",
        "DROP OPERATOR <<>> (int, int)",
        "public.<<>>",
    ),
    (
        "CREATE TEXT SEARCH CONFIGURATION theirs (COPY = simple)",
        "DROP TEXT SEARCH CONFIGURATION theirs",
        "public.theirs",
    ),
    ("CREATE EXTENSION citext", "DROP EXTENSION citext", "extension citext"),
    ("CREATE PUBLICATION theirs", "DROP PUBLICATION theirs", "publication theirs"),
    (
        "ALTER DEFAULT PRIVILEGES FOR ROLE other GRANT SELECT ON TABLES TO agent",
        "ALTER DEFAULT PRIVILEGES FOR ROLE other REVOKE SELECT ON TABLES FROM agent",
        "default privileges of: other",
    ),
    // The user may give it to a role that may do nothing in its schema.
    (
        "GRANT other TO agent; CREATE TABLE theirs (a int); ALTER TABLE theirs OWNER TO other",
        "DROP TABLE theirs; REVOKE other FROM agent",
        "table public.theirs",
    ),
    (
        "CREATE SCHEMA mine AUTHORIZATION agent; ALTER DATABASE app OWNER TO postgres; GRANT CREATE ON SCHEMA public TO agent",
        "DROP SCHEMA mine; ALTER DATABASE app OWNER TO agent; REVOKE CREATE ON SCHEMA public FROM agent",
        "may not create schemas",
    ),
    (
        "ALTER DATABASE app OWNER TO postgres",
        "ALTER DATABASE app OWNER TO agent",
        "in the schema public",
    ),
];

#[test]
fn what_an_ordinary_user_could_not_restore_is_announced() {
    let scene = Scene::new();
    scene.server.run(
        "app",
        "DROP TABLE messages, conversations, sessions;
         CREATE ROLE agent LOGIN PASSWORD 'agent'; CREATE ROLE other; ALTER DATABASE app OWNER TO agent;
         CREATE TABLE mine (n int); INSERT INTO mine VALUES (0); ALTER TABLE mine OWNER TO agent;",
    );
    scene.address(&scene.server.url_as("agent:agent", "app"));
    let fine = scene.run(&["save", "fine"]);
    assert!(!format!("{fine:?}").contains("could not be restored"), "{fine:?}");
    for (made, undone, named) in IN_THE_WAY {
        scene.server.run("app", made);
        scene.server.run("app", "UPDATE mine SET n = n + 1");
        let saved = scene.run(&["save", "in the way"]);
        let told = format!("{}{}", saved.answer, saved.words);
        assert!(told.contains("could not be restored") && told.contains(named), "{made}: {told}");
        let id = saved.answer["id"].as_str().unwrap();
        scene.server.run("app", "UPDATE mine SET n = n + 1");
        let before = scene.server.dump("app");
        for how in ["--dry-run", "--confirm"] {
            let refused = scene.run(&["restore", id, how]);
            assert_eq!(refused.code, Some(7), "{made}: {refused:?}");
            let told = format!("{}{}", refused.answer, refused.words);
            assert!(told.contains("--to DIR"), "{made}: {told}");
        }
        assert_eq!(scene.server.dump("app"), before, "{made}");
        scene.server.run("app", undone);
    }
    let id = scene.world.save("fine again");
    scene.server.run("app", "DELETE FROM mine");
    scene.world.json(&["restore", &id, "--confirm"]);
    assert_eq!(scene.server.run("app", "SELECT count(*) FROM mine"), "1");
}

#[test]
fn a_function_named_begin_hides_nothing_and_comes_back() {
    let scene = Scene::new();
    scene.server.run(
        "app",
        "CREATE FUNCTION public.begin(int) RETURNS int LANGUAGE sql AS 'SELECT 1';
         CREATE PROCEDURE public.begin() LANGUAGE sql BEGIN ATOMIC SELECT CASE WHEN true THEN 1 END; END;",
    );
    let dumped = scene.server.dump("app");
    let saved = scene.run(&["save", "begin"]);
    assert_eq!(saved.answer["databases"][0]["row_counts"]["sessions"], 5, "{saved:?}");
    scene.server.run("app", "DROP FUNCTION public.begin(int); DROP TABLE sessions");
    scene.world.json(&["restore", "1", "--confirm"]);
    assert_eq!(scene.server.dump("app"), dumped);
}

#[test]
fn a_dump_that_no_psql_understands_is_announced() {
    let scene = Scene::new();
    // To psql, the name of this column opens a block that never ends.
    scene.server.run(
        "app",
        "CREATE TABLE spans (\"begin\" int); CREATE FUNCTION first() RETURNS int LANGUAGE sql
         BEGIN ATOMIC SELECT \"begin\" FROM spans; END;",
    );
    announced(&scene, "end of a statement");
}

#[test]
fn orphan_rows_behind_disabled_triggers_are_announced() {
    let scene = Scene::new();
    scene.server.run(
        "app",
        "ALTER TABLE messages DISABLE TRIGGER ALL; INSERT INTO messages (of) VALUES (4711)",
    );
    announced(&scene, "messages_of_fkey");
    scene.server.run("app", "INSERT INTO conversations (id) VALUES (4711)");
    let id = scene.world.save("no orphans");
    scene.server.run("app", "DELETE FROM sessions");
    scene.world.json(&["restore", &id, "--confirm"]);
}

#[test]
fn too_small_a_lock_table_is_announced() {
    let settings = ["fsync=off", "max_locks_per_transaction=10", "max_connections=10"];
    let scene = Scene::on(rappel_testing::Postgres::start_with(&settings));
    scene.server.run(
        "app",
        "DO $$ BEGIN FOR i IN 1..25 LOOP EXECUTE format('CREATE TABLE t%s (a serial PRIMARY KEY, b text)', i); END LOOP; END $$",
    );
    announced(&scene, "max_locks_per_transaction");
}

/// The restore of what is there now is announced to be refused, by save and plan, and is.
fn announced(scene: &Scene, named: &str) {
    let saved = scene.run(&["save", "in the way"]);
    let told = format!("{}{}", saved.answer, saved.words);
    assert!(told.contains("could not be restored") && told.contains(named), "{told}");
    scene.server.run("app", "DELETE FROM sessions");
    let id = saved.answer["id"].as_str().unwrap().to_owned();
    for how in ["--dry-run", "--confirm"] {
        let refused = scene.run(&["restore", &id, how]);
        assert_eq!(refused.code, Some(7), "{refused:?}");
        let told = format!("{}{}", refused.answer, refused.words);
        assert!(told.contains(named) && told.contains("--to DIR"), "{told}");
    }
    assert_eq!(scene.server.run("app", "SELECT count(*) FROM sessions"), "0");
    scene.server.run("app", "INSERT INTO sessions VALUES ('again')");
}

#[test]
fn what_a_dump_leaves_out_is_a_warning_of_the_plan() {
    let scene = Scene::new();
    scene.server.run(
        "app",
        "CREATE ROLE other SUPERUSER; SET ROLE other; CREATE EXTENSION hstore VERSION '1.4'; RESET ROLE;
         CREATE TABLE parents (a int); CREATE TABLE children (c int) INHERITS (parents); ALTER TABLE parents ADD b int;
         CREATE MATERIALIZED VIEW sums AS SELECT count(*) FROM sessions;
         ALTER DATABASE app SET work_mem = '8MB';",
    );
    let id = scene.world.save("with more than a dump");
    scene.server.run("app", "DELETE FROM sessions; ALTER DATABASE app SET work_mem = '9MB'");
    let planned = scene.run(&["restore", &id, "--dry-run"]);
    let told = planned.answer["warnings"].to_string();
    for words in [
        "hstore is of version 1.4",
        "hstore belongs to other",
        "table public.children",
        "materialized view public.sums",
        "work_mem = 8MB",
    ] {
        assert!(told.contains(words), "{words}: {planned:?}");
    }
}

#[test]
fn what_an_extension_and_a_transform_are_used_for_is_dropped_in_order() {
    let scene = Scene::new();
    scene.server.run(
        "app",
        "CREATE EXTENSION pg_trgm; CREATE EXTENSION citext;
         CREATE TABLE words (w text, c citext) PARTITION BY LIST (c); CREATE TABLE word PARTITION OF words FOR VALUES IN ('a');
         CREATE INDEX ON words USING gin (w gin_trgm_ops); INSERT INTO words VALUES ('w', 'A');
         CREATE TRANSFORM FOR int LANGUAGE sql (FROM SQL WITH FUNCTION prsd_lextype(internal), TO SQL WITH FUNCTION int4recv(internal));",
    );
    let before = scene.server.dump("app");
    let id = scene.world.save("words");
    scene.server.run("app", "DELETE FROM words");
    scene.world.json(&["restore", &id, "--confirm"]);
    assert_eq!(scene.server.dump("app"), before);
}
