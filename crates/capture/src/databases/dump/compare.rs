//! Comparing a dump that comes in with the base, front to back: what is equal is copied, what is not is new.
//!
//! Where both go on alike, large stretches are compared at once. Where they part, the next lines of
//! both sides are looked through for the nearest pair that is equal; if there is none, the new lines go by
//! until one of them is found in the sample of the base's lines. Both only guess where to go on:
//! every byte that is copied has been compared.

use rappel_store::Result;
use rappel_store::sink::Sink;
use rappel_types::Content;

use super::line;
use super::lines::Table;
use super::patch::Writer;
use super::pieces::Pieces;

/// How many lines of each side are looked through where the two part.
const NEAR: usize = 64;
/// How many bytes of the new dump must be at hand for that, and how much of a line is looked at.
const LOOK: usize = 128 << 10;
/// How far back the beginning of a line is looked for.
const BACK: usize = 16 << 10;
/// A line shorter than this proves nothing; it needs another one behind it.
const TELLING: usize = 8;
/// Pieces of the base that may be fetched out of order: so many in all, and one for each so many bytes.
const FETCHES: u64 = 32;
const BYTES_PER_FETCH: u64 = 1 << 20;

/// Compares a dump with a base and writes the patch.
pub struct Compare<'a> {
    base: Pieces<'a>,
    table: Table,
    patch: Writer<'a>,
    /// What is at hand of the new dump, and how far into it all is done.
    bytes: Vec<u8>,
    at: usize,
    /// How many bytes were at hand and are gone.
    gone: u64,
    /// Where the base goes on.
    cursor: u64,
    /// How many bytes before `cursor` and `at` are equal and not in the patch yet; `None` while
    /// lines go by that are nowhere near.
    run: Option<u64>,
    fetches: u64,
}

impl<'a> Compare<'a> {
    /// Begins a comparison.
    pub fn new(sink: &'a dyn Sink, base: Pieces<'a>, table: Table) -> Result<Self> {
        let patch = Writer::new(sink, base.length())?;
        Ok(Self {
            base,
            table,
            patch,
            bytes: Vec::with_capacity(4 << 20),
            at: 0,
            gone: 0,
            cursor: 0,
            run: Some(0),
            fetches: 0,
        })
    }

    /// Takes the next bytes of the new dump.
    pub fn push(&mut self, block: &[u8]) -> Result<()> {
        if self.at > BACK + (1 << 20) {
            let gone = self.at - BACK;
            self.bytes.drain(..gone);
            self.gone += gone as u64;
            self.at = BACK;
        }
        self.bytes.extend_from_slice(block);
        self.advance(false)
    }

    /// Ends the dump. `None`: it is the base.
    pub fn finish(mut self) -> Result<Option<(Content, u64)>> {
        self.advance(true)?;
        if let Some(run) = self.run {
            self.patch.copy(&mut self.base, self.cursor - run, run)?;
        }
        self.patch.finish(&self.base)
    }

    fn rest(&self) -> &[u8] {
        &self.bytes[self.at..]
    }

    /// Goes as far as can be decided with what is at hand.
    fn advance(&mut self, last: bool) -> Result<()> {
        while self.at < self.bytes.len() {
            if let Some(run) = self.run {
                let equal = self.extend()?;
                if equal > 0 {
                    self.run = Some(run + equal);
                    continue;
                }
            }
            if !last && self.rest().len() < LOOK {
                break;
            }
            match self.run {
                Some(run) => self.part(run)?,
                None => self.pass_line()?,
            }
        }
        Ok(())
    }

    /// Goes on along the base as far as the piece at the cursor is equal, and says how far that was.
    fn extend(&mut self) -> Result<u64> {
        let Some((piece, within)) = self.base.at(self.cursor)? else { return Ok(0) };
        let equal = line::common(&piece[within..], &self.bytes[self.at..]);
        self.at += equal;
        self.cursor += equal as u64;
        Ok(equal as u64)
    }

    /// The two are different from here on: ends the run at the beginning of the line, and looks for where
    /// to go on.
    fn part(&mut self, run: u64) -> Result<()> {
        let known = (BACK as u64).min(run).min(self.at as u64) as usize;
        let behind = &self.bytes[self.at - known..self.at];
        let back = match memchr::memrchr(b'\n', behind) {
            Some(newline) => known - newline - 1,
            // The run begins in this line, or the line is too long to go back.
            None if run <= BACK as u64 => known,
            None => 0,
        };
        self.at -= back;
        self.cursor -= back as u64;
        let run = run - back as u64;
        self.patch.copy(&mut self.base, self.cursor - run, run)?;
        self.cursor = self.patch.end();
        self.run = None;
        if let Some((fresh, from)) = self.nearest()? {
            self.patch.add(&self.bytes[self.at..self.at + fresh])?;
            self.at += fresh;
            self.go_on(from)?;
            return Ok(());
        }
        self.pass_line()
    }

