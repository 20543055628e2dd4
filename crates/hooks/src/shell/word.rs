//! A word of a command line, as far as it is known before the line runs.

use std::borrow::Cow;

/// So many values of one word are followed; one with more counts as unknown.
const MOST_VALUES: usize = 256;

/// A word after quotes, escapes, braces and known variables are resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Word {
    /// What it may be: more than one value for `{a,b}` and for the variable of a loop. Unknown
    /// parts are left out of the text.
    pub values: Vec<String>,
    /// Some part of it is only known when the line runs.
    pub unknown: bool,
    /// It has an unquoted `*`, `?` or `[`.
    pub pattern: bool,
    /// As it stands in the line.
    pub raw: String,
}

impl Word {
    /// A word that is just this text.
    pub fn known(text: &str) -> Self {
        Self { values: vec![text.into()], unknown: false, pattern: false, raw: text.into() }
    }

    /// The text, if there is exactly one and all of it is known.
    pub fn text(&self) -> Option<&str> {
        match &self.values[..] {
            [one] if !self.unknown => Some(one),
            _ => None,
        }
    }

    /// The text as far as it is known, to look for names in.
    pub fn start(&self) -> &str {
        self.values.first().map_or("", String::as_str)
    }
}

/// Builds a word out of its parts.
#[derive(Debug)]
pub(super) struct Builder {
    values: Vec<String>,
    unknown: bool,
    pattern: bool,
}

impl Builder {
    pub fn new() -> Self {
        Self { values: vec![String::new()], unknown: false, pattern: false }
    }

    /// Adds a part that is a text.
    pub fn push(&mut self, text: &str) {
        for value in &mut self.values {
            value.push_str(text);
        }
    }

    /// Adds a part that may be one of several texts.
    pub fn push_any(&mut self, texts: &[String]) {
        if texts.is_empty() || self.values.len() * texts.len() > MOST_VALUES {
            self.unknown = true;
            return;
        }
        let before = std::mem::take(&mut self.values);
        self.values = before
            .iter()
            .flat_map(|start| texts.iter().map(move |text| format!("{start}{text}")))
            .collect();
    }

    /// Adds a part that nobody knows yet.
    pub fn push_unknown(&mut self) {
        self.unknown = true;
    }

    /// Adds unquoted text with its escapes, and notes its wildcards.
    pub fn push_unquoted(&mut self, text: &str) {
        let mut plain = String::with_capacity(text.len());
        let mut characters = text.chars();
        while let Some(character) = characters.next() {
            match character {
                '\\' => match characters.next() {
                    Some('\n') | None => {}
                    Some(escaped) => plain.push(escaped),
                },
                '*' | '?' | '[' => {
                    self.pattern = true;
                    plain.push(character);
                }
                other => plain.push(other),
            }
        }
        self.push(&plain);
    }

    pub fn finish(self, raw: &str) -> Word {
        let values: Vec<String> = match self.pattern || raw.contains('{') {
            true => self.values.iter().flat_map(|value| braces(value)).collect(),
            false => self.values,
        };
        let unknown = self.unknown || values.len() > MOST_VALUES;
        let values = values.into_iter().take(MOST_VALUES).collect();
        Word { values, unknown, pattern: self.pattern, raw: raw.into() }
    }
}

/// Escapes in double quotes.
pub(super) fn unescape(text: &str) -> Cow<'_, str> {
    if !text.contains('\\') {
        return text.into();
    }
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match (character, characters.peek()) {
            ('\\', Some('"' | '\\' | '$' | '`')) => plain.extend(characters.next()),
            ('\\', Some('\n')) => _ = characters.next(),
            _ => plain.push(character),
        }
    }
    plain.into()
}

/// `a{b,c}d` as `abd` and `acd`; the outermost braces first. A word without a list in braces is
/// itself.
fn braces(text: &str) -> Vec<String> {
    let mut done = Vec::new();
    let mut waiting = vec![text.to_owned()];
    while let Some(text) = waiting.pop() {
        match list_in(&text).filter(|_| done.len() + waiting.len() < MOST_VALUES) {
            Some((open, items, close)) => {
                let (before, after) = (&text[..open], &text[close + 1..]);
                let all = items.iter().rev().map(|item| format!("{before}{item}{after}"));
                waiting.extend(all);
            }
            None => done.push(text),
        }
    }
    done
}

/// The first list in braces: where it opens, its items, where it closes.
fn list_in(text: &str) -> Option<(usize, Vec<String>, usize)> {
    let open = text.find('{')?;
    let (mut depth, mut commas) = (0_usize, Vec::new());
    for (at, character) in text[open..].char_indices().map(|(at, one)| (at + open, one)) {
        match character {
            '{' => depth += 1,
            ',' if depth == 1 => commas.push(at),
            '}' if depth == 1 => {
                if commas.is_empty() {
                    return None;
                }
                let ends = commas.iter().copied().chain([at]);
                let starts = [open].into_iter().chain(commas.iter().copied());
                let items = starts.zip(ends).map(|(start, end)| text[start + 1..end].to_owned());
                return Some((open, items.collect(), at));
            }
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unquoted(text: &str) -> Word {
        let mut builder = Builder::new();
        builder.push_unquoted(text);
        builder.finish(text)
    }

    #[test]
    fn braces_are_several_words() {
        assert_eq!(unquoted("a{b,c}d").values, ["abd", "acd"]);
        assert_eq!(unquoted("{a,{b,c}}/x").values, ["a/x", "b/x", "c/x"]);
        assert_eq!(unquoted("{}").values, ["{}"]);
        assert_eq!(unquoted("a{b").values, ["a{b"]);
    }

    #[test]
    fn more_values_than_anybody_means_are_unknown() {
        let word = unquoted(&"{a,b}".repeat(40));
        assert!(word.unknown && word.values.len() <= MOST_VALUES);
    }

    #[test]
    fn an_escaped_wildcard_is_a_character() {
        assert_eq!(unquoted(r"a\*b").text(), Some("a*b"));
        assert!(!unquoted(r"a\*b").pattern && unquoted("a*b").pattern);
    }
}
