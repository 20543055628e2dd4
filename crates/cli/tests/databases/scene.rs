//! A project with everything at once: files, git, Postgres, SQLite and a command of its own.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Output, Stdio};

use rappel_testing::project::{Snapshot, snapshot};
use rappel_testing::{Postgres, Project};
use rusqlite::Connection;
use serde_json::Value;

use crate::support::World;

/// 60 rows in three tables.
pub const SCHEMA: &str = "
    CREATE TABLE conversations (id serial PRIMARY KEY, title text);
    CREATE TABLE messages (id serial PRIMARY KEY, of int REFERENCES conversations, text text);
    CREATE TABLE sessions (token text);
    INSERT INTO conversations (title) SELECT 'talk ' || n FROM generate_series(1, 15) n;
    INSERT INTO messages (of, text) SELECT n % 15 + 1, 'message ' || n FROM generate_series(1, 40) n;
    INSERT INTO sessions SELECT 'session ' || n FROM generate_series(1, 5) n;";

/// What the command `state` runs: it waits at a gate, and does nothing once it is told to give up.
const LOADER: &str = "#!/bin/sh
if [ -e gate ]; then
    echo $$ >reached
    while [ -e gate ]; do
        [ -e abort ] && exit 9
        sleep 0.02
    done
fi
cat >state
";
const DUMPER: &str = "#!/bin/sh
if [ -e gate-capture ]; then
    echo $$ >reached
    while [ -e gate-capture ]; do
        [ -e abort ] && exit 9
        sleep 0.02
    done
fi
cat state
";

/// A project with a Postgres of its own.
pub struct Scene {
    pub world: World,
    pub server: Postgres,
}

/// Everything that a restore is about, as it is.
#[derive(Debug, Clone, PartialEq)]
pub struct Portrait {
    pub files: Snapshot,
    pub git: String,
    pub postgres: String,
    pub sqlite: String,
    pub state: String,
}

impl Scene {
    /// Files and Postgres.
    pub fn new() -> Self {
        Self::on(Postgres::start())
    }

    /// The same, on this server.
    pub fn on(server: Postgres) -> Self {
        server.create("app");
        server.run("app", SCHEMA);
        let world = World::of(Project::new().file("code", "1\n").file(".gitignore", ".env\n"));
        let scene = Self { world, server };
        scene.address(&scene.server.url("app"));
        scene
            .world
            .write("rappel.toml", "[[database]]\nname = \"app\"\nurl = \"env:DATABASE_URL\"\n");
        scene
    }

