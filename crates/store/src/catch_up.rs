//! Keeping the index up with the log, and building it anew from nothing but the packs.

use std::collections::HashSet;

use crate::block::Block;
use crate::disk;
use crate::error::{Error, Result};
use crate::index::{Body, Entry, Index};
use crate::lock::{Broken, Lock, Reached};
use crate::log::{self, Run, Tail};
use crate::outline::Outline;
use crate::pack::{PackId, PackReader};
use crate::record::{self, Kind};
use crate::store::{GUESS, Store, decode_document, held};

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
    fn take(&mut self, pack: PackId, offset: u64, record: &[u8], sequence: u64) -> Result<()> {
        match self.store.entry(pack, offset, record, sequence) {
            Ok(entry) => self.entries.extend(entry),
            Err(Error::Missing(_)) => self.waiting.push(Waiting { pack, offset, sequence }),
            Err(error) => self.store.note_failure(&format!("{pack} at {offset}: "), error)?,
        }
        Ok(())
    }
}

impl Store {
    /// Takes everything into the index that the log holds and it does not know, and writes down what
    /// the log turns out to have lost. Returns how the log ends.
    pub(crate) fn catch_up(&self, lock: &mut Lock) -> Result<Tail> {
        let tail = self.take_in_log(lock)?;
        match self.write_down_losses(lock, &tail) {
            Ok(true) => self.take_in_log(lock),
            // If that failed, the index keeps it in mind, and whoever is next tries again.
            Ok(false) | Err(_) => Ok(tail),
        }
    }

    /// The first half of [`Store::catch_up`], which is all that can be done where nothing can be
    /// written.
    pub(crate) fn take_in_log(&self, lock: &dyn Broken) -> Result<Tail> {
        let (known, incomplete) = self.with_index(|index| {
            index.reload()?;
            Ok((index.position()?, index.is_incomplete()?))
        })?;
        let acknowledged = self.acknowledged()?;
        let packs = self.home.packs();
        let from = match &known {
            Some(position) if !incomplete && log::confirm(&packs, position)? => Some(position),
            _ => None,
        };
        let rebuild = from.is_none();
        if rebuild {
            self.with_index(Index::clear)?;
        }
        if self.read_only.is_none() {
            self.sync_tail(from)?;
        }
        let knowledge = log::Known {
            home: self.home.id,
            from,
            acknowledged: acknowledged.as_ref(),
            broken: lock.broken(),
        };
        let mut waiting = Vec::new();
        let walked = log::walk(&packs, knowledge, &mut |run| {
            let before = waiting.len();
            let entries = self.entries(&run, &mut waiting)?;
            self.with_index(|index| {
                if waiting.len() > before {
                    index.set_incomplete()?;
                }
                index.apply(&entries, run.commit.as_ref(), run.position.as_ref())
            })
        })?;
        self.note_damage(walked.damage.iter().map(ToString::to_string));
        if rebuild || !waiting.is_empty() {
            self.take_in_waiting(waiting)?;
            self.with_index(|index| index.complete())?;
        }
        if rebuild {
            if let Some(position) = known.as_ref().filter(|_| !incomplete) {
                self.note_replaced(position, &walked)?;
            }
            self.note_missing_packs()?;
            self.sift_suspects()?;
            self.with_index(|index| {
                index.empty_wal();
                Ok(())
            })?;
        }
        if !held(&self.damage).is_empty() {
            // The next process reads only on from here, and must know all the same.
            self.with_index(|index| index.set_note("damage", 1))?;
        }
        Ok(walked.tail)
    }

    /// The last commit that is known to have been durable, by the index or by the note in the lock
    /// file. Each can be lost without the other.
    pub(crate) fn acknowledged(&self) -> Result<Option<log::Position>> {
        let noted = self.reached()?.and_then(|reached| reached.commit);
        let indexed = self.with_index(|index| index.acknowledged())?;
        Ok(indexed.into_iter().chain(noted).max_by_key(|position| position.sequence))
    }

    /// What the last writer has noted of the log.
    pub(crate) fn reached(&self) -> Result<Option<Reached>> {
        Reached::read(&self.home.lock(), self.home.id)
    }

    fn note_damage(&self, found: impl Iterator<Item = String>) {
        let mut damage = held(&self.damage);
        for one in found {
            if !damage.contains(&one) {
                damage.push(one);
            }
        }
    }

    /// Notes as damage that another commit stands where one was known to be, in a log that is whole
    /// otherwise: somebody has replaced it.
    fn note_replaced(&self, position: &log::Position, walked: &log::Walked) -> Result<()> {
        let pack = PackId::Log(position.pack);
        let rows = self.with_index(|index| index.packs())?;
        let retired = rows.iter().any(|row| row.pack == pack && row.retired_at.is_some());
        let explained = walked.damage.iter().any(|damage| damage.pack == pack);
        if !retired && !explained && pack.path(&self.home.packs()).exists() {
            let (sequence, offset) = (position.sequence, position.offset);
            let what =
                format!("{pack}: commit {sequence} at {offset} was there and is not any more");
            self.note_damage(std::iter::once(what));
        }
        Ok(())
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
                        self.with_index(|index| index.apply(entry.as_slice(), None, None))?;
                    }
                    Err(Error::Missing(_)) => still.push(Waiting { pack, offset, sequence }),
                    Err(error) => self.note_failure(&format!("{pack} at {offset}: "), error)?,
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

    /// Notes what is damaged. An error that says nothing about what is stored is none of that: an
    /// index without what could not be read must not count as complete.
    fn note_failure(&self, place: &str, error: Error) -> Result<()> {
        if !error.is_about_content() {
            return Err(error);
        }
        self.note_damage(std::iter::once(format!("{place}{error}")));
        Ok(())
    }

    /// The records of a run, as the index takes them in. What is damaged is noted.
    fn entries(&self, run: &Run<'_>, waiting: &mut Vec<Waiting>) -> Result<Vec<Entry>> {
        let mut taken = Taken { store: self, entries: Vec::new(), waiting };
        for named in run.commit.iter().flat_map(|commit| &commit.packs) {
            let birth = named.birth.unwrap_or(run.sequence);
            if let Err(error) = self.bulk_entries(named, birth, &mut taken) {
                self.note_failure("", error)?;
            }
        }
        for found in &run.records {
            let offset = run.bytes_at + found.at as u64;
            let record = &run.bytes[found.at..found.end()];
            taken.take(PackId::Log(run.pack), offset, record, run.sequence)?;
        }
        Ok(taken.entries)
    }

    fn bulk_entries(&self, named: &log::Named, birth: u64, taken: &mut Taken<'_>) -> Result<()> {
        let reader = match self.pack(named.pack) {
            Ok(reader) => reader,
            // Retired and unlinked since, as a later commit says; or it is noted as missing.
            Err(error) if error.is_not_found() => return Ok(()),
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
                Ok(record) => taken.take(named.pack, line.offset, &record, birth)?,
                Err(error) => self.note_failure("", error)?,
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
            taken.take(reader.id, found.at as u64, &bytes[found.at..found.end()], birth)?;
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
            let base = header.base().map(|base| self.get_known(base)).transpose()?;
            header.decode(payload, base.as_ref().map(|(bytes, _)| &**bytes))
        };
        let body = match kind {
            Kind::Block => {
                Body::Objects(Block::parse(payload)?.slots.iter().map(|slot| slot.id).collect())
            }
            Kind::Chunk => Body::Object,
            Kind::Manifest => Body::Manifest(Box::new(Outline::decode(&json()?)?)),
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
}
