//! The brief for an agent that has lost its context: what it was to do, what it found out, what it ruled out and why,
//! and what it did last. [`Brief`] is the value that `rappel recall --json` prints; `text` makes it fit a number
//! of characters.

mod text;

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::contradiction::Rule;
use super::items::Long;
use super::session::{SessionId, SessionStatus};
use super::state::{
    Belief, Confidence, ExecutedCommand, Gap, Hypothesis, HypothesisStatus, Note, SessionState,
    Thought, ToolCall, Verification,
};
use crate::{CheckpointId, Timestamp};

/// How long the text of a brief is unless somebody asks for another length.
pub const DEFAULT_MAX: usize = 8_000;

/// The newest so many thoughts, calls, commands, notes, failures and filled gaps are told; the older ones are counted.
const NEWEST: usize = 20;
/// So much is told of what a tool was given and what it gave.
const PREVIEW: usize = 240;

/// What a brief says that the session itself does not know.
#[derive(Debug, Clone, PartialEq)]
pub struct Extra {
    /// The newest checkpoint that holds no more than the session knows, when it was made and what it is called.
    pub last_checkpoint: Option<(CheckpointId, Timestamp, Option<String>)>,
    /// Whether that holds anything that a restore brings back, and not the agent's state alone.
    pub restorable: bool,
    /// The present, from which ages are told.
    pub now: Timestamp,
}

/// What an agent needs to go on.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Brief {
    pub session: SessionId,
    pub provider: Option<String>,
    pub status: SessionStatus,
    /// The last event that it knows, and when that happened.
    pub event: u64,
    pub latest_at: Option<Timestamp>,
    pub now: Timestamp,
    pub goal: Option<String>,
    /// What the user asked last, if that is not the goal.
    pub last_prompt: Option<String>,
    pub progress: Option<String>,
    /// The checkpoint that the session was last set back to.
    pub restored_to: Option<CheckpointId>,
    pub branch: String,
    pub last_checkpoint: Option<LastCheckpoint>,
    /// How to see all of it, in the words of a face.
    #[serde(skip)]
    pub everything: Option<String>,
    /// Hypotheses, the likeliest first, the newest of equal ones first.
    pub confirmed: Vec<Guess>,
    pub open: Vec<Guess>,
    pub ruled_out: Vec<Guess>,
    pub contradictions: Vec<Clash>,
    pub beliefs: Vec<Belief>,
    /// What was checked and failed, and is about none of the hypotheses; newest first, as all that follows.
    pub failed_verifications: Vec<Verification>,
    pub gaps_open: Vec<Gap>,
    pub gaps_filled: Vec<Gap>,
    pub running: Vec<ToolCall>,
    pub thoughts: Vec<Thought>,
    pub tool_calls: Vec<Called>,
    pub commands: Vec<ExecutedCommand>,
    pub notes: Vec<Note>,
    pub files_touched: Vec<String>,
    pub context: BTreeMap<String, Value>,
    /// What is too old to be told here.
    pub older: Older,
}

/// How much is not in a [`Brief`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, JsonSchema, Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Older {
    pub failed_verifications: u64,
    /// Verifications at which nobody looked: some of them may have failed.
    pub verifications: u64,
    pub gaps_filled: u64,
    pub thoughts: u64,
    pub tool_calls: u64,
    pub commands: u64,
    pub notes: u64,
}

/// Where the work can be brought back to.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct LastCheckpoint {
    pub id: CheckpointId,
    pub created_at: Timestamp,
    pub description: Option<String>,
    /// Whether it holds anything that a restore brings back, and not the agent's state alone.
    pub restorable: bool,
    /// How to bring it back, in the words of a face.
    pub restore: Option<String>,
}

/// A hypothesis, and why it stands where it stands.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Guess {
    pub id: String,
    pub text: String,
    pub status: HypothesisStatus,
    pub confidence: Confidence,
    pub updated_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The strongest evidence for it and against it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supported_by: Option<Weighed>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refuted_by: Option<Weighed>,
    /// Verifications of it that failed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<Named>,
}

