//! Why a checkpoint was made.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What is wrong with a text that should have been a trigger.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown trigger {0:?}")]
pub struct UnknownTrigger(pub String);

macro_rules! triggers {
    ($($variant:ident $text:literal $label:literal),* $(,)?) => {
        /// Why a checkpoint was made.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[allow(missing_docs, reason = "each is named after its text, which the guide explains")]
        pub enum Trigger { $($variant),* }

        impl Trigger {
            /// Every trigger there is.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The trigger's name on the command line and in JSON.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),* }
            }

            /// How lists name a checkpoint that has no description of its own.
            pub fn label(self) -> &'static str {
                match self { $(Self::$variant => $label),* }
            }
        }

        impl FromStr for Trigger {
            type Err = UnknownTrigger;
            fn from_str(text: &str) -> Result<Self, UnknownTrigger> {
                match text { $($text => Ok(Self::$variant),)* _ => Err(UnknownTrigger(text.into())) }
            }
        }
    };
}

triggers! {
    Manual "manual" "Checkpoint",
    Prompt "prompt" "Auto-checkpoint (prompt)",
    PrMerged "pr-merged" "Auto-checkpoint (PR merged)",
    EndOfDay "end-of-day" "Auto-checkpoint (end of day)",
    PreOperation "pre-operation" "Auto-checkpoint (before an operation)",
    PreRestore "pre-restore" "Pre-restore auto-save",
    Scheduled "scheduled" "Auto-checkpoint (scheduled)",
    SessionStart "session-start" "Auto-checkpoint (session start)",
    SessionEnd "session-end" "Auto-checkpoint (session end)",
    TaskCompleted "task-completed" "Auto-checkpoint (task completed)",
    Imported "imported" "Imported checkpoint",
    HypothesisStatusChange "hypothesis-status-change" "Auto-checkpoint (hypothesis status change)",
    ContradictionDetected "contradiction-detected" "Auto-checkpoint (contradiction detected)",
    VerificationComplete "verification-complete" "Auto-checkpoint (verification complete)",
    BranchSwitch "branch-switch" "Auto-checkpoint (branch switch)",
    BranchMerged "branch-merged" "Auto-checkpoint (branch merged)",
    GapFilled "gap-filled" "Auto-checkpoint (gap filled)",
    CodeModified "code-modified" "Auto-checkpoint (code modified)",
    TimePassed "time-passed" "Auto-checkpoint (time passed)",
    ContextCompaction "context-compaction" "Auto-checkpoint (context compaction)",
    ThoughtCompleted "thought-completed" "Auto-checkpoint (thought completed)",
    ToolExecuted "tool-executed" "Auto-checkpoint (tool executed)",
    Paused "paused" "Auto-checkpoint (paused)",
    ExecutionCompleted "execution-completed" "Auto-checkpoint (execution completed)",
}

impl Trigger {
    /// Whether such a checkpoint takes files, or agent state alone.
    pub fn takes_files(self) -> bool {
        !matches!(
            self,
            Self::ThoughtCompleted
                | Self::ToolExecuted
                | Self::HypothesisStatusChange
                | Self::ContradictionDetected
                | Self::GapFilled
        )
    }

    /// Whether such a checkpoint takes the bytes of agents' transcripts along. They grow with
    /// everything that an agent does, so the many checkpoints between two of these leave them out.
    pub fn takes_transcripts(self) -> bool {
        matches!(
            self,
            Self::Manual
                | Self::Prompt
                | Self::ContextCompaction
                | Self::TaskCompleted
                | Self::SessionEnd
                | Self::PreOperation
                | Self::PreRestore
        )
    }

    /// How a checkpoint that it makes by itself is called, for programs.
    pub fn automatic_name(self) -> String {
        format!("Auto: {}", self.seed_name())
    }

    /// Whether a description is the one that it gives by itself, and not somebody's own words.
    pub fn names_itself(self, description: &str) -> bool {
        match self {
            Self::Manual => false,
            Self::PreRestore => description == self.label(),
            _ => description == self.automatic_name(),
        }
    }

    /// The tag that an automatic checkpoint carries: the name in the words of those who thought of it first.
    pub fn seed_name(self) -> String {
        match self {
            Self::ContradictionDetected => "NewContradictionDetected".into(),
            Self::TimePassed => "SignificantTimePassed".into(),
            Self::ContextCompaction => "ContextCompactionWarning".into(),
            other => other
                .as_str()
                .split('-')
                .map(|word| word[..1].to_ascii_uppercase() + &word[1..])
                .collect(),
        }
    }

    /// The tags of a checkpoint that was made for this reason without anybody's asking.
    pub fn automatic_tags(self) -> Vec<String> {
        vec!["auto".to_owned(), self.seed_name()]
    }

    /// How much longer such a checkpoint is kept, as a rank: a request whose trigger ranks higher
    /// than an existing checkpoint's adds something to it.
    pub fn keep_rank(self) -> u8 {
        match self {
            Self::Manual => 3,
            Self::PrMerged | Self::PreRestore => 2,
            Self::PreOperation => 0,
            _ => 1,
        }
    }
}

impl fmt::Display for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

crate::id::serde_as_text!(Trigger);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_trigger_survives_json() {
        for trigger in Trigger::ALL {
            let text = serde_json::to_string(trigger).unwrap();
            assert_eq!(serde_json::from_str::<Trigger>(&text).unwrap(), *trigger);
        }
        assert!("Manual".parse::<Trigger>().is_err());
        assert_eq!(Trigger::HypothesisStatusChange.seed_name(), "HypothesisStatusChange");
    }
}
