//! Claude Code: `projects/<folder of the session's directory>/<session>.jsonl`, and beside it a folder
//! with what belongs to the session. The folder's name is the directory's path with everything but
//! letters and digits replaced, so it only narrows the search: the lines decide.

use std::collections::BTreeMap;
use std::path::Path;

use rappel_types::RelPath;
use rustix::io::Errno;
use serde_json::Value;

use super::{Search, fixed};
use crate::files::stamp::{Kind, Stamp};

/// Longer names are cut there, and a hash follows.
const NAME_MAX: usize = 200;
/// How deep a session's folder is looked into.
const DEPTH: usize = 4;

impl Search<'_> {
    pub(super) fn claude(&mut self, own_name: Option<&str>) {
        let Some(projects) = fixed("projects") else { return };
        let names: Vec<String> = self.workspace.iter().map(|root| encode(root)).collect();
        for (folder, stamp) in self.list(&projects) {
            let name = String::from_utf8_lossy(folder.name()).into_owned();
            let chosen = own_name.is_some_and(|own| own == name);
            // Earlier versions replaced less.
            let name = encode(Path::new(&name));
            let near = chosen || names.iter().any(|root| may_be_within(&name, root));
            let sure = chosen || names.contains(&name);
            match stamp.kind() {
                Kind::Folder if near => self.claude_project(&folder, sure),
                Kind::Symlink if sure => self.trouble(&folder, Errno::LOOP),
                _ => {}
            }
        }
    }

    /// The sessions of a project's folder. `sure` is whether its name is the workspace's own, so
    /// that a session that does not say where it worked is taken for one of the workspace's.
    fn claude_project(&mut self, folder: &RelPath, sure: bool) {
        let mut sessions = BTreeMap::new();
        let mut folders = Vec::new();
        for (path, stamp) in self.list(folder) {
            match stamp.kind() {
                Kind::File => {
                    let Some(session) = path.name().strip_suffix(b".jsonl") else { continue };
                    let session = session.to_vec();
                    let belongs = self.belongs(&path, &stamp, cwd).unwrap_or(sure);
                    sessions.insert(session, belongs);
                    if belongs {
                        self.add(path, stamp);
                    }
                }
                Kind::Folder => folders.push(path),
                Kind::Symlink if sure && is_transcript(&path) => self.trouble(&path, Errno::LOOP),
                _ => {}
            }
        }
        for path in folders {
            let mut inner = Vec::new();
            for part in [&b"subagents"[..], b"tool-results"] {
                if let Ok(part) = path.join(part) {
                    self.files_below(&part, DEPTH, &mut inner);
                }
            }
            // Without its session's transcript, a subagent's says where it worked.
            let belongs = match sessions.get(path.name()) {
                Some(belongs) => *belongs,
                None => inner.iter().any(|(path, stamp)| {
                    is_transcript(path) && self.belongs(path, stamp, cwd) == Some(true)
                }),
            };
            if belongs {
                for (path, stamp) in inner {
                    self.add(path, stamp);
                }
            }
        }
    }

    /// The files of a folder and of those in it.
    pub(super) fn files_below(
        &mut self,
        folder: &RelPath,
        depth: usize,
        found: &mut Vec<(RelPath, Stamp)>,
    ) {
        for (path, stamp) in self.list(folder) {
            match stamp.kind() {
                Kind::File => found.push((path, stamp)),
                Kind::Folder if depth > 0 => self.files_below(&path, depth - 1, found),
                _ => {}
            }
        }
    }
}

fn is_transcript(path: &RelPath) -> bool {
    path.name().ends_with(b".jsonl")
}

fn cwd(line: &Value) -> Option<&str> {
    line.get("cwd")?.as_str()
}

/// The name of a directory's folder, not cut. Claude counts in units of UTF-16.
fn encode(path: &Path) -> String {
    let text = path.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric();
    text.chars()
        .flat_map(|c| {
            let (c, times) = if plain(c) { (c, 1) } else { ('-', c.len_utf16()) };
            std::iter::repeat_n(c, times)
        })
        .collect()
}

/// Whether a folder of that name may be that of the directory `root` or of one below it.
fn may_be_within(name: &str, root: &str) -> bool {
    let root = &root[..root.len().min(NAME_MAX)];
    name.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_but_letters_and_digits_becomes_a_dash() {
        assert_eq!(encode(Path::new("/home/a_b/my.shop-2")), "-home-a-b-my-shop-2");
        assert_eq!(encode(Path::new("/h\u{e4}/\u{1f600}")), "-h----");
    }

    #[test]
    fn a_name_narrows_the_search() {
        let root = encode(Path::new("/w/shop"));
        assert!(may_be_within("-w-shop", &root));
        assert!(may_be_within("-w-shop-src", &root));
        assert!(!may_be_within("-w-shops", &root));
        assert!(!may_be_within("-w", &root));
        let long = encode(Path::new(&format!("/w/{}", "x".repeat(300))));
        assert!(may_be_within(&format!("{}-1a2b3c", &long[..NAME_MAX]), &long));
        assert!(!may_be_within(&long[..NAME_MAX - 1], &long));
    }
}
