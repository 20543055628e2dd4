//! Which paths differ between HEAD, the index and the work tree.
//!
//! Nothing of the user's runs for it: where only a filter could tell whether a file is changed, it
//! counts as modified.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;

use filetime::FileTime;
use gix_index::entry::{Flags, Mode};
use gix_index::hash::{Kind, ObjectId as Oid};
use rappel_store::held;
use rappel_store::sink::Source;
use rappel_types::git::RepositoryPart;
use rappel_types::git_name::is_git;
use rappel_types::{Action, Node, RelPath};
use rayon::prelude::*;
use tempfile::NamedTempFile;

use super::bundles::bytes_of;
use super::place::Place;
use super::program::{Git, Trouble};

/// No list in a manifest is longer.
const LISTED: usize = 1_000;

/// The lists of a repository, whole.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lists {
    /// HEAD and index differ.
    pub staged: BTreeSet<RelPath>,
    /// Index and work tree differ.
    pub modified: BTreeSet<RelPath>,
    /// The index does not have it.
    pub untracked: BTreeSet<RelPath>,
}

impl Lists {
    /// The lists of a part that has them whole.
    pub fn of(part: &RepositoryPart) -> Option<Self> {
        let set = |list: &[RelPath]| list.iter().cloned().collect();
        (part.unlisted == 0).then(|| Self {
            staged: set(&part.staged),
            modified: set(&part.modified),
            untracked: set(&part.untracked),
        })
    }

    /// Puts the lists into a part.
    pub fn fill(self, part: &mut RepositoryPart) {
        let all = [&self.staged, &self.modified, &self.untracked];
        let dirty: BTreeSet<RelPath> = all.into_iter().flatten().cloned().collect();
        part.dirty_files = dirty.into_iter().collect();
        part.staged = self.staged.into_iter().collect();
        part.modified = self.modified.into_iter().collect();
        part.untracked = self.untracked.into_iter().collect();
        part.unlisted = 0;
    }
}

/// Cuts lists that are too long for a manifest, and says by how much the longest was.
pub fn shorten(part: &mut RepositoryPart) {
    part.unlisted = part.dirty_files.len().saturating_sub(LISTED) as u64;
    for list in [&mut part.dirty_files, &mut part.staged, &mut part.modified, &mut part.untracked] {
        list.truncate(LISTED);
    }
}

/// An index, to be asked about paths.
pub struct Index {
    state: Option<gix_index::State>,
}

impl Index {
    /// The index of a work tree; none is an empty one.
    pub fn load(place: &Place) -> Result<Self, String> {
        Self::read(&place.git_dir.join("index"), place.hash)
    }

