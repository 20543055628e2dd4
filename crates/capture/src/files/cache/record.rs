//! One folder as the cache keeps it: its stamp, and every name in it with what became of it.
//!
//! ```text
//! record  length u32 · folder u32 · entries u32 · mode u16 · flags u8 · inside u8
//!         device u64 · inode u64 · mtime i64 · ctime i64 · entry…
//! entry   what u8 · flags u8 · name length u8 · name · body
//! body    file, link, rule file, database: mode u16 · size u64 · mtime i64 · ctime i64 · inode u64 · id 32
//!         folder: number u32                       everything else: nothing
//! ```
//!
//! Numbers are little-endian. Entries are ordered by the bytes of their names. A record is read in
//! place and never trusted further than its own length; that its bytes are those that were written
//! is the checksum's business.

use rappel_types::{Content, ObjectId};

use super::super::choose::Inside;
use super::super::stamp::{Special, Stamp};

/// Flags of a folder.
pub(crate) mod folder {
    /// The listing cannot be recognised by the stamp, or must be made again for another reason.
    pub const LIST: u8 = 1;
    /// The verdicts of this folder and of all below do not count any more.
    pub const STALE: u8 = 2;
    /// It is not in the tree: it vanished, or is excluded by identity.
    pub const ABSENT: u8 = 4;
    /// It could not be listed.
    pub const UNREADABLE: u8 = 8;
    /// It has something called `.git`.
    pub const GIT: u8 = 16;
}

/// Flags of an entry.
pub(crate) mod entry {
    /// The stamp was too young: the content has to be read again.
    pub const YOUNG: u8 = 1;
    /// Taken only because git tracks it.
    pub const TRACKED: u8 = 2;
    /// Taken for a reason that may be gone tomorrow: judge it again.
    pub const TODAY: u8 = 4;
    /// Left out by git's rules, so that being tracked would save it.
    pub const BY_GIT: u8 = 8;
    /// What was left out is a folder.
    pub const FOLDER: u8 = 16;
}

/// Length of a record before its entries.
const HEAD: usize = 48;
/// Length of a body that has a stamp.
const BODY: usize = 66;

/// What is known of a file or link that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stored {
    pub mode: u32,
    pub size: u64,
    pub modified: i64,
    pub changed: i64,
    pub inode: u64,
    /// The content; for a link, the hash of its target.
    pub id: [u8; 32],
}

impl Stored {
    /// Whether a thing with `stamp`, on the file system of its folder, is still this one.
    pub fn agrees(&self, stamp: &Stamp, device: u64) -> bool {
        self.inode == stamp.inode
            && self.size == stamp.size
            && self.modified == stamp.modified
            && self.changed == stamp.changed
            && self.mode == stamp.permissions()
            && device == stamp.device
    }

    /// What to remember of a thing with `stamp` and the content `id`.
    pub fn new(stamp: &Stamp, id: [u8; 32]) -> Self {
        Self {
            mode: stamp.permissions(),
            size: stamp.size,
            modified: stamp.modified,
            changed: stamp.changed,
            inode: stamp.inode,
            id,
        }
    }
}

/// What became of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    /// A file of one object.
    Whole(Stored),
    /// A file of many chunks.
    Chunked(Stored),
    Symlink(Stored),
    /// A rule file that is used and not captured.
    Rule(Stored),
    /// A folder, by the number of its record.
    Folder(u32),
    /// Left out by a rule.
    Omitted,
    /// `.git`, or something that could be taken for it.
    Git,
    /// A file that is too large.
    Oversize,
    Special(Special),
    /// It could not be read.
    Unreadable,
    /// Its path is longer than a system call takes.
    TooLong,
    /// A database of SQLite, which is no part of the files. Its id is zero.
    Database(Stored),
    /// What SQLite keeps beside a database.
    Companion,
}

impl What {
    /// The content of a file.
    pub fn content(&self) -> Option<Content> {
        match self {
            Self::Whole(stored) => Some(Content::Whole(ObjectId(stored.id))),
            Self::Chunked(stored) => Some(Content::Chunked(ObjectId(stored.id))),
            _ => None,
        }
    }

    fn code(&self) -> u8 {
        match self {
            Self::Whole(_) => 1,
            Self::Chunked(_) => 2,
            Self::Symlink(_) => 3,
            Self::Rule(_) => 4,
            Self::Folder(_) => 5,
            Self::Omitted => 6,
            Self::Git => 7,
            Self::Oversize => 8,
            Self::Special(Special::Socket) => 9,
            Self::Special(Special::Fifo) => 10,
            Self::Special(Special::Device) => 11,
            Self::Unreadable => 12,
            Self::TooLong => 13,
            Self::Database(_) => 14,
            Self::Companion => 15,
        }
    }
}

/// A folder's record, read in place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Record<'a> {
    bytes: &'a [u8],
}

/// A name in a record, read in place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry<'a> {
    pub name: &'a [u8],
    pub flags: u8,
    pub what: What,
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).and_then(|b| b.try_into().ok()).map_or(0, u16::from_le_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes)
}

