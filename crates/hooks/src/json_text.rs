//! A JSON document of the user's, edited as text.
//!
//! Only what is asked for changes: order, indentation, line ends, numbers, comments and unknown keys
//! of everything else stay as they are, byte for byte. Each edit remembers its reverse.

use std::fmt;
use std::ops::Range;

use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

const BOM: char = '\u{feff}';

/// Why a document is not edited.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct Unfit {
    /// Where, counted from 1.
    pub line: usize,
    /// What is the matter.
    pub problem: String,
}

/// Some bytes of a text that become others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edit {
    at: usize,
    remove: usize,
    insert: String,
}

/// Edits one after the other, each of the text that the one before left.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Edits(Vec<Edit>);

impl Edits {
    /// The one edit that cuts so many bytes out at a place.
    pub fn cut(at: usize, length: usize) -> Self {
        Self(vec![Edit { at, remove: length, insert: String::new() }])
    }

    /// The one edit that puts a text in the place of so many bytes.
    pub fn replace(at: usize, length: usize, insert: &str) -> Self {
        Self(vec![Edit { at, remove: length, insert: insert.to_owned() }])
    }

    /// The text after the edits; nothing if they do not fit it.
    pub fn apply(&self, text: &str) -> Option<String> {
        let mut text = text.to_owned();
        for edit in &self.0 {
            let range = edit.at..edit.at.checked_add(edit.remove)?;
            text.get(range.clone())?;
            text.replace_range(range, &edit.insert);
        }
        Some(text)
    }
}

/// What a document may have besides JSON.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Syntax {
    /// Nothing.
    #[default]
    Plain,
    /// Comments.
    Comments,
    /// Comments, and a comma before a closing bracket.
    CommentsAndCommas,
}

impl Syntax {
    /// A text as plain JSON: with blanks instead of what JSON does not have, and all else at the
    /// same place.
    pub fn plain(self, text: &str) -> String {
        if self == Self::Plain {
            return text.to_owned();
        }
        let mut bytes = text.as_bytes().to_vec();
        let mut comma = None;
        let mut at = 0;
        while at < bytes.len() {
            if let Some(comment) = comment_at(text, at) {
                at = comment.end;
                let is_line_end = |byte: &u8| matches!(byte, b'\n' | b'\r');
                bytes[comment].iter_mut().filter(|byte| !is_line_end(byte)).for_each(|b| *b = b' ');
                continue;
            }
            match bytes[at] {
                b'"' => {
                    comma = None;
                    at += 1;
                    while at < bytes.len() && bytes[at] != b'"' {
                        at += if bytes[at] == b'\\' { 2 } else { 1 };
                    }
                }
                b',' => comma = Some(at),
                b'}' | b']' => {
                    if let Some(comma) = comma.take().filter(|_| self == Self::CommentsAndCommas) {
                        bytes[comma] = b' ';
                    }
                }
                byte if !byte.is_ascii_whitespace() => comma = None,
                _ => {}
            }
            at += 1;
        }
        // Whole comments became blanks, so what is left is text.
        String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
    }
}

/// The comment that begins at a place. That of a line ends before the line's end.
fn comment_at(text: &str, at: usize) -> Option<Range<usize>> {
    let rest = &text.as_bytes()[at..];
    let length = if rest.starts_with(b"//") {
        rest.iter().position(|byte| *byte == b'\n')
    } else if rest.starts_with(b"/*") {
        rest[2..].windows(2).position(|pair| pair == b"*/").map(|length| length + 4)
    } else {
        return None;
    };
    Some(at..at + length.unwrap_or(rest.len()))
}

/// A document that is being edited.
#[derive(Debug, Clone)]
pub struct Document {
    text: String,
    /// The same as plain JSON, see [`Syntax::plain`].
    plain: String,
    syntax: Syntax,
    reverse: Vec<Edit>,
}

/// A member of an object: its name, where it begins, and where its value is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: Range<usize>,
}

