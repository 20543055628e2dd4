//! One call, told by a hook and by the transcript. The vendor's id makes them one event in the
//! journal. Where a hook gave no id, they are matched here by the tool and what it was given: the
//! first call of a hook to the first one of the transcript, and so on.

use rappel_store::index::Index;
use rappel_types::Timestamp;
use rappel_types::agents::{Body, SessionId, SessionState, ToolCall};
use serde_json::Value;

use super::ingest::hashed;
use super::journal::parse;
use crate::error::Result;
use crate::rappel::Rappel;

/// So begin the ids of calls that a hook told without the vendor's id.
const HEARD: &str = "call-hook-";
/// A hook and a transcript tell the same call at most this far apart.
const APART_MS: i64 = 2 * 60 * 1000;
/// So much of each text counts: a transcript has long ones cut.
const TEXT: usize = 1 << 10;

/// The id of the `number`th call of a tool with that input that hooks told of a session.
fn heard_call(likeness: &str, number: usize) -> String {
    format!("{HEARD}{likeness}-{number}")
}

/// What two tellings of one call have in common.
fn likeness(tool: &str, input: &Value) -> String {
    fn short(value: &Value) -> Value {
        match value {
            Value::String(text) => {
                let mut end = text.len().min(TEXT);
                while !text.is_char_boundary(end) {
                    end -= 1;
                }
                text[..end].into()
            }
            Value::Array(items) => items.iter().map(short).collect(),
            Value::Object(members) => {
                members.iter().map(|(name, value)| (name.clone(), short(value))).collect()
            }
            other => other.clone(),
        }
    }
    hashed("", &[tool, &short(input).to_string()]).trim_start_matches('-').to_owned()
}

impl Rappel {
    /// The id for a call that is about to begin. A hook that is late finds the one under which its
    /// end was told.
    pub(crate) fn begun_call(
        &self,
        session: &SessionId,
        state: &SessionState,
        (tool, input): (&str, &Value),
        at: Timestamp,
    ) -> Result<String> {
        let likeness = likeness(tool, input);
        if let Some(told) = told_by_transcript(state, &likeness, at) {
            return Ok(told);
        }
        let mut number = 0;
        loop {
            let id = heard_call(&likeness, number);
            match self.call_began(session, &id)? {
                Some(began) if began < at => number += 1,
                _ => return Ok(id),
            }
        }
    }

    /// The id for a call that has ended: of those that hooks told, the first that still runs.
    pub(crate) fn ended_call(
        &self,
        session: &SessionId,
        state: &SessionState,
        (tool, input): (&str, &Value),
        at: Timestamp,
    ) -> Result<String> {
        let likeness = likeness(tool, input);
        let mut number = 0;
        loop {
            let id = heard_call(&likeness, number);
            if state.tool_state.running.get(&id).is_some() {
                return Ok(id);
            }
            if self.call_began(session, &id)?.is_none() {
                return Ok(told_by_transcript(state, &likeness, at).unwrap_or(id));
            }
            number += 1;
        }
    }

    /// The call of a hook that a transcript tells too, if it is none of those in `taken`.
    pub(crate) fn heard_same_call(
        &self,
        session: &SessionId,
        tool: &str,
        input: &Value,
        taken: &[String],
    ) -> Result<Option<String>> {
        let likeness = likeness(tool, input);
        for number in 0.. {
            let id = heard_call(&likeness, number);
            if self.call_began(session, &id)?.is_none() {
                break;
            }
            if !taken.contains(&id) {
                return Ok(Some(id));
            }
        }
        Ok(None)
    }

    /// When a call began, if the journal knows it.
    fn call_began(&self, session: &SessionId, id: &str) -> Result<Option<Timestamp>> {
        let known = |index: &mut Index| index.events_about(session.as_str(), id);
        let rows = self.store.look_up(known)?;
        let began = rows
            .iter()
            .filter_map(|row| parse(row).ok())
            .find_map(|event| matches!(event.body, Body::ToolStarted(_)).then_some(event.at));
        Ok(began)
    }
}

/// A call that only the transcript told, at about that time.
fn told_by_transcript(state: &SessionState, like: &str, at: Timestamp) -> Option<String> {
    let is_same = |call: &ToolCall| {
        !call.id.starts_with(HEARD)
            && call.started_at.millis_since(at).abs() < APART_MS
            && likeness(&call.tool, &call.arguments) == like
    };
    let found = state.tool_state.done.recent.iter().rev().find(|call| is_same(call));
    found.map(|call| call.id.clone())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn long_texts_are_alike_if_they_begin_alike() {
        let long = "x".repeat(40_000);
        let cut = &long[..16_384];
        let like = |text: &str| likeness("write_file", &json!({"content": text, "path": "é"}));
        assert_eq!(like(&long), like(cut));
        assert_ne!(like("a"), like("b"));
        assert_ne!(likeness("a", &Value::Null), likeness("b", &Value::Null));
    }
}
