//! A checkpoint before a command that is about to destroy something.
//!
//! Nothing here knows a shell: crate `rappel-hooks` reads the command line and says what it
//! reaches.
//! Hooks and `rappel guard` call [`Rappel::save_before`].

mod commits;
mod reach;
mod rules;

use std::collections::BTreeMap;
use std::path::PathBuf;

use rappel_store::document::Label;
use rappel_types::git::GitPart;
use rappel_types::manifest::{SelectionRules, Skipped};
use rappel_types::{Facet, Manifest, Trigger, redact};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::checkpoint::Checkpoint;
use crate::error::Result;
use crate::rappel::Rappel;
use crate::save::{SaveOptions, Saved};

pub(crate) use rules::{Fate, fate};

/// A checkpoint is described by so many characters of a command.
const TITLE_MAX: usize = 120;
/// So many paths of each kind are named in a message.
const NAMED: usize = 5;

/// What a command is about to destroy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DestructiveCommand {
    /// The command, as it was written.
    pub command: String,
    /// What it does, for people: `removes files`.
    pub does: String,
    /// The files and folders that it names, absolute.
    pub files: Vec<PathBuf>,
    /// Folders whose ignored files it takes as well, as `git clean -x` does.
    pub ignored: Vec<PathBuf>,
    /// Folders whose untracked files it takes, as `git clean` does.
    #[serde(default)]
    pub untracked: Vec<PathBuf>,
    /// Words that name something only the run will tell.
    pub unknown: Vec<String>,
    /// It reaches databases.
    pub databases: bool,
    /// It reaches something that no checkpoint holds: containers, other machines.
    pub elsewhere: Vec<String>,
    /// The commits whose files it writes into a work tree.
    #[serde(default)]
    pub commits: Vec<Commit>,
    /// It destroys nothing but ignored files that one of these commits tracks.
    #[serde(default)]
    pub perhaps: bool,
}

/// A commit that a command goes to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Commit {
    /// The folder that the command runs in.
    pub folder: PathBuf,
    /// What the command calls it: a branch, a tag, `HEAD~3`; or a range, `a..b`, which it goes
    /// through commit by commit.
    pub name: String,
    /// The command, or one before it in the same line, moves the name to another commit first.
    pub later: bool,
}

/// What of an operation's reach its checkpoint does not hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Paths in the workspace that were left out, and why.
    pub paths: Vec<Skipped>,
    /// Paths outside of the workspace.
    pub outside: Vec<String>,
    /// Words that name something only the run will tell.
    pub unknown: Vec<String>,
    /// Other things that no checkpoint holds.
    pub elsewhere: Vec<String>,
    /// Why databases are missing, where the operation reaches them.
    pub databases: Vec<String>,
}

/// A checkpoint that was made before an operation.
#[derive(Debug, Clone)]
pub struct SavedBefore {
    /// The checkpoint.
    pub saved: Saved,
    /// What it does not hold.
    pub left_out: LeftOut,
}

impl LeftOut {
    /// Whether the checkpoint holds everything that is known to be reached.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// For people, one sentence for each kind.
    pub fn sentences(&self) -> Vec<String> {
        let paths = self.paths.iter().map(|one| format!("{} ({})", one.path, one.reason));
        let clean = |words: &[String]| -> Vec<String> {
            words.iter().map(|word| redact::text(word).into_owned()).collect()
        };
        let kinds = [
            ("not saved", paths.collect()),
            ("databases not saved", clean(&self.databases)),
            ("outside the workspace and not saved", clean(&self.outside)),
            ("unknown before it runs", clean(&self.unknown)),
            ("beyond any checkpoint", clean(&self.elsewhere)),
        ];
        let named = kinds.into_iter().filter(|(_, words)| !words.is_empty());
        named.map(|(kind, words)| format!("{kind}: {}", listed(&words))).collect()
    }

    fn to_json(&self, does: &str) -> Value {
        let clean = |words: &[String]| -> Vec<String> {
            words.iter().map(|word| redact::text(word).into_owned()).collect()
        };
        let mut said = json!({
            "does": does,
            "outside": clean(&self.outside),
            "unknown": clean(&self.unknown),
            "elsewhere": clean(&self.elsewhere),
        });
        if !self.databases.is_empty() {
            said["databases"] = clean(&self.databases).into();
        }
        said
    }
}

/// The rules by which a checkpoint chose its files, in every work tree.
fn rules_of(manifest: &Manifest) -> Vec<&SelectionRules> {
    let parts = manifest.git.iter().flat_map(GitPart::repositories);
    let worktrees = parts.flat_map(|(_, part)| &part.worktrees);
    let files = worktrees.filter_map(|worktree| worktree.files.as_ref());
    files.chain(&manifest.files).map(|files| &files.rules).collect()
}

