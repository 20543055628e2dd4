//! A folder that did not change: its known files are looked at, nothing is listed.

use std::ffi::{CStr, CString};
use std::os::fd::OwnedFd;

use super::super::cache::record::{Draft, Entry, Record, Stored, What, entry, folder};
use super::super::choose::{Has, Inside, OWN, RuleFiles};
use super::super::databases;
use super::super::git::IGNORE;
use super::super::handle::Root;
use super::super::read::Task;
use super::super::stamp::{self, Kind, Stamp};
use super::{FolderDraft, Job, Remarks, Walk, oversize};

/// From this many names on it pays to open the folder, so that each look starts there.
const WIDE: usize = 8;

/// What a look at a known name says.
enum Seen {
    /// It is what it was, or was never looked at.
    Same,
    /// It has to be read (again).
    Read(Stamp),
    /// A rule file has another stamp and the same content.
    Restamped(Stamp, [u8; 32]),
    /// A database has another stamp and is one still.
    Database(Stamp),
    /// The folder has to be listed: it changed after all, or a name must be judged again.
    List,
    /// As above, and what was judged by the rules of this folder does not count any more.
    Stale,
}

impl Walk<'_> {
    /// Passes the folder of `job`, whose listing is still that of `record`. With `look` unset its
    /// files are known not to have changed either. `false` if it has to be listed after all; then
    /// nothing was noted.
    pub(super) fn known(
        &self,
        open: &mut Vec<Job>,
        job: &mut Job,
        record: Record<'_>,
        look: bool,
    ) -> bool {
        let mut path = Path::new(&job.path);
        let mut remarks = Remarks::default();
        let mut children: Vec<(u32, &[u8], Inside)> = Vec::new();
        let mut changed: Vec<(usize, Seen)> = Vec::new();
        let mut has = Has::default();
        let opened = if record.flags() & folder::GIT != 0
            && job.inside == Inside::Normal
            && !job.path.is_empty()
        {
            let opened = self.repo_in(&job.path);
            if opened.stale {
                job.stale = true;
                return false;
            }
            job.recheck = if opened.repo.is_some() { opened.recheck } else { job.recheck };
            opened.repo
        } else {
            None
        };
        let rules_count = job.inside == Inside::Normal;
        let wide = look && !job.path.is_empty() && record.count() >= WIDE;
        let near = wide
            .then(|| {
                CString::new(&*job.path).ok().and_then(|path| self.root.open_to_look(&path).ok())
            })
            .flatten();
        for (at, entry) in record.entries().enumerate() {
            if entry.flags & entry::TODAY != 0 {
                return false;
            }
            if let What::Folder(number) = entry.what {
                let unjudged = job.recheck && entry.flags & entry::TRACKED != 0;
                match self.before.and_then(|cache| cache.record(number)?.inside()) {
                    Some(inside) if !unjudged => children.push((number, entry.name, inside)),
                    _ => return false,
                }
                continue;
            }
            let is_rule = rules_count && (entry.name == IGNORE || entry.name == OWN);
            if is_rule && matches!(entry.what, What::Whole(_) | What::Rule(_)) {
                has.git |= entry.name == IGNORE;
                has.own |= entry.name == OWN;
            }
            match self.look_at(
                &mut path,
                near.as_ref(),
                &entry,
                job,
                record.device(),
                look,
                is_rule,
                &mut remarks,
            ) {
                Seen::Same => {}
                Seen::List => return false,
                Seen::Stale => {
                    job.stale = true;
                    return false;
                }
                seen => changed.push((at, seen)),
            }
        }
        if !children.is_empty() {
            let scope = job.scope.enter(&job.path, opened, has);
            let jobs = children.into_iter().map(|(number, name, inside)| Job {
                path: path.join(name).to_vec(),
                number,
                scope: scope.clone(),
                inside,
                stale: false,
                recheck: job.recheck,
            });
            open.extend(jobs);
        }
        self.note(&mut remarks);
        if !changed.is_empty() {
            self.redraw(job, &record, changed, &mut path);
        }
        true
    }

    /// Copies a record in which some files are to be read anew.
    fn redraw(&self, job: &Job, record: &Record<'_>, changed: Vec<(usize, Seen)>, path: &mut Path) {
        let mut drawn = FolderDraft::new(Draft::copy(record, &job.path));
        for (at, seen) in changed {
            let entry = &mut drawn.draft.entries[at];
            let as_file = self.chooser.also.holds(path.join(&entry.name));
            let mut any_size = as_file;
            if let (IGNORE | OWN, What::Whole(stored)) = (&*entry.name, entry.what) {
                drawn.applied.push((at, stored.id));
                any_size = true;
            }
            match seen {
                Seen::Read(stamp) => drawn.pending.push(Task {
                    draft: 0,
                    entry: at,
                    path: path.join(&entry.name).to_vec(),
                    stamp,
                    base: entry.what.content(),
                    any_size,
                    as_file,
                }),
                Seen::Database(stamp) => {
                    entry.what = What::Database(Stored::new(&stamp, [0; 32]));
                    entry.flags &= !entry::YOUNG;
                    if !self.trust.believes(&stamp) {
                        entry.flags |= entry::YOUNG;
                    }
                }
                Seen::Restamped(stamp, id) => {
                    entry.what = What::Rule(Stored::new(&stamp, id));
                    entry.flags &= !entry::YOUNG;
                    if !self.trust.believes(&stamp) {
                        entry.flags |= entry::YOUNG;
                    }
                }
                _ => {}
            }
        }
        self.found().folders.push(drawn);
    }

    #[allow(clippy::too_many_arguments, reason = "the innermost loop, kept flat")]
    fn look_at(
        &self,
        path: &mut Path,
        near: Option<&OwnedFd>,
        entry: &Entry<'_>,
        job: &Job,
        device: u64,
        look: bool,
        is_rule: bool,
        remarks: &mut Remarks,
    ) -> Seen {
        match &entry.what {
            What::Whole(stored)
            | What::Chunked(stored)
            | What::Symlink(stored)
            | What::Rule(stored) => {
                if job.recheck && entry.flags & entry::TRACKED != 0 {
                    return Seen::List;
                }
                if !look {
                    return Seen::Same;
                }
                let stamp = match near {
                    Some(folder) => stamp::look(folder, path.c_name(entry.name)),
                    None => self.root.look(path.c_join(entry.name)),
                };
                let Ok(stamp) = stamp else { return Seen::List };
                if entry.flags & entry::YOUNG == 0 && stored.agrees(&stamp, device) {
                    return Seen::Same;
                }
                let expected =
                    if matches!(entry.what, What::Symlink(_)) { Kind::Symlink } else { Kind::File };
                if stamp.kind() != expected {
                    return Seen::List;
                }
                if is_rule && !matches!(entry.what, What::Symlink(_)) {
                    let now = self.chooser.files.read(path.join(entry.name));
                    if now.is_none_or(|bytes| *blake3::hash(&bytes).as_bytes() != stored.id) {
                        return Seen::Stale;
                    }
                }
                match entry.what {
                    What::Rule(stored) => Seen::Restamped(stamp, stored.id),
                    _ => Seen::Read(stamp),
                }
            }
            What::Database(stored) => {
                if self.chooser.also.holds(path.join(entry.name)) {
                    return Seen::List;
                }
                if job.recheck && entry.flags & entry::TRACKED != 0 {
                    return Seen::List;
                }
                if !look {
                    remarks.database(path.join(entry.name));
                    return Seen::Same;
                }
                let Ok(stamp) = self.root.look(path.c_join(entry.name)) else { return Seen::List };
                let same = entry.flags & entry::YOUNG == 0 && stored.agrees(&stamp, device);
                if !same && !databases::is_at(self.root, path.join(entry.name)) {
                    return Seen::List;
                }
                remarks.database(path.join(entry.name));
                if same { Seen::Same } else { Seen::Database(stamp) }
            }
            What::Companion => match self.chooser.also.holds(path.join(entry.name)) {
                true => Seen::List,
                false => Seen::Same,
            },
            What::Omitted => {
                let is_dir = entry.flags & entry::FOLDER != 0;
                let tracked = job.recheck && entry.flags & entry::BY_GIT != 0;
                let wanted = !self.chooser.also.is_empty()
                    && self.chooser.wanted(path.join(entry.name), is_dir);
                if tracked || wanted { Seen::List } else { Seen::Same }
            }
            What::Git => {
                if entry.name != b".git" {
                    remarks.skip(path.join(entry.name), super::listed::LIKE_GIT);
                }
                Seen::Same
            }
            What::Oversize => {
                let wanted = self.chooser.also.holds(path.join(entry.name));
                match self.root.look(path.c_join(entry.name)) {
                    Ok(stamp) if stamp.kind() == Kind::File => {
                        if stamp.size <= self.limit || wanted {
                            return Seen::List;
                        }
                        remarks.skip(path.join(entry.name), oversize(self.limit));
                        Seen::Same
                    }
                    _ => Seen::List,
                }
            }
            What::Special(special) => {
                let path = path.join(entry.name);
                if self.chooser.also.holds(path) {
                    remarks.partial(path, format!("it is {}", special.as_str()));
                } else {
                    remarks.skip(path, special.as_str());
                }
                Seen::Same
            }
            What::Unreadable => Seen::List,
            What::TooLong => {
                remarks.partial(&job.path, super::listed::TOO_LONG);
                Seen::Same
            }
            What::Folder(_) => Seen::Same,
        }
    }
}

