//! What a save is asked to do.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use rappel_capture::agents::raw::Care;
use rappel_capture::files::First;
use rappel_types::agents::SessionId;
use rappel_types::git::GitPart;
use rappel_types::manifest::Skipped;
use rappel_types::{Facet, Manifest, RelPath, Trigger};
use serde_json::Value;

use super::CAPTURED;
use crate::run::ProcessMemory;

/// What a checkpoint should be.
#[derive(Debug, Clone, Default)]
#[allow(clippy::struct_excessive_bools, reason = "each is a setting of its own")]
pub struct SaveOptions {
    /// The user's words.
    pub message: Option<String>,
    /// The caller tells of the checkpoint first, and then calls [`crate::Rappel::write_new_ones_out`].
    pub export_later: bool,
    /// Tags.
    pub tags: Vec<String>,
    /// Why; `None` is by hand.
    pub trigger: Option<Trigger>,
    /// The agent session that asks.
    pub session: Option<String>,
    /// The environment's name, over what the process and `rappel.toml` say.
    pub environment: Option<String>,
    /// Free values.
    pub metadata: BTreeMap<String, Value>,
    /// Only these facets, if given.
    pub only: Option<BTreeSet<Facet>>,
    /// Not these facets.
    pub skip: BTreeSet<Facet>,
    /// How long to wait for tool calls that are running; without it they are not looked at.
    pub wait: Option<std::time::Duration>,
    /// Paths to take although the rules would not (a restore's safety checkpoint).
    pub also: Vec<RelPath>,
    /// The repositories of a checkpoint that is about to be restored: they are taken even if
    /// nothing leads to them any more.
    pub also_git: Option<GitPart>,
    /// The same as `also`, for the linked work trees in these folders.
    pub also_worktrees: BTreeMap<PathBuf, Vec<RelPath>>,
    /// Paths that the caller left out, to be listed with those that the rules leave out.
    pub left_out: Vec<Skipped>,
    /// Whether the databases are read, however long that takes; `None` leaves it to the trigger.
    pub read_databases: Option<bool>,
    /// Sessions to take although they have ended.
    pub also_sessions: Vec<SessionId>,
    /// Make a checkpoint only if something else than agents' state changed since the last one,
    /// however old that is.
    pub if_changed: bool,
    /// Make a checkpoint only if the newest one is of an earlier local day.
    pub once_a_day: bool,
    /// What the checkpoint is to come before, if that may not wait for it.
    pub overtaken: Option<Overtaken>,
    /// What was read before anything else, because a call is about to change it.
    pub first: Option<Arc<First>>,
    /// The memory of the processes that the checkpoint is about.
    pub process: Option<ProcessMemory>,
    /// Believe no cache: read everything, and store again what the store cannot give back.
    pub anew: bool,
}

/// A call that a checkpoint is to come before, and that may have begun all the same.
#[derive(Clone)]
pub struct Overtaken {
    /// The call, in words.
    pub call: String,
    /// Whether it has begun.
    pub has_begun: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl Overtaken {
    /// The call, if it has begun.
    pub(super) fn words(&self) -> Option<String> {
        (self.has_begun)().then(|| self.call.clone())
    }
}

impl fmt::Debug for Overtaken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Overtaken").field("call", &self.call).finish_non_exhaustive()
    }
}

impl SaveOptions {
    /// Whether a facet is asked for.
    pub fn wants(&self, facet: Facet) -> bool {
        self.only.as_ref().is_none_or(|only| only.contains(&facet)) && !self.skip.contains(&facet)
    }

    /// Whether nothing but the state of agents is asked for.
    pub(super) fn is_about_agents_alone(&self) -> bool {
        CAPTURED.iter().all(|one| *one == Facet::Agents || !self.wants(*one))
    }

    /// What is believed of a transcript that grew. A restore may put another one in its place, and
    /// nobody waits for the last checkpoint of a session: those read all of it.
    pub(super) fn care(&self) -> Care {
        match self.trigger() {
            Trigger::PreRestore | Trigger::SessionEnd => Care::Whole,
            _ => Care::Growth,
        }
    }

    /// Whether the checkpoint takes transcripts along.
    pub(super) fn takes_transcripts(&self) -> bool {
        self.wants(Facet::Agents)
            && self.trigger().takes_transcripts()
            && !self.is_about_agents_alone()
    }

    /// The user's words, if they are any.
    pub(super) fn message(&self) -> Option<&str> {
        self.message.as_deref().filter(|message| !message.trim().is_empty())
    }

    pub(super) fn trigger(&self) -> Trigger {
        self.trigger.unwrap_or(Trigger::Manual)
    }

    /// Whether it takes what other saves of the workspace do not.
    pub(super) fn takes_more(&self) -> bool {
        self.anew
            || self.also_git.is_some()
            || !self.also.is_empty()
            || !self.also_worktrees.is_empty()
            || !self.also_sessions.is_empty()
            || !self.left_out.is_empty()
            || self.read_databases.is_some()
    }

    /// Whether the agent has begun what the files that were read first had to be saved from: only
    /// a capture of its own still holds them as they were.
    pub(super) fn needs_first(&self) -> bool {
        self.first.is_some() && self.overtaken.as_ref().is_some_and(|one| one.words().is_some())
    }

    /// Whether the request adds something to any checkpoint that exists.
    pub(super) fn adds_something(&self) -> bool {
        self.message().is_some()
            || !self.tags.is_empty()
            || !self.metadata.is_empty()
            || self.only.is_some()
            || !self.skip.is_empty()
    }

    /// Whether the request adds anything to a checkpoint that exists.
    pub(super) fn adds_to(&self, existing: &Manifest, environment: Option<&str>) -> bool {
        self.adds_something()
            || environment != existing.environment.as_deref()
            || (self.session.is_some() && self.session != existing.session_id)
            || self.trigger().keep_rank() > existing.trigger.keep_rank()
    }
}
