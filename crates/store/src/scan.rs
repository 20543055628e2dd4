//! Reading the packs themselves. Gc and verify decide by what stands there, never by the index:
//! a view that is wrong must not cost anything that is not.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use rappel_types::ObjectId;

use crate::block::Block;
use crate::document::{ADOPTED_PACKS, Loss};
use crate::error::{Error, Result};
use crate::index::Place;
use crate::log::{self, Damage, Known, Named, Position, Run, Tail};
use crate::pack::{self, Line, PackId, PackReader};
use crate::read::CHAIN_MAX;
use crate::record::{self, Header, Kind};
use crate::sink::Source;
use crate::store::{Store, decode_document};

/// How much of the packs is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Of large objects in sealed packs only the header.
    Tables,
    /// Every byte, compared with every checksum.
    Full,
}

/// One record of an object: there can be several for one id.
#[derive(Debug)]
pub(crate) struct Piece {
    pub id: ObjectId,
    pub base: Option<ObjectId>,
    pub place: Place,
    pub kind: Kind,
    pub birth: u64,
    /// Roughly what it takes in its pack.
    pub bytes: u64,
    next: Option<u32>,
}

/// A small document.
#[derive(Debug)]
pub(crate) struct Document {
    pub kind: Kind,
    pub key: String,
    pub json: String,
    pub id: ObjectId,
    pub birth: u64,
    pub pack: PackId,
    pub offset: u64,
    pub bytes: u64,
}

/// A manifest's record. Its bytes are read later: its base may lie behind it.
#[derive(Debug)]
pub(crate) struct ManifestRecord {
    pub object: ObjectId,
    pub birth: u64,
    pub pack: PackId,
    pub offset: u64,
    pub bytes: u64,
}

/// A pack that counts.
#[derive(Debug)]
pub(crate) struct PackInfo {
    pub length: u64,
    /// The lowest birth of anything in it.
    pub lowest: u64,
    /// How it was named; bulk packs only.
    pub named: Option<Named>,
}

/// A commit as it was found.
#[derive(Debug)]
pub(crate) struct CommitInfo {
    pub position: Position,
    pub previous: Option<ObjectId>,
}

/// A record that counts although its commit is damaged.
#[derive(Debug)]
pub(crate) struct Orphan {
    pub pack: PackId,
    pub offset: u64,
    pub birth: u64,
}

/// What the packs hold, up to a commit.
pub(crate) struct Scan<'s> {
    store: &'s Store,
    depth: Depth,
    pub packs: BTreeMap<PackId, PackInfo>,
    pub pieces: Vec<Piece>,
    first: HashMap<ObjectId, u32>,
    pub manifests: Vec<ManifestRecord>,
    pub documents: Vec<Document>,
    /// What could not be read.
    pub damage: Vec<Damage>,
    /// Whether a commit may have been there that could not be read.
    pub log_was_hurt: bool,
    /// When the home's first commit was made, if that is still there.
    pub begun_at: Option<i64>,
    /// What a later version wrote: nothing is wrong with it, but what it needs is not known.
    pub unknown: Vec<Damage>,
    /// Packs that commits have retired, and when the first of those commits that is still there was
    /// made, in milliseconds since the epoch.
    pub retired: HashMap<PackId, i64>,
    /// The log packs whose commits name a bulk pack, be it retired or not.
    pub named_in: HashMap<PackId, Vec<u64>>,
    pub commits: Vec<CommitInfo>,
    pub orphans: Vec<Orphan>,
    pub bytes: u64,
    pub sequence: u64,
    pub generation: u64,
    last: Option<Position>,
}

impl<'s> Scan<'s> {
    /// Reads what the log holds up to `tail`, which the caller has found under the lock.
    pub fn read(store: &'s Store, tail: &Tail, depth: Depth) -> Result<Self> {
        let mut scan = Self {
            store,
            depth,
            packs: BTreeMap::new(),
            pieces: Vec::new(),
            first: HashMap::new(),
            manifests: Vec::new(),
            documents: Vec::new(),
            damage: Vec::new(),
            log_was_hurt: false,
            begun_at: None,
            unknown: Vec::new(),
            retired: HashMap::new(),
            named_in: HashMap::new(),
            commits: Vec::new(),
            orphans: Vec::new(),
            bytes: 0,
            sequence: 0,
            generation: 0,
            last: None,
        };
        scan.advance(tail)?;
        Ok(scan)
    }

