//! A disk that fails where it is told to, and that forgets what was not synced.
//!
//! Every change asks [`Disk::gate`] first, so the disk knows what is about to happen and notes how
//! to take it back. After a crash, [`FaultDisk::lose`] takes back, on the real files, what a power
//! loss could have taken: writes that were not synced, and names whose folder was not. Syncing a
//! folder makes durable what happened to its entries and whatever that depends on; other folders'
//! changes stay unsure, as on a file system without a global journal.

mod names;

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use rappel_store::disk::{Disk, Op};
use tempfile::TempDir;

use names::NameOp;

/// What goes wrong. Operations are counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fault {
    /// Nothing.
    #[default]
    None,
    /// One operation fails, the others work.
    Fail {
        /// Which.
        at: u64,
        /// How.
        failure: Failure,
    },
    /// The machine stops: this operation and all after it fail.
    Crash {
        /// Which.
        at: u64,
    },
}

/// How an operation fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The disk is broken.
    Io,
    /// The disk is full.
    NoSpace,
    /// Only half of a write is done; other operations work.
    ShortWrite,
}

/// What a power loss does to bytes that were not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writes {
    /// They had reached the disk all the same.
    Kept,
    /// None of them had.
    Dropped,
    /// The last write of each file had reached it by half, those before it wholly.
    Torn,
}

/// What a power loss does to names whose folder was not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Names {
    /// They had reached the disk all the same.
    Kept,
    /// None of them had.
    Undone,
    /// The first half of them had.
    Half,
}

/// A power loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loss {
    /// What becomes of unsynced bytes.
    pub writes: Writes,
    /// What becomes of unsynced names.
    pub names: Names,
}

impl Loss {
    /// Every combination, the kind one first.
    pub fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for names in [Names::Kept, Names::Undone, Names::Half] {
            for writes in [Writes::Kept, Writes::Dropped, Writes::Torn] {
                all.push(Self { writes, names });
            }
        }
        all
    }
}

type Condition = Box<dyn Fn(&Op<'_>) -> bool + Send>;
type Reaction = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct State {
    count: u64,
    fault: Fault,
    crashed: bool,
    trace: Vec<String>,
    reactions: Vec<(Condition, Reaction)>,
    without_exchange: bool,
    names: Vec<NameOp>,
    writes: Vec<Write>,
    /// Open handles, so that a file can be cut back whatever it is called by then.
    handles: HashMap<(u64, u64), Arc<File>>,
}

/// Bytes that were written and not synced.
struct Write {
    file: (u64, u64),
    handle: Arc<File>,
    offset: u64,
    length: u64,
    /// What was there before.
    before: Vec<u8>,
    length_before: u64,
}

/// See the module.
pub struct FaultDisk {
    state: Mutex<State>,
    /// Keeps removed files until it is sure that they stay removed.
    graveyard: TempDir,
}

impl std::fmt::Debug for FaultDisk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FaultDisk")
    }
}

