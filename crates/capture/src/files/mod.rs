//! The files of a workspace: which of them belong to a checkpoint, what changed since the last one,
//! and their bytes.
//!
//! The engine calls [`scan`], puts the changes into a tree, commits, and only then stores the
//! [`CacheDraft`] it got back. Nothing here writes to the workspace, reads the environment, or
//! follows a symbolic link; what could not be captured is reported, never passed over.
//!
//! # How a scan goes
//!
//! 1. **Walk**, top-down and in parallel, folder by folder. A folder that the cache knows and whose
//!    stamp has not moved is not listed again, its files are only stat'ed. Any other folder is
//!    listed; names it had before keep their verdict, new names are judged by the rules. A rule
//!    file whose content changed makes the verdicts of its folder and of all below stale.
//! 2. **Read** the files whose stamp is new or cannot be trusted, in parallel, small files first
//!    and few large ones at once, so that memory stays bounded.
//! 3. **Compare** the folders that had any difference with what the cache says of them: those
//!    are the changes. Folders without a difference are never looked at again.
//!
//! # Which paths are taken
//!
//! From strongest to weakest, the first that says something about a path decides:
//!
//! | rule | effect |
//! |---|---|
//! | the name is `.git` in any spelling that some file system takes for it | never taken |
//! | [`Request::also`] | taken, whatever the rules below say |
//! | `exclude`, excluded roots and paths | left out, with everything below |
//! | `include` | taken, with everything below |
//! | `.rappelignore` of the folder, else of the folders above, last match first | either |
//! | in a git work tree: git's index | what is tracked is taken although git's rules ignore it |
//! | in a git work tree: `.gitignore` of the folders up to the repository's root, `info/exclude`, `core.excludesFile` | either, exactly as git has it |
//! | elsewhere: the built-in list of build and dependency folders ([`builtin`]) | left out |
//! | nothing | taken |
//!
//! What lies below a folder that was left out is left out too, unless it is tracked, in `also`, or
//! named by an `include` with a slash in it. A nested repository starts afresh with its own git
//! rules and index. A workspace that lies inside a repository obeys the `.gitignore` files above
//! it, unless that repository ignores the workspace itself; then it has no say.
//!
//! # Databases
//!
//! A file that would be taken and begins as a database of SQLite does is reported as such, and left
//! out with its `-wal`, `-shm` and `-journal`: read as files, they would be torn. The cache remembers
//! it, so nothing is opened for this that is not read anyway. One that [`Request::also`] asks for
//! is taken as a file, unless a program works with it.
//!
//! # When the cache is believed
//!
//! A stamp is (device, inode, size, mtime, ctime). An equal stamp proves an equal content only if
//! both times lie before the start of the scan that recorded it, by more than the granularity of
//! the file system's clock; anything younger is marked and read again next time
//! ([`stamp::Trust`]).
//!
//! Not guaranteed: a program that keeps a file mapped into memory can write to a page twice, with a
//! scan in between, and the file system moves the file's times only for the first write (as long as
//! the page is not written back in between). The second write is not found before another one.

pub mod builtin;
pub mod cache;
pub(crate) mod choose;
mod compare;
mod databases;
mod first;
pub(crate) mod git;
pub(crate) mod globs;
pub(crate) mod handle;
mod patterns;
mod read;
pub mod root;
mod scan;
mod selector;
pub mod stamp;
mod walk;

use std::path::{Path, PathBuf};

use rappel_store::Cancel;
use rappel_store::operation::Progress;
use rappel_types::config::FilesConfig;
use rappel_types::manifest::{PartialReason, SelectionRules, Skipped};
use rappel_types::{Node, ObjectId, RelPath};

pub use cache::{Cache, CacheDraft, Restored};
pub use first::First;
pub use root::{check_outside, check_root};
pub use scan::scan;
pub use selector::{Judged, Selector};
pub use stamp::Identity;

/// What of the process environment decides about files. The library never reads it by itself.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    /// `HOME`.
    pub home: Option<PathBuf>,
    /// `XDG_CONFIG_HOME`.
    pub xdg_config_home: Option<PathBuf>,
    /// `GIT_CONFIG_GLOBAL`.
    pub git_config_global: Option<PathBuf>,
    /// `GIT_CONFIG_SYSTEM`, usually `/etc/gitconfig`; `None` with `GIT_CONFIG_NOSYSTEM`.
    pub git_config_system: Option<PathBuf>,
}

/// What to scan and how.
#[derive(Debug)]
pub struct Request<'a> {
    /// The workspace's root folder, absolute. See [`check_root`].
    pub root: &'a Path,
    /// `[files]` of the configuration.
    pub config: &'a FilesConfig,
    /// What of the environment counts.
    pub environment: &'a Environment,
    /// Folders that are left out because of what they are, wherever they lie: the home of Rappel,
    /// foreign checkpoint stores.
    pub excluded: &'a [Identity],
    /// Paths that are left out by name, with all below: staging names of an open restore.
    pub excluded_paths: &'a [RelPath],
    /// Databases of SQLite that are known to be such. They are left out with what SQLite keeps
    /// beside them, and not even opened.
    pub databases: &'a [RelPath],
    /// What the last scan knew; `None` reads everything.
    pub cache: Option<Cache>,
    /// Paths to take although the rules would not, each by itself, folders without their content.
    /// One that exists and cannot be taken is a partial reason.
    pub also: &'a [RelPath],
    /// What was read before the scan began, and counts instead of what stands there by now.
    pub first: Option<&'a First>,
    /// If given: nothing but these paths, and what lies below them, has changed since the scan
    /// that wrote the cache began. Without a cache it means nothing.
    pub maybe_changed: Option<&'a [RelPath]>,
    /// Set by whoever wants the scan to stop.
    pub cancel: &'a Cancel,
    /// Told how far the scan is.
    pub progress: Option<&'a Progress>,
}

/// What a scan found.
#[derive(Debug)]
pub struct Scanned {
    /// The tree that the changes are relative to: the cache's base; `None` without a cache.
    pub base: Option<ObjectId>,
    /// Every path whose node differs from the base, in order; `None` where it is gone. Without a
    /// base: all entries.
    pub changes: Vec<(RelPath, Option<Node>)>,
    /// Files and links that the checkpoint holds; folders do not count.
    pub count: u64,
    /// Bytes in those files.
    pub bytes: u64,
    /// Files and links that the base tree does not have.
    pub added: u64,
    /// Files and links that differ from the base tree, be it in their mode.
    pub modified: u64,
    /// Files and links that the base tree has and the workspace has not.
    pub deleted: u64,
    /// What a rule left out and the user may not expect: oversize and special files, in order.
    pub skipped: Vec<Skipped>,
    /// What should have been captured and could not be, in order.
    pub partial: Vec<PartialReason>,
    /// The rules that were applied, for the manifest.
    pub rules: SelectionRules,
    /// The folders in which a git repository starts, in order; `None` is the root.
    pub repositories: Vec<Option<RelPath>>,
    /// Databases of SQLite that were found among the files, in order, without those of
    /// [`Request::databases`]. They and what SQLite keeps beside them are no part of the tree.
    pub databases: Vec<RelPath>,
    /// What the next scan may know. Valid only once the tree with these changes is committed.
    pub next: CacheDraft,
}
