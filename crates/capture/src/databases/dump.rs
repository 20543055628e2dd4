//! Dumps: a database as one long text, which arrives as a stream, is stored whole or as a difference
//! to one that is stored whole, and is written out again. `docs/format.md`, "Dumps", has the bytes.
//!
//! Nothing here knows what the text means. Memory is bounded whatever its length, and there is no temporary file.
//!
//! - [`line`]: what a line is and how it is hashed; `lines`: finding one again;
//! - `blocks`: reading the stream; `chunks`: storing a whole dump; `pieces`: reading one;
//! - `compare`: what is new in a dump; `patch`: how that is written down.

mod blocks;
mod chunks;
mod compare;
mod line;
mod lines;
mod patch;
mod pieces;

use std::io::{Read, Write};
use std::thread;

use rappel_store::codec::{self, Effort};
use rappel_store::content;
use rappel_store::sink::{Sink, Source};
use rappel_store::tree;
use rappel_store::{Error as StoreError, Result as StoreResult};
use rappel_types::database::{DatabasePart, Digest};
use rappel_types::{Content, Entry, Node, ObjectId, RelPath};

use self::blocks::Blocks;
use self::chunks::{BULK, Parts, Putter, Whole};
use self::compare::Compare;
use self::lines::{Sampler, Table};
use self::pieces::Pieces;
use super::error::Result;

const FULL: &str = "full";
const LINES: &str = "lines";
const PATCH: &str = "patch";
const MODE: u32 = 0o600;
/// A patch that takes more than this part of what its base takes, in percent, is followed by a whole dump.
const PATCH_PERCENT: u64 = 30;
/// How many pieces of the base are compressed to tell what all of it takes.
const PROBES: usize = 4;

/// A dump in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// Its tree.
    pub tree: ObjectId,
    /// The hash of its bytes.
    pub digest: Digest,
    /// How many bytes it has.
    pub bytes: u64,
}

impl From<&DatabasePart> for Stored {
    fn from(part: &DatabasePart) -> Self {
        Self { tree: part.tree, digest: part.digest.clone(), bytes: part.bytes }
    }
}

/// Stores everything that `reader` gives. `prior` is a dump of the same database that an earlier
/// commit holds: only the difference to it, or to what it is itself a difference to, is stored, unless that has become too much. If it
/// cannot be read, the dump is stored whole.
pub fn store(
    sink: &dyn Sink,
    reader: &mut (dyn Read + Send),
    prior: Option<&Stored>,
) -> Result<Stored> {
    let base = prior.and_then(|prior| Base::open(sink, &prior.tree).ok()).filter(Base::is_worth_it);
    let bulk = prior.is_some_and(|prior| prior.bytes > BULK);
    let mut hasher = blake3::Hasher::new();
    let mut bytes = 0u64;
    let mut see = |block: &[u8]| {
        hasher.update(block);
        bytes += block.len() as u64;
    };
    let files = thread::scope(|scope| -> StoreResult<Files> {
        let Some(Base { files, mut pieces, table }) = base else {
            let mut whole = Whole::new(Putter::start(scope, sink, prior.is_none())?, bulk);
            whole.read(reader, see)?;
            let whole = whole.finish(sink)?;
            let full = (whole.content, whole.size);
            return Ok(Files { full, lines: whole.lines, patch: None });
        };
        pieces.fetch_ahead(scope);
        let mut compare = Compare::new(sink, pieces, table)?;
        let blocks = Blocks::start(scope, reader).map_err(StoreError::io("start", "a thread"))?;
        while let Some(block) = blocks.next() {
            let block = block.map_err(StoreError::io("read", "the dump"))?;
            see(&block);
            compare.push(&block)?;
            blocks.give_back(block);
        }
        Ok(Files { patch: compare.finish()?, ..files })
    })?;
    let digest = Digest::new(*hasher.finalize().as_bytes());
    if let Some(prior) = prior {
        sink.refer(&prior.tree);
        if prior.digest == digest {
            return Ok(prior.clone());
        }
    }
    Ok(Stored { tree: files.write(sink)?, digest, bytes })
}

