//! How well the workspace is protected, and what it costs.

use std::collections::BTreeMap;
use std::path::Path;

use rappel_store::home::Footing;
use rappel_store::index::{CheckpointRow, Of, Order, Wanted};
use rappel_store::sink::Scratch;
use rappel_store::tree;
use rappel_types::database::DatabaseKind;
use rappel_types::git::GitPart;
use rappel_types::reference::Base;
use rappel_types::size::{format_size, thousands};
use rappel_types::{Advice, Remarks};
use rappel_types::{
    CheckpointId, Facet, FacetState, Manifest, Reference, RelPath, Timestamp, Trigger,
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::agents::{AgentStats, CrashedSession};
use crate::changes::summarise;
use crate::databases::{Found, not_restorable};
use crate::diff::GitDiff;
use crate::error::{Error, Result};
use crate::hook::Integration;
use crate::prune::Retention;
use crate::rappel::Rappel;
use crate::save::parent_of;
use crate::watch::{Watch, watch_of};
use crate::workspace;

/// Among so many of the newest checkpoints it is looked for one that holds a repository.
const LOOKED_AT: usize = 100;
/// Changes may be unsaved for so long before that is worth a word.
const UNSAVED_MS: i64 = 3_600_000;

/// How well the workspace is protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Health {
    /// Everything is as it should be.
    Protected,
    /// Something is missing, failed, or about to.
    Degraded,
    /// Nothing could be restored.
    Unprotected,
}

/// The answer of `rappel status`.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct Status {
    /// In a word.
    pub state: Health,
    /// Since when.
    pub since: Option<Timestamp>,
    /// Why it is not better.
    pub reasons: Vec<String>,
    /// What to do about it.
    pub advice: Vec<Advice>,
    /// The same in the words of a face. The engine leaves it empty.
    pub hints: Vec<String>,
    /// Other things to know, in the words of a face those of `hints`, too.
    #[serde(skip)]
    pub remarks: Remarks,
    /// What `latest` means.
    pub latest: Option<String>,
    /// When that was.
    pub latest_at: Option<Timestamp>,
    /// The checkpoint that the workspace goes on from, where that is another one: it was restored since.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub based_on: Option<String>,
    /// Paths that changed since the checkpoint that the workspace goes on from.
    pub unsaved: usize,
    /// What differs in git since that; `null` if nothing does.
    pub unsaved_git: Option<GitDiff>,
    /// Databases that may have changed since that.
    pub unsaved_databases: Vec<String>,
    /// Databases that only a save looks at, because all of them would have to be read: those of commands.
    pub databases_not_looked_at: Vec<String>,
    /// How many checkpoints there are.
    pub checkpoints: usize,
    /// How many of them `list` only counts: those of agent state alone.
    pub state_checkpoints: usize,
    /// The workspace's root.
    pub root: String,
    /// The home.
    pub home: String,
    /// What the home takes on the disk.
    pub home_bytes: u64,
    /// What is free on that disk.
    pub free_bytes: u64,
    /// Unfinished restores.
    pub restores: usize,
    /// Sessions that run or wait.
    pub sessions: Vec<String>,
    /// Those of them whose process is gone.
    pub crashed_sessions: Vec<CrashedSession>,
    /// The integrations of agents, as far as a face looked for them.
    pub integrations: Vec<Integration>,
    /// How retention goes.
    pub retention: Option<Retention>,
    /// The process that keeps the home's clock, if one does.
    pub watch: Option<Watch>,
}

/// What the history costs.
#[derive(Debug, Clone, Default, JsonSchema, Serialize)]
pub struct Stats {
    /// Checkpoints in the home.
    pub checkpoints: usize,
    /// How many of them are of agent state alone.
    pub state_checkpoints: usize,
    /// Bytes of files and databases that those hold, each counted as if it stood alone.
    pub logical_bytes: u64,
    /// How many of those are of databases.
    pub database_bytes: u64,
    /// Bytes on the disk.
    pub stored_bytes: u64,
    /// How many times smaller.
    pub ratio: f64,
    /// By workspace.
    pub workspaces: Vec<WorkspaceStats>,
    /// By day.
    pub days: BTreeMap<String, DayStats>,
    /// What agents did and cost.
    #[serde(flatten)]
    pub agents: AgentStats,
    /// Checkpoints that cannot be read: only counted.
    pub unreadable: Vec<String>,
}

