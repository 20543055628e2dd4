//! What a session knew, from a checkpoint of CAF and as one.

use std::collections::{HashMap, HashSet};

use rappel_types::agents::{
    Confidence, Note, SAID, SessionState, SessionStatus, Thought, TokenCount, ToolCall, legal,
};
use rappel_types::{Timestamp, Trigger};
use serde_json::{Map, Value, json};

use super::document::{self, Call, Checkpoint, Context, Metadata, Progress, Snapshot, ToolState};
use crate::files::moment;
use crate::portable::Portable;
use crate::sessions::{self, UNKNOWN};
use crate::triggers;

/// Times that a document does not tell: what a history has first in a checkpoint was there when
/// that was made, and keeps this time in the later ones.
#[derive(Debug, Default)]
pub(super) struct Times(HashMap<(String, &'static str, String), Timestamp>);

impl Times {
    fn of(
        &mut self,
        (run, kind, id): (&str, &'static str, &str),
        given: Option<i64>,
        otherwise: Timestamp,
    ) -> Timestamp {
        match given {
            Some(millis) => Timestamp::from_millis(millis),
            None => *self.0.entry((run.into(), kind, id.into())).or_insert(otherwise),
        }
    }
}

/// What the session of a checkpoint knew.
pub(super) fn state_of(document: &Checkpoint, trigger: Trigger, times: &mut Times) -> SessionState {
    let Checkpoint { snapshot, metadata, .. } = document;
    let at = Timestamp::from_millis(document.timestamp);
    let run = document.execution_id.as_str();
    let mut state = SessionState::new(sessions::name(run));
    state.provider = Some(document.agent_id.clone()).filter(|agent| agent != UNKNOWN);
    state.latest_at = Some(at);
    let began = document.timestamp.checked_sub_unsigned(metadata.duration_ms);
    let began = began.and_then(|began| moment(&began.into()));
    state.started_at = began.filter(|_| metadata.duration_ms > 0);
    state.status = match trigger {
        Trigger::Paused => SessionStatus::Paused,
        Trigger::ExecutionCompleted => SessionStatus::Completed,
        _ => SessionStatus::Running,
    };
    if !state.status.is_live() {
        state.ended_at = Some(at);
    }
    state.context.variables.clone_from(&snapshot.context.variables);
    state.context.state.clone_from(&snapshot.context.state);
    let task = snapshot.context.variables.get("task").and_then(Value::as_str);
    let texts = take_history(document, &mut state, times);
    let first = state.prompts.iter().next().map(|prompt| prompt.text.clone());
    state.task = task.map(str::to_owned).or(first);
    take_thoughts(document, texts, &mut state, times);
    take_calls(document, &mut state, times);
    state.progress.step_number = snapshot.progress.step_number;
    state.progress.total_tool_calls = snapshot.progress.total_tool_calls;
    state.progress.tokens = TokenCount { input: metadata.tokens_used, ..TokenCount::default() };
    legal(&state)
}

/// Takes prompts; gives the agent's texts. What others said has no place.
fn take_history(
    document: &Checkpoint,
    state: &mut SessionState,
    times: &mut Times,
) -> Vec<Thought> {
    let history = &document.snapshot.context.history;
    let chain = document.snapshot.thought_chain.iter().filter(|one| one.kind == SAID);
    let in_chain: HashSet<&str> = chain.map(|one| one.id.as_str()).collect();
    let mut texts = Vec::new();
    let mut last: Option<(Timestamp, bool)> = None;
    for (place, message) in history.iter().enumerate() {
        let user = match message.get("role").and_then(Value::as_str) {
            Some("user" | "human") => true,
            Some("assistant" | "agent" | "ai") => false,
            _ => continue,
        };
        let Some(content) = text_of(message.get("content")) else { continue };
        let id = match message.get("id").and_then(Value::as_str) {
            Some(id) if !id.is_empty() => id.to_owned(),
            _ => format!("msg-{}", place + 1),
        };
        let given = ["timestamp", "created_at"].iter().find_map(|name| message.get(*name));
        let given = given.and_then(moment).map(Timestamp::as_millis);
        // In their order, and the last of them when the checkpoint was made.
        let behind = (history.len() - place - 1) as i64;
        let otherwise = Timestamp::from_millis(document.timestamp.saturating_sub(behind));
        let mut at = times.of((&document.execution_id, "message", &id), given, otherwise);
        if let Some((before, by_user)) = last {
            // A prompt at the same time as a text comes before it.
            let after = i64::from(user && !by_user);
            at = at.max(Timestamp::from_millis(before.as_millis().saturating_add(after)));
        }
        last = Some((at, user));
        if user {
            state.prompts.push(Note { id, text: content, created_at: at });
        } else if !in_chain.contains(id.as_str()) {
            let kind = SAID.to_owned();
            texts.push(Thought {
                id,
                kind,
                content,
                confidence: None,
                parent: None,
                created_at: at,
            });
        }
    }
    texts
}

/// The text of a message: as it is, or in parts.
fn text_of(content: Option<&Value>) -> Option<String> {
    match content? {
        Value::String(text) => Some(text.clone()),
        Value::Array(parts) => {
            let texts = parts.iter().filter_map(|part| part.get("text").and_then(Value::as_str));
            let texts: Vec<&str> = texts.collect();
            (!texts.is_empty()).then(|| texts.join("\n"))
        }
        _ => None,
    }
}

fn take_thoughts(
    document: &Checkpoint,
    texts: Vec<Thought>,
    state: &mut SessionState,
    times: &mut Times,
) {
    let at = Timestamp::from_millis(document.timestamp);
    let chain = &document.snapshot.thought_chain;
    state.progress.total_thoughts =
        document.snapshot.progress.total_thoughts.saturating_add(texts.len() as u64);
    let mut thoughts = Vec::with_capacity(chain.len() + texts.len());
    for (place, one) in chain.iter().enumerate() {
        let id = match one.id.as_str() {
            "" => format!("thought-{}", place + 1),
            id => id.to_owned(),
        };
        let created_at = times.of((&document.execution_id, "thought", &id), one.created_at, at);
        thoughts.push(Thought {
            id,
            kind: one.kind.clone(),
            content: one.content.clone(),
            confidence: one.confidence.and_then(Confidence::new),
            parent: one.parent_id.clone(),
            created_at,
        });
    }
    // The chain keeps its order; a text stands behind the last thought that is older.
    let mut texts = texts.into_iter().peekable();
    for thought in thoughts {
        while let Some(text) = texts.next_if(|text| text.created_at < thought.created_at) {
            state.thought_chain.push(text);
        }
        state.thought_chain.push(thought);
    }
    for text in texts {
        state.thought_chain.push(text);
    }
}

fn take_calls(document: &Checkpoint, state: &mut SessionState, times: &mut Times) {
    let at = Timestamp::from_millis(document.timestamp);
    let tools = &document.snapshot.tool_state;
    let mut done = Vec::new();
    for (place, call) in tools.calls.iter().enumerate() {
        let id = match call.id.as_str() {
            "" => format!("call-{}", place + 1),
            id => id.to_owned(),
        };
        let run = document.execution_id.as_str();
        let started_at = times.of((run, "call", &id), call.started_at, at);
        let flag = |name: &str| call.extra.get(name) == Some(&Value::Bool(true));
        let ended = outcome(call, tools.results.get(&id));
        let ended = ended.or_else(|| call.completed_at.map(|_| (true, Value::Null, None)));
        let mut known = ToolCall {
            id,
            tool: call.tool_id.clone(),
            arguments: call.args.clone(),
            result: Value::Null,
            success: None,
            error: None,
            started_at,
            completed_at: None,
            background: flag("background"),
            presumed: flag("presumed"),
        };
        let Some((success, result, error)) = ended else {
            state.tool_state.running.add(known);
            continue;
        };
        let end = times.of((run, "end", &known.id), call.completed_at, at.max(started_at));
        (known.success, known.result, known.error) = (Some(success), result, error);
        known.completed_at = Some(end);
        state.progress.failed_tool_calls += u64::from(!success);
        done.push(known);
    }
    // In the order in which they ended: that is how the list grows.
    done.sort_by_key(|call| call.completed_at);
    for call in done {
        state.tool_state.done.push(call);
    }
}

type Outcome = (bool, Value, Option<String>);

/// How a call ended, from its result, or from its own fields.
fn outcome(call: &Call, result: Option<&Value>) -> Option<Outcome> {
    let told = |fields: &Map<String, Value>| {
        let success = fields.get("success");
        let success = success
            .and_then(|value| value.as_bool().or_else(|| value.as_i64().map(|number| number != 0)));
        let error = match fields.get("error") {
            None | Some(Value::Null) => None,
            Some(Value::String(error)) => Some(error.clone()),
            Some(other) => Some(other.to_string()),
        };
        let result = fields.get("result").cloned();
        (success, result, error)
    };
    if let Some(result) = result {
        let (success, value, error) = result.as_object().map(told).unwrap_or_default();
        let is_outcome = success.is_some() || value.is_some() || error.is_some();
        let value = if is_outcome { value.unwrap_or_default() } else { result.clone() };
        return Some((success.unwrap_or(error.is_none()), value, error));
    }
    let (success, value, error) = told(&call.extra);
    let status = call.extra.get("status").and_then(Value::as_str);
    let ended = matches!(status, Some("completed" | "failed"));
    (success.is_some() || value.is_some() || error.is_some() || ended).then(|| {
        let fallback = error.is_none() && status != Some("failed");
        (success.unwrap_or(fallback), value.unwrap_or_default(), error)
    })
}

/// A checkpoint of any form as one of CAF.
pub(super) fn document_of(checkpoint: &Portable) -> Checkpoint {
    let session = sessions::told(checkpoint);
    let nothing = SessionState::new(sessions::name(UNKNOWN));
    let state = session.map_or(&nothing, |session| &session.state);
    let millis = |at: Timestamp| Some(at.as_millis());
    let mut snapshot = Snapshot {
        thought_chain: Vec::new(),
        context: Context {
            variables: state.context.variables.clone(),
            state: state.context.state.clone(),
            history: state
                .history()
                .iter()
                .map(|one| {
                    json!({
                        "id": one.id,
                        "role": one.role,
                        "content": one.content,
                        "timestamp": one.created_at.as_millis(),
                    })
                })
                .collect(),
            extra: Map::new(),
        },
        tool_state: tools_of(state),
        progress: Progress {
            step_number: state.progress.step_number,
            total_thoughts: 0,
            total_tool_calls: state.progress.total_tool_calls,
            extra: Map::new(),
        },
        extra: Map::new(),
    };
    for one in state.thought_chain.iter().filter(|one| one.kind != SAID) {
        snapshot.thought_chain.push(document::Thought {
            id: one.id.clone(),
            kind: one.kind.clone(),
            content: one.content.clone(),
            confidence: one.confidence.map(Confidence::get),
            parent_id: one.parent.clone(),
            created_at: millis(one.created_at),
            extra: Map::new(),
        });
    }
    let texts = state.thought_chain.recent.len() - snapshot.thought_chain.len();
    snapshot.progress.total_thoughts = state.progress.total_thoughts.saturating_sub(texts as u64);
    let began = state.started_at.or(session.and_then(|session| session.started_at));
    let duration = began.map_or(0, |began| checkpoint.created_at.millis_since(began));
    Checkpoint {
        version: document::VERSION.into(),
        id: checkpoint.id.clone(),
        timestamp: checkpoint.created_at.as_millis(),
        execution_id: session.map_or(UNKNOWN, |session| &session.id).to_owned(),
        agent_id: state.provider.clone().unwrap_or_else(|| UNKNOWN.into()),
        metadata: Metadata {
            step_number: snapshot.progress.step_number,
            tokens_used: state.progress.tokens.total(),
            duration_ms: u64::try_from(duration).unwrap_or_default(),
            checkpoint_reason: triggers::to_caf(checkpoint.trigger),
            extra: Map::new(),
        },
        snapshot,
        extra: Map::new(),
    }
}

fn tools_of(state: &SessionState) -> ToolState {
    let mut tools = ToolState::default();
    for one in state.tool_state.done.iter().chain(state.tool_state.running.iter()) {
        let flags = [("background", one.background), ("presumed", one.presumed)];
        let flags = flags.iter().filter(|(_, is_set)| *is_set);
        tools.calls.push(Call {
            id: one.id.clone(),
            tool_id: one.tool.clone(),
            args: one.arguments.clone(),
            started_at: Some(one.started_at.as_millis()),
            completed_at: one.completed_at.map(Timestamp::as_millis),
            extra: flags.map(|(name, _)| ((*name).to_owned(), true.into())).collect(),
        });
        if let Some(success) = one.success {
            let result = json!({"success": success, "result": one.result, "error": one.error});
            tools.results.insert(one.id.clone(), result);
        }
    }
    tools
}
