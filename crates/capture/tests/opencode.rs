//! Sessions of opencode, read from a database that opencode 1.18.33 filled.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test may fail loudly, and is the program that has the database open"
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rappel_capture::agents::locate::Surroundings;
use rappel_capture::agents::opencode::{Database, Reader, Told};
use rappel_capture::agents::transcripts::{Found, Item, ThoughtKind};
use rappel_store::Cancel;
use rusqlite::Connection;

const TOUR: &str = include_str!("fixtures/opencode/tour.sql");
const COMPACT: &str = include_str!("fixtures/opencode/compact.sql");
const PROJECT: &str = "/home/dev/project";
const MAIN: &str = "ses_e1179c9d1ffeWeatJg2LA24eGj";
const CHILD: &str = "ses_e11797930ffek24OLnKXi3vUif";

/// A user's database, which opencode has open.
struct Home {
    folder: tempfile::TempDir,
    connection: Connection,
}

impl Home {
    fn new(sql: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data/opencode");
        std::fs::create_dir_all(&data).unwrap();
        let connection = Connection::open(data.join("opencode.db")).unwrap();
        connection.pragma_update(None, "journal_mode", "wal").unwrap();
        connection.pragma_update(None, "foreign_keys", false).unwrap();
        let (tables, rows): (Vec<&str>, Vec<&str>) =
            statements(sql).into_iter().partition(|line| !line.starts_with("INSERT"));
        for statement in tables.into_iter().chain(rows) {
            connection.execute_batch(statement).unwrap();
        }
        Self { folder, connection }
    }

    fn database(&self) -> Database {
        let data_home = Some(self.folder.path().join("data"));
        let home = self.folder.path().to_owned();
        Database::of(&Surroundings { home, data_home, ..Surroundings::default() }).unwrap()
    }

    fn read(&self, reader: &mut Reader) -> BTreeMap<String, Vec<Found>> {
        self.read_in(reader, PROJECT)
    }

    fn read_in(&self, reader: &mut Reader, folder: &str) -> BTreeMap<String, Vec<Found>> {
        let mut all: BTreeMap<String, Vec<Found>> = BTreeMap::new();
        loop {
            let Told { sessions, more } =
                reader.read_on(&self.database(), &[Path::new(folder)], &Cancel::default()).unwrap();
            for (id, batch) in sessions {
                assert_eq!(batch.skipped, 0);
                all.entry(id).or_default().extend(batch.found);
            }
            if !more {
                return all;
            }
        }
    }

    fn set(&self, part: &str, data: &str) {
        let changed = self
            .connection
            .execute("UPDATE part SET data = ?2 WHERE id = ?1", [part, data])
            .unwrap();
        assert_eq!(changed, 1);
    }

    fn data(&self, part: &str) -> String {
        let query = "SELECT data FROM part WHERE id = ?1";
        self.connection.query_row(query, [part], |row| row.get(0)).unwrap()
    }

    fn beside(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let folder = self.folder.path().join("data/opencode");
        let mut files: Vec<PathBuf> =
            std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files.into_iter().map(|path| (path.clone(), std::fs::read(&path).unwrap())).collect()
    }
}

/// The statements of a script; none has a `;` at the end of a line within.
fn statements(sql: &str) -> Vec<&str> {
    sql.split_inclusive(";\n").collect()
}

/// One line per item.
fn story(found: &[Found]) -> Vec<String> {
    let line = |found: &Found| match &found.item {
        Item::Session(session) => {
            let parent = session.parent.as_deref().map(|_| " of another").unwrap_or_default();
            format!("session{parent} {}", session.version.as_deref().unwrap_or_default())
        }
        Item::Prompt { id, text } => format!("prompt {} {text}", id.is_some()),
        Item::Thought { kind, text, .. } => format!("{} {text}", kind.as_str()),
        Item::ToolStarted { id, tool, .. } => format!("start {id} {tool}"),
        Item::ToolFinished { id, success, error, .. } => {
            format!("end {id} {success} {}", error.as_deref().unwrap_or_default())
        }
        Item::FilesChanged { paths, .. } => format!("files {}", paths.join(" ")),
        Item::Tokens(tokens) => {
            format!("tokens {} {} {}", tokens.input, tokens.output, tokens.cache_read)
        }
        Item::Compaction { trigger, .. } => format!("compaction {trigger:?}"),
        Item::Title { text } => format!("title {text}"),
    };
    found.iter().map(line).collect()
}

