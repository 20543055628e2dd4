//! What a dump names is what it named when it was made, and a restore runs no function of another user.

use crate::scene::Scene;

/// The user of the project is a superuser. Mallory may create functions beside his tables.
const SHADOWED: &str = "
    CREATE ROLE mallory; GRANT CREATE ON SCHEMA public TO mallory;
    CREATE TABLE pairs (a int, b int, CHECK (num_nonnulls(a, b) = 1),
        one int GENERATED ALWAYS AS (num_nulls(a, b)) STORED);
    INSERT INTO pairs VALUES (1, NULL), (NULL, 2);
    CREATE VIEW texts AS SELECT concat(a, b) AS text FROM pairs;
    CREATE INDEX ON pairs (num_nonnulls(a, b));
    SET ROLE mallory;
    CREATE FUNCTION num_nonnulls(int, int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS
        $$ BEGIN EXECUTE 'ALTER ROLE mallory SUPERUSER'; RETURN 1; END $$;
    CREATE FUNCTION num_nulls(int, int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 77';
    CREATE FUNCTION concat(int, int) RETURNS text LANGUAGE sql AS $$ SELECT 'another' $$;";

#[test]
fn a_function_of_the_same_name_takes_no_place_and_is_not_run() {
    let scene = Scene::new();
    scene.server.run("app", SHADOWED);
    let before = scene.server.dump("app");
    let id = scene.world.save("shadowed");
    scene.server.run("app", "DROP TABLE pairs CASCADE");
    scene.world.json(&["restore", &id, "--confirm"]);
    let super_now = "SELECT rolsuper FROM pg_roles WHERE rolname = 'mallory'";
    assert_eq!(scene.server.run("app", super_now), "f", "the restore ran mallory's function");
    assert_eq!(scene.server.run("app", "SELECT text FROM texts ORDER BY 1"), "1\n2");
    assert_eq!(scene.server.dump("app"), before);
}

/// Both functions come back only where `plain` is found.
const BY_NAME_ALONE: &str = "
    CREATE FUNCTION plain(text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT lower($1)';
    CREATE FUNCTION twice(text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT plain($1) || plain($1)';
    CREATE TABLE notes (text text CHECK (twice(text) <> ''), a int, b int, CHECK (num_nonnulls(a, b) = 1));
    INSERT INTO notes VALUES ('Work', 1, NULL);
    CREATE INDEX ON notes (lower(text));
    CREATE FUNCTION num_nonnulls(int, int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 1';";

#[test]
fn a_name_without_a_schema_is_looked_for_where_only_the_user_may_create() {
    let scene = Scene::new();
    scene.server.run("app", BY_NAME_ALONE);
    let before = scene.server.dump("app");
    let id = scene.world.save("by name");
    scene.server.run("app", "DROP TABLE notes CASCADE");
    let damaged = scene.server.dump("app");
    let restored = scene.world.json(&["restore", &id, "--confirm"]);
    let warnings = restored["warnings"].to_string();
    assert!(warnings.contains("plain(text) does not exist"), "{warnings}");
    assert!(warnings.contains("search_path"), "{warnings}");
    // What the dump itself defines is read with no path: `num_nonnulls` is still the server's.
    assert_eq!(scene.server.dump("app"), before);
    scene.world.json(&["undo"]);
    assert_eq!(scene.server.dump("app"), damaged);
}

#[test]
fn a_name_where_others_may_create_is_not_looked_for_and_the_restore_is_refused() {
    let scene = Scene::new();
    scene.server.run("app", BY_NAME_ALONE);
    scene.server.run("app", "CREATE ROLE other; GRANT CREATE ON SCHEMA public TO other");
    let id = scene.world.save("by name");
    scene.server.run("app", "DROP TABLE notes CASCADE");
    let damaged = scene.server.dump("app");
    let refused = scene.run(&["restore", &id, "--confirm"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.words.contains("plain(text) does not exist"), "{refused:?}");
    assert!(refused.words.contains("only the user and superusers may create"), "{refused:?}");
    assert_eq!(scene.server.dump("app"), damaged);
    assert_eq!(scene.unfinished(), 0);
    // The way out that the hint names.
    scene.server.run("app", "ALTER FUNCTION twice SET search_path = public");
    scene.server.run("app", "CREATE TABLE notes (text text CHECK (twice(text) <> ''))");
    scene.server.run("app", "INSERT INTO notes VALUES ('x')");
    let mended = scene.server.dump("app");
    let id = scene.world.save("mended");
    scene.server.run("app", "DROP TABLE notes");
    scene.world.json(&["restore", &id, "--confirm"]);
    assert_eq!(scene.server.dump("app"), mended);
}

#[test]
fn settings_of_the_user_do_not_change_what_is_loaded() {
    let scene = Scene::new();
    scene.server.run(
        "app",
        "CREATE TABLE lists (l text[]); INSERT INTO lists VALUES (ARRAY['a', NULL]);
         ALTER ROLE postgres SET array_nulls = off; ALTER ROLE postgres SET search_path = 'nowhere'",
    );
    let id = scene.world.save("lists");
    scene.server.run("app", "DROP TABLE public.lists");
    scene.world.json(&["restore", &id, "--confirm"]);
    assert_eq!(scene.server.run("app", "SELECT l[2] IS NULL FROM public.lists"), "t");
}
