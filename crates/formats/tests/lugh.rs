//! The form of Lugh: what we write is what the seed shows and what `tar` and `jq` take; what the seed's
//! own program left behind is read; what enemies made is refused by name.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test may fail loudly")]

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use rappel_formats::form::{Found, Reading};
use rappel_formats::portable::{
    Content, Database, File, Files, Git, Knowledge, KnowledgeDocument, Session, Worktree,
};
use rappel_formats::{Error, Form, Portable, detect, lugh, read, write};
use rappel_store::disk::Disk;
use rappel_testing::{Failure, Fault, FaultDisk, Loss};
use rappel_types::agents::{Note, SessionState, SessionStatus};
use rappel_types::database::DatabaseKind;
use rappel_types::{RelPath, Timestamp, Trigger};
use serde_json::{Value, json};
use tempfile::TempDir;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn path(text: &str) -> RelPath {
    text.parse().unwrap()
}

fn bytes(text: &str) -> Arc<dyn Content> {
    Arc::new(text.as_bytes().to_vec())
}

fn text_of(content: &dyn Content) -> String {
    let mut text = String::new();
    content.open().unwrap().read_to_string(&mut text).unwrap();
    text
}

fn file(text: &str, mode: u32) -> File {
    File { is_link: false, mode, modified: None, content: bytes(text) }
}

fn link(target: &str) -> File {
    File { is_link: true, mode: 0o777, modified: None, content: bytes(target) }
}

/// A checkpoint with something of everything.
fn full() -> Portable {
    let mut one =
        Portable::new("chk_20241227_143022", at("2024-12-27T14:30:22Z"), Trigger::PrMerged);
    one.parent = Some("chk_20241227_120000".into());
    one.description = Some("Before major refactor".into());
    one.environment = Some("staging".into());
    one.tags = vec!["green".into()];
    one.session = Some("sess_123".into());
    one.process = Some((1000, 500));
    one.metadata = BTreeMap::from([("step_number".to_owned(), 3.into())]);
    let long = format!("{}/deep.txt", "folder".repeat(20));
    one.files = Some(Files {
        root: "/home/me/my-app".into(),
        whole: true,
        state_dirs: vec![path(".loki")],
        entries: BTreeMap::from([
            (path("src/index.ts"), file("export {}\n", 0o644)),
            (path("run.sh"), file("#!/bin/sh\n", 0o755)),
            (path("empty"), file("", 0o600)),
            (path(r"caf\xe9.txt"), file("coffee", 0o644)),
            (path("current"), link("src/index.ts")),
            (path(".loki/session.json"), file("{}", 0o644)),
            (path(&long), file("deep", 0o644)),
            (path("large"), file(&"0123456789abcdef".repeat(200_000), 0o644)),
        ]),
    });
    one.git = Some(Git {
        branch: Some("develop".into()),
        commit: Some("abc123def".into()),
        dirty_files: vec![path("src/index.ts")],
        modified: vec![path("src/index.ts")],
        worktrees: vec![
            Worktree {
                name: "issue-42".into(),
                branch: Some("fix/issue-42".into()),
                commit: None,
                path: "/home/me/.lugh/worktrees/issue-42".into(),
                files: Some(Files {
                    root: "/home/me/.lugh/worktrees/issue-42".into(),
                    whole: true,
                    state_dirs: Vec::new(),
                    entries: BTreeMap::from([(path("a.txt"), file("42", 0o644))]),
                }),
            },
            Worktree {
                name: "gone".into(),
                branch: None,
                commit: Some("789".into()),
                path: "/home/me/gone".into(),
                files: None,
            },
        ],
        bundle: Some(bytes("a bundle")),
        ..Git::default()
    });
    let database = |name: &str, kind, dump: &str| Database {
        name: name.into(),
        kind,
        tables: vec!["conversations".into()],
        row_counts: BTreeMap::from([("conversations".to_owned(), 15)]),
        dump: Some(bytes(dump)),
    };
    one.databases = vec![
        database("data/app.db", DatabaseKind::Sqlite, "pages"),
        database("main", DatabaseKind::Postgres, "CREATE TABLE conversations ();\n"),
        database("second", DatabaseKind::Postgres, "-- two\n"),
        database("cache/1", DatabaseKind::Command, "redis"),
        database("cache_1", DatabaseKind::Command, "redis again"),
    ];
    let mut state = SessionState::new("sess_123".parse().unwrap());
    state.task = Some("mend it".into());
    state.provider = Some("claude".into());
    state.started_at = Some(at("2024-12-27T14:00:00Z"));
    state.status = SessionStatus::Paused;
    state.conversation_id = Some("conv_456".into());
    state.assistant_session_id = Some("claude_789".into());
    state.notes.push(Note {
        id: "n1".into(),
        text: "look again".into(),
        created_at: at("2024-12-27T14:10:00Z"),
    });
    one.sessions = vec![Session {
        id: "sess_123".into(),
        conversation_id: Some("conv_456".into()),
        assistant_session_id: Some("claude_789".into()),
        provider: Some("claude".into()),
        task: Some("mend it".into()),
        status: SessionStatus::Paused,
        started_at: Some(at("2024-12-27T14:00:00Z")),
        state,
    }];
    one.knowledge = Some(Knowledge {
        projects: vec!["my-app".into()],
        document_count: 1,
        documents: vec![KnowledgeDocument {
            path: path("docs/a.md"),
            bytes: 12,
            hash: "ab".repeat(32),
        }],
    });
    one
}

