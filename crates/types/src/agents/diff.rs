//! What an agent learnt between two moments.

use serde::Serialize;
use serde_json::Value;

use super::items::Long;
use super::state::{
    Belief, Confidence, Evidence, Gap, Hypothesis, Note, SessionState, Thought, ToolCall,
    Verification,
};

/// How something changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
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
#[derive(Debug, Clone, PartialEq, Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Change {
    pub change: ChangeKind,
    pub id: String,
    pub field: String,
    pub old: Value,
    pub new: Value,
}

/// What differs between two states of agents. The lists must be loaded.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct AgentsDiff {
    pub hypothesis_changes: Vec<Change>,
    pub belief_changes: Vec<Change>,
    pub evidence_added: Vec<Evidence>,
    pub verifications_added: Vec<Verification>,
    pub gaps_opened: Vec<Gap>,
    pub gaps_filled: Vec<Gap>,
    pub notes_added: Vec<Note>,
    pub thoughts_added: Vec<Thought>,
    pub tool_calls_added: Vec<ToolCall>,
    pub context_changes: Vec<Change>,
}

impl AgentsDiff {
    /// What `new` knows and `old` does not. Only what was added is looked at of the long lists: they must have been
    /// loaded in both.
    pub fn between(old: &SessionState, new: &SessionState) -> Self {
        let mut diff = Self::default();
        for hypothesis in new.hypotheses.iter() {
            hypothesis_changes(
                old.hypotheses.get(&hypothesis.id),
                hypothesis,
                &mut diff.hypothesis_changes,
            );
        }
        for gone in old.hypotheses.iter().filter(|one| new.hypotheses.get(&one.id).is_none()) {
            diff.hypothesis_changes.push(removed(&gone.id, &gone.text));
        }
        for belief in new.beliefs.iter() {
            belief_changes(old.beliefs.get(&belief.id), belief, &mut diff.belief_changes);
        }
        for gone in old.beliefs.iter().filter(|one| new.beliefs.get(&one.id).is_none()) {
            diff.belief_changes.push(removed(&gone.id, &gone.text));
        }
        diff.evidence_added = added(&old.evidence, &new.evidence, |one| &one.id);
        diff.verifications_added =
            added(&old.verification_results, &new.verification_results, |one| &one.id);
        diff.notes_added = added(&old.notes, &new.notes, |one| &one.id);
        diff.thoughts_added = added(&old.thought_chain, &new.thought_chain, |one| &one.id);
        diff.tool_calls_added = added(&old.tool_state.done, &new.tool_state.done, |one| &one.id);
        diff.tool_calls_added.extend(
            new.tool_state
                .running
                .iter()
                .filter(|one| old.tool_state.running.get(&one.id).is_none())
                .cloned(),
        );
        let was_filled = |id: &str| old.gaps.get(id).is_some_and(|gap| gap.filled);
        diff.gaps_filled =
            new.gaps.iter().filter(|gap| gap.filled && !was_filled(&gap.id)).cloned().collect();
        diff.gaps_opened =
            new.gaps.iter().filter(|gap| old.gaps.get(&gap.id).is_none()).cloned().collect();
        context_changes(old, new, &mut diff.context_changes);
        diff
    }

    /// Whether nothing differs.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Adds what another session learnt.
    pub fn extend(&mut self, other: Self) {
        self.hypothesis_changes.extend(other.hypothesis_changes);
        self.belief_changes.extend(other.belief_changes);
        self.evidence_added.extend(other.evidence_added);
        self.verifications_added.extend(other.verifications_added);
        self.gaps_opened.extend(other.gaps_opened);
        self.gaps_filled.extend(other.gaps_filled);
        self.notes_added.extend(other.notes_added);
        self.thoughts_added.extend(other.thoughts_added);
        self.tool_calls_added.extend(other.tool_calls_added);
        self.context_changes.extend(other.context_changes);
    }

