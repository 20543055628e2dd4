//! Bundles: whole or refused, whatever was done to the file, and the same bytes every time.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]

mod common;

use common::{World, delete, files, gc_now, load, noise, save};
use rappel_store::block::{self, Form, Item};
use rappel_store::bundle::{self, Bundle, Contents, Document, Part};
use rappel_store::codec::Effort;
use rappel_store::fuzz::forge_bundle;
use rappel_store::record::Kind;
use rappel_store::sink::{Source, id_of};
use rappel_store::{Error, Store, content, tree};
use rappel_types::{CheckpointId, Manifest, Node};
use serde_json::{Value, json};

/// A store with three checkpoints that share most of what they hold, one of them of a large file.
fn store(world: &World) -> (Store, Vec<CheckpointId>) {
    let store = world.open();
    let large = noise(7, 3 << 20);
    let mut state = files(&[("a.txt", b"one\n"), ("src/b.txt", b"b\n"), ("empty", b"")]);
    state.insert("large.bin".into(), large);
    let mut ids = vec![save(&store, &state)];
    state.insert("a.txt".into(), b"two\n".to_vec());
    ids.push(save(&store, &state));
    state.remove("src/b.txt");
    ids.push(save(&store, &state));
    (store, ids)
}

fn contents(store: &Store, ids: &[CheckpointId]) -> Contents {
    let row = |id: &CheckpointId| store.checkpoint(id).unwrap().unwrap();
    let manifests = ids.iter().map(|id| store.get(&row(id).manifest).unwrap().to_vec()).collect();
    let label = Document {
        kind: Part::Label,
        key: ids[0].to_string(),
        number: 0,
        json: r#"{"version":1,"add":["green"]}"#.into(),
    };
    Contents { manifests, documents: vec![label] }
}

fn write(source: &dyn Source, contents: &Contents) -> rappel_store::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    bundle::write(source, contents, &|_| false, &mut bytes, &mut |_| Ok(()))?;
    Ok(bytes)
}

fn refusal(bytes: &[u8]) -> String {
    match Bundle::from_bytes(bytes.to_vec()) {
        Ok(_) => panic!("it was taken for whole"),
        Err(error) => error.to_string(),
    }
}

fn files_in(bundle: &Bundle, manifest: &Manifest) -> common::Files {
    let mut found = common::Files::new();
    for entry in tree::read(bundle, &manifest.files.as_ref().unwrap().tree).unwrap() {
        if let Node::File { size, content, .. } = &entry.node {
            let bytes = content::read(bundle, content, *size, 1 << 30).unwrap();
            found.insert(entry.path.to_string(), bytes);
        }
    }
    found
}

#[test]
fn what_goes_in_comes_out() {
    let world = World::new();
    let (store, ids) = store(&world);
    let bytes = write(&store, &contents(&store, &ids)).unwrap();
    let path = world.home.path().join("x.rappel");
    std::fs::write(&path, &bytes).unwrap();
    assert!(Bundle::is_one(&path));
    let bundle = Bundle::open(&path).unwrap();
    let found: Vec<&Manifest> = bundle.manifests().collect();
    assert_eq!(found.iter().map(|one| one.id.clone()).collect::<Vec<_>>(), ids);
    for manifest in found {
        assert_eq!(files_in(&bundle, manifest), load(&store, &manifest.id).unwrap());
    }
    assert_eq!(bundle.documents().len(), 1);
    let mut walked = 0;
    bundle
        .each_object(&mut |id, bytes| {
            assert_eq!(id_of(bytes), *id);
            walked += 1;
            Ok(())
        })
        .unwrap();
    assert_eq!(walked, bundle.len());
}

#[test]
fn the_same_checkpoints_are_the_same_bytes() {
    let world = World::new().small();
    let (store, ids) = store(&world);
    let first = write(&store, &contents(&store, &ids[1..])).unwrap();
    assert_eq!(write(&store, &contents(&store, &ids[1..])).unwrap(), first);
    // Whatever gc makes of the packs, and in another process.
    delete(&store, &ids[0], true);
    gc_now(&store);
    let again = contents(&store, &ids[1..]);
    drop(store);
    world.forget_index();
    assert_eq!(write(&world.open(), &again).unwrap(), first);
}

#[test]
fn a_file_that_was_cut_is_refused_wherever_that_was() {
    let world = World::new();
    let (store, ids) = store(&world);
    let bytes = write(&store, &contents(&store, &ids)).unwrap();
    let ends = (0..bytes.len()).step_by(4096).chain(bytes.len() - 20..bytes.len());
    for end in ends.chain(0..200) {
        refusal(&bytes[..end]);
    }
    let mut longer = bytes.clone();
    longer.push(0);
    refusal(&longer);
}

