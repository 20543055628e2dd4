//! A folder that is new or changed: listed, its rule files read, every name judged.

use std::collections::HashSet;
use std::ffi::CString;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::fs::{Dir, FileType};
use rustix::io::Errno;

use super::super::builtin;
use super::super::cache::record::{Draft, DraftEntry, Entry, Record, Stored, What, entry, folder};
use super::super::choose::{Because, Choice, Has, Inside, OWN, Scope};
use super::super::databases;
use super::super::git::IGNORE;
use super::super::handle::LONGEST;
use super::super::read::Task;
use super::super::selector::{Origin, keep, keep_repo};
use super::super::stamp::{Kind, Stamp, look};
use super::known::Path;
use super::{FolderDraft, Job, Remarks, Walk, oversize};

pub(super) const LIKE_GIT: &str = "its name can be taken for .git";
pub(super) const TOO_LONG: &str = "paths below it are too long";
const MOVED: &str = "it changed while it was being looked at";

/// A rule file of the folder at hand.
#[derive(Debug)]
struct Rule {
    bytes: Vec<u8>,
    id: [u8; 32],
}

/// What is known of the folder at hand while its names are judged.
struct Listing<'a> {
    job: &'a Job,
    scope: Arc<Scope>,
    /// Whether verdicts of before do not count.
    stale: bool,
    recheck: bool,
    git_rule: Option<Rule>,
    own_rule: Option<Rule>,
    /// Names of what SQLite keeps beside the databases here.
    companions: HashSet<Vec<u8>>,
    /// Names that the built-in list left out because of a proof.
    proven: Vec<u8>,
    drawn: FolderDraft,
    children: Vec<Job>,
    remarks: Remarks,
}

