//! From one state of a session to a later one: the events that lead there. A stand-in with the
//! signature of `rappel_types::agents::news`, which tells all of it.

use rappel_types::agents::{Body, NewEvent, SessionState, payload};

/// The events that lead from `old` to `new`; `None` if something was taken back.
pub(super) fn news(old: &SessionState, new: &SessionState) -> Option<Vec<NewEvent>> {
    let thoughts: Vec<_> = new.thought_chain.iter().collect();
    let known: Vec<_> = old.thought_chain.iter().collect();
    let is_next = known.len() <= thoughts.len()
        && known.iter().zip(&thoughts).all(|(a, b)| a.id == b.id && a.content == b.content);
    let is_there = |id: &str| new.hypotheses.get(id).is_some();
    if !is_next || !old.hypotheses.iter().all(|one| is_there(&one.id)) {
        return None;
    }
    let mut events = Vec::new();
    let mut add = |at, id: Option<&str>, body| {
        events.push(NewEvent { at, id: id.map(str::to_owned), body });
    };
    if old.event == 0 {
        let started = payload::SessionStarted {
            workspace: new.workspace,
            provider: new.provider.clone(),
            task: new.task.clone(),
            conversation_id: new.conversation_id.clone(),
            assistant_session_id: new.assistant_session_id.clone(),
            ..payload::SessionStarted::default()
        };
        add(new.started_at, None, Body::SessionStarted(started));
    } else if !old.status.is_live() {
        let resumed = payload::SessionResumed { process: None, from_transcript: true };
        add(new.latest_at, None, Body::SessionResumed(resumed));
    }
    for one in &thoughts[known.len()..] {
        let body = Body::Thought(payload::Thought {
            kind: one.kind.clone(),
            content: one.content.clone(),
            confidence: one.confidence,
            parent: one.parent.clone(),
        });
        add(Some(one.created_at), Some(&one.id), body);
    }
    for one in new.hypotheses.iter() {
        let Some(then) = old.hypotheses.get(&one.id) else {
            let (text, confidence) = (one.text.clone(), Some(one.confidence));
            let body = payload::Hypothesis { text, confidence, status: one.status };
            add(Some(one.created_at), Some(&one.id), Body::Hypothesis(body));
            continue;
        };
        let status = (then.status != one.status).then_some(one.status);
        if status.is_some() {
            let of = one.id.clone();
            let body = payload::HypothesisUpdated {
                of,
                text: None,
                confidence: None,
                status,
                reason: None,
            };
            add(Some(one.updated_at), None, Body::HypothesisUpdated(body));
        }
    }
    let ended = |state: &SessionState| !state.status.is_live();
    if ended(new) {
        let end = payload::SessionEnded { status: new.status, reason: None, exit: None };
        add(new.ended_at.or(new.latest_at), None, Body::SessionEnded(end));
    }
    Some(events)
}
