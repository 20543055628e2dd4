//! One function per structure of the store, for `fuzz/` and `tests/corpus.rs`: any bytes go in, and
//! what is promised about them is asserted. Not part of the library's interface.

mod bundles;

use std::sync::Arc;

use rappel_types::{Content, ObjectId, RelPath};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::block::{Block, Place};
use crate::closure::named_in;
use crate::codec::{self, OBJECT_MAX};
use crate::content::{self, ChunkList};
use crate::document::{Label, Loss, Tombstone, Undo, Workspace};
use crate::error::Result;
use crate::log::{Commit, NUMBER_MAX};
use crate::outline::Outline;
use crate::record::{self, Header};
use crate::sink::{Nothing, Source, id_of};
use crate::store::{decode_document, decode_manifest, encode_document};
use crate::tree;

pub use bundles::{bundle, bundle_seeds, forge_bundle};

/// A stretch of a pack, and the same bytes as one record whose checksum is right.
pub fn record(bytes: &[u8]) {
    let mut end = 0;
    for found in record::all(bytes, 0) {
        assert!(found.at >= end, "records overlap");
        end = found.end();
        assert!(record::is_intact(&bytes[found.at..end]));
        decode_record(&found.header, found.payload(bytes));
    }
    let length = Header::parse(bytes).map(|header| header.length() as usize);
    let Some(bytes) = length.and_then(|length| bytes.get(..length)) else { return };
    let forged = record::reborn(bytes, 1);
    if let Some(found) = record::at(&forged, 0) {
        assert_eq!(found.end(), forged.len());
        decode_record(&found.header, found.payload(&forged));
    }
}

fn decode_record(header: &Header, payload: &[u8]) {
    for base in [None, Some(&b"base"[..])] {
        if let Ok(bytes) = header.decode(payload, base) {
            assert_eq!(id_of(&bytes), header.id, "bytes of another object");
            assert!(bytes.len() as u64 <= record::PAYLOAD_MAX);
        }
    }
}

/// A block's payload.
pub fn block(bytes: &[u8]) {
    let Ok(block) = Block::parse(bytes) else { return };
    let shared = block.shared(bytes);
    let (mut in_shared, mut frame_end) = (0, None);
    for slot in &block.slots {
        assert!(block.share(slot) > 0);
        match &slot.place {
            Place::Shared(range) => {
                assert_eq!(range.start, in_shared, "objects of the shared frame overlap");
                in_shared = range.end;
                if let Ok(shared) = &shared {
                    assert!(range.end <= shared.len());
                }
            }
            Place::Against { length, frame, .. } => {
                assert!(frame.end <= bytes.len() && *length <= OBJECT_MAX);
                assert!(frame_end.is_none_or(|end| end == frame.start), "frames overlap");
                frame_end = Some(frame.end);
                if let Ok(found) =
                    codec::decompress_against(&bytes[frame.clone()], *length, b"base")
                {
                    assert_eq!(found.len() as u64, *length);
                }
            }
        }
    }
    if let Ok(shared) = shared {
        assert_eq!(shared.len(), in_shared);
    }
}

/// A source that answers everything with the same bytes: the worst that damage could do.
struct Echo<'a>(&'a [u8]);

impl Source for Echo<'_> {
    fn get(&self, _: &ObjectId) -> Result<Arc<[u8]>> {
        Ok(self.0.into())
    }
}

/// A node of a tree.
pub fn tree(bytes: &[u8]) {
    tree::assert_canonical(bytes);
    let echo = Echo(bytes);
    let root = id_of(bytes);
    let entries = tree::read(&echo, &root);
    if let Ok(entries) = &entries {
        for pair in entries.windows(2) {
            assert!(pair[0].path < pair[1].path);
        }
        for entry in entries {
            assert!(RelPath::new(entry.path.as_bytes()).is_ok());
            let found = tree::lookup(&echo, &root, &entry.path);
            assert!(found.is_ok_and(|found| found.as_ref() == Some(&entry.node)));
        }
        let empty = tree::diff(&echo, &root, &root);
        assert!(empty.is_ok_and(|changes| changes.is_empty()));
    }
    let other = ObjectId([7; 32]);
    let _ = tree::diff(&echo, &root, &other);
    let _ = tree::nodes(&echo, &root);
    let _ = tree::references(bytes);
}

/// A list of chunks.
pub fn chunk_list(bytes: &[u8]) {
    let Ok(list) = ChunkList::decode(bytes) else { return };
    assert_eq!(list.encode(), bytes, "two encodings of one list");
    let content = Content::Chunked(id_of(bytes));
    let mut out = Vec::new();
    // The chunks are the list itself, so that their lengths lie.
    if content::write_to(&Echo(bytes), &content, list.size(), &mut out).is_ok() {
        assert_eq!(out.len() as u64, list.size());
    }
    assert!(content::read(&Nothing, &content, u64::MAX, 1 << 20).is_err());
}

/// A manifest's JSON.
pub fn manifest(bytes: &[u8]) {
    let outline = Outline::decode(bytes);
    if let Ok(json) = serde_json::from_slice(bytes) {
        named_in(&json, &mut Vec::new());
    }
    let Ok(mut manifest) = decode_manifest(bytes) else { return };
    match outline {
        Ok(outline) => assert_eq!(outline, Outline::of(&manifest)),
        Err(_) => assert!(manifest.sequence > NUMBER_MAX),
    }
    // Fractions may lose their last digit on the way through JSON.
    manifest.cost.wall_ms = 0.0;
    manifest.metadata.clear();
    manifest.databases.clear();
    manifest.agents = None;
    manifest.process = None;
    survives(&manifest);
}

/// A commit record's JSON.
pub fn commit(bytes: &[u8]) {
    let Ok(commit) = Commit::decode(bytes) else { return };
    assert!(commit.sequence <= NUMBER_MAX && commit.length <= NUMBER_MAX);
    survives(&commit);
}

/// A document's payload, and its body as each of the documents.
pub fn document(bytes: &[u8]) {
    fn body<T: DeserializeOwned + Serialize>(json: &str) -> Option<T> {
        serde_json::from_str::<T>(json).ok().inspect(survives)
    }
    let Ok((key, json)) = decode_document(bytes) else { return };
    let again = decode_document(&encode_document(&key, &json));
    assert!(again.is_ok_and(|again| again == (key, json.clone())));
    body::<Workspace>(&json);
    body::<Tombstone>(&json);
    body::<Undo>(&json);
    body::<Loss>(&json);
    // Not through JSON again: its values may be fractions.
    let _ = serde_json::from_str::<Label>(&json);
}

/// What was read once is written, and read, the same from then on. Times are cut to milliseconds
/// on the first way out.
fn survives<T: DeserializeOwned + Serialize>(value: &T) {
    let text = serde_json::to_string(value).expect("what was read can be written");
    let again: T = serde_json::from_str(&text).expect("what was written can be read");
    assert_eq!(serde_json::to_string(&again).expect("and written again"), text);
}