impl Document {
    /// A document, which has to be one JSON object, or blank.
    pub fn new(text: String) -> Result<Self, Unfit> {
        Self::with(text, Syntax::Plain)
    }

    /// The same in another syntax.
    pub fn with(text: String, syntax: Syntax) -> Result<Self, Unfit> {
        let plain = syntax.plain(&text);
        let mut document = Self { text, plain, syntax, reverse: Vec::new() };
        let body = document.body();
        let given = document.text[body.clone()].trim();
        if given.is_empty() {
            document.replace(body, "{}\n");
        } else if document.plain[body.clone()].trim().is_empty() {
            let line_end = if document.text.ends_with('\n') { "" } else { "\n" };
            document.replace(body.end..body.end, &format!("{line_end}{{}}\n"));
        }
        if let Err(error) =
            serde_json::from_str::<serde::de::IgnoredAny>(&document.plain[document.body()])
        {
            return Err(Unfit { line: error.line(), problem: format!("this is no JSON: {error}") });
        }
        document.members(&document.root())?;
        Ok(document)
    }

    /// The text, and what brings back the one it was.
    pub fn finish(self) -> (String, Edits) {
        let Self { text, mut reverse, .. } = self;
        reverse.reverse();
        (text, Edits(reverse))
    }

    /// The text as it is now.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Where the document's value is.
    pub fn root(&self) -> Range<usize> {
        let body = self.body();
        let text = &self.plain[body.clone()];
        let start = body.start + (text.len() - text.trim_start().len());
        start..body.start + text.trim_end().len()
    }

    /// Where the value ends that begins at a place.
    pub fn value_from(&self, start: usize) -> Range<usize> {
        let mut values = serde_json::Deserializer::from_str(&self.plain[start..]).into_iter();
        let _: Option<Result<serde::de::IgnoredAny, _>> = values.next();
        start..start + values.byte_offset()
    }

    /// How many members or items the object or list at a place has.
    pub fn count(&self, place: &Range<usize>) -> Result<usize, Unfit> {
        Ok(self.values(place)?.len())
    }

    /// The members of the object at a place.
    pub fn members(&self, place: &Range<usize>) -> Result<Vec<Member>, Unfit> {
        let part = &self.plain[place.clone()];
        let Ok(Members(found)) = serde_json::from_str(part) else {
            return Err(self.unfit(place, "an object is expected here".to_owned()));
        };
        let member = |(name, raw): (String, &RawValue)| Member { name, value: self.place(raw) };
        let found: Vec<Member> = found.into_iter().map(member).collect();
        for (number, member) in found.iter().enumerate() {
            if found[..number].iter().any(|other| other.name == member.name) {
                let problem = format!("{:?} is here for the second time", member.name);
                return Err(self.unfit(&member.value, problem));
            }
        }
        Ok(found)
    }

    /// The member of that name.
    pub fn member(&self, place: &Range<usize>, name: &str) -> Result<Option<Range<usize>>, Unfit> {
        let found = self.members(place)?.into_iter().find(|member| member.name == name);
        Ok(found.map(|member| member.value))
    }

    /// The items of the list at a place.
    pub fn items(&self, place: &Range<usize>) -> Result<Vec<Range<usize>>, Unfit> {
        let part = &self.plain[place.clone()];
        match serde_json::from_str(part) {
            Ok(Items(found)) => Ok(found.into_iter().map(|raw| self.place(raw)).collect()),
            Err(_) => Err(self.unfit(place, "a list is expected here".to_owned())),
        }
    }

    /// The value at a place, as a value.
    pub fn value(&self, place: &Range<usize>) -> serde_json::Value {
        serde_json::from_str(&self.plain[place.clone()]).unwrap_or_default()
    }

