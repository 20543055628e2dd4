//! Cuts a dump into its parts, fed with blocks that end anywhere.
//!
//! It follows `psql`, not the server: quotes, dollar quotes, nested comments, parentheses and
//! `BEGIN ATOMIC` bodies hide semicolons, a backslash outside of them is a command, and behind
//! `COPY … FROM stdin;` come rows up to the line `\.`. Any bytes are lexed somehow; memory does not grow with them.

use std::ops::Range;
use std::sync::LazyLock;

use memchr::memmem::Finder;

/// What a stretch of the text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// White space and comments between statements.
    Between,
    /// A statement, with its semicolon; a long one comes in several stretches.
    Statement,
    /// Rows, with the line that ends them; in several stretches.
    Rows,
    /// A command to `psql`, with the end of its line; perhaps in several stretches.
    Command,
}

/// A stretch of the block, or the end of what the stretches before belong to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A stretch.
    Stretch(Part, Range<usize>),
    /// A statement, rows or a command are complete.
    End(Part),
}

/// How much of a statement is remembered.
pub const HEAD: usize = 4096;
/// How many of a statement's first words are remembered, and how much of each.
const WORDS: usize = 6;
const WORD_MAX: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Code,
    /// After one `-`, or one `/`.
    Dash,
    Slash,
    LineComment,
    /// With how deeply nested, and the last byte if that may begin or end one.
    BlockComment {
        depth: u32,
        last: u8,
    },
    Quote {
        escapes: bool,
    },
    /// After a backslash in a string with escapes.
    Escaped,
    /// After a quote that may be the end of a string; with whether a new line has begun since.
    Quoted {
        escapes: bool,
        adjacent: bool,
        newline: bool,
    },
    Identifier,
    /// In the opening tag of a dollar quote.
    Tag,
    /// In a dollar quote, with how much of the closing tag has been seen.
    Dollar {
        seen: usize,
    },
    Command,
    /// Behind the semicolon of a `COPY`, up to the end of the line.
    BeforeRows,
    Rows(Line),
}

/// How far a line of rows is on its way to being the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line {
    Start,
    Backslash,
    Dot,
    Return,
    Middle,
}

/// The lexer.
#[derive(Debug)]
pub struct Lexer {
    state: State,
    /// Whether `'…'` has no escapes.
    standard: bool,
    statement: Statement,
    tag: Vec<u8>,
}

/// What is known of the statement so far.
#[derive(Debug, Default)]
struct Statement {
    begun: bool,
    head: Vec<u8>,
    /// The word that is being read, in lower case.
    word: Vec<u8>,
    words: Vec<Vec<u8>>,
    word_count: usize,
    parentheses: u32,
    /// How many parentheses were opened: behind the name of a function come its arguments.
    opened: usize,
    /// How many `BEGIN` and `CASE` of a function's body wait for their `END`.
    blocks: u32,
    /// Whether the word before was `FROM`, and whether `FROM stdin` has been seen.
    from: bool,
    from_stdin: bool,
}

impl Statement {
    fn end_word(&mut self) {
        if self.word.is_empty() {
            return;
        }
        let word = &self.word[..];
        if self.parentheses == 0 {
            self.from_stdin |= self.from && word == b"stdin";
            self.from = word == b"from";
            if self.is_routine() {
                match word {
                    // The name of the function itself, which the rewriter puts into quotes for `psql`.
                    b"begin" if self.opened == 0 => {}
                    b"begin" => self.blocks = self.blocks.saturating_add(1),
                    b"case" if self.blocks > 0 => self.blocks = self.blocks.saturating_add(1),
                    b"end" => self.blocks = self.blocks.saturating_sub(1),
                    _ => {}
                }
            }
        }
        if self.words.len() < WORDS {
            self.words.push(self.word.clone());
        }
        self.word_count += 1;
        self.word.clear();
    }

    /// Whether it creates a function or procedure, whose body may be statements.
    fn is_routine(&self) -> bool {
        let word = |at: usize| self.words.get(at).map(|word| &word[..]);
        let kind = match (word(1), word(2)) {
            (Some(b"or"), Some(b"replace")) => word(3),
            (kind, _) => kind,
        };
        word(0) == Some(b"create") && matches!(kind, Some(b"function" | b"procedure"))
    }

    fn is_copy_in(&self) -> bool {
        self.from_stdin && self.words.first().is_some_and(|word| word == b"copy")
    }
}

impl Default for Lexer {
    fn default() -> Self {
        Self {
            state: State::Code,
            standard: true,
            statement: Statement::default(),
            tag: Vec::new(),
        }
    }
}

static LAST_LINE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\n\\."));

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

impl Lexer {
    /// The first words of the statement that is being read or has just ended, in lower case, without what is quoted.
    pub fn words(&self) -> impl Iterator<Item = &[u8]> {
        self.statement.words.iter().map(Vec::as_slice)
    }

