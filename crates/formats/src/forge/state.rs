//! What a session knew, from a snapshot of forge and as one.

use std::collections::HashMap;

use rappel_types::Timestamp;
use rappel_types::agents::{
    self, BeliefDependency, Confidence, DependencyKind, ExecutedCommand, HypothesisStatus,
    MAIN_BRANCH, SessionState, legal,
};
use serde_json::{Map, Value};

use super::document::{
    Belief, Branch, Command, Duration, Evidence, Gap, Hypothesis, Metrics, Note, Snapshot,
    Verification,
};
use crate::portable::Session;
use crate::sessions;

/// What a session knew. `at` is when the checkpoint was made: the time of what tells none.
pub(super) fn state_of(snapshot: &Snapshot, at: Timestamp) -> SessionState {
    let mut state = SessionState::new(sessions::name(&snapshot.session_id));
    // What tells no time was there when the session began.
    let early = snapshot.started_at.unwrap_or(at).min(at);
    let or_early = |time: Option<Timestamp>| time.unwrap_or(early);
    (state.started_at, state.latest_at) = (snapshot.started_at, Some(at));
    for one in &snapshot.hypotheses {
        let created_at = or_early(one.created_at);
        state.hypotheses.add(agents::Hypothesis {
            id: one.id.clone(),
            text: one.text.clone(),
            status: status(&one.status),
            confidence: sure(one.confidence),
            created_at,
            updated_at: one.updated_at.unwrap_or(created_at),
            reason: one.reason.clone(),
            supported_by: None,
            refuted_by: None,
        });
    }
    for one in &snapshot.evidence {
        state.evidence.push(agents::Evidence {
            id: one.id.clone(),
            text: one.text.clone(),
            hypothesis: one.hypothesis_id.clone(),
            supports: one.supports && !speaks_against(&one.extra),
            weight: sure(one.weight),
            created_at: or_early(one.created_at),
        });
    }
    for one in &snapshot.beliefs {
        let created_at = or_early(one.created_at);
        state.beliefs.add(agents::Belief {
            id: one.id.clone(),
            text: one.text.clone(),
            confidence: sure(one.confidence),
            created_at,
            updated_at: one.updated_at.unwrap_or(created_at),
        });
    }
    for (from, to, kind) in &snapshot.belief_dependencies {
        if let Some(kind) = dependency(kind) {
            let (from, to) = (from.clone(), to.clone());
            state.belief_dependencies.push(BeliefDependency { from, to, kind });
        }
    }
    for one in &snapshot.gaps {
        let filled = one.filled || one.filled_at.is_some() || one.answer.is_some();
        state.gaps.add(agents::Gap {
            id: one.id.clone(),
            text: one.text.clone(),
            filled,
            answer: filled.then(|| one.answer.clone().unwrap_or_default()),
            created_at: or_early(one.created_at),
            filled_at: filled.then(|| one.filled_at.or(one.created_at).unwrap_or(early)),
        });
    }
    for (place, one) in snapshot.verification_results.iter().enumerate() {
        state.verification_results.push(agents::Verification {
            id: or_numbered(&one.id, "verification", place),
            text: one.text.clone(),
            passed: one.passed,
            hypothesis: one.hypothesis_id.clone(),
            output: one.output.clone(),
            created_at: or_early(one.created_at),
        });
    }
    take_branches(snapshot, early, &mut state);
    for (place, one) in snapshot.notes.iter().enumerate() {
        let (id, text) = (or_numbered(&one.id, "note", place), one.content.clone());
        state.notes.push(agents::Note { id, text, created_at: or_early(one.timestamp) });
    }
    for (place, one) in snapshot.command_history.iter().enumerate() {
        state.command_history.push(ExecutedCommand {
            id: or_numbered(one.id.as_deref().unwrap_or_default(), "command", place),
            timestamp: or_early(one.timestamp),
            command: one.command.clone(),
            working_dir: Some(one.working_dir.clone()).filter(|folder| !folder.is_empty()),
            exit_code: Some(one.exit_code),
            stdout_preview: one.stdout_preview.clone(),
            stderr_preview: one.stderr_preview.clone(),
        });
    }
    let metrics = &snapshot.metrics;
    state.metrics = agents::Metrics {
        checkpoints_created: metrics.checkpoints_created,
        hypotheses_tested: metrics.hypotheses_tested,
        verifications_run: metrics.verifications_run,
        gaps_filled: metrics.gaps_filled,
        time_in_debugging: metrics.time_in_debugging.as_millis(),
    };
    legal(&state)
}

/// A branch goes by its name; others name it by its id.
fn take_branches(snapshot: &Snapshot, early: Timestamp, state: &mut SessionState) {
    let named = snapshot.branches.iter().rev();
    let named: HashMap<&str, &str> =
        named.filter_map(|one| Some((one.id.as_str(), one.name.as_deref()?))).collect();
    let name = |id: &str| named.get(id).copied().unwrap_or(id).to_owned();
    for one in &snapshot.branches {
        state.branches.add(agents::Branch {
            name: name(&one.id),
            from: Some(one.from.as_deref().map_or_else(|| MAIN_BRANCH.to_owned(), name)),
            created_at: one.created_at.unwrap_or(early),
            merged_into: one.merged_into.as_deref().map(name),
        });
    }
    if !snapshot.current_branch.is_empty() {
        state.current_branch = name(&snapshot.current_branch);
    }
}

