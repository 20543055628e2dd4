//! Makes a dump fit into a transaction that somebody else owns: its own `BEGIN` and `COMMIT` and its
//! timeouts and search path are left out, its settings end with the transaction, and commands to `psql`, which would
//! run on this side, are refused.
//!
//! Its loader sets an empty search path. With [`Rewriter::with_path`], statements that call functions get another one;
//! statements that only define something keep the empty one, so that what they name cannot become something else.

use std::io::Write;

use super::lexer::{Event, HEAD, Lexer, Part};
use super::{COMMAND_MAX, is_bracket, literal};
use crate::databases::error::{Error, Result};
use rappel_types::Advice;

/// Passes a dump on to `out`, without what must not be in it.
pub struct Rewriter<W> {
    out: W,
    lexer: Lexer,
    /// The beginning of a statement, until it is clear what becomes of it.
    held: Vec<u8>,
    fate: Fate,
    command: Vec<u8>,
    /// What sets the search path for statements that call functions, and whether it is set.
    path: Option<String>,
    is_set: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Open,
    Passes,
    Drops,
}

/// It would outlast the transaction.
const NO_SEARCH_PATH: &[u8] = b"SELECT pg_catalog.set_config('search_path', '', false);";

fn refused(what: &str) -> Error {
    Error::Refused {
        message: format!("the dump {what}, which pg_dump never writes"),
        advice: vec![Advice::plain(
            "it may not come from where it seems to; look at the checkpoint",
        )],
    }
}

fn failed(error: std::io::Error) -> Error {
    rappel_store::Error::io("pass on", "the dump")(error).into()
}

impl<W: Write> Rewriter<W> {
    /// Passes on to `out`.
    pub fn new(out: W) -> Self {
        let (held, command) = (Vec::new(), Vec::new());
        let (lexer, fate) = (Lexer::default(), Fate::Open);
        Self { out, lexer, held, fate, command, path: None, is_set: false }
    }

    /// The same, where functions that are called look for names in the schemas of `path`.
    #[must_use]
    pub fn with_path(mut self, path: &[String]) -> Self {
        let names: Vec<_> = path.iter().map(|name| literal(name)).collect();
        self.path =
            (!names.is_empty()).then(|| format!("SET LOCAL search_path = {};\n", names.join(", ")));
        self
    }

    /// Takes the next bytes of the dump.
    pub fn feed(&mut self, block: &[u8]) -> Result<()> {
        let Self { out, lexer, held, fate, command, path, is_set } = self;
        let mut pass = |out: &mut W, held: &mut Vec<u8>, fate: Fate, lexer: &Lexer| {
            if fate == Fate::Passes {
                if let Some(path) = path
                    && calls_functions(lexer) != *is_set
                {
                    *is_set = !*is_set;
                    let text = if *is_set { path } else { EMPTY_PATH };
                    out.write_all(text.as_bytes()).map_err(failed)?;
                }
                pass_on(out, held, lexer).map_err(failed)?;
            }
            held.clear();
            Ok(())
        };
        lexer.feed(block, |lexer, event| match event {
            Event::Stretch(Part::Command, range) => {
                command.extend_from_slice(&block[range]);
                if command.len() > COMMAND_MAX { Err(not_a_bracket(command)) } else { Ok(()) }
            }
            Event::End(Part::Command)
                if is_bracket(command) && *fate == Fate::Open && held.is_empty() =>
            {
                command.clear();
                Ok(())
            }
            Event::End(Part::Command) => Err(not_a_bracket(command)),
            _ if !command.is_empty() => Err(not_a_bracket(command)),
            Event::Stretch(Part::Between | Part::Rows, range) => {
                out.write_all(&block[range]).map_err(failed)
            }
            Event::Stretch(Part::Statement, range) => {
                if *fate == Fate::Open {
                    held.extend_from_slice(&block[range]);
                    if held.len() < HEAD {
                        return Ok(());
                    }
                    *fate = decide(lexer, false)?;
                    return pass(out, held, *fate, lexer);
                }
                if *fate == Fate::Passes {
                    out.write_all(&block[range]).map_err(failed)?;
                }
                Ok(())
            }
            Event::End(Part::Statement) => {
                if *fate == Fate::Open {
                    *fate = decide(lexer, true)?;
                    pass(out, held, *fate, lexer)?;
                }
                *fate = Fate::Open;
                Ok(())
            }
            Event::End(_) => Ok(()),
        })
    }

