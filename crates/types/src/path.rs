//! Paths inside a root: bytes, relative, never able to leave it.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Why some bytes are not a path that we would follow.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unusable path {path:?}: {reason}")]
pub struct PathError {
    /// The path, escaped for display.
    pub path: String,
    /// What is wrong with it.
    pub reason: &'static str,
}

/// A path below some root, as raw bytes. Never empty, never absolute, without empty, `.` or `..`
/// components and without NUL. Ordered component by component, so that a folder's content follows
/// it directly.
///
/// Not guaranteed: that the path is UTF-8, or that it avoids names like `.git`; whoever writes
/// through it checks what its facet must not touch.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct RelPath(Box<[u8]>);

/// The longest path we accept, as Linux has it.
pub const MAX_PATH: usize = 4096;
const MAX_NAME: usize = 255;

impl RelPath {
    /// Checks `bytes` and takes them as a path.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Result<Self, PathError> {
        let bytes = bytes.into();
        match fault(&bytes) {
            None => Ok(Self(bytes.into_boxed_slice())),
            Some(reason) => {
                let shown = &bytes[..bytes.len().min(200)];
                Err(PathError { path: escape(shown), reason })
            }
        }
    }

    /// The raw bytes, with `/` between components.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The components, outermost first.
    pub fn components(&self) -> impl DoubleEndedIterator<Item = &[u8]> {
        self.0.split(|&b| b == b'/')
    }

    /// The last component.
    pub fn name(&self) -> &[u8] {
        let start = self.0.iter().rposition(|&b| b == b'/').map_or(0, |slash| slash + 1);
        &self.0[start..]
    }

    /// The folder that holds this path; `None` directly below the root.
    pub fn parent(&self) -> Option<Self> {
        let slash = self.0.iter().rposition(|&b| b == b'/')?;
        Some(Self(self.0[..slash].into()))
    }

    /// Every folder above this path, outermost first.
    pub fn ancestors(&self) -> impl Iterator<Item = Self> {
        self.0
            .iter()
            .enumerate()
            .filter(|(_, b)| **b == b'/')
            .map(|(at, _)| Self(self.0[..at].into()))
    }

    /// This path with one more component.
    pub fn join(&self, name: &[u8]) -> Result<Self, PathError> {
        let mut bytes = Vec::with_capacity(self.0.len() + 1 + name.len());
        bytes.extend_from_slice(&self.0);
        bytes.push(b'/');
        bytes.extend_from_slice(name);
        Self::new(bytes)
    }

    /// Whether `self` is `folder` or lies below it.
    pub fn is_within(&self, folder: &Self) -> bool {
        self.0.starts_with(&folder.0) && matches!(self.0.get(folder.0.len()), None | Some(b'/'))
    }
}

fn fault(bytes: &[u8]) -> Option<&'static str> {
    if bytes.is_empty() {
        return Some("it is empty");
    }
    if bytes.len() > MAX_PATH {
        return Some("it is too long");
    }
    if bytes.contains(&0) {
        return Some("it contains a NUL byte");
    }
    if bytes[0] == b'/' {
        return Some("it is absolute");
    }
    for component in bytes.split(|&b| b == b'/') {
        match component {
            b"" => return Some("it has an empty component"),
            b"." | b".." => return Some("it has a `.` or `..` component"),
            name if name.len() > MAX_NAME => return Some("it has a component that is too long"),
            _ => {}
        }
    }
    None
}

impl Ord for RelPath {
    fn cmp(&self, other: &Self) -> Ordering {
        // Byte order with `/` first: the order of the component lists, without splitting.
        let rank = |b: &u8| if *b == b'/' { 0 } else { u16::from(*b) + 1 };
        let at = common(&self.0, &other.0);
        match (self.0.get(at), other.0.get(at)) {
            (Some(own), Some(other)) => rank(own).cmp(&rank(other)),
            _ => self.0.len().cmp(&other.0.len()),
        }
    }
}

/// How many bytes are the same at the beginning. Neighbours in a tree share most of their paths, so
/// eight are compared at a time.
fn common(a: &[u8], b: &[u8]) -> usize {
    let words = a.chunks_exact(8).zip(b.chunks_exact(8));
    let same = words.take_while(|(a, b)| a == b).count() * 8;
    same + a[same..].iter().zip(&b[same..]).take_while(|(a, b)| a == b).count()
}

