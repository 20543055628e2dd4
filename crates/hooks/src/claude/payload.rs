//! Claude Code's payloads as neutral events.

use std::path::PathBuf;

use rappel::DestructiveCommand;
use rappel::hook::{Call, CallKind, Event, Moment, Outcome, Start};
use rappel::said::is_claudes_own;
use rappel_types::agents::ProcessId;
use serde::Deserialize;
use serde_json::Value;

use super::NAME;
use crate::payload::{Told, operation, tool};
use crate::{PayloadError, carries_context};

/// What this version reads of a payload. Whatever else is in it is passed over.
#[derive(Deserialize)]
struct Payload {
    hook_event_name: String,
    session_id: String,
    #[serde(default)]
    cwd: Option<String>,
    #[serde(default)]
    prompt_id: Option<String>,
    #[serde(default)]
    agent_id: Option<String>,
    #[serde(default)]
    agent_type: Option<String>,
    #[serde(default)]
    source: Option<String>,
    #[serde(default)]
    reason: Option<String>,
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
    #[serde(default)]
    error: Option<String>,
    #[serde(default)]
    worktree_path: Option<PathBuf>,
    #[serde(default)]
    background_tasks: Vec<Value>,
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
    let passed_over = || PayloadError::Unknown(payload.hook_event_name.clone());
    Ok(match payload.hook_event_name.as_str() {
        "SessionStart" => Moment::SessionStart(match payload.source.as_deref() {
            Some("compact") => Start::Compacted,
            Some("resume") => Start::Resumed,
            _ => Start::New,
        }),
        "UserPromptSubmit" => {
            let text = payload.prompt.clone().unwrap_or_default();
            // A subagent's is its agent's.
            match payload.agent_id.is_some() || is_claudes_own(&text) {
                true => Moment::Notification,
                false => Moment::Prompt { id: payload.prompt_id.clone(), text },
            }
        }
        "PreToolUse" => Moment::BeforeCall(call(payload)?),
        "PostToolUse" | "PostToolUseFailure" => Moment::AfterCall(call(payload)?, outcome(payload)),
        "WorktreeRemove" => Moment::BeforeCall(removal(payload)?),
        "PreCompact" => Moment::BeforeCompaction,
        "Stop" => Moment::Idle { background: !payload.background_tasks.is_empty() },
        "SubagentStart" => Moment::SubagentStart,
        // The agent that sums up a context has no kind, and nobody was told that it began.
        "SubagentStop" if payload.agent_type.as_deref().is_none_or(str::is_empty) => {
            return Err(passed_over());
        }
        "SubagentStop" => Moment::SubagentEnd,
        "SessionEnd" => Moment::SessionEnd { cleared: payload.reason.as_deref() == Some("clear") },
        _ => return Err(passed_over()),
    })
}

fn call(payload: &Payload) -> Result<Call, PayloadError> {
    let tool = tool(payload.tool_name.as_deref(), None)?;
    let text = |name: &str| payload.tool_input.get(name).and_then(Value::as_str);
    let kind = match tool.as_str() {
        "Bash" | "PowerShell" => {
            text("command").map_or(CallKind::Other, |command| CallKind::Shell(command.to_owned()))
        }
        "Edit" | "MultiEdit" | "Write" | "NotebookEdit" => {
            let path = text("file_path").or_else(|| text("notebook_path"));
            CallKind::Edit(path.into_iter().map(str::to_owned).collect())
        }
        "ExitWorktree" => CallKind::LeaveWorktree,
        _ => CallKind::Other,
    };
    let is_before = payload.hook_event_name == "PreToolUse";
    // One that was moved there later ended as a call: what it launched is told by other events.
    let background = payload.tool_input.get("run_in_background") == Some(&Value::Bool(true));
    Ok(Call {
        id: payload.tool_use_id.clone().filter(|id| !id.is_empty()),
        tool,
        input: payload.tool_input.clone(),
        operation: operation(is_before, &kind, payload.cwd.as_deref(), None),
        kind,
        background,
    })
}

/// A work tree is about to be removed. Claude Code tells that only of work trees that a hook made; of
/// its own ones, `ExitWorktree` tells. Whether it still removes one whose removal a hook was told of
/// is not known, so `integrate` asks for no such event.
fn removal(payload: &Payload) -> Result<Call, PayloadError> {
    let Some(path) = payload.worktree_path.clone() else {
        return Err(PayloadError::Malformed("worktree_path is missing".into()));
    };
    let tool = payload.hook_event_name.clone();
    let operation = DestructiveCommand {
        command: tool.clone(),
        does: "removes a work tree".into(),
        files: vec![path],
        ..DestructiveCommand::default()
    };
    Ok(Call {
        id: None,
        tool,
        input: Value::Null,
        kind: CallKind::LeaveWorktree,
        background: false,
        operation: Some(operation),
    })
}

fn outcome(payload: &Payload) -> Outcome {
    let text = |name: &str| {
        let found = payload.tool_response.get(name).and_then(Value::as_str);
        found.unwrap_or_default().to_owned()
    };
    let Some(error) = payload.error.clone() else {
        // A command that failed is told by another event.
        let is_command = payload.tool_response.get("stdout").is_some();
        return Outcome {
            result: payload.tool_response.clone(),
            error: None,
            exit_code: is_command.then_some(0),
            stdout: text("stdout"),
            stderr: text("stderr"),
            presumed: false,
        };
    };
    // `Exit code 1`, and below it what the command wrote.
    let (first, rest) = error.split_once('\n').unwrap_or((&error, ""));
    let exit_code = first.strip_prefix("Exit code ").and_then(|code| code.trim().parse().ok());
    let stderr = if exit_code.is_some() { rest.to_owned() } else { String::new() };
    Outcome { error: Some(error), exit_code, stderr, ..Outcome::default() }
}
