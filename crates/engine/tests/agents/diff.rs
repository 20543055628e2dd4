//! What agents learnt between two checkpoints.

use rappel::types::Facet;
use rappel::types::agents::{ChangeKind, Confidence, HypothesisStatus, SessionStatus};
use rappel::{DiffOptions, FILES_NOT_COMPARED, Rappel, SaveOptions};
use rappel_testing::Project;

use crate::journal::{line, note, start};
use crate::support::{World, reference};

fn save(bench: &World, rappel: &Rappel, only: Option<Facet>) -> String {
    bench.clock.advance(61_000);
    let only = only.map(|facet| [facet].into());
    let options = SaveOptions { message: Some("x".into()), only, ..SaveOptions::default() };
    rappel.save(&options).unwrap().checkpoint.manifest.id.to_string()
}

fn agents() -> DiffOptions {
    DiffOptions { only: vec![Facet::Agents], ..DiffOptions::default() }
}

#[test]
fn everything_an_agent_learnt_is_told_with_what_it_was_before() {
    let bench = World::new(Project::in_memory());
    let rappel = bench.open();
    let session = start(&rappel, "s1");
    let say = |rappel: &Rappel, json: &str| _ = rappel.record(&session, line(json)).unwrap();
    say(&rappel, r#"{"kind":"hypothesis","id":"h1","text":"stale cache","confidence":0.5}"#);
    say(&rappel, r#"{"kind":"belief","id":"b1","text":"it is slow","confidence":0.9}"#);
    say(&rappel, r#"{"kind":"gap","id":"g1","text":"which cache?"}"#);
    say(&rappel, r#"{"kind":"context-set","key":"file","value":"a"}"#);
    let before = save(&bench, &rappel, None);
    say(&rappel, r#"{"kind":"hypothesis","id":"h1","status":"confirmed","confidence":0.8}"#);
    say(&rappel, r#"{"kind":"hypothesis","id":"h2","text":"a race"}"#);
    say(&rappel, r#"{"kind":"evidence","text":"the hit rate","for":"h1","supports":true}"#);
    say(&rappel, r#"{"kind":"belief","id":"b1","confidence":0.2}"#);
    say(&rappel, r#"{"kind":"gap","id":"g1","filled":"the second level"}"#);
    say(&rappel, r#"{"kind":"verification","text":"the test","passed":true}"#);
    say(&rappel, r#"{"kind":"thought","content":"so it is the cache"}"#);
    say(&rappel, r#"{"kind":"tool","tool":"bash","arguments":{"c":"ls"},"success":true}"#);
    say(&rappel, r#"{"kind":"context-set","key":"file","value":"b"}"#);
    rappel.record(&session, note("remember")).unwrap();
    bench.write("new.txt", "x");
    let after = save(&bench, &rappel, None);

    let diff = rappel.compare(&reference(&before), &reference(&after)).unwrap();
    let learnt = &diff.agents.as_ref().unwrap().all;
    let change = |at: usize| {
        let one = &learnt.hypothesis_changes[at];
        (one.change, one.id.as_str(), one.old.to_string(), one.new.to_string())
    };
    let (open, confirmed) = (r#""open""#.to_owned(), r#""confirmed""#.to_owned());
    assert_eq!(change(0), (ChangeKind::StatusChanged, "h1", open, confirmed));
    assert_eq!(change(1), (ChangeKind::ConfidenceChanged, "h1", "0.5".into(), "0.8".into()));
    assert_eq!((change(2).0, change(2).1), (ChangeKind::Added, "h2"));
    let added = &learnt.hypothesis_changes[2];
    assert_eq!(added.status, Some(HypothesisStatus::Open));
    assert_eq!(added.confidence.map(Confidence::get), Some(0.5));
    assert_eq!(learnt.belief_changes[0].change, ChangeKind::ConfidenceChanged);
    assert_eq!(learnt.evidence_added[0].text, "the hit rate");
    assert!(learnt.verifications_added[0].passed);
    assert_eq!(learnt.gaps_filled[0].answer.as_deref(), Some("the second level"));
    assert_eq!(learnt.notes_added[0].text, "remember");
    assert_eq!(learnt.thoughts_added[0].content, "so it is the cache");
    assert_eq!(learnt.tool_calls_added[0].tool, "bash");
    assert_eq!(learnt.context_changes[0].new, "b");
    assert!(diff.time_delta_ms >= 61_000);
    assert!(diff.summary.starts_with("1 new, 0 changed"), "{}", diff.summary);
    assert!(diff.summary.contains("1 hypothesis confirmed"), "{}", diff.summary);

    let json = serde_json::to_value(&diff).unwrap();
    for key in [
        "hypothesis_changes",
        "belief_changes",
        "evidence_added",
        "verifications_added",
        "gaps_filled",
        "notes_added",
        "thoughts_added",
        "tool_calls_added",
        "context_changes",
    ] {
        assert!(!json["agents"][key].as_array().unwrap().is_empty(), "{key}");
    }
    let back = rappel.compare(&reference(&after), &reference(&before)).unwrap();
    let lost = back.agents.unwrap().all;
    assert!(lost.hypothesis_changes.iter().any(|one| one.change == ChangeKind::Removed));
    assert_eq!(lost.evidence_removed, learnt.evidence_added);
    assert_eq!(lost.verifications_removed, learnt.verifications_added);
    assert_eq!(lost.gaps_reopened[0].id, "g1");
    assert_eq!(lost.notes_removed, learnt.notes_added);
    assert_eq!(lost.thoughts_removed, learnt.thoughts_added);
    assert_eq!(lost.tool_calls_removed, learnt.tool_calls_added);
    assert!(lost.notes_added.is_empty() && lost.tool_calls_added.is_empty());
    let told = "1 hypothesis gone, 1 hypothesis open again, 1 confidence changed, 1 belief \
                reconsidered, 1 piece of evidence gone, 1 verification gone, 1 gap open again, \
                1 note gone, 1 thought gone, 1 tool call gone, 1 context change";
    assert_eq!(back.summary, format!("0 new, 0 changed, 1 deleted; agents: {told}"));
}

#[test]
fn a_call_that_ended_in_between_is_told_in_both_directions() {
    let bench = World::new(Project::in_memory());
    let rappel = bench.open();
    let session = start(&rappel, "s1");
    rappel.record(&session, line(r#"{"kind":"tool","id":"x","tool":"a","started":true}"#)).unwrap();
    rappel.record(&session, line(r#"{"kind":"gap","id":"g1","text":"which?"}"#)).unwrap();
    let before = save(&bench, &rappel, Some(Facet::Agents));
    rappel.record(&session, line(r#"{"kind":"tool","id":"x","finished":true}"#)).unwrap();
    rappel.record(&session, line(r#"{"kind":"tool","id":"y","tool":"b","started":true}"#)).unwrap();
    rappel.record(&session, line(r#"{"kind":"gap","id":"g2","text":"when?"}"#)).unwrap();
    let after = save(&bench, &rappel, Some(Facet::Agents));
    let summary = |from: &str, to: &str| {
        rappel.diff(&reference(from), Some(&reference(to)), &agents()).unwrap().summary
    };
    // One that ran at the first checkpoint was there: it is not new.
    assert_eq!(summary(&before, &after), "1 gap opened, 1 tool call, 1 tool call finished");
    assert_eq!(summary(&after, &before), "1 gap gone, 1 tool call gone, 1 tool call unfinished");
}

#[test]
fn the_sessions_of_now_count_and_so_do_those_that_came_and_went() {
    let bench = World::new(Project::in_memory());
    let rappel = bench.open();
    let old = start(&rappel, "old");
    rappel.record(&old, note("before")).unwrap();
    rappel.end_session(&old, SessionStatus::Completed, None).unwrap();
    bench.clock.advance(1000);
    let before = save(&bench, &rappel, None);
    bench.clock.advance(1000);
    let short = start(&rappel, "short");
    rappel.record(&short, note("in between")).unwrap();
    rappel.end_session(&short, SessionStatus::Completed, None).unwrap();
    let long = start(&rappel, "long");
    // More than one stored part of the list.
    for number in 0..200 {
        rappel.record(&long, note(&format!("note {number}"))).unwrap();
    }
    bench.clock.advance(1000);
    let middle = save(&bench, &rappel, None);
    let count = |from: &str, to: Option<&str>| {
        let to = to.map(reference);
        let diff = bench.open().diff(&reference(from), to.as_ref(), &agents()).unwrap();
        let compared = diff.agents.unwrap();
        let sessions: Vec<String> =
            compared.sessions.iter().map(|one| one.session.to_string()).collect();
        (sessions.join(" "), compared.all.notes_added.len())
    };
    assert_eq!(count(&before, None), ("long short".into(), 201));
    assert_eq!(count(&before, Some(&middle)), ("long short".into(), 201));
    assert_eq!(count(&middle, None), (String::new(), 0));
    bench.clock.advance(1000);
    rappel.record(&long, note("one more")).unwrap();
    rappel.end_session(&long, SessionStatus::Completed, None).unwrap();
    bench.clock.advance(1000);
    let last = save(&bench, &rappel, None);
    // The session is in the first of them alone, and went on until it ended.
    assert_eq!(count(&middle, Some(&last)), ("long".into(), 1));
}

#[test]
fn checkpoints_of_state_alone_are_compared_and_files_are_not() {
    let bench = World::new(Project::in_memory());
    let rappel = bench.open();
    let session = start(&rappel, "s1");
    let first = save(&bench, &rappel, Some(Facet::Agents));
    rappel.record(&session, note("more")).unwrap();
    let second = save(&bench, &rappel, Some(Facet::Agents));
    let diff = rappel.compare(&reference(&first), &reference(&second)).unwrap();
    assert_eq!(diff.summary, format!("{FILES_NOT_COMPARED}; agents: 1 note"));
    // `latest` is the one of state alone when only agents are asked for.
    let latest = rappel.diff(&reference("latest"), None, &agents()).unwrap();
    assert_eq!((latest.from, &*latest.summary), (second, "no difference in agents"));
    assert_eq!(latest.warnings, [""; 0]);
    let files = save(&bench, &rappel, Some(Facet::Files));
    let diff = rappel.compare(&reference(&first), &reference(&files)).unwrap();
    assert!(diff.agents.is_none());
    assert!(diff.warnings.iter().any(|line| line.contains("no agents")), "{:?}", diff.warnings);
}