impl Walk<'_> {
    /// Lists the folder of `job`. `record` is what was known of it, whether it still holds or not.
    pub(super) fn list(&self, open: &mut Vec<Job>, job: &Job, record: Option<Record<'_>>) {
        let opened = self.root.open_folder(&job.path).and_then(|folder| {
            let stamp = Stamp::of(&rustix::fs::fstat(&folder)?);
            let mut dir = Dir::new(folder)?;
            let names = names(&mut dir)?;
            Ok((stamp, dir, names))
        });
        let (stamp, dir, names) = match opened {
            Ok(opened) => opened,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) if !job.path.is_empty() => {
                return self.absent(job, None);
            }
            Err(error) => return self.unlisted(job, error),
        };
        let mut flags = if self.trust.believes(&stamp) { 0 } else { folder::LIST };
        let find =
            |name: &[u8]| names.binary_search_by(|(known, _)| known.as_bytes().cmp(name)).ok();
        let normal = job.inside == Inside::Normal;
        let mut opened = super::repos::Opened::default();
        if find(b".git").is_some() {
            flags |= folder::GIT;
            if normal && !job.path.is_empty() {
                opened = self.repo_in(&job.path);
            }
        }
        let was_git = record.is_some_and(|record| record.flags() & folder::GIT != 0);
        let mut stale = job.stale || opened.stale || (was_git != (flags & folder::GIT != 0));
        let governed = opened.repo.is_some() || job.scope.repo.is_some();
        let read_rule = |name: &[u8], counts: bool| {
            let at = find(name).filter(|_| normal && counts)?;
            if names[at].1 != Kind::File {
                return None;
            }
            let bytes = self.chooser.files.read(Path::new(&job.path).join(name))?;
            Some(Rule { id: *blake3::hash(&bytes).as_bytes(), bytes })
        };
        let git_rule = read_rule(IGNORE, governed);
        let own_rule = read_rule(OWN, true);
        let known_rule = |name: &[u8]| {
            record?.entries().find(|entry| entry.name == name).and_then(|entry| match entry.what {
                What::Whole(stored) | What::Rule(stored) => Some(stored.id),
                _ => None,
            })
        };
        stale |= governed && known_rule(IGNORE) != git_rule.as_ref().map(|rule| rule.id);
        stale |= known_rule(OWN) != own_rule.as_ref().map(|rule| rule.id);
        let has = Has { git: git_rule.is_some(), own: own_rule.is_some() };
        let scope = job.scope.enter(&job.path, opened.repo.clone(), has);
        if has != Has::default() {
            let bytes = |rule: &Option<Rule>| rule.as_ref().map(|rule| rule.bytes.clone());
            scope.set(bytes(&git_rule).as_deref(), bytes(&own_rule).as_deref());
        }
        let draft = Draft::new(job.number, &job.path, &stamp, job.inside, flags);
        let mut listing = Listing {
            job,
            scope,
            stale,
            recheck: if opened.repo.is_some() { opened.recheck } else { job.recheck },
            git_rule,
            own_rule,
            companions: self.companions(&job.path, &names),
            proven: Vec::new(),
            drawn: FolderDraft::new(draft),
            children: Vec::new(),
            remarks: Remarks::default(),
        };
        listing.drawn.draft.entries.reserve_exact(names.len());
        let mut known = record.map(|record| record.entries()).into_iter().flatten().peekable();
        let mut path = Path::new(&job.path);
        let device = record.map_or(0, |record| record.device());
        for (name, kind) in &names {
            while known.next_if(|entry| entry.name < name.as_bytes()).is_some() {}
            let before = known.next_if(|entry| entry.name == name.as_bytes());
            self.judge(&mut listing, &dir, name, *kind, before.as_ref(), device, &mut path);
        }
        let starts =
            opened.repo.or_else(|| job.path.is_empty().then(|| job.scope.repo.clone()).flatten());
        let mut extra: Vec<_> =
            starts.map(|repo| keep_repo(&job.path, repo.rules())).into_iter().flatten().collect();
        let Listing { mut drawn, children, mut remarks, proven, git_rule, own_rule, .. } = listing;
        for (place, held) in drawn.draft.entries.iter().enumerate() {
            let (rule, origin) = match &*held.name {
                IGNORE => (&git_rule, Origin::Gitignore),
                OWN => (&own_rule, Origin::Rappelignore),
                _ => continue,
            };
            let Some(rule) = rule else { continue };
            if matches!(held.what, What::Rule(_)) {
                extra.push(keep(&job.path, origin, &rule.bytes));
            } else {
                drawn.applied.push((place, rule.id));
            }
        }
        if !proven.is_empty() {
            extra.push(keep(&job.path, Origin::Builtin, &proven));
        }
        self.note(&mut remarks);
        {
            let mut found = self.found();
            found.folders.push(drawn);
            found.extra.append(&mut extra);
            found.listed.push(job.path.clone());
        }
        open.extend(children);
    }

    /// Notes a folder that cannot be listed.
    fn unlisted(&self, job: &Job, error: Errno) {
        let stamp = CString::new(&*job.path).ok().and_then(|path| self.root.look(&path).ok());
        let Some(stamp) = stamp else {
            return self.absent(job, Some(std::io::Error::from(error).to_string()));
        };
        let flags = folder::UNREADABLE | folder::LIST;
        let draft = Draft::new(job.number, &job.path, &stamp, job.inside, flags);
        let mut found = self.found();
        found.folders.push(FolderDraft::new(draft));
        let reason = std::io::Error::from(error).to_string();
        found.partial.push(super::partial(&job.path, reason));
    }

    /// Decides about one name and notes what becomes of it.
    #[allow(clippy::too_many_arguments, reason = "one step of a loop, kept flat")]
    fn judge(
        &self,
        listing: &mut Listing<'_>,
        dir: &Dir,
        name: &CString,
        kind: Kind,
        before: Option<&Entry<'_>>,
        device: u64,
        path: &mut Path,
    ) {
        let bytes = name.as_bytes();
        let full = path.join(bytes);
        if full.len() > LONGEST {
            if !listing.drawn.draft.entries.iter().any(|entry| entry.what == What::TooLong) {
                listing.remarks.partial(&listing.job.path, TOO_LONG);
            }
            listing.push(bytes, What::TooLong, 0);
            return;
        }
        let is_dir = kind == Kind::Folder;
        let choice = self.former(listing, full, bytes, is_dir, before).unwrap_or_else(|| {
            self.chooser.choose(&listing.scope, full, is_dir, listing.job.inside)
        });
        match choice {
            Choice::Never => {
                if bytes != b".git" {
                    listing.remarks.skip(full, LIKE_GIT);
                }
                listing.push(bytes, What::Git, 0);
            }
            Choice::Omit { git, builtin } => {
                if builtin {
                    listing.proven.push(b'/');
                    listing.proven.extend_from_slice(bytes);
                    listing.proven.extend_from_slice(b"/\n");
                }
                self.omit(listing, dir, name, is_dir, git);
            }
            Choice::Take { because, inside } => {
                let flags = match because {
                    Because::Rules => 0,
                    Because::Tracked => entry::TRACKED,
                    Because::Today => entry::TODAY,
                };
                if is_dir {
                    self.take_folder(listing, full, bytes, flags, inside, before);
                } else {
                    self.take_file(listing, dir, name, full, flags, before, device);
                }
            }
        }
    }

    /// The verdict of before, if it still counts.
    fn former(
        &self,
        listing: &Listing<'_>,
        path: &[u8],
        name: &[u8],
        is_dir: bool,
        before: Option<&Entry<'_>>,
    ) -> Option<Choice> {
        let before = before.filter(|before| !listing.stale && before.flags & entry::TODAY == 0)?;
        if listing.recheck && before.flags & (entry::TRACKED | entry::BY_GIT) != 0 {
            return None;
        }
        let because =
            if before.flags & entry::TRACKED != 0 { Because::Tracked } else { Because::Rules };
        match before.what {
            What::Folder(number) if is_dir => {
                // Its inside is what the folder's own record says; without one it is judged again.
                let inside = self.before?.record(number)?.inside()?;
                Some(Choice::Take { because, inside })
            }
            What::Omitted if is_dir == (before.flags & entry::FOLDER != 0) => {
                let again = self.chooser.wanted(path, is_dir)
                    || (is_dir && listing.scope.repo.is_none() && builtin::needs_proof(name));
                let git = before.flags & entry::BY_GIT != 0;
                (!again).then_some(Choice::Omit { git, builtin: false })
            }
            What::Git => Some(Choice::Never),
            What::Whole(_)
            | What::Chunked(_)
            | What::Symlink(_)
            | What::Database(_)
            | What::Oversize
                if !is_dir =>
            {
                Some(Choice::Take { because, inside: Inside::Normal })
            }
            _ => None,
        }
    }

    /// Notes a name that is left out; a rule file that counts is remembered by its content.
    fn omit(&self, listing: &mut Listing<'_>, dir: &Dir, name: &CString, is_dir: bool, git: bool) {
        let bytes = name.as_bytes();
        let flags = if git { entry::BY_GIT } else { 0 } | if is_dir { entry::FOLDER } else { 0 };
        let stamped = listing.rule(bytes).and_then(|rule| {
            let stamp = dir.fd().and_then(|dir| look(dir, name)).ok()?;
            let young = if self.trust.believes(&stamp) { 0 } else { entry::YOUNG };
            Some((What::Rule(Stored::new(&stamp, rule.id)), flags | young))
        });
        let (what, flags) = stamped.unwrap_or((What::Omitted, flags));
        listing.push(bytes, what, flags);
    }

    fn take_folder(
        &self,
        listing: &mut Listing<'_>,
        path: &[u8],
        name: &[u8],
        flags: u8,
        inside: Inside,
        before: Option<&Entry<'_>>,
    ) {
        let number = match before.map(|before| before.what) {
            Some(What::Folder(number)) => number,
            _ => self.numbers.fetch_add(1, Ordering::Relaxed),
        };
        listing.push(name, What::Folder(number), flags);
        listing.children.push(Job {
            path: path.to_vec(),
            number,
            scope: listing.scope.clone(),
            inside,
            stale: listing.stale,
            recheck: listing.recheck,
        });
    }

    #[allow(clippy::too_many_arguments, reason = "one step of a loop, kept flat")]
    fn take_file(
        &self,
        listing: &mut Listing<'_>,
        dir: &Dir,
        name: &CString,
        path: &[u8],
        flags: u8,
        before: Option<&Entry<'_>>,
        device: u64,
    ) {
        let bytes = name.as_bytes();
        let wanted = self.chooser.also.holds(path);
        let rules = listing.rule(bytes).is_some();
        if !wanted && listing.companions.contains(bytes) {
            return listing.push(bytes, What::Companion, flags);
        }
        let stamp = match dir.fd().and_then(|dir| look(dir, name)) {
            Ok(stamp) => stamp,
            Err(Errno::NOENT) => {
                listing.drawn.draft.flags |= folder::LIST;
                return;
            }
            Err(error) => {
                listing.remarks.partial(path, std::io::Error::from(error).to_string());
                return listing.push(bytes, What::Unreadable, flags);
            }
        };
        match stamp.kind() {
            Kind::Folder => {
                listing.remarks.partial(path, MOVED);
                listing.push(bytes, What::Unreadable, flags);
            }
            Kind::Special(special) => {
                if wanted {
                    listing.remarks.partial(path, format!("it is {}", special.as_str()));
                } else {
                    listing.remarks.skip(path, special.as_str());
                }
                listing.push(bytes, What::Special(special), flags);
            }
            Kind::File if !wanted && self.is_database(&stamp, path, before, device) => {
                let young = if self.trust.believes(&stamp) { 0 } else { entry::YOUNG };
                listing.remarks.database(path);
                let what = What::Database(Stored::new(&stamp, [0; 32]));
                listing.push(bytes, what, flags | young);
            }
            // What decides must be at hand when the decision is looked at again, whatever its size.
            Kind::File if stamp.size > self.limit && !wanted && !rules => {
                listing.remarks.skip(path, oversize(self.limit));
                listing.push(bytes, What::Oversize, flags);
            }
            kind => {
                let today = stamp.size > self.limit && wanted;
                let flags = if today { flags | entry::TODAY } else { flags };
                let same = before.filter(|before| match (&before.what, kind) {
                    (What::Whole(stored) | What::Chunked(stored), Kind::File)
                    | (What::Symlink(stored), Kind::Symlink) => {
                        before.flags & entry::YOUNG == 0 && stored.agrees(&stamp, device)
                    }
                    _ => false,
                });
                if let Some(before) = same {
                    return listing.push(bytes, before.what, flags);
                }
                let base = before.and_then(|before| before.what.content());
                let at = listing.drawn.draft.entries.len();
                // Until it is read.
                listing.push(bytes, What::Unreadable, flags);
                listing.drawn.pending.push(Task {
                    draft: 0,
                    entry: at,
                    path: path.to_vec(),
                    stamp,
                    base,
                    any_size: wanted || rules,
                    as_file: wanted,
                });
            }
        }
    }
}

