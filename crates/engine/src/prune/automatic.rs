//! Retention applied by itself: at most once an hour for each workspace, and never by a policy that
//! is younger than a day, so that nobody's slip in `rappel.toml` deletes anything at once.
//!
//! A note in the home remembers when it was applied and what goes next. Losing it costs a day.

use std::path::PathBuf;

use rappel_store::disk;
use rappel_store::held;
use rappel_store::lock::Turn;
use rappel_store::sink::id_of;
use rappel_types::retention::{self, NextDeletion, Policy};
use rappel_types::{Timestamp, WorkspaceId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::PruneReport;
use super::room::Room;
use crate::error::Result;
use crate::rappel::Rappel;

const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;
/// The version of the notes.
const VERSION: u32 = 1;

/// How retention goes in a workspace, as of the last time it was applied.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Retention {
    version: u32,
    /// When it was applied last.
    pub applied_at: Timestamp,
    /// A hash of the rules.
    policy: String,
    /// Since when the rules are these.
    policy_since: Timestamp,
    /// What goes next, and when.
    pub next: Option<NextDeletion>,
    /// How many checkpoints it has deleted so far.
    pub deleted: u64,
    /// A moment of each day on which a checkpoint was made, also of those that are deleted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) days: Vec<Timestamp>,
    /// Where the home is larger than it may be and everything left is protected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full: Option<Full>,
}

/// That a home is larger than it may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Full {
    /// What it takes once everything that was deleted is collected.
    pub bytes: u64,
    /// What it may take.
    pub max_bytes: u64,
}

/// The first checkpoints of a home that retention deleted by itself.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct FirstDeletion {
    version: u32,
    /// When.
    pub at: Timestamp,
    /// How many.
    pub count: usize,
    /// Of which folder.
    pub root: String,
}

impl Rappel {
    /// How retention goes in this workspace; nothing before it was first applied.
    pub fn retention_state(&self) -> Option<Retention> {
        self.read_retention(self.workspace_id()?)
    }

    /// Whether retention is to be applied, cheaply. The first time it only begins to count.
    pub fn prune_due(&self) -> bool {
        let Some(id) = self.workspace_id() else { return false };
        let is_able = self.retention().is_ok() && !self.is_gone && !self.is_detached();
        if !is_able || self.store.require_writable().is_err() {
            return false;
        }
        let now = self.now();
        match self.read_retention(id) {
            // A clock that was set back is no reason to wait for the old time.
            Some(state) => !(0..HOUR_MS).contains(&now.millis_since(state.applied_at)),
            None => {
                self.write_retention(id, &self.retention_begins(now));
                false
            }
        }
    }

    /// Applies the policy of `rappel.toml` and the limit of the home's size, if that is due.
    /// `None` if it is not, or somebody else is at it.
    pub fn prune_if_due(&self) -> Result<Option<PruneReport>> {
        let Some(id) = self.workspace_id() else { return Ok(None) };
        if !self.prune_due() {
            return Ok(None);
        }
        let Some(_turn) = Turn::take(&self.retention_folder().join("turn"))? else {
            return Ok(None);
        };
        // Somebody else may have been at it just now.
        if !self.prune_due() {
            return Ok(None);
        }
        let now = self.now();
        let policy = self.retention()?;
        let mut state = self.read_retention(id).unwrap_or_else(|| self.retention_begins(now));
        state.applied_at = now;
        if state.policy != self.rules_hash() {
            let Retention { deleted, days, .. } = state;
            state = Retention { deleted, days, ..self.retention_begins(now) };
        }
        // Noted first: what fails is tried again in an hour, not by every save.
        self.write_retention(id, &state);
        let mut report = match self.is_settled() {
            true => self.prune(self.plan_prune(policy, false)?, false)?,
            false => PruneReport::default(),
        };
        let Room { full, deleted } = self.make_room()?;
        report.deleted.extend(deleted);
        if !report.deleted.is_empty() {
            self.announce(report.deleted.len());
        }
        state.deleted += report.deleted.len() as u64;
        state.days = self.retention_state().map(|noted| noted.days).unwrap_or_default();
        state.full = full;
        state.next = self.next_deletion(policy, state.policy_since)?;
        self.write_retention(id, &state);
        Ok(Some(report))
    }

