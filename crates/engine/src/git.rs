//! Git as part of a checkpoint.

mod busy;
mod damaged;
mod describe;
mod merged;
mod plan;
mod summary;
mod take_back;
mod unread;
mod worktrees;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rappel_capture::files::{Cache, CacheDraft};
use rappel_capture::git::{self, Before, Captured, Memo, State, WorktreeFiles};
use rappel_store::content;
use rappel_store::held;
use rappel_store::index::{CheckpointRow, Meant};
use rappel_store::sink::{Role, Sink, Source};
use rappel_types::git::GitPart;
use rappel_types::manifest::{Facet, FacetState, PartialReason};
use rappel_types::{CheckpointId, Manifest, ObjectId, RelPath, WorkspaceId};

use crate::error::Result;
use crate::rappel::Rappel;
use crate::save::{Ask, CapturedFiles, Leave};
use crate::workspace;

pub(crate) use damaged::gone;
pub(crate) use merged::Merge;
pub(crate) use plan::{GitPlanned, GitPresent, GitWish};
pub(crate) use take_back::{going, touched};

/// How many other workspaces are asked whether they hold the objects of a new repository.
const OTHERS: usize = 32;

/// What the home may be believed to hold.
#[derive(Clone, Copy)]
pub(crate) enum Known<'a> {
    /// What its checkpoints say; the newest one of the workspace is named.
    Home { newest: Option<&'a CheckpointRow> },
    /// Nothing: it was found to be damaged.
    Nothing,
}

/// Paths of other work trees to take although the rules would not, by the work tree's folder.
pub(crate) type AlsoWorktrees = BTreeMap<PathBuf, Vec<RelPath>>;

/// What is known of git before a look at the files.
pub(crate) struct GitBefore {
    /// See [`git::Request::wanted`].
    pub wanted: Option<GitPart>,
    /// Paths of work trees to take although the rules would not.
    pub also_worktrees: AlsoWorktrees,
    /// What was taken beside the files.
    pub early: Option<State>,
    memo: Option<Memo>,
    before: Before,
}

/// What a look at the repositories gave, and what to remember of it once it is committed.
pub(crate) struct CapturedGit {
    pub captured: Captured,
    /// The checkpoint on which all depends that was taken over without a look.
    pub base_checkpoint: Option<CheckpointId>,
    /// The checkpoint that holds the repository at the root, which is gone.
    pub gone: Option<CheckpointId>,
    /// What the checkpoint before holds of git's folders.
    before: Option<ObjectId>,
    worktrees: Vec<WorktreeCache>,
}

impl CapturedGit {
    /// Everything that a manifest with this refers to.
    pub fn trees(&self) -> impl Iterator<Item = ObjectId> {
        let worktrees = self.worktrees.iter().map(|worktree| worktree.tree);
        self.captured.part.iter().filter_map(|part| part.tree).chain(worktrees)
    }

    /// A repository that never held still may not fit the files.
    pub fn say_if_moved(&mut self) {
        if self.captured.moved {
            let reason = "it kept changing while it was being captured";
            let reason = PartialReason::new(Facet::Git, None, reason);
            self.captured.partial.push(reason);
        }
    }
}

/// A sink that keeps all it is given, even where it is one that keeps structure alone.
struct Kept<'a>(&'a dyn Sink);

impl Source for Kept<'_> {
    fn get(&self, id: &ObjectId) -> rappel_store::Result<Arc<[u8]>> {
        self.0.get(id)
    }
}

impl Sink for Kept<'_> {
    fn put(
        &self,
        _: Role,
        bytes: &[u8],
        base: Option<&ObjectId>,
    ) -> rappel_store::Result<ObjectId> {
        self.0.put(Role::Structure, bytes, base)
    }
}

struct WorktreeCache {
    path: PathBuf,
    draft: CacheDraft,
    tree: ObjectId,
}

/// The repositories that a checkpoint holds. Of one that came from elsewhere, nothing that git could
/// run: a restore writes neither configuration nor hooks of others.
pub(crate) fn states_in(source: &dyn Source, manifest: &Manifest) -> Result<Vec<State>> {
    let Some(part) = &manifest.git else { return Ok(Vec::new()) };
    let states = State::load(source, part)?.into_iter();
    Ok(match manifest.is_foreign() {
        true => states.map(|state| state.harmless(|_| true)).collect(),
        false => states.collect(),
    })
}

impl Rappel {
    fn memo_path(&self, id: WorkspaceId) -> PathBuf {
        self.cache_path(id).with_extension("git")
    }

    /// Looks at the repositories before the files are read.
    pub(crate) fn git_before(&self, id: WorkspaceId, distrust: bool) -> Result<GitBefore> {
        let memo = if distrust { None } else { self.load_memo(id)? };
        let before = Before::look(&self.root, memo.as_ref(), &self.options.environment);
        Ok(GitBefore {
            wanted: None,
            also_worktrees: AlsoWorktrees::new(),
            early: None,
            memo,
            before,
        })
    }

