//! Numbers as LEB128: seven bits a byte, lowest first, the high bit set on all but the last.

use crate::error::{Error, Result};

/// Appends `value`.
pub fn write(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Reads from bytes that may be anything: every step is checked.
#[derive(Debug, Clone)]
pub struct Cursor<'a> {
    rest: &'a [u8],
    what: &'static str,
}

impl<'a> Cursor<'a> {
    /// Reads `bytes`, naming `what` in errors.
    pub fn new(bytes: &'a [u8], what: &'static str) -> Self {
        Self { rest: bytes, what }
    }

    /// An error about what is being read.
    pub fn bad(&self, reason: &str) -> Error {
        Error::Damaged(format!("{}: {reason}", self.what))
    }

    /// The next `count` bytes.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        if count > self.rest.len() {
            return Err(self.bad("it ends too early"));
        }
        let (taken, rest) = self.rest.split_at(count);
        self.rest = rest;
        Ok(taken)
    }

    /// The next byte.
    pub fn byte(&mut self) -> Result<u8> {
        Ok(self.take(1)?[0])
    }

    /// The next `N` bytes as an array.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    /// The next number; only its shortest form is accepted.
    pub fn number(&mut self) -> Result<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let part = u64::from(byte & 0x7f);
            if (shift == 63 && part > 1) || (shift > 0 && byte == 0) {
                return Err(self.bad("a number is malformed"));
            }
            value |= part << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(self.bad("a number is too long"))
    }

    /// The next number, which must be at most `limit`.
    pub fn bounded(&mut self, limit: u64) -> Result<usize> {
        match self.number()? {
            number if number <= limit => Ok(number as usize),
            _ => Err(self.bad("a number is out of range")),
        }
    }

    /// Whether everything has been read.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// What has not been read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Fails unless everything has been read.
    pub fn finish(&self) -> Result<()> {
        if self.is_empty() { Ok(()) } else { Err(self.bad("something follows its end")) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_survive(value: u64) {
            let mut bytes = Vec::new();
            write(&mut bytes, value);
            let mut cursor = Cursor::new(&bytes, "test");
            prop_assert_eq!(cursor.number().unwrap(), value);
            prop_assert!(cursor.is_empty());
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..12)) {
            let mut cursor = Cursor::new(&bytes, "test");
            if let Ok(value) = cursor.number() {
                let mut again = Vec::new();
                write(&mut again, value);
                prop_assert!(bytes.starts_with(&again));
            }
        }
    }
}
