//! Periodic checkpoints, as a program of its own uses them.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test may fail loudly, and holds no database"
)]

mod support;

use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use rappel::types::Trigger;
use rappel::types::agents::payload::CommandExit;
use rappel::types::agents::{HypothesisStatus, SessionStatus};
use rappel::{
    AgentState, BoardBelief, BoardHypothesis, CheckpointData, Connected, ConnectedError, Error,
    ListFilter, Periodic, PeriodicEvent, PeriodicOptions, Rappel, RunStart, SaveOptions,
    SessionStart, TemporalQuery, latest_in, summary_of,
};
use rappel_testing::Project;
use support::{World, reference};

const HOUR: Duration = Duration::from_secs(3600);
/// Far longer than anything here takes; only a test that fails waits for it.
const LIMIT: Duration = Duration::from_secs(120);

fn world() -> World {
    let world = World::new(Project::new());
    world.write("a.txt", "one");
    world
}

fn periodic(world: &World, options: PeriodicOptions) -> (Arc<Rappel>, Periodic) {
    let rappel = Arc::new(world.open());
    let periodic = Periodic::new(rappel.clone(), options);
    (rappel, periodic)
}

/// Options with a state folder and a session.
fn options(world: &World, session: &str) -> PeriodicOptions {
    PeriodicOptions {
        state_dir: Some(world.project.path(".aiwg/iterations/001")),
        session: Some(session.into()),
        ..PeriodicOptions::default()
    }
}