    /// The memo, if the checkpoint that holds what it names is still there.
    pub(super) fn load_memo(&self, id: WorkspaceId) -> Result<Option<Memo>> {
        let Some(memo) = Memo::load(&self.memo_path(id)) else { return Ok(None) };
        let Some(checkpoint) = &memo.checkpoint else { return Ok(None) };
        Ok(self.store.checkpoint(checkpoint)?.map(|_| memo))
    }

    /// The repositories as the newest checkpoint that looked at them holds them, as far as that is remembered.
    pub(crate) fn remembered_git(&self, id: WorkspaceId) -> Result<Option<GitPart>> {
        Ok(self.load_memo(id)?.map(|memo| memo.part))
    }

    /// The objects of a repository that no checkpoint knows, taken while the files are read.
    pub(crate) fn early_objects(&self, id: WorkspaceId, sink: &dyn Sink) -> Option<State> {
        let (environment, cancel) = (&self.options.environment, self.cancel());
        git::early::objects(&self.root, environment, &|| self.others(id), cancel, sink)
    }

    /// Takes the state of the repositories. `objects` is false where nothing will be committed.
    pub(crate) fn capture_git(
        &self,
        id: WorkspaceId,
        before: GitBefore,
        files: &CapturedFiles,
        known: Known<'_>,
        sink: &dyn Sink,
        objects: bool,
    ) -> Result<CapturedGit> {
        let prior = match (&before.memo, known) {
            // Where there is no repository, there is nothing to compare.
            (None, Known::Home { newest: Some(newest) })
                if !files.scanned.repositories.is_empty() =>
            {
                self.prior_git(id, newest)?
            }
            _ => None,
        };
        let caches = RefCell::new(Vec::new());
        let also_worktrees = before.also_worktrees.clone();
        let worktree = |folder: &Path| {
            let distrust = matches!(known, Known::Nothing);
            let also = also_worktrees.get(folder).map_or(&[][..], Vec::as_slice);
            let Some((files, cache)) = self.worktree_files(id, folder, distrust, also, sink)?
            else {
                return Ok(None);
            };
            caches.borrow_mut().push(cache);
            Ok(Some(files))
        };
        let others = || match known {
            Known::Home { .. } => self.others(id),
            Known::Nothing => Vec::new(),
        };
        let scanned = &files.scanned;
        let databases = self.configured_sqlite().into_iter().chain(scanned.databases.clone());
        let captured = git::capture(
            &git::Request {
                root: &self.root,
                environment: &self.options.environment,
                repositories: &scanned.repositories,
                wanted: before.wanted.as_ref(),
                early: before.early.as_ref(),
                before: &before.before,
                memo: before.memo.as_ref(),
                prior: prior.as_ref(),
                others: &others,
                base: files.base,
                changes: &scanned.changes,
                extra: &git::Extra::look(&self.root, &scanned.rules, databases)?,
                objects,
                worktree: &worktree,
                cancel: self.cancel(),
            },
            sink,
        )?;
        let at_root = |part: &GitPart| part.repository(None).is_some();
        let was_there = before.memo.as_ref().is_some_and(|memo| at_root(&memo.part));
        let is_there = captured.part.as_ref().is_some_and(at_root);
        let is_gone = was_there && !is_there && captured.state != FacetState::Failed;
        let held = before.memo.as_ref().map(|memo| &memo.part).or(prior.as_ref());
        let held = held.and_then(|part| part.tree);
        let base_checkpoint = before.memo.and_then(|memo| memo.checkpoint);
        let gone = base_checkpoint.clone().filter(|_| is_gone);
        Ok(CapturedGit {
            captured,
            base_checkpoint,
            gone,
            before: held,
            worktrees: caches.into_inner(),
        })
    }

    /// What the newest checkpoint with git says of it.
    fn prior_git(&self, id: WorkspaceId, newest: &CheckpointRow) -> Result<Option<GitPart>> {
        if let Some(part) = self.store.manifest(newest)?.git {
            return Ok(Some(part));
        }
        // The newest one may have been made without git.
        let mut before = newest.sequence;
        for _ in 1..OTHERS {
            let meant = Meant { before: Some(before), ..Meant::ALL };
            let Some(row) = self.store.look_up(|index| index.newest_of(id, meant))? else { break };
            if let Some(part) = self.store.manifest(&row).ok().and_then(|manifest| manifest.git) {
                return Ok(Some(part));
            }
            before = row.sequence;
        }
        Ok(None)
    }

    /// What the newest checkpoints of other workspaces say of git.
    fn others(&self, own: WorkspaceId) -> Vec<GitPart> {
        let Ok(workspaces) = workspace::all(&self.store) else { return Vec::new() };
        let others = workspaces.iter().rev().filter(|other| other.id != own).take(OTHERS);
        others
            .filter_map(|other| {
                let row = self.store.look_up(|index| index.newest(other.id)).ok()??;
                self.store.manifest(&row).ok()?.git
            })
            .collect()
    }

