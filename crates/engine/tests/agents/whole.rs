//! Whole sessions: every position of them, through snapshots, deletions, rebuilds and compactions.

use proptest::prelude::*;
use rappel::types::Trigger;
use rappel::types::agents::{Event, SessionState, SessionStatus};
use rappel::{ListFilter, Notice, Rappel, SaveOptions, TemporalQuery};
use rappel_testing::Project;

use super::journal::{line, note, start};
use crate::support::World;

fn at_event(rappel: &Rappel, number: u64) -> SessionState {
    let query = TemporalQuery { event: Some(number), ..TemporalQuery::default() };
    rappel.query_at(&query).unwrap().state
}

/// One of the things that happen, by a number.
fn step(number: u64, choice: u8) -> String {
    let of = number.saturating_sub(u64::from(choice) % 7 + 1);
    match choice % 12 {
        0 => format!(
            r#"{{"kind":"hypothesis","id":"h{number}","text":"guess {number}","confidence":0.{choice}}}"#
        ),
        1 => format!(r#"{{"kind":"hypothesis","id":"h{of}","status":"rejected"}}"#),
        2 => {
            format!(r#"{{"kind":"evidence","text":"e","for":"h{of}","refutes":true,"weight":0.9}}"#)
        }
        3 => format!(r#"{{"kind":"belief","id":"b{number}","text":"belief","confidence":0.8}}"#),
        4 => format!(r#"{{"kind":"belief","id":"b{of}","confidence":0.2}}"#),
        5 => format!(r#"{{"kind":"gap","id":"g{number}","text":"why {number}"}}"#),
        6 => format!(r#"{{"kind":"gap","id":"g{of}","filled":"so"}}"#),
        7 => format!(
            r#"{{"kind":"tool","tool":"Bash","id":"x{number}","input":{{}},"started":true}}"#
        ),
        8 => format!(r#"{{"kind":"tool","id":"x{of}","finished":true,"output":"{number}"}}"#),
        9 => format!(r#"{{"kind":"context","key":"k{}","value":{number}}}"#, choice % 5),
        10 => format!(
            r#"{{"kind":"note","text":"note {number} {}"}}"#,
            "x".repeat(usize::from(choice) * 8)
        ),
        _ => format!(
            r#"{{"kind":"thought","text":"thought {number} {}"}}"#,
            "y".repeat(usize::from(choice) * 16)
        ),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, ..ProptestConfig::default() })]

    #[test]
    fn a_stored_state_and_what_followed_is_the_fold_from_the_start(choices in prop::collection::vec(any::<u8>(), 200..420)) {
        let world = World::new(Project::in_memory());
        let rappel = world.open();
        let told = rappel.subscribe();
        let session = start(&rappel, "s1");
        for (number, choice) in choices.iter().enumerate() {
            world.clock.advance(500);
            // What makes no sense is refused, and leaves nothing.
            let _ = rappel.record(&session, line(&step(number as u64 + 10, *choice)));
        }
        let events: Vec<Event> = told
            .try_iter()
            .filter_map(|notice| match notice {
                Notice::Event { event, .. } => Some(*event),
                _ => None,
            })
            .collect();
        let other = world.open();
        let mut state = SessionState::new(session.clone());
        let mut known = events.iter().peekable();
        // Checkpoints with files are told as such, their events are not: those are between.
        while let Some(event) = known.next() {
            state.apply(event);
            if known.peek().is_none_or(|next| next.number == event.number + 1) && event.number % 17 == 0 {
                prop_assert_eq!(at_event(&other, event.number), state.clone(), "after {}", event.number);
            } else if known.peek().is_some_and(|next| next.number != event.number + 1) {
                state = at_event(&rappel, known.peek().map_or(0, |next| next.number - 1));
            }
        }
        prop_assert_eq!(other.state_now(&session, u64::MAX).unwrap().state, rappel.state_now(&session, u64::MAX).unwrap().state);
    }
}

#[test]
fn deleting_a_checkpoint_changes_no_other_ones_state_and_neither_does_losing_the_index() {
    let world = World::new(Project::in_memory());
    let rappel = world.open();
    let session = start(&rappel, "s1");
    let mut made = Vec::new();
    for round in 0..6 {
        for number in 0..40 {
            rappel.record(&session, note(&format!("{round} {number}"))).unwrap();
        }
        world.clock.advance(1000);
        let options = SaveOptions {
            session: Some("s1".into()),
            message: Some(format!("round {round}")),
            ..SaveOptions::default()
        };
        made.push(rappel.save(&options).unwrap().checkpoint.manifest.id.to_string());
    }
    let state = |rappel: &Rappel, id: &str| {
        let checkpoint = Some(id.parse().unwrap());
        rappel.query_at(&TemporalQuery { checkpoint, ..TemporalQuery::default() }).unwrap().state
    };
    let before: Vec<SessionState> = made.iter().map(|id| state(&rappel, id)).collect();
    for gone in [0, 3] {
        rappel.delete(&[made[gone].parse().unwrap()], true).unwrap();
    }
    rappel.gc(true, false).unwrap();
    drop(rappel);
    std::fs::remove_file(world.home.path().join("index.db")).unwrap();
    let rappel = world.open();
    for kept in [1, 2, 4, 5] {
        assert_eq!(state(&rappel, &made[kept]), before[kept], "{}", made[kept]);
    }
    assert_eq!(rappel.state_now(&session, u64::MAX).unwrap().state.notes.len(), 240);
    assert!(rappel.verify(None).unwrap().is_clean());
}

#[test]
fn an_hour_of_work_makes_ten_checkpoints_with_files_and_is_rebuilt_from_them() {
    let world = World::new(Project::in_memory());
    let rappel = world.open();
    let session = start(&rappel, "s1");
    for number in 0..500 {
        world.clock.advance(7200);
        world.write(&format!("src/{}.rs", number % 20), format!("// step {number}"));
        rappel
            .record(&session, line(&format!(r#"{{"kind":"thought","text":"step {number}"}}"#)))
            .unwrap();
    }
    world.clock.advance(1000);
    rappel.end_session(&session, SessionStatus::Completed, None).unwrap();
    let listing = rappel.list(&ListFilter::default()).unwrap();
    assert!(listing.total >= 10, "{}", listing.total);
    let timed =
        listing.checkpoints.iter().filter(|one| one.manifest.trigger == Trigger::TimePassed);
    assert!(timed.count() >= 9);
    // The last checkpoint alone gives the whole session back.
    let last = listing.checkpoints[0].manifest.clone();
    assert_eq!(last.trigger, Trigger::ExecutionCompleted);
    let checkpoint = Some(last.id.to_string().parse().unwrap());
    let rebuilt =
        world.open().query_at(&TemporalQuery { checkpoint, ..TemporalQuery::default() }).unwrap();
    assert_eq!(rebuilt.state, rappel.state_now(&session, u64::MAX).unwrap().state);
    assert_eq!(rebuilt.state.thought_chain.len(), 500);
    assert!(last.metadata["duration_ms"].as_u64().unwrap() >= 3_600_000);
}

#[test]
fn a_brief_after_a_compaction_names_everything_open_and_ruled_out() {
    let world = World::new(Project::in_memory());
    let rappel = world.open();
    let session = start(&rappel, "s1");
    let (mut open, mut ruled_out) = (Vec::new(), Vec::new());
    for number in 0..500 {
        match number % 25 {
            0 => {
                let text = format!(
                    r#"{{"kind":"hypothesis","text":"guess number {number}","confidence":0.5}}"#
                );
                open.push(rappel.record(&session, line(&text)).unwrap().event.id.unwrap());
            }
            1 if number % 50 == 1 => {
                let id = open.pop().unwrap();
                let text = format!(
                    r#"{{"kind":"hypothesis","id":"{id}","status":"rejected","reason":"no"}}"#
                );
                rappel.record(&session, line(&text)).unwrap();
                ruled_out.push(id);
            }
            _ => drop(rappel.record(&session, note(&format!("step {number}"))).unwrap()),
        }
        if number == 250 {
            let made = rappel.record(&session, line(r#"{"kind":"compaction"}"#)).unwrap();
            let made = rappel.show(&made.checkpoints[0].to_string().parse().unwrap()).unwrap();
            assert_eq!(made.manifest.trigger, Trigger::ContextCompaction);
            assert!(made.manifest.holds_files());
        }
    }
    let text = world.open().recall(&session).unwrap().to_text(8000);
    assert!(text.chars().count() <= 8000);
    for id in open.iter().chain(&ruled_out) {
        assert!(text.contains(id.as_str()), "{id} is not in\n{text}");
    }
}