#[test]
fn every_flipped_byte_of_the_frame_is_noticed() {
    let world = World::new();
    let store = world.open();
    let id = save(&store, &files(&[("a.txt", b"one\n"), ("b.txt", b"two\n")]));
    let bytes = write(&store, &contents(&store, &[id])).unwrap();
    assert!(bytes.len() < 8 << 10, "small enough to try every byte: {}", bytes.len());
    for at in 0..bytes.len() {
        let mut hurt = bytes.clone();
        hurt[at] ^= 1 << (at % 8);
        refusal(&hurt);
    }
}

#[test]
fn a_later_version_is_refused_with_the_one_that_is_needed() {
    let world = World::new();
    let store = world.open();
    let id = save(&store, &files(&[("a.txt", b"one\n")]));
    let mut bytes = write(&store, &contents(&store, &[id])).unwrap();
    bytes[8] = 2;
    bytes[16..22].copy_from_slice(b"3.14.0");
    let error = Bundle::from_bytes(bytes).err().unwrap();
    assert!(matches!(error, Error::Newer { found: 2, supported: 1, .. }), "{error}");
    assert!(error.to_string().contains("needs Rappel 3.14.0"), "{error}");
}

/// The records of a bundle, as whoever means ill would take them apart.
struct Parts {
    manifests: Vec<Value>,
    labels: Vec<(String, String)>,
    objects: Vec<Vec<u8>>,
}

impl Parts {
    fn of(bytes: &[u8]) -> Self {
        let bundle = Bundle::from_bytes(bytes.to_vec()).unwrap();
        let manifests = bundle.manifests().map(|one| serde_json::to_value(one).unwrap()).collect();
        let labels =
            bundle.documents().iter().map(|one| (one.key.clone(), one.json.clone())).collect();
        let mut objects = Vec::new();
        let take = &mut |_: &_, bytes: &[u8]| {
            objects.push(bytes.to_vec());
            Ok(())
        };
        bundle.each_object(take).unwrap();
        Self { manifests, labels, objects }
    }

    fn records(&self) -> Vec<(Kind, Vec<u8>)> {
        let mut records = Vec::new();
        for manifest in &self.manifests {
            records.push((Kind::Manifest, manifest.to_string().into_bytes()));
        }
        for (key, json) in &self.labels {
            let key = Value::from(key.as_str());
            records.push((Kind::Label, format!("[{key},{json}]").into_bytes()));
        }
        let (small, large): (Vec<_>, Vec<_>) =
            self.objects.iter().partition(|bytes| bytes.len() < 64 << 10);
        let items: Vec<Item> = small
            .into_iter()
            .map(|bytes| Item { id: id_of(bytes), birth: 0, form: Form::Shared(bytes.clone()) })
            .collect();
        records.push((Kind::Block, block::encode(&items, Effort::Fast).unwrap()));
        records.extend(large.into_iter().map(|bytes| (Kind::Chunk, bytes.clone())));
        records
    }

    fn sealed(&self) -> Vec<u8> {
        forge_bundle(&self.records(), self.manifests.len() as u32)
    }
}

fn parts() -> Parts {
    let world = World::new();
    let (store, ids) = store(&world);
    Parts::of(&write(&store, &contents(&store, &ids)).unwrap())
}

#[test]
fn a_forged_one_that_says_the_same_is_read() {
    assert_eq!(Bundle::from_bytes(parts().sealed()).unwrap().manifests().count(), 3);
}

#[test]
fn a_checkpoint_that_needs_what_is_not_there_is_refused() {
    let whole = parts();
    for place in 0..whole.objects.len() {
        let mut parts = parts();
        parts.objects.remove(place);
        let said = refusal(&parts.sealed());
        assert!(said.contains("cannot be read as a whole"), "{said}");
    }
    let mut parts = whole;
    parts.manifests[1]["files"]["tree"] = "ab".repeat(32).into();
    assert!(refusal(&parts.sealed()).contains("chk_2 cannot be read as a whole"));
}

