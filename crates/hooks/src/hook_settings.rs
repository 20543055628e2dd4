//! Settings files with hooks (`hooks.EVENT[].hooks[]`, as Claude Code, Codex and Gemini CLI have
//! them): ours put in, and taken out again. Texts only; no disk.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::Serialize;
use serde_json::{Value, json};

use crate::caller::{Caller, Group};
use crate::json_text::{Document, Edits, Member, Syntax, Unfit};
use crate::scope::Scope;
use crate::servers::Known;

/// Where servers for MCP stand in a settings file that has them too, and what ours is called.
const SERVERS: &str = "mcpServers";
const SERVER: &str = "rappel";
/// Where hooks stand.
const HOOKS: &str = "hooks";

/// How an agent reads a settings file, and how ours is known in it.
#[derive(Debug, Clone, Copy)]
pub struct Form {
    /// The comment at the end of each shell line of ours.
    pub mark: &'static str,
    /// What the agent takes for JSON.
    pub syntax: Syntax,
}

impl Form {
    fn document(self, text: &str) -> Result<Document, Unfit> {
        Document::with(text.to_owned(), self.syntax)
    }
}

/// The user's own objects and lists that had nothing in them before ours came, by their names on the
/// way from the top, with the blanks between their brackets.
pub type Empty = BTreeMap<String, String>;

/// What a settings file shall have of ours.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// A group of handlers for each event.
    pub groups: Vec<(&'static str, Group)>,
    /// The status line, if there is no other one.
    pub status_line: Option<StatusLine>,
    /// How the agent starts our server for MCP, if there is no other one of that name.
    pub server: Option<Value>,
}

/// A status line that runs a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StatusLine {
    #[serde(rename = "type")]
    kind: &'static str,
    command: String,
}

impl StatusLine {
    /// One that runs this shell line.
    pub fn new(command: String) -> Self {
        Self { kind: "command", command }
    }
}

/// A text that we changed, and what brings back the former one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Merged {
    /// The text.
    pub text: String,
    /// From it to the one before.
    pub reverse: Edits,
    /// What was empty in the one before.
    pub empty: Empty,
}

/// Adds what is wanted to a text that has nothing of ours.
pub fn merge(text: &str, wanted: &Wanted, form: Form) -> Result<Merged, Unfit> {
    let mut document = form.document(text)?;
    let empty = empty(&document, wanted)?;
    for (event, group) in &wanted.groups {
        let list = event_list(&mut document, event)?;
        document.add_item(&list, group)?;
    }
    if let Some(line) = &wanted.status_line
        && document.member(&document.root(), "statusLine")?.is_none()
    {
        document.add_member(&document.root(), "statusLine", line)?;
    }
    if let Some(server) = &wanted.server {
        let root = document.root();
        let servers = member_or(&mut document, &root, SERVERS, &json!({}))?;
        if document.member(&servers, SERVER)?.is_none() {
            document.add_member(&servers, SERVER, server)?;
        }
    }
    let (text, reverse) = document.finish();
    Ok(Merged { text, reverse, empty })
}

/// What is there and empty of all that something will be put into.
fn empty(document: &Document, wanted: &Wanted) -> Result<Empty, Unfit> {
    let mut found = Empty::new();
    let mut note = |name: String, place: Option<Range<usize>>| {
        if let Some(blanks) = place.and_then(|place| document.blank_inner(&place)) {
            found.insert(name, blanks.to_owned());
        }
    };
    let root = document.root();
    if let Some(hooks) = document.member(&root, HOOKS)? {
        note(HOOKS.to_owned(), Some(hooks.clone()));
        for (event, _) in &wanted.groups {
            // What has another shape is refused later.
            note(way_to(event), document.member(&hooks, event).ok().flatten());
        }
    }
    note(SERVERS.to_owned(), document.member(&root, SERVERS)?);
    Ok(found)
}

fn way_to(event: &str) -> String {
    format!("{HOOKS}/{event}")
}

/// The list of an event's groups. It is made if there is none.
fn event_list(document: &mut Document, event: &str) -> Result<Range<usize>, Unfit> {
    let hooks = member_or(document, &document.root(), HOOKS, &json!({}))?;
    document.members(&hooks).map_err(|unfit| named(&unfit, HOOKS))?;
    let list = member_or(document, &hooks, event, &json!([]))?;
    document.items(&list).map_err(|unfit| named(&unfit, event))?;
    Ok(list)
}

