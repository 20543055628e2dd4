//! The form of CAF: the seed's own example, both shapes, broken files, and the four tables.
#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, reason = "a test may")]

mod support;

use std::path::Path;
use std::process::Command;

use proptest::prelude::*;
use rappel_formats::caf::{self, migrate, sqlite};
use rappel_formats::portable::Portable;
use rappel_formats::{Error, Form, detect};
use rappel_types::Trigger;
use rappel_types::agents::{SessionState, SessionStatus, news};
use serde_json::{Value, json};
use support::{checkpoint, fixture, history, read, session, shown, state, thinking};

fn json_of(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

#[test]
fn the_example_comes_back_byte_for_byte() {
    let file = fixture("caf/ckpt_abc123.json");
    assert_eq!(detect(&file), Some(Form::Caf));
    let found = read(Form::Caf, &file).unwrap();
    let one = &found.checkpoints[0];
    assert_eq!((one.id.as_str(), one.trigger), ("ckpt_abc123", Trigger::ThoughtCompleted));
    assert_eq!(one.session.as_deref(), Some("exec_xyz"));
    let state = &one.sessions[0].state;
    assert_eq!(state.thought_chain.iter().next().unwrap().id, "thought_001");
    assert_eq!(
        (state.task.as_deref(), state.progress.tokens.total()),
        (Some("code analysis"), 250)
    );
    let copy = tempfile::tempdir().unwrap();
    let written = caf::write(&found.checkpoints, copy.path()).unwrap();
    assert_eq!(written.paths, [copy.path().join("ckpt_abc123.json")]);
    assert_eq!(std::fs::read(&written.paths[0]).unwrap(), std::fs::read(&file).unwrap());
}

#[test]
fn keys_stand_in_the_documented_order_without_a_document_too() {
    let mut found = read(Form::Caf, &fixture("caf/ckpt_abc123.json")).unwrap().checkpoints;
    found[0].document = None;
    let copy = tempfile::tempdir().unwrap();
    let written = caf::write(&found, copy.path()).unwrap();
    let expected = std::fs::read_to_string(fixture("caf/ckpt_abc123.json")).unwrap();
    assert_eq!(std::fs::read_to_string(&written.paths[0]).unwrap(), expected);
}

#[test]
fn the_shape_that_the_code_writes_is_read_and_becomes_the_documented_one() {
    let file = fixture("caf/code/ckpt_code1.json");
    let found = read(Form::Caf, &file).unwrap();
    let one = &found.checkpoints[0];
    assert_eq!(one.parent.as_deref(), Some("ckpt_code0"));
    assert_eq!(one.description.as_deref(), Some("before the refactoring"));
    assert_eq!(one.trigger, Trigger::ToolExecuted);
    let state = &one.sessions[0].state;
    let thoughts: Vec<&str> = state.thought_chain.iter().map(|one| one.content.as_str()).collect();
    assert_eq!(thoughts, ["look first", "then change", "renamed"]);
    let said: Vec<&str> = state.history().iter().map(|one| one.content).collect();
    assert_eq!(said, ["rename it", "renamed"]);
    let done: Vec<(&str, Option<bool>)> =
        state.tool_state.done.iter().map(|one| (one.id.as_str(), one.success)).collect();
    assert_eq!(done, [("c1", Some(true)), ("c2", Some(false))]);
    assert!(state.tool_state.running.get("c3").is_some());
    assert_eq!(state.progress.step_number, 4);
    // The golden file is the other side of the migration.
    let copy = tempfile::tempdir().unwrap();
    let written = caf::write(&found.checkpoints, copy.path()).unwrap();
    let golden = fixture("caf/code/ckpt_code1.documented.golden");
    if std::env::var_os("RAPPEL_GOLDEN").is_some() {
        std::fs::copy(&written.paths[0], &golden).unwrap();
    }
    assert_eq!(
        std::fs::read_to_string(&written.paths[0]).unwrap(),
        std::fs::read_to_string(&golden).unwrap()
    );
    // Migrated again, it stays as it is, and nothing of it is lost.
    let documented = json_of(&written.paths[0]);
    assert_eq!(migrate::documented(documented.clone()), documented);
    let text = documented.to_string();
    for kept in ["mood", "depth", "window", "max_iterations", "thoughts_added", "cost", "system"] {
        assert!(text.contains(kept), "{kept} is lost");
    }
    let again = read(Form::Caf, &written.paths[0]).unwrap();
    assert_eq!(shown(&again.checkpoints[0].sessions[0].state), shown(state));
}

#[test]
fn a_folder_is_read_without_its_broken_files_and_each_is_named() {
    let folder = tempfile::tempdir().unwrap();
    for place in ["caf/broken", "caf"] {
        for entry in std::fs::read_dir(fixture(place)).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_file() {
                std::fs::copy(entry.path(), folder.path().join(entry.file_name())).unwrap();
            }
        }
    }
    std::os::unix::fs::symlink("/etc/hostname", folder.path().join("link.json")).unwrap();
    let pipe = folder.path().join("pipe.json");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    std::fs::write(folder.path().join("deep.json"), "[".repeat(1 << 20)).unwrap();
    let found = read(Form::Caf, folder.path()).unwrap();
    let ids: Vec<&str> = found.checkpoints.iter().map(|one| one.id.as_str()).collect();
    assert_eq!(ids, ["ckpt_abc123", "twice"]);
    let skipped = |name: &str| {
        let found = found.skipped.iter().find(|one| one.path.ends_with(name));
        found.unwrap_or_else(|| panic!("{name} is not named")).reason.clone()
    };
    for (name, reason) in [
        ("torn.json", "not JSON"),
        ("newer.json", "version 0.9.0; this build reads 0.0.1"),
        ("b-second.json", "another file has the id"),
        ("timeless.json", "not a time"),
        ("list.json", "no version"),
        ("versionless.json", "no version"),
        ("link.json", "a link"),
        ("pipe.json", "not a regular file"),
        ("deep.json", "not JSON"),
    ] {
        assert!(skipped(name).contains(reason), "{name}: {}", skipped(name));
    }
}

