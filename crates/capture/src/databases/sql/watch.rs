//! Watches a dump while it is captured: counts the rows of its tables, and takes out the two lines
//! that are different in every dump, so that equal databases give equal dumps.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io::{self, Read};
use std::ops::Range;

use super::lexer::{Event, Lexer, Part};
use super::{is_bracket, takes};

/// A table and how many rows the dump has of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableRows {
    /// Its name, with its schema unless that is `public`.
    pub table: String,
    /// How many rows.
    pub rows: u64,
}

/// What there is to say of a dump that has passed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Its tables, in its order.
    pub tables: Vec<TableRows>,
    /// How many locks it takes to load it.
    pub locks: u64,
    /// Whether it does not end in the middle of anything.
    pub is_whole: bool,
}

/// A dump on its way from `pg_dump` to the store.
pub struct Watch<R> {
    inner: R,
    lexer: Lexer,
    tables: Vec<TableRows>,
    places: HashMap<String, usize>,
    locks: u64,
    /// The table whose rows are passing.
    current: Option<usize>,
    /// A command to `psql`, until it is clear which.
    command: Vec<u8>,
    /// What goes out before anything else is read.
    ready: Vec<u8>,
    given: usize,
}

impl<R: Read> Watch<R> {
    /// Watches what `inner` gives.
    pub fn new(inner: R) -> Self {
        Self {
            inner,
            lexer: Lexer::default(),
            tables: Vec::new(),
            places: HashMap::new(),
            locks: 0,
            current: None,
            command: Vec::new(),
            ready: Vec::new(),
            given: 0,
        }
    }

    /// The tables so far, in the order of the dump.
    pub fn tables(&self) -> &[TableRows] {
        &self.tables
    }

    /// What there is to say of it, and where it came from.
    pub fn finish(self) -> (Seen, R) {
        let is_whole = self.lexer.is_between();
        (Seen { tables: self.tables, locks: self.locks, is_whole }, self.inner)
    }

    /// Looks at a block. What of it is a command comes back, with whether that ended there.
    fn look(&mut self, block: &[u8]) -> Vec<(Range<usize>, bool)> {
        let Self { lexer, tables, places, locks, current, .. } = self;
        let mut commands: Vec<(Range<usize>, bool)> = Vec::new();
        let mut place = |name: String| {
            *places.entry(name.clone()).or_insert_with(|| {
                tables.push(TableRows { table: name, rows: 0 });
                tables.len() - 1
            })
        };
        let mut counted: Vec<(usize, i64)> = Vec::new();
        let looked = lexer.feed(block, |lexer, event| -> Result<(), Infallible> {
            match event {
                Event::End(Part::Statement) => {
                    *locks += takes::locks(lexer);
                    if lexer.is_copy_in() {
                        *current = after(lexer.head(), &["copy"]).map(&mut place);
                    } else if let Some(name) = created(lexer) {
                        place(name);
                    }
                }
                Event::Stretch(Part::Rows, range) => {
                    let rows = memchr::memchr_iter(b'\n', &block[range]).count();
                    counted.extend(current.map(|table| (table, rows as i64)));
                }
                // The line that ends the rows is none.
                Event::End(Part::Rows) => counted.extend(current.take().map(|table| (table, -1))),
                Event::Stretch(Part::Command, range) => commands.push((range, false)),
                Event::End(Part::Command) => {
                    if let Some((_, ended)) = commands.last_mut() {
                        *ended = true;
                    }
                }
                Event::Stretch(..) | Event::End(Part::Between) => {}
            }
            Ok(())
        });
        match looked {
            Ok(()) => {}
        }
        for (table, rows) in counted {
            tables[table].rows = tables[table].rows.saturating_add_signed(rows);
        }
        commands
    }

    /// Takes the brackets out of a block.
    fn take_out(&mut self, block: &[u8], commands: Vec<(Range<usize>, bool)>) {
        let mut done = 0;
        for (range, ended) in commands {
            self.ready.extend_from_slice(&block[done..range.start]);
            self.command.extend_from_slice(&block[range.clone()]);
            done = range.end;
            if ended || self.command.len() > super::COMMAND_MAX {
                self.settle();
            }
        }
        self.ready.extend_from_slice(&block[done..]);
    }

    /// Lets a command pass, unless it is a bracket.
    fn settle(&mut self) {
        if !is_bracket(&self.command) {
            self.ready.extend_from_slice(&self.command);
        }
        self.command.clear();
    }
}

impl<R: Read> Read for Watch<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.given < self.ready.len() {
                let count = out.len().min(self.ready.len() - self.given);
                out[..count].copy_from_slice(&self.ready[self.given..self.given + count]);
                self.given += count;
                return Ok(count);
            }
            self.ready.clear();
            self.given = 0;
            let read = self.inner.read(out)?;
            if read == 0 {
                if self.command.is_empty() || out.is_empty() {
                    return Ok(0);
                }
                self.settle();
                continue;
            }
            let commands = self.look(&out[..read]);
            if commands.is_empty() && self.command.is_empty() {
                return Ok(read);
            }
            self.take_out(&out[..read], commands);
        }
    }
}

