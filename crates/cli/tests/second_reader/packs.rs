//! Packs, records, runs and objects, read by the rules of `docs/format.md`, "Packs" and "The log".

use std::collections::{BTreeMap, HashMap};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::Value;

/// The id of an object: the BLAKE3 of its bytes.
pub type Id = [u8; 32];

pub fn blake3(bytes: &[u8]) -> Id {
    *blake3::hash(bytes).as_bytes()
}

pub fn hex(id: &[u8]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Bytes that are read from front to back. What is missing is a failure.
pub struct Bytes<'a>(pub &'a [u8]);

impl<'a> Bytes<'a> {
    pub fn take(&mut self, length: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(length);
        self.0 = rest;
        taken
    }

    pub fn byte(&mut self) -> u8 {
        self.take(1)[0]
    }

    pub fn id(&mut self) -> Id {
        self.take(32).try_into().unwrap()
    }

    pub fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take(4).try_into().unwrap())
    }

    pub fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take(8).try_into().unwrap())
    }

    /// LEB128, in its shortest form.
    pub fn varint(&mut self) -> u64 {
        let mut number = 0;
        for shift in (0..).step_by(7) {
            let byte = self.byte();
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                assert!(byte != 0 || shift == 0, "not the shortest form");
                break;
            }
        }
        number
    }

    pub fn length(&mut self) -> usize {
        usize::try_from(self.varint()).unwrap()
    }
}

/// One zstd frame of `length` bytes, made with `prefix`.
pub fn unpack(frame: &[u8], length: usize, prefix: &[u8]) -> Vec<u8> {
    let mut context = zstd::zstd_safe::DCtx::create();
    context.ref_prefix(prefix).unwrap();
    let mut out = Vec::with_capacity(length);
    context.decompress(&mut out, frame).map_err(zstd::zstd_safe::get_error_name).unwrap();
    assert_eq!(out.len(), length);
    out
}

/// The kinds that are no documents.
pub const BLOCK: u8 = 1;
pub const CHUNK: u8 = 2;
pub const MANIFEST: u8 = 3;
pub const COMMIT: u8 = 10;
pub const FOOTER: u8 = 11;

#[derive(Clone)]
pub struct Record {
    pub kind: u8,
    pub codec: u8,
    pub birth: u64,
    pub length: usize,
    pub stored: Vec<u8>,
    pub id: Id,
    base: Id,
    checksum: [u8; 16],
    offset: usize,
}

/// The header and all records of a pack. Every byte of the file has to belong to one of them.
pub struct Pack {
    pub is_log: bool,
    pub number: u64,
    pub home: u64,
    counts_to: (u64, u64),
    pub records: Vec<Record>,
    pub length: usize,
}

impl Pack {
    pub fn read(path: &Path) -> Self {
        let bytes = std::fs::read(path).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        assert_eq!(bytes[48..64], blake3(&bytes[..48])[..16], "{name}: the header's checksum");
        let mut header = Bytes(&bytes[..48]);
        assert_eq!(header.take(8), b"RAPPELPK");
        assert_eq!(header.u32(), 1, "version");
        let is_log = match header.u32() {
            1 => true,
            2 => false,
            other => panic!("{name}: kind {other}"),
        };
        let (number, home) = (header.u64(), header.u64());
        let expected = match is_log {
            true => format!("log-{number:010}.pack"),
            false => format!("bulk-{number:016x}.pack"),
        };
        assert_eq!(name, expected);
        let counts_to = (header.u64(), header.u64());
        let mode = std::fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        let is_sealed = bytes.ends_with(b"RPLSEAL\x01");
        assert_eq!(mode, if is_sealed { 0o400 } else { 0o600 }, "{name}");
        assert!(is_log || is_sealed, "{name}: a bulk pack is sealed");
        let end = bytes.len() - if is_sealed { 16 } else { 0 };
        let mut records = Vec::new();
        let mut at = 64;
        while at < end {
            let record = read_record(&bytes[..end], at);
            at += 112 + record.stored.len();
            records.push(record);
        }
        let pack = Self { is_log, number, home, counts_to, records, length: bytes.len() };
        if is_sealed {
            let at = u64::from_le_bytes(bytes[end..end + 8].try_into().unwrap());
            pack.check_footer(at);
        }
        pack
    }

    /// 33 bytes for each record before it, and the trailer says where it is.
    fn check_footer(&self, at: u64) {
        let (footer, others) = self.records.split_last().unwrap();
        assert_eq!((footer.kind, footer.offset as u64, footer.codec), (FOOTER, at, 0));
        let mut lines = Bytes(&footer.stored);
        for record in others {
            assert_eq!(lines.byte(), record.kind);
            assert_eq!(lines.u64(), record.offset as u64);
            assert_eq!(lines.u64(), 112 + record.stored.len() as u64);
            assert_eq!(lines.take(16), record.checksum);
        }
        assert!(lines.0.is_empty());
    }
}

