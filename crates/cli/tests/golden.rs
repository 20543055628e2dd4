//! Homes that earlier versions wrote are opened, listed, restored, undone and recovered by this one.
//! `fixtures/make-golden` made them, with the version that their folder is named after.

#![allow(clippy::unwrap_used, reason = "tests may")]

mod support;

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rappel_testing::project::snapshot;
use rappel_testing::{Postgres, Project};
use rusqlite::Connection;
use serde_json::Value;
use support::World;

/// Where the project stood when the homes were made.
const OLD_ROOT: &str = "/tmp/rappel-golden/project";

/// A golden home with its project, at a new place.
struct Golden {
    world: World,
}

impl Golden {
    fn unpack(archive: &str) -> Self {
        let world = World::of(Project::new());
        let archive = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(archive);
        let tar = |into: &Path, arguments: &[&str]| {
            let mut command = Command::new("tar");
            command.arg("-xzf").arg(&archive).arg("--no-same-owner").arg("-C").arg(into);
            assert!(command.args(arguments).status().unwrap().success());
        };
        tar(world.project.outside(), &["home", "at"]);
        tar(world.project.root(), &["--strip-components=1", "project"]);
        Self { world }
    }

    fn must(&self, arguments: &[&str]) -> Value {
        const BUSY: Option<i32> = Some(5);
        let start = std::time::Instant::now();
        // The first save in an old home starts gc, detached; a command that meets it is told so.
        let output = loop {
            let output = self.world.run(&[arguments, &["--json"]].concat());
            if output.status.code() != BUSY || start.elapsed().as_secs() > 60 {
                break output;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        };
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {words}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn recorded(&self, name: &str) -> PathBuf {
        self.world.project.outside().join("at").join(name)
    }

    fn git(&self, arguments: &[&str]) -> String {
        let output = Command::new("git")
            .args(arguments)
            .current_dir(self.world.project.root())
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Asserts that files, git, SQLite and the command's state are as they were at `moment`.
    fn assert_at(&self, moment: &str) {
        let passed_over = [".git", ".env", ".state", ".loki", "notes.db"];
        let mut now = snapshot(self.world.project.root());
        now.retain(|path, _| {
            !passed_over.iter().any(|first| path.split('/').next() == Some(first))
        });
        assert_eq!(now, snapshot(&self.recorded(moment)), "{moment}");

        let git = [
            self.git(&["rev-parse", "HEAD"]),
            self.git(&["symbolic-ref", "HEAD"]),
            self.git(&["for-each-ref"]),
            self.git(&["status", "--porcelain", "--", ".", ":!notes.db"]),
        ];
        assert_eq!(git.concat(), self.fact(&format!("{moment}.git")));
        self.git(&["fsck", "--strict"]);
    }

    fn fact(&self, name: &str) -> String {
        std::fs::read_to_string(self.recorded("facts").join(name)).unwrap()
    }

    /// Asserts what the databases held at `moment`.
    fn assert_databases_at(&self, moment: &str, server: &Postgres) {
        let connection = Connection::open(self.world.project.path("notes.db")).unwrap();
        let mut statement = connection.prepare("SELECT x FROM notes ORDER BY x").unwrap();
        let rows = statement.query_map([], |row| row.get::<_, i64>(0)).unwrap();
        let rows: String = rows.map(|row| format!("{}\n", row.unwrap())).collect();
        assert_eq!(rows, self.fact(&format!("{moment}.sqlite")));
        let talks = server.run("app", "SELECT * FROM talks ORDER BY id");
        assert_eq!(talks.trim_end(), self.fact(&format!("{moment}.postgres")).trim_end());
        assert_eq!(self.world.read(".state"), self.fact(&format!("{moment}.command")));
    }
}

/// Opens, lists, verifies, restores and undoes in the home of a version. `second` makes the
/// workspace as it was at the second checkpoint, where its last restore had found it otherwise.
fn work_with(version: &str, second: impl Fn(&Golden)) {
    let golden = Golden::unpack(&format!("home-{version}/whole.tar.gz"));
    let server = Postgres::start();
    server.create("app");
    server.create("odd");
    server.run("app", "CREATE TABLE talks (id int PRIMARY KEY, title text)");
    for line in golden.fact("first.postgres").lines() {
        let (id, title) = line.split_once('|').unwrap();
        server.run("app", &format!("INSERT INTO talks VALUES ({id}, '{title}')"));
    }
    let (app, odd) = (server.url("app"), server.url("odd"));
    golden.world.write(".env", &format!("DATABASE_URL={app}\nODD_URL={odd}\n"));
    golden.must(&["adopt", OLD_ROOT]);
    golden.must(&["trust", "--yes"]);
    golden.assert_at("first");
    golden.assert_databases_at("first", &server);

    let list = golden.must(&["list", "--all"]);
    let sequences: Vec<i64> = list["checkpoints"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["sequence"].as_i64().unwrap())
        .collect();
    assert!(sequences.starts_with(&[6, 5, 3, 2, 1]), "{sequences:?}");
    golden.must(&["verify"]);
    // Versions before this one wrote labels without a message.
    golden.must(&["describe", "2", "told later"]);
    assert_eq!(golden.must(&["show", "2"])["description"], "told later");
    let found = golden.must(&["find", "--tag", "golden"]);
    assert!(found.to_string().contains("\"first\""), "{found}");
    let state = golden.must(&["at", "now", "--session", "work"]);
    assert!(state["state"].to_string().contains("a race"), "{state}");

    // The old version's restore is undone. Its PostgreSQL server is another one by now.
    golden.must(&["undo", "--skip", "databases"]);
    second(&golden);
    golden.assert_at("second");
    golden.must(&["redo"]);
    golden.assert_at("first");

    golden.must(&["restore", "3", "--confirm", "--prune-refs", "--skip", "databases"]);
    golden.assert_at("second");
    // Another server than the one that was saved is overwritten only if its database is named.
    let named = ["--database", "app", "--database", "state", "--database", "notes.db"];
    golden.must(&[["restore", "3", "--confirm"].as_slice(), &named].concat());
    golden.assert_databases_at("second", &server);
    golden.must(&["undo"]);
    golden.assert_databases_at("first", &server);
    golden.must(&["undo"]);
    golden.assert_at("first");
    golden.must(&["save", "by this version"]);
    golden.must(&["gc", "--now", "--confirm"]);
    golden.must(&["verify"]);
}

#[test]
fn a_home_of_0_1_is_listed_verified_restored_and_undone() {
    work_with("0.1", |_| ());
}

#[test]
fn a_home_of_0_2_is_listed_verified_restored_and_undone() {
    work_with("0.2", |golden| {
        // The restore had linked a submodule again.
        assert!(!golden.world.project.path("sub/.git").exists());
        golden.world.write("sub/.git", "gitdir: ../.git/modules/sub\n");
    });
}

#[test]
fn what_0_2_says_of_a_database_that_no_server_loads_is_read() {
    let golden = Golden::unpack("home-0.2/whole.tar.gz");
    golden.must(&["adopt", OLD_ROOT]);
    let shown = golden.must(&["show", "1"]);
    let parts = shown["databases"].as_array().unwrap();
    let odd = parts.iter().find(|part| part["name"] == "odd").unwrap();
    assert!(odd["flaw"].as_str().unwrap().contains("foreign keys"), "{odd}");
    assert!(odd["left_out"][0].as_str().unwrap().contains("materialized view"), "{odd}");
}

#[test]
fn what_0_2_wrote_down_as_lost_is_told_until_somebody_lets_go_of_it() {
    let golden = Golden::unpack("home-0.2/damaged.tar.gz");
    golden.must(&["adopt", OLD_ROOT]);
    let output = golden.world.run(&["verify", "--json"]);
    assert_eq!(output.status.code(), Some(6));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["hurt"].as_array().unwrap().len(), 1, "{report}");
    assert_eq!(report["hurt"][0]["lost"], true, "{report}");
    let lost = report["hurt"][0]["checkpoint"].as_str().unwrap();
    assert_eq!(golden.world.run(&["show", lost]).status.code(), Some(6));
    // Its number is not given again: 7 marks the end of the day of the newest one that is left.
    let saved = golden.must(&["save", "after", "--skip", "databases"]);
    assert_eq!(saved["sequence"], 8, "{saved}");
    assert_eq!(golden.must(&["show", "7"])["trigger"], "end-of-day");
    golden.must(&["delete", lost, "--confirm"]);
    let output = golden.world.run(&["verify", "--repair"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    golden.must(&["verify"]);
}

/// The JSON of an intent's plan with the folder it is about at its new place, and a file around it
/// as docs/format.md describes it.
fn move_intent(world: &World) {
    let folder = world.home.join("intents");
    let entries = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let path = entries.filter(|path| path.extension().is_some_and(|it| it == "intent")).last();
    let path = path.unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let (start, length) = (8, u32::from_le_bytes(bytes[8..12].try_into().unwrap()) as usize);
    let end = start + 20 + length;
    let root = std::fs::canonicalize(world.project.root()).unwrap();
    let meta = root.metadata().unwrap();
    let json = String::from_utf8(bytes[start + 21..end].to_vec()).unwrap();
    let mut plan: Value =
        serde_json::from_str(&json.replace(OLD_ROOT, root.to_str().unwrap())).unwrap();
    plan["device"] = meta.dev().into();
    plan["inode"] = meta.ino().into();
    let id = u64::from_str_radix(plan["id"].as_str().unwrap(), 16).unwrap();
    let payload = [&[1], plan.to_string().as_bytes()].concat();
    let size = u32::try_from(payload.len()).unwrap().to_le_bytes();
    let mut hasher = blake3::Hasher::new();
    hasher.update(&id.to_le_bytes()).update(&0_u64.to_le_bytes());
    let sum = hasher.update(&size).update(&payload).finalize();
    let moved = [&bytes[..start], &size, &sum.as_bytes()[..16], &payload, &bytes[end..]].concat();
    std::fs::write(&path, moved).unwrap();
}

fn unfinished(version: &str) -> Golden {
    let golden = Golden::unpack(&format!("home-{version}/unfinished.tar.gz"));
    golden.must(&["adopt", OLD_ROOT]);
    move_intent(&golden.world);
    let open = golden.must(&["recover"]);
    assert_eq!(open["restores"].as_array().unwrap().len(), 1, "{open}");
    golden
}

/// Asserts that everything is as the restore had found it, and makes it as it was at the second
/// checkpoint.
fn assert_as_found(golden: &Golden, head: &str) {
    assert_eq!(golden.world.read("docs/new.md"), "new\nbefore\n");
    golden.world.write("docs/new.md", "new\n");
    assert_eq!(golden.world.read(".git/HEAD"), head);
    golden.world.write(".git/HEAD", HEAD);
    golden.assert_at("second");
}

const HEAD: &str = "ref: refs/heads/main\n";

#[test]
fn a_restore_that_0_1_left_unfinished_is_finished_and_undone() {
    let golden = unfinished("0.1");
    golden.must(&["recover", "--finish"]);
    golden.assert_at("first");
    golden.must(&["undo", "--skip", "databases"]);
    assert_as_found(&golden, HEAD);
}

#[test]
fn a_restore_that_0_1_left_unfinished_is_rolled_back() {
    let golden = unfinished("0.1");
    golden.must(&["recover", "--rollback"]);
    assert_as_found(&golden, HEAD);
}

#[test]
fn a_restore_of_a_spoilt_repository_that_0_2_left_unfinished_is_finished_and_undone() {
    let golden = unfinished("0.2");
    golden.must(&["recover", "--finish"]);
    golden.assert_at("first");
    golden.must(&["undo", "--skip", "databases"]);
    assert_as_found(&golden, "");
}

#[test]
fn a_restore_of_a_spoilt_repository_that_0_2_left_unfinished_is_rolled_back() {
    let golden = unfinished("0.2");
    golden.must(&["recover", "--rollback"]);
    assert_as_found(&golden, "");
}