/// The name of the table that a statement creates.
fn created(lexer: &Lexer) -> Option<String> {
    let mut words = lexer.words();
    if words.next() != Some(b"create") {
        return None;
    }
    match words.next()? {
        b"table" => after(lexer.head(), &["create", "table"]),
        b"unlogged" => after(lexer.head(), &["create", "unlogged", "table"]),
        _ => None,
    }
}

/// The name behind some words at the beginning of a statement, with its schema unless that is `public`.
fn after(statement: &[u8], words: &[&str]) -> Option<String> {
    let mut rest = statement;
    for word in words {
        rest = rest.trim_ascii_start();
        let (first, behind) = rest.split_at_checked(word.len())?;
        if !first.eq_ignore_ascii_case(word.as_bytes()) {
            return None;
        }
        rest = behind;
    }
    let mut rest = rest.trim_ascii_start();
    let mut parts = vec![identifier(&mut rest)?];
    while let [b'.', behind @ ..] = rest {
        rest = behind;
        parts.push(identifier(&mut rest)?);
    }
    if parts.len() > 1 && parts[0] == "public" {
        parts.remove(0);
    }
    Some(parts.join("."))
}

/// Takes one identifier, without its quotes.
fn identifier(rest: &mut &[u8]) -> Option<String> {
    let mut name = Vec::new();
    if let [b'"', behind @ ..] = *rest {
        let mut behind = behind;
        loop {
            let (text, after) = behind.split_at_checked(memchr::memchr(b'"', behind)?)?;
            name.extend_from_slice(text);
            behind = &after[1..];
            match behind {
                [b'"', more @ ..] => {
                    name.push(b'"');
                    behind = more;
                }
                _ => break,
            }
        }
        *rest = behind;
    } else {
        let is_part =
            |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | 0x80..);
        let length = rest.iter().position(|byte| !is_part(byte)).unwrap_or(rest.len());
        let (text, behind) = rest.split_at(length);
        name.extend(text.iter().map(u8::to_ascii_lowercase));
        *rest = behind;
    }
    (!name.is_empty()).then(|| String::from_utf8_lossy(&name).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives a few bytes at a time.
    struct Drip<'a>(&'a [u8], usize);

    impl Read for Drip<'_> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let count = self.1.min(self.0.len()).min(out.len());
            out[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }

    /// What passes, and the tables, however the text is cut.
    fn watch(text: &str) -> (String, Vec<(String, u64)>) {
        let mut results = [usize::MAX, 1, 2, 3, 5, 64].map(|drip| {
            let mut watch = Watch::new(Drip(text.as_bytes(), drip));
            let mut out = String::new();
            watch.read_to_string(&mut out).unwrap();
            let tables =
                watch.finish().0.tables.into_iter().map(|rows| (rows.table, rows.rows)).collect();
            (out, tables)
        });
        results.windows(2).for_each(|pair| assert_eq!(pair[0], pair[1]));
        std::mem::take(&mut results[0])
    }

    #[test]
    fn rows_are_counted_by_table() {
        let (_, tables) = watch(
            "CREATE TABLE public.accounts (\n    a integer\n);\n\
             CREATE UNLOGGED TABLE app.\"Odd \"\"name\"\"\" (a text);\n\
             CREATE TABLE public.parent (a integer)\nPARTITION BY LIST (a);\n\
             CREATE TABLE public.part (a integer);\n\
             CREATE FOREIGN TABLE public.elsewhere (a integer) SERVER s;\n\
             CREATE FUNCTION public.f() AS $$ CREATE TABLE no (a int); $$;\n\
             COPY public.accounts (a) FROM stdin;\n1\n\\N\n\nCREATE TABLE x (\n\\\\.\n\\.\n\n\
             COPY app.\"Odd \"\"name\"\"\" (a) FROM stdin;\n\\.\n\n\
             COPY public.part (a) FROM stdin;\n7\n\\.\n\n\
             COPY late.comer (a) FROM stdin;\n7\n8\n\\.\n",
        );
        let expected = [
            ("accounts", 5),
            ("app.Odd \"name\"", 0),
            ("parent", 0),
            ("part", 1),
            ("late.comer", 2),
        ];
        assert_eq!(tables, expected.map(|(table, rows)| (table.to_owned(), rows)));
    }

    #[test]
    fn only_brackets_are_taken_out() {
        let rows = "COPY t (a) FROM stdin;\n\\restrict is a row\n\\.\n";
        let text = format!("--\n\\restrict k3y\n\n{rows}\\other x\n\\unrestrict k3y\n--\n");
        let (out, tables) = watch(&text);
        assert_eq!(out, format!("--\n\n{rows}\\other x\n--\n"));
        assert_eq!(tables, [("t".to_owned(), 1)]);
        assert_eq!(watch("a;\n\\unrestrict k").0, "a;\n");
        assert_eq!(watch("a;\n\\unre").0, "a;\n\\unre");
    }
}
