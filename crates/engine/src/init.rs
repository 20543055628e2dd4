//! Writing a first `rappel.toml` for what a folder holds.

use std::io::Write;
use std::path::PathBuf;

use rappel_store::sink::Scratch;
use rappel_types::config::commented_template;
use schemars::JsonSchema;
use serde::Serialize;

use crate::agents::STATE_FOLDERS as CAPTURED;
use crate::databases::Found;
use crate::error::{Error, Result};
use crate::rappel::Rappel;

/// Folders in which known agents keep their state.
const STATE_FOLDERS: [&str; 6] = [".loki", ".aiwg", ".claude", ".codex", ".gemini", ".caf"];

/// What `init` found and wrote.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct Initialised {
    /// The file that was written.
    pub path: PathBuf,
    /// Whether the folder is a git work tree.
    pub git: bool,
    /// Names of variables in `.env` files that name a database, and paths of ignored ones, which the file protects. Never the
    /// variables' values.
    pub databases: Vec<String>,
    /// The same of those that it does not: on another machine, or of a kind that needs a command.
    pub unprotected: Vec<String>,
    /// Folders of agent state.
    pub state_folders: Vec<String>,
}

impl Rappel {
    /// Writes `rappel.toml`. Refuses to overwrite one.
    pub fn init(&self) -> Result<Initialised> {
        let path = self.root.join("rappel.toml");
        let mut databases = self.unprotected_databases();
        let scratch = Scratch::over(self.source());
        let noticed = self.scan(&scratch, None, &[])?.scanned.databases;
        databases.extend(self.unprotected_files(&noticed));
        let state_folders: Vec<String> = STATE_FOLDERS
            .into_iter()
            .filter(|name| self.root.join(name).is_dir())
            .map(str::to_owned)
            .collect();
        let mut text = commented_template(self.config.environment.as_deref(), &[]);
        let mut taken = Vec::new();
        for found in &databases {
            text.push_str(&found.entry(&mut taken));
        }
        let unnamed: Vec<&String> =
            state_folders.iter().filter(|name| !CAPTURED.contains(&name.as_str())).collect();
        if !unnamed.is_empty() {
            text.push_str("\n# Found here; captured even where git ignores it if it is named:\n");
            text.push_str(&format!("# [agents]\n# state_dirs = {unnamed:?}\n"));
        }
        let mut file = std::fs::File::create_new(&path).map_err(|error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => Error::Usage {
                message: format!("{} exists already", path.display()),
                advice: vec!["edit it, or remove it first".into()],
            },
            _ => Error::io("create", &path)(error),
        })?;
        file.write_all(text.as_bytes()).map_err(Error::io("write", &path))?;
        let (protected, others): (Vec<_>, Vec<_>) =
            databases.into_iter().partition(Found::is_protected_by_entry);
        let names = |all: Vec<Found>| all.into_iter().map(|found| found.name).collect();
        Ok(Initialised {
            git: self.root.join(".git").exists(),
            databases: names(protected),
            unprotected: names(others),
            state_folders,
            path,
        })
    }
}