fn all(folder: &Path) -> (Found, TempDir) {
    let scratch = tempfile::tempdir().unwrap();
    let mut progress = |_| Ok(());
    let reading = &mut Reading { scratch: scratch.path(), progress: &mut progress };
    (read(Form::Lugh, folder, reading).unwrap(), scratch)
}

fn same_files(one: &Files, other: &Files) {
    assert_eq!(one.root, other.root);
    assert_eq!(one.whole, other.whole);
    assert_eq!(one.state_dirs, other.state_dirs);
    let shown = |files: &Files| -> Vec<(RelPath, bool, u32, Vec<u8>)> {
        let entries = files.entries.iter();
        entries
            .map(|(path, file)| {
                let mut bytes = Vec::new();
                file.content.open().unwrap().read_to_end(&mut bytes).unwrap();
                assert_eq!(bytes.len() as u64, file.content.len());
                (path.clone(), file.is_link, file.mode, bytes)
            })
            .collect()
    };
    assert_eq!(shown(one), shown(other));
}

#[test]
fn a_checkpoint_survives_the_form() {
    let home = tempfile::tempdir().unwrap();
    let place = home.path().join("checkpoints");
    let one = full();
    let written = write(Form::Lugh, std::slice::from_ref(&one), &place).unwrap();
    assert_eq!(written.paths, [place.join("chk_20241227_143022")]);
    assert_eq!(
        written.left_out,
        [
            "git's settings, hooks and logs of refs, and what is staged",
            "the journals of sessions (what each knew is there)"
        ]
    );
    assert_eq!(detect(&place), Some(Form::Lugh));
    assert_eq!(detect(&written.paths[0]), Some(Form::Lugh));
    for folder in [&place, &written.paths[0]] {
        let (found, _scratch) = all(folder);
        assert_eq!(found.skipped, []);
        assert_eq!(found.place, place.canonicalize().unwrap());
        let [back] = &found.checkpoints[..] else { panic!("{found:?}") };
        assert_eq!(
            (&back.id, back.created_at, back.trigger),
            (&one.id, one.created_at, one.trigger)
        );
        assert_eq!((&back.parent, &back.description), (&one.parent, &one.description));
        assert_eq!((&back.environment, &back.tags), (&one.environment, &one.tags));
        assert_eq!((&back.session, back.process), (&one.session, one.process));
        assert_eq!((&back.metadata, &back.partial), (&one.metadata, &one.partial));
        same_files(back.files.as_ref().unwrap(), one.files.as_ref().unwrap());
        let (git, expected) = (back.git.as_ref().unwrap(), one.git.as_ref().unwrap());
        assert_eq!((&git.branch, &git.commit), (&expected.branch, &expected.commit));
        assert_eq!(git.dirty_files, expected.dirty_files);
        assert_eq!(git.modified, expected.modified);
        assert_eq!(text_of(&**git.bundle.as_ref().unwrap()), "a bundle");
        assert_eq!(git.worktrees.len(), 2);
        for (one, other) in git.worktrees.iter().zip(&expected.worktrees) {
            assert_eq!((&one.name, &one.path), (&other.name, &other.path));
            assert_eq!((&one.branch, &one.commit), (&other.branch, &other.commit));
            assert_eq!(one.files.is_some(), other.files.is_some());
            if let (Some(one), Some(other)) = (&one.files, &other.files) {
                same_files(one, other);
            }
        }
        // The first PostgreSQL one comes first.
        let names: Vec<&str> = back.databases.iter().map(|one| &*one.name).collect();
        assert_eq!(names, ["main", "data/app.db", "second", "cache/1", "cache_1"]);
        for database in &back.databases {
            let expected = one.databases.iter().find(|one| one.name == database.name).unwrap();
            assert_eq!((database.kind, &database.tables), (expected.kind, &expected.tables));
            assert_eq!(database.row_counts, expected.row_counts);
            let dumps = [database, expected].map(|one| text_of(&**one.dump.as_ref().unwrap()));
            assert_eq!(dumps[0], dumps[1], "{}", database.name);
        }
        let (session, expected) = (&back.sessions[0], &one.sessions[0]);
        assert_eq!(session.state, expected.state);
        assert_eq!((&session.id, session.status), (&expected.id, expected.status));
        assert_eq!(session.started_at, expected.started_at);
        let known = back.knowledge.as_ref().unwrap();
        assert_eq!((&known.projects[..], known.document_count), (&["my-app".to_owned()][..], 1));
        assert_eq!(known.documents[0].hash, "ab".repeat(32));
    }
}

