//! Files outside the tree that decide what is selected: read once, remembered by their stamps, and
//! read again only when one of those moved.

use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rappel_store::held::Handle;
use rappel_types::path::{escape, unescape};
use serde::{Deserialize, Serialize};

use super::super::stamp::{Kind, Stamp, Trust};

/// No configuration or exclude file is larger; one that is counts as unreadable.
const LIMIT: u64 = 16 << 20;

/// One file that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Consulted {
    /// Its absolute path, escaped.
    path: String,
    /// What stood there; `None` if nothing did.
    stamp: Option<Stamp>,
    /// Whether only its presence mattered.
    presence: bool,
    /// Whether an equal stamp means an equal content.
    believed: bool,
}

impl Consulted {
    fn unchanged(&self) -> bool {
        let Some(path) = unescape(&self.path) else { return false };
        let path = PathBuf::from(std::ffi::OsStr::from_bytes(&path));
        let now = stamp(&path);
        if self.presence {
            now.is_some() == self.stamp.is_some()
        } else {
            self.believed && now == self.stamp
        }
    }
}

/// Whether all of `list` would be read with the same result today.
pub(crate) fn unchanged(list: &[Consulted]) -> bool {
    list.iter().all(Consulted::unchanged)
}

/// Reads files and keeps a list of them.
#[derive(Debug)]
pub(crate) struct Reader {
    trust: Trust,
    /// What was asked for, in order.
    pub seen: Vec<Consulted>,
}

impl Reader {
    /// A reader whose stamps are judged by `trust`.
    pub fn new(trust: Trust) -> Self {
        Self { trust, seen: Vec::new() }
    }

    /// The bytes of the file at `path`, links followed; `None` if it cannot be read.
    pub fn read(&mut self, path: &Path) -> Option<Vec<u8>> {
        let stamp = self.note(path, false)?;
        if stamp.kind() != Kind::File || stamp.size > LIMIT {
            return None;
        }
        let mut bytes = Vec::with_capacity(stamp.size as usize);
        open_regular(path).ok()?.take(LIMIT).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }

    /// Whether anything stands at `path`.
    pub fn exists(&mut self, path: &Path) -> bool {
        self.note(path, true).is_some()
    }

    /// Remembers `path` as consulted, for a caller who reads it by other means.
    pub fn note(&mut self, path: &Path, presence: bool) -> Option<Stamp> {
        let stamp = stamp(path);
        self.seen.push(Consulted {
            path: escape(path.as_os_str().as_bytes()),
            stamp,
            presence,
            believed: stamp.is_none_or(|stamp| self.trust.believes(&stamp)),
        });
        stamp
    }
}

/// Opens a file to read it. A pipe would be waited for without end, and a device has no end: only
/// what is a file once it is open will do.
pub(super) fn open_regular(path: &Path) -> std::io::Result<Handle> {
    use std::os::unix::fs::OpenOptionsExt;
    let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
    let mut options = std::fs::OpenOptions::new();
    let file = Handle::open(options.read(true).custom_flags(flags.bits().cast_signed()), path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(std::io::Error::other("it is not a file")),
    }
}

fn stamp(path: &Path) -> Option<Stamp> {
    rustix::fs::stat(path).ok().map(|stat| Stamp::of(&stat))
}
