//! The morning after: what a session did, prompt by prompt. A fold over its journal, with what
//! changed between the checkpoints around each prompt.
//!
//! Not guaranteed: what changed is what changed in the workspace in that time, whoever did it.

mod changed;

use std::collections::{BTreeSet, HashMap, HashSet};

use rappel_store::index::CheckpointRow;
use rappel_types::Advice;
use rappel_types::agents::report::{FailedCall, Turn, Turns, turns};
use rappel_types::agents::{Lineage, SessionId, SessionPosition, TokenCount};
use rappel_types::{CheckpointId, Manifest, Timestamp, Trigger};
use schemars::JsonSchema;
use serde::Serialize;

pub use changed::Changed;

use crate::agents::SessionView;
use crate::error::{Error, Result};
use crate::outcomes::FailingCheck;
use crate::rappel::Rappel;

/// What a session did.
#[derive(Debug, Clone, JsonSchema, Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Report {
    pub session: SessionView,
    /// How it ended: `completed`, `failed`, `running`, `paused`, or `crashed`, if its agent is gone
    /// and nobody said why.
    pub outcome: &'static str,
    /// From its beginning to its end, or to the last thing that is known of it.
    pub duration_ms: u64,
    pub totals: Totals,
    /// The checks of this session and those below it that fail now, with the ways back. A report of
    /// a session below another one has none.
    pub failing: Vec<FailingCheck>,
    /// From the first checkpoint to the last.
    pub changed: Option<Changed>,
    pub prompts: Vec<PromptReport>,
    /// Tool calls that have not ended.
    pub unfinished: Vec<FailedCall>,
    /// The sessions that take this one up again.
    pub continued_by: Vec<SessionId>,
    /// What could not be read or compared.
    pub warnings: Vec<String>,
}

/// One prompt and what came of it.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct PromptReport {
    /// What the journal tells.
    #[serde(flatten)]
    pub turn: Turn,
    /// The checkpoint before it: the way back.
    pub before: Option<CheckpointId>,
    /// What changed until the next prompt; `null` if no two checkpoints tell.
    pub changed: Option<Changed>,
    /// The most memory that a checkpoint of this time tells of, in bytes.
    pub peak_rss: Option<u64>,
    /// Sessions that began in this time below this one: subagents.
    pub agents: Vec<Report>,
}

/// A session's numbers, with those of the sessions below it.
#[derive(Debug, Clone, Copy, Default, PartialEq, JsonSchema, Serialize)]
#[allow(missing_docs, reason = "the names say it")]
#[schemars(rename = "ReportTotals")]
pub struct Totals {
    pub prompts: u64,
    pub tool_calls: u64,
    pub failed: u64,
    pub verifications_passed: u64,
    pub verifications_failed: u64,
    pub ruled_out: u64,
    pub tokens: TokenCount,
    pub checkpoints: u64,
    pub peak_rss: Option<u64>,
}

/// The checkpoints with files of a workspace, oldest first; each is read once.
struct Past<'a> {
    rappel: &'a Rappel,
    rows: Vec<CheckpointRow>,
    read: HashMap<CheckpointId, Option<Manifest>>,
    unreadable: Vec<String>,
}

impl Rappel {
    /// What a session did: the one that is named, else the newest that no other one sent.
    pub fn report(&self, named: Option<&SessionId>) -> Result<Report> {
        let all = self.sessions()?;
        let view = match named {
            Some(named) => self.session(&self.find_session(named)?)?,
            None => all.iter().find(|view| is_top_level(view, &all)).cloned().ok_or_else(|| {
                Error::NotThere {
                    message: "no session was recorded in this workspace".into(),
                    advice: Advice::RecordSessions,
                }
            })?,
        };
        // The checkpoints of this workspace tell nothing of a session of another one.
        let here = self.workspace_id().filter(|id| view.workspace.is_none_or(|of| of == *id));
        let rows = here.map(|_| self.rows()).transpose()?.unwrap_or_default();
        let failing = self.failing_checks(&rows)?;
        let rows = rows.into_iter().filter(|row| row.holds_files).collect();
        let mut past = Past { rappel: self, rows, read: HashMap::new(), unreadable: Vec::new() };
        let mut seen = HashSet::new();
        let mut report = self.report_of(view, &all, &mut seen)?;
        report.failing =
            failing.into_iter().filter(|one| seen.contains(&one.latest.session)).collect();
        self.add_changes(&mut report, &mut past)?;
        report.warnings.append(&mut past.unreadable);
        Ok(report)
    }

