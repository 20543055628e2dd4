//! Answers as Claude Code reads them from a hook's standard output.

use rappel::hook::{Answer, Event, Moment};
use serde_json::{Value, json};

/// Longer texts are cut by Claude.
const CONTEXT_MAX: usize = 10_000;

/// The text for the hook's standard output; empty where there is nothing to say.
pub fn answer(event: &Event, answer: &Answer) -> String {
    let mut said = serde_json::Map::new();
    if let Some(notice) = &answer.notice {
        said.insert("systemMessage".into(), notice.as_str().into());
    }
    if let Some(reply) = &answer.reply {
        said.insert("decision".into(), "block".into());
        said.insert("reason".into(), reply.as_str().into());
        // The user knows what he typed; and it would stand in the input line again.
        let own = json!({"hookEventName": "UserPromptSubmit", "suppressOriginalPrompt": true});
        said.insert("hookSpecificOutput".into(), own);
    } else if let (Some(context), Some(name)) = (&answer.context, carrier(&event.moment, event)) {
        let text: String = context.chars().take(CONTEXT_MAX).collect();
        let own = json!({"hookEventName": name, "additionalContext": text});
        said.insert("hookSpecificOutput".into(), own);
    }
    match said.is_empty() {
        true => String::new(),
        false => Value::Object(said).to_string(),
    }
}

/// The name of an event through which the model can be told something. On the others, a text would
/// make the agent go on, or be an error.
fn carrier(moment: &Moment, event: &Event) -> Option<&'static str> {
    match moment {
        _ if !event.carries_context => None,
        Moment::SessionStart(_) => Some("SessionStart"),
        Moment::Prompt { .. } => Some("UserPromptSubmit"),
        Moment::BeforeCall(_) => Some("PreToolUse"),
        Moment::AfterCall(_, outcome) if outcome.error.is_some() => Some("PostToolUseFailure"),
        Moment::AfterCall(..) => Some("PostToolUse"),
        _ => None,
    }
}
