//! opencode: what its plugin tells, the answers that the plugin understands, and what `rappel
//! integrate opencode` writes.
//!
//! opencode has no hooks that run commands. A plugin of ours ([`plugin`]) runs in its process and
//! calls `rappel hook opencode`. Plugins are described at <https://opencode.ai/docs/plugins>.

mod answer;
pub mod commands;
pub mod jsonc;
mod mcp;
mod payload;
pub mod plugin;

use rappel::hook::Trust;

use crate::integrate::{Commands, Hooks, Layout, Place, Servers, UserFolder};
use crate::{Environment, Process, Vendor};

/// opencode.
pub static VENDOR: Vendor = Vendor {
    name: NAME,
    title: "opencode",
    mark: plugin::MARK,
    environment: Environment {
        project: Some(plugin::FOLDER),
        process: Process::Variable("OPENCODE_PID"),
        session: Some(plugin::SESSION),
        unasked: None,
    },
    user_folder: |variable, home| {
        let config = variable("XDG_CONFIG_HOME");
        let is_chosen = config.is_some();
        let config = config.or_else(|| home.map(|home| home.join(".config")))?;
        Some(UserFolder { path: config.join("opencode"), is_chosen })
    },
    event: payload::event,
    answer: answer::answer,
    layout: Layout {
        project: ".opencode",
        hooks: |_| "plugins/rappel.js",
        skill: "skills/rappel",
        commands: Some(Commands {
            folder: "commands/rappel",
            extension: "md",
            text: commands::file,
            typed: |name| format!("/rappel/{name}"),
            answered: true,
        }),
        others: |_, _| Vec::new(),
        looks_above: true,
        elsewhere: |_| None,
    },
    hooks: Hooks::Script(plugin::text),
    status_line: None,
    servers: Servers::Apart(mcp::registry),
    // It runs every plugin that it finds.
    trust: |_, _| Trust::Given,
    counts_hooks: false,
    switched_off: |_, _| None,
    notes,
    // It is never set back.
    rewound: |_| None,
};

const NAME: &str = "opencode";

fn notes(_: &Place) -> Vec<String> {
    vec![
        "opencode loads plugins when it starts: start it again. `opencode --pure` runs without \
         plugins, and so without Rappel."
            .into(),
    ]
}
