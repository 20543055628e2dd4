//! The gate: what a `rappel.toml` runs or reaches outside the workspace, only after the user has
//! allowed exactly that for this workspace.
//!
//! Whoever wrote the files of a workspace wrote its `rappel.toml`: a stranger, perhaps. So nothing else
//! takes a command line out of a configuration ([`Gated`] and `clippy.toml` hold that), and what this
//! module hands out carries a [`Guard`] that looks again right before each run. It does not matter
//! where a text comes from: the workspace, a checkpoint that a restore borrows it from, an import. Only
//! its hash decides.
//!
//! Not guaranteed: what a script calls in turn, and programs outside the workspace, are not in the hash.
//!
//! [`Gated`]: rappel_types::config::Gated

mod decisions;
mod entry;
mod patterns;

use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use rappel_capture::databases::command::Command;
use rappel_capture::databases::postgres::{Address, Tools};
use rappel_capture::databases::{Error as DatabaseError, Guard};
use rappel_store::lock::Turn;
use rappel_store::{content, disk, tree};
use rappel_types::config::{CommandConfig, Config, DatabaseConfig, DatabaseUrl};
use rappel_types::{Manifest, Node, RelPath};
use schemars::JsonSchema;
use serde::Serialize;

use decisions::Decisions;
pub use decisions::{Answer, Decision};
pub use entry::{Shown, TrustEntry, TrustFile, Wanted};
use entry::{escaped, hash_of_all};

use crate::error::{Error, Result};
use crate::rappel::Rappel;

/// What `[export]` is called among what is wanted.
const EXPORT: &str = "[export]";
/// Larger scripts are not looked at before a restore brings them back.
const SCRIPT_MAX: u64 = 64 << 20;

/// What the workspace's `rappel.toml` would run or reach, as it is now.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct Trust {
    /// The hash of all of it, which `RAPPEL_TRUST` may name. `None` if there is nothing.
    pub hash: Option<String>,
    /// In a word.
    pub state: TrustState,
    /// One by one.
    pub entries: Vec<Asked>,
}

/// One thing, and whether it is allowed.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct Asked {
    /// What.
    #[serde(flatten)]
    pub entry: TrustEntry,
    /// The hash of this alone.
    pub hash: String,
    /// Whether it is allowed.
    pub state: TrustState,
}

/// Whether something is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TrustState {
    /// There is nothing that needs it.
    Nothing,
    /// The user allowed it.
    Allowed,
    /// The user said no.
    Refused,
    /// The user was never asked about exactly this.
    New,
}

/// A SQLite file that may be read: inside the workspace, or outside and allowed.
pub(crate) struct Reached {
    path: PathBuf,
    inside: Option<PathBuf>,
}

impl Reached {
    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where it lies inside the workspace, if it does.
    pub fn inside(&self) -> Option<&Path> {
        self.inside.as_deref()
    }
}

/// What a guard needs to know: what the user decided, and the whole text.
struct Gate {
    root: PathBuf,
    decisions: Result<Decisions>,
    /// The hash of the one text that is allowed besides.
    named: Option<String>,
    /// All that the text wants.
    all: Vec<TrustEntry>,
}

impl Gate {
    /// What holds for an entry as it is now.
    fn state(&self, entry: &TrustEntry) -> TrustState {
        let answer = self.decisions.as_ref().ok().and_then(|all| all.answer(&entry.hash()));
        if answer == Some(Answer::Allowed) || self.is_named(entry) {
            return TrustState::Allowed;
        }
        answer.map_or(TrustState::New, |_| TrustState::Refused)
    }

    /// Whether the text that it belongs to, as it is now, is the one that `RAPPEL_TRUST` names.
    fn is_named(&self, entry: &TrustEntry) -> bool {
        let Some(named) = &self.named else { return false };
        let all: Vec<_> = self.all.iter().map(|one| one.look_again(&self.root)).collect();
        all.contains(entry) && hash_of_all(&all) == *named
    }

