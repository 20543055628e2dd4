//! Reading transcripts from disk, as far as they were not read.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;

use rappel_types::RelPath;

use super::transcripts::{Batch, HEAD_MAX, LINE_MAX, Reader, Resume};

/// How much is read at once. A longer line is read at once too.
const WINDOW: usize = 4 << 20;
/// How much a compressed transcript may hold.
pub const UNPACKED_MAX: u64 = 1 << 30;

/// Whether a transcript is compressed, by its path.
pub fn is_compressed(path: &RelPath) -> bool {
    path.as_bytes().ends_with(b".zst")
}

/// Reads what is new in `file`, which is the transcript at `path`, and gives it to `take`, a few
/// MiB of it at a time, until that is done or fails. A compressed transcript goes on where the same one left off before it was
/// compressed.
pub fn read_on(
    reader: &mut Reader,
    path: &RelPath,
    file: &File,
    take: &mut dyn FnMut(Batch) -> io::Result<()>,
) -> io::Result<Resume> {
    if is_compressed(path) {
        return unpack_on(reader, path, file, take);
    }
    let size = file.metadata()?.len();
    let mut head = vec![0; HEAD_MAX];
    let length = read_at(file, &mut head, 0)?;
    let resumed = reader.resume(path, &head[..length], size);
    let mut at = reader.offset();
    if at == size {
        return Ok(resumed);
    }
    // What is written from now on is for the next time, or a fast writer could keep us here.
    let mut next = |buffer: &mut [u8]| {
        let room = usize::try_from(size.saturating_sub(at)).unwrap_or(usize::MAX);
        let room = room.min(buffer.len());
        let read = read_at(file, &mut buffer[..room], at)?;
        at += read as u64;
        Ok(read)
    };
    feed(reader, &mut next, take)?;
    Ok(resumed)
}

/// The same for a compressed one. It can only be read from its start, and tells its length only at
/// its end.
fn unpack_on(
    reader: &mut Reader,
    path: &RelPath,
    file: &File,
    take: &mut dyn FnMut(Batch) -> io::Result<()>,
) -> io::Result<Resume> {
    let mut unpacked = unpack(file)?;
    let mut head = vec![0; HEAD_MAX];
    let length = fill(&mut unpacked, &mut head)?;
    let size = length as u64 + io::copy(&mut unpacked, &mut io::sink())?;
    let resumed = reader.resume(path, &head[..length], size);
    if reader.offset() < size {
        let mut unpacked = unpack(file)?;
        io::copy(&mut (&mut unpacked).take(reader.offset()), &mut io::sink())?;
        feed(reader, &mut |buffer| fill(&mut unpacked, buffer), take)?;
    }
    Ok(resumed)
}

/// What a compressed file holds, from its start.
pub(super) fn unpack(file: &File) -> io::Result<impl Read + use<'_>> {
    let decoder = zstd::stream::read::Decoder::new(FromStart { file, at: 0 })?;
    Ok(decoder.take(UNPACKED_MAX))
}

/// A file from its start, wherever others are reading it.
struct FromStart<'a> {
    file: &'a File,
    at: u64,
}

impl Read for FromStart<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buffer, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

/// Gives a reader everything that `next` gives.
fn feed(
    reader: &mut Reader,
    next: &mut dyn FnMut(&mut [u8]) -> io::Result<usize>,
    take: &mut dyn FnMut(Batch) -> io::Result<()>,
) -> io::Result<()> {
    let mut buffer = Vec::new();
    loop {
        let kept = buffer.len();
        // An unfinished line is kept and read on, up to twice as much each time.
        let more = WINDOW.max(kept).min(LINE_MAX + 1);
        buffer.resize(kept + more, 0);
        let read = next(&mut buffer[kept..])?;
        buffer.truncate(kept + read);
        let before = reader.offset();
        let batch = reader.feed(&buffer);
        buffer.drain(..(reader.offset() - before) as usize);
        if !batch.is_empty() || batch.skipped > 0 {
            take(batch)?;
        }
        if read < more {
            return Ok(());
        }
    }
}

/// As much as there is at a place, up to the buffer's length.
pub(super) fn read_at(file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    fill(&mut FromStart { file, at }, buffer)
}

/// As much as there is, up to the buffer's length.
pub(super) fn fill(source: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match source.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
