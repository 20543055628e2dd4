//! A project, a home and the real binary; and what it said, in a form that is the same every time.

#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, reason = "tests may")]

pub mod agent;
pub mod answers;
pub mod guarded;
pub mod pty;
pub mod scene;
pub mod terminal;

use std::cell::RefCell;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use rappel_testing::Project;
use serde_json::Value;

/// A project with a home of its own.
pub struct World {
    pub project: Project,
    pub home: PathBuf,
    /// The ids that were seen, in order, so that snapshots can tell them apart.
    ids: RefCell<Vec<String>>,
}

impl World {
    /// A small project that was never saved.
    pub fn new() -> Self {
        Self::of(
            Project::new()
                .file("a.txt", "one\ntwo\nthree\n")
                .file("src/main.rs", "fn main() {}\n")
                .file("docs/notes.md", "# Notes\n")
                // Whatever the umask is.
                .mode("a.txt", 0o644)
                .mode("src", 0o755)
                .mode("src/main.rs", 0o644)
                .mode("docs", 0o755)
                .mode("docs/notes.md", 0o644),
        )
    }

    /// Some project that was never saved.
    pub fn of(project: Project) -> Self {
        let home = project.outside().join("home");
        std::fs::create_dir(project.outside().join("user")).unwrap();
        Self { project, home, ids: RefCell::default() }
    }

    /// Writes a file.
    pub fn write(&self, path: &str, text: &str) {
        let path = self.project.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// Reads a file.
    pub fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.project.path(path)).unwrap()
    }

    /// Removes a file.
    pub fn remove(&self, path: &str) {
        std::fs::remove_file(self.project.path(path)).unwrap();
    }

    /// The binary in this world, and nothing of the world outside.
    pub fn command<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rappel"));
        command
            .args(arguments)
            .current_dir(self.project.root())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.project.outside().join("user"))
            .env("RAPPEL_HOME", &self.home)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("TZ", rappel_testing::calm_zone())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs it.
    pub fn run<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Runs it with `--json`; it has to succeed.
    pub fn json(&self, arguments: &[&str]) -> Value {
        let output = self.run(&[arguments, &["--json"]].concat());
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {errors}");
        assert_eq!(errors, "", "{arguments:?}");
        let value = serde_json::from_slice(&output.stdout).unwrap();
        answers::check(arguments, &value);
        value
    }

    /// Runs it with `--json`, however it ends.
    pub fn json_at_any_exit(&self, arguments: &[&str]) -> Value {
        let output = self.run(&[arguments, &["--json"]].concat());
        let value = serde_json::from_slice(&output.stdout).unwrap();
        answers::check(arguments, &value);
        value
    }

    /// The user allows what `rappel.toml` runs and reaches now.
    pub fn trust(&self) {
        assert_eq!(self.json(&["trust", "--yes"])["state"], "allowed");
    }

    /// Makes a checkpoint and gives its id.
    pub fn save(&self, message: &str) -> String {
        self.json(&["save", message])["id"].as_str().unwrap().to_owned()
    }

    /// Exit code, stdout and stderr of a call.
    pub fn face(&self, arguments: &[&str]) -> String {
        self.shown(&self.run(arguments))
    }

    /// As [`World::face`], with JSON spread out.
    pub fn json_face(&self, arguments: &[&str]) -> String {
        let mut output = self.run(&[arguments, &["--json"]].concat());
        if let Ok(value) = serde_json::from_slice(&output.stdout) {
            answers::check(arguments, &value);
        }
        for stream in [&mut output.stdout, &mut output.stderr] {
            if let Ok(value) = serde_json::from_slice::<Value>(stream) {
                *stream = serde_json::to_vec_pretty(&value).unwrap();
                stream.push(b'\n');
            }
        }
        self.shown(&output)
    }

    pub fn shown(&self, output: &Output) -> String {
        let mut text = format!("exit {}\n", output.status.code().unwrap_or(-1));
        for (name, stream) in [("stdout", &output.stdout), ("stderr", &output.stderr)] {
            let _ = write!(text, "----- {name} -----\n{}", String::from_utf8_lossy(stream));
        }
        self.normalised(&text)
    }

    /// Text with the folders and ids of this world under names that are always the same.
    pub fn normalised(&self, text: &str) -> String {
        let mut text = text.to_owned();
        let places: [(&Path, &str); 3] = [
            (self.project.root(), "[PROJECT]"),
            (&self.home, "[HOME]"),
            (self.project.outside(), "[OUTSIDE]"),
        ];
        for (path, name) in places {
            text = text.replace(path.to_str().unwrap(), name);
        }
        let mut ids = self.ids.borrow_mut();
        for (at, _) in text.match_indices("chk_") {
            if let Some(id) = text.get(at..at + 24)
                && is_id(id)
                && !ids.iter().any(|known| known == id)
            {
                ids.push(id.to_owned());
            }
        }
        for (place, id) in ids.iter().enumerate() {
            text = text.replace(id, &format!("chk_{}", place + 1));
        }
        text
    }
}

