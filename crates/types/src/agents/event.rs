//! One thing that happened in a session, as it stands in the journal.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::Timestamp;

/// The version that this build writes.
pub const EVENT_VERSION: u32 = 1;

/// What is wrong with a text that should have been an event.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not an event: {0}")]
pub struct EventError(pub String);

/// One thing that happened.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Its number in its session, from 1; never given twice, whatever the fork.
    pub number: u64,
    /// The fork it belongs to; 0 is the beginning.
    pub fork: u32,
    /// When it happened.
    pub at: Timestamp,
    /// The id of what it made, where it made something.
    pub id: Option<String>,
    /// What happened.
    pub body: Body,
}

#[derive(Serialize, Deserialize)]
struct Envelope<'a> {
    version: u32,
    number: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    fork: u32,
    at: Timestamp,
    kind: std::borrow::Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(borrow)]
    data: &'a RawValue,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Event {
    /// The event as JSON, as it is stored.
    pub fn to_json(&self) -> String {
        let data = self.body.data();
        let raw = RawValue::from_string(data).unwrap_or_else(|_| RawValue::NULL.to_owned());
        let version = match self.body {
            Body::Unknown { version, .. } => version,
            _ => EVENT_VERSION,
        };
        let envelope = Envelope {
            version,
            number: self.number,
            fork: self.fork,
            at: self.at,
            kind: self.body.kind().into(),
            id: self.id.clone(),
            data: &raw,
        };
        serde_json::to_string(&envelope).unwrap_or_default()
    }

    /// Reads a stored event. One of a kind, version or shape that this build does not know is kept as it is.
    pub fn parse(json: &str) -> Result<Self, EventError> {
        let envelope: Envelope<'_> =
            serde_json::from_str(json).map_err(|error| EventError(error.to_string()))?;
        let known = (envelope.version <= EVENT_VERSION)
            .then(|| Body::parse(&envelope.kind, envelope.data.get()).ok())
            .flatten();
        let body = known.unwrap_or_else(|| Body::Unknown {
            version: envelope.version,
            kind: envelope.kind.into_owned(),
            data: envelope.data.get().to_owned(),
        });
        Ok(Self {
            number: envelope.number,
            fork: envelope.fork,
            at: envelope.at,
            id: envelope.id,
            body,
        })
    }
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $variant:ident $kind:literal $prefix:literal),* $(,)?) => {
        /// What happened.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Body {
            $($(#[$doc])* $variant(payload::$variant),)*
            /// Something that a newer version knows; its bytes are kept.
            Unknown {
                /// The version that wrote it: read again as another, it might seem to be known.
                version: u32,
                /// What it is called.
                kind: String,
                /// Its JSON.
                data: String,
            },
        }

        impl Body {
            /// The names of all kinds that this build knows.
            pub const KINDS: &[&str] = &[$($kind),*];

            /// What it is called.
            pub fn kind(&self) -> &str {
                match self {
                    $(Self::$variant(_) => $kind,)*
                    Self::Unknown { kind, .. } => kind,
                }
            }

            /// What the ids of what it makes begin with; nothing if it makes nothing.
            pub fn prefix(&self) -> Option<&'static str> {
                let prefix = match self {
                    $(Self::$variant(_) => $prefix,)*
                    Self::Unknown { .. } => "",
                };
                Some(prefix).filter(|prefix| !prefix.is_empty())
            }

            /// What it says, as a JSON value.
            pub fn to_value(&self) -> serde_json::Value {
                match self {
                    $(Self::$variant(data) => serde_json::to_value(data).unwrap_or_default(),)*
                    Self::Unknown { data, .. } => serde_json::from_str(data).unwrap_or_default(),
                }
            }

            fn data(&self) -> String {
                match self {
                    $(Self::$variant(data) => serde_json::to_string(data).unwrap_or_default(),)*
                    Self::Unknown { data, .. } => data.clone(),
                }
            }

            /// Reads what happened from its JSON.
            pub fn parse(kind: &str, data: &str) -> Result<Self, EventError> {
                match kind {
                    $($kind => serde_json::from_str(data).map(Self::$variant),)*
                    _ => return Err(EventError(format!("unknown kind {kind:?}"))),
                }
                .map_err(|error| EventError(format!("{kind}: {error}")))
            }
        }
    };
}

