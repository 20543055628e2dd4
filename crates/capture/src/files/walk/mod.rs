//! The walk over the workspace: top-down, folder by folder, on all cores.
//!
//! A folder that the cache knows and that did not change is passed with [`known`](self::known), any
//! other is listed anew with [`listed`](self::listed). Nothing is read here but rule files; what
//! has to be read is noted.

pub(crate) mod known;
mod listed;
mod repos;

use std::collections::HashMap;
use std::ffi::CString;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rappel_store::Cancel;
use rappel_types::RelPath;
use rappel_types::manifest::{ExtraRules, Facet, PartialReason, Skipped};
use rappel_types::size::format_size;
use rustix::io::Errno;

use super::Environment;
use super::cache::record::{Draft, Record, folder};
use super::cache::{Cache, ROOT, RepoMemo};
use super::choose::{Chooser, Inside, PathSet, Scope};
use super::handle::Root;
use super::read::Task;
use super::stamp::{Identity, Kind, Stamp, Trust};

/// A walk over one workspace.
pub(crate) struct Walk<'a> {
    pub root: &'a Root,
    pub trust: Trust,
    pub chooser: Chooser<'a>,
    pub excluded: &'a [Identity],
    /// Larger files are left out.
    pub limit: u64,
    pub environment: Arc<Environment>,
    pub before: Option<&'a Cache>,
    /// The repositories that were known, by their folder.
    pub repos: HashMap<&'a [u8], &'a RepoMemo>,
    pub maybe_changed: Option<PathSet<'a>>,
    pub cancel: &'a Cancel,
    /// The next folder's number.
    pub numbers: AtomicU32,
    /// How many piles of folders wait for somebody to visit them.
    pub offered: AtomicUsize,
    pub found: Mutex<Found>,
}

/// What a walk found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Folders that differ from their records, or may.
    pub folders: Vec<FolderDraft>,
    pub skipped: Vec<Skipped>,
    pub partial: Vec<PartialReason>,
    /// Rules that are not captured, of the folders in `listed`.
    pub extra: Vec<ExtraRules>,
    /// Folders that were listed anew.
    pub listed: Vec<Vec<u8>>,
    /// Folders that are excluded by identity.
    pub excluded: Vec<RelPath>,
    pub repos: Vec<RepoMemo>,
    /// Databases of SQLite among what would be taken.
    pub databases: Vec<RelPath>,
    /// Whether a repository governs the root.
    pub git: bool,
}

/// A folder that differs from its record, and what has to be read to complete it.
#[derive(Debug)]
pub(crate) struct FolderDraft {
    pub draft: Draft,
    /// Tasks with the place of their entry; the draft's own place is not known yet.
    pub pending: Vec<Task>,
    /// Rule files that were applied, by their entry, with the hash of what was applied.
    pub applied: Vec<(usize, [u8; 32])>,
}

impl FolderDraft {
    fn new(draft: Draft) -> Self {
        Self { draft, pending: Vec::new(), applied: Vec::new() }
    }
}

/// One folder to look at.
#[derive(Debug)]
struct Job {
    path: Vec<u8>,
    number: u32,
    /// The rules above this folder.
    scope: Arc<Scope>,
    inside: Inside,
    /// Whether the verdicts that the cache holds for this folder do not count.
    stale: bool,
    /// Whether the set of tracked files changed.
    recheck: bool,
}

/// Paths that are not taken, while jobs still run.
#[derive(Debug, Default)]
struct Remarks {
    databases: Vec<RelPath>,
    skipped: Vec<Skipped>,
    partial: Vec<PartialReason>,
}

impl Remarks {
    fn skip(&mut self, path: &[u8], reason: impl Into<String>) {
        if let Ok(path) = RelPath::new(path) {
            self.skipped.push(Skipped { path, reason: reason.into() });
        }
    }

    fn database(&mut self, path: &[u8]) {
        self.databases.extend(RelPath::new(path));
    }

    fn partial(&mut self, path: &[u8], reason: impl Into<String>) {
        self.partial.push(partial(path, reason));
    }
}

/// A reason why the checkpoint is not whole at and below `path`; the empty path is the root.
pub(crate) fn partial(path: &[u8], reason: impl Into<String>) -> PartialReason {
    PartialReason::new(Facet::Files, RelPath::new(path).ok(), reason)
}