/// Why a checkpoint does not hold the databases that an operation reaches.
fn databases_not_in(made: &Manifest) -> Vec<String> {
    let failed = made.partial_reasons.iter().filter(|one| one.facet == Facet::Databases);
    let reasons: Vec<String> = failed.map(|one| one.reason.clone()).collect();
    match reasons.is_empty() && made.databases.is_empty() {
        true => vec!["none is configured".to_owned()],
        false => reasons,
    }
}

/// The first few of these words, and how many more there are.
fn listed(words: &[String]) -> String {
    let mut text = words.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    if words.len() > NAMED {
        text.push_str(&format!(" and {} more", words.len() - NAMED));
    }
    text
}

impl DestructiveCommand {
    /// How the checkpoint before it is described.
    pub(crate) fn title(&self) -> String {
        let mut lines = self.command.lines().map(str::trim);
        let line = lines.find(|line| !line.is_empty()).unwrap_or_default();
        let clean = redact::text(line);
        match clean.chars().count() > TITLE_MAX {
            true => format!("Before {}…", clean.chars().take(TITLE_MAX).collect::<String>()),
            false => format!("Before {clean}"),
        }
    }
}

impl Rappel {
    /// Has a save take the files that an operation names although git ignores them. Returns what it
    /// cannot take; nothing if the newest checkpoint's rules take every one of them anyway. That an
    /// earlier checkpoint holds one is not enough: it may hold another content.
    pub(crate) fn also_ignored(
        &self,
        operation: &DestructiveCommand,
        options: &mut SaveOptions,
    ) -> Result<Option<LeftOut>> {
        let Some(newest) = self.newest_files()? else {
            // Without rules it is not known which of them are ignored.
            options.also = self.small_files(&operation.files);
            return Ok(None);
        };
        if self.rules_take(&newest, &operation.files) {
            return Ok(None);
        }
        let reached = self.reached_by(operation)?;
        options.also = reached.also;
        options.also_worktrees = reached.worktrees;
        options.left_out.clone_from(&reached.left_out.paths);
        Ok(Some(reached.left_out))
    }

    /// Makes a checkpoint of its own before an operation: with the files that the operation names
    /// although git ignores them, and with the databases if it reaches them.
    pub fn save_before(
        &self,
        operation: &DestructiveCommand,
        options: SaveOptions,
    ) -> Result<SavedBefore> {
        let trigger = Some(Trigger::PreOperation);
        // What git ignores is told by a checkpoint's rules; the first one has none before it, and of
        // a new work tree there are none yet.
        let newest = self.newest_files()?;
        let is_first = newest.is_none() && self.reaches_files(operation);
        if is_first || self.reaches_new_worktree(operation, newest.as_ref()) {
            self.save(&SaveOptions { trigger, message: None, ..options.clone() })?;
        }
        let made = self.save_reached(operation, options.clone())?;
        // Where the rules have changed since the last checkpoint, other files are ignored now than
        // were looked for; with the checkpoint that was just made their rules are known.
        let now = rules_of(&made.saved.checkpoint.manifest);
        match newest.is_some_and(|newest| rules_of(&newest) != now) {
            true => self.save_reached(operation, options),
            false => Ok(made),
        }
    }

    /// Says in a checkpoint which databases it lacks: that is known only once it is made. The
    /// message of the operation says it too, so a label that cannot be written stops nothing.
    fn note_databases(&self, made: &mut Checkpoint, operation: Value) {
        let metadata = BTreeMap::from([("operation".to_owned(), operation)]);
        let Ok(reference) = made.manifest.id.as_str().parse() else { return };
        if let Ok(labelled) = self.relabel(&reference, &Label { metadata, ..Label::default() }) {
            made.manifest.metadata = labelled.manifest.metadata;
        }
    }

    /// A checkpoint before an operation, by the rules of the newest one.
    fn save_reached(
        &self,
        operation: &DestructiveCommand,
        options: SaveOptions,
    ) -> Result<SavedBefore> {
        let reached = self.reached_by(operation)?;
        let mut left_out = reached.left_out;
        let mut options = SaveOptions {
            message: Some(operation.title()),
            trigger: Some(Trigger::PreOperation),
            also: reached.also,
            also_worktrees: reached.worktrees,
            left_out: left_out.paths.clone(),
            read_databases: Some(operation.databases || reached.databases),
            if_changed: false,
            ..options
        };
        options.metadata.insert("operation".into(), left_out.to_json(&operation.does));
        let mut saved = self.save(&options)?;
        let made = &saved.checkpoint.manifest;
        left_out.paths.extend(self.skipped_of(operation, made));
        left_out.paths.sort();
        left_out.paths.dedup();
        if operation.databases {
            left_out.databases = databases_not_in(made);
        }
        if !left_out.databases.is_empty() {
            self.note_databases(&mut saved.checkpoint, left_out.to_json(&operation.does));
        }
        Ok(SavedBefore { saved, left_out })
    }
}
