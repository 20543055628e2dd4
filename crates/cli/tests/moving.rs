//! Out in every form and in again, through the binary: from one home to another one that knows nothing of it.

#![allow(clippy::unwrap_used, reason = "tests may")]

mod support;

use std::path::{Path, PathBuf};

use rappel_testing::git::{git, text};
use support::World;

/// A project with a repository, uncommitted work, a database of SQLite and a session that knows something.
fn there() -> World {
    let world = World::new();
    let root = world.project.root();
    git(root, &["init", "-q", "-b", "main"]);
    world.write("src/main.rs", "fn main() {}\n");
    world.write(".loki/session.json", "{\"phase\": \"build\"}\n");
    git(root, &["add", "src"]);
    git(root, &["commit", "-qm", "one"]);
    world.write("src/main.rs", "fn main() { todo!() }\n");
    let database = rusqlite::Connection::open(root.join("app.db")).unwrap();
    database.execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES (7)").unwrap();
    drop(database);
    world.json(&["session", "start", "--session", "s1", "--task", "port it"]);
    world.json(&["record", "hypothesis", "it is the cache", "--session", "s1"]);
    world.json(&["record", "thought", "look at the cache", "--session", "s1"]);
    world.json(&["save", "before the change", "--session", "s1", "-t", "green"]);
    world
}

fn exported(world: &World, form: &str, name: &str) -> PathBuf {
    let place = world.project.outside().join(name);
    let words = ["export", "latest", "--format", form, "-o", place.to_str().unwrap()];
    let answer = world.json(&words);
    assert_eq!(answer["form"], form);
    assert!(place.exists(), "{answer}");
    place
}

/// Imports it into a new home, finds it there by its form, and gives the JSON of the checkpoint.
fn imported(here: &World, place: &Path, form: &str) -> serde_json::Value {
    let place = place.to_str().unwrap();
    let answer = here.json(&["import", place]);
    assert_eq!((&answer["imported"], &answer["known"]), (&1.into(), &0.into()), "{answer}");
    assert_eq!(answer["skipped"].as_array().unwrap().len(), 0, "{answer}");
    assert_eq!(answer["lineage"]["format"], form);
    let again = here.json(&["import", place]);
    assert_eq!((&again["imported"], &again["known"]), (&0.into(), &1.into()), "{again}");
    let listed = here.json(&["list", "--all"]);
    let all = listed["checkpoints"].as_array().unwrap();
    let one = all.iter().find(|one| one["lineage"]["format"] == form).unwrap();
    here.json(&["show", one["id"].as_str().unwrap()])
}

#[test]
fn every_form_goes_out_and_comes_in_again() {
    let there = there();
    for form in ["rappel", "lugh", "loki", "forge", "caf", "aiwg"] {
        let name = if form == "forge" { "session.json" } else { form };
        let place = exported(&there, form, name);
        let here = World::new();
        let own = here.save("mine");
        let one = imported(&here, &place, form);
        assert_eq!(
            one["facets"]["files"],
            match form {
                "rappel" | "lugh" | "loki" => "captured",
                _ => "not-asked",
            },
            "{form}: {one}"
        );
        // What came in is never the latest, and the workspace is as it was.
        assert_eq!(here.json(&["show", "latest"])["id"], own.as_str(), "{form}");
        let verified = here.run(&["verify"]);
        assert!(verified.status.success(), "{form}: {verified:?}");
        // Out again in its own form, it is what it was.
        let back = here.project.outside().join(format!("again-{name}"));
        let id = one["id"].as_str().unwrap();
        let words = ["export", id, "--format", form, "-o", back.to_str().unwrap()];
        assert_eq!(here.json(&words)["form"], form);
        let third = World::new();
        let again = imported(&third, &back, form);
        assert_eq!(again["lineage"]["id"], one["lineage"]["id"], "{form}");
        assert_eq!(again["created_at"], one["created_at"], "{form}");
    }
}

#[test]
fn what_an_agent_knew_comes_along() {
    let there = there();
    for form in ["rappel", "lugh", "forge"] {
        let name = if form == "forge" { "session.json" } else { form };
        let place = exported(&there, form, name);
        let here = World::new();
        let one = imported(&here, &place, form);
        let state = here.json(&["at", "--checkpoint", one["id"].as_str().unwrap()]);
        let hypotheses = state["state"]["hypotheses"].as_array().unwrap();
        assert_eq!(hypotheses[0]["text"], "it is the cache", "{form}: {state}");
    }
    let place = exported(&there, "caf", "caf");
    let here = World::new();
    let one = imported(&here, &place, "caf");
    let state = here.json(&["at", "--checkpoint", one["id"].as_str().unwrap()]);
    assert_eq!(state["state"]["thought_chain"][0]["content"], "look at the cache", "{state}");
}

