//! Dumps, by "Databases": the whole one, and what a patch makes of it.

use std::collections::BTreeMap;

use super::packs::{Bytes, unpack};
use super::trees::Entry;

const ROOM: usize = 2 << 20;
const K: u64 = 0x9e37_79b9_7f4a_7c15;

fn file<'t>(tree: &'t BTreeMap<Vec<u8>, Entry>, name: &str) -> Option<&'t [u8]> {
    match tree.get(name.as_bytes())? {
        Entry::File { bytes, .. } => Some(bytes),
        other => panic!("{name} is {other:?}"),
    }
}

/// The dump that a tree holds.
pub fn read(tree: &BTreeMap<Vec<u8>, Entry>) -> Vec<u8> {
    let full = file(tree, "full").unwrap();
    match file(tree, "patch") {
        Some(patch) => patched(full, patch),
        None => full.to_vec(),
    }
}

/// Makes a dump out of `full`.
fn patched(full: &[u8], patch: &[u8]) -> Vec<u8> {
    let mut bytes = Bytes(patch);
    assert_eq!(bytes.take(3), b"RDP");
    assert_eq!(bytes.byte(), 1, "version");
    assert_eq!(bytes.length(), full.len());
    let (mut dump, mut left_out, mut end) = (Vec::new(), Vec::new(), 0);
    loop {
        let count = bytes.length();
        if count == 0 {
            assert_eq!(bytes.length(), dump.len());
            assert!(bytes.0.is_empty());
            return dump;
        }
        let [ops, ops_stored, new, new_stored] = std::array::from_fn(|_| bytes.length());
        let operations = unpack(bytes.take(ops_stored), ops, &[]);
        let mut numbers = Bytes(&operations);
        let mut column = || (0..count).map(|_| numbers.varint()).collect::<Vec<u64>>();
        let (fresh, moves, lengths) = (column(), column(), column());
        assert!(numbers.0.is_empty());
        let mut stretches = Vec::new();
        let mut room = ROOM;
        for (moved, length) in moves.iter().zip(&lengths) {
            let half = i64::try_from(moved / 2).unwrap();
            let moved = if moved % 2 == 0 { half } else { -1 - half };
            let from = usize::try_from(end as i64 + moved).unwrap();
            if moved > 0 {
                let taken = (from - end).min(room);
                left_out.extend_from_slice(&full[end..end + taken]);
                room -= taken;
            }
            end = from + usize::try_from(*length).unwrap();
            stretches.push(from..end);
        }
        left_out.drain(..left_out.len().saturating_sub(ROOM));
        let stored = bytes.take(new_stored);
        let new = if new_stored == 0 { Vec::new() } else { unpack(stored, new, &left_out) };
        let mut new = Bytes(&new);
        for (count, stretch) in fresh.iter().zip(stretches) {
            dump.extend_from_slice(new.take(usize::try_from(*count).unwrap()));
            dump.extend_from_slice(&full[stretch]);
        }
        assert!(new.0.is_empty(), "new bytes are used up");
    }
}

/// Compares the sample of lines with `full`. How many there are.
pub fn check_lines(tree: &BTreeMap<Vec<u8>, Entry>) -> usize {
    let Some(lines) = file(tree, "lines") else { return 0 };
    let full = file(tree, "full").unwrap();
    let mut bytes = Bytes(lines);
    assert_eq!(bytes.take(3), b"RDL");
    assert_eq!(bytes.byte(), 1, "version");
    bytes.byte();
    let count = bytes.length();
    let mut at = 0;
    for _ in 0..count {
        at += bytes.length();
        let end =
            full[at..].iter().position(|byte| *byte == b'\n').map_or(full.len(), |n| at + n + 1);
        assert!(at == 0 || full[at - 1] == b'\n', "a line begins at {at}");
        assert_eq!(bytes.u32(), (hash(&full[at..end]) >> 32) as u32, "the line at {at}");
    }
    assert!(bytes.0.is_empty());
    count
}

fn hash(line: &[u8]) -> u64 {
    let line = &line[..line.len().min(1024)];
    let mut h = K ^ line.len() as u64;
    for eight in line.chunks(8) {
        let mut number = [0; 8];
        number[..eight.len()].copy_from_slice(eight);
        h = (h.rotate_left(23) ^ u64::from_le_bytes(number)).wrapping_mul(K);
    }
    h ^= h >> 32;
    h = h.wrapping_mul(K);
    h ^ (h >> 29)
}
