//! A run on its way into the log: objects are packed by many threads, and committed at once.

mod own;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use rappel_types::{Manifest, ObjectId};

use crate::append::{Change, Space};
use crate::block::{self, BLOCK_TARGET, DEPTH_MAX, Form, Item};
use crate::closure::{Closure, Reference};
use crate::codec::{self, Effort};
use crate::disk;
use crate::error::{Error, Result};
use crate::index::{Body, Entry, Index};
use crate::lock::Lock;
use crate::log::Tail;
use crate::outline::Outline;
use crate::pack::{PackId, PackWriter, Sealed};
use crate::record::{self, Kind, Packing};
use crate::sink::{Role, Sink, Source, id_of};
use crate::store::{Store, encode_document};
use own::Listed;

/// Objects beyond this much are compressed fast: the run is like a first save.
const NORMAL_EFFORT_MAX: usize = 1 << 20;
/// Space that must stay free on the home's disk beyond what is written.
const MARGIN: u64 = 4 << 20;

/// Something to commit beside the objects.
#[derive(Debug)]
pub enum NewRecord {
    /// A checkpoint. It is stored against the manifest `base`, if that is given.
    Manifest {
        /// What it holds.
        manifest: Box<Manifest>,
        /// A similar, older manifest.
        base: Option<ObjectId>,
    },
    /// A small document.
    Document {
        /// Its kind.
        kind: Kind,
        /// The checkpoint or workspace it is about.
        key: String,
        /// Its JSON.
        json: String,
    },
}

/// What whoever commits may look at under the lock, when nobody else can add anything.
pub struct Moment<'a> {
    /// The index, up to date.
    pub index: &'a mut Index,
    /// The sequence that this commit will have.
    pub sequence: u64,
    /// Bytes that the run's objects take in the packs.
    pub new_bytes: u64,
}

/// What a commit has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Committed {
    /// Its sequence.
    pub sequence: u64,
    /// Bytes that its objects take in the packs.
    pub new_bytes: u64,
}

/// Collects a run. Dropping it without a commit leaves nothing that counts.
pub struct Writer<'s> {
    store: &'s Store,
    generation: u64,
    store_is_empty: bool,
    distrusts: bool,
    builders: Vec<Mutex<Builder>>,
    shared: Mutex<Shared>,
}

/// The builder of structure; those behind it are of content, one for each thread. They share no
/// block: content that is lost may be found in the workspace again, structure may not.
const STRUCTURE: usize = 0;

#[derive(Default)]
struct Builder {
    items: Vec<Item>,
    raw: usize,
}

#[derive(Default)]
struct Shared {
    /// Objects of this run.
    own: HashSet<ObjectId>,
    /// Objects of the store that this run would have put.
    reused: HashSet<ObjectId>,
    /// Objects of the store that this run refers to, with all that they refer to.
    roots: HashSet<ObjectId>,
    spool: Spool,
    listed: Listed,
    raw: usize,
}

/// Encoded records, in memory until they are too many, then in bulk packs.
#[derive(Default)]
pub(crate) struct Spool {
    pub bytes: Vec<u8>,
    pub entries: Vec<Entry>,
    bulk: Option<PackWriter>,
    pub sealed: Vec<Sealed>,
    written: u64,
}

/// The place of records that wait for the log; replaced when they get there.
pub(crate) const IN_RUN: PackId = PackId::Log(0);

impl Store {
    /// Begins a run.
    pub fn begin(&self) -> Result<Writer<'_>> {
        self.require_writable()?;
        crate::threads::ready()?;
        let (generation, empty) = self.with_index(|index| {
            index.reload()?;
            Ok((index.generation(), index.is_empty()?))
        })?;
        let threads = rayon::current_num_threads() + 1;
        Ok(Writer {
            store: self,
            generation,
            store_is_empty: empty,
            distrusts: false,
            builders: (0..threads).map(|_| Mutex::default()).collect(),
            shared: Mutex::default(),
        })
    }
}

