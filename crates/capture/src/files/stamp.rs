//! What a file system says of a file without reading it, and when that can be believed.

use std::path::Path;

use rappel_store::beneath::Meta;
use rustix::fs::{AtFlags, FileType, RawMode, Stat};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Which thing on which file system: stays the same when it is renamed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    /// The file system.
    pub device: u64,
    /// The thing's number there.
    pub inode: u64,
}

impl Identity {
    /// The identity of what `path` leads to, links followed.
    pub fn of(path: &Path) -> Result<Self> {
        let stat = rustix::fs::stat(path).map_err(Error::io("look at", path))?;
        Ok(Stamp::of(&stat).identity())
    }
}

/// What stands at a path, as far as stat tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link.
    Symlink,
    /// Anything else, by its name for people.
    Special(Special),
}

/// Things in a folder that are not content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Special {
    Socket,
    Fifo,
    Device,
}

impl Special {
    /// What to call it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Socket => "a socket",
            Self::Fifo => "a named pipe",
            Self::Device => "a device",
        }
    }
}

impl From<FileType> for Kind {
    fn from(kind: FileType) -> Self {
        match kind {
            FileType::RegularFile => Self::File,
            FileType::Directory => Self::Folder,
            FileType::Symlink => Self::Symlink,
            FileType::Socket => Self::Special(Special::Socket),
            FileType::Fifo => Self::Special(Special::Fifo),
            _ => Self::Special(Special::Device),
        }
    }
}

/// What stat says of a path. Equal stamps that are old enough ([`Trust`]) mean equal content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// The file system.
    pub device: u64,
    /// The number there.
    pub inode: u64,
    /// Length in bytes.
    pub size: u64,
    /// When the content was last said to change, in nanoseconds since 1970.
    pub modified: i64,
    /// When content or metadata last changed, in nanoseconds since 1970; users cannot set it.
    pub changed: i64,
    /// Type and permission bits.
    pub mode: u32,
}

const SECOND: i64 = 1_000_000_000;

#[allow(
    clippy::unnecessary_cast,
    clippy::useless_conversion,
    reason = "the widths differ between platforms"
)]
impl Stamp {
    /// Takes what matters out of `stat`.
    pub fn of(stat: &Stat) -> Self {
        let nanos = |seconds: i64, nanos: i64| seconds.saturating_mul(SECOND).saturating_add(nanos);
        Self {
            device: stat.st_dev as u64,
            inode: stat.st_ino as u64,
            size: stat.st_size as u64,
            modified: nanos(stat.st_mtime as i64, stat.st_mtime_nsec as i64),
            changed: nanos(stat.st_ctime as i64, stat.st_ctime_nsec as i64),
            mode: u32::from(stat.st_mode),
        }
    }

    /// What kind of thing it is.
    pub fn kind(&self) -> Kind {
        FileType::from_raw_mode(self.mode as RawMode).into()
    }
}

impl From<&Meta> for Stamp {
    /// What a restore saw of a path. Its kind is not kept: a restore knows that by itself.
    fn from(meta: &Meta) -> Self {
        Self {
            device: meta.identity.device,
            inode: meta.identity.inode,
            size: meta.size,
            modified: meta.mtime as i64,
            changed: meta.ctime as i64,
            mode: meta.mode,
        }
    }
}

impl Stamp {
    /// The twelve permission bits.
    pub fn permissions(&self) -> u32 {
        self.mode & 0o7777
    }

    /// Which thing it is.
    pub fn identity(&self) -> Identity {
        Identity { device: self.device, inode: self.inode }
    }
}

/// Says which stamps are old enough to be believed later.
///
/// A file that is written twice within one tick of the file system's clock has the same stamp both
/// times. So a stamp vouches for what was read only if its times lie more than a tick before the
/// scan began. Stamps without a fraction of a second come from file systems that count whole
/// seconds (or from an archive; then being careful costs one read).
///
/// Not guaranteed: on a file system whose clock is another machine's and is behind by more than two
/// seconds, a second write within one of that clock's ticks can be missed.
#[derive(Debug, Clone, Copy)]
pub struct Trust {
    start: i64,
    device: u64,
    granularity: i64,
}

const TICK: i64 = 10_000_000;
const UNKNOWN: i64 = 2 * SECOND;

