//! A file of forge: a session and its checkpoints, each whole or as what changed. The names are
//! those of forge's types, and enums are spelled as serde spells them. Fields that we do not know
//! are kept beside them.

use rappel_types::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::files::moment;

/// Fields that we do not know.
pub type Extra = Map<String, Value>;

/// The whole file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct File {
    /// The session.
    #[serde(deserialize_with = "text")]
    pub session_id: String,
    /// Its checkpoints, oldest first.
    #[schemars(with = "Vec<Record>")]
    pub checkpoints: Vec<Value>,
    #[serde(flatten)]
    #[allow(missing_docs, reason = "the type says it")]
    pub extra: Extra,
}

/// A checkpoint.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub enum Record {
    /// With everything that was known.
    Full(Box<Full>),
    /// With what changed since another one.
    Delta(Box<Changed>),
}

/// What both have.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Head {
    #[serde(deserialize_with = "text")]
    pub id: String,
    #[schemars(with = "String")]
    pub timestamp: Timestamp,
    #[serde(default)]
    pub sequence: u64,
    #[serde(default)]
    pub message: String,
    #[serde(default)]
    pub tags: Vec<String>,
    /// `"Manual"`, `"Scheduled"` or `{"Automatic": …}`.
    #[serde(default)]
    #[schemars(with = "Trigger")]
    pub trigger: Value,
    /// Our own word for the trigger, where forge has none for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rappel_trigger: Option<String>,
}

/// Why a checkpoint was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Trigger {
    Manual,
    Automatic(AutoTrigger),
    Scheduled,
}

/// What made a checkpoint by itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[allow(missing_docs, reason = "the names say it")]
pub enum AutoTrigger {
    HypothesisStatusChange,
    NewContradictionDetected,
    VerificationComplete,
    BranchSwitch,
    GapFilled,
    CodeModified,
    SignificantTimePassed,
    ContextCompactionWarning,
}

/// A checkpoint with everything that was known.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Full {
    #[serde(flatten)]
    pub head: Head,
    pub state: Snapshot,
    #[serde(flatten)]
    pub extra: Extra,
}

/// A checkpoint with what changed since the one that `from` names.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Changed {
    #[serde(flatten)]
    pub head: Head,
    #[serde(deserialize_with = "text")]
    pub from: String,
    pub delta: Delta,
    #[serde(flatten)]
    pub extra: Extra,
}

/// Everything that was known.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Snapshot {
    #[serde(default, deserialize_with = "text")]
    pub session_id: String,
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub started_at: Option<Timestamp>,
    #[serde(default)]
    pub hypotheses: Vec<Hypothesis>,
    #[serde(default)]
    pub evidence: Vec<Evidence>,
    #[serde(default)]
    pub beliefs: Vec<Belief>,
    /// Which belief, on which, and how.
    #[serde(default)]
    pub belief_dependencies: Vec<(String, String, String)>,
    #[serde(default)]
    pub gaps: Vec<Gap>,
    #[serde(default)]
    pub verification_results: Vec<Verification>,
    #[serde(default, deserialize_with = "text")]
    pub current_branch: String,
    #[serde(default)]
    pub branches: Vec<Branch>,
    #[serde(default)]
    pub notes: Vec<Note>,
    #[serde(default)]
    pub code_changes: Option<Value>,
    #[serde(default)]
    pub command_history: Vec<Command>,
    #[serde(default)]
    pub metrics: Metrics,
    #[serde(flatten)]
    pub extra: Extra,
}

/// What changed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Delta {
    #[serde(default, deserialize_with = "text")]
    pub from_checkpoint: String,
    #[serde(default)]
    pub hypothesis_changes: Vec<HypothesisChange>,
    #[serde(default)]
    pub belief_changes: Vec<BeliefChange>,
    #[serde(default)]
    pub new_evidence: Vec<Evidence>,
    #[serde(default)]
    pub new_verifications: Vec<Verification>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// A change of a hypothesis.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[allow(missing_docs, reason = "the names say it")]
pub enum HypothesisChange {
    Added(Hypothesis),
    Updated { id: String, field: String, old: String, new: String },
    StatusChanged { id: String, old: String, new: String },
    ConfidenceChanged { id: String, old: f64, new: f64 },
}

/// A change of a belief.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[allow(missing_docs, reason = "the names say it")]
pub enum BeliefChange {
    Added(Belief),
    Updated { id: String, field: String, old: String, new: String },
    ConfidenceChanged { id: String, old: f64, new: f64 },
}