/// What the store holds, and what the run has put so far.
impl Source for Writer<'_> {
    fn get(&self, id: &ObjectId) -> Result<Arc<[u8]>> {
        match self.own(id)? {
            Some(bytes) => Ok(bytes),
            None => self.store.get(id),
        }
    }
}

impl Sink for Writer<'_> {
    fn refer(&self, id: &ObjectId) {
        self.reuse([*id]);
    }

    fn put(&self, role: Role, bytes: &[u8], base: Option<&ObjectId>) -> Result<ObjectId> {
        let id = id_of(bytes);
        if self.claim(&id) {
            return Ok(id);
        }
        let base = base.filter(|base| **base != id);
        let form = match base.map(|base| self.against(role, &id, bytes, base)) {
            Some(Ok(Some(form))) => form,
            // A base that cannot be read is no reason not to store the object whole.
            _ if bytes.len() >= BLOCK_TARGET => {
                self.put_chunk(role, &id, bytes)?;
                return Ok(id);
            }
            _ => Form::Shared(bytes.to_vec()),
        };
        let item = Item { id, birth: 0, form };
        let number = match role {
            Role::Structure => STRUCTURE,
            Role::Content | Role::Bulk => {
                let thread = rayon::current_thread_index().unwrap_or(0);
                STRUCTURE + 1 + thread % (self.builders.len() - 1)
            }
        };
        let full = {
            let mut builder = self.builders[number].lock().unwrap_or_else(PoisonError::into_inner);
            builder.raw += match &item.form {
                Form::Shared(bytes) => bytes.len(),
                Form::Against { frame, .. } => frame.len(),
            };
            builder.items.push(item);
            (builder.raw >= BLOCK_TARGET).then(|| std::mem::take(&mut *builder).items)
        };
        match full {
            Some(items) => self.flush(&items).map(|()| id),
            None => Ok(id),
        }
    }

    fn put_new(&self, role: Role, bytes: &[u8]) -> Result<ObjectId> {
        if bytes.len() < BLOCK_TARGET {
            return self.put(role, bytes, None);
        }
        // Packing hashes it anyway, to compare: to know the id before would be to hash it twice.
        let effort = match self.effort(role, bytes.len()) {
            Effort::Fast => Effort::Stream,
            other => other,
        };
        let record = record::encode(Kind::Chunk, 0, bytes, Packing::Zstd(effort))?;
        let id = record::id(&record)?;
        if !self.claim(&id) {
            self.shared().spool.add(self.store, Kind::Chunk, &record, Body::Object)?;
        }
        Ok(id)
    }
}

