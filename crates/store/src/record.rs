//! Records: what packs consist of. Each describes and checks itself, so that a reader who knows
//! nothing else can find its way through a pack again after damage.

use std::cell::Cell;
use std::thread;
use std::time::{Duration, Instant};

use rappel_types::ObjectId;

use crate::codec::{self, Effort, OBJECT_MAX};
use crate::error::{Error, Result};
use crate::log::NUMBER_MAX;
use crate::sink::id_of;

/// The first bytes of every record.
pub const MAGIC: [u8; 4] = *b"RpL\xa7";
/// The version of the record header.
pub const VERSION: u8 = 1;
/// Length of a record's header.
pub const HEADER: usize = 112;
/// No record's payload is longer.
pub const PAYLOAD_MAX: u64 = OBJECT_MAX + (1 << 20);

/// What a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs, reason = "docs/format.md explains each")]
pub enum Kind {
    Block = 1,
    Chunk = 2,
    Manifest = 3,
    Event = 4,
    Session = 5,
    Workspace = 6,
    Label = 7,
    Undo = 8,
    Tombstone = 9,
    Commit = 10,
    Footer = 11,
    Loss = 12,
}

impl Kind {
    /// The kind that a byte stands for, if this build knows it.
    pub fn from_byte(byte: u8) -> Option<Self> {
        use Kind::{
            Block, Chunk, Commit, Event, Footer, Label, Loss, Manifest, Session, Tombstone, Undo,
            Workspace,
        };
        let all = [
            Block, Chunk, Manifest, Event, Session, Workspace, Label, Undo, Tombstone, Commit,
            Footer, Loss,
        ];
        all.into_iter().find(|kind| *kind as u8 == byte)
    }
}

const RAW: u8 = 0;
const ZSTD: u8 = 1;
const ZSTD_AGAINST: u8 = 2;

/// A record's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// What it is; `None` is a kind that a later version added, which is passed over.
    pub kind: Option<Kind>,
    codec: u8,
    /// The commit it was born with; 0 is the one that brought it here.
    pub birth: u64,
    raw_length: u64,
    /// Length of the payload as stored.
    pub stored_length: u64,
    /// BLAKE3 of the payload before it was compressed.
    pub id: ObjectId,
    base: ObjectId,
    /// First 16 bytes of BLAKE3 over the header before it and the payload.
    pub checksum: [u8; 16],
}

impl Header {
    /// Reads a header; `None` if these bytes are none.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..HEADER)?;
        let number = |at: usize| {
            let mut array = [0; 8];
            array.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(array)
        };
        let id = |at: usize| {
            let mut array = [0; 32];
            array.copy_from_slice(&bytes[at..at + 32]);
            ObjectId(array)
        };
        if bytes[..4] != MAGIC || bytes[4] != VERSION {
            return None;
        }
        let mut checksum = [0; 16];
        checksum.copy_from_slice(&bytes[96..112]);
        let header = Self {
            kind: Kind::from_byte(bytes[5]),
            codec: bytes[6],
            birth: number(8),
            raw_length: number(16),
            stored_length: number(24),
            id: id(32),
            base: id(64),
            checksum,
        };
        let sane = header.stored_length <= PAYLOAD_MAX
            && header.raw_length <= PAYLOAD_MAX
            && header.birth <= NUMBER_MAX;
        sane.then_some(header)
    }

    /// Length of the whole record.
    pub fn length(&self) -> u64 {
        HEADER as u64 + self.stored_length
    }

    /// The object that is needed to read the payload.
    pub fn base(&self) -> Option<&ObjectId> {
        (self.codec == ZSTD_AGAINST).then_some(&self.base)
    }

    /// Turns a stored payload back, given the bytes of its base if it has one.
    pub fn decode(&self, payload: &[u8], base: Option<&[u8]>) -> Result<Vec<u8>> {
        let bytes = match (self.codec, base) {
            (RAW, _) => payload.to_vec(),
            (ZSTD, _) => codec::decompress(payload, self.raw_length)?,
            (ZSTD_AGAINST, Some(base)) => {
                codec::decompress_against(payload, self.raw_length, base)?
            }
            (ZSTD_AGAINST, None) => return Err(Error::Missing(self.base)),
            (other, _) => {
                let found = u32::from(other);
                return Err(Error::Newer { what: "a record's codec".into(), found, supported: 2 });
            }
        };
        if id_of(&bytes) != self.id {
            return Err(Error::Damaged(format!("record {} does not have its hash", self.id)));
        }
        Ok(bytes)
    }
}

