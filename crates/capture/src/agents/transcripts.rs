//! Reading transcripts: bytes in, items out, no I/O.
//!
//! A [`Reader`] takes the bytes of one transcript in the order of the file, in pieces of any size,
//! and gives what each complete line tells. What it has to remember between two pieces is a value
//! that can be kept with serde. What comes out does not depend on where the pieces were cut, with
//! one exception that follows from the matter: that an item turned out to lie on an abandoned
//! branch is said on the item if both were in the same piece, and as a [`Mark`] otherwise.
//!
//! Nothing here fails: lines that mean nothing are counted. Not guaranteed: that a vendor's next
//! version says the same things in the same way.

mod claude;
mod codex;
pub(super) mod field;
mod gemini;
mod item;

use std::ops::Range;

use rappel_types::{RelPath, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Provider;

pub use item::{Item, Session, ThoughtKind, Tokens};

/// Texts longer than this are cut in the parsed view.
pub const TEXT_MAX: usize = 16 << 10;
/// Longer lines are passed over: more than an agent writes, less than would hurt.
pub const LINE_MAX: usize = 64 << 20;
/// How much of a file's beginning says that it is still the same file.
pub const HEAD_MAX: usize = 4 << 10;
/// Raised when a reader's memory means something else than before.
const VERSION: u32 = 1;

/// Something that a transcript tells.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// When, if the line says so.
    pub at: Option<Timestamp>,
    /// Where in the transcript the line begins. Together with its place among the line's items it
    /// names this item for good.
    pub line: u64,
    /// How many bytes of the item's texts were left out ([`TEXT_MAX`]).
    pub cut: u64,
    /// Whether the conversation went on without it, as far as is known by now.
    pub abandoned: bool,
    /// What.
    pub item: Item,
}

/// Says of items that were given earlier whether the conversation went on without them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// Which: all whose line begins in here, but for [`Item::Session`] and [`Item::Title`].
    pub lines: Range<u64>,
    /// What holds from now on. A branch can be taken up again.
    pub abandoned: bool,
}

/// What one piece of a transcript told.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Batch {
    /// In the order of the lines.
    pub found: Vec<Found>,
    /// What changed about items of earlier batches, in order.
    pub marks: Vec<Mark>,
    /// How many lines were not understood.
    pub skipped: u64,
}

impl Batch {
    /// Whether it tells nothing.
    pub fn is_empty(&self) -> bool {
        self.found.is_empty() && self.marks.is_empty()
    }
}

/// How a reader goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resume {
    /// Where it was.
    On,
    /// From the beginning: the file was replaced, cut, or read by another version. Everything is
    /// told again.
    Anew,
}

/// What is remembered of a transcript between two readings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reader {
    version: u32,
    /// The first byte that was not read.
    offset: u64,
    /// How the file began.
    head: Head,
    /// Whether the offset lies within a line that is too long.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    in_long_line: bool,
    /// Lines not understood so far.
    skipped: u64,
    parser: Parser,
}

/// The beginning of a file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Head {
    length: usize,
    hash: String,
}

impl Head {
    fn of(bytes: &[u8]) -> Self {
        let bytes = &bytes[..bytes.len().min(HEAD_MAX)];
        Self { length: bytes.len(), hash: blake3::hash(bytes).to_hex().to_string() }
    }

