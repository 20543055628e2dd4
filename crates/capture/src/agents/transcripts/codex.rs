//! Codex. A rollout is a plain sequence: what the model was given and gave (`response_item`) and
//! what happened around it (`event_msg`). Taking back turns abandons everything since.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::field::{content, in_background, list, number, owned, short, text};
use super::{Item, Out, Session, ThoughtKind, Tokens};

/// How many turns are remembered, to be taken back.
const TURNS: usize = 256;
/// How many commands are remembered that went on after their call came back.
const OUTLASTING: usize = 64;

/// What is remembered between two lines.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct State {
    session: Option<Session>,
    /// The newest thought.
    thought: Option<String>,
    turns: VecDeque<Turn>,
    /// The newest prompt and which of its two places it stood in.
    prompt: Option<(u64, Place)>,
    /// The newest sum of tokens.
    total: Option<u64>,
    /// Calls whose command went on after they came back, with what they said then.
    #[serde(default)]
    outlasting: VecDeque<(String, String)>,
}

/// What a user asked for and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Turn {
    /// Where it begins.
    at: u64,
    /// The newest thought before it.
    thought: Option<String>,
}

/// A prompt stands in a rollout twice, in what the model was given and as an event.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Place {
    Item,
    Event,
}

impl State {
    /// Reads a line; false if it was not understood.
    pub(super) fn line(&mut self, value: &Value, out: &mut Out<'_>) -> bool {
        let Some(payload) = value.get("payload") else { return false };
        match text(value, "type").unwrap_or_default() {
            "session_meta" => self.meta(payload, out),
            "turn_context" => {
                if let Some(mut session) = self.session.clone() {
                    session.cwd = owned(payload, "cwd").or(session.cwd);
                    session.model = owned(payload, "model").or(session.model);
                    self.announce(session, out);
                }
            }
            "response_item" => return self.item(payload, out),
            "event_msg" => return self.event(payload, out),
            "compacted" => {
                let text = text(payload, "message").map(|message| out.clip(message));
                out.push(Item::Compaction { trigger: owned(payload, "trigger"), text });
            }
            "world_state" | "inter_agent_communication" | "token_usage_record" => {}
            _ => return false,
        }
        true
    }

    /// The first one counts: a fork repeats its origin's.
    fn meta(&mut self, meta: &Value, out: &mut Out<'_>) {
        // Older versions wrap it once more.
        let meta = meta.get("meta").unwrap_or(meta);
        let id = owned(meta, "id").or_else(|| owned(meta, "session_id"));
        if let (None, Some(assistant_session_id)) = (&self.session, id) {
            let session = Session {
                assistant_session_id,
                cwd: owned(meta, "cwd"),
                parent: owned(meta, "parent_thread_id"),
                model: owned(meta, "model"),
                version: owned(meta, "cli_version"),
                git_branch: meta.get("git").and_then(|git| owned(git, "branch")),
            };
            self.announce(session, out);
        }
    }

    fn announce(&mut self, session: Session, out: &mut Out<'_>) {
        if self.session.as_ref() != Some(&session) {
            out.push(Item::Session(session.clone()));
            self.session = Some(session);
        }
    }

    fn item(&mut self, item: &Value, out: &mut Out<'_>) -> bool {
        let kind = text(item, "type").unwrap_or_default();
        match kind {
            "message" => match text(item, "role") {
                Some("user") => {
                    let said = item.get("content").map(content).unwrap_or_default();
                    if is_typed(item, &said) {
                        self.prompt(&said, Place::Item, out);
                    }
                }
                Some("assistant") => {
                    let said = item.get("content").map(content).unwrap_or_default();
                    self.think(item, ThoughtKind::Text, &said, out);
                }
                _ => {}
            },
            "reasoning" => {
                let summary: Vec<&str> =
                    list(item, "summary").iter().filter_map(|part| text(part, "text")).collect();
                self.think(item, ThoughtKind::Reasoning, &summary.join("\n\n"), out);
            }
            "compaction" | "ghost_snapshot" => {}
            _ if kind.ends_with("_output") => self.finished(item, out),
            _ if kind.ends_with("_call") => started(kind, item, out),
            _ => return false,
        }
        true
    }

