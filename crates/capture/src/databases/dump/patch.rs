//! The file `patch`: how a dump is made out of an earlier one, the base.
//!
//! It is a list of operations: some new bytes, then a stretch of the base. Between the end of one
//! stretch and the beginning of the next, bytes of the base may be left out. Those are most often the old
//! version of a row whose new version is among the new bytes, anywhere: so the new bytes are compressed
//! with what was left out beside them, which a reader knows from the operations and the base.
//!
//! Operations come in sections, each with its own new bytes, so that neither side needs much memory.

use rappel_store::codec::{self, Effort};
use rappel_store::sink::Sink;
use rappel_store::varint::{self, Cursor};
use rappel_store::{Error, Result};
use rappel_types::Content;

use super::chunks::Parts;
use super::pieces::Pieces;

const MAGIC: &[u8; 3] = b"RDP";
const VERSION: u8 = 1;
/// A section has at most this many operations,
const OPERATIONS: usize = 1 << 16;
/// this many new bytes,
const FRESH: usize = 2 << 20;
/// and this many bytes that were left out; as many are known from the sections before.
const LEFT: usize = 2 << 20;
/// Three numbers of at most ten bytes each.
const OPERATION_MAX: usize = 30;
/// Up to this many new bytes are worth some time.
const THOROUGH: u64 = 1 << 20;

/// One operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Operation {
    /// How many new bytes.
    fresh: u64,
    /// From the end of the last stretch of the base to the beginning of this one.
    jump: i64,
    /// How many bytes of the base.
    copied: u64,
}

/// What was left out of the base, as far as it is remembered.
#[derive(Debug, Default)]
struct LeftOut {
    bytes: Vec<u8>,
    room: usize,
}

impl LeftOut {
    fn begin_section(&mut self) {
        self.bytes.drain(..self.bytes.len().saturating_sub(LEFT));
        self.room = LEFT;
    }

    /// Remembers the gap before a stretch that follows `end` at a distance of `jump`.
    fn add(&mut self, base: &mut Pieces<'_>, end: u64, jump: i64) -> Result<()> {
        let length = usize::try_from(jump).unwrap_or(0).min(self.room);
        self.room -= length;
        base.range(end, length as u64, |bytes| {
            self.bytes.extend_from_slice(bytes);
            Ok(())
        })
    }
}

/// Writes a patch into a sink, section by section.
pub struct Writer<'a> {
    sink: &'a dyn Sink,
    out: Parts,
    operations: Vec<Operation>,
    fresh: Vec<u8>,
    left: LeftOut,
    /// New bytes that belong to no operation yet.
    open: u64,
    /// Where the last stretch of the base ended.
    end: u64,
    fresh_total: u64,
    length: u64,
    /// Whether all operations so far were one stretch from the beginning.
    plain: bool,
}

impl<'a> Writer<'a> {
    /// Begins a patch for a base of this length.
    pub fn new(sink: &'a dyn Sink, base: u64) -> Result<Self> {
        let mut header = MAGIC.to_vec();
        header.push(VERSION);
        varint::write(&mut header, base);
        let mut out = Parts::default();
        out.push(sink, &header)?;
        let mut left = LeftOut::default();
        left.begin_section();
        Ok(Self {
            sink,
            out,
            operations: Vec::new(),
            fresh: Vec::new(),
            left,
            open: 0,
            end: 0,
            fresh_total: 0,
            length: 0,
            plain: true,
        })
    }

    /// Adds new bytes.
    pub fn add(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(FRESH - self.fresh.len()));
            self.fresh.extend_from_slice(now);
            self.open += now.len() as u64;
            bytes = later;
            if self.fresh.len() == FRESH {
                self.operation(Operation { fresh: self.open, jump: 0, copied: 0 })?;
            }
        }
        Ok(())
    }

    /// The last of the new bytes that belong to no operation yet.
    pub fn open(&self) -> &[u8] {
        &self.fresh[self.fresh.len() - self.open as usize..]
    }

    /// Takes the last new bytes back, as far as they are open.
    pub fn take_back(&mut self, count: usize) {
        let count = count.min(self.open as usize);
        self.fresh.truncate(self.fresh.len() - count);
        self.open -= count as u64;
    }

    /// Where the last stretch of the base ended.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Adds a stretch of the base.
    pub fn copy(&mut self, base: &mut Pieces<'_>, from: u64, length: u64) -> Result<()> {
        if length == 0 {
            return Ok(());
        }
        let jump = from as i64 - self.end as i64;
        self.left.add(base, self.end, jump)?;
        self.end = from + length;
        self.operation(Operation { fresh: self.open, jump, copied: length })
    }

    fn operation(&mut self, operation: Operation) -> Result<()> {
        self.plain &= self.length == 0 && operation.fresh == 0 && operation.jump == 0;
        self.length += operation.fresh + operation.copied;
        self.operations.push(operation);
        self.open = 0;
        let full =
            self.operations.len() == OPERATIONS || self.fresh.len() == FRESH || self.left.room == 0;
        if full { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        if self.operations.is_empty() {
            return Ok(());
        }
        let mut columns = Vec::with_capacity(self.operations.len() * 5);
        self.operations.iter().for_each(|op| varint::write(&mut columns, op.fresh));
        self.operations.iter().for_each(|op| varint::write(&mut columns, zigzag(op.jump)));
        self.operations.iter().for_each(|op| varint::write(&mut columns, op.copied));
        let frame = codec::compress(&columns, Effort::Normal)?;
        self.fresh_total += self.fresh.len() as u64;
        let fresh = match self.fresh.is_empty() {
            true => Vec::new(),
            false => {
                let thorough = self.fresh_total <= THOROUGH;
                codec::compress_beside(&self.fresh, &self.left.bytes, thorough)?
            }
        };
        let mut section = Vec::with_capacity(50 + frame.len() + fresh.len());
        for number in
            [self.operations.len(), columns.len(), frame.len(), self.fresh.len(), fresh.len()]
        {
            varint::write(&mut section, number as u64);
        }
        section.extend_from_slice(&frame);
        section.extend_from_slice(&fresh);
        self.out.push(self.sink, &section)?;
        self.operations.clear();
        self.fresh.clear();
        self.left.begin_section();
        Ok(())
    }

    /// Ends the patch. `None` if it says that the dump is the base and nothing else.
    pub fn finish(mut self, base: &Pieces<'_>) -> Result<Option<(Content, u64)>> {
        if self.open > 0 {
            self.operation(Operation { fresh: self.open, jump: 0, copied: 0 })?;
        }
        if self.plain && self.length == base.length() {
            return Ok(None);
        }
        self.flush()?;
        let mut end = vec![0];
        varint::write(&mut end, self.length);
        self.out.push(self.sink, &end)?;
        self.out.finish(self.sink).map(Some)
    }
}

fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)) as u64
}

fn unzigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

/// Reads a patch front to back.
struct Reader<'a, 'b> {
    patch: &'b mut Pieces<'a>,
    offset: u64,
}

impl Reader<'_, '_> {
    fn take(&mut self, length: usize) -> Result<Vec<u8>> {
        if length as u64 > self.patch.length() - self.offset {
            return Err(bad("it ends too early"));
        }
        let mut bytes = Vec::with_capacity(length);
        self.patch.range(self.offset, length as u64, |piece| {
            bytes.extend_from_slice(piece);
            Ok(())
        })?;
        self.offset += length as u64;
        Ok(bytes)
    }

    /// The next number, which must be at most `limit`.
    fn number(&mut self, limit: u64) -> Result<u64> {
        let mut bytes = Vec::with_capacity(10);
        while bytes.len() < 10 {
            let byte = self.take(1)?[0];
            bytes.push(byte);
            if byte & 0x80 == 0 {
                break;
            }
        }
        Cursor::new(&bytes, WHAT).bounded(limit).map(|number| number as u64)
    }
}

const WHAT: &str = "difference between dumps";

fn bad(reason: &str) -> Error {
    Error::Damaged(format!("{WHAT}: {reason}"))
}

/// Writes what a patch makes of its base to `out`, at most `limit` bytes. The bytes may be anything: whoever calls compares
/// the result with its hash.
pub fn apply<E: From<Error>>(
    patch: &mut Pieces<'_>,
    base: &mut Pieces<'_>,
    limit: u64,
    out: &mut dyn FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let mut reader = Reader { patch, offset: 0 };
    if reader.take(3)? != MAGIC {
        return Err(bad("it has no magic").into());
    }
    let found = reader.take(1)?[0];
    if found != VERSION {
        let what = format!("a {WHAT}");
        return Err(Error::Newer { what, found: found.into(), supported: VERSION.into() }.into());
    }
    if reader.number(u64::MAX)? != base.length() {
        return Err(bad("it was made for another base").into());
    }
    let mut left = LeftOut::default();
    let mut end = 0u64;
    let mut length = 0u64;
    loop {
        let count = reader.number(OPERATIONS as u64)? as usize;
        if count == 0 {
            break;
        }
        let columns = reader.number((count * OPERATION_MAX) as u64)?;
        let frame = reader.number(2 * (count * OPERATION_MAX) as u64 + 64)? as usize;
        let fresh = reader.number(FRESH as u64)?;
        let fresh_frame = reader.number(2 * FRESH as u64)? as usize;
        let columns = codec::decompress(&reader.take(frame)?, columns)?;
        let operations = operations(&columns, count)?;
        let fresh_frame = reader.take(fresh_frame)?;

        left.begin_section();
        let mut stretches = Vec::with_capacity(count);
        for operation in &operations {
            let from = end.checked_add_signed(operation.jump);
            let until = from.and_then(|from| from.checked_add(operation.copied));
            let (Some(from), Some(until)) = (from, until) else {
                return Err(bad("it refers to what is not there").into());
            };
            if until > base.length() {
                return Err(bad("it refers to what is not there").into());
            }
            left.add(base, end, operation.jump)?;
            stretches.push(from);
            end = until;
            let made = operation.fresh.checked_add(operation.copied);
            length = made.and_then(|made| length.checked_add(made)).unwrap_or(u64::MAX);
            if length > limit {
                return Err(bad("it makes more than the dump held").into());
            }
        }
        let fresh = match fresh {
            0 => Vec::new(),
            length => codec::decompress_beside(&fresh_frame, length, &left.bytes)?,
        };
        let mut fresh = Cursor::new(&fresh, WHAT);
        for (operation, from) in operations.iter().zip(stretches) {
            out(fresh.take(operation.fresh as usize)?)?;
            base.range(from, operation.copied, &mut *out)?;
        }
        fresh.finish()?;
    }
    if reader.number(u64::MAX)? != length || reader.offset != reader.patch.length() {
        return Err(bad("it does not end as it should").into());
    }
    Ok(())
}

fn operations(columns: &[u8], count: usize) -> Result<Vec<Operation>> {
    let mut cursor = Cursor::new(columns, WHAT);
    let mut operations = vec![Operation { fresh: 0, jump: 0, copied: 0 }; count];
    for operation in &mut operations {
        operation.fresh = cursor.bounded(FRESH as u64)? as u64;
    }
    for operation in &mut operations {
        operation.jump = unzigzag(cursor.number()?);
    }
    for operation in &mut operations {
        operation.copied = cursor.number()?;
    }
    cursor.finish()?;
    Ok(operations)
}
