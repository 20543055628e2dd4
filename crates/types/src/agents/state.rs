//! What a session knows: the vocabulary of an agent's reasoning.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::event::payload;
use super::items::{Item, Items, Long, Segment};
use super::session::{SessionId, SessionStatus};
use crate::{CheckpointId, Timestamp, WorkspaceId};

/// The version of [`SessionState`] as it is stored.
pub const STATE_VERSION: u32 = 1;
/// What a stored state begins with; JSON follows.
pub const STATE_MAGIC: &[u8; 4] = b"RSS\x01";
/// The way on which a session begins.
pub const MAIN_BRANCH: &str = "main";

/// How sure something is: from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, JsonSchema, Serialize)]
pub struct Confidence(#[schemars(range(min = 0.0, max = 1.0))] f64);

impl Confidence {
    /// A number from 0 to 1; nothing else is one.
    pub fn new(value: f64) -> Option<Self> {
        (0.0..=1.0).contains(&value).then_some(Self(value))
    }

    /// The number.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl Default for Confidence {
    fn default() -> Self {
        Self(0.5)
    }
}

impl<'de> Deserialize<'de> for Confidence {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = f64::deserialize(deserializer)?;
        Self::new(value)
            .ok_or_else(|| serde::de::Error::custom(format!("{value} is not between 0 and 1")))
    }
}

impl std::str::FromStr for Confidence {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let value: f64 = text.parse().map_err(|_| format!("{text:?} is not a number"))?;
        Self::new(value).ok_or_else(|| format!("{text} is not between 0 and 1"))
    }
}

impl std::fmt::Display for Confidence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$inner:meta])* $variant:ident $text:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        #[allow(missing_docs, reason = "the names say it")]
        pub enum $name { $($(#[$inner])* $variant),* }

        impl $name {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// Its name on the command line and in JSON.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),* }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                let names: Vec<&str> = Self::ALL.iter().map(|one| one.as_str()).collect();
                Self::ALL
                    .iter()
                    .find(|one| one.as_str() == text)
                    .copied()
                    .ok_or_else(|| format!("{text:?} is none of {}", names.join(", ")))
            }
        }
    };
}

words! {
    /// What became of a hypothesis.
    HypothesisStatus { Open "open", Testing "testing", Confirmed "confirmed", Rejected "rejected" }
}
words! {
    /// What one belief has to do with another.
    DependencyKind { Requires "requires", Supports "supports", Contradicts "contradicts" }
}

#[allow(clippy::derivable_impls, reason = "the variants come from a macro")]
impl Default for HypothesisStatus {
    fn default() -> Self {
        Self::Open
    }
}

impl HypothesisStatus {
    /// Whether nobody knows yet.
    pub fn is_open(self) -> bool {
        matches!(self, Self::Open | Self::Testing)
    }
}

/// A process, told from others that had its number before or after.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct ProcessId {
    /// Its number.
    pub pid: u32,
    /// When it began, in the kernel's ticks since boot; 0 if that is not known.
    #[serde(default)]
    pub started: u64,
    /// Which start of the machine that was, as a number made of the kernel's boot id; 0 if that is
    /// not known. Ticks since boot say nothing about another boot.
    #[serde(default, skip_serializing_if = "is_unknown")]
    pub boot: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_unknown(boot: &u64) -> bool {
    *boot == 0
}

/// A hypothesis: something that may be so.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Hypothesis {
    pub id: String,
    pub text: String,
    pub status: HypothesisStatus,
    pub confidence: Confidence,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// Why it has its status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The strongest evidence for it, and its weight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supported_by: Option<(String, Confidence)>,
    /// The strongest evidence against it, and its weight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refuted_by: Option<(String, Confidence)>,
}

/// What speaks for or against a hypothesis.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Evidence {
    pub id: String,
    pub text: String,
    #[serde(rename = "for")]
    pub hypothesis: String,
    pub supports: bool,
    pub weight: Confidence,
    pub created_at: Timestamp,
}

/// Something held to be so.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Belief {
    pub id: String,
    pub text: String,
    pub confidence: Confidence,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// That one belief has to do with another.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct BeliefDependency {
    pub from: String,
    pub to: String,
    #[serde(rename = "type")]
    pub kind: DependencyKind,
}

/// Something not known, or not known once.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Gap {
    pub id: String,
    pub text: String,
    pub filled: bool,
    pub answer: Option<String>,
    pub created_at: Timestamp,
    pub filled_at: Option<Timestamp>,
}

