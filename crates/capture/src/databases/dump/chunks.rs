//! Storing bytes as they come: a whole dump is cut at line ends, anything else at a fixed length.
//! Threads put the chunks.

use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Scope, ScopedJoinHandle};

use rappel_store::content::{Chunk, ChunkList, WHOLE_MAX};
use rappel_store::sink::{Role, Sink};
use rappel_store::{Error, Result};
use rappel_types::Content;

use super::line;
use super::lines::Sampler;

/// No chunk is longer.
const MOST: usize = 1 << 20;
/// No chunk is shorter, but for the last and those before a very long line.
const LEAST: usize = 256 << 10;
/// How much further a chunk goes on average.
const FURTHER: u64 = 256 << 10;
/// Beyond this much, room counts for more than time.
pub const BULK: u64 = 1_000_000_000;
/// How many threads put chunks.
const THREADS: usize = 2;

/// Puts chunks on other threads and gathers their list.
pub struct Putter<'scope> {
    queue: SyncSender<(usize, Role, Vec<u8>)>,
    threads: Vec<ScopedJoinHandle<'scope, Result<Numbered>>>,
    count: usize,
}

/// Chunks with their numbers: threads finish in any order.
type Numbered = Vec<(usize, Chunk)>;
type Queue = Arc<Mutex<Receiver<(usize, Role, Vec<u8>)>>>;

fn put_all(sink: &dyn Sink, queue: &Queue, all_new: bool) -> Result<Numbered> {
    let mut done = Numbered::new();
    loop {
        let next = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((number, role, bytes)) = next else { return Ok(done) };
        let id = match all_new {
            true => sink.put_new(role, &bytes)?,
            false => sink.put(role, &bytes, None)?,
        };
        done.push((number, Chunk { id, length: bytes.len() as u64 }));
    }
}

impl<'scope> Putter<'scope> {
    /// Starts the threads. `all_new` says that none of the chunks is likely to be there already.
    pub fn start<'sink: 'scope>(
        scope: &'scope Scope<'scope, '_>,
        sink: &'sink dyn Sink,
        all_new: bool,
    ) -> Self {
        let (queue, receiver) = mpsc::sync_channel(THREADS);
        let receiver = Arc::new(Mutex::new(receiver));
        let threads = (0..THREADS)
            .map(|_| {
                let receiver = receiver.clone();
                scope.spawn(move || put_all(sink, &receiver, all_new))
            })
            .collect();
        Self { queue, threads, count: 0 }
    }

    /// Takes the next chunk. Whether it could be put is known in the end; false means that it is no
    /// use to go on.
    pub fn put(&mut self, role: Role, bytes: Vec<u8>) -> bool {
        self.count += 1;
        self.queue.send((self.count, role, bytes)).is_ok()
    }

    /// Waits for all, and gives the list.
    pub fn finish(self) -> Result<ChunkList> {
        drop(self.queue);
        let mut chunks = Vec::with_capacity(self.count);
        for thread in self.threads {
            let joined =
                thread.join().map_err(|_| Error::Damaged("a thread ended early".into()))?;
            chunks.extend(joined?);
        }
        chunks.sort_unstable_by_key(|(number, _)| *number);
        Ok(ChunkList(chunks.into_iter().map(|(_, chunk)| chunk).collect()))
    }
}

/// Stores a whole dump.
pub struct Whole<'scope> {
    putter: Putter<'scope>,
    sampler: Sampler,
    /// What has not been put yet.
    bytes: Vec<u8>,
    /// Where it begins in the dump.
    offset: u64,
    /// Where the first line that is not complete begins in `bytes`, and how far its end was looked for.
    line: usize,
    searched: usize,
    bulk: bool,
}

/// A whole dump in the store.
pub struct Stored {
    pub content: Content,
    pub size: u64,
    /// The file `lines`, if the dump is long enough to have one.
    pub lines: Option<Vec<u8>>,
}

impl<'scope> Whole<'scope> {
    /// Begins to store. `bulk` says that it is known to be very large.
    pub fn new(putter: Putter<'scope>, bulk: bool) -> Self {
        let (sampler, bytes) = (Sampler::default(), Vec::with_capacity(2 * MOST));
        Self { putter, sampler, bytes, offset: 0, line: 0, searched: 0, bulk }
    }

    /// Takes the next bytes; false means that it is no use to go on.
    pub fn push(&mut self, block: &[u8]) -> bool {
        self.bytes.extend_from_slice(block);
        // What fits in one object is one, whatever its lines.
        self.offset + (self.bytes.len() as u64) <= WHOLE_MAX as u64 || self.cut()
    }

    fn cut(&mut self) -> bool {
        let mut going = true;
        while going {
            let Some(at) = memchr::memchr(b'\n', &self.bytes[self.searched..]) else {
                self.searched = self.bytes.len();
                if self.searched <= MOST {
                    return true;
                }
                going = self.cut_before_long();
                continue;
            };
            let end = self.searched + at + 1;
            if end > MOST {
                going = self.cut_before_long();
                continue;
            }
            let length = end - self.line;
            let hash = self.see(end);
            self.line = end;
            self.searched = end;
            // Every byte has the same chance of being where a chunk ends, whatever the lines' length.
            if end >= LEAST && (hash & 0xffff_ffff) * FURTHER < (length as u64) << 32 {
                going = self.emit(end);
            }
        }
        false
    }

    /// Samples the line that goes on to `end`.
    fn see(&mut self, end: usize) -> u64 {
        let line = &self.bytes[self.line..end];
        let hash = line::hash(line);
        self.sampler.see(hash, line.len(), self.offset + self.line as u64);
        hash
    }

    /// Ends the chunk before a line that does not fit in it any more, or within one that fits in none.
    fn cut_before_long(&mut self) -> bool {
        if self.line > 0 {
            return self.emit(self.line);
        }
        self.see(MOST);
        self.line = MOST;
        self.emit(MOST)
    }

    fn emit(&mut self, end: usize) -> bool {
        let mut rest = Vec::with_capacity(2 * MOST);
        rest.extend_from_slice(&self.bytes[end..]);
        self.bytes.truncate(end);
        let chunk = std::mem::replace(&mut self.bytes, rest);
        self.offset += end as u64;
        self.line -= end;
        self.searched = self.searched.max(self.line + end) - end;
        let bulk = self.bulk || self.offset > BULK;
        self.putter.put(if bulk { Role::Bulk } else { Role::Content }, chunk)
    }

    /// Ends the dump.
    pub fn finish(mut self, sink: &dyn Sink) -> Result<Stored> {
        let size = self.offset + self.bytes.len() as u64;
        if size <= WHOLE_MAX as u64 {
            self.putter.finish()?;
            let id = sink.put(Role::Content, &self.bytes, None)?;
            return Ok(Stored { content: Content::Whole(id), size, lines: None });
        }
        if self.line < self.bytes.len() {
            self.see(self.bytes.len());
            self.line = self.bytes.len();
        }
        if !self.bytes.is_empty() {
            self.emit(self.bytes.len());
        }
        let list = self.putter.finish()?;
        let id = sink.put(Role::Structure, &list.encode(), None)?;
        Ok(Stored { content: Content::Chunked(id), size, lines: Some(self.sampler.encode()) })
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