/// Whether `record` (header and payload) carries the checksum of its content.
pub fn is_intact(record: &[u8]) -> bool {
    record.len() >= HEADER && checksum(record) == record[96..112]
}

fn checksum(record: &[u8]) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&record[..96]);
    hasher.update(&record[HEADER..]);
    let mut short = [0; 16];
    short.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    short
}

/// How a record's payload is to be stored.
#[derive(Debug, Clone, Copy)]
pub enum Packing<'a> {
    /// As it is.
    Raw,
    /// Compressed, if that helps.
    Zstd(Effort),
    /// Compressed against an older object with these bytes, if that helps.
    Against(&'a ObjectId, &'a [u8]),
}

/// A whole record, ready to be written. What was compressed has been decoded again and compared.
pub fn encode(kind: Kind, birth: u64, payload: &[u8], packing: Packing<'_>) -> Result<Vec<u8>> {
    write(None, kind, birth, payload, packing)
}

/// The same for a payload whose id is known. One that changed since it was hashed is an error.
pub fn encode_as(
    id: &ObjectId,
    kind: Kind,
    birth: u64,
    payload: &[u8],
    packing: Packing<'_>,
) -> Result<Vec<u8>> {
    write(Some(id), kind, birth, payload, packing)
}

fn write(
    known: Option<&ObjectId>,
    kind: Kind,
    birth: u64,
    payload: &[u8],
    packing: Packing<'_>,
) -> Result<Vec<u8>> {
    let (codec, base, stored) = match packing {
        Packing::Raw => (RAW, None, None),
        Packing::Zstd(effort) => (ZSTD, None, Some(codec::compress(payload, effort)?)),
        Packing::Against(id, bytes) => {
            let frame = codec::compress_against(payload, bytes, Effort::Thorough)?;
            (ZSTD_AGAINST, Some((id, bytes)), Some(frame))
        }
    };
    make_way(packing);
    let stored = stored.filter(|stored| stored.len() < payload.len());
    let codec = if stored.is_some() { codec } else { RAW };
    let base = base.filter(|_| codec == ZSTD_AGAINST);
    let body = stored.as_deref().unwrap_or(payload);

    // The id is that of what a reader will get, so it is hashed once and nothing is believed.
    let length = payload.len() as u64;
    let again = match (&stored, base) {
        (Some(frame), Some((_, base))) => Some(codec::decompress_against(frame, length, base)?),
        (Some(frame), None) => Some(codec::decompress(frame, length)?),
        (None, _) => None,
    };
    make_way(packing);
    let id = id_of(again.as_deref().unwrap_or(payload));
    make_way(packing);
    let same = match known {
        Some(known) => *known == id,
        None => again.is_none_or(|again| again == payload),
    };
    if !same {
        let id = known.unwrap_or(&id);
        return Err(Error::Damaged(format!("object {id} changed while it was packed")));
    }

    let mut record = Vec::with_capacity(HEADER + body.len());
    record.extend_from_slice(&MAGIC);
    record.extend_from_slice(&[VERSION, kind as u8, codec, 0]);
    record.extend_from_slice(&birth.to_le_bytes());
    record.extend_from_slice(&length.to_le_bytes());
    record.extend_from_slice(&(body.len() as u64).to_le_bytes());
    record.extend_from_slice(&id.0);
    record.extend_from_slice(&base.map_or([0; 32], |(id, _)| id.0));
    record.extend_from_slice(&[0; 16]);
    record.extend_from_slice(body);
    let checksum = checksum(&record);
    record[96..112].copy_from_slice(&checksum);
    Ok(record)
}

/// Lets others have this core between the steps of packing a stream: its writer, who can hold little back, may be waiting
/// for it. Where so many do that it takes long, this is seldom done.
fn make_way(packing: Packing<'_>) {
    const LONG: Duration = Duration::from_millis(1);
    thread_local!(static NEXT: Cell<Option<Instant>> = const { Cell::new(None) });
    let begun = Instant::now();
    let is_time = || NEXT.get().is_none_or(|next| next <= begun);
    if matches!(packing, Packing::Zstd(Effort::Stream)) && is_time() {
        thread::yield_now();
        let took = begun.elapsed();
        NEXT.set((took > LONG).then(|| begun + 8 * took));
    }
}

/// The id of a record that was just made.
pub fn id(record: &[u8]) -> Result<ObjectId> {
    let header = Header::parse(record);
    Ok(header.ok_or_else(|| Error::Damaged("a record that was just made".into()))?.id)
}

/// A copy of an intact record with the commit it was born with written into it.
pub fn reborn(record: &[u8], birth: u64) -> Vec<u8> {
    let mut copy = record.to_vec();
    copy[8..16].copy_from_slice(&birth.to_le_bytes());
    let checksum = checksum(&copy);
    copy[96..112].copy_from_slice(&checksum);
    copy
}

