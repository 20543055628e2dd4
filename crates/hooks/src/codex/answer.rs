//! Answers as Codex reads them from a hook's standard output. It checks them strictly: a field that
//! it does not know, or that an event has not, makes the hook a failed one.

use rappel::hook::{Answer, Event, Moment};
use serde_json::{Value, json};

/// The text for the hook's standard output; empty where there is nothing to say.
pub fn answer(event: &Event, answer: &Answer) -> String {
    let Some(name) = speaker(&event.moment) else { return String::new() };
    let mut said = serde_json::Map::new();
    if let Some(notice) = &answer.notice {
        said.insert("systemMessage".into(), notice.as_str().into());
    }
    if let Some(reply) = &answer.reply {
        said.insert("decision".into(), "block".into());
        said.insert("reason".into(), reply.as_str().into());
    } else if let Some(context) = answer.context.as_ref().filter(|_| event.carries_context) {
        let own = json!({"hookEventName": name, "additionalContext": context});
        said.insert("hookSpecificOutput".into(), own);
    }
    match said.is_empty() {
        true => String::new(),
        false => Value::Object(said).to_string(),
    }
}

/// The name of an event on which Codex takes a text for its user or for the model.
fn speaker(moment: &Moment) -> Option<&'static str> {
    match moment {
        Moment::SessionStart(_) => Some("SessionStart"),
        Moment::Prompt { .. } => Some("UserPromptSubmit"),
        Moment::BeforeCall(_) => Some("PreToolUse"),
        Moment::AfterCall(..) => Some("PostToolUse"),
        _ => None,
    }
}