#[test]
fn lugh_and_our_own_form_bring_the_work_back() {
    let there = there();
    let commit = text(there.project.root(), &["rev-parse", "HEAD"]);
    for form in ["rappel", "lugh"] {
        let place = exported(&there, form, form);
        let here = World::new();
        let root = here.project.root();
        git(root, &["init", "-q", "-b", "main"]);
        std::fs::write(root.join(".git/hooks/post-checkout"), "#!/bin/sh\n").unwrap();
        let hook = std::fs::read(root.join(".git/hooks/post-checkout")).unwrap();
        let config = std::fs::read(root.join(".git/config")).unwrap();
        here.write("mine.txt", "mine\n");
        git(root, &["add", "mine.txt"]);
        git(root, &["commit", "-qm", "mine"]);
        let log = std::fs::read_to_string(root.join(".git/logs/refs/heads/main")).unwrap();
        let own = here.save("mine");
        let one = imported(&here, &place, form);
        let id = one["id"].as_str().unwrap();
        let restored = here.json(&["restore", id, "--confirm"]);
        assert_eq!(restored["verified"], true, "{form}: {restored}");
        let main = std::fs::read_to_string(root.join("src/main.rs")).unwrap();
        assert_eq!(main, "fn main() { todo!() }\n", "{form}");
        assert_eq!(text(root, &["rev-parse", "main"]), commit, "{form}");
        // What happened here stays in git's own log.
        let later = std::fs::read_to_string(root.join(".git/logs/refs/heads/main")).unwrap();
        assert!(later.starts_with(&log), "{form}: {later}");
        // Neither settings nor hooks came along, and the database waits for --trust-dump.
        assert_eq!(std::fs::read(root.join(".git/config")).unwrap(), config, "{form}");
        assert_eq!(std::fs::read(root.join(".git/hooks/post-checkout")).unwrap(), hook, "{form}");
        assert!(!root.join("app.db").exists(), "{form}: {restored}");
        // One step takes it back, and the next checkpoint follows the workspace's own.
        here.json(&["undo", "--confirm"]);
        assert_eq!(std::fs::read_to_string(root.join("mine.txt")).unwrap(), "mine\n", "{form}");
        let main = std::fs::read_to_string(root.join("src/main.rs")).unwrap();
        assert_eq!(main, "fn main() {}\n", "{form}");
        here.json(&["restore", id, "--confirm", "--trust-dump"]);
        let database = rusqlite::Connection::open(root.join("app.db")).unwrap();
        let x: i64 = database.query_row("SELECT x FROM t", [], |row| row.get(0)).unwrap();
        assert_eq!(x, 7, "{form}");
        drop(database);
        let next = here.json(&["save", "goes on"]);
        assert_ne!(next["parent"], id, "{form}");
        assert!(next["parent"] != serde_json::Value::Null && !own.is_empty(), "{form}: {next}");
    }
}

#[test]
fn state_of_loki_mode_comes_back_and_nothing_else_is_touched() {
    let there = there();
    let place = exported(&there, "loki", "loki");
    let here = World::new();
    let root = here.project.root();
    git(root, &["init", "-q", "-b", "main"]);
    here.write("mine.txt", "mine\n");
    git(root, &["add", "mine.txt"]);
    git(root, &["commit", "-qm", "mine"]);
    here.save("mine");
    let commit = text(root, &["rev-parse", "HEAD"]);
    let one = imported(&here, &place, "loki");
    here.json(&["restore", one["id"].as_str().unwrap(), "--confirm"]);
    let session = std::fs::read_to_string(root.join(".loki/session.json")).unwrap();
    assert_eq!(session, "{\"phase\": \"build\"}\n");
    assert_eq!(std::fs::read_to_string(root.join("mine.txt")).unwrap(), "mine\n");
    assert_eq!(text(root, &["rev-parse", "HEAD"]), commit);
    assert_eq!(text(root, &["status", "--porcelain", "--", "mine.txt"]), "");
}

#[test]
fn the_tables_of_caf_are_written() {
    let there = there();
    let file = there.project.outside().join("caf.db");
    let place = there.project.outside().join("caf");
    let words = ["export", "latest", "--format", "caf", "-o", place.to_str().unwrap()];
    there.json(&[&words[..], &["--sqlite", file.to_str().unwrap()]].concat());
    let database = rusqlite::Connection::open(&file).unwrap();
    let count = |table: &str| -> i64 {
        let query = format!("SELECT count(*) FROM {table}");
        database.query_row(&query, [], |row| row.get(0)).unwrap()
    };
    assert_eq!(["checkpoints", "thoughts", "executions"].map(count), [1, 1, 1]);
}

