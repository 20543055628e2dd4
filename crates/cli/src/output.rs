//! Where words go: the answer to stdout, everything else to stderr.
//!
//! Commands and faces write through [`Output`]; nothing else in this crate prints. It knows
//! whether anybody looks at it (a terminal, colours) and whether the reader has gone away.

use std::cell::Cell;
use std::io::{self, BufWriter, IsTerminal, Write};

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use rappel_types::Advice;
use serde::Serialize;

use crate::face;

use crate::errors::Result;
use crate::pager::Pager;

/// The two streams and what is known about them.
pub struct Output {
    /// The answer is one JSON document.
    pub json: bool,
    /// Only the answer itself, in its shortest form.
    pub quiet: bool,
    /// Stdout is a terminal.
    pub terminal: bool,
    /// What shows answers that are longer than the screen.
    pub pager: Option<Pager>,
    stdout: Paint,
    stderr: Paint,
    closed: Cell<bool>,
}

impl Output {
    /// Looks at the process's streams.
    pub fn new(json: bool, quiet: bool, colour: ColorChoice) -> Self {
        colour.write_global();
        let painted = |choice: ColorChoice| Paint { on: choice != ColorChoice::Never };
        Self {
            json,
            quiet,
            terminal: io::stdout().is_terminal(),
            pager: None,
            stdout: painted(AutoStream::choice(&io::stdout())),
            stderr: painted(AutoStream::choice(&io::stderr())),
            closed: Cell::new(false),
        }
    }

    /// Writes the answer, or a part of it.
    pub fn answer(&self, write: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<()> {
        let mut out = self.stdout();
        write(&mut out)?;
        Ok(out.flush()?)
    }

    /// Writes an answer that may be long: through a pager if it is longer than the screen and
    /// somebody sits before one.
    pub fn page(&self, write: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<()> {
        let Some(pager) = &self.pager else { return self.answer(write) };
        let mut out = pager.page(self.stdout());
        let written = write(&mut out);
        let finished = out.finish();
        if out.is_closed() {
            self.closed.set(true);
        }
        written.and(finished.map_err(Into::into))
    }

    fn stdout(&self) -> Answer<'_> {
        let inner = BufWriter::with_capacity(1 << 16, io::stdout().lock());
        Answer { inner, closed: &self.closed }
    }

    /// Writes the answer as one JSON document: on one line for programs, spread out for people.
    pub fn answer_json(&self, value: &impl Serialize) -> Result<()> {
        self.answer(|out| {
            let written = match self.terminal {
                true => serde_json::to_writer_pretty(&mut *out, value),
                false => serde_json::to_writer(&mut *out, value),
            };
            written.map_err(io::Error::from)?;
            Ok(out.write_all(b"\n")?)
        })
    }

    /// Writes one of many JSON documents, on a line of its own.
    pub fn answer_line(&self, value: &impl Serialize) -> Result<()> {
        self.answer(|out| {
            serde_json::to_writer(&mut *out, value).map_err(io::Error::from)?;
            Ok(out.write_all(b"\n")?)
        })
    }

    /// Colours for stdout.
    pub fn paint(&self) -> Paint {
        self.stdout
    }

    /// Colours for stderr.
    pub fn paint_stderr(&self) -> Paint {
        self.stderr
    }

    /// A line on stderr, as it is.
    #[allow(clippy::unused_self, reason = "nothing prints except through an output")]
    pub fn tell(&self, line: &str) {
        // Nobody is left to be told that stderr cannot be written.
        let _ = writeln!(io::stderr().lock(), "{line}");
    }

    /// Something the user should know and that is no fault. With `--json` such things are part of
    /// the document, so that stderr has nothing but a JSON error.
    pub fn note(&self, text: &str) {
        if !self.json && !self.quiet {
            self.tell(&format!("{} {}", self.stderr.hint("note:"), clean(text)));
        }
    }

    /// What the user can do next.
    pub fn hint(&self, advice: &[Advice]) {
        if let (Some(hint), false, false) = (face::advice::hint(advice), self.json, self.quiet) {
            self.tell(&format!("{} {}", self.stderr.hint("hint:"), clean(&hint)));
        }
    }

    /// Something the user must know.
    pub fn warning(&self, text: &str) {
        if !self.json {
            self.tell(&format!("{} {}", self.stderr.warning("warning:"), clean(text)));
        }
    }

    /// Whether whoever read stdout has had enough.
    pub fn is_closed(&self) -> bool {
        self.closed.get()
    }
}

/// Stdout, remembering when its reader went away.
struct Answer<'a> {
    inner: BufWriter<io::StdoutLock<'static>>,
    closed: &'a Cell<bool>,
}

