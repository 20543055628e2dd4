//! What events fold to: at every position the same, whichever way it was come to.

use proptest::prelude::*;
use rappel_types::agents::contradiction::Rule;
use rappel_types::agents::{
    Body, Confidence, DependencyKind, Event, HypothesisStatus, SessionState, SessionStatus, payload,
};
use serde_json::{Value, json};

use crate::journal::{Journal, fold, fresh, moment};

fn stored(state: &SessionState) -> SessionState {
    serde_json::from_str(&serde_json::to_string(state).unwrap()).unwrap()
}

fn sure() -> impl Strategy<Value = Confidence> {
    prop_oneof![
        (0.0..=1.0f64).prop_map(|value| Confidence::new(value).unwrap()),
        prop::sample::select(vec![0.0, 0.29, 0.3, 0.59, 0.6, 0.61, 1.0])
            .prop_map(|value| Confidence::new(value).unwrap()),
    ]
}

/// Ids of things that may be there: they are counted through, so the small ones are.
fn id(prefix: &'static str) -> impl Strategy<Value = String> {
    (1u32..14).prop_map(move |number| format!("{prefix}{number}"))
}

fn word() -> impl Strategy<Value = String> {
    "[a-zé\u{1F5DD}\"\\\\ ]{0,8}"
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        word().prop_map(Value::from),
        any::<f64>().prop_filter_map("a number", |number| serde_json::Number::from_f64(number)
            .map(Value::Number)),
        any::<u64>().prop_map(Value::from),
        Just(Value::Null),
        word().prop_map(|word| json!({"file_path": word, "deep": [1.5, {"a": null}]})),
    ]
}

fn branch() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["main", "a", "b"]).prop_map(str::to_owned)
}

fn reasoning() -> impl Strategy<Value = Body> {
    let statuses = prop::sample::select(HypothesisStatus::ALL);
    let kinds = prop::sample::select(DependencyKind::ALL);
    prop_oneof![
        3 => (word(), prop::option::of(sure()), statuses.clone()).prop_map(|(text, confidence, status)|
            Body::Hypothesis(payload::Hypothesis { text, confidence, status })),
        3 => (id("h"), prop::option::of(word()), prop::option::of(sure()), prop::option::of(statuses))
            .prop_map(|(of, text, confidence, status)| Body::HypothesisUpdated(payload::HypothesisUpdated {
                of, reason: text.clone(), text, confidence, status })),
        3 => (word(), id("h"), any::<bool>(), sure()).prop_map(|(text, hypothesis, supports, weight)|
            Body::Evidence(payload::Evidence { text, hypothesis, supports, weight })),
        3 => (word(), prop::option::of(sure())).prop_map(|(text, confidence)|
            Body::Belief(payload::Belief { text, confidence })),
        3 => (id("b"), prop::option::of(sure())).prop_map(|(of, confidence)|
            Body::BeliefUpdated(payload::BeliefUpdated { of, text: None, confidence })),
        3 => (id("b"), id("b"), kinds).prop_map(|(of, on, kind)|
            Body::BeliefDependency(payload::BeliefDependency { of, on, kind })),
        1 => word().prop_map(|text| Body::Gap(payload::Gap { text })),
        1 => (id("g"), word()).prop_map(|(of, answer)| Body::GapFilled(payload::GapFilled { of, answer })),
        1 => (word(), any::<bool>(), prop::option::of(id("h"))).prop_map(|(text, passed, hypothesis)|
            Body::Verification(payload::Verification { text, passed, hypothesis, output: None })),
    ]
}

