//! A `psql` that is told one thing after the other: a connection that we own.
//!
//! Every statement is followed by a mark that `psql` repeats, so what stands before it is the
//! answer. At the first error `psql` ends (`ON_ERROR_STOP`), and with it the connection and any open
//! transaction: a session that has failed once is of no further use. Rows are asked for as JSON arrays, one a line, since names and values may
//! hold any character.

use rappel_types::Advice;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::process::ChildStdin;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use serde_json::Value;

use super::super::error::{Error, Result};
use super::program::{Programs, Running};

pub use super::super::sql::literal;

/// The code of a database that does not exist.
const NO_DATABASE: &str = "3D000";
/// Our own for a session that was ended because the user wants to stop.
const CANCELLED: &str = "cancelled";

/// Why a session is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The error's code (`SQLSTATE`), where the server gave one.
    pub code: Option<String>,
    /// The words for people, cleaned.
    pub words: String,
}

impl Failure {
    /// Whether it was this error.
    pub fn is(&self, code: &str) -> bool {
        self.code.as_deref() == Some(code)
    }

    /// Whether the user wanted to stop.
    pub fn is_cancelled(&self) -> bool {
        self.is(CANCELLED)
    }

    /// Whether somebody else's lock was in the way: not had in time, or waited for in a circle.
    pub fn is_locked_out(&self) -> bool {
        self.is("55P03") || self.is("57014") || self.is("40P01")
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        match failure.code.as_deref() {
            _ if failure.is_locked_out() => Self::Busy(failure.words),
            Some(NO_DATABASE) => Self::Absent(failure.words),
            Some(CANCELLED) => rappel_store::Error::Cancelled.into(),
            Some("42501") => Self::Refused {
                message: failure.words,
                advice: vec![Advice::plain(
                    "connect as the owner of everything in it, or as a superuser",
                )],
            },
            _ => Self::Unavailable(failure.words),
        }
    }
}

/// A connection.
#[derive(Debug)]
pub struct Session {
    programs: Programs,
    running: Running,
    stdin: Option<BufWriter<ChildStdin>>,
    answers: Receiver<String>,
    mark: String,
}

impl Session {
    /// Connects. Nothing is known of the server yet: the first question tells.
    pub fn open(programs: &Programs) -> Result<Self> {
        let arguments =
            ["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-v", "VERBOSITY=verbose"];
        let mut running = programs.connect("psql", &arguments, &[("client_encoding", "UTF8")])?;
        let (send, answers) = channel();
        if let Some(stdout) = running.stdout.take() {
            let started = rappel_store::threads::start(move || {
                let mut lines = BufReader::new(stdout);
                let mut line = Vec::new();
                while matches!(lines.read_until(b'\n', &mut line), Ok(length) if length > 0) {
                    let text = String::from_utf8_lossy(&line).trim_end_matches('\n').to_owned();
                    line.clear();
                    if send.send(text).is_err() {
                        break;
                    }
                }
            });
            started
                .map_err(|error| Error::Unavailable(format!("cannot start a thread: {error}")))?;
        }
        let stdin = running.stdin.take().map(|stdin| BufWriter::with_capacity(64 << 10, stdin));
        let mark = format!("rappel-{:016x}", rappel_store::ambient::random());
        Ok(Self { programs: programs.clone(), running, stdin, answers, mark })
    }

