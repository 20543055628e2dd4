//! Blocks: many small objects in one record, compressed together, with a table of their ids.
//!
//! Objects that were stored against a base have a frame of their own behind the shared one, so a
//! small edit stays small and what is compressed together stays readable by itself.

use std::ops::Range;

use rappel_types::ObjectId;

use crate::codec::{self, Effort, OBJECT_MAX};
use crate::error::{Error, Result};
use crate::sink::id_of;
use crate::varint::{self, Cursor};

/// A block is closed when its objects reach this many bytes.
pub const BLOCK_TARGET: usize = 64 << 10;
/// The longest chain of bases that is written: what is read is read along all of it.
pub const DEPTH_MAX: u8 = 12;
pub(crate) const OBJECTS_MAX: u64 = 1 << 16;
const VERSION: u8 = 1;

const FORM_SHARED: u8 = 0;
const FORM_AGAINST: u8 = 1;

/// An object on its way into a block.
#[derive(Debug, Clone)]
pub struct Item {
    /// Its name.
    pub id: ObjectId,
    /// The commit it was born with; 0 is the block's.
    pub birth: u64,
    /// Its bytes, or how they differ from a base.
    pub form: Form,
}

/// How an object's bytes are kept.
#[derive(Debug, Clone)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Form {
    /// In the shared frame.
    Shared(Vec<u8>),
    /// In a frame of its own, against `base`; `depth` is the length of the chain it ends.
    Against { base: ObjectId, depth: u8, length: u64, frame: Vec<u8> },
}

/// The payload of a block with these objects. The shared frame has been decoded again and every
/// object in it hashed; frames against a base are checked by whoever made them.
pub fn encode(items: &[Item], effort: Effort) -> Result<Vec<u8>> {
    let mut shared = Vec::with_capacity(BLOCK_TARGET + (BLOCK_TARGET >> 1));
    let mut table = Vec::with_capacity(items.len() * 40);
    for item in items {
        table.extend_from_slice(&item.id.0);
        varint::write(&mut table, item.birth);
        match &item.form {
            Form::Shared(bytes) => {
                table.push(FORM_SHARED);
                varint::write(&mut table, bytes.len() as u64);
                shared.extend_from_slice(bytes);
            }
            Form::Against { base, depth, length, frame } => {
                table.extend_from_slice(&[FORM_AGAINST, *depth]);
                table.extend_from_slice(&base.0);
                varint::write(&mut table, *length);
                varint::write(&mut table, frame.len() as u64);
            }
        }
    }
    let frame = if shared.is_empty() { Vec::new() } else { codec::compress(&shared, effort)? };
    let mut payload = Vec::with_capacity(24 + table.len() + frame.len());
    payload.push(VERSION);
    varint::write(&mut payload, items.len() as u64);
    varint::write(&mut payload, table.len() as u64);
    varint::write(&mut payload, shared.len() as u64);
    varint::write(&mut payload, frame.len() as u64);
    payload.extend_from_slice(&table);
    payload.extend_from_slice(&frame);
    for item in items {
        if let Form::Against { frame, .. } = &item.form {
            payload.extend_from_slice(frame);
        }
    }
    let written = Block::parse(&payload)?;
    let again = written.shared(&payload)?;
    for slot in &written.slots {
        if let Place::Shared(range) = &slot.place
            && id_of(&again[range.clone()]) != slot.id
        {
            return Err(Error::Damaged(format!("object {} changed while it was packed", slot.id)));
        }
    }
    Ok(payload)
}

/// Where an object lies in a block.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Place {
    /// These bytes of the decoded shared frame.
    Shared(Range<usize>),
    /// These bytes of the payload, as a frame against `base`.
    Against { base: ObjectId, depth: u8, length: u64, frame: Range<usize> },
}

/// One line of a block's table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    /// The object.
    pub id: ObjectId,
    /// The commit it was born with; 0 is the block's.
    pub birth: u64,
    /// Where its bytes are.
    pub place: Place,
}

impl Slot {
    /// The object that is needed to read this one.
    pub fn base(&self) -> Option<&ObjectId> {
        match &self.place {
            Place::Against { base, .. } => Some(base),
            Place::Shared(_) => None,
        }
    }
}

/// A block's table.
#[derive(Debug, Clone)]
pub struct Block {
    /// Its objects, in order.
    pub slots: Vec<Slot>,
    frame: Range<usize>,
    shared_length: u64,
}

