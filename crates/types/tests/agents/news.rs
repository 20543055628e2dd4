//! From one state to a later one and back: the events between them lead there.

use proptest::prelude::*;
use rappel_types::agents::{
    Body, Event, Gap, Note, SessionState, SessionStatus, ToolCall, legal, news, payload,
};
use serde_json::{Value, json};

use crate::fold::{played, steps};
use crate::journal::{Journal, fold, fresh, moment};

/// Everything that `at --json` shows. Numbers of events are another journal's.
fn shown(state: &SessionState) -> Value {
    let mut shown = serde_json::to_value(state).unwrap();
    let fields = shown.as_object_mut().unwrap();
    for ours in ["event", "fork", "counted", "transcripts", "last_checkpoint", "process"] {
        fields.remove(ours);
    }
    for found in
        fields.get_mut("contradictions").and_then(Value::as_array_mut).into_iter().flatten()
    {
        found["event"] = 0.into();
    }
    shown
}

/// The state that the events between two lead to, and how many they were.
fn led(old: &SessionState, new: &SessionState) -> Option<(SessionState, usize)> {
    let events = news(old, new)?;
    let mut state = old.clone();
    let count = events.len();
    for event in events {
        let (number, at) = (state.event + 1, event.at.expect("each has a time"));
        let event = Event { number, fork: state.fork, at, id: event.id, body: event.body };
        // The border takes it too.
        assert_eq!(state.check(event.id.as_deref(), &event.body), Ok(()), "{event:?}");
        // What is stored is read again.
        assert_eq!(Event::parse(&event.to_json()).unwrap(), event);
        state.apply(&event);
    }
    Some((state, count))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn events_between_two_states_lead_from_one_to_the_other(
        steps in steps(),
        cut in any::<prop::sample::Index>(),
    ) {
        let journal = played(steps);
        let events = journal.seen(journal.state.fork, journal.state.event);
        let (before, _) = events.split_at(cut.index(events.len() + 1));
        let (old, new) = (fold(before.iter().copied()), &journal.state);
        // Along one journal something is taken back only where it was set back.
        let set_back = events[before.len()..].iter().any(|e| matches!(e.body, Body::Restored(_)));
        match led(&old, new) {
            Some((reached, _)) => prop_assert_eq!(shown(&reached), shown(new)),
            None => prop_assert!(set_back),
        }
        // From nothing there is always a way.
        let (reached, _) = led(&fresh(), new).unwrap();
        prop_assert_eq!(shown(&reached), shown(new));
        prop_assert_eq!(shown(&legal(new)), shown(new));
    }

    #[test]
    fn a_state_on_another_fork_is_reached_or_refused(steps in steps()) {
        let journal = played(steps);
        for fork in journal.lineage.forks() {
            let other = fold(journal.seen(fork.of, fork.begins - 1));
            if let Some((reached, _)) = led(&other, &journal.state) {
                prop_assert_eq!(shown(&reached), shown(&journal.state));
            }
        }
    }
}

