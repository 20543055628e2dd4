//! Gemini CLI's payloads as neutral events.
//!
//! It gives its calls no ids, has no events of subagents (their calls come as the main session's),
//! and tells the end of a session more than once.

use std::path::Path;

use rappel::hook::{Call, CallKind, Event, Moment, Outcome, Start};
use rappel::said::{GEMINI_SHELL, GeminiCommand};
use rappel_types::agents::ProcessId;
use serde::Deserialize;
use serde_json::Value;

use super::NAME;
use super::answer::carrier;
use super::commands::ANSWERED;
use crate::PayloadError;
use crate::payload::{Told, operation, tool};

/// What the model calls the tools of our own server.
const OWN_TOOLS: &str = "mcp_rappel_";

/// What this version reads of a payload. Whatever else is in it is passed over.
#[derive(Deserialize)]
struct Payload {
    hook_event_name: String,
    session_id: String,
    #[serde(default)]
    cwd: Option<String>,
    #[serde(default)]
    source: Option<String>,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    trigger: Option<String>,
    #[serde(default)]
    prompt: Option<String>,
    #[serde(default)]
    tool_name: Option<String>,
    #[serde(default)]
    tool_input: Value,
    #[serde(default)]
    tool_response: Value,
}

/// Reads what a hook was given. `process` is the agent's.
pub fn event(bytes: &[u8], process: Option<ProcessId>) -> Result<Event, PayloadError> {
    let payload: Payload = PayloadError::parse(bytes)?;
    let moment = moment(&payload)?;
    let told = Told {
        provider: NAME,
        session: payload.session_id,
        subagent: None,
        folder: payload.cwd,
        silent_compaction: true,
    };
    told.event(process, carrier(&moment).is_some(), moment)
}

fn moment(payload: &Payload) -> Result<Moment, PayloadError> {
    Ok(match payload.hook_event_name.as_str() {
        "SessionStart" => Moment::SessionStart(match payload.source.as_deref() {
            Some("resume") => Start::Resumed,
            _ => Start::New,
        }),
        "BeforeAgent" => {
            let text = typed(payload.prompt.as_deref().unwrap_or_default());
            match text.contains(ANSWERED) {
                // A command of ours, which has run already.
                true => Moment::Notification,
                false => Moment::Prompt { id: None, text },
            }
        }
        "BeforeTool" => Moment::BeforeCall(call(payload)?),
        "AfterTool" => {
            let call = call(payload)?;
            let outcome = outcome(payload, &call);
            Moment::AfterCall(call, outcome)
        }
        "AfterAgent" => Moment::Idle { background: false },
        // It asks itself before every request whether it should.
        "PreCompress" if payload.trigger.as_deref() != Some("manual") => {
            return Err(PayloadError::Nothing);
        }
        "PreCompress" => Moment::BeforeCompaction,
        "SessionEnd" => Moment::SessionEnd { cleared: payload.reason.as_deref() == Some("clear") },
        _ => return Err(PayloadError::Unknown(payload.hook_event_name.clone())),
    })
}

/// What the user typed. What hooks said at the beginning of a session stands before it.
fn typed(prompt: &str) -> String {
    let mut rest = prompt;
    while let Some(after) = rest.trim_start().strip_prefix("<hook_context>") {
        let Some((_, behind)) = after.split_once("</hook_context>") else { break };
        rest = behind.trim_start();
    }
    rest.to_owned()
}

fn call(payload: &Payload) -> Result<Call, PayloadError> {
    let tool = tool(payload.tool_name.as_deref(), Some(OWN_TOOLS))?;
    let folder = Path::new(payload.cwd.as_deref().unwrap_or_default());
    let text = |name: &str| payload.tool_input.get(name).and_then(Value::as_str);
    let kind = match tool.as_str() {
        GEMINI_SHELL => {
            text("command").map_or(CallKind::Other, |command| CallKind::Shell(command.to_owned()))
        }
        "write_file" | "replace" => {
            let path = text("file_path").map(|path| folder.join(path));
            CallKind::Edit(path.into_iter().map(|it| it.to_string_lossy().into_owned()).collect())
        }
        "invoke_agent" => CallKind::Delegate,
        _ => CallKind::Other,
    };
    let is_before = payload.hook_event_name == "BeforeTool";
    // A command may ask for another folder.
    let within = text("dir_path").or_else(|| text("directory"));
    let operation = operation(is_before, &kind, payload.cwd.as_deref(), within);
    let background = payload.tool_input.get("is_background") == Some(&Value::Bool(true));
    Ok(Call { id: None, tool, input: payload.tool_input.clone(), kind, background, operation })
}

/// How a call ended. A command that failed is told as any other; its exit code stands in its text.
fn outcome(payload: &Payload, call: &Call) -> Outcome {
    let result = &payload.tool_response;
    let said = match &result["llmContent"] {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    };
    let failure = &result["error"];
    let error = match failure {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other["message"].as_str().map_or_else(|| other.to_string(), str::to_owned)),
    };
    // What the model is given. Beside that, whole files stand in the answer.
    let result = Value::from(said.as_str());
    let CallKind::Shell(_) = &call.kind else {
        return Outcome { result, error, ..Outcome::default() };
    };
    let ended = GeminiCommand::of(&said);
    let error = error.or(ended.failure);
    Outcome {
        result,
        // One that goes on in the background came back, and nobody tells how it ends.
        presumed: error.is_none() && ended.exit_code.is_none(),
        exit_code: ended.exit_code.filter(|code| error.is_none() || *code != 0),
        error,
        stdout: ended.output,
        stderr: String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_hooks_said_is_not_what_the_user_typed() {
        assert_eq!(typed("fix it"), "fix it");
        let with =
            "<hook_context>a\n&lt;b&gt;</hook_context>\n\n<hook_context>c</hook_context>\nfix it";
        assert_eq!(typed(with), "fix it");
        assert_eq!(typed("<hook_context>open"), "<hook_context>open");
        assert_eq!(
            typed("see <hook_context>x</hook_context>"),
            "see <hook_context>x</hook_context>"
        );
    }
}
