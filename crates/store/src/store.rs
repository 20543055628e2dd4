//! The store as a whole: opening a home, reading objects, keeping the index up with the log.

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use rappel_types::manifest::MANIFEST_VERSION;
use rappel_types::{CheckpointId, Manifest, ObjectId};

use crate::ambient::Clock;
use crate::block::{self, Block};
use crate::codec;
use crate::disk::{self, Disk};
use crate::error::{Error, Result};
use crate::home::Home;
use crate::index::{Body, CheckpointRow, Entry, Index, Place};
use crate::lock::{Claim, Lock};
use crate::log::{self, Run, Tail};
use crate::pack::{PackId, PackReader};
use crate::record::{self, Kind};
use crate::sink::{Source, id_of};

/// How many decoded blocks are kept for the next reader.
const BLOCKS_KEPT: usize = 48;
/// How much of a record is read at once when its length is not known.
const GUESS: u64 = 64 << 10;
/// How long a chain of bases may be for a reader. Writers stop much earlier, but where several
/// records of one object exist, a chain can be read through another than it was built on.
pub(crate) const CHAIN_MAX: u8 = 200;

/// A record whose base is not known yet.
struct Waiting {
    pack: PackId,
    offset: u64,
    sequence: u64,
}

/// Collects what the index takes in of a run.
struct Taken<'a> {
    store: &'a Store,
    entries: Vec<Entry>,
    waiting: &'a mut Vec<Waiting>,
}

impl Taken<'_> {
    fn take(&mut self, pack: PackId, offset: u64, record: &[u8], sequence: u64) {
        match self.store.entry(pack, offset, record, sequence) {
            Ok(entry) => self.entries.extend(entry),
            Err(Error::Missing(_)) => self.waiting.push(Waiting { pack, offset, sequence }),
            Err(error) => held(&self.store.damage).push(format!("{pack} at {offset}: {error}")),
        }
    }
}

/// An open home.
pub struct Store {
    pub(crate) home: Home,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) clock: Arc<dyn Clock>,
    index: Mutex<Index>,
    packs: Mutex<HashMap<PackId, Arc<PackReader>>>,
    blocks: Mutex<Blocks>,
    damage: Mutex<Vec<String>>,
    lock_limit: Duration,
    pub(crate) limits: Limits,
    pub(crate) claim: Claim,
}

/// How much goes where. Tests make these small.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// A run up to this length is appended to the log's open pack; a longer one goes to packs of
    /// its own first.
    pub run_max: usize,
    /// A pack is sealed when it reaches this length.
    pub pack_target: u64,
    /// The home has a reserve from this size on.
    pub reserve_from: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { run_max: 8 << 20, pack_target: 64 << 20, reserve_from: 256 << 20 }
    }
}

#[derive(Default)]
struct Blocks {
    kept: HashMap<(PackId, u64), Arc<Decoded>>,
    order: VecDeque<(PackId, u64)>,
}

struct Decoded {
    block: Block,
    payload: Vec<u8>,
    shared: OnceLock<Vec<u8>>,
}