    fn event(&mut self, event: &Value, out: &mut Out<'_>) -> bool {
        match text(event, "type").unwrap_or_default() {
            "user_message" => {
                let said = text(event, "message").unwrap_or_default();
                self.prompt(said, Place::Event, out);
            }
            "token_count" => {
                if let Some(info) = event.get("info").filter(|info| info.is_object()) {
                    self.count(info, out);
                }
            }
            "item_completed" => self.completed(event.get("item").unwrap_or(&Value::Null), out),
            // What still runs when the turn is over runs in the background.
            "task_complete" | "turn_complete" => {
                for (id, output) in std::mem::take(&mut self.outlasting) {
                    out.push(Item::ToolFinished { id, output, error: None, success: true });
                }
            }
            "patch_apply_end" => files_changed(event, "call_id", out),
            "thread_rolled_back" => self.take_back(number(event, "num_turns"), out),
            "thread_name_updated" => {
                if let Some(name) = text(event, "thread_name") {
                    let text = out.clip(name);
                    out.push(Item::Title { text });
                }
            }
            // Said by items too, or about things that are nothing to us.
            "agent_message"
            | "agent_reasoning"
            | "agent_reasoning_raw_content"
            | "context_compacted"
            | "entered_review_mode"
            | "exited_review_mode"
            | "item_started"
            | "task_started"
            | "thread_settings_applied"
            | "turn_started"
            | "turn_aborted"
            | "undo_completed" => {}
            kind => return kind.ends_with("_begin") || kind.ends_with("_end"),
        }
        true
    }

    fn prompt(&mut self, said: &str, place: Place, out: &mut Out<'_>) {
        if said.trim().is_empty() {
            return;
        }
        let same = short(said.trim());
        if let Some((before, other)) = self.prompt.take()
            && before == same
            && other != place
        {
            return;
        }
        self.prompt = Some((same, place));
        self.turns.push_back(Turn { at: out.line, thought: self.thought.clone() });
        if self.turns.len() > TURNS {
            self.turns.pop_front();
        }
        let text = out.clip(said);
        out.push(Item::Prompt { id: None, text });
    }

    fn think(&mut self, item: &Value, kind: ThoughtKind, said: &str, out: &mut Out<'_>) {
        if said.trim().is_empty() {
            return;
        }
        let id = owned(item, "id").unwrap_or_else(|| format!("line-{}", out.line));
        let text = out.clip(said);
        let parent = self.thought.replace(id.clone());
        out.push(Item::Thought { id, kind, text, parent });
    }

    /// The cost of the newest answer. The same sum again is no new answer.
    fn count(&mut self, info: &Value, out: &mut Out<'_>) {
        let total = info.get("total_token_usage").filter(|total| total.is_object());
        let key = match total {
            Some(total) => {
                let text = total.to_string();
                if self.total.replace(short(&text)) == Some(short(&text)) {
                    return;
                }
                let (input, output) =
                    (number(total, "input_tokens"), number(total, "output_tokens"));
                format!("total-{input}-{output}")
            }
            None => format!("line-{}", out.line),
        };
        let Some(last) = info.get("last_token_usage").filter(|last| last.is_object()) else {
            return;
        };
        let cache_read = number(last, "cached_input_tokens");
        let cache_write = number(last, "cache_write_input_tokens");
        let input = number(last, "input_tokens");
        out.push(Item::Tokens(Tokens {
            message: key,
            model: self.session.as_ref().and_then(|session| session.model.clone()),
            input: input.saturating_sub(cache_read).saturating_sub(cache_write),
            output: number(last, "output_tokens"),
            cache_read,
            cache_write,
            reasoning: number(last, "reasoning_output_tokens"),
        }));
    }

    fn finished(&mut self, item: &Value, out: &mut Out<'_>) {
        let Some(id) = owned(item, "call_id") else { return };
        let output = item.get("output").or_else(|| item.get("tools")).unwrap_or(&Value::Null);
        let (said, failure) = outcome(output);
        let output = out.clip(&said);
        if header(&said).any(|line| line.starts_with("Process running with session ID ")) {
            self.outlasting.push_back((id, output));
            if self.outlasting.len() > OUTLASTING {
                self.outlasting.pop_front();
            }
            return;
        }
        let error = failure.map(|failure| out.clip(&failure));
        let success = error.is_none();
        out.push(Item::ToolFinished { id, output, error, success });
    }

    /// What became of a command or a patch. That of most calls stands in their output too.
    fn completed(&mut self, item: &Value, out: &mut Out<'_>) {
        match text(item, "type") {
            Some("FileChange") => files_changed(item, "id", out),
            Some("CommandExecution") => {
                let id = text(item, "id").unwrap_or_default();
                let Some(at) = self.outlasting.iter().position(|(call, _)| call == id) else {
                    return;
                };
                let said = text(item, "aggregated_output").unwrap_or_default();
                let output = out.clip(said);
                let code = item.get("exit_code").and_then(Value::as_i64);
                let error = code.filter(|code| *code != 0).map(exit_code);
                let success = error.is_none();
                if let Some((id, _)) = self.outlasting.remove(at) {
                    out.push(Item::ToolFinished { id, output, error, success });
                }
            }
            _ => {}
        }
    }

    fn take_back(&mut self, turns: u64, out: &mut Out<'_>) {
        let mut first = None;
        for _ in 0..turns {
            let Some(turn) = self.turns.pop_back() else { break };
            first = Some(turn);
        }
        if let Some(turn) = first {
            self.thought = turn.thought;
            self.prompt = None;
            out.mark(turn.at..out.line, true);
        }
    }
}