    /// Reads what was committed since, up to `tail`. Runs behind it may be on their way and not be
    /// synced, so they do not count yet.
    pub fn advance(&mut self, tail: &Tail) -> Result<()> {
        let packs = self.store.home().packs();
        let from = self.last.take();
        let acknowledged = self.store.acknowledged()?;
        let known = Known {
            home: self.store.home().id,
            from: from.as_ref(),
            acknowledged: acknowledged.as_ref(),
            broken: None,
        };
        let mut named: Vec<(Named, u64, u64)> = Vec::new();
        let mut retired: Vec<(PackId, i64)> = Vec::new();
        let walked = log::walk(&packs, known, &mut |run| {
            if run.sequence <= tail.sequence {
                self.take_run(&run, &mut named, &mut retired);
            }
            Ok(())
        })?;
        self.log_was_hurt |= !walked.damage.is_empty();
        for mut damage in walked.damage {
            if damage.birth == u64::MAX {
                damage.birth = tail.sequence;
            }
            if damage.birth <= tail.sequence {
                self.damage.push(damage);
            }
        }
        for number in log::numbers(&packs)? {
            let info = self.pack_info(PackId::Log(number));
            info.length = PackId::Log(number).path(&packs).metadata().map_or(0, |meta| meta.len());
        }
        for (pack, at) in retired {
            // A pack is listed as long as it exists; its grace runs from the first time.
            self.retired.entry(pack).or_insert(at);
        }
        for (named, log, sequence) in named {
            self.take_bulk(&named, log, sequence)?;
        }
        self.drop_retired();
        self.last.clone_from(&tail.last);
        self.sequence = tail.sequence;
        self.generation = tail.generation;
        Ok(())
    }

    fn pack_info(&mut self, pack: PackId) -> &mut PackInfo {
        self.packs.entry(pack).or_insert_with(|| PackInfo {
            length: 0,
            lowest: u64::MAX,
            named: None,
        })
    }

    fn take_run(
        &mut self,
        run: &Run<'_>,
        named: &mut Vec<(Named, u64, u64)>,
        retired: &mut Vec<(PackId, i64)>,
    ) {
        let pack = PackId::Log(run.pack);
        let info = self.pack_info(pack);
        info.lowest = info.lowest.min(run.sequence);
        for found in &run.records {
            let offset = run.bytes_at + found.at as u64;
            self.take(pack, offset, &run.bytes[found.at..found.end()], run.sequence);
            if run.commit.is_none() {
                let birth = if found.header.birth == 0 { run.sequence } else { found.header.birth };
                self.orphans.push(Orphan { pack, offset, birth });
            }
        }
        let (Some(commit), Some(position)) = (&run.commit, &run.position) else { return };
        let (position, previous) = (position.clone(), commit.previous);
        if run.sequence == 1 {
            self.begun_at = Some(commit.at.as_millis());
        }
        self.commits.push(CommitInfo { position, previous });
        for pack in &commit.packs {
            named.push((pack.clone(), run.pack, pack.birth.unwrap_or(run.sequence)));
        }
        retired.extend(commit.retired.iter().map(|pack| (*pack, commit.at.as_millis())));
    }

    fn take_bulk(&mut self, named: &Named, log: u64, birth: u64) -> Result<()> {
        let pack = named.pack;
        self.named_in.entry(pack).or_default().push(log);
        // It is named again where the pack of the first commit that did was retired.
        if self.retired.contains_key(&pack) || self.packs.contains_key(&pack) {
            return Ok(());
        }
        let info = self.pack_info(pack);
        info.named = Some(Named { birth: Some(birth), ..named.clone() });
        info.lowest = birth;
        match self.read_bulk(named, birth) {
            Ok(()) => {}
            Err(error @ Error::Newer { .. }) => {
                self.unknown.push(Damage { pack, birth, what: error.to_string() });
            }
            Err(error) if !is_about_disk(&error) => return Err(error),
            Err(error) => self.hurt(pack, birth, error.to_string()),
        }
        Ok(())
    }

