//! The bytes of files: small ones are one object, large ones a list of content-defined chunks.

use std::io::{self, Read, Write};

use fastcdc::v2020::{FastCDC, Normalization};
use rappel_types::{Content, ObjectId};

use crate::error::{Error, Result};
use crate::sink::{Role, Sink, Source, id_of};
use crate::varint::{self, Cursor};

/// Files up to this size are one object.
pub const WHOLE_MAX: usize = 1 << 20;
const CHUNK_MIN: usize = 64 << 10;
const CHUNK_AVERAGE: usize = 256 << 10;
const CHUNK_MAX: usize = 1 << 20;
/// How much of a large file is in memory at once.
const WINDOW: usize = 8 << 20;
pub(crate) const LIST_MAGIC: &[u8; 4] = b"RCL\x01";

/// One chunk of a large file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk {
    /// Its object.
    pub id: ObjectId,
    /// Its length.
    pub length: u64,
}

/// A large file, as its list of chunks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChunkList(pub Vec<Chunk>);

impl ChunkList {
    /// The list as an object.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(16 + self.0.len() * 36);
        bytes.extend_from_slice(LIST_MAGIC);
        varint::write(&mut bytes, self.0.len() as u64);
        for chunk in &self.0 {
            varint::write(&mut bytes, chunk.length);
            bytes.extend_from_slice(&chunk.id.0);
        }
        bytes
    }

    /// Reads a list from bytes that may be anything.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut cursor = Cursor::new(bytes, "chunk list");
        if cursor.take(4)? != LIST_MAGIC {
            return Err(cursor.bad("it has no magic"));
        }
        let count = cursor.bounded(bytes.len() as u64 / 33)?;
        let mut chunks = Vec::with_capacity(count);
        for _ in 0..count {
            let length = cursor.bounded(CHUNK_MAX as u64)? as u64;
            chunks.push(Chunk { id: ObjectId(cursor.array()?), length });
        }
        cursor.finish()?;
        Ok(Self(chunks))
    }

    /// Reads a list from a source.
    pub fn load(source: &dyn Source, id: &ObjectId) -> Result<Self> {
        Self::decode(&source.get(id)?)
    }

    /// The length of the file.
    pub(crate) fn size(&self) -> u64 {
        self.0.iter().map(|chunk| chunk.length).sum()
    }
}

/// Puts everything `reader` gives into `sink`; `hint` is how much that probably is. `base` is what
/// the same file held before, so that only the difference has to be stored. Returns the content
/// and its length. Memory stays bounded whatever the length.
pub fn store(
    sink: &dyn Sink,
    reader: &mut dyn Read,
    hint: u64,
    base: Option<&Content>,
) -> Result<(Content, u64)> {
    let mut buffer = Vec::with_capacity((hint as usize).min(WINDOW) + 1);
    fill(reader, &mut buffer, WHOLE_MAX + 1)?;
    if buffer.len() <= WHOLE_MAX {
        let base = match base {
            Some(Content::Whole(id)) => Some(id),
            _ => None,
        };
        let id = sink.put(Role::Content, &buffer, base)?;
        return Ok((Content::Whole(id), buffer.len() as u64));
    }
    store_chunks(sink, reader, buffer, ChunkList::default(), base)
}

/// Stores a file of which `kept` are the first chunks, but for the last one that was stored: the end
/// of the file ended that one. `reader` gives what follows them. The content is the one that [`store`]
/// gives for the whole file, because where a chunk ends follows from its own bytes alone.
///
/// Nothing here looks whether the file still begins with those chunks.
pub fn store_on(
    sink: &dyn Sink,
    kept: Vec<Chunk>,
    reader: &mut dyn Read,
    base: &Content,
) -> Result<(Content, u64)> {
    store_chunks(sink, reader, Vec::new(), ChunkList(kept), Some(base))
}

