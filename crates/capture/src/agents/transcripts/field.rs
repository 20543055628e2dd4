//! Fields of lines that may be anything.

use rappel_types::Timestamp;
use serde_json::Value;

/// A text that is not empty.
pub(in crate::agents) fn text<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value.get(name)?.as_str().filter(|text| !text.is_empty())
}

/// The same, to keep.
pub(in crate::agents) fn owned(value: &Value, name: &str) -> Option<String> {
    text(value, name).map(str::to_owned)
}

/// Whether a field is there and true.
pub(in crate::agents) fn flag(value: &Value, name: &str) -> bool {
    value.get(name).and_then(Value::as_bool).unwrap_or(false)
}

/// A number, zero if it is none.
pub(in crate::agents) fn number(value: &Value, name: &str) -> u64 {
    value.get(name).and_then(Value::as_u64).unwrap_or(0)
}

/// A moment.
pub(in crate::agents) fn time(value: &Value, name: &str) -> Option<Timestamp> {
    text(value, name)?.parse().ok()
}

/// The elements of a list, none if it is no list.
pub(in crate::agents) fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// What a content says: a text, blocks with texts, or anything else as JSON. Blocks that are no text
/// are named in brackets.
pub(in crate::agents) fn content(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let blocks: Vec<String> = blocks.iter().map(content).collect();
            blocks.join("\n")
        }
        Value::Object(_) => match (text(value, "text"), text(value, "type")) {
            (Some(text), _) => text.to_owned(),
            (None, Some("text")) => String::new(),
            (None, Some(kind)) => format!("[{kind}]"),
            (None, None) => value.to_string(),
        },
        other => other.to_string(),
    }
}

/// Whether a call was asked to go on in the background.
pub(in crate::agents) fn in_background(input: &Value) -> bool {
    ["run_in_background", "is_background", "background"].iter().any(|name| flag(input, name))
}

/// A short name for an id, to remember many of them.
pub(in crate::agents) fn short(id: &str) -> u64 {
    let hash = blake3::hash(id.as_bytes());
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&hash.as_bytes()[..8]);
    u64::from_le_bytes(bytes)
}
