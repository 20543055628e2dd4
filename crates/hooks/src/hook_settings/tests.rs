use proptest::prelude::*;

use super::*;
use crate::caller::Program;
use crate::claude::handlers::{MARK, groups, status_line};

const FORM: Form = Form { mark: MARK, syntax: Syntax::Plain };

fn present(text: &str) -> Present {
    super::present(text, FORM).unwrap()
}

fn strip(text: &str) -> String {
    super::strip(text, FORM, &Empty::new(), None).unwrap()
}

fn has(text: &str, wanted: &Wanted) -> bool {
    super::has(text, wanted, FORM)
}

fn merge(text: &str, wanted: &Wanted) -> Result<Merged, Unfit> {
    super::merge(text, wanted, FORM)
}

fn wanted(path: &str) -> Wanted {
    let caller = Caller::new(Program::At(path.into()), None).unwrap();
    let groups = groups(&caller, Scope::Local, ".claude/settings.local.json");
    Wanted { groups, status_line: Some(status_line(&caller)), server: None }
}

/// Merges, and holds what holds of every merge.
fn merged(text: &str) -> String {
    let wanted = wanted("/usr/bin/rappel");
    let Merged { text: after, reverse, empty } = merge(text, &wanted).unwrap();
    assert!(has(&after, &wanted), "{after}");
    assert_eq!(reverse.apply(&after).as_deref(), Some(text));
    let found = present(&after).events;
    assert!(wanted.groups.iter().all(|(event, _)| found.iter().any(|it| it == event)));
    // What the user adds elsewhere stays, and so does what was empty.
    if let Ok(mut document) = Document::new(text.to_owned())
        && document.count(&document.root()).unwrap() > 0
    {
        let edited = |document: &mut Document| {
            document.add_member(&document.root(), "added", &1).unwrap();
            document.text().to_owned()
        };
        let expected = edited(&mut document);
        let mut document = Document::new(after.clone()).unwrap();
        let rest = super::strip(&edited(&mut document), FORM, &empty, None).unwrap();
        let value = |text: &str| -> Value {
            serde_json::from_str(text.trim_start_matches('\u{feff}')).unwrap()
        };
        assert_eq!(value(&rest), value(&expected));
    }
    let caller = present(&after).caller.unwrap();
    assert_eq!(caller.program(), &Program::At("/usr/bin/rappel".into()));
    assert!(!has(text, &wanted));
    let stripped = strip(&after);
    assert_eq!(present(&stripped).caller, None);
    assert_eq!(strip(&stripped), stripped);
    after
}

const OTHERS: &str = r#"{
  "$schema": "https://json.schemastore.org/claude-code-settings.json",
  "model": "opus",
  "hooks": {
    "PreToolUse": [
      {
        "matcher": "Bash",
        "hooks": [{ "type": "command", "command": "guard.sh" }]
      }
    ],
    "Notification": [
      { "hooks": [{ "type": "command", "command": "say hello", "timeout": 5 }] }
    ]
  },
  "env": { "A": "1", "B": 1.50 }
}
"#;

#[test]
fn other_hooks_and_keys_stay_where_and_as_they_are() {
    let after = merged(OTHERS);
    assert_eq!(strip(&after), OTHERS);
    for line in OTHERS.lines().filter(|line| line.trim().len() > 2) {
        assert!(after.contains(line.trim_end_matches(['}', ']'])), "{line}");
    }
    let value: Value = serde_json::from_str(&after).unwrap();
    assert_eq!(value["hooks"]["PreToolUse"].as_array().unwrap().len(), 2);
    assert_eq!(value["hooks"]["PreToolUse"][0]["hooks"][0]["command"], "guard.sh");
    assert!(after.find("\"env\"").unwrap() < after.find("\"statusLine\"").unwrap());
}

#[test]
fn what_it_writes_has_the_documented_shape() {
    let value: Value = serde_json::from_str(&merged("")).unwrap();
    let hooks = value["hooks"].as_object().unwrap();
    let limits = [
        ("SessionStart", 7),
        ("UserPromptSubmit", 30),
        ("PreToolUse", 125),
        ("PostToolUse", 7),
        ("PostToolUseFailure", 7),
        ("PreCompact", 7),
        ("Stop", 7),
        ("SubagentStart", 7),
        ("SubagentStop", 7),
        ("SessionEnd", 6),
    ];
    assert_eq!(hooks.len(), limits.len());
    for (event, limit) in limits {
        let [group] = &hooks[event].as_array().unwrap()[..] else { panic!("{event}") };
        let tools = event.contains("ToolUse");
        assert_eq!(group.get("matcher").is_some(), tools, "{event}");
        assert_eq!(group.as_object().unwrap().len(), if tools { 2 } else { 1 });
        let [handler] = &group["hooks"].as_array().unwrap()[..] else { panic!("{event}") };
        assert_eq!(handler.as_object().unwrap().len(), 3);
        assert_eq!(handler["type"], "command");
        assert_eq!(handler["timeout"], limit, "{event}");
        assert!(handler["command"].is_string());
    }
    assert_eq!(value["statusLine"]["type"], "command");
}

