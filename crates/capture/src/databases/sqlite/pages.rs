//! The pages of a database as a checkpoint keeps them (`docs/format.md`, "SQLite").
//!
//! Pages are stored in segments of a fixed size, each against the segment that was at its place
//! before: pages stay where they are, so a changed page costs about itself, wherever it lies. What
//! SQLite counts up in the header with every transaction is left out, so that equal content is
//! equal bytes.

use std::io::{self, Write};
use std::path::Path;

use rappel_store::Cancel;
use rappel_store::content::{self, Chunk, ChunkList};
use rappel_store::sink::{Role, Sink, Source, id_of};
use rappel_store::tree;
use rappel_types::database::{DatabasePart, Digest};
use rappel_types::{Content, Entry, Node, ObjectId, RelPath};
use rayon::prelude::*;

use super::snapshot::{HEADER, Snapshot};
use crate::databases::{Error, Result};

/// Bytes of a segment, unless there would be too many. No page is larger.
const SEGMENT: u64 = 64 << 10;
/// More segments are not listed.
const SEGMENTS_MAX: u64 = 1 << 20;
/// The file of the tree that holds the pages.
const PAGES: &str = "pages";
/// How many segments are one piece of work.
const AT_ONCE: usize = 64;

/// What kind of node of a B-tree a page seems to be, and how many cells it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Glimpse {
    pub kind: u8,
    pub cells: u16,
}

/// Everything a database held.
#[derive(Debug)]
pub(super) struct Taken {
    list: ChunkList,
    pub digest: Digest,
    pub bytes: u64,
    mode: u32,
    /// A glimpse of each page, the first page first.
    pub glimpses: Vec<Glimpse>,
}

/// Reads all of `snapshot`, into `sink` if there is one, against `former`.
pub(super) fn take(
    snapshot: &Snapshot,
    path: &Path,
    sink: Option<&dyn Sink>,
    former: &ChunkList,
    cancel: &Cancel,
) -> Result<Taken> {
    let page_size = snapshot.page_size;
    let each = pages_in_a_segment(page_size, snapshot.pages);
    let segments: Vec<u32> = (0..snapshot.pages.div_ceil(each)).collect();
    let pieces: Vec<Result<Vec<Segment>>> = segments
        .par_chunks(AT_ONCE)
        .map(|numbers| {
            let mut buffer = Vec::new();
            let one = |&number: &u32| {
                if cancel.is_cancelled() {
                    return Err(rappel_store::Error::Cancelled.into());
                }
                let first = number * each + 1;
                let count = each.min(snapshot.pages + 1 - first);
                buffer.resize((count * page_size) as usize, 0);
                snapshot.read(path, first, &mut buffer)?;
                let glimpses = glimpses(&buffer, page_size, first);
                let lock = snapshot.lock_page();
                if (first..first + count).contains(&lock) {
                    let at = ((lock - first) * page_size) as usize;
                    buffer[at..at + page_size as usize].fill(0);
                }
                let mut marked = None;
                if number == 0 {
                    clear_counters(&mut buffer, snapshot.pages);
                    let mut plain = buffer.clone();
                    plain[18..20].copy_from_slice(&[1, 1]);
                    marked = Some(id_of(&plain));
                }
                let base = former.0.get(number as usize).map(|chunk| &chunk.id);
                let id = match (sink, base) {
                    (Some(sink), Some(_)) => sink.put(Role::Content, &buffer, base)?,
                    (Some(sink), None) => sink.put_new(Role::Content, &buffer)?,
                    (None, _) => id_of(&buffer),
                };
                let length = buffer.len() as u64;
                Ok(Segment { chunk: Chunk { id, length }, marked: marked.unwrap_or(id), glimpses })
            };
            numbers.iter().map(one).collect()
        })
        .collect();
    let mut hasher = blake3::Hasher::new();
    hasher.update(&page_size.to_le_bytes()).update(&snapshot.pages.to_le_bytes());
    let mut list = ChunkList::default();
    let mut seen = Vec::with_capacity(snapshot.pages as usize);
    let mut bytes = 0;
    for piece in pieces {
        for segment in piece? {
            hasher.update(&segment.marked.0);
            bytes += segment.chunk.length;
            list.0.push(segment.chunk);
            seen.extend(segment.glimpses);
        }
    }
    let digest = Digest::new(*hasher.finalize().as_bytes());
    let mode = snapshot.mode().unwrap_or(0o600);
    Ok(Taken { list, digest, bytes, mode, glimpses: seen })
}

/// Follows from the size alone, so that equal databases are cut alike.
fn pages_in_a_segment(page_size: u32, pages: u32) -> u32 {
    let size = u64::from(page_size).max(1);
    let mut segment = SEGMENT;
    while (size * u64::from(pages)).div_ceil(segment) > SEGMENTS_MAX {
        segment *= 2;
    }
    u32::try_from(segment / size).unwrap_or(u32::MAX)
}

