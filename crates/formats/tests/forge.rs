//! The form of forge: whole states, changes on top of them, and files that make no sense.
#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, reason = "a test may")]

mod support;

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use rappel_formats::portable::Portable;
use rappel_formats::{Error, Form, detect, forge};
use rappel_types::Trigger;
use rappel_types::agents::{Confidence, HypothesisStatus, SessionState, news};
use serde_json::{Value, json};
use support::{checkpoint, fixture, history, read, reasoning, shown, state};

fn example() -> Value {
    serde_json::from_slice(&std::fs::read(fixture("forge/session.json")).unwrap()).unwrap()
}

fn put(folder: &Path, value: &Value) -> PathBuf {
    let path = folder.join("forge.json");
    std::fs::write(&path, value.to_string()).unwrap();
    path
}

/// Why a file is refused.
fn refusal(change: impl FnOnce(&mut Value)) -> String {
    let folder = tempfile::tempdir().unwrap();
    let mut file = example();
    change(&mut file);
    match read(Form::Forge, &put(folder.path(), &file)) {
        Err(Error::Refused { reason, .. }) => reason,
        other => panic!("it is not refused: {other:?}"),
    }
}

#[test]
fn changes_are_folded_onto_their_base() {
    let file = fixture("forge/session.json");
    assert_eq!(detect(&file), Some(Form::Forge));
    let found = read(Form::Forge, &file).unwrap();
    assert_eq!(found.skipped, []);
    let all = &found.checkpoints;
    let told: Vec<_> = all.iter().map(|one| (one.id.as_str(), one.trigger)).collect();
    assert_eq!(
        told,
        [
            ("cp-0", Trigger::Manual),
            ("cp-1", Trigger::HypothesisStatusChange),
            ("cp-2", Trigger::VerificationComplete),
            ("cp-3", Trigger::Scheduled)
        ]
    );
    let parents: Vec<_> = all.iter().map(|one| one.parent.as_deref()).collect();
    assert_eq!(parents, [None, Some("cp-0"), Some("cp-1"), Some("cp-2")]);
    assert_eq!(all[0].tags, ["experiment", "pre_change"]);
    let commit = all[0].git.as_ref().and_then(|git| git.commit.as_deref());
    assert_eq!(commit, Some("0123456789abcdef0123456789abcdef01234567"));
    let first = &all[0].sessions[0].state;
    assert_eq!(first.current_branch, "skip-norm");
    assert_eq!(first.command_history.iter().next().unwrap().exit_code, Some(101));
    assert_eq!(first.metrics.time_in_debugging, 3_600_000);
    let last = &all[2].sessions[0].state;
    let confirmed = last.hypotheses.get("h1").unwrap();
    assert_eq!(confirmed.status, HypothesisStatus::Confirmed);
    assert_eq!(Some(confirmed.confidence), Confidence::new(0.95));
    assert_eq!(confirmed.supported_by.as_ref().unwrap().0, "e2");
    assert_eq!(last.beliefs.get("b2").unwrap().text, "the tensor was transposed");
    assert_eq!((last.evidence.len(), last.verification_results.len()), (2, 2));
    assert_eq!((last.metrics.hypotheses_tested, last.metrics.verifications_run), (1, 2));
    // What a change does not tell stays.
    assert_eq!((last.notes.len(), last.gaps.len(), last.branches.len()), (1, 1, 1));
    assert!(all[3].sessions[0].state.hypotheses.is_empty());
    // Along the changes nothing is taken back; the last state knows less.
    assert!(news(first, last).is_some());
    assert!(news(last, &all[3].sessions[0].state).is_none());
}

#[test]
fn evidence_against_a_hypothesis_is_read_as_that() {
    let folder = tempfile::tempdir().unwrap();
    let mut file = example();
    let state = &mut file["checkpoints"][0]["Full"]["state"];
    let mut said = state["evidence"][0].clone();
    said.as_object_mut().unwrap().remove("supports");
    let cases = [
        (json!({"kind": "Refuting"}), false),
        (json!({"type": "contradicts"}), false),
        (json!({"evidence_type": "refutes"}), false),
        (json!({"kind": "TestResult"}), true),
        (json!({}), true),
        (json!({"supports": false}), false),
    ];
    let mut all = Vec::new();
    for (number, (more, _)) in cases.iter().enumerate() {
        let mut one = said.clone();
        one["id"] = format!("e{number}").into();
        for key in ["kind", "type", "evidence_type"] {
            one.as_object_mut().unwrap().remove(key);
        }
        for (key, value) in more.as_object().unwrap() {
            one[key] = value.clone();
        }
        all.push(one);
    }
    state["evidence"] = all.into();
    file["checkpoints"].as_array_mut().unwrap().truncate(1);
    let found = read(Form::Forge, &put(folder.path(), &file)).unwrap();
    let state = &found.checkpoints[0].sessions[0].state;
    let supports: Vec<bool> = state.evidence.iter().map(|one| one.supports).collect();
    assert_eq!(supports, cases.map(|(_, supports)| supports));
}

