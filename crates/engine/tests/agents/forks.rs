//! Restoring the agents facet: journals go on as forks, and nothing that happened is lost.

use rappel::types::Facet;
use rappel::types::agents::{Body, ProcessId, SessionStatus};
use rappel::{Rappel, RestoreOptions, SaveOptions, SessionStart, TemporalQuery};
use rappel_testing::Project;

use super::journal::{line, note, start};
use crate::support::{World, reference};

fn agents_only() -> RestoreOptions {
    RestoreOptions { only: Some([Facet::Agents].into()), ..RestoreOptions::default() }
}

fn save(rappel: &Rappel, session: &str, message: &str) -> String {
    let options = SaveOptions {
        session: Some(session.into()),
        message: Some(message.into()),
        ..SaveOptions::default()
    };
    rappel.save(&options).unwrap().checkpoint.manifest.id.to_string()
}

fn notes(rappel: &Rappel, session: &str) -> Vec<String> {
    let state = rappel.state_now(&session.parse().unwrap(), u64::MAX).unwrap().state;
    state.notes.iter().map(|note| note.text.clone()).collect()
}

#[test]
fn a_restore_sets_sessions_back_and_what_came_later_stays_readable() {
    let world = World::new(Project::in_memory());
    world.write("a.txt", "one");
    let rappel = world.open();
    let session = start(&rappel, "s1");
    rappel.record(&session, note("before")).unwrap();
    let then = save(&rappel, "s1", "then");
    let late = rappel.record(&session, note("after")).unwrap().event.number;
    world.write("a.txt", "two");

    world.clock.advance(1000);
    let plan = rappel.plan_restore(&reference(&then), &RestoreOptions::default()).unwrap();
    assert_eq!(plan.summary.agents.as_deref(), Some("1 session set back"));
    rappel.restore(&reference(&then), &RestoreOptions::default()).unwrap();
    assert_eq!(notes(&rappel, "s1"), ["before"]);
    assert_eq!(world.read("a.txt"), "one");

    // What happened later is still there, on the fork that it belongs to.
    let query = TemporalQuery { event: Some(late), ..TemporalQuery::default() };
    let old = rappel.query_at(&query).unwrap();
    assert_eq!(old.state.notes.len(), 2);

    // The session goes on on its new fork, in this process and in others.
    rappel.record(&session, note("another way")).unwrap();
    world.open().record(&session, note("further")).unwrap();
    assert_eq!(notes(&rappel, "s1"), ["before", "another way", "further"]);
    assert_eq!(rappel.session(&session).unwrap().fork, 1);

    // And undo goes back to what was there before the restore.
    let rappel = world.open();
    let step = rappel.next_undo().unwrap();
    rappel.step(&step, false, &RestoreOptions::default()).unwrap();
    assert_eq!(notes(&rappel, "s1"), ["before", "after"]);
    assert_eq!(world.read("a.txt"), "two");
    assert!(rappel.verify(None).unwrap().is_clean());
}

