//! What a part of a message tells.

use rappel_types::Timestamp;
use serde_json::Value;

use super::super::transcripts::{Found, Item, ThoughtKind, Tokens, clipped, clipped_value, field};
use super::{Batch, MessageKind, Reader, Told};

/// A row of the table of parts.
pub(super) struct Part {
    pub row: i64,
    pub id: String,
    pub session: String,
    pub message: String,
    pub created: Option<i64>,
    pub bytes: usize,
    pub data: Value,
}

impl Reader {
    /// Tells what a part says; false if it will say more.
    pub(super) fn tell(&mut self, part: &Part, told: &mut Told) -> bool {
        let Some(known) = self.sessions.get_mut(&part.session) else { return true };
        let message = self.messages.iter_mut().rev().find(|message| message.id == part.message);
        if let Some(model) = message.as_ref().and_then(|message| message.model.clone())
            && known.session.model.as_ref() != Some(&model)
        {
            known.session.model = Some(model);
        }
        let batch = told.batch(&part.session);
        let mut out = Out { batch, line: part.row as u64, at: moment(part.created) };
        if out.batch.found.is_empty() {
            out.push(Item::Session(known.session.clone()), 0);
        }
        let data = &part.data;
        match field::text(data, "type") {
            Some("text") if message.as_ref().is_some_and(|it| it.kind == MessageKind::User) => {
                let is_typed = !field::flag(data, "synthetic") && !field::flag(data, "ignored");
                if let (Some(message), Some(text), true) =
                    (message, field::text(data, "text"), is_typed)
                    && !std::mem::replace(&mut message.told, true)
                {
                    let (text, cut) = clipped(text);
                    out.push(Item::Prompt { id: Some(part.message.clone()), text }, cut);
                }
                true
            }
            Some(kind @ ("text" | "reasoning")) => {
                let times = data.get("time");
                if times.is_some_and(|times| times.get("end").is_none()) {
                    return false;
                }
                let said = field::text(data, "text").unwrap_or_default();
                if said.trim().is_empty() || field::flag(data, "ignored") {
                    return true;
                }
                out.at = times.and_then(|times| millis(times, "start")).or(out.at);
                let (text, cut) = clipped(said);
                let kind = match (kind, message.map(|message| message.kind)) {
                    ("reasoning", _) => ThoughtKind::Reasoning,
                    (_, Some(MessageKind::Summary)) => ThoughtKind::Summary,
                    _ => ThoughtKind::Text,
                };
                let parent = known.thought.replace(part.id.clone());
                out.push(Item::Thought { id: part.id.clone(), kind, text, parent }, cut);
                true
            }
            Some("tool") => out.tool(data),
            Some("step-finish") => {
                if let Some(tokens) = data.get("tokens") {
                    let cache = tokens.get("cache").unwrap_or(&Value::Null);
                    let reasoning = field::number(tokens, "reasoning");
                    let tokens = Tokens {
                        message: part.id.clone(),
                        model: known.session.model.clone(),
                        input: field::number(tokens, "input"),
                        output: field::number(tokens, "output").saturating_add(reasoning),
                        cache_read: field::number(cache, "read"),
                        cache_write: field::number(cache, "write"),
                        reasoning,
                    };
                    out.push(Item::Tokens(tokens), 0);
                }
                true
            }
            Some("compaction") => {
                let trigger = if field::flag(data, "auto") { "auto" } else { "manual" };
                let trigger = Some(trigger.to_owned());
                out.push(Item::Compaction { trigger, text: None }, 0);
                true
            }
            // Other parts tell nothing that a journal has a word for.
            Some(_) => true,
            None => {
                out.batch.skipped += 1;
                true
            }
        }
    }
}

impl Told {
    /// What a session told so far.
    fn batch(&mut self, session: &str) -> &mut Batch {
        let at = self.sessions.iter().position(|(id, _)| id == session);
        let at = at.unwrap_or_else(|| {
            self.sessions.push((session.to_owned(), Batch::default()));
            self.sessions.len() - 1
        });
        &mut self.sessions[at].1
    }
}

/// Where a part's items go.
struct Out<'a> {
    batch: &'a mut Batch,
    line: u64,
    at: Option<Timestamp>,
}

impl Out<'_> {
    fn push(&mut self, item: Item, cut: u64) {
        let (at, line) = (self.at, self.line);
        self.batch.found.push(Found { at, line, cut, abandoned: false, item });
    }

    /// A call of a tool; false while it runs.
    fn tool(&mut self, data: &Value) -> bool {
        let (Some(id), Some(tool)) = (field::text(data, "callID"), field::text(data, "tool"))
        else {
            return true;
        };
        let state = data.get("state").unwrap_or(&Value::Null);
        let status = field::text(state, "status").unwrap_or_default();
        // Its arguments are still being written.
        if status == "pending" {
            return false;
        }
        let times = state.get("time").unwrap_or(&Value::Null);
        let input = state.get("input").unwrap_or(&Value::Null);
        self.at = millis(times, "start").or(self.at);
        let (kept, cut) = clipped_value(input);
        let started =
            Item::ToolStarted { id: id.into(), tool: tool.into(), input: kept, background: false };
        self.push(started, cut);
        let (output, error) = match status {
            "completed" => {
                let metadata = state.get("metadata").unwrap_or(&Value::Null);
                let code = metadata.get("exit").and_then(Value::as_i64).filter(|code| *code != 0);
                let error = code.map(|code| format!("exit code {code}"));
                (field::text(state, "output").unwrap_or_default(), error)
            }
            "error" => {
                let error = field::text(state, "error").unwrap_or("it failed");
                ("", Some(clipped(error).0))
            }
            _ => return false,
        };
        self.at = millis(times, "end").or(self.at);
        let paths = edited(tool, input);
        if status == "completed" && !paths.is_empty() {
            self.push(Item::FilesChanged { id: id.into(), paths }, 0);
        }
        let (output, cut) = clipped(output);
        let success = error.is_none();
        self.push(Item::ToolFinished { id: id.into(), output, error, success }, cut);
        true
    }
}

/// The files that a call of one of opencode's own tools writes, as it names them.
pub fn edited(tool: &str, input: &Value) -> Vec<String> {
    match tool {
        "write" | "edit" | "multiedit" => {
            field::text(input, "filePath").map(str::to_owned).into_iter().collect()
        }
        "apply_patch" | "patch" => {
            const HEADS: [&str; 4] =
                ["*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: "];
            let patch = field::text(input, "patchText").unwrap_or_default();
            let named = |line: &str| {
                HEADS.iter().find_map(|head| line.strip_prefix(head)).map(|path| path.trim().into())
            };
            patch.lines().filter_map(named).collect()
        }
        _ => Vec::new(),
    }
}

fn millis(times: &Value, name: &str) -> Option<Timestamp> {
    moment(times.get(name).and_then(Value::as_i64))
}

fn moment(millis: Option<i64>) -> Option<Timestamp> {
    millis.map(Timestamp::from_millis)
}
