//! Whether everything that Rappel relies on is as it should be.

use std::process::{Command, Stdio};

use rappel_store::beneath::Root;
use rappel_store::home::Footing;
use rappel_types::size::format_size;
use serde::Serialize;

use crate::error::Result;
use crate::rappel::Rappel;

/// One thing that was looked at.
#[derive(Debug, Clone, Serialize)]
pub struct Check {
    /// What.
    pub name: &'static str,
    /// Whether it is fine.
    pub ok: bool,
    /// What was found.
    pub found: String,
    /// What to do if it is not fine.
    pub hint: Option<String>,
}

impl Check {
    fn fine(name: &'static str, found: impl Into<String>) -> Self {
        Self { name, ok: true, found: found.into(), hint: None }
    }

    fn bad(name: &'static str, found: impl Into<String>, hint: &str) -> Self {
        Self { name, ok: false, found: found.into(), hint: Some(hint.into()) }
    }
}

impl Rappel {
    /// Looks at the home, the workspace and the programs that Rappel can use.
    pub fn doctor(&self) -> Result<Vec<Check>> {
        let home = self.store.home();
        let mut checks = vec![Check::fine("home", home.root().display().to_string())];
        checks.push(match home.footing()? {
            Footing::Firm => Check::fine("home's disk", "local"),
            Footing::Fleeting(kind) => {
                Check::bad("home's disk", format!("{kind} does not last"), "set RAPPEL_HOME")
            }
        });
        let free = home.free_space()?;
        checks.push(if free >= self.config.store.min_free {
            Check::fine("free space", format_size(free))
        } else {
            Check::bad("free space", format_size(free), "rappel delete and rappel gc --now")
        });
        // An empty commit goes the whole way: lock, log, sync, index.
        checks.push(
            match self.store.begin().and_then(|writer| writer.commit(|_| Ok(Vec::new()))) {
                Ok(_) => Check::fine("writing", "lock, log and index work"),
                Err(error) => Check::bad("writing", error.to_string(), "see the message"),
            },
        );
        let damage = self.store.damage();
        checks.push(match damage.first() {
            None if self.store.damage_seen() => Check::bad("log", "damaged", "rappel verify"),
            None => Check::fine("log", "no damage seen (rappel verify reads all of it)"),
            Some(first) => Check::bad("log", first.clone(), "rappel verify"),
        });
        let root = Root::open(&self.root, self.options.disk.clone())?;
        checks.push(match root.is_still_there() {
            true => Check::fine("workspace", self.root.display().to_string()),
            false => Check::bad("workspace", "it was replaced", "run rappel again"),
        });
        checks.push(match git_version() {
            Some(version) => Check::fine("git", version),
            None => Check::bad("git", "not found", "install git to capture repositories"),
        });
        for source in self.configured_databases() {
            checks.push(match source {
                Ok(named) => match named.database.fingerprint() {
                    Ok(_) => Check::fine("database", format!("{} can be read", named.name)),
                    Err(error) => Check::bad(
                        "database",
                        format!("{}: {error}", named.name),
                        "correct its address in rappel.toml, or start its server",
                    ),
                },
                Err((name, error)) => {
                    let hint = "correct its address in rappel.toml";
                    Check::bad("database", format!("{name}: {error}"), hint)
                }
            });
        }
        let restores = self.open_intents()?.len();
        checks.push(match restores {
            0 => Check::fine("restores", "none unfinished"),
            count => Check::bad("restores", format!("{count} unfinished"), "rappel recover"),
        });
        Ok(checks)
    }
}

fn git_version() -> Option<String> {
    let output =
        Command::new("git").arg("--version").stdin(Stdio::null()).stderr(Stdio::null()).output();
    let text = String::from_utf8(output.ok()?.stdout).ok()?;
    text.trim().strip_prefix("git version ").map(str::to_owned)
}