#[test]
fn an_unknown_version_is_refused_with_the_one_that_is_needed() {
    let error = read(Form::Caf, &fixture("caf/broken/newer.json")).unwrap_err();
    assert!(matches!(&error, Error::Version { found, .. } if found == "0.9.0"), "{error}");
    let error = error.to_string();
    assert!(error.contains("0.9.0") && error.contains("0.0.1"), "{error}");
    let error = read(Form::Caf, &fixture("caf/broken/torn.json")).unwrap_err();
    assert!(matches!(error, Error::Refused { .. }), "{error}");
}

#[test]
fn a_checkpoint_with_too_many_items_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut one = json_of(&fixture("caf/ckpt_abc123.json"));
    one["snapshot"]["context"]["history"] = vec![Value::Null; 100_000].into();
    let file = folder.path().join("a.json");
    std::fs::write(&file, one.to_string()).unwrap();
    let error = read(Form::Caf, &file).unwrap_err().to_string();
    assert!(error.contains("more than 100000"), "{error}");
}

#[test]
fn an_id_never_leads_out_of_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("in");
    for id in ["../out", "/tmp/out", ".hidden", "a/b"] {
        let one = checkpoint(id, Trigger::Manual, state(&[]));
        assert!(caf::write(&[one], &place).is_err(), "{id}");
    }
    assert!(!place.exists());
}

