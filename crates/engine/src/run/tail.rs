//! The last lines that a command wrote, without secrets.

use std::collections::VecDeque;

use rappel_types::redact;

/// So many lines are kept.
const LINES: usize = 200;
/// So much of a line.
const LINE_MAX: usize = 4096;

/// The last lines of a stream of bytes.
#[derive(Debug, Default)]
pub struct Tail {
    lines: VecDeque<Vec<u8>>,
    /// Whether the last line is still being written.
    open: bool,
}

impl Tail {
    /// Takes the next bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            if !self.open {
                self.lines.push_back(Vec::new());
                if self.lines.len() > LINES {
                    self.lines.pop_front();
                }
            }
            self.open = piece.last() != Some(&b'\n');
            let text = piece.strip_suffix(b"\n").unwrap_or(piece);
            if let Some(line) = self.lines.back_mut() {
                let room = LINE_MAX.saturating_sub(line.len());
                line.extend_from_slice(&text[..text.len().min(room)]);
            }
        }
    }

    /// The lines, with everything taken out that looks like a secret.
    pub fn redacted(&self) -> Vec<String> {
        let lines: Vec<_> = self.lines.iter().map(|line| String::from_utf8_lossy(line)).collect();
        // As one text: a secret may stand on several lines.
        let text = lines.join("\n");
        match lines.is_empty() {
            true => Vec::new(),
            false => redact::text(&text).split('\n').map(str::to_owned).collect(),
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
            tail.push(first.as_bytes());
            tail.push(second.as_bytes());
        }
        tail.push(b"no end");
        let lines = tail.redacted();
        assert_eq!(lines.len(), LINES);
        assert_eq!((lines[0].as_str(), lines[199].as_str()), ("line 301", "no end"));
    }

    #[test]
    fn secrets_do_not_stay() {
        let mut tail = Tail::default();
        tail.push(b"key sk-ant-api03-");
        tail.push(b"abcdefghijklmnopqrstuvwxyz0123456789abcdefghij\nnext\n");
        let lines = tail.redacted();
        assert!(!lines.concat().contains("abcdefghijklmnop"), "{lines:?}");
        assert_eq!(lines[1], "next");
    }
}