/// A piece of evidence.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Weighed {
    pub id: String,
    pub weight: Confidence,
    /// Missing where only the store has it.
    pub text: Option<String>,
}

/// A call of a tool that is done, in short.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Called {
    pub id: String,
    pub tool: String,
    /// What it was given, what it gave and why it failed: how that begins.
    pub arguments: Option<String>,
    pub result: Option<String>,
    pub success: Option<bool>,
    pub error: Option<String>,
    pub started_at: Timestamp,
    pub completed_at: Option<Timestamp>,
}

/// Something with its words.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Named {
    pub id: String,
    pub text: String,
}

/// Two things that cannot both hold.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Clash {
    pub rule: Rule,
    pub first: Named,
    pub second: Named,
}

impl Brief {
    /// What this state tells. Of its long lists only what is loaded can be told; the rest is counted.
    pub fn of(state: &SessionState, extra: Extra) -> Self {
        let known = Known::of(state);
        let hypotheses = |wanted: fn(HypothesisStatus) -> bool| {
            let mut found: Vec<Guess> = state
                .hypotheses
                .iter()
                .filter(|one| wanted(one.status))
                .map(|one| known.guess(one))
                .collect();
            found.sort_by(|a, b| likeliest(a.confidence, a.updated_at, b.confidence, b.updated_at));
            found
        };
        let mut beliefs: Vec<Belief> = state.beliefs.iter().cloned().collect();
        beliefs.sort_by(|a, b| likeliest(a.confidence, a.updated_at, b.confidence, b.updated_at));
        let mut filled: Vec<Gap> =
            state.gaps.iter().rev().filter(|gap| gap.filled).cloned().collect();
        filled.sort_by_key(|gap| std::cmp::Reverse(gap.filled_at));
        let older_filled = filled.len().saturating_sub(NEWEST) as u64;
        filled.truncate(NEWEST);
        let mut failed: Vec<Verification> = state
            .verification_results
            .iter()
            .rev()
            .filter(|one| !one.passed && one.hypothesis.is_none())
            .cloned()
            .collect();
        let older_failed = failed.len().saturating_sub(NEWEST) as u64;
        failed.truncate(NEWEST);
        let (thoughts, older_thoughts) = newest(&state.thought_chain, Thought::clone);
        let (tool_calls, older_calls) = newest(&state.tool_state.done, Called::of);
        let (commands, older_commands) = newest(&state.command_history, ExecutedCommand::clone);
        let (notes, older_notes) = newest(&state.notes, Note::clone);
        let last_prompt = state.prompts.iter().next_back().map(|prompt| prompt.text.clone());
        Self {
            session: state.session.clone(),
            provider: state.provider.clone(),
            status: state.status,
            event: state.event,
            latest_at: state.latest_at,
            now: extra.now,
            goal: state.task.clone(),
            last_prompt: last_prompt.filter(|prompt| state.task.as_ref() != Some(prompt)),
            progress: progress(state),
            restored_to: state.restored_to.clone(),
            branch: state.current_branch.clone(),
            last_checkpoint: extra.last_checkpoint.map(|(id, created_at, description)| {
                let restorable = extra.restorable;
                LastCheckpoint { id, created_at, description, restorable, restore: None }
            }),
            everything: None,
            confirmed: hypotheses(|status| status == HypothesisStatus::Confirmed),
            open: hypotheses(HypothesisStatus::is_open),
            ruled_out: hypotheses(|status| status == HypothesisStatus::Rejected),
            contradictions: state
                .contradictions
                .iter()
                .map(|one| Clash {
                    rule: one.what.rule,
                    first: known.named(state, &one.what.first),
                    second: known.named(state, &one.what.second),
                })
                .collect(),
            beliefs,
            failed_verifications: failed,
            gaps_open: state.gaps.iter().rev().filter(|gap| !gap.filled).cloned().collect(),
            gaps_filled: filled,
            running: state.tool_state.running.iter().rev().cloned().collect(),
            thoughts,
            tool_calls,
            commands,
            notes,
            files_touched: state.files_touched.iter().rev().cloned().collect(),
            context: state.context.variables.clone(),
            older: Older {
                failed_verifications: older_failed,
                verifications: state.verification_results.stored_count(),
                thoughts: older_thoughts,
                tool_calls: older_calls,
                gaps_filled: older_filled,
                commands: older_commands,
                notes: older_notes,
            },
        }
    }
}

