//! Appending to the log: which pack a run goes to, in which order it becomes durable, and what
//! happens when that fails. Everything here runs under the append lock.

use crate::codec::Effort;
use crate::disk;
use crate::error::{Error, Result};
use crate::index::Entry;
use crate::lock::{Broken, Lock};
use crate::log::{COMMIT_VERSION, Commit, Named, Position, Tail, home_text, run_hash};
use crate::pack::{LOG_MAX, Line, PackHeader, PackId, PackReader, PackWriter, Sealed};
use crate::record::{self, Kind, Packing};
use crate::sink::id_of;
use crate::store::Store;
use crate::writer::{IN_RUN, Spool};

/// What a commit says besides what its run holds: gc's part.
#[derive(Debug, Default)]
pub(crate) struct Change {
    pub generation: u64,
    pub retired: Vec<PackId>,
    pub adopted: Vec<Named>,
    pub kept: Vec<u64>,
}

/// How close to a full disk something may be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Space {
    /// A margin stays free.
    Ordinary,
    /// What gives space back may use the last of it.
    Urgent,
}

impl Store {
    /// Appends a run to the log and syncs it. Under the lock; `tail` is how the log ends now.
    pub(crate) fn append_run(
        &self,
        lock: &mut Lock,
        tail: &Tail,
        run: &[u8],
        commit: &Commit,
        space: Space,
    ) -> Result<Position> {
        let json = serde_json::to_vec(commit)
            .map_err(|error| Error::Damaged(format!("commit: {error}")))?;
        let record = record::encode(Kind::Commit, 0, &json, Packing::Zstd(Effort::Normal))?;
        let id = id_of(&json);
        let mut bytes = Vec::with_capacity(run.len() + record.len());
        bytes.extend_from_slice(run);
        bytes.extend_from_slice(&record);
        self.check_space(bytes.len() as u64, space)?;

        let mut pack = self.open_pack(lock, tail, bytes.len() as u64)?;
        let written = pack.append(&bytes).and_then(|start| {
            pack.sync()?;
            if start == crate::pack::HEADER {
                // Whoever created the pack may have died before its name was durable.
                disk::sync_dir(&*self.disk, &self.home.packs())?;
            }
            Ok(start)
        });
        let start = match written {
            Ok(start) => start,
            Err(error) => {
                self.leave_behind(lock, &pack, tail);
                return Err(error);
            }
        };
        let PackId::Log(number) = pack.id else {
            return Err(Error::Damaged("the log's pack is none".into()));
        };
        let offset = start + run.len() as u64;
        let position = Position {
            pack: number,
            offset,
            end: offset + record.len() as u64,
            id,
            sequence: commit.sequence,
            generation: commit.generation,
        };
        lock.set_reached(self.home.id, &position);
        Ok(position)
    }

    /// The pack that the next run goes to: the open one, or a new one where that is full, closed
    /// by a torn run, or left behind by a failed sync.
    fn open_pack(&self, lock: &mut Lock, tail: &Tail, needed: u64) -> Result<PackWriter> {
        let broken = lock.broken();
        if let Some(number) = tail.pack {
            let usable = tail.open && broken.is_none_or(|(pack, _)| pack != number);
            let full =
                tail.end > crate::pack::HEADER && tail.end + needed > self.limits.pack_target;
            if usable && !full {
                let packs = self.home.packs();
                return PackWriter::open(&self.disk, &packs, PackId::Log(number), tail.end);
            }
            if usable && full {
                self.seal_log(number, tail.end)?;
            }
        }
        let pack = self.new_log_pack(tail)?;
        if broken.is_some() {
            lock.set_broken(None)?;
        }
        Ok(pack)
    }

    fn seal_log(&self, number: u64, end: u64) -> Result<()> {
        let id = PackId::Log(number);
        let reader = self.pack(id)?;
        let lines = match lines_in_order(&reader, end)? {
            Some(lines) => lines,
            // Something is damaged: what is intact lies anywhere.
            None => {
                let bytes = reader.read(crate::pack::HEADER, end - crate::pack::HEADER)?;
                let line = |found: &record::Found| {
                    let offset = crate::pack::HEADER + found.at as u64;
                    Line::of(&bytes[found.at..found.end()], offset)
                };
                record::all(&bytes, 0).iter().map(line).collect()
            }
        };
        PackWriter::open(&self.disk, &self.home.packs(), id, end)?.seal(Some(lines))?;
        Ok(())
    }