impl Writer<'_> {
    /// Whether an object is there already, or is being put; from now on it is.
    fn claim(&self, id: &ObjectId) -> bool {
        {
            let shared = self.shared();
            if shared.own.contains(id) || shared.reused.contains(id) {
                return true;
            }
        }
        if !self.store_is_empty && self.holds(id) {
            self.shared().reused.insert(*id);
            return true;
        }
        !self.shared().own.insert(*id)
    }

    /// Whether the store has an object already.
    fn holds(&self, id: &ObjectId) -> bool {
        match self.distrusts {
            true => self.store.get(id).is_ok(),
            false => self.store.stands(id),
        }
    }

    fn shared(&self) -> std::sync::MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A run in a store that is damaged: an object counts as stored only if it can be read. What
    /// cannot is stored again, beside the record that is damaged.
    #[must_use]
    pub fn distrusting(mut self, distrusts: bool) -> Self {
        self.distrusts = distrusts;
        self
    }

    /// Notes objects that this run refers to without having put them. If gc ran meanwhile, they and
    /// all that they refer to are looked up again. What they refer to when this is called must be
    /// in the store: they belong to a checkpoint that is not deleted.
    pub fn reuse(&self, ids: impl IntoIterator<Item = ObjectId>) {
        self.shared().roots.extend(ids);
    }

    /// Adds a record to the run ahead of its commit, so that little is left to do under the lock. It
    /// counts with the commit, like everything else.
    pub fn add(&self, new: NewRecord) -> Result<()> {
        let (kind, record, body) = self.store.encode_new(new)?;
        self.shared().spool.add(self.store, kind, &record, body)
    }

    /// Takes an object whole, whether or not the store seems to hold it: a repair knows better.
    pub(crate) fn put_again(&self, bytes: &[u8]) -> Result<ObjectId> {
        let id = id_of(bytes);
        if self.shared().own.insert(id) {
            if bytes.len() >= BLOCK_TARGET {
                self.put_chunk(Role::Content, &id, bytes)?;
            } else {
                self.flush(&[Item { id, birth: 0, form: Form::Shared(bytes.to_vec()) }])?;
            }
        }
        Ok(id)
    }

    /// The object as a difference to `base`, if that is worth it.
    fn against(
        &self,
        role: Role,
        id: &ObjectId,
        bytes: &[u8],
        base: &ObjectId,
    ) -> Result<Option<Form>> {
        if self.shared().own.contains(base) {
            // A base must be older than what is stored against it, or chains could be circles.
            return Ok(None);
        }
        let (former, depth) = self.store.get_with_depth(base)?;
        if depth >= DEPTH_MAX {
            return Ok(None);
        }
        let frame = codec::compress_against(bytes, &former, self.effort(role, bytes.len()))?;
        // Forty bytes of table and a chain to follow must be worth it.
        if frame.len() + 64 > bytes.len() / 2 {
            return Ok(None);
        }
        let again = codec::decompress_against(&frame, bytes.len() as u64, &former)?;
        if id_of(&again) != *id {
            return Err(Error::Damaged("an object changed while it was packed".into()));
        }
        self.shared().reused.insert(*base);
        let length = bytes.len() as u64;
        Ok(Some(Form::Against { base: *base, depth: depth + 1, length, frame }))
    }

    /// How hard these bytes are compressed, which count from now on.
    fn effort(&self, role: Role, raw: usize) -> Effort {
        let mut shared = self.shared();
        shared.raw += raw;
        match shared.raw <= NORMAL_EFFORT_MAX && !self.store_is_empty {
            true => Effort::Normal,
            false if role == Role::Bulk => Effort::Bulk,
            false => Effort::Fast,
        }
    }

    /// A large object is a record of its own.
    fn put_chunk(&self, role: Role, id: &ObjectId, bytes: &[u8]) -> Result<()> {
        let packing = Packing::Zstd(self.effort(role, bytes.len()));
        let record = record::encode_as(id, Kind::Chunk, 0, bytes, packing)?;
        self.shared().spool.add(self.store, Kind::Chunk, &record, Body::Object)
    }

    fn flush(&self, items: &[Item]) -> Result<()> {
        if items.is_empty() {
            return Ok(());
        }
        let raw = |item: &Item| match &item.form {
            Form::Shared(bytes) => bytes.len(),
            Form::Against { .. } => 0,
        };
        let effort = self.effort(Role::Content, items.iter().map(raw).sum());
        let payload = block::encode(items, effort)?;
        let record = record::encode(Kind::Block, 0, &payload, Packing::Raw)?;
        let ids = items.iter().map(|item| item.id).collect();
        self.shared().spool.add(self.store, Kind::Block, &record, Body::Objects(ids))
    }

    /// Ends the run: everything put so far, and the records that `make` returns, become one commit.
    /// `make` runs under the lock and must be quick. [`Error::Moved`] means that gc took something
    /// that the run refers to: nothing was committed, and the work has to be done again.
    pub fn commit(
        self,
        make: impl FnOnce(&mut Moment<'_>) -> Result<Vec<NewRecord>>,
    ) -> Result<Committed> {
        // What the threads have left over shares a block, if it is not too much for one.
        let mut rest = Builder::default();
        for (number, builder) in self.builders.iter().enumerate() {
            let part = std::mem::take(&mut *builder.lock().unwrap_or_else(PoisonError::into_inner));
            if number == STRUCTURE + 1 || rest.raw + part.raw > BLOCK_TARGET {
                self.flush(&rest.items)?;
                rest = Builder::default();
            }
            rest.items.extend(part.items);
            rest.raw += part.raw;
        }
        self.flush(&rest.items)?;
        let Shared { own, mut reused, mut roots, mut spool, .. } =
            std::mem::take(&mut *self.shared());
        reused.retain(|id| !own.contains(id));
        roots.retain(|id| !own.contains(id));
        if let Err(error) = spool.settle(self.store) {
            spool.discard(self.store);
            return Err(error);
        }
        let new_bytes = spool.written + spool.bytes.len() as u64;

        let (mut lock, tail) =
            match self.store.agree(self.generation, &reused, &roots, |index, sequence| {
                make(&mut Moment { index, sequence, new_bytes })
            }) {
                Ok((lock, tail, records)) => {
                    for new in records {
                        let (kind, record, body) = self.store.encode_new(new)?;
                        spool.add(self.store, kind, &record, body)?;
                    }
                    (lock, tail)
                }
                Err(error) => {
                    spool.discard(self.store);
                    return Err(error);
                }
            };
        let sequence = tail.sequence + 1;
        let change = Change { generation: tail.generation, ..Change::default() };
        let (entries, commit, position) =
            self.store.append(&mut lock, &tail, spool, change, Space::Ordinary)?;
        drop(lock);
        // From here on it is durable. The index is a view: failing to bring it up to date is not
        // failing to save, because the next process catches up from the log.
        let _ = self.store.with_index(|index| {
            index.apply_own(&entries, &commit, &position, tail.indexed_sequence())
        });
        Ok(Committed { sequence, new_bytes })
    }
}

