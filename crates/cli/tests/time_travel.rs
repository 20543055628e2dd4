//! Looking back at agents: `diff --only agents`, `find`, `timeline`, `stats`.

#![allow(clippy::unwrap_used, reason = "tests may")]

mod support;

use std::io::Write;

use support::World;

/// A session that found something out, with checkpoints on the way.
fn investigated() -> (World, String, String) {
    let world = World::new();
    world.json(&[
        "session",
        "start",
        "--session",
        "s1",
        "--provider",
        "claude",
        "--task",
        "Fix it",
    ]);
    let first = world.save("before");
    record(
        &world,
        &[
            r#"{"kind":"hypothesis","id":"h1","text":"the cache is stale","confidence":0.5}"#,
            r#"{"kind":"tool","tool":"bash","arguments":{"command":"cargo test"},"error":"2 failed"}"#,
            r#"{"kind":"hypothesis","id":"h1","status":"confirmed","confidence":0.9}"#,
            r#"{"kind":"tokens","input":1200,"output":34}"#,
        ],
    );
    world.write("a.txt", "four\n");
    let second = world.save("after");
    (world, first, second)
}

fn record(world: &World, lines: &[&str]) {
    let mut child = world
        .command(&["record", "--session", "s1", "--stdin"])
        .stdin(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(lines.join("\n").as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn diff_tells_what_an_agent_learnt() {
    let (world, first, second) = investigated();
    assert_face!(world, "diff_agents", "diff", &first, &second, "--only", "agents");
    assert_face!(world, "diff_agents_stat", "diff", &first, &second, "--stat");
    let diff = world.json(&["diff", &first, &second, "--only", "agents"]);
    assert_eq!(diff["files"]["modified"], serde_json::json!([]));
    let change = &diff["agents"]["hypothesis_changes"][0];
    assert_eq!((&change["change"], &change["id"]), (&"added".into(), &"h1".into()));
    assert_eq!(diff["agents"]["tool_calls_added"][0]["tool"], "bash");
    assert!(diff["summary"].as_str().unwrap().contains("1 hypothesis added"), "{diff}");
    assert_eq!((&change["status"], &change["confidence"]), (&"confirmed".into(), &0.9.into()));
    let unknown = world.run(&["diff", &first, &second, "--session", "nobody"]);
    assert_eq!(unknown.status.code(), Some(3));
}

#[test]
fn diff_backwards_tells_what_was_not_known_yet() {
    let (world, first, second) = investigated();
    assert_face!(world, "diff_agents_backwards", "diff", &second, &first, "--only", "agents");
    let diff = world.json(&["diff", &second, &first, "--only", "agents"]);
    assert_eq!(diff["agents"]["tool_calls_removed"][0]["tool"], "bash");
    assert_eq!(diff["summary"], "1 hypothesis gone, 1 tool call gone");
}

#[test]
fn diff_leaves_out_idle_sessions_and_says_what_was_lost() {
    let (world, first, second) = investigated();
    world.json(&["session", "start", "--session", "idle", "--provider", "claude"]);
    assert!(world.run(&["restore", &first, "--only", "agents", "--confirm"]).status.success());
    let shown = world.face(&["diff", &second, "--only", "agents"]);
    assert!(shown.contains(": what agents learnt and lost\n  session s1, "), "{shown}");
    assert!(!shown.contains("idle"), "{shown}");
    let compared = world.json(&["diff", &second, "--only", "agents"]);
    let sessions = compared["agents"]["sessions"].as_array().unwrap();
    assert!(sessions.iter().any(|one| one["session"] == "idle"), "programs get it: {compared}");
}

#[test]
fn at_says_where_there_is_nothing_to_tell() {
    let (world, first, _) = investigated();
    let before = world.run(&["at", "2020-01-01"]);
    let said = String::from_utf8(before.stdout).unwrap();
    assert!(said.starts_with("s1 had not begun then: it began 20"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert_eq!(world.json(&["at", "2020-01-01"])["begun"], false);
    let ahead = world.run(&["at", "2100-01-01"]);
    let said = String::from_utf8(ahead.stdout).unwrap();
    assert!(said.contains("That time is yet to come: this is the state now.\n"), "{said}");
    for when in ["now", "today"] {
        assert_eq!(world.json(&["at", when])["future"], false);
    }
    // A checkpoint that holds one session means that one, whoever asks.
    let asked = world
        .command(&["at", "--checkpoint", &first, "--json"])
        .env("RAPPEL_SESSION", "another")
        .output()
        .unwrap();
    let found: serde_json::Value = serde_json::from_slice(&asked.stdout).unwrap();
    assert_eq!((&found["session"], &found["checkpoint"]), (&"s1".into(), &first.into()));
}

#[test]
fn at_in_full_tells_every_item_with_all_its_lines() {
    let (world, ..) = investigated();
    let notes: Vec<String> = (1..=12)
        .map(|number| format!(r#"{{"kind":"note","text":"note {number}\nmore of {number}"}}"#))
        .collect();
    record(&world, &notes.iter().map(String::as_str).collect::<Vec<_>>());
    let said = |arguments: &[&str]| String::from_utf8(world.run(arguments).stdout).unwrap();
    let short = said(&["at", "now"]);
    assert!(short.contains("note 12 …\n"), "{short}");
    assert!(short.contains("  … 2 more (--json has them, --full all)\n"), "{short}");
    let full = said(&["at", "now", "--full"]);
    for number in 1..=12 {
        assert!(full.contains(&format!("  note {number}\n      more of {number}\n")), "{full}");
    }
    assert!(!full.contains(" more ("), "{full}");
    // What is told stands below each other, whatever the ids.
    let line = |number: usize| full.lines().find(|line| line.ends_with(&format!("note {number}")));
    let column = |number: usize| line(number).and_then(|line| line.find("note"));
    assert!(line(1).is_some_and(|line| line.starts_with("  n")), "its id: {full}");
    assert_eq!(column(1), column(12));
}

#[test]
fn a_checkpoint_of_state_alone_is_shown_with_what_it_can_give_back() {
    let (world, ..) = investigated();
    let shown = world.face(&["show", "3"]);
    assert!(!shown.contains("Its files:"), "{shown}");
    for command in ["restore chk_1 --only agents", "diff chk_1 --only agents", "show chk_1 --state"]
    {
        assert!(shown.contains(command), "{command}: {shown}");
    }
    for raw in ["checkpoint_reason", "duration_ms", "step_number", "tokens_used", "Cost      0s"] {
        assert!(!shown.contains(raw), "{raw}: {shown}");
    }
}

#[test]
fn who_asks_for_what_is_not_there_is_told_where_to_look() {
    let (world, ..) = investigated();
    world.json(&["tag", "1", "green"]);
    assert_face!(world, "no_session_find", "find", "--session", "nope");
    assert_face!(world, "no_session_recall", "recall", "--session", "nope");
    assert_face!(world, "no_session_list", "list", "--session", "nope");
    assert_face!(world, "no_session_at", "at", "now", "--session", "sl");
    assert_face!(world, "no_path_log", "log", "nope");
    assert_face!(world, "a_tag_at", "at", "--checkpoint", "green");
    assert_face!(world, "a_tag_for_a_time", "at", "green");
    // What is there and was never saved is no mistake.
    world.write("new.txt", "x");
    assert_eq!(world.run(&["log", "new.txt"]).status.code(), Some(0));
}

#[test]
fn find_tells_where_it_happened() {
    let (world, ..) = investigated();
    assert_face!(world, "find_tool", "find", "--tool", "bash");
    assert_face!(world, "find_nothing", "find", "--text", "nowhere to be found");
    assert_face!(world, "find_what", "find");
    let found = world.json(&["find", "--text", "CACHE is"]);
    assert_eq!((&found["total"], &found["events"][0]["id"]), (&1.into(), &"h1".into()));
    let path = world.json(&["find", "--path", "a.txt"]);
    let listed = world.json(&["list", "--path", "a.txt"]);
    assert_eq!(path["checkpoints"], listed["checkpoints"]);
    assert_eq!(path["total"], 2);
}

#[test]
fn timeline_draws_forks() {
    let (world, first, _) = investigated();
    assert!(world.run(&["restore", &first, "--only", "files", "--confirm"]).status.success());
    world.write("b.txt", "new\n");
    world.save("another way");
    assert_face!(world, "timeline", "timeline");
    assert_face!(world, "timeline_all", "timeline", "--all");
    let timeline = world.json(&["timeline", "2"]);
    assert_eq!(timeline["checkpoints"].as_array().unwrap().len(), 2);
    assert_eq!(timeline["checkpoints"][0]["parent"], first);
    assert_eq!(timeline["checkpoints"][1]["lane"], 1);
}

#[test]
fn lists_count_checkpoints_of_state_alone() {
    let (world, ..) = investigated();
    assert_face!(world, "list_folded", "list");
}

#[test]
fn stats_tell_what_agents_cost() {
    let (world, ..) = investigated();
    let stats = world.json(&["stats"]);
    assert_eq!(stats["executions"][0]["tokens_total"], 1234);
    assert_eq!(stats["tokens_per_execution"], 1234.0);
    let bash = serde_json::json!([{"tool": "bash", "calls": 1, "failed": 1}]);
    assert_eq!(stats["tools"], bash);
    assert!(stats["checkpoints_per_hour"].as_f64().unwrap() > 0.0);
    let shown = world.face(&["stats"]);
    assert!(shown.contains("bash  1 call, 1 failed"), "{shown}");
}