impl Called {
    fn of(call: &ToolCall) -> Self {
        let preview = |value: &Value| match value {
            Value::Null => None,
            Value::String(text) => Some(text::clip(text, PREVIEW)),
            other => Some(text::clip(&other.to_string(), PREVIEW)),
        };
        Self {
            id: call.id.clone(),
            tool: call.tool.clone(),
            arguments: preview(&call.arguments),
            result: preview(&call.result),
            success: call.success,
            error: call.error.as_deref().map(|error| text::clip(error, PREVIEW)),
            started_at: call.started_at,
            completed_at: call.completed_at,
        }
    }
}

/// The surer one first, of equally sure ones the newer.
fn likeliest(a: Confidence, a_at: Timestamp, b: Confidence, b_at: Timestamp) -> Ordering {
    b.get().total_cmp(&a.get()).then(b_at.cmp(&a_at))
}

/// The newest items of a list, newest first, and how many older ones there are.
fn newest<T, U>(list: &Long<T>, told: impl Fn(&T) -> U) -> (Vec<U>, u64) {
    let items: Vec<U> = list.iter().rev().take(NEWEST).map(told).collect();
    let older = list.len() - items.len() as u64;
    (items, older)
}

fn progress(state: &SessionState) -> Option<String> {
    let progress = &state.progress;
    match (&progress.text, progress.step_number) {
        (None, 0) => None,
        (None, step) => Some(format!("step {step}")),
        (Some(text), 0) => Some(text.clone()),
        (Some(text), step) => Some(format!("step {step}: {text}")),
    }
}

/// The words of what is referred to by id.
struct Known<'a> {
    evidence: HashMap<&'a str, &'a str>,
    failed: HashMap<&'a str, Vec<Named>>,
}

impl<'a> Known<'a> {
    fn of(state: &'a SessionState) -> Self {
        let evidence = state.evidence.iter().map(|one| (one.id.as_str(), one.text.as_str()));
        let mut failed: HashMap<&str, Vec<Named>> = HashMap::new();
        for one in state.verification_results.iter().filter(|one| !one.passed) {
            if let Some(of) = &one.hypothesis {
                let named = Named { id: one.id.clone(), text: one.text.clone() };
                failed.entry(of).or_default().push(named);
            }
        }
        Self { evidence: evidence.collect(), failed }
    }

    fn guess(&self, hypothesis: &Hypothesis) -> Guess {
        let weighed = |strongest: &Option<(String, Confidence)>| {
            strongest.as_ref().map(|(id, weight)| Weighed {
                id: id.clone(),
                weight: *weight,
                text: self.evidence.get(id.as_str()).map(|text| (*text).to_owned()),
            })
        };
        Guess {
            id: hypothesis.id.clone(),
            text: hypothesis.text.clone(),
            status: hypothesis.status,
            confidence: hypothesis.confidence,
            updated_at: hypothesis.updated_at,
            reason: hypothesis.reason.clone(),
            supported_by: weighed(&hypothesis.supported_by),
            refuted_by: weighed(&hypothesis.refuted_by),
            failed: self.failed.get(hypothesis.id.as_str()).cloned().unwrap_or_default(),
        }
    }

    /// One side of a contradiction: a belief, a hypothesis or a piece of evidence.
    fn named(&self, state: &SessionState, id: &str) -> Named {
        let text = (state.beliefs.get(id).map(|one| one.text.as_str()))
            .or_else(|| state.hypotheses.get(id).map(|one| one.text.as_str()))
            .or_else(|| self.evidence.get(id).copied());
        Named { id: id.to_owned(), text: text.unwrap_or_default().to_owned() }
    }
}
