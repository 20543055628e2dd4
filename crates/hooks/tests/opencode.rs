//! What opencode's hooks gave in a real session (1.18.33), as neutral events; and hostile payloads.

#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, reason = "tests may")]

use rappel::hook::{Answer, CallKind, Event, Moment, Start};
use rappel_hooks::opencode::VENDOR;
use serde_json::{Value, json};

const TOUR: &str = include_str!("fixtures/opencode/tour.jsonl");

fn event(payload: &Value) -> Event {
    (VENDOR.event)(payload.to_string().as_bytes(), None).unwrap()
}

fn tour() -> Vec<Value> {
    TOUR.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn short(event: &Event) -> String {
    match &event.moment {
        Moment::SessionStart(start) => format!("start {start:?}"),
        Moment::Prompt { id, text } => format!("prompt {} {text}", id.is_some()),
        Moment::Notification => "notification".into(),
        Moment::BeforeCall(call) => {
            let destroys = call.operation.as_ref().map(|it| format!(" {}", it.does));
            format!("before {} {:?}{}", call.tool, call.kind, destroys.unwrap_or_default())
        }
        Moment::AfterCall(call, outcome) => {
            format!("after {} {:?} {:?}", call.tool, outcome.exit_code, outcome.error)
        }
        other => format!("{other:?}"),
    }
}

#[test]
fn a_real_session_is_understood() {
    let all: Vec<String> = tour().iter().map(|payload| short(&event(payload))).collect();
    assert_eq!(all[0], "start New");
    assert_eq!(all[1], "prompt true \"[step:edit] Make the greeting.\"");
    assert_eq!(all[2], "before write Edit([\"/home/dev/project/greeting.txt\"])");
    assert_eq!(all[3], "after write None None");
    assert!(all[4].starts_with("before edit Edit"), "{}", all[4]);
    let has = |text: &str| all.iter().any(|one| one.starts_with(text));
    assert!(has("before bash Shell(\"rm two.txt\") "), "{all:#?}");
    assert!(has("after bash Some(1) Some(\"exit code 1\")"), "{all:#?}");
    assert!(has("Idle { background: false }"));
    for payload in tour() {
        let event = event(&payload);
        assert_eq!(
            (event.provider.as_str(), event.folder.as_deref()),
            ("opencode", Some("/home/dev/project"))
        );
        assert!(event.session.starts_with("ses_"));
        if let Moment::BeforeCall(call) | Moment::AfterCall(call, _) = &event.moment {
            assert!(call.id.as_ref().unwrap().starts_with("call_"), "{call:?}");
        }
    }
}

#[test]
fn destructive_commands_are_known() {
    let destroys: Vec<String> = tour()
        .iter()
        .filter_map(|payload| match event(payload).moment {
            Moment::BeforeCall(call) => call.operation.map(|it| it.command),
            _ => None,
        })
        .collect();
    assert!(destroys.iter().any(|command| command.contains("rm two.txt")), "{destroys:?}");
    assert!(destroys.iter().any(|command| command.contains("git")), "{destroys:?}");
}

#[test]
fn a_subagents_event_names_both_sessions() {
    let call = json!({"event": "tool.execute.before", "session": "ses_main", "subagent": "ses_sub", "agent": "general",
        "cwd": "/p", "input": {"tool": "write", "sessionID": "ses_sub", "callID": "c1"},
        "output": {"args": {"filePath": "note.txt", "content": "x"}}});
    let call = event(&call);
    assert_eq!(call.session, "ses_main");
    let subagent = call.subagent.unwrap();
    assert_eq!((subagent.id.as_str(), subagent.kind.as_deref()), ("ses_sub", Some("general")));
    let Moment::BeforeCall(call) = call.moment else { panic!() };
    assert_eq!(call.kind, CallKind::Edit(vec!["/p/note.txt".into()]));
    let of = |name: &str| event(&json!({"event": name, "session": "m", "subagent": "s"})).moment;
    assert_eq!(of("event.session.created"), Moment::SubagentStart);
    assert_eq!(of("event.session.idle"), Moment::SubagentEnd);
}

#[test]
fn moments_of_a_session() {
    let of = |name: &str| event(&json!({"event": name, "session": "s"})).moment;
    assert_eq!(of("rappel.resumed"), Moment::SessionStart(Start::Resumed));
    assert_eq!(of("event.session.compacted"), Moment::SessionStart(Start::Compacted));
    assert_eq!(of("experimental.session.compacting"), Moment::BeforeCompaction);
    assert_eq!(of("event.session.deleted"), Moment::SessionEnd { cleared: false });
    assert_eq!(of("rappel.disposed"), Moment::SessionEnd { cleared: false });
    let unknown = (VENDOR.event)(br#"{"event": "event.todo.updated", "session": "s"}"#, None);
    assert!(unknown.unwrap_err().to_string().contains("event.todo.updated"));
}

#[test]
fn what_the_user_typed_is_found_among_the_parts() {
    let prompt = |run: bool, parts: Value| {
        let payload = json!({"event": "chat.message", "session": "s", "run": run,
            "output": {"message": {"id": "msg_1"}, "parts": parts}});
        event(&payload).moment
    };
    let text = |text: &str| json!([{"type": "text", "text": text}]);
    let typed = |words: &str| Moment::Prompt { id: Some("msg_1".into()), text: words.into() };
    assert_eq!(prompt(true, text("\"rappel undo --prompt\"")), typed("rappel undo --prompt"));
    assert_eq!(prompt(true, text(r#""say \"x\" now""#)), typed("say \"x\" now"));
    assert_eq!(prompt(true, text(r#""a b" c"#)), typed(r#""a b" c"#));
    assert_eq!(prompt(true, text(r#""a b" "c d""#)), typed(r#""a b" "c d""#));
    assert_eq!(prompt(false, text("\"quoted\"")), typed("\"quoted\""));
    let many = json!([{"type": "text", "text": "one"}, {"type": "text", "text": "file", "synthetic": true},
        {"type": "file"}, {"type": "text", "text": "two"}]);
    assert_eq!(prompt(false, many), typed("one\ntwo"));
    let none = json!([{"type": "text", "text": "file", "synthetic": true}]);
    assert_eq!(prompt(false, none), Moment::Notification);
    let command = json!({"event": "command.execute.before", "session": "s",
        "input": {"command": "rappel/undo", "arguments": "--prompt $(x)"}});
    let words = Moment::Prompt { id: None, text: "/rappel:undo --prompt $(x)".into() };
    assert_eq!(event(&command).moment, words);
}

#[test]
fn patches_and_failures() {
    let patch = "*** Begin Patch\n*** Update File: a.rs\n*** Move to: b.rs\n*** Add File: /q/c.rs\n*** End Patch";
    let call = json!({"event": "tool.execute.before", "session": "s", "cwd": "/p",
        "input": {"tool": "apply_patch", "callID": "c"}, "output": {"args": {"patchText": patch}}});
    let Moment::BeforeCall(call) = event(&call).moment else { panic!() };
    assert_eq!(
        call.kind,
        CallKind::Edit(vec!["/p/a.rs".into(), "/p/b.rs".into(), "/q/c.rs".into()])
    );
    let failed = json!({"event": "rappel.tool.error", "session": "s", "cwd": "/p",
        "input": {"tool": "edit", "callID": "c", "args": {"filePath": "/p/x"}}, "output": {"error": "no match"}});
    let Moment::AfterCall(_, outcome) = event(&failed).moment else { panic!() };
    assert_eq!(outcome.error.as_deref(), Some("no match"));
    let mcp = json!({"event": "tool.execute.after", "session": "s", "input": {"tool": "x_y", "callID": "c", "args": {}},
        "output": {"content": [{"type": "text", "text": "hi"}], "isError": true}});
    let Moment::AfterCall(call, outcome) = event(&mcp).moment else { panic!() };
    assert_eq!(call.kind, CallKind::Other);
    assert!(outcome.error.is_some() && outcome.result.is_array());
}

#[test]
fn answers_are_what_the_plugin_reads() {
    let started = event(&json!({"event": "rappel.resumed", "session": "s"}));
    let answer = Answer { context: Some("c".into()), notice: Some("n".into()), reply: None };
    let said: Value = serde_json::from_str(&(VENDOR.answer)(&started, &answer)).unwrap();
    assert_eq!(said, json!({"context": "c", "notice": "n"}));
    assert_eq!((VENDOR.answer)(&started, &Answer::default()), "");
    // Nobody reads a context at the end of a turn.
    let idle = event(&json!({"event": "event.session.idle", "session": "s"}));
    let said: Value = serde_json::from_str(&(VENDOR.answer)(&idle, &answer)).unwrap();
    assert_eq!(said, json!({"notice": "n"}));
    // And nobody sees anything at its end, so nothing is said there that is said once.
    let ends = event(&json!({"event": "rappel.disposed", "session": "s"}));
    assert_eq!((VENDOR.answer)(&ends, &answer), "");
}
