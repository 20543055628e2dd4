//! Agents' state folders in the workspace: `.loki`, `.aiwg` and what `[agents] state_dirs` names. They are captured
//! whole, whatever git ignores, together with the files; which facet a path belongs to follows from the manifest.

use std::path::Path;

use rappel_types::{Config, RelPath};

use crate::knowledge;

/// Folders that are known without being named.
pub(crate) const KNOWN: [&str; 3] = [".loki", ".aiwg", ".caf"];
/// Other programs' checkpoints inside them: never captured, restored or deleted.
const FOREIGN: [(&str, &str); 3] = [
    (".loki", "/.loki/state/checkpoints"),
    (".loki", "/.loki/checkpoints"),
    (".aiwg", "/.aiwg/**/checkpoints"),
];

/// Has the files take everything that is agents' state.
pub(crate) fn include(config: &mut Config, root: &Path) {
    let is_there =
        |name: &str| std::fs::symlink_metadata(root.join(name)).is_ok_and(|meta| meta.is_dir());
    for name in KNOWN.into_iter().filter(|name| is_there(name)) {
        if let Ok(path) = name.parse::<RelPath>()
            && !config.agents.state_dirs.contains(&path)
        {
            config.agents.state_dirs.push(path);
        }
    }
    config.agents.state_dirs.sort();
    for path in &config.agents.state_dirs {
        config.files.include.push(knowledge::as_glob(path));
    }
    let foreign = FOREIGN.into_iter().filter(|(folder, _)| is_there(folder));
    config.files.exclude.extend(foreign.map(|(_, glob)| glob.to_owned()));
}
