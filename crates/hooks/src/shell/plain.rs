//! Lines of plain commands, read without the grammar, which takes microseconds for every word.
//!
//! Plain are words, quotes, escapes, `$NAME`, redirections to files, and `;`, `&`, `&&`, `||`, `|`
//! and ends of lines between commands. At anything else this reader gives up, and the grammar reads
//! the whole line. It also gives up wherever the grammar is known to differ from a shell: tests hold
//! both readers against each other.

use super::Environment;
use super::steps::{Folder, Progress, Script};
use super::word::{Builder, Word, unescape};

/// Words that begin something else than a command if they stand first.
const KEYWORDS: [&str; 22] = [
    "if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "case", "esac",
    "in", "select", "function", "declare", "typeset", "export", "readonly", "local", "unset",
    "unsetenv",
];

/// What stands for itself in a word, besides letters and digits, or is a wildcard.
const LETTERS: &[u8] = b"_-./,:+@%=~^*?";

/// Reads a line that would run in `folder`, if it is plain.
pub(super) fn read(line: &str, folder: &Folder, environment: &Environment) -> Option<Script> {
    let progress = Progress::new(folder.clone(), environment);
    let mut reader = Reader {
        line,
        at: 0,
        progress,
        words: Vec::new(),
        own: None,
        input: None,
        is_awaited: false,
    };
    while let Some(byte) = reader.peek() {
        reader.next(byte)?;
    }
    match reader.is_awaited && reader.words.is_empty() {
        true => None,
        false => {
            reader.end_command();
            Some(reader.progress.script)
        }
    }
}