/// A member's value. It is added if there is no member of that name.
fn member_or(
    document: &mut Document,
    object: &Range<usize>,
    name: &str,
    otherwise: &Value,
) -> Result<Range<usize>, Unfit> {
    if let Some(found) = document.member(object, name)? {
        return Ok(found);
    }
    document.add_member(object, name, otherwise)?;
    // What is added last ends where the object ends, but for blanks and the bracket. The object
    // itself has grown.
    let grown = document.value_from(object.start);
    Ok(document.member(&grown, name)?.unwrap_or(grown))
}

fn named(unfit: &Unfit, name: &str) -> Unfit {
    Unfit { problem: format!("{name:?}: {}", unfit.problem), line: unfit.line }
}

/// Takes out everything of ours, wherever it stands, and each list and object that is empty without
/// it. Those that are known to have been empty before are so again. `server` is by what our server
/// is known, for an agent that keeps servers there.
pub fn strip(
    text: &str,
    form: Form,
    empty: &Empty,
    server: Option<&Known>,
) -> Result<String, Unfit> {
    let mut document = form.document(text)?;
    let root = document.root();
    let before = document.text().to_owned();
    while let Some(one) = ours(&document, form.mark)?.pop() {
        one.remove(&mut document, empty)?;
    }
    let members = document.members(&document.value_from(root.start))?;
    let is_line = |member: &Member| is_our_status_line(&document, member, form.mark);
    if let Some(number) = members.iter().position(is_line) {
        document.remove(&document.value_from(root.start), number)?;
    }
    if let Some(known) = server {
        remove_server(&mut document, empty, known)?;
    }
    // A blank text was no document before, and is none again.
    Ok(if document.text() == before { text.to_owned() } else { document.text().to_owned() })
}

/// Takes our server out of a settings file, and the list of servers if it is empty without it.
fn remove_server(document: &mut Document, empty: &Empty, known: &Known) -> Result<(), Unfit> {
    if !server(document).is_some_and(|server| known.owns(&server)) {
        return Ok(());
    }
    let root = document.value_from(document.root().start);
    let members = document.members(&root)?;
    let Some(number) = members.iter().position(|member| member.name == SERVERS) else {
        return Ok(());
    };
    let place = members[number].value.clone();
    let all = document.members(&place)?;
    let Some(ours) = all.iter().position(|member| member.name == SERVER) else { return Ok(()) };
    if !document.is_alone(&place, ours)? {
        return document.remove(&place, ours);
    }
    match empty.get(SERVERS) {
        Some(blanks) => document.set_inner(&place, blanks),
        None => document.remove(&root, number)?,
    }
    Ok(())
}

/// The server of our name in a settings file.
fn server(document: &Document) -> Option<Value> {
    let servers = document.member(&document.root(), SERVERS).ok().flatten()?;
    let found = document.member(&servers, SERVER).ok().flatten()?;
    Some(document.value(&found))
}

/// Whether a text has exactly what is wanted of ours, and nothing else of ours.
pub fn has(text: &str, wanted: &Wanted, form: Form) -> bool {
    let Ok(document) = form.document(text) else { return false };
    let Ok(found) = ours(&document, form.mark) else { return false };
    let mut found: Vec<(String, Value)> =
        found.into_iter().map(|one| (one.event, one.group)).collect();
    let value = |(event, group): &(&str, Group)| {
        ((*event).to_owned(), serde_json::to_value(group).unwrap_or_default())
    };
    let mut expected: Vec<(String, Value)> = wanted.groups.iter().map(value).collect();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    expected.sort_by(|a, b| a.0.cmp(&b.0));
    found == expected
        && has_status_line(&document, wanted.status_line.as_ref(), form.mark)
        && has_server(&document, wanted.server.as_ref())
}

/// Whether the server is as wanted. If none is wanted, one that is there is the user's.
fn has_server(document: &Document, wanted: Option<&Value>) -> bool {
    wanted.is_none_or(|wanted| server(document).as_ref() == Some(wanted))
}

/// Whether the status line is as wanted. Another one than ours is always fine.
fn has_status_line(document: &Document, wanted: Option<&StatusLine>, mark: &str) -> bool {
    let found = document.member(&document.root(), "statusLine").ok().flatten();
    let found = found.map(|place| document.value(&place));
    match (found, wanted) {
        (Some(line), _) if !is_ours(&line, mark) => true,
        (found, wanted) => found == wanted.and_then(|line| serde_json::to_value(line).ok()),
    }
}

