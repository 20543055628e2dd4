//! What coding agents keep outside the workspace: the transcripts of their sessions.
//!
//! [`locate`] finds those that belong to a workspace, [`raw`] keeps their bytes, and
//! [`transcripts`] reads them, a little at a time, into thoughts, tool calls and token counts;
//! [`follow`] does the reading from disk. [`opencode`] keeps no transcripts; its database is read
//! into the same items. [`said`] knows what vendors' programs write into texts. The formats are
//! internal to their vendors: what is not understood is counted and passed over, and the raw bytes
//! are the truth.

pub mod follow;
mod home;
pub mod locate;
pub mod opencode;
pub mod raw;
pub mod said;
pub mod transcripts;

use std::fmt;

use serde::{Deserialize, Serialize};

/// Whose transcripts are understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Provider {
    /// Claude Code.
    Claude,
    /// Codex.
    Codex,
    /// Gemini CLI.
    Gemini,
}

impl Provider {
    /// All of them, in order.
    pub const ALL: [Self; 3] = [Self::Claude, Self::Codex, Self::Gemini];

    /// The name that sessions, trees and messages use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
        }
    }

    /// Whether its hooks name each call as its transcript does.
    pub fn names_calls(self) -> bool {
        self != Self::Gemini
    }

    /// The provider of that name.
    pub fn named(name: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|provider| provider.as_str().as_bytes() == name)
    }
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
