//! What a session did, prompt by prompt: a fold over its journal.
//!
//! What changed in files, git and databases is not in the journal; the engine adds it.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::event::{Body, Event, payload};
use super::searches::found_nothing;
use super::state::{HypothesisStatus, TokenCount};
use crate::{CheckpointId, Timestamp};

/// Texts from elsewhere are cut to so many characters.
const TEXT_MAX: usize = 500;

/// What happened from one prompt to the next. What came before the first one has no prompt.
#[derive(Debug, Clone, Default, PartialEq, JsonSchema, Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Turn {
    /// The prompt's id.
    pub id: Option<String>,
    pub prompt: Option<String>,
    pub started_at: Option<Timestamp>,
    /// When the last thing happened.
    pub ended_at: Option<Timestamp>,
    pub duration_ms: u64,
    pub tool_calls: u64,
    /// Commands and tool calls that failed.
    pub failed: Vec<FailedCall>,
    pub verifications: Vec<Verified>,
    /// Hypotheses that were rejected.
    pub ruled_out: Vec<RuledOut>,
    pub tokens: TokenCount,
    /// Checkpoints that the session was set back to.
    pub restored_to: Vec<CheckpointId>,
    /// How often the agent's context was cut.
    pub compactions: u64,
}

/// A command or a tool call that failed.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct FailedCall {
    pub at: Timestamp,
    /// The tool; `None` for a command that was recorded by itself.
    pub tool: Option<String>,
    /// The command, or what the tool was given.
    pub text: String,
    pub exit_code: Option<i32>,
    pub error: Option<String>,
    /// Nobody told its end: it was running when its agent went on or away.
    pub interrupted: bool,
}

/// Something that was checked.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Verified {
    pub text: String,
    pub passed: bool,
}

/// A hypothesis that was rejected.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct RuledOut {
    pub id: String,
    pub text: String,
    pub reason: Option<String>,
}

/// A journal, cut at its prompts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Turns {
    /// In order.
    pub turns: Vec<Turn>,
    /// Tool calls that have not ended.
    pub unfinished: Vec<FailedCall>,
}

/// Cuts the events that lead to a position at their prompts. Events count where they happened:
/// what a transcript told late belongs to the prompt that was current then.
pub fn turns(events: &[Event]) -> Turns {
    let mut order: Vec<&Event> = events.iter().collect();
    order.sort_by_key(|event| (event.at, event.number));
    let mut fold = Fold::default();
    for event in order {
        fold.take(event);
    }
    let mut unfinished: Vec<FailedCall> = fold.running.into_values().collect();
    unfinished.sort_by(|a, b| (a.at, &a.text).cmp(&(b.at, &b.text)));
    Turns { turns: fold.turns, unfinished }
}

#[derive(Default)]
struct Fold {
    turns: Vec<Turn>,
    running: HashMap<String, FailedCall>,
    /// The text of each hypothesis.
    hypotheses: HashMap<String, String>,
    /// What each request was counted with, and in which turn.
    counted: HashMap<String, (usize, TokenCount)>,
}

impl Fold {
    fn take(&mut self, event: &Event) {
        if let Body::Prompt(prompt) = &event.body {
            self.turns.push(Turn {
                id: event.id.clone(),
                prompt: Some(prompt.text.clone()),
                started_at: Some(event.at),
                ended_at: Some(event.at),
                ..Turn::default()
            });
            return;
        }
        if self.turns.is_empty() {
            self.turns.push(Turn { started_at: Some(event.at), ..Turn::default() });
        }
        let number = self.turns.len() - 1;
        let id = event.id.clone().unwrap_or_default();
        let turn = &mut self.turns[number];
        if !is_bookkeeping(&event.body) {
            turn.ended_at = Some(event.at);
            let begun = turn.started_at.unwrap_or(event.at);
            turn.duration_ms = u64::try_from(event.at.millis_since(begun)).unwrap_or(0);
        }
        match &event.body {
            Body::Tool(call) => {
                turn.tool_calls += 1;
                if !call.success {
                    let failed = called(&call.tool, &call.arguments, event.at);
                    turn.failed.push(FailedCall { error: ending(call.error.as_ref()), ..failed });
                }
            }
            Body::ToolStarted(call) => {
                turn.tool_calls += 1;
                self.running.insert(id, called(&call.tool, &call.arguments, event.at));
            }
            // What is only presumed may be told otherwise.
            Body::ToolFinished(done) if done.presumed && done.success => {}
            Body::ToolFinished(done) => {
                let call = self.running.remove(&done.of);
                if let (Some(call), false) = (call, done.success) {
                    let (error, interrupted) = (ending(done.error.as_ref()), done.presumed);
                    turn.failed.push(FailedCall { error, interrupted, ..call });
                }
            }
            Body::Command(command) => command_ended(turn, command, event.at),
            Body::Verification(checked) => {
                let (text, passed) = (cut(&checked.text), checked.passed);
                turn.verifications.push(Verified { text, passed });
            }
            Body::Hypothesis(hypothesis) => {
                if hypothesis.status == HypothesisStatus::Rejected {
                    turn.ruled_out.push(RuledOut {
                        id: id.clone(),
                        text: cut(&hypothesis.text),
                        reason: None,
                    });
                }
                self.hypotheses.insert(id, hypothesis.text.clone());
            }
            Body::HypothesisUpdated(update) => {
                if let Some(text) = &update.text {
                    self.hypotheses.insert(update.of.clone(), text.clone());
                }
                if update.status == Some(HypothesisStatus::Rejected) {
                    let text = self.hypotheses.get(&update.of).map(|text| cut(text));
                    turn.ruled_out.push(RuledOut {
                        id: update.of.clone(),
                        text: text.unwrap_or_default(),
                        reason: cut_some(update.reason.as_ref()),
                    });
                }
            }
            Body::Tokens(tokens) => self.count(number, tokens),
            Body::Restored(restored) if !restored.taken_back => {
                turn.restored_to.push(restored.checkpoint.clone());
            }
            Body::Compaction(_) => turn.compactions += 1,
            _ => {}
        }
    }

