//! What a policy may say.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::Trigger;

const HOUR: u64 = 3_600_000;
const DAY: u64 = 24 * HOUR;

/// How long a rule keeps a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// For ever.
    Forever,
    /// So many milliseconds.
    For(u64),
}

/// What holds for the checkpoints of one trigger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// How long.
    pub keep: Keep,
    /// How many at most.
    pub max: Option<u64>,
    /// Of those older than this, in milliseconds, only the newest of each hour.
    pub hourly_after: Option<u64>,
    /// Of those older than this, only the newest of each local day.
    pub daily_after: Option<u64>,
}

impl Rule {
    const fn new(keep: u64, max: u64) -> Self {
        Self { keep: Keep::For(keep), max: Some(max), hourly_after: None, daily_after: None }
    }

    const FOREVER: Self =
        Self { keep: Keep::Forever, max: None, hourly_after: None, daily_after: None };

    /// What holds where nothing else is said.
    pub const DEFAULT: Self = Self {
        keep: Keep::For(7 * DAY),
        max: Some(500),
        hourly_after: Some(DAY),
        daily_after: Some(7 * DAY),
    };
}

/// `[retention]`: a rule for each trigger that it names, and one for all others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// Rules for single triggers.
    pub triggers: BTreeMap<Trigger, Rule>,
    /// The rule for every other trigger, for each by itself.
    pub default: Rule,
    /// How long sessions are kept after their end.
    pub sessions: Keep,
    /// Whether the rule for all others holds for manual checkpoints too.
    pub include_manual: bool,
}

impl Default for Rules {
    fn default() -> Self {
        let triggers = [
            (Trigger::PrMerged, Rule::new(30 * DAY, 50)),
            (Trigger::EndOfDay, Rule::new(7 * DAY, 7)),
            (Trigger::PreOperation, Rule::new(DAY, 10)),
            (Trigger::PreRestore, Rule::new(30 * DAY, 50)),
        ];
        Self {
            triggers: triggers.into(),
            default: Rule::DEFAULT,
            sessions: Keep::For(365 * DAY),
            include_manual: false,
        }
    }
}

impl Rules {
    /// The rule for a trigger; none for manual checkpoints that no rule speaks of.
    pub fn of(&self, trigger: Trigger) -> Option<Rule> {
        match self.triggers.get(&trigger) {
            Some(rule) => Some(*rule),
            None if trigger == Trigger::Manual && !self.include_manual => None,
            None => Some(self.default),
        }
    }
}

/// The seeds' own policies, with their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Preset {
    /// By kind: manual ones for ever, merges 30 days and 50, ends of days 7 days and 7, the ones
    /// before operations 24 hours and 10.
    Lugh,
    /// The newest 50 of all kinds.
    Loki,
    /// Under an hour, manual, significant, then the newest of each clock hour.
    Forge,
    /// The newest 100 of each session.
    Caf,
}

impl Preset {
    /// Every preset, by its name in `rappel.toml`.
    pub const ALL: [(&'static str, Self); 4] =
        [("lugh", Self::Lugh), ("loki", Self::Loki), ("forge", Self::Forge), ("caf", Self::Caf)];
}

/// What is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Policy {
    /// By rules for each trigger.
    Rules(Rules),
    /// As one of the seeds does.
    Preset(Preset),
    /// The newest so many, and those under an age; at least one of the two is given.
    Newest {
        /// How many of the newest, of all kinds together.
        last: Option<u64>,
        /// Up to which age, in milliseconds.
        within: Option<u64>,
        /// Whether manual ones count too.
        include_manual: bool,
    },
}

impl Default for Policy {
    fn default() -> Self {
        Self::Rules(Rules::default())
    }
}

impl Policy {
    /// Whether the policy keeps nothing beyond its own numbers but what is pinned, the newest with
    /// files, and what `undo` and `redo` can use.
    pub fn is_strict(&self) -> bool {
        matches!(self, Self::Preset(_))
    }

    /// How long sessions are kept. The seeds know none, so their presets keep what is usual; a
    /// number of checkpoints to keep says nothing of sessions.
    pub fn sessions(&self) -> Keep {
        match self {
            Self::Rules(rules) => rules.sessions,
            Self::Preset(_) => Rules::default().sessions,
            Self::Newest { .. } => Keep::Forever,
        }
    }
}

/// Lugh's rules. Its safety saves are of the kind "before an operation". It knows no other
/// automatic kinds; the default rule holds for those.
pub(super) fn lugh(trigger: Trigger) -> Rule {
    match trigger {
        Trigger::Manual => Rule::FOREVER,
        Trigger::PrMerged => Rule::new(30 * DAY, 50),
        Trigger::EndOfDay => Rule::new(7 * DAY, 7),
        Trigger::PreOperation | Trigger::PreRestore => Rule::new(DAY, 10),
        _ => Rule::DEFAULT,
    }
}