struct Reader<'a> {
    line: &'a str,
    at: usize,
    progress: Progress<'a>,
    /// The words of the command that is being read.
    words: Vec<Word>,
    /// How many of them stand in front of its first redirection, if there is one.
    own: Option<usize>,
    /// What it reads from a pipe.
    input: Option<String>,
    /// An operator stands before it, so it must not be missing.
    is_awaited: bool,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<u8> {
        self.line.as_bytes().get(self.at).copied()
    }

    /// Passes over a text if it stands here.
    fn takes(&mut self, text: &str) -> bool {
        let is_here = self.line.as_bytes()[self.at..].starts_with(text.as_bytes());
        self.at += if is_here { text.len() } else { 0 };
        is_here
    }

    fn skip_blanks(&mut self) {
        while let Some(b' ' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    /// Reads one word, redirection or operator. `None` gives the line up.
    fn next(&mut self, byte: u8) -> Option<()> {
        match byte {
            b' ' | b'\t' => self.at += 1,
            b'\\' if self.is_continued() => {
                self.at += 2;
                self.skip_blanks();
                // The grammar wants something behind it.
                self.peek().filter(|next| !matches!(next, b'\n' | b';' | b'\\'))?;
            }
            b'\n' => {
                self.at += 1;
                // After an operator the command may stand on the next line.
                if !self.words.is_empty() {
                    self.end_command();
                }
            }
            b'&' if self.takes("&&") => self.separate(true)?,
            b'&' if self.takes("&>>") => self.redirect("&>>")?,
            b'&' if self.takes("&>") => self.redirect("&>")?,
            b'&' | b';' => {
                self.at += 1;
                self.separate(false)?;
            }
            b'|' if self.takes("||") => self.separate(true)?,
            b'|' => {
                _ = self.takes("|&") || self.takes("|");
                self.separate(true)?;
                self.input = self.progress.output.take();
            }
            b'>' | b'<' => {
                let mut known = [">>", ">|", ">&", "<&", ">", "<"].into_iter();
                let operator = known.find(|operator| self.takes(operator))?;
                self.redirect(operator)?;
            }
            _ => {
                let word = self.word()?;
                let is_first = self.words.is_empty();
                if matches!(self.peek(), Some(b'<' | b'>')) && word.raw.ends_with(is_digit) {
                    // `2>`: the stream's number. The grammar also finds one at the end of a word,
                    // and takes `0` for a word.
                    return (!is_first && matches!(&*word.raw, "1" | "2")).then_some(());
                }
                if is_first && !is_name(&word.raw) {
                    return None;
                }
                self.words.push(word);
            }
        }
        Some(())
    }

    /// A backslash in front of the line's end, with a blank before it.
    fn is_continued(&self) -> bool {
        let bytes = self.line.as_bytes();
        let is_apart = self.at == 0 || matches!(bytes[self.at - 1], b' ' | b'\t');
        is_apart && bytes.get(self.at + 1) == Some(&b'\n')
    }

    /// Ends a command at an operator, behind which another one may or must follow.
    fn separate(&mut self, is_awaited: bool) -> Option<()> {
        if self.words.is_empty() {
            return None;
        }
        self.end_command();
        self.is_awaited = is_awaited;
        Some(())
    }

    fn end_command(&mut self) {
        let words = std::mem::take(&mut self.words);
        if words.is_empty() {
            return;
        }
        let own = self.own.take().unwrap_or(words.len());
        self.progress.run(words, own, self.input.take().as_deref());
        self.is_awaited = false;
    }

    /// Reads the file behind an operator.
    fn redirect(&mut self, operator: &'static str) -> Option<()> {
        if self.words.is_empty() {
            return None;
        }
        self.skip_blanks();
        let file = self.word()?;
        // `>&-` closes a stream.
        if operator.ends_with('&') && file.raw.starts_with('-') {
            return None;
        }
        self.own.get_or_insert(self.words.len());
        self.progress.redirect(operator, file);
        Some(())
    }

    /// Reads a word up to a blank or an operator.
    fn word(&mut self) -> Option<Word> {
        let start = self.at;
        let mut word = Builder::new();
        while let Some(byte) = self.peek() {
            match byte {
                b'\'' => {
                    let text = self.line[self.at + 1..].split_once('\'')?.0;
                    word.push(readable(text)?);
                    self.at += text.len() + 2;
                }
                b'"' => self.add_string(&mut word)?,
                b'$' => {
                    let is_first = self.at == start;
                    self.add_variable(&mut word)?;
                    // Amid other parts the grammar may take `$` alone for a word.
                    let is_last = |next: u8| b" \t\n;&|/".contains(&next);
                    if !is_first || !self.peek().is_none_or(is_last) {
                        return None;
                    }
                }
                // The grammar takes an escape behind a quote for another word.
                b'\\' if self.at > start => return None,
                _ => match self.unquoted()? {
                    "" => break,
                    text => word.push_unquoted(text),
                },
            }
        }
        let raw = &self.line[start..self.at];
        let is_operator = raw.starts_with("==") || raw.starts_with("=~") || raw == "-";
        (!raw.is_empty() && !is_operator).then(|| word.finish(raw))
    }

    /// Passes over letters without a meaning, and escapes.
    fn unquoted(&mut self) -> Option<&'a str> {
        let (start, bytes) = (self.at, self.line.as_bytes());
        while let Some(byte) = self.peek() {
            match byte {
                byte if byte.is_ascii_alphanumeric() || LETTERS.contains(&byte) => self.at += 1,
                b'\\' => {
                    let is_inside = self.at > start;
                    match bytes.get(self.at + 1)? {
                        // The grammar takes it for a blank elsewhere.
                        b' ' if is_inside => {}
                        escaped if escaped.is_ascii_graphic() => {}
                        _ => return None,
                    }
                    self.at += 2;
                }
                b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b'<' | b'>' | b'\'' | b'"' | b'$' => {
                    break;
                }
                _ => return None,
            }
        }
        Some(&self.line[start..self.at])
    }

    /// A text in double quotes.
    fn add_string(&mut self, word: &mut Builder) -> Option<()> {
        self.at += 1;
        let mut start = self.at;
        loop {
            match self.peek()? {
                b'"' => break,
                b'`' => return None,
                b'\\' => self.at += 2,
                b'$' => {
                    let before = &self.line[start..self.at];
                    // The grammar loses blanks that stand alone in front of a variable.
                    if !before.is_empty() && before.trim().is_empty() {
                        return None;
                    }
                    word.push(&unescape(readable(before)?));
                    self.add_variable(word)?;
                    start = self.at;
                }
                _ => self.at += 1,
            }
        }
        word.push(&unescape(readable(&self.line[start..self.at])?));
        self.at += 1;
        Some(())
    }

    /// `$NAME`.
    fn add_variable(&mut self, word: &mut Builder) -> Option<()> {
        let rest = &self.line[self.at + 1..];
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let end = rest.find(|c: char| !is_part(c)).unwrap_or(rest.len());
        let name = &rest[..end];
        let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic());
        if !is_name || rest[end..].chars().next().is_some_and(|next| !next.is_ascii()) {
            return None;
        }
        self.progress.add_variable(name, word);
        self.at += 1 + end;
        Some(())
    }
}

/// A quoted text, unless it has a character that the grammar takes for a blank or an end.
fn readable(text: &str) -> Option<&str> {
    let is_odd = |c: char| c.is_control() && c != '\n' && c != '\t';
    (!text.contains(is_odd)).then_some(text)
}

/// Whether the first word of a command is sure to be its name.
fn is_name(word: &str) -> bool {
    if word.starts_with(['\'', '"', '$']) {
        return true;
    }
    let is_sure = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./".contains(&byte);
    word.bytes().all(is_sure) && !word.starts_with('-') && !KEYWORDS.contains(&word)
}