impl FaultDisk {
    /// A disk on which nothing goes wrong yet, under folders of [`tempfile::tempdir`].
    pub fn new() -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), graveyard: tempfile::tempdir().unwrap() })
    }

    /// The same, under folders of [`memory_dir`](crate::project::memory_dir).
    pub fn in_memory(fault: Fault) -> Arc<Self> {
        let graveyard = crate::project::memory_dir();
        let disk = Self { state: Mutex::default(), graveyard };
        disk.set(fault);
        Arc::new(disk)
    }

    /// A disk on which something will.
    pub fn with(fault: Fault) -> Arc<Self> {
        let disk = Self::new();
        disk.set(fault);
        disk
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Chooses what goes wrong, counting from now.
    pub fn set(&self, fault: Fault) {
        let mut state = self.state();
        state.fault = fault;
        state.count = 0;
        state.crashed = false;
    }

    /// How many operations there were since [`FaultDisk::set`].
    pub fn count(&self) -> u64 {
        self.state().count
    }

    /// Whether the machine stopped.
    pub fn has_crashed(&self) -> bool {
        self.state().crashed
    }

    /// The operations so far, for messages.
    pub fn trace(&self) -> Vec<String> {
        self.state().trace.clone()
    }

    /// From now on this is a file system that cannot exchange two entries.
    pub fn without_exchange(&self) {
        self.state().without_exchange = true;
    }

    /// Does something right before the first operation that fits `condition`.
    pub fn before(
        &self,
        condition: impl Fn(&Op<'_>) -> bool + Send + 'static,
        reaction: impl FnOnce() + Send + 'static,
    ) {
        self.state().reactions.push((Box::new(condition), Box::new(reaction)));
    }

    /// Loses power and comes back: takes back what was not synced, and works from now on.
    pub fn lose(&self, loss: Loss) {
        let mut state = self.state();
        match loss.writes {
            Writes::Kept => {}
            Writes::Dropped => state.writes.iter().rev().for_each(Write::undo),
            Writes::Torn => {
                let mut last: HashMap<(u64, u64), &Write> = HashMap::new();
                for write in &state.writes {
                    last.insert(write.file, write);
                }
                last.into_values().for_each(Write::tear);
            }
        }
        let kept = match loss.names {
            Names::Kept => state.names.len(),
            Names::Undone => 0,
            Names::Half => state.names.len() / 2,
        };
        let mut again = HashMap::new();
        for op in state.names[kept..].iter().rev() {
            op.undo(&mut again);
        }
        *state = State { without_exchange: state.without_exchange, ..State::default() };
    }

    fn note(&self, state: &mut State, op: &Op<'_>) {
        match *op {
            Op::Write { path, offset, bytes } => state.note_write(path, offset, bytes.len() as u64),
            Op::Truncate { path, length } => {
                let end = std::fs::metadata(path).map_or(0, |meta| meta.len());
                state.note_write(path, length, end.saturating_sub(length));
            }
            Op::Sync(path) => {
                if let Ok(meta) = std::fs::metadata(path) {
                    let file = (meta.dev(), meta.ino());
                    state.writes.retain(|write| write.file != file);
                    state.names.retain(|op| !op.is_mode_of(file));
                }
            }
            Op::SyncDir(path) => names::settle(&mut state.names, path),
            Op::SyncAll(_) => {
                state.names.clear();
                state.writes.clear();
            }
            _ => state.names.extend(NameOp::of(op, self.graveyard.path())),
        }
    }
}

impl State {
    fn note_write(&mut self, path: &Path, offset: u64, length: u64) {
        let Ok(meta) = std::fs::metadata(path) else { return };
        let file = (meta.dev(), meta.ino());
        let handle = self.handles.entry(file).or_insert_with(|| {
            // For reading only: whoever looks for writers must not find us.
            Arc::new(File::open(path).unwrap())
        });
        let overlap = meta.len().saturating_sub(offset).min(length);
        let mut before = vec![0; overlap as usize];
        handle.read_exact_at(&mut before, offset).unwrap();
        self.writes.push(Write {
            file,
            handle: handle.clone(),
            offset,
            length,
            before,
            length_before: meta.len(),
        });
    }
}

impl Write {
    /// The file, wherever it is by now.
    fn open(&self) -> File {
        let link = format!("/proc/self/fd/{}", self.handle.as_raw_fd());
        File::options().write(true).open(link).unwrap()
    }

    fn undo(&self) {
        let file = self.open();
        file.write_all_at(&self.before, self.offset).unwrap();
        file.set_len(self.length_before).unwrap();
    }

    fn tear(&self) {
        let file = self.open();
        let half = self.length / 2;
        let kept = (half as usize).min(self.before.len());
        file.write_all_at(&self.before[kept..], self.offset + kept as u64).unwrap();
        let length = self.length_before.max(self.offset + half);
        let now = file.metadata().unwrap().len();
        file.set_len(length.min(now)).unwrap();
    }
}

impl Disk for FaultDisk {
    fn gate(&self, op: &Op<'_>) -> io::Result<usize> {
        let mut state = self.state();
        if let Some(at) = state.reactions.iter().position(|(condition, _)| condition(op)) {
            let (_, reaction) = state.reactions.swap_remove(at);
            drop(state);
            reaction();
            state = self.state();
        }
        if state.without_exchange && matches!(op, Op::Exchange { .. }) {
            return Err(io::Error::from_raw_os_error(22));
        }
        state.count += 1;
        state.trace.push(match op {
            Op::Write { path, offset, bytes } => {
                format!("Write({}, {} bytes at {offset})", path.display(), bytes.len())
            }
            other => format!("{other:?}"),
        });
        let mut allowed = usize::MAX;
        match state.fault {
            Fault::Crash { at } if state.count >= at => {
                state.crashed = true;
                return Err(io::Error::other("the machine stopped"));
            }
            Fault::Fail { at, failure } if state.count == at => match failure {
                Failure::Io => return Err(io::Error::from_raw_os_error(5)),
                Failure::NoSpace => return Err(io::Error::from_raw_os_error(28)),
                Failure::ShortWrite => {
                    if let Op::Write { bytes, .. } = op {
                        allowed = bytes.len().div_ceil(2);
                    }
                }
            },
            _ => {}
        }
        self.note(&mut state, op);
        Ok(allowed)
    }
}