impl<'a> Record<'a> {
    /// The record at the start of `bytes`; `None` if there is no whole one.
    pub fn at(bytes: &'a [u8]) -> Option<Self> {
        if bytes.len() < HEAD {
            return None;
        }
        let length = u32_at(bytes, 0) as usize;
        (HEAD..=bytes.len()).contains(&length).then(|| Self { bytes: &bytes[..length] })
    }

    /// Its length in bytes.
    pub fn length(&self) -> usize {
        self.bytes.len()
    }

    /// Its bytes.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The folder's number.
    pub fn folder(&self) -> u32 {
        u32_at(self.bytes, 4)
    }

    /// How many names the folder has.
    pub fn count(&self) -> usize {
        u32_at(self.bytes, 8) as usize
    }

    /// The folder's permission bits.
    pub fn mode(&self) -> u32 {
        u32::from(u16_at(self.bytes, 12))
    }

    /// See [`folder`].
    pub fn flags(&self) -> u8 {
        self.bytes[14]
    }

    /// How its content was judged.
    pub fn inside(&self) -> Option<Inside> {
        Inside::from_byte(self.bytes[15])
    }

    /// The file system on which the folder was.
    pub fn device(&self) -> u64 {
        u64_at(self.bytes, 16)
    }

    /// Whether the folder is in the tree.
    pub fn in_tree(&self) -> bool {
        self.flags() & folder::ABSENT == 0
    }

    /// Whether the folder that has `stamp` now is unchanged since.
    pub fn agrees(&self, stamp: &Stamp) -> bool {
        self.device() == stamp.device
            && u64_at(self.bytes, 24) == stamp.inode
            && u64_at(self.bytes, 32) as i64 == stamp.modified
            && u64_at(self.bytes, 40) as i64 == stamp.changed
            && self.mode() == stamp.permissions()
    }

    /// The names, in order.
    pub fn entries(&self) -> Entries<'a> {
        Entries { rest: &self.bytes[HEAD..] }
    }
}

/// The names of a record, in order. Ends where the bytes make no sense.
#[derive(Debug, Clone)]
pub(crate) struct Entries<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Entries<'a> {
    type Item = Entry<'a>;

    #[inline]
    fn next(&mut self) -> Option<Entry<'a>> {
        let [code, flags, length, rest @ ..] = self.rest else { return None };
        let length = usize::from(*length);
        if length == 0 || length > rest.len() {
            return None;
        }
        let (name, rest) = rest.split_at(length);
        let stored = |body: &[u8]| {
            let mut id = [0; 32];
            id.copy_from_slice(&body[34..BODY]);
            Stored {
                mode: u32::from(u16_at(body, 0)),
                size: u64_at(body, 2),
                modified: u64_at(body, 10) as i64,
                changed: u64_at(body, 18) as i64,
                inode: u64_at(body, 26),
                id,
            }
        };
        let (what, used) = match code {
            1..=4 | 14 => {
                let body = rest.get(..BODY)?;
                let what = match code {
                    1 => What::Whole(stored(body)),
                    2 => What::Chunked(stored(body)),
                    3 => What::Symlink(stored(body)),
                    14 => What::Database(stored(body)),
                    _ => What::Rule(stored(body)),
                };
                (what, BODY)
            }
            5 => (What::Folder(u32_at(rest.get(..4)?, 0)), 4),
            6 => (What::Omitted, 0),
            7 => (What::Git, 0),
            8 => (What::Oversize, 0),
            9 => (What::Special(Special::Socket), 0),
            10 => (What::Special(Special::Fifo), 0),
            11 => (What::Special(Special::Device), 0),
            12 => (What::Unreadable, 0),
            13 => (What::TooLong, 0),
            15 => (What::Companion, 0),
            _ => return None,
        };
        self.rest = &rest[used..];
        Some(Entry { name, flags: *flags, what })
    }
}

/// A record that is being made.
#[derive(Debug, Clone)]
pub(crate) struct Draft {
    /// The folder's number.
    pub number: u32,
    /// Where it is; the root is empty.
    pub path: Vec<u8>,
    pub mode: u32,
    pub flags: u8,
    pub inside: Inside,
    /// What identifies the listing: device, inode, mtime, ctime.
    pub device: u64,
    pub inode: u64,
    pub modified: i64,
    pub changed: i64,
    pub entries: Vec<DraftEntry>,
}

/// A name in such a record.
#[derive(Debug, Clone)]
pub(crate) struct DraftEntry {
    pub name: Box<[u8]>,
    pub flags: u8,
    pub what: What,
    /// The target of a link that was read just now.
    pub target: Option<Vec<u8>>,
}

impl DraftEntry {
    /// A name about which nothing more is known.
    pub fn new(name: &[u8], what: What, flags: u8) -> Self {
        Self { name: name.into(), flags, what, target: None }
    }
}

impl Draft {
    /// A record without names for the folder at `path`.
    pub fn new(number: u32, path: &[u8], stamp: &Stamp, inside: Inside, flags: u8) -> Self {
        Self {
            number,
            path: path.to_vec(),
            mode: stamp.permissions(),
            flags,
            inside,
            device: stamp.device,
            inode: stamp.inode,
            modified: stamp.modified,
            changed: stamp.changed,
            entries: Vec::new(),
        }
    }