struct Segment {
    chunk: Chunk,
    /// What the digest takes for it.
    marked: ObjectId,
    glimpses: Vec<Glimpse>,
}

fn glimpses(buffer: &[u8], page_size: u32, first: u32) -> Vec<Glimpse> {
    let pages = buffer.chunks_exact(page_size as usize).enumerate();
    pages
        .map(|(at, page)| {
            let page = if first == 1 && at == 0 { &page[HEADER..] } else { page };
            Glimpse { kind: page[0], cells: u16::from_be_bytes([page[3], page[4]]) }
        })
        .collect()
}

/// Leaves out of a header what counts transactions and programs, and makes its size true.
fn clear_counters(header: &mut [u8], pages: u32) {
    header[24..28].fill(0);
    header[28..32].copy_from_slice(&pages.to_be_bytes());
    header[40..44].fill(0);
    header[92..100].fill(0);
}

impl Taken {
    /// Puts the tree of these pages into `sink`. `prior` is the tree before.
    pub fn write(&self, sink: &dyn Sink, prior: Option<&ObjectId>) -> Result<ObjectId> {
        let path = pages_path()?;
        let before = prior.and_then(|tree| tree::lookup(sink, tree, &path).ok().flatten());
        let base = before.and_then(|node| match node {
            Node::File { content: Content::Chunked(id), .. } => Some(id),
            _ => None,
        });
        let list = sink.put(Role::Structure, &self.list.encode(), base.as_ref())?;
        let node =
            Node::File { mode: self.mode, size: self.bytes, content: Content::Chunked(list) };
        Ok(tree::write(sink, &[Entry { path, node }])?)
    }
}

fn pages_path() -> Result<RelPath> {
    RelPath::new(PAGES)
        .map_err(|_| Error::Unavailable("the name of a file in the store is none".into()))
}

/// The segments of an earlier checkpoint; none if they cannot be read, which costs space only.
pub(super) fn former(source: &dyn Source, prior: Option<&DatabasePart>) -> ChunkList {
    let load = || {
        let node = tree::lookup(source, &prior?.tree, &pages_path().ok()?).ok()??;
        match node {
            Node::File { content: Content::Chunked(id), .. } => ChunkList::load(source, &id).ok(),
            _ => None,
        }
    };
    load().unwrap_or_default()
}

/// The stored pages of a database.
#[derive(Debug)]
pub(super) struct Stored {
    content: Content,
    /// The permission bits of the file.
    pub mode: u32,
    /// How long they are.
    pub size: u64,
    /// Bytes in a page; 0 if there is none.
    pub page_size: u32,
}

/// Finds the pages that `part` tells of.
pub(super) fn find(source: &dyn Source, part: &DatabasePart) -> Result<Stored> {
    let damaged = |what: &str| {
        rappel_store::Error::Damaged(format!("the stored database {}: {what}", part.name))
    };
    let node = tree::lookup(source, &part.tree, &pages_path()?)?;
    let Some(Node::File { mode, size, content: Content::Chunked(list) }) = node else {
        return Err(damaged("it has no pages").into());
    };
    let mut page_size = 0;
    if size > 0 {
        let first = ChunkList::load(source, &list)?.0.first().map(|chunk| chunk.id);
        let first = first.ok_or_else(|| damaged("it has no pages"))?;
        let header = source.get(&first)?;
        page_size = super::snapshot::page_size(&header)
            .filter(|&page_size| size.is_multiple_of(u64::from(page_size)))
            .ok_or_else(|| damaged("its first page is none"))?;
    }
    Ok(Stored { content: Content::Chunked(list), mode, size, page_size })
}

/// Which counters a header gets on its way back, and how the database keeps its journal.
#[derive(Debug, Clone, Copy)]
pub(super) struct Header {
    pub counter: u32,
    /// Whether to say that there is a write-ahead log, if that is what was captured.
    pub may_have_log: bool,
}

impl Stored {
    /// Writes the pages to `out`, checked on the way.
    pub fn write_to(&self, source: &dyn Source, header: Header, out: &mut dyn Write) -> Result<()> {
        let mut marked = Marked { header, at: 0, out };
        Ok(content::write_to(source, &self.content, self.size, &mut marked)?)
    }
}

/// Puts counters into the header that passes by. The header is in the first write.
struct Marked<'a> {
    header: Header,
    at: u64,
    out: &'a mut dyn Write,
}

impl Write for Marked<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.at == 0 && bytes.len() >= HEADER {
            let mut first = bytes.to_vec();
            let counter = self.header.counter.to_be_bytes();
            for at in [24, 40, 92] {
                first[at..at + 4].copy_from_slice(&counter);
            }
            if !self.header.may_have_log {
                first[18..20].copy_from_slice(&[1, 1]);
            }
            self.out.write_all(&first)?;
        } else {
            self.out.write_all(bytes)?;
        }
        self.at += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
