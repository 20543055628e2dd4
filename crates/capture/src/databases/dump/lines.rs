//! The file `lines`: a sample of a dump's lines with where they begin, by which a line of a later
//! dump is found again wherever it has moved to.
//!
//! Lines are taken at distances that grow with the dump, so most of it need not be looked at. What the table
//! says is a hint, and whoever follows it compares bytes.

use rappel_store::varint::{self, Cursor};
use rappel_store::{Error, Result};

use super::line;

const MAGIC: &[u8; 3] = b"RDL";
const VERSION: u8 = 1;
/// No table has more entries: it takes 4 MiB of memory, and 10 while it is made.
const MOST: usize = 1 << 19;
/// There is an entry for this many bytes, or fewer.
const SPACING: u64 = 2048;
/// Small dumps have this many, if they have as many lines.
const FEW: usize = 4096;
/// Shorter lines (`\.` and empty ones) are everywhere.
const SHORTEST: usize = 4;
/// In memory an entry is one number: the upper bits of the hash, then the offset.
const OFFSET_BITS: u32 = 36;
const OFFSETS: u64 = 1 << OFFSET_BITS;
/// The least distance between two lines of a sample that does not have all of them.
const SPARSE: u64 = 64;
/// How many places of one hash are looked at.
const CANDIDATES: usize = 3;

/// Takes the sample while a dump passes.
#[derive(Debug, Default)]
pub struct Sampler {
    /// How far a line begins behind the one before, at least.
    distance: u64,
    /// The upper half of the hash, and the offset.
    taken: Vec<(u32, u64)>,
}

impl Sampler {
    /// Lines that begin before this are not wanted.
    pub fn next(&self) -> u64 {
        self.taken.last().map_or(0, |(_, offset)| offset + self.distance)
    }

    /// Sees the line with this hash and length, which begins at `offset`.
    pub fn see(&mut self, hash: u64, length: usize, offset: u64) {
        if length < SHORTEST || offset >= OFFSETS || offset < self.next() {
            return;
        }
        self.taken.push(((hash >> 32) as u32, offset));
        let most = ((offset / SPACING) as usize).clamp(FEW, MOST);
        while self.taken.len() > most {
            self.distance = (2 * self.distance).max(SPARSE);
            let mut next = 0;
            self.taken.retain(|(_, offset)| {
                let stays = *offset >= next;
                next = if stays { offset + self.distance } else { next };
                stays
            });
        }
    }

    /// The table as a file.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(16 + self.taken.len() * 7);
        out.extend_from_slice(MAGIC);
        out.push(VERSION);
        out.push(0);
        varint::write(&mut out, self.taken.len() as u64);
        let mut before = 0;
        for (hash, offset) in &self.taken {
            varint::write(&mut out, offset - before);
            out.extend_from_slice(&hash.to_le_bytes());
            before = *offset;
        }
        out
    }

    /// The table of a dump that is small enough to be in memory.
    pub fn of(text: &[u8]) -> Self {
        let mut sampler = Self::default();
        let mut at = 0;
        while at < text.len() {
            let length = line::length(&text[at..]);
            sampler.see(line::hash(&text[at..at + length]), length, at as u64);
            at += length;
        }
        sampler
    }
}

/// The sample, to look lines up in.
#[derive(Debug, Default)]
pub struct Table {
    /// Sorted.
    entries: Vec<u64>,
    /// A bit for what some entry's hash ends in, so that most lines that are not there are not searched for.
    some: Vec<u64>,
}

impl From<Sampler> for Table {
    fn from(sampler: Sampler) -> Self {
        Self::new(sampler.taken.iter().map(|(hash, offset)| key(*hash) | offset).collect())
    }
}

fn key(hash: u32) -> u64 {
    u64::from(hash) >> (OFFSET_BITS - 32) << OFFSET_BITS
}

/// Which bit of a table's `some` a key has.
fn place(key: u64, words: usize) -> (usize, u64) {
    let number = (key >> OFFSET_BITS) as usize;
    (number >> 6 & (words - 1), 1 << (number & 63))
}

impl Table {
    fn new(mut entries: Vec<u64>) -> Self {
        entries.sort_unstable();
        let mut some = vec![0; (entries.len() / 4).next_power_of_two()];
        for entry in &entries {
            let (word, bit) = place(*entry, some.len());
            some[word] |= bit;
        }
        Self { entries, some }
    }

