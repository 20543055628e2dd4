//! Pack files: a header, records, and once sealed a footer that lists them.
//!
//! A *log* pack is numbered and holds runs, each ended by a commit. A *bulk* pack has a random
//! name and holds what was too large for a run; it counts once a commit in a log pack names it.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rappel_types::ObjectId;

use crate::ambient;
use crate::disk::{Disk, DiskFile};
use crate::error::{Error, Result};
use crate::record::{self, Kind, Packing};

const MAGIC: [u8; 8] = *b"RAPPELPK";
pub(crate) const SEAL: [u8; 8] = *b"RPLSEAL\x01";
const VERSION: u32 = 1;
/// Length of a pack's header.
pub const HEADER: u64 = 64;
/// Length of what follows a footer.
pub const TRAILER: u64 = 16;
const FOOTER_LINE: usize = 33;
/// The last number that a log pack can have: names have ten digits.
pub(crate) const LOG_MAX: u64 = 9_999_999_999;

/// The name of a pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PackId {
    /// The nth pack of the log, from 1.
    Log(u64),
    /// A pack beside the log, by its random name.
    Bulk(u64),
}

impl PackId {
    /// Its file below the folder of packs.
    pub fn path(self, packs: &Path) -> PathBuf {
        packs.join(self.to_string())
    }

    /// The pack whose file is called `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        let stem = name.strip_suffix(".pack")?;
        if let Some(number) = stem.strip_prefix("log-") {
            let number = (number.len() == 10).then(|| number.parse().ok())??;
            return Some(Self::Log(number));
        }
        let digits = stem.strip_prefix("bulk-")?;
        let plain = digits.len() == 16
            && digits.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        plain.then(|| u64::from_str_radix(digits, 16).ok().map(Self::Bulk))?
    }
}

impl std::fmt::Display for PackId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Log(number) => write!(f, "log-{number:010}.pack"),
            Self::Bulk(name) => write!(f, "bulk-{name:016x}.pack"),
        }
    }
}

impl std::str::FromStr for PackId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::from_name(text).ok_or_else(|| Error::Damaged(format!("{text:?} names no pack")))
    }
}

impl serde::Serialize for PackId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for PackId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::from_name(&text).ok_or_else(|| serde::de::Error::custom("not the name of a pack"))
    }
}

/// What stands at the beginning of a pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PackHeader {
    /// The home it belongs to.
    pub home: u64,
    /// For a log pack: the pack that the commit before it is in; 0 if there is none. Log packs
    /// between the two hold nothing.
    pub previous_pack: u64,
    /// Where that commit ends, as the creator saw it. Whatever follows there in the earlier pack
    /// was never acknowledged.
    pub previous_end: u64,
}

impl PackHeader {
    fn encode(self, id: PackId) -> Vec<u8> {
        let (kind, number) = match id {
            PackId::Log(number) => (1u32, number),
            PackId::Bulk(name) => (2, name),
        };
        let mut bytes = Vec::with_capacity(HEADER as usize);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&kind.to_le_bytes());
        bytes.extend_from_slice(&number.to_le_bytes());
        bytes.extend_from_slice(&self.home.to_le_bytes());
        bytes.extend_from_slice(&self.previous_pack.to_le_bytes());
        bytes.extend_from_slice(&self.previous_end.to_le_bytes());
        let hash = blake3::hash(&bytes);
        bytes.extend_from_slice(&hash.as_bytes()[..16]);
        bytes
    }

    fn decode(bytes: &[u8; HEADER as usize], id: PackId) -> Result<Self> {
        let number = |at: usize| {
            let mut array = [0; 8];
            array.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(array)
        };
        let version = number(8) as u32;
        if bytes[..8] != MAGIC || bytes[48..64] != blake3::hash(&bytes[..48]).as_bytes()[..16] {
            return Err(Error::Damaged(format!("{id}: its header")));
        }
        if version > VERSION {
            return Err(Error::Newer { what: id.to_string(), found: version, supported: VERSION });
        }
        let header = Self { home: number(24), previous_pack: number(32), previous_end: number(40) };
        if header.encode(id)[..] != bytes[..] {
            return Err(Error::Damaged(format!("{id}: its header names another pack")));
        }
        Ok(header)
    }
}

