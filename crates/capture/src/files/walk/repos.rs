//! Repositories on the way of a walk: found, compared with what was known of them, and read only if
//! something about them changed.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use rappel_types::manifest::{Facet, PartialReason};
use rappel_types::path::escape;
use rappel_types::{ObjectId, RelPath};

use super::super::cache::RepoMemo;
use super::super::choose::{Has, Scope};
use super::super::git::consulted::unchanged;
use super::super::git::{self, Live, Repo};
use super::Walk;

/// A repository, and what its changes mean for the verdicts below.
#[derive(Debug, Default)]
pub(super) struct Opened {
    pub repo: Option<Arc<Repo>>,
    /// Its rules are others than before.
    pub stale: bool,
    /// Other files are tracked than before.
    pub recheck: bool,
}

impl Walk<'_> {
    /// The scope above the root: the repository that starts there or above.
    pub(super) fn root_scope(&self) -> (Arc<Scope>, Opened) {
        let mut opened = self.open_repo(b"", self.root.path(), &[]);
        if opened.repo.is_none()
            && let Ok(real) = self.root.path().canonicalize()
            && let Some((folder, prefix)) = git::above(&real)
        {
            opened = self.open_repo(b"", &folder, &prefix);
        }
        self.found().git = opened.repo.is_some();
        (Scope::root(opened.repo.clone(), Has::default()), opened)
    }

    /// The repository whose `.git` is in the folder at `path`.
    pub(super) fn repo_in(&self, path: &[u8]) -> Opened {
        let folder = self.root.path().join(std::ffi::OsStr::from_bytes(path));
        self.open_repo(path, &folder, &[])
    }

    /// The repository in `folder` that governs `path`; `prefix` leads from it to the workspace.
    fn open_repo(&self, path: &[u8], folder: &Path, prefix: &[u8]) -> Opened {
        let live = Live {
            folder: folder.to_owned(),
            prefix: prefix.to_vec(),
            environment: self.environment.clone(),
            trust: self.trust,
        };
        let above = (!prefix.is_empty()).then(|| escape(folder.as_os_str().as_bytes()));
        let start = if path.is_empty() { 0 } else { path.len() + 1 };
        let repo = Repo::live(start, live.clone());
        let known = self.repos.get(path).copied().filter(|memo| memo.above == above);
        let mut memo = RepoMemo {
            folder: RelPath::new(path).ok(),
            above,
            is_repo: false,
            rules: Vec::new(),
            rules_digest: ObjectId([0; 32]),
            index: Vec::new(),
            index_digest: ObjectId([0; 32]),
            trouble: None,
        };
        let same_rules = known.filter(|known| unchanged(&known.rules));
        match same_rules {
            Some(known) => {
                memo.is_repo = known.is_repo;
                memo.rules.clone_from(&known.rules);
                memo.rules_digest = known.rules_digest;
            }
            None => {
                let loaded = live.load();
                memo.is_repo = loaded.rules.is_some();
                memo.rules = loaded.consulted;
                memo.rules_digest = ObjectId(loaded.digest);
                repo.set(loaded.rules, None);
            }
        }
        // A root that is governed from elsewhere, or not at all, was judged by other rules.
        let stale = known.is_none_or(|known| {
            known.is_repo != memo.is_repo || known.rules_digest != memo.rules_digest
        });
        let mut recheck = false;
        if memo.is_repo {
            match known.filter(|known| !known.index.is_empty() && unchanged(&known.index)) {
                Some(known) => {
                    memo.index.clone_from(&known.index);
                    memo.index_digest = known.index_digest;
                    memo.trouble.clone_from(&known.trouble);
                }
                None => recheck = load_index(&live, &repo, known, &mut memo),
            }
            if let Some(reason) = &memo.trouble {
                let path = memo.folder.clone();
                let reason = PartialReason::new(Facet::Git, path, reason.clone());
                self.found().partial.push(reason);
            }
        }
        let is_repo = memo.is_repo;
        let mut found = self.found();
        // The root is looked at twice when its repository lies above; the last one counts.
        found.repos.retain(|known| known.folder != memo.folder);
        found.repos.push(memo);
        Opened { repo: is_repo.then(|| Arc::new(repo)), stale, recheck }
    }
}

/// Reads the index; tells whether other paths are tracked than `known` says.
fn load_index(live: &Live, repo: &Repo, known: Option<&RepoMemo>, memo: &mut RepoMemo) -> bool {
    let loaded = live.load_index();
    memo.index = loaded.consulted;
    match loaded.tracked {
        Ok(tracked) => {
            memo.index_digest = ObjectId(*tracked.digest());
            repo.set(None, Some(tracked));
            known.is_none_or(|known| known.index_digest != memo.index_digest)
        }
        Err(trouble) => {
            // What was tracked before stays so until the index can be read.
            memo.index_digest = known.map_or(memo.index_digest, |known| known.index_digest);
            memo.trouble = Some(trouble);
            false
        }
    }
}
