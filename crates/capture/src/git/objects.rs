//! Which objects a checkpoint needs, and which of them have to be stored.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use gix_index::hash::ObjectId as Oid;
use rappel_types::git::GitPart;
use rappel_types::{Node, RelPath};

use super::bundles::{self, Bundle, Failure, Known, bytes_of};
use super::capture::Work;
use super::folder;
use super::memo::Remembered;
use super::place::Place;
use super::program::Git;
use super::refs::Target;
use super::state::State;
use super::status::Index;

/// How a reason begins that says that a checkpoint lacks objects which the repository needs.
pub const LACKS: &str = "git could not give its objects";

/// The objects that a repository needs.
pub(super) struct Needed {
    /// What refs lead to: it must be there.
    pub(super) refs: BTreeSet<Oid>,
    /// That, and what logs and unfinished operations name.
    pub(super) named: BTreeSet<Oid>,
    /// What is staged.
    pub(super) staged: BTreeSet<Oid>,
    /// Whether whole folders are among that.
    pub(super) sparse: bool,
}

/// The indexes of all work trees.
pub(super) struct Indexes {
    /// The one of the work tree that is captured.
    pub(super) own: Result<Index, String>,
    /// The objects that any of them names.
    pub(super) staged: BTreeSet<Oid>,
    /// Whether whole folders are among those.
    pub(super) sparse: bool,
}

impl Indexes {
    pub(super) fn read(place: &Place, items: &[Remembered]) -> Self {
        let own = Index::load(place);
        let mut staged: BTreeSet<Oid> = own.iter().flat_map(Index::objects).collect();
        let mut sparse = own.as_ref().is_ok_and(Index::has_folders);
        if own.as_ref().is_ok_and(Index::has_solved_conflicts) {
            staged.extend(solved(&place.git_dir));
        }
        for item in items {
            if let (Some(_), b"index") = folder::split(item.path.as_bytes()) {
                let path = std::ffi::OsStr::from_bytes(item.path.as_bytes());
                let read = Index::read(&place.common_dir.join(path), place.hash);
                staged.extend(read.iter().flat_map(Index::objects));
                if let (Ok(true), Some(folder)) =
                    (read.as_ref().map(Index::has_solved_conflicts), Path::new(path).parent())
                {
                    staged.extend(solved(&place.common_dir.join(folder)));
                }
                sparse |= read.is_ok_and(|read| read.has_folders());
            }
        }
        Self { own, staged, sparse }
    }
}

/// The sides of conflicts that were solved, which `git checkout -m` makes again. What git cannot tell
/// is not worth a failure.
fn solved(git_dir: &Path) -> BTreeSet<Oid> {
    let answer = Git::at(git_dir).ask(&["ls-files", "--resolve-undo", "-z"], b"");
    let answer = answer.unwrap_or_default();
    let names = answer.split(|&b| b == 0).filter_map(|line| line.split(|&b| b == b' ').nth(1));
    names.filter_map(|hex| Oid::from_hex(hex).ok()).filter(|oid| !oid.is_null()).collect()
}

