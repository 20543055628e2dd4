//! Going through the past: every step, what was known and which files were there after it, and nothing changed.

use rappel::types::agents::{HypothesisStatus, SessionStatus};
use rappel::{ReplayPosition, RestoreOptions, SaveOptions};
use rappel_testing::{Project, snapshot};

use super::journal::{line, note, start};
use crate::support::{World, reference};

fn save(world: &World, rappel: &rappel::Rappel) -> String {
    world.clock.advance(61_000);
    let options = SaveOptions { session: Some("s1".into()), ..SaveOptions::default() };
    rappel.save(&options).unwrap().checkpoint.manifest.id.to_string()
}

fn paths(replay: &rappel::Replay, step: usize) -> Vec<String> {
    let files = replay.files_at(step).unwrap().unwrap();
    files.entries.iter().map(|entry| entry.path.to_string()).collect()
}

/// A session that guesses, edits, and guesses again.
fn worked(world: &World) -> (rappel::Rappel, String, String) {
    world.save("before the session");
    world.write("unrelated.txt", "made before the session");
    world.clock.advance(61_000);
    let rappel = world.open();
    let session = start(&rappel, "s1");
    let guess = r#"{"kind":"hypothesis","id":"h","text":"the clock is wrong"}"#;
    world.clock.advance(1_000);
    rappel.record(&session, line(guess)).unwrap();
    world.write("src/a.rs", "fn a() {}\n");
    let first = save(world, &rappel);
    world.clock.advance(1_000);
    rappel.record(&session, line(r#"{"kind":"hypothesis","id":"h","status":"rejected"}"#)).unwrap();
    world.remove("src/a.rs");
    world.write("src/b.rs", "fn b() {}\n");
    let second = save(world, &rappel);
    world.clock.advance(1_000);
    rappel.record(&session, note("after the checkpoint")).unwrap();
    (rappel, first, second)
}

#[test]
fn every_step_tells_what_was_known_and_there_after_it() {
    let world = World::new(Project::in_memory().file("kept.txt", "x"));
    let (rappel, first, second) = worked(&world);
    let replay = rappel.replay(&reference(&second), None).unwrap();
    assert_eq!(replay.session.as_ref().unwrap().as_str(), "s1");
    let titles: Vec<&str> = replay
        .steps
        .iter()
        .filter(|step| step.kind != "checkpoint")
        .map(|step| step.title.as_str())
        .collect();
    assert_eq!(
        titles,
        [
            "session started by an agent",
            "hypothesis (open): the clock is wrong",
            "files: 1 new",
            "h: rejected",
            "files: 1 new, 1 deleted",
        ],
        "neither what came after it nor what was changed before the session"
    );
    let number = |title: &str| replay.steps.iter().find(|step| step.title == title).unwrap().number;
    let status = |step: usize| {
        let state = replay.state_at(step, u64::MAX).unwrap().unwrap().state;
        state.hypotheses.get("h").map(|one| one.status)
    };
    let (guess, rejected) =
        (number("hypothesis (open): the clock is wrong"), number("h: rejected"));
    assert_eq!(status(1), None);
    assert_eq!(status(guess), Some(HypothesisStatus::Open));
    assert_eq!(status(rejected - 1), Some(HypothesisStatus::Open));
    assert_eq!(status(rejected), Some(HypothesisStatus::Rejected));

    let has = |step: usize, path: &str| paths(&replay, step).iter().any(|one| one == path);
    assert!(!has(guess, "src/a.rs") && has(guess, "unrelated.txt"));
    let changed = number("files: 1 new");
    assert!(has(changed, "src/a.rs"));
    assert_eq!(replay.files_at(changed).unwrap().unwrap().checkpoint.as_str(), first);
    assert!(has(rejected, "src/a.rs"), "the deletion was not seen yet");
    let last = number("files: 1 new, 1 deleted");
    assert!(!has(last, "src/a.rs") && has(last, "src/b.rs"));
    assert_eq!(replay.files_at(last).unwrap().unwrap().checkpoint.as_str(), second);
    for (made, changed) in [(&first, changed), (&second, last)] {
        let own = replay.steps.iter().find(|step| {
            step.kind == "checkpoint"
                && step.checkpoint.as_ref().is_some_and(|id| id.as_str() == made)
        });
        let own = own.unwrap().number;
        assert_eq!(paths(&replay, own), paths(&replay, changed), "a checkpoint's own step");
    }

    let error = replay.step(99).unwrap_err();
    assert_eq!(error.to_string(), "there is no step 99");
    assert!(replay.step(0).is_err());
}

#[test]
fn agents_are_those_that_were_at_work_then() {
    let world = World::new(Project::in_memory());
    let rappel = world.open();
    let one = start(&rappel, "s1");
    world.clock.advance(1_000);
    rappel.record(&one, note("alone")).unwrap();
    world.clock.advance(1_000);
    let other = start(&rappel, "s2");
    world.clock.advance(1_000);
    rappel
        .record(&one, line(r#"{"kind":"tool","tool":"Bash","input":{},"started":true,"id":"x"}"#))
        .unwrap();
    world.clock.advance(1_000);
    rappel.end_session(&other, SessionStatus::Completed, None).unwrap();
    world.clock.advance(1_000);
    rappel.record(&one, note("alone again")).unwrap();
    let saved = save(&world, &rappel);
    let replay = rappel.replay(&reference(&saved), Some(&one)).unwrap();
    let at = |title: &str| {
        let step = replay.steps.iter().find(|step| step.title == title).unwrap();
        let agents = replay.agents_at(step.number).unwrap();
        let mut agents: Vec<_> =
            agents.into_iter().map(|one| (one.id.to_string(), one.running)).collect();
        agents.sort();
        agents
    };
    let alone =
        |running: &[&str]| ("s1".to_owned(), running.iter().map(ToString::to_string).collect());
    assert_eq!(at("note: alone"), [alone(&[])]);
    assert_eq!(at("Bash started: {}"), [alone(&["Bash"]), ("s2".into(), vec![])]);
    assert_eq!(at("note: alone again"), [alone(&["Bash"])]);
    let nobody = "s9".parse().unwrap();
    assert!(rappel.replay(&reference(&saved), Some(&nobody)).is_err());
}

#[test]
fn a_past_without_a_session_is_that_of_the_files() {
    let world = World::new(Project::in_memory().file("a", "1"));
    let one = world.save("one");
    world.write("a", "2");
    let two = world.save("two");
    world.write("b", "1");
    let three = world.save("three");
    world.restore(&two);
    world.write("c", "1");
    let four = world.save("four");
    let rappel = world.open();
    let titles = |id: &str| -> Vec<String> {
        let replay = rappel.replay(&reference(id), None).unwrap();
        replay.steps.iter().map(|step| step.title.clone()).collect()
    };
    assert_eq!(titles(&one), ["files: 1 new"], "all that the first one holds");
    assert_eq!(titles(&three), ["files: 1 new", "files: 1 changed", "files: 1 new"]);
    assert_eq!(
        titles(&four),
        ["files: 1 new", "files: 1 changed", "files: 1 new"],
        "what was left is not on the way"
    );
    let replay = rappel.replay(&reference(&four), None).unwrap();
    assert_eq!(
        (paths(&replay, 2), paths(&replay, 3)),
        (vec!["a".into()], vec!["a".into(), "c".into()])
    );
    assert_eq!(replay.state_at(1, 9).unwrap(), None);
}

#[test]
fn a_replay_leaves_everything_as_it_was() {
    let world = World::new(Project::in_memory().file("kept.txt", "x"));
    let (rappel, _, second) = worked(&world);
    drop(rappel);
    let packs = world.home.path().join("packs");
    let before = (world.snapshot(), snapshot(&packs));
    let rappel = world.open();
    let replay = rappel.replay(&reference(&second), None).unwrap();
    for step in 1..=replay.steps.len() {
        replay.state_at(step, u64::MAX).unwrap();
        replay.files_at(step).unwrap();
        replay.agents_at(step).unwrap();
    }
    let checkpoint = replay.checkpoint.manifest.id.clone();
    let here = ReplayPosition { checkpoint, session: replay.session.clone(), step: 3 };
    let who = "s7".parse().unwrap();
    rappel.keep_replay_position(Some(&who), Some(here.clone()));
    assert_eq!(world.open().replay_position(Some(&who)), Some(here));
    assert_eq!(world.open().replay_position(None), None, "everybody stands somewhere else");
    rappel.keep_replay_position(Some(&who), None);
    assert_eq!(world.open().replay_position(Some(&who)), None);
    drop(rappel);
    assert_eq!((world.snapshot(), snapshot(&packs)), before);
    // Nothing stands in the way of a restore either.
    world.open().plan_restore(&reference(&second), &RestoreOptions::default()).unwrap();
}