fn is_digit(character: char) -> bool {
    character.is_ascii_digit()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::grammar;
    use super::*;

    /// What both readers make of a line; the plain one, if it does not give up.
    fn both(line: &str) -> (Option<Script>, Script) {
        let folder: Folder = Some(std::path::Path::new("/project").into());
        let environment = Environment::from([("NAME".into(), "value".into())]);
        (read(line, &folder, &environment), grammar::read(line, folder, &environment))
    }

    #[test]
    fn both_readers_see_the_same_in_every_kept_line() {
        let (mut lines, mut plain) = (0, 0);
        let verdicts = include_str!("../../fixtures/verdicts.txt");
        let verdicts = verdicts.lines().filter_map(|row| Some(row.split_once(" | ")?.1));
        let others = [
            include_str!("../../fixtures/ordinary.txt"),
            include_str!("../../fixtures/blind-ordinary.txt"),
            include_str!("../../fixtures/blind-destructive.txt"),
        ];
        for line in verdicts.chain(others.iter().flat_map(|text| text.lines())) {
            let line = line.replace('⏎', "\n");
            let (found, expected) = both(&line);
            lines += 1;
            let Some(found) = found else { continue };
            plain += 1;
            assert_eq!(found, expected, "{line}");
        }
        // Fewer would mean that most lines pay for the grammar.
        assert!(plain * 100 > lines * 65, "{plain} of {lines}");
    }

    #[test]
    fn what_is_not_plain_is_left_to_the_grammar() {
        for line in [
            "x=1 a",
            "a $(b)",
            "a `b`",
            "(a)",
            "{ a; }",
            "a {b,c}",
            "! a",
            "a <<E\nE",
            "a <<< b",
            "if a; then b; fi",
            "for x in a; do b; done",
            "f() { a; }",
            "a # b",
            "a [b]",
            "a ${B}",
            "a \"$(b)\"",
            "a \"`b`\"",
            "a 'b",
            "a \"b",
            "a &&",
            "| a",
            "a ;; b",
            "export A=b",
            "> a",
            "a >",
            "a $'b'",
            "a \\",
            "[ -f a ]",
            "a 2>&-",
            "a\u{a0}b",
            "a\rb",
            "a \"$1\"",
        ] {
            assert_eq!(both(line).0, None, "{line}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]
        #[test]
        fn both_readers_see_the_same_in_any_line(
            pieces in prop::collection::vec(prop::sample::select(PIECES), 0..14),
            spaces in any::<u16>(),
        ) {
            let mut line = String::new();
            for (at, piece) in pieces.iter().enumerate() {
                line.push_str(piece);
                line.push_str(if spaces >> at & 1 == 1 { " " } else { "" });
            }
            let (found, expected) = both(&line);
            if let Some(found) = found {
                prop_assert_eq!(found, expected, "{:?}", line);
            }
        }

        #[test]
        fn any_text_can_be_read(line in any::<String>()) {
            let (found, expected) = both(&line);
            if let Some(found) = found {
                prop_assert_eq!(found, expected);
            }
        }
    }

    const PIECES: &[&str] = &[
        "a",
        "b",
        "rm",
        "-rf",
        "cd",
        "src",
        "echo",
        "cat",
        "-",
        "--",
        "--x=y",
        "x=y",
        "x+=y",
        "1",
        "2",
        "12",
        "-1",
        "0x1f",
        "1.5",
        " ",
        " ",
        "  ",
        "\t",
        "\n",
        ";",
        ";",
        "&",
        "&&",
        "&&",
        "|",
        "|",
        "||",
        "|&",
        ">",
        ">",
        ">>",
        ">|",
        ">&",
        "&>",
        "&>>",
        "<",
        "<&",
        "2>&1",
        "2>",
        "<<",
        "\\\n",
        "\\ ",
        "\\",
        "\\;",
        "\\n",
        "\\é",
        "'",
        "\"",
        "'a b'",
        "\"c d\"",
        "\"x\\\"y\"",
        "''",
        "\"\"",
        "\"a $NAME b\"",
        "$HOME",
        "$NAME",
        "$PWD",
        "$none",
        "${NAME}",
        "$1",
        "$",
        "*",
        "?",
        "*.txt",
        "~",
        "~/x",
        "=",
        "==",
        "=~",
        "!=",
        "!",
        "#",
        "# c\n",
        "{",
        "}",
        "{a,b}",
        "[",
        "]",
        "(",
        ")",
        "`",
        "^",
        "%",
        "@",
        ":",
        "+",
        ",",
        "/",
        ".",
        "..",
        "é",
        "\u{a0}",
        "\r",
        "if",
        "then",
        "fi",
        "do",
        "done",
        "esac",
        "in",
        "time",
        "export",
        "function",
        "select",
        "test",
        "'\n'",
        "\"\n\"",
        "\"é\"",
        "\"\\\n\"",
    ];
}