    /// An error unless it is allowed as it is now.
    fn check(&self, entry: &TrustEntry) -> Result<(), DatabaseError> {
        let entry = entry.look_again(&self.root);
        let state = self.state(&entry);
        if state == TrustState::Allowed {
            return Ok(());
        }
        let what = match &entry.what {
            Wanted::Sqlite { path } => {
                format!("it lies outside the workspace ({path}), and you have")
            }
            Wanted::Password { connection } => format!(
                "PGPASSWORD would be sent to a server on another machine ({connection}), and you have"
            ),
            Wanted::Export { .. } => {
                "rappel.toml wants checkpoints to be written out, and you have".to_owned()
            }
            _ => "rappel.toml runs programs for it, and you have".to_owned(),
        };
        let said = match (&self.decisions, state) {
            (Err(error), _) => error.to_string(),
            (_, TrustState::Refused) => format!("{what} refused that"),
            _ if self.named.is_some() => {
                let hash = hash_of_all(&self.all);
                format!("{what} not allowed that: RAPPEL_TRUST is not {hash}")
            }
            _ => format!("{what} not allowed that"),
        };
        Err(DatabaseError::Untrusted(said))
    }
}

impl Rappel {
    /// What `rappel.toml` would run or reach, and what the user has said about it.
    pub fn trust(&self) -> Trust {
        let gate = self.gate(self.wanted_by_all(&self.config));
        let asked = |entry: &TrustEntry| Asked {
            hash: entry.hash(),
            state: gate.state(entry),
            entry: entry.clone(),
        };
        let entries: Vec<Asked> = gate.all.iter().map(asked).collect();
        let state = entries.iter().map(|one| one.state).max().unwrap_or(TrustState::Nothing);
        let hash = (!entries.is_empty()).then(|| hash_of_all(&gate.all));
        Trust { hash, state, entries }
    }

    /// Remembers what the user said about what was shown, and about nothing else.
    pub fn decide(&self, shown: &Trust, answer: Answer) -> Result<()> {
        let at = self.now();
        self.change_decisions(|decisions| {
            for one in &shown.entries {
                let decision = Decision { answer, at, about: one.entry.clone() };
                decisions.entries.insert(one.entry.hash(), decision);
            }
        })
    }

    /// Forgets everything that the user said about this workspace; gives how many things that were.
    pub fn revoke_trust(&self) -> Result<usize> {
        let mut count = 0;
        self.change_decisions(|decisions| {
            count = decisions.entries.len();
            decisions.entries.clear();
        })?;
        Ok(count)
    }

    /// Everything that the user said about this workspace, the latest first.
    pub fn trust_decisions(&self) -> Result<Vec<Decision>> {
        let mut all: Vec<_> = self.decisions()?.entries.into_values().collect();
        all.sort_by(|a, b| b.at.cmp(&a.at).then_with(|| a.about.name.cmp(&b.about.name)));
        Ok(all)
    }

    /// The databases that are not read because the user has not allowed it, by name.
    pub(crate) fn untrusted(&self) -> Vec<String> {
        let entries = self.trust().entries.into_iter();
        let left = entries.filter(|one| one.state != TrustState::Allowed);
        let left = left.filter(|one| !matches!(one.entry.what, Wanted::Export { .. }));
        left.map(|one| one.entry.name).collect()
    }

    /// An error unless the user has allowed that checkpoints are written out to these places.
    pub(crate) fn allow_export(&self, wanted: Wanted) -> Result<(), DatabaseError> {
        self.guard(EXPORT, wanted, &self.config).map(drop)
    }