    /// Ends the dump, and gives back where it went.
    pub fn finish(self) -> Result<W> {
        if !self.command.is_empty() && !is_bracket(&self.command) {
            return Err(not_a_bracket(&self.command));
        }
        if self.command.is_empty() && !self.lexer.is_between() {
            return Err(refused("ends in the middle of a statement"));
        }
        Ok(self.out)
    }
}

fn not_a_bracket(command: &[u8]) -> Error {
    let word = command.split(u8::is_ascii_whitespace).next().unwrap_or_default();
    let word: String = String::from_utf8_lossy(word).chars().take(40).collect();
    refused(&format!("holds the command {word:?} to psql"))
}

const EMPTY_PATH: &str = "SET LOCAL search_path = '';\n";

/// Passes the beginning of a statement on. A setting is made to end with the transaction: behind a pooler, another
/// client gets the connection then.
fn pass_on(out: &mut impl Write, held: &[u8], lexer: &Lexer) -> std::io::Result<()> {
    let mut words = lexer.words();
    let others: [&[u8]; 6] =
        [b"session", b"local", b"constraints", b"transaction", b"role", b"time"];
    let is_setting = words.next() == Some(b"set")
        && words.next().is_some_and(|setting| !others.contains(&setting));
    match held.split_at_checked(b"set".len()) {
        Some((_, rest)) if is_setting => {
            out.write_all(b"SET LOCAL")?;
            out.write_all(rest)
        }
        _ if lexer.is_routine() => routine(out, held),
        _ => out.write_all(held),
    }
}

/// A function that is called `begin` is put into quotes: `psql` would wait for the end of a body.
fn routine(out: &mut impl Write, held: &[u8]) -> std::io::Result<()> {
    let named = held.split(|byte| *byte == b'(').next().unwrap_or_default();
    let (before, name) = named.split_at(named.len().saturating_sub(BEGIN.len()));
    if !name.eq_ignore_ascii_case(BEGIN) || !matches!(before.last(), Some(b'.' | b' ')) {
        return out.write_all(held);
    }
    out.write_all(before)?;
    out.write_all(b"\"")?;
    out.write_all(name)?;
    out.write_all(b"\"")?;
    out.write_all(held.get(named.len()..).unwrap_or_default())
}

const BEGIN: &[u8] = b"begin";

/// Whether a statement calls the functions of a schema: those of checks, indexes and queries. A generated column and a
/// partition key are planned when they are made. Other statements of a dump only define something.
fn calls_functions(lexer: &Lexer) -> bool {
    let mut words = lexer.words();
    let has = |text: &str| memchr::memmem::find(lexer.head(), text.as_bytes()).is_some();
    match (words.next().unwrap_or_default(), words.next().unwrap_or_default()) {
        (b"copy" | b"refresh", _) | (b"create", b"index" | b"unique") => true,
        (b"alter", b"table") => has("ADD CONSTRAINT "),
        (b"create", b"table" | b"unlogged") => {
            has(" GENERATED ALWAYS AS (") || has("\nPARTITION BY ")
        }
        _ => false,
    }
}