    /// The first [`HEAD`] bytes of the statement that is being read or has just ended.
    pub fn head(&self) -> &[u8] {
        &self.statement.head
    }

    /// Whether the statement creates a function or procedure, whose body may be statements.
    pub fn is_routine(&self) -> bool {
        self.statement.is_routine()
    }

    /// Whether rows follow the statement that has just ended.
    pub fn is_copy_in(&self) -> bool {
        self.statement.is_copy_in()
    }

    /// Whether the text may end here: not in the middle of anything.
    pub fn is_between(&self) -> bool {
        !self.statement.begun
            && matches!(self.state, State::Code | State::LineComment | State::Dash | State::Slash)
    }

    /// Cuts the next block. `each` gets stretches that cover it, in order, with ends between them.
    pub fn feed<E>(
        &mut self,
        block: &[u8],
        mut each: impl FnMut(&Self, Event) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut at = 0;
        while at < block.len() {
            let start = at;
            let (part, ended) = self.stretch(block, &mut at);
            if at > start {
                if part == Part::Statement {
                    let room = HEAD - self.statement.head.len().min(HEAD);
                    let taken = &block[start..at];
                    self.statement.head.extend_from_slice(&taken[..taken.len().min(room)]);
                }
                each(self, Event::Stretch(part, start..at))?;
            }
            if ended {
                each(self, Event::End(part))?;
                self.ended(part);
            }
        }
        Ok(())
    }

    fn ended(&mut self, part: Part) {
        if part != Part::Statement {
            return;
        }
        let statement = std::mem::take(&mut self.statement);
        let mut words = statement.words.iter().map(Vec::as_slice).filter(|word| *word != b"local");
        if words.next() == Some(b"set") && words.next() == Some(b"standard_conforming_strings") {
            match words.next() {
                Some(b"off") => self.standard = false,
                Some(b"on") => self.standard = true,
                _ => {}
            }
        }
        if statement.is_copy_in() {
            self.state = State::BeforeRows;
        }
    }

    /// Takes bytes from `at` on that are the same part; says which, and whether it ends there.
    fn stretch(&mut self, block: &[u8], at: &mut usize) -> (Part, bool) {
        match self.state {
            State::Rows(line) => {
                let ended = self.rows(line, block, at);
                (Part::Rows, ended)
            }
            State::BeforeRows => {
                let byte = block[*at];
                *at += 1;
                if byte == b'\n' {
                    self.state = State::Rows(Line::Start);
                }
                // Whatever else stands there, `psql` would keep for later.
                (if is_blank(byte) { Part::Between } else { Part::Command }, false)
            }
            State::Command => match memchr::memchr(b'\n', &block[*at..]) {
                Some(end) => {
                    *at += end + 1;
                    self.state = State::Code;
                    (Part::Command, true)
                }
                None => {
                    *at = block.len();
                    (Part::Command, false)
                }
            },
            _ => {
                let begun = self.statement.begun;
                while *at < block.len() {
                    let byte = block[*at];
                    if self.state == State::Code {
                        if byte == b'\\' {
                            // Ends the stretch; the command begins with the next one.
                            self.statement.end_word();
                            self.state = State::Command;
                            break;
                        }
                        if !begun && begins(byte) {
                            // Ends the stretch; the statement begins with the next one.
                            self.statement.begun = true;
                            break;
                        }
                        *at += 1;
                        if self.code(byte) {
                            self.state = State::Code;
                            return (Part::Statement, true);
                        }
                        continue;
                    }
                    self.inside(block, at);
                }
                (if begun { Part::Statement } else { Part::Between }, false)
            }
        }
    }

    /// One byte outside of everything; true if it ends the statement.
    fn code(&mut self, byte: u8) -> bool {
        let statement = &mut self.statement;
        if is_word(byte) || (byte == b'$' && !statement.word.is_empty()) {
            // A digit begins no word, but belongs to one.
            if statement.word.len() < WORD_MAX
                && (!byte.is_ascii_digit() || !statement.word.is_empty())
            {
                statement.word.push(byte.to_ascii_lowercase());
            }
            return false;
        }
        let escapes = byte == b'\'' && statement.word == b"e";
        statement.end_word();
        match byte {
            b'\'' => self.state = State::Quote { escapes: escapes || !self.standard },
            b'"' => {
                statement.from = false;
                self.state = State::Identifier;
            }
            b'$' => {
                self.tag.clear();
                self.tag.push(b'$');
                self.state = State::Tag;
            }
            b'-' => self.state = State::Dash,
            b'/' => self.state = State::Slash,
            b'(' => {
                statement.opened += 1;
                statement.parentheses = statement.parentheses.saturating_add(1);
            }
            b')' => statement.parentheses = statement.parentheses.saturating_sub(1),
            b';' => return statement.parentheses == 0 && statement.blocks == 0,
            _ => {}
        }
        false
    }

