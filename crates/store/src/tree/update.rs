//! Making a new tree out of an old one and the changes.

use std::collections::HashMap;
use std::ops::Range;

use rappel_types::{Entry, Node, ObjectId, RelPath};
use rayon::prelude::*;

use super::node::{Child, boundary_level};
use super::read::{leaf_entries, leaves};
use super::write::{write, write_inner, write_leaves};
use crate::error::Result;
use crate::sink::Sink;

/// Stores the tree that `base` becomes when each path of `changes` (in order, without repeats) gets
/// its new node, or goes where that is `None`. The result is the same as writing all entries; the
/// cost follows the changes.
pub fn update(
    sink: &dyn Sink,
    base: &ObjectId,
    changes: &[(RelPath, Option<Node>)],
) -> Result<ObjectId> {
    if changes.is_empty() {
        return Ok(*base);
    }
    let old = leaves(sink, base)?;
    if old.is_empty() {
        let mut entries = Vec::new();
        merge(Vec::new(), changes, &mut entries);
        return write(sink, &entries);
    }
    // Changes up to a leaf's last path are that leaf's; the last leaf takes all that follow.
    let mut pending = changes;
    let mut shares = Vec::with_capacity(old.len());
    for (at, leaf) in old.iter().enumerate() {
        let count = match at + 1 == old.len() {
            true => pending.len(),
            false => pending.partition_point(|(path, _)| *path <= leaf.last),
        };
        let (own, later) = pending.split_at(count);
        shares.push(own);
        pending = later;
    }
    let touched = (0..old.len()).into_par_iter().filter(|at| !shares[*at].is_empty());
    let mut read = touched
        .map(|at| Ok((at, leaf_entries(sink, &old, at)?)))
        .collect::<Result<HashMap<usize, Vec<Entry>>>>()?;
    // Each with the leaves that it takes the place of.
    let mut renewed: Vec<(Range<usize>, Vec<Entry>)> = Vec::with_capacity(read.len());
    let mut at = 0;
    while at < old.len() {
        if shares[at].is_empty() {
            at += 1;
            continue;
        }
        let first = at;
        let mut entries = Vec::new();
        loop {
            let leaf = match read.remove(&at) {
                Some(leaf) => leaf,
                None => leaf_entries(sink, &old, at)?,
            };
            merge(leaf, shares[at], &mut entries);
            at += 1;
            // Only behind a natural boundary the following leaf is sure to begin where it did.
            let settled = entries.last().is_none_or(|last| boundary_level(&last.path) > 0);
            if at == old.len() || settled {
                break;
            }
        }
        renewed.push((first..at, entries));
    }
    let written = renewed
        .into_par_iter()
        .map(|(range, entries)| {
            let new = write_leaves(sink, &entries, &old[range.clone()])?;
            Ok((range, new))
        })
        .collect::<Result<Vec<_>>>()?;
    let mut new: Vec<Child> = Vec::with_capacity(old.len() + 1);
    let mut at = 0;
    for (range, leaves) in written {
        new.extend_from_slice(&old[at..range.start]);
        new.extend(leaves);
        at = range.end;
    }
    new.extend_from_slice(&old[at..]);
    write_inner(sink, new, Some(base))
}

fn merge(entries: Vec<Entry>, changes: &[(RelPath, Option<Node>)], out: &mut Vec<Entry>) {
    let mut changes = changes.iter().peekable();
    let take = |change: &(RelPath, Option<Node>), out: &mut Vec<Entry>| {
        if let Some(node) = &change.1 {
            out.push(Entry { path: change.0.clone(), node: node.clone() });
        }
    };
    for entry in entries {
        while let Some(change) = changes.next_if(|change| change.0 < entry.path) {
            take(change, out);
        }
        match changes.next_if(|change| change.0 == entry.path) {
            Some(change) => take(change, out),
            None => out.push(entry),
        }
    }
    for change in changes {
        take(change, out);
    }
}