/// What becomes of a statement, of which at least the first words are known.
fn decide(lexer: &Lexer, complete: bool) -> Result<Fate> {
    let mut words = lexer.words();
    let first = words.next().unwrap_or_default();
    let second = words.next().unwrap_or_default();
    let third = words.next().unwrap_or_default();
    let fate = match (first, second) {
        (b"commit", b"prepared") => return Err(refused("ends a transaction of somebody else's")),
        (b"begin" | b"commit", _) if complete => Fate::Drops,
        (b"begin" | b"commit" | b"start" | b"end" | b"rollback" | b"abort", _)
        | (b"prepare", b"transaction") => {
            return Err(refused("begins or ends transactions in its own way"));
        }
        (b"set", b"session" | b"local") if third.ends_with(b"_timeout") => Fate::Drops,
        (b"set", setting) if setting.ends_with(b"_timeout") => Fate::Drops,
        (b"select", _) if complete && lexer.head() == NO_SEARCH_PATH => Fate::Drops,
        _ => Fate::Passes,
    };
    Ok(fate)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rewrite_in(text: &[u8], block: usize) -> Result<Vec<u8>> {
        let mut rewriter = Rewriter::new(Vec::new());
        for block in text.chunks(block) {
            rewriter.feed(block)?;
        }
        rewriter.finish()
    }

    fn rewrite(text: &str) -> Result<String, String> {
        let whole = rewrite_in(text.as_bytes(), usize::MAX);
        for block in [1, 2, 3, 7] {
            let cut = rewrite_in(text.as_bytes(), block);
            match (&whole, &cut) {
                (Ok(whole), Ok(cut)) => assert_eq!(whole, cut),
                (Err(whole), Err(cut)) => assert_eq!(whole.to_string(), cut.to_string()),
                other => panic!("{other:?}"),
            }
        }
        whole.map(|text| String::from_utf8(text).unwrap()).map_err(|error| error.to_string())
    }

    #[test]
    fn transactions_and_timeouts_are_left_out() {
        let text = "SET statement_timeout = 0;\nSET lock_timeout = 0;\nSET row_security = off;\n\
            SET transaction_timeout = 0;\nset SESSION idle_session_timeout = 0;\n\
            BEGIN;\n\nSELECT pg_catalog.lo_open('1', 131072);\nCOMMIT;\n\
            -- BEGIN;\n/* COMMIT; */ /* c */BEGIN;\nSELECT 'BEGIN;';\nSELECT \"COMMIT;\";\n";
        assert_eq!(
            rewrite(text).unwrap(),
            "\n\nSET LOCAL row_security = off;\n\n\n\n\nSELECT pg_catalog.lo_open('1', 131072);\n\n\
            -- BEGIN;\n/* COMMIT; */ /* c */\nSELECT 'BEGIN;';\nSELECT \"COMMIT;\";\n",
        );
    }

    #[test]
    fn the_empty_search_path_is_left_out() {
        let text = "SELECT pg_catalog.set_config('search_path', '', false);\nSELECT 1;\n";
        assert_eq!(rewrite(text).unwrap(), "\nSELECT 1;\n");
        let other = "SELECT pg_catalog.set_config('search_path', 'a', false);\n";
        assert_eq!(rewrite(other).unwrap(), other);
    }

    #[test]
    fn settings_end_with_the_transaction() {
        let text = "SET default_tablespace = '';\nset a.b TO 1;\nSET SESSION AUTHORIZATION x;\n";
        assert_eq!(
            rewrite(text).unwrap(),
            "SET LOCAL default_tablespace = '';\nSET LOCAL a.b TO 1;\nSET SESSION AUTHORIZATION x;\n"
        );
    }

    #[test]
    fn a_function_named_begin_is_quoted() {
        let text = "CREATE FUNCTION public.begin(a int) RETURNS int LANGUAGE sql AS $$ begin; $$;\n\
            CREATE OR REPLACE PROCEDURE begin()\n BEGIN ATOMIC\n SELECT 1;\nEND;\n\
            CREATE FUNCTION public.\"begin\"() AS '';\nCREATE FUNCTION public.xbegin() AS '';\n";
        let expected = text
            .replace("public.begin", "public.\"begin\"")
            .replace("PROCEDURE begin", "PROCEDURE \"begin\"");
        assert_eq!(rewrite(text).unwrap(), expected);
    }

    #[test]
    fn only_statements_that_call_functions_get_a_path() {
        let text = "CREATE TABLE t (a int CHECK (f(a)));\nCOPY t (a) FROM stdin;\n1\n\\.\n\
            CREATE UNIQUE INDEX i ON t (g(a));\nCREATE VIEW v AS SELECT 1;\n\
            ALTER TABLE ONLY t ALTER COLUMN a SET DEFAULT h();\n\
            ALTER TABLE ONLY t\n    ADD CONSTRAINT c CHECK (h());\n";
        let mut rewriter = Rewriter::new(Vec::new()).with_path(&["a'b".to_owned(), "c".to_owned()]);
        rewriter.feed(text.as_bytes()).unwrap();
        let path = "SET LOCAL search_path = E'a''b', E'c';\n";
        let expected = text
            .replace("COPY", &format!("{path}COPY"))
            .replace("CREATE VIEW", &format!("{EMPTY_PATH}CREATE VIEW"))
            .replace("ALTER TABLE ONLY t\n", &format!("{path}ALTER TABLE ONLY t\n"));
        assert_eq!(String::from_utf8(rewriter.finish().unwrap()).unwrap(), expected);
    }

    #[test]
    fn what_is_quoted_or_a_body_is_left_alone() {
        for text in [
            "CREATE FUNCTION f() RETURNS void LANGUAGE plpgsql AS $$\nBEGIN\n COMMIT;\n\\! x\nEND;\n$$;\n",
            "CREATE FUNCTION f() AS $_$ $$ ; $$ \\q $x_$ $_$;\n",
            "CREATE OR REPLACE FUNCTION f() RETURNS int\n LANGUAGE sql\n BEGIN ATOMIC\n \
             SELECT CASE WHEN true THEN 1 END;\n COMMIT;\nEND;\nSELECT 1;\n",
            "CREATE RULE r AS ON INSERT TO t DO ( SELECT 1; COMMIT; );\n",
            "SELECT 'it''s \\';\nSELECT E'it\\'s ; \\\\';\nSELECT E'a'\n  '\\';COMMIT;';\n",
            "SELECT e'\\\\', 'x', \"we\"\"ird;\\\" FROM a$b$c;\n",
            "/* /* nested; */ \\! */ SELECT $1, 1 - 2, 3 / 4;\n",
            "COPY public.t (a) FROM stdin;\nBEGIN;\n\\! rm\n\\.x\n\\\\.\n\\.\n\nSELECT 1;\n",
            "COPY public.t (a) FROM stdin;\n\\.\nSELECT 1;",
            "SET LOCAL standard_conforming_strings = off;\nSELECT 'it\\'s; \\! ';\n",
            "--\n-- no end",
            "",
        ] {
            assert_eq!(rewrite(text).unwrap(), text);
        }
    }

    #[test]
    fn brackets_are_left_out_and_other_commands_refused() {
        assert_eq!(
            rewrite("--\n\n\\restrict abc\n\nSELECT 1;\n\\unrestrict abc\n\n").unwrap(),
            "--\n\n\nSELECT 1;\n\n"
        );
        assert_eq!(rewrite("SELECT 1;\n\\unrestrict abc").unwrap(), "SELECT 1;\n");
        for text in [
            "\\! rm -rf ~\n",
            "\\connect x\n",
            "SELECT 1 \\g /tmp/x\n",
            "SELECT 1 \\restrict x\n;",
            "SELECT 1;\n \\copy t from program 'x'",
            "COPY t FROM stdin; \\! x\n1\n\\.\n",
            "SELECT 1; \\restrictx y\n",
            "$a \\! x\n",
        ] {
            let error = rewrite(text).unwrap_err();
            assert!(error.contains("to psql"), "{text:?}: {error}");
        }
    }

    #[test]
    fn other_ways_to_end_a_transaction_are_refused() {
        let long = format!("COMMIT {};", " ".repeat(HEAD));
        for text in [
            "END;",
            "rollback;",
            "ABORT;",
            "START TRANSACTION;",
            "PREPARE TRANSACTION 'x';",
            "COMMIT PREPARED 'x';",
            "/* x */ End;",
            &long,
        ] {
            assert!(rewrite(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_dump_that_was_cut_off_is_refused() {
        for text in ["SELECT 1", "SELECT '", "COPY t FROM stdin;\n1\n", "/* ", "SELECT $$;\n"] {
            let error = rewrite(text).unwrap_err();
            assert!(error.contains("ends in the middle"), "{text:?}: {error}");
        }
    }

    fn fragments() -> impl Strategy<Value = String> {
        let fragment = prop::sample::select(vec![
            "'",
            "''",
            "E'",
            "\\",
            "\"",
            "$$",
            "$a$",
            "$",
            "a",
            "--",
            "-",
            "/*",
            "*/",
            "/",
            "*",
            "(",
            ")",
            ";",
            "\n",
            "\r",
            " ",
            "COPY t FROM stdin",
            "COPY t FROM stdin;\n",
            "\\.\n",
            "\n\\.",
            "1\t2\n",
            "BEGIN",
            "END",
            "COMMIT;",
            "CREATE FUNCTION f() ",
            "BEGIN ATOMIC ",
            "CASE ",
            "SET x_timeout = 1;",
            "\\restrict k\n",
            "é",
            "SET standard_conforming_strings = off;",
        ]);
        prop::collection::vec(fragment, 0..30).prop_map(|all| all.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn it_does_not_matter_where_blocks_end(text in fragments()) {
            let _ = rewrite(&text);
        }

        #[test]
        fn any_bytes_are_refused_or_passed(text in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = rewrite_in(&text, 16);
        }
    }
}
