//! Sessions of opencode, which are rows of one database, in the journals.

use std::path::PathBuf;

use rappel::types::agents::{SessionId, SessionState, SessionStatus};
use rappel::{OpenOptions, Rappel, RestoreOptions, SaveOptions, Surroundings};
use rappel_testing::Project;
use rusqlite::Connection;

use crate::support::{World, reference};

const TOUR: &str = include_str!("../../../capture/tests/fixtures/opencode/tour.sql");
const MAIN: &str = "opencode:ses_e1179c9d1ffeWeatJg2LA24eGj";
const CHILD: &str = "opencode:ses_e11797930ffek24OLnKXi3vUif";

/// A project in which opencode worked.
struct Opencode {
    world: World,
    user: tempfile::TempDir,
    database: Connection,
}

impl Opencode {
    fn new() -> Self {
        let world = World::new(Project::new().file("a", "a"));
        let user = tempfile::tempdir().unwrap();
        let data = user.path().join(".local/share/opencode");
        std::fs::create_dir_all(&data).unwrap();
        let database = Connection::open(data.join("opencode.db")).unwrap();
        database.pragma_update(None, "journal_mode", "wal").unwrap();
        let root = world.project.root().canonicalize().unwrap();
        database.pragma_update(None, "foreign_keys", false).unwrap();
        database.execute_batch(&TOUR.replace("/home/dev/project", root.to_str().unwrap())).unwrap();
        Self { world, user, database }
    }

    fn open(&self) -> Rappel {
        let agents = Some(Surroundings::of(self.user.path()));
        Rappel::open(OpenOptions { agents, ..self.world.options() }).unwrap()
    }

    fn save(&self) -> String {
        self.world.clock.advance(61_000);
        let saved = self.open().save(&SaveOptions::default()).unwrap();
        assert!(saved.notes.is_empty(), "{:?}", saved.notes);
        saved.checkpoint.manifest.id.to_string()
    }

    fn state(&self, session: &str) -> SessionState {
        self.open().state_now(&id(session), u64::MAX).unwrap().state
    }

    fn events(&self, session: &str) -> u64 {
        self.open().session(&id(session)).unwrap().events
    }

    fn say(&self, part: &str, text: &str) {
        let data = serde_json::json!({"type": "text", "text": text, "time": {"start": 1_795_003_180_000u64, "end": 1_795_003_180_001u64}});
        let session = MAIN.strip_prefix("opencode:").unwrap();
        self.database
            .execute(
                "INSERT INTO part VALUES (?1, 'msg_1ee86c9d50012iJmJNjLyKVFm6', ?2, 1795003180000, 1795003180001, ?3)",
                [part, session, &data.to_string()],
            )
            .unwrap();
    }

    fn files(&self) -> Vec<(PathBuf, u64)> {
        let folder = self.user.path().join(".local/share/opencode");
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
        let mut files: Vec<_> =
            entries.map(|entry| (entry.path(), entry.metadata().unwrap().len())).collect();
        files.sort();
        files
    }
}

fn id(session: &str) -> SessionId {
    session.parse().unwrap()
}

#[test]
fn a_save_takes_what_opencode_did_into_the_journal() {
    let opencode = Opencode::new();
    let before = opencode.files();
    opencode.save();
    let state = opencode.state(MAIN);
    assert_eq!(state.prompts.len(), 4);
    assert_eq!(state.prompts.recent[0].text, "\"[step:edit] Make the greeting.\"");
    let thoughts: Vec<_> = state.thought_chain.recent.iter().map(|it| &it.content).collect();
    assert!(thoughts.iter().any(|it| *it == "First I write the greeting."), "{thoughts:?}");
    let calls: Vec<_> = state.tool_state.done.recent.iter().map(|it| it.id.as_str()).collect();
    assert!(calls.contains(&"call_edit_0_860ac4_0"), "{calls:?}");
    assert!(calls.contains(&"call_destroy_2_860ac4_0"));
    assert!(state.tool_state.running.is_empty());
    // The subagent is a session below it.
    let child = opencode.open().session(&id(CHILD)).unwrap();
    assert_eq!(child.parent, Some(id(MAIN)));
    // A session of opencode can be taken up again.
    let main = opencode.open().session(&id(MAIN)).unwrap();
    let resume = rappel::resume_command(&main).unwrap();
    assert_eq!(resume, ["opencode", "--session", "ses_e1179c9d1ffeWeatJg2LA24eGj"]);
    assert_eq!(opencode.files(), before);
}

#[test]
fn only_what_is_new_is_read_and_told() {
    let opencode = Opencode::new();
    opencode.save();
    let events = opencode.events(MAIN);
    opencode.save();
    assert_eq!(opencode.events(MAIN), events);
    opencode.say("prt_new", "One word more.");
    opencode.save();
    let thoughts = opencode.state(MAIN).thought_chain;
    assert_eq!(thoughts.recent.last().unwrap().content, "One word more.");
    // The thought, and how far that was read.
    assert_eq!(opencode.events(MAIN), events + 2);
    // A cache that was lost costs a reading and adds nothing.
    std::fs::remove_dir_all(opencode.world.home.path().join("cache")).unwrap();
    opencode.save();
    assert_eq!(opencode.events(MAIN), events + 2);
}

#[test]
fn a_restore_sets_the_journal_back_and_leaves_the_database_alone() {
    let opencode = Opencode::new();
    let first = opencode.save();
    opencode.say("prt_new", "One word more.");
    opencode.world.write("a", "b");
    opencode.save();
    let before = opencode.files();
    opencode.world.clock.advance(1000);
    opencode.open().restore(&reference(&first), &RestoreOptions::default()).unwrap();
    assert_eq!(opencode.files(), before);
    let thoughts = opencode.state(MAIN).thought_chain;
    assert_ne!(thoughts.recent.last().unwrap().content, "One word more.");
    // What was set back is not told again.
    opencode.save();
    let thoughts = opencode.state(MAIN).thought_chain;
    assert_ne!(thoughts.recent.last().unwrap().content, "One word more.");
}

#[test]
fn a_database_that_cannot_be_read_is_told_and_the_save_is_made() {
    let opencode = Opencode::new();
    drop(opencode.database.execute_batch("PRAGMA journal_mode = delete"));
    let path = opencode.user.path().join(".local/share/opencode/opencode.db");
    std::fs::write(&path, "no database at all".repeat(20)).unwrap();
    let saved = opencode.open().save(&SaveOptions::default()).unwrap();
    assert!(saved.notes.iter().any(|note| note.contains("opencode")), "{:?}", saved.notes);
    assert!(saved.checkpoint.created);
}

#[test]
fn a_session_that_is_silent_for_a_day_is_over() {
    let opencode = Opencode::new();
    opencode.save();
    let ended = opencode.open().session(&id(MAIN)).unwrap().status;
    opencode.world.clock.advance(4 * 24 * 60 * 60 * 1000);
    opencode.save();
    let now = opencode.open().session(&id(MAIN)).unwrap().status;
    assert!(ended.is_live() || ended == SessionStatus::Completed);
    assert_eq!(now, SessionStatus::Completed);
}
