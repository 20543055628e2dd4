//! The objects of a repository that is captured for the first time, taken while the files are read.
//!
//! What moves meanwhile does no harm: what was taken is whole by itself, and the capture that follows
//! takes the rest as it does after any checkpoint.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rappel_store::Cancel;
use rappel_store::held;
use rappel_store::sink::Sink;
use rappel_types::Node;
use rappel_types::git::GitPart;
use rappel_types::manifest::SelectionRules;

use super::capture::{Before, Request, Work};
use super::extra::Extra;
use super::folder::{self, Role};
use super::live;
use super::objects::{Indexes, Needed};
use super::place::Place;
use super::refs::{self, Target};
use super::state::State;
use crate::files::Environment;

/// Takes the objects of the repository at `root`. `None` where that is not worth it, or failed: then
/// it is left to the capture, which says why.
pub fn objects(
    root: &Path,
    environment: &Environment,
    others: &dyn Fn() -> Vec<GitPart>,
    cancel: &Cancel,
    sink: &dyn Sink,
) -> Option<State> {
    let place = Place::find(root, environment)?;
    let items = live::looked(&place.common_dir).ok()?;
    // Where history ends is a matter for the capture.
    let ends = |path: &[u8]| matches!(path, b"shallow" | b"info/grafts");
    if place.reftable || items.iter().any(|item| ends(item.path.as_bytes())) {
        return None;
    }
    let read = |path: &rappel_types::RelPath| {
        held::read(place.common_dir.join(std::ffi::OsStr::from_bytes(path.as_bytes()))).ok()
    };
    let listed = items.iter().map(|item| (&item.path, &item.node));
    let (refs, spoilt) = live::refs_of_files(listed, &mut |path| read(path));
    if !spoilt.is_empty() {
        return None;
    }
    let own: BTreeSet<_> = refs
        .values()
        .filter_map(|target| match target {
            Target::Object(oid) => Some(*oid),
            Target::Symbolic(_) => None,
        })
        .collect();
    let mut named = own.clone();
    for item in &items {
        let role = folder::role(item.path.as_bytes());
        if matches!(item.node, Node::File { .. })
            && matches!(role, Role::Log | Role::Operation)
            && let Some(bytes) = read(&item.path)
        {
            refs::named_in(&bytes, place.hash, &mut named);
        }
    }
    let Indexes { staged, sparse, .. } = Indexes::read(&place, &items);
    let rules = SelectionRules::default();
    let request = Request {
        root,
        environment,
        repositories: &[],
        wanted: None,
        early: None,
        before: &Before::default(),
        memo: None,
        prior: None,
        others,
        base: None,
        changes: &[],
        extra: &Extra::look(root, &rules, []).ok()?,
        objects: true,
        worktree: &|_| Ok(None),
        cancel,
    };
    let mut work = Work::new(&request, sink);
    let mut state = State { refs, files: BTreeMap::new(), ..State::default() };
    let needed = Needed { refs: own, named, staged, sparse };
    work.objects(None, &place, &mut state, &needed).ok()?;
    work.partial.is_empty().then_some(state)
}