    /// The index at `path`.
    pub fn read(path: &std::path::Path, hash: Kind) -> Result<Self, String> {
        match path.symlink_metadata() {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Self { state: None });
            }
            Ok(found) if found.is_file() => {}
            _ => return Err("git's index is not a file".into()),
        }
        let read = gix_index::File::at(path, hash, true, gix_index::decode::Options::default());
        let file = read.map_err(|error| format!("git's index cannot be read: {error}"))?;
        Ok(Self { state: Some(file.into_parts().0) })
    }

    /// The index in these bytes; `None` if they are none, or one half of a split one, which says
    /// nothing by itself.
    pub fn decode(bytes: &[u8], hash: Kind) -> Option<Self> {
        Self::decode_half(bytes, hash).filter(|index| index.base().is_none())
    }

    /// The index in these bytes, even if it is one half of a split one.
    pub fn decode_half(bytes: &[u8], hash: Kind) -> Option<Self> {
        let (moment, options) = (FileTime::zero(), gix_index::decode::Options::default());
        let (state, _) = gix_index::State::from_bytes(bytes, moment, hash, options).ok()?;
        Some(Self { state: Some(state) })
    }

    /// The checksum of the shared index that a split one builds on.
    pub fn base(&self) -> Option<Oid> {
        self.state.as_ref()?.link().map(|link| link.shared_index_checksum)
    }

    /// Why no git would have written it: entries out of order, or a path that leads out of the work
    /// tree or into git's own folder.
    pub fn flaw(&self) -> Option<String> {
        let state = self.state.as_ref()?;
        let is_half = state.link().is_some();
        if !is_half && let Err(error) = state.verify_entries() {
            return Some(error.to_string());
        }
        self.entries().find_map(|(path, entry)| {
            let bare = match entry.mode == Mode::DIR {
                true => path.strip_suffix(b"/").unwrap_or(path),
                false => path,
            };
            // In a half, an entry without a name changes one of the other half.
            let is_good = (is_half && bare.is_empty())
                || RelPath::new(bare).is_ok_and(|path| !path.components().any(is_git));
            (!is_good).then(|| format!("it names {}", rappel_types::path::escape(path)))
        })
    }

    /// Every path of which this index and `other` say different things, leaving out what they
    /// remember of the work tree's files.
    pub fn differing(&self, other: &Self) -> BTreeSet<RelPath> {
        let said = |(path, entry): (&[u8], &gix_index::Entry)| {
            (path.to_vec(), entry.stage_raw(), entry.mode, entry.flags & KEPT, entry.id)
        };
        let (mut ours, mut theirs) = (self.entries().map(said), other.entries().map(said));
        let (mut a, mut b) = (ours.next(), theirs.next());
        let mut found = BTreeSet::new();
        loop {
            let order = match (&a, &b) {
                (None, None) => return found,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(a), Some(b)) => (&a.0, a.1).cmp(&(&b.0, b.1)),
            };
            let mut differs = |one: &Option<(Vec<u8>, u32, Mode, Flags, Oid)>| {
                let path = one.as_ref().and_then(|one| RelPath::new(&*one.0).ok());
                found.extend(path);
            };
            match order {
                Ordering::Less => differs(&a),
                Ordering::Greater => differs(&b),
                Ordering::Equal if a != b => differs(&a),
                Ordering::Equal => {}
            }
            if order != Ordering::Greater {
                a = ours.next();
            }
            if order != Ordering::Less {
                b = theirs.next();
            }
        }
    }

    fn entries(&self) -> impl Iterator<Item = (&[u8], &gix_index::Entry)> {
        let file = self.state.as_ref();
        file.into_iter()
            .flat_map(|file| file.entries().iter().map(move |entry| (&**entry.path(file), entry)))
    }

    /// The objects that the index needs; submodules' commits are not ours.
    pub fn objects(&self) -> impl Iterator<Item = Oid> {
        let own = |entry: &gix_index::Entry| {
            entry.mode != Mode::COMMIT && !entry.flags.contains(Flags::INTENT_TO_ADD)
        };
        let entries =
            self.entries().filter(move |(_, entry)| own(entry)).map(|(_, entry)| entry.id);
        entries.chain(self.trees())
    }

    /// The folders that the index remembers: of what was about to be committed, no commit may have
    /// them yet.
    fn trees(&self) -> Vec<Oid> {
        let mut found = Vec::new();
        let mut next: Vec<_> = self.state.iter().filter_map(|state| state.tree()).collect();
        while let Some(tree) = next.pop() {
            found.extend(tree.num_entries.map(|_| tree.id));
            next.extend(&tree.children);
        }
        found
    }

    /// Whether it remembers the sides of conflicts that were solved.
    pub fn has_solved_conflicts(&self) -> bool {
        let solved = self.state.as_ref().and_then(|state| state.resolve_undo());
        solved.is_some_and(|solved| !solved.is_empty())
    }

    /// Whether some entries stand for whole folders, as a sparse index has it.
    pub fn has_folders(&self) -> bool {
        self.entries().any(|(_, entry)| entry.mode == Mode::DIR)
    }

    /// A hash of what is staged, without what the index remembers of the work tree's files.
    pub fn digest(&self) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new();
        let mut batch = Vec::with_capacity(64 << 10);
        for (path, entry) in self.entries() {
            batch.extend_from_slice(path);
            batch.push(0);
            batch.extend_from_slice(&entry.mode.bits().to_le_bytes());
            batch.push(entry.stage_raw() as u8);
            batch.extend_from_slice(&(entry.flags & KEPT).bits().to_le_bytes());
            batch.extend_from_slice(entry.id.as_bytes());
            if batch.len() > 60 << 10 {
                hasher.update(&batch);
                batch.clear();
            }
        }
        *hasher.update(&batch).finalize().as_bytes()
    }

    /// Whether attributes are tracked somewhere.
    pub fn has_attributes(&self) -> bool {
        self.entries().any(|(path, _)| path.ends_with(b".gitattributes"))
    }

    fn find(&self, path: &[u8]) -> Option<&gix_index::Entry> {
        let file = self.state.as_ref()?;
        let entries = file.entries();
        let at = entries.partition_point(|entry| **entry.path(file) < *path);
        entries.get(at).filter(|entry| **entry.path(file) == *path)
    }

    /// Whether a path below `path` is tracked, as a sparse index has it: by its folder.
    fn covers(&self, path: &[u8]) -> bool {
        let sparse = self.state.as_ref().is_some_and(gix_index::State::is_sparse);
        sparse
            && (0..path.len())
                .filter(|&at| path[at] == b'/')
                .any(|at| self.find(&path[..=at]).is_some_and(|entry| entry.mode == Mode::DIR))
    }
}

