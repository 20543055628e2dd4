//! A project in which `rappel integrate` is run, by a program that is not below `target/`.

#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, reason = "tests may")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use super::World;

/// A project, and a copy of the program that is not below `target/`.
pub struct Scene {
    pub world: World,
    pub program: PathBuf,
}

impl Scene {
    pub fn new() -> Self {
        Self::with_program("bin")
    }

    pub fn with_program(folder: &str) -> Self {
        let world = World::new();
        let folder = world.project.outside().join(folder);
        fs::create_dir(&folder).unwrap();
        let program = folder.join("rappel");
        // A link would be seen through.
        fs::hard_link(env!("CARGO_BIN_EXE_rappel"), &program)
            .or_else(|_| fs::copy(env!("CARGO_BIN_EXE_rappel"), &program).map(drop))
            .unwrap();
        Self { world, program }
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let like = self.world.command(arguments);
        let mut command = Command::new(&self.program);
        command.args(like.get_args()).current_dir(self.world.project.root()).env_clear();
        for (name, value) in like.get_envs() {
            command.env(name, value.unwrap());
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Runs it with `--json`; it has to succeed.
    pub fn json(&self, arguments: &[&str]) -> Value {
        let output = self.run(&[arguments, &["--json"]].concat());
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {errors}");
        assert_eq!(errors, "", "{arguments:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Runs it; it has to fail with 1 and say this.
    pub fn refused(&self, arguments: &[&str], saying: &str) {
        let output = self.run(arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {errors}");
        assert!(errors.contains(saying), "{arguments:?}: {errors}");
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.world.project.path(path)
    }

    pub fn settings(&self, path: &str) -> Value {
        serde_json::from_str(&self.world.read(path)).unwrap()
    }

    pub fn user(&self) -> PathBuf {
        self.world.project.outside().join("user")
    }

    /// Everything below the project and the user's folder, by path.
    pub fn everything(&self) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
        let mut found = BTreeMap::new();
        gather(self.world.project.root(), &mut found);
        gather(&self.user(), &mut found);
        found
    }
}

fn gather(folder: &Path, found: &mut BTreeMap<PathBuf, Option<Vec<u8>>>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => {
                gather(&path, found);
                found.insert(path, None);
            }
            false => _ = found.insert(path.clone(), Some(fs::read(&path).unwrap_or_default())),
        }
    }
}