    /// Adds a member to the end of the object at a place.
    pub fn add_member<V: Serialize>(
        &mut self,
        place: &Range<usize>,
        name: &str,
        value: &V,
    ) -> Result<(), Unfit> {
        let members = self.members(place)?.into_iter().map(|member| member.value).collect();
        // The name stands before the value, so the value's first line has no indentation of its
        // own.
        let name = serde_json::Value::from(name).to_string();
        self.add(place, &self.parts(place, members), value, Some(name));
        Ok(())
    }

    /// Adds an item to the end of the list at a place.
    pub fn add_item<V: Serialize>(&mut self, place: &Range<usize>, value: &V) -> Result<(), Unfit> {
        let items = self.items(place)?;
        self.add(place, &self.parts(place, items), value, None);
        Ok(())
    }

    /// Puts another value in the place of one, on one line if that was. The same value stays as it
    /// is written.
    pub fn set_value<V: Serialize>(&mut self, place: &Range<usize>, value: &V) {
        if serde_json::to_value(value).is_ok_and(|value| value == self.value(place)) {
            return;
        }
        let lead = match self.text[place.clone()].contains('\n') {
            true => format!("\n{}", self.indentation(place.start)),
            false => String::new(),
        };
        let part = self.style().part(value, None, &lead);
        self.replace(place.clone(), &part);
    }

    /// Takes the member or item with that number out of the object or list at a place. Comments
    /// around it stay.
    pub fn remove(&mut self, place: &Range<usize>, number: usize) -> Result<(), Unfit> {
        let parts = self.parts(place, self.values(place)?);
        let Some(part) = parts.get(number) else { return Ok(()) };
        let before = number.checked_sub(1).map(|before| parts[before].end);
        let next = parts.get(number + 1).map(|next| next.start);
        let gone = match (before, next) {
            (Some(before), _) => before..part.end,
            (None, Some(next)) => part.start..next,
            (None, None) => inner(place),
        };
        if self.is_plain(&gone) {
            self.replace(gone, "");
            return Ok(());
        }
        let from = before.unwrap_or(place.start + 1);
        let comma = self.comma_in(part.end..next.unwrap_or(place.end - 1));
        let end = comma.map_or(part.end, |comma| comma + 1);
        let mut kept = self.text[from..part.start].to_owned();
        // Of the two commas around it, one goes.
        if comma.is_none()
            && let Some(comma) = self.comma_in(from..part.start)
        {
            kept.remove(comma - from);
        }
        // What follows the comment of a line is on another one.
        let ends_line = self.text[end..].trim_start_matches([' ', '\t']).starts_with(['\n', '\r']);
        if ends_line || !kept.contains("//") {
            kept.truncate(kept.trim_end().len());
        }
        kept.push_str(&self.text[part.end..comma.unwrap_or(part.end)]);
        self.replace(from..end, &kept);
        Ok(())
    }

    /// Replaces all that is between the brackets of the object or list at a place.
    pub fn set_inner(&mut self, place: &Range<usize>, text: &str) {
        self.replace(inner(place), text);
    }

    /// What is between the brackets of the object or list at a place, if that is blank.
    pub fn blank_inner(&self, place: &Range<usize>) -> Option<&str> {
        let is_container = self.plain[place.clone()].starts_with(['{', '[']);
        let blanks = is_container.then(|| &self.text[inner(place)]);
        blanks.filter(|text| text.trim().is_empty())
    }

    /// Whether nothing but the part with that number is in the object or list at a place, no comment
    /// either.
    pub fn is_alone(&self, place: &Range<usize>, number: usize) -> Result<bool, Unfit> {
        let parts = self.parts(place, self.values(place)?);
        let Some(part) = parts.get(number).filter(|_| parts.len() == 1) else { return Ok(false) };
        Ok(self.is_plain(&(place.start..part.start)) && self.is_plain(&(part.end..place.end)))
    }

