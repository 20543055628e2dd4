//! Looking at everything that a checkpoint holds, beside each other where that is possible.

use std::path::Path;
use std::sync::PoisonError;
use std::time::Instant;

use rappel_capture::databases::Watch;
use rappel_capture::files::{self, Cache, Identity, Progress, Request, Scanned};
use rappel_capture::restore::IntentId;
use rappel_store::index::CheckpointRow;
use rappel_store::record::Kind;
use rappel_store::sink::Sink;
use rappel_store::threads;
use rappel_store::tree;
use rappel_types::manifest::FilesPart;
use rappel_types::{CheckpointId, Entry, Facet, ObjectId, RelPath, WorkspaceId};

use super::SaveOptions;
use crate::databases::{CapturedDatabases, Holdings, Reading};
use crate::error::Result;
use crate::git::{CapturedGit, Known};
use crate::rappel::Rappel;

/// How often a save looks again because a restore began or ended while it looked.
const LOOKS: usize = 2;

/// What a look at files leaves out because of what it is.
#[derive(Clone, Copy, Default)]
pub(crate) struct Leave<'a> {
    pub excluded: &'a [Identity],
    pub paths: &'a [RelPath],
    /// Databases of SQLite.
    pub databases: &'a [RelPath],
}

/// What a save looks at, and what it may know beforehand.
pub(super) struct Look<'a> {
    /// Paths of databases that a restore holds.
    pub held: &'a [RelPath],
    pub id: WorkspaceId,
    pub options: &'a SaveOptions,
    pub newest: Option<&'a CheckpointRow>,
    pub progress: Option<&'a Progress>,
    pub distrust: bool,
}

/// What a look at the files gave.
pub(crate) struct CapturedFiles {
    pub tree: ObjectId,
    /// The tree that the changes are relative to.
    pub base: Option<ObjectId>,
    pub base_checkpoint: Option<CheckpointId>,
    pub scanned: Scanned,
}

impl CapturedFiles {
    /// As a manifest has it.
    pub fn part(&self) -> FilesPart {
        let scanned = &self.scanned;
        FilesPart {
            tree: self.tree,
            count: scanned.count,
            bytes: scanned.bytes,
            added: scanned.added,
            modified: scanned.modified,
            deleted: scanned.deleted,
            skipped: scanned.skipped.clone(),
            rules: scanned.rules.clone(),
        }
    }
}

/// What differs once a restore of the workspace began or ended. One that was taken back again in between
/// does not show; it has restored no database.
#[derive(PartialEq)]
struct Restores {
    open: Vec<IntentId>,
    /// When the last one was recorded, which is done before it is closed.
    last: Option<u64>,
}

/// What a look at everything gave.
pub(super) struct Captured {
    pub files: CapturedFiles,
    pub git: Option<CapturedGit>,
    pub databases: Option<CapturedDatabases>,
    /// Whether a restore of the workspace was under way, so that the parts may be of different states.
    pub restored: bool,
}

impl Rappel {
    /// Looks at everything until no restore began or ended meanwhile: the parts of a checkpoint are of
    /// one state.
    pub(super) fn capture_all(
        &self,
        look: &Look<'_>,
        sink: &dyn Sink,
        holdings: &mut Holdings,
    ) -> Result<Captured> {
        let mut looks = 0;
        loop {
            looks += 1;
            let before = self.restores_so_far(look.id)?;
            let captured = self.capture_once(look, sink, holdings)?;
            let after = self.restores_so_far(look.id)?;
            if after == before || looks > LOOKS {
                let restored = after != before || !after.open.is_empty();
                return Ok(Captured { restored, ..captured });
            }
            tracing::debug!("a restore went by; looking at everything anew");
        }
    }

    fn restores_so_far(&self, id: WorkspaceId) -> Result<Restores> {
        // In this order: one that ends in between is seen either way.
        let open = self.open_intents()?;
        let key = id.to_string();
        let last = self.store.look_up(|index| index.newest_document(Kind::Undo, &key))?;
        Ok(Restores {
            open: open.into_iter().map(|intent| intent.header.id).collect(),
            last: last.map(|row| row.birth),
        })
    }

