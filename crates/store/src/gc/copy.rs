//! Copying what lives out of packs that go, into new bulk packs. A copy keeps the commit it was
//! born with, so that nothing becomes younger than what deleted it.

use std::collections::HashSet;

use rappel_types::ObjectId;

use super::plan::Living;
use crate::block::{self, BLOCK_TARGET, Block, Form, Item};
use crate::codec::Effort;
use crate::disk;
use crate::error::{Error, Result};
use crate::index::{Entry, Place};
use crate::pack::{PackId, PackWriter, Sealed};
use crate::read::CHAIN_MAX;
use crate::record::{self, Kind, Packing};
use crate::scan::{Piece, Scan};
use crate::sink::Source;
use crate::store::Store;

/// What was copied. The new packs are locked until this is dropped.
#[derive(Default)]
pub(super) struct Copies {
    pub sealed: Vec<Sealed>,
    /// Objects of which a record was copied.
    pub objects: HashSet<ObjectId>,
    /// The places that manifests and documents were copied from.
    pub records: HashSet<(PackId, u64)>,
    /// What the index has to take in.
    pub entries: Vec<Entry>,
    written: Vec<(ObjectId, Place)>,
}

impl Copies {
    /// Removes the new packs: they were not needed after all.
    pub fn discard(self, store: &Store) -> Result<()> {
        for sealed in &self.sealed {
            disk::unlink(&**store.disk(), sealed.path())?;
        }
        Ok(())
    }
}

struct Copier<'a> {
    store: &'a Store,
    scan: &'a Scan<'a>,
    pack: Option<PackWriter>,
    items: Vec<Item>,
    raw: usize,
    copies: Copies,
}

/// Copies `living`. Everything has been read back and compared when this returns.
pub(super) fn copy<'a>(
    store: &Store,
    scan: &Scan<'_>,
    living: impl Iterator<Item = &'a Living>,
) -> Result<Copies> {
    let copies = Copies::default();
    let mut copier = Copier { store, scan, pack: None, items: Vec::new(), raw: 0, copies };
    let result = copier.all(living);
    let mut copies = std::mem::take(&mut copier.copies);
    match result.and_then(|()| check(store, scan, &mut copies)) {
        Ok(()) => Ok(copies),
        Err(error) => {
            if let Some(unfinished) = copier.pack.take() {
                let path = unfinished.id.path(&store.home().packs());
                let _ = disk::unlink(&**store.disk(), &path);
            }
            // The first error is the one to tell; what stays behind is a leftover for later.
            let _ = copies.discard(store);
            Err(error)
        }
    }
}

