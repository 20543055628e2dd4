//! Codex: `sessions/YYYY/MM/DD/rollout-*.jsonl`, compressed when cold, and `archived_sessions`. The
//! first line says where the session worked.

use rappel_types::RelPath;
use serde_json::Value;

use super::{Search, fixed};
use crate::agents::home::Home;
use crate::files::stamp::{Kind, Stamp};

/// Where they are.
const FOLDERS: [&str; 2] = ["sessions", "archived_sessions"];
/// Year, month, day.
const DEPTH: usize = 3;

/// Every rollout in a home: those of all folders, as far as they can be listed.
pub(in crate::agents) fn rollouts(home: &Home) -> Vec<(RelPath, Stamp)> {
    fn below(home: &Home, folder: &RelPath, depth: usize, found: &mut Vec<(RelPath, Stamp)>) {
        for (path, stamp) in home.list(folder).unwrap_or_default() {
            match stamp.kind() {
                Kind::File if is_rollout(&path) => found.push((path, stamp)),
                Kind::Folder if depth > 0 => below(home, &path, depth - 1, found),
                _ => {}
            }
        }
    }
    let mut found = Vec::new();
    for folder in FOLDERS.into_iter().filter_map(fixed) {
        below(home, &folder, DEPTH, &mut found);
    }
    found
}

impl Search<'_> {
    pub(super) fn codex(&mut self) {
        let mut rollouts = Vec::new();
        for folder in FOLDERS {
            if let Some(folder) = fixed(folder) {
                self.files_below(&folder, DEPTH, &mut rollouts);
            }
        }
        rollouts.retain(|(path, _)| is_rollout(path));
        let mut before: Option<RelPath> = None;
        for (path, stamp) in rollouts {
            // One that is being compressed is there twice, side by side.
            let repeated = before.as_ref().is_some_and(|before| {
                path.as_bytes().strip_suffix(b".zst") == Some(before.as_bytes())
            });
            if !repeated && self.belongs(&path, &stamp, cwd) == Some(true) {
                self.add(path.clone(), stamp);
            }
            before = Some(path);
        }
    }
}

fn is_rollout(path: &RelPath) -> bool {
    let name = path.name();
    name.starts_with(b"rollout-") && (name.ends_with(b".jsonl") || name.ends_with(b".jsonl.zst"))
}

fn cwd(line: &Value) -> Option<&str> {
    let payload = line.get("payload")?;
    payload.get("meta").unwrap_or(payload).get("cwd")?.as_str()
}
