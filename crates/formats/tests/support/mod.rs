//! What tests of all forms share: reading, and checkpoints that a generator makes up.
#![allow(dead_code, reason = "each test file uses some of it")]

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use rappel_formats::form::{Found, Reading};
use rappel_formats::portable::{Portable, Session};
use rappel_formats::{Form, Result};
use rappel_types::agents::{
    Body, Confidence, DependencyKind, Event, HypothesisStatus, NewEvent, SessionState, payload,
};
use rappel_types::{Timestamp, Trigger};
use serde_json::{Value, json};

pub fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

pub fn read(form: Form, path: &Path) -> Result<Found> {
    let scratch = tempfile::tempdir().unwrap();
    let mut reading = Reading { scratch: scratch.path(), progress: &mut |_| Ok(()) };
    rappel_formats::read(form, path, &mut reading)
}

pub fn moment(millis: i64) -> Timestamp {
    Timestamp::from_millis(1_738_790_400_000 + millis)
}

/// Everything that `at --json` shows. Numbers of events are another journal's.
pub fn shown(state: &SessionState) -> Value {
    let mut shown = serde_json::to_value(state).unwrap();
    for ours in ["event", "fork", "session"] {
        shown.as_object_mut().unwrap().remove(ours);
    }
    shown
}

/// A session of these lines of `record --stdin`, a second apart.
pub fn state(lines: &[&str]) -> SessionState {
    let parsed = |line: &&str| NewEvent::parse(line).unwrap().cleaned().unwrap();
    folded(lines.iter().map(parsed).map(|new| (new.id, new.body)))
}

pub fn folded(bodies: impl IntoIterator<Item = (Option<String>, Body)>) -> SessionState {
    let mut state = SessionState::new("s1".parse().unwrap());
    let started = (None, Body::SessionStarted(payload::SessionStarted::default()));
    for (place, (id, body)) in std::iter::once(started).chain(bodies).enumerate() {
        let number = place as u64 + 1;
        let id = id.or_else(|| body.prefix().map(|prefix| format!("{prefix}{number}")));
        // What makes no sense is not recorded.
        if state.check(id.as_deref(), &body).is_ok() {
            state.apply(&Event { number, fork: 0, at: moment(number as i64 * 1_000), id, body });
        }
    }
    state
}

pub fn session(id: &str, state: SessionState) -> Session {
    Session {
        id: id.into(),
        conversation_id: None,
        assistant_session_id: None,
        provider: state.provider.clone(),
        task: state.task.clone(),
        status: state.status,
        started_at: state.started_at,
        state,
    }
}

/// A checkpoint that a session asked for when it knew this.
pub fn checkpoint(id: &str, trigger: Trigger, state: SessionState) -> Portable {
    let at = state.latest_at.unwrap_or(moment(0));
    let mut checkpoint = Portable::new(id, at, trigger);
    checkpoint.session = Some("s1".into());
    checkpoint.sessions.push(session("s1", state));
    checkpoint
}

pub fn words() -> impl Strategy<Value = String> + Clone {
    "[a-zé\u{1F5DD}\"\\\\ ]{1,8}"
}

fn sure() -> impl Strategy<Value = Confidence> {
    (0.0..=1.0f64).prop_map(|value| Confidence::new(value).unwrap())
}

fn id(prefix: &'static str) -> impl Strategy<Value = String> {
    (2u32..20).prop_map(move |number| format!("{prefix}{number}"))
}

pub fn trigger() -> impl Strategy<Value = Trigger> {
    prop::sample::select(Trigger::ALL)
}

