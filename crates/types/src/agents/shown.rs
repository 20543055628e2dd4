//! What a session knew, as JSON for people and programs, and back.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::state::{
    Belief, BeliefDependency, Branch, Contradiction, Evidence, ExecutedCommand, Gap, Hypothesis,
    Message, Metrics, Note, Progress, Role, Thought, Verification,
};
use super::{List, Long, SessionId, SessionState, SessionStatus, ToolCall};
use crate::{CheckpointId, Timestamp};

/// What a session knew, as answers show it. Of a long list only the newest items may be here;
/// `omitted` counts the older ones.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct ShownState {
    /// The session.
    pub session_id: SessionId,
    /// Whether it runs, is paused or has ended.
    pub status: SessionStatus,
    /// The agent: `claude`, `codex`, `gemini` and so on.
    pub provider: Option<String>,
    /// The task that it was started for.
    pub task: Option<String>,
    /// When it began.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// The checkpoint that it was last set back to.
    pub restored_to: Option<CheckpointId>,
    /// Hypotheses, oldest first.
    pub hypotheses: List<Hypothesis>,
    /// Evidence for and against hypotheses.
    pub evidence: List<Evidence>,
    /// What the agent holds to be true.
    pub beliefs: List<Belief>,
    /// How beliefs depend on each other.
    pub belief_dependencies: Vec<BeliefDependency>,
    /// What the agent does not know yet, and what it found out.
    pub gaps: List<Gap>,
    /// Checks, and whether they passed.
    pub verification_results: List<Verification>,
    /// Things that cannot both hold.
    pub contradictions: Vec<Contradiction>,
    /// The approach that is being tried.
    pub current_branch: String,
    /// Every approach that was tried.
    pub branches: List<Branch>,
    /// Notes.
    pub notes: List<Note>,
    /// Commands that were run.
    pub command_history: List<ExecutedCommand>,
    /// What the session has done so far, in numbers.
    pub metrics: Metrics,
    /// What the user asked for.
    pub prompts: List<Note>,
    /// Thoughts, oldest first.
    pub thought_chain: List<Thought>,
    /// Variables, state and what was said.
    pub context: ShownContext,
    /// Tool calls and their results.
    pub tool_state: ShownTools,
    /// How far the work is.
    pub progress: Progress,
    /// Files that the session changed, oldest first, each once.
    pub files_touched: Vec<String>,
    /// Events that were not taken because they were illegal when they came.
    pub ignored_events: u64,
    /// Events of kinds that this version does not know.
    pub unknown_events: u64,
    /// How many older items of each list are not here.
    pub omitted: BTreeMap<String, u64>,
}

/// An agent's context.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct ShownContext {
    /// Values by name.
    pub variables: BTreeMap<String, Value>,
    /// What the agent's program keeps for itself, by name.
    pub state: BTreeMap<String, Value>,
    /// What the user and the agent said.
    pub history: Vec<ShownMessage>,
}

/// One thing that was said between the user and the agent.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct ShownMessage {
    /// Its id within the session.
    pub id: String,
    /// Who said it.
    pub role: Role,
    /// The text.
    pub content: String,
    /// When.
    pub created_at: Timestamp,
}

/// Tool calls.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct ShownTools {
    /// Finished calls, then running ones.
    pub calls: List<ToolCall>,
    /// The results of the finished calls, by the call's id.
    pub results: BTreeMap<String, ToolResult>,
}

/// How a tool call ended.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct ToolResult {
    /// Whether it succeeded; null if nobody said so.
    pub success: Option<bool>,
    /// What it answered.
    pub result: Value,
    /// Why it failed.
    pub error: Option<String>,
}

impl From<&SessionState> for ShownState {
    fn from(state: &SessionState) -> Self {
        let mut omitted = BTreeMap::new();
        let evidence = list("evidence", &state.evidence, &mut omitted);
        let verification_results =
            list("verification_results", &state.verification_results, &mut omitted);
        let notes = list("notes", &state.notes, &mut omitted);
        let command_history = list("command_history", &state.command_history, &mut omitted);
        let prompts = list("prompts", &state.prompts, &mut omitted);
        let thought_chain = list("thought_chain", &state.thought_chain, &mut omitted);
        let done = list("tool_state", &state.tool_state.done, &mut omitted);
        let result = |call: &ToolCall| ToolResult {
            success: call.success,
            result: call.result.clone(),
            error: call.error.clone(),
        };
        let results = done.iter().map(|call| (call.id.clone(), result(call))).collect();
        Self {
            session_id: state.session.clone(),
            status: state.status,
            provider: state.provider.clone(),
            task: state.task.clone(),
            started_at: state.started_at,
            ended_at: state.ended_at,
            restored_to: state.restored_to.clone(),
            hypotheses: (&state.hypotheses).into(),
            evidence,
            beliefs: (&state.beliefs).into(),
            belief_dependencies: state.belief_dependencies.clone(),
            gaps: (&state.gaps).into(),
            verification_results,
            contradictions: state.contradictions.clone(),
            current_branch: state.current_branch.clone(),
            branches: (&state.branches).into(),
            notes,
            command_history,
            metrics: state.metrics.clone(),
            prompts,
            thought_chain,
            context: ShownContext {
                variables: state.context.variables.clone(),
                state: state.context.state.clone(),
                history: state.history().iter().map(ShownMessage::from).collect(),
            },
            tool_state: ShownTools { calls: done.then(&state.tool_state.running), results },
            progress: state.progress.clone(),
            files_touched: state.files_touched.clone(),
            ignored_events: state.ignored,
            unknown_events: state.unknown,
            omitted,
        }
    }
}

