//! What a user meets after an import: names, order, sessions, hints, and the way out again.

#![allow(clippy::unwrap_used, reason = "tests may")]

mod support;

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rappel_testing::git::git;
use serde_json::Value;
use support::World;

/// A checkpoint of CAF, with one thought.
fn caf(id: &str, millis: i64) -> String {
    serde_json::json!({
        "version": "0.0.1", "id": id, "timestamp": millis, "execution_id": "run-1",
        "agent_id": "claude",
        "snapshot": {
            "thought_chain": [{"id": "t1", "type": "reasoning", "content": "look at the cache",
                "timestamp": millis}],
            "context": {"variables": {}, "state": {}, "history": []},
            "tool_state": {"calls": [], "results": {}},
            "progress": {"step_number": 0, "total_thoughts": 1, "total_tool_calls": 0}
        },
        "metadata": {"step_number": 0, "tokens_used": 0, "duration_ms": 0,
            "checkpoint_reason": "manual"}
    })
    .to_string()
}

fn put(world: &World, name: &str, text: &str) -> PathBuf {
    let folder = world.project.outside().join("caf");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join(name), text).unwrap();
    folder
}

fn text_of(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn said(world: &World, arguments: &[&str]) -> String {
    let done = world.run(arguments);
    assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

#[test]
fn an_id_with_dots_is_an_id_and_not_a_range() {
    let world = World::new();
    world.save("own");
    let folder = put(&world, "one.json", &caf("a..b", 1_738_790_400_000));
    world.json(&["import", text_of(&folder)]);
    for name in ["a..b", "caf:a..b"] {
        let file = world.project.outside().join("x.rappel");
        let written = world.json(&["export", name, "-o", text_of(&file)]);
        assert_eq!(written["checkpoints"], serde_json::json!(["a..b"]), "{name}");
        let diff = world.json(&["diff", name, name, "--only", "agents"]);
        assert_eq!(diff["from"], "a..b", "{name}: {diff}");
    }
    // Everything else with dots is a range still.
    let missing = world.run(&["export", "a..c"]);
    assert_eq!(missing.status.code(), Some(2), "{missing:?}");
}

#[test]
fn an_import_of_which_nothing_could_be_taken_fails() {
    let world = World::new();
    let place = world.project.outside().join("lugh");
    let put = |id: &str, document: &str| {
        std::fs::create_dir_all(place.join(id)).unwrap();
        std::fs::write(place.join(id).join("checkpoint.json"), document).unwrap();
    };
    put("chk_1", r#"{"id": "chk_1", "trigger": "manual"}"#);
    let words = ["import", text_of(&place), "--format", "lugh"];
    let failed = world.run(&words);
    let errors = String::from_utf8_lossy(&failed.stderr);
    assert_eq!(failed.status.code(), Some(1), "{failed:?}");
    assert!(errors.contains("chk_1") && errors.contains("nothing was imported"), "{errors}");
    let failed = world.run(&[&words[..], &["--json"]].concat());
    assert_eq!(failed.status.code(), Some(1), "{failed:?}");
    let answer: Value = serde_json::from_slice(&failed.stdout).unwrap();
    assert_eq!(answer["skipped"].as_array().unwrap().len(), 1, "{answer}");
    // One that could be taken is enough, then and later.
    put("chk_2", r#"{"id": "chk_2", "created_at": "2024-12-27T14:30:22Z", "trigger": "manual"}"#);
    for _ in 0..2 {
        let answer = world.json(&words);
        assert_eq!(answer["skipped"].as_array().unwrap().len(), 1, "{answer}");
    }
}

#[test]
fn a_lineage_is_listed_in_the_order_of_its_times_whatever_was_imported_first() {
    let world = World::new();
    world.save("own");
    let folder = put(&world, "b.json", &caf("second", 1_738_790_500_000));
    let lineage = world.json(&["import", text_of(&folder)])["lineage"]["workspace"].clone();
    let later = world.json(&["show", "second"]);
    put(&world, "a.json", &caf("first", 1_738_790_400_000));
    put(&world, "c.json", &caf("third", 1_738_790_600_000));
    world.json(&["import", text_of(&folder)]);
    let ids = |answer: &Value| -> Vec<String> {
        let all = answer["checkpoints"].as_array().unwrap().iter();
        let foreign = all.filter(|one| one["lineage"].is_object());
        foreign.map(|one| one["id"].as_str().unwrap().to_owned()).collect()
    };
    let lineage = lineage.as_str().unwrap();
    for words in [
        &["list", "--all"][..],
        &["timeline", "--all"],
        &["--workspace", lineage, "list", "--all"],
        &["--workspace", lineage, "timeline", "--all"],
    ] {
        assert_eq!(ids(&world.json(words)), ["third", "second", "first"], "{words:?}");
    }
    // What was there is as it was; what came later follows the one before it in time.
    let now = world.json(&["show", "second"]);
    assert_eq!((&now["sequence"], &now["parent"]), (&later["sequence"], &later["parent"]));
    assert_eq!(world.json(&["show", "first"])["parent"], Value::Null);
    assert_eq!(world.json(&["show", "third"])["parent"], "second");
}

#[test]
fn what_was_imported_and_exported_is_known_when_it_comes_back() {
    let there = World::new();
    there.save("theirs");
    let bundle = there.project.outside().join("x.rappel");
    there.json(&["export", "latest", "-o", text_of(&bundle)]);
    let here = World::new();
    here.save("mine");
    let folder = put(&here, "one.json", &caf("one", 1_738_790_400_000));
    for place in [&bundle, &folder] {
        let first = here.json(&["import", text_of(place)]);
        assert_eq!(first["imported"], 1, "{first}");
        let lineage = first["lineage"]["workspace"].as_str().unwrap();
        let id = here.json(&["--workspace", lineage, "list", "--all"]);
        let id = id["checkpoints"][0]["id"].as_str().unwrap().to_owned();
        let again = here.project.outside().join(format!("{id}.rappel"));
        here.json(&["export", &id, "-o", text_of(&again)]);
        let known = here.json(&["import", text_of(&again)]);
        assert_eq!((&known["imported"], &known["known"]), (&0.into(), &1.into()), "{known}");
        assert_eq!(known["lineage"]["workspace"], lineage, "{known}");
    }
    assert_eq!(here.json(&["list", "--all"])["total"], 3);
}

#[test]
fn sessions_that_were_imported_are_listed_with_where_they_came_from() {
    let world = World::new();
    world.json(&["session", "start", "--session", "own", "--task", "mine"]);
    let folder = put(&world, "one.json", &caf("one", 1_738_790_400_000));
    world.json(&["import", text_of(&folder)]);
    let listed = world.json(&["session", "list"]);
    assert_eq!(listed["total"], 2, "{listed}");
    let all = listed["sessions"].as_array().unwrap();
    let own = all.iter().find(|one| one["id"] == "own").unwrap();
    assert!(own.get("lineage").is_none(), "{own}");
    let other = all.iter().find(|one| one["id"] != "own").unwrap();
    assert_eq!(other["lineage"]["format"], "caf", "{other}");
    let text = said(&world, &["session", "list"]);
    assert_eq!(text.matches("(imported from caf)").count(), 1, "{text}");
    // What means a session of this workspace still means its own.
    assert_eq!(world.json(&["session", "show"])["session"]["id"], "own");
}

#[test]
fn nothing_says_restore_where_there_is_nothing_to_restore() {
    let world = World::new();
    let own = world.save("own");
    let folder = put(&world, "one.json", &caf("one", 1_738_790_400_000));
    let text = said(&world, &["import", text_of(&folder)]);
    assert!(!text.contains("restore"), "{text}");
    let text = said(&world, &["show", "one"]);
    assert!(!text.contains("rappel restore"), "{text}");
    // What it says instead works.
    assert!(text.contains("rappel show one --state"), "{text}");
    assert!(text.contains("rappel at --checkpoint one"), "{text}");
    assert!(said(&world, &["show", "one", "--state"]).contains("look at the cache"));
    assert!(said(&world, &["at", "--checkpoint", "one"]).contains("look at the cache"));
    assert!(text.contains("rappel diff one --only agents"), "{text}");
    said(&world, &["diff", "one", "--only", "agents"]);
    let text = said(&world, &["show", &own]);
    assert!(text.contains(&format!("rappel restore {own}")), "{text}");
}

#[test]
fn checkpoints_of_loki_mode_that_were_imported_are_listed_once() {
    let world = World::new();
    let folder = world.project.path(".loki/state/checkpoints/cp-20260212-143022");
    std::fs::create_dir_all(&folder).unwrap();
    let metadata = r#"{"id": "cp-20260212-143022", "timestamp": "2026-02-12T14:30:22Z",
        "message": "theirs", "git_sha": "no-git", "git_branch": "unknown", "files_copied": 1}"#;
    std::fs::write(folder.join("metadata.json"), metadata).unwrap();
    std::fs::write(folder.join("session.json"), "{}").unwrap();
    world.json(&["import", ".loki"]);
    world.run(&["checkpoint", "create", "ours"]);
    let listed = said(&world, &["checkpoint", "list"]);
    assert_eq!(listed.matches("cp-20260212-143022").count(), 1, "{listed}");
    assert!(listed.contains("Showing 2 of 2 checkpoints"), "{listed}");
}

#[test]
fn an_export_takes_away_what_a_killed_one_left() {
    let world = World::new();
    world.save("one");
    let place = world.project.outside().join("out");
    std::fs::create_dir(&place).unwrap();
    let stale = place.join(".x.rappel.0123456789abcdef.tmp");
    std::fs::write(&stale, "half a bundle").unwrap();
    std::fs::set_permissions(&stale, std::fs::Permissions::from_mode(0o600)).unwrap();
    let other = place.join(".y.rappel.0123456789abcdef.tmp");
    std::fs::copy(&stale, &other).unwrap();
    world.json(&["export", "latest", "-o", text_of(&place.join("x.rappel"))]);
    assert!(!stale.exists() && other.exists());
}

#[test]
fn export_never_writes_into_gits_own_folder() {
    let world = World::new();
    git(world.project.root(), &["init", "-q"]);
    for dir in [".git/hooks", "sub/.git/x"] {
        let config = format!("[export]\nformat = \"caf\"\ndir = \"{dir}\"\n");
        world.write("rappel.toml", &config);
        world.trust();
        let before = std::fs::read_dir(world.project.path(".git/hooks")).unwrap().count();
        world.save(dir);
        let after = std::fs::read_dir(world.project.path(".git/hooks")).unwrap().count();
        assert_eq!(before, after, "{dir}");
        assert!(!world.project.path("sub").exists());
        let status = world.run(&["status"]);
        let text = String::from_utf8_lossy(&status.stdout);
        let told = format!("{text}{}", String::from_utf8_lossy(&status.stderr));
        assert!(told.contains("a folder of git's own"), "{dir}: {told}");
    }
}

#[test]
fn redacted_tags_and_environments_hold_no_secret() {
    let token = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
    let world = World::new();
    world.json(&["save", token, "-t", token, "--environment", token]);
    for form in ["rappel", "lugh", "caf", "forge"] {
        let name = if form == "forge" { "x.json".to_owned() } else { format!("x-{form}") };
        let place = world.project.outside().join(name);
        let words = ["export", "latest", "--format", form, "-o", text_of(&place), "--redact"];
        assert!(world.run(&words).status.success(), "{form}");
        let here = World::new();
        assert!(here.run(&["import", text_of(&place)]).status.success(), "{form}");
        let listed = here.json(&["list", "--all"]);
        assert_eq!(listed["total"], 1, "{form}: {listed}");
        let id = listed["checkpoints"][0]["id"].as_str().unwrap().to_owned();
        let shown = here.json(&["show", &id]).to_string();
        assert!(!shown.contains(token), "{form}: {shown}");
    }
}

#[test]
fn a_save_answers_before_it_writes_out_and_ends_after() {
    let world = World::new();
    world.write("rappel.toml", "[export]\nformat = \"lugh\"\ndir = \"out\"\n");
    world.trust();
    world.save("first");
    // Another writer is at work there: the export has to wait for it.
    let folder = std::fs::File::open(world.project.path("out")).unwrap();
    folder.lock().unwrap();
    world.write("a.txt", "changed\n");
    let mut child = world.command(&["save", "second", "--quiet"]).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let written = world.project.path("out").join(line.trim());
    assert!(!line.trim().is_empty() && !written.exists(), "{line}");
    assert!(child.try_wait().unwrap().is_none(), "it writes out before it ends");
    drop(folder);
    assert!(child.wait().unwrap().success());
    assert!(written.join("checkpoint.json").exists());
}
