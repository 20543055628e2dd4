//! What fails now, since when, and the checkpoints around it: the way to what broke a check.
//!
//! The outcomes come from the journals, the checkpoints from the index. Not guaranteed: that a check
//! failed because of what changed since it last passed; other things may have changed meanwhile.

use std::collections::{HashMap, HashSet};

use rappel_store::document::Undo;
use rappel_store::index::CheckpointRow;
use rappel_store::record::Kind;
use rappel_types::agents::outcomes::{Failing, Outcome, OutcomeKind, failing, outcomes};
use rappel_types::agents::{Lineage, SessionId};
use rappel_types::{CheckpointId, Timestamp, Trigger};
use schemars::JsonSchema;
use serde::Serialize;

use crate::agents::parse_event;
use crate::error::Result;
use crate::rappel::Rappel;

/// So many events are read, those of the newest sessions first.
const EVENTS_MAX: u64 = 20_000;
/// So many failing checks are told in a report.
const FAILING_MAX: usize = 100;
/// So many checkpoints are read to find the one of a prompt.
const PROMPTS_READ: usize = 20;
/// A checkpoint of a prompt may be made a little before the prompt is recorded.
const EARLY_MS: i64 = 10_000;

/// How checks and tool calls ended.
#[derive(Debug, Clone, Default, JsonSchema, Serialize)]
pub struct Outcomes {
    /// What fails now: checks first, then the newest first.
    pub failing: Vec<FailingCheck>,
    /// Every failure, and every verification that passed, newest first.
    pub outcomes: Vec<HeldOutcome>,
    /// Whether older events were not looked at.
    pub more: bool,
}

/// A verification or a command whose last outcome is a failure.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct FailingCheck {
    /// Its newest failure.
    #[serde(flatten)]
    pub latest: Outcome,
    /// When it first failed since it last passed.
    pub since: Timestamp,
    /// The prompt in which that was.
    pub since_prompt: Option<String>,
    /// How often it failed since it last passed.
    pub times: u64,
    /// Whether it tells whether the work is sound: a verification, a command that passed before, or
    /// one that names a test, a build or a lint.
    pub is_check: bool,
    /// When it last passed.
    pub passed_at: Option<Timestamp>,
    /// The newest checkpoint with files at that time.
    pub good: Option<CheckpointId>,
    /// The checkpoint with the files that first failed.
    pub bad: Option<CheckpointId>,
    /// The checkpoint before the prompt in which it first failed.
    pub before: Option<CheckpointId>,
    /// Whether the workspace went back to before the failure since.
    pub taken_back: bool,
}

/// An outcome and the checkpoint that was the first to hold it.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct HeldOutcome {
    #[serde(flatten)]
    #[allow(missing_docs, reason = "its fields stand in its place")]
    pub outcome: Outcome,
    /// The first checkpoint that holds it.
    pub checkpoint: Option<String>,
}

impl Rappel {
    /// How the checks and tool calls of this workspace's sessions ended, `limit` of them.
    pub fn outcomes(&self, limit: usize) -> Result<Outcomes> {
        let (told, cut) = self.all_outcomes()?;
        let rows = self.rows()?;
        let failing = self.failing_among(&told, &rows, limit)?;
        let shown = |one: &Outcome| !one.passed || one.kind == OutcomeKind::Verification;
        let newest = told.into_iter().rev().map(|(one, _)| one).filter(shown);
        let mut newest: Vec<Outcome> = newest.collect();
        let more = cut || newest.len() > limit;
        newest.truncate(limit);
        let places: Vec<_> =
            newest.iter().map(|one| (one.session.as_str(), one.event, one.fork)).collect();
        let held = self.first_holders(&places, &rows)?;
        let outcomes = newest.into_iter().zip(held);
        let outcomes =
            outcomes.map(|(outcome, checkpoint)| HeldOutcome { outcome, checkpoint }).collect();
        Ok(Outcomes { failing, outcomes, more })
    }

    /// The checks that fail now, among checkpoints that were read.
    pub(crate) fn failing_checks(&self, rows: &[CheckpointRow]) -> Result<Vec<FailingCheck>> {
        let (told, _) = self.all_outcomes()?;
        let mut failing = self.failing_among(&told, rows, FAILING_MAX)?;
        failing.retain(|one| one.is_check && !one.taken_back);
        Ok(failing)
    }

