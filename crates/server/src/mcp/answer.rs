//! What a tool answers: the engine's type for programs, and a short text for the model.

use rappel::types::Advice;
use rmcp::model::{CallToolResult, ContentBlock};
use serde::Serialize;
use serde_json::{Value, json};

use super::advice;

/// The text for the model has at most so many characters.
pub const TEXT_MAX: usize = 8_000;
/// The key of the text in the structured answer.
pub const IN_WORDS: &str = "answer";
/// So many items of a list are answered; the rest is counted.
const ITEMS_MAX: usize = 200;

/// An answer.
#[derive(Debug)]
pub struct Reply {
    structured: Value,
    text: String,
    /// The command that shows all of it.
    rest: String,
}

/// Why there is none.
#[derive(Debug)]
pub struct Refused {
    kind: &'static str,
    message: String,
    advice: Vec<Advice>,
}

pub type Replied = std::result::Result<Reply, Refused>;

impl Reply {
    /// `value` is the answer, `text` what the model reads, `rest` the command that shows all of it.
    pub fn new(value: &impl Serialize, text: impl Into<String>, rest: impl Into<String>) -> Self {
        let mut structured = serde_json::to_value(value).unwrap_or_default();
        let mut cut = serde_json::Map::new();
        shorten(&mut structured, "", &mut cut);
        if let (Value::Object(fields), false) = (&mut structured, cut.is_empty()) {
            fields.insert("cut".into(), Value::Object(cut));
        }
        Self { structured, text: text.into(), rest: rest.into() }
    }

    pub fn into_result(mut self) -> CallToolResult {
        let cut = self.structured.get("cut").is_some();
        let text = fitted(&self.text, &self.rest, cut);
        // Some clients give their model the text, others the structured answer alone.
        if let Value::Object(fields) = &mut self.structured {
            fields.insert(IN_WORDS.into(), text.clone().into());
        }
        let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
        result.structured_content = Some(self.structured);
        result
    }
}

/// Cuts lists that are too long; `cut` says how long they are, by their place.
fn shorten(value: &mut Value, place: &str, cut: &mut serde_json::Map<String, Value>) {
    match value {
        Value::Array(items) => {
            if items.len() > ITEMS_MAX {
                cut.insert(place.to_owned(), items.len().into());
                items.truncate(ITEMS_MAX);
            }
            for (at, item) in items.iter_mut().enumerate() {
                shorten(item, &format!("{place}/{at}"), cut);
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                shorten(field, &format!("{place}/{name}"), cut);
            }
        }
        Value::String(text) if text.len() > TEXT_MAX => {
            cut.insert(place.to_owned(), text.chars().count().into());
            *text = text.chars().take(TEXT_MAX).collect();
        }
        _ => {}
    }
}

/// A text that is no longer than it may be, with the way to what is missing.
fn fitted(text: &str, rest: &str, cut: bool) -> String {
    let text = text.trim_end();
    let tail = format!("\n\nThis is not all of it. The rest: `{rest}`");
    if text.chars().count() <= TEXT_MAX && !cut {
        return text.to_owned();
    }
    let room = TEXT_MAX - tail.chars().count().min(TEXT_MAX);
    let mut kept: String = text.chars().take(room).collect();
    // A line is told whole, or not at all.
    if kept.len() < text.len()
        && let Some(end) = kept.rfind('\n')
    {
        kept.truncate(end);
    }
    kept + &tail
}

impl Refused {
    /// The call makes no sense.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { kind: "usage", message: message.into(), advice: Vec::new() }
    }

    pub fn into_result(self) -> CallToolResult {
        let mut text = format!("Error: {}", self.message);
        let next: Vec<String> = self.advice.iter().map(advice::sentence).collect();
        for sentence in &next {
            text.push_str(&format!("\n{sentence}"));
        }
        let text: String = text.chars().take(TEXT_MAX).collect();
        let mut result = CallToolResult::error(vec![ContentBlock::text(text)]);
        let hint = (!next.is_empty()).then(|| next.join(" "));
        result.structured_content = Some(json!({"error": {
            "kind": self.kind, "message": self.message, "hint": hint, "advice": self.advice,
        }}));
        result
    }
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)?;
        self.advice.iter().try_for_each(|one| write!(f, " {}", advice::sentence(one)))
    }
}

impl From<rappel::Error> for Refused {
    fn from(error: rappel::Error) -> Self {
        Self { kind: error.kind().as_str(), message: error.to_string(), advice: error.advice() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_at_a_line_and_says_where_the_rest_is() {
        let text = "twelve chars\n".repeat(1_000);
        let cut = fitted(&text, "rappel list", false);
        assert!(cut.chars().count() <= TEXT_MAX);
        assert!(cut.ends_with("The rest: `rappel list`"));
        assert!(cut.contains("twelve chars\n\nThis is not all"));
        assert_eq!(fitted("short\n", "rappel list", false), "short");
        // Characters, not bytes.
        assert_eq!(fitted(&"é".repeat(TEXT_MAX), "x", false).chars().count(), TEXT_MAX);
    }

    #[test]
    fn the_words_are_in_both_forms_of_an_answer() {
        let result = Reply::new(&json!({"a": 1}), "Saved.", "rappel list").into_result();
        assert_eq!(result.structured_content, Some(json!({"a": 1, "answer": "Saved."})));
        let text = result.content[0].as_text().map(|text| text.text.as_str());
        assert_eq!(text, Some("Saved."));
    }

    #[test]
    fn long_lists_are_cut_and_counted() {
        let reply = Reply::new(&json!({"a": vec![1; 500], "b": {"c": "x"}}), "", "");
        assert_eq!(reply.structured["a"].as_array().unwrap().len(), ITEMS_MAX);
        assert_eq!(reply.structured["cut"], json!({"/a": 500}));
    }
}