impl Walk<'_> {
    /// Whether a file is known to be a database, or would not be read and therefore not be found
    /// to be one. Any other is looked into when it is read.
    fn is_database(
        &self,
        stamp: &Stamp,
        path: &[u8],
        before: Option<&Entry<'_>>,
        device: u64,
    ) -> bool {
        let unread = match before.map(|before| (before.what, before.flags)) {
            Some((What::Database(stored), flags)) => {
                if flags & entry::YOUNG == 0 && stored.agrees(stamp, device) {
                    return true;
                }
                false
            }
            // Put there by a restore, or taken because it was asked for.
            Some((What::Whole(stored) | What::Chunked(stored), flags)) => {
                flags & (entry::TODAY | entry::YOUNG) == entry::TODAY
                    && stored.agrees(stamp, device)
            }
            _ => false,
        };
        (unread || stamp.size > self.limit)
            && databases::may_be_one(stamp.size)
            && databases::is_at(self.root, path)
    }

    /// Which of `names` SQLite keeps beside a database that is among them.
    fn companions(&self, folder: &[u8], names: &[(CString, Kind)]) -> HashSet<Vec<u8>> {
        let mut found = HashSet::new();
        let mut path = Path::new(folder);
        for (name, kind) in names {
            let Some(base) = databases::beside(name.as_bytes()) else { continue };
            let at = names.binary_search_by(|(known, _)| known.as_bytes().cmp(base));
            if *kind == Kind::File
                && at.is_ok_and(|at| names[at].1 == Kind::File)
                && databases::is_at(self.root, path.join(base))
            {
                found.insert(name.as_bytes().to_vec());
            }
        }
        found
    }
}