/// A record found in a stretch of bytes.
#[derive(Debug, Clone, Copy)]
pub struct Found {
    /// Where it begins in those bytes.
    pub at: usize,
    /// Its header.
    pub header: Header,
}

impl Found {
    /// Its payload as stored.
    pub fn payload<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        &bytes[self.at + HEADER..self.end()]
    }

    /// Where it ends.
    pub fn end(&self) -> usize {
        self.at + self.header.length() as usize
    }
}

/// The intact record that begins exactly at `at`.
pub fn at(bytes: &[u8], at: usize) -> Option<Found> {
    let header = Header::parse(bytes.get(at..)?)?;
    let end = at.checked_add(usize::try_from(header.length()).ok()?)?;
    is_intact(bytes.get(at..end)?).then_some(Found { at, header })
}

/// Where reading goes on behind the damaged record at `at`: at the end that its header claims, if
/// an intact record (or the end) is there, else at the next intact record. Trusting the claim first
/// keeps records that a user's file happens to contain from being taken for ours.
pub fn resume(bytes: &[u8], at: usize) -> Option<Found> {
    let claimed = bytes.get(at..).and_then(Header::parse);
    let claimed = claimed.and_then(|header| at.checked_add(header.length() as usize));
    match claimed {
        Some(end) if end == bytes.len() => None,
        Some(end) => self::at(bytes, end).or_else(|| next(bytes, at + 1)),
        None => next(bytes, at + 1),
    }
}

/// All intact records at or after `from`, whatever lies between them.
pub fn all(bytes: &[u8], from: usize) -> Vec<Found> {
    let mut found = Vec::new();
    let mut from = from;
    loop {
        let next = match at(bytes, from) {
            Some(record) => record,
            None => match resume(bytes, from) {
                Some(record) => record,
                None => return found,
            },
        };
        from = next.end();
        found.push(next);
    }
}

/// The first intact record at or after `from`.
pub fn next(bytes: &[u8], from: usize) -> Option<Found> {
    let mut start = from;
    while let Some(rest) = bytes.get(start..) {
        let offset = rest.windows(4).position(|window| window == MAGIC)?;
        if let Some(found) = at(bytes, start + offset) {
            return Some(found);
        }
        start += offset + 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let text = "the same words again and again ".repeat(40);
        let base = id_of(b"base");
        for packing in
            [Packing::Raw, Packing::Zstd(Effort::Normal), Packing::Against(&base, text.as_bytes())]
        {
            let record = encode(Kind::Manifest, 7, text.as_bytes(), packing).unwrap();
            let found = at(&record, 0).unwrap();
            assert_eq!(found.header.kind, Some(Kind::Manifest));
            assert_eq!(found.header.birth, 7);
            let bytes = found.header.decode(found.payload(&record), Some(text.as_bytes())).unwrap();
            assert_eq!(bytes, text.as_bytes());
        }
    }

    #[test]
    fn what_changed_since_it_was_hashed_is_refused() {
        let text = "the same words again and again ".repeat(40);
        let (id, other) = (id_of(text.as_bytes()), id_of(b"other"));
        for packing in [Packing::Raw, Packing::Zstd(Effort::Fast)] {
            let record = encode_as(&id, Kind::Chunk, 0, text.as_bytes(), packing).unwrap();
            assert_eq!(record, encode(Kind::Chunk, 0, text.as_bytes(), packing).unwrap());
            assert!(encode_as(&other, Kind::Chunk, 0, text.as_bytes(), packing).is_err());
        }
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let record = encode(Kind::Label, 0, b"{\"a\":1}", Packing::Raw).unwrap();
        for bit in 0..record.len() * 8 {
            let mut damaged = record.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(at(&damaged, 0).is_none(), "bit {bit}");
        }
    }

    #[test]
    fn reading_goes_on_behind_damage() {
        let first = encode(Kind::Label, 0, b"first", Packing::Raw).unwrap();
        let second = encode(Kind::Label, 0, b"second", Packing::Raw).unwrap();
        let mut bytes = [first.clone(), second].concat();
        bytes[HEADER] ^= 1;
        let found = next(&bytes, 0).unwrap();
        assert_eq!(found.at, first.len());
    }

    proptest! {
        #[test]
        fn any_bytes_are_searched_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut with_magic = MAGIC.to_vec();
            with_magic.push(VERSION);
            with_magic.extend_from_slice(&bytes);
            prop_assert!(next(&with_magic, 0).is_none());
        }
    }
}