    fn add<V: Serialize>(
        &mut self,
        place: &Range<usize>,
        parts: &[Range<usize>],
        value: &V,
        name: Option<String>,
    ) {
        let style = self.style();
        let Some(last) = parts.last() else {
            let (mut lead, mut close) = (String::new(), String::new());
            if style.pretty {
                close = format!("{}{}", style.newline, self.indentation(place.start));
                lead = format!("{close}{}", style.unit);
            }
            let part = style.part(value, name, &lead);
            let inner = inner(place);
            // Comments stay, after it.
            return match self.is_plain(&inner) {
                true => self.replace(inner, &format!("{lead}{part}{close}")),
                false => self.replace(inner.start..inner.start, &format!("{lead}{part}")),
            };
        };
        let before = parts.len().checked_sub(2).map_or(place.start, |before| parts[before].end);
        let lead = self.lead(before..last.start);
        let part = style.part(value, name, &lead);
        let rest = last.end..place.end - 1;
        let comma = self.comma_in(rest.clone());
        let after = comma.map_or(last.end, |comma| comma + 1);
        // A comment on the line of the last one is about that.
        let line_end = self.line_end_in(after..rest.end).filter(|_| lead.contains('\n'));
        let at = line_end.filter(|end| !self.is_plain(&(after..*end))).unwrap_or(after);
        match comma {
            Some(_) => self.replace(at..at, &format!("{lead}{part},")),
            None if at == after => self.replace(at..at, &format!(",{lead}{part}")),
            None => {
                self.replace(at..at, &format!("{lead}{part}"));
                self.replace(after..after, ",");
            }
        }
    }

    /// What a part is set off with from the one before it, or from the bracket.
    fn lead(&self, between: Range<usize>) -> String {
        let lead = self.plain[between.clone()].trim_start_matches(['{', '[', ',']);
        let lead = match (self.is_plain(&between), lead.rfind('\n')) {
            (true, _) => lead,
            (false, Some(line)) => &lead[line - usize::from(lead[..line].ends_with('\r'))..],
            (false, None) => " ",
        };
        match lead.trim().is_empty() {
            true => lead.to_owned(),
            // `{"a": 1 ,"b": 2}`
            false => String::new(),
        }
    }

    /// Whether a part of the text is plain JSON.
    fn is_plain(&self, range: &Range<usize>) -> bool {
        self.text[range.clone()] == self.plain[range.clone()]
    }

    /// The comma in what stands between parts.
    fn comma_in(&self, between: Range<usize>) -> Option<usize> {
        self.outside_comments(between, b',')
    }

    /// The end of the first line in what stands between parts.
    fn line_end_in(&self, between: Range<usize>) -> Option<usize> {
        let end = self.outside_comments(between.clone(), b'\n')?;
        Some(end - usize::from(self.text[between.start..end].ends_with('\r')))
    }

    fn outside_comments(&self, between: Range<usize>, wanted: u8) -> Option<usize> {
        let mut at = between.start;
        while at < between.end {
            match comment_at(&self.text, at).filter(|_| self.syntax != Syntax::Plain) {
                Some(comment) => at = comment.end,
                None if self.text.as_bytes()[at] == wanted => return Some(at),
                None => at += 1,
            }
        }
        None
    }

    fn values(&self, place: &Range<usize>) -> Result<Vec<Range<usize>>, Unfit> {
        match self.plain[place.clone()].starts_with('{') {
            true => Ok(self.members(place)?.into_iter().map(|member| member.value).collect()),
            false => self.items(place),
        }
    }

    /// Where the members or items of a container are, names included.
    fn parts(&self, place: &Range<usize>, values: Vec<Range<usize>>) -> Vec<Range<usize>> {
        let mut from = place.start + 1;
        let part = |value: Range<usize>| {
            let between = &self.plain[from..value.end];
            let skipped = between.trim_start_matches([',', ' ', '\t', '\r', '\n']);
            let start = value.end - skipped.len();
            from = value.end;
            start..value.end
        };
        values.into_iter().map(part).collect()
    }