/// What a session knew, as forge has it.
pub(super) fn snapshot_of(session: &Session) -> Snapshot {
    let state = &session.state;
    let extra = Map::new;
    Snapshot {
        session_id: session.id.clone(),
        started_at: state.started_at.or(session.started_at),
        hypotheses: state.hypotheses.iter().map(hypothesis).collect(),
        evidence: state.evidence.iter().map(evidence).collect(),
        beliefs: state.beliefs.iter().map(belief).collect(),
        belief_dependencies: state
            .belief_dependencies
            .iter()
            .map(|one| (one.from.clone(), one.to.clone(), capital(one.kind.as_str())))
            .collect(),
        gaps: state
            .gaps
            .iter()
            .map(|one| Gap {
                id: one.id.clone(),
                text: one.text.clone(),
                filled: one.filled,
                answer: one.answer.clone(),
                created_at: Some(one.created_at),
                filled_at: one.filled_at,
                extra: extra(),
            })
            .collect(),
        verification_results: state.verification_results.iter().map(verification).collect(),
        current_branch: state.current_branch.clone(),
        branches: state
            .branches
            .iter()
            .map(|one| Branch {
                id: one.name.clone(),
                name: Some(one.name.clone()),
                from: one.from.clone(),
                created_at: Some(one.created_at),
                merged_into: one.merged_into.clone(),
                extra: extra(),
            })
            .collect(),
        notes: state
            .notes
            .iter()
            .map(|one| Note {
                id: one.id.clone(),
                timestamp: Some(one.created_at),
                content: one.text.clone(),
                extra: extra(),
            })
            .collect(),
        code_changes: None,
        command_history: state
            .command_history
            .iter()
            .map(|one| Command {
                timestamp: Some(one.timestamp),
                command: one.command.clone(),
                working_dir: one.working_dir.clone().unwrap_or_default(),
                exit_code: one.exit_code.unwrap_or_default(),
                stdout_preview: one.stdout_preview.clone(),
                stderr_preview: one.stderr_preview.clone(),
                id: Some(one.id.clone()),
                extra: extra(),
            })
            .collect(),
        metrics: Metrics {
            checkpoints_created: state.metrics.checkpoints_created,
            hypotheses_tested: state.metrics.hypotheses_tested,
            verifications_run: state.metrics.verifications_run,
            gaps_filled: state.metrics.gaps_filled,
            time_in_debugging: Duration::from_millis(state.metrics.time_in_debugging),
            extra: extra(),
        },
        extra: extra(),
    }
}

fn hypothesis(one: &agents::Hypothesis) -> Hypothesis {
    Hypothesis {
        id: one.id.clone(),
        text: one.text.clone(),
        status: capital(one.status.as_str()),
        confidence: Some(one.confidence.get()),
        created_at: Some(one.created_at),
        updated_at: Some(one.updated_at),
        reason: one.reason.clone(),
        extra: Map::new(),
    }
}

fn evidence(one: &agents::Evidence) -> Evidence {
    Evidence {
        id: one.id.clone(),
        text: one.text.clone(),
        hypothesis_id: one.hypothesis.clone(),
        supports: one.supports,
        weight: Some(one.weight.get()),
        created_at: Some(one.created_at),
        extra: Map::new(),
    }
}

fn belief(one: &agents::Belief) -> Belief {
    Belief {
        id: one.id.clone(),
        text: one.text.clone(),
        confidence: Some(one.confidence.get()),
        created_at: Some(one.created_at),
        updated_at: Some(one.updated_at),
        extra: Map::new(),
    }
}

fn verification(one: &agents::Verification) -> Verification {
    Verification {
        id: one.id.clone(),
        text: one.text.clone(),
        passed: one.passed,
        hypothesis_id: one.hypothesis.clone(),
        output: one.output.clone(),
        created_at: Some(one.created_at),
        extra: Map::new(),
    }
}

fn or_numbered(id: &str, kind: &str, place: usize) -> String {
    if id.is_empty() { format!("{kind}-{}", place + 1) } else { id.to_owned() }
}

/// How sure something is; a number that means nothing counts as none.
fn sure(number: Option<f64>) -> Confidence {
    number.and_then(Confidence::new).unwrap_or_default()
}

/// As serde spells a variant of one word.
fn capital(word: &str) -> String {
    word[..1].to_ascii_uppercase() + &word[1..]
}

pub(super) fn status(name: &str) -> HypothesisStatus {
    match name.to_ascii_lowercase().as_str() {
        "confirmed" | "accepted" | "proven" => HypothesisStatus::Confirmed,
        "rejected" | "refuted" | "disproven" => HypothesisStatus::Rejected,
        "testing" | "undertest" | "under_test" => HypothesisStatus::Testing,
        _ => HypothesisStatus::Open,
    }
}

/// Whether a kind that evidence names says that it speaks against its hypothesis.
fn speaks_against(extra: &Map<String, Value>) -> bool {
    let kinds = ["kind", "type", "evidence_type"].into_iter().filter_map(|key| extra.get(key));
    let words = ["refut", "contradict", "against", "disprov"];
    kinds.filter_map(Value::as_str).any(|kind| {
        let kind = kind.to_ascii_lowercase();
        words.iter().any(|word| kind.starts_with(word))
    })
}

fn dependency(name: &str) -> Option<DependencyKind> {
    match name.to_ascii_lowercase().as_str() {
        "requires" | "dependson" | "depends_on" => Some(DependencyKind::Requires),
        "supports" => Some(DependencyKind::Supports),
        "contradicts" => Some(DependencyKind::Contradicts),
        _ => None,
    }
}
