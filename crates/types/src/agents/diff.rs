//! What an agent learnt between two moments.

use std::collections::{BTreeMap, HashSet};

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::items::Long;
use super::state::{
    Belief, Confidence, Evidence, Gap, Hypothesis, HypothesisStatus, Note, SessionState, Thought,
    ToolCall, Verification,
};

/// How something changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names say it")]
pub enum ChangeKind {
    Added,
    Updated,
    StatusChanged,
    ConfidenceChanged,
    Removed,
}

/// One change of a hypothesis, a belief or a variable.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
#[allow(missing_docs, reason = "the names say it")]
#[schemars(rename = "AgentsChange")]
pub struct Change {
    pub change: ChangeKind,
    pub id: String,
    pub field: String,
    pub old: Value,
    pub new: Value,
    /// How a hypothesis that was added stands, or one that is gone stood.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<HypothesisStatus>,
    /// How sure something is that was added, or was that is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confidence: Option<Confidence>,
}

/// What differs between two states of agents. What the later one of two moments does not have any more, because
/// it is on another fork or because the two were given the other way round, is `removed`.
#[derive(Debug, Clone, Default, PartialEq, JsonSchema, Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct AgentsDiff {
    pub hypothesis_changes: Vec<Change>,
    pub belief_changes: Vec<Change>,
    pub evidence_added: Vec<Evidence>,
    pub evidence_removed: Vec<Evidence>,
    pub verifications_added: Vec<Verification>,
    pub verifications_removed: Vec<Verification>,
    pub gaps_opened: Vec<Gap>,
    pub gaps_removed: Vec<Gap>,
    pub gaps_filled: Vec<Gap>,
    /// Filled before, and open now.
    pub gaps_reopened: Vec<Gap>,
    pub notes_added: Vec<Note>,
    pub notes_removed: Vec<Note>,
    pub thoughts_added: Vec<Thought>,
    pub thoughts_removed: Vec<Thought>,
    pub tool_calls_added: Vec<ToolCall>,
    pub tool_calls_removed: Vec<ToolCall>,
    /// Running before, and done now.
    pub tool_calls_finished: Vec<ToolCall>,
    /// Done before, and running now.
    pub tool_calls_unfinished: Vec<ToolCall>,
    pub context_changes: Vec<Change>,
}

impl AgentsDiff {
    /// What `new` knows and `old` does not, and the other way round. Of the long lists, what the two do not share must
    /// have been loaded.
    pub fn between(old: &SessionState, new: &SessionState) -> Self {
        let mut diff = Self::default();
        for hypothesis in new.hypotheses.iter() {
            let before = old.hypotheses.get(&hypothesis.id);
            hypothesis_changes(before, hypothesis, &mut diff.hypothesis_changes);
        }
        for gone in old.hypotheses.iter().filter(|one| new.hypotheses.get(&one.id).is_none()) {
            let standing = (Some(gone.status), Some(gone.confidence));
            diff.hypothesis_changes.push(removed(&gone.id, &gone.text, standing));
        }
        for belief in new.beliefs.iter() {
            belief_changes(old.beliefs.get(&belief.id), belief, &mut diff.belief_changes);
        }
        for gone in old.beliefs.iter().filter(|one| new.beliefs.get(&one.id).is_none()) {
            let standing = (None, Some(gone.confidence));
            diff.belief_changes.push(removed(&gone.id, &gone.text, standing));
        }
        (diff.evidence_added, diff.evidence_removed) =
            apart(&old.evidence, &new.evidence, |one| &one.id);
        (diff.verifications_added, diff.verifications_removed) =
            apart(&old.verification_results, &new.verification_results, |one| &one.id);
        (diff.notes_added, diff.notes_removed) = apart(&old.notes, &new.notes, |one| &one.id);
        (diff.thoughts_added, diff.thoughts_removed) =
            apart(&old.thought_chain, &new.thought_chain, |one| &one.id);
        diff.tool_calls_added = calls_beyond(old, new);
        diff.tool_calls_removed = calls_beyond(new, old);
        diff.tool_calls_finished = finished(old, new);
        diff.tool_calls_unfinished = finished(new, old);
        diff.gaps_opened = gaps_where(new, old, |_, before| before.is_none());
        diff.gaps_removed = gaps_where(old, new, |_, after| after.is_none());
        diff.gaps_filled =
            gaps_where(new, old, |gap, before| gap.filled && !before.is_some_and(|one| one.filled));
        diff.gaps_reopened =
            gaps_where(new, old, |gap, before| !gap.filled && before.is_some_and(|one| one.filled));
        context_changes(old, new, &mut diff.context_changes);
        diff
    }

