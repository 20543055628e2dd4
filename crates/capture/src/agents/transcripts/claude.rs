//! Claude Code. A transcript is a graph: every line names its parent, and going back in the
//! conversation starts a new branch. Lines of one answer (`message.id`) and the results of its tool
//! calls are one step here, because calls that ran side by side hang off different lines of it. A
//! step that is not on the way from the newest one to the root is abandoned.

mod steps;

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::field::{content, flag, in_background, list, number, owned, short, text};
use super::{Item, Out, Session, ThoughtKind, Tokens};
use crate::agents::said::is_claudes_own;
use steps::{Line, Steps};

/// How many answers are remembered, to count each once. Lines of one answer are neighbours.
const ANSWERS: usize = 64;

/// What is remembered between two lines.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct State {
    session: Option<Session>,
    /// Whether the whole transcript is a subagent's.
    is_side: Option<bool>,
    steps: Steps,
    /// Answers with the most output seen of each.
    answers: VecDeque<(String, u64)>,
    /// Whether the user chose a title.
    #[serde(default)]
    named: bool,
}

/// Lines that are understood and tell nothing here.
const SILENT: [&str; 17] = [
    "agent-name",
    "api-request",
    "api-request-blob",
    "api-request-shape",
    "atis-latch",
    "cost-state",
    "file-history-delta",
    "file-history-snapshot",
    "mode",
    "permission-mode",
    "pr-link",
    "progress",
    "queue-operation",
    "relocated",
    "tag",
    "tools-used",
    "worktree-state",
];

impl State {
    /// Reads a line; false if it was not understood.
    pub(super) fn line(&mut self, value: &Value, out: &mut Out<'_>) -> bool {
        let kind = text(value, "type").unwrap_or_default();
        match kind {
            "summary" => self.title(text(value, "summary"), false, out),
            "ai-title" => self.title(text(value, "aiTitle"), false, out),
            "custom-title" => self.title(text(value, "customTitle"), true, out),
            "last-prompt" => {
                if let Some(leaf) = text(value, "leafUuid") {
                    self.steps.go_to(short(leaf), out);
                }
            }
            _ => return self.in_graph(kind, value, out),
        }
        true
    }

    fn title(&mut self, title: Option<&str>, chosen: bool, out: &mut Out<'_>) {
        if let Some(title) = title
            && (chosen || !self.named)
        {
            self.named |= chosen;
            let text = out.clip(title);
            out.push(Item::Title { text });
        }
    }

    /// A line that has a place in the graph.
    fn in_graph(&mut self, kind: &str, value: &Value, out: &mut Out<'_>) -> bool {
        let understood = matches!(kind, "user" | "assistant" | "system" | "attachment")
            || SILENT.contains(&kind);
        let Some(uuid) = text(value, "uuid") else {
            // Without a name nothing can follow it, but what it says counts.
            let talks = matches!(kind, "user" | "assistant");
            if talks {
                self.tell(kind, value, &format!("line-{}", out.line), &mut None, out);
            }
            return understood;
        };
        if self.steps.holds(short(uuid)) {
            return understood;
        }
        let talks = matches!(kind, "user" | "assistant");
        let is_side = flag(value, "isSidechain");
        if talks && self.is_side.is_none() {
            self.is_side = Some(is_side);
        }
        let inner = is_side && self.is_side == Some(false);
        let parent = text(value, "parentUuid").or_else(|| text(value, "logicalParentUuid"));
        let line = Line {
            id: short(uuid),
            step: self.step_of(kind, value, uuid),
            at: out.line,
            ..Line::default()
        };
        let mut thought = self.steps.place(line, parent.map(short), talks && !inner, out);
        if !inner {
            self.announce(value, out);
        }
        if inner && kind == "user" && !is_result(value) {
            // What an agent asks its subagent is no prompt of this session.
            return understood;
        }
        self.tell(kind, value, uuid, &mut thought, out);
        self.steps.think(thought);
        understood
    }