    fn read_bulk(&mut self, named: &Named, birth: u64) -> Result<()> {
        let reader = PackReader::open(&self.store.home().packs(), named.pack)?;
        let length = reader.length()?;
        self.pack_info(named.pack).length = length;
        if reader.header.is_none() {
            self.hurt(named.pack, 0, "its header".into());
        }
        let footer = reader.footer().and_then(|footer| match footer {
            Some((lines, hash)) if hash == named.hash && length == named.length => Ok(lines),
            Some(_) => Err(Error::Damaged("it is not the pack that was named".into())),
            None => Err(Error::Damaged("its footer".into())),
        });
        match footer {
            Ok(lines) => {
                if self.depth == Depth::Full && !covers(&lines, &reader)? {
                    self.hurt(named.pack, birth, "its footer does not list all of it".into());
                }
                for line in lines {
                    match self.read_line(&reader, &line, birth) {
                        Err(error) if !is_about_disk(&error) => return Err(error),
                        Err(error) => self.hurt(named.pack, birth, error.to_string()),
                        Ok(()) => {}
                    }
                }
            }
            Err(error) if !is_about_disk(&error) => return Err(error),
            Err(error) => {
                self.hurt(named.pack, birth, error.to_string());
                let bytes = reader.read(0, length)?;
                for found in record::all(&bytes, pack::HEADER as usize) {
                    let record = &bytes[found.at..found.end()];
                    self.take(named.pack, found.at as u64, record, birth);
                }
            }
        }
        Ok(())
    }

    fn read_line(&mut self, reader: &PackReader, line: &Line, birth: u64) -> Result<()> {
        let damaged = || Error::Damaged(format!("the record at {}", line.offset));
        let large = line.kind == Kind::Chunk as u8 && self.depth == Depth::Tables;
        let bytes = match large {
            true => reader.read(line.offset, record::HEADER as u64)?,
            false => reader.record(line.offset, line.length)?,
        };
        let header = Header::parse(&bytes).ok_or_else(damaged)?;
        if header.checksum != line.checksum || header.length() != line.length {
            return Err(damaged());
        }
        self.take(reader.id, line.offset, &bytes, birth);
        Ok(())
    }

    /// Takes in a record, or only the header of one that is an object by itself.
    fn take(&mut self, pack: PackId, offset: u64, record: &[u8], sequence: u64) {
        let Some(header) = Header::parse(record) else { return };
        let birth = if header.birth == 0 { sequence } else { header.birth };
        let bytes = header.length();
        self.bytes += bytes;
        let info = self.pack_info(pack);
        info.lowest = info.lowest.min(birth);
        let payload = &record[record::HEADER..];
        let Some(kind) = header.kind else {
            let what = format!("a record of an unknown kind at {offset}");
            self.unknown.push(Damage { pack, birth: sequence, what });
            return;
        };
        match kind {
            Kind::Commit | Kind::Footer => {}
            Kind::Block => match Block::parse(payload) {
                Ok(block) => {
                    for (slot, line) in block.slots.iter().enumerate() {
                        let birth = if line.birth == 0 { birth } else { line.birth };
                        let place = Place { pack, offset, slot: Some(slot as u32) };
                        let base = line.base().copied();
                        self.add_piece(line.id, base, place, kind, birth, block.share(line));
                    }
                }
                Err(error) => self.not_understood(pack, offset, sequence, &error),
            },
            Kind::Chunk | Kind::Manifest => {
                let place = Place { pack, offset, slot: None };
                self.add_piece(header.id, header.base().copied(), place, kind, birth, bytes);
                if kind == Kind::Manifest {
                    let object = header.id;
                    self.manifests.push(ManifestRecord { object, birth, pack, offset, bytes });
                }
            }
            _ => match header.decode(payload, None).and_then(|json| decode_document(&json)) {
                Ok((key, json)) => {
                    let id = header.id;
                    self.documents.push(Document {
                        kind,
                        key,
                        json,
                        id,
                        birth,
                        pack,
                        offset,
                        bytes,
                    });
                }
                Err(error) => self.not_understood(pack, offset, sequence, &error),
            },
        }
    }

    fn not_understood(&mut self, pack: PackId, offset: u64, birth: u64, error: &Error) {
        let damage = Damage { pack, birth, what: format!("the record at {offset}: {error}") };
        match error {
            Error::Newer { .. } => self.unknown.push(damage),
            _ => self.damage.push(damage),
        }
    }

    pub fn hurt(&mut self, pack: PackId, birth: u64, what: String) {
        self.damage.push(Damage { pack, birth, what });
    }

