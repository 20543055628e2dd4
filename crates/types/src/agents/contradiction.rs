//! What cannot both hold, told from the structure alone: links, confidences, statuses. Never from words.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::event::{Body, Event, payload};
use super::state::{Confidence, DependencyKind, HypothesisStatus, SessionState};

/// Why two things cannot both hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// Two beliefs that contradict each other are both held.
    Beliefs,
    /// A confirmed hypothesis has strong evidence against it.
    Refuted,
    /// A belief that is held requires one that is not held any more.
    Required,
}

impl Rule {
    /// What stands between the two that it is about.
    pub fn words(self) -> &'static str {
        match self {
            Self::Beliefs => "contradicts",
            Self::Refuted => "is confirmed, but against it is",
            Self::Required => "requires what is not held any more:",
        }
    }
}

impl std::fmt::Display for payload::Contradiction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {}", self.first, self.rule.words(), self.second)
    }
}

/// From when on something counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Thresholds {
    /// A belief is held.
    pub held: f64,
    /// Evidence is strong.
    pub strong: f64,
    /// A belief below this is not held any more.
    pub fallen: f64,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self { held: 0.6, strong: 0.6, fallen: 0.3 }
    }
}

/// What was raised and what was resolved by the event that `state` took last, as bodies of events to follow it.
pub fn follow(state: &SessionState, event: &Event, thresholds: &Thresholds) -> Vec<Body> {
    let Some(touched) = touched(&event.body) else { return Vec::new() };
    let holds = holding(state, touched, thresholds);
    let known: Vec<&payload::Contradiction> = state
        .contradictions
        .iter()
        .map(|known| &known.what)
        .filter(|known| {
            // The second of a refuted hypothesis is a piece of evidence, which may be called like a belief.
            known.first == touched || (known.second == touched && known.rule != Rule::Refuted)
        })
        .collect();
    let cleared = known.iter().filter(|known| !holds.contains(known)).map(|known| {
        let payload::Contradiction { rule, first, second } = (*known).clone();
        Body::ContradictionCleared(payload::ContradictionCleared { rule, first, second })
    });
    let raised = holds.iter().filter(|held| !known.contains(held));
    cleared.chain(raised.cloned().map(Body::Contradiction)).collect()
}

/// The hypothesis or belief that an event may have brought into, or out of, a contradiction.
fn touched(body: &Body) -> Option<&str> {
    match body {
        Body::HypothesisUpdated(update) => Some(&update.of),
        Body::Evidence(evidence) if !evidence.supports => Some(&evidence.hypothesis),
        Body::BeliefUpdated(update) => Some(&update.of),
        Body::BeliefDependency(link) => Some(&link.of),
        _ => None,
    }
}

fn holding(state: &SessionState, id: &str, thresholds: &Thresholds) -> Vec<payload::Contradiction> {
    let mut found = Vec::new();
    let mut add = |rule, first: &str, second: &str| {
        let one = payload::Contradiction { rule, first: first.into(), second: second.into() };
        if !found.contains(&one) {
            found.push(one);
        }
    };
    if let Some(hypothesis) = state.hypotheses.get(id)
        && hypothesis.status == HypothesisStatus::Confirmed
        && let Some((evidence, weight)) = &hypothesis.refuted_by
        && weight.get() >= thresholds.strong
    {
        add(Rule::Refuted, id, evidence);
    }
    let sure =
        |id: &str| state.beliefs.get(id).map_or(0.0, |belief| Confidence::get(belief.confidence));
    for link in &state.belief_dependencies {
        if link.from != id && link.to != id {
            continue;
        }
        match link.kind {
            DependencyKind::Contradicts
                if sure(&link.from) >= thresholds.held && sure(&link.to) >= thresholds.held =>
            {
                // The same pair, whichever way it was linked.
                let (first, second) =
                    (link.from.as_str().min(&link.to), link.from.as_str().max(&link.to));
                add(Rule::Beliefs, first, second);
            }
            DependencyKind::Requires
                if sure(&link.from) >= thresholds.held && sure(&link.to) < thresholds.fallen =>
            {
                add(Rule::Required, &link.from, &link.to);
            }
            _ => {}
        }
    }
    found
}
