//! Looking at the nodes of a tree one by one, for whoever marks, verifies or walks one that may be
//! damaged.

use std::collections::HashMap;

use rappel_types::{Entry, Node, ObjectId, RelPath};

use super::node::{Decoded, decode};
use super::read::leaves;
use crate::closure::Reference;
use crate::error::{Error, Result};
use crate::sink::Source;

/// What a node refers to: the nodes below it, or the contents of its entries.
pub(crate) fn references(bytes: &[u8]) -> Result<Vec<Reference>> {
    Ok(match decode(bytes)? {
        Decoded::Inner { children, .. } => {
            children.iter().map(|child| Reference::Node(child.id)).collect()
        }
        Decoded::Leaf(entries) => entries
            .iter()
            .filter_map(|entry| match &entry.node {
                Node::File { content, .. } => Some(Reference::of(content)),
                _ => None,
            })
            .collect(),
    })
}

/// What the neighbours and the parent of a leaf must agree with.
#[derive(Debug, Clone)]
pub(crate) struct Edges {
    entries: u64,
    first: RelPath,
    last: Entry,
}

impl Edges {
    /// Those of a leaf with these entries; `None` if there are none.
    pub fn of(entries: &[Entry]) -> Option<Self> {
        let (first, last) = (entries.first()?, entries.last()?);
        let first = first.path.clone();
        Some(Self { entries: entries.len() as u64, first, last: last.clone() })
    }
}

/// Whether the nodes of a tree, each good by itself, fit together as [`read`](super::read()) wants them. `edges`
/// knows the leaves that have been read.
pub(crate) fn check_joints(
    source: &dyn Source,
    root: &ObjectId,
    edges: &HashMap<ObjectId, Edges>,
) -> Result<()> {
    let mut before: Option<&Entry> = None;
    for leaf in leaves(source, root)? {
        let Some(own) = edges.get(&leaf.id) else { return Err(leaf.denied()) };
        if own.entries != leaf.entries || own.last.path != leaf.last {
            return Err(leaf.denied());
        }
        if let Some(before) = before {
            if before.path >= own.first {
                return Err(Error::Damaged("tree: its paths are not in order".into()));
            }
            let is_folder = matches!(before.node, Node::Directory { .. });
            if !is_folder && own.first.is_within(&before.path) {
                return Err(Error::Damaged(format!("tree: {} lies below a file", own.first)));
            }
        }
        before = Some(&own.last);
    }
    Ok(())
}

/// What a node holds, for whoever walks a tree that may be damaged.
pub(crate) enum Part {
    /// The entries of a leaf.
    Entries(Vec<Entry>),
    /// The nodes below.
    Nodes(Vec<ObjectId>),
}

/// Reads a node from bytes that may be anything.
pub(crate) fn part(bytes: &[u8]) -> Result<Part> {
    Ok(match decode(bytes)? {
        Decoded::Leaf(entries) => Part::Entries(entries),
        Decoded::Inner { children, .. } => {
            Part::Nodes(children.iter().map(|child| child.id).collect())
        }
    })
}