    /// What a line begins with, for the line that a place is in.
    fn indentation(&self, at: usize) -> String {
        let line = self.text[..at].rfind('\n').map_or(0, |end| end + 1);
        let line = self.text[line..at].trim_start_matches(BOM);
        line.chars().take_while(|&c| c == ' ' || c == '\t').collect()
    }

    /// How this document is laid out.
    fn style(&self) -> Style {
        let root = self.root();
        let inner = &self.plain[root.start + 1..root.end - 1];
        let lead: String = inner.chars().take_while(|c| c.is_whitespace()).collect();
        let newline = if self.text.contains("\r\n") { "\r\n" } else { "\n" };
        let unit = lead.rsplit_once('\n').map(|(_, unit)| unit).filter(|unit| !unit.is_empty());
        Style {
            pretty: inner.trim().is_empty() || lead.contains('\n'),
            newline,
            unit: unit.filter(|_| !inner.trim().is_empty()).unwrap_or("  ").to_owned(),
        }
    }

    fn body(&self) -> Range<usize> {
        let start = if self.text.starts_with(BOM) { BOM.len_utf8() } else { 0 };
        start..self.text.len()
    }

    fn place(&self, raw: &RawValue) -> Range<usize> {
        let start = raw.get().as_ptr().addr() - self.plain.as_ptr().addr();
        start..start + raw.get().len()
    }

    fn replace(&mut self, range: Range<usize>, with: &str) {
        let insert = self.text[range.clone()].to_owned();
        self.reverse.push(Edit { at: range.start, remove: with.len(), insert });
        self.text.replace_range(range, with);
        self.plain = self.syntax.plain(&self.text);
    }

    /// An error about what is at a place.
    pub fn unfit(&self, place: &Range<usize>, problem: String) -> Unfit {
        Unfit { line: self.text[..place.start].matches('\n').count() + 1, problem }
    }
}

/// What is between the brackets of the object or list at a place.
fn inner(place: &Range<usize>) -> Range<usize> {
    place.start + 1..place.end - 1
}

struct Style {
    pretty: bool,
    newline: &'static str,
    unit: String,
}

impl Style {
    /// A value as it follows `lead`.
    fn part<V: Serialize>(&self, value: &V, name: Option<String>, lead: &str) -> String {
        let Some((_, indentation)) = lead.rsplit_once('\n') else {
            // What cannot be JSON is a mistake of ours that a test would show.
            let value = serde_json::to_string(value).unwrap_or_default();
            return name.map(|name| format!("{name}:{lead}{value}")).unwrap_or(value);
        };
        let mut bytes = Vec::new();
        let formatter = serde_json::ser::PrettyFormatter::with_indent(self.unit.as_bytes());
        let mut writer = serde_json::Serializer::with_formatter(&mut bytes, formatter);
        let _ = value.serialize(&mut writer);
        let text = String::from_utf8(bytes).unwrap_or_default();
        let text = text.replace('\n', &format!("{}{indentation}", self.newline));
        name.map(|name| format!("{name}: {text}")).unwrap_or(text)
    }
}

/// The members of an object in their order, also where a name is there twice.
struct Members<'t>(Vec<(String, &'t RawValue)>);

/// The items of a list.
struct Items<'t>(Vec<&'t RawValue>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut found = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    found.push(entry);
                }
                Ok(Members(found))
            }
        }
        deserializer.deserialize_map(Collect)
    }
}

