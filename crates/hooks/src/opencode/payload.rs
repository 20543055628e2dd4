//! What the plugin tells, as neutral events. It passes on what opencode gave it, under the names of
//! opencode's own hooks, and adds whose event it is.

use std::path::Path;

use rappel::hook::{Call, CallKind, Event, Moment, Outcome, Start};
use rappel_types::agents::ProcessId;
use serde::Deserialize;
use serde_json::Value;

use super::NAME;
use crate::codex::patch;
use crate::payload::{Told, operation, tool};
use crate::{PayloadError, carries_context};

/// What this version reads of a payload. Whatever else is in it is passed over.
#[derive(Deserialize)]
struct Payload {
    event: String,
    /// The session that the user talks to. Without it, it is the one that opencode names.
    #[serde(default)]
    session: Option<String>,
    /// The session of a subagent below it.
    #[serde(default)]
    subagent: Option<String>,
    #[serde(default)]
    agent: Option<String>,
    #[serde(default)]
    cwd: Option<String>,
    /// Whether it comes from `opencode run`, which puts quotes around words.
    #[serde(default)]
    run: bool,
    #[serde(default)]
    input: Value,
    #[serde(default)]
    output: Value,
}

/// Reads what the plugin gave. `process` is opencode's.
pub fn event(bytes: &[u8], process: Option<ProcessId>) -> Result<Event, PayloadError> {
    let payload: Payload = PayloadError::parse(bytes)?;
    let moment = moment(&payload)?;
    let named = payload.session.clone().or_else(|| payload.own_session());
    let session = named.unwrap_or_default();
    let subagent = payload.subagent.filter(|id| !id.is_empty() && *id != session);
    let told = Told {
        provider: NAME,
        session,
        subagent: subagent.map(|id| (id, payload.agent)),
        folder: payload.cwd,
        silent_compaction: false,
    };
    told.event(process, carries_context(&moment), moment)
}

impl Payload {
    /// The session as opencode names it.
    fn own_session(&self) -> Option<String> {
        let properties = self.input.get("properties").unwrap_or(&Value::Null);
        let id = text(&self.input, "sessionID").or_else(|| text(properties, "sessionID"));
        id.map(str::to_owned)
    }

    fn is_of_subagent(&self) -> bool {
        self.subagent.as_ref().is_some_and(|id| !id.is_empty())
    }
}

fn moment(payload: &Payload) -> Result<Moment, PayloadError> {
    let sub = payload.is_of_subagent();
    Ok(match payload.event.as_str() {
        "event.session.created" if sub => Moment::SubagentStart,
        "event.session.created" => Moment::SessionStart(Start::New),
        "rappel.resumed" => Moment::SessionStart(Start::Resumed),
        "event.session.compacted" => Moment::SessionStart(Start::Compacted),
        "experimental.session.compacting" => Moment::BeforeCompaction,
        "chat.message" => prompt(payload),
        "command.execute.before" => {
            let name = text(&payload.input, "command").unwrap_or_default();
            let name = name.trim_start_matches("rappel").trim_start_matches(['/', ':']);
            let words = text(&payload.input, "arguments").unwrap_or_default();
            let words = if payload.run { unquoted(words) } else { words.to_owned() };
            Moment::Prompt { id: None, text: format!("/rappel:{name} {words}").trim_end().into() }
        }
        "tool.execute.before" => Moment::BeforeCall(call(payload)?),
        "tool.execute.after" => Moment::AfterCall(call(payload)?, outcome(payload)),
        "rappel.tool.error" => {
            let error = text(&payload.output, "error").unwrap_or("it failed").to_owned();
            Moment::AfterCall(call(payload)?, Outcome { error: Some(error), ..Outcome::default() })
        }
        "event.session.idle" | "event.session.deleted" if sub => Moment::SubagentEnd,
        "event.session.idle" => Moment::Idle { background: false },
        "event.session.deleted" | "rappel.disposed" => Moment::SessionEnd { cleared: false },
        other => return Err(PayloadError::Unknown(other.to_owned())),
    })
}

