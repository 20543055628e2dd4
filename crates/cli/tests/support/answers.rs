//! Every JSON answer that a test gets is held against its schema in `docs/schema/answers.json`.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use serde_json::{Map, Value, json};

/// Where the schemas are.
pub fn place() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema/answers.json")
}

/// The schemas, refusing keys that they do not name.
static STRICT: LazyLock<Value> = LazyLock::new(|| {
    let text = std::fs::read(place()).unwrap();
    let mut document: Value = serde_json::from_slice(&text).unwrap();
    for kind in ["answers", "$defs"] {
        for (_, schema) in document[kind].as_object_mut().unwrap() {
            close(schema);
        }
    }
    document
});

/// Refuses unknown keys in an object whose keys are named. What stands within `allOf` and the
/// like is seen through by `unevaluatedProperties`; what is below a key is an object of its own.
fn close(schema: &mut Value) {
    let Some(object) = schema.as_object_mut() else { return };
    let names_keys = |object: &Map<String, Value>| object.contains_key("properties");
    let mut named = names_keys(object);
    for several in ["oneOf", "anyOf"] {
        let any = object.get(several).and_then(Value::as_array);
        named |=
            any.is_some_and(|all| all.iter().any(|one| one.as_object().is_some_and(names_keys)));
    }
    if named && !object.contains_key("additionalProperties") {
        object.insert("unevaluatedProperties".into(), false.into());
    }
}

/// What is wrong with a value that should be the answer of this name.
pub fn problems(name: &str, value: &Value) -> Vec<String> {
    let answer = &STRICT["answers"][name];
    assert!(!answer.is_null(), "no schema is called {name}");
    let schema = json!({"allOf": [answer], "$defs": STRICT["$defs"]});
    let validator = jsonschema::validator_for(&schema).unwrap();
    let told = |error: jsonschema::ValidationError<'_>| {
        let text = error.to_string();
        let short: String = text.chars().take(300).collect();
        format!("{}: {short}", error.instance_path())
    };
    validator.iter_errors(value).map(told).collect()
}

/// Holds the answer to a call against its schema. An answer may be one of several; one must fit.
pub fn check(arguments: &[&str], value: &Value) {
    let names = names(arguments);
    let found: Vec<Vec<String>> = names.iter().map(|name| problems(name, value)).collect();
    let fits = found.is_empty() || found.iter().any(Vec::is_empty);
    assert!(fits, "{arguments:?}: the answer does not fit {names:?}: {found:#?}\n{value:#}");
}

/// The names of the answers that a call may have. None: it has no schema of ours.
fn names(arguments: &[&str]) -> Vec<&'static str> {
    let has = |flag: &str| {
        let own = arguments.iter().take_while(|word| **word != "--");
        own.into_iter().any(|word| *word == flag || word.starts_with(&format!("{flag}=")))
    };
    let mut words = arguments.iter().copied();
    let mut command = "";
    while let Some(word) = words.next() {
        match word {
            "-C" | "--home" | "--workspace" | "--color" => drop(words.next()),
            word if word.starts_with('-') => {}
            word => {
                command = word;
                break;
            }
        }
    }
    let next = words.clone().find(|word| !word.starts_with('-')).unwrap_or_default();
    if matches!(command, "checkpoint" | "cp") {
        return match next {
            "create" => vec!["save", "checkpoint-create-loki"],
            "list" | "ls" => vec!["list"],
            "diff" | "restore" | "at" | "timeline" | "delete" => names(&words.collect::<Vec<_>>()),
            "prune" | "cleanup" => vec!["prune"],
            _ => vec![],
        };
    }
    match command {
        "adopt" => vec!["adopt"],
        "at" => vec!["at"],
        "bisect" if has("--abort") => vec!["bisect-abort"],
        "bisect" => vec!["bisect"],
        "cat" => vec!["cat"],
        "tag" | "pin" | "unpin" | "describe" => vec!["checkpoint"],
        "delete" => vec!["delete"],
        "diff" => vec!["diff"],
        "doctor" => vec!["doctor"],
        "export" => vec!["export"],
        "find" => vec!["find"],
        "gc" => vec!["gc"],
        "import" => vec!["import"],
        "init" => vec!["init"],
        "integrate" if has("--remove") => vec!["integrate-remove"],
        "integrate" => match next {
            "claude" | "codex" | "gemini" | "opencode" => vec!["integrate-agent"],
            "git" => vec!["integrate-git"],
            "systemd" => vec!["integrate-systemd"],
            _ => vec![],
        },
        "list" | "ls" => vec!["list"],
        "log" => vec!["log"],
        "prune" | "cleanup" => vec!["prune"],
        "recall" => vec!["recall"],
        "record" if has("--stdin") => vec!["record-line"],
        "record" => vec!["record"],
        "recover" if has("--steps") => vec!["recover-steps"],
        "recover" => vec!["recover", "recover-done", "recover-set-aside"],
        "replay" if has("--exit") => vec!["replay-exit"],
        "replay" if ["--step", "--agents", "--memory", "--files"].into_iter().any(has) => {
            vec!["replay-step"]
        }
        "replay" => vec!["replay"],
        "report" => vec!["report"],
        "restore" if has("--to") => vec!["restore-to"],
        "restore" => vec!["restore"],
        "save" => vec!["save"],
        "session" => match next {
            "list" | "ls" => vec!["session-list"],
            "show" => vec!["session-show"],
            "resume" => vec!["session-resume"],
            _ => vec!["session"],
        },
        "show" => vec!["show"],
        "stats" => vec!["stats"],
        "status" if has("--short") => vec!["status-short"],
        "status" => vec!["status", "status-unusable"],
        "timeline" => vec!["timeline"],
        "trust" if has("--list") => vec!["trust-list"],
        "trust" if has("--revoke") => vec!["trust-revoke"],
        "trust" => vec!["trust"],
        "undelete" => vec!["undelete"],
        "undo" | "redo" => vec!["undo"],
        "verify" if has("--repair") => vec!["verify-repair"],
        "verify" => vec!["verify"],
        _ => vec![],
    }
}
