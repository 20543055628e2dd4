//! Comparing two trees.

use std::cmp::Ordering;
use std::collections::HashSet;

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
    crate::threads::ready()?;
    let (old, new) = (leaves(source, old)?, leaves(source, new)?);
    let shared: HashSet<ObjectId> = {
        let left: HashSet<_> = old.iter().map(|leaf| leaf.id).collect();
        new.iter().map(|leaf| leaf.id).filter(|id| left.contains(id)).collect()
    };
    let own = |leaves: &[Child]| -> Result<Vec<Entry>> {
        let own: Vec<usize> =
            (0..leaves.len()).filter(|at| !shared.contains(&leaves[*at].id)).collect();
        let read = own.into_par_iter().map(|at| leaf_entries(source, leaves, at));
        let entries = read.collect::<Result<Vec<_>>>()?.concat();
        check_shape(&entries)?;
        Ok(entries)
    };
    let (old, new) = rayon::join(|| own(&old), || own(&new));
    Ok(merged(old?, new?))
}

/// What differs between two lists that are in order.
fn merged(old: Vec<Entry>, new: Vec<Entry>) -> Vec<Change> {
    let (mut old, mut new) = (old.into_iter().peekable(), new.into_iter().peekable());
    let mut changes = Vec::new();
    loop {
        let order = match (old.peek(), new.peek()) {
            (Some(old), Some(new)) => old.path.cmp(&new.path),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => return changes,
        };
        let old = if order.is_le() { old.next() } else { None };
        let new = if order.is_ge() { new.next() } else { None };
        let Some(path) = old.as_ref().or(new.as_ref()).map(|entry| entry.path.clone()) else {
            return changes;
        };
        let (old, new) = (old.map(|entry| entry.node), new.map(|entry| entry.node));
        if old != new {
            changes.push(Change { path, old, new });
        }
    }
}
