//! Which paths differ between HEAD, the index and the work tree.
//!
//! Nothing of the user's runs for it: where only a filter could tell whether a file is changed, it
//! counts as modified.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;

use gix_index::entry::{Flags, Mode};
use gix_index::hash::{Kind, ObjectId as Oid};
use rappel_types::git::RepositoryPart;
use rappel_types::{Node, RelPath};
use rayon::prelude::*;

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
    /// The lists of a manifest, if those are whole.
    pub fn of(part: &RepositoryPart) -> Option<Self> {
        let set = |list: &[RelPath]| list.iter().cloned().collect();
        (part.unlisted == 0).then(|| Self {
            staged: set(&part.staged),
            modified: set(&part.modified),
            untracked: set(&part.untracked),
        })
    }

    /// Puts the lists into a manifest, as much of them as it takes.
    pub fn fill(&self, part: &mut RepositoryPart) {
        let mut left_out = 0;
        let mut list = |set: &BTreeSet<RelPath>| {
            left_out += set.len().saturating_sub(LISTED) as u64;
            set.iter().take(LISTED).cloned().collect::<Vec<_>>()
        };
        part.staged = list(&self.staged);
        part.modified = list(&self.modified);
        part.untracked = list(&self.untracked);
        let mut dirty: BTreeSet<RelPath> = self.staged.clone();
        dirty.extend(self.modified.iter().cloned());
        dirty.extend(self.untracked.iter().cloned());
        part.dirty_files = list(&dirty);
        part.unlisted = left_out;
    }
}

/// An index, to be asked about paths.
pub struct Index {
    file: Option<gix_index::File>,
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
                return Ok(Self { file: None });
            }
            Ok(found) if found.is_file() => {}
            _ => return Err("git's index is not a file".into()),
        }
        let read = gix_index::File::at(path, hash, true, gix_index::decode::Options::default());
        let file = read.map_err(|error| format!("git's index cannot be read: {error}"))?;
        Ok(Self { file: Some(file) })
    }

    fn entries(&self) -> impl Iterator<Item = (&[u8], &gix_index::Entry)> {
        let file = self.file.as_ref();
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
        let mut next: Vec<_> = self.file.iter().filter_map(|file| file.tree()).collect();
        while let Some(tree) = next.pop() {
            found.extend(tree.num_entries.map(|_| tree.id));
            next.extend(&tree.children);
        }
        found
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
            let flags = Flags::ASSUME_VALID | Flags::SKIP_WORKTREE | Flags::INTENT_TO_ADD;
            batch.extend_from_slice(&(entry.flags & flags).bits().to_le_bytes());
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
        let file = self.file.as_ref()?;
        let entries = file.entries();
        let at = entries.partition_point(|entry| **entry.path(file) < *path);
        entries.get(at).filter(|entry| **entry.path(file) == *path)
    }

    /// Whether a path below `path` is tracked, as a sparse index has it: by its folder.
    fn covers(&self, path: &[u8]) -> bool {
        let sparse = self.file.as_ref().is_some_and(|file| file.is_sparse());
        sparse
            && (0..path.len())
                .filter(|&at| path[at] == b'/')
                .any(|at| self.find(&path[..=at]).is_some_and(|entry| entry.mode == Mode::DIR))
    }
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
}

impl Question<'_> {
    /// What is staged, as git itself says, renames being one path.
    pub fn staged(&self, head: Option<&Oid>) -> Result<BTreeSet<RelPath>, Trouble> {
        let git = Git::at(&self.place.git_dir);
        let head = head.map_or_else(
            || gix_index::hash::ObjectId::empty_tree(self.place.hash).to_string(),
            ToString::to_string,
        );
        // What is only meant to be added is not staged.
        let unborn = "--ita-invisible-in-index";
        let plain =
            ["diff-index", "--cached", unborn, "-z", "--name-status", "--no-renames", &head];
        let renames = ["diff-index", "--cached", unborn, "-z", "--name-status", "-M", &head];
        // Finding renames reads contents, which a partial clone may not have.
        let answer = match self.place.partial_clone {
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

    /// Everything that is modified or untracked, given all files that the checkpoint holds of this
    /// repository.
    pub fn all(&self, files: &[(RelPath, &Node)]) -> (BTreeSet<RelPath>, BTreeSet<RelPath>) {
        let entries: Vec<_> = self.index.entries().collect();
        let modified = entries
            .par_iter()
            .filter(|(path, entry)| self.is_modified(path, entry))
            .filter_map(|(path, _)| RelPath::new(*path).ok())
            .collect();
        let untracked = files
            .iter()
            .filter(|(path, node)| {
                !matches!(node, Node::Directory { .. }) && self.is_untracked(path)
            })
            .map(|(path, _)| path.clone())
            .collect();
        (modified, untracked)
    }

    /// Brings the lists up to date where files changed.
    pub fn update(&self, lists: &mut Lists, changes: &[(RelPath, Option<&Node>)]) {
        for (path, node) in changes {
            lists.modified.remove(path);
            lists.untracked.remove(path);
            if let Some(entry) = self.index.find(path.as_bytes()) {
                if self.is_modified(path.as_bytes(), entry) {
                    lists.modified.insert(path.clone());
                }
            } else if node.is_some_and(|node| !matches!(node, Node::Directory { .. }))
                && self.is_untracked(path)
            {
                lists.untracked.insert(path.clone());
            }
        }
    }

    fn is_untracked(&self, path: &RelPath) -> bool {
        self.index.find(path.as_bytes()).is_none() && !self.index.covers(path.as_bytes())
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
        let Some(file) = &self.index.file else { return false };
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
        let Ok(mut file) = File::open(path) else { return true };
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
