//! JSON with comments, edited as text: comments, order and layout stay as they are.

use std::ops::Range;

use serde_json::Value;

use crate::json_text::{Document, Edits, Syntax, Unfit};

/// The same text with blanks instead of comments and of commas before a closing bracket. All else is
/// at the same place.
pub fn without_comments(text: &str) -> String {
    Syntax::CommentsAndCommas.plain(text)
}

fn document(text: &str) -> Result<Document, Unfit> {
    Document::new(without_comments(text))
}

/// The object of that name at the top; nothing if there is none.
fn object(document: &Document, name: &str) -> Result<Option<Range<usize>>, Unfit> {
    document.member(&document.root(), name)
}

/// The value of a member of an object at the top.
pub fn get(text: &str, object_name: &str, name: &str) -> Result<Option<Value>, Unfit> {
    let document = document(text)?;
    let Some(object) = object(&document, object_name)? else { return Ok(None) };
    let found = document.member(&object, name)?;
    Ok(found.map(|place| document.value(&place)))
}

/// Puts a member in front of an object at the top, which is made if there is none. Returns the text,
/// and what brings back the one it was.
pub fn add(
    text: &str,
    object_name: &str,
    name: &str,
    value: &Value,
) -> Result<(String, Edits), Unfit> {
    let document = document(text)?;
    let is_blank = |text: &str| text.trim_start_matches('\u{feff}').trim().is_empty();
    // There is no object to add to, and the comments may be of any kind.
    if is_blank(&without_comments(text)) && !is_blank(text) {
        let problem = "an object is expected here, and there are only comments".to_owned();
        return Err(document.unfit(&(0..0), problem));
    }
    // A blank document became one with an empty object.
    if is_blank(text) {
        let new = serde_json::json!({ object_name: { name: value } });
        let new = format!("{}\n", serde_json::to_string_pretty(&new).unwrap_or_default());
        let edits = Edits::replace(0, new.len(), text);
        return Ok((new, edits));
    }
    let (place, name, value) = match object(&document, object_name)? {
        Some(place) => (place, name, value.clone()),
        None => (document.root(), object_name, serde_json::json!({ name: value })),
    };
    let is_empty = document.members(&place)?.is_empty();
    let at = place.start + 1;
    let inner = &text[at..place.end - 1];
    let is_open = inner.contains('\n');
    // Beside a comment there is no line to end.
    let is_empty_line = is_empty && inner.trim().is_empty();
    let indentation = indentation(text, place.start);
    let unit = unit(text);
    let member = match is_open || is_empty_line {
        _ if is_empty && !is_open && !is_empty_line => format!(" {}: {value}", Value::from(name)),
        true => {
            let value = serde_json::to_string_pretty(&value).unwrap_or_default();
            let lead = format!("{}{indentation}{unit}", newline(text));
            let value = value.lines().map(|line| indented(line, &unit)).collect::<Vec<_>>();
            let value = value.join(&lead);
            let comma = if is_empty { "" } else { "," };
            let close = match is_open {
                true => String::new(),
                false => format!("{}{indentation}", newline(text)),
            };
            format!("{lead}{}: {value}{comma}{close}", Value::from(name))
        }
        false => format!("{}: {value}, ", Value::from(name)),
    };
    let mut new = text.to_owned();
    new.insert_str(at, &member);
    Ok((new, Edits::replace(at, member.len(), "")))
}

/// Takes a member out of an object at the top. An object that is empty then stays.
pub fn remove(text: &str, object_name: &str, name: &str) -> Result<String, Unfit> {
    let document = document(text)?;
    let Some(object) = object(&document, object_name)? else { return Ok(text.to_owned()) };
    let Some(value) = document.member(&object, name)? else { return Ok(text.to_owned()) };
    let blank = document.text();
    let before = &blank[object.start + 1..value.start];
    // The name is the last text before the value.
    let quoted = Value::from(name).to_string();
    let key = before.rfind(&quoted).map_or(value.start, |at| object.start + 1 + at);
    let member = key..value.end;
    let after = &blank[member.end..object.end];
    let comma = after.len() - after.trim_start().len();
    let mut gone = member.clone();
    if after[comma..].starts_with(',') {
        gone.end = member.end + comma + 1;
    } else {
        let before = blank[object.start + 1..member.start].trim_end();
        if before.ends_with(',') {
            gone.start = object.start + before.len();
        }
    }
    // The line that it stood on goes too.
    let line = text[..gone.start].len() - text[..gone.start].trim_end().len();
    gone.start -= line;
    let inner = object.start + 1..object.end - 1;
    let is_alone = text[inner.start..gone.start].trim().is_empty()
        && text[gone.end..inner.end].trim().is_empty();
    let mut new = text.to_owned();
    new.replace_range(if is_alone { inner } else { gone }, "");
    Ok(new)
}

/// A line that is indented by two blanks a level, indented by something else.
fn indented(line: &str, unit: &str) -> String {
    let rest = line.trim_start_matches(' ');
    format!("{}{rest}", unit.repeat((line.len() - rest.len()) / 2))
}

fn newline(text: &str) -> &'static str {
    if text.contains("\r\n") { "\r\n" } else { "\n" }
}