/// How a store is opened.
#[derive(Clone)]
pub struct Options {
    /// What lets changes pass.
    pub disk: Arc<dyn Disk>,
    /// Where times come from.
    pub clock: Arc<dyn Clock>,
    /// How long to wait for the lock.
    pub lock_limit: Duration,
    /// How much goes where.
    pub limits: Limits,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            disk: Arc::new(crate::disk::RealDisk),
            clock: Arc::new(crate::ambient::SystemClock),
            lock_limit: Duration::from_secs(30),
            limits: Limits::default(),
        }
    }
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Store {
    /// Opens the home at `root`, creating it if needed, and brings the index up to date.
    pub fn open(root: &Path, options: Options) -> Result<Self> {
        let home = Home::open(root, &options.disk, options.clock.now())?;
        let claim = Claim::shared(&home.readers())?;
        let (index, old) = open_index(&home.index())?;
        let store = Self {
            home,
            disk: options.disk,
            clock: options.clock,
            index: Mutex::new(index),
            packs: Mutex::default(),
            blocks: Mutex::default(),
            damage: Mutex::default(),
            lock_limit: options.lock_limit,
            limits: options.limits,
            claim,
        };
        if old || store.log_has_grown()? {
            let lock = store.lock()?;
            store.catch_up(&lock)?;
        }
        Ok(store)
    }

    /// The home.
    pub fn home(&self) -> &Home {
        &self.home
    }

    /// The gate to the disk.
    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// The clock.
    pub fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    /// What was found damaged while the log was read.
    pub fn damage(&self) -> Vec<String> {
        held(&self.damage).clone()
    }

    /// Works with the index.
    pub fn with_index<T>(&self, work: impl FnOnce(&mut Index) -> Result<T>) -> Result<T> {
        work(&mut held(&self.index))
    }

    /// Waits for the append lock.
    pub(crate) fn lock(&self) -> Result<Lock> {
        Lock::acquire(&self.home.lock(), self.lock_limit, self.clock.now())
    }

    /// Whether the log shows something else than the index knows. Only looks at lengths and names;
    /// what it is, is found out under the lock.
    fn log_has_grown(&self) -> Result<bool> {
        let position = self.with_index(|index| index.position())?;
        let newest = log::numbers(&self.home.packs())?.pop();
        let (Some(position), Some(newest)) = (&position, newest) else {
            return Ok(position.is_some() != newest.is_some());
        };
        if newest != position.pack {
            return Ok(true);
        }
        let path = PackId::Log(newest).path(&self.home.packs());
        let length = std::fs::metadata(&path).map_err(Error::io("read", &path))?.len();
        // A shorter log is what `confirm` finds under the lock.
        Ok(length != position.end)
    }

    /// Takes everything into the index that the log holds and it does not know. Returns how the
    /// log ends.
    pub(crate) fn catch_up(&self, lock: &Lock) -> Result<Tail> {
        let (known, acknowledged, incomplete) = self.with_index(|index| {
            index.reload()?;
            Ok((index.position()?, index.acknowledged()?, index.is_incomplete()?))
        })?;
        let packs = self.home.packs();
        let from = match &known {
            Some(position) if !incomplete && log::confirm(&packs, position)? => Some(position),
            _ => None,
        };
        let rebuild = from.is_none();
        if rebuild {
            if let Some(position) = known.as_ref().filter(|_| !incomplete) {
                held(&self.damage).push(format!(
                    "{}: commit {} at {} was there and is not any more",
                    PackId::Log(position.pack),
                    position.sequence,
                    position.offset
                ));
            }
            self.with_index(Index::clear)?;
        }
        self.sync_tail(from)?;
        let knowledge = log::Known {
            home: self.home.id,
            from,
            acknowledged: acknowledged.as_ref(),
            broken: lock.broken(),
        };
        let mut waiting = Vec::new();
        let walked = log::walk(&packs, knowledge, &mut |run| {
            let before = waiting.len();
            let entries = self.entries(&run, &mut waiting);
            self.with_index(|index| {
                if waiting.len() > before {
                    index.set_incomplete()?;
                }
                index.apply(&entries, run.commit.as_ref(), run.position.as_ref())
            })
        })?;
        held(&self.damage).extend(walked.damage.iter().map(ToString::to_string));
        if rebuild || !waiting.is_empty() {
            self.take_in_waiting(waiting)?;
            self.with_index(|index| index.complete())?;
        }
        if rebuild {
            self.note_missing_packs()?;
        }
        Ok(walked.tail)
    }

    /// Makes durable what another writer may have appended and not synced before it died: the index
    /// must not know a commit that a power loss could still take.
    fn sync_tail(&self, from: Option<&log::Position>) -> Result<()> {
        let packs = self.home.packs();
        let Some(newest) = log::numbers(&packs)?.pop() else { return Ok(()) };
        let path = PackId::Log(newest).path(&packs);
        let length = std::fs::metadata(&path).map_err(Error::io("read", &path))?.len();
        if from.is_some_and(|position| position.pack == newest && position.end == length) {
            return Ok(());
        }
        disk::sync_file(&*self.disk, &path)?;
        disk::sync_dir(&*self.disk, &packs)
    }

    /// Manifests whose base lies later in the log than they do, because gc moved it, are read once
    /// everything else is known.
    fn take_in_waiting(&self, waiting: Vec<Waiting>) -> Result<()> {
        let retired: HashSet<PackId> = self
            .with_index(|index| index.packs())?
            .into_iter()
            .filter(|row| row.retired_at.is_some())
            .map(|row| row.pack)
            .collect();
        let mut waiting: Vec<Waiting> =
            waiting.into_iter().filter(|waiting| !retired.contains(&waiting.pack)).collect();
        // One may wait for another: as long as some can be read, the rest is tried again.
        loop {
            let before = waiting.len();
            let mut still = Vec::new();
            for Waiting { pack, offset, sequence } in waiting {
                let read = self
                    .pack(pack)
                    .and_then(|reader| reader.record(offset, GUESS))
                    .and_then(|record| self.entry(pack, offset, &record, sequence));
                match read {
                    Ok(entry) => {
                        self.with_index(|index| index.apply(entry.as_slice(), None, None))?
                    }
                    Err(Error::Missing(_)) => still.push(Waiting { pack, offset, sequence }),
                    Err(error) => held(&self.damage).push(format!("{pack} at {offset}: {error}")),
                }
            }
            waiting = still;
            if waiting.is_empty() || waiting.len() == before {
                break;
            }
        }
        for Waiting { pack, offset, .. } in waiting {
            held(&self.damage).push(format!("{pack} at {offset}: the base of a record is missing"));
        }
        Ok(())
    }

    /// Notes bulk packs as damage that the log names and that are not there.
    fn note_missing_packs(&self) -> Result<()> {
        for row in self.with_index(|index| index.packs())? {
            let gone = row.retired_at.is_none() && !row.pack.path(&self.home.packs()).exists();
            if gone {
                held(&self.damage).push(format!("{} is missing", row.pack));
            }
        }
        Ok(())
    }

    /// The records of a run, as the index takes them in. What cannot be read is noted as damage.
    fn entries(&self, run: &Run<'_>, waiting: &mut Vec<Waiting>) -> Vec<Entry> {
        let mut taken = Taken { store: self, entries: Vec::new(), waiting };
        for named in run.commit.iter().flat_map(|commit| &commit.packs) {
            let birth = named.birth.unwrap_or(run.sequence);
            if let Err(error) = self.bulk_entries(named, birth, &mut taken) {
                held(&self.damage).push(error.to_string());
            }
        }
        for found in &run.records {
            let offset = run.bytes_at + found.at as u64;
            let record = &run.bytes[found.at..found.end()];
            taken.take(PackId::Log(run.pack), offset, record, run.sequence);
        }
        taken.entries
    }

    fn bulk_entries(&self, named: &log::Named, birth: u64, taken: &mut Taken<'_>) -> Result<()> {
        let reader = match self.pack(named.pack) {
            Ok(reader) => reader,
            // Retired and unlinked since, as a later commit says; or it is noted as missing.
            Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let lines = match reader.footer() {
            Ok(Some((lines, hash))) if hash == named.hash => lines,
            Ok(_) => return self.bulk_entries_without_footer(&reader, birth, taken),
            Err(error) if error.is_damage() => {
                return self.bulk_entries_without_footer(&reader, birth, taken);
            }
            Err(error) => return Err(error),
        };
        for line in lines {
            match reader.record(line.offset, line.length) {
                Ok(record) => taken.take(named.pack, line.offset, &record, birth),
                Err(error) => held(&self.damage).push(error.to_string()),
            }
        }
        Ok(())
    }

    fn bulk_entries_without_footer(
        &self,
        reader: &PackReader,
        birth: u64,
        taken: &mut Taken<'_>,
    ) -> Result<()> {
        held(&self.damage).push(format!("{}: its footer", reader.id));
        let bytes = reader.read(0, reader.length()?)?;
        for found in record::all(&bytes, crate::pack::HEADER as usize) {
            taken.take(reader.id, found.at as u64, &bytes[found.at..found.end()], birth);
        }
        Ok(())
    }

    /// One record as the index takes it in; `None` for kinds that it does not care about.
    pub(crate) fn entry(
        &self,
        pack: PackId,
        offset: u64,
        record: &[u8],
        sequence: u64,
    ) -> Result<Option<Entry>> {
        let header = record::Header::parse(record)
            .ok_or_else(|| Error::Damaged(format!("{pack}: the record at {offset}")))?;
        let payload = &record[record::HEADER..];
        let birth = if header.birth == 0 { sequence } else { header.birth };
        let Some(kind) = header.kind else { return Ok(None) };
        let json = || {
            let base = header.base().map(|base| self.get(base)).transpose()?;
            header.decode(payload, base.as_deref())
        };
        let body = match kind {
            Kind::Block => {
                Body::Objects(Block::parse(payload)?.slots.iter().map(|slot| slot.id).collect())
            }
            Kind::Chunk => Body::Object,
            Kind::Manifest => Body::Manifest(Box::new(decode_manifest(&json()?)?)),
            Kind::Commit | Kind::Footer => return Ok(None),
            Kind::Event
            | Kind::Session
            | Kind::Workspace
            | Kind::Label
            | Kind::Undo
            | Kind::Tombstone
            | Kind::Loss => {
                let envelope = decode_document(&json()?)?;
                Body::Document { key: envelope.0, json: envelope.1 }
            }
        };
        Ok(Some(Entry { pack, offset, kind, id: header.id, birth, body }))
    }

    pub(crate) fn pack(&self, id: PackId) -> Result<Arc<PackReader>> {
        if let Some(reader) = held(&self.packs).get(&id) {
            return Ok(reader.clone());
        }
        let reader = Arc::new(PackReader::open(&self.home.packs(), id)?);
        held(&self.packs).insert(id, reader.clone());
        Ok(reader)
    }

    /// Forgets open files and decoded blocks, so that the next look is at the disk.
    pub(crate) fn forget_open_packs(&self) {
        held(&self.packs).clear();
        *held(&self.blocks) = Blocks::default();
    }

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
    pub(crate) fn get_with_depth(&self, id: &ObjectId) -> Result<(Arc<[u8]>, u8)> {
        let find = |id: &ObjectId| self.with_index(|index| index.find(id));
        match self.resolve(id, CHAIN_MAX, &find) {
            Err(error) if error.is_damage() => {
                // Gc may have moved it: look at what the index says now.
                self.with_index(Index::reload)?;
                held(&self.packs).clear();
                self.resolve(id, CHAIN_MAX, &find)
            }
            other => other,
        }
    }

    /// As [`Store::get_with_depth`], with the places from somewhere else than the index. With
    /// several records for one id, any whose chain resolves will do.
    pub(crate) fn resolve(
        &self,
        id: &ObjectId,
        budget: u8,
        find: &dyn Fn(&ObjectId) -> Result<Vec<Place>>,
    ) -> Result<(Arc<[u8]>, u8)> {
        let mut failure = Error::Missing(*id);
        for place in find(id)? {
            match self.read_place(id, &place, budget, find) {
                Ok(found) => return Ok(found),
                Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {}
                Err(Error::Missing(_)) => {}
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    pub(crate) fn read_place(
        &self,
        id: &ObjectId,
        place: &Place,
        budget: u8,
        find: &dyn Fn(&ObjectId) -> Result<Vec<Place>>,
    ) -> Result<(Arc<[u8]>, u8)> {
        let Some(budget) = budget.checked_sub(1) else {
            return Err(Error::Damaged(format!("object {id}: its chain of bases is too long")));
        };
        self.read_against(id, place, &mut |base| self.resolve(base, budget, find))
    }

    /// The object `id` as the record at `place` holds it, with its base from wherever `base` gets
    /// it.
    pub(crate) fn read_against(
        &self,
        id: &ObjectId,
        place: &Place,
        base_of: &mut dyn FnMut(&ObjectId) -> Result<(Arc<[u8]>, u8)>,
    ) -> Result<(Arc<[u8]>, u8)> {
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

    /// A checkpoint's manifest.
    pub fn manifest(&self, row: &CheckpointRow) -> Result<Manifest> {
        decode_manifest(&self.get(&row.manifest)?)
    }

    /// The row of a checkpoint that was not deleted.
    pub fn checkpoint(&self, id: &CheckpointId) -> Result<Option<CheckpointRow>> {
        let found = self.with_index(|index| index.checkpoint(id))?;
        Ok(found.and_then(|(row, deleted)| (!deleted).then_some(row)))
    }
}

fn check(id: &ObjectId, bytes: &[u8]) -> Result<()> {
    if id_of(bytes) == *id {
        return Ok(());
    }
    Err(Error::Damaged(format!("object {id} does not have its hash")))
}

fn open_index(path: &Path) -> Result<(Index, bool)> {
    let existed = path.exists();
    if let Some(index) = Index::open(path)? {
        return Ok((index, !existed));
    }
    for suffix in ["", "-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        match std::fs::remove_file(&name) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::io("remove", Path::new(&name))(error));
            }
            _ => {}
        }
    }
    match Index::open(path)? {
        Some(index) => Ok((index, true)),
        None => Err(Error::Damaged(format!("{} cannot be rebuilt", path.display()))),
    }
}

/// Reads a manifest from JSON that may be anything.
pub fn decode_manifest(json: &[u8]) -> Result<Manifest> {
    #[derive(serde::Deserialize)]
    struct Version {
        version: u32,
    }
    let bad = |error: serde_json::Error| Error::Damaged(format!("manifest: {error}"));
    let Version { version } = serde_json::from_slice(json).map_err(bad)?;
    if version > MANIFEST_VERSION {
        let what = "a manifest".into();
        return Err(Error::Newer { what, found: version, supported: MANIFEST_VERSION });
    }
    serde_json::from_slice(json).map_err(bad)
}

/// A document's record is a JSON array of what it is about and the document itself.
pub(crate) fn encode_document(key: &str, json: &str) -> Vec<u8> {
    let key = serde_json::Value::from(key);
    format!("[{key},{json}]").into_bytes()
}

pub(crate) fn decode_document(payload: &[u8]) -> Result<(String, String)> {
    let (key, body): (String, Box<serde_json::value::RawValue>) =
        serde_json::from_slice(payload)
            .map_err(|error| Error::Damaged(format!("document: {error}")))?;
    Ok((key, body.get().to_owned()))
}

impl Source for Store {
    fn get(&self, id: &ObjectId) -> Result<Arc<[u8]>> {
        self.get_with_depth(id).map(|(bytes, _)| bytes)
    }
}
