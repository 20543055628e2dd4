//! Reading a tree: all of it, its leaves, or what stands at a path.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use rappel_types::{Entry, Node, ObjectId, RelPath};

use super::node::{Child, Decoded, check_shape, decode};
use crate::error::{Error, Result};
use crate::sink::Source;

/// The leaves below a node, in order. Checks that levels descend and paths keep their promises, so
/// that a hostile tree can neither loop nor reorder.
pub(super) fn leaves(source: &dyn Source, root: &ObjectId) -> Result<Vec<Child>> {
    match decode(&source.get(root)?)? {
        Decoded::Leaf(entries) => Ok(entries
            .last()
            .map(|last| Child { id: *root, entries: entries.len() as u64, last: last.path.clone() })
            .into_iter()
            .collect()),
        Decoded::Inner { level, children } => {
            let mut found = Vec::new();
            descend(source, level, children, &mut found)?;
            Ok(found)
        }
    }
}

fn descend(
    source: &dyn Source,
    level: u8,
    children: Vec<Child>,
    out: &mut Vec<Child>,
) -> Result<()> {
    let ordered = |out: &Vec<Child>, child: &Child| {
        out.last().is_none_or(|previous: &Child| previous.last < child.last)
    };
    for child in children {
        if !ordered(out, &child) {
            return Err(Error::Damaged("tree node: its leaves are not in order".into()));
        }
        if level == 1 {
            out.push(child);
            continue;
        }
        match decode(&source.get(&child.id)?)? {
            Decoded::Inner { level: below, children }
                if below + 1 == level && child.is_above(&children) =>
            {
                descend(source, below, children, out)?;
            }
            _ => return Err(child.denied()),
        }
    }
    Ok(())
}

/// The entries of the leaf at `at`, which begin behind those of the leaf before it.
pub(super) fn leaf_entries(source: &dyn Source, leaves: &[Child], at: usize) -> Result<Vec<Entry>> {
    let leaf = &leaves[at];
    let before = at.checked_sub(1).map(|before| &leaves[before].last);
    match decode(&source.get(&leaf.id)?)? {
        Decoded::Leaf(entries)
            if entries.len() as u64 == leaf.entries
                && entries.last().is_some_and(|last| last.path == leaf.last)
                && entries.first().is_some_and(|first| before < Some(&first.path)) =>
        {
            Ok(entries)
        }
        _ => Err(leaf.denied()),
    }
}

/// Every entry of a tree, in order.
pub fn read(source: &dyn Source, root: &ObjectId) -> Result<Vec<Entry>> {
    let leaves = leaves(source, root)?;
    let mut entries = Vec::with_capacity(
        leaves.iter().map(|leaf| leaf.entries as usize).sum::<usize>().min(1 << 20),
    );
    for at in 0..leaves.len() {
        entries.extend(leaf_entries(source, &leaves, at)?);
    }
    check_shape(&entries)?;
    Ok(entries)
}

/// What stands at `path`, if anything.
pub fn lookup(source: &dyn Source, root: &ObjectId, path: &RelPath) -> Result<Option<Node>> {
    Lookup::new(source, *root).find(path)
}

/// Looks up many paths of one tree; each node on the way is read once.
pub struct Lookup<'a> {
    source: &'a dyn Source,
    root: ObjectId,
    nodes: Mutex<HashMap<ObjectId, Arc<Decoded>>>,
}

impl<'a> Lookup<'a> {
    /// For the tree with this root.
    pub fn new(source: &'a dyn Source, root: ObjectId) -> Self {
        Self { source, root, nodes: Mutex::default() }
    }

    /// What stands at `path`, if anything.
    pub fn find(&self, path: &RelPath) -> Result<Option<Node>> {
        let mut node = self.node(&self.root)?;
        loop {
            let (level, children) = match &*node {
                Decoded::Leaf(entries) => {
                    let found = entries.binary_search_by(|entry| entry.path.cmp(path));
                    return Ok(found.ok().map(|at| entries[at].node.clone()));
                }
                Decoded::Inner { level, children } => (*level, children),
            };
            let at = children.partition_point(|child| child.last < *path);
            let Some(child) = children.get(at) else { return Ok(None) };
            let below = self.node(&child.id)?;
            let fits = match &*below {
                Decoded::Inner { level: below, children } => {
                    below + 1 == level && child.is_above(children)
                }
                Decoded::Leaf(entries) => {
                    level == 1 && entries.last().is_some_and(|last| last.path == child.last)
                }
            };
            if !fits {
                return Err(child.denied());
            }
            node = below;
        }
    }

    fn node(&self, id: &ObjectId) -> Result<Arc<Decoded>> {
        let nodes = || self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(node) = nodes().get(id) {
            return Ok(node.clone());
        }
        let node = Arc::new(decode(&self.source.get(id)?)?);
        nodes().insert(*id, node.clone());
        Ok(node)
    }
}

/// The ids of all nodes of a tree, the root first. Used to find what a checkpoint needs.
pub fn nodes(source: &dyn Source, root: &ObjectId) -> Result<Vec<ObjectId>> {
    let mut found = vec![*root];
    let mut seen: HashSet<ObjectId> = found.iter().copied().collect();
    let mut at = 0;
    while let Some(id) = found.get(at).copied() {
        at += 1;
        if let Decoded::Inner { children, .. } = decode(&source.get(&id)?)? {
            found.extend(children.iter().map(|child| child.id).filter(|id| seen.insert(*id)));
        }
    }
    Ok(found)
}
