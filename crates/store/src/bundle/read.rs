//! Reading a bundle that may be anything.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

use rappel_types::{Manifest, ObjectId};

use super::{Document, HEADER, MAGIC, Part, check, decode_header};
use crate::block::{Block, Place as Slot};
use crate::error::{Error, Result};
use crate::held;
use crate::pack::{Line, SEAL, TRAILER, decode_footer};
use crate::record::{self, Header, Kind};
use crate::sink::{Source, id_of};
use crate::store::{decode_document, held as locked};

/// How many decoded blocks are kept for the next reader.
const BLOCKS_KEPT: usize = 16;
/// Manifests and documents are kept in memory, and are no more bytes than this.
const WORDS_MAX: u64 = 1 << 30;

/// Where the bytes of a bundle are.
enum Bytes {
    File(held::Handle),
    Memory(Vec<u8>),
}

impl Bytes {
    fn length(&self) -> std::io::Result<u64> {
        match self {
            Self::File(file) => Ok(file.metadata()?.len()),
            Self::Memory(bytes) => Ok(bytes.len() as u64),
        }
    }

    fn read(&self, offset: u64, length: u64) -> Result<Vec<u8>> {
        let cut = || Error::Damaged("the bundle ends too early".into());
        match self {
            Self::Memory(bytes) => {
                let start = usize::try_from(offset).map_err(|_| cut())?;
                let end = start.checked_add(length as usize).ok_or_else(cut)?;
                Ok(bytes.get(start..end).ok_or_else(cut)?.to_vec())
            }
            Self::File(file) => {
                let mut bytes = vec![0; length as usize];
                match file.read_exact_at(&mut bytes, offset) {
                    Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Err(cut()),
                    other => other.map(|()| bytes).map_err(Error::io("read", "the bundle")),
                }
            }
        }
    }
}

/// Where an object lies in a bundle.
#[derive(Debug, Clone, Copy)]
struct Place {
    offset: u64,
    length: u64,
    /// Its line in the table of a block.
    slot: Option<u32>,
}

/// A bundle of which everything was checked. It gives objects as any source does; each is compared
/// with its id again, because the file may be another one by then.
pub struct Bundle {
    bytes: Bytes,
    /// The manifests with the ids of their bytes, oldest first.
    pub(super) manifests: Vec<(ObjectId, Vec<u8>, Manifest)>,
    documents: Vec<Document>,
    objects: HashMap<ObjectId, Place>,
    /// The records that hold objects, in order.
    records: Vec<Line>,
    blocks: Mutex<Blocks>,
}

#[derive(Default)]
struct Blocks {
    kept: HashMap<u64, Arc<Decoded>>,
    order: VecDeque<u64>,
}

struct Decoded {
    block: Block,
    shared: Vec<u8>,
}

impl Bundle {
    /// Whether the file at `path` begins like a bundle.
    pub fn is_one(path: &Path) -> bool {
        // A pipe would be waited for without end.
        if !std::fs::metadata(path).is_ok_and(|meta| meta.is_file()) {
            return false;
        }
        let mut start = [0; MAGIC.len()];
        let file = held::Handle::open(File::options().read(true), path);
        file.is_ok_and(|file| file.read_exact_at(&mut start, 0).is_ok() && start == MAGIC)
    }

    /// Reads a bundle and checks all of it: every record's checksum, every object's hash, and that
    /// it holds what its checkpoints need and nothing else.
    pub fn open(path: &Path) -> Result<Self> {
        let meta = std::fs::metadata(path).map_err(Error::io("open", path))?;
        if !meta.is_file() {
            return Err(Error::io("open", path)(std::io::Error::other("it is not a file")));
        }
        let file = held::Handle::open(File::options().read(true), path);
        let file = file.map_err(Error::io("open", path))?;
        let found = Self::read(Bytes::File(file));
        found.map_err(|error| in_file(error, path))
    }

