//! Gemini CLI. A message is written anew, whole and under the same id, whenever something is added
//! to it: only what is new is given. `$rewindTo` takes back a message and all after it.
//! `$set.messages` repeats the conversation when the user resumes a session. A compression replaces
//! the conversation: then it begins with another message.

use std::collections::VecDeque;

use rappel_types::RelPath;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::field::{content, in_background, list, number, owned, short, text, time};
use super::{Item, Out, Session, ThoughtKind, Tokens};
use crate::agents::said::{GEMINI_SHELL, GeminiCommand};

/// How many messages are remembered. Only the newest ones are written again.
const MESSAGES: usize = 256;

/// So begins what a user types for a command file of ours. It has run before the model is asked to
/// repeat its answer, and is no prompt.
const OWN_COMMAND: &str = "/rappel:";

/// What is remembered between two lines.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct State {
    /// The session that started this one, as the path says.
    parent: Option<String>,
    session: Option<Session>,
    thought: Option<String>,
    title: Option<u64>,
    /// The message that the conversation begins with.
    #[serde(default)]
    first: Option<u64>,
    messages: VecDeque<Message>,
}

/// How much of a message was given.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Message {
    id: String,
    /// Where it began.
    at: u64,
    /// The newest thought before it.
    before: Option<String>,
    /// Whether its text was given.
    said: bool,
    thoughts: usize,
    started: Vec<u64>,
    finished: Vec<u64>,
    output: Option<u64>,
}

impl State {
    /// For a transcript at that path: a subagent's lies in a folder named after the session that
    /// started it.
    pub(super) fn of(path: &RelPath) -> Self {
        let mut names = path.components().rev().skip(1);
        let folder = names.next().filter(|folder| *folder != b"chats");
        let parent = folder.filter(|_| names.next() == Some(b"chats"));
        let parent = parent.map(|parent| String::from_utf8_lossy(parent).into_owned());
        Self { parent, ..Self::default() }
    }

    /// Reads a line; false if it was not understood.
    pub(super) fn line(&mut self, value: &Value, out: &mut Out<'_>) -> bool {
        if let Some(id) = text(value, "$rewindTo") {
            self.rewind(id, out);
        } else if let Some(set) = value.get("$set") {
            self.metadata(set, out);
        } else if let Some(id) = text(value, "id") {
            return self.message(id, value, out);
        } else if text(value, "sessionId").is_some() {
            self.metadata(value, out);
        } else {
            return false;
        }
        true
    }

    fn metadata(&mut self, value: &Value, out: &mut Out<'_>) {
        if let Some(id) = text(value, "sessionId") {
            // The line has no time of its own, and a session begins when its agent began it.
            out.at = out.at.or_else(|| time(value, "startTime"));
            let mut session = self.session.clone().unwrap_or_default();
            id.clone_into(&mut session.assistant_session_id);
            session.parent.clone_from(&self.parent);
            self.announce(session, out);
        }
        self.conversation(list(value, "messages"), out);
        if let Some(summary) = text(value, "summary")
            && self.title.replace(short(summary)) != Some(short(summary))
        {
            let text = out.clip(summary);
            out.push(Item::Title { text });
        }
    }

    /// Takes in the conversation as it is from now on.
    fn conversation(&mut self, messages: &[Value], out: &mut Out<'_>) {
        let begins = messages.iter().find(|message| !is_context(message));
        let Some(id) = begins.and_then(|message| text(message, "id")) else { return };
        let before = self.first.replace(short(id));
        if before.is_some_and(|before| before != short(id)) {
            let summary = begins.and_then(|message| message.get("content")).map(parts);
            let text = summary.map(|summary| out.clip(&summary));
            out.push(Item::Compaction { trigger: None, text });
        }
    }

    fn announce(&mut self, session: Session, out: &mut Out<'_>) {
        if self.session.as_ref() != Some(&session) {
            out.push(Item::Session(session.clone()));
            self.session = Some(session);
        }
    }

    fn message(&mut self, id: &str, value: &Value, out: &mut Out<'_>) -> bool {
        let kind = text(value, "type").unwrap_or_default();
        match kind {
            "user" | "gemini" => {}
            "info" | "error" | "warning" => return true,
            _ => return false,
        }
        let known = self.messages.iter().rposition(|message| message.id == id);
        let mut message = match known.and_then(|at| self.messages.get_mut(at)) {
            Some(message) => std::mem::take(message),
            None => Message {
                id: id.to_owned(),
                at: out.line,
                before: self.thought.clone(),
                ..Message::default()
            },
        };
        if kind == "user" {
            if !is_context(value) {
                self.first.get_or_insert_with(|| short(id));
            }
            prompt(value, &mut message, out);
        } else {
            self.answer(value, &mut message, out);
        }
        match known.and_then(|at| self.messages.get_mut(at)) {
            Some(place) => *place = message,
            None => self.messages.push_back(message),
        }
        if self.messages.len() > MESSAGES {
            self.messages.pop_front();
        }
        true
    }