impl Drop for Writer<'_> {
    /// A run that ends without a commit, because the disk is full or the user asked to stop, gives
    /// its space back at once.
    fn drop(&mut self) {
        std::mem::take(&mut *self.shared()).spool.discard(self.store);
    }
}

impl Spool {
    /// A spool of bulk packs that are ready, with what they hold.
    pub(crate) fn of(sealed: Vec<Sealed>, entries: Vec<Entry>) -> Self {
        Self { entries, sealed, ..Self::default() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Removes the bulk packs of a run that will not be committed.
    pub(crate) fn discard(self, store: &Store) {
        let sealed = self.sealed.iter().map(Sealed::path);
        for path in sealed.chain(self.bulk.as_ref().map(PackWriter::path)) {
            // What stays behind is a leftover that gc takes.
            let _ = disk::unlink(&*store.disk, path);
        }
    }

    pub(crate) fn add(
        &mut self,
        store: &Store,
        kind: Kind,
        record: &[u8],
        body: Body,
    ) -> Result<()> {
        self.add_born(store, kind, record, body, 0)
    }

    /// Adds a record that says with which commit it was born; 0 is the one to come.
    pub(crate) fn add_born(
        &mut self,
        store: &Store,
        kind: Kind,
        record: &[u8],
        body: Body,
        birth: u64,
    ) -> Result<()> {
        let id = record::id(record)?;
        if self.bulk.is_none() && self.bytes.len() + record.len() > store.limits.run_max {
            self.spill(store)?;
        }
        let (pack, offset) = match &mut self.bulk {
            Some(bulk) => {
                let offset = bulk.append(record)?;
                self.written += record.len() as u64;
                (bulk.id, offset)
            }
            None => {
                self.bytes.extend_from_slice(record);
                (IN_RUN, (self.bytes.len() - record.len()) as u64)
            }
        };
        self.entries.push(Entry { pack, offset, kind, id, birth, body });
        if self.bulk.as_ref().is_some_and(|bulk| bulk.length() >= store.limits.pack_target)
            && let Some(bulk) = self.bulk.take()
        {
            self.keep(bulk.seal(None)?);
        }
        Ok(())
    }

    /// Keeps a sealed pack until it is committed. A run of many gigabytes has more of them than a
    /// process may have open files.
    fn keep(&mut self, mut sealed: Sealed) {
        if self.sealed.len() >= Sealed::HELD {
            sealed.let_go();
        }
        self.sealed.push(sealed);
    }

    /// Moves what waits in memory to a bulk pack; what follows goes there directly.
    fn spill(&mut self, store: &Store) -> Result<()> {
        store.check_space(self.bytes.len() as u64 * 2, Space::Ordinary)?;
        let mut bulk = PackWriter::bulk(&store.disk, &store.home.packs(), store.home.id)?;
        let offset = bulk.append(&self.bytes)?;
        for entry in self.entries.iter_mut().filter(|entry| entry.pack == IN_RUN) {
            entry.pack = bulk.id;
            entry.offset += offset;
        }
        self.written += self.bytes.len() as u64;
        self.bytes.clear();
        self.bulk = Some(bulk);
        Ok(())
    }

    /// Seals and syncs the bulk packs, so that only the short run is left for the lock.
    pub fn settle(&mut self, store: &Store) -> Result<()> {
        if let Some(bulk) = self.bulk.take() {
            self.keep(bulk.seal(None)?);
        }
        if self.sealed.is_empty() {
            return Ok(());
        }
        disk::sync_dir(&*store.disk, &store.home.packs())
    }
}

impl Store {
    /// Takes the lock, makes sure that what a run refers to is still there, and has its records
    /// made.
    fn agree(
        &self,
        mut generation: u64,
        reused: &HashSet<ObjectId>,
        roots: &HashSet<ObjectId>,
        make: impl FnOnce(&mut Index, u64) -> Result<Vec<NewRecord>>,
    ) -> Result<(Lock, Tail, Vec<NewRecord>)> {
        // What gc did until now is looked at before the lock, so that little is left for it.
        let now = self.with_index(|index| {
            index.reload()?;
            Ok(index.generation())
        })?;
        if generation != now {
            self.look_again(reused, roots)?;
            generation = now;
        }
        let mut lock = self.lock()?;
        let tail = self.catch_up(&mut lock)?;
        if generation != tail.generation {
            self.look_again(reused, roots)?;
        }
        let sequence = tail.sequence + 1;
        let (records, _) =
            self.with_index_once(|index| index.at_one_moment(|index| make(index, sequence)))?;
        Ok((lock, tail, records))
    }

    /// Fails with [`Error::Moved`] if gc took one of these objects: `reused` count by themselves,
    /// `roots` with all that they refer to.
    fn look_again(&self, reused: &HashSet<ObjectId>, roots: &HashSet<ObjectId>) -> Result<()> {
        if !reused.iter().all(|id| self.stands(id)) {
            return Err(Error::Moved);
        }
        let mut closure = Closure::default();
        for id in roots {
            closure.add(Reference::Unknown(*id));
        }
        match closure.follow(self, &mut |id| self.stands(id)) {
            true => Ok(()),
            false => Err(Error::Moved),
        }
    }

    pub(crate) fn check_space(&self, needed: u64, space: Space) -> Result<()> {
        let free = self.home.free_space()?;
        let wanted = needed + if space == Space::Urgent { 0 } else { MARGIN };
        if free < wanted {
            let path = self.home.root().to_owned();
            return Err(Error::NoSpace { path, missing: wanted - free });
        }
        Ok(())
    }

    pub(crate) fn encode_new(&self, new: NewRecord) -> Result<(Kind, Vec<u8>, Body)> {
        match new {
            NewRecord::Manifest { manifest, base } => {
                let json = serde_json::to_vec(&manifest)
                    .map_err(|error| Error::Damaged(format!("manifest: {error}")))?;
                let former = base
                    .and_then(|base| Some((base, self.get_with_depth(&base).ok()?)))
                    .filter(|(_, (_, depth))| *depth < DEPTH_MAX)
                    .map(|(base, (bytes, _))| (base, bytes));
                let packing = match &former {
                    Some((base, bytes)) => Packing::Against(base, bytes),
                    None => Packing::Zstd(Effort::Normal),
                };
                let record = record::encode(Kind::Manifest, 0, &json, packing)?;
                Ok((Kind::Manifest, record, Body::Manifest(Box::new(Outline::of(&manifest)))))
            }
            NewRecord::Document { kind, key, json } => {
                let payload = encode_document(&key, &json);
                let record = record::encode(kind, 0, &payload, Packing::Zstd(Effort::Normal))?;
                Ok((kind, record, Body::Document { key, json }))
            }
        }
    }
}
