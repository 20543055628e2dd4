//! The kept corpus of `fuzz/`, run through the same functions without a fuzzer: every file as it
//! is, and a fixed number of mutations of each. No clock and no chance: what fails once fails again.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use rappel_types::path::escape;

/// Inputs grow no longer than this by being spliced.
const LONGEST: usize = 1 << 16;

/// Runs `check` on every file of `fuzz/corpus/NAME` and on `mutations` variations of each, or as
/// many as `RAPPEL_MUTATIONS` says.
pub fn run(name: &str, mutations: u64, check: fn(&[u8])) {
    let told = std::env::var("RAPPEL_MUTATIONS").ok().map(|count| count.parse().unwrap());
    let mutations = told.unwrap_or(mutations);
    let seeds = seeds(name);
    assert!(!seeds.is_empty(), "no corpus for {name}");
    for (place, (path, seed)) in seeds.iter().enumerate() {
        try_one(path, seed, check);
        let mut chance =
            Chance(0x9e37_79b9_7f4a_7c15 ^ (place as u64 + 1).wrapping_mul(0xff51_afd7));
        for _ in 0..mutations {
            let other = &seeds[chance.below(seeds.len())].1;
            try_one(path, &mutate(seed, other, &mut chance), check);
        }
    }
}

/// One file of the corpus.
pub fn seed(name: &str, file: &str) -> Vec<u8> {
    let found = seeds(name).into_iter().find(|(path, _)| path.ends_with(file));
    found.unwrap_or_else(|| panic!("no {file} in the corpus for {name}")).1
}

fn seeds(name: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
    let entries =
        std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

fn try_one(path: &Path, input: &[u8], check: fn(&[u8])) {
    let passed = catch_unwind(AssertUnwindSafe(|| check(input))).is_ok();
    assert!(passed, "a variation of {} fails:\n{}", path.display(), escape(input));
}

/// Xorshift: the same numbers everywhere.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

/// One to four changes: a flipped bit, another byte, a cut, a repetition, a piece of another seed.
fn mutate(seed: &[u8], other: &[u8], chance: &mut Chance) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..=chance.below(4) {
        let at = chance.below(bytes.len());
        match chance.below(7) {
            0 if !bytes.is_empty() => bytes[at] ^= 1 << chance.below(8),
            1 if !bytes.is_empty() => {
                let edges = [0, 1, 0x7f, 0x80, 0xff, b'/', b'.', b'"'];
                bytes[at] = edges[chance.below(edges.len())];
            }
            2 => bytes.truncate(at),
            3 => drop(bytes.drain(at..(at + 1 + chance.below(8)).min(bytes.len()).max(at))),
            4 => bytes.insert(at, chance.next() as u8),
            5 => {
                let end = (at + 1 + chance.below(40)).min(bytes.len());
                let piece = bytes[at..end].to_vec();
                bytes.splice(end..end, piece);
            }
            _ => {
                let from = chance.below(other.len());
                let to = (from + 1 + chance.below(200)).min(other.len());
                bytes.splice(at..at, other[from..to].iter().copied());
            }
        }
    }
    bytes.truncate(LONGEST.max(seed.len()));
    bytes
}
