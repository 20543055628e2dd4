//! Whatever a hook is told, in every agent's form: an event or an error, and no panic; and the
//! answer to an event can always be written.

#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, reason = "tests may")]

use proptest::prelude::*;
use rappel::hook::Answer;
use rappel_hooks::{VENDORS, Vendor};
use serde_json::{Value, json};

/// The names of events, of all agents together: each is also told what it does not know.
const EVENTS: [&str; 24] = [
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "WorktreeRemove",
    "Stop",
    "PreCompact",
    "SubagentStart",
    "SubagentStop",
    "SessionEnd",
    "Interrupt",
    "BeforeAgent",
    "BeforeTool",
    "AfterTool",
    "AfterAgent",
    "PreCompress",
    "tool.execute.before",
    "tool.execute.after",
    "chat.message",
    "command.execute.before",
    "event.session.created",
    "rappel.tool.error",
    "x",
];

/// Names of tools that are looked into, and one that is not.
const TOOLS: [&str; 10] = [
    "Bash",
    "Edit",
    "apply_patch",
    "run_shell_command",
    "write_file",
    "invoke_agent",
    "bash",
    "write",
    "mcp__rappel__save",
    "x",
];

/// The fields that are read, of all agents together.
const FIELDS: [&str; 26] = [
    "session_id",
    "session",
    "subagent",
    "agent",
    "cwd",
    "prompt_id",
    "agent_id",
    "agent_type",
    "source",
    "reason",
    "trigger",
    "prompt",
    "tool_use_id",
    "tool_input",
    "tool_response",
    "transcript_path",
    "error",
    "worktree_path",
    "background_tasks",
    "run",
    "input",
    "output",
    "llmContent",
    "command",
    "file_path",
    "args",
];

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".{0,20}".prop_map(Value::from),
        prop::sample::select(TOOLS.to_vec()).prop_map(Value::from),
        "(Output: |Exit Code: |Signal: |\n|</|<untrusted_context>|Command was cancelled by user ){0,6}"
            .prop_map(Value::from),
        "(\\*\\*\\* (Add|Update|Delete) File: |\n|/|\\.\\.|a){0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        let names = prop_oneof![
            prop::sample::select(FIELDS.to_vec()).prop_map(str::to_owned),
            prop::sample::select(vec!["parts", "metadata", "text", "message", "tool", "callID"])
                .prop_map(str::to_owned),
            ".{0,6}",
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map(names, inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// A payload with a session, a tool and any other fields.
fn any_payload() -> impl Strategy<Value = Value> {
    let fields =
        prop::collection::hash_map(prop::sample::select(FIELDS.to_vec()), any_json(), 0..8);
    let event = prop::sample::select(EVENTS.to_vec());
    let tool = prop::sample::select(TOOLS.to_vec());
    (event, tool, fields).prop_map(|(event, tool, fields)| {
        let mut payload = json!({"event": event, "hook_event_name": event, "session": "s",
            "session_id": "s", "cwd": "/nonexistent/p", "tool_name": tool,
            "input": {"tool": tool, "callID": "c", "args": {"command": "rm x"}}});
        for (name, value) in fields {
            payload[name] = value;
        }
        payload
    })
}

/// What holds of every event.
fn understood(vendor: &Vendor, bytes: &[u8]) {
    let Ok(event) = (vendor.event)(bytes, None) else { return };
    assert_eq!(event.provider, vendor.name);
    assert!(!event.session.is_empty());
    let some = |text: &str| Some(text.to_owned());
    let answer = Answer { context: some("c"), notice: some("n"), reply: some("r") };
    for answer in [answer, Answer::default()] {
        let said = (vendor.answer)(&event, &answer);
        assert!(said.is_empty() || serde_json::from_str::<Value>(&said).unwrap().is_object());
    }
}

proptest! {
    #[test]
    fn any_payload_is_an_event_or_an_error(payload in any_payload()) {
        for vendor in VENDORS {
            understood(vendor, payload.to_string().as_bytes());
        }
    }

    #[test]
    fn any_bytes_are_an_event_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        for vendor in VENDORS {
            prop_assert!((vendor.event)(&bytes, None).is_err());
        }
    }
}
