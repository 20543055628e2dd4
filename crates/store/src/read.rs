//! Reading objects: from where the index, or a scan, says they are, along their chains of bases.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, OnceLock};

use rappel_types::ObjectId;

use crate::block::{self, Block};
use crate::codec;
use crate::error::{Error, Result};
use crate::index::{Index, Place};
use crate::lock::Lock;
use crate::pack::{OpenPacks, PackId};
use crate::record::{self, Kind};
use crate::sink::{Source, id_of};
use crate::store::{GUESS, Store, held};

/// How many decoded blocks are kept for the next reader.
const BLOCKS_KEPT: usize = 48;
/// How many bytes of objects are kept for the next reader, and how large one may be.
const OBJECTS_KEPT_BYTES: usize = 8 << 20;
const OBJECT_KEPT_MAX: usize = 128 << 10;
/// How long a chain of bases may be for a reader. Writers stop much earlier, but where several
/// records of one object exist, a chain can be read through another than it was built on.
pub(crate) const CHAIN_MAX: u8 = 200;

/// How often an object is looked for that is not where it was.
const ATTEMPTS: usize = 3;

/// How the index is asked for an object.
#[derive(Clone, Copy)]
enum Hint {
    /// By what the connection knows that is just filling it.
    Filling,
    /// By what of it is in memory.
    Known,
    /// By what it says now, once nobody is just taking something in.
    Fresh,
}

/// An object's bytes, and the length of the chain of bases that it ends.
pub(crate) type Resolved = (Arc<[u8]>, u8);

#[derive(Default)]
pub(crate) struct Blocks {
    kept: HashMap<(PackId, u64), Arc<Decoded>>,
    order: VecDeque<(PackId, u64)>,
}

struct Decoded {
    block: Block,
    payload: Vec<u8>,
    shared: OnceLock<Vec<u8>>,
}

/// Objects that were read and checked, for whoever asks next: a version of a tree is read along the
/// versions before it, and most of those are wanted too.
#[derive(Default)]
pub(crate) struct Objects {
    /// What gc had done when they were found. After it, they may be nowhere but here.
    generation: u64,
    kept: HashMap<ObjectId, Resolved>,
    order: VecDeque<ObjectId>,
    bytes: usize,
}

impl Objects {
    fn get(&mut self, id: &ObjectId, generation: u64) -> Option<Resolved> {
        if self.generation != generation {
            *self = Self { generation, ..Self::default() };
        }
        self.kept.get(id).cloned()
    }

    fn keep(&mut self, id: &ObjectId, found: &Resolved, generation: u64) {
        let length = found.0.len();
        if self.generation != generation
            || length > OBJECT_KEPT_MAX
            || self.kept.insert(*id, found.clone()).is_some()
        {
            return;
        }
        self.order.push_back(*id);
        self.bytes += length;
        while self.bytes > OBJECTS_KEPT_BYTES
            && let Some(oldest) = self.order.pop_front()
        {
            self.bytes -= self.kept.remove(&oldest).map_or(0, |(bytes, _)| bytes.len());
        }
    }
}

impl Store {
    fn block(&self, place: &Place) -> Result<Arc<Decoded>> {
        let key = (place.pack, place.offset);
        if let Some(block) = held(&self.blocks).kept.get(&key) {
            return Ok(block.clone());
        }
        let record = self.pack(place.pack)?.record(place.offset, GUESS)?;
        let payload = match record::Header::parse(&record) {
            Some(header) if header.kind == Some(Kind::Block) => record[record::HEADER..].to_vec(),
            _ => {
                return Err(Error::Damaged(format!(
                    "{}: no block at {}",
                    place.pack, place.offset
                )));
            }
        };
        let block =
            Arc::new(Decoded { block: Block::parse(&payload)?, payload, shared: OnceLock::new() });
        let mut blocks = held(&self.blocks);
        if blocks.kept.insert(key, block.clone()).is_none() {
            blocks.order.push_back(key);
            if blocks.order.len() > BLOCKS_KEPT
                && let Some(oldest) = blocks.order.pop_front()
            {
                blocks.kept.remove(&oldest);
            }
        }
        Ok(block)
    }