impl PartialOrd for RelPath {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Bytes as text that can be turned back: a backslash is doubled, and whatever is not UTF-8 or is
/// a control character is written `\xNN`.
pub fn escape(bytes: &[u8]) -> String {
    escape_chars(bytes, char::is_control)
}

/// As [`escape`], for formats that can hold control characters by themselves, as JSON can: only a
/// backslash and bytes that are not UTF-8 are written otherwise.
pub fn escape_bytes(bytes: &[u8]) -> String {
    escape_chars(bytes, |_| false)
}

fn escape_chars(bytes: &[u8], odd: fn(char) -> bool) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' => text.push_str("\\\\"),
                c if odd(c) => {
                    let mut buffer = [0; 4];
                    for byte in c.encode_utf8(&mut buffer).bytes() {
                        push_byte(&mut text, byte);
                    }
                }
                c => text.push(c),
            }
        }
        for byte in chunk.invalid() {
            push_byte(&mut text, *byte);
        }
    }
    text
}

fn push_byte(text: &mut String, byte: u8) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    text.push_str("\\x");
    text.push(char::from(DIGITS[usize::from(byte >> 4)]));
    text.push(char::from(DIGITS[usize::from(byte & 15)]));
}

/// The reverse of [`escape`] and [`escape_bytes`]; `None` if a backslash starts neither `\\` nor `\xNN`.
pub fn unescape(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        if first != b'\\' {
            bytes.push(first);
            rest = tail;
        } else if let Some(tail) = tail.strip_prefix(b"\\") {
            bytes.push(b'\\');
            rest = tail;
        } else {
            let digits = tail.strip_prefix(b"x")?.get(..2)?;
            let digits = std::str::from_utf8(digits).ok()?;
            if !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
                return None;
            }
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &tail[3..];
        }
    }
    Some(bytes)
}

impl fmt::Display for RelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&escape(&self.0))
    }
}

impl fmt::Debug for RelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl FromStr for RelPath {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        let bytes = unescape(text).ok_or_else(|| PathError {
            path: text.to_owned(),
            reason: "a backslash must be written `\\\\` and a byte `\\xNN`",
        })?;
        Self::new(bytes)
    }
}

impl Serialize for RelPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&escape_bytes(&self.0))
    }
}

impl<'de> Deserialize<'de> for RelPath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn path(text: &str) -> RelPath {
        RelPath::new(text).unwrap()
    }

    #[test]
    fn refuses_what_could_leave_the_root() {
        for bad in ["", "/etc", "a//b", "a/", "..", "a/../b", "./a", "a\0"] {
            assert!(RelPath::new(bad).is_err(), "{bad:?}");
        }
        assert!(RelPath::new("x".repeat(256)).is_err());
    }

    #[test]
    fn a_folders_content_follows_it() {
        let mut paths = ["a.txt", "a/z", "a", "a-b", "a/b/c", "a/b"].map(path);
        paths.sort();
        assert_eq!(paths.map(|p| p.to_string()), ["a", "a/b", "a/b/c", "a/z", "a-b", "a.txt"]);
    }

    #[test]
    fn json_escapes_what_it_cannot_hold() {
        for (bytes, json) in [
            (&b"new\nline"[..], r#""new\nline""#),
            (b"caf\xe9", r#""caf\\xe9""#),
            (b"a\\xe9", r#""a\\\\xe9""#),
            ("h\u{e4}user".as_bytes(), "\"h\u{e4}user\""),
        ] {
            let path = RelPath::new(bytes).unwrap();
            assert_eq!(serde_json::to_string(&path).unwrap(), json);
            assert_eq!(serde_json::from_str::<RelPath>(json).unwrap(), path);
        }
        // As earlier versions wrote it.
        assert_eq!(serde_json::from_str::<RelPath>(r#""a\\x0ab""#).unwrap(), path("a\nb"));
    }

    #[test]
    fn within_means_whole_components() {
        assert!(path("a/b").is_within(&path("a")));
        assert!(path("a").is_within(&path("a")));
        assert!(!path("ab").is_within(&path("a")));
    }

    proptest! {
        #[test]
        fn escaping_is_reversible(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            prop_assert_eq!(unescape(&escape(&bytes)).unwrap(), bytes.clone());
            prop_assert_eq!(unescape(&escape_bytes(&bytes)).unwrap(), bytes);
        }

        #[test]
        fn order_is_the_order_of_components(
            both in "[ab-]{0,20}",
            a in "[ab./-]{1,9}",
            b in "[ab./-]{1,9}",
        ) {
            if let (Ok(a), Ok(b)) = (RelPath::new(both.clone() + &a), RelPath::new(both + &b)) {
                let (left, right): (Vec<_>, Vec<_>) = (a.components().collect(), b.components().collect());
                prop_assert_eq!(a.cmp(&b), left.cmp(&right));
            }
        }
    }
}
