//! Trees and the contents of files, by "Objects".

use std::collections::BTreeMap;

use super::packs::{Bytes, Id, Packs};

/// What a tree says of a path.
#[derive(Debug, PartialEq, Eq)]
pub enum Entry {
    Folder { mode: u64 },
    File { mode: u64, bytes: Vec<u8>, chunks: Option<Vec<Id>> },
    Link { target: Vec<u8> },
}

/// The entries of a tree by path, read from its root node.
pub fn read(packs: &Packs, root: &Id) -> BTreeMap<Vec<u8>, Entry> {
    let mut walk = Walk { packs, found: Vec::new() };
    let level = packs.object(root)[4];
    walk.node(root, level, true);
    for pair in walk.found.windows(2) {
        assert!(components(&pair[0].0) < components(&pair[1].0), "ordered, each once");
    }
    walk.found.into_iter().collect()
}

fn components(path: &[u8]) -> Vec<&[u8]> {
    path.split(|byte| *byte == b'/').collect()
}

struct Walk<'a> {
    packs: &'a Packs,
    found: Vec<(Vec<u8>, Entry)>,
}

impl Walk<'_> {
    /// Reads a node and what is below it. Its last path, and how many entries are below it.
    fn node(&mut self, id: &Id, level: u8, is_last: bool) -> (Vec<u8>, u64) {
        let object = self.packs.object(id);
        let mut bytes = Bytes(&object);
        assert_eq!(bytes.take(3), b"RTR");
        assert_eq!((bytes.byte(), bytes.byte()), (1, level), "version and level");
        let count = bytes.length();
        assert!(count <= 512 && (count > 0 || level == 0));
        let (mut path, mut paths, mut below) = (Vec::new(), Vec::new(), 0);
        for at in 0..count {
            let before = std::mem::take(&mut path);
            let shared = bytes.length();
            path = before[..shared].to_vec();
            let rest = bytes.length();
            path.extend_from_slice(bytes.take(rest));
            let common = before.iter().zip(&path).take_while(|(a, b)| a == b).count();
            assert_eq!(shared, common, "it shares as many bytes as it can");
            paths.push(path.clone());
            if level == 0 {
                let entry = self.entry(&mut bytes);
                self.found.push((path.clone(), entry));
                below += 1;
            } else {
                let entries = bytes.varint();
                let child = bytes.id();
                let last = is_last && at + 1 == count;
                assert_eq!(self.node(&child, level - 1, last), (path.clone(), entries));
                below += entries;
            }
        }
        assert!(bytes.0.is_empty());
        check_split(level, &paths, is_last);
        (path, below)
    }

    fn entry(&self, bytes: &mut Bytes<'_>) -> Entry {
        match bytes.byte() {
            0 => Entry::Folder { mode: bytes.varint() },
            1 => {
                let (mode, size) = (bytes.varint(), bytes.length());
                let bytes = self.packs.object(&bytes.id());
                assert_eq!(bytes.len(), size);
                Entry::File { mode, bytes, chunks: None }
            }
            2 => {
                let (mode, size) = (bytes.varint(), bytes.length());
                let (bytes, chunks) = chunked(self.packs, &bytes.id());
                assert_eq!(bytes.len(), size);
                Entry::File { mode, bytes, chunks: Some(chunks) }
            }
            3 => {
                let length = bytes.length();
                Entry::Link { target: bytes.take(length).to_vec() }
            }
            other => panic!("an entry of kind {other}"),
        }
    }
}

/// The bytes that a chunk list names, and the ids of its chunks.
fn chunked(packs: &Packs, id: &Id) -> (Vec<u8>, Vec<Id>) {
    let object = packs.object(id);
    let mut list = Bytes(&object);
    assert_eq!(list.take(4), b"RCL\x01");
    let (mut bytes, mut chunks) = (Vec::new(), Vec::new());
    for _ in 0..list.varint() {
        let (length, id) = (list.length(), list.id());
        let chunk = packs.object(&id);
        assert!(chunk.len() == length && length <= 1 << 20);
        bytes.extend(chunk);
        chunks.push(id);
    }
    assert!(list.0.is_empty());
    (bytes, chunks)
}

/// Where a node ends depends on its last path alone.
fn check_split(level: u8, paths: &[Vec<u8>], is_last: bool) {
    let ends = |path: &Vec<u8>| level <= 2 && boundary(path) > u32::from(level);
    let Some((last, inner)) = paths.split_last() else { return };
    assert!(!inner.iter().any(ends), "it would have ended before");
    assert!(is_last || ends(last) || paths.len() == 512, "it ends without a reason");
}

fn boundary(path: &[u8]) -> u32 {
    let step = |h: u64, byte: &u8| (h ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    let mut h = path.iter().fold(0xcbf2_9ce4_8422_2325, step);
    h ^= h >> 33;
    h = h.wrapping_mul(0xff51_afd7_ed55_8ccd);
    h ^= h >> 33;
    h.trailing_zeros() / 6
}
