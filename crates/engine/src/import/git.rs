//! Git's state out of a foreign checkpoint: its bundle becomes a repository in a scratch folder, and that is
//! captured like any other. Nothing of it runs: no hook, no setting, no protocol.

use std::collections::{BTreeMap, BTreeSet, HashMap, hash_map};
use std::ffi::OsString;
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rappel_capture::git::transfer::{self, Held, Limits, Stand};
use rappel_capture::git::{self as capture, status};
use rappel_formats::portable::{Content, File, Files, Git};
use rappel_formats::spool::Spool;
use rappel_store::Writer;
use rappel_store::content;
use rappel_store::sink::Sink;
use rappel_store::tree;
use rappel_types::git::{GitPart, RepositoryPart};
use rappel_types::git_name::is_git;
use rappel_types::manifest::{FilesPart, PartialReason, SelectionRules};
use rappel_types::path::unescape;
use rappel_types::{Entry, Facet, FacetState, Node, RelPath};
use tempfile::TempDir;

use crate::error::{Error, Result};
use crate::rappel::Rappel;

/// How long git may work on one bundle.
const TIME: Duration = Duration::from_secs(600);
/// A bundle is no longer.
const BUNDLE_MAX: u64 = 64 << 30;

/// A repository made of a foreign bundle. It goes when this is dropped.
struct Unbundled {
    folder: TempDir,
    commit: Option<String>,
    troubles: Vec<String>,
}

impl Unbundled {
    fn git_dir(&self) -> PathBuf {
        self.folder.path().join("work/.git")
    }
}

/// What bundles were found to hold. Checkpoints of one history mostly bring the same one along, and git
/// takes longer to read it than everything else together.
#[derive(Default)]
pub(crate) struct Bundles {
    parts: HashMap<Key, (Option<GitPart>, Vec<PartialReason>)>,
    files: HashMap<Key, Option<Files>>,
    /// What was captured last: what its bundles hold is not stored again.
    prior: Option<GitPart>,
}

#[cfg(test)]
impl Bundles {
    /// What was captured before.
    pub fn after(prior: &GitPart) -> Self {
        Self { prior: Some(prior.clone()), ..Self::default() }
    }
}

/// A bundle's bytes, and what is made of them.
type Key = [u8; 32];

fn key_of(git: &Git) -> io::Result<Option<Key>> {
    let Some(bundle) = &git.bundle else { return Ok(None) };
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(bundle.open()?.take(BUNDLE_MAX))?;
    let trees: Vec<_> =
        git.worktrees.iter().map(|one| (&one.name, &one.path, &one.branch, &one.commit)).collect();
    hasher.update(format!("{:?}", (&git.branch, &git.commit, trees)).as_bytes());
    Ok(Some(hasher.finalize().into()))
}

impl Rappel {
    /// The git facet of a foreign checkpoint. Without a bundle there is none. What differs from the commit is told by the lists, not found out from the
    /// workspace's own files.
    pub(crate) fn take_git(
        &self,
        writer: &Writer<'_>,
        git: &Git,
        scratch: &Path,
        bundles: &mut Bundles,
    ) -> Result<(Option<GitPart>, Vec<PartialReason>)> {
        let key = match key_of(git) {
            Ok(Some(key)) => key,
            Ok(None) => return Ok((None, Vec::new())),
            Err(error) => {
                let reason = because(format!("its bundle cannot be read: {error}"));
                return Ok((None, vec![reason]));
            }
        };
        if !bundles.parts.contains_key(&key) {
            let found = self.capture_bundle(writer, git, scratch, bundles.prior.as_ref())?;
            if found.0.is_some() {
                bundles.prior.clone_from(&found.0);
            }
            bundles.parts.insert(key, found);
        }
        let (part, mut reasons) = bundles.parts.get(&key).cloned().unwrap_or_default();
        let Some(mut part) = part else { return Ok((None, reasons)) };
        // There are no files in the scratch folder to compare with.
        fill_lists(&mut part.root, git);
        for worktree in &mut part.root.worktrees {
            let Some(given) = git.worktrees.iter().find(|one| one.name == worktree.name) else {
                continue;
            };
            worktree.path.clone_from(&given.path);
            if let Some(files) = &given.files {
                if !files.whole {
                    let reason = format!("work tree {}: some of its files", worktree.name);
                    reasons.push(because(reason));
                }
                worktree.files = Some(store_files(writer, files)?);
            }
        }
        Ok((Some(part), reasons))
    }