    fn new_log_pack(&self, tail: &Tail) -> Result<PackWriter> {
        let number = tail.pack.unwrap_or(0) + 1;
        if number > LOG_MAX {
            // Written under a longer name, it would be found by nobody.
            let packs = self.home.packs();
            return Err(Error::Damaged(format!(
                "{} has a pack of an absurd number",
                packs.display()
            )));
        }
        let (previous_pack, previous_end) = tail.reach;
        let header = PackHeader { home: self.home.id, previous_pack, previous_end };
        let id = PackId::Log(number);
        let packs = self.home.packs();
        let pack = PackWriter::create(&self.disk, &packs, id, header)?;
        pack.sync()?;
        disk::sync_dir(&*self.disk, &packs)?;
        Ok(pack)
    }

    /// After a failed write or sync nobody may append behind the hole: a new pack takes its place,
    /// and says where the log ends. If that fails too, a note in the lock file keeps the next
    /// writer from it.
    fn leave_behind(&self, lock: &mut Lock, pack: &PackWriter, tail: &Tail) {
        let PackId::Log(number) = pack.id else { return };
        let after = Tail { pack: Some(number), ..tail.clone() };
        if self.new_log_pack(&after).is_err() {
            let end = if tail.reach.0 == number { tail.reach.1 } else { crate::pack::HEADER };
            // Best effort: if even this fails, the disk is gone and so is the lock file.
            let _ = lock.set_broken(Some((number, end)));
        }
    }

    /// Appends a spool as one run; gives back what the index has to take in.
    pub(crate) fn append(
        &self,
        lock: &mut Lock,
        tail: &Tail,
        mut spool: Spool,
        change: Change,
        space: Space,
    ) -> Result<(Vec<Entry>, Commit, Position)> {
        // What was made under the lock may have been too much for the run after all.
        spool.settle(self)?;
        // Gc unlinks what a writer left behind under this very lock. It may have taken this one's
        // packs for that: the machine may have slept for a day.
        if !spool.sealed.iter().all(Sealed::is_there) {
            spool.discard(self);
            return Err(Error::Moved);
        }
        let sequence = tail.sequence + 1;
        let mut checksums = Vec::new();
        let mut at = 0;
        while let Some(header) = record::Header::parse(&spool.bytes[at..]) {
            checksums.push(header.checksum);
            at += header.length() as usize;
        }
        let mut packs: Vec<Named> = spool.sealed.iter().map(Sealed::named).collect();
        packs.extend(change.adopted);
        let commit = Commit {
            version: COMMIT_VERSION,
            home: home_text(self.home.id),
            sequence,
            generation: change.generation,
            at: self.clock.now(),
            previous: tail.previous,
            length: spool.bytes.len() as u64,
            hash: run_hash(checksums.iter()),
            packs,
            retired: change.retired,
            kept: change.kept,
        };
        let position = self.append_run(lock, tail, &spool.bytes, &commit, space)?;
        let start = position.offset - spool.bytes.len() as u64;
        for entry in &mut spool.entries {
            if entry.pack == IN_RUN {
                entry.pack = PackId::Log(position.pack);
                entry.offset += start;
            }
            if entry.birth == 0 {
                entry.birth = sequence;
            }
        }
        Ok((spool.entries, commit, position))
    }
}

/// The records of a pack one after the other, a part of it in memory at a time; `None` if one is not intact.
fn lines_in_order(reader: &PackReader, end: u64) -> Result<Option<Vec<Line>>> {
    let mut lines = Vec::new();
    let (mut start, mut window) = (crate::pack::HEADER, SEAL_WINDOW);
    while start < end {
        let length = window.min(end - start);
        let bytes = reader.read(start, length)?;
        let mut at = 0;
        while let Some(found) = record::at(&bytes, at) {
            lines.push(Line::of(&bytes[found.at..found.end()], start + found.at as u64));
            at = found.end();
        }
        let rest = length - at as u64;
        let claimed = record::Header::parse(&bytes[at..]).map(|header| header.length());
        let cut = start + length < end && claimed.is_none_or(|claimed| claimed > rest);
        if rest > 0 && (!cut || window >= end) {
            return Ok(None);
        }
        window = if at == 0 { window * 2 } else { SEAL_WINDOW };
        start += at as u64;
    }
    Ok(Some(lines))
}

/// How much of a pack that is sealed is in memory at a time.
const SEAL_WINDOW: u64 = 4 << 20;