#[test]
fn nothing_new_is_no_event() {
    let mut journal = Journal::begun();
    journal.say(r#"{"kind":"thought","text":"a"}"#);
    journal.say(r#"{"kind":"tool","tool":"Edit","input":{"file_path":"a.rs"}}"#);
    assert_eq!(led(&journal.state, &journal.state).unwrap().1, 0);
}

#[test]
fn one_thing_more_is_one_event_with_its_id_and_time() {
    let mut journal = Journal::begun();
    journal.say(r#"{"kind":"hypothesis","text":"a"}"#);
    let old = journal.state.clone();
    journal.say(r#"{"kind":"hypothesis","id":"h1","status":"confirmed","reason":"seen"}"#);
    let found = news(&old, &journal.state).unwrap();
    let event = journal.events.last().unwrap();
    assert_eq!((found.len(), found[0].at, &found[0].body), (1, Some(event.at), &event.body));
    let old = journal.state.clone();
    journal.say(r#"{"kind":"note","text":"n"}"#);
    let found = news(&old, &journal.state).unwrap();
    assert_eq!((found.len(), found[0].id.as_deref()), (1, Some("n2")));
}

#[test]
fn what_was_taken_back_has_no_events() {
    let mut journal = Journal::begun();
    for line in [
        r#"{"kind":"hypothesis","text":"a"}"#,
        r#"{"kind":"evidence","text":"e","for":"h1","supports":true}"#,
        r#"{"kind":"belief","text":"b"}"#,
        r#"{"kind":"belief","text":"c"}"#,
        r#"{"kind":"belief","id":"b3","depends_on":"b4","as":"requires"}"#,
        r#"{"kind":"gap","text":"g"}"#,
        r#"{"kind":"gap","id":"g5","filled":"yes"}"#,
        r#"{"kind":"branch","name":"x"}"#,
        r#"{"kind":"branch","name":"x","merge_into":"main"}"#,
        r#"{"kind":"thought","text":"t"}"#,
        r#"{"kind":"tool","tool":"Bash","started":true}"#,
        r#"{"kind":"tokens","input":5}"#,
    ] {
        journal.say(line);
    }
    let all = journal.events.clone();
    let full = &journal.state;
    for (place, event) in all.iter().enumerate().skip(1) {
        let before = fold(all[..place].iter());
        // Pausing and the like can be said of any state; everything here cannot.
        assert_eq!(news(full, &before), None, "{:?}", event.body);
    }
    let mut other = full.clone();
    other.gaps.get_mut("g5").unwrap().answer = Some("no".into());
    assert_eq!(news(full, &other), None);
}

#[test]
fn a_session_that_ended_goes_on_and_ends_again() {
    let mut journal = Journal::begun();
    let end = payload::SessionEnded { status: SessionStatus::Failed, ..Default::default() };
    journal.put(None, Body::SessionEnded(end));
    let old = journal.state.clone();
    let mut new = old.clone();
    new.notes.push(Note { id: "n".into(), text: "late".into(), created_at: moment(9_000) });
    new.status = SessionStatus::Completed;
    (new.ended_at, new.latest_at) = (Some(moment(9_500)), Some(moment(9_500)));
    let (reached, _) = led(&old, &new).unwrap();
    assert_eq!(shown(&reached), shown(&new));
}

#[test]
fn a_call_whose_end_was_only_concluded_ends() {
    let mut journal = Journal::begun();
    journal.say(r#"{"kind":"tool","tool":"Bash","started":true}"#);
    journal.say(r#"{"kind":"tool","tool":"Bash","input":{}}"#);
    let finished = |presumed: bool| {
        Body::ToolFinished(payload::ToolFinished {
            of: "x1".into(),
            result: Value::Null,
            success: !presumed,
            error: None,
            presumed,
        })
    };
    journal.add(finished(true)).unwrap();
    let old = journal.state.clone();
    journal.say(r#"{"kind":"thought","text":"t"}"#);
    journal.add(finished(false)).unwrap();
    let (reached, count) = led(&old, &journal.state).unwrap();
    assert_eq!((shown(&reached), count), (shown(&journal.state), 2));
}

/// What another program makes up.
#[test]
fn a_state_that_no_events_lead_to_loses_only_what_makes_no_sense() {
    let mut state = fresh();
    let evidence = json!({"recent": [
        {"id": "e1", "text": "dangling", "for": "h9", "supports": true, "weight": 1.0,
         "created_at": moment(0)},
    ]});
    state.evidence = serde_json::from_value(evidence).unwrap();
    let gap = Gap {
        id: "g1".into(),
        text: "open".into(),
        filled: false,
        answer: None,
        created_at: moment(5_000),
        filled_at: None,
    };
    state.gaps.add(gap);
    state.tool_state.done.push(ToolCall {
        id: "x".into(),
        tool: "Bash".into(),
        arguments: Value::Null,
        result: Value::Null,
        success: None,
        error: Some("no".into()),
        started_at: moment(2_000),
        completed_at: None,
        background: false,
        presumed: false,
    });
    state.progress.total_thoughts = 40;
    state.metrics.checkpoints_created = 7;
    state.current_branch = "nowhere".into();
    let found = legal(&state);
    assert!(found.evidence.is_empty());
    assert_eq!((found.gaps.len(), found.progress.total_thoughts), (1, 40));
    assert_eq!((found.metrics.checkpoints_created, found.ignored), (7, 0));
    assert_eq!((found.current_branch.as_str(), found.latest_at), ("main", Some(moment(5_000))));
    assert_eq!(found.tool_state.done.iter().next().unwrap().success, Some(false));
    assert_eq!(shown(&legal(&found)), shown(&found));
}