    /// Whether nothing differs.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether something is gone that was known.
    pub fn has_lost(&self) -> bool {
        let gone = |changes: &[Change]| changes.iter().any(|one| one.change == ChangeKind::Removed);
        gone(&self.hypothesis_changes)
            || gone(&self.belief_changes)
            || gone(&self.context_changes)
            || !self.evidence_removed.is_empty()
            || !self.verifications_removed.is_empty()
            || !self.gaps_removed.is_empty()
            || !self.notes_removed.is_empty()
            || !self.thoughts_removed.is_empty()
            || !self.tool_calls_removed.is_empty()
    }

    /// Adds what another session learnt.
    pub fn extend(&mut self, other: Self) {
        self.hypothesis_changes.extend(other.hypothesis_changes);
        self.belief_changes.extend(other.belief_changes);
        self.evidence_added.extend(other.evidence_added);
        self.evidence_removed.extend(other.evidence_removed);
        self.verifications_added.extend(other.verifications_added);
        self.verifications_removed.extend(other.verifications_removed);
        self.gaps_opened.extend(other.gaps_opened);
        self.gaps_removed.extend(other.gaps_removed);
        self.gaps_filled.extend(other.gaps_filled);
        self.gaps_reopened.extend(other.gaps_reopened);
        self.notes_added.extend(other.notes_added);
        self.notes_removed.extend(other.notes_removed);
        self.thoughts_added.extend(other.thoughts_added);
        self.thoughts_removed.extend(other.thoughts_removed);
        self.tool_calls_added.extend(other.tool_calls_added);
        self.tool_calls_removed.extend(other.tool_calls_removed);
        self.tool_calls_finished.extend(other.tool_calls_finished);
        self.tool_calls_unfinished.extend(other.tool_calls_unfinished);
        self.context_changes.extend(other.context_changes);
    }

    /// In a few words: `2 hypotheses added, 1 hypothesis confirmed, 14 thoughts, 1 note gone`. Empty only if nothing differs.
    pub fn summary(&self) -> String {
        use ChangeKind::{Added, ConfidenceChanged, Removed, StatusChanged, Updated};
        let (guesses, beliefs) = (&self.hypothesis_changes, &self.belief_changes);
        let of = |kind, changes: &[Change]| changes.iter().filter(|one| one.change == kind).count();
        let status = |wanted: &str| {
            let is = |one: &&Change| one.change == StatusChanged && one.new == *wanted;
            guesses.iter().filter(is).count()
        };
        let parts = [
            (of(Added, guesses), "hypothesis added", "hypotheses added"),
            (of(Removed, guesses), "hypothesis gone", "hypotheses gone"),
            (of(Updated, guesses), "hypothesis reworded", "hypotheses reworded"),
            (status("testing"), "hypothesis under test", "hypotheses under test"),
            (status("confirmed"), "hypothesis confirmed", "hypotheses confirmed"),
            (status("rejected"), "hypothesis rejected", "hypotheses rejected"),
            (status("open"), "hypothesis open again", "hypotheses open again"),
            (of(ConfidenceChanged, guesses), "confidence changed", "confidences changed"),
            (of(Added, beliefs), "belief added", "beliefs added"),
            (of(Removed, beliefs), "belief gone", "beliefs gone"),
            (of(Updated, beliefs), "belief reworded", "beliefs reworded"),
            (of(ConfidenceChanged, beliefs), "belief reconsidered", "beliefs reconsidered"),
            (self.evidence_added.len(), "piece of evidence", "pieces of evidence"),
            (self.evidence_removed.len(), "piece of evidence gone", "pieces of evidence gone"),
            (self.verifications_added.len(), "verification", "verifications"),
            (self.verifications_removed.len(), "verification gone", "verifications gone"),
            (self.gaps_opened.len(), "gap opened", "gaps opened"),
            (self.gaps_removed.len(), "gap gone", "gaps gone"),
            (self.gaps_filled.len(), "gap filled", "gaps filled"),
            (self.gaps_reopened.len(), "gap open again", "gaps open again"),
            (self.notes_added.len(), "note", "notes"),
            (self.notes_removed.len(), "note gone", "notes gone"),
            (self.thoughts_added.len(), "thought", "thoughts"),
            (self.thoughts_removed.len(), "thought gone", "thoughts gone"),
            (self.tool_calls_added.len(), "tool call", "tool calls"),
            (self.tool_calls_removed.len(), "tool call gone", "tool calls gone"),
            (self.tool_calls_finished.len(), "tool call finished", "tool calls finished"),
            (self.tool_calls_unfinished.len(), "tool call unfinished", "tool calls unfinished"),
            (self.context_changes.len(), "context change", "context changes"),
        ];
        let said: Vec<String> = parts
            .into_iter()
            .filter(|(count, ..)| *count > 0)
            .map(|(count, one, many)| format!("{count} {}", if count == 1 { one } else { many }))
            .collect();
        said.join(", ")
    }
}