#[test]
fn the_document_has_the_seeds_keys_in_the_seeds_order() {
    let home = tempfile::tempdir().unwrap();
    let mut empty = Portable::new("chk_a", at("2024-12-27T14:30:22Z"), Trigger::Manual);
    empty.partial = vec!["a tool call was running".into()];
    write(Form::Lugh, &[full(), empty], home.path()).unwrap();
    let keys = [
        "id",
        "created_at",
        "trigger",
        "description",
        "environment",
        "git",
        "database",
        "agents",
        "knowledge",
    ];
    for id in ["chk_20241227_143022", "chk_a"] {
        let text = std::fs::read_to_string(home.path().join(id).join("checkpoint.json")).unwrap();
        let places: Vec<usize> = keys
            .iter()
            .map(|key| text.find(&format!("\n  \"{key}\": ")).unwrap_or_else(|| panic!("{key}")))
            .collect();
        assert!(places.is_sorted(), "{text}");
        let json: Value = serde_json::from_str(&text).unwrap();
        assert!(json["git"]["worktrees"].is_array() && json["git"]["dirty_files"].is_array());
        assert!(
            json["database"]["tables"].is_array() && json["database"]["row_counts"].is_object()
        );
        assert!(json["agents"]["sessions"].is_array());
        assert!(json["knowledge"]["projects"].is_array());
        for name in ["agent_states.json", "knowledge_index.json"] {
            assert!(home.path().join(id).join(name).is_file());
        }
    }
    let json = |id: &str| -> Value {
        let file = home.path().join(id).join("checkpoint.json");
        serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap()
    };
    let one = json("chk_20241227_143022");
    assert_eq!(one["created_at"], "2024-12-27T14:30:22.000Z");
    assert_eq!((&one["trigger"], &one["partial"]), (&json!("auto"), &json!(false)));
    assert_eq!(one["database"]["snapshot_file"], "db_snapshot.sql");
    let files = one["databases"].as_array().unwrap().iter();
    let files: Vec<&str> = files.map(|one| one["snapshot_file"].as_str().unwrap()).collect();
    assert_eq!(
        files,
        [
            "db_snapshot.data_app.db.sqlite",
            "db_snapshot.second.sql",
            "db_snapshot.cache_1.dump",
            "db_snapshot.cache_1.2.dump"
        ]
    );
    assert_eq!(one["agents"]["active_count"], 1);
    assert_eq!(one["agents"]["sessions"][0]["assistant_session_id"], "claude_789");
    assert_eq!(json("chk_a")["partial"], true);
    assert_eq!(json("chk_a")["trigger"], "manual");
}