    /// What the journals tell of a session and those below it.
    fn report_of(
        &self,
        view: SessionView,
        all: &[SessionView],
        seen: &mut HashSet<SessionId>,
    ) -> Result<Report> {
        seen.insert(view.id.clone());
        let mut warnings = Vec::new();
        let Turns { turns, unfinished } = match self.turns_of(&view.id) {
            Ok(turns) => turns,
            Err(error) if error.is_unreadable() => {
                warnings.push(error.to_string());
                Turns::default()
            }
            Err(error) => return Err(error),
        };
        let mut prompts: Vec<PromptReport> = turns
            .into_iter()
            .map(|turn| PromptReport {
                turn,
                before: None,
                changed: None,
                peak_rss: None,
                agents: Vec::new(),
            })
            .collect();
        let mut continued_by = Vec::new();
        // They come newest first.
        for child in all.iter().rev().filter(|one| one.parent.as_ref() == Some(&view.id)) {
            if continues(child, &view) {
                continued_by.push(child.id.clone());
            } else if !seen.contains(&child.id) {
                let begun = child.started_at;
                let below = self.report_of(child.clone(), all, seen)?;
                let at = prompts.iter().rposition(|one| one.turn.started_at <= begun);
                match at.or_else(|| prompts.len().checked_sub(1)) {
                    Some(at) => prompts[at].agents.push(below),
                    None => warnings.push(format!("session {} has no place", child.id)),
                }
            }
        }
        let last = prompts.iter().filter_map(|one| one.turn.ended_at).max();
        let end = view.ended_at.or(last);
        let duration_ms = match (view.started_at, end) {
            (Some(from), Some(to)) => u64::try_from(to.millis_since(from)).unwrap_or(0),
            _ => 0,
        };
        let outcome = match view.process_gone {
            true => "crashed",
            false => view.status.as_str(),
        };
        let totals = totals(&prompts);
        let changed = None;
        Ok(Report {
            session: view,
            outcome,
            duration_ms,
            totals,
            failing: Vec::new(),
            changed,
            prompts,
            unfinished,
            continued_by,
            warnings,
        })
    }

    fn turns_of(&self, session: &SessionId) -> Result<Turns> {
        let (last, fork) = self.store.look_up(|index| {
            let fork = Lineage::new(index.forks(session.as_str())?).current();
            Ok((index.last_event(session.as_str())?, fork))
        })?;
        let Some(event) = last else { return Ok(Turns::default()) };
        Ok(turns(&self.events_to(session, SessionPosition { fork, event }, 0)?))
    }