    /// What a bundle holds, captured like any repository; nothing where it is refused, with the reason.
    fn capture_bundle(
        &self,
        writer: &Writer<'_>,
        git: &Git,
        scratch: &Path,
        prior: Option<&GitPart>,
    ) -> Result<(Option<GitPart>, Vec<PartialReason>)> {
        let unbundled = match self.unbundle(git, scratch) {
            Ok(unbundled) => unbundled,
            Err(reason) => {
                return Ok((None, vec![because(format!("its bundle is refused: {reason}"))]));
            }
        };
        let mut reasons: Vec<PartialReason> =
            unbundled.troubles.iter().cloned().map(because).collect();
        let root = unbundled.folder.path().join("work");
        let root = root.canonicalize().map_err(Error::io("open", &root))?;
        let rules = SelectionRules::default();
        let captured = capture::capture(
            &capture::Request {
                root: &root,
                environment: &self.options.environment,
                repositories: &[None],
                wanted: None,
                early: None,
                before: &capture::Before::default(),
                memo: None,
                prior,
                others: &Vec::new,
                base: None,
                changes: &[],
                extra: &capture::Extra::look(&root, &rules, [])?,
                objects: true,
                worktree: &|_| Ok(None),
                cancel: self.cancel(),
            },
            writer,
        )?;
        reasons.extend(captured.partial);
        Ok((captured.part.filter(|_| captured.state == FacetState::Captured), reasons))
    }

    /// The files of the commit that a foreign checkpoint stands at, for one that holds none itself.
    pub(super) fn files_of_commit(
        &self,
        git: &Git,
        scratch: &Path,
        bundles: &mut Bundles,
    ) -> Result<Option<Files>> {
        let Ok(Some(key)) = key_of(git) else { return Ok(None) };
        Ok(match bundles.files.entry(key) {
            hash_map::Entry::Occupied(entry) => entry.get().clone(),
            hash_map::Entry::Vacant(entry) => {
                entry.insert(self.commit_files(git, scratch)?).clone()
            }
        })
    }

    /// They can be read as long as `scratch` is there.
    pub(crate) fn commit_files(&self, git: &Git, scratch: &Path) -> Result<Option<Files>> {
        let Ok(unbundled) = self.unbundle(git, scratch) else { return Ok(None) };
        let Some(commit) = &unbundled.commit else { return Ok(None) };
        let mut spool = Spool::new(scratch);
        let mut entries = BTreeMap::new();
        let taken =
            transfer::commit_files(&unbundled.git_dir(), commit, &mut |held, size, from| {
                let Held { path, is_link, mode } = held;
                if !path.components().any(is_git) {
                    let content = spool.add(from, size)?;
                    entries.insert(path, File { is_link, mode, modified: None, content });
                }
                Ok(())
            });
        taken.map_err(|trouble| refused("the bundle", trouble.to_string()))?;
        Ok(Some(Files { root: String::new(), whole: false, state_dirs: Vec::new(), entries }))
    }

    /// Makes a repository of a foreign bundle; the error is why it is refused.
    fn unbundle(&self, git: &Git, scratch: &Path) -> Result<Unbundled, String> {
        let said = |error: io::Error| error.to_string();
        let bundle = git.bundle.as_ref().ok_or("there is none")?;
        if bundle.len() > BUNDLE_MAX {
            return Err(format!("it has more than {BUNDLE_MAX} bytes"));
        }
        let folder = tempfile::tempdir_in(scratch).map_err(said)?;
        let file = folder.path().join("bundle");
        self.copy_out(&**bundle, &file)?;
        let worktrees: Vec<(&str, PathBuf, Option<&str>, Option<&str>)> = git
            .worktrees
            .iter()
            .filter(|one| is_plain(&one.name))
            .filter_map(|one| {
                let path = unescape(&one.path).map(OsString::from_vec)?;
                let is_usable = path.as_encoded_bytes().starts_with(b"/")
                    && !path.as_encoded_bytes().iter().any(u8::is_ascii_control);
                let (branch, commit) = (one.branch.as_deref(), one.commit.as_deref());
                is_usable.then(|| (one.name.as_str(), PathBuf::from(path), branch, commit))
            })
            .collect();
        let worktrees = worktrees
            .iter()
            .map(|(name, path, branch, commit)| (*name, path.as_path(), *branch, *commit));
        let stand = Stand {
            branch: git.branch.as_deref(),
            commit: git.commit.as_deref(),
            worktrees: worktrees.collect(),
        };
        let limits = Limits { time: TIME, cancel: self.cancel() };
        let work = folder.path().join("work");
        std::fs::create_dir(&work).map_err(said)?;
        let done = transfer::read_bundle(&file, &work.join(".git"), &stand, limits);
        let transfer::Unbundled { commit, troubles } =
            done.map_err(|trouble| trouble.to_string())?;
        Ok(Unbundled { folder, commit, troubles })
    }