kinds! {
    /// The session began.
    SessionStarted "session-started" "",
    /// It waits.
    SessionPaused "session-paused" "",
    /// It goes on.
    SessionResumed "session-resumed" "",
    /// It is over.
    SessionEnded "session-ended" "",
    /// The session was set back: the journal goes on as a fork.
    Restored "restored" "",
    /// What the user asked.
    Prompt "prompt" "p",
    /// The agent thought something.
    Thought "thought" "t",
    /// A tool was called, and is done.
    Tool "tool" "x",
    /// A tool was called.
    ToolStarted "tool-started" "x",
    /// A tool that was called is done.
    ToolFinished "tool-finished" "",
    /// A guess.
    Hypothesis "hypothesis" "h",
    /// A guess changed.
    HypothesisUpdated "hypothesis-updated" "",
    /// Something speaks for or against a guess.
    Evidence "evidence" "e",
    /// Something held to be so.
    Belief "belief" "b",
    /// That changed.
    BeliefUpdated "belief-updated" "",
    /// One belief has to do with another.
    BeliefDependency "belief-dependency" "",
    /// Something not known.
    Gap "gap" "g",
    /// It is known now.
    GapFilled "gap-filled" "",
    /// Something was checked.
    Verification "verification" "v",
    /// A way was opened.
    BranchCreated "branch-created" "",
    /// The work goes on on another way.
    BranchSwitched "branch-switched" "",
    /// Two ways became one.
    BranchMerged "branch-merged" "",
    /// Words to keep.
    Note "note" "n",
    /// A command was run.
    Command "command" "c",
    /// A variable of the context has a value.
    ContextSet "context-set" "",
    /// It has none any more.
    ContextUnset "context-unset" "",
    /// An entry of the context's state has a value.
    ContextStateSet "context-state-set" "",
    /// It has none any more.
    ContextStateUnset "context-state-unset" "",
    /// How far the work is.
    Progress "progress" "",
    /// What a request to the model cost.
    Tokens "tokens" "",
    /// The agent's context is about to be, or was, cut.
    Compaction "compaction" "",
    /// Source code was changed.
    Code "code" "",
    /// Two things that cannot both hold were noticed.
    Contradiction "contradiction" "",
    /// They can now.
    ContradictionCleared "contradiction-cleared" "",
    /// A checkpoint was made for the session.
    Checkpoint "checkpoint" "",
    /// A transcript was read up to here.
    Transcript "transcript" "",
    /// The session was kept elsewhere: counts and facts that no other event tells.
    TakenOver "taken-over" "",
}

impl Body {
    /// The tool, the kind of thought, the branch or the variable that it names.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Tool(call) => Some(&call.tool),
            Self::ToolStarted(call) => Some(&call.tool),
            Self::Thought(thought) => Some(&thought.kind),
            Self::BranchCreated(branch) => Some(&branch.name),
            Self::BranchSwitched(branch) => Some(&branch.name),
            Self::BranchMerged(branch) => Some(&branch.name),
            Self::ContextSet(set) | Self::ContextStateSet(set) => Some(&set.key),
            Self::ContextUnset(unset) | Self::ContextStateUnset(unset) => Some(&unset.key),
            _ => None,
        }
    }

    /// The id of what it is about, where that was there before.
    pub fn about(&self) -> Option<&str> {
        match self {
            Self::ToolFinished(done) => Some(&done.of),
            Self::HypothesisUpdated(update) => Some(&update.of),
            Self::Evidence(evidence) => Some(&evidence.hypothesis),
            Self::BeliefUpdated(update) => Some(&update.of),
            Self::BeliefDependency(link) => Some(&link.of),
            Self::GapFilled(filled) => Some(&filled.of),
            Self::Verification(verification) => verification.hypothesis.as_deref(),
            _ => None,
        }
    }
}

