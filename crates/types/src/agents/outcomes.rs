//! How checks and tool calls ended, and which of them fail now: folds over journals.
//!
//! The engine reads the journals and adds the checkpoints around each outcome.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::event::{Body, Event, payload};
use super::report::{called, cut, ending};
use super::searches::found_nothing;
use super::session::SessionId;
use crate::Timestamp;

/// Words that make a shell command a check: it says whether the work is sound.
const CHECKS: [&str; 16] = [
    "test", "tests", "check", "build", "lint", "clippy", "make", "pytest", "jest", "vitest", "tsc",
    "eslint", "mypy", "ruff", "ctest", "verify",
];

/// A verification, a command or a tool call that ended.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Outcome {
    /// Its session.
    pub session: SessionId,
    /// The number of the event that tells the end.
    pub event: u64,
    /// The fork of that event.
    #[serde(skip)]
    pub fork: u32,
    /// When it ended.
    pub at: Timestamp,
    /// What it is.
    pub kind: OutcomeKind,
    /// The tool; `null` for a verification and for a command that was recorded by itself.
    pub tool: Option<String>,
    /// What was verified, the command, or what the tool was given.
    pub text: String,
    /// Whether it passed.
    pub passed: bool,
    /// The exit code of a command.
    pub exit_code: Option<i32>,
    /// What it said about its failure.
    pub error: Option<String>,
    /// The prompt that it belongs to.
    pub prompt: Option<String>,
    /// When that prompt was given.
    pub prompt_at: Option<Timestamp>,
}

/// What ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the names say it")]
pub enum OutcomeKind {
    Verification,
    /// A shell command, by a tool or recorded by itself.
    Command,
    /// A call of another tool.
    Tool,
}

/// A check that fails: its last outcome is a failure. The numbers are places in the outcomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failing {
    /// The first failure since it last passed.
    pub since: usize,
    /// The newest failure.
    pub latest: usize,
    /// How often it failed since it last passed.
    pub times: u64,
    /// When it last passed.
    pub passed: Option<usize>,
    /// Whether it tells whether the work is sound: a verification, a command that passed before, or
    /// one that names a test, a build or a lint.
    pub is_check: bool,
}

/// The outcomes that a journal tells of, oldest first. An end that is only presumed is left out.
pub fn outcomes(session: &SessionId, events: &[Event]) -> Vec<Outcome> {
    let mut order: Vec<&Event> = events.iter().collect();
    order.sort_by_key(|event| (event.at, event.number));
    let mut fold = Fold { session, found: Vec::new(), running: HashMap::new(), prompt: None };
    for event in order {
        fold.take(event);
    }
    fold.found
}

/// The checks and commands whose last outcome is a failure: checks first, then the newest first.
/// Outcomes with the same text are the same check, in whatever session. They come oldest first.
pub fn failing(outcomes: &[Outcome]) -> Vec<Failing> {
    let mut open: HashMap<&str, Failing> = HashMap::new();
    let mut passed: HashMap<&str, usize> = HashMap::new();
    for (place, one) in outcomes.iter().enumerate() {
        if one.kind == OutcomeKind::Tool {
            continue;
        }
        let text = one.text.as_str();
        if one.passed {
            passed.insert(text, place);
            open.remove(text);
            continue;
        }
        let before = passed.get(text).copied();
        let known = open.entry(text).or_insert(Failing {
            since: place,
            latest: place,
            times: 0,
            passed: before,
            is_check: one.kind == OutcomeKind::Verification || before.is_some() || is_check(text),
        });
        known.latest = place;
        known.times += 1;
    }
    let mut found: Vec<Failing> = open.into_values().collect();
    found.sort_by_key(|one| (!one.is_check, std::cmp::Reverse(one.latest)));
    found
}

fn is_check(command: &str) -> bool {
    let words = command.split(|c: char| !c.is_ascii_alphanumeric());
    words.into_iter().any(|word| CHECKS.contains(&word))
}

struct Fold<'a> {
    session: &'a SessionId,
    found: Vec<Outcome>,
    /// The calls that run, by their ids.
    running: HashMap<String, &'a payload::ToolStarted>,
    prompt: Option<(&'a str, Timestamp)>,
}

impl<'a> Fold<'a> {
    fn take(&mut self, event: &'a Event) {
        match &event.body {
            Body::Prompt(prompt) => self.prompt = Some((&prompt.text, event.at)),
            Body::Verification(checked) => {
                let made = Outcome { passed: checked.passed, ..self.outcome(event) };
                let error = ending(checked.output.as_ref()).filter(|_| !checked.passed);
                self.found.push(Outcome { text: cut(&checked.text), error, ..made });
            }
            Body::Tool(call) => {
                self.call(event, &call.tool, &call.arguments, call.success, call.error.as_ref());
            }
            Body::ToolStarted(call) => {
                self.running.insert(event.id.clone().unwrap_or_default(), call);
            }
            Body::ToolFinished(done) => {
                let Some(call) = self.running.remove(&done.of) else { return };
                if !done.presumed {
                    let (success, error) = (done.success, done.error.as_ref());
                    self.call(event, &call.tool, &call.arguments, success, error);
                }
            }
            Body::Command(command) => self.command(event, command),
            _ => {}
        }
    }

