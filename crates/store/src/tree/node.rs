//! One node of a tree: its bytes, and where one node ends and the next begins.

use rappel_types::{Content, Entry, Node, ObjectId, RelPath};

use crate::codec::OBJECT_MAX;
use crate::error::{Error, Result};
use crate::varint::{self, Cursor};

const MAGIC: &[u8; 3] = b"RTR";
const VERSION: u8 = 1;
/// A boundary of one level is one of the next with a probability of 1 in `2^FANOUT_BITS`.
const FANOUT_BITS: u32 = 6;
/// No node has more children than this, whatever the paths.
const MAX_RUN: usize = 512;
pub(super) const MAX_LEVEL: u8 = 8;
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
pub(super) struct Child {
    pub id: ObjectId,
    pub entries: u64,
    /// The last path below it.
    pub last: RelPath,
}

impl Child {
    /// Whether this is what a parent of `children` says about its node.
    pub fn is_above(&self, children: &[Self]) -> bool {
        children.last().is_some_and(|last| last.last == self.last)
            && children.iter().map(|child| child.entries).sum::<u64>() == self.entries
    }

    pub fn denied(&self) -> Error {
        Error::Damaged(format!("tree node {} is not what its parent says", self.id))
    }
}

/// A decoded node.
pub(super) enum Decoded {
    Leaf(Vec<Entry>),
    Inner { level: u8, children: Vec<Child> },
}

/// How many levels of runs end after `path`: 0 for none, 1 for its leaf, 2 for the node above too.
pub(super) fn boundary_level(path: &RelPath) -> u32 {
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
pub(super) fn runs(levels: impl Iterator<Item = u32>, level: u8) -> Vec<usize> {
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

pub(super) fn header(level: u8, count: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(64 + count * 48);
    out.extend_from_slice(MAGIC);
    out.push(VERSION);
    out.push(level);
    varint::write(&mut out, count as u64);
    out
}

pub(super) fn encode_leaf(entries: &[Entry]) -> Vec<u8> {
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

pub(super) fn encode_inner(level: u8, children: &[Child]) -> Vec<u8> {
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
pub(super) fn decode(bytes: &[u8]) -> Result<Decoded> {
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

/// Refuses lists that no file system could hold: a path twice, out of order, or below a file.
pub(super) fn check_shape(entries: &[Entry]) -> Result<()> {
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