#[test]
fn an_export_says_what_has_no_place() {
    let knows = state(&[r#"{"kind":"hypothesis","text":"h"}"#, r#"{"kind":"note","text":"n"}"#]);
    let mut one = checkpoint("c", Trigger::Manual, knows);
    one.description = Some("message".into());
    let folder = tempfile::tempdir().unwrap();
    let left_out = caf::write(&[one], folder.path()).unwrap().left_out;
    for part in ["messages", "hypotheses and evidence", "notes"] {
        assert!(left_out.iter().any(|one| one.ends_with(part)), "{part}: {left_out:?}");
    }
    assert_eq!(left_out.len(), 3, "{left_out:?}");
}

/// What CAF has no word for: that a session is over, its task, and when what is said by itself.
fn carried(state: &SessionState) -> Value {
    let mut shown = shown(state);
    let fields = shown.as_object_mut().unwrap();
    for lost in ["status", "ended_at", "task", "metrics", "workspace", "process", "counted"] {
        fields.remove(lost);
    }
    // No duration tells no beginning.
    if state.started_at.is_some_and(|began| Some(began) == state.latest_at) {
        fields.insert("started_at".into(), Value::Null);
    }
    for lost in ["files_touched", "latest_at", "provider"] {
        fields.remove(lost);
    }
    shown
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn what_caf_can_carry_comes_back(states in history(thinking()), trigger in support::trigger()) {
        let checkpoints: Vec<Portable> = states
            .iter()
            .enumerate()
            .map(|(place, state)| checkpoint(&format!("c{place}"), trigger, state.clone()))
            .collect();
        let folder = tempfile::tempdir().unwrap();
        caf::write(&checkpoints, folder.path()).unwrap();
        let found = read(Form::Caf, folder.path()).unwrap();
        prop_assert_eq!(found.skipped.len(), 0);
        prop_assert_eq!(found.checkpoints.len(), checkpoints.len());
        let mut before: Option<&SessionState> = None;
        for (read, made) in found.checkpoints.iter().zip(&checkpoints) {
            prop_assert_eq!((&read.id, read.created_at, read.trigger),
                (&made.id, made.created_at, made.trigger));
            let state = &read.sessions[0].state;
            prop_assert_eq!(carried(state), carried(&made.sessions[0].state));
            // A history grows: nothing looks as if it was taken back.
            if let Some(before) = before {
                prop_assert!(news(before, state).is_some());
            }
            before = Some(state);
        }
        // Its own document is written back, byte for byte.
        let again = tempfile::tempdir().unwrap();
        for path in caf::write(&found.checkpoints, again.path()).unwrap().paths {
            let first = folder.path().join(path.file_name().unwrap());
            prop_assert_eq!(std::fs::read(&path).unwrap(), std::fs::read(first).unwrap());
        }
    }
}

fn sql(file: &Path, query: &str) -> String {
    let output = Command::new("sqlite3").arg(file).arg(query).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

const FIRST: [&str; 3] = [
    r#"{"kind":"thought","text":"first","type":"reasoning","confidence":0.5}"#,
    r#"{"kind":"thought","text":"second","type":"action","parent":"t2"}"#,
    r#"{"kind":"tool","tool":"shell","input":{"command":"make"},"started":true}"#,
];

fn later() -> Vec<&'static str> {
    let mut lines = FIRST.to_vec();
    lines.push(r#"{"kind":"tool","id":"x4","finished":true,"error":"exit 2"}"#);
    lines.push(r#"{"kind":"tool","tool":"read","input":{},"output":"text"}"#);
    lines
}

#[test]
fn the_tables_have_the_documented_columns_and_sqlite3_reads_them() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("caf.db");
    let first = checkpoint("c1", Trigger::ThoughtCompleted, state(&FIRST));
    let second = checkpoint("c2", Trigger::ExecutionCompleted, state(&later()));
    sqlite::write(&file, std::slice::from_ref(&first)).unwrap();
    assert_eq!(sql(&file, "SELECT success, completed_at IS NULL FROM tool_calls"), "0|1");
    // Twice the same adds nothing; the call that ran has ended meanwhile.
    for _ in 0..2 {
        sqlite::write(&file, &[first.clone(), second.clone()]).unwrap();
        assert_eq!(sql(&file, "PRAGMA foreign_key_check"), "");
        assert_eq!(sql(&file, "PRAGMA integrity_check"), "ok");
        assert_eq!(sql(&file, "SELECT group_concat(id) FROM checkpoints"), "c1,c2");
        assert_eq!(
            sql(&file, "SELECT id, checkpoint_id, type, confidence, parent_id FROM thoughts"),
            "t2|c1|reasoning|0.5|\nt3|c1|action||t2"
        );
        assert_eq!(
            sql(&file, "SELECT id, checkpoint_id, tool_id, success, error FROM tool_calls"),
            "x4|c1|shell|0|exit 2\nx6|c2|read|1|"
        );
        assert_eq!(sql(&file, "SELECT id, status FROM executions"), "s1|completed");
    }
    // An older one that is added later does not turn the run, or the call, back.
    sqlite::write(&file, &[first]).unwrap();
    assert_eq!(sql(&file, "SELECT status FROM executions"), "completed");
    assert_eq!(sql(&file, "SELECT completed_at IS NOT NULL FROM tool_calls"), "1\n1");
    let column =
        "SELECT group_concat(name || ' ' || type || ' ' || \"notnull\" || ' ' || pk) FROM ";
    for (table, columns) in [
        (
            "checkpoints",
            "id TEXT 0 1,timestamp INTEGER 1 0,execution_id TEXT 1 0,agent_id TEXT 1 0,\
             snapshot_json TEXT 1 0,metadata_json TEXT 1 0",
        ),
        (
            "thoughts",
            "id TEXT 0 1,checkpoint_id TEXT 1 0,type TEXT 1 0,content TEXT 1 0,confidence REAL 0 0,\
             parent_id TEXT 0 0,created_at INTEGER 1 0",
        ),
        (
            "tool_calls",
            "id TEXT 0 1,checkpoint_id TEXT 1 0,tool_id TEXT 1 0,args_json TEXT 1 0,\
             result_json TEXT 0 0,success INTEGER 1 0,error TEXT 0 0,started_at INTEGER 1 0,\
             completed_at INTEGER 0 0",
        ),
        (
            "executions",
            "id TEXT 0 1,agent_id TEXT 1 0,task TEXT 1 0,started_at INTEGER 1 0,\
             completed_at INTEGER 0 0,status TEXT 1 0",
        ),
    ] {
        assert_eq!(sql(&file, &format!("{column}pragma_table_info('{table}')")), columns);
    }
    let links = "SELECT group_concat(\"from\" || '>' || \"table\" || '.' || \"to\") FROM ";
    for (table, keys) in [
        ("checkpoints", "execution_id>executions.id"),
        ("thoughts", "parent_id>thoughts.id,checkpoint_id>checkpoints.id"),
        ("tool_calls", "checkpoint_id>checkpoints.id"),
    ] {
        assert_eq!(sql(&file, &format!("{links}pragma_foreign_key_list('{table}')")), keys);
    }
    // The questions that the tables are for, answered with an index.
    let plan = |query: &str| sql(&file, &format!("EXPLAIN QUERY PLAN {query}"));
    for (query, index) in [
        ("SELECT checkpoint_id FROM tool_calls WHERE tool_id = 'shell'", "tool_calls_by_tool"),
        ("SELECT id FROM checkpoints WHERE timestamp > 5", "checkpoints_by_timestamp"),
        ("SELECT id FROM checkpoints WHERE execution_id = 's1'", "checkpoints_by_execution"),
    ] {
        assert!(plan(query).contains(index), "{query}: {}", plan(query));
    }
    // jq reads what stands in them, and the files.
    let snapshot = sql(&file, "SELECT snapshot_json FROM checkpoints WHERE id = 'c2'");
    std::fs::write(folder.path().join("s.json"), snapshot).unwrap();
    let jq =
        Command::new("jq").args(["-c", ".progress"]).arg(folder.path().join("s.json")).output();
    let jq = String::from_utf8(jq.unwrap().stdout).unwrap();
    assert_eq!(jq.trim(), r#"{"step_number":0,"total_thoughts":2,"total_tool_calls":2}"#);
}

#[test]
fn two_runs_may_use_the_same_ids() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("caf.db");
    let one = checkpoint("c1", Trigger::Manual, state(&FIRST));
    let mut other = checkpoint("c2", Trigger::Manual, state(&FIRST));
    other.session = Some("s2".into());
    other.sessions = vec![session("s2", state(&FIRST))];
    for _ in 0..2 {
        sqlite::write(&file, &[one.clone(), other.clone()]).unwrap();
        assert_eq!(
            sql(&file, "SELECT id, parent_id FROM thoughts ORDER BY rowid"),
            "t2|\nt3|t2\ns2:t2|\ns2:t3|s2:t2"
        );
        assert_eq!(sql(&file, "SELECT id FROM tool_calls ORDER BY rowid"), "x4\ns2:x4");
        assert_eq!(sql(&file, "PRAGMA foreign_key_check"), "");
    }
}

#[test]
fn a_thought_whose_parent_is_not_there_has_none() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("caf.db");
    let line = r#"{"kind":"thought","text":"x","parent":"t99"}"#;
    sqlite::write(&file, &[checkpoint("c1", Trigger::Manual, state(&[line]))]).unwrap();
    assert_eq!(sql(&file, "SELECT id, parent_id IS NULL FROM thoughts"), "t2|1");
}

#[test]
fn a_file_that_is_something_else_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("notes.txt");
    std::fs::write(&text, "no database, and longer than its header would be".repeat(9)).unwrap();
    let before = std::fs::read(&text).unwrap();
    let one = checkpoint("c1", Trigger::Manual, state(&FIRST));
    assert!(sqlite::write(&text, std::slice::from_ref(&one)).is_err());
    assert_eq!(std::fs::read(&text).unwrap(), before);
    // Tables of another shape: all of it or nothing.
    let file = folder.path().join("other.db");
    sql(&file, "CREATE TABLE thoughts (id TEXT PRIMARY KEY, mood TEXT)");
    let error = sqlite::write(&file, std::slice::from_ref(&one)).unwrap_err();
    assert!(error.to_string().contains("thoughts"), "{error}");
    assert_eq!(
        sql(&file, "SELECT group_concat(name) FROM sqlite_schema"),
        "thoughts,sqlite_autoindex_thoughts_1"
    );
    // A trigger that somebody left in it is not run.
    let file = folder.path().join("trap.db");
    sqlite::write(&file, std::slice::from_ref(&one)).unwrap();
    sql(&file, "CREATE TRIGGER trap AFTER UPDATE ON checkpoints BEGIN DELETE FROM tool_calls; END");
    sqlite::write(&file, &[one]).unwrap();
    assert_eq!(sql(&file, "SELECT count(*) FROM tool_calls"), "1");
}

#[test]
fn a_history_of_a_thousand_is_read_in_one_go_and_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let example = json_of(&fixture("caf/ckpt_abc123.json"));
    for number in 0..1_000_u64 {
        let mut one = example.clone();
        // Names do not tell the order; times do.
        let id = format!("ckpt_{:03}", (number * 7) % 1_000);
        one["id"] = id.clone().into();
        one["timestamp"] = (1_738_790_400_000 + number).into();
        let path = folder.path().join(format!("{id}.json"));
        std::fs::write(path, one.to_string()).unwrap();
    }
    let found = read(Form::Caf, folder.path()).unwrap();
    assert_eq!(found.checkpoints.len(), 1_000);
    assert!(found.checkpoints.is_sorted_by_key(|one| one.created_at));
    for pair in found.checkpoints.windows(2) {
        assert_eq!(pair[1].parent.as_deref(), Some(pair[0].id.as_str()));
    }
}

#[test]
fn a_pause_and_an_end_are_told_by_their_reasons() {
    for (reason, status) in [
        ("paused", SessionStatus::Paused),
        ("execution_completed", SessionStatus::Completed),
        ("something else", SessionStatus::Running),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut one = json_of(&fixture("caf/ckpt_abc123.json"));
        one["metadata"]["checkpoint_reason"] = reason.into();
        std::fs::write(folder.path().join("a.json"), one.to_string()).unwrap();
        let found = read(Form::Caf, folder.path()).unwrap();
        assert_eq!(found.checkpoints[0].sessions[0].status, status, "{reason}");
        // The original word is written back.
        let copy = tempfile::tempdir().unwrap();
        let written = caf::write(&found.checkpoints, copy.path()).unwrap();
        assert_eq!(json_of(&written.paths[0])["metadata"]["checkpoint_reason"], json!(reason));
    }
}