impl From<&Message<'_>> for ShownMessage {
    fn from(message: &Message<'_>) -> Self {
        Self {
            id: message.id.to_owned(),
            role: message.role,
            content: message.content.to_owned(),
            created_at: message.created_at,
        }
    }
}

/// The JSON of a [`ShownState`].
pub fn state_json(state: &SessionState) -> Value {
    value(&ShownState::from(state))
}

fn value(of: &impl Serialize) -> Value {
    serde_json::to_value(of).unwrap_or_default()
}

fn list<T>(name: &str, of: &Long<T>, omitted: &mut BTreeMap<String, u64>) -> List<T> {
    let stored = of.stored_count();
    if stored > 0 {
        omitted.insert(name.to_owned(), stored);
    }
    of.into()
}

/// The long lists of a state: in its JSON they are arrays.
const LONG: [&str; 6] =
    ["evidence", "verification_results", "notes", "command_history", "prompts", "thought_chain"];
/// What stands in the JSON of a state as it is stored.
const SAME: [&str; 17] = [
    "status",
    "provider",
    "task",
    "started_at",
    "ended_at",
    "restored_to",
    "hypotheses",
    "beliefs",
    "belief_dependencies",
    "gaps",
    "contradictions",
    "current_branch",
    "branches",
    "metrics",
    "progress",
    "files_touched",
    "context",
];

/// The state that [`state_json`] wrote, and the keys whose values are none of a state's. Where the
/// session's journal stood is not in the JSON.
pub fn state_from_json(session: SessionId, json: &Value) -> (SessionState, Vec<String>) {
    let mut state = SessionState::new(session);
    let mut unread = Vec::new();
    let Value::Object(empty) = value(&state) else { return (state, unread) };
    let mut whole = empty.clone();
    let mut take = |key: &str, name: &str, found: Value| {
        let mut alone = empty.clone();
        alone.insert(name.to_owned(), found.clone());
        match serde_json::from_value::<SessionState>(Value::Object(alone)) {
            Ok(_) => drop(whole.insert(name.to_owned(), found)),
            Err(_) => unread.push(key.to_owned()),
        }
    };
    let given = |key: &str| json.get(key).filter(|found| !found.is_null());
    for key in SAME {
        if let Some(found) = given(key) {
            take(key, key, found.clone());
        }
    }
    for key in LONG {
        if let Some(found) = given(key) {
            take(key, key, json!({"recent": found}));
        }
    }
    if let Some(found) = given("tool_state") {
        let calls = found.get("calls").cloned().unwrap_or_else(|| json!([]));
        match serde_json::from_value::<Vec<ToolCall>>(calls) {
            Ok(calls) => {
                let (done, running): (Vec<ToolCall>, Vec<ToolCall>) =
                    calls.into_iter().partition(|call| call.completed_at.is_some());
                let found = json!({"running": running, "done": {"recent": done}});
                take("tool_state", "tool_state", found);
            }
            Err(_) => unread.push("tool_state".to_owned()),
        }
    }
    if let Ok(found) = serde_json::from_value(Value::Object(whole)) {
        state = found;
    }
    (state, unread)
}

#[cfg(test)]
mod tests {
    use super::super::{Event, NewEvent};
    use super::*;

    fn id() -> SessionId {
        "s".parse().unwrap()
    }

    #[test]
    fn a_state_survives_its_json() {
        let lines = [
            r#"{"kind": "hypothesis", "id": "h", "text": "it is the cache", "confidence": 0.6}"#,
            r#"{"kind": "evidence", "text": "cold runs pass", "for": "h", "supports": true}"#,
            r#"{"kind": "note", "text": "look again"}"#,
            r#"{"kind": "thought", "text": "hm"}"#,
            r#"{"kind": "gap", "id": "g", "text": "which cache?"}"#,
        ];
        let mut state = SessionState::new(id());
        for (at, line) in lines.into_iter().enumerate() {
            let number = at as u64 + 1;
            let NewEvent { body, id, .. } = NewEvent::parse(line).unwrap();
            let at = crate::Timestamp::from_millis(1_700_000_000_000 + number as i64);
            let id = id.or_else(|| Some(format!("x{number}")));
            state.apply(&Event { number, fork: 0, at, id, body });
        }
        assert_eq!((state.hypotheses.len(), state.notes.len(), state.evidence.len()), (1, 1, 1));
        let (back, unread) = state_from_json(id(), &state_json(&state));
        assert_eq!(unread, Vec::<String>::new());
        assert_eq!(state_json(&back), {
            let mut shown = state_json(&state);
            shown["ignored_events"] = 0.into();
            shown
        });
    }

    #[test]
    fn what_is_no_part_of_a_state_is_named_and_the_rest_taken() {
        let json = json!({
            "task": "mend it", "hypotheses": "none", "notes": [{"id": 1}], "gaps": null,
            "tool_state": {"calls": [{"id": "c"}]}, "invented": true, "status": "paused",
        });
        let (state, unread) = state_from_json(id(), &json);
        assert_eq!(state.task.as_deref(), Some("mend it"));
        assert_eq!(state.status, super::super::SessionStatus::Paused);
        assert_eq!(unread, ["hypotheses", "notes", "tool_state"]);
        assert_eq!(state_from_json(id(), &json!([])).0, SessionState::new(id()));
    }
}
