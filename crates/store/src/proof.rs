//! Whether the store can give back what a restore is about to displace.
//!
//! An index or a cache only says that an object should be there. A restore asks for each object that
//! it displaces: it is read and compared with its hash before the last copy outside the store goes.

use std::collections::HashSet;

use rappel_types::{Content, Node, ObjectId, RelPath};
use rayon::prelude::*;

use crate::content::ChunkList;
use crate::error::Result;
use crate::sink::Source;
use crate::tree;

/// Objects that have to be readable.
pub struct Proof<'a> {
    source: &'a dyn Source,
    /// In the order in which they were probably stored: neighbours share a block.
    wanted: Vec<(ObjectId, RelPath)>,
    seen: HashSet<ObjectId>,
    /// Paths whose objects could not even be listed.
    unreadable: Vec<RelPath>,
}

impl<'a> Proof<'a> {
    /// Nothing is asked for yet.
    pub fn new(source: &'a dyn Source) -> Self {
        Self { source, wanted: Vec::new(), seen: HashSet::new(), unreadable: Vec::new() }
    }

    /// Asks for what stands at `path` and will be displaced. `new` comes in its place, and is read
    /// before that: what both share need not be read twice.
    pub fn node(&mut self, path: &RelPath, old: Option<&Node>, new: Option<&Node>) {
        let content = |node: Option<&Node>| match node {
            Some(Node::File { content, .. }) => Some(*content),
            _ => None,
        };
        let (Some(old), new) = (content(old), content(new)) else { return };
        if Some(old) == new {
            return;
        }
        match old {
            Content::Whole(id) => self.object(id, path),
            Content::Chunked(id) => {
                let Ok(list) = ChunkList::load(self.source, &id) else {
                    self.unreadable.push(path.clone());
                    return;
                };
                let shared: HashSet<ObjectId> = match new {
                    Some(Content::Chunked(new)) => ChunkList::load(self.source, &new)
                        .map(|list| list.0.into_iter().map(|chunk| chunk.id).collect())
                        .unwrap_or_default(),
                    _ => HashSet::new(),
                };
                for chunk in list.0.iter().filter(|chunk| !shared.contains(&chunk.id)) {
                    self.object(chunk.id, path);
                }
            }
        }
    }

    /// Asks for all that a tree holds and `new` does not, below paths that `meant` names. `at` says
    /// what the tree is, where it cannot be read.
    pub fn tree(
        &mut self,
        at: &RelPath,
        old: &ObjectId,
        new: Option<&ObjectId>,
        meant: impl Fn(&RelPath) -> bool,
    ) {
        let differs = match new {
            Some(new) => tree::diff(self.source, old, new),
            None => all(self.source, old),
        };
        // A new tree that cannot be read is found out by whoever restores it.
        let Ok(changes) = differs.or_else(|_| all(self.source, old)) else {
            self.unreadable.push(at.clone());
            return;
        };
        for change in changes.iter().filter(|change| meant(&change.path)) {
            self.node(&change.path, change.old.as_ref(), change.new.as_ref());
        }
    }

    fn object(&mut self, id: ObjectId, path: &RelPath) {
        if self.seen.insert(id) {
            self.wanted.push((id, path.clone()));
        }
    }

    /// Reads everything that was asked for. Returns the paths of which something cannot be read.
    pub fn unproven(self) -> Vec<RelPath> {
        let Self { source, wanted, mut unreadable, .. } = self;
        let failed = wanted.par_iter().filter(|(id, _)| source.get(id).is_err());
        unreadable.extend(failed.map(|(_, path)| path.clone()).collect::<Vec<_>>());
        unreadable.sort();
        unreadable.dedup();
        unreadable
    }
}

/// Everything in a tree, as what goes.
fn all(source: &dyn Source, tree: &ObjectId) -> Result<Vec<tree::Change>> {
    let entries = tree::read(source, tree)?.into_iter();
    let gone = |entry: rappel_types::Entry| tree::Change {
        path: entry.path,
        old: Some(entry.node),
        new: None,
    };
    Ok(entries.map(gone).collect())
}
