//! What a program that embeds the library has of its own.

use std::sync::{Arc, Mutex};

use rappel::types::Trigger;
use rappel::types::agents::SessionStatus;
use rappel::{Connected, ConnectedError, ListFilter, Notice, OpenOptions, Rappel, SaveOptions};
use rappel_testing::Project;

use super::journal::{line, note, start};
use crate::support::{World, reference};

/// A board of one line.
#[derive(Clone, Default)]
struct Board(Arc<Mutex<String>>);

impl Board {
    fn set(&self, text: &str) {
        text.clone_into(&mut self.0.lock().unwrap());
    }

    fn get(&self) -> String {
        self.0.lock().unwrap().clone()
    }
}

impl Connected for Board {
    fn name(&self) -> &'static str {
        "board"
    }

    fn snapshot(&self) -> Result<Vec<u8>, ConnectedError> {
        match self.get().as_str() {
            "broken" => Err("the board is broken".into()),
            text => Ok(text.as_bytes().to_vec()),
        }
    }

    fn restore(&self, snapshot: &[u8]) -> Result<(), ConnectedError> {
        self.set(std::str::from_utf8(snapshot)?);
        Ok(())
    }
}

#[test]
fn a_connected_system_is_captured_and_restored_with_everything_else() {
    let world = World::new(Project::in_memory());
    world.write("a.txt", "one");
    let board = Board::default();
    let rappel = world.open();
    rappel.connect(board.clone());
    let session = start(&rappel, "s1");
    board.set("first");
    let options = SaveOptions { session: Some("s1".into()), ..SaveOptions::default() };
    let then = rappel.save(&options).unwrap().checkpoint.manifest;
    assert!(then.agents.as_ref().unwrap().connected.contains_key("board"));
    board.set("second");
    rappel.record(&session, note("later")).unwrap();
    world.clock.advance(1000);

    let (found, report) = rappel.resume_from(&reference(then.id.as_str()), None).unwrap();
    assert_eq!(board.get(), "first");
    assert!(found.state.notes.is_empty() && report.warnings.is_empty(), "{report:?}");
    let step = rappel.next_undo().unwrap();
    rappel.step(&step, false, &rappel::RestoreOptions::default()).unwrap();
    assert_eq!(board.get(), "second");

    board.set("broken");
    world.clock.advance(61_000);
    let partial = rappel.save(&options).unwrap().checkpoint.manifest;
    assert!(partial.partial && partial.partial_reasons[0].reason.contains("broken"), "{partial:?}");
    // One of state alone, which is part of an event's own commit, says so too.
    rappel.record(&session, line(r#"{"kind":"gap","id":"g","text":"why"}"#)).unwrap();
    let made = rappel.record(&session, line(r#"{"kind":"gap","id":"g","filled":"so"}"#)).unwrap();
    let made = rappel.show(&reference(made.checkpoints[0].as_str())).unwrap().manifest;
    assert!(made.partial && !made.holds_files(), "{made:?}");
}

#[test]
fn a_program_without_a_folder_has_sessions_and_checkpoints() {
    let home = tempfile::tempdir().unwrap();
    let open = || Rappel::open(OpenOptions::detached("my agent", home.path())).unwrap();
    let rappel = open();
    let session = start(&rappel, "s1");
    rappel
        .record(&session, line(r#"{"kind":"belief","id":"b","text":"x","confidence":0.9}"#))
        .unwrap();
    rappel.end_session(&session, SessionStatus::Completed, None).unwrap();
    let all = ListFilter { all: true, ..ListFilter::default() };
    let listing = open().list(&all).unwrap();
    assert!(listing.checkpoints.iter().all(|one| !one.manifest.holds_files()));
    assert_eq!(listing.checkpoints[0].manifest.trigger, Trigger::ExecutionCompleted);
    assert!(open().state_now(&session, u64::MAX).unwrap().state.beliefs.get("b").is_some());
}

#[test]
fn listeners_are_told_what_happens() {
    let world = World::new(Project::in_memory());
    let rappel = world.open();
    let told = rappel.subscribe();
    let session = start(&rappel, "s1");
    rappel.record(&session, note("x")).unwrap();
    assert_eq!(rappel.auto_checkpoint(Trigger::TimePassed).unwrap(), None, "it is too early");
    world.clock.advance(301_000);
    let timed = rappel.auto_checkpoint(Trigger::TimePassed).unwrap().unwrap();
    assert_eq!(rappel.auto_checkpoint(Trigger::ToolExecuted).unwrap(), None, "it is off");
    let notices: Vec<Notice> = told.try_iter().collect();
    let checkpoint = |notice: &&Notice| matches!(notice, Notice::Checkpoint { checkpoint, .. } if *checkpoint == timed);
    assert_eq!(notices.iter().filter(checkpoint).count(), 1);
    let events = notices.iter().filter(|notice| matches!(notice, Notice::Event { .. }));
    assert_eq!(events.count(), 2);
}