    /// What every outcome of an event has in common.
    fn outcome(&self, event: &Event) -> Outcome {
        Outcome {
            session: self.session.clone(),
            event: event.number,
            fork: event.fork,
            at: event.at,
            kind: OutcomeKind::Verification,
            tool: None,
            text: String::new(),
            passed: true,
            exit_code: None,
            error: None,
            prompt: self.prompt.map(|(text, _)| cut(text)),
            prompt_at: self.prompt.map(|(_, at)| at),
        }
    }

    fn call(
        &mut self,
        event: &Event,
        tool: &str,
        arguments: &Value,
        passed: bool,
        error: Option<&String>,
    ) {
        let is_shell = arguments.get("command").is_some_and(Value::is_string);
        let kind = if is_shell { OutcomeKind::Command } else { OutcomeKind::Tool };
        let text = called(tool, arguments, event.at).text;
        let error = ending(error).filter(|_| !passed);
        let tool = Some(tool.to_owned());
        self.found.push(Outcome { kind, tool, text, passed, error, ..self.outcome(event) });
    }

    /// A command that a tool ran is told twice; the command knows its exit code.
    fn command(&mut self, event: &Event, command: &payload::Command) {
        let Some(code) = command.exit_code else { return };
        let is_search = found_nothing(&command.command, code);
        let (text, passed) = (cut(&command.command), code == 0 || is_search);
        let error = command.stderr_preview.lines().last().map(cut).filter(|_| !passed);
        let last = self.found.last_mut();
        let same = |one: &&mut Outcome| one.text == text && one.exit_code.is_none();
        if let Some(call) = last.filter(|one| one.tool.is_some()).filter(same) {
            call.exit_code = Some(code);
            call.passed = is_search || call.passed && passed;
            call.error = call.error.take().or(error).filter(|_| !call.passed);
            return;
        }
        let kind = OutcomeKind::Command;
        let exit_code = Some(code);
        let made = self.outcome(event);
        self.found.push(Outcome { kind, text, passed, exit_code, error, ..made });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::NewEvent;

    fn told(lines: &[&str]) -> Vec<Outcome> {
        let events: Vec<Event> = lines
            .iter()
            .zip(1..)
            .map(|(line, number)| {
                let new = NewEvent::parse(line).unwrap();
                let at = Timestamp::from_millis(1_000 * number as i64);
                let id = new.id.clone().or(Some(format!("e{number}")));
                Event { number, fork: 0, at, id, body: new.body }
            })
            .collect();
        outcomes(&"s".parse().unwrap(), &events)
    }

    #[test]
    fn a_check_fails_since_its_first_failure_after_it_passed() {
        let found = told(&[
            r#"{"kind": "prompt", "text": "one"}"#,
            r#"{"kind": "verification", "passed": true, "text": "cargo test"}"#,
            r#"{"kind": "prompt", "text": "two"}"#,
            r#"{"kind": "tool", "tool": "Bash", "input": {"command": "cargo test"}, "error": "no"}"#,
            r#"{"kind": "verification", "failed": true, "text": "cargo test", "output": "1 failed"}"#,
            r#"{"kind": "command", "command": "ls nowhere", "exit_code": 2}"#,
        ]);
        let failing = failing(&found);
        assert_eq!(failing.len(), 2);
        let first = failing[0];
        assert_eq!((first.times, first.is_check), (2, true));
        assert_eq!(found[first.since].prompt.as_deref(), Some("two"));
        assert_eq!(found[first.passed.unwrap()].prompt.as_deref(), Some("one"));
        assert_eq!(found[first.latest].error.as_deref(), Some("1 failed"));
        assert_eq!(found[failing[1].latest].text, "ls nowhere");
        assert!(!failing[1].is_check);
    }

    #[test]
    fn what_passed_since_does_not_fail() {
        let found = told(&[
            r#"{"kind": "verification", "failed": true, "text": "cargo test"}"#,
            r#"{"kind": "command", "command": "cargo test", "exit_code": 0}"#,
            r#"{"kind": "tool", "tool": "Edit", "input": {"file_path": "a"}, "error": "no"}"#,
        ]);
        assert_eq!(found.len(), 3);
        assert!(failing(&found).is_empty(), "a call of another tool is no check");
    }

    #[test]
    fn a_search_that_found_nothing_did_not_fail() {
        let found = told(&[
            r#"{"kind": "tool", "tool": "Bash", "input": {"command": "grep x a"}, "error": "1"}"#,
            r#"{"kind": "command", "command": "grep x a", "exit_code": 1}"#,
            r#"{"kind": "command", "command": "rg y", "exit_code": 1}"#,
        ]);
        assert!(found.iter().all(|one| one.passed && one.error.is_none()), "{found:?}");
    }

    #[test]
    fn a_command_that_a_tool_ran_is_told_once() {
        let found = told(&[
            r#"{"kind": "tool", "tool": "Bash", "input": {"command": "make"}, "output": "x"}"#,
            r#"{"kind": "command", "command": "make", "exit_code": 2, "stderr": "Error 2"}"#,
        ]);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].passed, found[0].exit_code), (false, Some(2)));
        assert_eq!(found[0].error.as_deref(), Some("Error 2"));
    }
}