impl<'a> Work<'a> {
    /// Brings the objects of a repository into the store, as far as they are not there.
    pub(super) fn objects(
        &mut self,
        path: Option<&RelPath>,
        place: &Place,
        state: &mut State,
        needed: &Needed,
    ) -> Result<(), Failure> {
        let Needed { refs: own_refs, named, staged, .. } = needed;
        let prior = self.prior(path);
        let is_new = prior.is_none();
        let prior = prior.unwrap_or_default();
        let mut bundles: Vec<Bundle> = match is_new {
            true => self.foreign_bundles(place),
            false => prior.bundles.clone(),
        };
        let mut prior = prior;
        let known = Known::of(&bundles, place.hash.len_in_bytes(), self.sink);
        // Where history ends somewhere else than before, what was followed has to be followed again.
        let depth = |files: &BTreeMap<RelPath, Node>| {
            let ends = |path: &RelPath| matches!(path.as_bytes(), b"shallow" | b"info/grafts");
            files.iter().filter(|(path, _)| ends(path)).map(|(_, node)| node.clone()).collect()
        };
        let (before, now): (Vec<Node>, Vec<Node>) = (depth(&prior.files), depth(&state.files));
        if before != now {
            prior.tips.clear();
        }
        let settled: BTreeSet<Oid> = prior
            .refs
            .values()
            .filter_map(|target| match target {
                Target::Object(oid) if prior.tips.contains(oid) => Some(*oid),
                _ => None,
            })
            .collect();
        let mut wanted: BTreeSet<Oid> = named.difference(&prior.tips).copied().collect();
        wanted.extend(staged.iter().filter(|oid| known.find(oid).is_none()));
        let take = |wanted: &BTreeSet<Oid>| {
            bundles::take(place, wanted, &settled, &known, self.sink, self.request.cancel)
        };
        let mut passed_over: BTreeSet<Oid> = BTreeSet::new();
        let quickly = match needed.sparse {
            true => None,
            false => bundles::take_commits(place, &wanted, staged, &settled, &known, self.sink)?,
        };
        let taken = match quickly.map_or_else(|| take(&wanted), Ok) {
            // What is only in a log may have lost its ancestors.
            Err(Failure::Git(super::program::Trouble::Failed(_))) => {
                let is_firm = |oid: &Oid| own_refs.contains(oid) || staged.contains(oid);
                let (firm, loose): (BTreeSet<Oid>, BTreeSet<Oid>) =
                    wanted.iter().copied().partition(is_firm);
                passed_over = loose;
                take(&firm)?
            }
            other => other?,
        };
        let lost: Vec<&Oid> = taken.missing.iter().filter(|oid| own_refs.contains(*oid)).collect();
        if let Some(first) = lost.first() {
            let count = lost.len();
            // They may have been deleted since.
            self.moved = true;
            self.trouble(
                path,
                format!("{LACKS}: {count} refs lead to missing ones, {first} first"),
            );
        }
        if !place.partial_clone
            && taken.missing.iter().any(|oid| !named.contains(oid) && !staged.contains(oid))
        {
            self.trouble(path, format!("{LACKS}: some are missing in the repository"));
        }
        if is_new {
            let mut at = 0;
            bundles.retain(|_| {
                at += 1;
                taken.used.contains(&(at - 1))
            });
        }
        let many = bundles.len();
        bundles = bundles::gather(place, bundles, self.sink)?;
        let gathered = bundles.len() != many;
        bundles.extend(taken.bundle);
        bundles.sort_by(|a, b| a.name.cmp(&b.name));
        bundles.dedup_by(|a, b| a.name == b.name);
        state.bundles = bundles;
        state.tips = named.difference(&taken.missing).copied().collect();
        state.tips.retain(|oid| !passed_over.contains(oid));
        if gathered {
            // What the repository did not have any more is not held any more.
            let known = Known::of(&state.bundles, place.hash.len_in_bytes(), self.sink);
            state.tips.retain(|oid| known.find(oid).is_some());
        }
        Ok(())
    }

    /// What is held of a repository: by the newest checkpoint, or taken already.
    pub(super) fn prior(&self, path: Option<&RelPath>) -> Option<State> {
        let states = self.prior.as_ref().map_or(&[][..], |states| states);
        let found = states.iter().find(|state| state.path.as_ref() == path);
        found.or_else(|| self.request.early.filter(|_| path.is_none())).cloned()
    }

    /// What a checkpoint says that holds what need not be stored again.
    pub(super) fn prior_part(&self) -> Option<&'a GitPart> {
        self.request.memo.map(|memo| &memo.part).or(self.request.prior)
    }

    /// Bundles of other workspaces, whose repositories may be clones of this one. Only those of
    /// which this repository has every object: a restore gives back all of a bundle, and must not
    /// bring another project's work to this one.
    fn foreign_bundles(&self, place: &Place) -> Vec<Bundle> {
        let mut bundles: Vec<Bundle> = Vec::new();
        for part in (self.request.others)() {
            // One that cannot be read any more has nothing to give.
            let Ok(states) = State::load(self.sink, &part) else { continue };
            bundles.extend(states.into_iter().flat_map(|state| state.bundles));
        }
        bundles.sort_by(|a, b| a.name.cmp(&b.name));
        bundles.dedup_by(|a, b| a.name == b.name);
        let width = place.hash.len_in_bytes();
        bundles.retain(|bundle| {
            let ids = bytes_of(self.sink, &bundle.ids).unwrap_or_default();
            let ids: Vec<Oid> =
                ids.chunks_exact(width).filter_map(|name| Oid::try_from(name).ok()).collect();
            // Of an unrelated repository a few show it.
            let few = &ids[..ids.len().min(16)];
            !ids.is_empty() && has_all(place, few) && has_all(place, &ids)
        });
        bundles
    }
}

/// Whether a repository has all of these objects.
fn has_all(place: &Place, ids: &[Oid]) -> bool {
    let input: String = ids.iter().map(|oid| format!("{oid}\n")).collect();
    let asked = ["cat-file", "--buffer", "--batch-check=%(objectname)"];
    let answer = place.git().ask(&asked, input.as_bytes());
    answer
        .is_ok_and(|answer| !answer.split(|&b| b == b'\n').any(|line| line.ends_with(b" missing")))
}