fn doing() -> impl Strategy<Value = Body> {
    prop_oneof![
        (word(), value()).prop_map(|(tool, arguments)| Body::ToolStarted(payload::ToolStarted {
            tool,
            arguments,
            background: false
        })),
        (id("x"), value(), any::<bool>()).prop_map(|(of, result, success)| Body::ToolFinished(
            payload::ToolFinished { of, result, success, error: None, presumed: false }
        )),
        (value(), value(), any::<bool>()).prop_map(|(arguments, result, success)| Body::Tool(
            payload::Tool {
                tool: "Edit".into(),
                arguments,
                result,
                success,
                error: None,
                started_at: None
            }
        )),
        (branch(), any::<bool>()).prop_map(|(name, switch)| Body::BranchCreated(
            payload::BranchCreated { name, switch }
        )),
        branch().prop_map(|name| Body::BranchSwitched(payload::BranchSwitched { name })),
        (branch(), branch())
            .prop_map(|(name, into)| Body::BranchMerged(payload::BranchMerged { name, into })),
        word().prop_map(|text| Body::Note(payload::Note { text })),
        word().prop_map(|text| Body::Prompt(payload::Prompt { text })),
        (word(), prop::option::of(sure())).prop_map(|(content, confidence)| Body::Thought(
            payload::Thought { kind: "reasoning".into(), content, confidence, parent: None }
        )),
        (word(), prop::option::of(any::<i32>())).prop_map(|(command, exit_code)| Body::Command(
            payload::Command {
                stdout_preview: command.clone(),
                command,
                exit_code,
                working_dir: None,
                stderr_preview: String::new()
            }
        )),
        (word(), value())
            .prop_map(|(key, value)| Body::ContextSet(payload::ContextSet { key, value })),
        word().prop_map(|key| Body::ContextUnset(payload::ContextUnset { key })),
        (word(), value()).prop_map(|(key, value)| Body::ContextStateSet(
            payload::ContextStateSet { key, value }
        )),
        word().prop_map(|key| Body::ContextStateUnset(payload::ContextStateUnset { key })),
        prop::option::of(any::<u64>())
            .prop_map(|step_number| Body::Progress(payload::Progress { step_number, text: None })),
        (prop::option::of("[a-c]"), any::<u64>(), 0u64..9).prop_map(|(message, input, output)| {
            Body::Tokens(payload::Tokens { message, input, output, ..Default::default() })
        }),
        prop::collection::vec("[a-c]", 0..3).prop_map(|paths| Body::Code(payload::Code { paths })),
        word().prop_map(|kind| Body::Unknown { version: 9, kind, data: r#"{ "x" : 1 }"#.into() }),
        Just(Body::SessionPaused(payload::SessionPaused::default())),
        Just(Body::SessionResumed(payload::SessionResumed::default())),
    ]
}

fn body() -> impl Strategy<Value = Body> {
    prop_oneof![
        30 => reasoning(),
        20 => doing(),
        1 => Just(Body::SessionStarted(payload::SessionStarted::default())),
        1 => Just(Body::SessionEnded(payload::SessionEnded { status: SessionStatus::Failed, ..Default::default() })),
    ]
}

/// Something that happens to a journal: an event, or that it is set back.
#[derive(Debug, Clone)]
pub enum Step {
    Event(Body),
    Back { fork: prop::sample::Index, to: prop::sample::Index },
}

pub fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        40 => body().prop_map(Step::Event),
        1 => (any::<prop::sample::Index>(), any::<prop::sample::Index>())
            .prop_map(|(fork, to)| Step::Back { fork, to }),
    ];
    prop::collection::vec(step, 1..120)
}