/// Whether an action only changes what an index remembers of the work tree's files, and nothing
/// that is staged. The newer one is the better one then.
pub fn is_same_index(action: &Action, hash: Kind, source: &dyn Source) -> bool {
    let (Some(old), Some(new)) = (&action.old, &action.new) else { return false };
    action.path.name() == b"index" && stages_the_same(old, new, hash, source)
}

/// Whether two indexes stage the same, whatever they remember of the work tree's files.
pub fn stages_the_same(old: &Node, new: &Node, hash: Kind, source: &dyn Source) -> bool {
    let index = |node: &Node| Index::decode(&bytes_of(source, node)?, hash);
    old == new
        || match (index(old), index(new)) {
            (Some(old), Some(new)) => new.differing(&old).is_empty(),
            _ => false,
        }
}

/// Marks of an entry that the user gave it.
const KEPT: Flags = Flags::ASSUME_VALID.union(Flags::SKIP_WORKTREE).union(Flags::INTENT_TO_ADD);

/// What is staged, as git itself says, renames being one path.
pub fn staged(place: &Place, head: Option<&Oid>) -> Result<BTreeSet<RelPath>, Trouble> {
    let whole = whole_index(place)?;
    let git = place.git();
    let git = Git { index: whole.as_ref().map(NamedTempFile::path).or(git.index), ..git };
    let head = head.map_or_else(
        || gix_index::hash::ObjectId::empty_tree(place.hash).to_string(),
        ToString::to_string,
    );
    // What is only meant to be added is not staged.
    let unborn = "--ita-invisible-in-index";
    let plain = ["diff-index", "--cached", unborn, "-z", "--name-status", "--no-renames", &head];
    let renames = ["diff-index", "--cached", unborn, "-z", "--name-status", "-M", &head];
    // Finding renames reads contents, which a partial clone may not have.
    let answer = match place.partial_clone {
        true => git.ask(&plain, b""),
        false => git.ask(&renames, b"").or_else(|_| git.ask(&plain, b"")),
    }?;
    let mut fields = answer.split(|&b| b == 0);
    let mut staged = BTreeSet::new();
    while let Some(status) = fields.next().filter(|status| !status.is_empty()) {
        let mut path = fields.next();
        if matches!(status.first(), Some(b'R' | b'C')) {
            path = fields.next();
        }
        staged.extend(path.and_then(|path| RelPath::new(path).ok()));
    }
    Ok(staged)
}

/// A split index in one piece, elsewhere: git marks the larger part as used whenever it reads one.
fn whole_index(place: &Place) -> Result<Option<NamedTempFile>, Trouble> {
    let names = std::fs::read_dir(&place.git_dir).into_iter().flatten().flatten();
    let mut names = names.map(|entry| entry.file_name());
    if !names.any(|name| name.as_bytes().starts_with(b"sharedindex.")) {
        return Ok(None);
    }
    let failed = |words: String| Trouble::Failed(words);
    let Some(state) = Index::load(place).map_err(failed)?.state else { return Ok(None) };
    let mut copy = NamedTempFile::new().map_err(|error| failed(error.to_string()))?;
    let file = gix_index::File::from_state(state, copy.path());
    let written = file.write_to(copy.as_file_mut(), gix_index::write::Options::default());
    written.map_err(|error| failed(error.to_string()))?;
    Ok(Some(copy))
}

/// What to find out, and from what.
pub struct Question<'a> {
    /// The repository.
    pub place: &'a Place,
    /// Its index.
    pub index: &'a Index,
    /// Whether some attributes may make git convert files.
    pub attributes: bool,
    /// The commits that nested repositories stand at, by their path in this one.
    pub nested: &'a [(RelPath, Option<Oid>)],
    /// Whether git's rules ignore a file that the checkpoint holds nevertheless.
    pub ignored: &'a (dyn Fn(&RelPath) -> bool + Sync),
}