#[test]
fn a_session_is_told_as_it_happened() {
    let home = Home::new(TOUR);
    let told = home.read(&mut Reader::default());
    assert_eq!(told.keys().map(String::as_str).collect::<Vec<_>>(), [CHILD, MAIN]);
    let main = story(&told[MAIN]);
    assert_eq!(
        main[..12],
        [
            "session 1.18.33",
            "prompt true \"[step:edit] Make the greeting.\"",
            "reasoning First I write the greeting.",
            "text I will write greeting.txt.",
            "start call_edit_0_860ac4_0 write",
            "files /home/dev/project/greeting.txt",
            "end call_edit_0_860ac4_0 true ",
            "tokens 800 50 200",
            "reasoning Now the edit.",
            "start call_edit_1_860ac4_0 edit",
            "files /home/dev/project/greeting.txt",
            "end call_edit_1_860ac4_0 true ",
        ]
    );
    assert!(
        main.contains(&"end call_destroy_1_860ac4_0 false exit code 1".to_owned()),
        "{main:#?}"
    );
    assert_eq!(main.iter().filter(|line| line.starts_with("prompt")).count(), 4);
    // The subagent's work is its own session's.
    let child = story(&told[CHILD]);
    assert_eq!(child[0], "session of another 1.18.33");
    assert!(child[1].starts_with("prompt true [step:sub]"), "{child:#?}");
    assert!(child.contains(&"files /home/dev/project/note.txt".to_owned()));
    // Each at its own time, in order.
    let times: Vec<_> = told[MAIN].iter().map(|found| found.at.unwrap()).collect();
    assert!(times[1] < times[times.len() - 1]);
}

#[test]
fn a_compaction_and_its_summary_are_told_and_no_prompt_of_opencodes_own() {
    let home = Home::new(COMPACT);
    let told = home.read(&mut Reader::default());
    let found = told.values().next().unwrap();
    let lines = story(found);
    let at = lines.iter().position(|line| line == "compaction Some(\"auto\")").unwrap();
    assert!(lines[at + 1].starts_with("summary <summary>"), "{lines:#?}");
    assert_eq!(lines.iter().filter(|line| line.starts_with("prompt")).count(), 2);
    let kinds = found.iter().filter_map(|found| match &found.item {
        Item::Thought { kind, .. } => Some(*kind),
        _ => None,
    });
    assert_eq!(kinds.filter(|kind| *kind == ThoughtKind::Summary).count(), 1);
}

#[test]
fn reading_leaves_no_trace() {
    let home = Home::new(TOUR);
    let before = home.beside();
    home.read(&mut Reader::default());
    assert!(home.beside() == before);
    // Nor in a database that nobody has open.
    let copy = tempfile::tempdir().unwrap();
    let data = copy.path().join("opencode");
    std::fs::create_dir(&data).unwrap();
    for (path, bytes) in before.iter().filter(|(path, _)| !path.ends_with("opencode.db-shm")) {
        std::fs::write(data.join(path.file_name().unwrap()), bytes).unwrap();
    }
    let closed = Database { path: data.join("opencode.db") };
    let told =
        Reader::default().read_on(&closed, &[Path::new(PROJECT)], &Cancel::default()).unwrap();
    assert_eq!(told.sessions.len(), 2);
    assert_eq!(std::fs::read_dir(&data).unwrap().count(), 2);
}

#[test]
fn what_is_new_is_told_once_and_what_was_not_finished_when_it_is() {
    let (tables, rows): (Vec<&str>, Vec<&str>) =
        statements(TOUR).into_iter().partition(|line| !line.starts_with("INSERT"));
    let home = Home::new(&tables.concat());
    let mut reader = Reader::default();
    let mut told: BTreeMap<String, Vec<Found>> = BTreeMap::new();
    // opencode writes its tables by turns; a reading comes after every row.
    let table = |name: &str| rows.iter().filter(|row| row.starts_with(name)).collect::<Vec<_>>();
    let [sessions, messages, parts] =
        ["INSERT INTO session", "INSERT INTO message", "INSERT INTO part"].map(table);
    for row in sessions.into_iter().chain(messages) {
        home.connection.execute_batch(row).unwrap();
        assert!(home.read(&mut reader).is_empty());
    }
    for row in parts {
        home.connection.execute_batch(row).unwrap();
        for (id, found) in home.read(&mut reader) {
            let new = found.into_iter().filter(|found| !matches!(found.item, Item::Session(_)));
            told.entry(id).or_default().extend(new);
        }
        let kept = serde_json::to_string(&reader).unwrap();
        reader = serde_json::from_str(&kept).unwrap();
    }
    let at_once = Home::new(TOUR).read(&mut Reader::default());
    for (id, found) in at_once {
        assert_eq!(story(&told[&id]), story(&found)[1..]);
    }
    assert!(home.read(&mut reader).is_empty());

    // A call runs, and ends.
    let part = "prt_1ee868d64001U0YGJs6Kdr70Lw";
    let ended = home.data(part);
    let running = ended.replace("\"completed\"", "\"running\"");
    let other = Home::new(TOUR);
    other.set(part, &running);
    let mut reader = Reader::default();
    let first = story(&other.read(&mut reader)[MAIN]);
    assert!(first.contains(&"start call_delegate_1_860ac4_0 bash".to_owned()));
    assert!(!first.iter().any(|line| line.starts_with("end call_delegate_1")));
    other.set(part, &ended);
    let then = story(&other.read(&mut reader)[MAIN]);
    assert_eq!(
        then[1..],
        ["start call_delegate_1_860ac4_0 bash", "end call_delegate_1_860ac4_0 true "]
    );
    assert!(other.read(&mut reader).is_empty());
}

