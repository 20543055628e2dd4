//! The journal: what is recorded is there, in every process, at every moment.

use rappel::types::agents::{Body, HypothesisStatus, NewEvent, SessionId, SessionStatus, payload};
use rappel::types::{Facet, Trigger};
use rappel::{Rappel, SaveOptions, SessionStart, TemporalQuery};

use rappel_testing::Project;

use crate::support::World;

pub fn note(text: &str) -> NewEvent {
    Body::Note(payload::Note { text: text.into() }).into()
}

pub fn line(json: &str) -> NewEvent {
    NewEvent::parse(json).unwrap()
}

pub fn start(rappel: &Rappel, id: &str) -> SessionId {
    let session = Some(id.parse().unwrap());
    rappel.start_session(SessionStart { session, ..SessionStart::default() }).unwrap().0
}

#[test]
fn what_is_recorded_is_known_now_and_in_another_process() {
    let bench = World::new(Project::in_memory());
    let rappel = bench.open();
    let session = start(&rappel, "s1");
    let guess = rappel.record(
        &session,
        line(r#"{"kind":"hypothesis","text":"the cache is stale","confidence":0.7}"#),
    );
    let id = guess.unwrap().event.id.unwrap();
    rappel
        .record(
            &session,
            line(&format!(r#"{{"kind":"hypothesis","id":"{id}","status":"rejected"}}"#)),
        )
        .unwrap();
    for number in 0..300 {
        rappel.record(&session, note(&format!("note {number}"))).unwrap();
    }
    for reader in [rappel, bench.open()] {
        let state = reader.state_now(&session, u64::MAX).unwrap().state;
        assert_eq!(state.notes.len(), 300);
        assert_eq!(state.notes.iter().next_back().unwrap().text, "note 299");
        assert_eq!(state.hypotheses.get(&id).unwrap().status, HypothesisStatus::Rejected);
    }
}

#[test]
fn a_status_change_makes_a_checkpoint_of_state_alone() {
    let bench = World::new(Project::in_memory());
    let rappel = bench.open();
    let session = start(&rappel, "s1");
    rappel.record(&session, line(r#"{"kind":"hypothesis","id":"h","text":"x"}"#)).unwrap();
    let done = rappel
        .record(&session, line(r#"{"kind":"hypothesis","id":"h","status":"confirmed"}"#))
        .unwrap();
    let [checkpoint] = &done.checkpoints[..] else { panic!("{done:?}") };
    let shown = rappel.show(&checkpoint.to_string().parse().unwrap()).unwrap().manifest;
    assert_eq!(shown.trigger, Trigger::HypothesisStatusChange);
    assert_eq!(shown.description.as_deref(), Some("Auto: HypothesisStatusChange"));
    assert_eq!(shown.tags, ["auto", "HypothesisStatusChange", "hypothesis_confirmed"]);
    assert!(!shown.holds_files());
    assert_eq!(shown.agents.unwrap().sessions[0].id, session);
    // `latest` is the one with files that the session's start made.
    let latest = rappel.show(&"latest".parse().unwrap()).unwrap().manifest;
    assert_eq!(latest.trigger, Trigger::SessionStart);
}

#[test]
fn two_processes_write_one_session_without_losing_anything() {
    let bench = World::new(Project::in_memory());
    let one = bench.open();
    let session = start(&one, "s1");
    let other = bench.open();
    for number in 0..50 {
        one.record(&session, note(&format!("one {number}"))).unwrap();
        other.record(&session, note(&format!("other {number}"))).unwrap();
    }
    let state = one.state_now(&session, u64::MAX).unwrap().state;
    assert_eq!(state.notes.len(), 100);
    let ids: std::collections::HashSet<&str> = state.notes.iter().map(|note| &*note.id).collect();
    assert_eq!(ids.len(), 100);
}

#[test]
fn illegal_events_are_refused_and_leave_nothing() {
    let bench = World::new(Project::in_memory());
    let rappel = bench.open();
    let session = start(&rappel, "s1");
    let before = rappel.session(&session).unwrap().events;
    for bad in [
        r#"{"kind":"evidence","text":"x","for":"h9","supports":true}"#,
        r#"{"kind":"tool","id":"x9","finished":true}"#,
        r#"{"kind":"gap","id":"g9","filled":"x"}"#,
    ] {
        let error = rappel.record(&session, line(bad)).unwrap_err();
        assert!(!error.advice().is_empty(), "{error}");
    }
    assert_eq!(rappel.session(&session).unwrap().events, before);
    rappel.end_session(&session, SessionStatus::Completed, None).unwrap();
    let error = rappel.record(&session, note("late")).unwrap_err();
    assert_eq!(error.kind(), rappel::ErrorKind::Conflict);
    assert_eq!(rappel.session(&session).unwrap().status, SessionStatus::Completed);
}

#[test]
fn the_state_at_a_checkpoint_is_what_it_was_then() {
    let bench = World::new(Project::in_memory());
    let rappel = bench.open();
    let session = start(&rappel, "s1");
    rappel
        .record(&session, line(r#"{"kind":"belief","id":"b","text":"x","confidence":0.9}"#))
        .unwrap();
    let options = SaveOptions { session: Some("s1".into()), ..SaveOptions::default() };
    let saved = rappel.save(&options).unwrap().checkpoint.manifest;
    assert_eq!(saved.facets[&Facet::Agents], rappel::types::FacetState::Captured);
    rappel.record(&session, line(r#"{"kind":"belief","id":"b","confidence":0.1}"#)).unwrap();
    let query = TemporalQuery {
        checkpoint: Some(saved.id.to_string().parse().unwrap()),
        ..TemporalQuery::default()
    };
    let then = rappel.query_at(&query).unwrap();
    assert_eq!(then.state.beliefs.get("b").unwrap().confidence.to_string(), "0.9");
    assert_eq!(then.checkpoint.unwrap().0, saved.id);
    assert!(rappel.query_at(&TemporalQuery::default()).is_err());
}

#[test]
fn an_id_that_somebody_chose_is_not_given_again() {
    let bench = World::new(Project::in_memory());
    let rappel = bench.open();
    let session = start(&rappel, "s1");
    let next = rappel.session(&session).unwrap().events + 2;
    let chosen = format!(r#"{{"kind":"hypothesis","id":"h{next}","text":"first"}}"#);
    rappel.record(&session, line(&chosen)).unwrap();
    let given = rappel.record(&session, line(r#"{"kind":"hypothesis","text":"second"}"#)).unwrap();
    assert_eq!(given.event.id.unwrap(), format!("h{next}-2"));
    assert_eq!(rappel.state_now(&session, u64::MAX).unwrap().state.hypotheses.len(), 2);
}

#[test]
fn a_call_that_began_an_hour_ago_is_named_and_not_waited_for() {
    let world = World::new(Project::in_memory().file("a", "1"));
    let rappel = world.open();
    let session = start(&rappel, "s1");
    let began = r#"{"kind":"tool","tool":"Bash","input":{},"started":true,"id":"c1"}"#;
    rappel.record(&session, line(began)).unwrap();
    world.clock.advance(3_600_001);
    let wait = Some(std::time::Duration::from_secs(600));
    let saved = rappel.save(&SaveOptions { wait, ..SaveOptions::default() }).unwrap();
    assert_eq!(saved.waited, std::time::Duration::ZERO);
    assert_eq!(saved.checkpoint.manifest.mid_operation, ["Bash (c1 in session s1)"]);
}