    /// A script that a restore would bring back, and that is not allowed with the present text: the
    /// database's programs could not run once it is there.
    pub(crate) fn untrusted_script_in(&self, name: &str, target: &Manifest) -> Option<String> {
        let borrowed = self.borrowed.lock().unwrap_or_else(PoisonError::into_inner);
        let all = self.wanted_by_all(borrowed.as_ref().unwrap_or(&self.config));
        drop(borrowed);
        let mut then = all.iter().find(|entry| entry.name == name)?.clone();
        let mut changed = None;
        let tree = target.files.as_ref()?.tree;
        for file in then.files.iter_mut().filter(|file| file.content.is_some()) {
            let Ok(path) = file.path.parse::<RelPath>() else { continue };
            let node = tree::lookup(self.source(), &tree, &path).ok().flatten();
            let Some(Node::File { size, content, .. }) = node else { continue };
            // What cannot be read now is noticed before it is run.
            let read = content::read(self.source(), &content, size, SCRIPT_MAX).ok();
            let Some(bytes) = read else { continue };
            let hash = Some(blake3::hash(&bytes).to_hex().to_string());
            if hash != file.content {
                file.content = hash;
                changed.get_or_insert_with(|| file.path.clone());
            }
        }
        let state = self.gate(all).state(&then);
        changed.filter(|_| state != TrustState::Allowed)
    }

    /// A `[[command]]` that the user has allowed.
    pub(crate) fn trusted_command(
        &self,
        config: &CommandConfig,
        of: &Config,
    ) -> Result<Command, DatabaseError> {
        #[allow(clippy::disallowed_methods, reason = "this is the gate")]
        let lines = config.lines.for_the_gate().clone();
        let guard = self.guard(&config.name, wanted_by(config), of)?;
        Ok(Command::new(&config.name, lines, config.timeout, self.root.clone(), guard))
    }

    /// The `tools` of a `[[database]]`; `None` if it has none. An error if it has, or sends the
    /// password of the environment away, and the user has not allowed that.
    pub(crate) fn trusted_tools(
        &self,
        config: &DatabaseConfig,
        address: &Address,
        of: &Config,
    ) -> Result<Option<Tools>, DatabaseError> {
        let Some(wanted) = self.wanted_by_postgres(config, address) else { return Ok(None) };
        let guard = self.guard(&config.name, wanted.clone(), of)?;
        Ok(match wanted {
            Wanted::Tools { tools: prefix, .. } => {
                Some(Tools { prefix, folder: self.root.clone(), guard })
            }
            _ => None,
        })
    }

    fn wanted_by_postgres(&self, config: &DatabaseConfig, address: &Address) -> Option<Wanted> {
        #[allow(clippy::disallowed_methods, reason = "this is the gate")]
        let tools = config.tools.for_the_gate().clone();
        let connection = address.connection(&[]);
        if !tools.is_empty() {
            return Some(Wanted::Tools { tools, connection });
        }
        // An address that the process was started with is the user's own.
        let is_ours = match &config.url {
            DatabaseUrl::Variable(name) => (self.options.variables)(name).is_some(),
            _ => false,
        };
        (!is_ours && address.sends_password_away()).then_some(Wanted::Password { connection })
    }

