//! Whether Gemini CLI runs hooks: only in a folder that its user trusts, and unless a setting
//! switches them off.

use std::path::{Path, PathBuf};

use rappel::hook::{Switch, Trust};
use serde_json::Value;

use super::handlers::HANDLER;
use crate::files;
use crate::integrate::Place;
use crate::json_text::Syntax;
use crate::scope::Scope;

/// Gemini CLI takes comments out of a file before it reads it.
pub const SYNTAX: Syntax = Syntax::Comments;

/// Whether Gemini CLI runs the hooks of a place. Not looked at: `--skip-trust` and the environment
/// of a single run.
pub fn of(place: &Place) -> Trust {
    let settings = read(&place.user.path.join("settings.json"));
    if settings.pointer("/security/folderTrust/enabled") == Some(&Value::Bool(false)) {
        return Trust::Given;
    }
    match trusts(&read(&place.user.path.join("trustedFolders.json")), &place.root) {
        true => Trust::Given,
        false => Trust::Folder,
    }
}

/// What keeps Gemini CLI from running our hooks. A project's switch counts before the user's; hooks
/// that either names do not run.
pub fn switched_off(place: &Place) -> Option<Switch> {
    let files = [Scope::Local, Scope::User].map(|scope| place.of(scope).settings());
    let read = files.each_ref().map(|file| read(file));
    let switches = files.iter().zip(&read);
    let enabled = |(file, settings): (_, &Value)| {
        Some((file, settings.pointer("/hooksConfig/enabled")?.as_bool()?))
    };
    if let Some((file, false)) = switches.clone().find_map(enabled) {
        return Some(Switch::new("hooksConfig.enabled: false", file));
    }
    switches.into_iter().find_map(|(file, settings)| {
        let names = settings.pointer("/hooksConfig/disabled")?.as_array()?;
        let name = names.iter().filter_map(Value::as_str).find(|name| is_our_name(name))?;
        let name = if name == HANDLER { name } else { "…" };
        Some(Switch::new(format!("hooksConfig.disabled: [{name:?}]"), file))
    })
}

/// Whether Gemini CLI calls a hook of ours so: by its name, or by its shell line.
fn is_our_name(name: &str) -> bool {
    name == HANDLER || name.ends_with(super::handlers::MARK)
}

/// What the user should know, in sentences.
pub fn notes(place: &Place) -> Vec<String> {
    let mut notes = Vec::new();
    if of(place) == Trust::Folder {
        let root = place.root.display();
        notes.push(format!(
            "Gemini CLI runs hooks only in folders that you trust. Start `gemini` in {root} and say \
             that you trust it; until then nothing is saved there"
        ));
    }
    if place.scope != Scope::User {
        notes.push(
            "Gemini CLI asks before it runs a /rappel: command. With --user, a policy allows those \
             that delete and restore nothing; `rappel undo` and the like, typed as a prompt, need none"
                .to_owned(),
        );
    }
    notes
}

/// A file's value.
fn read(path: &Path) -> Value {
    let text = files::read(path).ok().flatten().unwrap_or_default();
    serde_json::from_str(&SYNTAX.plain(&text)).unwrap_or_default()
}

/// Whether the rules trust a folder: the longest one that covers it decides.
fn trusts(rules: &Value, folder: &Path) -> bool {
    let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let folder = real(folder);
    let covers = |path: &str, level: &str| {
        let path = PathBuf::from(path);
        let covered = match level {
            "TRUST_PARENT" => path.parent().unwrap_or(&path).to_owned(),
            _ => path,
        };
        folder.starts_with(real(&covered))
    };
    let rules = rules.as_object().into_iter().flatten();
    let rules = rules.filter_map(|(path, level)| Some((path, level.as_str()?)));
    let nearest =
        rules.filter(|(path, level)| covers(path, level)).max_by_key(|(path, _)| path.len());
    nearest.is_some_and(|(_, level)| matches!(level, "TRUST_FOLDER" | "TRUST_PARENT"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_longest_rule_that_covers_a_folder_decides() {
        let rules = json!({
            "/srv/code": "TRUST_FOLDER",
            "/srv/code/strange": "DO_NOT_TRUST",
            "/srv/other/one": "TRUST_PARENT",
            "/srv/odd": 7,
        });
        let trusts = |folder: &str| trusts(&rules, Path::new(folder));
        assert!(trusts("/srv/code") && trusts("/srv/code/app"));
        assert!(!trusts("/srv/code/strange/app") && !trusts("/srv/codes"));
        assert!(trusts("/srv/other/two"));
        assert!(!trusts("/srv/odd") && !trusts("/"));
        assert!(!super::trusts(&Value::Null, Path::new("/srv/code")));
    }
}
