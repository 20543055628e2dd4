//! Reading the files that a walk found new: in parallel, verified by their stamps, bounded in
//! memory.

use std::ffi::CString;
use std::io::{self, Read};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use rappel_store::Cancel;
use rappel_store::content::{self, WHOLE_MAX};
use rappel_store::held::HELD;
use rappel_store::operation::{Phase, Progress};
use rappel_store::sink::Sink;
use rappel_types::Content;
use rayon::prelude::*;
use rustix::io::Errno;

use super::cache::record::{Stored, What};
use super::choose::PathSet;
use super::databases;
use super::first::{Before, First};
use super::handle::Root;
use super::stamp::{Kind, Stamp};
use crate::databases::sqlite::COMPANIONS;
use crate::error::{Error, Result};

/// How often a file is read before it counts as one that does not stand still.
const TRIES: usize = 3;
/// How many large files are in memory at once, each with a window of a few MiB.
const LARGE_AT_ONCE: usize = 4;

/// A file or link to be read.
#[derive(Debug)]
pub(crate) struct Task {
    /// Where it goes: which draft, which entry there.
    pub draft: usize,
    pub entry: usize,
    pub path: Vec<u8>,
    /// What it was when the walk passed.
    pub stamp: Stamp,
    /// What it held before, against which it can be stored.
    pub base: Option<Content>,
    /// Whether it is taken whatever its size.
    pub any_size: bool,
    /// Whether it is taken as a file even if it is a database.
    pub as_file: bool,
}

/// What came of it.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// It was read. `moving` tells that it was being written all the while.
    Read { what: What, stamp: Stamp, target: Option<Vec<u8>>, moving: bool },
    /// It is not there any more.
    Gone,
    /// It is a database.
    Database(Stamp),
    /// It is larger than what is taken.
    Oversize,
    /// It is something else by now, or cannot be read.
    Unreadable(String),
}

/// What reading needs to know.
pub(crate) struct Job<'a> {
    pub root: &'a Root,
    pub sink: &'a dyn Sink,
    pub limit: u64,
    /// What is taken although the rules would not.
    pub also: &'a PathSet<'a>,
    /// What was read before the walk.
    pub first: Option<&'a First>,
    pub cancel: &'a Cancel,
    pub progress: Option<&'a Progress>,
}

