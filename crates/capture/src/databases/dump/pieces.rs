//! A stored content as pieces of at most 1 MiB that can be read from anywhere. A few are kept, and
//! those that will be wanted next are fetched by another thread, if there is one.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::Scope;

use rappel_store::content::{Chunk, ChunkList, WHOLE_MAX};
use rappel_store::sink::Source;
use rappel_store::threads;
use rappel_store::{Error, Result};
use rappel_types::Content;

/// How many pieces are kept, those on their way included.
const KEPT: usize = 8;
/// How many are fetched before they are wanted.
const AHEAD: usize = 4;

/// The bytes of a file in the store.
pub struct Pieces<'a> {
    source: &'a dyn Source,
    chunks: Vec<Chunk>,
    /// Where each piece ends.
    ends: Vec<u64>,
    /// Last used last.
    kept: VecDeque<(usize, Arc<[u8]>)>,
    current: usize,
    ahead: Option<Ahead>,
}

/// The thread that fetches.
struct Ahead {
    wanted: Sender<usize>,
    fetched: Receiver<(usize, Result<Arc<[u8]>>)>,
    /// Asked for and not received.
    open: VecDeque<usize>,
}

fn fetch(source: &dyn Source, chunk: &Chunk) -> Result<Arc<[u8]>> {
    let bytes = source.get(&chunk.id)?;
    if bytes.len() as u64 != chunk.length {
        return Err(Error::Damaged(format!("chunk {} has another length", chunk.id)));
    }
    Ok(bytes)
}

impl<'a> Pieces<'a> {
    /// The pieces of a content of `size` bytes.
    pub fn open(source: &'a dyn Source, content: &Content, size: u64) -> Result<Self> {
        let chunks = match content {
            Content::Whole(id) if size <= WHOLE_MAX as u64 => vec![Chunk { id: *id, length: size }],
            Content::Whole(id) => {
                return Err(Error::Damaged(format!("object {id} should have been chunks")));
            }
            Content::Chunked(id) => ChunkList::load(source, id)?.0,
        };
        let mut end = 0u64;
        let ends: Vec<u64> = chunks
            .iter()
            .map(|chunk| {
                end += chunk.length;
                end
            })
            .collect();
        if end != size {
            let id = content.id();
            return Err(Error::Damaged(format!(
                "chunk list {id} does not have the size of its file"
            )));
        }
        Ok(Self { source, chunks, ends, kept: VecDeque::new(), current: 0, ahead: None })
    }

    /// Fetches ahead from here on, on a thread of its own.
    pub fn fetch_ahead<'scope>(&mut self, scope: &'scope Scope<'scope, '_>)
    where
        'a: 'scope,
    {
        let (wanted, requests) = mpsc::channel::<usize>();
        let (sender, fetched) = mpsc::channel();
        let (source, chunks) = (self.source, self.chunks.clone());
        let started = threads::start_in(scope, move || {
            for number in requests {
                if sender.send((number, fetch(source, &chunks[number]))).is_err() {
                    break;
                }
            }
        });
        // Without it, each is fetched when it is wanted.
        self.ahead = started.ok().map(|_| Ahead { wanted, fetched, open: VecDeque::new() });
    }

    /// How many bytes there are.
    pub fn length(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// What all of it takes compressed, judged by `probes` of the pieces.
    pub fn estimate(
        &self,
        probes: usize,
        compress: impl Fn(&[u8]) -> Result<Vec<u8>>,
    ) -> Result<u64> {
        let step = self.chunks.len().div_ceil(probes).max(1);
        let (mut raw, mut packed) = (0, 0);
        for chunk in self.chunks.iter().step_by(step) {
            raw += chunk.length;
            packed += compress(&fetch(self.source, chunk)?)?.len() as u64;
        }
        Ok((u128::from(self.length()) * u128::from(packed) / u128::from(raw.max(1))) as u64)
    }

    fn number(&self, offset: u64) -> usize {
        let begins = |number: usize| number.checked_sub(1).map_or(0, |before| self.ends[before]);
        match self.ends.get(self.current) {
            Some(end) if offset < *end && offset >= begins(self.current) => self.current,
            _ => self.ends.partition_point(|end| *end <= offset),
        }
    }

    /// Whether the piece at `offset` is at hand, or nearly.
    pub fn is_near(&self, offset: u64) -> bool {
        let number = self.number(offset);
        self.kept.iter().any(|(kept, _)| *kept == number)
            || self.ahead.as_ref().is_some_and(|ahead| ahead.open.contains(&number))
    }

    /// The piece that holds the byte at `offset`, and where in it that byte is. `None` at the end.
    pub fn at(&mut self, offset: u64) -> Result<Option<(Arc<[u8]>, usize)>> {
        let number = self.number(offset);
        if number >= self.chunks.len() {
            return Ok(None);
        }
        let within = (offset - (self.ends[number] - self.chunks[number].length)) as usize;
        if number == self.current
            && let Some((kept, bytes)) = self.kept.back()
            && *kept == number
        {
            return Ok(Some((bytes.clone(), within)));
        }
        self.current = number;
        let bytes = self.piece(number)?;
        Ok(Some((bytes, within)))
    }

    fn piece(&mut self, number: usize) -> Result<Arc<[u8]>> {
        if let Some(ahead) = &mut self.ahead {
            for next in number + 1..(number + 1 + AHEAD).min(self.chunks.len()) {
                if !ahead.open.contains(&next)
                    && ahead.open.len() < AHEAD
                    && !self.kept.iter().any(|(kept, _)| *kept == next)
                    && ahead.wanted.send(next).is_ok()
                {
                    ahead.open.push_back(next);
                }
            }
            while ahead.open.contains(&number) {
                let Ok((fetched, bytes)) = ahead.fetched.recv() else { break };
                ahead.open.retain(|open| *open != fetched);
                self.kept.push_back((fetched, bytes?));
            }
        }
        let found = self.kept.iter().position(|(kept, _)| *kept == number);
        let piece = match found.and_then(|at| self.kept.remove(at)) {
            Some(piece) => piece,
            None => (number, fetch(self.source, &self.chunks[number])?),
        };
        let bytes = piece.1.clone();
        self.kept.push_back(piece);
        while self.kept.len() > KEPT {
            self.kept.pop_front();
        }
        Ok(bytes)
    }

    /// Calls `take` with the bytes of `length` from `offset` on, piece by piece.
    pub fn range<E: From<Error>>(
        &mut self,
        mut offset: u64,
        mut length: u64,
        mut take: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        while length > 0 {
            let Some((piece, within)) = self.at(offset)? else {
                let reason = "something refers to what is behind the end";
                return Err(Error::Damaged(reason.into()).into());
            };
            let end = (within as u64).saturating_add(length).min(piece.len() as u64) as usize;
            take(&piece[within..end])?;
            let taken = (end - within) as u64;
            offset += taken;
            length -= taken;
        }
        Ok(())
    }
}
