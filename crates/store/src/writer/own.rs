//! Reading the objects of a run that is not committed yet: a restore plans with the checkpoint that
//! it is about to make, and makes it only if there is something to do.
//!
//! What is read here says nothing about the disk. A restore reads what it displaces once more, from
//! the store, after the commit.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, PoisonError};

use rappel_types::ObjectId;

use super::{IN_RUN, Shared, Writer};
use crate::block::{self, Block, Form};
use crate::codec;
use crate::error::{Error, Result};
use crate::index::Body;
use crate::record::{self, Kind};
use crate::sink::{Source, id_of};
use crate::store::GUESS;

/// How many unpacked blocks are kept for the next reader.
const BLOCKS_KEPT: usize = 48;

/// Where the objects of a run lie, as far as they were asked for.
#[derive(Default)]
pub(super) struct Listed {
    /// How many entries of the spool are in `places`.
    entries: usize,
    /// The entry that holds each object.
    places: HashMap<ObjectId, usize>,
    /// Unpacked blocks by their entry, the oldest first.
    blocks: VecDeque<(usize, Arc<Unpacked>)>,
}

struct Unpacked {
    block: Block,
    payload: Vec<u8>,
    shared: Vec<u8>,
}

/// A record of the run.
enum Packed {
    Block(Arc<Unpacked>),
    Record(Vec<u8>),
}

impl Shared {
    /// The entry that holds an object.
    fn entry_of(&mut self, id: &ObjectId) -> Option<usize> {
        let Self { spool, listed, .. } = self;
        for (number, entry) in spool.entries.iter().enumerate().skip(listed.entries) {
            match &entry.body {
                Body::Objects(ids) => listed.places.extend(ids.iter().map(|id| (*id, number))),
                Body::Object => {
                    listed.places.insert(entry.id, number);
                }
                Body::Manifest(_) | Body::Document { .. } => {}
            }
        }
        listed.entries = spool.entries.len();
        listed.places.get(id).copied()
    }
}

impl Writer<'_> {
    /// The bytes of an object that this run has put; `None` if it has put no such object.
    pub(super) fn own(&self, id: &ObjectId) -> Result<Option<Arc<[u8]>>> {
        if !self.shared().own.contains(id) {
            return Ok(None);
        }
        if let Some(form) = self.waiting(id) {
            return match form {
                Form::Shared(bytes) => Ok(Some(bytes.into())),
                Form::Against { base, length, frame, .. } => {
                    self.apart(id, &base, length, &frame).map(Some)
                }
            };
        }
        match self.packed(id)? {
            None => Ok(None),
            Some(Packed::Record(bytes)) => {
                let header = record::Header::parse(&bytes).ok_or(Error::Missing(*id))?;
                Ok(Some(header.decode(&bytes[record::HEADER..], None)?.into()))
            }
            Some(Packed::Block(unpacked)) => self.in_block(id, &unpacked).map(Some),
        }
    }

    /// An object that no block was made of yet.
    fn waiting(&self, id: &ObjectId) -> Option<Form> {
        self.builders.iter().find_map(|builder| {
            let builder = builder.lock().unwrap_or_else(PoisonError::into_inner);
            builder.items.iter().find(|item| item.id == *id).map(|item| item.form.clone())
        })
    }

    /// The record that holds an object.
    fn packed(&self, id: &ObjectId) -> Result<Option<Packed>> {
        let (number, kind, pack, offset) = {
            let mut shared = self.shared();
            let Some(number) = shared.entry_of(id) else { return Ok(None) };
            if let Some((_, block)) = shared.listed.blocks.iter().find(|(at, _)| *at == number) {
                return Ok(Some(Packed::Block(block.clone())));
            }
            let entry = &shared.spool.entries[number];
            if entry.pack == IN_RUN {
                let bytes = &shared.spool.bytes;
                let found = record::at(bytes, entry.offset as usize).ok_or(Error::Missing(*id))?;
                let bytes = bytes[found.at..found.end()].to_vec();
                let kind = entry.kind;
                drop(shared);
                return self.unpacked(number, kind, bytes).map(Some);
            }
            (number, entry.kind, entry.pack, entry.offset)
        };
        let bytes = self.store.pack(pack)?.record(offset, GUESS)?;
        self.unpacked(number, kind, bytes).map(Some)
    }

    fn unpacked(&self, number: usize, kind: Kind, bytes: Vec<u8>) -> Result<Packed> {
        if kind != Kind::Block {
            return Ok(Packed::Record(bytes));
        }
        let payload = bytes[record::HEADER..].to_vec();
        let block = Block::parse(&payload)?;
        let shared = block.shared(&payload)?;
        let unpacked = Arc::new(Unpacked { block, payload, shared });
        let blocks = &mut self.shared().listed.blocks;
        blocks.push_back((number, unpacked.clone()));
        if blocks.len() > BLOCKS_KEPT {
            blocks.pop_front();
        }
        Ok(Packed::Block(unpacked))
    }

    fn in_block(&self, id: &ObjectId, unpacked: &Unpacked) -> Result<Arc<[u8]>> {
        let slot = unpacked.block.slots.iter().find(|slot| slot.id == *id);
        match &slot.ok_or(Error::Missing(*id))?.place {
            block::Place::Shared(range) => Ok(unpacked.shared[range.clone()].into()),
            block::Place::Against { base, length, frame, .. } => {
                self.apart(id, base, *length, &unpacked.payload[frame.clone()])
            }
        }
    }

    /// An object that is stored against a base.
    fn apart(
        &self,
        id: &ObjectId,
        base: &ObjectId,
        length: u64,
        frame: &[u8],
    ) -> Result<Arc<[u8]>> {
        let bytes = codec::decompress_against(frame, length, &self.get(base)?)?;
        match id_of(&bytes) == *id {
            true => Ok(bytes.into()),
            false => Err(Error::Damaged(format!("object {id} does not have its hash"))),
        }
    }
}