    /// Which step a line belongs to.
    fn step_of(&self, kind: &str, value: &Value, uuid: &str) -> u64 {
        let own = short(uuid);
        match kind {
            "assistant" => value
                .get("message")
                .and_then(|message| text(message, "id"))
                .map_or(own, |id| short(&format!("message {id}"))),
            "user" => {
                let source = text(value, "sourceToolAssistantUUID");
                let call = results(value).find_map(|block| text(block, "tool_use_id"));
                call.and_then(|call| self.steps.of_call(short(call)))
                    .or_else(|| source.and_then(|source| self.steps.of_line(short(source))))
                    .unwrap_or(own)
            }
            _ => own,
        }
    }

    /// Gives what is known of the session if that is more than before.
    fn announce(&mut self, value: &Value, out: &mut Out<'_>) {
        let Some(id) = text(value, "sessionId") else { return };
        let mut session = self.session.clone().unwrap_or_else(|| {
            match text(value, "agentId").filter(|_| self.is_side == Some(true)) {
                Some(agent) => Session {
                    assistant_session_id: agent.to_owned(),
                    parent: Some(id.to_owned()),
                    ..Session::default()
                },
                None => Session { assistant_session_id: id.to_owned(), ..Session::default() },
            }
        });
        let model = value.get("message").and_then(|message| owned(message, "model"));
        session.cwd = owned(value, "cwd").or(session.cwd);
        session.version = owned(value, "version").or(session.version);
        session.git_branch = owned(value, "gitBranch").or(session.git_branch);
        session.model = model.filter(|model| model != SYNTHETIC).or(session.model);
        if self.session.as_ref() != Some(&session) {
            out.push(Item::Session(session.clone()));
            self.session = Some(session);
        }
    }

    /// Gives what a line says. `thought` is the one above it, and becomes its last.
    fn tell(
        &mut self,
        kind: &str,
        value: &Value,
        id: &str,
        thought: &mut Option<String>,
        out: &mut Out<'_>,
    ) {
        match kind {
            "assistant" => self.answer(value, id, thought, out),
            "user" => user(value, id, thought, out),
            "system" if text(value, "subtype") == Some("compact_boundary") => {
                let trigger =
                    value.get("compactMetadata").and_then(|metadata| owned(metadata, "trigger"));
                out.push(Item::Compaction { trigger, text: None });
            }
            "attachment" => {
                // A prompt that was given while the agent was at work.
                let Some(attachment) = value.get("attachment") else { return };
                if text(attachment, "type") == Some("queued_command")
                    && text(attachment, "commandMode").is_none_or(|mode| mode == "prompt")
                    && !flag(attachment, "isMeta")
                    && is_human(attachment)
                {
                    let prompt = attachment.get("prompt").map(content).unwrap_or_default();
                    push_prompt(&prompt, owned(value, "promptId"), out);
                }
            }
            _ => {}
        }
    }

    fn answer(&mut self, value: &Value, id: &str, thought: &mut Option<String>, out: &mut Out<'_>) {
        let Some(message) = value.get("message") else { return };
        let model = owned(message, "model");
        if model.as_deref() == Some(SYNTHETIC) {
            return;
        }
        for (at, block) in list(message, "content").iter().enumerate() {
            let id = if at == 0 { id.to_owned() } else { format!("{id}#{at}") };
            let kind = text(block, "type").unwrap_or_default();
            match kind {
                "thinking" => {
                    let said = text(block, "thinking").unwrap_or_default();
                    push_thought(&id, ThoughtKind::Reasoning, said, thought, out);
                }
                "text" => {
                    let said = text(block, "text").unwrap_or_default();
                    push_thought(&id, ThoughtKind::Text, said, thought, out);
                }
                _ if kind.ends_with("tool_use") => {
                    let (Some(id), Some(tool)) = (text(block, "id"), text(block, "name")) else {
                        continue;
                    };
                    self.steps.call(short(id));
                    let input = block.get("input").unwrap_or(&Value::Null);
                    let background = in_background(input);
                    let input = out.clip_value(input);
                    let (id, tool) = (id.to_owned(), tool.to_owned());
                    out.push(Item::ToolStarted { id, tool, input, background });
                }
                _ if kind.ends_with("tool_result") => push_result(block, out),
                _ => {}
            }
        }
        if let Some(usage) = message.get("usage") {
            let key = text(message, "id").or_else(|| text(value, "requestId")).unwrap_or(id);
            self.count(key, model, usage, out);
        }
    }

