//! The log: runs of records in numbered packs, each ended by a commit.
//!
//! Reading it is the same work for everybody: the writer that looks where the log ends, the index
//! that catches up, the rebuild and the check. All of them walk with [`walk`].

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use rappel_types::{ObjectId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::pack::{self, PackId, PackReader};
use crate::record::{self, Found, Kind};

/// The version of the commit record's JSON.
pub const COMMIT_VERSION: u32 = 1;

/// A file with an absurd number in its name makes no longer list of missing packs than this.
const MISSING_MAX: usize = 1000;

/// No sequence, length or the like is larger: more than could ever be, and what the index can hold.
pub const NUMBER_MAX: u64 = 1 << 62;

/// A bulk pack that counts from a commit on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Named {
    /// Which.
    pub pack: PackId,
    /// Its length.
    pub length: u64,
    /// The hash of its footer's list.
    pub hash: ObjectId,
    /// The commit that first named it, if that was an earlier one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub birth: Option<u64>,
}

/// What ends a run and makes it count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Commit {
    /// See [`COMMIT_VERSION`].
    pub version: u32,
    /// The home it was made in, as sixteen hexadecimal digits: a pack may hold a copy of another
    /// home's pack, whose commits must not count when they come to light by damage.
    pub home: String,
    /// Its place in the order of everything, from 1, without gaps.
    pub sequence: u64,
    /// How often gc had taken something away when this was written.
    pub generation: u64,
    /// When, for people; order is the sequence.
    pub at: Timestamp,
    /// The commit record before it.
    pub previous: Option<ObjectId>,
    /// Length of the run before this record.
    pub length: u64,
    /// BLAKE3 over the checksums of the run's records, in order.
    pub hash: ObjectId,
    /// Bulk packs that count from here on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub packs: Vec<Named>,
    /// Packs whose living records have been copied elsewhere; they are unlinked after a grace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub retired: Vec<PackId>,
    /// With `retired`: the numbers of the earlier log packs that are not retired. Any other number
    /// below this commit's pack may be missing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<u64>,
}

/// A home's id as commits carry it.
pub fn home_text(home: u64) -> String {
    format!("{home:016x}")
}

impl Commit {
    /// Reads a commit record's JSON.
    pub fn decode(json: &[u8]) -> Result<Self> {
        #[derive(Deserialize)]
        struct Version {
            version: u32,
        }
        let bad = |error: serde_json::Error| Error::Damaged(format!("commit record: {error}"));
        let Version { version } = serde_json::from_slice(json).map_err(bad)?;
        if version > COMMIT_VERSION {
            let what = "a commit".into();
            return Err(Error::Newer { what, found: version, supported: COMMIT_VERSION });
        }
        let commit: Self = serde_json::from_slice(json).map_err(bad)?;
        let packs = commit.packs.iter().flat_map(|named| [named.length, named.birth.unwrap_or(0)]);
        let numbers = [commit.sequence, commit.generation, commit.length];
        if numbers.into_iter().chain(packs).any(|number| number > NUMBER_MAX) {
            return Err(Error::Damaged("commit record: a number is out of range".into()));
        }
        Ok(commit)
    }
}

/// The hash that a commit gives its run.
pub fn run_hash<'a>(checksums: impl Iterator<Item = &'a [u8; 16]>) -> ObjectId {
    let mut hasher = blake3::Hasher::new();
    checksums.for_each(|checksum| {
        hasher.update(checksum);
    });
    ObjectId(*hasher.finalize().as_bytes())
}

/// Where a commit record is, and what it says about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// The log pack.
    pub pack: u64,
    /// Where the commit record begins.
    pub offset: u64,
    /// Where it ends: the next run begins here.
    pub end: u64,
    /// The record's id.
    pub id: ObjectId,
    /// The commit's sequence.
    pub sequence: u64,
    /// The commit's generation.
    pub generation: u64,
}

/// A run as it was found.
pub struct Run<'a> {
    /// The log pack it is in.
    pub pack: u64,
    /// The bytes of that pack that were read, and where in the pack they begin.
    pub bytes: &'a [u8],
    /// See `bytes`.
    pub bytes_at: u64,
    /// Its intact records, without the commit.
    pub records: Vec<Found>,
    /// Its place in the order of everything; a guess if its commit is damaged.
    pub sequence: u64,
    /// Whether something in it is damaged.
    pub hurt: bool,
    /// Its commit; `None` if that record is damaged but a later commit proves that it was there.
    pub commit: Option<Commit>,
    /// Where its commit is; of no use if there is none.
    pub position: Option<Position>,
}

