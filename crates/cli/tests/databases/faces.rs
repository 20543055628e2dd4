//! What people and programs are told of databases.

use crate::scene::Scene;
use crate::{assert_face, assert_json_face, assert_said};

#[test]
fn what_is_said_of_a_postgres() {
    let scene = Scene::new();
    let world = &scene.world;
    assert_face!(world, "save", "save", "before the migration");
    assert_face!(world, "list", "list");
    assert_face!(world, "show", "show", "latest");
    assert_face!(world, "status", "status");
    assert_face!(world, "diff_nothing", "diff", "latest");
    scene.server.run(
        "app",
        "INSERT INTO conversations (title) VALUES ('a'), ('b'), ('c');
         DROP TABLE sessions; CREATE TABLE audit (x int); INSERT INTO audit VALUES (1)",
    );
    assert_face!(world, "diff", "diff", "latest");
    assert_face!(world, "status_changed", "status");
    assert_face!(world, "dry_run", "restore", "latest", "--dry-run");
    assert_face!(world, "restore", "restore", "latest", "--confirm");
    assert_eq!(scene.server.run("app", "SELECT count(*) FROM conversations"), "15");
    assert_face!(world, "undo", "undo");
    assert_eq!(scene.server.run("app", "SELECT count(*) FROM conversations"), "18");
    scene.server.run("postgres", "DROP DATABASE app");
    assert_face!(world, "dry_run_dropped", "restore", "1", "--dry-run");
    let said = world.face(&["save", "without its database"]);
    let said = said.replace(scene.server.host().to_str().unwrap(), "[SERVER]");
    assert_said!("save_dropped", "rappel save", said);
    let status = world.run(&["status", "--json"]);
    assert_eq!(status.status.code(), Some(1));
    let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
    assert_eq!(status["state"], "degraded");
    assert!(status["reasons"].to_string().contains("database app cannot be looked at"), "{status}");
}

#[test]
fn what_programs_are_told() {
    let scene = Scene::new();
    let world = &scene.world;
    let text = world.read("rappel.toml");
    world.write(
        "rappel.toml",
        &format!("environment = \"staging\"\n\n{text}\n[knowledge]\npaths = [\"knowledge\"]\n\n[variables]\ncapture = [\"NODE_ENV\"]\n"),
    );
    world.write("knowledge/my-app/notes.md", "# Notes\n");
    world.write("knowledge/my-app/more.md", "More\n");
    let saved = world.command(&["save", "all"]).env("NODE_ENV", "development").output().unwrap();
    assert!(saved.status.success(), "{}", String::from_utf8_lossy(&saved.stderr));
    let shown = world.json(&["show", "latest"]);
    let part = &shown["databases"][0];
    for key in ["name", "kind", "tables", "row_counts", "bytes", "as_of", "stale"] {
        assert!(part.get(key).is_some(), "{key} in {part}");
    }
    assert_eq!(part["row_counts"]["messages"], 40);
    assert_eq!(shown["knowledge"]["projects"], serde_json::json!(["my-app"]));
    assert_eq!(shown["knowledge"]["document_count"], 2);
    assert_eq!(shown["variables"], serde_json::json!({"NODE_ENV": "development"}));
    assert_eq!(shown["environment"], "staging");
    scene.server.run("app", "DELETE FROM sessions");
    assert_json_face!(world, "json_dry_run", "restore", "latest", "--dry-run");
    assert_json_face!(world, "json_diff", "diff", "latest");
}

#[test]
fn a_database_that_is_found_is_named_until_it_is_protected() {
    let scene = Scene::new();
    let world = &scene.world;
    world.remove("rappel.toml");
    assert_face!(world, "found_save", "save", "unprotected");
    assert_face!(world, "found_status", "status");
    assert_face!(world, "found_init", "init");
    let saved = world.json(&["save", "protected"]);
    assert_eq!(saved["databases"][0]["name"], "app");
    assert_eq!(saved["databases"][0]["row_counts"]["conversations"], 15);
    let status = world.run(&["status"]);
    let words = String::from_utf8_lossy(&status.stdout).into_owned();
    assert!(!words.contains("not protected"), "{words}");
    scene.server.run("app", "DELETE FROM sessions");
    world.json(&["restore", "latest", "--confirm"]);
    assert_eq!(scene.server.run("app", "SELECT count(*) FROM sessions"), "5");
}

#[test]
fn what_is_said_of_everything_at_once() {
    let scene = Scene::whole();
    let world = &scene.world;
    let before = scene.portrait();
    assert_face!(world, "whole_save", "save", "all five");
    assert_face!(world, "whole_status", "status");
    scene.damage();
    let damaged = scene.portrait();
    assert_face!(world, "whole_status_damaged", "status");
    assert_face!(world, "whole_diff", "diff", "latest", "--stat");
    let only = world.project.outside().join("only");
    assert_face!(
        world,
        "whole_to_without_files",
        "restore",
        "latest",
        "--skip",
        "files",
        "--to",
        only.to_str().unwrap()
    );
    let there = world.project.outside().join("there");
    assert_face!(world, "whole_to", "restore", "latest", "--to", there.to_str().unwrap());
    let mut written: Vec<String> = crate::scene::files_below(&there)
        .iter()
        .map(|path| path.strip_prefix(&there).unwrap().to_str().unwrap().to_owned())
        .filter(|path| !path.starts_with(".git/"))
        .collect();
    written.sort();
    insta::assert_debug_snapshot!("whole_to_written", written);
    assert_eq!(scene.portrait(), damaged);
    assert_face!(world, "whole_dry_run", "restore", "latest", "--dry-run");
    assert_eq!(scene.portrait(), damaged);
    assert_face!(world, "whole_restore", "restore", "latest", "--confirm");
    assert_eq!(scene.portrait(), before);
    world.json(&["undo"]);
    assert_eq!(scene.portrait(), damaged);
    world.json(&["redo"]);
    assert_eq!(scene.portrait(), before);
    world.json(&["verify"]);
}
