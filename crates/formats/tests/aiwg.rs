//! The form of aiwg's checkpoint manager: the seed's own example, and folders as users leave them.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test may fail loudly")]

use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use rappel_formats::Error;
use rappel_formats::aiwg::{self, CheckpointData, CheckpointSummary};
use rappel_store::disk::{Disk, RealDisk};

/// As the tool's own documentation shows it.
const EXAMPLE: &str = r#"{
  "number": 3,
  "timestamp": "2026-01-18T14:30:00.000Z",
  "duration": 3600000,
  "sessionId": "abc123-def456",
  "gitStatus": {
    "branch": "feature/auth",
    "modified": [
      "src/auth/login.ts"
    ],
    "untracked": [
      "src/auth/logout.ts"
    ],
    "staged": []
  },
  "aiwgState": {
    "files": [
      "planning/iteration-1.md",
      "requirements/UC-001-auth.md"
    ],
    "sizes": {
      "planning/iteration-1.md": 1024,
      "requirements/UC-001-auth.md": 2048
    }
  },
  "filesModified": [
    "src/auth/login.ts",
    "src/auth/middleware.ts"
  ],
  "memory": {
    "heapUsed": 52428800,
    "rss": 104857600
  }
}
"#;

fn example(number: u64, session: &str) -> CheckpointData {
    let data: CheckpointData = serde_json::from_str(EXAMPLE).unwrap();
    CheckpointData { number, session_id: session.into(), ..data }
}

fn disk() -> Arc<dyn Disk> {
    Arc::new(RealDisk)
}

fn put(folder: &Path, name: &str, text: &str) {
    let folder = folder.join("checkpoints");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join(name), text).unwrap();
}

#[test]
fn the_example_comes_back_byte_for_byte() {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), "003-checkpoint.json", EXAMPLE);
    let read = aiwg::latest_in(folder.path()).unwrap().unwrap();
    let copy = tempfile::tempdir().unwrap();
    let path = aiwg::write(&disk(), copy.path(), &read).unwrap();
    assert_eq!(path, copy.path().join("checkpoints/003-checkpoint.json"));
    assert_eq!(std::fs::read_to_string(path).unwrap(), EXAMPLE);
}

#[test]
fn a_summary_has_the_typed_keys_and_no_other() {
    let summary = CheckpointSummary { corrupt: 7, ..CheckpointSummary::of(&[example(3, "s")]) };
    let expected = r#"{"total":1,"totalDuration":3600000,"filesModified":["src/auth/login.ts","src/auth/middleware.ts"],"checkpoints":[{"number":3,"timestamp":"2026-01-18T14:30:00.000Z","duration":3600000,"filesModified":2,"gitStatus":{"modified":1,"staged":0,"untracked":1},"aiwgFiles":2}]}"#;
    assert_eq!(serde_json::to_string(&summary).unwrap(), expected);
}

#[test]
fn corrupt_files_are_skipped_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(aiwg::summary_of(folder.path()).unwrap(), CheckpointSummary::default());
    assert_eq!(aiwg::latest_in(folder.path()).unwrap(), None);
    aiwg::write(&disk(), folder.path(), &example(1, "s")).unwrap();
    aiwg::write(&disk(), folder.path(), &example(2, "s")).unwrap();
    put(folder.path(), "003-checkpoint.json", &EXAMPLE[..100]);
    put(folder.path(), "004-checkpoint.json", EXAMPLE);
    put(folder.path(), "005-checkpoint.json", "");
    std::fs::create_dir(folder.path().join("checkpoints/006-checkpoint.json")).unwrap();
    put(folder.path(), "notes.txt", "not a checkpoint");
    put(folder.path(), "7-checkpoint.json", EXAMPLE);
    let summary = aiwg::summary_of(folder.path()).unwrap();
    assert_eq!((summary.total, summary.corrupt), (2, 4));
    assert_eq!(aiwg::latest_in(folder.path()).unwrap().unwrap().number, 2);
    assert_eq!(aiwg::read(folder.path()).unwrap().last_number, 6);
}

#[test]
fn a_file_of_another_session_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    aiwg::write(&disk(), folder.path(), &example(1, "first")).unwrap();
    aiwg::write(&disk(), folder.path(), &example(1, "first")).unwrap();
    let refused = aiwg::write(&disk(), folder.path(), &example(1, "second"));
    assert!(matches!(refused, Err(Error::Taken { .. })), "{refused:?}");
    assert_eq!(aiwg::latest_in(folder.path()).unwrap().unwrap().session_id, "first");
}

proptest! {
    /// Whatever the bytes, a folder can be read, and what was read can be written and read again.
    #[test]
    fn any_bytes_are_a_checkpoint_or_counted(text in ".{0,200}", cut in 0..EXAMPLE.len()) {
        let folder = tempfile::tempdir().unwrap();
        put(folder.path(), "001-checkpoint.json", &text);
        put(folder.path(), "003-checkpoint.json", &format!("{}{text}", &EXAMPLE[..cut]));
        let found = aiwg::read(folder.path()).unwrap();
        prop_assert_eq!(found.checkpoints.len() + found.corrupt.len(), 2);
    }
}
