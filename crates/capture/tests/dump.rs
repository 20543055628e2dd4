//! Dumps are stored whole or as a difference, and come out as they went in.

#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, reason = "tests may")]

mod dump_support;

use std::io::Read;

use dump_support::{Change, Heap, Numbers};
use proptest::prelude::*;
use rappel_capture::databases::dump::{self, Stored};
use rappel_store::sink::Sink;
use rappel_store::{Options, Store, content, tree};
use rappel_testing::MemoryStore;
use rappel_types::database::Digest;
use rappel_types::{Node, RelPath};

fn put(sink: &dyn Sink, text: &[u8], prior: Option<&Stored>) -> Stored {
    let stored = dump::store(sink, &mut &text[..], prior).unwrap();
    assert_eq!(stored.bytes, text.len() as u64);
    stored
}

fn get(store: &MemoryStore, dump: &Stored) -> Vec<u8> {
    let mut out = Vec::new();
    dump::write_to(store, dump, &mut out).unwrap();
    out
}

fn files(store: &MemoryStore, dump: &Stored) -> Vec<String> {
    let entries = tree::read(store, &dump.tree).unwrap();
    entries.iter().map(|entry| entry.path.to_string()).collect()
}

/// A store on the disk, with what each dump adds to it.
struct Home {
    store: Store,
    _folder: tempfile::TempDir,
}

impl Home {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { store: Store::open(folder.path(), Options::default()).unwrap(), _folder: folder }
    }

    fn put(&self, text: &[u8], prior: Option<&Stored>) -> (Stored, u64) {
        let writer = self.store.begin().unwrap();
        let stored = put(&writer, text, prior);
        let added = writer.commit(|_| Ok(Vec::new())).unwrap().new_bytes;
        let mut out = Vec::new();
        dump::write_to(&self.store, &stored, &mut out).unwrap();
        assert!(out == text, "other bytes came out");
        (stored, added)
    }
}

/// Stores a heap, changes a part of it and stores it again: says what that added, in percent of the
/// bytes of the lines that changed.
fn percent_added(mut heap: Heap, share: f64, change: Change) -> f64 {
    let home = Home::new();
    let (prior, _) = home.put(&heap.dump(), None);
    let changed = heap.change(share, change);
    let (_, added) = home.put(&heap.dump(), Some(&prior));
    println!("{change:?}: {changed} bytes changed, {added} added");
    added as f64 * 100.0 / changed as f64
}

#[test]
fn a_changed_row_costs_a_part_of_its_line() {
    for change in Change::ALL {
        let accounts = percent_added(Heap::accounts(60_000), 0.01, change);
        assert!(accounts <= 25.0, "accounts, {change:?}: {accounts:.1} %");
        let random = percent_added(Heap::random(60_000), 0.01, change);
        assert!(random <= 25.0, "random text, {change:?}: {random:.1} %");
    }
}

#[test]
fn a_dump_like_the_one_before_is_that_one() {
    let home = Home::new();
    let mut heap = Heap::accounts(40_000);
    let (first, whole) = home.put(&heap.dump(), None);
    let (again, added) = home.put(&heap.dump(), Some(&first));
    assert_eq!(again, first);
    assert!(added < 1000, "{added}");
    let before = heap.dump();
    heap.change(0.01, Change::Appended);
    let (second, patch) = home.put(&heap.dump(), Some(&first));
    assert!(patch < whole / 10, "{patch} of {whole}");
    let (third, added) = home.put(&heap.dump(), Some(&second));
    assert_eq!(third, second);
    assert!(added < 1000, "{added}");
    // And what is the base again needs no patch.
    let (back, added) = home.put(&before, Some(&second));
    assert_eq!(back, first);
    assert!(added < 1000, "{added}");
}

#[test]
fn differences_that_grow_are_followed_by_a_whole_dump() {
    let store = MemoryStore::default();
    let mut heap = Heap::random(20_000);
    let mut last = put(&store, &heap.dump(), None);
    let mut kinds = Vec::new();
    for _ in 0..8 {
        heap.change(0.15, Change::Inserted);
        last = put(&store, &heap.dump(), Some(&last));
        assert!(get(&store, &last) == heap.dump());
        kinds.push(files(&store, &last).contains(&"patch".to_owned()));
    }
    assert!(kinds[0], "a difference first");
    assert!(kinds.contains(&false), "a whole dump some time later: {kinds:?}");
}

#[test]
fn two_whole_dumps_share_their_chunks() {
    let home = Home::new();
    let mut heap = Heap::random(60_000);
    let (_, whole) = home.put(&heap.dump(), None);
    heap.change(0.00002, Change::Inserted);
    let (_, added) = home.put(&heap.dump(), None);
    assert!(added < whole / 3, "{added} of {whole}");
}

#[test]
fn what_moved_as_a_block_is_found() {
    let store = MemoryStore::default();
    let (a, b) = (Heap::random(20_000).dump(), Heap::accounts(20_000).dump());
    let prior = put(&store, &[&a[..], &b].concat(), None);
    let moved = put(&store, &[&b[..], &a].concat(), Some(&prior));
    assert!(get(&store, &moved) == [&b[..], &a].concat());
    let size = file(&store, &moved, "patch").len();
    assert!(size < 4000, "{size}");
}

