//! Claude Code: its hooks' payloads, the answers that it understands, and what `rappel integrate
//! claude` writes.
//!
//! Its hooks are described at <https://code.claude.com/docs/en/hooks>; what real runs sent stands
//! in
//! `tests/fixtures/claude`.

mod answer;
pub mod commands;
pub mod handlers;
pub mod integrate;
pub mod mcp;
mod payload;
pub mod settings;

use crate::Vendor;

/// Claude Code.
pub const VENDOR: Vendor = Vendor {
    name: NAME,
    project: "CLAUDE_PROJECT_DIR",
    process: "CLAUDE_PID",
    session: "CLAUDE_CODE_SESSION_ID",
    folder: ("CLAUDE_CONFIG_DIR", ".claude"),
    stands_aside: integrate::stands_aside,
    event: payload::event,
    answer: answer::answer,
};

const NAME: &str = "claude";
