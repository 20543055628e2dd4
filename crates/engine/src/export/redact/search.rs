//! Streams that look for secrets in what passes: in a file, to leave it out; in the lines of a
//! transcript, to replace them.

use std::io::{self, Read, Write};

use rappel_store::content;
use rappel_store::overlay::Overlay;
use rappel_store::sink::{Role, Sink, Source};
use rappel_types::{Content, ObjectId, RelPath, redact};
use serde_json::Value;

use crate::error::{Error, Result};

/// How much of a file is looked at once.
const WINDOW: usize = 1 << 20;
/// What two looks share: a secret is not longer.
const SHARED: usize = 16 << 10;
/// A longer line of a transcript is left out.
const LINE_MAX: usize = 64 << 20;

/// Searches a file, a window at a time.
pub(super) struct Search {
    name: String,
    buffer: Vec<u8>,
    found: Option<String>,
}

impl Search {
    pub fn new(path: &RelPath) -> Self {
        Self { name: path.to_string(), buffer: Vec::new(), found: None }
    }

    fn look(&mut self) {
        if self.found.is_some() {
            return;
        }
        self.found = match std::str::from_utf8(&self.buffer) {
            Ok(text) => redact::in_file(&self.name, text),
            // A window may end inside a letter.
            Err(error) if error.valid_up_to() + 4 > self.buffer.len() => {
                redact::in_file(&self.name, &String::from_utf8_lossy(&self.buffer))
            }
            Err(_) => redact::in_bytes(&self.buffer),
        };
    }

    /// What kind of secret the file seems to hold, if any.
    pub fn finish(mut self) -> Option<String> {
        self.look();
        self.found
    }
}

impl Write for Search {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.found.is_none() {
            self.buffer.extend_from_slice(bytes);
        }
        if self.buffer.len() >= WINDOW + SHARED {
            self.look();
            let keep = self.buffer.len() - SHARED;
            // At the beginning of a line, so that names stay beside their values.
            let line = self.buffer[keep..].iter().position(|byte| *byte == b'\n');
            self.buffer.drain(..line.map_or(keep, |at| keep + at + 1));
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A transcript on its way through, line by line. What comes out waits in the overlay.
pub(super) struct Lines<'a> {
    overlay: &'a Overlay<'a>,
    line: Vec<u8>,
    clean: Vec<u8>,
    pieces: Vec<ObjectId>,
    length: u64,
    changed: bool,
}

impl<'a> Lines<'a> {
    pub fn new(overlay: &'a Overlay<'a>) -> Self {
        let (line, clean, pieces) = (Vec::new(), Vec::new(), Vec::new());
        Self { overlay, line, clean, pieces, length: 0, changed: false }
    }

    fn end_line(&mut self) -> io::Result<()> {
        let line = std::mem::take(&mut self.line);
        match clean_line(&line) {
            None => self.clean.extend_from_slice(&line),
            Some(clean) => {
                self.clean.extend_from_slice(&clean);
                self.changed = true;
            }
        }
        if self.clean.len() >= WINDOW {
            self.put_aside()?;
        }
        Ok(())
    }

    fn put_aside(&mut self) -> io::Result<()> {
        self.length += self.clean.len() as u64;
        self.pieces.push(self.overlay.put(Role::Content, &self.clean, None)?);
        self.clean.clear();
        Ok(())
    }

    /// The content without secrets, if there were any.
    pub fn finish(mut self) -> Result<Option<(Content, u64)>> {
        let failed = Error::io("write", "the redacted transcript");
        self.end_line().and_then(|()| self.put_aside()).map_err(failed)?;
        if !self.changed {
            return Ok(None);
        }
        let (overlay, length) = (self.overlay, self.length);
        let rest = self.pieces.into_iter();
        let mut reader = Pieces { overlay, rest, now: io::Cursor::new(Vec::new()) };
        Ok(Some(content::store(overlay, &mut reader, length, None)?))
    }
}

impl Write for Lines<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(part);
            if self.line.len() > LINE_MAX {
                // Nobody writes such a line; what is in it cannot be told.
                self.line = format!("[redacted: more than {LINE_MAX} bytes in a line]").into();
                self.changed = true;
            }
            if part.ends_with(b"\n") {
                self.end_line()?;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Pieces one after the other.
struct Pieces<'a> {
    overlay: &'a Overlay<'a>,
    rest: std::vec::IntoIter<ObjectId>,
    now: io::Cursor<Vec<u8>>,
}

impl Read for Pieces<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            let count = self.now.read(out)?;
            if count > 0 || out.is_empty() {
                return Ok(count);
            }
            let Some(id) = self.rest.next() else { return Ok(0) };
            self.now = io::Cursor::new(self.overlay.get(&id)?.to_vec());
        }
    }
}

/// A line of a transcript without its secrets; `None` if it has none. What was JSON stays JSON.
fn clean_line(line: &[u8]) -> Option<Vec<u8>> {
    let text = String::from_utf8_lossy(line);
    let clean = redact::sure(&text);
    if clean == text {
        return None;
    }
    let is_json = |text: &str| serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
    if !is_json(&text) || is_json(&clean) {
        return Some(clean.into_owned().into_bytes());
    }
    let mut value: Value = serde_json::from_str(&text).ok()?;
    redact::value(&mut value);
    Some(format!("{value}\n").into_bytes())
}
