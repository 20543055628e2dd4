//! Gemini CLI: its hooks' payloads, the answers that it understands, and what `rappel integrate
//! gemini` writes.

mod answer;
mod commands;
pub mod handlers;
mod payload;
mod trust;

use serde_json::json;

use crate::integrate::{Commands, Hooks, Layout, Servers, UserFolder};
use crate::{Environment, Process, Vendor, servers};

/// Gemini CLI.
pub static VENDOR: Vendor = Vendor {
    name: NAME,
    title: "Gemini CLI",
    mark: handlers::MARK,
    environment: Environment {
        project: Some("GEMINI_PROJECT_DIR"),
        process: Process::Above(is_gemini),
        session: Some("GEMINI_SESSION_ID"),
        unasked: None,
    },
    user_folder: |variable, home| {
        // The variable stands for the user's home.
        let chosen = variable("GEMINI_CLI_HOME");
        let is_chosen = chosen.is_some();
        let home = chosen.or_else(|| home.map(ToOwned::to_owned))?;
        Some(UserFolder { path: home.join(".gemini"), is_chosen })
    },
    event: payload::event,
    answer: answer::answer,
    layout: Layout {
        project: ".gemini",
        hooks: |_| "settings.json",
        skill: "skills/rappel",
        commands: Some(Commands {
            folder: "commands/rappel",
            extension: "toml",
            text: commands::file,
            typed: |name| format!("/rappel:{name}"),
            answered: false,
        }),
        others: commands::policy,
        looks_above: false,
        elsewhere: |_| None,
    },
    hooks: Hooks::Handlers(trust::SYNTAX, handlers::groups),
    status_line: None,
    servers: Servers::WithHooks(
        |caller| json!({"command": caller.program().as_text(), "args": servers::arguments(caller)}),
    ),
    trust: |place, _| trust::of(place),
    counts_hooks: false,
    switched_off: |place, _| trust::switched_off(place),
    notes: trust::notes,
    rewound: |_| None,
};

const NAME: &str = "gemini";

/// Whether a command line is Gemini CLI's: a script that node runs.
fn is_gemini(words: &[&str]) -> bool {
    let name = |word: &str| word.rsplit('/').next().unwrap_or_default().to_owned();
    let is_script = |word: &&str| {
        matches!(name(word).as_str(), "gemini" | "gemini.js") || word.contains("/gemini-cli/")
    };
    match words {
        [program, ..] if name(program) == "gemini" => true,
        [program, rest @ ..] => {
            name(program).starts_with("node")
                && rest.iter().find(|word| !word.starts_with('-')).is_some_and(is_script)
        }
        [] => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_process_is_told_from_others() {
        assert!(is_gemini(&["/usr/bin/node", "--max-old-space-size=99", "/x/bin/gemini", "-p"]));
        assert!(is_gemini(&["node", "/x/@google/gemini-cli/bundle/gemini.js"]));
        assert!(!is_gemini(&["bash", "-c", "gemini"]));
        assert!(!is_gemini(&["node", "server.js", "gemini"]));
        assert!(!is_gemini(&[]));
    }
}
