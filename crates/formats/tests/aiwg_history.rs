//! State folders of aiwg as a history: read, and written on.
#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, reason = "a test may")]

mod support;

use std::path::Path;

use proptest::prelude::*;
use rappel_formats::aiwg::{self, CheckpointData};
use rappel_formats::portable::{Git, Portable};
use rappel_formats::{Error, Form, detect};
use rappel_types::Trigger;
use serde_json::{Value, json};
use support::{checkpoint, fixture, moment, read, state};

fn example() -> Value {
    let file = fixture("aiwg/checkpoints/003-checkpoint.json");
    serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap()
}

/// A state folder with these numbers, a minute apart.
fn folder(numbers: &[u64]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("checkpoints")).unwrap();
    for number in numbers {
        let mut data = example();
        data["number"] = (*number).into();
        data["timestamp"] = json!(moment(*number as i64 * 60_000));
        put(folder.path(), *number, &data.to_string());
    }
    folder
}

fn put(folder: &Path, number: u64, text: &str) {
    let path = folder.join("checkpoints").join(aiwg::file_name(number));
    std::fs::write(path, text).unwrap();
}

#[test]
fn a_state_folder_its_checkpoints_and_one_file_are_read() {
    let place = fixture("aiwg");
    for path in [&place, &place.join("checkpoints"), &place.join("checkpoints/003-checkpoint.json")]
    {
        assert_eq!(detect(path), Some(Form::Aiwg), "{}", path.display());
        let found = read(Form::Aiwg, path).unwrap();
        assert_eq!(found.place, place.join("checkpoints"));
        let one = found.checkpoints.iter().find(|one| one.id == "3").unwrap();
        assert_eq!(
            (one.trigger, one.session.as_deref()),
            (Trigger::Scheduled, Some("abc123-def456"))
        );
        let git = one.git.as_ref().unwrap();
        assert_eq!(git.branch.as_deref(), Some("feature/auth"));
        let names = |paths: &[rappel_types::RelPath]| {
            paths.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(names(&git.modified), ["src/auth/login.ts"]);
        assert_eq!(names(&git.dirty_files), ["src/auth/login.ts", "src/auth/logout.ts"]);
        assert_eq!(one.process, Some((104_857_600, 52_428_800)));
        let state = &one.sessions[0].state;
        assert_eq!(state.files_touched, ["src/auth/login.ts", "src/auth/middleware.ts"]);
        assert_eq!(one.created_at.millis_since(state.started_at.unwrap()), 3_600_000);
    }
}

#[test]
fn the_latest_readable_one_is_found_and_corrupt_ones_are_counted() {
    let folder = folder(&[1, 2, 3]);
    put(folder.path(), 4, "{\"number\": 4, ");
    put(folder.path(), 5, &example().to_string());
    put(folder.path(), 6, &"[".repeat(1 << 20));
    std::os::unix::fs::symlink(
        "/etc/hostname",
        folder.path().join("checkpoints/007-checkpoint.json"),
    )
    .unwrap();
    let found = read(Form::Aiwg, folder.path()).unwrap();
    let ids: Vec<&str> = found.checkpoints.iter().map(|one| one.id.as_str()).collect();
    assert_eq!(ids, ["1", "2", "3"]);
    assert_eq!(found.checkpoints[2].parent.as_deref(), Some("2"));
    let reasons: Vec<&str> = found.skipped.iter().map(|one| one.reason.as_str()).collect();
    assert_eq!(reasons.len(), 4, "{reasons:?}");
    assert!(reasons[1].contains("number 3") && reasons[3].contains("a link"), "{reasons:?}");
    assert_eq!(aiwg::latest_in(folder.path()).unwrap().unwrap().number, 3);
    assert_eq!(aiwg::summary_of(folder.path()).unwrap().corrupt, 4);
    let torn = folder.path().join("checkpoints/004-checkpoint.json");
    assert!(matches!(read(Form::Aiwg, &torn), Err(Error::Refused { .. })));
    let empty = tempfile::tempdir().unwrap();
    assert_eq!(detect(empty.path()), None);
    assert!(matches!(read(Form::Aiwg, empty.path()), Err(Error::NotThisForm { .. })));
}

#[test]
fn numbers_go_on_from_what_is_there_and_the_same_again_adds_nothing() {
    let there = folder(&[1, 2]);
    put(there.path(), 9, "corrupt");
    let mut one = checkpoint("c", Trigger::Manual, state(&[]));
    one.git = Some(Git { dirty_files: vec!["b.rs".parse().unwrap()], ..Git::default() });
    let other = checkpoint("d", Trigger::Manual, state(&[r#"{"kind":"note","text":"n"}"#]));
    for _ in 0..2 {
        let written = aiwg::write_all(&[one.clone(), other.clone()], there.path()).unwrap();
        let names: Vec<_> = written.paths.iter().map(|path| path.file_name().unwrap()).collect();
        assert_eq!(names, ["010-checkpoint.json", "011-checkpoint.json"]);
        assert!(written.left_out.iter().any(|one| one.ends_with("notes")), "{written:?}");
    }
    let last = aiwg::latest_in(there.path()).unwrap().unwrap();
    assert_eq!((last.number, last.session_id.as_str()), (11, "s1"));
    // Every file that was modified so far, also before this checkpoint.
    assert_eq!(last.files_modified, ["b.rs"]);
    assert!(last.git_status.error.is_some());
}

#[test]
fn imported_ones_keep_their_numbers_where_they_are_free() {
    let from = folder(&[3, 5, 7]);
    let found = read(Form::Aiwg, from.path()).unwrap();
    let to = tempfile::tempdir().unwrap();
    let written = aiwg::write_all(&found.checkpoints, to.path()).unwrap();
    for (path, number) in written.paths.iter().zip([3, 5, 7]) {
        assert_eq!(path.file_name().unwrap().to_str().unwrap(), aiwg::file_name(number));
    }
}

proptest! {
    #[test]
    fn what_aiwg_writes_comes_back_with_fields_that_we_do_not_know(
        number in 1u64..5_000, session in "[a-z0-9]{1,9}", duration in 0u64..1 << 40,
        names in prop::collection::btree_set("[a-z]{1,5}(/[a-zé ]{1,5})?", 0..5),
        rss in any::<u64>(), word in "[a-z]{1,6}",
    ) {
        let mut data = example();
        data["number"] = number.into();
        data["sessionId"] = session.into();
        data["duration"] = duration.into();
        data["gitStatus"]["modified"] = json!(names);
        data["filesModified"] = json!(names);
        data["memory"]["rss"] = rss.into();
        for (place, name) in [("", "x"), ("gitStatus", "y"), ("aiwgState", "z"), ("memory", "w")] {
            let part = if place.is_empty() { &mut data } else { &mut data[place] };
            part[format!("{name}{word}")] = json!({"new": [1, 2.5]});
        }
        let folder = folder(&[]);
        put(folder.path(), number, &data.to_string());
        let found = read(Form::Aiwg, folder.path()).unwrap();
        prop_assert_eq!(found.checkpoints.len(), 1, "{:?}", found.skipped);
        let to = tempfile::tempdir().unwrap();
        let written = aiwg::write_all(&found.checkpoints, to.path()).unwrap();
        let text = std::fs::read(&written.paths[0]).unwrap();
        prop_assert_eq!(serde_json::from_slice::<Value>(&text).unwrap(), data);
    }
}

/// A reader made from the published types alone.
#[test]
fn what_we_make_has_the_published_keys_in_their_order() {
    let mut one: Portable = checkpoint("c", Trigger::Manual, state(&[]));
    one.git = Some(Git::default());
    let to = tempfile::tempdir().unwrap();
    let written = aiwg::write_all(&[one], to.path()).unwrap();
    let text = std::fs::read_to_string(&written.paths[0]).unwrap();
    let keys = [
        "number",
        "timestamp",
        "duration",
        "sessionId",
        "gitStatus",
        "branch",
        "modified",
        "untracked",
        "staged",
        "aiwgState",
        "files",
        "sizes",
        "filesModified",
        "memory",
        "heapUsed",
        "rss",
    ];
    let mut from = 0;
    for key in keys {
        let place = text[from..].find(&format!("\"{key}\":")).unwrap_or_else(|| panic!("{key}"));
        from += place;
    }
    let _: CheckpointData = serde_json::from_str(&text).unwrap();
}