    fn add_piece(
        &mut self,
        id: ObjectId,
        base: Option<ObjectId>,
        place: Place,
        kind: Kind,
        birth: u64,
        bytes: u64,
    ) {
        let info = self.pack_info(place.pack);
        info.lowest = info.lowest.min(birth);
        let number = self.pieces.len() as u32;
        let next = self.first.insert(id, number);
        self.pieces.push(Piece { id, base, place, kind, birth, bytes, next });
    }

    fn drop_retired(&mut self) {
        let retired = &self.retired;
        if !self.packs.keys().any(|pack| retired.contains_key(pack)) {
            return;
        }
        self.packs.retain(|pack, _| !retired.contains_key(pack));
        self.pieces.retain(|piece| !retired.contains_key(&piece.place.pack));
        self.manifests.retain(|record| !retired.contains_key(&record.pack));
        self.documents.retain(|document| !retired.contains_key(&document.pack));
        self.orphans.retain(|orphan| !retired.contains_key(&orphan.pack));
        self.damage.retain(|damage| !retired.contains_key(&damage.pack));
        self.unknown.retain(|damage| !retired.contains_key(&damage.pack));
        self.first.clear();
        for (number, piece) in self.pieces.iter_mut().enumerate() {
            piece.next = self.first.insert(piece.id, number as u32);
        }
    }

    /// Damage that no repair has looked at yet.
    pub fn unhealed(&self) -> impl Iterator<Item = &Damage> {
        let losses = self.documents.iter().filter(|document| document.kind == Kind::Loss);
        let healed: HashSet<&str> = losses.map(|document| &*document.key).collect();
        self.damage.iter().filter(move |found| !healed.contains(&*found.pack.to_string()))
    }

    /// Packs that a repair found without a log.
    pub fn adopted(&self) -> HashSet<PackId> {
        let about =
            |document: &&Document| document.kind == Kind::Loss && document.key == ADOPTED_PACKS;
        let last = self.documents.iter().filter(about).max_by_key(|document| document.birth);
        let loss = last.and_then(|document| serde_json::from_str::<Loss>(&document.json).ok());
        loss.map(|loss| loss.adopted.into_iter().collect()).unwrap_or_default()
    }

    /// The records of an object.
    pub fn pieces_of(&self, id: &ObjectId) -> impl Iterator<Item = (u32, &Piece)> {
        let mut next = self.first.get(id).copied();
        std::iter::from_fn(move || {
            let number = next?;
            let piece = &self.pieces[number as usize];
            next = piece.next;
            Some((number, piece))
        })
    }

    /// Whether a record of this object was found.
    pub fn holds(&self, id: &ObjectId) -> bool {
        self.first.contains_key(id)
    }

    pub fn find(&self, id: &ObjectId) -> Vec<Place> {
        self.pieces_of(id).map(|(_, piece)| piece.place).collect()
    }

    /// The bytes of an object as the record at one place gives them.
    pub fn read_piece(&self, piece: &Piece) -> Result<Arc<[u8]>> {
        let find = |id: &ObjectId| Ok(self.find(id));
        self.store.read_place(&piece.id, &piece.place, CHAIN_MAX, &find).map(|(bytes, _)| bytes)
    }
}

/// Whether an error tells of what is on the disk. To those who check everything, a place that the disk
/// cannot read any more is damage; too many open files are not.
fn is_about_disk(error: &Error) -> bool {
    let unreadable = |source: &std::io::Error| {
        source.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error())
    };
    error.is_about_content() || matches!(error, Error::Io { source, .. } if unreadable(source))
}

/// Whether a footer's lines follow each other from the header to the footer itself.
fn covers(lines: &[Line], reader: &PackReader) -> Result<bool> {
    let mut at = pack::HEADER;
    for line in lines {
        if line.offset != at {
            return Ok(false);
        }
        at += line.length;
    }
    let footer = reader.read(at, record::HEADER as u64)?;
    Ok(Header::parse(&footer).is_some_and(|header| header.kind == Some(Kind::Footer)))
}

impl Source for Scan<'_> {
    fn get(&self, id: &ObjectId) -> Result<Arc<[u8]>> {
        self.store.resolve(id, CHAIN_MAX, &|id| Ok(self.find(id))).map(|(bytes, _)| bytes)
    }
}