    /// What the policy deletes next, not before it is a day old.
    fn next_deletion(&self, policy: &Policy, since: Timestamp) -> Result<Option<NextDeletion>> {
        let (candidates, _) = self.prune_candidates()?;
        let next = retention::next_deletion(&candidates, policy, self.now(), &self.options.zone);
        let settled = Timestamp::from_millis(since.as_millis().saturating_add(DAY_MS));
        Ok(next.map(|next| NextDeletion { at: next.at.max(settled), ..next }))
    }

    fn retention_begins(&self, now: Timestamp) -> Retention {
        Retention {
            version: VERSION,
            applied_at: now,
            policy: self.rules_hash(),
            policy_since: now,
            next: None,
            deleted: 0,
            days: Vec::new(),
            full: None,
        }
    }

    /// Remembers the days of checkpoints that are about to be deleted.
    pub(super) fn note_days(&self, days: Vec<Timestamp>) {
        let Some(id) = self.workspace_id() else { return };
        let known = self.read_retention(id);
        if known.as_ref().is_none_or(|state| state.days != days) {
            let state = known.unwrap_or_else(|| self.retention_begins(self.now()));
            self.write_retention(id, &Retention { days, ..state });
        }
    }

    /// Whether this workspace's rules have been what they are for a day, as far as that was noticed.
    pub(super) fn is_settled(&self) -> bool {
        self.retention_state().is_some_and(|state| {
            state.policy == self.rules_hash()
                && self.now().millis_since(state.policy_since) >= DAY_MS
        })
    }

    /// A hash of what `rappel.toml` says of retention and space.
    fn rules_hash(&self) -> String {
        let rules = format!("{:?} {:?}", self.config.retention, self.config.store.max_size);
        id_of(rules.as_bytes()).to_string()
    }

    fn retention_folder(&self) -> PathBuf {
        self.store.home().retention()
    }

    fn read_retention(&self, id: WorkspaceId) -> Option<Retention> {
        let text = held::read(self.retention_folder().join(id.to_string())).ok()?;
        let state: Retention = serde_json::from_slice(&text).ok()?;
        (state.version == VERSION).then_some(state)
    }

    /// Without a note it is begun anew, so a note that cannot be written is nobody's failure.
    fn write_retention(&self, id: WorkspaceId, state: &Retention) {
        if let Ok(bytes) = serde_json::to_vec(state) {
            self.put(&id.to_string(), &bytes);
        }
    }

    fn put(&self, name: &str, bytes: &[u8]) {
        let (disk, folder) = (self.store.disk(), self.retention_folder());
        if disk::create_dir(&**disk, &folder).is_ok() {
            disk::replace_view(disk, &folder.join(name), bytes);
        }
    }

    /// Remembers the home's first deletions, for the next person who comes by.
    fn announce(&self, count: usize) {
        let folder = self.retention_folder();
        if ["announce", "announced"].iter().any(|name| folder.join(name).exists()) {
            return;
        }
        let root = self.root.display().to_string();
        let first = FirstDeletion { version: VERSION, at: self.now(), count, root };
        if let Ok(bytes) = serde_json::to_vec(&first) {
            self.put("announce", &bytes);
        }
    }

    /// The home's first deletions by retention, once: whoever asks tells a person.
    pub fn take_announcement(&self) -> Option<FirstDeletion> {
        let folder = self.retention_folder();
        let text = held::read(folder.join("announce")).ok()?;
        std::fs::rename(folder.join("announce"), folder.join("announced")).ok()?;
        serde_json::from_slice(&text).ok()
    }
}
