//! The present before a restore: saved, or only looked at in a dry run.

use rappel_capture::databases::sqlite;
use rappel_capture::git::State;
use rappel_store::beneath::Root;
use rappel_store::sink::{Scratch, Source};
use rappel_store::tree::{self, Change};
use rappel_types::agents::SessionId;
use rappel_types::manifest::PartialReason;
use rappel_types::{Facet, FacetState, Node, ObjectId, Plan, RelPath};
use std::collections::HashSet;

use super::{Limit, Target};
use crate::databases::Holdings;
use crate::error::{Error, Result};
use crate::git::{AlsoWorktrees, GitPresent};
use crate::rappel::Rappel;
use crate::save::{CapturedFiles, PreparedSave};

/// The present, as a restore compares it.
pub(crate) struct Present {
    pub tree: ObjectId,
    /// From here to the target.
    pub changes: Vec<Change>,
    pub state: FacetState,
    pub skipped: Vec<rappel_types::manifest::Skipped>,
    pub partial: Vec<PartialReason>,
    pub git: GitPresent,
    /// Sessions of which a transcript tells more than their journals, where nothing was taken in
    /// yet.
    pub news: HashSet<SessionId>,
}

impl Present {
    /// What the target holds at a path that differs from it.
    pub fn target_at(&self, path: &RelPath) -> Option<Node> {
        let at = self.changes.binary_search_by(|change| change.path.cmp(path)).ok()?;
        self.changes[at].new.clone()
    }

    /// Whether files differ from the target that a plan says nothing of: they were not asked for.
    pub fn is_more_than(&self, plan: &Plan) -> bool {
        let planned: HashSet<&RelPath> = plan.actions.iter().map(|action| &action.path).collect();
        self.changes.iter().any(|change| !planned.contains(&change.path))
    }
}

impl Rappel {
    /// What the safety checkpoint takes although today's rules would not, as far as it is known
    /// before: what the target holds and the last save did not.
    pub(super) fn to_take_too(&self, target: &Target, anew: bool) -> Result<Vec<RelPath>> {
        if anew {
            return Ok(Vec::new());
        }
        let Some(cache) = self.load_cache(self.require_known()?)? else { return Ok(Vec::new()) };
        let also = self.unheld(&changes_to(self.source(), cache.base(), target)?)?;
        self.keep_cache(cache);
        Ok(also)
    }

    /// The present as a prepared save holds it. `Err` are the paths that it has to take besides:
    /// the target holds them, or they are damaged databases that will be displaced.
    pub(super) fn present_of(
        &self,
        prepared: &PreparedSave<'_>,
        target: &Target,
        also: &[RelPath],
        held: &mut Holdings,
    ) -> Result<Result<Present, Vec<RelPath>>> {
        let (draft, source) = (prepared.draft(), prepared.source());
        let Some(files) = draft.files.clone() else {
            return Err(Error::Damaged { message: "a safety checkpoint without files".into() });
        };
        // Their bytes are saved before they are removed.
        let displaced = held.displace_damaged();
        if !displaced.is_empty() {
            return Ok(Err(displaced));
        }
        let changes = changes_to(source, &files.tree, target)?;
        let unheld = self.unheld(&changes)?;
        if !unheld.iter().all(|path| also.contains(path)) {
            return Ok(Err(unheld));
        }
        held.check_displaced(|path| is_kept(source, &files.tree, path))?;
        let states = match &draft.git {
            Some(part) => State::load(source, part)?,
            None => Vec::new(),
        };
        let of_git = draft.partial_reasons.iter().filter(|reason| reason.facet == Facet::Git);
        let git = GitPresent {
            state: draft.state_of(Facet::Git),
            states,
            partial: of_git.cloned().collect(),
            stored: true,
        };
        Ok(Ok(Present {
            news: HashSet::new(),
            tree: files.tree,
            changes,
            state: FacetState::Captured,
            skipped: files.skipped,
            partial: draft.partial_reasons.clone(),
            git,
        }))
    }

