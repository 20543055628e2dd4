//! What a session knew, as JSON for people and programs: the names of the contract, and of those who thought of
//! checkpointing an agent's reasoning first.

use rappel_types::agents::{Long, SessionState};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::at::StateAt;

/// The JSON of `rappel at`.
pub fn at_json(found: &StateAt) -> Value {
    json!({
        "at": found.at,
        "begun": found.has_begun(),
        "begins_at": found.begins,
        "future": found.ahead,
        "session": found.session,
        "fork": found.position.fork,
        "event": found.position.event,
        "sequence": found.checkpoint.as_ref().map(|(_, sequence)| sequence),
        "checkpoint": found.checkpoint.as_ref().map(|(id, _)| id),
        "state": state_json(&found.state),
    })
}

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
