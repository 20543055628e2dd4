//! Waiting until a home's log grows, without asking the store again and again.
//!
//! A [`Watcher`] hears of every change from the moment it is made. So whoever makes it, then reads
//! what happened, and then waits, misses nothing.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::Errno;

/// How often the files are looked at where the kernel does not tell.
const PAUSE: Duration = Duration::from_millis(200);

/// Tells when other processes, or other threads, write to a home.
#[derive(Debug)]
pub struct Watcher {
    root: PathBuf,
    /// Absent where the kernel gives none, or the home is not there yet.
    told: Option<OwnedFd>,
    seen: Seen,
}

/// What a commit changes: the log's folder and newest pack, and the note in the lock file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Seen(Vec<Option<(u64, u64, i64, i64)>>);

impl Seen {
    fn of(root: &Path) -> Self {
        let stamp = |path: PathBuf| {
            let meta = std::fs::metadata(path).ok()?;
            Some((meta.ino(), meta.len(), meta.mtime(), meta.mtime_nsec()))
        };
        Self(vec![stamp(root.join("lock")), stamp(root.join("packs"))])
    }
}

impl Watcher {
    /// Watches the home at `root` from now on.
    pub fn new(root: &Path) -> Self {
        let told = arm(root).ok();
        Self { root: root.to_owned(), told, seen: Seen::of(root) }
    }

    /// Waits until something may have been written since the last call, or since the watcher was
    /// made; false if that did not happen within `limit`. It may answer true once too often.
    pub fn wait(&mut self, limit: Duration) -> io::Result<bool> {
        let end = Instant::now() + limit;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let (pause, is_told) = match &self.told {
                Some(told) => (left, is_told(told, left)?),
                None => (left.min(PAUSE), false),
            };
            if self.told.is_none() {
                std::thread::sleep(pause);
            }
            let seen = Seen::of(&self.root);
            let has_moved = seen != self.seen;
            if is_told || has_moved {
                // The files may be others now, with the same names.
                if self.told.is_none() || !self.seen.is_of_the_same_files(&seen) {
                    self.told = arm(&self.root).ok();
                    self.seen = Seen::of(&self.root);
                } else {
                    self.seen = seen;
                }
                return Ok(true);
            }
            if left.is_zero() {
                return Ok(false);
            }
        }
    }
}

impl Seen {
    fn is_of_the_same_files(&self, other: &Self) -> bool {
        let inodes = |seen: &Self| -> Vec<_> {
            seen.0.iter().map(|stamp| stamp.map(|stamp| stamp.0)).collect()
        };
        inodes(self) == inodes(other)
    }
}

fn arm(root: &Path) -> Result<OwnedFd, Errno> {
    let told = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
    let changes = WatchFlags::MODIFY
        | WatchFlags::CREATE
        | WatchFlags::MOVED_TO
        | WatchFlags::DELETE_SELF
        | WatchFlags::MOVE_SELF;
    inotify::add_watch(&told, root.join("packs"), changes)?;
    inotify::add_watch(&told, root.join("lock"), changes | WatchFlags::ATTRIB)?;
    Ok(told)
}

/// Waits for the kernel, and forgets what it told.
fn is_told(told: &OwnedFd, limit: Duration) -> io::Result<bool> {
    let mut asked = [PollFd::new(told, PollFlags::IN)];
    let limit =
        Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: i64::from(limit.subsec_nanos()) };
    match poll(&mut asked, Some(&limit)) {
        Ok(0) | Err(Errno::INTR) => return Ok(false),
        Ok(_) => {}
        Err(errno) => return Err(errno.into()),
    }
    let mut buffer = [0_u8; 4096];
    while rustix::io::read(told, &mut buffer).is_ok_and(|length| length > 0) {}
    Ok(true)
}
