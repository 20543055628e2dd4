//! The write-ahead log (`-wal`) and its index (`-shm`), read in place.
//!
//! Where each page's newest committed version lies in the log is all that is asked for here. If
//! somebody has the database open, the index says up to where the log counts; if nobody has, the
//! log's own checksums do, as they would for whoever opens it next.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

const HEAD: u64 = 32;
const FRAME_HEAD: u64 = 24;
const VERSION: u32 = 3_007_000;
const MAGIC: u32 = 0x377f_0682;

/// The pages that the log has instead of the database file.
#[derive(Debug, Default)]
pub(super) struct Frames {
    /// Where each page's newest version begins in the log.
    pub places: HashMap<u32, u64>,
    /// How many pages the database has after the last commit; `None` if the log says nothing.
    pub pages: Option<u32>,
}

/// The log changed its mind while it was read; look again.
#[derive(Debug)]
pub(super) struct Moved;

/// What the index says, if it can be believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Index {
    /// How many frames count.
    frames: u32,
    /// How many of them are in the database file already.
    moved: u32,
    pages: u32,
    salt: [u8; 8],
    page_size: u32,
}

fn native(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_ne_bytes)
}

fn big(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_be_bytes)
}

/// The log's running checksum: over pairs of words, in the byte order that the log's magic tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Sum(u32, u32);

impl Sum {
    fn add(self, bytes: &[u8], word: fn([u8; 4]) -> u32) -> Self {
        let Self(mut one, mut two) = self;
        let (pairs, _) = bytes.as_chunks::<8>();
        for &[a, b, c, d, e, f, g, h] in pairs {
            one = one.wrapping_add(word([a, b, c, d])).wrapping_add(two);
            two = two.wrapping_add(word([e, f, g, h])).wrapping_add(one);
        }
        Self(one, two)
    }
}

impl Index {
    /// Reads the index; `None` if it is being written.
    pub fn read(shm: &File) -> io::Result<Option<Self>> {
        let look = || -> io::Result<[u8; 136]> {
            let mut bytes = [0; 136];
            shm.read_exact_at(&mut bytes, 0)?;
            Ok(bytes)
        };
        let (before, after) = match (look(), look()) {
            (Ok(before), Ok(after)) => (before, after),
            (Err(error), _) | (_, Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Ok(None);
            }
            (Err(error), _) | (_, Err(error)) => return Err(error),
        };
        let head = &before[..48];
        let sum = Sum::default().add(&head[..40], u32::from_ne_bytes);
        let whole = before[..48] == before[48..96]
            && before[..100] == after[..100]
            && native(head, 0) == VERSION
            && head[12] == 1
            && sum == Sum(native(head, 40), native(head, 44));
        let size = u32::from(u16::from_ne_bytes([head[14], head[15]]));
        Ok(whole.then(|| Self {
            frames: native(head, 16),
            moved: native(&before, 96),
            pages: native(head, 20),
            salt: head[32..40].try_into().unwrap_or_default(),
            page_size: (size & 0xfe00) + ((size & 1) << 16),
        }))
    }
}

/// The pages that count according to the index.
pub(super) fn indexed(
    wal: &File,
    index: &Index,
    page_size: u32,
) -> io::Result<Result<Frames, Moved>> {
    let mut frames = Frames::default();
    if index.frames == 0 {
        return Ok(Ok(frames));
    }
    if index.page_size != page_size {
        return Ok(Err(Moved));
    }
    frames.pages = Some(index.pages);
    // What is in the database already may be overwritten in the log at any moment.
    if index.moved >= index.frames {
        return Ok(Ok(frames));
    }
    let step = FRAME_HEAD + u64::from(page_size);
    for number in 0..u64::from(index.frames) {
        let at = HEAD + number * step;
        let mut head = [0; 24];
        match wal.read_exact_at(&mut head, at) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(Err(Moved)),
            other => other?,
        }
        if head[8..16] != index.salt {
            return Ok(Err(Moved));
        }
        frames.places.insert(big(&head, 0), at + FRAME_HEAD);
    }
    Ok(Ok(frames))
}

/// The pages that count according to the log itself, up to its last whole commit.
pub(super) fn scanned(wal: &File, page_size: u32) -> io::Result<Frames> {
    let mut frames = Frames::default();
    let mut head = [0; HEAD as usize];
    match wal.read_exact_at(&mut head, 0) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(frames),
        other => other?,
    }
    let magic = big(&head, 0);
    let word = if magic & 1 == 1 { u32::from_be_bytes } else { u32::from_le_bytes };
    let mut sum = Sum::default().add(&head[..24], word);
    let whole = magic & !1 == MAGIC
        && big(&head, 4) == VERSION
        && big(&head, 8) == page_size
        && sum == Sum(big(&head, 24), big(&head, 28));
    if !whole {
        return Ok(frames);
    }
    let mut open = Vec::new();
    let mut frame = vec![0; FRAME_HEAD as usize + page_size as usize];
    let mut at = HEAD;
    loop {
        match wal.read_exact_at(&mut frame, at) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(frames),
            other => other?,
        }
        sum = sum.add(&frame[..8], word).add(&frame[FRAME_HEAD as usize..], word);
        let page = big(&frame, 0);
        if page == 0 || frame[8..16] != head[16..24] || sum != Sum(big(&frame, 16), big(&frame, 20))
        {
            return Ok(frames);
        }
        open.push((page, at + FRAME_HEAD));
        let pages = big(&frame, 4);
        if pages != 0 {
            frames.places.extend(open.drain(..));
            frames.pages = Some(pages);
        }
        at += frame.len() as u64;
    }
}
