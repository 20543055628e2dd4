//! Sessions of imported checkpoints: their journals, which never mix with those of this home.

use rappel::formats::{Form, Portable};
use rappel::types::agents::SessionStatus;
use rappel::{ListFilter, SessionStart, TemporalQuery};
use rappel_testing::Project;

use crate::scene::{import, session, show, words};
use crate::support::{World, reference};

fn with_thoughts(id: &str, minute: i64, parent: Option<&str>, thoughts: &[&str]) -> Portable {
    let mut one = words(id, minute);
    one.parent = parent.map(str::to_owned);
    one.session = Some("s".into());
    one.sessions = vec![session("s", thoughts)];
    one
}

fn world() -> World {
    World::new(Project::new().file("a.txt", "1"))
}

fn thoughts_at(world: &World, text: &str) -> Vec<String> {
    let query = TemporalQuery { checkpoint: Some(reference(text)), ..TemporalQuery::default() };
    let state = world.open().query_at(&query).unwrap().state;
    state.thought_chain.iter().map(|one| one.content.clone()).collect()
}

#[test]
fn each_checkpoint_knows_what_was_known_then() {
    let world = world();
    let all = vec![
        with_thoughts("one", 1, None, &["a"]),
        with_thoughts("two", 2, Some("one"), &["a", "b", "c"]),
    ];
    let imported = import(&world, Form::Caf, "/x", all);
    assert_eq!(thoughts_at(&world, "one"), ["a"]);
    assert_eq!(thoughts_at(&world, "two"), ["a", "b", "c"]);
    let rappel = world.open();
    let manifest = show(&rappel, "two").manifest;
    let lineage = imported.lineage.unwrap().workspace;
    assert_eq!(manifest.session_id, Some(format!("caf.{lineage}:s")));
    let said = ListFilter { text: Some("b".into()), all: true, ..ListFilter::default() };
    let found = rappel.find(&said).unwrap();
    assert_eq!(found.events.len(), 1, "{found:?}");
    assert_eq!(found.events[0].checkpoint.as_deref(), Some("two"));
}

#[test]
fn what_was_taken_back_is_a_fork_from_the_checkpoint_that_it_follows() {
    let world = world();
    let all = vec![
        with_thoughts("one", 1, None, &["a"]),
        with_thoughts("two", 2, Some("one"), &["a", "b"]),
        with_thoughts("three", 3, Some("one"), &["a", "x"]),
        with_thoughts("four", 4, None, &["quite another"]),
    ];
    import(&world, Form::Caf, "/x", all);
    assert_eq!(thoughts_at(&world, "one"), ["a"]);
    assert_eq!(thoughts_at(&world, "two"), ["a", "b"]);
    assert_eq!(thoughts_at(&world, "three"), ["a", "x"]);
    assert_eq!(thoughts_at(&world, "four"), ["quite another"]);
    let forks: Vec<u32> = ["one", "two", "three", "four"]
        .iter()
        .map(|id| show(&world.open(), id).manifest.agents.unwrap().sessions[0].position.fork)
        .collect();
    assert_eq!(forks, [0, 0, 1, 2]);
}

#[test]
fn they_are_over_and_are_never_the_session_that_is_meant() {
    let world = world();
    import(&world, Form::Caf, "/x", vec![with_thoughts("one", 600_000, None, &["a"])]);
    let rappel = world.open();
    let held = show(&rappel, "one").manifest.agents.unwrap().sessions.remove(0);
    let view = rappel.session(&held.id).unwrap();
    assert_eq!(view.status, SessionStatus::Completed);
    assert!(rappel.sessions().unwrap().is_empty());
    assert!(rappel.session_meant(None).is_err() && rappel.session_asked_about(None).is_err());
    let (own, _) = rappel.start_session(SessionStart::default()).unwrap();
    assert_eq!(rappel.session_asked_about(None).unwrap().id, own);
    assert_eq!(rappel.session_looked_at(None).unwrap().id, own);
    world.save("own");
    let agents = show(&world.open(), "latest").manifest.agents.unwrap();
    assert!(agents.sessions.iter().all(|session| session.id == own), "{agents:?}");
}

#[test]
fn a_later_import_goes_on_with_the_journal() {
    let world = world();
    let first = || with_thoughts("one", 1, None, &["a"]);
    import(&world, Form::Caf, "/x", vec![first()]);
    let more = vec![
        first(),
        with_thoughts("two", 2, Some("one"), &["a", "b"]),
        with_thoughts("other", 3, Some("one"), &["a", "y"]),
    ];
    let imported = import(&world, Form::Caf, "/x", more);
    assert_eq!((imported.imported, imported.known), (2, 1));
    assert_eq!(thoughts_at(&world, "one"), ["a"]);
    assert_eq!(thoughts_at(&world, "two"), ["a", "b"]);
    assert_eq!(thoughts_at(&world, "other"), ["a", "y"]);
    let held = show(&world.open(), "other").manifest.agents.unwrap().sessions.remove(0);
    assert!(!world.open().session(&held.id).unwrap().status.is_live());
    world.verify();
}

#[test]
fn a_long_session_is_read_from_stored_states() {
    let world = world();
    let texts: Vec<String> = (0..400).map(|n| format!("thought {n}")).collect();
    let all: Vec<Portable> = (1..=40)
        .map(|n| {
            let thoughts: Vec<&str> = texts[..n * 10].iter().map(String::as_str).collect();
            with_thoughts(&format!("cp-{n:02}"), n as i64, None, &thoughts)
        })
        .collect();
    import(&world, Form::Caf, "/x", all);
    assert_eq!(thoughts_at(&world, "cp-05").len(), 50);
    assert_eq!(thoughts_at(&world, "cp-40").len(), 400);
    world.open().gc(true, false).unwrap();
    assert_eq!(thoughts_at(&world, "cp-40").len(), 400);
    world.verify();
}
