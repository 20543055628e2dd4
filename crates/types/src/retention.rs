//! Retention: which checkpoints are kept and which may go.
//!
//! [`decide`] is a pure function from checkpoints, a policy and the present time to one decision per
//! checkpoint. It deletes nothing; the engine does, and shows these decisions first.
//!
//! A rule counts *active* time: every whole local day on which the workspace got no checkpoint is
//! left out of an age. A holiday, or a clock that jumped ahead, makes nothing old.

mod age;
mod policy;
mod sessions;

use std::collections::{HashMap, HashSet};
use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use crate::{CheckpointId, Timestamp, Trigger};
use age::Calendar;
pub use policy::{Keep, Policy, Preset, Rule, Rules};
pub use sessions::{
    RECENT_MS, SessionCandidate, SessionDecision, SessionReason, decide_sessions, one_per_day,
};

/// Checkpoints under this age are kept, whatever the rules say.
const YOUNG_MS: u64 = 24 * HOUR_MS;
const HOUR_MS: u64 = 60 * MINUTE_MS;
const MINUTE_MS: u64 = 60_000;

/// A checkpoint with one of these tags marks a turn of the agent's reasoning and is kept.
pub const SIGNIFICANT_TAGS: [&str; 4] =
    ["hypothesis_confirmed", "hypothesis_rejected", "contradiction_detected", "branch_merged"];

/// What a decision needs to know of one checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "they are facts that do not depend on each other")]
pub struct Candidate {
    /// Its id.
    pub id: CheckpointId,
    /// Its number. The order of a workspace's checkpoints follows it, not the clock.
    pub sequence: u64,
    /// When it was made.
    pub created_at: Timestamp,
    /// Why it was made.
    pub trigger: Trigger,
    /// The session that it belongs to.
    pub session: Option<String>,
    /// Whether it holds files.
    pub holds_files: bool,
    /// Whether the user pinned it.
    pub pinned: bool,
    /// Its tags.
    pub tags: Vec<String>,
    /// Whether `undo` or `redo` could still go there.
    pub undoable: bool,
    /// Until when its session protects it: 72 hours after the end of one, no end in sight while it
    /// runs.
    pub session_holds_until: Option<Timestamp>,
}

impl Candidate {
    fn is_significant(&self) -> bool {
        self.tags.iter().any(|tag| SIGNIFICANT_TAGS.contains(&tag.as_str()))
    }
}

/// Why a checkpoint is kept or goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "PruneReason")]
pub enum Reason {
    /// Kept: the user pinned it.
    Pinned,
    /// Kept: it is the newest one, or the newest one with files.
    Newest,
    /// Kept: `undo` or `redo` could go there.
    Undoable,
    /// Kept: its session runs or ended a short time ago.
    RecentSession,
    /// Kept: it is under a day old (the preset `forge`: under an hour).
    Young,
    /// Kept: it is manual, and the policy does not speak of manual ones.
    Manual,
    /// Kept: a tag marks it as significant.
    Significant,
    /// Kept: the policy keeps all such for ever.
    Forever,
    /// Kept: the policy keeps it.
    Policy,
    /// Goes: it is older than its rule keeps it.
    TooOld,
    /// Goes: its rule keeps fewer.
    TooMany,
    /// Goes: a newer one of the same hour stays.
    SameHour,
    /// Goes: a newer one of the same day stays.
    SameDay,
    /// Goes: the home is larger than it may be.
    NoRoom,
}

impl Reason {
    /// Whether a checkpoint with this reason stays.
    pub fn keeps(self) -> bool {
        !matches!(
            self,
            Self::TooOld | Self::TooMany | Self::SameHour | Self::SameDay | Self::NoRoom
        )
    }

    /// Whether no rule and no limit on space may take such a checkpoint.
    pub fn protects(self) -> bool {
        self.keeps() && self != Self::Policy
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pinned => "pinned",
            Self::Newest => "the newest",
            Self::Undoable => "undo or redo may need it",
            Self::RecentSession => "its session runs or ended under 72 hours ago",
            Self::Young => "too young to go",
            Self::Manual => "made by hand",
            Self::Significant => "tagged as significant",
            Self::Forever => "the policy keeps it for ever",
            Self::Policy => "within the policy",
            Self::TooOld => "older than the policy keeps",
            Self::TooMany => "more than the policy keeps",
            Self::SameHour => "a newer one of the same hour stays",
            Self::SameDay => "a newer one of the same day stays",
            Self::NoRoom => "the home is larger than it may be",
        })
    }
}

