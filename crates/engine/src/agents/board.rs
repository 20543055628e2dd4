//! What a connected system knows in the words of a session: its hypotheses, beliefs and gaps.
//!
//! A save compares them with the session's journal and records what is new or changed there. So
//! whatever asks a session (`query_at`, `compare`, `show --state`) finds the program's own board
//! and graph, and a restore sets both back.

use rappel_types::agents::{
    Body, Confidence, DependencyKind, HypothesisStatus, NewEvent, SessionId, SessionState, payload,
};

use super::Live;
use crate::error::Result;
use crate::rappel::Rappel;
use crate::save::SaveOptions;

/// What a connected system knows. Each item has an id of the program's own, which stays the same.
#[derive(Debug, Clone, Default, PartialEq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct AgentState {
    pub hypotheses: Vec<BoardHypothesis>,
    pub evidence: Vec<BoardEvidence>,
    pub beliefs: Vec<BoardBelief>,
    pub belief_dependencies: Vec<BoardDependency>,
    pub gaps: Vec<BoardGap>,
    pub verification_results: Vec<BoardVerification>,
}

/// A guess.
#[derive(Debug, Clone, Default, PartialEq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct BoardHypothesis {
    pub id: String,
    pub text: String,
    pub status: HypothesisStatus,
    pub confidence: Confidence,
}

/// What speaks for or against a guess.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct BoardEvidence {
    pub id: String,
    pub text: String,
    /// The guess.
    pub hypothesis: String,
    pub supports: bool,
    pub weight: Confidence,
}

/// Something held to be so.
#[derive(Debug, Clone, Default, PartialEq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct BoardBelief {
    pub id: String,
    pub text: String,
    pub confidence: Confidence,
}

/// That one belief has to do with another.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct BoardDependency {
    pub from: String,
    pub to: String,
    pub kind: DependencyKind,
}

/// Something not known.
#[derive(Debug, Clone, Default, PartialEq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct BoardGap {
    pub id: String,
    pub text: String,
    /// What is known now, if something is.
    pub answer: Option<String>,
}

/// Something that was checked.
#[derive(Debug, Clone, Default, PartialEq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct BoardVerification {
    pub id: String,
    pub text: String,
    pub passed: bool,
    /// The guess that it is about.
    pub hypothesis: Option<String>,
}

impl Rappel {
    /// Records what connected systems know and the session of this save does not. Gives the tags of
    /// what is significant in that.
    pub(crate) fn take_boards(&self, options: &SaveOptions) -> Result<Vec<String>> {
        let systems = self.connected();
        let states: Vec<AgentState> = systems.iter().filter_map(|system| system.state()).collect();
        let named = options.session.as_deref().map(str::parse::<SessionId>);
        let session = match named {
            _ if states.is_empty() => return Ok(Vec::new()),
            Some(Ok(session)) => Some(session),
            Some(Err(_)) => None,
            None => self.session_meant(None).ok().map(|view| view.id),
        };
        let Some(session) = session else { return Ok(Vec::new()) };
        if self.store.look_up(|index| index.last_event(session.as_str()))?.is_none() {
            return Ok(Vec::new());
        }
        let before = self.load_live(&session)?;
        if !before.state.status.is_live() {
            return Ok(Vec::new());
        }
        let events: Vec<NewEvent> =
            states.iter().flat_map(|state| news(state, &before.state)).collect();
        let events: Vec<NewEvent> =
            events.into_iter().filter_map(|event| event.cleaned().ok()).collect();
        if events.is_empty() {
            return Ok(Vec::new());
        }
        self.record_late(&session, &events)?;
        Ok(significant(&before, &self.load_live(&session)?))
    }
}

