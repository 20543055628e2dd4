//! Codex: `sessions/YYYY/MM/DD/rollout-*.jsonl`, compressed when cold, and `archived_sessions`. The
//! first line says where the session worked.

use rappel_types::RelPath;
use serde_json::Value;

use super::{Search, fixed};

/// Year, month, day.
const DEPTH: usize = 3;

impl Search<'_> {
    pub(super) fn codex(&mut self) {
        let mut rollouts = Vec::new();
        for folder in ["sessions", "archived_sessions"] {
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
