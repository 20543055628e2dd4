//! Which of our hooks Codex runs. Its user confirms each one, and Codex remembers a hash of it in
//! `config.toml`, where the user can also switch hooks off. Both are only ever read here.

use std::path::{Path, PathBuf};

use rappel::hook::{Switch, Trust};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::checkout::Checkout;
use super::handlers::MARK;
use crate::files;
use crate::integrate::Place;
use crate::scope::Scope;

/// Codex's own settings.
const CONFIG: &str = "config.toml";

/// Whether Codex runs the hooks of a place, all of them or those for one event.
pub fn of(place: &Place, event: Option<&str>) -> Trust {
    let config = config(&place.user.path);
    if place.scope != Scope::User && !trusts_folder(&config, &place.root) {
        return Trust::Folder;
    }
    let file = place.settings();
    let known = |hook: &Hook| {
        let state = state(&config, &file, hook);
        match state.and_then(|state| state.get("trusted_hash")?.as_str()) {
            None => Trust::New,
            Some(trusted) if trusted == hook.hash => Trust::Given,
            Some(_) => Trust::Changed,
        }
    };
    let states: Vec<Trust> = hooks_in(&file, event).iter().map(known).collect();
    [Trust::Changed, Trust::New]
        .into_iter()
        .find(|state| states.contains(state))
        .unwrap_or_default()
}

/// What keeps Codex from running one of our hooks, of any event or of that one.
pub fn switched_off(place: &Place, event: Option<&str>) -> Option<Switch> {
    let user = config(&place.user.path);
    // A project that is trusted has the last word.
    let project = place.of(Scope::Local).folder;
    let own = trusts_folder(&user, &place.root).then(|| (config(&project), project));
    let users = Some((user.clone(), place.user.path.clone()));
    let said = [own, users].into_iter().flatten().find_map(|(config, folder)| {
        Some((config.get("features")?.get("hooks")?.as_bool()?, folder))
    });
    if let Some((false, folder)) = said {
        return Some(Switch::new("features.hooks = false", &folder.join(CONFIG)));
    }
    let file = place.settings();
    let is_off = |hook: &&Hook| {
        let state = state(&user, &file, hook);
        state.and_then(|state| state.get("enabled")?.as_bool()) == Some(false)
    };
    let hooks = hooks_in(&file, event);
    let off = hooks.iter().find(is_off)?;
    let setting = format!("enabled = false of the hook {:?}", off.place);
    Some(Switch::new(setting, &place.user.path.join(CONFIG)))
}

/// What Codex remembers of a hook.
fn state<'c>(config: &'c toml::Table, file: &Path, hook: &Hook) -> Option<&'c toml::Value> {
    [file.to_owned(), real(file)].iter().find_map(|name| {
        config.get("hooks")?.get("state")?.get(format!("{}:{}", name.display(), hook.place))
    })
}

/// What the user has to do before Codex runs the hooks, in sentences.
pub fn notes(place: &Place) -> Vec<String> {
    let mut notes = Vec::new();
    let confirm = "choose \"Trust all\" or look at each with /hooks; until then nothing is saved, \
                   and `codex exec` says nothing of it";
    match of(place, None) {
        Trust::Given => {}
        Trust::New => notes.push(format!(
            "Codex runs no hook before you confirm it. Start `codex`: it asks about Rappel's \
             hooks; {confirm}"
        )),
        Trust::Changed => notes.push(format!(
            "Rappel's hooks have changed, and Codex does not run them. Start `codex`: it asks \
             again; {confirm}"
        )),
        Trust::Folder => notes.push(format!(
            "Codex reads {} only in a project that it trusts. Start `codex` in {}, say that you \
             trust the folder, and confirm Rappel's hooks: {confirm}",
            place.settings().display(),
            place.root.display()
        )),
    }
    notes
}

fn config(folder: &Path) -> toml::Table {
    let text = files::read(&folder.join(CONFIG)).ok().flatten().unwrap_or_default();
    text.parse().unwrap_or_default()
}

/// Whether the user trusts a folder. Codex asks for the folder itself, for the one above it that
/// has `.git`, and for the main checkout of a linked work tree. The first one that the user decided
/// about counts.
fn trusts_folder(config: &toml::Table, folder: &Path) -> bool {
    let checkout = Checkout::of(folder);
    let (root, main) = checkout.map(|found| (found.root, found.main)).unzip();
    let folders = [Some(folder.to_owned()), root, main.flatten()];
    let mut names = folders.into_iter().flatten().flat_map(|folder| [real(&folder), folder]);
    let level = names.find_map(|folder| {
        config.get("projects")?.get(folder.to_str()?)?.get("trust_level")?.as_str()
    });
    level == Some("trusted")
}

fn real(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// A hook of ours: for which event, what Codex calls its place, and its hash.
struct Hook {
    event: String,
    place: String,
    hash: String,
}

/// The hooks of ours in a hooks file, all of them or those for one event.
fn hooks_in(file: &Path, event: Option<&str>) -> Vec<Hook> {
    let mut found = hooks(&files::read(file).ok().flatten().unwrap_or_default());
    found.retain(|hook| event.is_none_or(|event| hook.event == event));
    found
}

/// The hooks of ours in a hooks file.
fn hooks(text: &str) -> Vec<Hook> {
    let settings: Value = serde_json::from_str(text).unwrap_or_default();
    let mut found = Vec::new();
    for (event, groups) in settings["hooks"].as_object().into_iter().flatten() {
        let name = snake(event);
        for (group, value) in groups.as_array().into_iter().flatten().enumerate() {
            for (index, handler) in value["hooks"].as_array().into_iter().flatten().enumerate() {
                let command = handler["command"].as_str().unwrap_or_default();
                if command.ends_with(MARK) {
                    found.push(Hook {
                        event: event.clone(),
                        place: format!("{name}:{group}:{index}"),
                        hash: hash(&name, command, &handler["timeout"], &value["matcher"]),
                    });
                }
            }
        }
    }
    found
}

/// `PreToolUse` as `pre_tool_use`.
fn snake(event: &str) -> String {
    let mut name = String::new();
    for letter in event.chars() {
        if letter.is_ascii_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}

/// The hash of a hook: of JSON with sorted keys and no blanks.
fn hash(event: &str, command: &str, timeout: &Value, matcher: &Value) -> String {
    let command = Value::from(command);
    let matcher = match matcher {
        Value::Null => String::new(),
        matcher => format!(",\"matcher\":{matcher}"),
    };
    let text = format!(
        "{{\"event_name\":\"{event}\",\"hooks\":[{{\"async\":false,\"command\":{command},\
         \"timeout\":{timeout},\"type\":\"command\"}}]{matcher}}}"
    );
    let digest = Sha256::digest(text.as_bytes());
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_hashes_are_codexs() {
        assert_eq!(snake("PreToolUse"), "pre_tool_use");
        assert_eq!(snake("Stop"), "stop");
        let text = r#"{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"mine"}]},
            {"hooks":[{"type":"command","command":"x # rappel integrate codex","timeout":7}]}]}}"#;
        let found = hooks(text);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].place, "stop:1:0");
        // Of {"event_name":"stop","hooks":[{"async":false,"command":"x # rappel integrate
        // codex","timeout":7,"type":"command"}]}, by another program.
        assert_eq!(found[0].hash, EXPECTED);
    }

    const EXPECTED: &str =
        "sha256:4964dbbfa8797e838ebe1f740ad24c33a251e48be2fb1098bbf68f47a9f94009";
}