/// Whether a text has the shape of `chk_20261115_143022_k7f3`.
fn is_id(text: &str) -> bool {
    text.bytes().enumerate().all(|(place, byte)| match place {
        0..=2 => byte.is_ascii_lowercase(),
        3 | 12 | 19 => byte == b'_',
        4..=18 => byte.is_ascii_digit(),
        _ => byte.is_ascii_alphanumeric(),
    })
}

/// Text that does not compress well.
pub fn noise(words: u32) -> String {
    (0..words).fold(String::new(), |mut text, word| {
        let _ = write!(text, "{:x}", word.wrapping_mul(2_654_435_761));
        text
    })
}

/// What differs from one run to the next without anything being different.
pub const FILTERS: &[(&str, &str)] = &[
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "[TIME]"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "[TIME]"),
    (r"\d{4}-\d\d-\d\d", "[DAY]"),
    (r"just now|\d+ (second|minute)s? ago", "[AGO]"),
    (r"\d+(\.\d+)? ([KMGT]iB|B)\b", "[SIZE]"),
    (r"\(\d+\.\d times less\)", "[RATIO]"),
    (r"(Cost +)[0-9a-z ]+,", "$1[DURATION],"),
    (
        r#"("(wall_ms|new_bytes|duration_ms|time_delta_ms|home_bytes|free_bytes|stored_bytes|ratio)": )-?[0-9.e-]+"#,
        "$1[NUMBER]",
    ),
    (r#""[0-9a-f]{64}""#, "\"[HASH]\""),
    (r#""[0-9a-f]{16}""#, "\"[WORKSPACE]\""),
    (r"[0-9a-f]{64}", "[HASH]"),
    (r"workspace [0-9a-f]{16}", "workspace [WORKSPACE]"),
    (r"(git +)\d+\.[0-9.]+", "$1[VERSION]"),
    (r"  [0-9a-f]{12}  \(", "  [VERSION]  ("),
];

/// Holds the face of a call against its snapshot.
#[macro_export]
macro_rules! assert_face {
    ($world:expr, $name:literal, $($argument:expr),+ $(,)?) => {{
        let arguments = [$($argument),+];
        let face = $world.face(&arguments);
        $crate::assert_said!($name, format!("rappel {}", arguments.join(" ")), face);
    }};
}

/// Holds the JSON face of a call against its snapshot.
#[macro_export]
macro_rules! assert_json_face {
    ($world:expr, $name:literal, $($argument:expr),+ $(,)?) => {{
        let arguments = [$($argument),+];
        let face = $world.json_face(&arguments);
        $crate::assert_said!($name, format!("rappel {} --json", arguments.join(" ")), face);
    }};
}

/// Holds what was said against its snapshot.
#[macro_export]
macro_rules! assert_said {
    ($name:literal, $call:expr, $said:expr) => {
        insta::with_settings!({
            filters => $crate::support::FILTERS.to_vec(),
            omit_expression => true,
            prepend_module_to_snapshot => true,
        }, {
            insta::assert_snapshot!($name, $said);
        })
    };
}