    /// The base of the object `id` at `place`, if the record there carries that id.
    fn base_at(&self, id: &ObjectId, place: &Place) -> Result<Option<ObjectId>> {
        if let Some(slot) = place.slot {
            let decoded = self.block(place)?;
            return match decoded.block.slots.get(slot as usize) {
                Some(slot) if slot.id == *id => Ok(slot.base().copied()),
                _ => Err(Error::Missing(*id)),
            };
        }
        let record = self.pack(place.pack)?.record(place.offset, GUESS)?;
        match record::Header::parse(&record) {
            Some(header) if header.id == *id => Ok(header.base().copied()),
            _ => Err(Error::Missing(*id)),
        }
    }

    /// Whether an object is there, as far as the index and the records say. Its bytes are not read.
    pub fn holds(&self, id: &ObjectId) -> bool {
        self.stands(id)
    }

    /// Whether an object can be built upon: a record carries its id, and so it is all along its
    /// chain of bases. Gc may have taken the base of something that was already dead.
    pub(crate) fn stands(&self, id: &ObjectId) -> bool {
        self.stands_within(id, CHAIN_MAX)
    }

    fn stands_within(&self, id: &ObjectId, budget: u8) -> bool {
        let Ok(places) = self.with_index(|index| index.find(id)) else { return false };
        places.iter().any(|place| match self.base_at(id, place) {
            Ok(None) => true,
            Ok(Some(base)) => budget > 0 && self.stands_within(&base, budget - 1),
            Err(_) => false,
        })
    }

    /// An object's bytes and the length of the chain that it ends.
    pub(crate) fn get_with_depth(&self, id: &ObjectId) -> Result<Resolved> {
        let mut found = self.indexed(id, CHAIN_MAX, Hint::Known);
        // Gc may have moved it, and again while the new place was looked at.
        for _ in 0..ATTEMPTS {
            if !found.as_ref().is_err_and(Error::is_damage) {
                break;
            }
            *held(&self.packs) = OpenPacks::default();
            *held(&self.blocks) = Blocks::default();
            // A thread that holds the lock knows all that there is.
            if !Lock::is_held_here(&self.home.lock()) {
                self.refresh()?;
            }
            found = self.indexed(id, CHAIN_MAX, Hint::Fresh);
        }
        found
    }

    /// As [`Store::get_with_depth`], by what the index knows so far: for whoever is filling it, and
    /// must not wait until it is whole.
    pub(crate) fn get_known(&self, id: &ObjectId) -> Result<Resolved> {
        self.indexed(id, CHAIN_MAX, Hint::Filling)
    }

    /// An object from memory, or from where the index says that it is.
    fn indexed(&self, id: &ObjectId, budget: u8, hint: Hint) -> Result<Resolved> {
        let mut kept = None;
        let look = |index: &mut Index| {
            let generation = index.generation();
            kept = held(&self.objects).get(id, generation);
            let recent = if kept.is_none() { index.find_recent(id) } else { Vec::new() };
            Ok((generation, recent))
        };
        let (generation, recent) = match hint {
            Hint::Filling => self.with_index(look)?,
            Hint::Known | Hint::Fresh => self.read_index(look)?,
        };
        if let Some(kept) = kept {
            return Ok(kept);
        }
        let read = |place: &Place| {
            let budget = less(budget, id)?;
            self.read_against(id, place, &mut |base| self.indexed(base, budget, hint))
        };
        let places = || match hint {
            Hint::Filling => self.with_index(|index| index.find(id)),
            Hint::Known => self.read_index(|index| index.find(id)),
            Hint::Fresh => self.look_up(|index| {
                index.reload()?;
                index.find(id)
            }),
        };
        let found = match any_of(id, &recent, read) {
            Ok(found) => found,
            Err(_) => any_of(id, &places()?, read)?,
        };
        held(&self.objects).keep(id, &found, generation);
        Ok(found)
    }