/// What Lugh itself writes: no files of the workspace, no key of ours.
#[test]
fn a_folder_of_lughs_own_making_comes_in_and_goes_out_again() {
    let world = World::new();
    let root = world.project.root();
    git(root, &["init", "-q", "-b", "main"]);
    git(root, &["add", "."]);
    git(root, &["commit", "-qm", "one"]);
    let place = world.project.outside().join("lugh");
    let folder = place.join("chk_20241227_143022");
    std::fs::create_dir_all(&folder).unwrap();
    let bundle = folder.join("git_bundle.bundle");
    git(root, &["bundle", "create", "-q", bundle.to_str().unwrap(), "--all"]);
    let commit = text(root, &["rev-parse", "HEAD"]);
    let document = format!(
        r#"{{"id": "chk_20241227_143022", "created_at": "2024-12-27T14:30:22Z", "trigger": "manual",
        "description": "Before major refactor", "environment": "staging", "git": {{"branch": "main",
        "commit": "{commit}", "dirty_files": [], "worktrees": []}}, "mine": {{"kept": true}}}}"#
    );
    std::fs::write(folder.join("checkpoint.json"), document).unwrap();
    let here = World::new();
    here.write("a.txt", "changed\n");
    let one = imported(&here, &place, "lugh");
    assert_eq!(one["id"], "chk_20241227_143022");
    here.json(&["restore", "lugh:chk_20241227_143022", "--confirm", "--only", "files"]);
    assert_eq!(here.read("a.txt"), "one\ntwo\nthree\n");
    let back = here.project.outside().join("back");
    let words = ["export", "lugh:chk_20241227_143022", "--format", "lugh", "-o"];
    here.json(&[&words[..], &[back.to_str().unwrap()]].concat());
    let text = std::fs::read_to_string(back.join("chk_20241227_143022/checkpoint.json")).unwrap();
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["mine"]["kept"], true, "{text}");
}

#[test]
fn a_folder_that_export_wrote_to_is_saved_again_once_it_is_the_users() {
    let world = World::new();
    world.write("rappel.toml", "[export]\nformat = \"caf\"\ndir = \"out\"\n");
    world.trust();
    world.save("written out");
    assert_eq!(std::fs::read_dir(world.project.path("out")).unwrap().count(), 1);
    world.write("out/theirs.txt", "not taken\n");
    world.save("still");
    assert!(!world.run(&["cat", "latest:out/theirs.txt"]).status.success());
    world.remove("rappel.toml");
    world.write("out/mine.txt", "mine\n");
    world.save("no longer");
    let kept = world.run(&["cat", "latest:out/mine.txt"]);
    assert_eq!(kept.stdout, b"mine\n", "{kept:?}");
}

#[test]
fn nothing_foreign_runs_as_somebody_else_and_nothing_of_the_users_is_replaced() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let there = World::new();
    let tool = there.project.path("tool");
    there.write("tool", "#!/bin/sh\n");
    std::fs::set_permissions(&tool, std::fs::Permissions::from_mode(0o6755)).unwrap();
    there.save("with a tool");
    let place = exported(&there, "rappel", "x.rappel");
    let here = World::new();
    let one = imported(&here, &place, "rappel");
    let id = one["id"].as_str().unwrap();
    here.json(&["restore", id, "--confirm"]);
    assert_eq!(here.project.path("tool").metadata().unwrap().mode() & 0o7777, 0o755);
    // A file that only has the name of a checkpoint is the user's.
    let caf = here.project.outside().join("caf");
    std::fs::create_dir(&caf).unwrap();
    std::fs::write(caf.join(format!("{id}.json")), "mine").unwrap();
    let refused = here.run(&["export", id, "--format", "caf", "-o", caf.to_str().unwrap()]);
    assert!(!refused.status.success());
    assert_eq!(std::fs::read_to_string(caf.join(format!("{id}.json"))).unwrap(), "mine");
}

#[test]
fn an_imported_id_hides_no_checkpoint_of_the_workspace() {
    let world = World::new();
    let own = world.save("own");
    let begins = &own[..own.len() - 5];
    let folder = world.project.outside().join("caf");
    std::fs::create_dir(&folder).unwrap();
    let document = format!(
        r#"{{"version": "0.0.1", "id": "{begins}", "timestamp": 1738790400000, "execution_id": "e",
        "agent_id": "a", "snapshot": {{"thought_chain": [], "context": {{"variables": {{}},
        "state": {{}}, "history": []}}, "tool_state": {{"calls": [], "results": {{}}}},
        "progress": {{"step_number": 0, "total_thoughts": 0, "total_tool_calls": 0}}}},
        "metadata": {{"step_number": 0, "tokens_used": 0, "duration_ms": 0,
        "checkpoint_reason": "manual"}}}}"#
    );
    std::fs::write(folder.join("one.json"), document).unwrap();
    assert_eq!(world.json(&["show", begins])["id"], own.as_str());
    world.json(&["import", folder.to_str().unwrap()]);
    assert_eq!(world.run(&["show", begins]).status.code(), Some(2));
    assert_eq!(world.json(&["show", &own])["id"], own.as_str());
    assert_eq!(world.json(&["show", &format!("caf:{begins}")])["lineage"]["format"], "caf");
}
