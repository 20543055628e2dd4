//! `docs/schema`: derived from the types that write, compared with what stands there, and held
//! against everything that we write and every good fixture.
#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, reason = "a test may")]

mod support;

use std::path::{Path, PathBuf};

use jsonschema::Validator;
use proptest::prelude::*;
use rappel_formats::portable::{Git, Portable};
use rappel_formats::{aiwg, caf, forge};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;
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
    Ok(())
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
        one.sessions.clear();
        check(&one)?;
    }
}

#[test]
fn a_summary_is_valid() {
    let summary = aiwg::summary_of(&fixture("aiwg")).unwrap();
    let value = serde_json::to_value(&summary).unwrap();
    assert_eq!(problems(&validator("aiwg-summary.json"), &value), [""; 0]);
}