    /// Gives the cost of an answer, unless it was given and is no more now.
    fn count(&mut self, key: &str, model: Option<String>, usage: &Value, out: &mut Out<'_>) {
        let output = number(usage, "output_tokens");
        match self.answers.iter_mut().rfind(|(known, _)| known == key) {
            Some((_, most)) if *most >= output => return,
            Some((_, most)) => *most = output,
            None => {
                self.answers.push_back((key.to_owned(), output));
                if self.answers.len() > ANSWERS {
                    self.answers.pop_front();
                }
            }
        }
        let details = usage.get("output_tokens_details").unwrap_or(&Value::Null);
        out.push(Item::Tokens(Tokens {
            message: key.to_owned(),
            model,
            input: number(usage, "input_tokens"),
            output,
            cache_read: number(usage, "cache_read_input_tokens"),
            cache_write: number(usage, "cache_creation_input_tokens"),
            reasoning: number(details, "thinking_tokens"),
        }));
    }
}

/// The model's name where the agent spoke in its place.
const SYNTHETIC: &str = "<synthetic>";

fn push_thought(
    id: &str,
    kind: ThoughtKind,
    said: &str,
    thought: &mut Option<String>,
    out: &mut Out<'_>,
) {
    if said.trim().is_empty() {
        return;
    }
    let text = out.clip(said);
    let parent = thought.replace(id.to_owned());
    out.push(Item::Thought { id: id.to_owned(), kind, text, parent });
}

fn push_prompt(prompt: &str, id: Option<String>, out: &mut Out<'_>) {
    if prompt.trim().is_empty() || is_claudes_own(prompt) {
        return;
    }
    let text = out.clip(prompt);
    out.push(Item::Prompt { id, text });
}

fn push_result(block: &Value, out: &mut Out<'_>) {
    let Some(id) = text(block, "tool_use_id") else { return };
    let said = block.get("content").map(content).unwrap_or_default();
    let output = out.clip(&said);
    let failed = flag(block, "is_error");
    let error = failed.then(|| output.clone());
    out.push(Item::ToolFinished { id: id.to_owned(), output, error, success: !failed });
}

/// A line in the user's name: results of tools, a summary, or a prompt.
fn user(value: &Value, id: &str, thought: &mut Option<String>, out: &mut Out<'_>) {
    let said = || match value.get("message").and_then(|message| message.get("content")) {
        Some(said) => content(said),
        None => String::new(),
    };
    if is_result(value) {
        results(value).for_each(|block| push_result(block, out));
    } else if flag(value, "isCompactSummary") {
        push_thought(id, ThoughtKind::Summary, &said(), thought, out);
    } else if !["isMeta", "isVisibleInTranscriptOnly"].iter().any(|name| flag(value, name))
        && is_human(value)
    {
        push_prompt(&said(), owned(value, "promptId"), out);
    }
}

/// Whether a prompt is a person's, as far as the line says.
fn is_human(value: &Value) -> bool {
    let origin = value.get("origin").and_then(|origin| text(origin, "kind"));
    origin.is_none_or(|kind| kind == "human")
        && text(value, "promptSource").is_none_or(|source| source != "system")
}

/// The results of tools in a line.
fn results(value: &Value) -> impl Iterator<Item = &Value> {
    let blocks = value.get("message").map_or(&[][..], |message| list(message, "content"));
    blocks.iter().filter(|block| text(block, "type") == Some("tool_result"))
}

fn is_result(value: &Value) -> bool {
    results(value).next().is_some()
}