/// How something stands that was added or is gone.
type Standing = (Option<HypothesisStatus>, Option<Confidence>);

fn change(kind: ChangeKind, id: &str, field: &str, old: Value, new: Value) -> Change {
    let (id, field) = (id.to_owned(), field.to_owned());
    Change { change: kind, id, field, old, new, status: None, confidence: None }
}

fn added(id: &str, text: &str, (status, confidence): Standing) -> Change {
    let change = change(ChangeKind::Added, id, "text", Value::Null, text.into());
    Change { status, confidence, ..change }
}

fn removed(id: &str, text: &str, (status, confidence): Standing) -> Change {
    let change = change(ChangeKind::Removed, id, "text", text.into(), Value::Null);
    Change { status, confidence, ..change }
}

fn hypothesis_changes(old: Option<&Hypothesis>, new: &Hypothesis, out: &mut Vec<Change>) {
    let Some(old) = old else {
        out.push(added(&new.id, &new.text, (Some(new.status), Some(new.confidence))));
        return;
    };
    out.extend(text_change(&new.id, &old.text, &new.text));
    if old.status != new.status {
        let (old, status) = (old.status.as_str().into(), new.status.as_str().into());
        out.push(change(ChangeKind::StatusChanged, &new.id, "status", old, status));
    }
    out.extend(confidence_change(&new.id, old.confidence, new.confidence));
}

fn belief_changes(old: Option<&Belief>, new: &Belief, out: &mut Vec<Change>) {
    let Some(old) = old else {
        out.push(added(&new.id, &new.text, (None, Some(new.confidence))));
        return;
    };
    out.extend(text_change(&new.id, &old.text, &new.text));
    out.extend(confidence_change(&new.id, old.confidence, new.confidence));
}

fn text_change(id: &str, old: &str, new: &str) -> Option<Change> {
    (old != new).then(|| change(ChangeKind::Updated, id, "text", old.into(), new.into()))
}

fn confidence_change(id: &str, old: Confidence, new: Confidence) -> Option<Change> {
    let (before, after) = (old.get().into(), new.get().into());
    (old != new).then(|| change(ChangeKind::ConfidenceChanged, id, "confidence", before, after))
}

fn context_changes(old: &SessionState, new: &SessionState, out: &mut Vec<Change>) {
    let (old, new) = (&old.context, &new.context);
    value_changes("value", &old.variables, &new.variables, out);
    value_changes("state", &old.state, &new.state, out);
}

fn value_changes(
    field: &'static str,
    before: &BTreeMap<String, Value>,
    after: &BTreeMap<String, Value>,
    out: &mut Vec<Change>,
) {
    for (key, value) in after {
        match before.get(key) {
            None => out.push(change(ChangeKind::Added, key, field, Value::Null, value.clone())),
            Some(old) if old != value => {
                out.push(change(ChangeKind::Updated, key, field, old.clone(), value.clone()));
            }
            Some(_) => {}
        }
    }
    for (key, value) in before.iter().filter(|(key, _)| !after.contains_key(*key)) {
        out.push(change(ChangeKind::Removed, key, field, value.clone(), Value::Null));
    }
}

/// The gaps of a state for which this holds of what they are there and in another state.
fn gaps_where(
    of: &SessionState,
    other: &SessionState,
    holds: impl Fn(&Gap, Option<&Gap>) -> bool,
) -> Vec<Gap> {
    of.gaps.iter().filter(|gap| holds(gap, other.gaps.get(&gap.id))).cloned().collect()
}

/// The calls of which one state knows nothing and the other does.
fn calls_beyond(known: &SessionState, of: &SessionState) -> Vec<ToolCall> {
    let done: HashSet<&String> = known.tool_state.done.iter().map(|one| &one.id).collect();
    let running = &known.tool_state.running;
    let calls = of.tool_state.done.iter().chain(of.tool_state.running.iter());
    let unknown = |one: &&ToolCall| !done.contains(&one.id) && running.get(&one.id).is_none();
    calls.filter(unknown).cloned().collect()
}

/// The calls that ran in one state and are done in another.
fn finished(running: &SessionState, done: &SessionState) -> Vec<ToolCall> {
    let running = &running.tool_state.running;
    let done = done.tool_state.done.iter();
    done.filter(|one| running.get(&one.id).is_some()).cloned().collect()
}

/// What only the newer one of two lists has, and what only the older one has. Both grow from the same beginning, or part
/// at a fork.
fn apart<T: Clone>(old: &Long<T>, new: &Long<T>, id: impl Fn(&T) -> &String) -> (Vec<T>, Vec<T>) {
    let only = |of: &Long<T>, other: &Long<T>| {
        let known: HashSet<&String> = other.iter().map(&id).collect();
        of.iter().filter(|one| !known.contains(id(one))).cloned().collect()
    };
    (only(new, old), only(old, new))
}
