//! What a restore refuses, and that it has changed nothing then.

use std::process::Command;

use rappel_testing::cannot_run;
use rustix::process::geteuid;

use crate::scene::{Ran, Scene, files_below};

#[test]
fn who_holds_a_table_is_named_and_can_be_disconnected() {
    let scene = Scene::whole();
    let target = scene.portrait();
    let id = scene.world.save("whole");
    scene.damage();
    let before = scene.portrait();
    let holder = scene.holder("LOCK TABLE sessions IN ROW EXCLUSIVE MODE");
    let refused = scene.run(&["restore", &id, "--confirm"]);
    assert_eq!(refused.code, Some(5), "{refused:?}");
    for word in ["application migration", "pid ", "query started", "--terminate-connections"] {
        assert!(refused.words.contains(word), "{word}: {refused:?}");
    }
    assert_eq!(scene.unfinished(), 0);
    let ran = scene.run(&["restore", &id, "--confirm", "--terminate-connections"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    drop(holder);
    assert_eq!(scene.portrait(), target);
    scene.world.json(&["undo"]);
    assert_eq!(scene.portrait(), before, "the refused one had changed nothing");
}

#[test]
fn a_reader_in_the_way_of_sqlite_is_waited_for_and_then_nothing_is_done() {
    let scene = Scene::whole();
    // Without a log beside it, nobody may read a file of SQLite while it is written.
    scene.sqlite("PRAGMA journal_mode = DELETE");
    let target = scene.portrait();
    let id = scene.world.save("whole");
    scene.damage();
    let before = scene.portrait();
    let reader = rusqlite::Connection::open(scene.world.project.path("local.db")).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM notes").unwrap();
    let refused = scene.run(&["restore", &id, "--confirm"]);
    assert_eq!(refused.code, Some(5), "{refused:?}");
    assert!(refused.words.contains("local.db"), "{refused:?}");
    assert_eq!(scene.portrait(), before);
    assert_eq!(scene.unfinished(), 0);
    reader.execute_batch("COMMIT").unwrap();
    scene.world.json(&["restore", &id, "--confirm"]);
    assert_eq!(scene.portrait(), target);
}

#[test]
fn a_dump_that_fails_in_its_last_statement_takes_everything_back() {
    let scene = Scene::whole();
    // Refreshed at the end of the dump, by way of something that is not in it.
    scene.server.run(
        "app",
        "CREATE ROLE needed; CREATE MATERIALIZED VIEW last AS
           SELECT 1 / count(*) AS one FROM pg_roles WHERE rolname = 'needed'",
    );
    let id = scene.world.save("whole");
    scene.damage();
    scene.server.run("app", "DROP ROLE needed");
    let before = scene.portrait();
    let failed = scene.run(&["restore", &id, "--confirm"]);
    assert_eq!(failed.code, Some(1), "{failed:?}");
    assert!(failed.words.contains("division by zero"), "{failed:?}");
    assert_eq!(scene.portrait(), before);
    assert_eq!(scene.unfinished(), 0);
    scene.server.run("app", "CREATE ROLE needed");
    scene.world.json(&["restore", &id, "--confirm"]);
    assert_eq!(scene.server.run("app", "SELECT one FROM last"), "1");
}

#[test]
fn a_role_that_is_gone_is_named_in_the_plan() {
    let scene = Scene::new();
    scene.server.run("app", "CREATE ROLE clerk; ALTER TABLE sessions OWNER TO clerk");
    let target = scene.server.dump("app");
    let id = scene.world.save("owned");
    scene.server.run("app", "ALTER TABLE sessions OWNER TO postgres; DROP ROLE clerk");
    let before = scene.server.dump("app");
    for arguments in [["restore", &id, "--dry-run"], ["restore", &id, "--confirm"]] {
        let refused = scene.run(&arguments);
        assert_eq!(refused.code, Some(7), "{refused:?}");
        let told = format!("{}{}", refused.answer, refused.words);
        assert!(told.contains("clerk"), "{refused:?}");
    }
    assert_eq!(scene.server.dump("app"), before);
    scene.server.run("app", "CREATE ROLE clerk");
    scene.world.json(&["restore", &id, "--confirm"]);
    assert_eq!(scene.server.dump("app"), target);
}

#[test]
fn a_server_that_may_be_elsewhere_needs_its_name() {
    let scene = Scene::new();
    // Where a service is, only its file says: here, or where the next host is.
    let services = scene.world.project.outside().join("services");
    let host = scene.server.host().display().to_string();
    let serve = |host: &str| {
        std::fs::write(&services, format!("[dev]\nhost={host}\nuser=postgres\n")).unwrap();
    };
    serve(&format!("{host},192.0.2.1"));
    scene.address("postgres:///app?service=dev");
    let run = |arguments: &[&str]| {
        let mut command = scene.world.command(&[arguments, &["--json"]].concat());
        Ran::of(&command.env("PGSERVICEFILE", &services).output().unwrap())
    };
    let saved = run(&["save", "captured all the same"]);
    assert_eq!(saved.answer["databases"][0]["row_counts"]["sessions"], 5, "{saved:?}");
    scene.server.run("app", "DELETE FROM sessions");
    for how in ["--dry-run", "--confirm"] {
        let refused = run(&["restore", "1", how]);
        assert_eq!(refused.code, Some(7), "{refused:?}");
        let told = format!("{}{}", refused.answer, refused.words);
        assert!(told.contains("--allow-remote-database app"), "{refused:?}");
    }
    let other = run(&["restore", "1", "--confirm", "--allow-remote-database", "other"]);
    assert_eq!(other.code, Some(2), "{other:?}");
    assert!(other.words.contains("there is no database"), "{other:?}");
    assert_eq!(scene.server.run("app", "SELECT count(*) FROM sessions"), "0");
    let allowed = run(&["restore", "1", "--confirm", "--allow-remote-database", "app"]);
    assert_eq!(allowed.code, Some(0), "{allowed:?}");
    assert_eq!(scene.server.run("app", "SELECT count(*) FROM sessions"), "5");
    serve(&host);
    scene.server.run("app", "DELETE FROM sessions");
    let local = run(&["restore", "1", "--confirm"]);
    assert_eq!(local.code, Some(0), "{local:?}");
    assert_eq!(scene.server.run("app", "SELECT count(*) FROM sessions"), "5");
}

#[test]
fn one_that_was_not_read_for_its_checkpoint_is_left_alone_unless_asked_for() {
    let scene = Scene::new();
    let first = scene.world.save("first");
    scene.server.run("app", "DELETE FROM sessions WHERE token <> 'session 1'");
    // As if reading it had taken long.
    let memo = files_below(&scene.world.home.join("cache"));
    let memo = memo.iter().find(|path| path.extension().is_some_and(|end| end == "databases"));
    let memo = memo.unwrap();
    let text = std::fs::read_to_string(memo).unwrap();
    let at = text.find("\"took_ms\":").unwrap() + "\"took_ms\":".len();
    let end = at + text[at..].find([',', '}']).unwrap();
    std::fs::write(memo, format!("{}5000{}", &text[..at], &text[end..])).unwrap();
    scene.world.write("code", "2\n");
    let stale = scene.world.json(&["save", "--trigger", "prompt"]);
    assert_eq!(stale["databases"][0]["stale"], true);
    assert_eq!(stale["databases"][0]["as_of"], first);
    let id = stale["id"].as_str().unwrap();
    let listed = String::from_utf8(scene.world.run(&["list"]).stdout).unwrap();
    assert!(listed.contains("1 database, stale"), "{listed}");
    let shown = scene.world.face(&["show", id]);
    assert!(shown.contains("as of chk_2, changed since"), "{shown}");

    scene.server.run("app", "DELETE FROM sessions");
    scene.world.write("code", "3\n");
    let ran = scene.run(&["restore", id, "--confirm"]);
    assert_eq!((ran.code, scene.world.read("code").as_str()), (Some(0), "2\n"), "{ran:?}");
    assert!(ran.answer["warnings"].to_string().contains("--allow-stale"), "{ran:?}");
    assert_eq!(scene.server.run("app", "SELECT count(*) FROM sessions"), "0");
    for flags in [&["--allow-stale"][..], &["--only", "databases"]] {
        scene.world.json(&[&["restore", id, "--confirm"], flags].concat());
        assert_eq!(scene.server.run("app", "SELECT count(*) FROM sessions"), "5", "{flags:?}");
        scene.server.run("app", "DELETE FROM sessions");
    }
}

#[test]
fn a_server_without_room_takes_everything_back() {
    let scene = Scene::whole();
    // The view is refreshed at the end of the dump; a role tells whether the server says then what it says of a full disk.
    scene.server.run(
        "app",
        "CREATE FUNCTION room() RETURNS int LANGUAGE plpgsql AS $$ BEGIN
           IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'full') THEN
             RAISE disk_full USING MESSAGE = 'could not extend file: No space left on device';
           END IF;
           RETURN 1;
         END $$;
         CREATE MATERIALIZED VIEW last AS SELECT public.room() AS one",
    );
    let id = scene.world.save("whole");
    scene.damage();
    scene.server.run("app", "CREATE ROLE \"full\"");
    let before = scene.portrait();
    let failed = scene.run(&["restore", &id, "--confirm"]);
    assert_eq!(failed.code, Some(1), "{failed:?}");
    assert!(failed.words.contains("No space left on device"), "{failed:?}");
    assert!(failed.words.contains("free some space on the server's disk"), "{failed:?}");
    assert_eq!(scene.portrait(), before);
    assert_eq!(scene.unfinished(), 0);
    scene.server.run("app", "DROP ROLE \"full\"");
    scene.world.json(&["restore", &id, "--confirm"]);
    assert_eq!(scene.server.run("app", "SELECT one FROM last"), "1");
}

/// Runs a script with the home on a disk of 8 MiB, where `$RAPPEL` and `$PSQL` are the programs. What it says and what it
/// complains about; `None` where no disk can be mounted, which needs root and is counted.
fn on_a_small_disk(scene: &Scene, script: &str) -> Option<(String, String)> {
    let may_mount = || Command::new("unshare").args(["-m", "true"]).output();
    if !geteuid().is_root() || !may_mount().is_ok_and(|tried| tried.status.success()) {
        cannot_run("a small disk cannot be mounted (root, unshare -m)");
        return None;
    }
    let home = scene.world.home.to_str().unwrap();
    std::fs::create_dir(home).unwrap();
    let psql = scene.server.psql_command("app");
    let words: Vec<_> = psql.get_args().map(|word| word.to_str().unwrap()).collect();
    let script = format!("set -e\nmount -t tmpfs -o size=8m,mode=0700 tmpfs {home}\n{script}");
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", &script]);
    let ours = scene.world.command::<&str>(&[]);
    command.current_dir(scene.world.project.root()).env_clear();
    for (name, value) in ours.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    command.env("RAPPEL", env!("CARGO_BIN_EXE_rappel"));
    command.env("PSQL", format!("{} {}", psql.get_program().to_str().unwrap(), words.join(" ")));
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Some((text(&output.stdout), text(&output.stderr)))
}

/// A table that does not fit on such a disk.
const LARGE: &str = "CREATE TABLE large AS \
    SELECT md5(n::text) || md5(n::text || 'x') FROM generate_series(1, 400000) n";

#[test]
fn without_room_for_the_present_nothing_is_restored() {
    let scene = Scene::new();
    let script = format!(
        "$RAPPEL save first >&2
         $PSQL -c \"DELETE FROM sessions; {LARGE}\" >&2
         set +e
         $RAPPEL restore 1 --confirm >&2
         echo restored $?
         $RAPPEL recover --json
         $RAPPEL list --quiet >&2 && echo readable"
    );
    let Some((said, words)) = on_a_small_disk(&scene, &script) else { return };
    assert!(said.contains("restored 1\n"), "{said}{words}");
    assert!(said.contains("\"restores\":[]") && said.contains("readable"), "{said}{words}");
    assert!(words.contains("space"), "{words}");
    let rows = "SELECT (SELECT count(*) FROM large), (SELECT count(*) FROM sessions)";
    assert_eq!(scene.server.run("app", rows), "400000|0");
}

#[test]
fn without_room_for_a_dump_nothing_is_saved_and_nothing_is_damaged() {
    let scene = Scene::new();
    let script = format!(
        "$RAPPEL save first >&2
         $PSQL -c \"{LARGE}\" >&2
         set +e
         $RAPPEL save second >&2
         echo saved $?
         $RAPPEL verify >&2 && echo sound
         echo checkpoints $($RAPPEL list --quiet)
         $PSQL -c 'DROP TABLE large' >&2
         $RAPPEL gc --now -y >&2
         $RAPPEL save third >&2 && echo again
         $RAPPEL restore 1 --confirm >&2 && echo restored"
    );
    let Some((said, words)) = on_a_small_disk(&scene, &script) else { return };
    assert!(said.contains("saved 1\n"), "{said}{words}");
    assert!(words.contains("space"), "{words}");
    let listed = said.lines().find_map(|line| line.strip_prefix("checkpoints ")).unwrap();
    assert_eq!(listed.split(' ').count(), 1, "{said}{words}");
    for word in ["sound", "again", "restored"] {
        assert!(said.lines().any(|line| line == word), "{word}: {said}{words}");
    }
}