/// A record as the footer lists it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line {
    /// Its kind, as a byte: a footer may list kinds that this build does not know.
    pub kind: u8,
    /// Where it begins.
    pub offset: u64,
    /// Its whole length.
    pub length: u64,
    /// Its checksum.
    pub checksum: [u8; 16],
}

impl Line {
    /// The line for a record that was written at `offset`.
    pub fn of(record: &[u8], offset: u64) -> Self {
        let mut checksum = [0; 16];
        checksum.copy_from_slice(&record[96..112]);
        Self { kind: record[5], offset, length: record.len() as u64, checksum }
    }
}

pub(crate) fn encode_footer(lines: &[Line]) -> Vec<u8> {
    let mut payload = Vec::with_capacity(lines.len() * FOOTER_LINE);
    for line in lines {
        payload.push(line.kind);
        payload.extend_from_slice(&line.offset.to_le_bytes());
        payload.extend_from_slice(&line.length.to_le_bytes());
        payload.extend_from_slice(&line.checksum);
    }
    payload
}

pub(crate) fn decode_footer(payload: &[u8]) -> Vec<Line> {
    payload
        .chunks_exact(FOOTER_LINE)
        .map(|line| {
            let number = |at: usize| {
                let mut array = [0; 8];
                array.copy_from_slice(&line[at..at + 8]);
                u64::from_le_bytes(array)
            };
            let mut checksum = [0; 16];
            checksum.copy_from_slice(&line[17..33]);
            Line { kind: line[0], offset: number(1), length: number(9), checksum }
        })
        .collect()
}

/// How much is written before the disk is told to begin with it.
const EARLY: u64 = 4 << 20;

/// A pack that is being written by this process alone.
#[derive(Debug)]
pub struct PackWriter {
    /// Its name.
    pub id: PackId,
    file: DiskFile,
    length: u64,
    lines: Vec<Line>,
}

impl PackWriter {
    /// Creates a log pack; its number must be new.
    pub fn create(
        disk: &Arc<dyn Disk>,
        packs: &Path,
        id: PackId,
        header: PackHeader,
    ) -> Result<Self> {
        let file = DiskFile::create_new(disk, &id.path(packs))?;
        file.write_at(&header.encode(id), 0)?;
        Ok(Self { id, file, length: HEADER, lines: Vec::new() })
    }

    /// Creates a bulk pack with a random name. A lock on the file tells gc that it is in use.
    pub fn bulk(disk: &Arc<dyn Disk>, packs: &Path, home: u64) -> Result<Self> {
        use rustix::io::Errno;
        loop {
            let id = PackId::Bulk(ambient::random());
            let path = id.path(packs);
            let file = DiskFile::create_new(disk, &path)?;
            let lock = rustix::fs::FlockOperation::NonBlockingLockExclusive;
            match rustix::fs::flock(file.file(), lock) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => continue,
                Err(errno) => return Err(Error::io("lock", &path)(errno.into())),
            }
            // Before the lock, gc may have taken the file for one that a dead writer left.
            let meta = file.file().metadata().map_err(Error::io("read", &path))?;
            if meta.nlink() == 0 {
                continue;
            }
            let header = PackHeader { home, previous_pack: 0, previous_end: 0 };
            file.write_at(&header.encode(id), 0)?;
            return Ok(Self { id, file, length: HEADER, lines: Vec::new() });
        }
    }

    /// Opens the log's open pack for appending behind `length`.
    pub fn open(disk: &Arc<dyn Disk>, packs: &Path, id: PackId, length: u64) -> Result<Self> {
        let file = DiskFile::open(disk, &id.path(packs))?;
        Ok(Self { id, file, length, lines: Vec::new() })
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Where the next record will begin.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Appends whole records, given with their lengths; returns where they begin.
    pub fn append(&mut self, records: &[u8]) -> Result<u64> {
        let offset = self.length;
        self.file.write_at(records, offset)?;
        let mut at = 0;
        while let Some(header) = record::Header::parse(&records[at..]) {
            let end = at + header.length() as usize;
            self.lines.push(Line::of(&records[at..end], offset + at as u64));
            at = end;
        }
        self.length += records.len() as u64;
        if self.length / EARLY > offset / EARLY {
            self.file.begin_sync(offset / EARLY * EARLY, self.length);
        }
        Ok(offset)
    }

    /// Makes what was appended durable.
    pub fn sync(&self) -> Result<()> {
        self.file.sync()
    }

    /// Seals the pack: lists `lines` (or what this writer appended), syncs, makes it read-only.
    /// Returns its final length and hash.
    pub fn seal(mut self, lines: Option<Vec<Line>>) -> Result<Sealed> {
        let payload = encode_footer(&lines.unwrap_or(std::mem::take(&mut self.lines)));
        let mut footer = record::encode(Kind::Footer, 0, &payload, Packing::Raw)?;
        let hash = crate::sink::id_of(&payload);
        footer.extend_from_slice(&self.length.to_le_bytes());
        footer.extend_from_slice(&SEAL);
        self.file.write_at(&footer, self.length)?;
        self.length += footer.len() as u64;
        self.file.sync()?;
        self.file.set_mode(0o400)?;
        let path = self.file.path().to_owned();
        Ok(Sealed { pack: self.id, length: self.length, hash, path, file: Some(self.file) })
    }
}

