//! The log: runs of records in numbered packs, each ended by a commit.
//!
//! Reading it is the same work for everybody: the writer that looks where the log ends, the index
//! that catches up, the rebuild and the check. All of them walk with [`walk`].

use std::path::Path;

use rappel_types::{ObjectId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::pack::{self, PackId, PackReader};
use crate::record::{self, Found, Kind};

/// The version of the commit record's JSON.
pub const COMMIT_VERSION: u32 = 1;

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
        serde_json::from_slice(json).map_err(bad)
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
#[derive(Debug, Clone, PartialEq, Eq)]
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
    /// The last commit of all.
    pub last: Option<Position>,
}

/// What a walk found besides the runs.
#[derive(Debug, Default)]
pub struct Walked {
    /// How the log ends.
    pub tail: Tail,
    /// What is damaged, for people.
    pub damage: Vec<String>,
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
    /// Go on behind this commit; otherwise begin at the beginning.
    pub from: Option<&'a Position>,
    /// A commit that was acknowledged: what lies before it counts even if its own record is
    /// damaged by now.
    pub acknowledged: Option<&'a Position>,
    /// A pack that could not be synced, and where its last good commit ends.
    pub broken: Option<(u64, u64)>,
}

/// Walks the log, handing each run to `visit` in order.
pub fn walk(
    packs: &Path,
    known: Known<'_>,
    visit: &mut dyn FnMut(Run<'_>) -> Result<()>,
) -> Result<Walked> {
    let mut walked = Walked::default();
    walked.tail.last = known.from.cloned();
    let first = known.from.map_or(0, |position| position.pack);
    let numbers: Vec<u64> = pack::list(packs)?
        .into_iter()
        .filter_map(|id| match id {
            PackId::Log(number) if number >= first => Some(number),
            _ => None,
        })
        .collect();
    // Opened from the back, because each pack says where the one before it ends.
    let mut readers = Vec::with_capacity(numbers.len());
    let mut limit = None;
    for &number in numbers.iter().rev() {
        let reader = PackReader::open(packs, PackId::Log(number))?;
        let previous_end = reader.header.map(|header| header.previous_end);
        let broken = known.broken.filter(|(pack, _)| *pack == number).map(|(_, end)| end);
        readers.push((number, reader, limit.or(broken)));
        limit = previous_end.filter(|end| *end > 0);
    }
    for (number, reader, limit) in readers.into_iter().rev() {
        let from = known.from.filter(|position| position.pack == number);
        let start = from.map_or(pack::HEADER, |position| position.end);
        walked.tail.pack = Some(number);
        walked.tail.end = start;
        walk_pack(&reader, start, limit, known.acknowledged, &mut walked, visit)?;
    }
    Ok(walked)
}

fn walk_pack(
    reader: &PackReader,
    start: u64,
    limit: Option<u64>,
    known: Option<&Position>,
    walked: &mut Walked,
    visit: &mut dyn FnMut(Run<'_>) -> Result<()>,
) -> Result<()> {
    let PackId::Log(number) = reader.id else { return Ok(()) };
    let length = reader.length()?;
    let known_end = known.filter(|position| position.pack == number).map(|position| position.end);
    if let Some(expected) = limit.max(known_end)
        && length < expected
        && expected > pack::HEADER
    {
        let id = reader.id;
        walked.damage.push(format!("{id} has {length} bytes, but {expected} were written"));
    }
    // Behind the place where the next pack says that this one ends, nothing was acknowledged.
    let end = limit.map_or(length, |limit| limit.min(length));
    let bytes = reader.read(start, end.saturating_sub(start))?;
    let mut at = 0;
    let mut run_start = 0;
    let mut records: Vec<Found> = Vec::new();
    let mut hurt = false;
    let mut sealed = false;
    while at < bytes.len() {
        let found = match record::at(&bytes, at) {
            Some(found) => found,
            None => {
                hurt = true;
                match record::next(&bytes, at + 1) {
                    Some(found) => found,
                    None => break,
                }
            }
        };
        at = found.end();
        match found.header.kind {
            Some(Kind::Commit) => {
                let json = found.header.decode(found.payload(&bytes), None)?;
                let commit = Commit::decode(&json)?;
                let own = found.at.checked_sub(commit.length as usize).unwrap_or(run_start);
                if own > run_start {
                    // The commit between is damaged; its run was acknowledged all the same.
                    let earlier = records.iter().filter(|r| r.at < own).copied().collect();
                    records.retain(|r| r.at >= own);
                    hurt = true;
                    visit(Run {
                        pack: number,
                        bytes: &bytes,
                        bytes_at: start,
                        records: earlier,
                        commit: None,
                        position: None,
                    })?;
                }
                let hash = run_hash(records.iter().map(|r| &r.header.checksum));
                if hurt || hash != commit.hash {
                    walked.damage.push(format!(
                        "{}: the run before {} (commit {})",
                        reader.id,
                        start + found.at as u64,
                        commit.sequence
                    ));
                }
                let position = Position {
                    pack: number,
                    offset: start + found.at as u64,
                    end: start + at as u64,
                    id: found.header.id,
                    sequence: commit.sequence,
                    generation: commit.generation,
                };
                walked.tail.last = Some(position.clone());
                walked.tail.end = position.end;
                visit(Run {
                    pack: number,
                    bytes: &bytes,
                    bytes_at: start,
                    records: std::mem::take(&mut records),
                    commit: Some(commit),
                    position: Some(position),
                })?;
                run_start = at;
                hurt = false;
            }
            Some(Kind::Footer) => {
                sealed = true;
                if hurt || !records.is_empty() {
                    walked.damage.push(format!("{}: what lies before its footer", reader.id));
                }
                break;
            }
            _ => records.push(found),
        }
    }
    let acknowledged = limit.max(known_end).unwrap_or(0).saturating_sub(start) as usize;
    if !sealed && acknowledged > run_start && run_start < bytes.len() {
        walked.damage.push(format!(
            "{}: the last run, from {} on",
            reader.id,
            start + run_start as u64
        ));
        visit(Run {
            pack: number,
            bytes: &bytes,
            bytes_at: start,
            records,
            commit: None,
            position: None,
        })?;
    }
    // A pack whose creator died before its header was whole holds nothing; any other has lost it.
    if reader.header.is_none() && walked.tail.end > pack::HEADER {
        walked.damage.push(format!("{}: its header", reader.id));
    }
    walked.tail.open =
        !sealed && run_start == bytes.len() && limit.is_none() && reader.header.is_some();
    Ok(())
}
