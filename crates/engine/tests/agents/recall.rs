//! What an agent is told that has lost its context, where its journal is long.

use rappel::types::agents::SessionStatus;
use rappel::types::agents::brief::DEFAULT_MAX;
use rappel::{Rappel, RestoreOptions, SaveOptions, SessionStart};
use rappel_testing::Project;

use crate::journal::{line, note, start};
use crate::support::{World, reference};

#[test]
fn evidence_is_told_in_its_words_however_far_back_it_lies() {
    let bench = World::new(Project::in_memory());
    let rappel = bench.open();
    let session = start(&rappel, "s1");
    for json in [
        r#"{"kind":"hypothesis","id":"h1","text":"a race","confidence":0.9}"#,
        r#"{"kind":"hypothesis","id":"h2","text":"the disk","confidence":0.1}"#,
        r#"{"kind":"evidence","id":"e1","text":"one thread is fine","for":"h1","supports":true,"weight":0.9}"#,
        r#"{"kind":"evidence","id":"e2","text":"it fails in memory too","for":"h2","refutes":true,"weight":0.9}"#,
    ] {
        rappel.record(&session, line(json)).unwrap();
    }
    for number in 0..400 {
        let json = format!(
            r#"{{"kind":"evidence","text":"{number}","for":"h1","supports":true,"weight":0.1}}"#
        );
        rappel.record(&session, line(&json)).unwrap();
    }
    rappel.record(&session, note("and so on")).unwrap();
    let brief = bench.open().recall(&session).unwrap();
    let text = brief.to_text(DEFAULT_MAX);
    assert!(text.contains("- h1 0.9 a race | for it: e1 (0.9): one thread is fine"), "{text}");
    assert!(text.contains("| against it: e2 (0.9): it fails in memory too"), "{text}");
}

#[test]
fn after_a_restore_the_last_checkpoint_is_one_that_holds_no_more_than_is_known() {
    let bench = World::new(Project::in_memory().file("a", "1"));
    let rappel = bench.open();
    let session = start(&rappel, "s1");
    let save = |message: &str, text: &str| {
        rappel.record(&session, note(text)).unwrap();
        bench.clock.advance(61_000);
        let options = SaveOptions { message: Some(message.into()), ..SaveOptions::default() };
        rappel.save(&options).unwrap().checkpoint.manifest.id
    };
    let (good, bad) = (save("good", "x"), save("bad", "y"));
    let last = |name: &str| {
        let rappel = bench.open();
        let last = rappel.recall(&session).unwrap().last_checkpoint.unwrap();
        let known = rappel.state_now(&session, 0).unwrap().checkpoint.unwrap().0;
        assert_eq!((last.description.as_deref(), &last.id), (Some(name), &known));
        last.id
    };
    assert_eq!(last("bad"), bad);
    bench.clock.advance(1000);
    bench.open().restore(&reference(good.as_str()), &RestoreOptions::default()).unwrap();
    assert_eq!(last("good"), good);
}

#[test]
fn files_of_the_workspace_are_named_from_its_root_and_once() {
    let bench = World::new(Project::in_memory());
    let rappel = bench.open();
    let session = start(&rappel, "s1");
    let inside = bench.project.path("src/a.rs");
    for path in ["src/a.rs", inside.to_str().unwrap(), "/elsewhere/b.rs"] {
        let json = serde_json::json!({
            "kind": "tool", "tool": "Edit", "input": {"file_path": path}, "output": "ok",
        });
        rappel.record(&session, line(&json.to_string())).unwrap();
    }
    assert_eq!(rappel.recall(&session).unwrap().files_touched, ["/elsewhere/b.rs", "src/a.rs"]);
}

#[test]
fn the_newest_session_that_runs_and_that_no_other_began_is_asked_about() {
    let bench = World::new(Project::in_memory());
    let rappel = bench.open();
    let asked = |rappel: &Rappel| rappel.session_asked_about(None).unwrap().id.to_string();
    let first = start(&rappel, "first");
    let main = start(&rappel, "main");
    let child = SessionStart {
        session: Some("child".parse().unwrap()),
        parent: Some(main.clone()),
        ..SessionStart::default()
    };
    let child = rappel.start_session(child).unwrap().0;
    assert_eq!(asked(&rappel), "main");
    rappel.end_session(&child, SessionStatus::Completed, None).unwrap();
    assert_eq!(asked(&rappel), "main");
    rappel.end_session(&main, SessionStatus::Completed, None).unwrap();
    assert_eq!(asked(&rappel), "first");
    rappel.end_session(&first, SessionStatus::Completed, None).unwrap();
    assert_eq!(asked(&rappel), "main");
}
