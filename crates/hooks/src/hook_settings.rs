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

/// Puts what is wanted into a text that has something of ours already: what differs where ours
/// stands, and what is not there behind all else. What the user has of his own stays in its place,
/// for an agent may know hooks by their places. `empty` is what was empty before ours first came;
/// returned is what was so all in all.
pub fn renew(
    text: &str,
    wanted: &Wanted,
    form: Form,
    empty: &Empty,
) -> Result<(String, Empty), Unfit> {
    let mut document = form.document(text)?;
    while let Some(one) = surplus(&document, wanted, form.mark)? {
        one.remove(&mut document, empty)?;
    }
    let mut empty = empty.clone();
    empty.extend(self::empty(&document, wanted)?);
    for (event, group) in &wanted.groups {
        let found = ours(&document, form.mark)?.into_iter().find(|one| one.event == *event);
        match found {
            Some(one) => one.renew(&mut document, group)?,
            None => {
                let list = event_list(&mut document, event)?;
                document.add_item(&list, group)?;
            }
        }
    }
    if let Some(line) = &wanted.status_line {
        match document.member(&document.root(), "statusLine")? {
            Some(there) if is_ours(&document.value(&there), form.mark) => {
                document.set_value(&there, line);
            }
            Some(_) => {}
            None => document.add_member(&document.root(), "statusLine", line)?,
        }
    }
    if let Some(wanted) = &wanted.server {
        let root = document.root();
        let servers = member_or(&mut document, &root, SERVERS, &json!({}))?;
        match document.member(&servers, SERVER)? {
            Some(there) => document.set_value(&there, wanted),
            None => document.add_member(&servers, SERVER, wanted)?,
        }
    }
    Ok((document.finish().0, empty))
}

/// A handler of ours that nothing is wanted of: the last one for an event that is not wanted, of
/// several for one event, or among handlers of the user's in a group that is for other tools.
fn surplus(document: &Document, wanted: &Wanted, mark: &str) -> Result<Option<Ours>, Unfit> {
    let mut all = ours(document, mark)?;
    let is_surplus = |(number, one): (usize, &Ours)| {
        let group = wanted.groups.iter().find(|(event, _)| *event == one.event);
        let fits = |(_, group): &(&str, Group)| one.is_alone() || one.matcher() == group.matcher;
        !group.is_some_and(fits) || all[..number].iter().any(|other| other.event == one.event)
    };
    let found = (0..all.len()).rev().find(|number| is_surplus((*number, &all[*number])));
    Ok(found.map(|number| all.swap_remove(number)))
}

/// Whether a hook of the user's stands behind one of ours for the same event. It gets another place
/// when ours goes.
pub fn is_followed(text: &str, form: Form) -> bool {
    let Ok(document) = form.document(text) else { return false };
    let all = ours(&document, form.mark).unwrap_or_default();
    let handlers = |group: &Value| group["hooks"].as_array().map_or(0, Vec::len);
    all.iter().any(|one| {
        let count = |which: &dyn Fn(&Ours) -> bool| {
            all.iter().filter(|other| other.event == one.event && which(other)).count()
        };
        let groups = document.items(&one.list.0).unwrap_or_default();
        let behind = groups[one.list.1 + 1..].iter().map(|place| handlers(&document.value(place)));
        let in_group = handlers(&one.group) - one.handler.1 - 1;
        in_group > count(&|it| it.list.1 == one.list.1 && it.handler.1 > one.handler.1)
            || behind.sum::<usize>() > count(&|it| it.list.1 > one.list.1)
    })
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
    /// Whether no other handler is in its group.
    fn is_alone(&self) -> bool {
        self.group["hooks"].as_array().is_some_and(|handlers| handlers.len() == 1)
    }

    /// What its group is for.
    fn matcher(&self) -> Option<&str> {
        self.group["matcher"].as_str()
    }

    /// Makes it what is wanted, where it stands.
    fn renew(&self, document: &mut Document, wanted: &Group) -> Result<(), Unfit> {
        let is_alone = self.is_alone();
        let (list, number) = if is_alone { &self.list } else { &self.handler };
        match document.items(list)?.get(*number) {
            Some(place) if is_alone => document.set_value(place, wanted),
            Some(place) => document.set_value(place, &wanted.hooks[0]),
            None => {}
        }
        Ok(())
    }

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
mod tests;
