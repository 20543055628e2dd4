//! Looking at the workspace's files: by what the last save remembers, into a tree.

use std::path::Path;
use std::sync::PoisonError;
use std::time::Instant;

use rappel_capture::files::{self, Cache, First, Identity, Request, Scanned};
use rappel_store::operation::Progress;
use rappel_store::sink::Sink;
use rappel_store::tree;
use rappel_types::manifest::FilesPart;
use rappel_types::{CheckpointId, Entry, ObjectId, RelPath, WorkspaceId};

use crate::error::Result;
use crate::rappel::Rappel;

/// What a look at files leaves out because of what it is.
#[derive(Clone, Copy, Default)]
pub(crate) struct Leave<'a> {
    pub excluded: &'a [Identity],
    pub paths: &'a [RelPath],
    /// Databases of SQLite.
    pub databases: &'a [RelPath],
}

/// What a look at files is asked for besides.
#[derive(Clone, Copy, Default)]
pub(crate) struct Ask<'a> {
    /// Paths to take although the rules would not.
    pub also: &'a [RelPath],
    /// What was read before anything else.
    pub first: Option<&'a First>,
    pub progress: Option<&'a Progress>,
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

impl Rappel {
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
    ) -> Result<CapturedFiles> {
        self.scan_beside(sink, cache, Ask { also, ..Ask::default() }, Leave::default())
    }

    /// The same, leaving out more: databases that a restore holds are not even opened.
    pub(super) fn scan_beside(
        &self,
        sink: &dyn Sink,
        cache: Option<Cache>,
        ask: Ask<'_>,
        more: Leave<'_>,
    ) -> Result<CapturedFiles> {
        self.require_folder()?;
        let mut databases = self.configured_sqlite();
        databases.extend_from_slice(more.databases);
        databases.sort();
        databases.dedup();
        // One that is asked for as a file is taken as a file.
        databases.retain(|path| !ask.also.contains(path));
        let leave = Leave {
            excluded: &self.excluded(),
            paths: &[&self.staging_paths()?, &self.written_files(), more.paths].concat(),
            databases: &databases,
        };
        Ok(self.scan_at(&self.root, sink, cache, leave, ask)?)
    }

    /// Looks at a folder and makes the tree of what is there now.
    pub(crate) fn scan_at(
        &self,
        root: &Path,
        sink: &dyn Sink,
        cache: Option<Cache>,
        leave: Leave<'_>,
        ask: Ask<'_>,
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
                also: ask.also,
                first: ask.first,
                maybe_changed: None,
                cancel: self.cancel(),
                progress: ask.progress,
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
        let tree = tree_of(sink, base.as_ref(), &scanned)?;
        Ok(CapturedFiles { tree, base, base_checkpoint, scanned })
    }

    fn staging_paths(&self) -> Result<Vec<RelPath>> {
        let open = self.open_intents()?;
        Ok(open.iter().flat_map(|intent| intent.staging_paths(&self.root)).collect())
    }
}

/// The tree of what was found: out of the one before, where there is one.
fn tree_of(
    sink: &dyn Sink,
    base: Option<&ObjectId>,
    scanned: &Scanned,
) -> rappel_capture::Result<ObjectId> {
    if let Some(base) = base {
        return Ok(tree::update(sink, base, &scanned.changes)?);
    }
    let found = scanned.changes.iter();
    let entries: Vec<Entry> = found
        .filter_map(|(path, node)| Some(Entry { path: path.clone(), node: node.clone()? }))
        .collect();
    Ok(tree::write(sink, &entries)?)
}
