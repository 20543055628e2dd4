//! The form of Loki Mode: every shape that its writers used is read, what we write is found by a reader that
//! was written from the rules alone, and what enemies made is refused by name.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test may fail loudly")]

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use rappel_formats::form::{Found, Reading};
use rappel_formats::portable::{Content, File, Files, Git};
use rappel_formats::{Form, Portable, detect, loki, read, write};
use rappel_store::disk::Disk;
use rappel_testing::{Failure, Fault, FaultDisk};
use rappel_types::{RelPath, Timestamp, Trigger};
use serde_json::{Value, json};
use tempfile::TempDir;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn path(text: &str) -> RelPath {
    text.parse().unwrap()
}

fn text_of(content: &dyn Content) -> String {
    let mut text = String::new();
    content.open().unwrap().read_to_string(&mut text).unwrap();
    text
}

fn put(folder: &Path, name: &str, text: impl AsRef<str>) {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text.as_ref()).unwrap();
}

fn all(folder: &Path) -> (Found, TempDir) {
    let scratch = tempfile::tempdir().unwrap();
    let mut progress = |_| Ok(());
    let reading = &mut Reading { scratch: scratch.path(), progress: &mut progress };
    (read(Form::Loki, folder, reading).unwrap(), scratch)
}

/// A project as the three writers leave it.
fn project() -> (TempDir, PathBuf) {
    let project = tempfile::tempdir().unwrap();
    let place = project.path().join(".loki/state/checkpoints");
    let metadata = json!({
        "id": "cp-20260212-143022", "timestamp": "2026-02-12T14:30:22Z", "git_sha": "abc1234f",
        "git_branch": "main", "message": "before refactor", "files_copied": 4, "created_by": "cli",
        "weather": "rain"
    });
    put(&place, "cp-20260212-143022/metadata.json", metadata.to_string());
    put(&place, "cp-20260212-143022/session.json", "{\"s\":1}");
    put(&place, "cp-20260212-143022/queue/pending.json", "[]");
    put(&place, "cp-20260212-143022/memory/long/a.json", "{}");
    let metadata = json!({
        "id": "cp-12-1739345422", "timestamp": "2025-02-12T07:30:22Z", "iteration": 12,
        "task_id": "session-end", "task_description": "session end (iterations=12)",
        "git_sha": "def5678a00112233445566778899aabbccddeeff", "git_branch": "main",
        "provider": "claude", "phase": "DEVELOPMENT"
    });
    put(&place, "cp-12-1739345422/metadata.json", metadata.to_string());
    put(&place, "cp-12-1739345422/state/orchestrator.json", "{\"phase\":\"DEVELOPMENT\"}");
    put(&place, "cp-12-1739345422/worktree-snapshot.txt", "0123");
    let metadata = json!({
        "id": "chk-20260212-150105", "created_at": "2026-02-12T15:01:05+00:00", "git_sha": "no-git",
        "message": "before deploying", "files": ["metadata.json", "session.json"]
    });
    put(&place, "chk-20260212-150105/metadata.json", metadata.to_string());
    put(&place, "chk-20260212-150105/session.json", "{}");
    // Its metadata is lost; its line knows.
    put(&place, "cp-3-1739345400/metadata.json", "{\"id\": \"cp-3-17393");
    put(&place, "cp-3-1739345400/state/orchestrator.json", "{}");
    let lines = [
        json!({"id": "cp-20260212-143022", "timestamp": "2026-02-12T14:30:22Z",
               "git_sha": "abc1234f", "message": "before refactor"})
        .to_string(),
        "{\"id\": \"cp-torn".to_owned(),
        json!({"id": "cp-3-1739345400", "ts": "2025-02-12T07:30:00Z", "iter": 3,
               "task": "pre-rollback snapshot", "sha": "0011aabb"})
        .to_string(),
        "not json".to_owned(),
        String::new(),
        json!({"id": "../../etc", "ts": "2025-02-12T07:30:00Z"}).to_string(),
        json!({"id": "cp-9-1739345000", "ts": "2025-02-12T07:23:20Z", "iter": 9}).to_string(),
    ];
    put(&place, "index.jsonl", lines.join("\n"));
    (project, place)
}

