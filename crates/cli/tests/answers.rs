//! The schemas of answers are those of the types, and real answers fit them.
//!
//! Every other test that asks for JSON holds the answer against its schema too: see
//! `support/answers.rs`. Here are the answers that no other test asks for, and the enemies: a
//! schema that is stale, and a check that lets everything pass.

#![allow(clippy::unwrap_used, reason = "tests may")]

mod support;

use serde_json::{Value, json};
use support::World;
use support::answers::{place, problems};

#[test]
fn the_schemas_of_answers_are_those_of_the_types() {
    let document = rappel::answers::schemas::document();
    if std::env::var_os("RAPPEL_GOLDEN").is_some() {
        let text = serde_json::to_string_pretty(&document).unwrap() + "\n";
        std::fs::write(place(), text).unwrap();
    }
    let there: Value = serde_json::from_slice(&std::fs::read(place()).unwrap()).unwrap();
    assert_eq!(there, document, "RAPPEL_GOLDEN=1 writes it anew");
}

/// Two types of one name would be told apart by a number that changes with their order.
#[test]
fn no_two_types_share_a_name() {
    let document = rappel::answers::schemas::document();
    let names: Vec<&String> = document["$defs"].as_object().unwrap().keys().collect();
    let numbered: Vec<_> =
        names.iter().filter(|name| name.ends_with(|c: char| c.is_ascii_digit())).collect();
    assert_eq!(numbered, Vec::<&&String>::new());
}

/// A schema for people: every type says what it is, in words of the API.
#[test]
fn every_type_says_what_it_is() {
    let document = rappel::answers::schemas::document();
    for (name, schema) in document["$defs"].as_object().unwrap() {
        let text = schema["description"].as_str().unwrap_or_default();
        assert!(!text.is_empty(), "{name} has no description");
        for of_rust in ["`]", "Rappel::", "pub "] {
            assert!(!text.contains(of_rust), "{name}: {text}");
        }
    }
}

#[test]
fn the_check_refuses_what_does_not_fit() {
    let world = World::new();
    let saved = world.json(&["save"]);
    assert_eq!(problems("save", &saved), [""; 0]);
    let changed = |key: &str, value: Value| {
        let mut changed = saved.clone();
        changed[key] = value;
        changed
    };
    assert!(!problems("save", &changed("sequence", "one".into())).is_empty());
    assert!(!problems("save", &changed("trigger", "whim".into())).is_empty());
    assert!(!problems("save", &changed("id", "../x".into())).is_empty());
    assert!(!problems("save", &changed("invented", true.into())).is_empty());
    assert!(!problems("save", &changed("files", json!({"count": 3}))).is_empty());
    let mut short = saved.clone();
    short.as_object_mut().unwrap().remove("created");
    assert!(!problems("save", &short).is_empty());
    assert!(!problems("list", &saved).is_empty());
}

#[test]
fn answers_of_everyday_commands() {
    let world = World::new();
    for arguments in [&["status"][..], &["status", "--short"], &["list"], &["init"]] {
        world.json_at_any_exit(arguments);
    }
    world.save("first");
    world.write("a.txt", "changed\n");
    world.write("b.bin", "new\n");
    std::fs::write(world.project.path("c.bin"), b"\xff\xfe").unwrap();
    for arguments in [
        &["diff", "latest"][..],
        &["restore", "latest", "--dry-run"],
        &["save", "second", "-t", "one,two"],
        &["describe", "latest", "other words"],
        &["tag", "latest", "three"],
        &["pin", "latest"],
        &["unpin", "latest"],
        &["show", "latest", "--files", "--state"],
        &["cat", "latest:a.txt"],
        &["cat", "latest:c.bin"],
        &["log", "a.txt"],
        &["find", "--path", "a.txt"],
        &["timeline"],
        &["status"],
        &["stats"],
        &["doctor"],
        &["verify"],
        &["verify", "--repair"],
        &["gc", "--dry-run"],
        &["prune", "--dry-run"],
        &["trust"],
        &["trust", "--list"],
        &["trust", "--revoke"],
        &["recover"],
        &["recover", "--steps"],
        &["bisect", "--abort"],
        &["restore", "1", "--confirm"],
        &["undo"],
        &["redo"],
        &["replay", "latest"],
        &["replay", "--step", "1", "--agents", "--memory", "--files"],
        &["replay", "--exit"],
        &["delete", "1", "--confirm"],
        &["list", "--deleted"],
        &["undelete", "1"],
        &["export", "latest"],
    ] {
        world.json_at_any_exit(arguments);
    }
    let there = world.project.outside().join("there");
    world.json(&["restore", "latest", "--to", there.to_str().unwrap()]);
}

#[test]
fn answers_about_sessions() {
    let world = World::new();
    world.save("first");
    let session = world.json(&["session", "start", "--task", "mend it", "--provider", "claude"]);
    let id = session["id"].as_str().unwrap().to_owned();
    let hypothesis = world.json(&["record", "hypothesis", "the cache is stale"]);
    let hypothesis = hypothesis["id"].as_str().unwrap().to_owned();
    for arguments in [
        &["record", "thought", "hm", "--confidence", "0.4"][..],
        &["record", "evidence", "cold runs pass", "--for", &hypothesis, "--supports"],
        &["record", "hypothesis", "--id", &hypothesis, "--status", "confirmed"],
        &["record", "belief", "the cache is shared"],
        &["record", "gap", "who empties it?"],
        &["record", "verification", "tests", "--passed"],
        &["record", "note", "look again"],
        &["record", "command", "cargo test", "--exit-code", "1"],
        &["record", "context", "KEY=value"],
        &["record", "branch", "other", "--switch"],
        &["record", "tool", "Bash", "--input", "{\"command\": \"ls\"}", "--output", "\"a\""],
        &["save", "with a session"],
        &["at", "now"],
        &["recall"],
        &["report"],
        &["find", "--text", "cache"],
        &["show", "latest", "--state"],
        &["session", "list"],
        &["session", "show", &id],
        &["session", "pause", &id],
        &["session", "resume", &id],
        &["replay", "latest"],
        &["replay", "--step", "3", "--agents", "--memory", "--files"],
        &["stats"],
        &["status"],
        &["timeline"],
        &["session", "end", &id],
    ] {
        world.json_at_any_exit(arguments);
    }
}