    fn answer(&mut self, value: &Value, message: &mut Message, out: &mut Out<'_>) {
        let at = out.at;
        if let (Some(model), Some(mut session)) = (owned(value, "model"), self.session.clone()) {
            session.model = Some(model);
            self.announce(session, out);
        }
        let thoughts = list(value, "thoughts");
        for (number, thought) in thoughts.iter().enumerate().skip(message.thoughts) {
            let parts = [text(thought, "subject"), text(thought, "description")];
            let said: Vec<&str> = parts.into_iter().flatten().collect();
            out.at = time(thought, "timestamp").or(at);
            let id = format!("{}/thought-{number}", message.id);
            self.think(id, ThoughtKind::Reasoning, &said.join("\n\n"), out);
        }
        message.thoughts = message.thoughts.max(thoughts.len());
        out.at = at;
        let said = value.get("content").map(parts).unwrap_or_default();
        if !message.said && !said.trim().is_empty() {
            message.said = true;
            self.think(message.id.clone(), ThoughtKind::Text, &said, out);
        }
        for call in list(value, "toolCalls") {
            out.at = time(call, "timestamp").or(at);
            tool_call(call, message, out);
        }
        out.at = at;
        if let Some(tokens) = value.get("tokens").filter(|tokens| tokens.is_object()) {
            let reasoning = number(tokens, "thoughts");
            let output = number(tokens, "output").saturating_add(reasoning);
            if message.output.is_none_or(|most| most < output) {
                message.output = Some(output);
                let cache_read = number(tokens, "cached");
                let input = number(tokens, "input").saturating_sub(cache_read);
                out.push(Item::Tokens(Tokens {
                    message: message.id.clone(),
                    model: owned(value, "model"),
                    input: input.saturating_add(number(tokens, "tool")),
                    output,
                    cache_read,
                    cache_write: 0,
                    reasoning,
                }));
            }
        }
    }

    fn think(&mut self, id: String, kind: ThoughtKind, said: &str, out: &mut Out<'_>) {
        if said.trim().is_empty() {
            return;
        }
        let text = out.clip(said);
        let parent = self.thought.replace(id.clone());
        out.push(Item::Thought { id, kind, text, parent });
    }

    fn rewind(&mut self, id: &str, out: &mut Out<'_>) {
        let Some(at) = self.messages.iter().position(|message| message.id == id) else { return };
        if let Some(message) = self.messages.drain(at..).next() {
            self.thought = message.before;
            out.mark(message.at..out.line, true);
        }
    }
}

/// Whether Gemini CLI itself wrote a message in the user's name: what it says of the surroundings.
fn is_context(message: &Value) -> bool {
    let said = message.get("content").map(parts).unwrap_or_default();
    said.trim_start().starts_with("<session_context>")
}

/// Whether a message in the user's name holds the results of tools.
fn is_result(message: &Value) -> bool {
    list(message, "content").iter().any(|part| part.get("functionResponse").is_some())
}

fn prompt(value: &Value, message: &mut Message, out: &mut Out<'_>) {
    if is_result(value) || is_context(value) {
        return;
    }
    // What the user typed, where it was made longer before it was sent.
    let typed = value.get("displayContent").filter(|typed| !typed.is_null());
    let said = typed.or_else(|| value.get("content")).map(parts).unwrap_or_default();
    let said = without_hooks(&said);
    if said.starts_with(OWN_COMMAND) {
        return;
    }
    if !message.said && !said.trim().is_empty() {
        message.said = true;
        let text = out.clip(&said);
        out.push(Item::Prompt { id: None, text });
    }
}

/// A prompt without what hooks told the model with it.
fn without_hooks(said: &str) -> String {
    const OPEN: &str = "<hook_context>";
    const CLOSE: &str = "</hook_context>";
    let mut rest = said;
    while let Some(after) = rest.trim_start().strip_prefix(OPEN) {
        let Some((_, behind)) = after.split_once(CLOSE) else { break };
        rest = behind.trim_start();
    }
    while let Some(before) = rest.trim_end().strip_suffix(CLOSE) {
        let Some((typed, _)) = before.rsplit_once(OPEN) else { break };
        rest = typed.trim_end();
    }
    rest.to_owned()
}

fn tool_call(call: &Value, message: &mut Message, out: &mut Out<'_>) {
    let (Some(id), Some(tool)) = (text(call, "id"), text(call, "name")) else { return };
    let key = short(id);
    if !message.started.contains(&key) {
        message.started.push(key);
        let input = call.get("args").unwrap_or(&Value::Null);
        let background = in_background(input);
        let input = out.clip_value(input);
        let (id, tool) = (id.to_owned(), tool.to_owned());
        out.push(Item::ToolStarted { id, tool, input, background });
    }
    let status = text(call, "status").unwrap_or_default();
    if matches!(status, "success" | "error" | "cancelled") && !message.finished.contains(&key) {
        message.finished.push(key);
        let said = match call.get("result").map(parts).filter(|said| !said.is_empty()) {
            Some(said) => said,
            None => text(call, "resultDisplay").unwrap_or_default().to_owned(),
        };
        let output = out.clip(&said);
        let is_shell = text(call, "name") == Some(GEMINI_SHELL);
        let error = match status {
            "success" if is_shell => GeminiCommand::of(&said).failure,
            "success" => None,
            _ if output.is_empty() => Some(status.to_owned()),
            _ => Some(output.clone()),
        };
        let success = error.is_none();
        out.push(Item::ToolFinished { id: id.to_owned(), output, error, success });
    }
}

/// What parts of a content say. Answers of tools say what their `output` or `error` is.
fn parts(value: &Value) -> String {
    match value {
        Value::Array(list) => {
            let parts: Vec<String> =
                list.iter().map(parts).filter(|text| !text.is_empty()).collect();
            parts.join("\n")
        }
        Value::Object(part) => match part.get("functionResponse") {
            Some(answer) => {
                let answer = answer.get("response").unwrap_or(answer);
                let said = answer.get("output").or_else(|| answer.get("error"));
                said.map_or_else(|| answer.to_string(), content)
            }
            None if part.contains_key("functionCall") || part.contains_key("thought") => {
                String::new()
            }
            None => content(value),
        },
        other => content(other),
    }
}