    /// Where statements of any length can be written, for [`Session::settle`] to wait for.
    pub fn input(&mut self) -> impl Write + '_ {
        Input(self.stdin.as_mut())
    }

    /// Tells statements without waiting for their answer.
    pub fn tell(&mut self, statements: &str) {
        // One that does not listen any more says why when it is asked.
        let mut input = Input(self.stdin.as_mut());
        let _ = input.write_all(statements.as_bytes());
        let _ = write!(input, "\n\\echo {}\n", self.mark);
        let _ = input.flush();
    }

    /// Tells statements that may fail without ending the session. The last line of the answer is the error's
    /// code, or `00000`.
    pub fn try_to(&mut self, statements: &str) {
        self.tell(&format!(
            "\\set ON_ERROR_STOP 0\n{statements}\n\\echo :SQLSTATE\n\\set ON_ERROR_STOP 1"
        ));
    }

    /// The lines of the next answer that is due, or `None` if there is none within `patience`.
    pub fn hear(&mut self, patience: Option<Duration>) -> Result<Option<Vec<String>>, Failure> {
        let mut lines = Vec::new();
        loop {
            let line = match patience {
                Some(patience) => self.answers.recv_timeout(patience),
                None => self.answers.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match line {
                Ok(line) if line == self.mark => return Ok(Some(lines)),
                Ok(line) => lines.push(line),
                Err(RecvTimeoutError::Timeout) => return Ok(None),
                Err(RecvTimeoutError::Disconnected) => return Err(self.post_mortem()),
            }
        }
    }

    /// Tells statements that any server has soon done, and returns the lines they answer.
    pub fn ask(&mut self, statements: &str) -> Result<Vec<String>, Failure> {
        self.tell(statements);
        self.answer(Duration::ZERO)
    }

    /// The same for statements that take as long as there is data.
    pub fn ask_long(&mut self, statements: &str) -> Result<Vec<String>, Failure> {
        self.tell(statements);
        Ok(self.hear(None)?.unwrap_or_default())
    }

    /// The lines of the next answer that is due. A server that stays silent is given up, `longer` after it
    /// should have answered.
    pub fn answer(&mut self, longer: Duration) -> Result<Vec<String>, Failure> {
        let patience = longer + self.programs.silence;
        self.hear(Some(patience))?.ok_or_else(|| {
            self.kill();
            Failure { code: None, words: self.programs.mute(patience).to_string() }
        })
    }

    /// From here on the user cannot stop it.
    pub fn see_through(&mut self) {
        self.running.see_through();
    }

    /// Waits until everything that was written to [`Session::input`] is done.
    pub fn settle(&mut self) -> Result<(), Failure> {
        self.ask_long("").map(drop)
    }

    /// The rows of a query whose only column is a JSON array.
    pub fn rows(&mut self, query: &str) -> Result<Vec<Vec<Value>>, Failure> {
        let lines = self.ask(query)?;
        lines
            .iter()
            .map(|line| {
                serde_json::from_str(line).map_err(|_| Failure {
                    code: None,
                    words: format!("psql answered something unexpected: {line}"),
                })
            })
            .collect()
    }

    /// What a query answers in its only line; empty for NULL.
    pub fn value(&mut self, query: &str) -> Result<String, Failure> {
        Ok(self.ask(query)?.into_iter().next().unwrap_or_default())
    }

    /// Why it does not listen any more, if it does not.
    pub fn broken(&mut self) -> Option<Failure> {
        let mut input = Input(self.stdin.as_mut());
        // Something must be written: what was refused before is not kept to be flushed.
        let deaf = input.write_all(b"\n").and_then(|()| input.flush()).is_err();
        deaf.then(|| self.post_mortem())
    }

    /// Ends it, whatever it does. An open transaction is rolled back by the server.
    pub fn kill(&mut self) {
        self.running.kill();
        // What was not written yet goes nowhere, and must not wait for a reader.
        self.stdin = None;
    }

    /// What it had to say when it ended.
    fn post_mortem(&mut self) -> Failure {
        self.stdin = None;
        let (_, words) = self.running.finish();
        if self.programs.cancel.is_cancelled() {
            let words = rappel_store::Error::Cancelled.to_string();
            return Failure { code: Some(CANCELLED.to_owned()), words };
        }
        let code = words.lines().find_map(error_code);
        let told: Vec<&str> = words
            .lines()
            .map(str::trim_end)
            .filter(|line| !line.is_empty() && !line.starts_with("LOCATION:"))
            .filter(|line| !line.starts_with("NOTICE:") && !line.starts_with("WARNING:"))
            .take(12)
            .collect();
        let words = told.join("\n");
        // What the server itself says needs no explanation of ours.
        if let Some(known) = &code {
            let words = self.programs.address.cleaned(&words.replace(&format!("{known}: "), ""));
            return Failure { code, words };
        }
        let error = self.programs.explain("psql", &words);
        let code = matches!(error, Error::Absent(_)).then(|| NO_DATABASE.to_owned());
        Failure { code, words: error.to_string() }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.kill();
    }
}

/// What a session listens to, while it does.
struct Input<'a>(Option<&'a mut BufWriter<ChildStdin>>);

impl Write for Input<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.as_mut().ok_or(std::io::ErrorKind::BrokenPipe)?.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.as_mut().ok_or(std::io::ErrorKind::BrokenPipe)?.flush()
    }
}

/// The code in `ERROR:  55P03: canceling statement due to lock timeout`.
fn error_code(line: &str) -> Option<String> {
    let rest = ["ERROR:  ", "FATAL:  ", "PANIC:  "]
        .iter()
        .find_map(|severity| line.split_once(severity).map(|(_, rest)| rest))?;
    let (code, _) = rest.split_once(": ")?;
    let fits = |c: char| c.is_ascii_digit() || c.is_ascii_uppercase();
    (code.len() == 5 && code.chars().all(fits)).then(|| code.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_errors() {
        let code =
            error_code("psql:<stdin>:3: ERROR:  55P03: canceling statement due to lock timeout");
        assert_eq!(code.as_deref(), Some("55P03"));
        assert_eq!(error_code("psql: error: FATAL:  database \"x\" does not exist"), None);
    }
}
