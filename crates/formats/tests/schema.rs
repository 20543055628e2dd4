//! `docs/schema`: derived from the types that write, compared with what stands there, and held
//! against everything that we write and every good fixture.
#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, reason = "a test may")]

mod support;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use jsonschema::Validator;
use proptest::prelude::*;
use rappel_formats::portable::{
    Database, File, Files, Git, Knowledge, KnowledgeDocument, Portable, Worktree,
};
use rappel_formats::{Form, aiwg, caf, forge, triggers};
use rappel_types::database::DatabaseKind;
use rappel_types::{RelPath, Trigger};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};
use support::{checkpoint, fixture, folded, reasoning, thinking};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema")
}

fn derived<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    settings.into_generator().into_root_schema_for::<T>().to_value()
}

fn all() -> [(&'static str, Value); 4] {
    [
        ("caf-checkpoint.json", derived::<caf::Checkpoint>()),
        ("forge-session.json", derived::<forge::document::File>()),
        ("aiwg-checkpoint.json", derived::<aiwg::CheckpointData>()),
        ("aiwg-summary.json", derived::<aiwg::CheckpointSummary>()),
    ]
}

fn load(path: &Path) -> Value {
    let text = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_slice(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn validator(name: &str) -> Validator {
    jsonschema::validator_for(&load(&folder().join(name))).unwrap()
}

fn problems(validator: &Validator, value: &Value) -> Vec<String> {
    let told =
        |error: jsonschema::ValidationError<'_>| format!("{}: {error}", error.instance_path());
    validator.iter_errors(value).map(told).collect()
}

#[test]
fn the_schemas_are_those_of_the_types() {
    for (name, schema) in all() {
        let path = folder().join(name);
        if std::env::var_os("RAPPEL_GOLDEN").is_some() {
            std::fs::create_dir_all(folder()).unwrap();
            let text = serde_json::to_string_pretty(&schema).unwrap() + "\n";
            std::fs::write(&path, text).unwrap();
        }
        assert_eq!(load(&path), schema, "{name}: RAPPEL_GOLDEN=1 writes it anew");
    }
}

#[test]
fn every_schema_is_one() {
    let mut count = 0;
    for entry in std::fs::read_dir(folder()).unwrap() {
        let schema = load(&entry.unwrap().path());
        assert!(jsonschema::meta::is_valid(&schema));
        jsonschema::validator_for(&schema).unwrap();
        count += 1;
    }
    assert!(count >= all().len());
}

#[test]
fn the_good_fixtures_are_valid_and_broken_ones_are_not() {
    let caf = validator("caf-checkpoint.json");
    let seed = load(&fixture("caf/ckpt_abc123.json"));
    assert_eq!(problems(&caf, &seed), [""; 0]);
    for lost in ["version", "snapshot", "metadata"] {
        let mut seed = seed.clone();
        seed.as_object_mut().unwrap().remove(lost);
        assert!(!caf.is_valid(&seed), "{lost}");
    }
    let aiwg = validator("aiwg-checkpoint.json");
    let mut data = load(&fixture("aiwg/checkpoints/003-checkpoint.json"));
    assert_eq!(problems(&aiwg, &data), [""; 0]);
    data["memory"]["rss"] = "much".into();
    assert!(!aiwg.is_valid(&data));
}

fn check(checkpoint: &Portable) -> Result<(), TestCaseError> {
    let place = tempfile::tempdir().unwrap();
    let one = std::slice::from_ref(checkpoint);
    let written = [
        ("caf-checkpoint.json", caf::write(one, &place.path().join("caf")).unwrap()),
        ("forge-session.json", forge::write(one, &place.path().join("forge.json")).unwrap()),
        ("aiwg-checkpoint.json", aiwg::write_all(one, &place.path().join("aiwg")).unwrap()),
    ];
    for (schema, written) in written {
        let validator = validator(schema);
        for path in written.paths {
            prop_assert_eq!(problems(&validator, &load(&path)), [""; 0], "{}", schema);
        }
    }
    for (schema, value) in folders_of_others(one, place.path()) {
        prop_assert_eq!(problems(&validator(schema), &value), [""; 0], "{}: {}", schema, value);
    }
    Ok(())
}

/// Every JSON document that is written for Lugh and for Loki Mode, with the name of its schema.
fn folders_of_others(one: &[Portable], place: &Path) -> Vec<(&'static str, Value)> {
    let (lugh, loki) = (place.join("lugh"), place.join("loki"));
    rappel_formats::write(Form::Lugh, one, &lugh).unwrap();
    rappel_formats::write(Form::Loki, one, &loki).unwrap();
    let mut found = Vec::new();
    for (name, schema) in [
        ("checkpoint.json", "lugh-checkpoint.json"),
        ("agent_states.json", "lugh-agent-states.json"),
        ("knowledge_index.json", "lugh-knowledge-index.json"),
    ] {
        found.push((schema, load(&lugh.join("latest").join(name))));
    }
    for line in std::fs::read_to_string(loki.join("index.jsonl")).unwrap().lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let folder = loki.join(line["id"].as_str().unwrap());
        found.push(("loki-metadata.json", load(&folder.join("metadata.json"))));
        found.push(("loki-index-line.json", line));
    }
    found
}

/// One that has something for every key of Lugh and Loki Mode.
fn with_everything(mut one: Portable) -> Portable {
    let path = |text: &str| -> RelPath { text.parse().unwrap() };
    let file = |text: &str| {
        let content = Arc::new(text.as_bytes().to_vec());
        File { is_link: false, mode: 0o644, modified: None, content }
    };
    let files = |root: &str| Files {
        root: root.into(),
        whole: true,
        state_dirs: vec![path(".loki")],
        entries: [".loki/session.json", ".loki/queue/pending.json", "src/main.rs"]
            .map(|name| (path(name), file(name)))
            .into(),
    };
    one.files = Some(files("/home/me/my-app"));
    one.git = Some(Git {
        branch: Some("main".into()),
        commit: Some("0".repeat(40)),
        dirty_files: vec![path("src/main.rs")],
        worktrees: vec![Worktree {
            name: "side".into(),
            branch: None,
            commit: Some("1".repeat(40)),
            path: "/home/me/side".into(),
            files: Some(files("/home/me/side")),
        }],
        ..Git::default()
    });
    let database = |name: &str, kind| Database {
        name: name.into(),
        kind,
        tables: vec!["t".into()],
        row_counts: [("t".to_owned(), 1)].into(),
        dump: Some(Arc::new(b"x".to_vec())),
    };
    let kinds = [DatabaseKind::Postgres, DatabaseKind::Sqlite, DatabaseKind::Command];
    one.databases = ["main", "app.db", "cache"]
        .into_iter()
        .zip(kinds)
        .map(|(name, kind)| database(name, kind))
        .collect();
    one.knowledge = Some(Knowledge {
        projects: vec!["my-app".into()],
        document_count: 1,
        documents: vec![KnowledgeDocument { path: path("a.md"), bytes: 1, hash: "ab".repeat(32) }],
    });
    one.parent = Some("c0".into());
    one.tags = vec!["green".into()];
    one.description = Some("before".into());
    one.environment = Some("staging".into());
    one.process = Some((1000, 500));
    one.partial = vec!["something is missing".into()];
    one.metadata =
        [("iteration".to_owned(), 12.into()), ("phase".to_owned(), "build".into())].into();
    one
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn everything_that_is_written_is_valid(
        bodies in prop::collection::vec(prop_oneof![thinking(), reasoning()], 0..60),
        trigger in support::trigger(),
        git in any::<bool>(),
    ) {
        let state = folded(bodies.into_iter().map(|body| (None, body)));
        let mut one = checkpoint("c1", trigger, state);
        one.git = git.then(|| Git { commit: Some("0".repeat(40)), ..Git::default() });
        check(&one)?;
        check(&with_everything(one.clone()))?;
        one.sessions.clear();
        check(&one)?;
    }
}

#[test]
fn the_table_of_triggers_is_the_one_in_the_code() {
    let page = std::fs::read_to_string(folder().join("../formats.md")).unwrap();
    for trigger in Trigger::ALL {
        let begins = format!("| `{trigger}` |");
        let line = page.lines().find(|line| line.starts_with(&begins));
        let line = line.unwrap_or_else(|| panic!("{trigger} is not in the table"));
        let more = if triggers::is_exact_in_forge(*trigger) { "" } else { " +" };
        let (forge, caf) = (triggers::to_forge(*trigger), triggers::to_caf(*trigger));
        let ends = format!("| `{forge}`{more} | `{caf}` |");
        assert!(line.ends_with(&ends), "{line}\n should end in\n{ends}");
    }
}

/// As their documents show them.
#[test]
fn examples_of_lugh_and_loki_are_valid() {
    let lugh = json!({
        "id": "chk_20241227_143022", "created_at": "2024-12-27T14:30:22Z", "trigger": "manual",
        "description": "Before major refactor", "environment": "staging",
        "git": {"branch": "develop", "commit": "abc123def", "dirty_files": ["src/index.ts"],
            "worktrees": [{"name": "issue-42", "branch": "fix/issue-42", "path": "/.lugh/worktrees/issue-42"}]},
        "database": {"snapshot_file": "db_snapshot.sql", "tables": ["sessions"], "row_counts": {"sessions": 8}},
        "agents": {"active_count": 2, "sessions": [
            {"id": "sess_123", "conversation_id": "conv_456", "assistant_session_id": "claude_789"}]},
        "knowledge": {"projects": ["my-app"], "document_count": 42}
    });
    assert_eq!(problems(&validator("lugh-checkpoint.json"), &lugh), [""; 0]);
    let metadata = validator("loki-metadata.json");
    for (name, time, message) in [
        ("cp-12-1739345422", "timestamp", "task_description"),
        ("cp-20260212-143022", "timestamp", "message"),
        ("chk-20260212-150105", "created_at", "message"),
    ] {
        let mut one = json!({"id": name, "git_sha": "abc", "files": ["session.json"]});
        one[time] = "2026-02-12T14:30:22Z".into();
        one[message] = "text".into();
        assert_eq!(problems(&metadata, &one), [""; 0]);
        one["id"] = "../out".into();
        assert!(!metadata.is_valid(&one));
    }
    let line = json!({"id": "cp-12-1", "ts": "2026-02-12T14:30:22Z", "iter": 12, "task": "t", "sha": "abc"});
    assert_eq!(problems(&validator("loki-index-line.json"), &line), [""; 0]);
}

#[test]
fn a_summary_is_valid() {
    let summary = aiwg::summary_of(&fixture("aiwg")).unwrap();
    let value = serde_json::to_value(&summary).unwrap();
    assert_eq!(problems(&validator("aiwg-summary.json"), &value), [""; 0]);
}