/// What each kind of event says.
#[allow(
    missing_docs,
    reason = "the fields are named after what they hold; the guide explains them"
)]
pub mod payload {
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};
    use serde_json::Value;

    use super::super::contradiction::Rule;
    use super::super::session::{SessionId, SessionStatus};
    use super::super::state::{
        Confidence, DependencyKind, HypothesisStatus, Metrics, ProcessId, Progress as ProgressMade,
    };
    use crate::{CheckpointId, Timestamp, WorkspaceId};

    #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
    pub struct SessionStarted {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub workspace: Option<WorkspaceId>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub provider: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub task: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub conversation_id: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub assistant_session_id: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub parent: Option<SessionId>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub process: Option<ProcessId>,
        /// Nobody said so: it is known from its transcript alone.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pub from_transcript: bool,
    }

    #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
    pub struct SessionPaused {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub reason: Option<String>,
    }

    /// A session that goes on may have a new process.
    #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
    pub struct SessionResumed {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub process: Option<ProcessId>,
        /// Its transcript goes on: the one thing that takes up a session that has ended.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pub from_transcript: bool,
    }

    #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
    pub struct SessionEnded {
        pub status: SessionStatus,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub reason: Option<String>,
        /// How its command ended, where `rappel run` watched it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub exit: Option<CommandExit>,
    }

    /// How a command ended.
    #[derive(Debug, Clone, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
    pub struct CommandExit {
        /// Its exit code, if it ended by itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub code: Option<i32>,
        /// The signal that killed it, if one did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub signal: Option<i32>,
        /// How many processes the kernel killed for lack of memory while it ran.
        #[serde(default)]
        pub oom_kills: u64,
        /// The most memory that its processes used together, in bytes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub peak_rss: Option<u64>,
        /// The last lines that it wrote, if the user asked to keep them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub output: Vec<String>,
    }

    /// The first event of a fork: what came before it is `of` up to `to`.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct Restored {
        pub checkpoint: CheckpointId,
        pub of: u32,
        pub to: u64,
        pub status: SessionStatus,
        /// Which restore did it, so that a recovery does it once.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub intent: Option<String>,
        /// A restore, or the undo of one, was taken back: the session is where it was before that.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pub taken_back: bool,
    }

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct Prompt {
        pub text: String,
    }

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct Thought {
        #[serde(rename = "type")]
        pub kind: String,
        #[serde(alias = "text")]
        pub content: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub confidence: Option<Confidence>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub parent: Option<String>,
    }

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct Tool {
        pub tool: String,
        #[serde(default)]
        pub arguments: Value,
        #[serde(default, skip_serializing_if = "Value::is_null")]
        pub result: Value,
        pub success: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub error: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub started_at: Option<Timestamp>,
    }

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct ToolStarted {
        pub tool: String,
        #[serde(default)]
        pub arguments: Value,
        /// Runs on after the agent goes on; nobody waits for it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pub background: bool,
    }

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct ToolFinished {
        pub of: String,
        #[serde(default, skip_serializing_if = "Value::is_null")]
        pub result: Value,
        pub success: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub error: Option<String>,
        /// Nobody told the end; it is only concluded. A real one that is told later counts.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pub presumed: bool,
    }

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct Hypothesis {
        pub text: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub confidence: Option<Confidence>,
        #[serde(default)]
        pub status: HypothesisStatus,
    }

    #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
    pub struct HypothesisUpdated {
        pub of: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub text: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub confidence: Option<Confidence>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub status: Option<HypothesisStatus>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub reason: Option<String>,
    }

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct Evidence {
        pub text: String,
        #[serde(rename = "for")]
        pub hypothesis: String,
        pub supports: bool,
        #[serde(default)]
        pub weight: Confidence,
    }

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct Belief {
        pub text: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub confidence: Option<Confidence>,
    }

    #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
    pub struct BeliefUpdated {
        pub of: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub text: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub confidence: Option<Confidence>,
    }

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct BeliefDependency {
        pub of: String,
        pub on: String,
        #[serde(rename = "as")]
        pub kind: DependencyKind,
    }

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct Gap {
        pub text: String,
    }

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct GapFilled {
        pub of: String,
        pub answer: String,
    }

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct Verification {
        pub text: String,
        pub passed: bool,
        #[serde(rename = "for", default, skip_serializing_if = "Option::is_none")]
        pub hypothesis: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub output: Option<String>,
    }

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct BranchCreated {
        pub name: String,
        /// Whether the work goes on there at once.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pub switch: bool,
    }

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct BranchSwitched {
        pub name: String,
    }

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct BranchMerged {
        pub name: String,
        pub into: String,
    }

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct Note {
        pub text: String,
    }

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct Command {
        pub command: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub exit_code: Option<i32>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub working_dir: Option<String>,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        pub stdout_preview: String,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        pub stderr_preview: String,
    }

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct ContextSet {
        pub key: String,
        pub value: Value,
    }

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct ContextUnset {
        pub key: String,
    }

    /// Says the same of the context's state. A kind of its own: an older build keeps it unread,
    /// and does not take it for a variable.
    pub type ContextStateSet = ContextSet;

    /// Says the same of the context's state.
    pub type ContextStateUnset = ContextUnset;

    #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
    pub struct Progress {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub step_number: Option<u64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub text: Option<String>,
    }

    #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
    pub struct Tokens {
        /// The request they are of: a later count of the same one replaces an earlier, if it is higher.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub message: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub model: Option<String>,
        #[serde(default)]
        pub input: u64,
        #[serde(default)]
        pub output: u64,
        #[serde(default)]
        pub cache_read: u64,
        #[serde(default)]
        pub cache_write: u64,
    }

    #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
    pub struct Compaction {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub text: Option<String>,
    }

    #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
    pub struct Code {
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub paths: Vec<String>,
    }

    #[derive(Debug, Clone, PartialEq, Eq, Hash, JsonSchema, Serialize, Deserialize)]
    pub struct Contradiction {
        pub rule: Rule,
        pub first: String,
        pub second: String,
    }

    #[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
    pub struct ContradictionCleared {
        pub rule: Rule,
        pub first: String,
        pub second: String,
    }

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct Checkpoint {
        pub checkpoint: CheckpointId,
        pub trigger: String,
    }

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct Transcript {
        pub path: String,
        /// How far it was read: `offset`, and `head`, the hash of how it begins.
        pub reader: Value,
    }

    /// Rare and large: other events must not take as much room.
    pub type TakenOver = Box<Facts>;

    /// A field that is left out is empty, except the list: one that is left out stays.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct Facts {
        pub status: SessionStatus,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub provider: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub task: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub conversation_id: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub assistant_session_id: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub started_at: Option<Timestamp>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub ended_at: Option<Timestamp>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub restored_to: Option<CheckpointId>,
        pub metrics: Metrics,
        pub progress: ProgressMade,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub files_touched: Option<Vec<String>>,
        pub ignored: u64,
        pub unknown: u64,
    }
}