/// A hypothesis. Forge does not document its fields: these are ours, with other names that are
/// understood.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Hypothesis {
    #[serde(deserialize_with = "text")]
    pub id: String,
    #[serde(default, alias = "statement", alias = "description", alias = "content")]
    pub text: String,
    #[serde(default, deserialize_with = "text")]
    pub status: String,
    #[serde(default, alias = "current_confidence")]
    pub confidence: Option<f64>,
    #[serde(default, deserialize_with = "time")]
    #[schemars(with = "Option<String>")]
    pub created_at: Option<Timestamp>,
    #[serde(default, deserialize_with = "time")]
    #[schemars(with = "Option<String>")]
    pub updated_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// What speaks for or against a hypothesis.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Evidence {
    #[serde(deserialize_with = "text")]
    pub id: String,
    #[serde(default, alias = "description", alias = "content")]
    pub text: String,
    #[serde(default, deserialize_with = "text", alias = "hypothesis")]
    pub hypothesis_id: String,
    #[serde(default = "yes")]
    pub supports: bool,
    #[serde(default, alias = "strength")]
    pub weight: Option<f64>,
    #[serde(default, deserialize_with = "time", alias = "timestamp")]
    #[schemars(with = "Option<String>")]
    pub created_at: Option<Timestamp>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// Something held to be so.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Belief {
    #[serde(deserialize_with = "text")]
    pub id: String,
    #[serde(default, alias = "statement", alias = "description", alias = "content")]
    pub text: String,
    #[serde(default)]
    pub confidence: Option<f64>,
    #[serde(default, deserialize_with = "time")]
    #[schemars(with = "Option<String>")]
    pub created_at: Option<Timestamp>,
    #[serde(default, deserialize_with = "time")]
    #[schemars(with = "Option<String>")]
    pub updated_at: Option<Timestamp>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// Something not known, or not known once.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Gap {
    #[serde(deserialize_with = "text")]
    pub id: String,
    #[serde(default, alias = "description", alias = "question", alias = "content")]
    pub text: String,
    #[serde(default, alias = "resolved")]
    pub filled: bool,
    #[serde(default, alias = "resolution")]
    pub answer: Option<String>,
    #[serde(default, deserialize_with = "time")]
    #[schemars(with = "Option<String>")]
    pub created_at: Option<Timestamp>,
    #[serde(default, deserialize_with = "time", alias = "resolved_at")]
    #[schemars(with = "Option<String>")]
    pub filled_at: Option<Timestamp>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// Something that was checked.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Verification {
    #[serde(default, deserialize_with = "text")]
    pub id: String,
    #[serde(default, alias = "name", alias = "description")]
    pub text: String,
    #[serde(default)]
    pub passed: bool,
    #[serde(default, alias = "hypothesis")]
    pub hypothesis_id: Option<String>,
    #[serde(default)]
    pub output: Option<String>,
    #[serde(default, deserialize_with = "time", alias = "timestamp")]
    #[schemars(with = "Option<String>")]
    pub created_at: Option<Timestamp>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// An approach.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Branch {
    #[serde(deserialize_with = "text")]
    pub id: String,
    #[serde(default)]
    pub name: Option<String>,
    #[serde(default, alias = "parent")]
    pub from: Option<String>,
    #[serde(default, deserialize_with = "time")]
    #[schemars(with = "Option<String>")]
    pub created_at: Option<Timestamp>,
    #[serde(default)]
    pub merged_into: Option<String>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// A note.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Note {
    #[serde(default, deserialize_with = "text")]
    pub id: String,
    #[serde(default, deserialize_with = "time", alias = "created_at")]
    #[schemars(with = "Option<String>")]
    pub timestamp: Option<Timestamp>,
    #[serde(default, alias = "text")]
    pub content: String,
    #[serde(flatten)]
    pub extra: Extra,
}

/// A command that was run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Command {
    #[serde(default, deserialize_with = "time")]
    #[schemars(with = "Option<String>")]
    pub timestamp: Option<Timestamp>,
    #[serde(default)]
    pub command: String,
    #[serde(default)]
    pub working_dir: String,
    #[serde(default)]
    pub exit_code: i32,
    #[serde(default)]
    pub stdout_preview: String,
    #[serde(default)]
    pub stderr_preview: String,
    /// Ours: forge's commands have no ids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// What the session has done so far.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Metrics {
    #[serde(default)]
    pub checkpoints_created: u64,
    #[serde(default)]
    pub hypotheses_tested: u64,
    #[serde(default)]
    pub verifications_run: u64,
    #[serde(default)]
    pub gaps_filled: u64,
    /// As serde spells a duration; a number is read as seconds.
    #[serde(default, deserialize_with = "duration")]
    pub time_in_debugging: Duration,
    #[serde(flatten)]
    pub extra: Extra,
}

/// A duration.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Duration {
    pub secs: u64,
    pub nanos: u32,
}

impl Duration {
    pub(super) fn from_millis(millis: u64) -> Self {
        Self { secs: millis / 1_000, nanos: (millis % 1_000) as u32 * 1_000_000 }
    }

    pub(super) fn as_millis(self) -> u64 {
        self.secs.saturating_mul(1_000).saturating_add(u64::from(self.nanos / 1_000_000))
    }
}

/// A text. Ids may be numbers elsewhere.
fn text<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    match Value::deserialize(from)? {
        Value::String(text) => Ok(text),
        Value::Number(number) => Ok(number.to_string()),
        Value::Null => Ok(String::new()),
        // A variant that says more: its name.
        Value::Object(fields) if fields.len() == 1 => {
            Ok(fields.keys().next().cloned().unwrap_or_default())
        }
        other => Err(serde::de::Error::custom(format!("{other} is not a text"))),
    }
}

fn time<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Timestamp>, D::Error> {
    Ok(moment(&Value::deserialize(from)?))
}

fn duration<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let value = Value::deserialize(from)?;
    let number = |value: &Value| value.as_u64();
    Ok(match &value {
        Value::Number(seconds) => {
            Duration::from_millis((seconds.as_f64().unwrap_or_default().max(0.0) * 1e3) as u64)
        }
        Value::Array(parts) => Duration {
            secs: parts.first().and_then(number).unwrap_or_default(),
            nanos: nanos(parts.get(1)),
        },
        Value::Object(_) => Duration {
            secs: value.get("secs").and_then(number).unwrap_or_default(),
            nanos: nanos(value.get("nanos")),
        },
        _ => Duration::default(),
    })
}

fn nanos(of: Option<&Value>) -> u32 {
    of.and_then(Value::as_u64).and_then(|nanos| u32::try_from(nanos).ok()).unwrap_or_default()
}

/// Evidence that does not say what it speaks for speaks for its hypothesis.
fn yes() -> bool {
    true
}