    /// Adds what the checkpoints around each prompt tell.
    fn add_changes(&self, report: &mut Report, past: &mut Past<'_>) -> Result<()> {
        let session = report.session.id.clone();
        let mut bounds: Vec<Option<usize>> = Vec::new();
        let prompt_rows = past.before_prompts(&session, report.session.started_at);
        let breaks = past.breaks(prompt_rows.values().copied());
        for one in &report.prompts {
            let named = one.turn.id.as_ref().and_then(|id| prompt_rows.get(id).copied());
            let by_time = past.at(one.turn.started_at);
            bounds.push(named.or_else(|| past.start_of(&session, by_time)));
        }
        let last = report.prompts.iter().filter_map(|one| one.turn.ended_at).max();
        // What others do after a crash is not the work of the session.
        let crashed_at = last.filter(|_| report.session.process_gone);
        bounds.push(past.end_of(&report.session, report.session.ended_at.or(crashed_at)));
        // A session that began before the first checkpoint is told from that one on.
        let first = past.rows.iter().position(|row| {
            report.session.started_at.is_some_and(|at| row.created_at >= at.as_millis())
        });
        if let Some(begin) = bounds.first_mut() {
            *begin = begin.or(first);
        }
        for (number, one) in report.prompts.iter_mut().enumerate() {
            let (from, to) = (bounds[number], bounds[number + 1]);
            one.before = from.map(|from| past.rows[from].id.clone());
            let (Some(from), Some(to)) = (from, to) else { continue };
            let to = past.end_of_turn(from, to, one.turn.ended_at, &breaks);
            if from == to {
                // Nobody has looked since.
                continue;
            }
            one.changed = self.changed_between(past, from, to)?;
            let during = (from..=to).filter(|at| past.may_tell_memory(*at, to));
            let during: Vec<usize> = during.collect();
            one.peak_rss = during.into_iter().filter_map(|at| past.peak_rss(at)).max();
        }
        if let (Some(Some(from)), Some(Some(to))) = (bounds.first(), bounds.last()) {
            report.changed = self.changed_between(past, *from, *to)?;
            report.totals.checkpoints = to.saturating_sub(*from) as u64 + 1;
        }
        report.totals.peak_rss = report.prompts.iter().filter_map(|one| one.peak_rss).max();
        Ok(())
    }
}

impl Past<'_> {
    fn manifest(&mut self, at: usize) -> Option<&Manifest> {
        let row = self.rows.get(at)?;
        if !self.read.contains_key(&row.id) {
            let manifest = self.rappel.store.manifest(row);
            if let Err(error) = &manifest {
                self.unreadable.push(format!("{}: {error}", row.id));
            }
            self.read.insert(row.id.clone(), manifest.ok());
        }
        self.read.get(&row.id)?.as_ref()
    }

    /// The newest checkpoint at or before a moment.
    fn at(&self, at: Option<Timestamp>) -> Option<usize> {
        let at = at?.as_millis();
        self.rows.iter().rposition(|row| row.created_at <= at)
    }

    /// The checkpoints that hooks made before the prompts of a session, by the prompts' ids.
    fn before_prompts(
        &mut self,
        session: &SessionId,
        begun: Option<Timestamp>,
    ) -> HashMap<String, usize> {
        let begun = begun.map_or(0, Timestamp::as_millis);
        let mut found = HashMap::new();
        for at in 0..self.rows.len() {
            let row = &self.rows[at];
            if row.trigger != Trigger::Prompt.as_str() || row.created_at < begun {
                continue;
            }
            let Some(manifest) = self.manifest(at) else { continue };
            let id = manifest.metadata.get("task_id").and_then(|id| id.as_str());
            if let Some(id) =
                id.filter(|_| manifest.session_id.as_deref() == Some(session.as_str()))
            {
                found.insert(id.to_owned(), at);
            }
        }
        found
    }

    /// Where something else may begin: a prompt, also one that was taken back since, or a restore.
    fn breaks(&self, prompts: impl Iterator<Item = usize>) -> BTreeSet<usize> {
        let is_restore = |at: &usize| self.rows[*at].trigger == Trigger::PreRestore.as_str();
        prompts.chain((0..self.rows.len()).filter(is_restore)).collect()
    }

    /// The checkpoint that tells how a prompt left the workspace, at the latest `to`. What a restore
    /// took back after the agent had ended is not what the prompt did.
    fn end_of_turn(
        &self,
        from: usize,
        to: usize,
        ended: Option<Timestamp>,
        breaks: &BTreeSet<usize>,
    ) -> usize {
        let Some(ended) = ended.map(Timestamp::as_millis) else { return to };
        let mut within = breaks.range(from.saturating_add(1)..to.max(from.saturating_add(1)));
        within.find(|at| self.rows[**at].created_at >= ended).copied().unwrap_or(to)
    }

    /// The checkpoint that a session made when it began, if that comes right after `before`: what
    /// others had done by then is in it, and is not the session's work.
    fn start_of(&mut self, session: &SessionId, before: Option<usize>) -> Option<usize> {
        let from = before.map_or(0, |at| at + 1);
        let mut later = from..self.rows.len().min(from + LATE);
        let own = later.find(|at| {
            self.rows[*at].trigger == Trigger::SessionStart.as_str()
                && self.manifest(*at).and_then(|one| one.session_id.as_deref())
                    == Some(session.as_str())
        });
        own.or(before)
    }

    /// The last checkpoint that tells of a session: its own last one, or the newest at its end. One
    /// that was set back and waits tells of what it was set back to.
    fn end_of(&mut self, session: &SessionView, ended: Option<Timestamp>) -> Option<usize> {
        let newest = self.rows.len().checked_sub(1)?;
        if let Some(back) = &session.set_back_to
            && let Some(at) = self.rows.iter().position(|row| row.id == *back)
        {
            return Some(at);
        }
        if ended.is_none() {
            return Some(newest);
        }
        let by_time = self.at(ended);
        // A save at the end may be done a little after it.
        let from = by_time.map_or(0, |at| at + 1);
        let later = (from..self.rows.len().min(from + LATE)).rev();
        for at in later {
            let own = self.manifest(at).and_then(|manifest| manifest.session_id.clone());
            if own.as_deref() == Some(session.id.as_str()) {
                return Some(at);
            }
        }
        by_time
    }

    /// Whether a checkpoint is worth reading for the memory it tells of. Those of single tool calls
    /// are many and tell none.
    fn may_tell_memory(&self, at: usize, last: usize) -> bool {
        let telling = [Trigger::Scheduled, Trigger::SessionStart, Trigger::SessionEnd];
        at == last || telling.iter().any(|trigger| self.rows[at].trigger == trigger.as_str())
    }

    /// The memory that a checkpoint tells of.
    fn peak_rss(&mut self, at: usize) -> Option<u64> {
        self.manifest(at)?.process.as_ref()?.get("rss")?.as_u64()
    }
}