pub fn played(steps: Vec<Step>) -> Journal {
    let mut journal = Journal::begun();
    for step in steps {
        match step {
            // What the border refuses is not in the journal.
            Step::Event(body) => drop(journal.add(body)),
            Step::Back { fork, to } => {
                let fork = fork.index(journal.lineage.current() as usize + 1) as u32;
                let own: Vec<u64> = journal
                    .events
                    .iter()
                    .filter(|event| event.fork == fork)
                    .map(|event| event.number)
                    .collect();
                journal.restore_on(fork, own[to.index(own.len())]);
            }
        }
    }
    journal
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn what_the_border_takes_the_fold_takes(steps in steps()) {
        let journal = played(steps);
        prop_assert_eq!(journal.state.ignored, 0);
        let unknown = journal.seen(journal.state.fork, journal.state.event).iter()
            .filter(|event| matches!(event.body, Body::Unknown { .. })).count();
        prop_assert_eq!(journal.state.unknown, unknown as u64);
    }

    #[test]
    fn a_state_is_the_same_from_a_snapshot_or_from_the_start_or_from_the_stored_journal(steps in steps()) {
        let journal = played(steps);
        let (fork, last) = (journal.state.fork, journal.state.event);
        let events = journal.seen(fork, last);
        prop_assert_eq!(&fold(events.iter().copied()), &journal.state);

        let read: Vec<Event> =
            events.iter().map(|event| Event::parse(&event.to_json()).unwrap()).collect();
        let mut live = fresh();
        for (position, event) in read.iter().enumerate() {
            prop_assert_eq!(event, events[position]);
            live.apply(event);
            // A snapshot of here, and what comes after it.
            let mut from = stored(&live);
            prop_assert_eq!(&from, &live);
            if position % 7 == 0 {
                read[position + 1..].iter().for_each(|event| from.apply(event));
                prop_assert_eq!(&from, &journal.state);
            }
        }
    }

    #[test]
    fn forks_never_see_later_events_of_others(steps in steps()) {
        let journal = played(steps);
        let lineage = &journal.lineage;
        for fork in lineage.forks() {
            let seen = journal.seen(fork.fork, u64::MAX);
            prop_assert!(seen.is_sorted_by_key(|event| event.number));
            for event in seen {
                let own = event.fork == fork.fork;
                prop_assert!(own || event.number <= fork.to, "{fork:?} sees {event:?}");
                prop_assert_eq!(own, event.number >= fork.begins);
            }
            // It knows what its origin knew there, and nothing else of before.
            let before: Vec<u64> = journal.seen(fork.fork, fork.begins - 1).iter().map(|event| event.number).collect();
            let origin: Vec<u64> = journal.seen(fork.of, fork.to).iter().map(|event| event.number).collect();
            prop_assert_eq!(before, origin);
        }
        // Whatever was written later, an older fork is what it was.
        for fork in 0..=lineage.current() {
            let last = journal.events.iter().rev().find(|event| event.fork == fork).unwrap().number;
            let until: Vec<Event> = journal.events.iter().filter(|event| event.number <= last).cloned().collect();
            let now = fold(journal.seen(fork, last));
            let then = fold(until.iter().filter(|event| lineage.knows(fork, last, event.fork, event.number)));
            prop_assert_eq!(now, then);
        }
    }

    #[test]
    fn a_fold_of_anything_never_fails_and_counts_what_it_passed_over(
        bodies in prop::collection::vec((prop::option::of(id("h")), body(), any::<i64>()), 1..80),
    ) {
        let (mut state, mut ignored, mut unknown) = (fresh(), 0, 0);
        for (number, (id, body, at)) in bodies.into_iter().enumerate() {
            unknown += u64::from(matches!(body, Body::Unknown { .. }));
            let before = state.clone();
            let at = moment(at % 1_000_000_000);
            let illegal = before.check_late(id.as_deref(), at, &body).is_err();
            ignored += u64::from(illegal);
            let event = Event { number: number as u64 + 1, fork: 0, at, id, body };
            state.apply(&event);
            if illegal {
                let mut same = before;
                (same.event, same.ignored) = (state.event, state.ignored);
                (same.latest_at, same.metrics) = (state.latest_at, state.metrics.clone());
                prop_assert_eq!(&same, &state);
            }
            prop_assert_eq!((state.ignored, state.unknown), (ignored, unknown));
        }
        prop_assert_eq!(stored(&state), state);
    }

    #[test]
    fn contradictions_are_those_that_hold_each_once(steps in steps()) {
        let mut state = fresh();
        let journal = played(steps);
        let events = journal.seen(journal.state.fork, journal.state.event);
        for (place, event) in events.iter().enumerate() {
            let known = state.contradictions.len();
            state.apply(event);
            if matches!(event.body, Body::Contradiction(_)) {
                prop_assert_eq!(state.contradictions.len(), known + 1, "raised twice");
            }
            // What an event raises follows it at once.
            let next = events.get(place + 1).map(|event| &event.body);
            if matches!(next, Some(Body::Contradiction(_) | Body::ContradictionCleared(_))) {
                continue;
            }
            // Set back to between an event and what follows it, a journal does not have that.
            if journal.lineage.current() == 0 {
                prop_assert_eq!(known_pairs(&state), holding_pairs(&state));
            }
        }
    }

    #[test]
    fn times_are_as_precise_as_the_journal(nanos in 0i64..5_000_000_000) {
        let at = rappel_types::Timestamp(jiff::Timestamp::from_nanosecond(1_700_000_000_000_000_000 + i128::from(nanos)).unwrap());
        let body = Body::Note(payload::Note { text: "x".into() });
        let event = Event { number: 1, fork: 0, at, id: Some("n1".into()), body };
        let (live, read) = (fold([&event]), fold([&Event::parse(&event.to_json()).unwrap()]));
        prop_assert_eq!(&live, &read);
        prop_assert_eq!(stored(&live), live);
    }
}