    /// The SQLite file that really lies at `path`: inside the workspace, or where the user has allowed
    /// it for this name. `of` is the text that names it, if one does.
    pub(crate) fn reach(
        &self,
        name: &str,
        path: PathBuf,
        of: Option<&Config>,
    ) -> Result<Reached, DatabaseError> {
        // More links than are followed could lead anywhere.
        let is_link = std::fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_symlink());
        let inside = path.strip_prefix(&self.root).ok().filter(|_| !is_link).map(Path::to_owned);
        if inside.is_none() {
            let wanted = Wanted::Sqlite { path: escaped(&path) };
            self.guard(name, wanted, of.unwrap_or(&self.config))?;
        }
        Ok(Reached { path, inside })
    }

    /// Asks now, and gives what asks again before each run.
    fn guard(&self, name: &str, what: Wanted, of: &Config) -> Result<Guard, DatabaseError> {
        let entry = TrustEntry::look(name, what, &self.root);
        // Who names no text needs none.
        let all = self.options.trust.as_ref().map(|_| self.wanted_by_all(of));
        let gate = self.gate(all.unwrap_or_default());
        gate.check(&entry)?;
        Ok(Guard::new(move || gate.check(&entry)))
    }

    fn gate(&self, all: Vec<TrustEntry>) -> Gate {
        let named = self.options.trust.clone();
        Gate { root: self.root.clone(), decisions: self.decisions(), named, all }
    }

    /// All that a configuration wants. What has no address yet wants nothing yet.
    fn wanted_by_all(&self, config: &Config) -> Vec<TrustEntry> {
        let databases = config.databases.iter().filter_map(|one| {
            let wanted = match self.resolved(&one.url).ok()? {
                DatabaseUrl::Postgres(url) => {
                    self.wanted_by_postgres(one, &Address::parse(&url).ok()?)
                }
                DatabaseUrl::Sqlite(path) => {
                    let path = self.lies_at(Path::new(&path));
                    let outside = path.strip_prefix(&self.root).is_err();
                    outside.then(|| Wanted::Sqlite { path: escaped(&path) })
                }
                DatabaseUrl::Variable(_) => None,
            };
            Some((one.name.as_str(), wanted?))
        });
        let commands = config.commands.iter().map(|one| (one.name.as_str(), wanted_by(one)));
        let export = config.export.as_ref();
        let export = export.map(|export| (EXPORT, self.wanted_by_export(export)));
        let all = databases.chain(commands).chain(export);
        all.map(|(name, what)| TrustEntry::look(name, what, &self.root)).collect()
    }

    fn decisions(&self) -> Result<Decisions> {
        match self.decisions_path() {
            Some(path) => Decisions::load(&path),
            None => Ok(Decisions::default()),
        }
    }

    fn decisions_path(&self) -> Option<PathBuf> {
        let id = self.workspace_id()?;
        Some(self.store.home().trust().join(format!("{id}.json")))
    }

    /// Changes what is remembered; nobody else does meanwhile. A file that cannot be understood is
    /// replaced: it allowed nothing.
    fn change_decisions(&self, change: impl FnOnce(&mut Decisions)) -> Result<()> {
        self.store.require_writable()?;
        self.settle_workspace()?;
        let home = self.store.home();
        let disk = self.store.disk();
        if !home.trust().is_dir() {
            disk::create_dir(&**disk, &home.trust())?;
            disk::sync_dir(&**disk, home.root())?;
        }
        let Some(path) = self.decisions_path() else { return Ok(()) };
        let _turn = self.turn_to_decide(&path.with_extension("lock"))?;
        let mut decisions = match Decisions::load(&path) {
            Err(Error::Damaged { .. }) => Decisions::default(),
            other => other?,
        };
        change(&mut decisions);
        decisions.store(disk, &path)
    }

    fn turn_to_decide(&self, path: &Path) -> Result<Turn> {
        let mut turn = None;
        let try_once = || -> Result<bool> {
            if self.cancel().is_cancelled() {
                return Err(rappel_store::Error::Cancelled.into());
            }
            turn = Turn::take(path)?;
            Ok(turn.is_some())
        };
        let who = || "another process remembers what you allowed".to_owned();
        let waited = self.store.patience().wait(try_once, who)?;
        let busy = |waited_ms| rappel_store::Error::Busy { holder: who(), waited_ms };
        waited.map_err(busy)?;
        Ok(turn.ok_or_else(|| busy(0))?)
    }
}

/// What a `[[command]]` wants.
fn wanted_by(config: &CommandConfig) -> Wanted {
    #[allow(clippy::disallowed_methods, reason = "this is the gate")]
    let lines = config.lines.for_the_gate().clone();
    Wanted::Command { capture: lines.capture, restore: lines.restore }
}
