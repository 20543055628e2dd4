//! Which `pg_dump` wrote a dump. What it leaves unsaid depends on that.

use std::io::Write;

use rappel_store::sink::Source;
use rappel_types::database::DatabasePart;

use super::super::dump::{self, Stored};
use super::program::Version;

/// It says so within its first lines.
const ENOUGH: usize = 4 << 10;
const WORDS: &str = "-- Dumped by pg_dump version ";

/// The version of the `pg_dump` that wrote a dump, where that says it.
pub fn of(source: &dyn Source, target: &DatabasePart) -> Option<Version> {
    let mut head = Head(Vec::new());
    // It ends when the head has enough; what is wrong with the rest is found when it is loaded.
    let _ = dump::write_to(source, &Stored::from(target), &mut head);
    said(&String::from_utf8_lossy(&head.0))
}

fn said(head: &str) -> Option<Version> {
    head.lines().find_map(|line| Version::parse(line.strip_prefix(WORDS)?))
}

/// The beginning of what is written to it.
struct Head(Vec<u8>);

impl Write for Head {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.0.len() >= ENOUGH {
            return Err(std::io::ErrorKind::BrokenPipe.into());
        }
        let taken = bytes.len().min(ENOUGH - self.0.len());
        self.0.extend(bytes.iter().take(taken));
        Ok(taken)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_first_lines_say() {
        let head = "--\n-- PostgreSQL database dump\n--\n\n-- Dumped from database version 13.16 (Debian)\n\
                    -- Dumped by pg_dump version 18.6 (Debian 18.6-3)\n\nSET a = 1;\n";
        assert_eq!(said(head), Some(Version { major: 18, minor: 6 }));
        assert_eq!(said("SELECT 1;"), None);
    }
}
