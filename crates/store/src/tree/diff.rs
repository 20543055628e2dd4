//! Comparing two trees.

use std::collections::{BTreeMap, HashSet};

use rappel_types::{Entry, Node, ObjectId, RelPath};
use rayon::prelude::*;

use super::node::{Child, check_shape};
use super::read::{leaf_entries, leaves};
use crate::error::Result;
use crate::sink::Source;

/// A path that differs between two trees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Where.
    pub path: RelPath,
    /// What the first tree has there.
    pub old: Option<Node>,
    /// What the second tree has there.
    pub new: Option<Node>,
}

/// Every path that differs between two trees, in order. Leaves that both share are not read.
///
/// Not guaranteed: that an entry below a file is noticed if one of the two is in a shared leaf.
pub fn diff(source: &dyn Source, old: &ObjectId, new: &ObjectId) -> Result<Vec<Change>> {
    if old == new {
        return Ok(Vec::new());
    }
    let (old, new) = (leaves(source, old)?, leaves(source, new)?);
    let shared: HashSet<ObjectId> = {
        let left: HashSet<_> = old.iter().map(|leaf| leaf.id).collect();
        new.iter().map(|leaf| leaf.id).filter(|id| left.contains(id)).collect()
    };
    let mut changes: BTreeMap<RelPath, (Option<Node>, Option<Node>)> = BTreeMap::new();
    let own = |leaves: &[Child]| -> Result<Vec<Entry>> {
        let own: Vec<usize> =
            (0..leaves.len()).filter(|at| !shared.contains(&leaves[*at].id)).collect();
        let read = own.into_par_iter().map(|at| leaf_entries(source, leaves, at));
        let entries = read.collect::<Result<Vec<_>>>()?.concat();
        check_shape(&entries)?;
        Ok(entries)
    };
    for entry in own(&old)? {
        changes.entry(entry.path).or_default().0 = Some(entry.node);
    }
    for entry in own(&new)? {
        changes.entry(entry.path).or_default().1 = Some(entry.node);
    }
    Ok(changes
        .into_iter()
        .filter(|(_, (old, new))| old != new)
        .map(|(path, (old, new))| Change { path, old, new })
        .collect())
}
