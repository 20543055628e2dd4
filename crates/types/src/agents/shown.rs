//! What a session knew, as JSON for people and programs, and back.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{Long, SessionId, SessionState, ToolCall};

/// The JSON of a state. What the long lists do not have here is counted under `omitted`.
pub fn state_json(state: &SessionState) -> Value {
    let mut omitted = Map::new();
    let evidence = list("evidence", &state.evidence, &mut omitted);
    let verifications = list("verification_results", &state.verification_results, &mut omitted);
    let notes = list("notes", &state.notes, &mut omitted);
    let commands = list("command_history", &state.command_history, &mut omitted);
    let prompts = list("prompts", &state.prompts, &mut omitted);
    let thoughts = list("thought_chain", &state.thought_chain, &mut omitted);
    let done = list("tool_state", &state.tool_state.done, &mut omitted);
    let results: Map<String, Value> = state
        .tool_state
        .done
        .iter()
        .map(|call| {
            (
                call.id.clone(),
                json!({"success": call.success, "result": call.result, "error": call.error}),
            )
        })
        .collect();
    let running = value(&state.tool_state.running);
    let calls = match (done, running) {
        (Value::Array(mut done), Value::Array(running)) => {
            done.extend(running);
            Value::Array(done)
        }
        (done, _) => done,
    };
    json!({
        "session_id": state.session,
        "status": state.status,
        "provider": state.provider,
        "task": state.task,
        "started_at": state.started_at,
        "ended_at": state.ended_at,
        "restored_to": state.restored_to,
        "hypotheses": value(&state.hypotheses),
        "evidence": evidence,
        "beliefs": value(&state.beliefs),
        "belief_dependencies": value(&state.belief_dependencies),
        "gaps": value(&state.gaps),
        "verification_results": verifications,
        "contradictions": value(&state.contradictions),
        "current_branch": state.current_branch,
        "branches": value(&state.branches),
        "notes": notes,
        "command_history": commands,
        "metrics": value(&state.metrics),
        "prompts": prompts,
        "thought_chain": thoughts,
        "context": {
            "variables": value(&state.context.variables),
            "state": value(&state.context.state),
            "history": value(&state.history()),
        },
        "tool_state": {"calls": calls, "results": results},
        "progress": value(&state.progress),
        "files_touched": state.files_touched,
        "ignored_events": state.ignored,
        "unknown_events": state.unknown,
        "omitted": omitted,
    })
}

fn value(of: &impl Serialize) -> Value {
    serde_json::to_value(of).unwrap_or_default()
}

fn list<T: Serialize>(name: &str, of: &Long<T>, omitted: &mut Map<String, Value>) -> Value {
    let stored = of.stored_count();
    if stored > 0 {
        omitted.insert(name.to_owned(), stored.into());
    }
    Value::Array(of.iter().map(value).collect())
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