/// How the log ends.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tail {
    /// The newest log pack, if there is any.
    pub pack: Option<u64>,
    /// Where its last commit ends.
    pub end: u64,
    /// Whether the next run may be appended there: not sealed, and nothing follows.
    pub open: bool,
    /// The last commit of all that can be read.
    pub last: Option<Position>,
    /// The commit record that the next one follows: the last one, if nothing behind it is lost.
    pub previous: Option<ObjectId>,
    /// How far the log counts: a pack and a place in it. Behind `last` if a run that was
    /// acknowledged has lost its commit.
    pub reach: (u64, u64),
    /// The highest sequence that has been given.
    pub sequence: u64,
    /// How often gc has taken something away.
    pub generation: u64,
}

impl Tail {
    /// The sequence that an index which has taken in all of this is at.
    pub fn indexed_sequence(&self) -> u64 {
        self.last.as_ref().map_or(0, |last| last.sequence)
    }
}

/// A place in a pack that is not as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The pack.
    pub pack: PackId,
    /// What may have been lost there was born with this commit or before.
    pub birth: u64,
    /// What is wrong, for people; without the pack's name.
    pub what: String,
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.pack, self.what)
    }
}

/// What a walk found besides the runs.
#[derive(Debug, Default)]
pub struct Walked {
    /// How the log ends.
    pub tail: Tail,
    /// What is damaged.
    pub damage: Vec<Damage>,
}

/// The commit at a remembered position, if it is still what stands there.
pub fn confirm(packs: &Path, position: &Position) -> Result<bool> {
    let reader = match PackReader::open(packs, PackId::Log(position.pack)) {
        Ok(reader) => reader,
        Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
            return Ok(false);
        }
        Err(error) => return Err(error),
    };
    match reader.record(position.offset, position.end - position.offset) {
        Ok(bytes) => Ok(record::Header::parse(&bytes).is_some_and(|header| {
            header.kind == Some(Kind::Commit)
                && header.id == position.id
                && position.offset + header.length() == position.end
        })),
        Err(error) if error.is_damage() => Ok(false),
        Err(error) => Err(error),
    }
}

/// What somebody who walks the log knows already.
#[derive(Debug, Clone, Copy, Default)]
pub struct Known<'a> {
    /// The home whose log it is.
    pub home: u64,
    /// Go on behind this commit; otherwise begin at the beginning.
    pub from: Option<&'a Position>,
    /// A commit that was acknowledged: what lies before it counts even if its own record is
    /// damaged by now.
    pub acknowledged: Option<&'a Position>,
    /// A pack that could not be synced, and where its last good commit ends.
    pub broken: Option<(u64, u64)>,
}

/// The numbers of the log's packs, in order.
pub fn numbers(packs: &Path) -> Result<Vec<u64>> {
    let ids = pack::list(packs)?.into_iter();
    Ok(ids
        .filter_map(|id| match id {
            PackId::Log(number) => Some(number),
            PackId::Bulk(_) => None,
        })
        .collect())
}

/// Walks the log, handing each run to `visit` in order.
pub fn walk(
    packs: &Path,
    known: Known<'_>,
    visit: &mut dyn FnMut(Run<'_>) -> Result<()>,
) -> Result<Walked> {
    let first = known.from.map_or(0, |position| position.pack);
    let mut present = Vec::new();
    // Each pack says where the log before it ends: what follows there does not count.
    let mut limits: HashMap<u64, u64> = known.broken.into_iter().collect();
    for number in numbers(packs)?.into_iter().filter(|number| *number >= first) {
        let Some(reader) = open_if_there(packs, number)? else { continue };
        if let Some(header) = reader.header {
            let between = present.iter().copied();
            for empty in between.filter(|number| *number > header.previous_pack) {
                limits.insert(empty, pack::HEADER);
            }
            if header.previous_pack > 0 {
                limits.insert(header.previous_pack, header.previous_end);
            }
        }
        present.push(number);
    }
    let mut walk = Walk {
        known,
        walked: Walked::default(),
        unsettled: Vec::new(),
        there: BTreeMap::new(),
        retired: HashSet::new(),
        kept: None,
        visit,
    };
    if let Some(from) = known.from {
        walk.reached(from.clone());
    }
    for number in present {
        let Some(reader) = open_if_there(packs, number)? else { continue };
        walk.there.insert(number, None);
        let from = known.from.filter(|position| position.pack == number);
        let start = from.map_or(pack::HEADER, |position| position.end);
        walk.walked.tail.pack = Some(number);
        walk.walked.tail.end = start;
        walk.pack(number, &reader, start, limits.get(&number).copied())?;
    }
    walk.note_lost_end();
    walk.note_missing();
    Ok(walk.walked)
}

/// Opens a pack of the log; `None` if gc has unlinked it since the folder was listed.
fn open_if_there(packs: &Path, number: u64) -> Result<Option<PackReader>> {
    match PackReader::open(packs, PackId::Log(number)) {
        Err(error) if error.is_not_found() => Ok(None),
        other => other.map(Some),
    }
}

struct Walk<'a> {
    known: Known<'a>,
    walked: Walked,
    /// Damage that the next commit tells the age of.
    unsettled: Vec<usize>,
    /// The packs that are there, with the sequence of the first commit in each.
    there: BTreeMap<u64, Option<u64>>,
    /// Packs that a commit has retired.
    retired: HashSet<PackId>,
    /// Log packs that the last gc kept, and the pack that its commit is in.
    kept: Option<(Vec<u64>, u64)>,
    visit: &'a mut dyn FnMut(Run<'_>) -> Result<()>,
}