    /// The same for a bundle in memory.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self> {
        Self::read(Bytes::Memory(bytes))
    }

    /// The manifests, oldest first.
    pub fn manifests(&self) -> impl Iterator<Item = &Manifest> {
        self.manifests.iter().map(|(_, _, manifest)| manifest)
    }

    /// The manifests with the hashes of their JSON: what tells two checkpoints of one name apart.
    pub fn identified(&self) -> impl Iterator<Item = (&ObjectId, &Manifest)> {
        self.manifests.iter().map(|(id, _, manifest)| (id, manifest))
    }

    /// Labels and events, in order.
    pub fn documents(&self) -> &[Document] {
        &self.documents
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Whether an object is among them.
    pub fn holds(&self, id: &ObjectId) -> bool {
        self.objects.contains_key(id)
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = &ObjectId> {
        self.objects.keys()
    }

    /// Hands every object to `take`, in the order of the file.
    pub fn each_object(&self, take: &mut dyn FnMut(&ObjectId, &[u8]) -> Result<()>) -> Result<()> {
        for line in &self.records {
            if line.kind == Kind::Block as u8 {
                let decoded = self.block(line.offset, line.length)?;
                for slot in &decoded.block.slots {
                    take(&slot.id, decoded.object(&slot.id, &slot.place)?)?;
                }
            } else {
                let (header, record) = self.record(line.offset, line.length)?;
                take(&header.id, &header.decode(&record[record::HEADER..], None)?)?;
            }
        }
        Ok(())
    }

    fn read(bytes: Bytes) -> Result<Self> {
        let length = bytes.length().map_err(Error::io("read", "the bundle"))?;
        if length < HEADER as u64 {
            return Err(Error::Damaged("this is no bundle of checkpoints".into()));
        }
        let mut header = [0; HEADER];
        header.copy_from_slice(&bytes.read(0, HEADER as u64)?);
        let checkpoints = decode_header(&header)?;
        let lines = footer(&bytes, length)?;
        let mut bundle = Self {
            bytes,
            manifests: Vec::new(),
            documents: Vec::new(),
            objects: HashMap::new(),
            records: Vec::new(),
            blocks: Mutex::default(),
        };
        let mut words = 0;
        let mut before = Kind::Manifest;
        for line in lines {
            before = bundle.take(line, before, &mut words)?;
        }
        if bundle.manifests.len() as u64 != u64::from(checkpoints) {
            return Err(bad("it does not hold the checkpoints that it announces"));
        }
        check::check(&bundle)?;
        Ok(bundle)
    }

    /// Takes in the next record. Manifests come first, then labels, events, and objects.
    fn take(&mut self, line: Line, before: Kind, words: &mut u64) -> Result<Kind> {
        let (header, record) = self.record(line.offset, line.length)?;
        let payload = &record[record::HEADER..];
        if header.checksum != line.checksum {
            return Err(bad("its footer does not list what is in it"));
        }
        let kind = header.kind.filter(|kind| *kind as u8 == line.kind);
        let kind = kind.ok_or_else(|| bad("a record is of a kind that bundles do not have"))?;
        if header.base().is_some() || header.birth != 0 {
            return Err(bad("a record depends on what is not in it"));
        }
        let rank = |kind| match kind {
            Kind::Manifest => Some(0),
            Kind::Label => Some(1),
            Kind::Event => Some(2),
            Kind::Block | Kind::Chunk => Some(3),
            _ => None,
        };
        let (Some(now), Some(then)) = (rank(kind), rank(before)) else {
            return Err(bad("a record is of a kind that bundles do not have"));
        };
        if now < then {
            return Err(bad("its records are not in order"));
        }
        if now == 3 {
            self.objects_in(kind, &header, payload, &line)?;
            self.records.push(line);
            return Ok(kind);
        }
        let decoded = header.decode(payload, None)?;
        *words += decoded.len() as u64;
        if *words > WORDS_MAX {
            return Err(bad("its manifests and documents are too long"));
        }
        if kind == Kind::Manifest {
            let manifest = crate::store::decode_manifest(&decoded)?;
            self.manifests.push((header.id, decoded, manifest));
            return Ok(kind);
        }
        let (key, json) = decode_document(&decoded)?;
        let (kind_of, number) = match kind {
            Kind::Event => (Part::Event, check::event_number(&json)?),
            _ => (Part::Label, 0),
        };
        let document = Document { kind: kind_of, key, number, json };
        let order = |one: &Document| (one.kind, one.key.clone(), one.number);
        if self.documents.last().is_some_and(|last| order(last) >= order(&document)) {
            return Err(bad("its documents are not in order, or one is there twice"));
        }
        self.documents.push(document);
        Ok(kind)
    }

    /// Notes where objects are, each compared with its id.
    fn objects_in(
        &mut self,
        kind: Kind,
        header: &Header,
        payload: &[u8],
        line: &Line,
    ) -> Result<()> {
        let place = Place { offset: line.offset, length: line.length, slot: None };
        let mut found = Vec::new();
        if kind == Kind::Chunk {
            header.decode(payload, None)?;
            found.push((header.id, place));
        } else {
            let decoded = Decoded::of(&header.decode(payload, None)?)?;
            for (number, slot) in decoded.block.slots.iter().enumerate() {
                decoded.object(&slot.id, &slot.place)?;
                found.push((slot.id, Place { slot: u32::try_from(number).ok(), ..place }));
            }
        }
        for (id, place) in found {
            if self.objects.insert(id, place).is_some() {
                return Err(bad("an object is there twice"));
            }
        }
        Ok(())
    }

    /// The record at `offset`, whose checksum has been compared.
    fn record(&self, offset: u64, length: u64) -> Result<(Header, Vec<u8>)> {
        let record = self.bytes.read(offset, length)?;
        let header = Header::parse(&record).filter(|header| header.length() == length);
        match header.filter(|_| record::is_intact(&record)) {
            Some(header) => Ok((header, record)),
            None => Err(bad(&format!("the record at {offset}"))),
        }
    }

    fn block(&self, offset: u64, length: u64) -> Result<Arc<Decoded>> {
        if let Some(block) = locked(&self.blocks).kept.get(&offset) {
            return Ok(block.clone());
        }
        let (header, record) = self.record(offset, length)?;
        let payload = header.decode(&record[record::HEADER..], None)?;
        let decoded = Arc::new(Decoded::of(&payload)?);
        let mut blocks = locked(&self.blocks);
        if blocks.kept.insert(offset, decoded.clone()).is_none() {
            blocks.order.push_back(offset);
            if blocks.order.len() > BLOCKS_KEPT
                && let Some(oldest) = blocks.order.pop_front()
            {
                blocks.kept.remove(&oldest);
            }
        }
        Ok(decoded)
    }
}

impl Decoded {
    fn of(payload: &[u8]) -> Result<Self> {
        let block = Block::parse(payload)?;
        let shared = block.shared(payload)?;
        Ok(Self { block, shared })
    }

    /// An object's bytes, compared with its id.
    fn object(&self, id: &ObjectId, slot: &Slot) -> Result<&[u8]> {
        let Slot::Shared(range) = slot else {
            return Err(bad("an object depends on what is not in it"));
        };
        let bytes = self.shared.get(range.clone()).unwrap_or_default();
        if id_of(bytes) != *id {
            return Err(bad(&format!("object {id} does not have its hash")));
        }
        Ok(bytes)
    }
}

impl Source for Bundle {
    fn get(&self, id: &ObjectId) -> Result<Arc<[u8]>> {
        let place = self.objects.get(id).ok_or(Error::Missing(*id))?;
        let Some(slot) = place.slot else {
            let (header, record) = self.record(place.offset, place.length)?;
            if header.id != *id {
                return Err(Error::Missing(*id));
            }
            return Ok(header.decode(&record[record::HEADER..], None)?.into());
        };
        let decoded = self.block(place.offset, place.length)?;
        match decoded.block.slots.get(slot as usize) {
            Some(slot) if slot.id == *id => Ok(decoded.object(id, &slot.place)?.into()),
            _ => Err(Error::Missing(*id)),
        }
    }
}

/// The lines of the footer, which must cover everything between the header and itself.
fn footer(bytes: &Bytes, length: u64) -> Result<Vec<Line>> {
    let cut = || bad("it has no end; it was cut short, or is still being written");
    let end = length.checked_sub(TRAILER).filter(|end| *end >= HEADER as u64).ok_or_else(cut)?;
    let trailer = bytes.read(end, TRAILER)?;
    let mut at = [0; 8];
    at.copy_from_slice(&trailer[..8]);
    let at = u64::from_le_bytes(at);
    if trailer[8..] != SEAL || at < HEADER as u64 || at >= end {
        return Err(cut());
    }
    if end - at > record::PAYLOAD_MAX + record::HEADER as u64 {
        return Err(cut());
    }
    let footer = bytes.read(at, end - at)?;
    let found = record::at(&footer, 0).filter(|found| found.end() == footer.len());
    let found = found.filter(|found| found.header.kind == Some(Kind::Footer));
    let found = found.ok_or_else(|| bad("its footer"))?;
    let payload = found.header.decode(found.payload(&footer), None)?;
    let lines = decode_footer(&payload);
    if crate::pack::encode_footer(&lines) != payload {
        return Err(bad("its footer"));
    }
    let mut next = HEADER as u64;
    for line in &lines {
        let fits = line.offset == next
            && line.length >= record::HEADER as u64
            && line.length <= record::PAYLOAD_MAX + record::HEADER as u64;
        if !fits {
            return Err(bad("its footer does not list what is in it"));
        }
        next += line.length;
    }
    if next != at {
        return Err(bad("its footer does not list what is in it"));
    }
    Ok(lines)
}

pub(super) fn bad(what: &str) -> Error {
    Error::Damaged(format!("the bundle: {what}"))
}

/// The same error with the file that it is about.
fn in_file(error: Error, path: &Path) -> Error {
    match error {
        Error::Io { action, source, .. } => Error::Io { action, path: path.to_owned(), source },
        Error::Damaged(what) => Error::Damaged(format!("{}: {what}", path.display())),
        other => other,
    }
}