    /// Looks at everything once; at the databases that are known beforehand beside the files. What a restore
    /// may change is held and read last, so that others wait for nothing else.
    fn capture_once(
        &self,
        look: &Look<'_>,
        sink: &dyn Sink,
        holdings: &mut Holdings,
    ) -> Result<Captured> {
        if !look.options.wants(Facet::Databases) {
            let (files, git) = self.capture_files_and_git(look, sink)?;
            return Ok(Captured { files, git, databases: None, restored: false });
        }
        let reading = Reading {
            id: look.id,
            trigger: look.options.trigger(),
            read: look.options.read_databases,
            distrust: look.distrust,
            watch: Watch {
                cancel: &self.options.cancel,
                bytes: match look.progress {
                    Some(progress) => &progress.database_bytes,
                    None => &self.options.progress.database_bytes,
                },
            },
        };
        holdings.let_go();
        let held: Vec<String> = holdings.all.iter().map(|one| one.named.name.clone()).collect();
        let any = !self.config.databases.is_empty() || !self.config.commands.is_empty();
        let (found, configured) = std::thread::scope(|scope| {
            let beside = any.then(|| {
                threads::beside(scope, || {
                    self.capture_databases(self.configured_databases(), sink, &reading, &held)
                })
            });
            let found = self.capture_files_and_git(look, sink);
            let configured = beside.map_or(Ok(CapturedDatabases::default()), |beside| {
                beside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            });
            (found, configured)
        });
        let (files, git) = found?;
        let noticed = files.scanned.databases.iter().map(|path| self.noticed_database(path));
        let noticed = self.capture_databases(noticed, sink, &reading, &held)?;
        let holding = self.capture_held(holdings, sink, &reading)?;
        let mut databases = configured?.and(noticed).and(holding);
        let lost = self.no_databases_any_more(&databases, &reading, &held)?;
        databases.notes.extend(lost);
        Ok(Captured { files, git, databases: Some(databases), restored: false })
    }

    /// Looks at files and git until neither moved while the other was looked at.
    fn capture_files_and_git(
        &self,
        look: &Look<'_>,
        sink: &dyn Sink,
    ) -> Result<(CapturedFiles, Option<CapturedGit>)> {
        let Look { held, id, options, newest, progress, distrust } = *look;
        let knowledge: &[RelPath] = match options.wants(Facet::Knowledge) {
            true => &[],
            false => &self.config.knowledge.paths,
        };
        let leave = Leave { paths: knowledge, databases: held, ..Leave::default() };
        let mut looks = 0;
        let mut early = None;
        let is_first = newest.is_none() && !distrust && options.wants(Facet::Git);
        loop {
            looks += 1;
            let mut before = self.git_before(id, distrust)?;
            before.wanted.clone_from(&options.also_git);
            before.also_worktrees.clone_from(&options.also_worktrees);
            let mark = self.intents().mark();
            let cache = if distrust { None } else { self.load_cache(id)? };
            let files = std::thread::scope(|scope| {
                let beside = is_first && looks == 1;
                let taking =
                    beside.then(|| threads::beside(scope, || self.early_objects(id, sink)));
                let files = self.scan_beside(sink, cache, &options.also, progress, leave);
                early = taking.map_or_else(|| early.take(), |taking| taking.join().ok().flatten());
                files
            })?;
            before.early.clone_from(&early);
            // A restore that began or ended meanwhile: its staged files are not the user's.
            let restored = self.intents().mark() != mark && looks <= LOOKS;
            if restored {
                continue;
            }
            if !options.wants(Facet::Git) {
                return Ok((files, None));
            }
            let known = if distrust { Known::Nothing } else { Known::Home { newest } };
            let mut git = self.capture_git(id, before, &files, known, sink, true)?;
            if git.captured.moved && looks <= LOOKS {
                continue;
            }
            git.say_if_moved();
            return Ok((files, Some(git)));
        }
    }

