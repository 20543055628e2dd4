//! Codex's payloads as neutral events.

use std::path::PathBuf;

use rappel::hook::{Call, CallKind, Event, Moment, Outcome, Start};
use rappel_types::agents::ProcessId;
use serde::Deserialize;
use serde_json::Value;

use super::{NAME, patch, rollout};
use crate::payload::{Told, operation, tool};
use crate::{PayloadError, carries_context};

/// What the model calls the tools of our own server.
const OWN_TOOLS: &str = "mcp__rappel__";

/// What this version reads of a payload. Whatever else is in it is passed over.
#[derive(Deserialize)]
struct Payload {
    hook_event_name: String,
    session_id: String,
    #[serde(default)]
    cwd: Option<String>,
    #[serde(default)]
    transcript_path: Option<PathBuf>,
    #[serde(default)]
    agent_id: Option<String>,
    #[serde(default)]
    agent_type: Option<String>,
    #[serde(default)]
    source: Option<String>,
    #[serde(default)]
    prompt: Option<String>,
    #[serde(default)]
    tool_name: Option<String>,
    #[serde(default)]
    tool_use_id: Option<String>,
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
        subagent: payload.agent_id.map(|id| (id, payload.agent_type)),
        folder: payload.cwd,
        silent_compaction: false,
    };
    told.event(process, carries_context(&moment), moment)
}

fn moment(payload: &Payload) -> Result<Moment, PayloadError> {
    Ok(match payload.hook_event_name.as_str() {
        "SessionStart" => Moment::SessionStart(match payload.source.as_deref() {
            Some("compact") => Start::Compacted,
            Some("resume") => Start::Resumed,
            _ => Start::New,
        }),
        // A subagent's prompt is what its agent gave it.
        "UserPromptSubmit" if payload.agent_id.is_some() => Moment::Notification,
        "UserPromptSubmit" => {
            // Not the turn: a user may add to one that goes on.
            Moment::Prompt { id: None, text: payload.prompt.clone().unwrap_or_default() }
        }
        "PreToolUse" => Moment::BeforeCall(call(payload)?),
        "PostToolUse" => {
            let call = call(payload)?;
            let outcome = outcome(payload, &call);
            Moment::AfterCall(call, outcome)
        }
        "PreCompact" => Moment::BeforeCompaction,
        "Stop" => Moment::Idle { background: false },
        "Interrupt" => Moment::Interrupt,
        "SubagentStart" => Moment::SubagentStart,
        "SubagentStop" => Moment::SubagentEnd,
        "SessionEnd" => Moment::SessionEnd { cleared: false },
        _ => return Err(PayloadError::Unknown(payload.hook_event_name.clone())),
    })
}

fn call(payload: &Payload) -> Result<Call, PayloadError> {
    let tool = tool(payload.tool_name.as_deref(), Some(OWN_TOOLS))?;
    let command = payload.tool_input.get("command").and_then(Value::as_str);
    let kind = match (tool.as_str(), command) {
        ("Bash", Some(command)) => CallKind::Shell(command.to_owned()),
        ("apply_patch", Some(patch)) => CallKind::Edit(patch::paths(patch, payload.cwd.as_deref())),
        _ => CallKind::Other,
    };
    let is_before = payload.hook_event_name == "PreToolUse";
    let operation = operation(is_before, &kind, payload.cwd.as_deref(), None);
    Ok(Call {
        id: payload.tool_use_id.clone().filter(|id| !id.is_empty()),
        tool,
        input: payload.tool_input.clone(),
        kind,
        background: false,
        operation,
    })
}

/// How a call ended. The hook is told what it said, and nothing of its exit code.
fn outcome(payload: &Payload, call: &Call) -> Outcome {
    let result = payload.tool_response.clone();
    let said = result.as_str().unwrap_or_default();
    let is_shell = matches!(call.kind, CallKind::Shell(_));
    let code = match (&payload.transcript_path, &call.id) {
        (Some(path), Some(id)) if is_shell => rollout::exit_code(path, id),
        _ => rollout::code_of(said),
    };
    let failed = code.is_some_and(|code| code != 0) || result["isError"] == true;
    let why = || match code {
        Some(code) => format!("exit code {code}"),
        None => "the tool says that it failed".to_owned(),
    };
    Outcome {
        error: failed.then(why),
        exit_code: code.filter(|_| is_shell),
        stdout: if is_shell { said.to_owned() } else { String::new() },
        stderr: String::new(),
        presumed: is_shell && code.is_none(),
        result,
    }
}