/// What the seed's `restoreCheckpoint` does with the files, with the programs that it calls.
#[test]
fn tar_and_jq_take_what_is_written() {
    let home = tempfile::tempdir().unwrap();
    let mut one = full();
    one.files.as_mut().unwrap().entries.remove(&path(r"caf\xe9.txt"));
    write(Form::Lugh, &[one], home.path()).unwrap();
    let folder = home.path().join("latest");
    let run = |program: &str, arguments: &[&str]| {
        let done = Command::new(program).args(arguments).current_dir(&folder).output().unwrap();
        assert!(done.status.success(), "{program} {arguments:?}: {done:?}");
        String::from_utf8(done.stdout).unwrap()
    };
    let listed = run("tar", &["-tzf", "worktrees.tar.gz"]);
    assert!(listed.contains("home/me/my-app/src/index.ts\n"), "{listed}");
    assert!(listed.contains("home/me/.lugh/worktrees/issue-42/a.txt\n"), "{listed}");
    let target = tempfile::tempdir().unwrap();
    run("tar", &["-xzf", "worktrees.tar.gz", "-C", target.path().to_str().unwrap()]);
    let app = target.path().join("home/me/my-app");
    assert_eq!(std::fs::read_to_string(app.join("src/index.ts")).unwrap(), "export {}\n");
    assert_eq!(std::fs::read_to_string(app.join("current")).unwrap(), "export {}\n");
    assert_eq!(std::fs::metadata(app.join("large")).unwrap().len(), 3_200_000);
    let id = run("jq", &["-r", ".id + \" \" + .git.worktrees[0].branch", "checkpoint.json"]);
    assert_eq!(id, "chk_20241227_143022 fix/issue-42\n");
    assert_eq!(run("jq", &["-r", ".[0].state.notes[0].text", "agent_states.json"]), "look again\n");
    assert_eq!(run("jq", &[".documents[0].bytes", "knowledge_index.json"]), "12\n");
}