impl Answer<'_> {
    fn watch<T>(&self, result: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &result
            && error.kind() == io::ErrorKind::BrokenPipe
        {
            self.closed.set(true);
        }
        result
    }
}

impl Write for Answer<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let result = self.inner.write(bytes);
        self.watch(result)
    }

    fn flush(&mut self) -> io::Result<()> {
        let result = self.inner.flush();
        self.watch(result)
    }
}

/// Colours, or their absence. Meaning never depends on them alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Paint {
    on: bool,
}

impl Paint {
    /// No colours at all.
    pub const PLAIN: Self = Self { on: false };

    /// Whether there are any.
    pub fn is_on(self) -> bool {
        self.on
    }

    fn style(self, style: Style, text: &str) -> String {
        if self.on { format!("{style}{text}{style:#}") } else { text.to_owned() }
    }

    /// An id or another thing to copy.
    pub fn id(self, text: &str) -> String {
        self.style(AnsiColor::Yellow.on_default(), text)
    }

    /// A heading.
    pub fn strong(self, text: &str) -> String {
        self.style(Style::new().bold(), text)
    }

    /// What matters less.
    pub fn faint(self, text: &str) -> String {
        self.style(Style::new().dimmed(), text)
    }

    /// Good news, or what is added.
    pub fn good(self, text: &str) -> String {
        self.style(AnsiColor::Green.on_default(), text)
    }

    /// Bad news, or what is removed.
    pub fn bad(self, text: &str) -> String {
        self.style(AnsiColor::Red.on_default(), text)
    }

    /// The word `error:`.
    pub fn error(self, text: &str) -> String {
        self.style(AnsiColor::Red.on_default().bold(), text)
    }

    /// The word `warning:`, and what deserves one.
    pub fn warning(self, text: &str) -> String {
        self.style(AnsiColor::Yellow.on_default().bold(), text)
    }

    /// The word `hint:`, and places.
    pub fn hint(self, text: &str) -> String {
        self.style(AnsiColor::Cyan.on_default(), text)
    }
}

/// Some texts have several lines; each is cleaned by itself.
pub fn clean_lines(text: &str) -> String {
    text.lines().map(clean).collect::<Vec<_>>().join("\n")
}

/// Text from elsewhere on one line, without anything that could steer a terminal: a message or a
/// tag was perhaps written by a program that means ill.
pub fn clean(text: &str) -> String {
    let mut cleaned = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' | '\r' => cleaned.push(' '),
            // Marks that make text read in another order than it is written.
            '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                cleaned.extend(c.escape_unicode());
            }
            c if c.is_control() => cleaned.extend(c.escape_unicode()),
            c => cleaned.push(c),
        }
    }
    cleaned
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_steer_the_terminal() {
        assert_eq!(clean("a\nb\tc"), "a b c");
        assert_eq!(clean("\u{1b}[31mred"), "\\u{1b}[31mred");
        assert_eq!(clean("evil\u{202e}txt"), "evil\\u{202e}txt");
        assert_eq!(clean("häuser 家"), "häuser 家");
    }

    #[test]
    fn colours_can_be_absent() {
        assert_eq!(Paint::PLAIN.error("error:"), "error:");
        assert_ne!(Paint { on: true }.error("error:"), "error:");
    }
}