/// What the line of a place begins with.
fn indentation(text: &str, at: usize) -> String {
    let line = text[..at].rfind('\n').map_or(0, |end| end + 1);
    text[line..at].chars().take_while(|char| matches!(char, ' ' | '\t')).collect()
}

/// What one level is indented by.
fn unit(text: &str) -> String {
    let mut lines = text.lines().map(|line| {
        let rest = line.trim_start_matches([' ', '\t']);
        (&line[..line.len() - rest.len()], rest)
    });
    let first = lines.find(|(lead, rest)| !lead.is_empty() && rest.starts_with('"'));
    first.map_or("  ", |(lead, _)| lead).to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const CONFIG: &str = "{\n\t// the model, not \"mcp\": {}\n\t\"model\": \"a//b\", /* , } */\n\t\"mcp\": {\n\t\t// mine\n\t\t\"other\": {\"type\": \"local\"}, // last\n\t},\n}\n";

    #[test]
    fn comments_and_commas_at_the_end_are_understood() {
        let plain = without_comments(CONFIG);
        assert_eq!(plain.len(), CONFIG.len());
        let value: Value = serde_json::from_str(&plain).unwrap();
        assert_eq!(value, json!({"model": "a//b", "mcp": {"other": {"type": "local"}}}));
        assert_eq!(get(CONFIG, "mcp", "other").unwrap(), Some(json!({"type": "local"})));
        assert_eq!(get(CONFIG, "mcp", "rappel").unwrap(), None);
    }

    #[test]
    fn a_member_comes_and_goes_and_the_rest_stays() {
        let value = json!({"type": "local", "command": ["rappel", "mcp"]});
        let texts = [
            CONFIG,
            "",
            "{}",
            "{\n}\n",
            "{\"a\": 1}",
            "{\r\n  \"a\": [1, 2],\r\n}\r\n",
            "{\n  \"mcp\": {}\n}\n",
            "{\n  \"mcp\": { /* none */ }\n}\n",
            "{\n  \"mcp\": {\n    // none yet\n  }\n}\n",
            "{\"mcp\": {\"x\": {}}}",
        ];
        for text in texts {
            let (added, reverse) = add(text, "mcp", "rappel", &value).unwrap();
            assert_eq!(get(&added, "mcp", "rappel").unwrap(), Some(value.clone()), "{added}");
            assert_eq!(reverse.apply(&added).as_deref(), Some(text), "{added}");
            let without = remove(&added, "mcp", "rappel").unwrap();
            assert_eq!(get(&without, "mcp", "rappel").unwrap(), None, "{without}");
            let is_same = |one: &str, other: &str| {
                let value = |text: &str| -> Value {
                    serde_json::from_str(&without_comments(text)).unwrap_or(json!({}))
                };
                let (mut one, mut other) = (value(one), value(other));
                for value in [&mut one, &mut other] {
                    if value["mcp"] == json!({}) || value["mcp"].is_null() {
                        value.as_object_mut().unwrap().remove("mcp");
                    }
                }
                one == other
            };
            assert!(is_same(&without, text), "{text} became {without}");
            // An object that was there is as it was, but for blanks between its brackets.
            if text.contains("mcp") {
                let bare = |text: &str| text.replace([' ', '\t', '\r', '\n'], "");
                assert_eq!(bare(&without), bare(text));
            }
            let comments = |text: &str| text.matches("//").count();
            assert_eq!(comments(&without), comments(text), "{without}");
        }
        for text in ["{\"mcp\": { /* none */ }}", "{\n  \"mcp\": {}\n}\n"] {
            let (added, _) = add(text, "mcp", "rappel", &value).unwrap();
            assert_eq!(remove(&added, "mcp", "rappel").unwrap(), text);
        }
        let (added, _) = add(CONFIG, "mcp", "rappel", &value).unwrap();
        assert!(added.contains("\t\"mcp\": {\n\t\t\"rappel\": {\n\t\t\t\""), "{added}");
        assert!(added.contains("\n\t\t\t\"type\": \"local\""), "{added}");
        let spaced = json!({"command": ["/a  b/rappel", "mcp"]});
        let (added, _) = add(CONFIG, "mcp", "rappel", &spaced).unwrap();
        assert_eq!(get(&added, "mcp", "rappel").unwrap(), Some(spaced));
    }

    #[test]
    fn what_is_no_object_is_refused() {
        for text in ["[]", "{", "{\"mcp\": 1}", "/* open", "// only words\n"] {
            assert!(add(text, "mcp", "rappel", &json!({})).is_err(), "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_can_be_looked_at(text in "[ -~\n\u{e9}\u{1f600}]{0,60}") {
            let plain = without_comments(&text);
            proptest::prop_assert!(plain.is_empty() || plain.len() == text.len());
            let _ = get(&text, "mcp", "rappel");
            let _ = remove(&text, "mcp", "rappel");
            if let Ok((added, reverse)) = add(&text, "mcp", "rappel", &json!({"a": 1})) {
                proptest::prop_assert_eq!(reverse.apply(&added), Some(text));
            }
        }
    }
}