    /// The files of a linked work tree, and what the next look at them may know.
    fn worktree_files(
        &self,
        id: WorkspaceId,
        folder: &Path,
        distrust: bool,
        also: &[RelPath],
        sink: &dyn Sink,
    ) -> rappel_capture::Result<Option<(WorktreeFiles, WorktreeCache)>> {
        if rappel_capture::files::check_root(folder, self.options.environment.home.as_deref())
            .is_err()
        {
            return Ok(None);
        }
        let name = blake3::hash(folder.as_os_str().as_bytes()).to_hex();
        let path = self.cache_path(id).with_extension(format!("{}.files", &name[..16]));
        let cache = Cache::load(&path).filter(|_| !distrust).filter(|cache| {
            let base = cache.checkpoint().and_then(|base| self.store.checkpoint(base).ok());
            base.flatten().is_some()
        });
        let looked = self.scan_at(
            folder,
            sink,
            cache,
            Leave { excluded: &self.excluded(), ..Leave::default() },
            Ask { also, ..Ask::default() },
        )?;
        let part = looked.part();
        let scanned = looked.scanned;
        let files = WorktreeFiles { part, partial: scanned.partial };
        Ok(Some((files, WorktreeCache { path, draft: scanned.next, tree: looked.tree })))
    }

    /// The repositories that a checkpoint holds.
    pub(crate) fn states_of(&self, checkpoint: &CheckpointId) -> Result<Vec<State>> {
        let Some(row) = self.store.checkpoint(checkpoint)? else { return Ok(Vec::new()) };
        states_in(self.source(), &self.store.manifest(&row)?)
    }

    /// The repositories as they are now, in memory only.
    pub(crate) fn look_at_git(
        &self,
        files: &CapturedFiles,
        wanted: Option<&GitPart>,
        also_worktrees: &AlsoWorktrees,
        sink: &dyn Sink,
    ) -> Result<GitPresent> {
        let id = self.require_known()?;
        let mut before = self.git_before(id, false)?;
        before.wanted = wanted.cloned();
        before.also_worktrees.clone_from(also_worktrees);
        let newest = self.store.look_up(|index| index.newest(id))?;
        let before_part = before.memo.as_ref().map(|memo| memo.part.clone());
        let known = Known::Home { newest: newest.as_ref() };
        let found = self.capture_git(id, before, files, known, sink, false)?.captured;
        let mut states = found.fresh;
        let old = match &before_part {
            Some(part) => State::load(self.source(), part)?,
            None => Vec::new(),
        };
        for (path, _) in found.part.iter().flat_map(GitPart::repositories) {
            if states.iter().all(|state| state.path.as_ref() != path) {
                states.extend(old.iter().find(|state| state.path.as_ref() == path).cloned());
            }
        }
        self.keep_indexes(&states, sink)?;
        // What is not fresh may have other lists than when it was.
        for state in &mut states {
            let part = found.part.as_ref().and_then(|part| part.repository(state.path.as_ref()));
            state.part = part.cloned().unwrap_or_default();
        }
        Ok(GitPresent { state: found.state, states, partial: found.partial, stored: false })
    }

    /// A dry run keeps no contents, but what is staged has to be compared.
    fn keep_indexes(&self, states: &[State], sink: &dyn Sink) -> Result<()> {
        for state in states {
            let folder = git::folder_of(&self.root, state.path.as_ref());
            let environment = &self.options.environment;
            let Some(place) = git::Place::find(&folder, environment) else { continue };
            for path in state.files.keys().filter(|path| path.name() == b"index") {
                let full = place.common_dir.join(std::ffi::OsStr::from_bytes(path.as_bytes()));
                if let Ok(bytes) = held::read(full) {
                    content::store(&Kept(sink), &mut &*bytes, bytes.len() as u64, None)?;
                }
            }
        }
        Ok(())
    }

    /// Remembers what was captured, now that a checkpoint holds it.
    pub(crate) fn remember_git(
        &self,
        id: WorkspaceId,
        git: CapturedGit,
        files: Option<ObjectId>,
        made: &CheckpointId,
    ) {
        let disk = self.store.disk();
        for WorktreeCache { path, draft, tree } in git.worktrees {
            let _ = draft.finish(tree, Some(made.clone())).save(disk, &path);
        }
        if git.captured.state == FacetState::Absent && git.base_checkpoint.is_some() {
            let _ = std::fs::remove_file(self.memo_path(id));
        }
        if let Some(mut memo) = git.captured.memo {
            memo.checkpoint = Some(made.clone());
            memo.files = files;
            memo.save(disk, &self.memo_path(id));
        }
    }
}