/// The path of a folder, with room for a name behind it: nothing is allocated per file.
pub(super) struct Path {
    bytes: Vec<u8>,
    folder: usize,
}

impl Path {
    /// Starts at `folder`; the empty one is the root.
    pub fn new(folder: &[u8]) -> Self {
        let mut bytes = Vec::with_capacity(folder.len() + 64);
        bytes.extend_from_slice(folder);
        if !folder.is_empty() {
            bytes.push(b'/');
        }
        Self { folder: bytes.len(), bytes }
    }

    /// The path of `name` in the folder.
    pub fn join(&mut self, name: &[u8]) -> &[u8] {
        self.bytes.truncate(self.folder);
        self.bytes.extend_from_slice(name);
        &self.bytes
    }

    /// The name alone for a system call.
    pub fn c_name(&mut self, name: &[u8]) -> &CStr {
        self.bytes.truncate(self.folder);
        self.bytes.extend_from_slice(name);
        self.bytes.push(0);
        CStr::from_bytes_until_nul(&self.bytes[self.folder..]).unwrap_or(c"")
    }

    /// The same for a system call. A name that has a NUL, which no file system gives, is cut there.
    pub fn c_join(&mut self, name: &[u8]) -> &CStr {
        self.bytes.truncate(self.folder);
        self.bytes.extend_from_slice(name);
        self.bytes.push(0);
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or(c"")
    }
}

/// Rule files of the workspace as it is.
pub(crate) struct LiveFiles<'a>(pub &'a Root);

impl RuleFiles for LiveFiles<'_> {
    fn read(&self, path: &[u8]) -> Option<Vec<u8>> {
        use std::io::Read;
        let limit = rappel_store::content::WHOLE_MAX as u64;
        let file = self.0.open_file(path).ok()?;
        let stamp = Stamp::of(&rustix::fs::fstat(&file).ok()?);
        if stamp.kind() != Kind::File || stamp.size > limit {
            return None;
        }
        let mut bytes = Vec::with_capacity(stamp.size as usize + 1);
        file.take(limit).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }

    fn exists(&self, path: &[u8]) -> bool {
        std::ffi::CString::new(path).is_ok_and(|path| self.0.look(&path).is_ok())
    }
}
