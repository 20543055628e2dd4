//! Whether everything that Rappel relies on is as it should be.

use std::process::{Command, Stdio};

use rappel_capture::databases::Error as DatabaseError;
use rappel_store::beneath::Root;
use rappel_store::home::Footing;
use rappel_types::Advice;
use rappel_types::Facet;
use rappel_types::config::DatabaseUrl;
use rappel_types::database::DatabaseKind;
use rappel_types::size::format_size;
use schemars::JsonSchema;
use serde::Serialize;

use crate::databases::not_restorable;
use crate::error::Result;
use crate::hook::{Integration, IntegrationState};
use crate::rappel::Rappel;

/// One thing that was looked at.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct Check {
    /// What.
    pub name: &'static str,
    /// Whether it is fine.
    pub ok: bool,
    /// What was found.
    pub found: String,
    /// What to do if it is not fine.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub advice: Vec<Advice>,
    /// The same in the words of a face. The engine leaves it out.
    pub hint: Option<String>,
}

impl Check {
    /// How an integration is.
    pub fn of_integration(one: &Integration) -> Self {
        let found = format!("{} ({}): {one}", one.agent, one.place);
        let ok = !one.state.is_bad() && one.state != IntegrationState::Incomplete;
        Self { ok, advice: one.advice(), ..Self::fine("integration", found) }
    }

    fn fine(name: &'static str, found: impl Into<String>) -> Self {
        Self { name, ok: true, found: found.into(), advice: Vec::new(), hint: None }
    }

    fn bad(name: &'static str, found: impl Into<String>, advice: impl Into<Advice>) -> Self {
        let advice = vec![advice.into()];
        Self { name, ok: false, found: found.into(), advice, hint: None }
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
                Check::bad("home's disk", format!("{kind} does not last"), Advice::ChooseHome)
            }
        });
        let free = home.free_space()?;
        checks.push(if free >= self.config.store.min_free {
            Check::fine("free space", format_size(free))
        } else {
            Check::bad("free space", format_size(free), Advice::FreeSpace)
        });
        // An empty commit goes the whole way: lock, log, sync, index.
        checks.push(
            match self.store.begin().and_then(|writer| writer.commit(|_| Ok(Vec::new()))) {
                Ok(_) => Check::fine("writing", "lock, log and index work"),
                Err(error) => Check::bad("writing", error.to_string(), "see the message"),
            },
        );
        let saved_at = self.last_saved()?.map(|last| last.at);
        checks.push(match self.hook_failure(saved_at) {
            None => Check::fine("hooks", "no failure in the last hour"),
            Some(failure) => {
                let found = format!("{} ({})", failure.message, failure.at);
                Check::bad("hooks", found, "it counts for an hour, and until something is saved")
            }
        });
        let damage = self.store.damage();
        checks.push(match damage.first() {
            None if self.store.damage_seen() => Check::bad("log", "damaged", Advice::Verify),
            None => {
                Check { advice: vec![Advice::VerifyAll], ..Check::fine("log", "no damage seen") }
            }
            Some(first) => Check::bad("log", first.clone(), Advice::Verify),
        });
        let root = Root::open(&self.root, self.options.disk.clone())?;
        checks.push(match root.is_still_there() {
            true => Check::fine("workspace", self.root.display().to_string()),
            false => Check::bad("workspace", "it was replaced", Advice::OpenAgain),
        });
        checks.push(match git_version() {
            Some(version) => Check::fine("git", version),
            None => Check::bad("git", "not found", "install git to capture repositories"),
        });
        checks.extend(self.damaged_packs()?.into_iter().map(|found| {
            let advice = Advice::RestoreGit { checkpoint: None, plan_only: true };
            Check::bad("repository", found, advice)
        }));
        checks.extend(self.check_databases()?);
        let restores = self.interrupted()?.len();
        let damaged = self.damaged_intents()?.len();
        checks.push(match (restores, damaged) {
            (0, 0) => Check::fine("restores", "none unfinished"),
            (count, 0) => {
                Check::bad("restores", format!("{count} unfinished"), Advice::ShowUnfinished)
            }
            (_, damaged) => {
                let found = format!("{damaged} interrupted, with a plan that cannot be read");
                Check::bad("restores", found, Advice::ShowUnfinished)
            }
        });
        Ok(checks)
    }

    /// Each database that `rappel.toml` names. Commands are looked for and not run.
    fn check_databases(&self) -> Result<Vec<Check>> {
        let mut checks = Vec::new();
        let is_command = |name: &str| self.config.commands.iter().any(|one| one.name == name);
        for source in self.configured_databases() {
            let (name, tried) = match source {
                Ok(named) if named.kind == DatabaseKind::Command => continue,
                Err((name, _)) if is_command(&name) => continue,
                Ok(named) => (named.name, named.database.fingerprint()),
                Err((name, error)) => (name, Err(error)),
            };
            checks.push(match tried {
                Ok(_) => Check::fine("database", format!("{name} answers")),
                Err(error) => self.unreadable(&name, &error),
            });
        }
        for (name, command) in self.commands_in(&self.config) {
            checks.push(match command.and_then(|command| command.can_be_tried()) {
                Ok(()) => {
                    let found = format!("{name}: its program is there; it was not tried");
                    Check::fine("database", found)
                }
                Err(error) => self.unreadable(&name, &error),
            });
        }
        let newest = self.head()?;
        if let Some(manifest) = newest.and_then(|row| self.store.manifest(&row).ok()) {
            let lacking = manifest.partial_reasons.into_iter();
            let lacking = lacking.filter(|one| one.facet == Facet::Databases);
            let lacking = lacking.map(|one| format!("the last checkpoint lacks {}", one.reason));
            let found = lacking.chain(not_restorable(&manifest.databases));
            checks.extend(found.map(|found| Check {
                name: "database",
                ok: false,
                found,
                advice: Vec::new(),
                hint: None,
            }));
        }
        Ok(checks)
    }

    /// A database that cannot be had, and what to do, where its error does not say it itself.
    fn unreadable(&self, name: &str, error: &DatabaseError) -> Check {
        let advice = self.advice(name, error);
        let found = format!("{name}: {error}");
        Check { name: "database", ok: false, found, advice, hint: None }
    }

    fn advice(&self, name: &str, error: &DatabaseError) -> Vec<Advice> {
        match error {
            DatabaseError::Refused { advice, .. } => return advice.clone(),
            DatabaseError::Untrusted(_) => return vec![Advice::Trust],
            // The error says which program to install.
            DatabaseError::NoProgram(_) => return Vec::new(),
            _ => {}
        }
        let config = self.config.databases.iter().find(|config| config.name == name);
        vec![match config.map(|config| &config.url) {
            Some(DatabaseUrl::Variable(variable)) if self.variable(variable).is_none() => {
                Advice::plain(format!("set {variable} in .env"))
            }
            Some(DatabaseUrl::Variable(variable)) => {
                Advice::plain(format!("correct {variable}, or start its server"))
            }
            _ => Advice::plain("correct its address in rappel.toml, or start its server"),
        }]
    }
}

fn git_version() -> Option<String> {
    let output =
        Command::new("git").arg("--version").stdin(Stdio::null()).stderr(Stdio::null()).output();
    let text = String::from_utf8(output.ok()?.stdout).ok()?;
    text.trim().strip_prefix("git version ").map(str::to_owned)
}