impl Block {
    /// Reads the table of a payload that may be anything.
    pub fn parse(payload: &[u8]) -> Result<Self> {
        let mut cursor = Cursor::new(payload, "block");
        let version = cursor.byte()?;
        if version != VERSION {
            let found = u32::from(version);
            return Err(Error::Newer { what: "a block".into(), found, supported: VERSION.into() });
        }
        let count = cursor.bounded(OBJECTS_MAX.min(payload.len() as u64 / 34))?;
        let table_length = cursor.bounded(payload.len() as u64)?;
        let shared_length = cursor.bounded(OBJECT_MAX)? as u64;
        let frame_length = cursor.bounded(payload.len() as u64)?;
        let mut table = Cursor::new(cursor.take(table_length)?, "block table");
        let start = payload.len() - cursor.rest().len();
        cursor.take(frame_length)?;
        let frame = start..start + frame_length;
        let mut at = frame.end;
        let mut shared_at = 0;
        let mut slots = Vec::with_capacity(count);
        for _ in 0..count {
            let id = ObjectId(table.array()?);
            let birth = table.number()?;
            let place = match table.byte()? {
                FORM_SHARED => {
                    let length = table.bounded(shared_length - shared_at)? as u64;
                    shared_at += length;
                    Place::Shared((shared_at - length) as usize..shared_at as usize)
                }
                FORM_AGAINST => {
                    let depth = table.byte()?;
                    let base = ObjectId(table.array()?);
                    let length = table.bounded(OBJECT_MAX)? as u64;
                    let stored = table.bounded((payload.len() - at) as u64)?;
                    at += stored;
                    Place::Against { base, depth, length, frame: at - stored..at }
                }
                _ => return Err(table.bad("an object has an unknown form")),
            };
            slots.push(Slot { id, birth, place });
        }
        table.finish()?;
        if at != payload.len() || shared_at != shared_length {
            return Err(cursor.bad("its lengths do not add up"));
        }
        Ok(Self { slots, frame, shared_length })
    }

    /// Roughly what an object takes in the block: its line, and its part of the frames.
    pub fn share(&self, slot: &Slot) -> u64 {
        let part = match &slot.place {
            Place::Shared(range) => {
                range.len() as u64 * self.frame.len() as u64 / self.shared_length.max(1)
            }
            Place::Against { frame, .. } => frame.len() as u64 + 34,
        };
        part + 36
    }

    /// The decoded shared frame.
    pub fn shared(&self, payload: &[u8]) -> Result<Vec<u8>> {
        if self.shared_length == 0 {
            return Ok(Vec::new());
        }
        codec::decompress(&payload[self.frame.clone()], self.shared_length)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shared(text: &str) -> Item {
        let bytes = text.as_bytes().to_vec();
        Item { id: id_of(&bytes), birth: 0, form: Form::Shared(bytes) }
    }

    #[test]
    fn objects_come_out_as_they_went_in() {
        let edited = b"one, edited";
        let frame = codec::compress_against(edited, b"one", Effort::Normal).unwrap();
        let against =
            Form::Against { base: id_of(b"one"), depth: 1, length: edited.len() as u64, frame };
        let items =
            [shared("one"), Item { id: id_of(edited), birth: 3, form: against }, shared("two")];
        let payload = encode(&items, Effort::Normal).unwrap();
        let block = Block::parse(&payload).unwrap();
        let frame = block.shared(&payload).unwrap();
        assert_eq!(block.slots.len(), 3);
        assert_eq!(block.slots[1].birth, 3);
        let Place::Shared(two) = &block.slots[2].place else { panic!("not shared") };
        assert_eq!(&frame[two.clone()], b"two");
        let Place::Against { base, length, frame, .. } = &block.slots[1].place else {
            panic!("not against a base")
        };
        assert_eq!(*base, id_of(b"one"));
        let bytes = codec::decompress_against(&payload[frame.clone()], *length, b"one").unwrap();
        assert_eq!(bytes, edited);
    }

    #[test]
    fn an_object_that_changed_in_memory_is_not_packed() {
        let mut item = shared("one");
        item.id = id_of(b"two");
        assert!(encode(&[item], Effort::Fast).is_err());
    }

    proptest! {
        #[test]
        fn damage_is_an_error_or_harmless(at in 0usize..400, value: u8) {
            let items = [shared("one"), shared("two"), shared("three")];
            let mut payload = encode(&items, Effort::Fast).unwrap();
            let at = at % payload.len();
            payload[at] = value;
            if let Ok(block) = Block::parse(&payload) {
                let _ = block.shared(&payload);
            }
        }
    }
}
