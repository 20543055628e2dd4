//! The arguments of tools.

use rappel::types::Facet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The newest checkpoint.
fn latest() -> String {
    "latest".to_owned()
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Save {
    /// What this moment is, in a few words: "Login works, before the refactoring".
    pub message: Option<String>,
    /// Tags by which to find it again.
    pub tags: Vec<String>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct List {
    /// At most so many, the newest; 20 unless told, 100 at most.
    pub limit: Option<u64>,
    /// Only with this tag.
    pub tag: Option<String>,
    /// Only of this session.
    pub session: Option<String>,
    /// Only those that changed this file, or something in this folder.
    pub path: Option<String>,
    /// Only from this time on: "2 hours ago", "yesterday 14:00", RFC 3339.
    pub since: Option<String>,
    /// Only up to this time.
    pub until: Option<String>,
    /// Also those of single tool calls and of agent state alone.
    pub all: bool,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Show {
    /// Which checkpoint: an id, its beginning, its number, `latest`, `latest~2`, `@{2 hours ago}`.
    #[serde(default = "latest")]
    pub checkpoint: String,
    /// Also list its files.
    #[serde(default)]
    pub files: bool,
    /// Also tell what its sessions knew.
    #[serde(default)]
    pub state: bool,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Diff {
    /// The checkpoint to compare from.
    #[serde(default = "latest")]
    pub from: String,
    /// The checkpoint to compare with; the workspace as it is now if it is left out.
    pub to: Option<String>,
    /// Only these files and folders, relative to the workspace's root.
    #[serde(default)]
    pub paths: Vec<String>,
    /// Name the files without their lines.
    #[serde(default)]
    pub names_only: bool,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Restore {
    /// Which checkpoint: an id, its beginning, its number, `latest`, `latest~2`, `@{2 hours ago}`.
    pub checkpoint: String,
    /// The hash of the plan that you were shown and that is to be done. Without it nothing is
    /// changed, and the answer is the plan.
    pub plan: Option<String>,
    /// Only these files and folders, relative to the workspace's root.
    #[serde(default)]
    pub paths: Vec<String>,
    /// Leave these files and folders as they are.
    #[serde(default)]
    pub except: Vec<String>,
    /// Only these facets.
    #[serde(default)]
    pub only: Vec<FacetName>,
    /// Not these facets.
    #[serde(default)]
    pub skip: Vec<FacetName>,
}

/// A part of a workspace's state.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FacetName {
    Files,
    Git,
    Databases,
    Agents,
    Knowledge,
}

impl From<FacetName> for Facet {
    fn from(name: FacetName) -> Self {
        match name {
            FacetName::Files => Self::Files,
            FacetName::Git => Self::Git,
            FacetName::Databases => Self::Databases,
            FacetName::Agents => Self::Agents,
            FacetName::Knowledge => Self::Knowledge,
        }
    }
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Undo {
    /// Go forward again instead: take back the last undo.
    pub redo: bool,
    /// The hash of the plan that you were shown and that is to be done.
    pub plan: Option<String>,
    /// Also take back files that were edited since.
    pub overwrite: bool,
    /// Only these facets.
    pub only: Vec<FacetName>,
    /// Not these facets.
    pub skip: Vec<FacetName>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct At {
    /// The time: "now", "2 hours ago", "yesterday 14:00", RFC 3339.
    pub when: Option<String>,
    /// As this checkpoint has it.
    pub checkpoint: Option<String>,
    /// After the event with this number of the session's journal.
    pub event: Option<u64>,
    /// As the newest checkpoint with this tag has it.
    pub tag: Option<String>,
    /// The session; yours if it is left out.
    pub session: Option<String>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Recall {
    /// The session; yours if it is left out.
    pub session: Option<String>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Find {
    /// Checkpoints where this tool was called.
    pub tool: Option<String>,
    /// Checkpoints with events that contain this text; case does not matter.
    pub text: Option<String>,
    /// Checkpoints that changed this file, or something in this folder.
    pub path: Option<String>,
    /// Checkpoints with this tag.
    pub tag: Option<String>,
    /// Checkpoints of this session.
    pub session: Option<String>,
    /// At most so many, the newest; 20 unless told, 100 at most.
    pub limit: Option<u64>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Report {
    /// The session; the newest one if it is left out.
    pub session: Option<String>,
}

/// What is recorded, by its kind. Which fields belong to which kind is told with each field.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// What kind of thing it is.
    pub kind: RecordKind,
    /// What there is to say: the thought, hypothesis, evidence, belief, gap, verification or note.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// An existing hypothesis, belief or gap that changes; its id was the answer when it was
    /// recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// evidence, verification: the id of the hypothesis that it is about.
    #[serde(rename = "for", skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// evidence: true if it supports the hypothesis, false if it refutes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supports: Option<bool>,
    /// verification: whether the check passed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub passed: Option<bool>,
    /// hypothesis: `open`, `testing`, `confirmed` or `rejected`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// hypothesis: why it has its status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// thought, hypothesis, belief: how sure, from 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// evidence: how much it weighs, from 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<f64>,
    /// gap: the answer that fills it; with its id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filled: Option<String>,
    /// belief: the id of another belief that it depends on; with its own id and `as`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub depends_on: Option<String>,
    /// belief: `requires`, `supports` or `contradicts`.
    #[serde(rename = "as", skip_serializing_if = "Option::is_none")]
    pub relation: Option<String>,
    /// verification: what it printed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// branch: the name of an approach; context: unused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// branch: also go on with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub switch: Option<bool>,
    /// branch: the approach that it is merged into.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub merge_into: Option<String>,
    /// context: the name of a value to remember.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// context: the value to remember.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
    /// The session; yours if it is left out.
    #[serde(skip_serializing)]
    pub session: Option<String>,
}

#[derive(Debug, Clone, Copy, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RecordKind {
    /// Something you thought that should not be lost.
    Thought,
    /// Something that may be so, and that you will test.
    Hypothesis,
    /// What speaks for or against a hypothesis.
    Evidence,
    /// Something that you hold to be true.
    Belief,
    /// Something that you do not know yet, or the answer to it.
    Gap,
    /// A check, and whether it passed.
    Verification,
    /// A way to solve the task that you try.
    Branch,
    /// A note.
    Note,
    /// A value to remember by its name.
    Context,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Export {
    /// Which checkpoint.
    #[serde(default = "latest")]
    pub checkpoint: String,
    /// The form: `rappel` (one file that holds everything), `lugh`, `loki`, `forge`, `caf` or
    /// `aiwg`.
    pub format: Option<String>,
    /// Where to, relative to the workspace's root. Files that are there are not replaced.
    pub to: Option<String>,
    /// Leave out what looks like a secret.
    #[serde(default)]
    pub redact: bool,
}
