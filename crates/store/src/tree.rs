//! The files of a checkpoint as a tree of nodes over the sorted list of their paths.
//!
//! A leaf holds a run of entries, a node above it a run of children. Where a run ends depends on
//! the last path alone (`boundary_level`), so an edit never moves a boundary, and adding or
//! removing a path moves at most the one beside it. Equal runs are equal objects: comparing two
//! trees skips everything they share, and a changed entry costs one leaf and the few nodes above.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use rappel_types::{Content, Entry, Node, ObjectId, RelPath};
use rayon::prelude::*;

use crate::closure::Reference;
use crate::codec::OBJECT_MAX;
use crate::error::{Error, Result};
use crate::sink::{Role, Sink, Source};
use crate::varint::{self, Cursor};

const MAGIC: &[u8; 3] = b"RTR";
const VERSION: u8 = 1;
/// A boundary of one level is one of the next with a probability of 1 in `2^FANOUT_BITS`.
const FANOUT_BITS: u32 = 6;
/// No node has more children than this, whatever the paths.
const MAX_RUN: usize = 512;
const MAX_LEVEL: u8 = 8;
/// From this level on, runs end only when they are full: paths made to hash alike cannot make a
/// tree that never narrows.
const PLAIN_LEVEL: u8 = 3;
/// More entries than any real workspace; a tree that claims more is not read.
const MAX_ENTRIES: u64 = 1 << 28;

const TAG_DIRECTORY: u8 = 0;
const TAG_WHOLE: u8 = 1;
const TAG_CHUNKED: u8 = 2;
const TAG_SYMLINK: u8 = 3;

/// A child of an inner node, or the root seen from outside.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Child {
    id: ObjectId,
    entries: u64,
    /// The last path below it.
    last: RelPath,
}

impl Child {
    /// Whether this is what a parent of `children` says about its node.
    fn is_above(&self, children: &[Self]) -> bool {
        children.last().is_some_and(|last| last.last == self.last)
            && children.iter().map(|child| child.entries).sum::<u64>() == self.entries
    }

    fn denied(&self) -> Error {
        Error::Damaged(format!("tree node {} is not what its parent says", self.id))
    }
}

/// A decoded node.
enum Decoded {
    Leaf(Vec<Entry>),
    Inner { level: u8, children: Vec<Child> },
}

/// How many levels of runs end after `path`: 0 for none, 1 for its leaf, 2 for the node above too.
fn boundary_level(path: &RelPath) -> u32 {
    // FNV-1a, then a finaliser so that the low bits depend on all of the path.
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for &byte in path.as_bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^= hash >> 33;
    hash.trailing_zeros() / FANOUT_BITS
}

/// Lengths of the runs that a list is cut into, given the boundary level of each element.
fn runs(levels: impl Iterator<Item = u32>, level: u8) -> Vec<usize> {
    let mut lengths = Vec::new();
    let mut length = 0;
    for boundary in levels {
        length += 1;
        if (boundary > u32::from(level) && level < PLAIN_LEVEL) || length == MAX_RUN {
            lengths.push(length);
            length = 0;
        }
    }
    if length > 0 {
        lengths.push(length);
    }
    lengths
}

fn write_path(out: &mut Vec<u8>, previous: &[u8], path: &RelPath) {
    let path = path.as_bytes();
    let shared = previous.iter().zip(path).take_while(|(a, b)| a == b).count();
    varint::write(out, shared as u64);
    varint::write(out, (path.len() - shared) as u64);
    out.extend_from_slice(&path[shared..]);
}

fn read_path(cursor: &mut Cursor<'_>, previous: Option<&RelPath>) -> Result<RelPath> {
    let before = previous.map_or(&[][..], RelPath::as_bytes);
    let shared = cursor.bounded(before.len() as u64)?;
    let rest = cursor.bounded(rappel_types::path::MAX_PATH as u64)?;
    let rest = cursor.take(rest)?;
    if before.get(shared).is_some_and(|next| rest.first() == Some(next)) {
        return Err(cursor.bad("a path repeats what it shares with the one before"));
    }
    let mut bytes = before[..shared].to_vec();
    bytes.extend_from_slice(rest);
    let path = RelPath::new(bytes).map_err(|error| cursor.bad(&error.to_string()))?;
    if previous.is_some_and(|previous| *previous >= path) {
        return Err(cursor.bad("its paths are not in order"));
    }
    Ok(path)
}

