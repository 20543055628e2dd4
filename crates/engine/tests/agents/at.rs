//! What was known at a moment: before a session began, in the future, and which checkpoint was the last one then.

use rappel::ambient::Clock;
use rappel::types::Timestamp;
use rappel::{ErrorKind, Rappel, RestoreOptions, SaveOptions, StateAt, TemporalQuery};
use rappel_testing::Project;

use crate::journal::{note, start};
use crate::support::{World, reference};

fn json_of(found: &StateAt) -> serde_json::Value {
    serde_json::to_value(rappel::answers::AtAnswer::from(found)).unwrap()
}

fn at(rappel: &Rappel, timestamp: Timestamp) -> StateAt {
    let query = TemporalQuery { timestamp: Some(timestamp), ..TemporalQuery::default() };
    rappel.query_at(&query).unwrap()
}

fn last(found: &StateAt) -> Option<String> {
    found.checkpoint.as_ref().map(|(id, _)| id.to_string())
}

#[test]
fn before_its_session_began_nothing_is_known_and_that_is_said() {
    let bench = World::new(Project::in_memory());
    let rappel = bench.open();
    let before = bench.clock.now();
    bench.clock.advance(60_000);
    let began = bench.clock.now();
    let session = start(&rappel, "s1");
    rappel.record(&session, note("x")).unwrap();
    let found = at(&rappel, before);
    assert_eq!((found.begins, found.at, found.position.event), (Some(began), None, 0));
    let json = json_of(&found);
    assert_eq!((&json["begun"], &json["at"]), (&false.into(), &serde_json::Value::Null));
    assert_eq!(json["begins_at"], began.to_string());
    assert_eq!(json["state"]["notes"], serde_json::json!([]));
    let json = json_of(&at(&rappel, began));
    assert_eq!((&json["begun"], &json["begins_at"]), (&true.into(), &serde_json::Value::Null));
}

#[test]
fn a_time_that_is_yet_to_come_means_now() {
    let bench = World::new(Project::in_memory());
    let rappel = bench.open();
    let session = start(&rappel, "s1");
    rappel.record(&session, note("x")).unwrap();
    let now = at(&rappel, bench.clock.now());
    bench.clock.advance(3_600_000);
    let later = bench.clock.now();
    bench.clock.advance(-3_600_000);
    let found = at(&rappel, later);
    assert!(found.ahead && !now.ahead);
    assert_eq!(found.state, now.state);
    assert_eq!(json_of(&found)["future"], true);
}

#[test]
fn the_last_checkpoint_then_was_made_by_then() {
    let bench = World::new(Project::in_memory().file("a", "1"));
    let rappel = bench.open();
    let session = start(&rappel, "s1");
    rappel.record(&session, note("x")).unwrap();
    let first = bench.save("first");
    bench.clock.advance(1000);
    let then = bench.clock.now();
    // Nothing happened in the session, and still this one came later.
    bench.write("a", "2");
    let second = bench.save("second");
    let rappel = bench.open();
    assert_eq!(last(&at(&rappel, then)), Some(first.clone()));
    assert_eq!(last(&at(&rappel, bench.clock.now())), Some(second));
    // Whoever asks for a checkpoint gets that one.
    let query = TemporalQuery { checkpoint: Some(reference(&first)), ..TemporalQuery::default() };
    assert_eq!(last(&rappel.query_at(&query).unwrap()), Some(first));
}

#[test]
fn the_last_checkpoint_at_an_event_was_made_by_then() {
    let bench = World::new(Project::in_memory().file("a", "1"));
    let rappel = bench.open();
    let session = start(&rappel, "s1");
    let first = bench.save("first");
    bench.clock.advance(1000);
    let rappel = bench.open();
    let event = rappel.record(&session, note("x")).unwrap().event.number;
    bench.clock.advance(1000);
    bench.write("a", "2");
    let second = bench.save("second");
    let query = TemporalQuery { event: Some(event), ..TemporalQuery::default() };
    let rappel = bench.open();
    assert_eq!(last(&rappel.query_at(&query).unwrap()), Some(first));
    assert_eq!(last(&rappel.state_now(&session, 0).unwrap()), Some(second));
}

#[test]
fn a_safety_save_is_the_last_checkpoint_only_if_there_is_no_other() {
    let bench = World::new(Project::in_memory().file("a", "1"));
    let first = bench.save("before any session");
    bench.write("a", "2");
    let rappel = bench.open();
    std::fs::write(bench.project.path("rappel.toml"), "[auto]\nsession-start = false\n").unwrap();
    let session = start(&bench.open(), "s1");
    bench.clock.advance(1000);
    let only = rappel.restore(&reference(&first), &RestoreOptions::default()).unwrap();
    let only = only.done.and_then(|done| done.safety_checkpoint).map(|id| id.to_string());
    assert!(only.is_some());
    assert_eq!(last(&at(&bench.open(), bench.clock.now())), only);

    let real = bench.save("real");
    bench.open().record(&session, note("y")).unwrap();
    bench.write("a", "3");
    bench.restore(&real);
    let rappel = bench.open();
    rappel.record(&session, note("z")).unwrap();
    assert_eq!(last(&at(&rappel, bench.clock.now())), Some(real));
}

#[test]
fn a_checkpoint_with_one_session_means_that_one_whatever_is_preferred() {
    let bench = World::new(Project::in_memory());
    let rappel = bench.open();
    start(&rappel, "s1");
    bench.clock.advance(61_000);
    let save = |rappel: &Rappel, message: &str| {
        let options = SaveOptions { message: Some(message.into()), ..SaveOptions::default() };
        rappel.save(&options).unwrap().checkpoint.manifest.id.to_string()
    };
    let one = save(&rappel, "one");
    let other = start(&rappel, "s2");
    let both = save(&rappel, "both");
    let asked = |checkpoint: &str, named: Option<&str>, preferred: &str| {
        let query = TemporalQuery {
            checkpoint: Some(reference(checkpoint)),
            session: named.map(|id| id.parse().unwrap()),
            preferred: Some(preferred.parse().unwrap()),
            ..TemporalQuery::default()
        };
        rappel.query_at(&query).map(|found| found.session.to_string())
    };
    assert_eq!(asked(&one, None, "s2").unwrap(), "s1");
    assert_eq!(asked(&both, None, "s2").unwrap(), "s2");
    assert_eq!(asked(&one, Some(other.as_str()), "s1").unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(asked(&both, None, "s3").unwrap_err().kind(), ErrorKind::Usage);
}