    /// As [`Store::get_with_depth`], with the places from somewhere else than the index, and always
    /// from the disk.
    pub(crate) fn resolve(
        &self,
        id: &ObjectId,
        budget: u8,
        find: &dyn Fn(&ObjectId) -> Result<Vec<Place>>,
    ) -> Result<Resolved> {
        any_of(id, &find(id)?, |place| self.read_place(id, place, budget, find))
    }

    pub(crate) fn read_place(
        &self,
        id: &ObjectId,
        place: &Place,
        budget: u8,
        find: &dyn Fn(&ObjectId) -> Result<Vec<Place>>,
    ) -> Result<Resolved> {
        let budget = less(budget, id)?;
        self.read_against(id, place, &mut |base| self.resolve(base, budget, find))
    }

    /// The object `id` as the record at `place` holds it, with its base from wherever `base` gets
    /// it.
    pub(crate) fn read_against(
        &self,
        id: &ObjectId,
        place: &Place,
        base_of: &mut dyn FnMut(&ObjectId) -> Result<Resolved>,
    ) -> Result<Resolved> {
        let Some(slot) = place.slot else {
            let record = self.pack(place.pack)?.record(place.offset, GUESS)?;
            let header = record::Header::parse(&record).filter(|header| header.id == *id);
            let Some(header) = header else { return Err(Error::Missing(*id)) };
            let base = header.base().map(base_of).transpose()?;
            let bytes =
                header.decode(&record[record::HEADER..], base.as_ref().map(|(base, _)| &**base))?;
            return Ok((bytes.into(), base.map_or(0, |(_, depth)| depth.saturating_add(1))));
        };
        let decoded = self.block(place)?;
        let slot = match decoded.block.slots.get(slot as usize) {
            Some(slot) if slot.id == *id => slot,
            _ => return Err(Error::Missing(*id)),
        };
        match &slot.place {
            block::Place::Shared(range) => {
                let shared = match decoded.shared.get() {
                    Some(shared) => shared,
                    None => {
                        let shared = decoded.block.shared(&decoded.payload)?;
                        decoded.shared.get_or_init(|| shared)
                    }
                };
                let bytes = &shared[range.clone()];
                check(id, bytes)?;
                Ok((bytes.into(), 0))
            }
            block::Place::Against { base, length, frame, .. } => {
                let (base, depth) = base_of(base)?;
                let frame = &decoded.payload[frame.clone()];
                let bytes = codec::decompress_against(frame, *length, &base)?;
                check(id, &bytes)?;
                Ok((bytes.into(), depth.saturating_add(1)))
            }
        }
    }
}

/// Reads an object from one of its places: with several records for one id, any whose chain resolves
/// will do.
fn any_of(
    id: &ObjectId,
    places: &[Place],
    mut read: impl FnMut(&Place) -> Result<Resolved>,
) -> Result<Resolved> {
    let mut failure = Error::Missing(*id);
    for place in places {
        match read(place) {
            Ok(found) => return Ok(found),
            Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {}
            Err(Error::Missing(_)) => {}
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

fn less(budget: u8, id: &ObjectId) -> Result<u8> {
    let long = || Error::Damaged(format!("object {id}: its chain of bases is too long"));
    budget.checked_sub(1).ok_or_else(long)
}

fn check(id: &ObjectId, bytes: &[u8]) -> Result<()> {
    if id_of(bytes) == *id {
        return Ok(());
    }
    Err(Error::Damaged(format!("object {id} does not have its hash")))
}

impl Source for Store {
    fn get(&self, id: &ObjectId) -> Result<Arc<[u8]>> {
        self.get_with_depth(id).map(|(bytes, _)| bytes)
    }
}
