//! What transcripts tell, in the same words for every provider.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One thing that a transcript tells.
#[derive(Debug, Clone, PartialEq)]
pub enum Item {
    /// What is known of the session; given again whenever a field changes, the newest counts.
    Session(Session),
    /// What a person, or the agent that started this one, asked for.
    Prompt {
        /// What the provider calls it, if it does.
        id: Option<String>,
        /// In their words.
        text: String,
    },
    /// What the agent thought or said.
    Thought {
        /// Unique in the transcript.
        id: String,
        /// What sort of thought.
        kind: ThoughtKind,
        /// In its words.
        text: String,
        /// The thought before it on the same branch.
        parent: Option<String>,
    },
    /// A tool was called.
    ToolStarted {
        /// The call, as [`Item::ToolFinished`] names it.
        id: String,
        /// The provider's name of the tool.
        tool: String,
        /// Its arguments.
        input: Value,
        /// Whether it was asked to go on in the background, so that its end says nothing.
        background: bool,
    },
    /// A tool came back.
    ToolFinished {
        /// The call. Its beginning may be in no transcript that is still there.
        id: String,
        /// What it said.
        output: String,
        /// What went wrong.
        error: Option<String>,
        /// Whether it did what it was asked to, as far as is known.
        success: bool,
    },
    /// A call changed files.
    FilesChanged {
        /// The call.
        id: String,
        /// Which, as the agent names them.
        paths: Vec<String>,
    },
    /// What an answer of the model cost.
    Tokens(Tokens),
    /// The context was summed up and dropped.
    Compaction {
        /// `auto` or `manual`, where that is known.
        trigger: Option<String>,
        /// What it was summed up as, if that stands in the same line; Claude gives it as a thought
        /// of kind [`ThoughtKind::Summary`] after this.
        text: Option<String>,
    },
    /// What the session is called now.
    Title {
        /// The title.
        text: String,
    },
}

impl Item {
    /// Whether it belongs to a branch of the conversation, and not to the session as a whole.
    pub fn can_be_abandoned(&self) -> bool {
        !matches!(self, Self::Session(_) | Self::Title { .. })
    }
}

/// What is known of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Session {
    /// The provider's own id.
    pub assistant_session_id: String,
    /// Where it works.
    pub cwd: Option<String>,
    /// The provider's id of the session that started this one.
    pub parent: Option<String>,
    /// The model that answered last.
    pub model: Option<String>,
    /// The agent's version.
    pub version: Option<String>,
    /// The branch it works on.
    pub git_branch: Option<String>,
}

/// The sort of a thought.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ThoughtKind {
    /// Thought for itself.
    Reasoning,
    /// Said to the user.
    Text,
    /// All that was before, summed up.
    Summary,
}

impl ThoughtKind {
    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reasoning => "reasoning",
            Self::Text => "text",
            Self::Summary => "summary",
        }
    }
}

/// What an answer cost. The numbers mean the same for every provider: `input`, `cache_read` and
/// `cache_write` do not overlap, and `reasoning` is a part of `output`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tokens {
    /// Which answer. It may come again with more output; the highest counts.
    pub message: String,
    /// The model that gave it.
    pub model: Option<String>,
    /// Read, and from no cache.
    pub input: u64,
    /// Written.
    pub output: u64,
    /// Read from a cache.
    pub cache_read: u64,
    /// Read and put into a cache.
    pub cache_write: u64,
    /// Written as reasoning.
    pub reasoning: u64,
}