    /// Bytes inside of a quote or comment, or just behind one that may be its beginning.
    fn inside(&mut self, block: &[u8], at: &mut usize) {
        let rest = &block[*at..];
        let byte = rest[0];
        let (next, taken) = match self.state {
            State::Dash if byte == b'-' => (State::LineComment, 1),
            State::Slash if byte == b'*' => (State::BlockComment { depth: 1, last: 0 }, 1),
            State::LineComment => match memchr::memchr(b'\n', rest) {
                Some(end) => (State::Code, end + 1),
                None => (State::LineComment, rest.len()),
            },
            State::BlockComment { depth, last } => match (last, byte) {
                (b'*', b'/') if depth == 1 => (State::Code, 1),
                (b'*', b'/') => (State::BlockComment { depth: depth - 1, last: 0 }, 1),
                (b'/', b'*') => {
                    (State::BlockComment { depth: depth.saturating_add(1), last: 0 }, 1)
                }
                _ => (State::BlockComment { depth, last: byte }, 1),
            },
            State::Quote { escapes: false } => match memchr::memchr(b'\'', rest) {
                Some(end) => {
                    (State::Quoted { escapes: false, adjacent: true, newline: false }, end + 1)
                }
                None => (self.state, rest.len()),
            },
            State::Quote { escapes: true } => match memchr::memchr2(b'\'', b'\\', rest) {
                Some(end) if rest[end] == b'\\' => (State::Escaped, end + 1),
                Some(end) => {
                    (State::Quoted { escapes: true, adjacent: true, newline: false }, end + 1)
                }
                None => (self.state, rest.len()),
            },
            State::Escaped => (State::Quote { escapes: true }, 1),
            State::Quoted { escapes, adjacent, newline } => match byte {
                b'\'' if adjacent || newline => (State::Quote { escapes }, 1),
                byte if is_blank(byte) => {
                    let newline = newline || byte == b'\n' || byte == b'\r';
                    (State::Quoted { escapes, adjacent: false, newline }, 1)
                }
                _ => (State::Code, 0),
            },
            State::Identifier => match memchr::memchr(b'"', rest) {
                Some(end) => (State::Code, end + 1),
                None => (self.state, rest.len()),
            },
            State::Tag => match byte {
                b'$' => {
                    self.tag.push(b'$');
                    (State::Dollar { seen: 0 }, 1)
                }
                byte if is_word(byte)
                    && self.tag.len() <= WORD_MAX
                    && (self.tag.len() > 1 || !byte.is_ascii_digit()) =>
                {
                    self.tag.push(byte);
                    (State::Tag, 1)
                }
                _ => (State::Code, 0),
            },
            State::Dollar { seen } => self.dollar(seen, rest),
            _ => (State::Code, 0),
        };
        self.state = next;
        *at += taken;
    }

    /// Looks for the end of a dollar quote.
    fn dollar(&self, seen: usize, rest: &[u8]) -> (State, usize) {
        if seen == 0 {
            return match memchr::memchr(b'$', rest) {
                Some(at) => (State::Dollar { seen: 1 }, at + 1),
                None => (State::Dollar { seen: 0 }, rest.len()),
            };
        }
        if seen == self.tag.len() {
            return (State::Code, 0);
        }
        match rest[0] {
            byte if byte == self.tag[seen] => (State::Dollar { seen: seen + 1 }, 1),
            // It may be the beginning of the tag all the same.
            b'$' => (State::Dollar { seen: 1 }, 1),
            _ => (State::Dollar { seen: 0 }, 1),
        }
    }

    /// Rows up to the end of the block or of the rows; true at the latter.
    fn rows(&mut self, mut line: Line, block: &[u8], at: &mut usize) -> bool {
        while *at < block.len() {
            let byte = block[*at];
            line = match (line, byte) {
                (Line::Start, b'\\') => Line::Backslash,
                (Line::Backslash, b'.') => Line::Dot,
                (Line::Dot, b'\r') => Line::Return,
                (Line::Dot | Line::Return, b'\n') => {
                    *at += 1;
                    self.state = State::Code;
                    return true;
                }
                (_, b'\n') => Line::Start,
                (Line::Middle, _) => {
                    let rest = &block[*at..];
                    if let Some(found) = LAST_LINE.find(rest) {
                        *at += found + 3;
                        line = Line::Dot;
                    } else {
                        *at = block.len();
                        line = match rest {
                            [.., b'\n'] => Line::Start,
                            [.., b'\n', b'\\'] => Line::Backslash,
                            _ => Line::Middle,
                        };
                    }
                    continue;
                }
                _ => Line::Middle,
            };
            *at += 1;
        }
        self.state = State::Rows(line);
        false
    }
}

/// Whether a byte outside of everything begins a statement: what may begin a comment does not.
fn begins(byte: u8) -> bool {
    !is_blank(byte) && byte != b'-' && byte != b'/'
}