impl<'de> Deserialize<'de> for Items<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Items<'de>;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut found = Vec::new();
                while let Some(item) = list.next_element()? {
                    found.push(item);
                }
                Ok(Items(found))
            }
        }
        deserializer.deserialize_seq(Collect)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Adds `"new": {"a": 1}` and holds that the reverse brings back the former bytes.
    fn with_member(text: &str) -> String {
        let mut document = Document::new(text.to_owned()).unwrap();
        document.add_member(&document.root(), "new", &json!({"a": 1})).unwrap();
        let (edited, reverse) = document.finish();
        assert_eq!(reverse.apply(&edited).as_deref(), Some(text));
        // Taken out as a member it leaves what was there.
        if !text.trim_matches([BOM, ' ', '\n', '{', '}']).is_empty() {
            let mut again = Document::new(edited.clone()).unwrap();
            let members = again.members(&again.root()).unwrap();
            again.remove(&again.root(), members.len() - 1).unwrap();
            assert_eq!(again.text(), text);
        }
        edited
    }

    #[test]
    fn a_member_is_added_in_the_documents_own_style() {
        let pretty = "{\n  \"new\": {\n    \"a\": 1\n  }\n}";
        assert_eq!(with_member(""), format!("{pretty}\n"));
        assert_eq!(with_member(" \n"), format!("{pretty}\n"));
        assert_eq!(with_member("{}"), pretty);
        assert_eq!(with_member("{ }\n"), format!("{pretty}\n"));
        assert_eq!(with_member("{\"z\":1}"), "{\"z\":1,\"new\":{\"a\":1}}");
        assert_eq!(with_member("{\"z\": 1, \"y\": 2}"), "{\"z\": 1, \"y\": 2, \"new\": {\"a\":1}}");
        assert_eq!(
            with_member("{\n\t\"z\": 1.50\n}\n"),
            "{\n\t\"z\": 1.50,\n\t\"new\": {\n\t\t\"a\": 1\n\t}\n}\n"
        );
        assert_eq!(
            with_member("\u{feff}{\r\n    \"z\": [1,2]\r\n}"),
            "\u{feff}{\r\n    \"z\": [1,2],\r\n    \"new\": {\r\n        \"a\": 1\r\n    }\r\n}"
        );
    }

    #[test]
    fn items_are_added_and_taken_out_wherever_they_stand() {
        let text = "{\n  \"list\": [\n    {\"x\": 1},\n    \"two\", 3\n  ],\n  \"none\": [ ]\n}\n";
        let mut document = Document::new(text.to_owned()).unwrap();
        let list = document.member(&document.root(), "list").unwrap().unwrap();
        document.add_item(&list, &json!(4)).unwrap();
        let none = document.member(&document.root(), "none").unwrap().unwrap();
        document.add_item(&none, &json!({"b": 2})).unwrap();
        assert_eq!(
            document.text(),
            "{\n  \"list\": [\n    {\"x\": 1},\n    \"two\", 3, 4\n  ],\n  \"none\": [\n    {\n      \"b\": 2\n    }\n  ]\n}\n"
        );
        let list = document.member(&document.root(), "list").unwrap().unwrap();
        document.remove(&list, 0).unwrap();
        let list = document.member(&document.root(), "list").unwrap().unwrap();
        assert_eq!(&document.text()[list.clone()], "[\n    \"two\", 3, 4\n  ]");
        document.remove(&list, 1).unwrap();
        let list = document.member(&document.root(), "list").unwrap().unwrap();
        assert_eq!(&document.text()[list], "[\n    \"two\", 4\n  ]");
        let (edited, reverse) = document.finish();
        assert_eq!(reverse.apply(&edited).as_deref(), Some(text));
        assert_eq!(reverse.apply("{}"), None);
    }

    #[test]
    fn what_is_no_object_is_refused_with_its_line() {
        let refused = |text: &str| Document::new(text.to_owned()).unwrap_err().to_string();
        assert!(refused("[]").starts_with("line 1: an object"), "{}", refused("[]"));
        assert!(refused("{\n  // no\n}").starts_with("line 2: this is no JSON"));
        assert!(refused("{\"a\": 1,}").starts_with("line 1"));
        assert!(
            refused("{\n\"a\": 1,\n\"a\": 2}").contains("line 3: \"a\" is here for the second")
        );
        assert!(refused("null").starts_with("line 1"));
    }
}
