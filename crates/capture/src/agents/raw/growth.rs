//! A transcript that only grew costs its new bytes: it is read on from where its last chunk began.
//!
//! No file system tells an append from a rewrite. So that the file still begins with what was stored
//! is looked at where it costs little: it is the same file and longer; its first and its last two
//! chunks are still the same bytes, which every insertion, removal, truncation and rewrite of the
//! whole changes; and of the chunks between, as many bytes are read again as are new, at least a
//! MiB, in turn. If any of this fails, the file is read whole.
//!
//! Not guaranteed: that bytes which were changed in place in the middle, without moving anything
//! behind them, are noticed by the first capture after that. They are noticed when their turn
//! comes, and by every capture that takes [`Care::Whole`](super::Care).

use std::fs::File;
use std::io;

use rappel_store::content::{Chunk, ChunkList};
use rappel_store::sink::{Source, id_of};
use rappel_types::Content;

use super::memo::{Grown, Remembered};
use crate::agents::follow::read_at;
use crate::files::stamp::Stamp;

/// At least so many bytes of the middle are read again.
const READ_AGAIN: u64 = 1 << 20;

/// What of a file is taken over from the capture before.
pub(super) struct Kept {
    pub chunks: Vec<Chunk>,
    /// How long they are together.
    pub length: u64,
    pub grown: Grown,
}

/// The beginning of a file that can be taken over; nothing if the file has to be read whole.
pub(super) fn kept(
    source: &dyn Source,
    file: &File,
    former: &Remembered,
    now: &Stamp,
) -> io::Result<Option<Kept>> {
    let Content::Chunked(list) = former.content() else { return Ok(None) };
    // One that cannot be read any more is nothing to go on from.
    let Ok(ChunkList(mut chunks)) = ChunkList::load(source, list) else { return Ok(None) };
    let Some(last) = chunks.pop() else { return Ok(None) };
    let length = chunks.iter().map(|chunk| chunk.length).sum();
    if !former.grew_to(now) || !holds(file, &last, length)? {
        return Ok(None);
    }
    let ends = [0, chunks.len().saturating_sub(1)];
    let (middle, next) = turn(&chunks, former.next_to_read_again(), now.size - former.size());
    for number in ends.into_iter().chain(middle) {
        let Some(chunk) = chunks.get(number) else { continue };
        let at = chunks[..number].iter().map(|chunk| chunk.length).sum();
        if !holds(file, chunk, at)? {
            return Ok(None);
        }
    }
    Ok(Some(Kept { chunks, length, grown: Grown { next } }))
}

/// The chunks whose turn it is, and where the next turn begins.
fn turn(chunks: &[Chunk], from: u64, new: u64) -> (Vec<usize>, u64) {
    let mut number = usize::try_from(from).unwrap_or_default();
    let (mut numbers, mut bytes) = (Vec::new(), 0);
    while bytes < new.max(READ_AGAIN) && numbers.len() < chunks.len() {
        number = if number < chunks.len() { number } else { 0 };
        numbers.push(number);
        bytes += chunks[number].length;
        number += 1;
    }
    (numbers, number as u64)
}

/// Whether a chunk is still what the file holds there.
fn holds(file: &File, chunk: &Chunk, at: u64) -> io::Result<bool> {
    let mut bytes = vec![0; usize::try_from(chunk.length).unwrap_or_default()];
    let read = read_at(file, &mut bytes, at)?;
    Ok(read == bytes.len() && id_of(&bytes) == chunk.id)
}
