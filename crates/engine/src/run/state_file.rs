//! What a numbered file of a state folder says of a checkpoint of ours.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rappel_capture::files::Identity;
use rappel_formats::aiwg::{AiwgState, GitStatus};
use rappel_types::path::escape_bytes;
use rappel_types::{Facet, FacetState, Manifest, RelPath};

/// What a checkpoint knows of git.
pub(super) fn git_status(manifest: &Manifest) -> GitStatus {
    let names = |paths: &[RelPath]| paths.iter().map(ToString::to_string).collect();
    let mut status = GitStatus::default();
    if let Some(git) = &manifest.git {
        status.branch = git.root.branch.clone().unwrap_or_else(|| "HEAD".into());
        status.modified = names(&git.root.modified);
        status.untracked = names(&git.root.untracked);
        status.staged = names(&git.root.staged);
    }
    let reasons = manifest.partial_reasons.iter().filter(|one| one.facet == Facet::Git);
    let reasons: Vec<&str> = reasons.map(|one| one.reason.as_str()).collect();
    status.error = match manifest.state_of(Facet::Git) {
        _ if !reasons.is_empty() => Some(reasons.join("; ")),
        FacetState::Failed => Some("git could not be read".into()),
        FacetState::Absent => Some("not a git repository".into()),
        _ => None,
    };
    status
}

/// The files in the `.aiwg` folder of a workspace, without those that Rappel writes there. What
/// cannot be read is told, and the rest is listed.
pub(super) fn aiwg_state(root: &Path, written: &[Identity]) -> AiwgState {
    let top = root.join(".aiwg");
    let mut sizes = BTreeMap::new();
    let mut errors = BTreeSet::new();
    let mut waiting = vec![top.clone()];
    while let Some(folder) = waiting.pop() {
        let fail = |error: std::io::Error| format!("cannot read {}: {error}", folder.display());
        let entries = match std::fs::read_dir(&folder) {
            Err(error) if folder == top && error.kind() == std::io::ErrorKind::NotFound => break,
            Err(error) => {
                errors.insert(fail(error));
                continue;
            }
            Ok(entries) => entries,
        };
        for entry in entries {
            let read = entry.and_then(|entry| Ok((entry.path(), entry.metadata()?)));
            match read {
                Err(error) => _ = errors.insert(fail(error)),
                Ok((path, meta)) if meta.is_dir() => {
                    if !Identity::of(&path).is_ok_and(|identity| written.contains(&identity)) {
                        waiting.push(path);
                    }
                }
                Ok((path, meta)) => {
                    let below = path.strip_prefix(&top).unwrap_or(&path);
                    sizes.insert(escape_bytes(below.as_os_str().as_bytes()), meta.len());
                }
            }
        }
    }
    let error = (!errors.is_empty()).then(|| Vec::from_iter(errors).join("; "));
    AiwgState { files: sizes.keys().cloned().collect(), sizes, error, ..AiwgState::default() }
}