impl Question<'_> {
    /// Everything that is modified or untracked, given all files that the checkpoint holds of this
    /// repository, folders left out.
    pub fn all(
        &self,
        files: impl Iterator<Item = RelPath>,
    ) -> (BTreeSet<RelPath>, BTreeSet<RelPath>) {
        let entries: Vec<_> = self.index.entries().collect();
        let modified = entries
            .par_iter()
            .filter(|(path, entry)| self.is_modified(path, entry))
            .filter_map(|(path, _)| RelPath::new(*path).ok())
            .collect();
        (modified, files.filter(|path| self.is_untracked(path)).collect())
    }

    /// Brings the lists up to date where files changed, given whether one is there now.
    pub fn update(&self, lists: &mut Lists, changes: BTreeMap<RelPath, bool>) {
        for (path, is_there) in changes {
            lists.modified.remove(&path);
            lists.untracked.remove(&path);
            if let Some(entry) = self.index.find(path.as_bytes()) {
                if self.is_modified(path.as_bytes(), entry) {
                    lists.modified.insert(path);
                }
            } else if is_there && self.is_untracked(&path) {
                lists.untracked.insert(path);
            }
        }
    }

    fn is_untracked(&self, path: &RelPath) -> bool {
        self.index.find(path.as_bytes()).is_none()
            && !self.index.covers(path.as_bytes())
            && !(self.ignored)(path)
    }

    fn is_modified(&self, path: &[u8], entry: &gix_index::Entry) -> bool {
        if entry.flags.intersects(Flags::SKIP_WORKTREE | Flags::ASSUME_VALID) {
            return false;
        }
        if entry.mode == Mode::DIR {
            return false;
        }
        if entry.stage_raw() != 0 || entry.flags.contains(Flags::INTENT_TO_ADD) {
            return true;
        }
        if entry.mode == Mode::COMMIT {
            let nested = self.nested.iter().find(|(at, _)| at.as_bytes() == path);
            return nested.is_some_and(|(_, commit)| *commit != Some(entry.id));
        }
        let full = self.place.work_tree.join(std::ffi::OsStr::from_bytes(path));
        let Ok(meta) = full.symlink_metadata() else { return true };
        if meta.is_symlink() != (entry.mode == Mode::SYMLINK) || meta.is_dir() {
            return true;
        }
        let executable = meta.mode() & 0o100 != 0;
        if self.place.file_mode
            && !meta.is_symlink()
            && executable != (entry.mode == Mode::FILE_EXECUTABLE)
        {
            return true;
        }
        !self.is_unmoved(entry, &meta) && self.differs(&full, &meta, entry)
    }

    /// Whether the index's stamp of a file vouches for its content, as git judges it.
    fn is_unmoved(&self, entry: &gix_index::Entry, meta: &std::fs::Metadata) -> bool {
        let Some(file) = &self.index.state else { return false };
        let stat = &entry.stat;
        let written = file.timestamp();
        let racy = (i64::from(stat.mtime.secs), i64::from(stat.mtime.nsecs))
            >= (written.unix_seconds(), i64::from(written.nanoseconds()));
        !racy
            && i64::from(stat.mtime.secs) == i64::from(meta.mtime() as u32)
            && i64::from(stat.mtime.nsecs) == meta.mtime_nsec()
            && i64::from(stat.ctime.secs) == i64::from(meta.ctime() as u32)
            && stat.ino == meta.ino() as u32
            && stat.size == meta.len() as u32
    }

    /// Whether a file's content is another one than what is staged.
    fn differs(
        &self,
        path: &std::path::Path,
        meta: &std::fs::Metadata,
        entry: &gix_index::Entry,
    ) -> bool {
        if meta.is_symlink() {
            let target =
                std::fs::read_link(path).map(|target| target.as_os_str().as_bytes().to_vec());
            return target.ok().and_then(|target| self.name(&target)) != Some(entry.id);
        }
        let converts = self.place.converts_line_ends || self.attributes;
        let Ok(mut file) = held::open(path) else { return true };
        if !converts {
            return self.name_of_file(&mut file, meta.len()) != Some(entry.id);
        }
        let mut bytes = Vec::new();
        if file.read_to_end(&mut bytes).is_err() {
            return true;
        }
        let same = |bytes: &[u8]| self.name(bytes) == Some(entry.id);
        !same(&bytes) && !same(&without_carriage_returns(&bytes))
    }

    /// The name that git would give these bytes.
    fn name(&self, bytes: &[u8]) -> Option<Oid> {
        self.name_of_file(&mut &*bytes, bytes.len() as u64)
    }

    fn name_of_file(&self, reader: &mut dyn Read, length: u64) -> Option<Oid> {
        let mut hasher = gix_index::hash::hasher(self.place.hash);
        hasher.update(format!("blob {length}\0").as_bytes());
        let mut buffer = vec![0; 64 << 10];
        loop {
            match reader.read(&mut buffer).ok()? {
                0 => return hasher.try_finalize().ok(),
                read => hasher.update(&buffer[..read]),
            }
        }
    }
}

fn without_carriage_returns(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    for (at, byte) in bytes.iter().enumerate() {
        if *byte != b'\r' || bytes.get(at + 1) != Some(&b'\n') {
            out.push(*byte);
        }
    }
    out
}