#[test]
fn an_older_command_of_ours_is_replaced() {
    let old = merge(OTHERS, &wanted("/old/rappel")).unwrap().text;
    assert!(!has(&old, &wanted("/usr/bin/rappel")));
    let base = strip(&old);
    assert_eq!(base, OTHERS);
    assert!(!merged(&base).contains("/old/rappel"));
    // One that the user moved among his own is found there too.
    let ours = json!({"type": "command", "command": format!("x {}", MARK)});
    let moved = OTHERS.replacen("\"guard.sh\" }", &format!("\"guard.sh\" }}, {ours}"), 1);
    assert_eq!(strip(&moved), OTHERS);
}

#[test]
fn what_differs_is_renewed_where_it_stands() {
    let new = wanted("/usr/bin/rappel");
    let guard = json!({"matcher": "Bash", "hooks": [{"type": "command", "command": "mine"}]});
    let mut old: Value = serde_json::from_str(&merged(OTHERS)).unwrap();
    old["hooks"]["PreToolUse"].as_array_mut().unwrap().push(guard.clone());
    old["hooks"]["Stop"].as_array_mut().unwrap().insert(0, guard.clone());
    old["hooks"].as_object_mut().unwrap().remove("PreCompact");
    let gone = json!({"hooks": [{"type": "command", "command": format!("x {MARK}")}]});
    old["hooks"]["SubagentStop"].as_array_mut().unwrap().push(gone.clone());
    old["hooks"]["Former"] = json!([gone]);
    let old = serde_json::to_string_pretty(&old).unwrap();
    let old = old.replace("/usr/bin/rappel", "/old/rappel");
    let (after, empty) = renew(&old, &new, FORM, &Empty::new()).unwrap();
    assert!(has(&after, &new), "{after}");
    let value: Value = serde_json::from_str(&after).unwrap();
    assert_eq!(value["hooks"]["PreToolUse"][2], guard);
    assert_eq!(value["hooks"]["Stop"][0], guard);
    assert_eq!(value["hooks"]["PreToolUse"].as_array().unwrap().len(), 3);
    // The rest is as it was, line for line.
    assert_eq!(strip(&after), strip(&old));
    assert_eq!(empty, Empty::new());
    assert_eq!(renew(&after, &new, FORM, &empty).unwrap().0, after);
    // One that the user put among hooks for other tools is put where it hears of all.
    let ours = json!({"type": "command", "command": format!("x {MARK}")});
    let moved = OTHERS.replacen("\"guard.sh\" }", &format!("\"guard.sh\" }}, {ours}"), 1);
    let (after, _) = renew(&moved, &new, FORM, &Empty::new()).unwrap();
    assert!(has(&after, &new), "{after}");
}

#[test]
fn a_hook_behind_ours_is_seen() {
    let is_followed = |events: Value| is_followed(&json!({"hooks": events}).to_string(), FORM);
    let ours = json!({"type": "command", "command": format!("x {MARK}")});
    let mine = json!({"type": "command", "command": "mine"});
    let group = |handlers: &[&Value]| json!({"hooks": handlers});
    assert!(is_followed(json!({"Stop": [group(&[&ours]), group(&[&mine])]})));
    assert!(is_followed(json!({"Stop": [group(&[&ours, &mine])]})));
    assert!(!is_followed(json!({"Stop": [group(&[&mine]), group(&[&ours]), group(&[&ours])]})));
    assert!(!is_followed(json!({"Stop": [group(&[&ours])], "Other": [group(&[&mine])]})));
}

#[test]
fn another_status_line_stays() {
    let text = "{\"statusLine\":{\"type\":\"command\",\"command\":\"mine\"}}";
    let after = merged(text);
    assert!(
        after.starts_with(
            "{\"statusLine\":{\"type\":\"command\",\"command\":\"mine\"},\"hooks\":{\""
        )
    );
    let found = present(&after);
    assert!(found.any_status_line && !found.status_line);
}

