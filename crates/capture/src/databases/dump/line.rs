//! Lines and their hashes: how a dump is cut, and how a line is found again in another one.

/// How much of a line its hash looks at.
pub const HASHED: usize = 1024;

const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

/// The hash of a line, with its newline if it has one. It is stored (`docs/format.md`, "Lines"), and
/// means nothing more than that equal lines have equal ones.
pub fn hash(line: &[u8]) -> u64 {
    let line = &line[..line.len().min(HASHED)];
    let mut hash = MIX ^ line.len() as u64;
    let mut words = line.chunks_exact(8);
    for word in &mut words {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(word);
        hash = step(hash, u64::from_le_bytes(bytes));
    }
    let rest = words.remainder();
    if !rest.is_empty() {
        let mut bytes = [0; 8];
        bytes[..rest.len()].copy_from_slice(rest);
        hash = step(hash, u64::from_le_bytes(bytes));
    }
    hash ^= hash >> 32;
    hash = hash.wrapping_mul(MIX);
    hash ^ hash >> 29
}

fn step(hash: u64, word: u64) -> u64 {
    (hash.rotate_left(23) ^ word).wrapping_mul(MIX)
}

/// The length of the line that `bytes` begin with, newline included; all of them if there is none.
pub fn length(bytes: &[u8]) -> usize {
    memchr::memchr(b'\n', bytes).map_or(bytes.len(), |at| at + 1)
}

/// How many bytes both begin with.
pub fn common(a: &[u8], b: &[u8]) -> usize {
    const STRIDE: usize = 4096;
    let most = a.len().min(b.len());
    let mut at = 0;
    while at + STRIDE <= most && a[at..at + STRIDE] == b[at..at + STRIDE] {
        at += STRIDE;
    }
    while at + 32 <= most && a[at..at + 32] == b[at..at + 32] {
        at += 32;
    }
    at + a[at..most].iter().zip(&b[at..most]).take_while(|(a, b)| a == b).count()
}

/// How many bytes both end with.
pub fn common_end(a: &[u8], b: &[u8]) -> usize {
    a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_what_the_format_says() {
        assert_eq!(hash(b""), 0xab16_9ebd_5d0c_32dc);
        assert_eq!(hash(b"\n"), 0x3ab4_7ed5_bc5f_c32d);
        assert_eq!(hash(b"12345\t1\t0\tfiller\n"), 0xa47b_7404_5916_105c);
        assert_eq!(hash(&[b'x'; 1024]), hash(&[b'x'; 3000]));
    }

    #[test]
    fn what_is_common_ends_at_the_first_difference() {
        for length in [0, 1, 31, 32, 33, 4095, 4096, 4097, 10_000] {
            let a = vec![7; length];
            let mut b = vec![7; length + 9];
            assert_eq!(common(&a, &b), length);
            for at in [0, length / 2, length.saturating_sub(1)] {
                if at < length {
                    b[at] = 8;
                    assert_eq!(common(&a, &b), at);
                    b[at] = 7;
                }
            }
        }
    }
}