    /// All five.
    pub fn whole() -> Self {
        let scene = Self::new();
        let outside = scene.outside();
        std::fs::create_dir(&outside).unwrap();
        for (name, text) in [("load", LOADER), ("dump", DUMPER)] {
            let path = outside.join(name);
            // The folder of the state is where the gate is.
            let text = text.replacen('\n', &format!("\ncd {}\n", outside.display()), 1);
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        std::fs::write(outside.join("state"), "one").unwrap();
        let text = format!(
            "{}\n[[command]]\nname = \"state\"\ncapture = [\"{}\"]\nrestore = [\"{}\"]\n",
            scene.world.read("rappel.toml"),
            outside.join("dump").display(),
            outside.join("load").display(),
        );
        scene.world.write("rappel.toml", &text);
        scene.world.trust();
        scene.sqlite(
            "PRAGMA journal_mode = WAL; CREATE TABLE notes (x); INSERT INTO notes VALUES (1), (2)",
        );
        scene.git(&["init", "-q"]);
        // The configuration names folders that are others every time, and so would its commit be.
        scene.git(&["add", "code", ".gitignore"]);
        scene.git(&["commit", "-qm", "one"]);
        scene
    }

    /// Damages everything.
    pub fn damage(&self) {
        self.world.write("code", "2\n");
        self.world.write("new", "new\n");
        self.git(&["commit", "-qam", "two"]);
        self.server.run(
            "app",
            "DROP TABLE IF EXISTS other; DROP TABLE messages; DELETE FROM conversations WHERE id > 3; CREATE TABLE other (x int)",
        );
        self.sqlite("DELETE FROM notes; INSERT INTO notes VALUES (3)");
        std::fs::write(self.outside().join("state"), "two").unwrap();
    }

    /// Where the command has its state.
    pub fn outside(&self) -> PathBuf {
        self.world.project.outside().join("elsewhere")
    }

    /// Has `.env` name this address.
    pub fn address(&self, url: &str) {
        self.world.write(".env", &format!("DATABASE_URL=\"{url}\"\n"));
    }

    /// Carries out statements in the SQLite file.
    pub fn sqlite(&self, statements: &str) {
        let connection = Connection::open(self.world.project.path("local.db")).unwrap();
        connection.busy_timeout(std::time::Duration::from_secs(20)).unwrap();
        connection.execute_batch(statements).unwrap();
    }

    /// Git in the project.
    pub fn git(&self, arguments: &[&str]) -> String {
        rappel_testing::git::git(self.world.project.root(), arguments)
    }

    /// How everything is.
    pub fn portrait(&self) -> Portrait {
        let mut files = snapshot(self.world.project.root());
        files.retain(|path, _| !path.starts_with(".git/") && !path.starts_with("local.db"));
        let git =
            ["log --all --format=%H_%D", "status --porcelain -- . :!local.db*", "ls-files --stage"];
        let git = git.map(|words| self.git(&words.split(' ').collect::<Vec<_>>())).join("\n");
        let path = self.world.project.path("local.db");
        let connection = Connection::open(path).unwrap();
        connection.busy_timeout(std::time::Duration::from_secs(20)).unwrap();
        let sound: String =
            connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        let rows: String = connection
            .query_row("SELECT group_concat(x) FROM notes", [], |row| row.get(0))
            .unwrap();
        Portrait {
            files,
            git,
            postgres: self.server.dump("app"),
            sqlite: format!("{sound}: {rows}"),
            state: std::fs::read_to_string(self.outside().join("state")).unwrap(),
        }
    }

    /// Runs it with `--json`, which gives an exit code, an answer and words.
    pub fn run(&self, arguments: &[&str]) -> Ran {
        Ran::of(&self.world.run(&[arguments, &["--json"]].concat()))
    }

    /// Starts it, to be met in the middle.
    pub fn start(&self, arguments: &[&str]) -> Child {
        self.world.command(&[arguments, &["--json"]].concat()).spawn().unwrap()
    }

    /// How many restores are unfinished.
    pub fn unfinished(&self) -> usize {
        self.world.json(&["recover"])["restores"].as_array().unwrap().len()
    }

    /// A session that did something and stays in its transaction.
    pub fn holder(&self, statements: &str) -> Holder {
        let mut psql = self
            .server
            .psql_command("app")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = psql.stdin.take().unwrap();
        writeln!(input, "SET application_name = 'migration';\nBEGIN;\n{statements};\n\\echo held")
            .unwrap();
        let output = BufReader::new(psql.stdout.take().unwrap());
        assert!(output.lines().map_while(Result::ok).any(|line| line == "held"));
        Holder { psql, input: Some(input) }
    }
}

/// Somebody else's open transaction, which ends with the value.
pub struct Holder {
    psql: Child,
    input: Option<ChildStdin>,
}

impl Drop for Holder {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.psql.wait();
    }
}

/// What came of a call.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub answer: Value,
    pub words: String,
}

impl Ran {
    pub fn of(output: &Output) -> Self {
        Self {
            code: output.status.code(),
            answer: serde_json::from_slice(&output.stdout).unwrap_or_default(),
            words: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// Waits until something is so. Fails after a minute, which is no measure of anything.
pub fn wait_until(what: &str, mut so: impl FnMut() -> bool) {
    for _ in 0..6000 {
        if so() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("it never came to this: {what}");
}

/// All files below a folder.
pub fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => found.extend(files_below(&entry.path())),
            _ => found.push(entry.path()),
        }
    }
    found
}