type Pair = (&'static str, String, String);

fn known_pairs(state: &SessionState) -> Vec<Pair> {
    let mut pairs: Vec<Pair> = state
        .contradictions
        .iter()
        .map(|one| (name(one.what.rule), one.what.first.clone(), one.what.second.clone()))
        .collect();
    pairs.sort();
    pairs
}

/// What cannot both hold, looked for everywhere.
fn holding_pairs(state: &SessionState) -> Vec<Pair> {
    let sure = |id: &str| state.beliefs.get(id).unwrap().confidence.get();
    let mut pairs = Vec::new();
    for one in state.hypotheses.iter() {
        let against = state.evidence.iter().filter(|e| e.hypothesis == one.id && !e.supports);
        let strongest = against.fold(None::<(&str, f64)>, |best, e| match best {
            Some((_, weight)) if weight >= e.weight.get() => best,
            _ => Some((&e.id, e.weight.get())),
        });
        if let (HypothesisStatus::Confirmed, Some((evidence, weight))) = (one.status, strongest)
            && weight >= 0.6
        {
            pairs.push((name(Rule::Refuted), one.id.clone(), evidence.to_owned()));
        }
    }
    for link in &state.belief_dependencies {
        let (from, to) = (sure(&link.from), sure(&link.to));
        match link.kind {
            DependencyKind::Contradicts if from >= 0.6 && to >= 0.6 => {
                let (first, second) = (
                    link.from.clone().min(link.to.clone()),
                    link.from.clone().max(link.to.clone()),
                );
                pairs.push((name(Rule::Beliefs), first, second));
            }
            DependencyKind::Requires if from >= 0.6 && to < 0.3 => {
                pairs.push((name(Rule::Required), link.from.clone(), link.to.clone()));
            }
            _ => {}
        }
    }
    pairs.sort();
    pairs.dedup();
    pairs
}

fn name(rule: Rule) -> &'static str {
    match rule {
        Rule::Beliefs => "beliefs",
        Rule::Refuted => "refuted",
        Rule::Required => "required",
    }
}

fn pairs(journal: &Journal) -> Vec<Pair> {
    known_pairs(&journal.state)
}

fn raised(journal: &Journal) -> usize {
    journal.events.iter().filter(|event| matches!(event.body, Body::Contradiction(_))).count()
}

