//! The format does not change by accident: bytes of every structure, the places where large files
//! are cut, and a home that version 1 wrote.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]

mod common;

use std::path::{Path, PathBuf};

use common::{World, delete, document, files, gc_now, ids, load, noise, save};
use rappel_store::bundle::Bundle;
use rappel_store::codec::Effort;
use rappel_store::content::{self, ChunkList};
use rappel_store::record::{self, Kind, Packing};
use rappel_store::sink::{Source, id_of};
use rappel_store::verify::Scope;
use rappel_store::{block, tree};
use rappel_testing::MemoryStore;
use rappel_types::{Content, Entry, Node, ObjectId};

fn hex(bytes: &[u8]) -> String {
    let digit = |digit: u8| char::from_digit(u32::from(digit), 16).unwrap();
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

#[test]
fn a_record_is_these_bytes() {
    let record = record::encode(Kind::Label, 7, b"[\"k\",{}]", Packing::Raw).unwrap();
    let expected = concat!(
        "52704ca7", // magic
        "01",       // version
        "07",       // kind: label
        "00",       // codec: raw
        "00",
        "0700000000000000", // birth
        "0800000000000000", // length before compression
        "0800000000000000", // length as stored
        "ba11119d0eeabdac9b0394de759a021f95717dc35649f95699ee136a3cd59fc6", // id
        "0000000000000000000000000000000000000000000000000000000000000000", // base
        "cbd28426d494622eb39deeb9195ab3a6", // checksum
        "5b226b222c7b7d5d", // the payload
    );
    assert_eq!(hex(&record), expected);
}

#[test]
fn a_block_is_these_bytes() {
    let item = |bytes: &[u8], birth| block::Item {
        id: id_of(bytes),
        birth,
        form: block::Form::Shared(bytes.to_vec()),
    };
    let against = block::Item {
        id: id_of(b"any"),
        birth: 300,
        form: block::Form::Against {
            base: ObjectId([9; 32]),
            depth: 2,
            length: 3,
            frame: vec![1, 2, 3, 4],
        },
    };
    let payload = block::encode(&[item(b"one", 0), against], Effort::Normal).unwrap();
    let table = concat!(
        "01", // version
        "02", // objects
        "69", // bytes of table
        "03", // bytes in the shared frame, decoded
    );
    assert_eq!(&hex(&payload)[..8], table);
    let expected = format!(
        "{}00{}{}{}{}{}{}{}{}",
        hex(&id_of(b"one").0),
        "00", // form: shared
        "03", // length
        hex(&id_of(b"any").0),
        "ac02", // birth 300
        "01",   // form: against a base
        "02",   // depth
        hex(&[9; 32]),
        "0304", // length, and length of its frame
    );
    let start = 5;
    assert_eq!(hex(&payload[start..start + 0x69]), expected);
    assert!(hex(&payload).ends_with("01020304"));
}

#[test]
fn tree_nodes_and_chunk_lists_are_these_bytes() {
    let store = MemoryStore::default();
    let entry = |path: &str, node| Entry { path: path.parse().unwrap(), node };
    let entries = [
        entry("dir", Node::Directory { mode: 0o755 }),
        entry(
            "dir/file",
            Node::File { mode: 0o644, size: 5, content: Content::Whole(ObjectId([1; 32])) },
        ),
        entry(
            "dir/large",
            Node::File { mode: 0o600, size: 300, content: Content::Chunked(ObjectId([2; 32])) },
        ),
        entry("link", Node::Symlink { target: b"dir/file".to_vec() }),
    ];
    let root = tree::write(&store, &entries).unwrap();
    let expected = format!(
        "{}{}{}{}{}",
        "5254520100" /* magic, version, level 0 */
            .to_owned()
            + "04",
        "0003646972" /* shared, length, "dir" */
            .to_owned()
            + "00"
            + "ed03",
        "03052f66696c65".to_owned() + "01" + "a403" + "05" + &hex(&[1; 32]),
        "04056c61726765".to_owned() + "02" + "8003" + "ac02" + &hex(&[2; 32]),
        "00046c696e6b".to_owned() + "03" + "08" + &hex(b"dir/file"),
    );
    assert_eq!(hex(&store.get(&root).unwrap()), expected);

    let list = ChunkList(vec![
        content::Chunk { id: ObjectId([3; 32]), length: 70_000 },
        content::Chunk { id: ObjectId([4; 32]), length: 5 },
    ]);
    let expected = format!("52434c0102f0a204{}05{}", hex(&[3; 32]), hex(&[4; 32]));
    assert_eq!(hex(&list.encode()), expected);
}

#[test]
fn folders_are_split_at_these_paths() {
    let store = MemoryStore::default();
    let mut entries: Vec<Entry> = (0..2_000)
        .map(|number| Entry {
            path: format!("src/part{}/file{number}.rs", number % 40).parse().unwrap(),
            node: Node::Directory { mode: 0o755 },
        })
        .collect();
    entries.sort_by(|a, b| a.path.cmp(&b.path));
    let root = tree::write(&store, &entries).unwrap();
    assert_eq!(tree::nodes(&store, &root).unwrap().len(), NODES);
    assert_eq!(root.to_string(), ROOT);
}
const NODES: usize = 29;
const ROOT: &str = "4a203fbdaf7088dc723a93e2f64ca670481d0f98a8157a03fccf2a2580230b26";

#[test]
fn large_files_are_cut_at_these_places() {
    let store = MemoryStore::default();
    let bytes = noise(4711, 3 << 20);
    let (content, length) = content::store(&store, &mut &bytes[..], 0, None).unwrap();
    assert_eq!(length, 3 << 20);
    let Content::Chunked(id) = content else { panic!("it should be cut") };
    let list = ChunkList::load(&store, &id).unwrap();
    let lengths: Vec<u64> = list.0.iter().map(|chunk| chunk.length).collect();
    assert_eq!(lengths, CUTS);
    assert_eq!(id.to_string(), LIST);

    // Where a file is cut does not depend on how much of it is in memory at once.
    let long = noise(4712, 20 << 20);
    let (content, _) = content::store(&store, &mut &long[..], 0, None).unwrap();
    let longer = [&noise(1, 1 << 20)[..], &long].concat();
    let (with_more_before, _) = content::store(&store, &mut &longer[..], 0, None).unwrap();
    let chunks = |content: &Content| ChunkList::load(&store, content.id()).unwrap().0;
    let (one, two) = (chunks(&content), chunks(&with_more_before));
    assert_eq!(one[one.len() - 20..], two[two.len() - 20..]);
}
const CUTS: [u64; 10] =
    [569_944, 328_909, 283_730, 137_377, 328_603, 381_356, 264_582, 521_194, 98_294, 231_739];
const LIST: &str = "65193b2c1a3451dad4af7f146731d81d11046065aeea7bbe85e94fb5759357e1";

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/home-v1")
}

