//! Identifiers. An id is never a `String`: it is checked once, where it enters.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What is wrong with a text that should have been an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a valid {kind} id: {text:?}")]
pub struct ParseIdError {
    kind: &'static str,
    text: String,
}

/// The BLAKE3 hash of an object's bytes: its name in the store.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId(pub [u8; 32]);

impl ObjectId {
    /// The first eight bytes as a number: the key under which the index files this object.
    /// Not guaranteed to be unique; whoever finds something under it compares the whole id.
    pub fn key(&self) -> i64 {
        let mut first = [0; 8];
        first.copy_from_slice(&self.0[..8]);
        i64::from_be_bytes(first)
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl FromStr for ObjectId {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        let bad = || ParseIdError { kind: "object", text: text.chars().take(80).collect() };
        let digits = text.as_bytes();
        if digits.len() != 64 {
            return Err(bad());
        }
        let mut id = [0; 32];
        for (byte, pair) in id.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |d: u8| match d {
                b'0'..=b'9' => Ok(d - b'0'),
                b'a'..=b'f' => Ok(d - b'a' + 10),
                _ => Err(bad()),
            };
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Ok(Self(id))
    }
}

/// Letters of the random part of ids: base 32 without look-alikes (Crockford, lower case).
pub const BASE32: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// The name of a checkpoint: `chk_20261115_143022_k7f3`, or the form it had where it was imported
/// from. Only letters, digits, `_`, `-` and `.`, so that it can never be read as a path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CheckpointId(String);

impl CheckpointId {
    /// Builds the id of a checkpoint made at `at` from 20 random bits.
    pub fn new(at: crate::Timestamp, random: u32) -> Self {
        let letters: String =
            (0..4).map(|place| char::from(BASE32[(random >> (place * 5) & 31) as usize])).collect();
        Self(format!("chk_{}_{letters}", at.compact()))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for CheckpointId {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        if text.is_empty() || text.len() > 100 || text.starts_with('.') || !text.chars().all(legal)
        {
            return Err(ParseIdError { kind: "checkpoint", text: text.chars().take(80).collect() });
        }
        Ok(Self(text.to_owned()))
    }
}

/// The random name of a workspace, as 16 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkspaceId(pub u64);

impl fmt::Display for CheckpointId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for WorkspaceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for WorkspaceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl FromStr for WorkspaceId {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        if text.len() == 16
            && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
            && let Ok(number) = u64::from_str_radix(text, 16)
        {
            return Ok(Self(number));
        }
        Err(ParseIdError { kind: "workspace", text: text.chars().take(80).collect() })
    }
}

macro_rules! serde_as_text {
    ($($kind:ty),*) => {$(
        impl Serialize for $kind {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
        impl<'de> Deserialize<'de> for $kind {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    )*};
}
pub(crate) use serde_as_text;
serde_as_text!(ObjectId, CheckpointId, WorkspaceId);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn object_ids_survive_text() {
        let id = ObjectId([0xab; 32]);
        assert_eq!(id.to_string().parse::<ObjectId>().unwrap(), id);
        assert!("AB".repeat(32).parse::<ObjectId>().is_err());
        assert!("é".repeat(32).parse::<ObjectId>().is_err());
    }

    #[test]
    fn checkpoint_ids_cannot_be_paths() {
        for bad in ["", "..", "../x", "a/b", ".hidden", "a\0b", "a b"] {
            assert!(bad.parse::<CheckpointId>().is_err(), "{bad:?}");
        }
        assert!("chk_20261115_143022_k7f3".parse::<CheckpointId>().is_ok());
    }

    #[test]
    fn a_checkpoint_id_carries_its_second() {
        let at = "2026-11-15T14:30:22.9Z".parse().unwrap();
        assert_eq!(CheckpointId::new(at, 0).as_str(), "chk_20261115_143022_0000");
        assert_ne!(CheckpointId::new(at, 1), CheckpointId::new(at, 1 << 5));
    }
}