    /// A later count of the same request replaces an earlier one, if it is higher.
    fn count(&mut self, turn: usize, tokens: &payload::Tokens) {
        let &payload::Tokens { input, output, cache_read, cache_write, .. } = tokens;
        let now = TokenCount { input, output, cache_read, cache_write };
        let known = tokens.message.as_ref().and_then(|message| self.counted.get(message));
        let (turn, before) = known.copied().unwrap_or((turn, TokenCount::default()));
        if now.total() <= before.total() {
            return;
        }
        let sum = &mut self.turns[turn].tokens;
        let pairs = [
            (&mut sum.input, before.input, now.input),
            (&mut sum.output, before.output, now.output),
            (&mut sum.cache_read, before.cache_read, now.cache_read),
            (&mut sum.cache_write, before.cache_write, now.cache_write),
        ];
        for (sum, before, now) in pairs {
            *sum = sum.saturating_sub(before).saturating_add(now);
        }
        if let Some(message) = &tokens.message {
            self.counted.insert(message.clone(), (turn, now));
        }
    }
}

/// A command that a tool ran is told twice; the command knows its exit code. A search that found
/// nothing did not fail, whatever its tool told.
fn command_ended(turn: &mut Turn, command: &payload::Command, at: Timestamp) {
    let Some(code) = command.exit_code.filter(|code| *code != 0) else { return };
    let text = cut(&command.command);
    let same = |call: &FailedCall| call.text == text && call.exit_code.is_none();
    let told = turn.failed.iter().rposition(same);
    if found_nothing(&command.command, code) {
        told.map(|at| turn.failed.remove(at));
        return;
    }
    if let Some(at) = told {
        turn.failed[at].exit_code = Some(code);
        return;
    }
    let error = command.stderr_preview.lines().last().map(cut);
    let exit_code = Some(code);
    turn.failed.push(FailedCall { at, tool: None, text, exit_code, error, interrupted: false });
}

pub(super) fn called(tool: &str, arguments: &Value, at: Timestamp) -> FailedCall {
    let said = ["command", "file_path", "path", "pattern", "url", "description"]
        .into_iter()
        .find_map(|key| arguments.get(key).and_then(Value::as_str));
    let text = match said {
        Some(said) => cut(said),
        None if arguments.is_null() => String::new(),
        None => cut(&arguments.to_string()),
    };
    let tool = Some(tool.to_owned());
    FailedCall { at, tool, text, exit_code: None, error: None, interrupted: false }
}

/// Whether an event says nothing of the agent's own work.
fn is_bookkeeping(body: &Body) -> bool {
    matches!(
        body,
        Body::Checkpoint(_)
            | Body::Transcript(_)
            | Body::SessionEnded(_)
            | Body::Restored(_)
            | Body::TakenOver(_)
    )
}

pub(super) fn cut(text: &str) -> String {
    match text.char_indices().nth(TEXT_MAX) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// The last part of what a program said: the line that tells what broke mostly stands at the end.
pub(super) fn ending(text: Option<&String>) -> Option<String> {
    let text = text?;
    let before = text.chars().count().saturating_sub(TEXT_MAX);
    Some(match text.char_indices().nth(before) {
        Some((at, _)) if before > 0 => format!("…{}", &text[at..]),
        _ => text.clone(),
    })
}

fn cut_some(text: Option<&String>) -> Option<String> {
    text.map(|text| cut(text))
}
