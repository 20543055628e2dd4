//! The last lines that a command wrote, without secrets.

use std::collections::VecDeque;

use rappel_types::redact;

/// So many lines are kept.
const LINES: usize = 200;
/// So much of a line.
const LINE_MAX: usize = 4096;

/// A stream that a command writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Stream {
    Stdout,
    Stderr,
}

/// The last lines of both streams, in the order in which they ended.
#[derive(Debug, Default)]
pub struct Tail {
    lines: VecDeque<Vec<u8>>,
    /// The lines that are still being written.
    open: [Vec<u8>; 2],
}

impl Tail {
    /// Takes the next bytes of a stream.
    pub fn push(&mut self, stream: Stream, bytes: &[u8]) {
        let open = &mut self.open[stream as usize];
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let text = piece.strip_suffix(b"\n").unwrap_or(piece);
            let room = LINE_MAX.saturating_sub(open.len());
            open.extend_from_slice(&text[..text.len().min(room)]);
            if text.len() < piece.len() {
                self.lines.push_back(std::mem::take(open));
                if self.lines.len() > LINES {
                    self.lines.pop_front();
                }
            }
        }
    }

    /// The lines, with everything taken out that looks like a secret.
    pub fn redacted(&self) -> Vec<String> {
        let open = self.open.iter().filter(|line| !line.is_empty());
        let lines: Vec<_> =
            self.lines.iter().chain(open).map(|line| String::from_utf8_lossy(line)).collect();
        let from = lines.len().saturating_sub(LINES);
        match lines.is_empty() {
            true => Vec::new(),
            // As one text: a secret may stand on several lines.
            false => {
                redact::text(&lines[from..].join("\n")).split('\n').map(str::to_owned).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_kept_however_they_come() {
        let mut tail = Tail::default();
        assert_eq!(tail.redacted(), Vec::<String>::new());
        for number in 0..500 {
            let line = format!("line {number}\n");
            let (first, second) = line.split_at(number % 7);
            tail.push(Stream::Stdout, first.as_bytes());
            tail.push(Stream::Stdout, second.as_bytes());
        }
        tail.push(Stream::Stdout, b"no ");
        tail.push(Stream::Stderr, b"whole\n");
        tail.push(Stream::Stdout, b"end");
        let lines = tail.redacted();
        assert_eq!(lines.len(), LINES);
        assert_eq!((lines[0].as_str(), lines[199].as_str()), ("line 302", "no end"));
        assert_eq!(lines[198], "whole");
    }

    #[test]
    fn secrets_do_not_stay() {
        let mut tail = Tail::default();
        tail.push(Stream::Stderr, b"key sk-ant-api03-");
        tail.push(Stream::Stderr, b"abcdefghijklmnopqrstuvwxyz0123456789abcdefghij\nnext\n");
        let lines = tail.redacted();
        assert!(!lines.concat().contains("abcdefghijklmnop"), "{lines:?}");
        assert_eq!(lines[1], "next");
    }
}