fn header(level: u8, count: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(64 + count * 48);
    out.extend_from_slice(MAGIC);
    out.push(VERSION);
    out.push(level);
    varint::write(&mut out, count as u64);
    out
}

fn encode_leaf(entries: &[Entry]) -> Vec<u8> {
    let mut out = header(0, entries.len());
    let mut previous: &[u8] = &[];
    for entry in entries {
        write_path(&mut out, previous, &entry.path);
        previous = entry.path.as_bytes();
        match &entry.node {
            Node::Directory { mode } => {
                out.push(TAG_DIRECTORY);
                varint::write(&mut out, u64::from(*mode));
            }
            Node::File { mode, size, content } => {
                out.push(match content {
                    Content::Whole(_) => TAG_WHOLE,
                    Content::Chunked(_) => TAG_CHUNKED,
                });
                varint::write(&mut out, u64::from(*mode));
                varint::write(&mut out, *size);
                out.extend_from_slice(&content.id().0);
            }
            Node::Symlink { target } => {
                out.push(TAG_SYMLINK);
                varint::write(&mut out, target.len() as u64);
                out.extend_from_slice(target);
            }
        }
    }
    out
}

fn encode_inner(level: u8, children: &[Child]) -> Vec<u8> {
    let mut out = header(level, children.len());
    let mut previous: &[u8] = &[];
    for child in children {
        write_path(&mut out, previous, &child.last);
        previous = child.last.as_bytes();
        varint::write(&mut out, child.entries);
        out.extend_from_slice(&child.id.0);
    }
    out
}

/// Reads a node from bytes that may be anything.
fn decode(bytes: &[u8]) -> Result<Decoded> {
    let mut cursor = Cursor::new(bytes, "tree node");
    if cursor.take(3)? != MAGIC {
        return Err(cursor.bad("it has no magic"));
    }
    let version = cursor.byte()?;
    if version != VERSION {
        let found = u32::from(version);
        return Err(Error::Newer { what: "a tree node".into(), found, supported: VERSION.into() });
    }
    let level = cursor.byte()?;
    if level > MAX_LEVEL {
        return Err(cursor.bad("its level is out of range"));
    }
    let count = cursor.bounded(MAX_RUN as u64)?;
    if level > 0 {
        if count == 0 {
            // Nodes without an end could be stacked into a tree that takes forever to walk.
            return Err(cursor.bad("it has no children"));
        }
        let mut children: Vec<Child> = Vec::with_capacity(count);
        for _ in 0..count {
            let last = read_path(&mut cursor, children.last().map(|child| &child.last))?;
            let entries = cursor.bounded(MAX_ENTRIES)? as u64;
            children.push(Child { id: ObjectId(cursor.array()?), entries, last });
        }
        cursor.finish()?;
        return Ok(Decoded::Inner { level, children });
    }
    let mut entries: Vec<Entry> = Vec::with_capacity(count);
    for _ in 0..count {
        let path = read_path(&mut cursor, entries.last().map(|entry| &entry.path))?;
        let tag = cursor.byte()?;
        let node = match tag {
            TAG_DIRECTORY => Node::Directory { mode: cursor.bounded(0o7777)? as u32 },
            TAG_WHOLE | TAG_CHUNKED => {
                let mode = cursor.bounded(0o7777)? as u32;
                let limit = if tag == TAG_WHOLE { OBJECT_MAX } else { i64::MAX as u64 };
                let size = cursor.bounded(limit)? as u64;
                let id = ObjectId(cursor.array()?);
                let content =
                    if tag == TAG_WHOLE { Content::Whole(id) } else { Content::Chunked(id) };
                Node::File { mode, size, content }
            }
            TAG_SYMLINK => {
                let length = cursor.bounded(rappel_types::path::MAX_PATH as u64)?;
                let target = cursor.take(length)?.to_vec();
                if target.is_empty() || target.contains(&0) {
                    return Err(cursor.bad("a link target is malformed"));
                }
                Node::Symlink { target }
            }
            _ => return Err(cursor.bad("an entry has an unknown kind")),
        };
        entries.push(Entry { path, node });
    }
    cursor.finish()?;
    check_shape(&entries)?;
    Ok(Decoded::Leaf(entries))
}

