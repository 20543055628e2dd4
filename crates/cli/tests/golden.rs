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
        let output = self.world.run(&[arguments, &["--json"]].concat());
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

#[test]
fn a_home_of_0_1_is_listed_verified_restored_and_undone() {
    let golden = Golden::unpack("home-0.1/whole.tar.gz");
    let server = Postgres::start();
    server.create("app");
    server.run("app", "CREATE TABLE talks (id int PRIMARY KEY, title text)");
    for line in golden.fact("first.postgres").lines() {
        let (id, title) = line.split_once('|').unwrap();
        server.run("app", &format!("INSERT INTO talks VALUES ({id}, '{title}')"));
    }
    golden.world.write(".env", &format!("DATABASE_URL={}\n", server.url("app")));
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
    let found = golden.must(&["find", "--tag", "golden"]);
    assert!(found.to_string().contains("\"first\""), "{found}");
    let state = golden.must(&["at", "now", "--session", "work"]);
    assert!(state["state"].to_string().contains("a race"), "{state}");

    // The old version's restore is undone. Its PostgreSQL server is another one by now.
    golden.must(&["undo", "--skip", "databases"]);
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
    golden.world.save("by this version");
    golden.must(&["gc", "--now", "--confirm"]);
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

fn unfinished() -> Golden {
    let golden = Golden::unpack("home-0.1/unfinished.tar.gz");
    golden.must(&["adopt", OLD_ROOT]);
    move_intent(&golden.world);
    let open = golden.must(&["recover"]);
    assert_eq!(open["restores"].as_array().unwrap().len(), 1, "{open}");
    golden
}

#[test]
fn a_restore_that_0_1_left_unfinished_is_finished_and_undone() {
    let golden = unfinished();
    golden.must(&["recover", "--finish"]);
    golden.assert_at("first");
    golden.must(&["undo", "--skip", "databases"]);
    assert_eq!(golden.world.read("docs/new.md"), "new\nbefore\n");
    golden.world.write("docs/new.md", "new\n");
    golden.assert_at("second");
}

#[test]
fn a_restore_that_0_1_left_unfinished_is_rolled_back() {
    let golden = unfinished();
    golden.must(&["recover", "--rollback"]);
    assert_eq!(golden.world.read("docs/new.md"), "new\nbefore\n");
    golden.world.write("docs/new.md", "new\n");
    golden.assert_at("second");
}
