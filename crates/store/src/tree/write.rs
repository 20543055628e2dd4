//! Writing a tree from its entries.

use rappel_types::{Entry, ObjectId};
use rayon::prelude::*;

use super::node::{
    Child, Decoded, MAX_LEVEL, boundary_level, check_shape, decode, encode_inner, encode_leaf, runs,
};
use crate::error::{Error, Result};
use crate::sink::{Role, Sink, Source};

/// Stores the tree of `entries`, which must be in order.
pub fn write(sink: &dyn Sink, entries: &[Entry]) -> Result<ObjectId> {
    check_shape(entries)?;
    write_inner(sink, write_leaves(sink, entries, &[])?, None)
}

pub(super) fn write_leaves(
    sink: &dyn Sink,
    mut entries: &[Entry],
    bases: &[Child],
) -> Result<Vec<Child>> {
    let mut leaves = Vec::new();
    for length in runs(entries.iter().map(|entry| boundary_level(&entry.path)), 0) {
        let (run, rest) = entries.split_at(length);
        entries = rest;
        leaves.push(run);
    }
    let write = |run: &[Entry]| {
        let last = run[run.len() - 1].path.clone();
        // The former leaf that covered the same place is the likeliest to be similar.
        let base = bases.get(bases.partition_point(|base| base.last < last)).or(bases.last());
        let id = sink.put(Role::Structure, &encode_leaf(run), base.map(|base| &base.id))?;
        Ok(Child { id, entries: run.len() as u64, last })
    };
    leaves.into_par_iter().map(write).collect()
}

/// Stores the levels above the leaves. `former` is the root of a similar tree.
pub(super) fn write_inner(
    sink: &dyn Sink,
    leaves: Vec<Child>,
    former: Option<&ObjectId>,
) -> Result<ObjectId> {
    if leaves.is_empty() {
        return sink.put(Role::Structure, &encode_leaf(&[]), None);
    }
    let bases = match former {
        Some(root) => inner_nodes(sink, root).unwrap_or_default(),
        None => Vec::new(),
    };
    let mut level = 0;
    let mut nodes = leaves;
    while nodes.len() > 1 {
        level += 1;
        if level > MAX_LEVEL {
            return Err(Error::Damaged("tree: it has too many entries".into()));
        }
        let mut above = Vec::new();
        let mut rest = &nodes[..];
        for length in runs(nodes.iter().map(|node| boundary_level(&node.last)), level) {
            let (run, tail) = rest.split_at(length);
            rest = tail;
            let last = run[length - 1].last.clone();
            let base = bases
                .iter()
                .filter(|(of, _)| *of == level)
                .find(|(_, base)| base.last >= last)
                .map(|(_, base)| &base.id);
            let id = sink.put(Role::Structure, &encode_inner(level, run), base)?;
            above.push(Child { id, entries: run.iter().map(|node| node.entries).sum(), last });
        }
        nodes = above;
    }
    Ok(nodes[0].id)
}

/// The inner nodes of a tree with their levels.
fn inner_nodes(source: &dyn Source, root: &ObjectId) -> Result<Vec<(u8, Child)>> {
    let Decoded::Inner { level, children } = decode(&source.get(root)?)? else {
        return Ok(Vec::new());
    };
    let mut found = Vec::new();
    if let Some(last) = children.last() {
        let entries = children.iter().map(|child| child.entries).sum();
        found.push((level, Child { id: *root, entries, last: last.last.clone() }));
    }
    let mut pending: Vec<(u8, Child)> =
        children.into_iter().map(|child| (level - 1, child)).collect();
    while let Some((level, child)) = pending.pop() {
        if level == 0 {
            continue;
        }
        if let Decoded::Inner { level: real, children } = decode(&source.get(&child.id)?)?
            && real == level
        {
            pending.extend(children.into_iter().map(|below| (level - 1, below)));
        }
        found.push((level, child));
    }
    found.sort_by(|a, b| (a.0, &a.1.last).cmp(&(b.0, &b.1.last)));
    Ok(found)
}
