//! Writing a bundle, from the first byte to the last: nothing is gone back to, so that it can go to
//! a pipe.

use std::collections::HashSet;
use std::io::Write;

use rappel_types::ObjectId;

use super::{CHECKPOINTS_MAX, Document, HEADER, Roots, encode_header};
use crate::block::{self, Form, Item};
use crate::closure::{Closure, Reference, named_in};
use crate::codec::Effort;
use crate::error::{Error, Result};
use crate::pack::{Line, SEAL, encode_footer};
use crate::record::{self, Kind, Packing};
use crate::sink::Source;
use crate::store::{decode_manifest, encode_document};

/// Objects up to this size share blocks.
const SMALL: usize = 128 << 10;
/// A block is closed when its objects reach this many bytes. It is larger than in a home, because
/// versions of one file, which are not stored against each other here, come one after the other.
const BLOCK: usize = 1 << 20;

/// What is to be in a bundle, beside the objects that follow from it.
#[derive(Debug, Default)]
pub struct Contents {
    /// The manifests as JSON, oldest first.
    pub manifests: Vec<Vec<u8>>,
    /// Journals and labels, in any order.
    pub documents: Vec<Document>,
}

/// What was written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Written {
    /// Objects.
    pub objects: u64,
    /// Bytes of the whole bundle.
    pub bytes: u64,
}

/// Writes a bundle to `out`. `holds` says whether the source has an object that a text seems to
/// name; those that manifests name by their keys must be there. `watch` is told how many objects
/// were written, and stops the work with an error.
pub fn write(
    source: &dyn Source,
    contents: &Contents,
    holds: &dyn Fn(&ObjectId) -> bool,
    out: &mut dyn Write,
    watch: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<Written> {
    let count = u32::try_from(contents.manifests.len()).ok();
    let count = count.filter(|count| (1..=CHECKPOINTS_MAX).contains(count));
    let count = count.ok_or_else(|| Error::Damaged("a bundle has no room for these".into()))?;
    let mut bundle = Bundler {
        source,
        out,
        length: 0,
        lines: Vec::new(),
        items: Vec::new(),
        raw: 0,
        seen: HashSet::new(),
        closure: Closure::default(),
        watch,
    };
    bundle.bytes(&encode_header(count))?;
    for manifest in &contents.manifests {
        bundle.record(Kind::Manifest, manifest, Effort::Normal)?;
    }
    let mut documents: Vec<&Document> = contents.documents.iter().collect();
    documents.sort();
    for document in &documents {
        let payload = encode_document(&document.key, &document.json);
        bundle.record(document.kind.kind(), &payload, Effort::Normal)?;
    }
    for json in &contents.manifests {
        bundle.checkpoint(json, holds)?;
    }
    for document in documents {
        bundle.named(document.json.as_bytes(), holds)?;
    }
    bundle.finish()
}

struct Bundler<'a> {
    source: &'a dyn Source,
    out: &'a mut dyn Write,
    length: u64,
    lines: Vec<Line>,
    items: Vec<Item>,
    raw: usize,
    /// Objects that are in it already.
    seen: HashSet<ObjectId>,
    /// What was followed: checkpoints share most of their trees.
    closure: Closure,
    watch: &'a mut dyn FnMut(u64) -> Result<()>,
}

impl Bundler<'_> {
    fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.out.write_all(bytes).map_err(Error::io("write", "the bundle"))?;
        self.length += bytes.len() as u64;
        Ok(())
    }

    fn record(&mut self, kind: Kind, payload: &[u8], effort: Effort) -> Result<()> {
        let packing = match kind {
            // Its frames are compressed already.
            Kind::Block => Packing::Raw,
            _ => Packing::Zstd(effort),
        };
        let record = record::encode(kind, 0, payload, packing)?;
        self.lines.push(Line::of(&record, self.length));
        self.bytes(&record)
    }

    /// What a checkpoint needs.
    fn checkpoint(&mut self, json: &[u8], holds: &dyn Fn(&ObjectId) -> bool) -> Result<()> {
        let manifest = decode_manifest(json)?;
        let roots = Roots::of(&manifest);
        for tree in &roots.trees {
            self.follow(Reference::Node(*tree))?;
        }
        for object in &roots.others {
            self.follow(Reference::Unknown(*object))?;
        }
        self.named(json, holds)
    }

    /// What a document names that nobody knows the keys of.
    fn named(&mut self, json: &[u8], holds: &dyn Fn(&ObjectId) -> bool) -> Result<()> {
        let json = serde_json::from_slice(json)
            .map_err(|error| Error::Damaged(format!("document: {error}")))?;
        let mut named = Vec::new();
        named_in(&json, &mut named);
        for object in named {
            if !self.seen.contains(&object) && holds(&object) {
                self.follow(Reference::Unknown(object))?;
            }
        }
        Ok(())
    }

    /// Takes an object and all that it refers to.
    fn follow(&mut self, root: Reference) -> Result<()> {
        let mut closure = std::mem::take(&mut self.closure);
        closure.add(root);
        let source = self.source;
        let mut failure = None;
        let whole = closure.follow(source, &mut |id| match self.object(id) {
            Ok(()) => true,
            Err(error) => {
                failure = Some(error);
                false
            }
        });
        if whole {
            self.closure = closure;
            return Ok(());
        }
        if let Some(error) = failure {
            return Err(error);
        }
        Err(match (closure.newer.pop(), closure.unreadable.pop()) {
            (Some((_, error)), _) => error,
            (None, Some(id)) => Error::Damaged(format!("object {id} cannot be read")),
            (None, None) => Error::Damaged("what a checkpoint needs cannot be read".into()),
        })
    }

    fn object(&mut self, id: &ObjectId) -> Result<()> {
        if !self.seen.insert(*id) {
            return Ok(());
        }
        (self.watch)(self.seen.len() as u64)?;
        let bytes = self.source.get(id)?;
        if bytes.len() > SMALL {
            return self.record(Kind::Chunk, &bytes, Effort::Bulk);
        }
        self.raw += bytes.len();
        self.items.push(Item { id: *id, birth: 0, form: Form::Shared(bytes.to_vec()) });
        if self.raw >= BLOCK || self.items.len() >= block::OBJECTS_MAX as usize {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.raw = 0;
        let items = std::mem::take(&mut self.items);
        if items.is_empty() {
            return Ok(());
        }
        let payload = block::encode(&items, Effort::Normal)?;
        self.record(Kind::Block, &payload, Effort::Normal)
    }

    fn finish(mut self) -> Result<Written> {
        self.flush()?;
        let at = self.length;
        let payload = encode_footer(&self.lines);
        let footer = record::encode(Kind::Footer, 0, &payload, Packing::Raw)?;
        self.bytes(&footer)?;
        self.bytes(&at.to_le_bytes())?;
        self.bytes(&SEAL)?;
        self.out.flush().map_err(Error::io("write", "the bundle"))?;
        debug_assert!(self.length > HEADER as u64);
        Ok(Written { objects: self.seen.len() as u64, bytes: self.length })
    }
}