    /// Writes a content to a file that is not there yet; one of another length than it says is refused.
    pub(super) fn copy_out(&self, content: &dyn Content, path: &Path) -> Result<(), String> {
        let copy = || -> Result<u64, Box<dyn std::error::Error>> {
            let file = rappel_store::disk::DiskFile::create_new(self.store.disk(), path)?;
            let mut from = content.open()?.take(content.len().saturating_add(1));
            let mut buffer = vec![0; 256 << 10];
            let mut end = 0;
            loop {
                let read = from.read(&mut buffer)?;
                if read == 0 {
                    return Ok(end);
                }
                file.write_at(&buffer[..read], end)?;
                end += read as u64;
            }
        };
        match copy() {
            Ok(length) if length == content.len() => Ok(()),
            Ok(length) => Err(format!("it has {length} bytes instead of {}", content.len())),
            Err(error) => Err(error.to_string()),
        }
    }
}

fn because(reason: String) -> PartialReason {
    PartialReason::new(Facet::Git, None, reason)
}

/// Stores files of a foreign checkpoint as a tree.
fn store_files(sink: &dyn Sink, files: &Files) -> Result<FilesPart> {
    let mut nodes: BTreeMap<RelPath, Node> = BTreeMap::new();
    let folders: BTreeSet<RelPath> = files.entries.keys().flat_map(RelPath::ancestors).collect();
    nodes.extend(folders.into_iter().map(|path| (path, Node::Directory { mode: 0o755 })));
    let (mut count, mut bytes) = (0, 0);
    for (path, file) in &files.entries {
        let damaged = |reason: String| refused(&path.to_string(), reason);
        let length = file.content.len();
        let mut from =
            file.content.open().map_err(|error| damaged(error.to_string()))?.take(length + 1);
        let node = if file.is_link {
            let mut target = Vec::new();
            from.read_to_end(&mut target).map_err(|error| damaged(error.to_string()))?;
            Node::Symlink { target }
        } else {
            let (content, size) = content::store(sink, &mut from, length, None)?;
            if size != length {
                return Err(damaged(format!("it has {size} bytes instead of {length}")));
            }
            bytes += size;
            Node::File { mode: file.mode & 0o777, size, content }
        };
        count += 1;
        nodes.insert(path.clone(), node);
    }
    let entries: Vec<Entry> = nodes.into_iter().map(|(path, node)| Entry { path, node }).collect();
    let tree = tree::write(sink, &entries)?;
    let rules = SelectionRules { git: true, max_file_size: u64::MAX, ..Default::default() };
    Ok(FilesPart {
        tree,
        count,
        bytes,
        added: count,
        modified: 0,
        deleted: 0,
        skipped: Vec::new(),
        rules,
    })
}

fn refused(what: &str, reason: String) -> Error {
    rappel_formats::Error::Refused { path: what.into(), reason }.into()
}

fn fill_lists(part: &mut RepositoryPart, git: &Git) {
    part.dirty_files.clone_from(&git.dirty_files);
    // The index that is restored is the commit's.
    part.staged.clear();
    part.modified.clone_from(&git.modified);
    part.untracked.clone_from(&git.untracked);
    status::shorten(part);
}

/// Whether a work tree may be called so.
fn is_plain(name: &str) -> bool {
    RelPath::new(name.as_bytes()).is_ok_and(|path| path.components().count() == 1)
        && !name.starts_with('.')
        && !name.bytes().any(|byte| byte.is_ascii_control())
}