#[test]
fn texts_of_every_shape_survive() {
    let long = "a line that is longer than a chunk ".repeat(70_000);
    let other = long.replace("chunk", "junk");
    let mut numbers = Numbers(7);
    let binary: Vec<u8> = (0..3_000_000).map(|_| numbers.next() as u8).collect();
    let mut edited = binary.clone();
    edited[1_500_000] ^= 1;
    edited.drain(2_000_000..2_000_100);
    let rows: String = (0..150_000).map(|n| format!("{n}\tsome text\n")).collect();
    let texts: Vec<Vec<u8>> = vec![
        b"".to_vec(),
        b"\n".to_vec(),
        b"no newline".to_vec(),
        vec![b'\n'; 2 << 20],
        vec![0; 5 << 20],
        long.clone().into_bytes(),
        format!("short\n{long}\nshort\n{other}\n").into_bytes(),
        format!("short\n{other}\nshort\n{long}").into_bytes(),
        binary,
        edited,
        rows.clone().into_bytes(),
        rows.replace("99\tsome", "99\tother").into_bytes(),
        rows.lines().rev().flat_map(|line| [line, "\n"]).collect::<String>().into_bytes(),
    ];
    for (n, before) in texts.iter().enumerate() {
        for (m, after) in texts.iter().enumerate() {
            let store = MemoryStore::default();
            let prior = put(&store, before, None);
            assert!(get(&store, &prior) == *before, "{n}");
            let stored = put(&store, after, Some(&prior));
            assert!(get(&store, &stored) == *after, "{m} after {n}");
        }
    }
}

#[test]
fn a_prior_that_is_gone_or_damaged_is_not_needed() {
    let (store, elsewhere) = (MemoryStore::default(), MemoryStore::default());
    let text = Heap::accounts(20_000).dump();
    let prior = put(&elsewhere, &text, None);
    let stored = put(&store, &[&text[..], b"more\n"].concat(), Some(&prior));
    assert_eq!(files(&store, &stored), ["full", "lines"]);
}

#[test]
fn a_dump_that_cannot_be_read_to_its_end_is_an_error() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("the pipe burst"))
        }
    }
    let store = MemoryStore::default();
    let text = Heap::accounts(20_000).dump();
    let prior = put(&store, &text, None);
    for prior in [None, Some(&prior)] {
        let error = dump::store(&store, &mut (&text[..]).chain(Broken), prior).unwrap_err();
        assert!(error.to_string().contains("the pipe burst"), "{error}");
    }
}

/// The bytes of a file of a dump.
fn file(store: &MemoryStore, dump: &Stored, name: &str) -> Vec<u8> {
    let path = RelPath::new(name).unwrap();
    let Some(Node::File { content, size, .. }) = tree::lookup(store, &dump.tree, &path).unwrap()
    else {
        panic!("no {name}");
    };
    content::read(store, &content, size, size).unwrap()
}

/// The dump with another file in it.
fn with_file(store: &MemoryStore, dump: &Stored, name: &str, bytes: &[u8]) -> Stored {
    let mut entries = tree::read(store, &dump.tree).unwrap();
    let entry = entries.iter_mut().find(|entry| entry.path.as_bytes() == name.as_bytes()).unwrap();
    let (content, size) = content::store(store, &mut &bytes[..], 0, None).unwrap();
    entry.node = Node::File { mode: 0o600, size, content };
    Stored { tree: tree::write(store, &entries).unwrap(), ..dump.clone() }
}

/// Every way to damage one byte, and to cut off the end.
fn damaged(bytes: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let flipped = (0..bytes.len()).flat_map(move |at| {
        [0x01, 0x80, 0xff].map(|flip| {
            let mut bytes = bytes.to_vec();
            bytes[at] ^= flip;
            bytes
        })
    });
    flipped.chain((0..bytes.len()).map(move |length| bytes[..length].to_vec()))
}

#[test]
fn a_damaged_patch_never_gives_other_bytes() {
    let store = MemoryStore::default();
    let mut heap = Heap::random(2_000);
    let prior = put(&store, &heap.dump(), None);
    heap.change(0.005, Change::Appended);
    heap.change(0.005, Change::InPlace);
    let dump = put(&store, &heap.dump(), Some(&prior));
    let patch = file(&store, &dump, "patch");
    for bytes in damaged(&patch) {
        let hurt = with_file(&store, &dump, "patch", &bytes);
        let mut out = Vec::new();
        if dump::write_to(&store, &hurt, &mut out).is_ok() {
            assert!(out == heap.dump());
        }
    }
    // Nor does a whole dump, or a manifest, that says something else.
    let other = put(&store, b"other\n", None);
    let wrong = Stored { tree: other.tree, ..dump.clone() };
    assert!(dump::write_to(&store, &wrong, &mut Vec::new()).is_err());
    let short = Stored { bytes: dump.bytes - 1, ..dump };
    assert!(dump::write_to(&store, &short, &mut Vec::new()).is_err());
}

