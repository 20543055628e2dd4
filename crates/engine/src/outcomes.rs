//! What fails now, since when, and the checkpoints around it: the way to what broke a check.
//!
//! The outcomes come from the journals, the checkpoints from the index. Not guaranteed: that a check
//! failed because of what changed since it last passed; other things may have changed meanwhile.

use std::collections::{HashMap, HashSet};

use rappel_store::index::CheckpointRow;
use rappel_types::agents::outcomes::{Outcome, OutcomeKind, failing, outcomes};
use rappel_types::agents::{Lineage, SessionId, SessionPosition};
use rappel_types::{CheckpointId, Timestamp, Trigger};
use schemars::JsonSchema;
use serde::Serialize;

use crate::error::Result;
use crate::rappel::Rappel;

/// So many events are read, those of the newest sessions first.
const EVENTS_MAX: u64 = 20_000;
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
        let mut answer = Outcomes::default();
        let mut all = Vec::new();
        let mut left = EVENTS_MAX;
        for view in self.sessions()? {
            if left == 0 {
                answer.more = true;
                break;
            }
            let (told, cut) = self.outcomes_of(&view.id, left)?;
            answer.more |= cut;
            left = left.saturating_sub(view.events);
            all.extend(told);
        }
        all.sort_by(|a, b| (a.at, &a.session, a.event).cmp(&(b.at, &b.session, b.event)));
        let rows = self.rows()?;
        let mut past = Past::new(self, &rows)?;
        for one in failing(&all).into_iter().take(limit) {
            let (first, latest) = (&all[one.since], &all[one.latest]);
            let passed = one.passed.map(|place| &all[place]);
            let good = match passed {
                Some(passed) => past.made_for(passed)?.or_else(|| past.at(passed.at)),
                None => None,
            };
            let before = past.before(first);
            let after = past.after(first.at);
            let bad = past.at(first.at).filter(|bad| Some(bad) != before.as_ref());
            let bad = bad.filter(|bad| Some(bad) != good.as_ref()).or_else(|| after.clone());
            let bad = past.made_for(first)?.or(bad);
            answer.failing.push(FailingCheck {
                latest: latest.clone(),
                since: first.at,
                since_prompt: first.prompt.clone(),
                times: one.times,
                is_check: one.is_check,
                passed_at: passed.map(|passed| passed.at),
                taken_back: after.is_some_and(|after| !past.leads_here(&after)),
                good,
                bad,
                before,
            });
        }
        let told = |one: &Outcome| !one.passed || one.kind == OutcomeKind::Verification;
        all.retain(told);
        all.reverse();
        answer.more |= all.len() > limit;
        all.truncate(limit);
        let places: Vec<_> =
            all.iter().map(|one| (one.session.as_str(), one.event, one.fork)).collect();
        let held = self.first_holders(&places, &rows)?;
        answer.outcomes = all
            .into_iter()
            .zip(held)
            .map(|(outcome, checkpoint)| HeldOutcome { outcome, checkpoint })
            .collect();
        Ok(answer)
    }

    /// The outcomes of a session's newest events, and whether older ones were left out.
    fn outcomes_of(&self, session: &SessionId, most: u64) -> Result<(Vec<Outcome>, bool)> {
        let (last, fork) = self.store.look_up(|index| {
            let fork = Lineage::new(index.forks(session.as_str())?).current();
            Ok((index.last_event(session.as_str())?, fork))
        })?;
        let Some(event) = last else { return Ok((Vec::new(), false)) };
        let after = event.saturating_sub(most);
        let events = match self.events_to(session, SessionPosition { fork, event }, after) {
            Ok(events) => events,
            // A journal that cannot be read tells nothing; `verify` names it.
            Err(error) if error.is_unreadable() => return Ok((Vec::new(), true)),
            Err(error) => return Err(error),
        };
        Ok((outcomes(session, &events), after > 0))
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

impl<'a> Past<'a> {
    fn new(rappel: &'a Rappel, rows: &'a [CheckpointRow]) -> Result<Self> {
        let parents: HashMap<&str, Option<&str>> =
            rows.iter().map(|row| (row.id.as_str(), row.parent.as_deref())).collect();
        let mut line = HashSet::new();
        let head = rappel.head()?;
        let mut at = head.as_ref().map(|row| row.id.as_str());
        while let Some(id) = at {
            if !line.insert(id.to_owned()) {
                break;
            }
            at = parents.get(id).copied().flatten();
        }
        let with_files = rows.iter().filter(|row| row.holds_files).collect();
        Ok(Self { rappel, all: rows, rows: with_files, line, sessions: HashMap::new() })
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
