//! What a session knew, as JSON for people and programs: the names of the contract, and of those who thought of
//! checkpointing an agent's reasoning first.

pub use rappel_types::agents::state_json;
use serde_json::{Value, json};

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