#[test]
fn a_damaged_sample_of_lines_costs_nothing_but_room() {
    let store = MemoryStore::default();
    let mut heap = Heap::random(14_000);
    let prior = put(&store, &heap.dump(), None);
    heap.change(0.01, Change::Clustered);
    let lines = file(&store, &prior, "lines");
    for bytes in damaged(&lines).step_by(lines.len() / 7) {
        let prior = with_file(&store, &prior, "lines", &bytes);
        let dump = put(&store, &heap.dump(), Some(&prior));
        assert!(get(&store, &dump) == heap.dump());
    }
}

/// The bytes that `docs/format.md` describes.
#[test]
fn the_format_is_what_it_was() {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let store = MemoryStore::default();
    let base = b"first line\nsecond line\nthird line\nfourth line\nfifth line\n";
    let dump = b"first line\nthird line\nfourth line\nfifth line\nsecond time\n";
    let prior = put(&store, base, None);
    assert_eq!(files(&store, &prior), ["full"]);
    let stored = put(&store, dump, Some(&prior));
    let patch = hex(&file(&store, &stored, "patch"));
    let long = put(&store, &Heap::accounts(30_000).dump(), None);
    let lines = hex(&file(&store, &long, "lines")[..24]);
    let tree = long.tree.to_string();
    assert_eq!((&*patch, &*lines, &*tree), (PATCH, LINES, TREE));

    // One that was written by hand: 3 new bytes, 6 from 12 on; 0, 5 from 0 on.
    let columns = [&[3, 0][..], &[24, 35], &[6, 5]].concat();
    let columns =
        rappel_store::codec::compress(&columns, rappel_store::codec::Effort::Fast).unwrap();
    let fresh = rappel_store::codec::compress(b"new", rappel_store::codec::Effort::Fast).unwrap();
    let lengths = [2, 6, columns.len() as u8, 3, fresh.len() as u8];
    let patch =
        [&b"RDP\x01"[..], &[base.len() as u8], &lengths, &columns, &fresh, &[0, 14]].concat();
    let mut hand = with_file(&store, &stored, "patch", &patch);
    hand.digest = Digest::new(*blake3::hash(b"newecond first").as_bytes());
    assert_eq!(get(&store, &hand), b"newecond first");
}

const PATCH: &str = "52445001390309120c1528b52ffd200949000000000c0018000b220028b52ffd0000610000736\
    5636f6e642074696d650a0039";
const LINES: &str = "52444c0100b41203d6d2bed29e0b2252f748c00b35e167fc";
const TREE: &str = "3a5ec17ab2e71ed8e303d93f687cd730ed522dfaa38bd53086498ba3b0cc0c62";

/// Lines of a small alphabet, so that there are many duplicates, and edits of them.
fn text() -> impl Strategy<Value = Vec<u8>> {
    let line = prop_oneof![
        8 => "[ab]{0,3}\n",
        4 => "[a-z]{10,40}\n",
        1 => "[ab]{0,3}",
    ];
    prop::collection::vec(line, 0..200).prop_map(|lines| lines.concat().into_bytes())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    #[test]
    fn any_text_after_any_other(
        before in text(),
        after in text(),
        cut in any::<prop::sample::Index>(),
        blocks in 1usize..50,
    ) {
        let store = MemoryStore::default();
        let prior = put(&store, &before, None);
        let cut = cut.index(before.len() + 1);
        let moved = [&before[cut..], &after[..], &before[..cut]].concat();
        for after in [after, moved] {
            let mut slow = Slow { bytes: &after, blocks };
            let stored = dump::store(&store, &mut slow, Some(&prior)).unwrap();
            prop_assert_eq!(get(&store, &stored), after.clone());
            let next = put(&store, &before, Some(&stored));
            prop_assert_eq!(get(&store, &next), before.clone());
        }
    }

    #[test]
    fn any_edit_of_a_longer_text(
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0usize..3000, 0u8..5), 1..20),
    ) {
        let store = MemoryStore::default();
        let before = Heap::random(14_000).dump();
        let prior = put(&store, &before, None);
        let mut after = before.clone();
        for (at, length, kind) in edits {
            let at = at.index(after.len());
            let end = (at + length).min(after.len());
            let part = after[at..end].to_vec();
            match kind {
                0 => { after.drain(at..end); }
                1 => { after.splice(at..at, b"something new\n".repeat(length / 10)); }
                2 => { after.splice(at..at, part); }
                3 => { after.drain(at..end); after.extend(part); }
                _ => after[at] ^= 1,
            }
        }
        let stored = put(&store, &after, Some(&prior));
        prop_assert!(get(&store, &stored) == after);
    }
}

/// Gives few bytes at a time.
struct Slow<'a> {
    bytes: &'a [u8],
    blocks: usize,
}

impl Read for Slow<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let count = self.blocks.min(self.bytes.len()).min(out.len());
        out[..count].copy_from_slice(&self.bytes[..count]);
        self.bytes = &self.bytes[count..];
        Ok(count)
    }
}