/// Writes a dump to `out`. An error means that what was written is not it: that may be known only
/// after the last byte.
pub fn write_to(source: &dyn Source, dump: &Stored, out: &mut dyn Write) -> Result<()> {
    pass_on(source, dump, &mut |bytes| {
        out.write_all(bytes).map_err(|error| StoreError::io("write", "the dump")(error).into())
    })
}

/// Passes a dump on to `take`, block by block. An error means that what was passed on is not it: that
/// may be known only after the last byte.
pub fn pass_on(
    source: &dyn Source,
    dump: &Stored,
    take: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let files = Files::read(source, &dump.tree)?;
    let mut hasher = blake3::Hasher::new();
    let mut pass = |bytes: &[u8]| {
        hasher.update(bytes);
        take(bytes)
    };
    thread::scope(|scope| {
        let mut base = Pieces::open(source, &files.full.0, files.full.1)?;
        base.fetch_ahead(scope);
        match &files.patch {
            Some((patch, size)) => {
                let mut patch = Pieces::open(source, patch, *size)?;
                patch::apply(&mut patch, &mut base, dump.bytes, &mut pass)
            }
            None => {
                let length = base.length();
                base.range(0, length, &mut pass)
            }
        }
    })?;
    if Digest::new(*hasher.finalize().as_bytes()) != dump.digest {
        return Err(StoreError::Damaged("a dump does not have its hash".into()).into());
    }
    Ok(())
}

fn put(sink: &dyn Sink, bytes: &[u8]) -> StoreResult<(Content, u64)> {
    let mut parts = Parts::default();
    parts.push(sink, bytes)?;
    parts.finish(sink)
}

/// The files of a dump's tree, each with its size.
struct Files {
    full: (Content, u64),
    lines: Option<(Content, u64)>,
    patch: Option<(Content, u64)>,
}

impl Files {
    fn read(source: &dyn Source, tree: &ObjectId) -> StoreResult<Self> {
        let mut found = [None; 3];
        for entry in tree::read(source, tree)? {
            let place =
                [FULL, LINES, PATCH].iter().position(|n| n.as_bytes() == entry.path.as_bytes());
            if let (Some(place), Node::File { size, content, .. }) = (place, entry.node) {
                found[place] = Some((content, size));
            }
        }
        let [full, lines, patch] = found;
        let full = full.ok_or_else(|| StoreError::Damaged("a dump is without its text".into()))?;
        Ok(Self { full, lines, patch })
    }

    fn write(&self, sink: &dyn Sink) -> StoreResult<ObjectId> {
        let named = [(FULL, Some(self.full)), (LINES, self.lines), (PATCH, self.patch)];
        let mut entries = Vec::with_capacity(named.len());
        for (name, file) in named {
            let Some((content, size)) = file else { continue };
            let path = RelPath::new(name)
                .map_err(|error| StoreError::Damaged(format!("{name}: {error}")))?;
            entries.push(Entry { path, node: Node::File { mode: MODE, size, content } });
        }
        tree::write(sink, &entries)
    }
}

/// A whole dump that another may be stored against.
struct Base<'a> {
    files: Files,
    pieces: Pieces<'a>,
    table: Table,
}

impl<'a> Base<'a> {
    fn open(source: &'a dyn Source, tree: &ObjectId) -> StoreResult<Self> {
        let files = Files::read(source, tree)?;
        let (full, size) = &files.full;
        let mut pieces = Pieces::open(source, full, *size)?;
        let table = match &files.lines {
            Some((lines, size)) => {
                Table::decode(&content::read(source, lines, *size, Table::FILE_MAX)?)?
            }
            None => pieces.at(0)?.map(|(text, _)| Sampler::of(&text).into()).unwrap_or_default(),
        };
        Ok(Self { files, pieces, table })
    }

    /// Whether a patch does not take too much yet. What the base takes is told by a few of its pieces.
    fn is_worth_it(&self) -> bool {
        let Some((_, patch)) = self.files.patch else { return true };
        let length = self.pieces.length();
        if patch * 200 < length {
            return true;
        }
        self.pieces
            .estimate(PROBES, |piece| codec::compress(piece, Effort::Fast))
            .is_ok_and(|full| patch * 100 <= full * PATCH_PERCENT)
    }
}