    /// Whether the store gives the safety checkpoint's list of files back as it was planned with.
    pub(super) fn is_as_planned(&self, present: &Present, target: &Target) -> Result<bool> {
        Ok(changes_to(self.source(), &present.tree, target)? == present.changes)
    }

    /// The present as a dry run looks at it, in memory only.
    pub(super) fn look(
        &self,
        scratch: &Scratch<'_>,
        target: &Target,
        limit: &Limit<'_>,
        held: &mut Holdings,
    ) -> Result<Present> {
        let id = self.require_known()?;
        let mut also = held.displace_damaged();
        also.extend(self.made_by(limit, target)?);
        also.sort();
        let worktrees = self.made_in_worktrees(limit)?;
        loop {
            let files = self.scan(scratch, self.load_cache(id)?, &also)?;
            let tree = files.tree;
            let changes = changes_to(scratch, &tree, target)?;
            let unheld = self.unheld(&changes)?;
            if unheld.is_empty() || unheld.iter().all(|path| also.contains(path)) {
                held.check_displaced(|path| is_kept(scratch, &tree, path))?;
                let wanted = target.manifest.git.as_ref();
                let git = self.look_at_git(&files, wanted, &worktrees, scratch)?;
                let CapturedFiles { scanned, .. } = files;
                return Ok(Present {
                    news: HashSet::new(),
                    tree,
                    changes,
                    state: FacetState::Captured,
                    skipped: scanned.skipped,
                    partial: scanned.partial,
                    git,
                });
            }
            also.extend(unheld);
            also.sort();
            also.dedup();
        }
    }

    /// What a step takes back although the rules would not take it: files that the restore made and
    /// git ignores, and what SQLite keeps beside a database, where a step is about both as files: the
    /// one is not taken as a file without the other.
    pub(super) fn made_by(&self, limit: &Limit<'_>, target: &Target) -> Result<Vec<RelPath>> {
        let Limit::Exactly { paths, .. } = limit else { return Ok(Vec::new()) };
        let root = Root::open(&self.root, self.options.disk.clone())?;
        let beside = paths.iter().flat_map(sqlite::companions_of);
        let beside =
            beside.filter(|path| paths.contains(path) && !path.as_bytes().ends_with(b"-shm"));
        let mut taken: Vec<RelPath> = beside.collect();
        if let Some(files) = &target.manifest.files {
            let held = tree::Lookup::new(self.source(), files.tree);
            for path in *paths {
                if held.find(path)?.is_none() && !path.as_bytes().ends_with(b"-shm") {
                    taken.push(path.clone());
                }
            }
        }
        let exists = |path: &RelPath| root.stat(path).is_ok_and(|found| found.is_some());
        taken.retain(exists);
        Ok(taken)
    }

    /// The same for other work trees.
    pub(super) fn made_in_worktrees(&self, limit: &Limit<'_>) -> Result<AlsoWorktrees> {
        match limit {
            Limit::Exactly { git: Some(wish), .. } => self.left_in_worktrees(wish),
            _ => Ok(AlsoWorktrees::new()),
        }
    }

    /// Paths that the target holds and that exist, but that a look at the present did not take.
    fn unheld(&self, changes: &[Change]) -> Result<Vec<RelPath>> {
        let root = Root::open(&self.root, self.options.disk.clone())?;
        // What can only be reached through a link is not there.
        let exists = |path: &RelPath| root.stat(path).is_ok_and(|found| found.is_some());
        Ok(changes
            .iter()
            .filter(|change| change.old.is_none() && exists(&change.path))
            .map(|change| change.path.clone())
            .collect())
    }
}

/// Whether a tree has a file at this path.
fn is_kept(source: &dyn Source, tree: &ObjectId, path: &RelPath) -> Result<bool> {
    Ok(matches!(tree::lookup(source, tree, path)?, Some(Node::File { .. })))
}

/// From a tree to what the target holds of files; nothing, if it holds none.
fn changes_to(source: &dyn Source, from: &ObjectId, target: &Target) -> Result<Vec<Change>> {
    match &target.manifest.files {
        Some(files) => Ok(tree::diff(source, from, &files.tree)?),
        None => Ok(Vec::new()),
    }
}
