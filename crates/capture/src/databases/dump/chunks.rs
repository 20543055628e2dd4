//! Storing bytes as they come: a whole dump is cut at line ends, anything else at a fixed length.
//! Threads put the chunks.

use std::io::Read;
use std::sync::mpsc::{self, Receiver, Sender, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Scope, ScopedJoinHandle};

use rappel_store::content::{Chunk, ChunkList, WHOLE_MAX};
use rappel_store::sink::{Role, Sink};
use rappel_store::threads;
use rappel_store::{Error, Result};
use rappel_types::Content;

use super::blocks;
use super::line;
use super::lines::Sampler;

/// No chunk is longer.
const MOST: usize = 1 << 20;
/// No chunk ends behind a line that begins before this, but for the last and those before a very long line.
const LEAST: usize = 384 << 10;
/// How much further a chunk goes on average.
const FURTHER: u64 = 128 << 10;
/// How much is looked at together. The less of it lies behind the end of a chunk, the less is moved.
const STEP: usize = 64 << 10;
/// Beyond this much, room counts for more than time.
pub const BULK: u64 = 1_000_000_000;
/// How many chunks wait to be put.
const WAITING: usize = 2;

/// Puts chunks and gathers their list. Another thread does it: what makes the stream needs the other cores. Who would have to
/// wait for that thread helps instead.
pub struct Putter<'scope> {
    queue: SyncSender<Numbered>,
    helper: Worker<'scope>,
    thread: ScopedJoinHandle<'scope, Result<Done>>,
    /// Memory to be used again.
    used: Receiver<Vec<u8>>,
    count: usize,
    own: Done,
}

/// Chunks that are put, with their numbers: they are finished in any order.
type Done = Vec<(usize, Chunk)>;

/// A chunk and its number.
struct Numbered {
    number: usize,
    role: Role,
    /// The chunk is what it begins with.
    bytes: Vec<u8>,
    length: usize,
}

#[derive(Clone)]
struct Worker<'scope> {
    sink: &'scope dyn Sink,
    queue: Arc<Mutex<Receiver<Numbered>>>,
    /// Where memory goes to be used again.
    used: Sender<Vec<u8>>,
    all_new: bool,
}

impl Worker<'_> {
    fn put(&self, chunk: Numbered) -> Result<(usize, Chunk)> {
        let Numbered { number, role, bytes, length } = chunk;
        let id = match self.all_new {
            true => self.sink.put_new(role, &bytes[..length])?,
            false => self.sink.put(role, &bytes[..length], None)?,
        };
        let _ = self.used.send(bytes);
        Ok((number, Chunk { id, length: length as u64 }))
    }

    /// Puts chunks until there are no more.
    fn run(&self) -> Result<Done> {
        let mut done = Vec::new();
        loop {
            let next = self.queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(chunk) = next else { return Ok(done) };
            done.push(self.put(chunk)?);
        }
    }
}

impl<'scope> Putter<'scope> {
    /// Starts the thread. `all_new` says that none of the chunks is likely to be there already.
    pub fn start<'sink: 'scope>(
        scope: &'scope Scope<'scope, '_>,
        sink: &'sink dyn Sink,
        all_new: bool,
    ) -> Result<Self> {
        let (queue, receiver) = mpsc::sync_channel(WAITING);
        let (back, used) = mpsc::channel();
        let helper = Worker { sink, queue: Arc::new(Mutex::new(receiver)), used: back, all_new };
        let worker = helper.clone();
        let thread = threads::start_in(scope, move || worker.run())
            .map_err(rappel_store::Error::io("start", "a thread"))?;
        Ok(Self { queue, helper, thread, used, count: 0, own: Vec::new() })
    }

    /// Takes the next chunk.
    pub fn put(&mut self, role: Role, bytes: Vec<u8>, length: usize) -> Result<()> {
        self.count += 1;
        let chunk = Numbered { number: self.count, role, bytes, length };
        if let Err(TrySendError::Full(chunk) | TrySendError::Disconnected(chunk)) =
            self.queue.try_send(chunk)
        {
            self.own.push(self.helper.put(chunk)?);
        }
        Ok(())
    }

    /// Memory for a chunk.
    fn memory(&self) -> Vec<u8> {
        self.used.try_recv().unwrap_or_else(|_| vec![0; MOST + STEP])
    }

    /// Helps until all are put, and gives the list.
    pub fn finish(self) -> Result<ChunkList> {
        drop(self.queue);
        let mut chunks = self.own;
        chunks.extend(self.helper.run()?);
        let ended = self.thread.join();
        chunks.extend(ended.map_err(|_| Error::Damaged("a thread ended early".into()))??);
        chunks.sort_unstable_by_key(|(number, _)| *number);
        Ok(ChunkList(chunks.into_iter().map(|(_, chunk)| chunk).collect()))
    }
}

/// Stores a whole dump.
pub struct Whole<'scope> {
    putter: Putter<'scope>,
    sampler: Sampler,
    /// Begins with what has not been put yet.
    bytes: Vec<u8>,
    /// How much that is.
    filled: usize,
    /// Where it begins in the dump.
    offset: u64,
    /// Where a line begins in `bytes`; those before have been seen.
    line: usize,
    bulk: bool,
}

/// A whole dump in the store.
pub struct Stored {
    pub content: Content,
    pub size: u64,
    /// The file `lines`, if the dump is long enough to have one.
    pub lines: Option<(Content, u64)>,
}