    /// In a few words: `2 hypotheses added, 1 confirmed; 14 thoughts, 9 tool calls`.
    pub fn summary(&self) -> String {
        let of = |kind, changes: &[Change]| changes.iter().filter(|one| one.change == kind).count();
        let status = |wanted: &str| {
            let is = |one: &&Change| one.change == ChangeKind::StatusChanged && one.new == *wanted;
            self.hypothesis_changes.iter().filter(is).count()
        };
        let parts = [
            (
                of(ChangeKind::Added, &self.hypothesis_changes),
                "hypothesis added",
                "hypotheses added",
            ),
            (status("confirmed"), "hypothesis confirmed", "hypotheses confirmed"),
            (status("rejected"), "hypothesis rejected", "hypotheses rejected"),
            (
                of(ChangeKind::ConfidenceChanged, &self.hypothesis_changes),
                "confidence changed",
                "confidences changed",
            ),
            (of(ChangeKind::Added, &self.belief_changes), "belief added", "beliefs added"),
            (
                of(ChangeKind::ConfidenceChanged, &self.belief_changes),
                "belief reconsidered",
                "beliefs reconsidered",
            ),
            (self.evidence_added.len(), "piece of evidence", "pieces of evidence"),
            (self.verifications_added.len(), "verification", "verifications"),
            (self.gaps_opened.len(), "gap opened", "gaps opened"),
            (self.gaps_filled.len(), "gap filled", "gaps filled"),
            (self.notes_added.len(), "note", "notes"),
            (self.thoughts_added.len(), "thought", "thoughts"),
            (self.tool_calls_added.len(), "tool call", "tool calls"),
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

fn change(kind: ChangeKind, id: &str, field: &str, old: Value, new: Value) -> Change {
    Change { change: kind, id: id.to_owned(), field: field.to_owned(), old, new }
}

fn removed(id: &str, text: &str) -> Change {
    change(ChangeKind::Removed, id, "text", text.into(), Value::Null)
}

fn hypothesis_changes(old: Option<&Hypothesis>, new: &Hypothesis, out: &mut Vec<Change>) {
    out.extend(text_change(&new.id, old.map(|old| &*old.text), &new.text));
    let Some(old) = old else { return };
    if old.status != new.status {
        let (old, status) = (old.status.as_str().into(), new.status.as_str().into());
        out.push(change(ChangeKind::StatusChanged, &new.id, "status", old, status));
    }
    out.extend(confidence_change(&new.id, old.confidence, new.confidence));
}

fn belief_changes(old: Option<&Belief>, new: &Belief, out: &mut Vec<Change>) {
    out.extend(text_change(&new.id, old.map(|old| &*old.text), &new.text));
    out.extend(old.and_then(|old| confidence_change(&new.id, old.confidence, new.confidence)));
}

fn text_change(id: &str, old: Option<&str>, new: &str) -> Option<Change> {
    match old {
        None => Some(change(ChangeKind::Added, id, "text", Value::Null, new.into())),
        Some(old) if old != new => {
            Some(change(ChangeKind::Updated, id, "text", old.into(), new.into()))
        }
        Some(_) => None,
    }
}

fn confidence_change(id: &str, old: Confidence, new: Confidence) -> Option<Change> {
    let (before, after) = (old.get().into(), new.get().into());
    (old != new).then(|| change(ChangeKind::ConfidenceChanged, id, "confidence", before, after))
}

fn context_changes(old: &SessionState, new: &SessionState, out: &mut Vec<Change>) {
    let (before, after) = (&old.context.variables, &new.context.variables);
    for (key, value) in after {
        match before.get(key) {
            None => out.push(change(ChangeKind::Added, key, "value", Value::Null, value.clone())),
            Some(old) if old != value => {
                out.push(change(ChangeKind::Updated, key, "value", old.clone(), value.clone()));
            }
            Some(_) => {}
        }
    }
    for (key, value) in before.iter().filter(|(key, _)| !after.contains_key(*key)) {
        out.push(change(ChangeKind::Removed, key, "value", value.clone(), Value::Null));
    }
}

/// What a list has and an older one of it has not. Both grow from the same beginning, or part at a fork.
fn added<T: Clone>(old: &Long<T>, new: &Long<T>, id: impl Fn(&T) -> &String) -> Vec<T> {
    let known: std::collections::HashSet<&String> = old.iter().map(&id).collect();
    new.iter().filter(|one| !known.contains(id(one))).cloned().collect()
}