/// One workspace's share.
#[derive(Debug, Clone, Default, JsonSchema, Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct WorkspaceStats {
    pub id: String,
    pub root: String,
    pub checkpoints: usize,
    pub logical_bytes: u64,
    pub new_bytes: u64,
}

/// One day's share.
#[derive(Debug, Clone, Default, JsonSchema, Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct DayStats {
    pub checkpoints: usize,
    pub new_bytes: u64,
}

/// The newest checkpoint with files.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct LastSaved {
    pub checkpoint: String,
    pub sequence: u64,
    pub at: Timestamp,
}

impl Rappel {
    /// When the workspace was saved last. Looks at no file of it.
    pub fn last_saved(&self) -> Result<Option<LastSaved>> {
        let Some(id) = self.workspace_id() else { return Ok(None) };
        let row = self.store.look_up(|index| index.newest_with_files(id))?;
        Ok(row.map(|row| LastSaved {
            checkpoint: row.id.to_string(),
            sequence: row.sequence,
            at: Timestamp::from_millis(row.created_at),
        }))
    }

    /// How well the workspace is protected right now.
    pub fn status(&self) -> Result<Status> {
        let newest = self.head()?;
        let [checkpoints, state_checkpoints] = self.counted()?;
        let reference = Reference::new(Base::Latest);
        let latest = self.resolve(&reference, true).ok();
        let mut status = Status {
            state: Health::Protected,
            since: None,
            reasons: Vec::new(),
            advice: Vec::new(),
            hints: Vec::new(),
            remarks: Remarks::default(),
            latest: latest.as_ref().map(|row| row.id.to_string()),
            latest_at: latest.as_ref().map(|row| Timestamp::from_millis(row.created_at)),
            based_on: newest
                .as_ref()
                .filter(|row| latest.as_ref().is_some_and(|latest| latest.id != row.id))
                .map(|row| row.id.to_string()),
            unsaved: 0,
            unsaved_git: None,
            unsaved_databases: Vec::new(),
            databases_not_looked_at: Vec::new(),
            checkpoints,
            state_checkpoints,
            root: self.root.display().to_string(),
            home: self.store.home().root().display().to_string(),
            home_bytes: folder_size(self.store.home().root()),
            free_bytes: self.store.home().free_space()?,
            restores: 0,
            sessions: self.live_session_ids()?,
            crashed_sessions: self.crashed_sessions()?,
            integrations: Vec::new(),
            retention: self.retention_state(),
            watch: watch_of(self.store.home().root()),
        };
        self.judge_home(&mut status)?;
        status.restores = self.interrupted()?.len();
        if status.restores > 0 {
            status.worsen(Health::Degraded, "a restore is unfinished", Advice::ShowUnfinished);
        }
        if let Some(failure) = self.hook_failure(status.latest_at) {
            let what = if failure.of_run { "run" } else { "hook" };
            let reason = format!("a {what} failed: {}", failure.message);
            status.worsen(Health::Degraded, &reason, Advice::Doctor);
        }
        Self::judge_unprotected(&mut status, self.unprotected_databases());
        for name in self.untrusted() {
            let reason = format!(
                "database {name} is not captured: you have not allowed what rappel.toml runs or reaches for it"
            );
            status.worsen(Health::Degraded, &reason, Advice::Trust);
        }
        if let Some(failure) = self.export_failure() {
            let reason = format!("checkpoints are not written out: {}", failure.message);
            let advice = match failure.advice.is_empty() {
                true => vec![Advice::plain("look at [export] in rappel.toml")],
                false => failure.advice,
            };
            status.worsen(Health::Degraded, &reason, advice);
        }
        status.remarks.extend(self.missing_knowledge());
        match &newest {
            Some(row) => {
                let judged = self.store.manifest(row).map_err(Error::from).and_then(|manifest| {
                    status.since = Some(manifest.created_at);
                    judge_manifest(&mut status, &manifest);
                    self.judge_unsaved(&mut status, &manifest)
                });
                match judged {
                    Err(error) if error.is_unreadable() => {
                        let state = match self.any_readable()? {
                            true => Health::Degraded,
                            false => Health::Unprotected,
                        };
                        let advice = match error.advice() {
                            none if none.is_empty() => vec![Advice::Verify],
                            advice => advice,
                        };
                        let reason = format!("{} cannot be read: {error}", row.id);
                        status.worsen(state, &reason, advice);
                    }
                    other => other?,
                }
            }
            None => status.worsen(
                Health::Unprotected,
                "there is no checkpoint with files yet",
                Advice::Save,
            ),
        }
        if !status.crashed_sessions.is_empty() {
            status.advise(Advice::ResumeSessions);
        }
        status.remarks.extend(self.other_history());
        Ok(status)
    }