/// What the fixture was made of.
fn states() -> Vec<common::Files> {
    (1..=9u64)
        .map(|round| {
            files(&[
                ("edited", &noise(30, 900 + round as usize * 7)),
                ("new/each time", &noise(round, 120)),
                ("large", &noise(round / 3 + 80, 2_100)),
            ])
        })
        .collect()
}

/// Packs of a few kilobytes, so that a fixture with every kind of them is small.
fn tiny() -> World {
    let mut world = World::new();
    world.limits.run_max = 2 << 10;
    world.limits.pack_target = 5 << 10;
    world
}

fn copy_fixture(world: &World, fixture: &Path) {
    let packs = world.home.path().join("packs");
    std::fs::create_dir_all(&packs).unwrap();
    std::fs::copy(fixture.join("format"), world.home.path().join("format")).unwrap();
    for entry in std::fs::read_dir(fixture.join("packs")).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), packs.join(entry.file_name())).unwrap();
    }
}

#[test]
fn a_home_of_version_1_is_read() {
    assert_is_read(&fixture());
}

/// With `RAPPEL_FIXTURE=DIR` the home stays there: for a new version of the format, whose fixture
/// stands beside the old ones.
#[test]
fn a_home_that_this_build_writes_is_read() {
    let scratch = tempfile::tempdir().unwrap();
    let target = std::env::var_os("RAPPEL_FIXTURE").map(PathBuf::from);
    let target = target.unwrap_or_else(|| scratch.path().join("home"));
    write_fixture(&target);
    assert_is_read(&target);
}

fn assert_is_read(fixture: &Path) {
    let world = tiny();
    copy_fixture(&world, fixture);
    let store = world.open();
    let report = store.verify(&Scope::All, None).unwrap();
    assert!(report.is_clean(), "{report:?}");
    let states = states();
    let expected: Vec<_> = [2, 4, 6, 7, 8, 9].map(|number| (number, &states[number - 1])).into();
    assert_eq!(ids(&store).len(), expected.len());
    for (number, state) in &expected {
        let id = format!("chk_{number}").parse().unwrap();
        assert_eq!(load(&store, &id).unwrap(), **state, "{id}");
    }
    let labels = store.with_index(|index| index.documents(Kind::Label, Some("chk_2"))).unwrap();
    assert_eq!(labels.len(), 1);
    let next = save(&store, &files(&[("written", b"by a later build")]));
    assert_eq!(next.as_str(), "chk_10");
    gc_now(&store);
    for (number, state) in &expected {
        let id = format!("chk_{number}").parse().unwrap();
        assert_eq!(load(&store, &id).unwrap(), **state, "{id}");
    }
}

fn write_fixture(target: &Path) {
    let world = tiny();
    let store = world.open();
    let states = states();
    let made: Vec<_> = states[..6].iter().map(|state| save(&store, state)).collect();
    document(&store, Kind::Label, "chk_2", r#"{"version":1,"add":["kept"],"pinned":true}"#);
    delete(&store, &made[0], true);
    delete(&store, &made[4], true);
    gc_now(&store);
    delete(&store, &made[2], false);
    states[6..].iter().for_each(|state| drop(save(&store, state)));
    std::fs::create_dir_all(target.join("packs")).unwrap();
    std::fs::copy(world.home.path().join("format"), target.join("format")).unwrap();
    for name in world.packs() {
        let from = world.home.path().join("packs").join(&name);
        std::fs::write(target.join("packs").join(name), std::fs::read(from).unwrap()).unwrap();
    }
}

#[test]
fn a_bundle_of_version_1_is_read() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/bundle-v1.rappel");
    let bundle = Bundle::open(&path).unwrap();
    let manifests: Vec<_> = bundle.manifests().collect();
    let ids: Vec<&str> = manifests.iter().map(|one| one.id.as_str()).collect();
    assert_eq!(ids, ["chk_1", "chk_2"]);
    assert_eq!(bundle.documents()[0].json, r#"{"version":1,"add":["green"]}"#);
    let text = |manifest: usize, path: &str| {
        let tree = manifests[manifest].files.as_ref().unwrap().tree;
        match tree::lookup(&bundle, &tree, &path.parse().unwrap()).unwrap() {
            Some(Node::File { size, content, .. }) => {
                content::read(&bundle, &content, size, 1 << 20).unwrap()
            }
            other => panic!("{other:?}"),
        }
    };
    assert_eq!((text(0, "a.txt"), text(1, "a.txt")), (b"one\n".to_vec(), b"two\n".to_vec()));
    assert_eq!(text(1, "large.txt").len(), 248_000);
    assert_eq!(text(1, "empty"), b"");
}
