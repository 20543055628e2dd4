//! One scan from beginning to end: walk, read, compare.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rappel_store::operation::Phase;
use rappel_store::sink::Sink;
use rappel_types::manifest::{ExtraRules, SelectionRules, Skipped};
use rappel_types::{ObjectId, RelPath};

use super::cache::record::{Draft, Stored, What, entry, folder};
use super::cache::{Cache, CacheDraft, Memo, ROOT};
use super::choose::{Chooser, PathSet};
use super::compare::{Comparison, compare};
use super::databases;
use super::globs::Globs;
use super::handle::Root;
use super::read::{Job, Outcome, Task};
use super::selector::in_order;
use super::stamp::Trust;
use super::walk::known::LiveFiles;
use super::walk::{Found, Walk, oversize, partial};
use super::{Request, Scanned};
use crate::error::{Error, Result};

/// Raised when the same configuration selects other files than before.
const RULES_VERSION: u8 = 2;

/// Looks at the workspace and puts the content of every new or changed file into `sink`.
///
/// Fails if the root cannot be opened, is removed or replaced meanwhile ([`Error::Conflict`]), if a
/// glob of the configuration is malformed, if the sink fails, or when cancelled. Nothing that is
/// wrong with a single file or folder makes it fail.
pub fn scan(mut request: Request<'_>, sink: &dyn Sink) -> Result<Scanned> {
    let include = Globs::parse("include", &request.config.include)?;
    let exclude = Globs::parse("exclude", &request.config.exclude)?;
    let root = Root::open(request.root)?;
    let trust = Trust::start(root.as_fd()).map_err(Error::io("look at", root.path()))?;
    let cache = request.cache.take();
    let digest = digest(&request);
    let files = LiveFiles(&root);
    let mut excluded_paths = request.excluded_paths.to_vec();
    excluded_paths.extend(databases::with_companions(request.databases));
    excluded_paths.sort_unstable();
    excluded_paths.dedup();
    let memo = cache.as_ref().map(Cache::memo);
    let walk = Walk {
        root: &root,
        trust,
        chooser: Chooser {
            include: &include,
            exclude: &exclude,
            excluded_paths: PathSet::new(&excluded_paths),
            also: PathSet::new(request.also),
            files: &files,
        },
        excluded: request.excluded,
        limit: request.config.max_file_size,
        environment: Arc::new(request.environment.clone()),
        before: cache.as_ref(),
        repos: memo.map_or_else(HashMap::new, |memo| {
            memo.repos
                .iter()
                .map(|repo| (repo.folder.as_ref().map_or(&[][..], RelPath::as_bytes), repo))
                .collect()
        }),
        maybe_changed: request.maybe_changed.map(PathSet::new),
        cancel: request.cancel,
        numbers: AtomicU32::new(memo.map_or(ROOT + 1, |memo| memo.next)),
        offered: AtomicUsize::new(0),
        found: Mutex::default(),
    };
    rappel_store::threads::ready()?;
    if let Some(progress) = request.progress {
        progress.begin(Phase::Looking, None);
    }
    walk.run(memo.is_none_or(|memo| memo.digest != digest));
    let next = walk.numbers.load(Ordering::Relaxed);
    let mut found = walk.found.into_inner().unwrap_or_else(PoisonError::into_inner);
    if request.cancel.is_cancelled() {
        return Err(Error::Cancelled);
    }

    let limit = request.config.max_file_size;
    let tasks = tasks(&mut found);
    let job = Job {
        root: &root,
        sink,
        limit,
        also: &PathSet::new(request.also),
        first: request.first,
        cancel: request.cancel,
        progress: request.progress,
    };
    let outcomes = job.read_all(&tasks)?;
    root.check_still_there()?;
    settle(&mut found, &tasks, outcomes, trust, &request);

    let drafts: Vec<Draft> = found.folders.into_iter().map(|folder| folder.draft).collect();
    let compared = compare(cache.as_ref(), &drafts);
    let count = memo.map_or(0, |memo| memo.count).saturating_add_signed(compared.count);
    let bytes = memo.map_or(0, |memo| memo.bytes).saturating_add_signed(compared.bytes);
    let mut excluded_roots = found.excluded;
    excluded_roots.extend_from_slice(&excluded_paths);
    let databases = sorted(found.databases);
    // The rules as a restore asks them: these are none of the files.
    excluded_roots.extend(databases::with_companions(&databases));
    excluded_roots.sort_unstable();
    excluded_roots.dedup();
    let before = memo.map_or(&[][..], |memo| &memo.rules.extra);
    let rules = SelectionRules {
        git: found.git,
        include: request.config.include.clone(),
        exclude: request.config.exclude.clone(),
        max_file_size: limit,
        extra: extra(before, found.extra, &found.listed, &compared, &drafts),
        excluded_roots,
    };
    let base = cache.as_ref().map(|cache| *cache.base());
    // A repository above the root is not the workspace's to keep.
    let here = found.repos.iter().filter(|repo| repo.is_repo && repo.above.is_none());
    let repositories = sorted(here.map(|repo| repo.folder.clone()).collect());
    let memo = Memo {
        base: base.unwrap_or(ObjectId([0; 32])),
        checkpoint: None,
        digest,
        rules: rules.clone(),
        repos: found.repos,
        count,
        bytes,
        next,
        live: memo.map_or(0, |memo| memo.live),
    };
    Ok(Scanned {
        base,
        changes: compared.changes,
        count,
        bytes,
        added: compared.added,
        modified: compared.modified,
        deleted: compared.deleted,
        skipped: sorted(found.skipped),
        partial: sorted(found.partial),
        rules,
        repositories,
        databases,
        next: CacheDraft { before: cache, drafts, memo },
    })
}