/// What becomes of one checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
#[schemars(rename = "PruneDecision")]
pub struct Decision {
    /// The checkpoint.
    pub id: CheckpointId,
    /// Whether it stays.
    pub keep: bool,
    /// Why.
    pub reason: Reason,
}

/// Decides for every checkpoint of one workspace. The answers stand in the order of `candidates`.
///
/// Deciding again about those that were kept keeps them all.
pub fn decide(
    candidates: &[Candidate],
    policy: &Policy,
    now: Timestamp,
    zone: &jiff::tz::TimeZone,
) -> Vec<Decision> {
    judge(candidates, policy, calendar(candidates, now, zone))
}

/// The days on which a checkpoint was made.
fn calendar<'a>(
    candidates: &[Candidate],
    now: Timestamp,
    zone: &'a jiff::tz::TimeZone,
) -> Calendar<'a> {
    Calendar::new(candidates.iter().map(|candidate| candidate.created_at), now, zone)
}

/// How far ahead it is looked for what goes next.
const HORIZON_MS: u64 = 400 * 24 * HOUR_MS;

/// What goes next if no checkpoint is added, the user works every day, and nothing is deleted
/// before: when, and how many. Now, if something is to go already.
pub fn next_deletion(
    candidates: &[Candidate],
    policy: &Policy,
    now: Timestamp,
    zone: &jiff::tz::TimeZone,
) -> Option<NextDeletion> {
    let calendar = calendar(candidates, now, zone);
    let later = |minutes: u64| {
        Timestamp::from_millis(now.as_millis().saturating_add((minutes * MINUTE_MS) as i64))
    };
    let going = |minutes: u64| {
        let decisions = judge(candidates, policy, calendar.at(later(minutes)));
        decisions.iter().filter(|decision| !decision.keep).count()
    };
    // What goes at a moment is gone at every later one.
    let (mut none, mut some) = (0, HORIZON_MS / MINUTE_MS);
    let count = going(0);
    if count > 0 {
        return Some(NextDeletion { at: now, count });
    }
    if going(some) == 0 {
        return None;
    }
    while some - none > 1 {
        let middle = none.midpoint(some);
        match going(middle) {
            0 => none = middle,
            _ => some = middle,
        }
    }
    Some(NextDeletion { at: later(some), count: going(some) })
}

/// What the policy deletes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, serde::Deserialize)]
pub struct NextDeletion {
    /// Not before this moment.
    pub at: Timestamp,
    /// How many go then.
    pub count: usize,
}

fn judge(candidates: &[Candidate], policy: &Policy, calendar: Calendar<'_>) -> Vec<Decision> {
    let mut newest_first: Vec<&Candidate> = candidates.iter().collect();
    newest_first.sort_by_key(|candidate| std::cmp::Reverse(candidate.sequence));
    let mut judge = Judge { policy, calendar, kept: HashMap::new(), seen: HashSet::new() };
    let newest = newest_first.first().map(|candidate| &candidate.id);
    let with_files = newest_first.iter().find(|candidate| candidate.holds_files);
    let with_files = with_files.map(|candidate| &candidate.id);
    let mut reasons = HashMap::new();
    for candidate in &newest_first {
        let is_newest = Some(&candidate.id) == with_files
            || (Some(&candidate.id) == newest && !policy.is_strict());
        reasons.insert(candidate.sequence, judge.reason(candidate, is_newest));
    }
    let decision = |candidate: &Candidate| {
        let reason = reasons[&candidate.sequence];
        Decision { id: candidate.id.clone(), keep: reason.keeps(), reason }
    };
    candidates.iter().map(decision).collect()
}

/// Groups of checkpoints that a rule counts together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Group {
    All,
    Trigger(Trigger),
    Session(Option<String>),
}

/// What was decided so far, from the newest checkpoint to older ones.
struct Judge<'a> {
    policy: &'a Policy,
    calendar: Calendar<'a>,
    /// How many of each group stay.
    kept: HashMap<Group, u64>,
    /// The hours and days of which one stays, per group.
    seen: HashSet<(Group, i64, Reason)>,
}