/// A sealed pack. Until it is let go, gc keeps its hands off the file.
#[derive(Debug)]
pub struct Sealed {
    /// Its name.
    pub pack: PackId,
    /// Its length.
    pub length: u64,
    /// The hash of its footer's list, and so of everything in it.
    pub hash: ObjectId,
    path: PathBuf,
    /// Open for its lock alone.
    file: Option<DiskFile>,
}

impl Sealed {
    /// How many of its sealed packs a writer keeps open and locked.
    pub const HELD: usize = 4;

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Closes the file, and so gives up its lock. From now on only its age keeps gc from it.
    pub fn let_go(&mut self) {
        self.file = None;
    }

    /// Whether the file is still there.
    pub fn is_there(&self) -> bool {
        self.path.metadata().is_ok_and(|meta| meta.len() == self.length)
    }

    /// How a commit names it.
    pub fn named(&self) -> crate::log::Named {
        let Self { pack, length, hash, .. } = *self;
        crate::log::Named { pack, length, hash, birth: None }
    }
}

/// A pack opened for reading, with pread.
#[derive(Debug)]
pub struct PackReader {
    /// Its name.
    pub id: PackId,
    /// What stands at its beginning; `None` if that is damaged, which hurts nothing else in it.
    pub header: Option<PackHeader>,
    path: PathBuf,
    file: File,
}

impl PackReader {
    /// Opens a pack. A file that is not there is an I/O error of kind `NotFound`, so that the
    /// caller can look for another copy.
    pub fn open(packs: &Path, id: PackId) -> Result<Self> {
        let path = id.path(packs);
        let file = File::open(&path).map_err(Error::io("open", &path))?;
        let mut bytes = [0; HEADER as usize];
        let header = match file.read_exact_at(&mut bytes, 0) {
            Ok(()) => match PackHeader::decode(&bytes, id) {
                Err(error) if error.is_damage() => None,
                other => Some(other?),
            },
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => None,
            Err(error) => return Err(Error::io("read", &path)(error)),
        };
        Ok(Self { id, header, path, file })
    }

    /// Its present length.
    pub fn length(&self) -> Result<u64> {
        Ok(self.file.metadata().map_err(Error::io("read", &self.path))?.len())
    }

    /// Whether it has been sealed to the end.
    pub fn is_read_only(&self) -> Result<bool> {
        let meta = self.file.metadata().map_err(Error::io("read", &self.path))?;
        Ok(meta.permissions().readonly())
    }

    /// When the file was last written to, in milliseconds since the epoch.
    pub fn modified(&self) -> Result<i64> {
        let meta = self.file.metadata().map_err(Error::io("read", &self.path))?;
        Ok(meta.mtime() * 1000 + meta.mtime_nsec() / 1_000_000)
    }