/// Something that was checked.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Verification {
    pub id: String,
    pub text: String,
    pub passed: bool,
    #[serde(rename = "for")]
    pub hypothesis: Option<String>,
    pub output: Option<String>,
    pub created_at: Timestamp,
}

/// A way that was tried.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Branch {
    pub name: String,
    pub from: Option<String>,
    pub created_at: Timestamp,
    pub merged_into: Option<String>,
}

/// Words to keep.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Note {
    pub id: String,
    pub text: String,
    pub created_at: Timestamp,
}

/// A command that was run.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct ExecutedCommand {
    pub id: String,
    pub timestamp: Timestamp,
    pub command: String,
    pub working_dir: Option<String>,
    pub exit_code: Option<i32>,
    pub stdout_preview: String,
    pub stderr_preview: String,
}

/// Something the agent thought.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Thought {
    pub id: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub content: String,
    pub confidence: Option<Confidence>,
    pub parent: Option<String>,
    pub created_at: Timestamp,
}

/// A call of a tool. Without `completed_at` it is running.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct ToolCall {
    pub id: String,
    pub tool: String,
    pub arguments: Value,
    pub result: Value,
    pub success: Option<bool>,
    pub error: Option<String>,
    pub started_at: Timestamp,
    pub completed_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub background: bool,
    /// Its end is only concluded.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub presumed: bool,
}

macro_rules! items {
    ($($kind:ty: $field:ident),* $(,)?) => {$(
        impl Item for $kind {
            fn id(&self) -> &str {
                &self.$field
            }
        }
    )*};
}
items!(Hypothesis: id, Belief: id, Gap: id, Branch: name, ToolCall: id);

/// The variables and the state of an agent's context. Its history is what was said: see
/// [`SessionState::history`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Context {
    /// Values by name.
    #[serde(default)]
    pub variables: BTreeMap<String, Value>,
    /// What the agent's program keeps for itself, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub state: BTreeMap<String, Value>,
}

/// The type of a thought that the agent said to the user.
pub const SAID: &str = "text";

/// Who said something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the names say it")]
pub enum Role {
    User,
    Assistant,
}

/// One thing that was said between the user and the agent.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Message<'a> {
    pub id: &'a str,
    pub role: Role,
    pub content: &'a str,
    pub created_at: Timestamp,
}

/// What tools were called.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolState {
    /// Calls that run.
    #[serde(default, skip_serializing_if = "Items::is_empty")]
    pub running: Items<ToolCall>,
    /// Calls that are done.
    #[serde(default)]
    pub done: Long<ToolCall>,
}

/// How far the work is.
#[derive(Debug, Clone, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Progress {
    pub step_number: u64,
    pub total_thoughts: u64,
    pub total_tool_calls: u64,
    #[serde(default)]
    pub failed_tool_calls: u64,
    #[serde(default)]
    pub tokens: TokenCount,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// What requests to the model cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct TokenCount {
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_write: u64,
}

impl TokenCount {
    /// All of them together.
    pub fn total(self) -> u64 {
        [self.output, self.cache_read, self.cache_write]
            .into_iter()
            .fold(self.input, u64::saturating_add)
    }
}

/// What a session has done so far, by the times of its events.
#[derive(Debug, Clone, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Metrics {
    pub checkpoints_created: u64,
    pub hypotheses_tested: u64,
    pub verifications_run: u64,
    pub gaps_filled: u64,
    /// Milliseconds in which the session was running.
    pub time_in_debugging: u64,
}

/// Two things that cannot both hold.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Contradiction {
    /// Which.
    #[serde(flatten)]
    pub what: payload::Contradiction,
    /// The event that raised it.
    pub event: u64,
}