impl Judge<'_> {
    fn reason(&mut self, candidate: &Candidate, is_newest: bool) -> Reason {
        let ruled = self.ruled(candidate);
        self.protection(candidate, is_newest).unwrap_or(ruled)
    }

    /// Why a checkpoint stays whatever the rules say.
    fn protection(&self, candidate: &Candidate, is_newest: bool) -> Option<Reason> {
        let strict = self.policy.is_strict();
        let young = || self.calendar.age(candidate.created_at) < YOUNG_MS;
        let now = self.calendar.now();
        let in_session = || candidate.session_holds_until.is_some_and(|until| now < until);
        [
            (candidate.pinned, Reason::Pinned),
            (is_newest, Reason::Newest),
            (candidate.undoable, Reason::Undoable),
            (!strict && in_session(), Reason::RecentSession),
            (!strict && candidate.is_significant(), Reason::Significant),
            (!strict && young(), Reason::Young),
        ]
        .into_iter()
        .find_map(|(holds, reason)| holds.then_some(reason))
    }

    /// What the policy says. Every checkpoint is asked, protected or not, because a protected one
    /// counts among those that its rule keeps.
    fn ruled(&mut self, candidate: &Candidate) -> Reason {
        match self.policy {
            Policy::Rules(rules) => {
                let Some(rule) = rules.of(candidate.trigger) else { return Reason::Manual };
                let age = self.calendar.age(candidate.created_at);
                self.by_rule(candidate, Group::Trigger(candidate.trigger), &rule, age)
            }
            Policy::Preset(Preset::Lugh) => {
                let rule = policy::lugh(candidate.trigger);
                let age = self.calendar.elapsed(candidate.created_at);
                self.by_rule(candidate, Group::Trigger(candidate.trigger), &rule, age)
            }
            Policy::Preset(Preset::Loki) => self.among(Group::All, 50),
            Policy::Preset(Preset::Caf) => {
                self.among(Group::Session(candidate.session.clone()), 100)
            }
            Policy::Preset(Preset::Forge) => self.by_forge(candidate),
            Policy::Newest { last, within, include_manual } => {
                if candidate.trigger == Trigger::Manual && !include_manual {
                    return Reason::Manual;
                }
                let is_within =
                    within.is_some_and(|within| self.calendar.age(candidate.created_at) <= within);
                match (self.among(Group::All, last.unwrap_or(0)), is_within) {
                    (Reason::Policy, _) | (_, true) => Reason::Policy,
                    _ if last.is_none() => Reason::TooOld,
                    (reason, false) => reason,
                }
            }
        }
    }

    fn by_rule(&mut self, candidate: &Candidate, group: Group, rule: &Rule, age: u64) -> Reason {
        if let Keep::For(limit) = rule.keep
            && age > limit
        {
            return Reason::TooOld;
        }
        let thinned = [
            (rule.daily_after, Reason::SameDay, self.calendar.day(candidate.created_at)),
            (rule.hourly_after, Reason::SameHour, self.calendar.hour(candidate.created_at)),
        ];
        for (after, reason, bucket) in thinned {
            if after.is_some_and(|after| age > after)
                && !self.seen.insert((group.clone(), bucket, reason))
            {
                return reason;
            }
        }
        match (rule.max, rule.keep) {
            (Some(max), _) => self.among(group, max),
            (None, Keep::Forever) => Reason::Forever,
            (None, Keep::For(_)) => Reason::Policy,
        }
    }

    /// The seed's rule: an hour, manual ones, significant ones, then the newest of each hour.
    fn by_forge(&mut self, candidate: &Candidate) -> Reason {
        if self.calendar.elapsed(candidate.created_at) < HOUR_MS {
            return Reason::Young;
        }
        if candidate.trigger == Trigger::Manual {
            return Reason::Manual;
        }
        if candidate.is_significant() {
            return Reason::Significant;
        }
        let hour = candidate.created_at.as_millis().div_euclid(HOUR_MS as i64);
        match self.seen.insert((Group::All, hour, Reason::SameHour)) {
            true => Reason::Policy,
            false => Reason::SameHour,
        }
    }

    /// Whether a checkpoint is among the newest so many of its group.
    fn among(&mut self, group: Group, max: u64) -> Reason {
        let kept = self.kept.entry(group).or_default();
        *kept += 1;
        if *kept <= max { Reason::Policy } else { Reason::TooMany }
    }
}