    fn fits(&self, head: &[u8]) -> bool {
        self.length == 0
            || head.get(..self.length).is_some_and(|head| Self::of(head).hash == self.hash)
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Parser {
    Claude(claude::State),
    Codex(codex::State),
    Gemini(gemini::State),
}

impl Reader {
    /// For a transcript that was never read. Its path below the agent's home tells what its lines
    /// may not: whose subagent wrote it.
    pub fn new(provider: Provider, path: &RelPath) -> Self {
        let parser = match provider {
            Provider::Claude => Parser::Claude(claude::State::default()),
            Provider::Codex => Parser::Codex(codex::State::default()),
            Provider::Gemini => Parser::Gemini(gemini::State::of(path)),
        };
        Self {
            version: VERSION,
            offset: 0,
            head: Head::default(),
            in_long_line: false,
            skipped: 0,
            parser,
        }
    }

    /// The first byte that was not read.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The hash of how the file began: the same as long as it is the same file.
    pub fn head(&self) -> &str {
        &self.head.hash
    }

    /// How many lines were not understood so far.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Goes on with a file that begins with `head` (its first [`HEAD_MAX`] bytes, or all of it) and
    /// has `size` bytes now. `path` as for [`Reader::new`].
    pub fn resume(&mut self, path: &RelPath, head: &[u8], size: u64) -> Resume {
        if self.version != VERSION || size < self.offset || !self.head.fits(head) {
            *self = Self::new(self.provider(), path);
            return Resume::Anew;
        }
        let read = usize::try_from(self.offset).unwrap_or(usize::MAX).min(head.len());
        if read > self.head.length {
            self.head = Head::of(&head[..read]);
        }
        Resume::On
    }

    /// Takes bytes that begin at [`Reader::offset`]. Only complete lines count: the offset moves
    /// behind the last one, and the rest has to be given again, with what follows it.
    pub fn feed(&mut self, bytes: &[u8]) -> Batch {
        let begin = self.offset;
        let mut batch = Batch::default();
        let mut rest = bytes;
        while let Some(end) = memchr::memchr(b'\n', rest) {
            let (line, after) = (&rest[..end], &rest[end + 1..]);
            if !self.line(line, begin, &mut batch) {
                self.skipped += 1;
                batch.skipped += 1;
            }
            self.offset += end as u64 + 1;
            rest = after;
        }
        if self.in_long_line || rest.len() > LINE_MAX {
            self.in_long_line = true;
            self.offset += rest.len() as u64;
            rest = &[];
        }
        if begin == 0 {
            self.head = Head::of(&bytes[..bytes.len() - rest.len()]);
        }
        batch
    }

    fn provider(&self) -> Provider {
        match self.parser {
            Parser::Claude(_) => Provider::Claude,
            Parser::Codex(_) => Provider::Codex,
            Parser::Gemini(_) => Provider::Gemini,
        }
    }

    /// Reads one line; false if it was not understood.
    fn line(&mut self, line: &[u8], begin: u64, batch: &mut Batch) -> bool {
        if std::mem::take(&mut self.in_long_line) || line.len() > LINE_MAX {
            return false;
        }
        if line.trim_ascii().is_empty() {
            return true;
        }
        let Ok(value) = serde_json::from_slice::<Value>(line) else { return false };
        let at = field::time(&value, "timestamp");
        let mut out = Out { batch, begin, line: self.offset, at, cut: 0, abandoned: false };
        match &mut self.parser {
            Parser::Claude(state) => state.line(&value, &mut out),
            Parser::Codex(state) => state.line(&value, &mut out),
            Parser::Gemini(state) => state.line(&value, &mut out),
        }
    }
}

/// Where a parser puts what a line tells.
struct Out<'a> {
    batch: &'a mut Batch,
    /// Where the batch begins.
    begin: u64,
    line: u64,
    at: Option<Timestamp>,
    cut: u64,
    abandoned: bool,
}

impl Out<'_> {
    fn push(&mut self, item: Item) {
        let cut = std::mem::take(&mut self.cut);
        let (at, line, abandoned) = (self.at, self.line, self.abandoned);
        self.batch.found.push(Found { at, line, cut, abandoned, item });
    }

    /// The text as far as it is kept.
    fn clip(&mut self, text: &str) -> String {
        let (kept, cut) = clipped(text);
        self.cut += cut;
        kept
    }

    /// A value whose texts are as far as they are kept.
    fn clip_value(&mut self, value: &Value) -> Value {
        let (kept, cut) = clipped_value(value);
        self.cut += cut;
        kept
    }

    /// Says whether the conversation went on without those lines.
    fn mark(&mut self, lines: Range<u64>, abandoned: bool) {
        if lines.start < self.begin {
            let lines = lines.start..lines.end.min(self.begin);
            self.batch.marks.push(Mark { lines, abandoned });
        }
        let found = &mut self.batch.found;
        let first = found.partition_point(|found| found.line < lines.start);
        for found in found[first..].iter_mut().take_while(|found| found.line < lines.end) {
            found.abandoned = abandoned && found.item.can_be_abandoned();
        }
    }
}

/// A text as far as it is kept, and how many bytes were left out.
pub(super) fn clipped(text: &str) -> (String, u64) {
    let end = (0..=text.len().min(TEXT_MAX)).rfind(|end| text.is_char_boundary(*end));
    let kept = &text[..end.unwrap_or_default()];
    (kept.to_owned(), (text.len() - kept.len()) as u64)
}

/// A value whose texts are as far as they are kept, and how many bytes were left out.
pub(super) fn clipped_value(value: &Value) -> (Value, u64) {
    let mut cut = 0;
    let kept = clipped_texts(value, &mut cut);
    if kept.to_string().len() <= 4 * TEXT_MAX {
        return (kept, cut);
    }
    // Many short texts are a long one too.
    let (kept, cut) = clipped(&value.to_string());
    (Value::String(kept), cut)
}

fn clipped_texts(value: &Value, cut: &mut u64) -> Value {
    match value {
        Value::String(text) => {
            let (kept, more) = clipped(text);
            *cut += more;
            Value::String(kept)
        }
        Value::Array(values) => values.iter().map(|value| clipped_texts(value, cut)).collect(),
        Value::Object(fields) => {
            let kept = fields.iter().map(|(name, value)| (name.clone(), clipped_texts(value, cut)));
            Value::Object(kept.collect())
        }
        other => other.clone(),
    }
}
