//! Claude Code: its hooks' payloads, the answers that it understands, and what `rappel integrate
//! claude` writes.
//!
//! Its hooks are described at <https://code.claude.com/docs/en/hooks>.

mod answer;
pub mod commands;
pub mod handlers;
mod mcp;
mod payload;

use rappel::hook::Trust;

use crate::integrate::{Commands, Hooks, Layout, Servers, UserFolder};
use crate::json_text::Syntax;
use crate::scope::Scope;
use crate::{Environment, Process, Vendor};

/// Claude Code.
pub static VENDOR: Vendor = Vendor {
    name: NAME,
    title: "Claude Code",
    mark: handlers::MARK,
    environment: Environment {
        project: Some("CLAUDE_PROJECT_DIR"),
        process: Process::Variable("CLAUDE_PID"),
        session: Some("CLAUDE_CODE_SESSION_ID"),
        unasked: None,
    },
    user_folder: |variable, home| {
        let chosen = variable("CLAUDE_CONFIG_DIR");
        let is_chosen = chosen.is_some();
        let path = chosen.or_else(|| home.map(|home| home.join(".claude")))?;
        Some(UserFolder { path, is_chosen })
    },
    event: payload::event,
    answer: answer::answer,
    layout: Layout {
        project: ".claude",
        hooks: |scope| match scope {
            Scope::Local => "settings.local.json",
            Scope::Shared | Scope::User => "settings.json",
        },
        skill: "skills/rappel",
        commands: Some(Commands {
            folder: "commands/rappel",
            extension: "md",
            text: commands::file,
            typed: |name| format!("/rappel:{name}"),
            answered: true,
        }),
        others: |_, _| Vec::new(),
        looks_above: false,
        elsewhere: |_| None,
    },
    hooks: Hooks::Handlers(Syntax::Plain, handlers::groups),
    status_line: Some(handlers::status_line),
    servers: Servers::Apart(mcp::registry),
    // It trusts a folder as a whole, and runs no hooks but in trusted ones.
    trust: |_, _| Trust::Given,
    counts_hooks: false,
    switched_off: |place, _| {
        handlers::switched_off(Scope::ALL.map(|scope| place.of(scope).settings()))
    },
    notes: |_| Vec::new(),
    rewound: |_| None,
};

const NAME: &str = "claude";