    fn failing_among(
        &self,
        told: &[(Outcome, bool)],
        rows: &[CheckpointRow],
        limit: usize,
    ) -> Result<Vec<FailingCheck>> {
        // What a restore took back happened, but it does not tell how things stand.
        let standing = told.iter().filter(|(_, stands)| *stands).map(|(one, _)| one.clone());
        let standing: Vec<Outcome> = standing.collect();
        let mut past = Past::new(self, rows)?;
        failing(&standing).into_iter().take(limit).map(|one| past.failing(&standing, one)).collect()
    }

    /// The outcomes of all sessions, oldest first, and whether older ones were left out.
    fn all_outcomes(&self) -> Result<(Vec<(Outcome, bool)>, bool)> {
        let (mut all, mut cut, mut left) = (Vec::new(), false, EVENTS_MAX);
        for view in self.sessions()? {
            if left == 0 {
                cut = true;
                break;
            }
            let (told, older) = self.outcomes_of(&view.id, left)?;
            cut |= older;
            left = left.saturating_sub(view.events);
            all.extend(told);
        }
        all.sort_by(|(a, _), (b, _)| (a.at, &a.session, a.event).cmp(&(b.at, &b.session, b.event)));
        Ok((all, cut))
    }

    /// The outcomes of a session's newest events, each with whether no restore took it back, and
    /// whether older ones were left out.
    fn outcomes_of(&self, session: &SessionId, most: u64) -> Result<(Vec<(Outcome, bool)>, bool)> {
        let id = session.as_str();
        let (last, lineage) = self
            .store
            .look_up(|index| Ok((index.last_event(id)?, Lineage::new(index.forks(id)?))))?;
        let Some(last) = last else { return Ok((Vec::new(), false)) };
        let (after, now) = (last.saturating_sub(most), lineage.current());
        let rows = self.store.look_up(|index| index.events_after(id, after))?;
        // An event that cannot be read tells nothing; a check of the home names it.
        let events: Vec<_> = rows.iter().filter_map(|row| parse_event(row).ok()).collect();
        let found = outcomes(session, &events).into_iter().map(|one| {
            let stands = lineage.knows(now, last, one.fork, one.event);
            (one, stands)
        });
        Ok((found.collect(), after > 0))
    }
}

/// The checkpoints with files, oldest first.
struct Past<'a> {
    rappel: &'a Rappel,
    all: &'a [CheckpointRow],
    rows: Vec<&'a CheckpointRow>,
    /// The checkpoint that the workspace goes on from, and those before it.
    line: HashSet<String>,
    /// The sessions of checkpoints that were read.
    sessions: HashMap<&'a CheckpointId, Option<String>>,
}

/// The checkpoint that the workspace goes on from, and those before it. A restore of some files alone
/// left the others as they were: from there the line leads to the checkpoint right before the restore.
fn line_to_here(rappel: &Rappel, rows: &[CheckpointRow]) -> Result<HashSet<String>> {
    let workspace = rappel.workspace_id().map(|id| id.to_string());
    let undos = rappel.store.look_up(|index| index.documents(Kind::Undo, workspace.as_deref()))?;
    let undos = undos.iter().filter_map(|row| {
        let undo = serde_json::from_str::<Undo>(&row.json).ok()?;
        undo.partial.then_some((row.birth, undo))
    });
    let in_part: Vec<(u64, Undo)> = undos.collect();
    let parent = |after: u64, before: u64, restored: &str| {
        let is_it = |(birth, undo): &&(u64, Undo)| {
            after < *birth && *birth < before && undo.to.as_str() == restored
        };
        let kept = in_part.iter().rfind(is_it).map(|(_, undo)| undo.from.to_string());
        kept.unwrap_or_else(|| restored.to_owned())
    };
    let places: HashMap<&str, usize> =
        rows.iter().enumerate().map(|(place, row)| (row.id.as_str(), place)).collect();
    let newest = rows.last().map_or(0, |row| row.birth);
    let head = rappel.head()?.map(|row| parent(newest, u64::MAX, row.id.as_str()));
    let (mut line, mut at) = (HashSet::new(), head);
    while let Some(id) = at {
        at = places.get(id.as_str()).and_then(|place| {
            let row = &rows[*place];
            let before = place.checked_sub(1).map_or(0, |place| rows[place].birth);
            Some(parent(before, row.birth, row.parent.as_deref()?))
        });
        if !line.insert(id) {
            break;
        }
    }
    Ok(line)
}

