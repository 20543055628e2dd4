//! Codex: its hooks' payloads, the answers that it understands, and what `rappel integrate codex`
//! writes.
//!
//! What is written must stay the same across versions of Rappel, byte for byte: Codex runs a hook
//! only after its user has confirmed it, and asks again when its command, its time limit or its
//! place among the hooks has changed.

mod answer;
mod checkout;
pub mod handlers;
mod mcp;
pub(crate) mod patch;
mod payload;
mod rollout;
mod trust;

use std::path::Path;

use crate::integrate::{Hooks, Layout, Servers, UserFolder};
use crate::json_text::Syntax;
use crate::{Environment, Process, Vendor};

/// Codex.
pub static VENDOR: Vendor = Vendor {
    name: NAME,
    title: "Codex",
    mark: handlers::MARK,
    environment: Environment {
        project: None,
        // With its background server this is the server, which lives as long as a session can.
        process: Process::Above(|words| {
            words.first().is_some_and(|program| program.rsplit('/').next() == Some("codex"))
        }),
        session: None,
        unasked: Some("--dangerously-bypass-hook-trust"),
    },
    user_folder: |variable, home| {
        let chosen = variable("CODEX_HOME");
        let is_chosen = chosen.is_some();
        let path = chosen.or_else(|| home.map(|home| home.join(".codex")))?;
        Some(UserFolder { path, is_chosen })
    },
    event: payload::event,
    answer: answer::answer,
    layout: Layout {
        project: ".codex",
        hooks: |_| "hooks.json",
        skill: "skills/rappel",
        // It has none.
        commands: None,
        others: |_, _| Vec::new(),
        looks_above: true,
        elsewhere: checkout::elsewhere,
    },
    hooks: Hooks::Handlers(Syntax::Plain, handlers::groups),
    status_line: None,
    servers: Servers::Apart(mcp::registry),
    trust: trust::of,
    counts_hooks: true,
    switched_off: trust::switched_off,
    notes: trust::notes,
    rewound,
};

const NAME: &str = "codex";

/// Its terminal shows a conversation from a database of its own, and makes that anew from the
/// rollouts where it is missing.
fn rewound(folder: &Path) -> Option<String> {
    let shown = folder.join("thread_history_1.sqlite");
    shown.is_file().then(|| {
        format!(
            "Codex gives the model the conversation that was set back. Its terminal still shows the \
             newer one until you remove {} while no Codex runs; Codex makes that file anew",
            shown.display()
        )
    })
}