impl Copier<'_> {
    fn all<'a>(&mut self, living: impl Iterator<Item = &'a Living>) -> Result<()> {
        for living in living {
            for number in &living.pieces {
                self.piece(&self.scan.pieces[*number as usize])?;
            }
            self.flush()?;
            for number in &living.manifests {
                let record = &self.scan.manifests[*number];
                self.record(record.pack, record.offset, record.birth, Some(record.object))?;
            }
            for number in &living.documents {
                let document = &self.scan.documents[*number];
                self.record(document.pack, document.offset, document.birth, None)?;
            }
        }
        if let Some(pack) = self.pack.take() {
            self.copies.sealed.push(pack.seal(None)?);
        }
        if !self.copies.sealed.is_empty() {
            disk::sync_dir(&**self.store.disk(), &self.store.home().packs())?;
        }
        Ok(())
    }

    fn piece(&mut self, piece: &Piece) -> Result<()> {
        let record = || self.store.pack(piece.place.pack)?.record(piece.place.offset, 64 << 10);
        let form = match piece.place.slot {
            None if piece.kind == Kind::Chunk => {
                let record = record::reborn(&record()?, piece.birth);
                let offset = self.append(&record)?;
                self.wrote(piece.id, offset, None);
                return Ok(());
            }
            Some(slot) if piece.base.is_some() => {
                let record = record()?;
                let payload = &record[record::HEADER..];
                let block = Block::parse(payload)?;
                match block.slots.get(slot as usize).map(|slot| (slot.id, &slot.place)) {
                    Some((id, block::Place::Against { base, depth, length, frame }))
                        if id == piece.id =>
                    {
                        let frame = payload[frame.clone()].to_vec();
                        Form::Against { base: *base, depth: *depth, length: *length, frame }
                    }
                    _ => return Err(Error::Missing(piece.id)),
                }
            }
            _ => Form::Shared(self.scan.get(&piece.id)?.to_vec()),
        };
        if let Form::Shared(bytes) = &form
            && bytes.len() >= BLOCK_TARGET
        {
            // A manifest that is only a base by now, and a large one.
            let packing = Packing::Zstd(Effort::Thorough);
            let record = record::encode_as(&piece.id, Kind::Chunk, piece.birth, bytes, packing)?;
            let offset = self.append(&record)?;
            self.wrote(piece.id, offset, None);
            return Ok(());
        }
        self.raw += match &form {
            Form::Shared(bytes) => bytes.len(),
            Form::Against { frame, .. } => frame.len(),
        };
        self.items.push(Item { id: piece.id, birth: piece.birth, form });
        if self.raw >= BLOCK_TARGET { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        let items = std::mem::take(&mut self.items);
        self.raw = 0;
        if items.is_empty() {
            return Ok(());
        }
        let payload = block::encode(&items, Effort::Thorough)?;
        let offset = self.append(&record::encode(Kind::Block, 0, &payload, Packing::Raw)?)?;
        for (slot, item) in items.iter().enumerate() {
            self.wrote(item.id, offset, Some(slot as u32));
        }
        Ok(())
    }

    fn record(
        &mut self,
        pack: PackId,
        offset: u64,
        birth: u64,
        object: Option<ObjectId>,
    ) -> Result<()> {
        let record = self.store.pack(pack)?.record(offset, 4 << 10)?;
        let place = self.append(&record::reborn(&record, birth))?;
        self.copies.records.insert((pack, offset));
        if let Some(object) = object {
            self.wrote(object, place, None);
        }
        Ok(())
    }

    /// Appends a record to the pack that is being written; says where.
    fn append(&mut self, record: &[u8]) -> Result<(PackId, u64)> {
        let target = self.store.limits.pack_target;
        if self.pack.as_ref().is_some_and(|pack| pack.length() >= target)
            && let Some(pack) = self.pack.take()
        {
            self.copies.sealed.push(pack.seal(None)?);
        }
        let pack = match &mut self.pack {
            Some(pack) => pack,
            None => {
                let home = self.store.home();
                let pack = PackWriter::bulk(self.store.disk(), &home.packs(), home.id)?;
                self.pack.insert(pack)
            }
        };
        Ok((pack.id, pack.append(record)?))
    }

    fn wrote(&mut self, id: ObjectId, (pack, offset): (PackId, u64), slot: Option<u32>) {
        self.copies.objects.insert(id);
        self.copies.written.push((id, Place { pack, offset, slot }));
    }
}

/// Reads every copy back from the new packs and compares it with its hash.
fn check(store: &Store, scan: &Scan<'_>, copies: &mut Copies) -> Result<()> {
    let find = |id: &ObjectId| Ok(scan.find(id));
    for (id, place) in std::mem::take(&mut copies.written) {
        store.read_place(&id, &place, CHAIN_MAX, &find)?;
    }
    for sealed in &copies.sealed {
        let reader = store.pack(sealed.pack)?;
        let (lines, _) = reader
            .footer()?
            .filter(|(_, hash)| *hash == sealed.hash)
            .ok_or_else(|| Error::Damaged(format!("{}: its footer", sealed.pack)))?;
        for line in lines {
            let record = reader.record(line.offset, line.length)?;
            // Documents are decoded here, objects were above.
            let entry = store.entry(sealed.pack, line.offset, &record, 0)?;
            copies.entries.extend(entry);
        }
    }
    Ok(())
}