/// What a settings file has of ours.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Present {
    /// How its hooks call Rappel; nothing if it has no hooks of ours.
    pub caller: Option<Caller>,
    /// For whom they say that they stand there.
    pub scope: Option<Scope>,
    /// The events that they are for.
    pub events: Vec<String>,
    /// The server for MCP that has our name, whoever wrote it.
    pub server: Option<Value>,
    /// Its status line is ours.
    pub status_line: bool,
    /// It has a status line, whoever wrote it.
    pub any_status_line: bool,
}

/// Looks for what is ours in a settings file.
pub fn present(text: &str, form: Form) -> Result<Present, Unfit> {
    let document = form.document(text)?;
    let mark = form.mark;
    let line =
        |one: &Ours| one.group.pointer(&format!("/hooks/{}/command", one.handler.1)).cloned();
    let found = ours(&document, mark)?;
    let line = found.first().and_then(line);
    let line = line.as_ref().and_then(Value::as_str);
    let members = document.members(&document.root())?;
    Ok(Present {
        caller: line.and_then(|line| Caller::of_line(line, mark)),
        scope: line.map(Scope::of_line),
        events: found.iter().map(|one| one.event.clone()).collect(),
        server: server(&document),
        status_line: members.iter().any(|member| is_our_status_line(&document, member, mark)),
        any_status_line: members.iter().any(|member| member.name == "statusLine"),
    })
}

/// A handler of ours: the container of each level, and the number that leads on in it.
struct Ours {
    root: (Range<usize>, usize),
    hooks: (Range<usize>, usize),
    list: (Range<usize>, usize),
    handler: (Range<usize>, usize),
    event: String,
    group: Value,
}

impl Ours {
    /// Removes it, or the outermost container that is empty without it and was not before.
    fn remove(self, document: &mut Document, empty: &Empty) -> Result<(), Unfit> {
        let list = way_to(&self.event);
        let levels = [(self.handler, None), (self.list, Some(&*list)), (self.hooks, Some(HOOKS))];
        for ((place, number), name) in levels {
            if !document.is_alone(&place, number)? {
                return document.remove(&place, number);
            }
            if let Some(blanks) = name.and_then(|name| empty.get(name)) {
                document.set_inner(&place, blanks);
                return Ok(());
            }
        }
        document.remove(&self.root.0, self.root.1)
    }
}

/// Every handler of ours, in the order of the text.
fn ours(document: &Document, mark: &str) -> Result<Vec<Ours>, Unfit> {
    let mut found = Vec::new();
    let root = document.root();
    let members = document.members(&root)?;
    let Some(number) = members.iter().position(|member| member.name == HOOKS) else {
        return Ok(found);
    };
    // Whatever has another shape is not ours, and stays.
    let hooks = &members[number].value;
    for (event, member) in document.members(hooks).unwrap_or_default().into_iter().enumerate() {
        let list = &member.value;
        for (at, place) in document.items(list).unwrap_or_default().iter().enumerate() {
            let Ok(Some(handlers)) = document.member(place, "hooks") else { continue };
            for (handler, one) in document.items(&handlers).unwrap_or_default().iter().enumerate() {
                if is_ours(&document.value(one), mark) {
                    found.push(Ours {
                        root: (root.clone(), number),
                        hooks: (hooks.clone(), event),
                        list: (list.clone(), at),
                        handler: (handlers.clone(), handler),
                        event: member.name.clone(),
                        group: document.value(place),
                    });
                }
            }
        }
    }
    Ok(found)
}

fn is_our_status_line(document: &Document, member: &Member, mark: &str) -> bool {
    member.name == "statusLine" && is_ours(&document.value(&member.value), mark)
}

fn is_ours(handler: &Value, mark: &str) -> bool {
    let command = handler.get("command").and_then(Value::as_str);
    command.is_some_and(|command| command.ends_with(mark))
}

#[cfg(test)]
mod tests {
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
    fn another_status_line_stays() {
        let text = "{\"statusLine\":{\"type\":\"command\",\"command\":\"mine\"}}";
        let after = merged(text);
        assert!(after.starts_with(
            "{\"statusLine\":{\"type\":\"command\",\"command\":\"mine\"},\"hooks\":{\""
        ));
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
        let wanted =
            Wanted { groups: groups(&caller, Scope::Local, "x"), status_line: None, server };
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
            refused("{\n  \"hooks\": null\n}")
                .starts_with("line 2: \"hooks\": an object is expected")
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
                prop::collection::btree_map("[a-z\"\\\\]{0,4}", inner, 0..4)
                    .prop_map(Value::from_iter),
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
}