/// So many checkpoints behind a session's end may still be its own.
const LATE: usize = 3;

/// Whether nobody sent it: it has no parent, or takes up the work of its parent.
fn is_top_level(view: &SessionView, all: &[SessionView]) -> bool {
    view.parent.as_ref().is_none_or(|parent| {
        all.iter().find(|one| one.id == *parent).is_none_or(|parent| continues(view, parent))
    })
}

/// Whether a session takes up the conversation of another one.
fn continues(view: &SessionView, parent: &SessionView) -> bool {
    view.assistant_session_id.is_some() && view.assistant_session_id == parent.assistant_session_id
}

fn totals(prompts: &[PromptReport]) -> Totals {
    let mut totals = Totals::default();
    for one in prompts {
        let turn = &one.turn;
        let passed = turn.verifications.iter().filter(|one| one.passed).count() as u64;
        totals.add(&Totals {
            prompts: u64::from(turn.prompt.is_some()),
            tool_calls: turn.tool_calls,
            failed: turn.failed.len() as u64,
            verifications_passed: passed,
            verifications_failed: turn.verifications.len() as u64 - passed,
            ruled_out: turn.ruled_out.len() as u64,
            tokens: turn.tokens,
            ..Totals::default()
        });
        for below in &one.agents {
            // Nobody typed what a subagent is told.
            totals.add(&Totals { prompts: 0, ..below.totals });
        }
    }
    totals
}

impl Totals {
    fn add(&mut self, other: &Self) {
        let sums = [
            (&mut self.prompts, other.prompts),
            (&mut self.tool_calls, other.tool_calls),
            (&mut self.failed, other.failed),
            (&mut self.verifications_passed, other.verifications_passed),
            (&mut self.verifications_failed, other.verifications_failed),
            (&mut self.ruled_out, other.ruled_out),
            (&mut self.tokens.input, other.tokens.input),
            (&mut self.tokens.output, other.tokens.output),
            (&mut self.tokens.cache_read, other.tokens.cache_read),
            (&mut self.tokens.cache_write, other.tokens.cache_write),
        ];
        for (sum, more) in sums {
            *sum = sum.saturating_add(more);
        }
    }
}