#[test]
fn what_was_read_is_written_back_with_all_its_fields() {
    let found = read(Form::Forge, &fixture("forge/session.json")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.json");
    let written = forge::write(&found.checkpoints, &path).unwrap();
    assert_eq!(written.paths, std::slice::from_ref(&path));
    let value: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    assert_eq!(value, example());
    // A delta without its base becomes a whole state.
    let alone = folder.path().join("alone.json.zst");
    forge::write(&found.checkpoints[2..3], &alone).unwrap();
    assert!(std::fs::read(&alone).unwrap().starts_with(&[0x28, 0xB5, 0x2F, 0xFD]));
    assert_eq!(detect(&alone), Some(Form::Forge));
    let again = read(Form::Forge, &alone).unwrap();
    let state = |one: &Portable| shown(&one.sessions[0].state);
    assert_eq!(state(&again.checkpoints[0]), state(&found.checkpoints[2]));
    assert_eq!(again.checkpoints[0].trigger, Trigger::VerificationComplete);
}

#[test]
fn a_chain_with_a_hole_is_refused_by_name() {
    let reason = refusal(|file| drop(file["checkpoints"].as_array_mut().unwrap().remove(1)));
    assert!(reason.contains("\"cp-2\"") && reason.contains("\"cp-1\""), "{reason}");
    // A base that cannot be read is a hole too.
    let reason = refusal(|file| file["checkpoints"][0]["Full"]["timestamp"] = json!("soon"));
    assert!(reason.contains("\"cp-1\"") && reason.contains("\"cp-0\""), "{reason}");
}

#[test]
fn circles_and_names_that_are_given_twice_are_refused() {
    let reason = refusal(|file| file["checkpoints"][1]["Delta"]["from"] = json!("cp-2"));
    assert!(reason.contains("builds on itself"), "{reason}");
    let reason = refusal(|file| file["checkpoints"][3]["Full"]["id"] = json!("cp-0"));
    assert!(reason.contains("two of its checkpoints"), "{reason}");
}

#[test]
fn the_order_in_the_file_does_not_matter() {
    let folder = tempfile::tempdir().unwrap();
    let mut file = example();
    file["checkpoints"].as_array_mut().unwrap().reverse();
    let found = read(Form::Forge, &put(folder.path(), &file)).unwrap();
    let ids: Vec<&str> = found.checkpoints.iter().map(|one| one.id.as_str()).collect();
    assert_eq!(ids, ["cp-0", "cp-1", "cp-2", "cp-3"]);
    assert_eq!(found.checkpoints[2].sessions[0].state.evidence.len(), 2);
}

#[test]
fn a_broken_checkpoint_is_skipped_and_what_dangles_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let mut file = example();
    file["checkpoints"][3] = json!({"Full": {"id": "cp-3"}});
    file["checkpoints"][0]["Full"]["state"]["evidence"][0]["hypothesis_id"] = json!("h9");
    let found = read(Form::Forge, &put(folder.path(), &file)).unwrap();
    assert_eq!(found.checkpoints.len(), 3);
    assert!(found.skipped[0].path.ends_with("(checkpoint 4)"), "{:?}", found.skipped);
    let partial = &found.checkpoints[0].partial;
    assert!(partial.len() == 1 && partial[0].contains("evidence"), "{partial:?}");
}