#[test]
fn every_shape_is_read_and_broken_lines_are_counted() {
    let (project, place) = project();
    for folder in [project.path(), &project.path().join(".loki"), &place] {
        assert_eq!(detect(folder), Some(Form::Loki), "{}", folder.display());
        let (found, _scratch) = all(folder);
        assert_eq!(found.place, place.canonicalize().unwrap());
        let ids: Vec<&str> = found.checkpoints.iter().map(|one| &*one.id).collect();
        assert_eq!(
            ids,
            ["cp-3-1739345400", "cp-12-1739345422", "cp-20260212-143022", "chk-20260212-150105"]
        );
        let triggers: Vec<Trigger> = found.checkpoints.iter().map(|one| one.trigger).collect();
        assert_eq!(
            triggers,
            [Trigger::PreRestore, Trigger::SessionEnd, Trigger::Manual, Trigger::Manual]
        );
        let [safety, ended, by_hand, served] = &found.checkpoints[..] else { panic!() };
        assert_eq!(safety.description.as_deref(), Some("pre-rollback snapshot"));
        assert_eq!(safety.metadata["iteration"], 3);
        assert_eq!(safety.git.as_ref().unwrap().commit.as_deref(), Some("0011aabb"));
        assert_eq!(ended.metadata["phase"], "DEVELOPMENT");
        assert_eq!(ended.metadata["provider"], "claude");
        assert_eq!(ended.metadata["task_id"], "session-end");
        assert!(served.git.is_none(), "no-git is none");
        assert_eq!(by_hand.created_at, at("2026-02-12T14:30:22Z"));
        assert_eq!(by_hand.git.as_ref().unwrap().branch.as_deref(), Some("main"));
        let files = by_hand.files.as_ref().unwrap();
        assert!(!files.whole);
        assert_eq!(files.state_dirs, [path(".loki")]);
        assert_eq!(files.root, project.path().canonicalize().unwrap().to_str().unwrap());
        let names: Vec<String> = files.entries.keys().map(ToString::to_string).collect();
        assert_eq!(
            names,
            [".loki/memory/long/a.json", ".loki/queue/pending.json", ".loki/session.json"]
        );
        let content = &files.entries[&path(".loki/session.json")].content;
        assert_eq!(text_of(&**content), "{\"s\":1}");
        let names = ended.files.as_ref().unwrap().entries.keys().map(ToString::to_string);
        assert_eq!(names.collect::<Vec<_>>(), [".loki/state/orchestrator.json"]);
        let broken: Vec<&str> = found
            .skipped
            .iter()
            .filter_map(|one| one.path.split_once(".jsonl:"))
            .map(|p| p.1)
            .collect();
        assert_eq!(broken, ["2", "4", "6"]);
        let gone = found.skipped.iter().find(|one| one.reason.contains("cp-9-1739345000"));
        assert!(gone.unwrap().reason.contains("its folder is gone"));
        assert_eq!(found.skipped.len(), 4, "{:?}", found.skipped);
    }
}