#[test]
fn the_same_checkpoint_twice_is_the_same_bytes_and_latest_is_the_newest() {
    let home = tempfile::tempdir().unwrap();
    write(Form::Lugh, &[full()], home.path()).unwrap();
    let folder = home.path().join("chk_20241227_143022");
    let all_bytes = || -> BTreeMap<PathBuf, Vec<u8>> {
        let entries = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
        entries.map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
    };
    let before = all_bytes();
    write(Form::Lugh, &[full()], home.path()).unwrap();
    assert_eq!(all_bytes(), before);
    let older = Portable::new("chk_old", at("2024-12-26T00:00:00Z"), Trigger::Manual);
    write(Form::Lugh, std::slice::from_ref(&older), home.path()).unwrap();
    let latest = || std::fs::read_link(home.path().join("latest")).unwrap();
    assert_eq!(latest(), Path::new("chk_20241227_143022"));
    let newer = Portable::new("chk_new", at("2025-01-01T00:00:00Z"), Trigger::Manual);
    write(Form::Lugh, &[newer], home.path()).unwrap();
    assert_eq!(latest(), Path::new("chk_new"));
    let names: Vec<String> = std::fs::read_dir(home.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(names.len(), 4, "{names:?}");
    // Another checkpoint of the same name is left alone.
    let other = Portable { created_at: at("2020-01-01T00:00:00Z"), ..older };
    let error = write(Form::Lugh, &[other], home.path()).unwrap_err();
    assert!(error.to_string().contains("another checkpoint has this name"), "{error}");
    for bad in ["../x", "latest", ".x", "a/b"] {
        let bad = Portable::new(bad, at("2024-12-26T00:00:00Z"), Trigger::Manual);
        assert!(matches!(write(Form::Lugh, &[bad], home.path()), Err(Error::Refused { .. })));
    }
}

/// A folder as the seed's own code writes it: its worktrees without the home in front, no root in the
/// archive, `agent_states.json` like `agents`, no index of the knowledge.
fn seeds_own(home: &Path) -> PathBuf {
    let folder = home.join("chk_20241227_120000");
    std::fs::create_dir_all(&folder).unwrap();
    let document = json!({
        "id": "chk_20241227_120000",
        "created_at": "2024-12-27T12:00:00Z",
        "trigger": "auto",
        "description": "Auto-checkpoint (end of day)",
        "git": {
            "branch": "develop", "commit": "789abc", "dirty_files": [],
            "worktrees": [{"name": "issue-42", "branch": "fix/issue-42",
                           "path": "/.lugh/worktrees/issue-42"}]
        },
        "database": {"tables": ["sessions"], "row_counts": {"sessions": 8}},
        "agents": {"active_count": 1, "sessions": [
            {"id": "sess_123", "conversation_id": "conv_456", "assistant_session_id": "claude_789"}
        ]},
        "knowledge": {"projects": ["my-app"], "document_count": 42},
        "mood": "fine"
    });
    std::fs::write(folder.join("checkpoint.json"), document.to_string()).unwrap();
    std::fs::write(folder.join("agent_states.json"), document["agents"].to_string()).unwrap();
    std::fs::write(folder.join("db_snapshot.sql"), "SELECT 1;\n").unwrap();
    let trees = home.join("tree/home/me/.lugh/worktrees");
    std::fs::create_dir_all(trees.join("issue-42/.git")).unwrap();
    std::fs::write(trees.join("issue-42/.git/config"), "[core]\nhooksPath=/tmp/evil\n").unwrap();
    std::fs::write(trees.join("issue-42/a.txt"), "42").unwrap();
    std::fs::hard_link(trees.join("issue-42/a.txt"), trees.join("issue-42/b.txt")).unwrap();
    std::fs::create_dir_all(trees.join("forgotten")).unwrap();
    std::fs::write(trees.join("forgotten/x"), "x").unwrap();
    let packed = Command::new("tar")
        .arg("-czf")
        .arg(folder.join("worktrees.tar.gz"))
        .args(["-C", "tree", "home/me/.lugh/worktrees"])
        .current_dir(home)
        .status();
    assert!(packed.unwrap().success());
    std::fs::remove_dir_all(home.join("tree")).unwrap();
    std::os::unix::fs::symlink("chk_20241227_120000", home.join("latest")).unwrap();
    folder
}

#[test]
fn a_folder_of_the_seeds_own_making_is_read() {
    let home = tempfile::tempdir().unwrap();
    seeds_own(home.path());
    let (found, _scratch) = all(home.path());
    assert_eq!(found.skipped, []);
    let [one] = &found.checkpoints[..] else { panic!("{found:?}") };
    assert_eq!(one.trigger, Trigger::EndOfDay);
    assert!(one.files.is_none(), "the commit has them");
    let worktree = &one.git.as_ref().unwrap().worktrees[0];
    let files = worktree.files.as_ref().unwrap();
    let names: Vec<String> = files.entries.keys().map(ToString::to_string).collect();
    assert_eq!(names, ["a.txt", "b.txt"], "nothing of git's");
    assert_eq!(text_of(&*files.entries[&path("b.txt")].content), "42");
    assert_eq!(files.root, "/.lugh/worktrees/issue-42");
    assert_eq!(one.sessions.len(), 1);
    assert_eq!(one.sessions[0].conversation_id.as_deref(), Some("conv_456"));
    assert_eq!(one.knowledge.as_ref().unwrap().document_count, 42);
    let [database] = &one.databases[..] else { panic!("{:?}", one.databases.len()) };
    assert_eq!(database.row_counts["sessions"], 8);
    assert!(one.partial.iter().any(|said| said.contains("forgotten")), "{:?}", one.partial);
    // Written again, it says what we have no words for, and the trigger that it came with.
    let again = tempfile::tempdir().unwrap();
    write(Form::Lugh, &found.checkpoints, again.path()).unwrap();
    let text = std::fs::read_to_string(again.path().join("latest/checkpoint.json")).unwrap();
    let json: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&json["mood"], &json["trigger"]), (&json!("fine"), &json!("auto")));
}