fn read_record(bytes: &[u8], at: usize) -> Record {
    let header = &bytes[at..at + 112];
    let mut fields = Bytes(header);
    assert_eq!(fields.take(4), [0x52, 0x70, 0x4c, 0xa7], "a record begins at {at}");
    assert_eq!(fields.byte(), 1, "version of the header");
    let (kind, codec) = (fields.byte(), fields.byte());
    assert_eq!(fields.byte(), 0);
    let (birth, length, stored) = (fields.u64(), fields.u64(), fields.u64());
    let (id, base) = (fields.id(), fields.id());
    let stored = bytes[at + 112..at + 112 + usize::try_from(stored).unwrap()].to_vec();
    let mut hasher = blake3::Hasher::new();
    hasher.update(&header[..96]).update(&stored);
    let checksum: [u8; 16] = header[96..].try_into().unwrap();
    assert_eq!(checksum, hasher.finalize().as_bytes()[..16], "the checksum of the record at {at}");
    assert!((1..=12).contains(&kind) && codec <= 2, "kind {kind}, codec {codec}");
    assert_eq!(base != [0; 32], codec == 2, "a base with codec 2 and no other");
    let length = usize::try_from(length).unwrap();
    Record { kind, codec, birth, length, stored, id, base, checksum, offset: at }
}

/// Where an object's bytes are: a record of its own, or a slot of a block.
#[derive(Clone, Copy)]
enum Place {
    Record(usize),
    Slot(usize, usize),
}

struct Block {
    shared: Vec<u8>,
    lines: Vec<Line>,
}

enum Line {
    Shared { id: Id, from: usize, length: usize },
    Against { id: Id, base: Id, length: usize, frame: Vec<u8> },
}

fn read_block(record: &Record) -> Block {
    assert_eq!(record.codec, 0);
    let mut bytes = Bytes(&record.stored);
    assert_eq!(bytes.byte(), 1, "version of the block");
    let count = bytes.length();
    let (table, decoded, stored) = (bytes.length(), bytes.length(), bytes.length());
    let mut table = Bytes(bytes.take(table));
    let shared = bytes.take(stored);
    let shared = if stored == 0 { Vec::new() } else { unpack(shared, decoded, &[]) };
    let (mut lines, mut from) = (Vec::new(), 0);
    for _ in 0..count {
        let id = table.id();
        let _birth = table.varint();
        lines.push(match table.byte() {
            0 => {
                let length = table.length();
                from += length;
                Line::Shared { id, from: from - length, length }
            }
            1 => {
                let chain = table.byte();
                assert!((1..=24).contains(&chain), "a chain of {chain}");
                let (base, length) = (table.id(), table.length());
                let frame = table.length();
                Line::Against { id, base, length, frame: bytes.take(frame).to_vec() }
            }
            other => panic!("a line of kind {other}"),
        });
    }
    assert!(table.0.is_empty() && bytes.0.is_empty() && from == decoded, "it adds up");
    Block { shared, lines }
}

/// A document: of what kind, when it was born, what it is about, and what it says.
pub struct Document {
    pub kind: u8,
    pub birth: u64,
    pub about: String,
    pub says: Value,
}

/// Everything that the packs of a home hold and that counts.
#[derive(Default)]
pub struct Packs {
    records: Vec<Record>,
    places: HashMap<Id, Place>,
    blocks: HashMap<usize, Block>,
    pub commits: Vec<Value>,
    pub last_commit: Id,
    pub documents: Vec<Document>,
    /// With the birth of each.
    pub manifests: Vec<(u64, Value)>,
}