    /// No file of a table is longer.
    pub const FILE_MAX: u64 = 16 + MOST as u64 * 10;

    /// Reads a table from bytes that may be anything.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut cursor = Cursor::new(bytes, "sample of lines");
        if cursor.take(3)? != MAGIC {
            return Err(cursor.bad("it has no magic"));
        }
        let found = cursor.byte()?;
        if found != VERSION {
            let what = "a sample of lines".into();
            return Err(Error::Newer { what, found: found.into(), supported: VERSION.into() });
        }
        // How many low bits of all hashes are zero, which is nothing that must be known to look them up.
        cursor.byte()?;
        let count = cursor.bounded((bytes.len() as u64 / 5).min(MOST as u64))?;
        let mut entries = Vec::with_capacity(count);
        let mut offset = 0;
        for _ in 0..count {
            offset += cursor.bounded(OFFSETS - 1)? as u64;
            if offset >= OFFSETS {
                return Err(cursor.bad("an offset is out of range"));
            }
            entries.push(key(u32::from_le_bytes(cursor.array()?)) | offset);
        }
        cursor.finish()?;
        Ok(Self::new(entries))
    }

    /// Where the line with this hash may begin: the nearest places around `near`, those behind it first.
    pub fn find(&self, hash: u64, near: u64) -> impl Iterator<Item = u64> + use<> {
        let mut found = [None; CANDIDATES];
        let key = key((hash >> 32) as u32);
        let (word, bit) = place(key, self.some.len().max(1));
        if self.some.get(word).is_some_and(|some| some & bit != 0) {
            let same = |entry: &&u64| **entry >> OFFSET_BITS == key >> OFFSET_BITS;
            let at = self.entries.partition_point(|entry| *entry < key | near.min(OFFSETS - 1));
            let behind = self.entries[at..].iter().take_while(same).take(CANDIDATES - 1);
            let before = self.entries[..at].iter().rev().take_while(same);
            for (slot, entry) in found.iter_mut().zip(behind.chain(before)) {
                *slot = Some(entry & (OFFSETS - 1));
            }
        }
        found.into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_line_is_found_near_where_it_is_wanted() {
        let text = "first line\nsame line\nother line\nsame line\nlast line\n";
        let table = Table::decode(&Sampler::of(text.as_bytes()).encode()).unwrap();
        let find = |line: &str, near| -> Vec<u64> {
            table.find(line::hash(line.as_bytes()), near).collect()
        };
        assert_eq!(find("other line\n", 0), [21]);
        assert_eq!(find("same line\n", 0), [11, 32]);
        assert_eq!(find("same line\n", 20), [32, 11]);
        assert!(find("no line\n", 20).is_empty());
    }

    #[test]
    fn the_sample_thins_out_evenly_as_the_dump_grows() {
        let mut sampler = Sampler::default();
        for number in 0..2_000_000u64 {
            sampler.see(line::hash(&number.to_le_bytes()), 100, number * 100);
        }
        let gaps = sampler.taken.windows(2).map(|pair| pair[1].1 - pair[0].1);
        assert!(gaps.clone().all(|gap| gap < 2 * 4096), "{:?}", gaps.max());
        let file = sampler.encode();
        assert!((100_000..2_000_000).contains(&file.len()), "{}", file.len());
        let table = Table::from(sampler);
        let found = (0..2_000_000u64)
            .filter(|n| table.find(line::hash(&n.to_le_bytes()), 0).any(|at| at == n * 100))
            .count();
        assert!(found > 20_000, "{found}");
    }

    #[test]
    fn a_sample_by_hashes_is_read_too() {
        let lines = ["first line\n", "other line\n"].map(|line| line::hash(line.as_bytes()));
        let upper = |hash: u64| ((hash >> 32) as u32).to_le_bytes();
        let file = [&b"RDL\x01\x03\x02"[..], &[5], &upper(lines[0]), &[8], &upper(lines[1])];
        let table = Table::decode(&file.concat()).unwrap();
        assert_eq!(lines.map(|hash| table.find(hash, 0).collect::<Vec<_>>()), [[5], [13]]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused_or_read(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = Table::decode(&bytes);
            let _ = Table::decode(&[&b"RDL\x01\x00"[..], &bytes].concat());
        }
    }
}
