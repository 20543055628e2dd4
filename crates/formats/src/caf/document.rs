//! A checkpoint of CAF as its file has it. The fields stand in the order in which that tool
//! documents them, and serde keeps it. Fields that we do not know are kept beside them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::files::moment;

/// The version that we read and write.
pub const VERSION: &str = "0.0.1";

/// Fields that we do not know.
pub type Extra = Map<String, Value>;

/// One checkpoint.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Checkpoint {
    /// The version of this shape.
    pub version: String,
    /// Its id, which is also the name of its file.
    pub id: String,
    /// When it was made, in milliseconds since the epoch.
    #[serde(deserialize_with = "millis")]
    pub timestamp: i64,
    /// The run that it belongs to.
    #[serde(default = "unknown")]
    pub execution_id: String,
    /// The agent that ran.
    #[serde(default = "unknown")]
    pub agent_id: String,
    /// What was known.
    pub snapshot: Snapshot,
    /// Why and when in the run it was made.
    #[serde(default)]
    pub metadata: Metadata,
    #[serde(flatten)]
    #[allow(missing_docs, reason = "the type says it")]
    pub extra: Extra,
}

/// What was known.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Snapshot {
    #[serde(default)]
    pub thought_chain: Vec<Thought>,
    #[serde(default)]
    pub context: Context,
    #[serde(default)]
    pub tool_state: ToolState,
    #[serde(default)]
    pub progress: Progress,
    #[serde(flatten)]
    pub extra: Extra,
}

/// Something the agent thought.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Thought {
    #[serde(default)]
    pub id: String,
    #[serde(rename = "type", default = "reasoning")]
    pub kind: String,
    #[serde(default)]
    pub content: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "millis_opt")]
    pub created_at: Option<i64>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// Variables, state and history.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Context {
    #[serde(default)]
    pub variables: BTreeMap<String, Value>,
    #[serde(default)]
    pub state: BTreeMap<String, Value>,
    /// What was said. Entries that we write have `id`, `role`, `content` and `timestamp`.
    #[serde(default)]
    pub history: Vec<Value>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// What tools were called.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolState {
    /// Each call.
    #[serde(default)]
    pub calls: Vec<Call>,
    /// How calls ended, by id: `success`, `result` and `error`.
    #[serde(default)]
    pub results: BTreeMap<String, Value>,
    #[serde(flatten)]
    #[allow(missing_docs, reason = "the type says it")]
    pub extra: Extra,
}

/// A call of a tool. The names are those of the table `tool_calls`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Call {
    #[serde(default)]
    pub id: String,
    #[serde(default, alias = "tool", alias = "name")]
    pub tool_id: String,
    #[serde(default, alias = "arguments", alias = "input")]
    pub args: Value,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "millis_opt")]
    pub started_at: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "millis_opt")]
    pub completed_at: Option<i64>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// How far the run is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Progress {
    #[serde(default)]
    pub step_number: u64,
    #[serde(default)]
    pub total_thoughts: u64,
    #[serde(default)]
    pub total_tool_calls: u64,
    #[serde(flatten)]
    pub extra: Extra,
}

/// Why and when in the run a checkpoint was made.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Metadata {
    #[serde(default)]
    pub step_number: u64,
    #[serde(default)]
    pub tokens_used: u64,
    #[serde(default)]
    pub duration_ms: u64,
    #[serde(default)]
    pub checkpoint_reason: String,
    #[serde(flatten)]
    pub extra: Extra,
}

fn unknown() -> String {
    crate::sessions::UNKNOWN.into()
}

fn reasoning() -> String {
    "reasoning".into()
}

fn millis<'de, D: Deserializer<'de>>(from: D) -> Result<i64, D::Error> {
    millis_opt(from)?.ok_or_else(|| serde::de::Error::custom("a time is needed"))
}

fn millis_opt<'de, D: Deserializer<'de>>(from: D) -> Result<Option<i64>, D::Error> {
    let value = Value::deserialize(from)?;
    match (moment(&value), &value) {
        (_, Value::Null) => Ok(None),
        (Some(moment), _) => Ok(Some(moment.as_millis())),
        (None, _) => Err(serde::de::Error::custom(format!("{value} is not a time"))),
    }
}
