//! Finding where something happened, and folding what belongs to others.

use rappel::types::Trigger;
use rappel::{ErrorKind, Found, ListFilter, Rappel, SaveOptions};
use rappel_testing::Project;

use crate::journal::{line, note, start};
use crate::support::{World, path, reference};
use rappel_types::Advice;
use rappel_types::advice::NameOf;

fn save(bench: &World, rappel: &Rappel, tags: &[&str]) -> String {
    bench.clock.advance(61_000);
    let tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
    let options = SaveOptions { message: Some("x".into()), tags, ..SaveOptions::default() };
    rappel.save(&options).unwrap().checkpoint.manifest.id.to_string()
}

fn everything() -> ListFilter {
    ListFilter { all: true, ..ListFilter::default() }
}

fn ids(found: &Found) -> Vec<String> {
    found.checkpoints.iter().map(|one| one.manifest.id.to_string()).collect()
}

#[test]
fn an_event_is_found_with_the_first_checkpoint_that_holds_it() {
    let bench = World::new(Project::in_memory());
    let rappel = bench.open();
    let session = start(&rappel, "s1");
    let other = start(&rappel, "s2");
    let call =
        r#"{"kind":"tool","tool":"bash","arguments":{"command":"Cargo TEST"},"success":true}"#;
    rappel.record(&session, line(call)).unwrap();
    let first = save(&bench, &rappel, &["green"]);
    let second = save(&bench, &rappel, &[]);
    rappel.record(&session, line(call)).unwrap();
    rappel.record(&other, line(call)).unwrap();
    rappel.record(&other, note("cargo test was green")).unwrap();
    let third = save(&bench, &rappel, &[]);
    rappel.record(&other, line(r#"{"kind":"tool","tool":"bash","success":true}"#)).unwrap();

    let tool = ListFilter { tool: Some("bash".into()), ..everything() };
    let found = rappel.find(&tool).unwrap();
    assert_eq!(ids(&found), [third.clone(), first.clone()]);
    assert!(!ids(&found).contains(&second));
    let places: Vec<_> =
        found.events.iter().map(|one| (&*one.session, one.checkpoint.as_deref())).collect();
    assert_eq!(
        places,
        [("s2", None), ("s2", Some(&*third)), ("s1", Some(&*third)), ("s1", Some(&*first))]
    );
    // Conditions must all hold; a session means what happened in it.
    let text = ListFilter { text: Some("cargo test".into()), ..everything() };
    assert_eq!(rappel.find(&text).unwrap().events_total, 4);
    let both = ListFilter { tool: Some("bash".into()), ..text.clone() };
    assert_eq!(rappel.find(&both).unwrap().events_total, 3);
    let in_session = ListFilter { session: Some("s1".into()), ..both };
    let found = rappel.find(&in_session).unwrap();
    assert_eq!((found.events_total, ids(&found)), (2, vec![third, first.clone()]));
    let tagged = ListFilter { tag: Some("green".into()), ..in_session };
    assert_eq!(ids(&rappel.find(&tagged).unwrap()), [first]);
    // Keys are not said.
    let key = ListFilter { text: Some("command".into()), ..everything() };
    assert_eq!(rappel.find(&key).unwrap().events_total, 0);
    // A list takes the same conditions.
    assert_eq!(rappel.list(&text).unwrap().total, 2);
}

#[test]
fn a_session_that_nobody_knows_is_not_there() {
    let bench = World::new(Project::in_memory());
    let rappel = bench.open();
    start(&rappel, "session-one");
    let asked = |session: &str| {
        bench.open().find(&ListFilter { session: Some(session.into()), ..everything() })
    };
    assert!(asked("session-one").is_ok());
    let error = asked("sesion-one").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    let meant = Advice::DidYouMean { what: NameOf::Session, names: vec!["session-one".into()] };
    assert_eq!(error.advice(), [meant]);
    assert_eq!(asked("nope").unwrap_err().advice(), [Advice::ListSessions]);
    // One that only a checkpoint knows is known.
    bench.clock.advance(61_000);
    let options = SaveOptions { session: Some("elsewhere".into()), ..SaveOptions::default() };
    rappel.save(&options).unwrap();
    assert_eq!(asked("elsewhere").unwrap().total, 1);
}

#[test]
fn what_a_call_gave_belongs_to_the_call() {
    let bench = World::new(Project::in_memory());
    let rappel = bench.open();
    let session = start(&rappel, "s1");
    let begun = line(r#"{"kind":"tool","id":"x1","tool":"bash","started":true}"#);
    rappel.record(&session, begun).unwrap();
    let done = line(r#"{"kind":"tool","id":"x1","finished":true,"result":"two TESTS failed"}"#);
    rappel.record(&session, done).unwrap();
    let wanted =
        ListFilter { tool: Some("bash".into()), text: Some("tests failed".into()), ..everything() };
    let found = rappel.find(&wanted).unwrap();
    assert_eq!(found.events[0].excerpt, "two TESTS failed");
    assert_eq!(found.events[0].id.as_deref(), Some("x1"));
    assert_eq!(found.events[0].checkpoint, None);
}

#[test]
fn a_path_is_found_where_it_changed_and_nowhere_else() {
    let bench = World::new(Project::in_memory().file("src/a", "1").file("b", "1"));
    let rappel = bench.open();
    let first = save(&bench, &rappel, &[]);
    bench.write("b", "2");
    let second = save(&bench, &rappel, &[]);
    bench.write("src/a", "2");
    let third = save(&bench, &rappel, &[]);
    let at = |wanted: &str| {
        let filter = ListFilter { path: Some(path(wanted)), ..everything() };
        ids(&bench.open().find(&filter).unwrap())
    };
    assert_eq!(at("src/a"), [third.clone(), first.clone()]);
    assert_eq!(at("src"), [third, first.clone()]);
    assert_eq!(at("b"), [second, first]);
    assert_eq!(at("c"), [""; 0]);
}

#[test]
fn the_history_of_a_file_names_who_changed_it() {
    let bench = World::new(Project::in_memory().file("b", "1"));
    let rappel = bench.open();
    let session = start(&rappel, "s1");
    let edit = |path: &str| {
        line(&format!(r#"{{"kind":"tool","tool":"edit","input":{{"file":"/w/{path}"}}}}"#))
    };
    rappel.record(&session, edit("src/a")).unwrap();
    bench.write("src/a", "1");
    let first = save(&bench, &rappel, &[]);
    rappel.record(&session, edit("b")).unwrap();
    bench.write("b", "2");
    save(&bench, &rappel, &[]);
    rappel.record(&session, note("src/a is no good")).unwrap();
    bench.remove("src");
    let third = save(&bench, &rappel, &[]);
    let log = rappel.log(&path("src/a"), None).unwrap();
    let told: Vec<_> =
        log.changes.iter().map(|one| (&*one.checkpoint, one.change, one.events.len())).collect();
    // A note changes no file.
    assert_eq!(told, [(&*third, "deleted", 0), (&*first, "added", 1)]);
    assert_eq!(log.changes[1].events[0].session, "s1");
}

#[test]
fn checkpoints_of_state_alone_are_counted_with_the_next_one() {
    let bench = World::new(Project::in_memory());
    let rappel = bench.open();
    let session = start(&rappel, "s1");
    let change = |rappel: &Rappel, status: &str| {
        let json = format!(r#"{{"kind":"hypothesis","id":"h","status":"{status}"}}"#);
        assert_eq!(rappel.record(&session, line(&json)).unwrap().checkpoints.len(), 1);
    };
    rappel.record(&session, line(r#"{"kind":"hypothesis","id":"h","text":"x"}"#)).unwrap();
    change(&rappel, "testing");
    change(&rappel, "confirmed");
    let saved = save(&bench, &rappel, &[]);
    change(&rappel, "rejected");
    let listing = rappel.list(&ListFilter::default()).unwrap();
    // The session's start is the other one with files.
    assert_eq!((listing.total, listing.checkpoints.len()), (2, 2));
    assert_eq!(listing.folded.into_iter().collect::<Vec<_>>(), [(saved, 2)]);
    assert_eq!(listing.folded_since, 1);
    assert_eq!(rappel.list(&everything()).unwrap().total, 5);
    // Whoever asks for them by tag or trigger gets them.
    let tagged = ListFilter { tag: Some("hypothesis_confirmed".into()), ..ListFilter::default() };
    assert_eq!(rappel.list(&tagged).unwrap().total, 1);
    let trigger = Some(Trigger::HypothesisStatusChange);
    let filter = ListFilter { trigger, ..ListFilter::default() };
    assert_eq!(rappel.list(&filter).unwrap().total, 3);
}

/// The answers of the guide's questions in SQL, each a list of rows, and their first column.
fn answers(bench: &World) -> Vec<Vec<String>> {
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/time-travel.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    let sql = guide.split("```sql\n").nth(1).unwrap().split("```").next().unwrap();
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
    let index = bench.home.path().join("index.db");
    let connection = rusqlite::Connection::open_with_flags(index, flags).unwrap();
    let ask = |query: &str| {
        let mut statement = connection.prepare(query).unwrap();
        let rows = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
        rows.map(Result::unwrap).collect()
    };
    sql.split(';').filter(|query| !query.trim().is_empty()).map(ask).collect()
}

#[test]
fn the_questions_in_sql_that_the_guide_shows_are_answered() {
    let bench = World::new(Project::in_memory());
    let rappel = bench.open();
    let session = start(&rappel, "s1");
    for json in [
        r#"{"kind":"tool","tool":"Bash","arguments":{"command":"ls"},"error":"no"}"#,
        r#"{"kind":"tokens","input":3,"output":4}"#,
        r#"{"kind":"thought","content":"so it is"}"#,
    ] {
        rappel.record(&session, line(json)).unwrap();
    }
    let saved = save(&bench, &rappel, &[]);
    let answers = answers(&bench);
    assert_eq!(answers[..3], [[saved], ["Bash".to_owned()], ["s1".to_owned()]]);
    assert_eq!(answers.len(), 4);
}

#[test]
fn what_was_left_behind_on_a_fork_is_not_said_to_be_in_a_later_checkpoint() {
    let bench = World::new(Project::in_memory());
    let rappel = bench.open();
    let session = start(&rappel, "s1");
    let think = |rappel: &Rappel, text: &str| {
        let thought = serde_json::json!({"kind": "thought", "text": text}).to_string();
        rappel.record(&session, line(&thought)).unwrap();
    };
    think(&rappel, "before");
    let first = save(&bench, &rappel, &[]);
    think(&rappel, "left behind");
    bench.clock.advance(1000);
    let options = rappel::RestoreOptions::default();
    let report = rappel.restore(&reference(&first), &options).unwrap();
    let safety = report.done.unwrap().safety_checkpoint.unwrap().to_string();
    think(&rappel, "instead");
    let second = save(&bench, &rappel, &[]);
    let index = bench.home.path().join("index.db");
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
    let connection = rusqlite::Connection::open_with_flags(index, flags).unwrap();
    let query = "SELECT checkpoint_id FROM thoughts ORDER BY number";
    let mut statement = connection.prepare(query).unwrap();
    let mut found = || -> Vec<Option<String>> {
        statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    assert_eq!(found(), [Some(first.clone()), Some(safety.clone()), Some(second.clone())]);
    rappel.delete(&[reference(&safety)], true).unwrap();
    rappel.gc(true, false).unwrap();
    assert_eq!(found(), [Some(first), None, Some(second)]);
}