#[test]
fn two_beliefs_that_contradict_each_other_are_raised_once_and_cleared_when_one_is_given_up() {
    let mut journal = Journal::begun();
    journal.say(r#"{"kind":"belief","text":"a","confidence":0.6}"#);
    journal.say(r#"{"kind":"belief","text":"b","confidence":0.59}"#);
    journal.say(r#"{"kind":"belief","id":"b1","depends_on":"b2","as":"contradicts"}"#);
    assert_eq!(pairs(&journal), [], "one is under the threshold");
    journal.say(r#"{"kind":"belief","id":"b2","confidence":0.6}"#);
    assert_eq!(pairs(&journal), [("beliefs", "b1".into(), "b2".into())]);
    journal.say(r#"{"kind":"belief","id":"b2","depends_on":"b1","as":"contradicts"}"#);
    journal.say(r#"{"kind":"belief","id":"b1","confidence":0.9}"#);
    assert_eq!((pairs(&journal).len(), raised(&journal)), (1, 1));
    journal.say(r#"{"kind":"belief","id":"b1","confidence":0.1}"#);
    assert_eq!(pairs(&journal), []);
    journal.say(r#"{"kind":"belief","id":"b1","confidence":0.8}"#);
    assert_eq!((pairs(&journal).len(), raised(&journal)), (1, 2), "it came back");
}

#[test]
fn a_confirmed_hypothesis_with_strong_evidence_against_it_is_a_contradiction_until_it_is_reopened()
{
    let mut journal = Journal::begun();
    journal.say(r#"{"kind":"hypothesis","text":"a"}"#);
    journal.say(r#"{"kind":"evidence","text":"x","for":"h1","refutes":true,"weight":0.59}"#);
    journal.say(r#"{"kind":"evidence","text":"x","for":"h1","supports":true,"weight":1}"#);
    journal.say(r#"{"kind":"hypothesis","id":"h1","status":"confirmed"}"#);
    assert_eq!(pairs(&journal), []);
    journal.say(r#"{"kind":"evidence","text":"x","for":"h1","refutes":true,"weight":0.6}"#);
    assert_eq!(pairs(&journal), [("refuted", "h1".into(), "e4".into())]);
    journal.say(r#"{"kind":"evidence","text":"x","for":"h1","refutes":true,"weight":0.5}"#);
    assert_eq!(raised(&journal), 1);
    journal.say(r#"{"kind":"hypothesis","id":"h1","status":"testing"}"#);
    assert_eq!(pairs(&journal), []);
}

#[test]
fn a_belief_whose_required_belief_fell_is_a_contradiction_until_that_is_held_again() {
    let mut journal = Journal::begun();
    journal.say(r#"{"kind":"belief","text":"a","confidence":0.6}"#);
    journal.say(r#"{"kind":"belief","text":"b","confidence":0.3}"#);
    journal.say(r#"{"kind":"belief","id":"b1","depends_on":"b2","as":"requires"}"#);
    assert_eq!(pairs(&journal), []);
    journal.say(r#"{"kind":"belief","id":"b2","confidence":0.29}"#);
    assert_eq!(pairs(&journal), [("required", "b1".into(), "b2".into())]);
    journal.say(r#"{"kind":"belief","id":"b2","confidence":0.3}"#);
    assert_eq!(pairs(&journal), []);
    journal.say(r#"{"kind":"belief","id":"b2","confidence":0}"#);
    journal.say(r#"{"kind":"belief","id":"b1","confidence":0.5}"#);
    assert_eq!(pairs(&journal), [], "it is not held itself any more");
}

#[test]
fn evidence_that_is_called_like_a_belief_is_not_mistaken_for_it() {
    let mut journal = Journal::begun();
    journal.say(r#"{"kind":"hypothesis","text":"a"}"#);
    journal.say(r#"{"kind":"hypothesis","id":"h1","status":"confirmed"}"#);
    journal.say(r#"{"kind":"belief","text":"a"}"#);
    let evidence = Body::Evidence(payload::Evidence {
        text: "x".into(),
        hypothesis: "h1".into(),
        supports: false,
        weight: Confidence::new(0.9).unwrap(),
    });
    let event = journal.put(Some("b2".into()), evidence);
    for follows in rappel_types::agents::contradiction::follow(
        &journal.state,
        &event,
        &rappel_types::agents::contradiction::Thresholds::default(),
    ) {
        journal.put(None, follows);
    }
    assert_eq!(pairs(&journal).len(), 1);
    journal.say(r#"{"kind":"belief","id":"b2","confidence":0.1}"#);
    assert_eq!(pairs(&journal).len(), 1);
}

#[test]
fn illegal_events_are_refused_with_words_and_passed_over_by_the_fold() {
    let mut journal = Journal::begun();
    journal.say(r#"{"kind":"hypothesis","text":"a"}"#);
    journal.say(r#"{"kind":"gap","text":"a"}"#);
    journal.say(r#"{"kind":"gap","id":"g2","filled":"so"}"#);
    journal.say(r#"{"kind":"tool","tool":"Bash","input":{},"started":true}"#);
    journal.say(r#"{"kind":"tool","id":"x3","finished":true,"output":"ok"}"#);
    journal.say(r#"{"kind":"belief","text":"a"}"#);
    journal.say(r#"{"kind":"branch","name":"try"}"#);
    let refused = [
        (r#"{"kind":"evidence","text":"x","for":"h9","supports":true}"#, "no hypothesis \"h9\""),
        (r#"{"kind":"hypothesis","id":"h9","status":"rejected"}"#, "no hypothesis \"h9\""),
        (r#"{"kind":"hypothesis","id":"h1"}"#, "changes nothing"),
        (r#"{"kind":"verification","text":"x","passed":true,"for":"h9"}"#, "no hypothesis \"h9\""),
        (r#"{"kind":"gap","id":"g2","filled":"again"}"#, "filled before"),
        (r#"{"kind":"gap","id":"g9","filled":"x"}"#, "no gap \"g9\""),
        (r#"{"kind":"tool","id":"x3","finished":true,"output":"again"}"#, "finished before"),
        (r#"{"kind":"belief","id":"b4","depends_on":"b4","as":"requires"}"#, "depend on itself"),
        (r#"{"kind":"belief","id":"b4","depends_on":"b9","as":"requires"}"#, "no belief \"b9\""),
        (r#"{"kind":"branch","name":"try"}"#, "a branch \"try\" already"),
        (r#"{"kind":"branch","name":"main"}"#, "a branch \"main\" already"),
        (r#"{"kind":"branch","name":"try","merge_into":"try"}"#, "into itself"),
        (r#"{"kind":"branch-switched","name":"nowhere"}"#, "no branch \"nowhere\""),
        (r#"{"kind":"context","unset":"K"}"#, "no context variable \"K\""),
    ];
    for (line, words) in refused {
        let error = journal.line(line).unwrap_err();
        assert!(error.contains(words), "{line}: {error}");
        // Written all the same, by two at once, it changes nothing.
        let new = rappel_types::agents::NewEvent::parse(line).unwrap();
        let before = journal.state.clone();
        journal.put(None, new.body);
        assert_eq!(journal.state.ignored, before.ignored + 1, "{line}");
        assert_eq!(journal.state.hypotheses, before.hypotheses, "{line}");
        assert_eq!(journal.state.gaps, before.gaps, "{line}");
        assert_eq!(journal.state.tool_state, before.tool_state, "{line}");
    }
    let error = journal.line(r#"{"kind":"belief","text":"x","confidence":1.5}"#).unwrap_err();
    assert!(error.contains("1.5 is not between 0 and 1"), "{error}");
    journal
        .add(Body::SessionEnded(payload::SessionEnded {
            status: SessionStatus::Completed,
            ..Default::default()
        }))
        .unwrap();
    let error = journal.line(r#"{"kind":"note","text":"late"}"#).unwrap_err();
    assert_eq!(error, "the session has ended (completed)");
}

#[test]
fn a_branch_is_made_once_and_gone_to_as_often_as_one_likes() {
    let mut journal = Journal::begun();
    let mut go = |name: &str| {
        journal.say(&format!(r#"{{"kind":"branch","name":"{name}","switch":true}}"#));
        (journal.state.current_branch.clone(), journal.state.branches.len())
    };
    assert_eq!(go("try"), ("try".into(), 1));
    assert_eq!(go("main"), ("main".into(), 1));
    assert_eq!(go("try"), ("try".into(), 1));
    journal.say(r#"{"kind":"branch","name":"try","merge_into":"main"}"#);
    assert_eq!(journal.state.current_branch, "main");
}

#[test]
fn kinds_of_newer_versions_are_kept_to_the_byte() {
    for json in [
        r#"{"version":1,"number":7,"at":"2026-11-15T14:30:22.000Z","kind":"dream","id":"d1","data":{ "b" : 1.0,"a":[ ] }}"#,
        r#"{"version":2,"number":7,"fork":3,"at":"2026-11-15T14:30:22.000Z","kind":"note","data":{"text":"x","mood":1e400}}"#,
        r#"{"version":1,"number":7,"at":"2026-11-15T14:30:22.000Z","kind":"hypothesis","id":"h1","data":{"text":"x","confidence":7}}"#,
    ] {
        let event = Event::parse(json).unwrap();
        assert!(matches!(event.body, Body::Unknown { .. }), "{json}");
        assert_eq!(event.to_json(), json);
        assert_eq!(Event::parse(&event.to_json()).unwrap(), event);
        let state = fold([&event]);
        assert_eq!((state.unknown, state.ignored, state.event), (1, 0, 7));
    }
    for bad in [
        "",
        "{}",
        "[]",
        r#"{"version":1,"number":-1,"at":"2026-11-15T14:30:22Z","kind":"note","data":{}}"#,
    ] {
        assert!(Event::parse(bad).is_err(), "{bad}");
    }
}

#[test]
fn of_the_counts_of_one_request_the_highest_stays() {
    let mut journal = Journal::begun();
    let mut count = |message: &str, input: u64, output: u64| {
        journal.say(&format!(
            r#"{{"kind":"tokens","message":"{message}","input":{input},"output":{output}}}"#
        ));
        let tokens = journal.state.progress.tokens;
        (tokens.input, tokens.output)
    };
    assert_eq!(count("m1", 100, 1), (100, 1));
    assert_eq!(count("m2", 10, 5), (110, 6));
    assert_eq!(count("m1", 100, 40), (110, 45));
    assert_eq!(count("m1", 100, 3), (110, 45), "a lower count is an older one");
    journal.say(r#"{"kind":"tokens","input":1,"output":1}"#);
    journal.say(r#"{"kind":"tokens","input":1,"output":1}"#);
    let tokens = journal.state.progress.tokens;
    assert_eq!((tokens.input, tokens.output), (112, 47), "without a request each counts");
}

#[test]
fn time_in_debugging_is_told_by_events_without_pauses() {
    let mut state = fresh();
    let mut number = 0;
    let mut at = |seconds: i64, body: Body| {
        number += 1;
        state.apply(&Event { number, fork: 0, at: moment(seconds * 1_000), id: None, body });
        state.metrics.time_in_debugging / 1_000
    };
    let note = || Body::Note(payload::Note { text: "x".into() });
    assert_eq!(at(0, Body::SessionStarted(payload::SessionStarted::default())), 0);
    assert_eq!(at(10, note()), 10);
    assert_eq!(at(5, note()), 10, "a clock that was set back counts nothing twice");
    assert_eq!(at(12, note()), 12);
    assert_eq!(at(15, Body::Unknown { version: 2, kind: "x".into(), data: "{}".into() }), 15);
    assert_eq!(at(20, Body::SessionPaused(payload::SessionPaused::default())), 20);
    assert_eq!(at(500, note()), 20);
    assert_eq!(at(1_000, Body::SessionResumed(payload::SessionResumed::default())), 20);
    assert_eq!(at(1_001, note()), 21);
    let restored = payload::Restored {
        checkpoint: "chk_20261115_143022_k7f3".parse().unwrap(),
        of: 0,
        to: 3,
        status: SessionStatus::Running,
        intent: None,
        taken_back: false,
    };
    assert_eq!(
        at(9_000, Body::Restored(restored)),
        21,
        "whoever is set back did not work meanwhile"
    );
    let ended = payload::SessionEnded { status: SessionStatus::Completed, ..Default::default() };
    assert_eq!(at(9_005, Body::SessionEnded(ended)), 26);
}