#[test]
fn what_is_no_checkpoint_is_skipped_and_named() {
    let (project, place) = project();
    let long = "a".repeat(101);
    put(&place, &format!("{long}/metadata.json"), "{}");
    put(&place, "a b/metadata.json", "{}");
    put(&place, "empty/session.json", "{}");
    put(&place, "other/metadata.json", r#"{"id": "cp-1-1", "timestamp": "2025-02-12T07:30:00Z"}"#);
    put(&place, "timeless/metadata.json", r#"{"message": "x"}"#);
    put(&place, "list/metadata.json", "[]");
    put(&place, "large/metadata.json", "x".repeat(17 << 20));
    put(&place, "cp-4-1739345401/metadata.json", "{}");
    let linked = place.join("cp-4-1739345401");
    std::os::unix::fs::symlink("/etc/passwd", linked.join("passwd")).unwrap();
    assert!(Command::new("mkfifo").arg(linked.join("pipe")).status().unwrap().success());
    put(&linked, ".git/config", "[core]");
    std::os::unix::fs::symlink("/etc", place.join("cp-5-1739345402")).unwrap();
    let (found, _scratch) = all(project.path());
    for (name, reason) in [
        (&*long, "its name is no id"),
        ("a b", "its name is no id"),
        ("empty", "it has no metadata.json"),
        ("other", "it says that it is \"cp-1-1\""),
        ("timeless", "does not say when"),
        ("list", "no object"),
        ("large", "bytes, more than"),
    ] {
        let skipped = found.skipped.iter().find(|one| one.path.ends_with(&format!("/{name}")));
        let skipped = skipped.unwrap_or_else(|| panic!("{name}: {:?}", found.skipped));
        assert!(skipped.reason.contains(reason), "{name}: {}", skipped.reason);
    }
    assert!(found.checkpoints.iter().all(|one| one.id != "cp-5-1739345402"));
    let linked = found.checkpoints.iter().find(|one| one.id == "cp-4-1739345401").unwrap();
    assert_eq!(linked.files.as_ref().unwrap().entries.len(), 0);
    assert_eq!(linked.partial.len(), 2, "{:?}", linked.partial);
}

/// A checkpoint of ours in a project of that tool.
fn ours(id: &str, trigger: Trigger) -> Portable {
    let mut one = Portable::new(id, at("2026-02-12T14:30:22.500Z"), trigger);
    let file = |text: &str| File {
        is_link: false,
        mode: 0o644,
        modified: None,
        content: Arc::new(text.as_bytes().to_vec()),
    };
    let names = [
        ".loki/session.json",
        ".loki/dashboard-state.json",
        ".loki/queue/pending.json",
        ".loki/queue/notes.json",
        ".loki/memory/a.json",
        ".loki/metrics/m.json",
        ".loki/council/c.json",
        ".loki/state/orchestrator.json",
        ".loki/PAUSE",
        "src/main.rs",
    ];
    one.files = Some(Files {
        root: "/home/me/my-app".into(),
        whole: true,
        state_dirs: vec![path(".loki")],
        entries: names.into_iter().map(|name| (path(name), file(name))).collect(),
    });
    one.git = Some(Git {
        branch: Some("main".into()),
        commit: Some("abc1234f00112233445566778899aabbccddeeff".into()),
        ..Git::default()
    });
    one.description = (trigger == Trigger::Manual).then(|| "before refactor".to_owned());
    one.metadata.insert("iteration".into(), 12.into());
    one
}

/// A reader that knows nothing but the rules: `index.jsonl` has a line for each, a folder has the name of its
/// id, `metadata.json` says the rest, and everything beside it is state of `.loki`.
fn by_the_rules(place: &Path) -> BTreeMap<String, (Value, Value, Vec<String>)> {
    let text = std::fs::read_to_string(place.join("index.jsonl")).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines
        .map(|line| {
            let id = line["id"].as_str().unwrap().to_owned();
            let folder = place.join(&id);
            let metadata = std::fs::read_to_string(folder.join("metadata.json")).unwrap();
            let metadata: Value = serde_json::from_str(&metadata).unwrap();
            assert_eq!(metadata["id"], id.as_str());
            let found =
                Command::new("find").args([".", "-type", "f"]).current_dir(&folder).output();
            let found = String::from_utf8(found.unwrap().stdout).unwrap();
            let mut files: Vec<String> =
                found.lines().map(|line| line.trim_start_matches("./").to_owned()).collect();
            files.retain(|file| file != "metadata.json");
            files.sort();
            (id, (line, metadata, files))
        })
        .collect()
}

#[test]
fn each_kind_of_checkpoint_is_written_as_its_writer_would() {
    let home = tempfile::tempdir().unwrap();
    let place = home.path().join(".loki/state/checkpoints");
    let mut served = ours("chk_c", Trigger::Manual);
    served.metadata.insert("created_by".into(), "api".into());
    let mut ended = ours("chk_d", Trigger::SessionEnd);
    ended.created_at = at("2026-02-12T16:00:00Z");
    let checkpoints =
        [ours("chk_a", Trigger::Manual), ours("chk_b", Trigger::PreRestore), served, ended];
    let written = write(Form::Loki, &checkpoints, &place).unwrap();
    let ids: Vec<&str> =
        written.paths.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
    assert_eq!(
        ids,
        ["cp-20260212-143022", "cp-12-1770906622", "chk-20260212-143022", "cp-12-1770912000"]
    );
    assert!(written.left_out.iter().any(|said| said.starts_with("files")), "{written:?}");
    let found = by_the_rules(&place);
    let (line, metadata, files) = &found["cp-20260212-143022"];
    assert_eq!(
        files[..],
        [
            "council/c.json",
            "dashboard-state.json",
            "memory/a.json",
            "metrics/m.json",
            "queue/notes.json",
            "queue/pending.json",
            "session.json"
        ]
    );
    assert_eq!(metadata["timestamp"], "2026-02-12T14:30:22Z");
    assert_eq!(
        (&metadata["message"], &metadata["git_branch"]),
        (&json!("before refactor"), &json!("main"))
    );
    assert_eq!((&metadata["files_copied"], &metadata["rappel_id"]), (&json!(6), &json!("chk_a")));
    assert_eq!(line["message"], "before refactor");
    let (line, metadata, files) = &found["cp-12-1770906622"];
    assert_eq!(files[..], ["queue/pending.json", "state/orchestrator.json"]);
    assert_eq!(metadata["task_description"], "pre-rollback snapshot");
    assert_eq!((&metadata["iteration"], &line["iter"]), (&json!(12), &json!(12)));
    assert_eq!(
        (&line["task"], &line["sha"]),
        (&json!("pre-rollback snapshot"), &metadata["git_sha"])
    );
    assert_eq!(line["ts"], "2026-02-12T14:30:22Z");
    let (_, metadata, files) = &found["chk-20260212-143022"];
    assert_eq!(files.len(), 4);
    assert_eq!(metadata["created_at"], "2026-02-12T14:30:22+00:00");
    assert_eq!(
        metadata["files"],
        json!(["metadata.json", "dashboard-state.json", "queue", "session.json"])
    );
    let (_, metadata, _) = &found["cp-12-1770912000"];
    assert_eq!(metadata["task_description"], "session end (iterations=12)");
    // And we read it back.
    let (back, _scratch) = all(home.path());
    assert_eq!(back.skipped, []);
    let one = back.checkpoints.iter().find(|one| one.id == "cp-12-1770912000").unwrap();
    assert_eq!(
        (one.trigger, one.metadata["rappel_id"].as_str()),
        (Trigger::SessionEnd, Some("chk_d"))
    );
    let jq =
        Command::new("jq").args(["-r", ".id"]).arg(place.join("index.jsonl")).output().unwrap();
    assert_eq!(String::from_utf8(jq.stdout).unwrap().lines().count(), 4);
}

#[test]
fn writing_again_replaces_and_two_of_one_second_stay_apart() {
    let (project, place) = project();
    let before = std::fs::read_to_string(place.join("cp-12-1739345422/metadata.json")).unwrap();
    let one = ours("chk_a", Trigger::Manual);
    let written = write(Form::Loki, std::slice::from_ref(&one), &place).unwrap();
    // The tool itself made one in that second.
    assert_eq!(written.paths, [place.join("cp-20260212-143022-2")]);
    let again = write(Form::Loki, std::slice::from_ref(&one), &place).unwrap();
    assert_eq!(again.paths, written.paths);
    let other = ours("chk_b", Trigger::Manual);
    let other = write(Form::Loki, &[other], &place).unwrap();
    assert_eq!(other.paths, [place.join("cp-20260212-143022-3")]);
    let index = std::fs::read_to_string(place.join("index.jsonl")).unwrap();
    let ids: Vec<Value> = index
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["id"].clone())
        .collect();
    assert_eq!(
        ids,
        [
            "cp-20260212-143022",
            "cp-3-1739345400",
            "cp-9-1739345000",
            "cp-20260212-143022-2",
            "cp-20260212-143022-3"
        ]
    );
    let after = std::fs::read_to_string(place.join("cp-12-1739345422/metadata.json")).unwrap();
    assert_eq!(after, before, "others' checkpoints are left alone");
    drop(project);
}

#[test]
fn what_was_read_is_written_back_with_what_we_have_no_words_for() {
    let (project, _) = project();
    let (found, _scratch) = all(project.path());
    let other = tempfile::tempdir().unwrap();
    write(Form::Loki, &found.checkpoints, other.path()).unwrap();
    let (back, _scratch) = all(other.path());
    assert_eq!(back.skipped, []);
    assert_eq!(back.checkpoints.len(), found.checkpoints.len());
    for (one, other) in back.checkpoints.iter().zip(&found.checkpoints) {
        assert_eq!(
            (&one.id, one.created_at, one.trigger),
            (&other.id, other.created_at, other.trigger)
        );
        assert_eq!((&one.description, &one.metadata), (&other.description, &other.metadata));
        let entries = |one: &Portable| -> Vec<(RelPath, String)> {
            let files = one.files.as_ref().unwrap().entries.iter();
            files.map(|(path, file)| (path.clone(), text_of(&*file.content))).collect()
        };
        assert_eq!(entries(one), entries(other));
    }
    let text = std::fs::read_to_string(other.path().join("cp-20260212-143022/metadata.json"));
    let json: Value = serde_json::from_str(&text.unwrap()).unwrap();
    assert_eq!((&json["weather"], json.get("rappel_id")), (&json!("rain"), None));
}

#[test]
fn whatever_fails_index_and_checkpoints_stay_whole() {
    let one = ours("chk_a", Trigger::Manual);
    let count = {
        let (_project, place) = project();
        let disk = FaultDisk::new();
        let gate: Arc<dyn Disk> = disk.clone();
        loki::write_on(&gate, std::slice::from_ref(&one), &place).unwrap();
        disk.count()
    };
    for at in 1..=count {
        let (project, place) = project();
        let gate: Arc<dyn Disk> = FaultDisk::with(Fault::Fail { at, failure: Failure::NoSpace });
        let wrote = loki::write_on(&gate, std::slice::from_ref(&one), &place);
        let (found, _scratch) = all(project.path());
        let there = found.checkpoints.iter().find(|one| one.id == "cp-20260212-143022-2");
        assert!(there.is_some() || wrote.is_err(), "step {at}");
        if let Some(there) = there {
            assert_eq!(there.files.as_ref().unwrap().entries.len(), 7, "step {at}");
        }
        let index = std::fs::read_to_string(place.join("index.jsonl")).unwrap();
        assert!(index.contains("cp-20260212-143022\""), "step {at}");
        write(Form::Loki, std::slice::from_ref(&one), &place).unwrap();
        assert!(by_the_rules_of(&place, "cp-20260212-143022-2"), "step {at}");
    }
}

fn by_the_rules_of(place: &Path, id: &str) -> bool {
    let index = std::fs::read_to_string(place.join("index.jsonl")).unwrap();
    index.lines().filter(|line| line.contains(&format!("\"{id}\""))).count() == 1
        && !std::fs::read_dir(place)
            .unwrap()
            .any(|entry| entry.unwrap().file_name().to_string_lossy().starts_with(".rappel-"))
}