    /// A copy of `record`, to be edited.
    pub fn copy(record: &Record<'_>, path: &[u8]) -> Self {
        let mut entries = Vec::with_capacity(record.count().min(record.length() / 4));
        entries.extend(
            record.entries().map(|entry| DraftEntry::new(entry.name, entry.what, entry.flags)),
        );
        Self {
            number: record.folder(),
            path: path.to_vec(),
            mode: record.mode(),
            flags: record.flags(),
            inside: record.inside().unwrap_or(Inside::Normal),
            device: record.device(),
            inode: u64_at(record.bytes, 24),
            modified: u64_at(record.bytes, 32) as i64,
            changed: u64_at(record.bytes, 40) as i64,
            entries,
        }
    }

    /// Whether the folder is in the tree.
    pub fn in_tree(&self) -> bool {
        self.flags & folder::ABSENT == 0
    }

    /// Appends the record to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&self.number.to_le_bytes());
        out.extend_from_slice(&(self.entries.len() as u32).to_le_bytes());
        out.extend_from_slice(&(self.mode as u16).to_le_bytes());
        out.push(self.flags);
        out.push(self.inside as u8);
        out.extend_from_slice(&self.device.to_le_bytes());
        out.extend_from_slice(&self.inode.to_le_bytes());
        out.extend_from_slice(&self.modified.to_le_bytes());
        out.extend_from_slice(&self.changed.to_le_bytes());
        for entry in &self.entries {
            out.extend_from_slice(&[entry.what.code(), entry.flags, entry.name.len() as u8]);
            out.extend_from_slice(&entry.name);
            match entry.what {
                What::Whole(stored)
                | What::Chunked(stored)
                | What::Symlink(stored)
                | What::Rule(stored)
                | What::Database(stored) => {
                    out.extend_from_slice(&(stored.mode as u16).to_le_bytes());
                    out.extend_from_slice(&stored.size.to_le_bytes());
                    out.extend_from_slice(&stored.modified.to_le_bytes());
                    out.extend_from_slice(&stored.changed.to_le_bytes());
                    out.extend_from_slice(&stored.inode.to_le_bytes());
                    out.extend_from_slice(&stored.id);
                }
                What::Folder(number) => out.extend_from_slice(&number.to_le_bytes()),
                _ => {}
            }
        }
        let length = (out.len() - start) as u32;
        out[start..start + 4].copy_from_slice(&length.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn stored(seed: u8) -> Stored {
        let number = u64::from(seed);
        Stored {
            mode: 0o644,
            size: number << 33,
            modified: -5 - i64::from(seed),
            changed: i64::MAX - i64::from(seed),
            inode: u64::MAX - number,
            id: [seed; 32],
        }
    }

    #[test]
    fn a_record_survives_with_every_kind_of_entry() {
        let kinds = [
            What::Whole(stored(1)),
            What::Chunked(stored(2)),
            What::Symlink(stored(3)),
            What::Rule(stored(4)),
            What::Folder(77),
            What::Omitted,
            What::Git,
            What::Oversize,
            What::Special(Special::Socket),
            What::Special(Special::Fifo),
            What::Special(Special::Device),
            What::Unreadable,
            What::TooLong,
            What::Database(stored(5)),
            What::Companion,
        ];
        let stamp = Stamp { device: 3, inode: 4, size: 0, modified: 5, changed: -6, mode: 0o40755 };
        let mut draft = Draft::new(9, b"a/b", &stamp, Inside::Ignored, folder::GIT);
        let name = |at: usize| vec![b'n'; at + 1];
        draft.entries = kinds
            .iter()
            .enumerate()
            .map(|(at, what)| DraftEntry::new(&name(at), *what, at as u8))
            .collect();
        let mut bytes = b"xx".to_vec();
        draft.encode(&mut bytes);
        bytes.extend_from_slice(b"behind");
        let record = Record::at(&bytes[2..]).unwrap();
        assert_eq!(record.length() + 8, bytes.len());
        assert!(record.agrees(&stamp));
        assert_eq!((record.folder(), record.count(), record.mode()), (9, kinds.len(), 0o755));
        assert_eq!((record.flags(), record.inside()), (folder::GIT, Some(Inside::Ignored)));
        for (at, (entry, what)) in record.entries().zip(kinds).enumerate() {
            assert_eq!((entry.name, entry.flags, entry.what), (&*name(at), at as u8, what));
        }
        let mut again = Vec::new();
        Draft::copy(&record, b"a/b").encode(&mut again);
        assert_eq!(again, record.bytes());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut bytes = bytes;
            if bytes.len() >= HEAD {
                let length = bytes.len() as u32;
                bytes[..4].copy_from_slice(&length.to_le_bytes());
            }
            if let Some(record) = Record::at(&bytes) {
                let _ = Draft::copy(&record, b"");
            }
        }
    }
}