/// A hash of everything given from outside that decides what is selected.
fn digest(request: &Request<'_>) -> ObjectId {
    let mut hasher = blake3::Hasher::new();
    let mut add = |bytes: &[u8]| {
        hasher.update(&(bytes.len() as u64).to_le_bytes()).update(bytes);
    };
    add(&[RULES_VERSION]);
    add(&request.config.max_file_size.to_le_bytes());
    for list in [&request.config.include, &request.config.exclude] {
        add(&list.len().to_le_bytes());
        for glob in list {
            add(glob.as_bytes());
        }
    }
    add(&request.excluded_paths.len().to_le_bytes());
    for path in request.excluded_paths {
        add(path.as_bytes());
    }
    add(&request.databases.len().to_le_bytes());
    for path in request.databases {
        add(path.as_bytes());
    }
    for identity in request.excluded {
        add(&identity.device.to_le_bytes());
        add(&identity.inode.to_le_bytes());
    }
    ObjectId(*hasher.finalize().as_bytes())
}

/// Everything that has to be read, in the order of the paths so that neighbours are stored together.
fn tasks(found: &mut Found) -> Vec<Task> {
    found.folders.sort_unstable_by(|a, b| a.draft.path.cmp(&b.draft.path));
    let mut tasks = Vec::with_capacity(found.folders.iter().map(|f| f.pending.len()).sum());
    for (at, folder) in found.folders.iter_mut().enumerate() {
        tasks.extend(folder.pending.drain(..).map(|task| Task { draft: at, ..task }));
    }
    tasks
}

/// Puts what was read into the drafts.
fn settle(
    found: &mut Found,
    tasks: &[Task],
    outcomes: Vec<Outcome>,
    trust: Trust,
    request: &Request<'_>,
) {
    let limit = request.config.max_file_size;
    let mut gone: Vec<(usize, usize)> = Vec::new();
    for (task, outcome) in tasks.iter().zip(outcomes) {
        let draft = &mut found.folders[task.draft].draft;
        let held = &mut draft.entries[task.entry];
        held.flags &= !entry::YOUNG;
        match outcome {
            Outcome::Read { what, stamp, target, moving } => {
                held.what = what;
                held.target = target;
                // What was read before the walk was read before that trust began.
                let early = request.first.is_some_and(|first| first.at(&task.path).is_some());
                if moving || early || !trust.believes(&stamp) {
                    held.flags |= entry::YOUNG;
                }
                // It may be a database, and is one again when nobody asks for the file.
                if task.as_file {
                    held.flags |= entry::TODAY;
                }
                if moving {
                    let reason = "it kept changing while it was being read";
                    found.partial.push(partial(&task.path, reason));
                }
            }
            Outcome::Gone => {
                draft.flags |= folder::LIST;
                gone.push((task.draft, task.entry));
            }
            Outcome::Database(stamp) => {
                held.what = What::Database(Stored::new(&stamp, [0; 32]));
                if !trust.believes(&stamp) {
                    held.flags |= entry::YOUNG;
                }
                // What lies beside it was judged before that was known.
                draft.flags |= folder::LIST;
                found.databases.extend(RelPath::new(&*task.path));
            }
            Outcome::Oversize => {
                held.what = What::Oversize;
                if let Ok(path) = RelPath::new(&*task.path) {
                    found.skipped.push(Skipped { path, reason: oversize(limit) });
                }
            }
            Outcome::Unreadable(reason) => {
                held.what = What::Unreadable;
                found.partial.push(partial(&task.path, reason));
            }
        }
    }
    for drawn in &mut found.folders {
        for (at, id) in drawn.applied.drain(..) {
            let held = &drawn.draft.entries[at];
            if matches!(held.what, What::Whole(stored) if stored.id != id) {
                // What was judged by the old rules must not be believed next time.
                drawn.draft.flags |= folder::STALE;
                let reason = "its ignore file changed while it was being captured";
                found.partial.push(partial(&drawn.draft.path, reason));
            }
        }
    }
    for (draft, entry) in gone.into_iter().rev() {
        found.folders[draft].draft.entries.remove(entry);
    }
}

/// The rules that are not captured: those of folders that were not listed again stay as they were.
fn extra(
    before: &[ExtraRules],
    mut fresh: Vec<ExtraRules>,
    listed: &[Vec<u8>],
    compared: &Comparison,
    drafts: &[Draft],
) -> Vec<ExtraRules> {
    if !before.is_empty() {
        let listed: HashSet<&[u8]> = listed.iter().map(Vec::as_slice).collect();
        let absent = drafts.iter().filter(|draft| !draft.in_tree()).map(|draft| &draft.path);
        let gone: Vec<RelPath> = compared
            .gone
            .iter()
            .chain(absent)
            .filter_map(|path| RelPath::new(&**path).ok())
            .collect();
        let stays = before.iter().filter(|rules| match &rules.folder {
            None => !listed.contains(&[][..]),
            Some(folder) => {
                !listed.contains(folder.as_bytes())
                    && !gone.iter().any(|gone| folder.is_within(gone))
            }
        });
        fresh.extend(stays.cloned());
    }
    in_order(&mut fresh);
    fresh
}

fn sorted<T: Ord>(mut list: Vec<T>) -> Vec<T> {
    list.sort_unstable();
    list.dedup();
    list
}