impl Listing<'_> {
    /// The rule file called `name`, if it counts here.
    fn rule(&self, name: &[u8]) -> Option<&Rule> {
        match name {
            IGNORE => self.git_rule.as_ref(),
            OWN => self.own_rule.as_ref(),
            _ => None,
        }
    }

    fn push(&mut self, name: &[u8], what: What, flags: u8) {
        self.drawn.draft.entries.push(DraftEntry::new(name, what, flags));
    }
}

/// The names in a folder, in order, with what they are.
fn names(dir: &mut Dir) -> Result<Vec<(CString, Kind)>, Errno> {
    let mut names = Vec::new();
    while let Some(entry) = dir.read() {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let name = name.to_owned();
        names.push((name, entry.file_type()));
    }
    names.sort_unstable_by(|a, b| a.0.as_bytes().cmp(b.0.as_bytes()));
    let fd = dir.fd()?;
    let known = names.into_iter().filter_map(|(name, kind)| {
        let kind = match kind {
            // Some file systems leave the kind to stat.
            FileType::Unknown => match look(fd, &name) {
                Ok(stamp) => stamp.kind(),
                Err(Errno::NOENT) => return None,
                Err(_) => Kind::File,
            },
            kind => kind.into(),
        };
        Some((name, kind))
    });
    Ok(known.collect())
}