/// What CAF can carry.
pub fn thinking() -> impl Strategy<Value = Body> {
    let arguments = words().prop_map(|word| json!({"file": word, "deep": [1.5, {"a": null}]}));
    prop_oneof![
        (words(), prop::option::of(sure()), prop::option::of(id("t")), any::<bool>()).prop_map(
            |(content, confidence, parent, said)| {
                let kind = if said { "text" } else { "observation" }.into();
                // A text has neither in the history.
                let (confidence, parent) = if said { (None, None) } else { (confidence, parent) };
                Body::Thought(payload::Thought { kind, content, confidence, parent })
            }
        ),
        words().prop_map(|text| Body::Prompt(payload::Prompt { text })),
        (words(), arguments.clone(), any::<bool>()).prop_map(|(tool, arguments, background)| {
            Body::ToolStarted(payload::ToolStarted { tool, arguments, background })
        }),
        (id("x"), words(), any::<bool>()).prop_map(|(of, text, success)| {
            let error = (!success).then(|| text.clone());
            let result = if success { text.into() } else { Value::Null };
            let presumed = false;
            Body::ToolFinished(payload::ToolFinished { of, result, success, error, presumed })
        }),
        (words(), arguments)
            .prop_map(|(key, value)| Body::ContextSet(payload::ContextSet { key, value })),
        (words(), words()).prop_map(|(key, value)| Body::ContextStateSet(payload::ContextSet {
            key,
            value: value.into()
        })),
        (0u64..99).prop_map(|step| Body::Progress(payload::Progress {
            step_number: Some(step),
            text: None
        })),
        (1u64..99).prop_map(|input| Body::Tokens(payload::Tokens { input, ..Default::default() })),
    ]
}

/// What forge can carry.
pub fn reasoning() -> impl Strategy<Value = Body> {
    let statuses = prop::sample::select(HypothesisStatus::ALL);
    let kinds = prop::sample::select(DependencyKind::ALL);
    prop_oneof![
        (words(), prop::option::of(sure()), statuses.clone()).prop_map(
            |(text, confidence, status)| Body::Hypothesis(payload::Hypothesis {
                text,
                confidence,
                status
            })
        ),
        (id("h"), words(), sure(), prop::option::of(statuses)).prop_map(
            |(of, text, confidence, status)| Body::HypothesisUpdated(payload::HypothesisUpdated {
                of,
                reason: status.map(|_| text.clone()),
                text: Some(text),
                confidence: Some(confidence),
                status,
            })
        ),
        (words(), id("h"), any::<bool>(), sure()).prop_map(
            |(text, hypothesis, supports, weight)| Body::Evidence(payload::Evidence {
                text,
                hypothesis,
                supports,
                weight
            })
        ),
        (words(), prop::option::of(sure()))
            .prop_map(|(text, confidence)| Body::Belief(payload::Belief { text, confidence })),
        (id("b"), id("b"), kinds).prop_map(|(of, on, kind)| Body::BeliefDependency(
            payload::BeliefDependency { of, on, kind }
        )),
        words().prop_map(|text| Body::Gap(payload::Gap { text })),
        (id("g"), words())
            .prop_map(|(of, answer)| Body::GapFilled(payload::GapFilled { of, answer })),
        (words(), any::<bool>(), prop::option::of(id("h"))).prop_map(
            |(text, passed, hypothesis)| Body::Verification(payload::Verification {
                text,
                passed,
                hypothesis,
                output: None
            })
        ),
        (prop::sample::select(vec!["main", "a", "b"]), any::<bool>()).prop_map(|(name, switch)| {
            Body::BranchCreated(payload::BranchCreated { name: name.into(), switch })
        }),
        words().prop_map(|text| Body::Note(payload::Note { text })),
        (words(), any::<i32>()).prop_map(|(command, code)| Body::Command(payload::Command {
            stdout_preview: command.clone(),
            working_dir: Some(command.clone()),
            command,
            exit_code: Some(code),
            stderr_preview: String::new()
        })),
    ]
}

/// States of one session, one later than the other.
pub fn history(
    body: impl Strategy<Value = Body> + 'static,
) -> impl Strategy<Value = Vec<SessionState>> {
    let bodies = prop::collection::vec(body, 0..40);
    (bodies, prop::collection::vec(any::<prop::sample::Index>(), 1..5)).prop_map(
        |(bodies, cuts)| {
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bodies.len() + 1)).collect();
            cuts.sort_unstable();
            cuts.dedup();
            let until =
                |cut: &usize| folded(bodies[..*cut].iter().map(|body| (None, body.clone())));
            cuts.iter().map(until).collect()
        },
    )
}