impl Walk<'_> {
    /// Walks over everything.
    pub fn run(&self, stale: bool) {
        rayon::scope(|spawn| {
            let (scope, opened) = self.root_scope();
            let root = Job {
                path: Vec::new(),
                number: ROOT,
                scope,
                inside: Inside::Normal,
                stale: stale || opened.stale,
                recheck: opened.recheck,
            };
            self.visit_all(spawn, vec![root]);
        });
    }

    /// Visits folders and what lies below them, depth first. As others take what is offered to them,
    /// they are offered half of what has piled up: that which is highest in the tree.
    fn visit_all<'s>(&'s self, spawn: &rayon::Scope<'s>, mut open: Vec<Job>) {
        while let Some(job) = open.pop() {
            self.visit(&mut open, job);
            let offered = self.offered.load(Ordering::Relaxed);
            if open.len() > 1 && offered < rayon::current_num_threads() {
                let rest = open.split_off(open.len() / 2);
                let higher = std::mem::replace(&mut open, rest);
                self.offered.fetch_add(1, Ordering::Relaxed);
                spawn.spawn(move |spawn| {
                    self.offered.fetch_sub(1, Ordering::Relaxed);
                    self.visit_all(spawn, higher);
                });
            }
        }
    }

    /// Visits one folder; those in it are added to `open`.
    fn visit(&self, open: &mut Vec<Job>, mut job: Job) {
        if self.cancel.is_cancelled() {
            return;
        }
        let record = self.before.and_then(|cache| cache.record(job.number));
        job.stale |= record.is_some_and(|record| record.flags() & folder::STALE != 0);
        let usable = record.filter(|record| {
            let unusable = folder::LIST | folder::STALE | folder::ABSENT | folder::UNREADABLE;
            !job.stale && record.flags() & unusable == 0 && record.inside() == Some(job.inside)
        });
        if let (Some(record), false) = (usable, self.may_have_changed(&job.path))
            && self.known(open, &mut job, record, false)
        {
            return;
        }
        let stamp = CString::new(&*job.path)
            .map_err(|_| Errno::INVAL)
            .and_then(|path| self.root.look(&path));
        let stamp = match stamp {
            Ok(stamp) => stamp,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return self.absent(&job, None),
            Err(error) => {
                let reason = std::io::Error::from(error).to_string();
                return self.absent(&job, Some(reason));
            }
        };
        if stamp.kind() != Kind::Folder {
            return self.absent(&job, Some("it changed while it was being looked at".into()));
        }
        if self.excluded.contains(&stamp.identity()) && !job.path.is_empty() {
            return self.leave_out(&job, record, &stamp);
        }
        let usable = usable.filter(|record| record.agrees(&stamp));
        if let Some(record) = usable
            && self.known(open, &mut job, record, true)
        {
            return;
        }
        self.list(open, &job, record);
    }

    fn may_have_changed(&self, path: &[u8]) -> bool {
        self.maybe_changed.as_ref().is_none_or(|paths| paths.reaches(path) || paths.covers(path))
    }

    /// Notes a folder that was there a moment ago and is not any more.
    fn absent(&self, job: &Job, reason: Option<String>) {
        let nothing = Stamp { device: 0, inode: 0, size: 0, modified: 0, changed: 0, mode: 0 };
        let flags = folder::ABSENT | folder::LIST;
        let draft = Draft::new(job.number, &job.path, &nothing, job.inside, flags);
        let mut found = self.found();
        found.folders.push(FolderDraft::new(draft));
        if let Some(reason) = reason {
            found.partial.push(partial(&job.path, reason));
        }
    }

    /// Notes a folder that is excluded because of what it is.
    fn leave_out(&self, job: &Job, record: Option<Record<'_>>, stamp: &Stamp) {
        let mut found = self.found();
        if record.is_none_or(|record| record.in_tree()) {
            let flags = folder::ABSENT;
            let draft = Draft::new(job.number, &job.path, stamp, job.inside, flags);
            found.folders.push(FolderDraft::new(draft));
        }
        found.excluded.extend(RelPath::new(&*job.path));
    }

    fn found(&self) -> std::sync::MutexGuard<'_, Found> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, remarks: &mut Remarks) {
        let Remarks { databases, skipped, partial } = &remarks;
        if !(databases.is_empty() && skipped.is_empty() && partial.is_empty()) {
            let mut found = self.found();
            found.databases.append(&mut remarks.databases);
            found.skipped.append(&mut remarks.skipped);
            found.partial.append(&mut remarks.partial);
        }
    }
}

/// Why a file of that size is not taken.
pub(crate) fn oversize(limit: u64) -> String {
    format!("larger than {} (max_file_size)", format_size(limit).replace(".0 ", " "))
}