    /// The checkpoint with files that the workspace goes on from.
    pub(crate) fn head(&self) -> Result<Option<CheckpointRow>> {
        let Some(id) = self.workspace_id() else { return Ok(None) };
        Ok(self.store.look_up(|index| {
            let newest = index.newest_with_files(id)?;
            let head = match parent_of(index, id, newest.as_ref())? {
                Some(head) => index.checkpoint(&head)?,
                None => None,
            };
            let counts = |(row, deleted): &(CheckpointRow, bool)| {
                !deleted && row.holds_files && row.workspace == id
            };
            Ok(head.filter(counts).map(|(row, _)| row).or(newest))
        })?)
    }

    /// How many checkpoints the workspace has, and how many of them hold agent state alone.
    fn counted(&self) -> Result<[usize; 2]> {
        let Some(id) = self.workspace_id() else { return Ok([0, 0]) };
        let all = Wanted::all(Of::One(id), Order::Number);
        Ok(self.store.look_up(|index| {
            Ok([index.count(&all)?, index.count(&Wanted { folded: Some(true), ..all })?])
        })?)
    }

    /// Whether there is a checkpoint whose files could be listed.
    fn any_readable(&self) -> Result<bool> {
        Ok(self.rows()?.iter().rev().filter(|row| row.holds_files).any(|row| {
            let files = self.store.manifest(row).ok().and_then(|manifest| manifest.files);
            files.is_some_and(|files| tree::read(self.source(), &files.tree).is_ok())
        }))
    }

    fn judge_home(&self, status: &mut Status) -> Result<()> {
        if let Err(problem) = self.store.require_writable() {
            let advice = Advice::plain("make the home writable again");
            status.worsen(Health::Degraded, &format!("{problem}; nothing can be saved"), advice);
        }
        if let Footing::Fleeting(kind) = self.store.home().footing()? {
            let reason = format!("the home is on {kind}, which does not last");
            status.worsen(Health::Degraded, &reason, Advice::ChooseHome);
        }
        let min_free = self.config.store.min_free;
        if status.free_bytes < min_free {
            let reason = format!(
                "only {} are free on the home's disk ({} should be)",
                format_size(status.free_bytes),
                format_size(min_free)
            );
            status.worsen(Health::Degraded, &reason, Advice::FreeSpace);
        }
        if let Some(full) = status.retention.as_ref().and_then(|state| state.full) {
            let reason = format!(
                "the home takes {}, more than max_size ({}), and everything in it is protected",
                format_size(full.bytes),
                format_size(full.max_bytes)
            );
            let advice = "raise [store] max_size, or unpin and delete what you do not need";
            status.worsen(Health::Degraded, &reason, Advice::plain(advice));
        }
        let lost = self.lost_packs()?;
        if !lost.is_empty() {
            let reason = format!("damaged: {lost} is missing or cut off");
            status.worsen(Health::Degraded, &reason, Advice::Verify);
        }
        for damage in self.store.damage() {
            status.worsen(Health::Degraded, &format!("damaged: {damage}"), Advice::Verify);
        }
        if self.store.damage().is_empty() && self.store.damage_seen() {
            status.worsen(Health::Degraded, "the store is damaged", Advice::Verify);
        }
        if let Some(problem) = &self.config_problem {
            let advice = Advice::plain("correct rappel.toml");
            status.worsen(Health::Degraded, &problem.to_string(), advice);
        }
        for damaged in self.intents().list()?.damaged {
            let reason = format!("damaged: {}: {}", damaged.path.display(), damaged.reason);
            status.worsen(Health::Degraded, &reason, Advice::ShowUnfinished);
        }
        Ok(())
    }

    /// Databases that were found and that no checkpoint would hold.
    fn judge_unprotected(status: &mut Status, found: Vec<Found>) {
        for one in found {
            let note = one.note();
            status.worsen(Health::Degraded, &note.text, note.advice);
        }
    }

