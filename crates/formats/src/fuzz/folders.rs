//! Folders of other programs: one file of them is any bytes.

use std::io::Write;
use std::path::Path;

use rappel_types::git_name::is_git;

use crate::form::{Found, Reading};
use crate::portable::Files;
use crate::{Form, read, write};

/// Reads a folder of this form; whatever lies there, that is no error.
fn found(form: Form, folder: &Path, check: impl Fn(&Found)) {
    let Ok(scratch) = tempfile::tempdir() else { return };
    let mut progress = |_| Ok(());
    let mut reading = Reading { scratch: scratch.path(), progress: &mut progress };
    if let Ok(found) = read(form, folder, &mut reading) {
        for one in &found.checkpoints {
            let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
            assert!(!one.id.is_empty() && one.id.len() <= 100 && one.id.bytes().all(legal));
            assert!(!one.id.starts_with('.'), "{}", one.id);
            one.files.iter().for_each(check_files);
        }
        assert!(found.skipped.iter().all(|one| !one.reason.is_empty()));
        check(&found);
    }
}

/// What a restore may rely on.
fn check_files(files: &Files) {
    for (path, file) in &files.entries {
        assert!(!path.components().any(is_git), "{path}");
        assert!(path.ancestors().all(|above| !files.entries.contains_key(&above)), "{path}");
        assert_eq!(file.mode & !0o777, 0, "{path}");
    }
}

/// What was read and is written again is read as the same.
fn survives(form: Form, found: &Found) {
    let Ok(place) = tempfile::tempdir() else { return };
    let written = write(form, &found.checkpoints, place.path());
    assert!(written.is_ok(), "{written:?}");
    if found.checkpoints.is_empty() {
        return;
    }
    self::found(form, place.path(), |again| {
        let key = |found: &Found| -> Vec<_> {
            let all = found.checkpoints.iter();
            all.map(|one| (one.id.clone(), one.created_at.as_millis() / 1000, one.trigger))
                .collect()
        };
        assert_eq!(key(again), key(found));
    });
}

fn folder(name: &str, bytes: &[u8]) -> std::io::Result<tempfile::TempDir> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join(name);
    std::fs::create_dir_all(path.parent().unwrap_or(folder.path()))?;
    std::fs::write(path, bytes)?;
    Ok(folder)
}

/// `checkpoint.json` of Lugh.
pub fn lugh_document(bytes: &[u8]) {
    let Ok(folder) = folder("x/checkpoint.json", bytes) else { return };
    found(Form::Lugh, folder.path(), |found| {
        assert_eq!(found.checkpoints.len() + found.skipped.len(), 1);
        survives(Form::Lugh, found);
    });
}

/// The archive of the work trees, unpacked: what packs it is of no interest.
pub fn lugh_archive(bytes: &[u8]) {
    let document = br#"{"id": "x", "created_at": "2024-12-27T12:00:00Z", "trigger": "manual",
        "git": {"worktrees": [{"name": "t", "path": "/w/t"}]}, "workspace": {"root": "/w"}}"#;
    let Ok(folder) = folder("x/checkpoint.json", document) else { return };
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let packed = packer.write_all(bytes).and_then(|()| packer.finish());
    let archive = folder.path().join("x/worktrees.tar.gz");
    if packed.and_then(|packed| std::fs::write(archive, packed)).is_ok() {
        found(Form::Lugh, folder.path(), |found| {
            assert_eq!(found.checkpoints.len() + found.skipped.len(), 1);
        });
    }
}

/// `index.jsonl` of Loki Mode.
pub fn loki_index(bytes: &[u8]) {
    let Ok(folder) = folder("index.jsonl", bytes) else { return };
    found(Form::Loki, folder.path(), |found| assert!(found.checkpoints.is_empty()));
}

/// `metadata.json` of Loki Mode.
pub fn loki_metadata(bytes: &[u8]) {
    let Ok(folder) = folder("cp-12-1739345422/metadata.json", bytes) else { return };
    found(Form::Loki, folder.path(), |found| {
        assert_eq!(found.checkpoints.len() + found.skipped.len(), 1);
        survives(Form::Loki, found);
    });
}
