//! Answers as Gemini CLI reads them from a hook's standard output.

use rappel::hook::{Answer, Event, Moment};
use serde_json::{Value, json};

/// The text for the hook's standard output; empty where there is nothing to say.
pub fn answer(event: &Event, answer: &Answer) -> String {
    let mut said = serde_json::Map::new();
    if let Some(reply) = &answer.reply {
        // A message for the user would be shown in place of the reason.
        said.insert("decision".into(), "block".into());
        said.insert("reason".into(), reply.as_str().into());
        return Value::Object(said).to_string();
    }
    if let Some(notice) = &answer.notice {
        said.insert("systemMessage".into(), notice.as_str().into());
    }
    if let (Some(context), Some(name)) = (&answer.context, carrier(&event.moment)) {
        let own = json!({"hookEventName": name, "additionalContext": context});
        said.insert("hookSpecificOutput".into(), own);
    }
    match said.is_empty() {
        true => String::new(),
        false => Value::Object(said).to_string(),
    }
}

/// The name of an event through which the model can be told something.
pub fn carrier(moment: &Moment) -> Option<&'static str> {
    match moment {
        Moment::SessionStart(_) => Some("SessionStart"),
        Moment::Prompt { .. } => Some("BeforeAgent"),
        Moment::AfterCall(..) => Some("AfterTool"),
        _ => None,
    }
}