impl Packs {
    pub fn read(home: &Path) -> Self {
        let text = std::fs::read_to_string(home.join("format")).unwrap();
        let id = text.strip_prefix("rappel 1\nhome ").and_then(|rest| rest.strip_suffix('\n'));
        let id = id.unwrap().to_owned();
        let mut log = BTreeMap::new();
        let mut bulk = BTreeMap::new();
        for entry in std::fs::read_dir(home.join("packs")).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            let pack = Pack::read(&path);
            assert_eq!(format!("{:016x}", pack.home), id);
            match pack.is_log {
                true => assert!(log.insert(pack.number, pack).is_none()),
                false => assert!(bulk.insert(name, pack).is_none()),
            }
        }
        let mut packs = Self::default();
        let mut end = None;
        for pack in log.values() {
            // A header says how far the log counts before its pack.
            if let Some(end) = end {
                assert_eq!(pack.counts_to, end, "log pack {}", pack.number);
            }
            let end_of_log = packs.take_log(pack, &id, &bulk);
            end = Some((pack.number, end_of_log as u64));
        }
        packs.find_objects();
        packs
    }

    /// Takes in the runs of a log pack, and the bulk packs that their commits name. The end of its
    /// last run.
    fn take_log(&mut self, pack: &Pack, home: &str, bulk: &BTreeMap<String, Pack>) -> usize {
        let (mut run, mut begins, mut end) = (Vec::new(), 64, 64);
        for record in &pack.records {
            if record.kind == FOOTER {
                break;
            }
            if record.kind != COMMIT {
                run.push(record.clone());
                continue;
            }
            let payload = self.payload(record);
            let commit: Value = serde_json::from_slice(&payload).unwrap();
            self.check_commit(&commit, home, &run, record.offset - begins);
            let sequence = commit["sequence"].as_u64().unwrap();
            for named in commit["packs"].as_array().into_iter().flatten() {
                self.take_bulk(named, sequence, bulk);
            }
            for record in run.drain(..) {
                self.take_record(record, sequence);
            }
            self.last_commit = record.id;
            self.commits.push(commit);
            end = record.offset + 112 + record.stored.len();
            begins = end;
        }
        assert!(run.is_empty(), "records without a commit");
        end
    }

    fn check_commit(&self, commit: &Value, home: &str, run: &[Record], length: usize) {
        assert_eq!((&commit["version"], &commit["home"]), (&1.into(), &home.into()));
        if let Some(before) = self.commits.last() {
            let next = before["sequence"].as_u64().unwrap() + 1;
            assert_eq!(commit["sequence"], next, "without gaps");
            assert_eq!(commit["previous"], hex(&self.last_commit));
            assert!(commit["generation"].as_u64() >= before["generation"].as_u64());
        } else if commit["sequence"] == 1 {
            assert_eq!(commit["previous"], Value::Null);
        }
        assert_eq!(commit["length"], length as u64);
        let mut hasher = blake3::Hasher::new();
        for record in run {
            hasher.update(&record.checksum);
        }
        assert_eq!(commit["hash"], hasher.finalize().to_hex().to_string());
    }

    fn take_bulk(&mut self, named: &Value, sequence: u64, bulk: &BTreeMap<String, Pack>) {
        let pack = &bulk[named["pack"].as_str().unwrap()];
        let footer = pack.records.last().unwrap();
        assert_eq!(named["length"], pack.length as u64);
        assert_eq!(named["hash"], hex(&footer.id), "the footer vouches for the pack");
        let birth = named["birth"].as_u64().unwrap_or(sequence);
        for record in &pack.records[..pack.records.len() - 1] {
            self.take_record(record.clone(), birth);
        }
    }

    fn take_record(&mut self, mut record: Record, birth: u64) {
        if record.birth == 0 {
            record.birth = birth;
        }
        self.records.push(record);
    }

    /// Now every base can be found, wherever it lies.
    fn find_objects(&mut self) {
        for (at, record) in self.records.iter().enumerate() {
            match record.kind {
                BLOCK => {
                    let block = read_block(record);
                    for (slot, line) in block.lines.iter().enumerate() {
                        let (Line::Shared { id, .. } | Line::Against { id, .. }) = line;
                        self.places.insert(*id, Place::Slot(at, slot));
                    }
                    self.blocks.insert(at, block);
                }
                CHUNK | MANIFEST => drop(self.places.insert(record.id, Place::Record(at))),
                _ => {}
            }
        }
        for record in &self.records {
            let payload = self.payload(record);
            match record.kind {
                BLOCK | CHUNK => {}
                MANIFEST => {
                    let manifest = serde_json::from_slice(&payload).unwrap();
                    self.manifests.push((record.birth, manifest));
                }
                kind => {
                    let (about, says): (String, Value) = serde_json::from_slice(&payload).unwrap();
                    assert_eq!(says["version"], 1, "{says}");
                    let birth = record.birth;
                    self.documents.push(Document { kind, birth, about, says });
                }
            }
        }
    }

    fn payload(&self, record: &Record) -> Vec<u8> {
        let payload = match record.codec {
            0 => record.stored.clone(),
            1 => unpack(&record.stored, record.length, &[]),
            _ => unpack(&record.stored, record.length, &self.object(&record.base)),
        };
        assert_eq!((payload.len(), blake3(&payload)), (record.length, record.id));
        payload
    }

    /// An object's bytes, compared with its id.
    pub fn object(&self, id: &Id) -> Vec<u8> {
        let place = self.places.get(id);
        let bytes = match place.unwrap_or_else(|| panic!("no object {}", hex(id))) {
            Place::Record(at) => self.payload(&self.records[*at]),
            Place::Slot(at, slot) => {
                let block = &self.blocks[at];
                match &block.lines[*slot] {
                    Line::Shared { from, length, .. } => {
                        block.shared[*from..from + length].to_vec()
                    }
                    Line::Against { base, length, frame, .. } => {
                        unpack(frame, *length, &self.object(base))
                    }
                }
            }
        };
        assert_eq!(blake3(&bytes), *id);
        bytes
    }

    /// Reads every object once. How many there are.
    pub fn check_all(&self) -> usize {
        for id in self.places.keys() {
            self.object(id);
        }
        self.places.len()
    }
}

/// An id as JSON has it.
pub fn id_of(value: &Value) -> Id {
    let text = value.as_str().unwrap().as_bytes();
    assert_eq!(text.len(), 64);
    let digit = |at: usize| char::from(text[at]).to_digit(16).unwrap() as u8;
    std::array::from_fn(|at| digit(2 * at) * 16 + digit(2 * at + 1))
}
