//! What an agent's hook tells, and what it is answered, whatever the agent.
//!
//! Each vendor's payload is translated into an [`Event`] and the [`Answer`] back into the vendor's
//! form (crate
//! `rappel-hooks`). Nothing here knows a vendor's name.

use rappel_types::Timestamp;
use rappel_types::agents::ProcessId;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::destructive::DestructiveCommand;

/// One thing that an agent's hook tells.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Who made the agent: `claude`.
    pub provider: String,
    /// What the agent calls its session.
    pub session: String,
    /// The subagent that it happened in, if it was in one.
    pub subagent: Option<Subagent>,
    /// The agent's process.
    pub process: Option<ProcessId>,
    /// The folder that the agent works in now; a command runs there.
    pub folder: Option<String>,
    /// When the hook was called. A worker may be late, and the transcript tells the same moment.
    pub at: Option<Timestamp>,
    /// Whether the answer can tell the model something. Agents differ in that, event by event.
    #[serde(default)]
    pub carries_context: bool,
    /// The agent sums up its context without a word: only its transcript tells.
    #[serde(default)]
    pub silent_compaction: bool,
    /// What happened.
    pub moment: Moment,
}

/// An agent that another one sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subagent {
    /// What its agent calls it.
    pub id: String,
    /// What it is for.
    pub kind: Option<String>,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Moment {
    /// A session begins, or goes on.
    SessionStart(Start),
    /// The user asks for something.
    Prompt {
        /// What the agent calls it, if it does.
        id: Option<String>,
        /// The user's words.
        text: String,
    },
    /// Something that no person wrote is put to the model: a background command ended.
    Notification,
    /// A tool is about to be called.
    BeforeCall(Call),
    /// A tool was called.
    AfterCall(Call, Outcome),
    /// The context is about to be summed up.
    BeforeCompaction,
    /// The user stopped the agent. Its calls have no end of their own.
    Interrupt,
    /// The agent has nothing left to do.
    Idle {
        /// Commands or subagents still run.
        background: bool,
    },
    /// A subagent begins.
    SubagentStart,
    /// It is done.
    SubagentEnd,
    /// The session is over.
    SessionEnd {
        /// The user cleared it, and goes on with another one.
        cleared: bool,
    },
}

/// How a session begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Start {
    /// For the first time.
    New,
    /// It was there before, and goes on.
    Resumed,
    /// Its context was summed up.
    Compacted,
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// What the agent calls it, if it does.
    pub id: Option<String>,
    /// The tool's name.
    pub tool: String,
    /// What it is given.
    pub input: Value,
    /// What it does to the workspace.
    pub kind: CallKind,
    /// It goes on while the agent does something else.
    pub background: bool,
    /// What it is about to destroy.
    #[serde(default)]
    pub operation: Option<DestructiveCommand>,
}

/// What a call does, as far as it matters here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum CallKind {
    /// A command of the shell.
    Shell(String),
    /// These files are written, by absolute path.
    Edit(Vec<String>),
    /// A work tree is left, and perhaps removed.
    LeaveWorktree,
    /// A subagent does something, and the call lasts until it is done.
    Delegate,
    /// Anything else.
    Other,
}

/// What came of a call.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// What the tool gave back.
    pub result: Value,
    /// Why it failed, if it did.
    pub error: Option<String>,
    /// The exit code of a command, where it is known.
    pub exit_code: Option<i32>,
    /// What a command wrote.
    pub stdout: String,
    /// What it wrote to its standard error.
    pub stderr: String,
    /// The agent did not say how it ended; its transcript may.
    #[serde(default)]
    pub presumed: bool,
}

/// What the agent is answered. Nothing at all is the usual answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// For the model.
    pub context: Option<String>,
    /// For the user, beside what goes on.
    pub notice: Option<String>,
    /// For the user, instead of what goes on: the prompt was answered here, and the model does not
    /// see it.
    pub reply: Option<String>,
}