impl<'a> Past<'a> {
    fn new(rappel: &'a Rappel, rows: &'a [CheckpointRow]) -> Result<Self> {
        let with_files = rows.iter().filter(|row| row.holds_files).collect();
        let line = line_to_here(rappel, rows)?;
        Ok(Self { rappel, all: rows, rows: with_files, line, sessions: HashMap::new() })
    }

    /// A failing check with the checkpoints around it.
    fn failing(&mut self, outcomes: &[Outcome], one: Failing) -> Result<FailingCheck> {
        let (first, latest) = (&outcomes[one.since], &outcomes[one.latest]);
        let passed = one.passed.map(|place| &outcomes[place]);
        let good = match passed {
            Some(passed) => self.made_for(passed)?.or_else(|| self.at(passed.at)),
            None => None,
        };
        let before = self.before(first);
        let after = self.after(first.at);
        let bad = self.at(first.at).filter(|bad| Some(bad) != before.as_ref());
        let bad = bad.filter(|bad| Some(bad) != good.as_ref()).or_else(|| after.clone());
        Ok(FailingCheck {
            latest: latest.clone(),
            since: first.at,
            since_prompt: first.prompt.clone(),
            times: one.times,
            is_check: one.is_check,
            passed_at: passed.map(|passed| passed.at),
            taken_back: after.is_some_and(|after| !self.leads_here(&after)),
            good,
            bad: self.made_for(first)?.or(bad),
            before,
        })
    }

    /// Whether the workspace goes on from a checkpoint, or from one after it.
    fn leads_here(&self, id: &CheckpointId) -> bool {
        self.line.contains(id.as_str())
    }

    /// How many checkpoints were made at or before a time.
    fn until(&self, at: Timestamp) -> usize {
        self.rows.partition_point(|row| row.created_at <= at.as_millis())
    }

    /// The newest checkpoint at or before a time.
    fn at(&self, at: Timestamp) -> Option<CheckpointId> {
        let row = self.rows[..self.until(at)].last()?;
        Some(row.id.clone())
    }

    /// The first checkpoint after a time.
    fn after(&self, at: Timestamp) -> Option<CheckpointId> {
        self.rows.get(self.until(at)).map(|row| row.id.clone())
    }

    /// The checkpoint that a verification made: it holds the very files that were verified.
    fn made_for(&self, outcome: &Outcome) -> Result<Option<CheckpointId>> {
        let place = (outcome.session.as_str(), outcome.event, outcome.fork);
        let held = self.rappel.first_holders(&[place], self.all)?.pop().flatten();
        let made = |row: &&&CheckpointRow| {
            held.as_deref() == Some(row.id.as_str())
                && row.trigger == Trigger::VerificationComplete.as_str()
        };
        Ok(self.rows.iter().find(made).map(|row| row.id.clone()))
    }

    /// The checkpoint that was made for the prompt of an outcome, else the newest before that
    /// prompt, else the newest before the outcome.
    fn before(&mut self, outcome: &Outcome) -> Option<CheckpointId> {
        let begun = outcome.prompt_at.unwrap_or(outcome.at);
        let early = begun.as_millis().saturating_sub(EARLY_MS);
        let near = self.rows[..self.until(outcome.at)].iter().rev();
        let near = near.take_while(|row| row.created_at >= early);
        let prompts = near.filter(|row| row.trigger == Trigger::Prompt.as_str());
        let near: Vec<&CheckpointRow> = prompts.take(PROMPTS_READ).copied().collect();
        let own = near.into_iter().find(|row| {
            self.session(row).is_some_and(|session| session == outcome.session.as_str())
        });
        own.map(|row| row.id.clone()).or_else(|| self.at(begun))
    }

    fn session(&mut self, row: &'a CheckpointRow) -> Option<String> {
        let read = || self.rappel.store.manifest(row).ok().and_then(|one| one.session_id);
        self.sessions.entry(&row.id).or_insert_with(read).clone()
    }
}
