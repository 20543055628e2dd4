//! A home with things in it that Rappel would not write.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use rappel::types::{CheckpointId, Content, Manifest, ObjectId};
use rappel_store::log::{self, Commit};
use rappel_store::pack::{self, PackId};
use rappel_store::record::{self, Found, Header, Kind, Packing};
use rappel_store::sink::{Role, Sink};
use rappel_store::store::decode_manifest;
use rappel_store::writer::Writer;
use rappel_store::{NewRecord, Options, Store, varint};

use crate::support::{World, reference};

fn open(world: &World) -> Store {
    let clock = Arc::new(world.clock.clone());
    Store::open(world.home.path(), Options { clock, ..Options::default() }).unwrap()
}

/// Commits a checkpoint like `like`, changed, and gives its id.
pub fn commit(
    world: &World,
    like: &str,
    change: impl FnOnce(&mut Manifest, &Writer<'_>),
) -> String {
    let mut manifest = world.open().show(&reference(like)).unwrap().manifest;
    let listed = world.open().list(&rappel::ListFilter::default()).unwrap().total as u64;
    manifest.sequence = listed + 1;
    manifest.id = format!("chk_evil_{listed}").parse::<CheckpointId>().unwrap();
    manifest.parent = Some(like.parse().unwrap());
    let store = open(world);
    let writer = store.begin().unwrap();
    change(&mut manifest, &writer);
    let id = manifest.id.to_string();
    let record = NewRecord::Manifest { manifest: Box::new(manifest), base: None };
    writer.commit(|_| Ok(vec![record])).unwrap();
    id
}

/// The JSON of a checkpoint like `like` that comes next.
pub fn json_of(world: &World, like: &str, id: &str) -> String {
    let mut manifest = world.open().show(&reference(like)).unwrap().manifest;
    manifest.sequence += 1;
    manifest.id = id.parse().unwrap();
    let json = serde_json::to_string(&manifest).unwrap();
    decode_manifest(json.as_bytes()).unwrap();
    json
}

/// Something to append to the log.
pub enum Forged {
    /// A record, and the commit that makes it count.
    Whole(Vec<u8>),
    /// A record without one.
    Raw(Kind, Vec<u8>),
    /// An empty run whose commit is changed.
    Commit(fn(&mut Commit)),
}

impl Forged {
    pub fn record(kind: Kind, payload: &[u8]) -> Self {
        Self::Whole(record::encode(kind, 0, payload, Packing::Raw).unwrap())
    }
}

fn newest_pack(world: &World) -> (PathBuf, Vec<u8>, Vec<Found>) {
    let packs = world.home.path().join("packs");
    let newest = log::numbers(&packs).unwrap().pop().unwrap();
    let path = PackId::Log(newest).path(&packs);
    let bytes = std::fs::read(&path).unwrap();
    let found = record::all(&bytes, pack::HEADER as usize);
    (path, bytes, found)
}

/// Appends to the log with all its checksums right.
pub fn forge(world: &World, forged: Forged) {
    // Whatever was forged before is taken in, so that the log ends with a commit.
    world.open().gc(false, true).unwrap();
    let (path, bytes, found) = newest_pack(world);
    let last = found.iter().rev().find(|found| found.header.kind == Some(Kind::Commit)).unwrap();
    assert_eq!(last.end(), bytes.len());
    let before = last.header.decode(last.payload(&bytes), None).unwrap();
    let before = Commit::decode(&before).unwrap();
    let mut next = Commit {
        sequence: before.sequence + 1,
        previous: Some(last.header.id),
        packs: Vec::new(),
        retired: Vec::new(),
        kept: Vec::new(),
        ..before
    };
    let encode = |kind, payload: &[u8]| record::encode(kind, 0, payload, Packing::Raw).unwrap();
    let run = match &forged {
        Forged::Whole(record) => record.clone(),
        Forged::Raw(kind, payload) => encode(*kind, payload),
        Forged::Commit(_) => Vec::new(),
    };
    next.length = run.len() as u64;
    next.hash = log::run_hash(Header::parse(&run).iter().map(|header| &header.checksum));
    if let Forged::Commit(change) = forged {
        change(&mut next);
    }
    let mut file = std::fs::File::options().append(true).open(path).unwrap();
    file.write_all(&run).unwrap();
    if !matches!(forged, Forged::Raw(..)) {
        file.write_all(&encode(Kind::Commit, &serde_json::to_vec(&next).unwrap())).unwrap();
    }
}

/// Flips a bit in the payload of the last record of a kind, or of so many of them.
pub fn damage_last(world: &World, kind: Kind, count: usize) {
    let (path, mut bytes, found) = newest_pack(world);
    let of_kind = found.iter().rev().filter(|found| found.header.kind == Some(kind));
    for record in of_kind.take(count) {
        bytes[record.end() - 3] ^= 4;
    }
    std::fs::write(path, bytes).unwrap();
}

/// A node of a tree, by hand, so that it can say what no writer would.
pub struct Node {
    bytes: Vec<u8>,
    last: String,
}

impl Node {
    pub fn leaf(count: u64) -> Self {
        Self::inner(0, count)
    }

    pub fn inner(level: u8, count: u64) -> Self {
        let mut bytes = b"RTR\x01".to_vec();
        bytes.push(level);
        varint::write(&mut bytes, count);
        Self { bytes, last: String::new() }
    }

    fn path(mut self, path: &str) -> Self {
        let both = self.last.bytes().zip(path.bytes());
        let shared = both.take_while(|(a, b)| a == b).count();
        varint::write(&mut self.bytes, shared as u64);
        varint::write(&mut self.bytes, (path.len() - shared) as u64);
        self.bytes.extend_from_slice(&path.as_bytes()[shared..]);
        self.last = path.to_owned();
        self
    }

    pub fn file(self, path: &str, id: ObjectId, size: u64) -> Self {
        self.content(path, Content::Whole(id), size)
    }

    pub fn content(self, path: &str, content: Content, size: u64) -> Self {
        let mut node = self.path(path);
        node.bytes.push(if matches!(content, Content::Whole(_)) { 1 } else { 2 });
        varint::write(&mut node.bytes, 0o644);
        varint::write(&mut node.bytes, size);
        node.bytes.extend_from_slice(&content.id().0);
        node
    }

    pub fn link(self, path: &str, target: &str) -> Self {
        let mut node = self.path(path);
        node.bytes.push(3);
        varint::write(&mut node.bytes, target.len() as u64);
        node.bytes.extend_from_slice(target.as_bytes());
        node
    }

    pub fn child(self, last: &str, entries: u64, id: ObjectId) -> Self {
        let mut node = self.path(last);
        varint::write(&mut node.bytes, entries);
        node.bytes.extend_from_slice(&id.0);
        node
    }

    pub fn put(&self, writer: &Writer<'_>) -> ObjectId {
        writer.put(Role::Structure, &self.bytes, None).unwrap()
    }
}