#[test]
fn what_is_broken_is_skipped_and_named_and_the_rest_is_read() {
    let home = tempfile::tempdir().unwrap();
    seeds_own(home.path());
    let good = std::fs::read_to_string(home.path().join("chk_20241227_120000/checkpoint.json"));
    let good: Value = serde_json::from_str(&good.unwrap()).unwrap();
    let with = |change: fn(&mut Value)| {
        let mut json = good.clone();
        json["id"] = "x".into();
        change(&mut json);
        json.to_string()
    };
    let cases: Vec<(&str, String, &str)> = vec![
        ("torn", "{\"id\": \"x".into(), "is no JSON"),
        ("list", "[]".into(), "no object"),
        ("twice", good.to_string(), "is called chk_20241227_120000 too"),
        ("no_id", with(|json| json["id"] = Value::Null), "no id"),
        ("path", with(|json| json["id"] = "../../x".into()), "no id of a checkpoint"),
        ("time", with(|json| json["created_at"] = "yesterday".into()), "no time"),
        ("newer", with(|json| json["version"] = 2.into()), "version 2; this build reads 1"),
        ("odd", with(|json| json["version"] = "x".into()), "version unknown"),
        (
            "tree",
            with(|json| json["git"]["worktrees"][0]["name"] = "../x".into()),
            "cannot be used",
        ),
        (
            "dump",
            with(|json| json["database"]["snapshot_file"] = "../../etc/passwd".into()),
            "is no name of a dump",
        ),
        ("root", with(|json| json["workspace"] = json!({"root": "x"})), "no absolute path"),
        ("deep", format!("{}{}", "[".repeat(1 << 16), "]".repeat(1 << 16)), "is no JSON"),
    ];
    for (name, text, _) in &cases {
        let folder = home.path().join(name);
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("checkpoint.json"), text).unwrap();
    }
    // Neither a link nor a pipe is followed.
    std::fs::create_dir(home.path().join("linked")).unwrap();
    let outside = home.path().join("chk_20241227_120000/checkpoint.json");
    std::os::unix::fs::symlink(outside, home.path().join("linked/checkpoint.json")).unwrap();
    std::fs::create_dir(home.path().join("pipe")).unwrap();
    let made = Command::new("mkfifo").arg(home.path().join("pipe/checkpoint.json")).status();
    assert!(made.unwrap().success());
    let (found, _scratch) = all(home.path());
    assert_eq!(found.checkpoints.len(), 1);
    for (name, _, reason) in &cases {
        let skipped = found.skipped.iter().find(|one| one.path.ends_with(&format!("/{name}")));
        let skipped = skipped.unwrap_or_else(|| panic!("{name}: {:?}", found.skipped));
        assert!(skipped.reason.contains(reason), "{name}: {}", skipped.reason);
    }
    assert_eq!(found.skipped.len(), cases.len() + 2, "{:?}", found.skipped);
}

/// An archive made member by member, so that it can hold what `tar` would not write.
struct Enemy(tar::Builder<Vec<u8>>);

impl Enemy {
    fn new() -> Self {
        Self(tar::Builder::new(Vec::new()))
    }

    fn member(mut self, name: &str, kind: tar::EntryType, content: &[u8], link: &str) -> Self {
        let mut header = tar::Header::new_gnu();
        let raw = header.as_gnu_mut().unwrap();
        raw.name[..name.len()].copy_from_slice(name.as_bytes());
        raw.linkname[..link.len()].copy_from_slice(link.as_bytes());
        header.set_entry_type(kind);
        header.set_mode(0o4755);
        header.set_size(content.len() as u64);
        header.set_cksum();
        self.0.append(&header, content).unwrap();
        self
    }

    fn file(self, name: &str) -> Self {
        self.member(name, tar::EntryType::Regular, b"x", "")
    }