fn files(world: &World) -> Vec<String> {
    let folder = world.project.path(".aiwg/iterations/001/checkpoints");
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn total(rappel: &Rappel) -> usize {
    rappel.list(&ListFilter { all: true, ..ListFilter::default() }).unwrap().checkpoints.len()
}

fn next_checkpoint(events: &Receiver<PeriodicEvent>) -> CheckpointData {
    loop {
        match events.recv_timeout(LIMIT).unwrap() {
            PeriodicEvent::Checkpoint(data) => return *data,
            PeriodicEvent::Failed { message } => panic!("{message}"),
            _ => {}
        }
    }
}

/// AI1, AI2, AI4: what is not said has the seed's values; the first checkpoint is made at once, the
/// last one by `stop`, and everybody is told.
#[test]
fn the_first_comes_at_once_and_the_last_at_the_end() {
    let defaults = PeriodicOptions::default();
    assert_eq!(defaults.interval.as_millis(), 1_800_000);
    let world = world();
    let (heard, told) = channel();
    let heard = Mutex::new(heard);
    let options = PeriodicOptions {
        session: None,
        on_checkpoint: Some(Arc::new(move |data: &CheckpointData| {
            heard.lock().unwrap().send(data.number).unwrap();
        })),
        ..options(&world, "x")
    };
    let (rappel, periodic) = periodic(&world, options);
    let events = periodic.subscribe();
    periodic.start(Some(HOUR)).unwrap();
    assert!(matches!(periodic.start(None), Err(Error::Usage { .. })), "it has begun");
    assert_eq!((files(&world).len(), total(&rappel)), (1, 1));
    world.clock.advance(90_000);
    let summary = periodic.stop().unwrap();
    assert_eq!((summary.total, summary.total_duration), (2, 90_000));
    assert_eq!(files(&world), ["001-checkpoint.json", "002-checkpoint.json"]);
    assert_eq!(told.try_iter().collect::<Vec<_>>(), [1, 2]);
    let all = periodic.all();
    assert_eq!((all[0].session_id.as_str(), all[0].duration), ("unknown", 0));
    assert_eq!(periodic.latest(), all.last().cloned());
    assert_eq!(periodic.summary(), summary);
    let triggers: Vec<Trigger> = periodic.captured().iter().map(|one| one.trigger).collect();
    assert_eq!(triggers, [Trigger::SessionStart, Trigger::SessionEnd]);
    let folder = world.project.path(".aiwg/iterations/001/checkpoints");
    let events: Vec<PeriodicEvent> = events.try_iter().collect();
    let [started, PeriodicEvent::Checkpoint(_), PeriodicEvent::Checkpoint(_), stopped] =
        &events[..]
    else {
        panic!("{events:?}")
    };
    let expected = PeriodicEvent::Started { interval: HOUR, checkpoints_dir: Some(folder) };
    assert_eq!(*started, expected);
    let PeriodicEvent::Stopped { final_checkpoint: Some(last), summary: told } = stopped else {
        panic!("{stopped:?}")
    };
    assert_eq!((Some(&**last), &**told), (all.last(), &summary));
}

/// A callback may use everything, even stop the ticks that called it.
#[test]
fn a_callback_may_stop_the_ticks() {
    let world = world();
    let shared: Arc<OnceLock<Arc<Periodic>>> = Arc::default();
    let (heard, told) = channel();
    let (seen, heard) = (shared.clone(), Mutex::new(heard));
    let options = PeriodicOptions {
        on_checkpoint: Some(Arc::new(move |data: &CheckpointData| {
            let Some(periodic) = seen.get().filter(|_| data.number == 2) else { return };
            let summary = periodic.stop().unwrap();
            heard.lock().unwrap().send(summary.total).unwrap();
        })),
        ..options(&world, "s")
    };
    let (_, periodic) = periodic(&world, options);
    let periodic = Arc::new(periodic);
    assert!(shared.set(periodic.clone()).is_ok());
    periodic.start(Some(Duration::from_millis(100))).unwrap();
    assert_eq!(told.recv_timeout(LIMIT).unwrap(), 3);
    assert_eq!(periodic.all().len(), 3);
}

/// A tick at which nothing changed writes its numbered file and makes no checkpoint.
#[test]
fn ticks_save_what_changed_and_number_all_of_them() {
    let world = world();
    let (rappel, periodic) = periodic(&world, options(&world, "s"));
    let events = periodic.subscribe();
    periodic.start(Some(Duration::from_millis(100))).unwrap();
    assert_eq!(next_checkpoint(&events).number, 1);
    let quiet = next_checkpoint(&events);
    assert_eq!((quiet.number, total(&rappel)), (2, 1));
    world.write("b.txt", "new");
    let mut ticks = 0;
    let changed = loop {
        let data = next_checkpoint(&events);
        ticks += 1;
        assert!(ticks < 50, "the change is never seen");
        if !data.files_modified.is_empty() {
            break data;
        }
    };
    assert_eq!(changed.files_modified, ["b.txt"]);
    std::fs::remove_file(world.project.path("b.txt")).unwrap();
    let summary = periodic.stop().unwrap();
    // The last one always is one. Cumulative: a file that is gone again was modified.
    assert_eq!(total(&rappel), 3);
    assert_eq!(summary.files_modified, ["b.txt"]);
    assert!(summary.checkpoints.iter().map(|one| one.number).eq(1..=summary.total));
}

/// AI5: numbers go on; a session that is taken up again goes on with its own files.
#[test]
fn numbers_go_on_from_what_is_there() {
    let world = world();
    for (session, kept) in [("first", 2), ("second", 2), ("first", 4)] {
        let (_, periodic) = periodic(&world, options(&world, session));
        periodic.start(Some(HOUR)).unwrap();
        assert_eq!(periodic.stop().unwrap().total, kept, "{session}");
    }
    assert_eq!(files(&world).len(), 6);
    std::fs::write(world.project.path(".aiwg/iterations/001/checkpoints/003-checkpoint.json"), "{")
        .unwrap();
    let folder = world.project.path(".aiwg/iterations/001");
    let summary = summary_of(&folder).unwrap();
    assert_eq!((summary.total, summary.corrupt), (5, 1));
    assert_eq!(latest_in(&folder).unwrap().unwrap().number, 6);
}

/// The numbered files are in no checkpoint, whoever makes it.
#[test]
fn numbered_files_are_not_captured() {
    let world = world();
    world.write(".aiwg/plan.md", "plan");
    let (rappel, periodic) = periodic(&world, options(&world, "s"));
    periodic.start(Some(HOUR)).unwrap();
    let by_another = world.save("by another process");
    let files = rappel.show(&reference(&by_another)).unwrap().manifest.files.unwrap();
    assert_eq!(files.count, 2, "a.txt and plan.md");
    let data = periodic.capture(7).unwrap();
    assert_eq!((data.number, periodic.capture_now().unwrap().number), (7, 8));
    assert_eq!(data.aiwg_state.files, ["plan.md"]);
    assert_eq!(data.aiwg_state.sizes["plan.md"], 4);
    assert!(data.memory.rss > data.memory.heap_used && data.memory.heap_used > 0);
    let manifest = rappel.show(&reference("latest")).unwrap().manifest;
    let process = manifest.process.unwrap();
    assert_eq!(process["rss"], data.memory.rss);
    assert_eq!(process["heap_used"], data.memory.heap_used);
}

/// AI3, AI6: what git or the scan cannot say is recorded, and the rest goes on.
#[test]
fn failures_of_git_and_scan_are_recorded_inside() {
    let world = world();
    let (_, plain) = periodic(&world, options(&world, "s"));
    plain.start(Some(HOUR)).unwrap();
    let data = plain.latest().unwrap();
    assert_eq!(data.git_status.error.as_deref(), Some("not a git repository"));
    assert_eq!(data.aiwg_state.error, None);
    plain.stop().unwrap();

    let world = World::new(Project::new());
    world.write("a.txt", "one");
    world.write(".aiwg", "a file where a folder belongs");
    world.write(".git/HEAD", "garbage\0garbage");
    world.write(".git/config", "[core]\n\trepositoryformatversion = 77\n");
    std::fs::create_dir_all(world.project.path(".git/objects")).unwrap();
    std::fs::create_dir_all(world.project.path(".git/refs")).unwrap();
    let state = tempfile::tempdir().unwrap();
    let options =
        PeriodicOptions { state_dir: Some(state.path().to_owned()), ..PeriodicOptions::default() };
    let (rappel, broken) = periodic(&world, options);
    broken.start(Some(HOUR)).unwrap();
    let data = latest_in(state.path()).unwrap().unwrap();
    assert!(data.git_status.error.is_some_and(|error| !error.is_empty()));
    let error = data.aiwg_state.error.unwrap();
    assert!(error.contains(".aiwg"), "{error}");
    assert_eq!(broken.stop().unwrap().total, 2);
    assert_eq!(total(&rappel), 2);
}

/// AI6: a file that cannot be written is an error of `capture`. The checkpoints go on, and `status`
/// tells.
#[test]
fn a_file_that_cannot_be_written_is_an_error_and_stops_nothing() {
    let world = world();
    world.write("state/checkpoints", "a file where the folder belongs");
    let options = PeriodicOptions {
        state_dir: Some(world.project.path("state")),
        ..PeriodicOptions::default()
    };
    let (rappel, periodic) = periodic(&world, options);
    let events = periodic.subscribe();
    periodic.start(Some(HOUR)).unwrap();
    let told: Vec<PeriodicEvent> = events.try_iter().collect();
    let failed = |event: &&PeriodicEvent| matches!(event, PeriodicEvent::Failed { .. });
    assert!(told.iter().any(|event| failed(&event)), "{told:?}");
    let error = periodic.capture(2).unwrap_err();
    assert!(error.to_string().contains("checkpoints"), "{error}");
    assert_eq!(total(&rappel), 2, "both are in the store");
    let status = rappel.status().unwrap();
    let told = status.reasons.iter().any(|reason| reason.starts_with("a run failed: "));
    assert!(told, "{:?}", status.reasons);
}

/// Changes that a running command made are no reason to worry: its next tick saves them.
#[test]
fn what_a_running_command_changed_is_saved_by_itself() {
    let world = world();
    world.save("first");
    let rappel = world.open();
    let run = rappel.begin_run(RunStart::default()).unwrap();
    world.write("a.txt", "two");
    // Files have the times of the real clock.
    world.clock.advance(1000 * 24 * 60 * 60 * 1000);
    let unsaved = || {
        let status = world.open().status().unwrap();
        status.reasons.iter().any(|reason| reason.contains("unsaved"))
    };
    assert!(!unsaved(), "a run is under way");
    rappel.end_run(run, CommandExit { code: Some(0), ..CommandExit::default() }).unwrap();
    assert!(unsaved(), "and now nobody saves it");
}

/// The seed's board: hypotheses and beliefs of the program's own.
#[derive(Clone, Default)]
struct Board(Arc<Mutex<AgentState>>);

impl Connected for Board {
    fn name(&self) -> &'static str {
        "board"
    }

    fn snapshot(&self) -> Result<Vec<u8>, ConnectedError> {
        Ok(format!("{:?}", self.0.lock().unwrap()).into_bytes())
    }

    fn restore(&self, _: &[u8]) -> Result<(), ConnectedError> {
        Ok(())
    }

    fn state(&self) -> Option<AgentState> {
        Some(self.0.lock().unwrap().clone())
    }
}