#[test]
fn odd_texts_come_back_byte_for_byte() {
    for text in [
        "",
        "\n",
        "{}",
        "{ }\r\n",
        "\u{feff}{}",
        "{\"hooks\":{}}",
        "{\n  \"hooks\": {}\n}",
        "{\"hooks\": {\"Stop\": []}}",
        "{\n  \"hooks\": {\n    \"Stop\": []\n  }\n}\n",
        "{\r\n  \"a\": 1\r\n}\r\n",
        "{\"a\":1 , \"b\" : 2}",
        "{\n\t\"a\": \"\\u00e9\\/\"\n}",
    ] {
        merged(text);
    }
}

#[test]
fn the_users_empty_lists_and_comments_stay_in_a_file_that_was_edited_since() {
    let form = Form { mark: MARK, syntax: Syntax::Comments };
    let caller = Caller::new(Program::At("/usr/bin/rappel".into()), None).unwrap();
    let server = Some(json!({"command": "/usr/bin/rappel", "args": ["mcp"]}));
    let known = Known::new(server.as_ref(), |_| Value::Null, []);
    let wanted = Wanted { groups: groups(&caller, Scope::Local, "x"), status_line: None, server };
    for text in [
        "{\n  \"hooks\": {\n    \"Stop\": [ ],\n    \"Other\": []\n  },\n  \"theme\": 1,\n  \"mcpServers\" : { }\n}\n",
        "{\"hooks\":{},\"theme\": 1}",
        "// mine\n{\n  /* the theme */\n  \"theme\": 1 // dark\n  // the end\n}\n// really\n",
        "{\n  \"theme\": 1, // one\n  \"hooks\": { // none yet\n  },\n  \"mcpServers\": { /* none */ }\n}\n",
        "{\r\n  // lists\r\n  \"hooks\": {\r\n    \"Stop\": [\r\n      {\"hooks\": []} // mine\r\n    ]\r\n  }, // a\r\n  \"theme\": 1\r\n}\r\n",
    ] {
        let Merged { text: after, reverse, empty } = super::merge(text, &wanted, form).unwrap();
        assert!(super::has(&after, &wanted, form), "{after}");
        assert_eq!(reverse.apply(&after).as_deref(), Some(text));
        let edited = |text: &str| text.replace("\"theme\": 1", "\"theme\": 2");
        assert_eq!(
            super::strip(&edited(&after), form, &empty, Some(&known)).unwrap(),
            edited(text),
            "{after}"
        );
    }
    // A comment that came since stays too.
    let after = super::merge("{\n  \"a\": 1\n}\n", &wanted, form).unwrap().text;
    let edited = after.replace("  \"hooks\"", "  // my comment\n  \"hooks\"");
    let rest = super::strip(&edited, form, &Empty::new(), Some(&known)).unwrap();
    assert_eq!(rest, "{\n  \"a\": 1\n  // my comment\n}\n");
}

#[test]
fn a_shape_that_is_not_expected_is_refused_with_its_line() {
    let refused = |text: &str| merge(text, &wanted("/rappel")).unwrap_err().to_string();
    assert!(
        refused("{\n  \"hooks\": null\n}").starts_with("line 2: \"hooks\": an object is expected")
    );
    assert!(refused("{\"hooks\": []}").contains("\"hooks\""));
    assert!(
        refused("{\"hooks\": {\n\"Stop\": {}}}")
            .starts_with("line 2: \"Stop\": a list is expected")
    );
    assert!(refused("[]").starts_with("line 1"));
    assert!(refused("{\n// x\n}").starts_with("line 2"));
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        ".{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 20, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-z\"\\\\]{0,4}", inner, 0..4).prop_map(Value::from_iter),
        ]
    })
}

proptest! {
    #[test]
    fn any_settings_come_back_byte_for_byte(
        rest in prop::collection::btree_map("[a-z]{1,4}", json_value(), 0..4),
        events in prop::collection::btree_map("Stop|PreToolUse|Other", prop::collection::vec(json_value(), 0..3), 0..3),
        pretty in any::<bool>(), ends in any::<bool>(),
    ) {
        let mut all = rest;
        all.insert("hooks".into(), json!(events));
        let value = Value::from_iter(all);
        let mut text = if pretty { serde_json::to_string_pretty(&value).unwrap() } else { value.to_string() };
        if ends { text.push('\n'); }
        let after = merged(&text);
        // Without the record of what was there, the values are the same but for what is empty.
        let stripped: Value = serde_json::from_str(&strip(&after)).unwrap();
        for (name, other) in value.as_object().unwrap().iter().filter(|(name, _)| *name != "hooks") {
            prop_assert_eq!(&stripped[name], other);
        }
    }
}