#[test]
fn sessions_of_other_folders_are_not_told() {
    let home = Home::new(TOUR);
    let mut reader = Reader::default();
    assert!(home.read_in(&mut reader, "/home/dev/project2").is_empty());
    assert!(home.read_in(&mut reader, "/home/dev/project/sub").is_empty());
    assert_eq!(home.read_in(&mut Reader::default(), "/home/dev").len(), 2);
}

#[test]
fn a_database_whose_rows_were_numbered_anew_is_told_again() {
    let home = Home::new(TOUR);
    let mut reader = Reader::default();
    home.read(&mut reader);
    // The user deletes the newest session; another one takes its row ids.
    let delete = format!(
        "DELETE FROM part WHERE session_id = '{MAIN}' AND rowid > 60; \
         INSERT INTO part VALUES ('prt_new', 'msg_1ee86c9d50012iJmJNjLyKVFm6', '{MAIN}', 1795003173999, 1795003173999, \
         '{{\"type\":\"text\",\"text\":\"New words.\",\"time\":{{\"start\":1795003173999,\"end\":1795003173999}}}}')"
    );
    home.connection.execute_batch(&delete).unwrap();
    let told = home.read(&mut reader);
    let lines = story(&told[MAIN]);
    assert_eq!(lines.last().unwrap(), "text New words.");
    assert_eq!(lines.iter().filter(|line| line.starts_with("prompt")).count(), 4);
}

#[test]
fn long_rows_that_run_over_many_pages_are_read() {
    let home = Home::new(TOUR);
    let words = "word ".repeat(40_000);
    let part = "prt_1ee864dad001SiaQtTyVA0RQLa";
    home.set(part, &home.data(part).replace("The greeting is made.", &words));
    let told = home.read(&mut Reader::default());
    let long = told[MAIN].iter().find(|found| found.cut > 0).unwrap();
    let Item::Thought { text, .. } = &long.item else { panic!("{long:?}") };
    assert_eq!(text.len() as u64 + long.cut, words.len() as u64);
}

#[test]
fn what_is_no_database_and_what_has_other_tables_is_no_session() {
    let home = Home::new(TOUR);
    home.connection.execute_batch("DROP TABLE part").unwrap();
    assert!(home.read(&mut Reader::default()).is_empty());
    let path = home.folder.path().join("nothing.db");
    std::fs::write(&path, "something else, and long enough to be looked at".repeat(9)).unwrap();
    let read = Reader::default().read_on(&Database { path }, &[], &Cancel::default());
    assert!(read.unwrap_err().to_string().contains("nothing.db"));
}

#[test]
fn damage_is_an_error_and_never_more() {
    let home = Home::new(TOUR);
    home.connection.pragma_update(None, "journal_mode", "delete").unwrap();
    let path = home.database().path;
    let whole = std::fs::read(&path).unwrap();
    let copy = tempfile::tempdir().unwrap();
    let mut seed = 1u64;
    let mut random = move || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize
    };
    for _ in 0..2000 {
        let mut bytes = whole.clone();
        for _ in 0..=random() % 8 {
            let at = 100 + random() % (bytes.len() - 100);
            bytes[at] = random() as u8;
        }
        let path = copy.path().join("opencode.db");
        std::fs::write(&path, &bytes).unwrap();
        // Whatever it says, it ends.
        let database = Database { path };
        let mut reader = Reader::default();
        let _ = reader.read_on(&database, &[Path::new(PROJECT)], &Cancel::default());
    }
}