/// What a connected system knows is what the session knew at that checkpoint.
#[test]
fn the_callers_own_board_is_asked_compared_and_tagged() {
    let world = world();
    let rappel = world.open();
    let board = Board::default();
    rappel.connect(board.clone());
    let (session, _) = rappel.start_session(SessionStart::default()).unwrap();
    let guess = |status| BoardHypothesis {
        id: "norm".into(),
        text: "normalization is skipped".into(),
        status,
        ..BoardHypothesis::default()
    };
    board.0.lock().unwrap().hypotheses = vec![guess(HypothesisStatus::Open)];
    let save = || {
        world.clock.advance(61_000);
        let options = SaveOptions { session: Some(session.to_string()), ..SaveOptions::default() };
        rappel.save(&options).unwrap().checkpoint.manifest
    };
    let before = save();
    assert_eq!(before.tags, Vec::<String>::new());
    {
        let mut state = board.0.lock().unwrap();
        state.hypotheses = vec![guess(HypothesisStatus::Confirmed)];
        state.beliefs = vec![BoardBelief {
            id: "b1".into(),
            text: "the cache is stale".into(),
            ..BoardBelief::default()
        }];
    }
    let after = save();
    assert_eq!(after.tags, ["hypothesis_confirmed"]);
    assert_eq!(save().tags, Vec::<String>::new(), "it is told once");
    let at = |id: &str| {
        let checkpoint = Some(reference(id));
        rappel.query_at(&TemporalQuery { checkpoint, ..TemporalQuery::default() }).unwrap().state
    };
    let then = at(before.id.as_str());
    assert!(then.hypotheses.get("norm").unwrap().status.is_open());
    assert!(then.beliefs.is_empty());
    let now = at(after.id.as_str());
    assert_eq!(now.hypotheses.get("norm").unwrap().status, HypothesisStatus::Confirmed);
    let (from, to) = (reference(before.id.as_str()), reference(after.id.as_str()));
    let compared = rappel.compare(&from, &to).unwrap().agents.unwrap();
    assert_eq!(compared.all.hypothesis_changes.len(), 1, "{compared:?}");
    assert_eq!(compared.all.belief_changes.len(), 1, "{compared:?}");
    rappel.end_session(&session, SessionStatus::Completed, None).unwrap();
}