#[test]
fn what_no_checkpoint_needs_is_refused() {
    let mut with_object = parts();
    with_object.objects.push(b"smuggled".to_vec());
    assert!(refusal(&with_object.sealed()).contains("no checkpoint in it needs object"));
    let mut with_label = parts();
    with_label.labels.push(("chk_9".into(), r#"{"version":1}"#.into()));
    assert!(refusal(&with_label.sealed()).contains("a label of \"chk_9\""));
    for kind in [Kind::Tombstone, Kind::Workspace, Kind::Undo, Kind::Loss, Kind::Commit] {
        let mut records = parts().records();
        records.push((kind, b"[\"chk_1\",{\"version\":1}]".to_vec()));
        assert!(refusal(&forge_bundle(&records, 3)).contains("kind that bundles do not have"));
    }
    let mut records = parts().records();
    let event = json!(["s", {"version": 1, "number": 1, "at": "2026-11-15T14:30:22.000Z",
        "kind": "note", "data": {"text": "hello"}}]);
    records.insert(4, (Kind::Event, event.to_string().into_bytes()));
    assert!(refusal(&forge_bundle(&records, 3)).contains("which no checkpoint holds"));
}

#[test]
fn names_that_make_no_sense_are_refused() {
    type Forgery = fn(&mut Vec<Value>);
    let forgeries: [(&str, Forgery); 7] = [
        ("is there twice", |all| all[1]["id"] = "chk_1".into()),
        ("is not in its place", |all| all[1]["sequence"] = 1.into()),
        ("is not in its place", |all| all[1]["sequence"] = 0.into()),
        ("is not in its place", |all| all[1]["workspace"]["id"] = "00000000000000ff".into()),
        ("follows a later checkpoint", |all| all[0]["parent"] = "chk_3".into()),
        ("follows a later checkpoint", |all| all[1]["parent"] = "chk_2".into()),
        ("does not hold the checkpoints", |all| _ = all.pop()),
    ];
    for (expected, forge) in forgeries {
        let mut parts = parts();
        forge(&mut parts.manifests);
        let said = refusal(&forge_bundle(&parts.records(), 3));
        assert!(said.contains(expected), "{said}");
    }
    let mut newer = parts();
    newer.manifests[2]["version"] = 9.into();
    let error = Bundle::from_bytes(newer.sealed()).err().unwrap();
    assert!(matches!(error, Error::Newer { found: 9, .. }), "{error}");
}

#[test]
fn records_out_of_order_are_refused() {
    let mut records = parts().records();
    records.swap(0, 4);
    assert!(refusal(&forge_bundle(&records, 3)).contains("not in order"));
    let mut records = parts().records();
    records.swap(0, 1);
    assert!(refusal(&forge_bundle(&records, 3)).contains("not in its place"));
    let mut records = parts().records();
    let twice = records.last().unwrap().clone();
    records.push(twice);
    assert!(refusal(&forge_bundle(&records, 3)).contains("an object is there twice"));
    refusal(&forge_bundle(&[], 0));
    refusal(&forge_bundle(&[], 1));
}

#[test]
fn a_frame_that_promises_too_much_is_refused_before_memory_is_taken() {
    let mut bytes = parts().sealed();
    // The lengths of the first record: before compression, and as stored.
    for at in [64 + 16, 64 + 24] {
        let mut bomb = bytes.clone();
        bomb[at..at + 8].copy_from_slice(&u64::MAX.to_le_bytes());
        refusal(&bomb);
    }
    // The place of the footer.
    let end = bytes.len();
    for at in [0, 63, u64::MAX, end as u64] {
        bytes[end - 16..end - 8].copy_from_slice(&at.to_le_bytes());
        refusal(&bytes);
    }
}

#[test]
fn paths_that_leave_the_tree_are_refused() {
    // A leaf of one symbolic link at `../x`, as the format has it.
    let leaf = [b"RTR\x01\x00\x01\x00\x04../x\x03\x01a".to_vec()].concat();
    let mut forged = parts();
    forged.manifests.truncate(1);
    forged.labels.clear();
    forged.manifests[0]["files"]["tree"] = id_of(&leaf).to_string().into();
    forged.objects = vec![leaf];
    let said = refusal(&forged.sealed());
    assert!(said.contains("chk_1"), "{said}");
}

#[test]
fn a_lost_object_stops_the_writing() {
    let world = World::new();
    let (store, ids) = store(&world);
    let mut contents = contents(&store, &ids);
    let text = String::from_utf8(contents.manifests[0].clone()).unwrap();
    let manifest: Manifest = serde_json::from_str(&text).unwrap();
    let tree = manifest.files.unwrap().tree.to_string();
    contents.manifests[0] = text.replace(&tree, &"cd".repeat(32)).into_bytes();
    let error = write(&store, &contents).unwrap_err();
    assert!(error.is_damage() && error.to_string().contains(&"cd".repeat(32)), "{error}");
}