#[test]
fn bombs_are_refused() {
    // A few bytes that unpack to more than is read.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bomb.json.zst");
    let nothing = std::io::Read::take(std::io::repeat(b' '), (256 << 20) + 1);
    let file = std::fs::File::create(&path).unwrap();
    zstd::stream::copy_encode(nothing, file, 1).unwrap();
    assert!(std::fs::metadata(&path).unwrap().len() < 1 << 20);
    let error = read(Form::Forge, &path).unwrap_err().to_string();
    assert!(error.contains("unpacks to more"), "{error}");
    // Small changes to a large state, again and again.
    let gap = |number: usize| json!({"id": format!("g{number}"), "text": "?"});
    let gaps: Vec<Value> = (0..10_000).map(gap).collect();
    let head = |id: usize| json!({"id": id.to_string(), "timestamp": "2025-01-20T14:00:00Z"});
    let mut first = head(0);
    first["state"] = json!({"gaps": gaps});
    let changed = |id: usize| {
        let mut one = head(id);
        one["from"] = "0".into();
        one["delta"] = json!({});
        json!({"Delta": one})
    };
    let records: Vec<Value> =
        std::iter::once(json!({"Full": first})).chain((1..2_000).map(changed)).collect();
    let file = json!({"session_id": "s", "checkpoints": records});
    let error = read(Form::Forge, &put(folder.path(), &file)).unwrap_err().to_string();
    assert!(error.contains("more than 10000000 items"), "{error}");
    // Links that would all be compared with one another.
    let links: Vec<Value> =
        (0..20_001).map(|to| json!(["a", to.to_string(), "Supports"])).collect();
    let mut one = head(0);
    one["state"] = json!({"belief_dependencies": links});
    let file = json!({"session_id": "s", "checkpoints": [{"Full": one}]});
    let error = read(Form::Forge, &put(folder.path(), &file)).unwrap_err().to_string();
    assert!(error.contains("links between beliefs"), "{error}");
}

#[test]
fn more_checkpoints_are_added_to_a_file_and_others_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("forge.json");
    let note = r#"{"kind":"note","text":"n"}"#;
    let first = checkpoint("c1", Trigger::Manual, state(&[note]));
    let second = checkpoint("c2", Trigger::SessionStart, state(&[note, note]));
    forge::write(std::slice::from_ref(&first), folder.path()).unwrap();
    for _ in 0..2 {
        forge::write(&[first.clone(), second.clone()], &path).unwrap();
        let value: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let told = |one: &Value| (one["Full"]["id"].clone(), one["Full"]["sequence"].clone());
        let told: Vec<_> = value["checkpoints"].as_array().unwrap().iter().map(told).collect();
        assert_eq!(told, [(json!("c1"), json!(0)), (json!("c2"), json!(1))]);
        assert_eq!(value["checkpoints"][0]["Full"]["trigger"], json!("Manual"));
    }
    // Forge has no word for the start of a session; ours stands beside its nearest.
    let found = read(Form::Forge, &path).unwrap();
    assert_eq!(found.checkpoints[1].trigger, Trigger::SessionStart);
    let other = folder.path().join("package.json");
    std::fs::write(&other, r#"{"name": "x"}"#).unwrap();
    assert!(forge::write(&[first], &other).is_err());
    assert_eq!(std::fs::read_to_string(&other).unwrap(), r#"{"name": "x"}"#);
}

/// What forge has no place for.
fn carried(state: &SessionState) -> Value {
    let mut shown = shown(state);
    let fields = shown.as_object_mut().unwrap();
    for lost in ["task", "prompts", "progress", "contradictions", "workspace", "process"] {
        fields.remove(lost);
    }
    shown
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn what_forge_can_carry_comes_back(
        states in history(reasoning()),
        trigger in support::trigger(),
        packed in any::<bool>(),
    ) {
        let checkpoints: Vec<Portable> = states
            .iter()
            .enumerate()
            .map(|(place, state)| {
                let mut one = checkpoint(&format!("c{place}"), trigger, state.clone());
                one.description = Some(format!("number {place}"));
                one.tags = vec!["tag".into()];
                one
            })
            .collect();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(if packed { "f.json.zst" } else { "f.json" });
        forge::write(&checkpoints, &path).unwrap();
        let found = read(Form::Forge, &path).unwrap();
        prop_assert_eq!(found.skipped.len(), 0);
        prop_assert_eq!(found.checkpoints.len(), checkpoints.len());
        for (read, made) in found.checkpoints.iter().zip(&checkpoints) {
            prop_assert_eq!((&read.id, read.created_at, read.trigger),
                (&made.id, made.created_at, made.trigger));
            prop_assert_eq!((&read.description, &read.tags), (&made.description, &made.tags));
            prop_assert_eq!(read.partial.len(), 0);
            prop_assert_eq!(carried(&read.sessions[0].state), carried(&made.sessions[0].state));
        }
    }
}
