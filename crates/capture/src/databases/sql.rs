//! What `pg_dump` writes, as far as it must be understood: where statements end, which lines are
//! rows, and what is a command to `psql`.
//!
//! - [`lexer`]: cuts the text into statements, rows and what is between them, as `psql` would;
//! - [`watch`]: counts tables and rows while a dump is captured, and takes out what differs every time;
//! - [`takes`]: how many locks a statement takes;
//! - [`rewrite`]: makes a dump fit into a transaction that somebody else owns, while it is restored.

pub mod lexer;
pub mod rewrite;
pub mod takes;
pub mod watch;

pub use rewrite::Rewriter;
pub use watch::{TableRows, Watch};

/// Whether a command to `psql` is one of the two that only bracket a dump, with a key that is
/// another one every time. They tell `psql` to take no other command in between.
fn is_bracket(command: &[u8]) -> bool {
    let word = command.split(u8::is_ascii_whitespace).next().unwrap_or_default();
    word == b"\\restrict" || word == b"\\unrestrict"
}

/// A name or text as SQL has it.
pub fn literal(text: &str) -> String {
    // E'' means the same whatever standard_conforming_strings says.
    format!("E'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

/// No command of interest is longer.
const COMMAND_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_in_statements() {
        assert_eq!(literal(r"it's a \ "), r"E'it''s a \\ '");
    }
}
