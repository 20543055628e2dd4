//! Answers as the plugin reads them. It knows where in opencode each belongs.

use rappel::hook::{Answer, Event, Moment};
use serde_json::{Value, json};

/// The text for the plugin; empty where there is nothing to say.
pub fn answer(event: &Event, answer: &Answer) -> String {
    // Nobody sees what is said to a session that ends.
    if let Moment::SessionEnd { .. } = event.moment {
        return String::new();
    }
    let mut said = serde_json::Map::new();
    let context = answer.context.as_ref().filter(|_| event.carries_context);
    let texts = [
        ("context", context),
        ("notice", answer.notice.as_ref()),
        ("reply", answer.reply.as_ref()),
    ];
    for (name, text) in texts {
        if let Some(text) = text {
            said.insert(name.into(), json!(text));
        }
    }
    match said.is_empty() {
        true => String::new(),
        false => Value::Object(said).to_string(),
    }
}
