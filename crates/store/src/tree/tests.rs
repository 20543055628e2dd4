//! Trees: what is written is read, and what is damaged is refused.

use std::collections::BTreeMap;

use proptest::prelude::*;
use rappel_types::{Content, Entry, Node, ObjectId, RelPath};

use super::node::{Child, boundary_level, decode, encode_inner, encode_leaf, header};
use super::{diff, lookup, read, update, write};
use crate::error::Result;
use crate::sink::{Nothing, Role, Scratch, Sink, Source};

fn file(path: &str, seed: u8) -> Entry {
    let content = Content::Whole(ObjectId([seed; 32]));
    Entry { path: RelPath::new(path).unwrap(), node: Node::File { mode: 0o644, size: 1, content } }
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
            assert_eq!(lookup(&scratch, &root, &entry.path).unwrap().as_ref(), Some(&entry.node));
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