    /// Stores a cache. One that cannot be written makes the next save slower, not wrong.
    pub(crate) fn save_cache(&self, mut cache: Cache, id: WorkspaceId) {
        let disk = self.store.disk();
        if rappel_store::disk::create_dir(&**disk, &self.store.home().cache()).is_ok()
            && cache.save(disk, &self.cache_path(id)).is_ok()
        {
            self.keep_cache(cache);
        }
    }

    /// Keeps a cache in memory that is the one on disk, for the next to need it.
    pub(crate) fn keep_cache(&self, cache: Cache) {
        *self.cache.lock().unwrap_or_else(PoisonError::into_inner) = Some(cache);
    }

    /// The cache of a workspace, if its base is still there.
    pub(crate) fn load_cache(&self, id: WorkspaceId) -> Result<Option<Cache>> {
        rappel_store::threads::ready()?;
        let kept = self.cache.lock().unwrap_or_else(PoisonError::into_inner).take();
        let path = self.cache_path(id);
        let kept = kept.filter(|kept| kept.is_at(&path));
        let Some(cache) = kept.or_else(|| Cache::load(&path)) else { return Ok(None) };
        let Some(base) = cache.checkpoint() else { return Ok(None) };
        Ok(self.store.checkpoint(base)?.map(|_| cache))
    }

    /// Looks at the workspace and makes the tree of what is there now.
    pub(crate) fn scan(
        &self,
        sink: &dyn Sink,
        cache: Option<Cache>,
        also: &[RelPath],
        progress: Option<&Progress>,
    ) -> Result<CapturedFiles> {
        self.scan_beside(sink, cache, also, progress, Leave::default())
    }

    /// The same, leaving out more: databases that a restore holds are not even opened.
    fn scan_beside(
        &self,
        sink: &dyn Sink,
        cache: Option<Cache>,
        also: &[RelPath],
        progress: Option<&Progress>,
        more: Leave<'_>,
    ) -> Result<CapturedFiles> {
        self.require_folder()?;
        let mut databases = self.configured_sqlite();
        databases.extend_from_slice(more.databases);
        databases.sort();
        databases.dedup();
        // One that is asked for as a file is taken as a file.
        databases.retain(|path| !also.contains(path));
        let leave = Leave {
            excluded: &self.excluded(),
            paths: &[&self.staging_paths()?, more.paths].concat(),
            databases: &databases,
        };
        Ok(self.scan_at(&self.root, sink, cache, leave, also, progress)?)
    }

    /// Looks at a folder and makes the tree of what is there now.
    pub(crate) fn scan_at(
        &self,
        root: &Path,
        sink: &dyn Sink,
        cache: Option<Cache>,
        leave: Leave<'_>,
        also: &[RelPath],
        progress: Option<&Progress>,
    ) -> rappel_capture::Result<CapturedFiles> {
        let base = cache.as_ref().map(|cache| *cache.base());
        let base_checkpoint = cache.as_ref().and_then(|cache| cache.checkpoint().cloned());
        let start = Instant::now();
        let remembered = cache.is_some();
        let scanned = files::scan(
            Request {
                root,
                config: &self.config.files,
                environment: &self.options.environment,
                excluded: leave.excluded,
                excluded_paths: leave.paths,
                databases: leave.databases,
                cache,
                also,
                maybe_changed: None,
                cancel: &self.options.cancel,
                progress,
            },
            sink,
        )?;
        tracing::debug!(
            remembered,
            files = scanned.count,
            changes = scanned.changes.len(),
            skipped = scanned.skipped.len(),
            partial = scanned.partial.len(),
            took = ?start.elapsed(),
            "looked at the workspace"
        );
        let tree = match base {
            Some(base) => tree::update(sink, &base, &scanned.changes)?,
            None => {
                let entries: Vec<Entry> = scanned
                    .changes
                    .iter()
                    .filter_map(|(path, node)| {
                        Some(Entry { path: path.clone(), node: node.clone()? })
                    })
                    .collect();
                tree::write(sink, &entries)?
            }
        };
        Ok(CapturedFiles { tree, base, base_checkpoint, scanned })
    }

    fn staging_paths(&self) -> Result<Vec<RelPath>> {
        let open = self.open_intents()?;
        Ok(open.iter().flat_map(|intent| intent.staging_paths(&self.root)).collect())
    }
}