    fn packed(self) -> Vec<u8> {
        gzip(&self.0.into_inner().unwrap())
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    packer.write_all(bytes).unwrap();
    packer.finish().unwrap()
}

#[test]
fn archives_of_enemies_are_refused_by_name() {
    use tar::EntryType::{
        Block, Char, Continuous, Fifo, GNUSparse, Link, Regular, Symlink, XHeader,
    };
    let w = |name: &str| format!("w/{name}");
    let refused: Vec<(&str, Vec<u8>)> = vec![
        ("has an absolute path", Enemy::new().file("/w/a").packed()),
        ("`..` component", Enemy::new().file("w/../etc/passwd").packed()),
        ("is in it twice", Enemy::new().file("w/a").file("w/a").packed()),
        (
            "lies below l, which is no folder",
            Enemy::new().member("w/l", Symlink, b"", "d").file("w/l/a").packed(),
        ),
        ("lies below a, which is no folder", Enemy::new().file("w/a").file("w/a/b").packed()),
        ("is stored with holes", Enemy::new().member("w/s", GNUSparse, b"", "").packed()),
        (
            "extended header that makes no sense",
            Enemy::new().member("p", XHeader, b"99 path=x\n", "").file("w/a").packed(),
        ),
        (
            "longer than its header",
            Enemy::new().member("p", XHeader, b"10 size=9\n", "").file("w/a").packed(),
        ),
        ("cannot be unpacked", gzip(&[7; 4096])),
        ("cannot be unpacked", b"no gzip".to_vec()),
        ("cannot be unpacked", {
            let whole = Enemy::new().file("w/a").packed();
            whole[..whole.len() - 12].to_vec()
        }),
        ("unpacks to more than", {
            let zeros = vec![0; 300 << 20];
            Enemy::new().member("w/zeros", Regular, &zeros, "").packed()
        }),
        ("leads nowhere", Enemy::new().member("w/l", Symlink, b"", "").packed()),
    ];
    let left_out: Vec<(&str, Vec<u8>)> = vec![
        ("is a device", Enemy::new().file("w/a").member(&w("d"), Char, b"", "").packed()),
        ("is a device", Enemy::new().file("w/a").member(&w("d"), Block, b"", "").packed()),
        ("is a device", Enemy::new().file("w/a").member(&w("d"), Fifo, b"", "").packed()),
        ("leads out", Enemy::new().file("w/a").member(&w("l"), Symlink, b"", "/etc").packed()),
        ("leads out", Enemy::new().file("w/a").member(&w("d/l"), Symlink, b"", "../../x").packed()),
        (
            "is a hard link",
            Enemy::new().file("w/a").member(&w("h"), Link, b"", "etc/passwd").packed(),
        ),
        ("lies in no work tree", Enemy::new().file("w/a").file("etc/passwd").packed()),
    ];
    let taken: Vec<Vec<u8>> = vec![
        Enemy::new().file("w/a").member(&w("l"), Symlink, b"", "d/../a").packed(),
        Enemy::new().file("./w/a").member(&w("c"), Continuous, b"c", "").packed(),
        Enemy::new().file("w/a").file("w/.GIT/hooks/pre-commit").packed(),
        Enemy::new().file("w/a").member(&w("h"), Link, b"", "w/a").packed(),
    ];
    let read_one = |archive: &[u8]| {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("x");
        std::fs::create_dir(&folder).unwrap();
        let document = json!({
            "id": "x", "created_at": "2024-12-27T12:00:00Z", "trigger": "manual", "git": {},
            "workspace": {"root": "/w", "whole": true}
        });
        std::fs::write(folder.join("checkpoint.json"), document.to_string()).unwrap();
        std::fs::write(folder.join("worktrees.tar.gz"), archive).unwrap();
        let (found, scratch) = all(home.path());
        (found, scratch, home)
    };
    for (reason, archive) in refused {
        let (found, ..) = read_one(&archive);
        assert!(found.checkpoints.is_empty(), "{reason}");
        let said = &found.skipped[0].reason;
        assert!(
            said.starts_with("worktrees.tar.gz: ") && said.contains(reason),
            "{reason}: {said}"
        );
    }
    for (reason, archive) in left_out {
        let (found, ..) = read_one(&archive);
        let [one] = &found.checkpoints[..] else { panic!("{reason}: {:?}", found.skipped) };
        assert!(one.partial[0].contains(reason), "{reason}: {:?}", one.partial);
        let files = one.files.as_ref().unwrap();
        assert_eq!(files.entries.keys().map(ToString::to_string).collect::<Vec<_>>(), ["a"]);
        assert_eq!(files.whole, reason == "lies in no work tree", "{reason}");
    }
    for archive in taken {
        let (found, ..) = read_one(&archive);
        let [one] = &found.checkpoints[..] else { panic!("{:?}", found.skipped) };
        let files = one.files.as_ref().unwrap();
        assert!(files.whole && one.partial.is_empty(), "{:?}", one.partial);
        assert!(files.entries.keys().all(|path| !path.to_string().contains("GIT")));
        assert!(files.entries.values().all(|file| file.mode & !0o777 == 0));
    }
}

#[test]
fn whatever_fails_a_checkpoint_is_there_whole_or_not_at_all() {
    let one = Portable { files: None, ..full() };
    let older = Portable::new("chk_old", at("2024-12-26T00:00:00Z"), Trigger::Manual);
    let count = {
        let home = tempfile::tempdir().unwrap();
        write(Form::Lugh, std::slice::from_ref(&older), home.path()).unwrap();
        let disk = FaultDisk::new();
        let gate: Arc<dyn Disk> = disk.clone();
        lugh::write_on(&gate, std::slice::from_ref(&one), home.path()).unwrap();
        disk.count()
    };
    assert!(count > 20, "{count}");
    for at in 1..=count {
        let home = tempfile::tempdir().unwrap();
        write(Form::Lugh, std::slice::from_ref(&older), home.path()).unwrap();
        let disk = FaultDisk::with(Fault::Fail { at, failure: Failure::NoSpace });
        let gate: Arc<dyn Disk> = disk;
        let wrote = lugh::write_on(&gate, std::slice::from_ref(&one), home.path());
        let (found, _scratch) = all(home.path());
        assert_eq!(found.skipped, [], "step {at}");
        let there = found.checkpoints.iter().find(|found| found.id == one.id);
        assert!(there.is_some() || wrote.is_err(), "step {at}");
        if let Some(there) = there {
            assert_eq!(there.databases.len(), one.databases.len(), "step {at}");
        }
        let latest = std::fs::read_link(home.path().join("latest")).unwrap();
        assert!(home.path().join(latest).join("checkpoint.json").is_file(), "step {at}");
        // The next one to write finds nothing in its way and clears up.
        write(Form::Lugh, std::slice::from_ref(&one), home.path()).unwrap();
        let names = std::fs::read_dir(home.path()).unwrap();
        assert_eq!(names.count(), 3, "step {at}");
    }
}

#[test]
fn a_power_loss_leaves_whole_checkpoints_only() {
    let one = Portable { files: None, ..full() };
    let older = Portable::new("chk_old", at("2024-12-26T00:00:00Z"), Trigger::Manual);
    for loss in Loss::all() {
        for at in (1..60).step_by(3) {
            let home = tempfile::tempdir().unwrap();
            write(Form::Lugh, std::slice::from_ref(&older), home.path()).unwrap();
            let disk = FaultDisk::with(Fault::Crash { at });
            let gate: Arc<dyn Disk> = disk.clone();
            let wrote = lugh::write_on(&gate, std::slice::from_ref(&one), home.path());
            disk.lose(loss);
            let (found, _scratch) = all(home.path());
            assert_eq!(found.skipped, [], "{loss:?} at {at}");
            let there = found.checkpoints.iter().find(|found| found.id == one.id);
            assert!(there.is_some() || wrote.is_err(), "{loss:?} at {at}");
            for database in there.into_iter().flat_map(|there| &there.databases) {
                let expected = one.databases.iter().find(|one| one.name == database.name).unwrap();
                let dumps = [database, expected].map(|one| text_of(&**one.dump.as_ref().unwrap()));
                assert_eq!(dumps[0], dumps[1], "{loss:?} at {at}");
            }
        }
    }
}