/// Whether a person wrote a message in the user's name. Newer versions say so; what older ones wrote
/// themselves is known by how it begins.
fn is_typed(item: &Value, said: &str) -> bool {
    const WRITTEN: [&str; 9] = [
        "<environment_context>",
        "<user_instructions>",
        "<permissions",
        "<turn_aborted>",
        "<user_shell_command>",
        "<skill",
        "<subagent_notification>",
        "<hook_prompt",
        "# AGENTS.md instructions",
    ];
    let about = item.get("internal_chat_message_metadata_passthrough").unwrap_or(&Value::Null);
    let kinds = list(about, "content_item_kinds");
    let start = said.trim_start();
    (kinds.is_empty() || kinds.iter().any(|kind| kind == "user.text"))
        && !WRITTEN.iter().any(|context| start.starts_with(context))
}

fn files_changed(item: &Value, id: &str, out: &mut Out<'_>) {
    let done = text(item, "status").is_none_or(|status| status == "completed")
        && item.get("success").and_then(Value::as_bool) != Some(false);
    let changes = item.get("changes").and_then(Value::as_object).filter(|_| done);
    let (Some(id), Some(changes)) = (owned(item, id), changes) else { return };
    let mut paths: Vec<String> = Vec::new();
    for (path, change) in changes {
        paths.push(path.clone());
        paths.extend(owned(change, "move_path"));
    }
    if !paths.is_empty() {
        out.push(Item::FilesChanged { id, paths });
    }
}

fn started(kind: &str, item: &Value, out: &mut Out<'_>) {
    let Some(id) = call_id(item, out) else { return };
    let tool = text(item, "name").unwrap_or(kind.trim_end_matches("_call")).to_owned();
    let input = match (item.get("arguments").or_else(|| item.get("input")), item.get("action")) {
        // Arguments are JSON within a text; the input of a custom tool is a text.
        (Some(Value::String(text)), _) => {
            serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.clone()))
        }
        (Some(other), _) | (None, Some(other)) => other.clone(),
        (None, None) => Value::Null,
    };
    let background = in_background(&input);
    let input = out.clip_value(&input);
    out.push(Item::ToolStarted { id: id.clone(), tool, input, background });
    // A search of the provider's own has no output of its own.
    if kind == "web_search_call"
        && let Some(status) = text(item, "status")
    {
        let success = status == "completed";
        let error = (!success).then(|| status.to_owned());
        out.push(Item::ToolFinished { id, output: String::new(), error, success });
    }
}

fn call_id(item: &Value, out: &Out<'_>) -> Option<String> {
    let hosted = text(item, "type") == Some("web_search_call");
    owned(item, "call_id")
        .or_else(|| owned(item, "id"))
        .or_else(|| hosted.then(|| format!("line-{}", out.line)))
}

/// What a tool said and what went wrong. How a command ended is told in several ways.
fn outcome(output: &Value) -> (String, Option<String>) {
    if let Value::Object(fields) = output {
        let said = fields.get("content").or_else(|| fields.get("output")).map(content);
        let said = said.unwrap_or_else(|| output.to_string());
        let failed = fields.get("success").and_then(Value::as_bool) == Some(false);
        let failure =
            failed.then(|| if said.is_empty() { "it failed".into() } else { said.clone() });
        return (said, failure);
    }
    let said = content(output);
    if said.starts_with('{')
        && let Ok(Value::Object(inner)) = serde_json::from_str(&said)
        && let Some(Value::String(text)) = inner.get("output")
    {
        let code = inner.get("metadata").and_then(|metadata| metadata.get("exit_code"));
        let code = code.and_then(Value::as_i64).filter(|code| *code != 0);
        return (text.clone(), code.map(exit_code));
    }
    let code = header(&said).find_map(|line| {
        let code = line
            .strip_prefix("Exit code: ")
            .or_else(|| line.strip_prefix("Process exited with code "))?;
        code.trim().parse::<i64>().ok()
    });
    let refused = |line: &&str| {
        line.starts_with("unsupported call: ")
            || line.starts_with("Command blocked by PreToolUse hook: ")
    };
    let aborted = header(&said).find(|line| *line == "aborted by user");
    let failure = said.lines().next().filter(refused).or(aborted).map(str::to_owned);
    let failure = failure.or_else(|| code.filter(|code| *code != 0).map(exit_code));
    (said, failure)
}

/// What Codex says of a call before the output of its command.
fn header(said: &str) -> impl Iterator<Item = &str> {
    said.lines().take(8).take_while(|line| *line != "Output:")
}

fn exit_code(code: i64) -> String {
    format!("exit code {code}")
}