    /// What is not in the checkpoint, and changes that nobody has saved for an hour.
    fn judge_unsaved(&self, status: &mut Status, manifest: &Manifest) -> Result<()> {
        let (Some(files), Some(id)) = (&manifest.files, self.workspace_id()) else { return Ok(()) };
        let scratch = Scratch::over(self.source());
        let now = self.scan(&scratch, self.load_cache(id)?, &[])?;
        let noticed = &now.scanned.databases;
        Self::judge_unprotected(status, self.unprotected_files(noticed));
        let databases = self.unsaved_databases(manifest, noticed)?;
        status.unsaved_databases = databases.changed;
        status.databases_not_looked_at = databases.not_looked_at;
        for (name, reason) in databases.failed {
            let reason = format!("database {name} cannot be looked at: {reason}");
            status.worsen(Health::Degraded, &reason, Advice::Doctor);
        }
        let mut holds_git = manifest.id.clone();
        let then = match manifest.state_of(Facet::Git) {
            FacetState::Captured => manifest.git.clone(),
            FacetState::Absent => {
                let lost = self.git_lost_unsaid(manifest)?;
                let (holder, part) = lost.map_or((None, None), |(id, part)| (Some(id), Some(part)));
                holds_git = holder.unwrap_or(holds_git);
                part
            }
            FacetState::Failed | FacetState::NotAsked => self.remembered_git(id)?,
        };
        for reason in
            then.iter().flat_map(|part| self.lost_repositories(part, &now.scanned.repositories))
        {
            let checkpoint = Some(holds_git.to_string());
            let advice = Advice::RestoreGit { checkpoint, plan_only: true };
            status.worsen(Health::Degraded, &format!("git: {reason}"), advice);
        }
        let (unsaved_git, unreadable) = self.git_since(then.as_ref(), &now, &scratch)?;
        status.unsaved_git = unsaved_git;
        for one in unreadable {
            let place = one.path.map(|path| format!("{path}: ")).unwrap_or_default();
            let reason = format!("git: {place}{}", one.reason);
            if !status.reasons.contains(&reason) {
                status.worsen(Health::Degraded, &reason, Advice::PlanLatest);
            }
        }
        let mut changes = tree::diff(&scratch, &files.tree, &now.tree)?;
        self.take_out_left_out(&mut changes, &now.scanned)?;
        status.unsaved = summarise(&changes).len();
        let oldest = changes.iter().filter_map(|change| self.changed_at(&change.path)).min();
        let saves_by_itself = status.watch.is_some() && self.config.auto.every.is_some();
        if let Some(oldest) = oldest.filter(|_| !saves_by_itself)
            && self.now().as_millis() - oldest > UNSAVED_MS
            && !self.is_supervised()?
        {
            let reason = match status.unsaved {
                1 => "one changed path is unsaved".to_owned(),
                count => format!("{} changed paths are unsaved", thousands(count as u64)),
            };
            status.since = Some(Timestamp::from_millis(oldest + UNSAVED_MS));
            status.worsen(Health::Degraded, &reason, Advice::Save);
        }
        Ok(())
    }

    /// The newest checkpoint that holds a repository, where those since then that found none were made
    /// by no person: nobody was told that it is gone.
    fn git_lost_unsaid(&self, manifest: &Manifest) -> Result<Option<(CheckpointId, GitPart)>> {
        let rows = self.rows()?;
        let before = rows.iter().rev().filter(|row| row.holds_files);
        let before = before.skip_while(|row| row.id != manifest.id).take(LOOKED_AT);
        for row in before {
            let Ok(manifest) = self.store.manifest(row) else { return Ok(None) };
            match (manifest.state_of(Facet::Git), manifest.git) {
                (FacetState::Captured, Some(part)) => return Ok(Some((manifest.id, part))),
                (FacetState::Absent, _) if manifest.trigger == Trigger::Manual => return Ok(None),
                _ => {}
            }
        }
        Ok(None)
    }

    /// When a path was last changed: its own time, or its folder's where it is gone.
    fn changed_at(&self, path: &RelPath) -> Option<i64> {
        use std::os::unix::ffi::OsStrExt;
        use std::os::unix::fs::MetadataExt;
        let full = self.root.join(std::ffi::OsStr::from_bytes(path.as_bytes()));
        let time = |path: &Path| {
            let meta = std::fs::symlink_metadata(path).ok()?;
            Some(meta.ctime() * 1000 + meta.ctime_nsec() / 1_000_000)
        };
        time(&full).or_else(|| full.ancestors().skip(1).find_map(time))
    }