impl Job<'_> {
    /// Reads everything; the outcomes are in the order of the tasks.
    pub fn read_all(&self, tasks: &[Task]) -> Result<Vec<Outcome>> {
        if let Some(progress) = self.progress.filter(|_| !tasks.is_empty()) {
            progress.begin(Phase::ReadingFiles, Some(tasks.len() as u64));
        }
        let (large, small): (Vec<usize>, Vec<usize>) =
            (0..tasks.len()).partition(|&at| tasks[at].stamp.size > WHOLE_MAX as u64);
        let (small, large) = rayon::join(
            || -> Result<Vec<(usize, Outcome)>> {
                small.into_par_iter().map(|at| Ok((at, self.read(&tasks[at])?))).collect()
            },
            || self.read_large(tasks, &large),
        );
        let mut outcomes: Vec<(usize, Outcome)> = small?;
        outcomes.append(&mut large?);
        outcomes.sort_unstable_by_key(|(at, _)| *at);
        Ok(outcomes.into_iter().map(|(_, outcome)| outcome).collect())
    }

    fn read_large(&self, tasks: &[Task], large: &[usize]) -> Result<Vec<(usize, Outcome)>> {
        let next = AtomicUsize::new(0);
        let done = Mutex::new(Ok(Vec::new()));
        rayon::scope(|scope| {
            for _ in 0..LARGE_AT_ONCE.min(large.len()) {
                scope.spawn(|_| {
                    while let Some(&at) = large.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let outcome = self.read(&tasks[at]);
                        let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
                        match (&mut *done, outcome) {
                            (Ok(outcomes), Ok(outcome)) => outcomes.push((at, outcome)),
                            (Ok(_), Err(error)) => {
                                *done = Err(error);
                                return;
                            }
                            (Err(_), _) => return,
                        }
                    }
                });
            }
        });
        done.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self, task: &Task) -> Result<Outcome> {
        if self.cancel.is_cancelled() {
            return Err(Error::Cancelled);
        }
        let outcome = match task.stamp.kind() {
            Kind::Symlink => self.read_link(&task.path),
            _ => match self.first.and_then(|first| first.at(&task.path)) {
                Some(before) => self.take_first(task, before)?,
                None => self.read_file(task)?,
            },
        };
        if let Some(progress) = self.progress {
            progress.add(Phase::ReadingFiles, 1, task.stamp.size);
        }
        Ok(outcome)
    }

    fn look(&self, path: &[u8]) -> Result<Stamp, Errno> {
        self.root.look(&CString::new(path).map_err(|_| Errno::INVAL)?)
    }

    /// Whether what SQLite keeps beside a database is taken with it, so that nothing is missing. The
    /// index of a log (`-shm`) holds nothing of its own.
    fn takes_companions(&self, path: &[u8]) -> bool {
        let mut with_content = COMPANIONS.iter().filter(|suffix| **suffix != "-shm");
        with_content.all(|suffix| {
            let beside = [path, suffix.as_bytes()].concat();
            self.also.holds(&beside) || self.look(&beside) == Err(Errno::NOENT)
        })
    }

    fn read_link(&self, path: &[u8]) -> Outcome {
        let read = || -> Result<Outcome, Errno> {
            let mut last = None;
            for _ in 0..TRIES {
                let before = self.look(path)?;
                if before.kind() != Kind::Symlink {
                    return Ok(Outcome::Unreadable(REPLACED.into()));
                }
                let target = self.root.read_link(path)?;
                let what = What::Symlink(Stored::new(&before, *blake3::hash(&target).as_bytes()));
                let moving = self.look(path)? != before;
                let target = Some(target);
                last = Some(Outcome::Read { what, stamp: before, target, moving });
                if !moving {
                    break;
                }
            }
            Ok(last.unwrap_or(Outcome::Gone))
        };
        read().unwrap_or_else(failed)
    }

    /// Takes what stood at a path before the walk. Its stamp is that of then, so that the next scan
    /// reads what stands there now.
    fn take_first(&self, task: &Task, before: &Before) -> Result<Outcome> {
        let Before::File { stamp, bytes } = before else { return Ok(Outcome::Gone) };
        if !task.any_size && stamp.size > self.limit {
            return Ok(Outcome::Oversize);
        }
        let (content, _) =
            content::store(self.sink, &mut &bytes[..], stamp.size, task.base.as_ref())?;
        let what = stored(stamp, &content, stamp.size);
        Ok(Outcome::Read { what, stamp: *stamp, target: None, moving: false })
    }

    /// Reads a file until it stands still while it is read, a few times at most.
    fn read_file(&self, task: &Task) -> Result<Outcome> {
        let mut last = Outcome::Gone;
        for attempt in 0..TRIES {
            match self.read_once(task)? {
                // It may have been replaced in two steps; look again before it counts as gone.
                Outcome::Gone if attempt == 0 => {}
                Outcome::Read { what, stamp, target, moving: true } => {
                    last = Outcome::Read { what, stamp, target, moving: true };
                }
                outcome => return Ok(outcome),
            }
        }
        Ok(last)
    }

    fn read_once(&self, task: &Task) -> Result<Outcome> {
        let mut file = match self.root.open_file(&task.path) {
            Ok(file) => file,
            Err(HELD) if task.as_file => {
                return Ok(Outcome::Unreadable(databases::IN_USE.into()));
            }
            // Nothing else is ever held.
            Err(HELD) => return Ok(self.look(&task.path).map_or_else(failed, Outcome::Database)),
            Err(error) => return Ok(failed(error)),
        };
        let before = match rustix::fs::fstat(&file) {
            Ok(stat) => Stamp::of(&stat),
            Err(error) => return Ok(failed(error)),
        };
        if before.kind() != Kind::File {
            return Ok(Outcome::Unreadable(REPLACED.into()));
        }
        if databases::is_one(self.root, &task.path, &file) {
            if !task.as_file {
                return Ok(Outcome::Database(before));
            }
            if databases::is_in_use(self.root, &task.path) && !self.takes_companions(&task.path) {
                return Ok(Outcome::Unreadable(databases::IN_USE.into()));
            }
        }
        let limit = if task.any_size { u64::MAX } else { self.limit };
        if before.size > limit {
            return Ok(Outcome::Oversize);
        }
        // One that grows faster than it is read must end as well.
        let bound = limit.min(before.size.saturating_add(WHOLE_MAX as u64));
        let mut reader =
            Checked { inner: (&mut file).take(bound), cancel: self.cancel, error: None };
        let result = content::store(self.sink, &mut reader, before.size, task.base.as_ref());
        let (content, size) = match (result, reader.error) {
            (Ok(stored), _) => stored,
            (Err(_), Some(error)) if error == Errno::CANCELED => return Err(Error::Cancelled),
            (Err(_), Some(error)) => return Ok(failed(error)),
            (Err(error), None) => return Err(error.into()),
        };
        let moving = size != before.size || self.look(&task.path) != Ok(before);
        let what = stored(&before, &content, size);
        Ok(Outcome::Read { what, stamp: before, target: None, moving })
    }
}

/// What a file with this content is in the cache.
fn stored(stamp: &Stamp, content: &Content, size: u64) -> What {
    let stored = Stored { size, ..Stored::new(stamp, content.id().0) };
    match content {
        Content::Whole(_) => What::Whole(stored),
        Content::Chunked(_) => What::Chunked(stored),
    }
}

const REPLACED: &str = "it was replaced by something else while it was being read";

fn failed(error: Errno) -> Outcome {
    match error {
        Errno::NOENT | Errno::NOTDIR => Outcome::Gone,
        // With links refused, this is a link where a file or folder was.
        Errno::LOOP => Outcome::Unreadable(REPLACED.into()),
        error => Outcome::Unreadable(io::Error::from(error).to_string()),
    }
}

/// Tells errors of the file from those of the sink, and stops when asked to.
struct Checked<'a, R> {
    inner: R,
    cancel: &'a Cancel,
    error: Option<Errno>,
}

impl<R: Read> Read for Checked<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.cancel.is_cancelled() {
            self.error = Some(Errno::CANCELED);
            return Err(Errno::CANCELED.into());
        }
        let read = self.inner.read(buffer);
        if let Err(error) = &read
            && error.kind() != io::ErrorKind::Interrupted
        {
            self.error = Some(Errno::from_io_error(error).unwrap_or(Errno::IO));
        }
        read
    }
}