/// The tags of what happened between two states.
fn significant(before: &Live, after: &Live) -> Vec<String> {
    let became = |status: HypothesisStatus| {
        after.state.hypotheses.iter().any(|now| {
            let then = before.state.hypotheses.get(&now.id).map(|then| then.status);
            now.status == status && then != Some(status)
        })
    };
    let contradicted = after.state.contradictions.len() > before.state.contradictions.len();
    let tags = [
        ("hypothesis_confirmed", became(HypothesisStatus::Confirmed)),
        ("hypothesis_rejected", became(HypothesisStatus::Rejected)),
        ("contradiction_detected", contradicted),
    ];
    tags.into_iter().filter(|(_, is_so)| *is_so).map(|(tag, _)| tag.to_owned()).collect()
}

/// What a board knows and a session does not, in an order in which nothing is named before it is
/// there.
fn news(board: &AgentState, known: &SessionState) -> Vec<NewEvent> {
    let mut events = Vec::new();
    let mut add = |id: Option<&str>, body: Body| {
        events.push(NewEvent { id: id.map(str::to_owned), ..NewEvent::from(body) });
    };
    for one in &board.hypotheses {
        let Some(then) = known.hypotheses.get(&one.id) else {
            let body = payload::Hypothesis {
                text: one.text.clone(),
                confidence: Some(one.confidence),
                status: one.status,
            };
            add(Some(&one.id), Body::Hypothesis(body));
            continue;
        };
        let update = payload::HypothesisUpdated {
            of: one.id.clone(),
            text: (then.text != one.text).then(|| one.text.clone()),
            confidence: (then.confidence != one.confidence).then_some(one.confidence),
            status: (then.status != one.status).then_some(one.status),
            reason: None,
        };
        if update.text.is_some() || update.confidence.is_some() || update.status.is_some() {
            add(None, Body::HypothesisUpdated(update));
        }
    }
    for one in &board.beliefs {
        let Some(then) = known.beliefs.get(&one.id) else {
            let (text, confidence) = (one.text.clone(), Some(one.confidence));
            add(Some(&one.id), Body::Belief(payload::Belief { text, confidence }));
            continue;
        };
        let update = payload::BeliefUpdated {
            of: one.id.clone(),
            text: (then.text != one.text).then(|| one.text.clone()),
            confidence: (then.confidence != one.confidence).then_some(one.confidence),
        };
        if update.text.is_some() || update.confidence.is_some() {
            add(None, Body::BeliefUpdated(update));
        }
    }
    for one in &board.belief_dependencies {
        let same = |then: &&rappel_types::agents::BeliefDependency| {
            (&then.from, &then.to, then.kind) == (&one.from, &one.to, one.kind)
        };
        if known.belief_dependencies.iter().find(same).is_none() {
            let (of, on, kind) = (one.from.clone(), one.to.clone(), one.kind);
            add(None, Body::BeliefDependency(payload::BeliefDependency { of, on, kind }));
        }
    }
    for one in &board.gaps {
        let then = known.gaps.get(&one.id);
        if then.is_none() {
            add(Some(&one.id), Body::Gap(payload::Gap { text: one.text.clone() }));
        }
        if let Some(answer) = one.answer.clone().filter(|_| then.is_none_or(|then| !then.filled)) {
            add(None, Body::GapFilled(payload::GapFilled { of: one.id.clone(), answer }));
        }
    }
    // The journal takes each id once: what it has of the long lists is left out there.
    for one in &board.evidence {
        let body = payload::Evidence {
            text: one.text.clone(),
            hypothesis: one.hypothesis.clone(),
            supports: one.supports,
            weight: one.weight,
        };
        if !known.evidence.iter().any(|then| then.id == one.id) {
            add(Some(&one.id), Body::Evidence(body));
        }
    }
    for one in &board.verification_results {
        let body = payload::Verification {
            text: one.text.clone(),
            passed: one.passed,
            hypothesis: one.hypothesis.clone(),
            output: None,
        };
        if !known.verification_results.iter().any(|then| then.id == one.id) {
            add(Some(&one.id), Body::Verification(body));
        }
    }
    events
}