#[test]
fn only_agents_leaves_the_files_alone_and_takes_checkpoints_of_state() {
    let world = World::new(Project::in_memory());
    world.write("a.txt", "one");
    let rappel = world.open();
    let session = start(&rappel, "s1");
    rappel.record(&session, line(r#"{"kind":"gap","id":"g","text":"why"}"#)).unwrap();
    let done = rappel.record(&session, line(r#"{"kind":"gap","id":"g","filled":"so"}"#)).unwrap();
    let state_only = done.checkpoints[0].to_string();
    rappel.record(&session, note("later")).unwrap();
    world.write("a.txt", "two");
    world.clock.advance(1000);
    rappel.restore(&reference(&state_only), &agents_only()).unwrap();
    assert_eq!(world.read("a.txt"), "two");
    assert_eq!(notes(&rappel, "s1"), [] as [&str; 0]);
    let state = rappel.state_now(&session, u64::MAX).unwrap().state;
    assert!(state.gaps.get("g").unwrap().filled);
}

#[test]
fn a_late_end_of_a_call_goes_to_the_fork_that_it_began_on() {
    let world = World::new(Project::in_memory());
    let rappel = world.open();
    let session = start(&rappel, "s1");
    let then = save(&rappel, "s1", "then");
    let call = r#"{"kind":"tool","tool":"Bash","input":{},"started":true,"id":"call1"}"#;
    rappel.record(&session, line(call)).unwrap();
    world.clock.advance(1000);
    rappel.restore(&reference(&then), &agents_only()).unwrap();
    let end = rappel.record(&session, line(r#"{"kind":"tool","id":"call1","finished":true}"#));
    let end = end.unwrap().event;
    assert_eq!(end.fork, 0);
    assert!(matches!(end.body, Body::ToolFinished(_)));
    let now = rappel.state_now(&session, u64::MAX).unwrap().state;
    assert!(now.tool_state.done.is_empty() && now.tool_state.running.is_empty());
    assert_eq!(now.ignored, 0);
    // A second end is none.
    let again = rappel.record(&session, line(r#"{"kind":"tool","id":"call1","finished":true}"#));
    assert!(again.is_err());
}

#[test]
fn an_ended_session_that_is_set_back_waits_to_be_taken_up() {
    let world = World::new(Project::in_memory());
    let rappel = world.open();
    let session = start(&rappel, "s1");
    let then = save(&rappel, "s1", "then");
    rappel.end_session(&session, SessionStatus::Failed, None).unwrap();
    assert!(rappel.record(&session, note("no")).is_err());
    world.clock.advance(1000);
    rappel.restore(&reference(&then), &agents_only()).unwrap();
    assert_eq!(rappel.session(&session).unwrap().status, SessionStatus::Paused);
    rappel.record(&session, note("yes")).unwrap();
    let step = rappel.next_undo().unwrap();
    rappel.step(&step, false, &agents_only()).unwrap();
    assert_eq!(rappel.session(&session).unwrap().status, SessionStatus::Failed);
}

#[test]
fn at_a_time_the_fork_that_was_current_then_is_read() {
    let world = World::new(Project::in_memory());
    let rappel = world.open();
    let session = start(&rappel, "s1");
    let then = save(&rappel, "s1", "then");
    world.clock.advance(60_000);
    rappel.record(&session, note("first way")).unwrap();
    let first = rappel::ambient::Clock::now(&world.clock);
    world.clock.advance(60_000);
    rappel.restore(&reference(&then), &agents_only()).unwrap();
    world.clock.advance(60_000);
    rappel.record(&session, note("second way")).unwrap();
    let at = |time| {
        let query = TemporalQuery { timestamp: Some(time), ..TemporalQuery::default() };
        let state = rappel.query_at(&query).unwrap().state;
        state.notes.iter().map(|note| note.text.clone()).collect::<Vec<_>>()
    };
    assert_eq!(at(first), ["first way"]);
    assert_eq!(at(rappel::ambient::Clock::now(&world.clock)), ["second way"]);
}

#[test]
fn state_folders_are_taken_whole_and_other_programs_checkpoints_never() {
    let world = World::new(Project::in_memory());
    world.git(&["init", "-q"]);
    world.write(".gitignore", ".loki/\n.aiwg/\n");
    world.write(".loki/session.json", "{}");
    world.write(".loki/queue/pending.json", "[1]");
    world.write(".loki/state/checkpoints/cp-1/metadata.json", "theirs");
    world.write(".aiwg/ralph/checkpoints/001-checkpoint.json", "theirs");
    world.write(".aiwg/ralph/state.json", "ours");
    let id = world.save("with state");
    let rappel = world.open();
    let held: Vec<String> = rappel
        .files_of(&reference(&id))
        .unwrap()
        .iter()
        .map(|entry| entry.path.to_string())
        .collect();
    assert!(held.contains(&".loki/queue/pending.json".to_owned()), "{held:?}");
    assert!(held.contains(&".aiwg/ralph/state.json".to_owned()), "{held:?}");
    assert!(!held.iter().any(|path| path.contains("checkpoints")), "{held:?}");
    drop(rappel);
    world.write(".loki/queue/pending.json", "[]");
    world.write(".loki/state/checkpoints/cp-2/metadata.json", "new");
    world.write("code.rs", "mine");
    world.clock.advance(1000);
    let report = world.open().restore(&reference(&id), &agents_only()).unwrap();
    assert!(report.actions.iter().all(|action| action.facet == Facet::Agents), "{report:?}");
    assert_eq!(world.read(".loki/queue/pending.json"), "[1]");
    assert_eq!(world.read(".loki/state/checkpoints/cp-2/metadata.json"), "new");
    assert_eq!(world.read("code.rs"), "mine");
}

#[test]
fn going_back_twice_to_the_same_place_adds_nothing() {
    let world = World::new(Project::in_memory());
    let rappel = world.open();
    let session = start(&rappel, "s1");
    let then = save(&rappel, "s1", "then");
    rappel.record(&session, note("later")).unwrap();
    for _ in 0..3 {
        world.clock.advance(1000);
        rappel.restore(&reference(&then), &agents_only()).unwrap();
    }
    let view = rappel.session(&session).unwrap();
    assert_eq!((view.fork, view.status), (1, SessionStatus::Running));
}

#[test]
fn another_workspaces_session_is_not_in_a_checkpoint_and_not_moved_by_it() {
    let world = World::new(Project::in_memory());
    let one = world.open();
    let session = start(&one, "s1");
    let elsewhere = Project::in_memory().file("b.txt", "b");
    let other = Rappel::open(world.options_at(elsewhere.root())).unwrap();
    let theirs = save(&other, "s1", "of another folder");
    other.record(&session, line(r#"{"kind":"gap","id":"g","text":"x"}"#)).unwrap();
    let filled = other.record(&session, line(r#"{"kind":"gap","id":"g","filled":"y"}"#)).unwrap();
    assert!(filled.checkpoints.is_empty());
    one.record(&session, note("work")).unwrap();
    world.clock.advance(1000);
    other.restore(&reference(&theirs), &RestoreOptions::default()).unwrap();
    assert_eq!(notes(&one, "s1"), ["work"]);
    assert_eq!(one.session(&session).unwrap().fork, 0);
}

#[test]
fn undo_goes_to_where_a_session_stood_whatever_is_recorded_meanwhile() {
    let world = World::new(Project::new().file("a.txt", "one"));
    let rappel = world.open();
    let session = start(&rappel, "s1");
    let then = save(&rappel, "s1", "then");
    world.clock.advance(1000);
    let done = std::sync::atomic::AtomicBool::new(false);
    let told = std::thread::scope(|scope| {
        let recorder = scope.spawn(|| {
            let other = world.open();
            let mut told = Vec::new();
            let mut after = 0;
            while after < 3 {
                after += usize::from(done.load(std::sync::atomic::Ordering::Relaxed));
                let text = format!("note {}", told.len());
                told.push((other.record(&session, note(&text)).unwrap().event.fork, text));
            }
            told
        });
        // Only once it is at work.
        while notes(&rappel, "s1").len() < 3 {
            std::thread::yield_now();
        }
        rappel.restore(&reference(&then), &RestoreOptions::default()).unwrap();
        let step = rappel.next_undo().unwrap();
        rappel.step(&step, false, &RestoreOptions::default()).unwrap();
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        recorder.join().unwrap()
    });
    // What was recorded between the restore and the undo is on the fork that was current then.
    let expected = told.iter().filter(|(fork, _)| *fork != 1).map(|(_, text)| text.clone());
    assert_eq!(notes(&world.open(), "s1"), expected.collect::<Vec<_>>());
    assert_eq!(world.open().session(&session).unwrap().fork, 2);
}

#[test]
fn a_process_that_only_has_the_number_of_an_agent_is_never_ended() {
    let world = World::new(Project::in_memory());
    world.write("a.txt", "one");
    let rappel = world.open();
    let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
    let pid = child.id();
    let started = rappel::process_started(pid).unwrap();
    let same = rappel::process_id(pid).unwrap();
    assert_eq!((same.pid, same.started), (pid, started));
    // The machine was started again, and the numbers happen to be the same.
    let process = Some(ProcessId { boot: same.boot + 1, ..same });
    let session = Some("of-another-boot".parse().unwrap());
    let start = SessionStart { session, process, ..SessionStart::default() };
    let (other, _) = rappel.start_session(start).unwrap();
    assert!(rappel.session(&other).unwrap().process_gone);
    let process = Some(ProcessId { pid, started: started + 1, boot: 0 });
    let session = Some("s1".parse().unwrap());
    rappel.start_session(SessionStart { session, process, ..SessionStart::default() }).unwrap();
    let then = save(&rappel, "s1", "then");
    world.clock.advance(1000);
    assert_eq!(rappel.running_agents(None).unwrap(), []);
    let options = RestoreOptions { terminate_sessions: true, ..RestoreOptions::default() };
    rappel.restore(&reference(&then), &options).unwrap();
    assert!(child.try_wait().unwrap().is_none(), "another program was ended");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn an_agent_that_goes_on_between_plan_and_restore_is_no_other_plan() {
    let world = World::new(Project::in_memory());
    world.write("a.txt", "one");
    let rappel = world.open();
    let session = start(&rappel, "s1");
    let then = save(&rappel, "s1", "then");
    world.write("a.txt", "two");
    world.clock.advance(1000);
    let plan = rappel.plan_restore(&reference(&then), &RestoreOptions::default()).unwrap();
    world.open().record(&session, note("meanwhile")).unwrap();
    rappel.apply(&plan, &RestoreOptions::default()).unwrap();
    assert_eq!((world.read("a.txt"), notes(&rappel, "s1").len()), ("one".into(), 0));
}
