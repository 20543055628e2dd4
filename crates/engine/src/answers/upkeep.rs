//! Answers about the home, its health and what it lets go.

use rappel_types::agents::SessionId;
use rappel_types::retention::{Decision, SessionDecision};
use rappel_types::{CheckpointId, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;

use crate::agents::CrashedSession;
use crate::doctor::Check;
use crate::export::Exported;
use crate::prune::PruneReport;
use crate::status::Health;
use crate::trust;

/// What the retention policy deletes, or would delete.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct PruneAnswer<'a> {
    /// How many checkpoints the workspace has.
    pub total: usize,
    /// How many of them stay.
    pub kept: usize,
    /// How many of them go.
    pub deleted: usize,
    /// What their deletion frees once gc has collected them.
    pub freed_bytes: u64,
    /// Every decision, oldest checkpoint first.
    pub decisions: &'a [Decision],
    /// Checkpoints that cannot be read. Pruning leaves them alone.
    pub unreadable: &'a [CheckpointId],
    /// Sessions that are let go.
    pub sessions_let_go: &'a [SessionId],
    /// What becomes of every session, newest first.
    pub sessions: &'a [SessionDecision],
}

impl<'a> From<&'a PruneReport> for PruneAnswer<'a> {
    fn from(report: &'a PruneReport) -> Self {
        Self {
            total: report.total,
            kept: report.kept,
            deleted: report.deleted.len(),
            freed_bytes: report.freed_bytes,
            decisions: &report.decisions,
            unreadable: &report.unreadable,
            sessions_let_go: &report.let_go,
            sessions: &report.sessions,
        }
    }
}

/// What was written out.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct ExportAnswer<'a> {
    /// What was written, and where.
    #[serde(flatten)]
    pub exported: &'a Exported,
    /// Whether what looks like a secret was left out.
    pub redacted: bool,
}

/// Whether everything that Rappel relies on works.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct DoctorAnswer<'a> {
    /// Whether every check passed.
    pub ok: bool,
    /// The checks.
    pub checks: &'a [Check],
}

impl<'a> From<&'a [Check]> for DoctorAnswer<'a> {
    fn from(checks: &'a [Check]) -> Self {
        Self { ok: checks.iter().all(|check| check.ok), checks }
    }
}

/// What the user allowed and refused for a workspace.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct DecisionsAnswer<'a> {
    /// The decisions.
    pub decisions: &'a [trust::Decision],
}

/// Decisions that were forgotten.
#[derive(Debug, Clone, Copy, JsonSchema, Serialize)]
pub struct RevokedAnswer {
    /// How many.
    pub revoked: usize,
}

/// A search that was given up.
#[derive(Debug, Clone, Copy, JsonSchema, Serialize)]
pub struct BisectAbortAnswer {
    /// Whether a search was unfinished.
    pub aborted: bool,
}

/// The status of a workspace that cannot be opened: the keys of `Status`, most of them null.
#[derive(Debug, Clone, JsonSchema, Serialize)]
#[allow(missing_docs, reason = "as those of Status")]
pub struct UnusableStatus {
    /// Always `unprotected`.
    pub state: Health,
    pub since: Option<Timestamp>,
    /// Why the workspace cannot be opened.
    pub reasons: Vec<String>,
    /// What to do, as data. Always empty.
    pub advice: Vec<rappel_types::Advice>,
    /// What to do about it.
    pub hints: Vec<String>,
    pub latest: Option<String>,
    pub latest_at: Option<Timestamp>,
    pub unsaved: Option<usize>,
    pub unsaved_git: Option<crate::diff::GitDiff>,
    pub unsaved_databases: Vec<String>,
    pub databases_not_looked_at: Vec<String>,
    pub checkpoints: Option<usize>,
    pub state_checkpoints: Option<usize>,
    /// The workspace's root.
    pub root: String,
    /// The home, if it is known.
    pub home: Option<String>,
    pub home_bytes: Option<u64>,
    pub free_bytes: Option<u64>,
    pub restores: Option<usize>,
    pub sessions: Vec<String>,
    pub crashed_sessions: Vec<CrashedSession>,
    pub integrations: Vec<crate::hook::Integration>,
    pub retention: Option<crate::prune::Retention>,
    pub watch: Option<crate::watch::Watch>,
}

impl UnusableStatus {
    /// The workspace at `root` cannot be opened.
    pub fn new(
        root: String,
        home: Option<String>,
        reasons: Vec<String>,
        hints: Vec<String>,
    ) -> Self {
        Self {
            state: Health::Unprotected,
            since: None,
            reasons,
            advice: Vec::new(),
            hints,
            latest: None,
            latest_at: None,
            unsaved: None,
            unsaved_git: None,
            unsaved_databases: Vec::new(),
            databases_not_looked_at: Vec::new(),
            checkpoints: None,
            state_checkpoints: None,
            root,
            home,
            home_bytes: None,
            free_bytes: None,
            restores: None,
            sessions: Vec::new(),
            crashed_sessions: Vec::new(),
            integrations: Vec::new(),
            retention: None,
            watch: None,
        }
    }
}