impl<'scope> Whole<'scope> {
    /// Begins to store. `bulk` says that it is known to be very large.
    pub fn new(putter: Putter<'scope>, bulk: bool) -> Self {
        let bytes = putter.memory();
        Self { putter, sampler: Sampler::default(), bytes, filled: 0, offset: 0, line: 0, bulk }
    }

    /// Takes everything that `reader` gives, and shows it to `see`.
    pub fn read(
        &mut self,
        reader: &mut (dyn Read + Send),
        mut see: impl FnMut(&[u8]),
    ) -> Result<()> {
        loop {
            let room = &mut self.bytes[self.filled..self.filled + STEP];
            let read = blocks::fill(reader, room).map_err(Error::io("read", "the dump"))?;
            see(&room[..read]);
            self.filled += read;
            // What fits in one object is one, whatever its lines.
            if self.offset + self.filled as u64 > WHOLE_MAX as u64 {
                self.cut()?;
            }
            if read < STEP {
                return Ok(());
            }
        }
    }

    /// Puts the chunks that are complete.
    fn cut(&mut self) -> Result<()> {
        loop {
            let end = match self.next_line() {
                Some(end) if end <= MOST => {
                    let begin = std::mem::replace(&mut self.line, end);
                    let hash = self.see(begin, end);
                    // Every byte has the same chance of being where a chunk ends, whatever the lines' length.
                    let chance = ((end - begin) as u64) << 32;
                    if begin < LEAST || (hash & 0xffff_ffff) * FURTHER >= chance {
                        continue;
                    }
                    end
                }
                None if self.filled <= MOST => return Ok(()),
                // It does not fit in the chunk any more, or in none.
                _ => memchr::memrchr(b'\n', &self.bytes[..MOST]).map_or_else(
                    || {
                        self.see(0, MOST);
                        MOST
                    },
                    |newline| newline + 1,
                ),
            };
            self.emit(end)?;
        }
    }

    /// Goes to the next line that counts, and finds its end. Before a chunk may end, only those for the sample do.
    fn next_line(&mut self) -> Option<usize> {
        let counts = self.sampler.next().saturating_sub(self.offset).min(LEAST as u64) as usize;
        if self.line < counts {
            let before = counts - 1;
            self.line = counts + memchr::memchr(b'\n', self.bytes[..self.filled].get(before..)?)?;
        }
        let newline = memchr::memchr(b'\n', self.bytes[..self.filled].get(self.line..)?)?;
        Some(self.line + newline + 1)
    }

    fn see(&mut self, begin: usize, end: usize) -> u64 {
        let line = &self.bytes[begin..end];
        let hash = line::hash(line);
        self.sampler.see(hash, line.len(), self.offset + begin as u64);
        hash
    }

    fn emit(&mut self, end: usize) -> Result<()> {
        let mut rest = self.putter.memory();
        let left = self.filled - end;
        rest[..left].copy_from_slice(&self.bytes[end..self.filled]);
        let chunk = std::mem::replace(&mut self.bytes, rest);
        self.filled = left;
        self.offset += end as u64;
        self.line = 0;
        let bulk = self.bulk || self.offset > BULK;
        self.putter.put(if bulk { Role::Bulk } else { Role::Content }, chunk, end)
    }

    /// Ends the dump.
    pub fn finish(mut self, sink: &dyn Sink) -> Result<Stored> {
        let size = self.offset + self.filled as u64;
        if size <= WHOLE_MAX as u64 {
            self.putter.finish()?;
            let id = sink.put(Role::Content, &self.bytes[..self.filled], None)?;
            return Ok(Stored { content: Content::Whole(id), size, lines: None });
        }
        if self.filled > 0 {
            self.emit(self.filled)?;
        }
        let lines = super::put(sink, &self.sampler.encode())?;
        let list = self.putter.finish()?;
        let id = sink.put(Role::Structure, &list.encode(), None)?;
        Ok(Stored { content: Content::Chunked(id), size, lines: Some(lines) })
    }
}

/// Stores bytes that come in parts and are not worth a thread.
#[derive(Default)]
pub struct Parts {
    list: ChunkList,
    bytes: Vec<u8>,
    size: u64,
}

impl Parts {
    /// Takes the next bytes.
    pub fn push(&mut self, sink: &dyn Sink, bytes: &[u8]) -> Result<()> {
        self.bytes.extend_from_slice(bytes);
        self.size += bytes.len() as u64;
        while self.bytes.len() > WHOLE_MAX {
            let rest = self.bytes.split_off(MOST);
            let chunk = std::mem::replace(&mut self.bytes, rest);
            self.put(sink, &chunk)?;
        }
        Ok(())
    }

    fn put(&mut self, sink: &dyn Sink, chunk: &[u8]) -> Result<()> {
        let id = sink.put(Role::Content, chunk, None)?;
        self.list.0.push(Chunk { id, length: chunk.len() as u64 });
        Ok(())
    }

    /// The content and its size.
    pub fn finish(mut self, sink: &dyn Sink) -> Result<(Content, u64)> {
        if self.list.0.is_empty() {
            return Ok((Content::Whole(sink.put(Role::Content, &self.bytes, None)?), self.size));
        }
        let rest = std::mem::take(&mut self.bytes);
        self.put(sink, &rest)?;
        let id = sink.put(Role::Structure, &self.list.encode(), None)?;
        Ok((Content::Chunked(id), self.size))
    }
}