    /// Whether no living writer is at work on this pack. As long as the answer is kept, none can
    /// begin to be.
    pub fn is_abandoned(&self) -> bool {
        rustix::fs::flock(&self.file, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_ok()
    }

    /// `length` bytes from `offset`; fewer at the end of the file.
    pub fn read(&self, offset: u64, length: u64) -> Result<Vec<u8>> {
        let mut bytes = vec![0; length as usize];
        let mut done = 0;
        while done < bytes.len() {
            match self.file.read_at(&mut bytes[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::io("read", &self.path)(error)),
            }
        }
        bytes.truncate(done);
        Ok(bytes)
    }

    /// The whole record at `offset`, whose checksum has been compared. `guess` is how many bytes
    /// to read at once.
    pub fn record(&self, offset: u64, guess: u64) -> Result<Vec<u8>> {
        let damaged = || Error::Damaged(format!("{}: the record at {offset}", self.id));
        let mut bytes = self.read(offset, guess.max(record::HEADER as u64))?;
        let header = record::Header::parse(&bytes).ok_or_else(damaged)?;
        let length = header.length() as usize;
        if bytes.len() < length {
            let rest = self.read(offset + bytes.len() as u64, (length - bytes.len()) as u64)?;
            bytes.extend_from_slice(&rest);
        }
        bytes.truncate(length);
        if !record::is_intact(&bytes) || bytes.len() != length {
            return Err(damaged());
        }
        Ok(bytes)
    }

    /// The footer of a sealed pack with the hash over it; `None` if it has none.
    pub fn footer(&self) -> Result<Option<(Vec<Line>, ObjectId)>> {
        let length = self.length()?;
        if length < HEADER + TRAILER {
            return Ok(None);
        }
        let trailer = self.read(length - TRAILER, TRAILER)?;
        if trailer.len() < TRAILER as usize || trailer[8..] != SEAL {
            return Ok(None);
        }
        let mut at = [0; 8];
        at.copy_from_slice(&trailer[..8]);
        let at = u64::from_le_bytes(at);
        if at < HEADER || at >= length {
            return Err(Error::Damaged(format!("{}: its trailer", self.id)));
        }
        let bytes = self.record(at, length - at)?;
        match record::Header::parse(&bytes) {
            Some(header)
                if header.kind == Some(Kind::Footer)
                    && at + header.length() + TRAILER == length =>
            {
                let payload = header.decode(&bytes[record::HEADER..], None)?;
                Ok(Some((decode_footer(&payload), header.id)))
            }
            _ => Err(Error::Damaged(format!("{}: its footer", self.id))),
        }
    }
}

/// Packs that stay open for the next reader. A home may have thousands of packs, and a process few
/// open files.
#[derive(Debug, Default)]
pub(crate) struct OpenPacks {
    open: HashMap<PackId, Arc<PackReader>>,
    order: VecDeque<PackId>,
}

impl OpenPacks {
    /// No process has more packs open at once: a system may allow it a hundred files or so.
    const LIMIT: usize = 64;
    /// Those that a writer has open.
    const OF_A_WRITER: usize = Sealed::HELD + 4;

    /// How many stay open here. Each thread may be reading one more that was just closed.
    fn most() -> usize {
        // The pool of threads is not asked: it may not be made yet, and asking would make it.
        let threads = std::thread::available_parallelism().map_or(8, usize::from);
        (Self::LIMIT - Self::OF_A_WRITER).saturating_sub(threads).clamp(8, 48)
    }

    pub fn get(&self, id: PackId) -> Option<Arc<PackReader>> {
        self.open.get(&id).cloned()
    }

    pub fn keep(&mut self, reader: Arc<PackReader>) {
        let id = reader.id;
        if self.open.insert(id, reader).is_some() {
            return;
        }
        self.order.push_back(id);
        if self.order.len() > Self::most()
            && let Some(oldest) = self.order.pop_front()
        {
            self.open.remove(&oldest);
        }
    }
}

/// Every pack in a folder.
pub fn list(packs: &Path) -> Result<Vec<PackId>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(packs).map_err(Error::io("list", packs))? {
        let entry = entry.map_err(Error::io("list", packs))?;
        found.extend(entry.file_name().to_str().and_then(PackId::from_name));
    }
    found.sort();
    Ok(found)
}
