//! Answers about hooks and units that were installed or removed.

use std::collections::BTreeMap;

use rappel_types::CheckpointId;
use schemars::JsonSchema;
use serde::Serialize;

/// An agent's hooks, as they were installed.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct AgentAnswer<'a> {
    /// The agent: `claude`, `codex`, …
    pub agent: &'a str,
    /// Whose settings they are in: `local`, `shared` or `user`.
    pub scope: &'a str,
    /// The file with the hooks.
    pub settings: String,
    /// The program that the hooks call.
    pub program: String,
    /// Whether anything was written or removed.
    pub changed: bool,
    /// Files that were written.
    pub written: Vec<String>,
    /// Files that were removed.
    pub removed: Vec<String>,
    /// Files that were left alone because the user changed them.
    pub kept: Vec<String>,
    /// Slash commands that Rappel answers; none where the agent has no such files.
    pub commands: &'a [String],
    /// The first checkpoint, if one was made.
    pub checkpoint: Option<&'a CheckpointId>,
    /// What the user should know besides, in sentences.
    pub notes: &'a [String],
    /// The command that removes all of it.
    pub remove_with: String,
}

/// Git's hooks, as they were installed, or what to add to those that another program keeps.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct GitHooksAnswer<'a> {
    /// Always `git`.
    pub agent: &'a str,
    /// The folder of the hooks.
    pub hooks: String,
    /// Whether anything was written.
    pub changed: bool,
    /// Files that were written.
    pub written: Vec<String>,
    /// Where another program keeps the hooks: the line to add to each, by the hook's name.
    pub lines: Option<BTreeMap<&'a str, &'a str>>,
    /// The first checkpoint, if one was made.
    pub checkpoint: Option<&'a CheckpointId>,
    /// The command that removes all of it; null where nothing was written.
    pub remove_with: Option<String>,
}

/// The unit of systemd that keeps the clock.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct SystemdAnswer<'a> {
    /// Always `systemd`.
    pub agent: &'a str,
    /// The unit's file.
    pub unit: String,
    /// Whether it was written.
    pub changed: bool,
    /// The command that starts it.
    pub start_with: &'a str,
    /// The command that removes it.
    pub remove_with: String,
}

/// An integration that was removed.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct RemovedAnswer<'a> {
    /// Which one.
    pub agent: &'a str,
    /// Whether anything was written or removed.
    pub changed: bool,
    /// Files from which Rappel's entries were taken.
    pub written: Vec<String>,
    /// Files that were removed.
    pub removed: Vec<String>,
    /// Files that were left alone because the user changed them.
    pub kept: Vec<String>,
    /// What the user should know besides, in sentences.
    pub notes: &'a [String],
}