/// What a session knows after an event of its journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct SessionState {
    pub version: u32,
    pub session: SessionId,
    pub workspace: Option<WorkspaceId>,
    pub provider: Option<String>,
    pub task: Option<String>,
    pub conversation_id: Option<String>,
    pub assistant_session_id: Option<String>,
    pub parent: Option<SessionId>,
    pub process: Option<ProcessId>,
    /// Nobody records it: it is known from its transcript alone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub from_transcript: bool,
    pub status: SessionStatus,
    pub started_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
    /// The fork that this is on, and the last event that it knows.
    pub fork: u32,
    pub event: u64,
    /// The latest time of an event that it knows.
    pub latest_at: Option<Timestamp>,

    #[serde(default, skip_serializing_if = "Items::is_empty")]
    pub hypotheses: Items<Hypothesis>,
    #[serde(default)]
    pub evidence: Long<Evidence>,
    #[serde(default, skip_serializing_if = "Items::is_empty")]
    pub beliefs: Items<Belief>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub belief_dependencies: Vec<BeliefDependency>,
    #[serde(default, skip_serializing_if = "Items::is_empty")]
    pub gaps: Items<Gap>,
    #[serde(default)]
    pub verification_results: Long<Verification>,
    pub current_branch: String,
    pub branches: Items<Branch>,
    #[serde(default)]
    pub notes: Long<Note>,
    #[serde(default)]
    pub command_history: Long<ExecutedCommand>,
    #[serde(default)]
    pub prompts: Long<Note>,
    pub metrics: Metrics,

    #[serde(default)]
    pub thought_chain: Long<Thought>,
    pub context: Context,
    pub tool_state: ToolState,
    pub progress: Progress,

    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub contradictions: Vec<Contradiction>,
    /// The newest checkpoint that was made for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_checkpoint: Option<CheckpointId>,
    /// The checkpoint that it was last set back to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restored_to: Option<CheckpointId>,
    /// Files that were changed, oldest first, each once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files_touched: Vec<String>,
    /// Where the readers of transcripts are.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub transcripts: BTreeMap<String, Value>,
    /// The newest requests whose tokens were counted: a later count replaces an earlier one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) counted: Vec<(String, TokenCount)>,
    /// Events that were illegal when they came: two writers may race.
    #[serde(default)]
    pub ignored: u64,
    /// Events of kinds that this version does not know.
    #[serde(default)]
    pub unknown: u64,
}

impl<'a> Message<'a> {
    fn assistant(thought: &'a Thought) -> Self {
        let Thought { id, content, created_at, .. } = thought;
        Self { id, role: Role::Assistant, content, created_at: *created_at }
    }
}

impl SessionState {
    /// The parts of its long lists that are in the store.
    pub fn segments(&self) -> impl Iterator<Item = &Segment> {
        let Self { evidence, verification_results, notes, command_history, prompts, .. } = self;
        let short = evidence.stored.iter().chain(&verification_results.stored).chain(&notes.stored);
        let rest = command_history.stored.iter().chain(&prompts.stored);
        let long = self.thought_chain.stored.iter().chain(&self.tool_state.done.stored);
        short.chain(rest).chain(long)
    }

    /// What was said, in order: prompts, and the agent's texts. Of the long lists only what is
    /// here counts.
    pub fn history(&self) -> Vec<Message<'_>> {
        let mut texts = self.thought_chain.iter().filter(|one| one.kind == SAID).peekable();
        let mut history = Vec::new();
        for prompt in self.prompts.iter() {
            while let Some(one) = texts.next_if(|one| one.created_at < prompt.created_at) {
                history.push(Message::assistant(one));
            }
            history.push(Message {
                id: &prompt.id,
                role: Role::User,
                content: &prompt.text,
                created_at: prompt.created_at,
            });
        }
        history.extend(texts.map(Message::assistant));
        history
    }

    /// What a session knows before its first event.
    pub fn new(session: SessionId) -> Self {
        Self {
            version: STATE_VERSION,
            session,
            workspace: None,
            provider: None,
            task: None,
            conversation_id: None,
            assistant_session_id: None,
            parent: None,
            process: None,
            from_transcript: false,
            status: SessionStatus::Running,
            started_at: None,
            ended_at: None,
            fork: 0,
            event: 0,
            latest_at: None,
            hypotheses: Items::default(),
            evidence: Long::default(),
            beliefs: Items::default(),
            belief_dependencies: Vec::new(),
            gaps: Items::default(),
            verification_results: Long::default(),
            current_branch: MAIN_BRANCH.to_owned(),
            branches: Items::default(),
            notes: Long::default(),
            command_history: Long::default(),
            prompts: Long::default(),
            metrics: Metrics::default(),
            thought_chain: Long::default(),
            context: Context::default(),
            tool_state: ToolState::default(),
            progress: Progress::default(),
            contradictions: Vec::new(),
            last_checkpoint: None,
            restored_to: None,
            files_touched: Vec::new(),
            transcripts: BTreeMap::new(),
            counted: Vec::new(),
            ignored: 0,
            unknown: 0,
        }
    }
}