fn prompt(payload: &Payload) -> Moment {
    let parts = payload.output.get("parts").and_then(Value::as_array);
    let flag = |part: &Value, name: &str| part.get(name) == Some(&Value::Bool(true));
    let typed: Vec<&str> = parts
        .into_iter()
        .flatten()
        .filter(|part| text(part, "type") == Some("text"))
        .filter(|part| !flag(part, "synthetic") && !flag(part, "ignored"))
        .filter_map(|part| text(part, "text"))
        .collect();
    // A prompt without words of the user's was put there by a program.
    if typed.is_empty() || payload.is_of_subagent() {
        return Moment::Notification;
    }
    let typed = typed.join("\n");
    let words = if payload.run { unquoted(&typed) } else { typed };
    let message = payload.output.get("message").unwrap_or(&Value::Null);
    Moment::Prompt { id: text(message, "id").map(str::to_owned), text: words }
}

/// What a user gave to `opencode run`: one argument that has spaces comes in quotes, and the quotes
/// in it with a backslash.
fn unquoted(text: &str) -> String {
    let inner = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    let Some(inner) = inner else { return text.to_owned() };
    let plain = inner.replace("\\\"", "\0");
    match plain.contains('"') {
        // Several arguments.
        true => text.to_owned(),
        false => plain.replace('\0', "\""),
    }
}

fn call(payload: &Payload) -> Result<Call, PayloadError> {
    // The plugin leaves our own tools out.
    let tool = tool(text(&payload.input, "tool"), None)?;
    let arguments = payload.input.get("args").or_else(|| payload.output.get("args"));
    let input = arguments.cloned().unwrap_or(Value::Null);
    let kind = match tool.as_str() {
        "bash" | "shell" => text(&input, "command")
            .map_or(CallKind::Other, |command| CallKind::Shell(command.to_owned())),
        "write" | "edit" | "multiedit" => {
            let path = text(&input, "filePath").map(|path| absolute(payload, path));
            CallKind::Edit(path.into_iter().collect())
        }
        "apply_patch" | "patch" => {
            let patch = text(&input, "patchText").unwrap_or_default();
            CallKind::Edit(patch::paths(patch, payload.cwd.as_deref()))
        }
        "task" => CallKind::Delegate,
        _ => CallKind::Other,
    };
    let is_before = payload.event == "tool.execute.before";
    Ok(Call {
        id: text(&payload.input, "callID").map(str::to_owned),
        operation: operation(is_before, &kind, payload.cwd.as_deref(), text(&input, "workdir")),
        tool,
        input,
        kind,
        background: false,
    })
}

/// A path as opencode understands it.
fn absolute(payload: &Payload, path: &str) -> String {
    let folder = payload.cwd.as_deref().unwrap_or_default();
    Path::new(folder).join(path).to_string_lossy().into_owned()
}

fn outcome(payload: &Payload) -> Outcome {
    let output = &payload.output;
    // Tools of MCP servers answer with blocks.
    let result = output.get("output").or_else(|| output.get("content")).cloned();
    let exit_code = output.get("metadata").and_then(|metadata| metadata.get("exit"));
    let exit_code = exit_code.and_then(Value::as_i64).and_then(|code| i32::try_from(code).ok());
    let failed = output.get("isError") == Some(&Value::Bool(true));
    let error = match exit_code {
        Some(code) if code != 0 => Some(format!("exit code {code}")),
        _ => failed.then(|| "the tool says that it failed".to_owned()),
    };
    let said = text(output, "output").unwrap_or_default();
    Outcome {
        result: result.unwrap_or(Value::Null),
        error,
        exit_code,
        // opencode does not tell the two streams apart.
        stdout: if exit_code.is_some() { said.to_owned() } else { String::new() },
        stderr: String::new(),
        presumed: false,
    }
}

fn text<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value.get(name)?.as_str().filter(|text| !text.is_empty())
}
