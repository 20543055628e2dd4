//! Whether Gemini CLI runs hooks in a folder: only in one that its user trusts.

use std::path::{Path, PathBuf};

use rappel::hook::Trust;
use serde_json::Value;

use crate::files;
use crate::integrate::Place;
use crate::scope::Scope;

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

/// What the user should know, in sentences.
pub fn notes(place: &Place) -> Vec<String> {
    let mut notes = Vec::new();
    for file in [place.settings(), place.of(Scope::User).settings()] {
        if read(&file).pointer("/hooksConfig/enabled") == Some(&Value::Bool(false)) {
            let file = file.display();
            notes.push(format!("{file} switches hooks off (hooksConfig.enabled)"));
            break;
        }
    }
    if of(place) == Trust::Folder {
        let root = place.root.display();
        notes.push(format!(
            "Gemini CLI runs hooks only in folders that you trust. Start `gemini` in {root} and say \
             that you trust it; until then nothing is saved there"
        ));
    }
    if place.scope != Scope::User {
        notes.push(
            "Gemini CLI asks before it runs a /rappel: command. With --user, a policy allows them; \
             `rappel undo` and the like, typed as a prompt, need none"
                .to_owned(),
        );
    }
    notes
}

/// A file's value. Gemini CLI takes comments out before it reads one; such a file says nothing here.
fn read(path: &Path) -> Value {
    let text = files::read(path).ok().flatten().unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
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