/// Asserts that a node which can be read is the only way to write it: equal nodes are equal objects.
pub(crate) fn assert_canonical(bytes: &[u8]) {
    match decode(bytes) {
        Ok(Decoded::Leaf(entries)) => assert_eq!(encode_leaf(&entries), bytes),
        Ok(Decoded::Inner { level, children }) => {
            assert!(!children.is_empty());
            assert_eq!(encode_inner(level, &children), bytes);
        }
        Err(_) => {}
    }
}

/// The leaves below a node, in order. Checks that levels descend and paths keep their promises, so
/// that a hostile tree can neither loop nor reorder.
fn leaves(source: &dyn Source, root: &ObjectId) -> Result<Vec<Child>> {
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
fn leaf_entries(source: &dyn Source, leaves: &[Child], at: usize) -> Result<Vec<Entry>> {
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

/// Refuses lists that no file system could hold: a path twice, out of order, or below a file.
fn check_shape(entries: &[Entry]) -> Result<()> {
    let mut above: Option<&RelPath> = None;
    for pair in entries.windows(2) {
        if pair[0].path >= pair[1].path {
            return Err(Error::Damaged("tree: its paths are not in order".into()));
        }
    }
    for entry in entries {
        if above.is_some_and(|file| entry.path.is_within(file)) {
            return Err(Error::Damaged(format!("tree: {} lies below a file", entry.path)));
        }
        if !matches!(entry.node, Node::Directory { .. }) {
            above = Some(&entry.path);
        }
    }
    Ok(())
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

/// Whether the nodes of a tree, each good by itself, fit together as [`read`] wants them. `edges`
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

/// Stores the tree of `entries`, which must be in order.
pub fn write(sink: &dyn Sink, entries: &[Entry]) -> Result<ObjectId> {
    check_shape(entries)?;
    write_inner(sink, write_leaves(sink, entries, &[])?, None)
}

fn write_leaves(sink: &dyn Sink, mut entries: &[Entry], bases: &[Child]) -> Result<Vec<Child>> {
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
fn write_inner(sink: &dyn Sink, leaves: Vec<Child>, former: Option<&ObjectId>) -> Result<ObjectId> {
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::sink::{Nothing, Scratch};

    fn file(path: &str, seed: u8) -> Entry {
        let content = Content::Whole(ObjectId([seed; 32]));
        Entry {
            path: RelPath::new(path).unwrap(),
            node: Node::File { mode: 0o644, size: 1, content },
        }
    }

    fn numbered(numbers: impl Iterator<Item = u32>) -> Vec<Entry> {
        let mut entries: Vec<_> = numbers.map(|n| file(&format!("d{}/f{n}", n % 7), 1)).collect();
        entries.sort_by(|a, b| a.path.cmp(&b.path));
        entries
    }

    #[test]
    fn a_tree_is_read_as_it_was_written() {
        let scratch = Scratch::over(&Nothing);
        for size in [0, 1, 63, 700, 20_000] {
            let entries = numbered(0..size);
            let root = write(&scratch, &entries).unwrap();
            assert_eq!(read(&scratch, &root).unwrap(), entries);
            for entry in entries.iter().step_by(97) {
                assert_eq!(
                    lookup(&scratch, &root, &entry.path).unwrap().as_ref(),
                    Some(&entry.node)
                );
            }
            assert_eq!(lookup(&scratch, &root, &RelPath::new("zz").unwrap()).unwrap(), None);
        }
    }

    #[test]
    fn paths_made_to_hash_alike_still_give_a_tree() {
        // Every one of these ends a run on every level that looks at hashes.
        let crafted: Vec<_> = (0..3_000_000u32)
            .map(|n| RelPath::new(format!("{n}")).unwrap())
            .filter(|path| boundary_level(path) >= 3)
            .collect();
        let mut entries: Vec<_> = crafted.iter().map(|path| file(&path.to_string(), 1)).collect();
        entries.sort_by(|a, b| a.path.cmp(&b.path));
        assert!(entries.len() > 2, "the search range must give some");
        let scratch = Scratch::over(&Nothing);
        let root = write(&scratch, &entries).unwrap();
        assert_eq!(read(&scratch, &root).unwrap(), entries);
    }

    #[test]
    fn lists_that_no_disk_could_hold_are_refused() {
        let scratch = Scratch::over(&Nothing);
        let below_file = [file("a", 1), file("a/b", 1)];
        assert!(write(&scratch, &below_file).is_err());
        let hidden = encode_leaf(&below_file);
        let root = scratch.put(Role::Structure, &hidden, None).unwrap();
        assert!(read(&scratch, &root).is_err());
        let twice = encode_leaf(&[file("a", 1), file("a", 2)]);
        assert!(decode(&twice).is_err());
    }

    #[test]
    fn a_node_that_contains_itself_does_not_loop() {
        // A hash cannot be its own preimage, but a damaged source could answer anything.
        struct Loop(Vec<u8>);
        impl Source for Loop {
            fn get(&self, _: &ObjectId) -> Result<std::sync::Arc<[u8]>> {
                Ok(self.0.as_slice().into())
            }
        }
        let child = Child { id: ObjectId([7; 32]), entries: 1, last: RelPath::new("a").unwrap() };
        let endless = Loop(encode_inner(3, &[child]));
        assert!(read(&endless, &ObjectId([7; 32])).is_err());
        assert!(lookup(&endless, &ObjectId([7; 32]), &RelPath::new("a").unwrap()).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn updating_equals_writing_anew(
            size in 0u32..3000,
            edits in prop::collection::btree_map(0u32..3300, (any::<bool>(), 2u8..9), 0..40),
        ) {
            let scratch = Scratch::over(&Nothing);
            let before = numbered(0..size);
            let base = write(&scratch, &before).unwrap();
            let mut model: BTreeMap<RelPath, Node> =
                before.iter().map(|entry| (entry.path.clone(), entry.node.clone())).collect();
            let mut changes = BTreeMap::new();
            for (number, (keep, seed)) in edits {
                let entry = file(&format!("d{}/f{number}", number % 7), seed);
                let node = keep.then_some(entry.node);
                match &node {
                    Some(node) => { model.insert(entry.path.clone(), node.clone()); }
                    None => { model.remove(&entry.path); }
                }
                changes.insert(entry.path, node);
            }
            let changes: Vec<_> = changes.into_iter().collect();
            let after: Vec<_> =
                model.into_iter().map(|(path, node)| Entry { path, node }).collect();
            let updated = update(&scratch, &base, &changes).unwrap();
            prop_assert_eq!(updated, write(&scratch, &after).unwrap());
            let seen = diff(&scratch, &base, &updated).unwrap();
            for change in &seen {
                prop_assert!(changes.iter().any(|(path, _)| *path == change.path));
            }
            let changed = changes.iter().filter(|(path, node)| {
                before.iter().find(|entry| entry.path == *path).map(|entry| &entry.node) != node.as_ref()
            });
            prop_assert_eq!(seen.len(), changed.count());
        }

        #[test]
        fn any_bytes_are_decoded_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&bytes);
            let mut with_header = header(bytes.first().copied().unwrap_or(0) % 3, 3);
            with_header.extend_from_slice(&bytes);
            let _ = decode(&with_header);
        }
    }
}