/// Cuts `buffer` and what `reader` gives into chunks, behind those that `list` has.
fn store_chunks(
    sink: &dyn Sink,
    reader: &mut dyn Read,
    mut buffer: Vec<u8>,
    mut list: ChunkList,
    base: Option<&Content>,
) -> Result<(Content, u64)> {
    let base = match base {
        Some(Content::Chunked(id)) => Some(id),
        _ => None,
    };
    let former = base.and_then(|id| ChunkList::load(sink, id).ok());
    let mut length = list.size();
    let mut ended = false;
    while !ended || !buffer.is_empty() {
        if !ended {
            ended = !fill(reader, &mut buffer, WINDOW)?;
        }
        let mut used = 0;
        let chunks = FastCDC::with_level(
            &buffer,
            CHUNK_MIN,
            CHUNK_AVERAGE,
            CHUNK_MAX,
            Normalization::Level1,
        );
        for chunk in chunks {
            // The last cut of a window is final only if nothing follows that could move it.
            if !ended && chunk.offset + CHUNK_MAX > buffer.len() {
                break;
            }
            let bytes = &buffer[chunk.offset..chunk.offset + chunk.length];
            let near = former.as_ref().and_then(|list| chunk_at(list, length));
            let id = sink.put(Role::Content, bytes, near.as_ref())?;
            list.0.push(Chunk { id, length: bytes.len() as u64 });
            length += bytes.len() as u64;
            used = chunk.offset + chunk.length;
        }
        buffer.drain(..used);
    }
    let id = sink.put(Role::Structure, &list.encode(), base)?;
    Ok((Content::Chunked(id), length))
}

/// The chunk of a former version that covers `offset`: the likeliest base of what is there now.
fn chunk_at(list: &ChunkList, offset: u64) -> Option<ObjectId> {
    let mut end = 0;
    list.0
        .iter()
        .find(|chunk| {
            end += chunk.length;
            offset < end
        })
        .map(|chunk| chunk.id)
}

/// Reads until `buffer` holds `want` bytes; false if the reader ended before.
fn fill(reader: &mut dyn Read, buffer: &mut Vec<u8>, want: usize) -> Result<bool> {
    let missing = want.saturating_sub(buffer.len());
    let read = reader
        .take(missing as u64)
        .read_to_end(buffer)
        .map_err(Error::io("read", "the file being captured"))?;
    Ok(read == missing)
}

/// Writes a file's bytes to `out`, each object checked against its id, the length against `size`.
pub fn write_to(
    source: &dyn Source,
    content: &Content,
    size: u64,
    out: &mut dyn Write,
) -> Result<()> {
    let failed = |error: io::Error| Error::Io {
        action: "write",
        path: "the restored file".into(),
        source: error,
    };
    match content {
        Content::Whole(id) => {
            let bytes = source.get(id)?;
            if bytes.len() as u64 != size {
                return Err(Error::Damaged(format!(
                    "object {id} does not have the size of its file"
                )));
            }
            out.write_all(&bytes).map_err(failed)
        }
        Content::Chunked(id) => {
            let list = ChunkList::load(source, id)?;
            if list.size() != size {
                return Err(Error::Damaged(format!(
                    "chunk list {id} does not have the size of its file"
                )));
            }
            for chunk in &list.0 {
                let bytes = source.get(&chunk.id)?;
                if bytes.len() as u64 != chunk.length {
                    return Err(Error::Damaged(format!("chunk {} has another length", chunk.id)));
                }
                out.write_all(&bytes).map_err(failed)?;
            }
            Ok(())
        }
    }
}

/// A whole file's bytes in memory; refuses more than `limit`.
pub fn read(source: &dyn Source, content: &Content, size: u64, limit: u64) -> Result<Vec<u8>> {
    if size > limit {
        return Err(Error::Damaged(format!("a file of {size} bytes where {limit} is the limit")));
    }
    let mut bytes = Vec::with_capacity(size as usize);
    write_to(source, content, size, &mut bytes)?;
    Ok(bytes)
}

/// What `reader` gives, as the content it would be stored as; nothing is kept.
pub fn identify(reader: &mut dyn Read, hint: u64) -> Result<(Content, u64)> {
    store(&HashOnly, reader, hint, None)
}

struct HashOnly;

impl Source for HashOnly {
    fn get(&self, id: &ObjectId) -> Result<std::sync::Arc<[u8]>> {
        Err(Error::Missing(*id))
    }
}

impl Sink for HashOnly {
    fn put(&self, _role: Role, bytes: &[u8], _base: Option<&ObjectId>) -> Result<ObjectId> {
        Ok(id_of(bytes))
    }
}
