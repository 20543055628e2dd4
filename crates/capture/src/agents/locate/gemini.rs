//! Gemini CLI: `tmp/<project>/chats/session-*.jsonl`, subagents in a folder named after their session.
//! Earlier versions name the project's folder with the SHA-256 of its path; later ones give it a short
//! name and write the path into the folder and into `projects.json`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use gix_index::hash::{Kind as HashKind, hasher};
use rappel_types::RelPath;
use serde_json::Value;

use super::{Search, fixed};
use crate::files::stamp::Kind;

impl Search<'_> {
    pub(super) fn gemini(&mut self) {
        let (Some(tmp), Some(list)) = (fixed("tmp"), fixed("projects.json")) else { return };
        let hashes: Vec<String> = self.workspace.iter().filter_map(|root| hash(root)).collect();
        let folders: Vec<RelPath> = self
            .list(&tmp)
            .into_iter()
            .filter(|(_, stamp)| stamp.kind() == Kind::Folder)
            .map(|(path, _)| path)
            .collect();
        if folders.is_empty() {
            return;
        }
        let known = self.registered(&list);
        for folder in folders {
            let own = match self.said(&folder) {
                Some(own) => own,
                None => known.iter().chain(&hashes).any(|name| name.as_bytes() == folder.name()),
            };
            if own && let Ok(chats) = folder.join(b"chats") {
                self.chats(&chats);
            }
        }
    }

    /// Whether a folder says that it is of the workspace; `None` if it says nothing.
    fn said(&mut self, folder: &RelPath) -> Option<bool> {
        let marker = folder.join(b".project_root").ok()?;
        let bytes = self.beginning(&marker, 8 << 10)?;
        let root = bytes.trim_ascii();
        (!root.is_empty()).then(|| self.holds(Path::new(OsStr::from_bytes(root))))
    }

    /// The names of the folders that `projects.json` gives to the workspace.
    fn registered(&mut self, list: &RelPath) -> Vec<String> {
        let Some(bytes) = self.beginning(list, 4 << 20) else { return Vec::new() };
        let Ok(value) = serde_json::from_slice::<Value>(&bytes) else { return Vec::new() };
        let projects = value.get("projects").and_then(Value::as_object);
        projects
            .into_iter()
            .flatten()
            .filter(|(path, _)| self.holds(Path::new(path)))
            .filter_map(|(_, name)| name.as_str().map(str::to_owned))
            .collect()
    }

    fn chats(&mut self, chats: &RelPath) {
        for (path, stamp) in self.list(chats) {
            match stamp.kind() {
                Kind::File if is_session(&path) => self.add(path, stamp),
                Kind::Folder => {
                    for (path, stamp) in self.list(&path) {
                        if stamp.kind() == Kind::File && path.name().ends_with(b".jsonl") {
                            self.add(path, stamp);
                        }
                    }
                }
                _ => {}
            }
        }
    }
}

fn is_session(path: &RelPath) -> bool {
    path.name().starts_with(b"session-") && path.name().ends_with(b".jsonl")
}

/// What Gemini CLI makes of a project's path.
fn hash(root: &Path) -> Option<String> {
    let mut hasher = hasher(HashKind::Sha256);
    hasher.update(root.as_os_str().as_bytes());
    Some(hasher.try_finalize().ok()?.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_that_of_the_path() {
        let expected = "e828acfc792e3bbcd2a6c6c35323cb44b7b438741c168c8ec59aefe347f193bb";
        assert_eq!(hash(Path::new("/home/dev/shop")).unwrap(), expected);
    }
}