    /// What the whole home costs.
    pub fn stats(&self) -> Result<Stats> {
        let known = self.store.look_up(workspace::records)?;
        let mut stats =
            Stats { stored_bytes: folder_size(self.store.home().root()), ..Stats::default() };
        let mut by_workspace: BTreeMap<String, WorkspaceStats> = BTreeMap::new();
        for row in self.store.look_up(|index| index.checkpoints(None))? {
            stats.checkpoints += 1;
            stats.state_checkpoints += usize::from(row.folded);
            let manifest = match self.store.manifest(&row).map_err(Error::from) {
                Ok(manifest) => manifest,
                Err(error) if error.is_unreadable() => {
                    stats.unreadable.push(row.id.to_string());
                    continue;
                }
                Err(error) => return Err(error),
            };
            let mut databases = 0;
            for part in &manifest.databases {
                add(&mut databases, part.bytes);
            }
            let files = manifest.files.as_ref().map_or(0, |files| files.bytes);
            let bytes = files.saturating_add(databases);
            add(&mut stats.database_bytes, databases);
            let new = manifest.cost.new_bytes;
            add(&mut stats.logical_bytes, bytes);
            let share = by_workspace.entry(row.workspace.to_string()).or_insert_with(|| {
                let root = known.iter().find(|workspace| workspace.id == row.workspace);
                WorkspaceStats {
                    id: row.workspace.to_string(),
                    root: root.map(|workspace| workspace.root.clone()).unwrap_or_default(),
                    ..WorkspaceStats::default()
                }
            });
            share.checkpoints += 1;
            add(&mut share.logical_bytes, bytes);
            add(&mut share.new_bytes, new);
            let day = manifest.created_at.to_string().chars().take(10).collect();
            let day = stats.days.entry(day).or_default();
            day.checkpoints += 1;
            add(&mut day.new_bytes, new);
        }
        if stats.stored_bytes > 0 {
            stats.ratio = stats.logical_bytes as f64 / stats.stored_bytes as f64;
        }
        stats.workspaces = by_workspace.into_values().collect();
        stats.agents = self.agent_stats()?;
        Ok(stats)
    }
}

impl Status {
    pub(crate) fn worsen(&mut self, state: Health, reason: &str, advice: impl Into<Vec<Advice>>) {
        self.state = self.state.max(state);
        self.reasons.push(reason.to_owned());
        for one in advice.into() {
            self.advise(one);
        }
    }

    pub(crate) fn advise(&mut self, advice: Advice) {
        if !self.advice.contains(&advice) {
            self.advice.push(advice);
        }
    }
}

fn judge_manifest(status: &mut Status, manifest: &Manifest) {
    for (facet, state) in &manifest.facets {
        if *state == FacetState::Failed {
            status.worsen(
                Health::Degraded,
                &format!("{facet} could not be captured"),
                Advice::ShowLatest,
            );
        }
    }
    if let Some(first) = manifest.partial_reasons.first() {
        let place = first.path.as_ref().map_or(first.facet.to_string(), ToString::to_string);
        let more = match manifest.partial_reasons.len() {
            1 => String::new(),
            count => format!(" (and {} more)", count - 1),
        };
        let reason = format!("the last checkpoint is partial: {place}: {}{more}", first.reason);
        status.worsen(Health::Degraded, &reason, Advice::ShowLatest);
    }
    for part in &manifest.databases {
        let advice = match part.kind {
            DatabaseKind::Command => "correct `restore` in rappel.toml, and save again",
            _ => "connect as a role that may restore it, or grant that",
        };
        for reason in not_restorable(std::slice::from_ref(part)) {
            status.worsen(Health::Degraded, &reason, Advice::plain(advice));
        }
    }
    if manifest.interrupted_restore {
        let reason = format!("{} was made in the middle of a restore", manifest.id);
        status.worsen(Health::Degraded, &reason, Advice::Save);
    }
}

/// Adds up what manifests claim, which may be anything.
fn add(sum: &mut u64, part: u64) {
    *sum = sum.saturating_add(part);
}

/// What a folder takes on the disk.
pub(crate) fn folder_size(path: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(path) else { return 0 };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(meta) if meta.is_dir() => folder_size(&entry.path()),
            Ok(meta) => meta.len(),
            Err(_) => 0,
        })
        .sum()
}
