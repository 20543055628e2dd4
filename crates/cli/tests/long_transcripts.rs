//! Transcripts that are long: a save reads them in a time that grows with them, and no faster.

#![allow(clippy::unwrap_used, reason = "tests may")]

mod support;

use serde_json::json;
use support::World;

/// Prompts that were told at nearly the same time. Comparing each with each would take minutes.
const PROMPTS: usize = 20_000;

#[test]
fn a_rollout_of_many_prompts_does_not_keep_a_save_from_its_files() {
    let world = World::new();
    let root = world.project.root().canonicalize().unwrap();
    let session = "00000000-0000-4000-8000-000000000001";
    let line = |at: usize, kind: &str, payload: serde_json::Value| {
        let at = format!("2026-11-16T19:56:{:02}.{:03}Z", at / 1000, at % 1000);
        json!({"timestamp": at, "type": kind, "payload": payload}).to_string() + "\n"
    };
    let mut text = line(0, "session_meta", json!({"id": session, "cwd": root, "source": "exec"}));
    for number in 0..PROMPTS {
        let message = format!("prompt {number}");
        let payload = json!({"type": "user_message", "message": message});
        text.push_str(&line(number, "event_msg", payload));
    }
    let rollout =
        format!("user/.codex/sessions/2026/11/16/rollout-2026-11-16T19-56-00-{session}.jsonl");
    let rollout = world.project.outside().join(rollout);
    std::fs::create_dir_all(rollout.parent().unwrap()).unwrap();
    std::fs::write(rollout, text).unwrap();
    world.write("precious.txt", "precious");
    let saved = world.json(&["save", "beside a long transcript"]);
    assert_eq!(saved["partial"], false, "{}", saved["partial_reasons"]);
    let state = world.json(&["at", "now", "--session", &format!("codex:{session}"), "--full"]);
    assert_eq!(state["state"]["prompts"].as_array().unwrap().len(), PROMPTS);
}