impl Walk<'_> {
    fn reached(&mut self, position: Position) {
        let tail = &mut self.walked.tail;
        tail.reach = (position.pack, position.end);
        tail.sequence = position.sequence;
        tail.generation = position.generation;
        tail.previous = Some(position.id);
        tail.last = Some(position);
        for at in self.unsettled.drain(..) {
            self.walked.damage[at].birth = self.walked.tail.sequence;
        }
    }

    /// A run that counts although its commit cannot be read: it may have been gc's.
    fn reached_blindly(&mut self, pack: u64, end: u64, sequence: u64) {
        let tail = &mut self.walked.tail;
        tail.reach = (pack, end);
        tail.sequence = sequence;
        tail.generation += 1;
    }

    fn damaged(&mut self, reader: &PackReader, birth: u64, what: String) {
        self.walked.damage.push(Damage { pack: reader.id, birth, what });
    }

    /// The log counts as far as somebody was told that it does, whatever is left of that. Nothing is
    /// appended where the end is missing: the header of the next pack says how far the log counts,
    /// and so keeps the damage known to everybody who reads the packs.
    fn note_lost_end(&mut self) {
        let tail = &mut self.walked.tail;
        let last = tail.indexed_sequence();
        let Some(told) = self.known.acknowledged.filter(|told| told.sequence > last) else {
            return;
        };
        tail.previous = Some(told.id);
        if told.sequence <= tail.sequence {
            return;
        }
        tail.reach = (told.pack, told.end);
        tail.sequence = told.sequence;
        tail.generation = tail.generation.max(told.generation) + 1;
        tail.pack = tail.pack.max(Some(told.pack));
        tail.open = false;
    }

    /// Log packs that should be there: those that the last gc kept, and all after its own. Packs
    /// before the place where the walk began are for somebody who reads from the beginning.
    fn note_missing(&mut self) {
        let begin = self.known.from.map_or(0, |position| position.pack);
        let newest = self.walked.tail.pack.unwrap_or(0);
        let (kept, own) = self.kept.take().unwrap_or_default();
        let numbers = kept.into_iter().filter(|number| *number > begin);
        let missing: Vec<u64> = numbers
            .chain(own.max(begin) + 1..=newest)
            .filter(|number| !self.there.contains_key(number))
            .filter(|number| !self.retired.contains(&PackId::Log(*number)))
            .take(MISSING_MAX)
            .collect();
        for number in missing {
            // What was in it was born before whatever follows.
            let next = self.there.range(number..).find_map(|(_, first)| *first);
            let birth = next.unwrap_or(self.walked.tail.sequence);
            let (pack, what) = (PackId::Log(number), "it is missing".into());
            self.walked.damage.push(Damage { pack, birth, what });
        }
    }

    /// Whether a commit that came to light behind damage is one of this log. A file that somebody
    /// saved may contain a copy of a pack.
    fn is_ours(&self, commit: &Commit) -> bool {
        commit.sequence > self.walked.tail.sequence && commit.home == home_text(self.known.home)
    }

    fn pack(
        &mut self,
        number: u64,
        reader: &PackReader,
        start: u64,
        limit: Option<u64>,
    ) -> Result<()> {
        let length = reader.length()?;
        let known_end = self.known.acknowledged.filter(|position| position.pack == number);
        let expected = limit.max(known_end.map(|position| position.end)).unwrap_or(0);
        if length < expected && expected > pack::HEADER {
            let what = format!("it has {length} bytes, but {expected} were written");
            // However many runs that were, the next commit was born later.
            self.unsettled.push(self.walked.damage.len());
            self.damaged(reader, u64::MAX, what);
        }
        let end = limit.map_or(length, |limit| limit.min(length));
        let bytes = reader.read(start, end.saturating_sub(start))?;
        let mut at = 0;
        let mut run_start = 0;
        let mut records: Vec<Found> = Vec::new();
        // Where those begin that follow each other without a gap since damage was passed.
        let mut connected = 0;
        let mut hurt = false;
        let mut sealed = false;
        while at < bytes.len() {
            let found = match record::at(&bytes, at) {
                Some(found) => found,
                None => {
                    hurt = true;
                    connected = records.len();
                    match record::resume(&bytes, at) {
                        Some(found) => found,
                        None => break,
                    }
                }
            };
            at = found.end();
            match found.header.kind {
                Some(Kind::Commit) => {
                    let json = found.header.decode(found.payload(&bytes), None);
                    let commit = match json.and_then(|json| Commit::decode(&json)) {
                        Ok(commit) => commit,
                        // It carries its checksum and makes no sense: as good as a damaged one.
                        Err(error) if error.is_damage() => {
                            hurt = true;
                            continue;
                        }
                        Err(error) => return Err(error),
                    };
                    if hurt && !self.is_ours(&commit) {
                        records.truncate(connected);
                        continue;
                    }
                    let own = found.at.checked_sub(commit.length as usize).unwrap_or(run_start);
                    if own > run_start {
                        // The commit between is damaged; its run was acknowledged all the same.
                        let earlier = records.iter().filter(|r| r.at < own).copied().collect();
                        records.retain(|r| r.at >= own);
                        let sequence = self.walked.tail.sequence + 1;
                        let place = start + run_start as u64;
                        self.damaged(reader, commit.sequence, format!("the run from {place} on"));
                        hurt = false;
                        (self.visit)(Run {
                            pack: number,
                            bytes: &bytes,
                            bytes_at: start,
                            records: earlier,
                            sequence,
                            hurt: true,
                            commit: None,
                            position: None,
                        })?;
                    }
                    let hash = run_hash(records.iter().map(|r| &r.header.checksum));
                    let hurt_run = hurt || hash != commit.hash;
                    if hurt_run {
                        let place = start + found.at as u64;
                        let what = format!("the run before {place} (commit {})", commit.sequence);
                        self.damaged(reader, commit.sequence, what);
                    }
                    let position = Position {
                        pack: number,
                        offset: start + found.at as u64,
                        end: start + at as u64,
                        id: found.header.id,
                        sequence: commit.sequence,
                        generation: commit.generation,
                    };
                    self.walked.tail.end = position.end;
                    self.reached(position.clone());
                    self.there.entry(number).or_default().get_or_insert(commit.sequence);
                    if !commit.retired.is_empty() {
                        self.retired.extend(&commit.retired);
                        self.kept = Some((commit.kept.clone(), number));
                    }
                    (self.visit)(Run {
                        pack: number,
                        bytes: &bytes,
                        bytes_at: start,
                        records: std::mem::take(&mut records),
                        sequence: commit.sequence,
                        hurt: hurt_run,
                        commit: Some(commit),
                        position: Some(position),
                    })?;
                    run_start = at;
                    connected = 0;
                    hurt = false;
                }
                // A footer that is not at the end is one of a pack inside a file.
                Some(Kind::Footer) if hurt && start + at as u64 + pack::TRAILER != length => {
                    records.truncate(connected);
                }
                Some(Kind::Footer) => {
                    sealed = true;
                    if hurt || !records.is_empty() {
                        let what = "what lies before its footer".into();
                        self.damaged(reader, self.walked.tail.sequence + 1, what);
                    }
                    break;
                }
                _ => records.push(found),
            }
        }
        let acknowledged = expected.saturating_sub(start) as usize;
        if !sealed && acknowledged > run_start && run_start < bytes.len() {
            let place = start + run_start as u64;
            let guess = self.walked.tail.sequence + 1;
            let sequence = known_end.map_or(guess, |position| position.sequence.max(guess));
            self.damaged(reader, sequence, format!("the last run, from {place} on"));
            self.reached_blindly(number, expected, sequence);
            (self.visit)(Run {
                pack: number,
                bytes: &bytes,
                bytes_at: start,
                records,
                sequence,
                hurt: true,
                commit: None,
                position: None,
            })?;
        }
        // A pack whose creator died before its header was whole holds nothing; any other has lost
        // it.
        if reader.header.is_none() && self.walked.tail.end > pack::HEADER {
            self.damaged(reader, 0, "its header".into());
        }
        self.walked.tail.open =
            !sealed && run_start == bytes.len() && limit.is_none() && reader.header.is_some();
        Ok(())
    }
}