    /// Goes on along the base at `from`. What was new just before may have stood there too.
    fn go_on(&mut self, from: u64) -> Result<()> {
        let mut back = 0;
        while back < from
            && let Some((piece, within)) = self.base.at(from - back - 1)?
        {
            let open = self.patch.open();
            let equal = line::common_end(open, &piece[..=within]);
            self.patch.take_back(equal);
            back += equal as u64;
            if equal <= within {
                break;
            }
        }
        self.cursor = from;
        self.run = Some(back);
        Ok(())
    }

    /// The nearest pair of equal lines behind the place where the two part: how many bytes of the
    /// new dump come before it, and where in the base it is.
    fn nearest(&mut self) -> Result<Option<(usize, u64)>> {
        let mut fresh = Lines::new(&self.bytes[self.at..]);
        let mut base: Vec<(u64, Line)> = Vec::new();
        let mut offset = self.cursor;
        let (mut piece, mut within) = match self.base.at(offset)? {
            Some((piece, within)) => (Some(piece), within),
            None => return Ok(None),
        };
        for distance in 0..2 * NEAR {
            if distance < NEAR {
                fresh.next();
                if piece.as_ref().is_some_and(|piece| within == piece.len()) {
                    let next = self.base.at(offset)?;
                    within = 0;
                    piece = next.map(|(piece, _)| piece);
                }
                if let Some(piece) = &piece {
                    let line = Line::of(&piece[within..]);
                    base.push((offset, line));
                    within += line.length;
                    offset += line.length as u64;
                }
            }
            for left in distance.saturating_sub(NEAR - 1)..=distance.min(NEAR - 1) {
                // First those that leave out the fewest new bytes.
                let (Some((before, line)), Some((from, other))) =
                    (fresh.found.get(left), base.get(distance - left))
                else {
                    continue;
                };
                let next = || {
                    let next = fresh.found.get(left + 1).map(|(_, line)| line);
                    next.is_some() && next == base.get(distance - left + 1).map(|(_, line)| line)
                };
                if line == other
                    && (line.length >= TELLING || next())
                    && let Some((piece, within)) = self.base.at(*from)?
                    && is_found(*line, &fresh.bytes[*before..], &piece[within..])
                {
                    return Ok(Some((*before, *from)));
                }
            }
        }
        Ok(None)
    }

    /// Looks the next line up in the sample, and takes it as new if it is nowhere.
    fn pass_line(&mut self) -> Result<()> {
        let rest = &self.bytes[self.at..];
        let line = Line::of(&rest[..rest.len().min(LOOK)]);
        for from in self.table.find(line.hash, self.cursor) {
            if !self.base.is_near(from) {
                let passed = self.gone + self.at as u64;
                if self.fetches > FETCHES + passed / BYTES_PER_FETCH {
                    continue;
                }
                self.fetches += 1;
            }
            let Some((piece, within)) = self.base.at(from)? else { continue };
            if is_found(line, &self.bytes[self.at..], &piece[within..]) {
                return self.go_on(from);
            }
        }
        let end = self.at + line.length;
        self.patch.add(&self.bytes[self.at..end])?;
        self.at = end;
        Ok(())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Line {
    hash: u64,
    length: usize,
}

impl Line {
    /// The line that `bytes` begin with.
    fn of(bytes: &[u8]) -> Self {
        let length = line::length(bytes);
        Self { hash: line::hash(&bytes[..length]), length }
    }
}

/// Whether a line that both sides seem to begin with is there: so much of it that the two cannot part
/// before it is passed.
fn is_found(line: Line, fresh: &[u8], base: &[u8]) -> bool {
    line::common(fresh, base) >= line.length.min(BACK + 1)
}

/// Lines one after the other, remembered.
struct Lines<'a> {
    bytes: &'a [u8],
    at: usize,
    found: Vec<(usize, Line)>,
}

impl<'a> Lines<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self { bytes: &bytes[..bytes.len().min(LOOK)], at: 0, found: Vec::new() }
    }

    fn next(&mut self) {
        if self.at < self.bytes.len() {
            let line = Line::of(&self.bytes[self.at..]);
            self.found.push((self.at, line));
            self.at += line.length;
        }
    }
}
