//! How many locks a statement of a dump takes until its transaction ends. The numbers are measured.

use super::lexer::Lexer;

/// How many the statement takes that has just ended.
pub fn locks(lexer: &Lexer) -> u64 {
    let mut words = lexer.words();
    let first = words.next().unwrap_or_default();
    let kind = words.next().unwrap_or_default();
    match (first, kind) {
        // The table, where its long values lie, and the index of those.
        (b"create", b"table" | b"unlogged" | b"foreign" | b"materialized") => 3,
        (b"create", _) => 1,
        (b"alter", b"table") => {
            let has = |text: &str| memchr::memmem::find(lexer.head(), text.as_bytes()).is_some();
            u64::from(has("ADD CONSTRAINT ") || has(" AS IDENTITY ("))
        }
        _ => 0,
    }
}
