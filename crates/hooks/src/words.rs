//! Command lines as words: splitting what a person typed, and quoting a word for a shell.
//!
//! Splitting follows the shell's quotes and expands nothing: `$(…)`, `*` and `~` are letters like
//! any other.

/// A quote that is never closed, or a backslash at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unfinished {
    /// The quote of this kind is not closed.
    #[error("the quote {0} is not closed")]
    Quote(char),
    /// Nothing follows the last backslash.
    #[error("nothing follows the last backslash")]
    Backslash,
}

/// The words of a line, as a shell would see them if nothing in them meant anything.
pub fn split(line: &str) -> Result<Vec<String>, Unfinished> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut rest = line.chars();
    while let Some(letter) = rest.next() {
        match letter {
            '\'' | '"' => quoted(letter, &mut rest, word.get_or_insert_default())?,
            '\\' => {
                let next = rest.next().ok_or(Unfinished::Backslash)?;
                word.get_or_insert_default().push(next);
            }
            _ if letter.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    Ok(words)
}

/// Reads up to the closing quote.
fn quoted(quote: char, rest: &mut std::str::Chars, word: &mut String) -> Result<(), Unfinished> {
    let unfinished = Unfinished::Quote(quote);
    loop {
        let letter = rest.next().ok_or(unfinished)?;
        if letter == quote {
            return Ok(());
        }
        if letter != '\\' || quote == '\'' {
            word.push(letter);
            continue;
        }
        // Between double quotes a backslash stands for itself, unless a quote or another one
        // follows.
        let next = rest.next().ok_or(unfinished)?;
        if next != '"' && next != '\\' {
            word.push('\\');
        }
        word.push(next);
    }
}

/// A word that a shell takes as it is.
pub fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,~".contains(c);
    if !word.is_empty() && word.chars().all(plain) && !word.starts_with('~') {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn words_are_quoted_where_a_shell_would_split_or_expand_them() {
        assert_eq!(quote("src/main.rs"), "src/main.rs");
        assert_eq!(quote("@{2 hours ago}"), "'@{2 hours ago}'");
        assert_eq!(quote("it's"), r"'it'\''s'");
        assert_eq!(quote(""), "''");
        assert_eq!(quote("~x"), "'~x'");
        assert_eq!(quote("latest~2"), "latest~2");
    }

    #[test]
    fn quotes_hold_words_together_and_nothing_is_expanded() {
        let words = |line: &str| split(line).unwrap();
        assert_eq!(words("  a  b\tc\n"), ["a", "b", "c"]);
        assert_eq!(words(r#"save "Before adding Stripe""#), ["save", "Before adding Stripe"]);
        assert_eq!(words(r#""a\"b\\c\d" '' x'y z'"#), [r#"a"b\c\d"#, "", "xy z"]);
        assert_eq!(words(r"a\ b \'"), ["a b", "'"]);
        assert_eq!(words("$(rm -rf x) `id` * ~"), ["$(rm", "-rf", "x)", "`id`", "*", "~"]);
        assert_eq!(split("don't"), Err(Unfinished::Quote('\'')));
        assert_eq!(split("\"a"), Err(Unfinished::Quote('"')));
        assert_eq!(split("a\\"), Err(Unfinished::Backslash));
    }

    proptest! {
        #[test]
        fn any_line_can_be_split(line in any::<String>()) {
            let _ = split(&line);
        }

        #[test]
        fn quoted_words_come_back(words in prop::collection::vec(any::<String>(), 0..8)) {
            let line = words.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" ");
            prop_assert_eq!(split(&line).unwrap(), words);
        }

        #[test]
        fn quotes_and_backslashes_come_back(words in prop::collection::vec(r#"[ '"\\$a\n]{0,6}"#, 0..8)) {
            let line = words.iter().map(|word| quote(word)).collect::<Vec<_>>().join("\n");
            prop_assert_eq!(split(&line).unwrap(), words);
        }
    }
}