impl Trust {
    /// Starts a scan now, below the folder `root`.
    pub fn start(root: impl std::os::fd::AsFd) -> Result<Self, rustix::io::Errno> {
        let stamp = Stamp::of(&rustix::fs::fstat(&root)?);
        let granularity = granularity(&root);
        Ok(Self { start: now(), device: stamp.device, granularity })
    }

    /// Whether what is read from now on can later be recognised by `stamp`.
    pub fn believes(&self, stamp: &Stamp) -> bool {
        let newest = stamp.modified.max(stamp.changed);
        let whole_seconds = stamp.modified % SECOND == 0 && stamp.changed % SECOND == 0;
        let granularity = if stamp.device != self.device || whole_seconds {
            self.granularity.max(UNKNOWN)
        } else {
            self.granularity
        };
        newest < self.start.saturating_sub(granularity)
    }
}

/// The kernel's clock, which stamps the files of local file systems. Not the user's: a test that
/// sets that one must not make fresh files look old.
fn now() -> i64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    now.tv_sec.saturating_mul(SECOND).saturating_add(now.tv_nsec)
}

#[cfg(target_os = "linux")]
fn granularity(root: &impl std::os::fd::AsFd) -> i64 {
    // Local file systems whose stamps come from the kernel's tick: ext, xfs, btrfs, tmpfs, overlay,
    // f2fs, zfs, bcachefs, ramfs.
    const LOCAL: [u64; 9] = [
        0xef53,
        0x5846_5342,
        0x9123_683e,
        0x0102_1994,
        0x794c_7630,
        0xf2f5_2010,
        0x2fc1_2fc1,
        0xca45_1a4e,
        0x8584_58f6,
    ];
    match rustix::fs::fstatfs(root) {
        Ok(found) if LOCAL.contains(&(found.f_type as u64 & 0xffff_ffff)) => TICK,
        _ => UNKNOWN,
    }
}

#[cfg(not(target_os = "linux"))]
fn granularity(_root: &impl std::os::fd::AsFd) -> i64 {
    UNKNOWN
}

/// What stands at `path` below `folder`, a link itself and not what it leads to.
pub(crate) fn look(
    folder: impl std::os::fd::AsFd,
    path: &std::ffi::CStr,
) -> Result<Stamp, rustix::io::Errno> {
    rustix::fs::statat(folder, path, AtFlags::SYMLINK_NOFOLLOW).map(|stat| Stamp::of(&stat))
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: i64 = 1_000 * SECOND + 123;

    fn believes(granularity: i64, modified: i64, changed: i64) -> bool {
        let trust = Trust { start: START, device: 1, granularity };
        let stamp = Stamp { device: 1, inode: 2, size: 3, modified, changed, mode: 0 };
        trust.believes(&stamp)
    }

    #[test]
    fn only_what_is_older_than_a_tick_is_believed() {
        let edge = START - TICK;
        assert!(believes(TICK, edge - 1, edge - 1));
        assert!(!believes(TICK, edge, edge - 1));
        assert!(!believes(TICK, edge - 1, edge), "the change time counts as well");
        assert!(!believes(TICK, START + 5, 7), "a time to come is no proof");
        assert!(believes(UNKNOWN, START - UNKNOWN - 1, 7));
        assert!(!believes(UNKNOWN, edge - 1, edge - 1));
    }

    #[test]
    fn whole_seconds_and_other_file_systems_need_more_time() {
        let recent = 999 * SECOND;
        assert!(!believes(TICK, recent, recent));
        assert!(believes(TICK, recent, recent + 1), "this clock counts nanoseconds");
        assert!(believes(TICK, 990 * SECOND, 990 * SECOND));
        let trust = Trust { start: START, device: 1, granularity: TICK };
        let foreign = Stamp {
            device: 9,
            inode: 2,
            size: 3,
            modified: recent + 1,
            changed: recent + 1,
            mode: 0,
        };
        assert!(!trust.believes(&foreign));
    }

    #[test]
    fn the_clock_is_the_one_that_stamps_files() {
        let folder = tempfile::tempdir().unwrap();
        let open = std::fs::File::open(folder.path()).unwrap();
        let before = Trust::start(&open).unwrap();
        std::fs::write(folder.path().join("x"), "").unwrap();
        let stamp = look(&open, c"x").unwrap();
        assert!(!before.believes(&stamp));
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert!(stamp.changed <= now());
    }
}
