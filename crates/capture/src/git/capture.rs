//! Taking the state of all repositories of a workspace.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use gix_index::hash::ObjectId as Oid;
use rappel_store::sink::Sink;
use rappel_store::{content, tree};
use rappel_types::git::{GitPart, NestedPart, RepositoryPart, WorktreePart};
use rappel_types::manifest::{Facet, FacetState, FilesPart, PartialReason};
use rappel_types::path::escape;
use rappel_types::{Content, Entry, Node, ObjectId, RelPath};

use super::bundles::{self, Bundle, Failure, Known};
use super::folder::{self, Item, Role};
use super::lists::{self, Ask, below};
use super::memo::{self, Base, Memo, Remembered, RepositoryMemo};
use super::place::Place;
use super::program::Git;
use super::refs::{self, Refs, Target};
use super::state::{State, key_of};
use super::status::{self, Index};
use crate::error::{Error, Result};
use crate::files::Environment;
use crate::files::stamp::{Kind, Stamp, Trust};

/// How git's folders looked before the files were read, so that it shows whether they moved
/// meanwhile.
#[derive(Debug, Default)]
pub struct Before {
    folders: HashMap<PathBuf, Vec<Item>>,
}

impl Before {
    /// Looks at the repository at `root` and at those that `memo` knows.
    pub fn look(root: &Path, memo: Option<&Memo>, environment: &Environment) -> Self {
        let mut before = Self::default();
        let nested = memo.iter().flat_map(|memo| &memo.repositories);
        let nested = nested.filter_map(|known| known.path.as_ref());
        for path in std::iter::once(None).chain(nested.map(Some)) {
            let Some(place) = Place::find(&folder_of(root, path), environment) else { continue };
            let Ok(items) = folder::list(&place.common_dir) else { continue };
            before.folders.insert(place.common_dir, items);
        }
        before
    }
}

/// What to capture and how.
pub struct Request<'a> {
    /// The workspace.
    pub root: &'a Path,
    /// What of the environment counts.
    pub environment: &'a Environment,
    /// Where repositories start.
    pub repositories: &'a [Option<RelPath>],
    /// How they looked before.
    pub before: &'a Before,
    /// What the last capture knew.
    pub memo: Option<&'a Memo>,
    /// What the newest checkpoint says of git; what it holds need not be stored again.
    pub prior: Option<&'a GitPart>,
    /// What checkpoints of other workspaces say. Asked only for a repository that is new.
    pub others: &'a dyn Fn() -> Vec<GitPart>,
    /// The files that the changes are relative to.
    pub base: Option<ObjectId>,
    /// What changed in the files.
    pub changes: &'a [(RelPath, Option<Node>)],
    /// Whether objects are taken; a dry run does without.
    pub objects: bool,
    /// Takes the files of a linked work tree.
    pub worktree: &'a dyn Fn(&Path) -> Result<Option<WorktreeFiles>>,
    /// Set by whoever wants it to stop.
    pub cancel: &'a AtomicBool,
}

/// The files of a linked work tree.
#[derive(Debug)]
pub struct WorktreeFiles {
    /// As a checkpoint has them.
    pub part: FilesPart,
    /// What of them could not be taken.
    pub partial: Vec<PartialReason>,
}

/// What a capture gave.
#[derive(Debug)]
pub struct Captured {
    /// What became of the facet.
    pub state: FacetState,
    /// For the manifest.
    pub part: Option<GitPart>,
    /// What could not be taken.
    pub partial: Vec<PartialReason>,
    /// Whether something moved while it was being looked at.
    pub moved: bool,
    /// What the next capture may know, once this one is committed.
    pub memo: Option<Memo>,
    /// The repositories that are not as the memo had them.
    pub fresh: Vec<State>,
}

impl Captured {
    /// A workspace without a repository.
    pub fn absent() -> Self {
        Self {
            state: FacetState::Absent,
            part: None,
            partial: Vec::new(),
            moved: false,
            memo: None,
            fresh: Vec::new(),
        }
    }
}

/// The folders of the linked work trees of the repository at `root`, but `root` itself.
pub fn linked_folders(root: &Path, environment: &Environment) -> Vec<PathBuf> {
    let Some(place) = Place::find(root, environment) else { return Vec::new() };
    let own = place.linked();
    let linked = linked_worktrees(&place).into_iter();
    linked
        .filter(|(name, _)| own.as_ref().is_none_or(|own| own.as_bytes() != name))
        .map(|(_, folder)| folder)
        .collect()
}

/// Where a repository's work tree is.
pub fn folder_of(root: &Path, path: Option<&RelPath>) -> PathBuf {
    match path {
        Some(path) => root.join(std::ffi::OsStr::from_bytes(path.as_bytes())),
        None => root.to_owned(),
    }
}

/// Captures all repositories of a workspace.
pub fn capture(request: &Request<'_>, sink: &dyn Sink) -> Result<Captured> {
    if request.repositories.is_empty() {
        return Ok(Captured::absent());
    }
    let mut work = Work { request, sink, prior: None, moved: false, partial: Vec::new() };
    let mut done: Vec<Done> = Vec::new();
    // The innermost first: a repository asks where its submodules stand.
    for path in request.repositories.iter().rev() {
        match work.repository(path.as_ref(), &done) {
            Ok(one) => done.push(one),
            Err(Failure::Git(trouble)) => {
                let reason = match path {
                    Some(path) => format!("the repository {path}: {trouble}"),
                    None => trouble.to_string(),
                };
                work.partial.push(PartialReason { facet: Facet::Git, path: path.clone(), reason });
            }
            Err(Failure::Other(error)) => return Err(error),
        }
    }
    done.reverse();
    let Work { moved, mut partial, prior, .. } = work;
    partial.sort();
    partial.dedup();
    if done.is_empty() {
        let state = FacetState::Failed;
        return Ok(Captured { state, part: None, partial, moved, memo: None, fresh: Vec::new() });
    }
    let mut part = GitPart::default();
    for one in &done {
        match &one.state.path {
            None => part.root = one.state.part.clone(),
            Some(path) => {
                part.nested.push(NestedPart { path: path.clone(), part: one.state.part.clone() });
            }
        }
    }
    part.tree = Some(facet_tree(request, &done, &part, prior, sink)?);
    let repositories = done.iter().map(|one| one.memo.clone()).collect();
    // The memo keeps the lists of paths whole, a manifest only so much of them.
    let memo = Memo::new(part.clone(), repositories);
    status::shorten(&mut part.root);
    part.nested.iter_mut().for_each(|nested| status::shorten(&mut nested.part));
    let fresh = done.into_iter().filter(|one| one.fresh).map(|one| one.state).collect();
    Ok(Captured {
        state: FacetState::Captured,
        part: Some(part),
        partial,
        moved,
        memo: Some(memo),
        fresh,
    })
}

/// One repository, captured.
struct Done {
    state: State,
    memo: RepositoryMemo,
    /// Whether the state is complete; otherwise only its part is, and the rest is as it was.
    fresh: bool,
}

/// The tree of the facet: what is fresh, and of the others what was there.
fn facet_tree(
    request: &Request<'_>,
    done: &[Done],
    part: &GitPart,
    prior: Option<Vec<State>>,
    sink: &dyn Sink,
) -> Result<ObjectId> {
    let keys = |part: &GitPart| -> Vec<String> {
        part.repositories().map(|(_, part)| part.key.clone()).collect()
    };
    let before = request.memo.map(|memo| &memo.part).or(request.prior);
    if let Some(before) = before
        && let Some(root) = before.tree
        && done.iter().all(|one| !one.fresh)
        && keys(before) == keys(part)
    {
        return Ok(root);
    }
    let mut entries: BTreeMap<RelPath, Node> = BTreeMap::new();
    let mut old: BTreeMap<RelPath, Node> = BTreeMap::new();
    let root = before.and_then(|before| before.tree);
    if let Some(root) = &root {
        old.extend(tree::read(sink, root)?.into_iter().map(|entry| (entry.path, entry.node)));
    }
    drop(prior);
    for one in done {
        if one.fresh {
            let own = one.state.entries(sink)?;
            entries.extend(own.into_iter().map(|Entry { path, node }| (path, node)));
        } else {
            let prefix = format!("{}/", one.state.part.key);
            let own = |path: &RelPath| {
                path.as_bytes().starts_with(prefix.as_bytes())
                    || path.as_bytes() == one.state.part.key.as_bytes()
            };
            let kept = old.iter().filter(|(path, _)| own(path));
            entries.extend(kept.map(|(path, node)| (path.clone(), node.clone())));
        }
    }
    let Some(root) = root else {
        let entries: Vec<Entry> =
            entries.into_iter().map(|(path, node)| Entry { path, node }).collect();
        return Ok(tree::write(sink, &entries)?);
    };
    let gone = old.keys().filter(|path| !entries.contains_key(*path));
    let mut changes: Vec<(RelPath, Option<Node>)> = gone.map(|path| (path.clone(), None)).collect();
    let moved = entries.into_iter().filter(|(path, node)| old.get(path) != Some(node));
    changes.extend(moved.map(|(path, node)| (path, Some(node))));
    changes.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(tree::update(sink, &root, &changes)?)
}

struct Work<'a> {
    request: &'a Request<'a>,
    sink: &'a dyn Sink,
    /// What the newest checkpoint holds, once it was asked for.
    prior: Option<Vec<State>>,
    moved: bool,
    partial: Vec<PartialReason>,
}

/// The objects that a repository needs.
struct Needed {
    /// What refs lead to: it must be there.
    refs: BTreeSet<Oid>,
    /// That, and what logs and unfinished operations name.
    named: BTreeSet<Oid>,
    /// What is staged.
    staged: BTreeSet<Oid>,
    /// Whether whole folders are among that.
    sparse: bool,
}

/// The indexes of all work trees.
struct Indexes {
    /// The one of the work tree that is captured.
    own: Result<Index, String>,
    /// The objects that any of them names.
    staged: BTreeSet<Oid>,
    /// Whether whole folders are among those.
    sparse: bool,
}

impl Indexes {
    fn read(place: &Place, items: &[Remembered]) -> Self {
        let own = Index::load(place);
        let mut staged: BTreeSet<Oid> = own.iter().flat_map(Index::objects).collect();
        let mut sparse = own.as_ref().is_ok_and(Index::has_folders);
        for item in items {
            if let (Some(_), b"index") = folder::split(item.path.as_bytes()) {
                let path = std::ffi::OsStr::from_bytes(item.path.as_bytes());
                let read = Index::read(&place.common_dir.join(path), place.hash);
                staged.extend(read.iter().flat_map(Index::objects));
                sparse |= read.is_ok_and(|read| read.has_folders());
            }
        }
        Self { own, staged, sparse }
    }
}

/// The files of git's folder as they are now.
struct Contents {
    items: Vec<Remembered>,
    /// The bytes of what was read for this.
    bytes: HashMap<RelPath, Vec<u8>>,
    /// Large ones that are still to be stored, and against what: there is time for it while git works.
    pending: Vec<(RelPath, Option<Content>)>,
    changed: bool,
}

impl Contents {
    /// Stores what is pending.
    fn store(&self, sink: &dyn Sink) -> Result<()> {
        for (path, former) in &self.pending {
            let Some(bytes) = self.bytes.get(path) else { continue };
            content::store(sink, &mut &**bytes, bytes.len() as u64, former.as_ref())?;
        }
        Ok(())
    }
}

impl<'a> Work<'a> {
    fn repository(&mut self, path: Option<&RelPath>, inner: &[Done]) -> Result<Done, Failure> {
        let request = self.request;
        let folder = folder_of(request.root, path);
        let place = Place::find(&folder, request.environment).ok_or_else(|| {
            Failure::Git(super::program::Trouble::Failed("it cannot be read".into()))
        })?;
        let items = folder::list(&place.common_dir)?;
        if request.before.folders.get(&place.common_dir).is_some_and(|before| *before != items) {
            self.moved = true;
        }
        let known = request.memo.and_then(|memo| memo.repository(path));
        let read = self.read(&place, items.clone(), known)?;
        let before = request.memo.and_then(|memo| memo.part.repository(path));
        let unchanged = known.zip(before).filter(|_| !read.changed);
        let nested = nested_in(path, inner);
        let mut done = match unchanged {
            Some((known, part)) => {
                let mut part = part.clone();
                let commit = part.commit.clone();
                let ask = self.ask(path, &place, &read, &nested, commit.as_deref(), known.index);
                self.fill(path, ask.answer(), &mut part)?;
                Done {
                    state: State { path: path.cloned(), part, ..State::default() },
                    memo: RepositoryMemo { items: read.items.clone(), ..known.clone() },
                    fresh: false,
                }
            }
            None => {
                let taken = self.take(path, &place, &read, &nested)?;
                // Indexes and objects are read a moment later than the rest.
                self.moved |= folder::list(&place.common_dir)? != items;
                taken
            }
        };
        self.worktrees(&place, &mut done)?;
        Ok(done)
    }

    /// Reads what the memo does not vouch for.
    fn read(
        &mut self,
        place: &Place,
        items: Vec<Item>,
        known: Option<&RepositoryMemo>,
    ) -> Result<Contents> {
        let dir = File::open(&place.common_dir).map_err(Error::io("open", &place.common_dir))?;
        let trust = Trust::start(&dir).map_err(Error::io("look at", &place.common_dir))?;
        let old: HashMap<&RelPath, &Remembered> = known
            .iter()
            .flat_map(|known| &known.items)
            .map(|remembered| (&remembered.path, remembered))
            .collect();
        let mut read = Contents {
            items: Vec::new(),
            bytes: HashMap::new(),
            pending: Vec::new(),
            changed: false,
        };
        for Item { path, stamp } in items {
            let before = old.get(&path).copied();
            let believed = trust.believes(&stamp);
            if let Some(old) = before.filter(|old| old.believed && old.stamp == stamp) {
                read.items.push(Remembered { believed, ..old.clone() });
                continue;
            }
            let (former, mut base) = before.map(Remembered::bases).unwrap_or_default();
            let node = self.read_one(place, &path, &stamp, former.as_ref(), &mut read)?;
            let Some(node) = node else { continue };
            match (&node, before) {
                (_, Some(old)) if old.node == node => base.clone_from(&old.base),
                (Node::File { size, content, .. }, _) if base.is_none() && *size >= memo::LARGE => {
                    base = Some(Base { content: *content, uses: 0 });
                }
                _ => {}
            }
            read.changed |= before.is_none_or(|old| old.node != node);
            read.items.push(Remembered { path, stamp, believed, node, base });
        }
        read.changed |= read.items.len() != old.len();
        Ok(read)
    }

    fn read_one(
        &mut self,
        place: &Place,
        path: &RelPath,
        stamp: &Stamp,
        former: Option<&Content>,
        read: &mut Contents,
    ) -> Result<Option<Node>> {
        let full = place.common_dir.join(std::ffi::OsStr::from_bytes(path.as_bytes()));
        let mode = stamp.permissions();
        match stamp.kind() {
            Kind::Folder => return Ok(Some(Node::Directory { mode })),
            Kind::Symlink => {
                let target = std::fs::read_link(&full).ok();
                return Ok(target.map(|target| Node::Symlink {
                    target: target.as_os_str().as_bytes().to_vec(),
                }));
            }
            _ => {}
        }
        let opened = open_quietly(&full);
        let mut file = match opened {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                self.moved = true;
                return Ok(None);
            }
            Err(error) => {
                self.partial.push(PartialReason {
                    facet: Facet::Git,
                    path: None,
                    reason: format!("{path} in git's folder: {error}"),
                });
                return Ok(None);
            }
            Ok(file) => file,
        };
        let is_text = folder::role(path.as_bytes()) != Role::LargeFile && stamp.size < 64 << 20;
        let (content, size) = if is_text {
            let mut bytes = Vec::with_capacity(stamp.size as usize + 1);
            file.read_to_end(&mut bytes).map_err(Error::io("read", &full))?;
            let stored = match stamp.size < memo::LARGE {
                true => content::store(self.sink, &mut &*bytes, stamp.size, former)?,
                false => {
                    read.pending.push((path.clone(), former.copied()));
                    content::identify(&mut &*bytes, stamp.size)?
                }
            };
            read.bytes.insert(path.clone(), bytes);
            stored
        } else {
            content::store(self.sink, &mut file, stamp.size, former)?
        };
        let after = rustix::fs::fstat(&file).map(|stat| Stamp::of(&stat));
        self.moved |= after.ok() != Some(*stamp);
        Ok(Some(Node::File { mode, size, content }))
    }

    /// Everything of a repository that moved.
    fn take(
        &mut self,
        path: Option<&RelPath>,
        place: &Place,
        read: &Contents,
        nested: &[(RelPath, Option<Oid>)],
    ) -> Result<Done, Failure> {
        let mut text = |path: &RelPath| match read.bytes.get(path) {
            Some(bytes) => Some(bytes.clone()),
            None => {
                let full = place.common_dir.join(std::ffi::OsStr::from_bytes(path.as_bytes()));
                std::fs::read(full).ok()
            }
        };
        let refs = match place.reftable {
            true => refs_of_tables(&place.git_dir, &place.common_dir)?,
            false => refs_of_files(&read.items, &mut text),
        };
        let mut named: BTreeSet<Oid> = BTreeSet::new();
        for item in &read.items {
            let is_file = matches!(item.node, Node::File { .. });
            let role = folder::role(item.path.as_bytes());
            if is_file
                && matches!(role, Role::Log | Role::Operation)
                && let Some(bytes) = text(&item.path)
            {
                refs::named_in(&bytes, place.hash, &mut named);
            }
        }
        let own_refs: BTreeSet<Oid> = refs
            .values()
            .filter_map(|target| match target {
                Target::Object(oid) => Some(*oid),
                Target::Symbolic(_) => None,
            })
            .collect();
        named.extend(own_refs.iter().copied());
        let troubles = self.partial.len();
        let (part, sink) = (self.prior_part().filter(|_| self.prior.is_none()), self.sink);
        let (Indexes { own: index, staged, sparse }, prior) = rayon::join(
            || Indexes::read(place, &read.items),
            || part.map(|part| State::load(sink, part)).transpose(),
        );
        if let Some(prior) = prior? {
            self.prior = Some(prior);
        }
        let index = index.map_err(|reason| self.trouble(path, reason)).ok();
        let mut state = State {
            path: path.cloned(),
            part: RepositoryPart { key: key_of(path), ..RepositoryPart::default() },
            files: read.items.iter().map(|item| (item.path.clone(), item.node.clone())).collect(),
            gitfile: gitfile(place, self.sink)?,
            refs,
            ..State::default()
        };
        state.part.linked = place.linked();
        state.part.git_dir = elsewhere(self.request.root, path, place);
        head(place, &mut state);
        state.part.operation = operation(place, &state.files).map(str::to_owned);
        let digest = ObjectId(index.as_ref().map_or([0; 32], Index::digest));
        let commit = state.part.commit.clone();
        let mut ask = self.ask(path, place, read, nested, commit.as_deref(), digest);
        ask.index = index.as_ref();
        // Both mostly wait for git.
        let sink = self.sink;
        let (objects, stored, lists) = std::thread::scope(|scope| {
            let lists = scope.spawn(|| ask.answer());
            let stored = scope.spawn(|| read.store(sink));
            let objects = match self.request.objects {
                true => {
                    let needed = Needed { refs: own_refs, named, staged, sparse };
                    self.objects(path, place, &mut state, &needed)
                }
                false => Ok(()),
            };
            (objects, stored.join(), lists.join())
        });
        objects?;
        let died = |_| Error::Conflict {
            path: place.git_dir.clone(),
            reason: "a thread died while it was being captured".into(),
        };
        stored.map_err(died)??;
        let lists = lists.map_err(died)?;
        self.fill(path, lists, &mut state.part)?;
        // What is not whole is looked at again, and said again, however little moves.
        let whole = self.partial.len() == troubles;
        if !whole {
            state.tips.clear();
        }
        let memo = RepositoryMemo {
            path: path.cloned(),
            index: digest,
            items: if whole { read.items.clone() } else { Vec::new() },
        };
        Ok(Done { state, memo, fresh: true })
    }

    /// The question which paths are dirty.
    fn ask<'q>(
        &self,
        path: Option<&'q RelPath>,
        place: &'q Place,
        read: &'q Contents,
        nested: &'q [(RelPath, Option<Oid>)],
        commit: Option<&'q str>,
        digest: ObjectId,
    ) -> Ask<'q>
    where
        Self: 'q,
    {
        let Request { memo, base, changes, .. } = *self.request;
        let (sink, items) = (self.sink, &*read.items);
        Ask { sink, memo, base, changes, place, path, items, commit, digest, index: None, nested }
    }

    /// Takes the answer.
    fn fill(
        &mut self,
        path: Option<&RelPath>,
        found: Result<lists::Found>,
        part: &mut RepositoryPart,
    ) -> Result<()> {
        let (lists, trouble) = found?;
        if let Some(lists) = lists {
            lists.fill(part);
        }
        if let Some(trouble) = trouble {
            self.trouble(path, trouble);
        }
        Ok(())
    }

    fn trouble(&mut self, path: Option<&RelPath>, reason: String) {
        self.partial.push(PartialReason { facet: Facet::Git, path: path.cloned(), reason });
    }

    /// Brings the objects of a repository into the store, as far as they are not there.
    fn objects(
        &mut self,
        path: Option<&RelPath>,
        place: &Place,
        state: &mut State,
        needed: &Needed,
    ) -> Result<(), Failure> {
        let Needed { refs: own_refs, named, staged, .. } = needed;
        let prior = self.prior(path);
        let is_new = prior.is_none();
        let prior = prior.unwrap_or_default();
        let mut bundles: Vec<Bundle> = match is_new {
            true => self.foreign_bundles(),
            false => prior.bundles.clone(),
        };
        let mut prior = prior;
        let known = Known::of(&bundles, place.hash.len_in_bytes(), self.sink);
        // Where history ends somewhere else than before, what was followed has to be followed again.
        let depth = |files: &BTreeMap<RelPath, Node>| {
            let ends = |path: &RelPath| matches!(path.as_bytes(), b"shallow" | b"info/grafts");
            files.iter().filter(|(path, _)| ends(path)).map(|(_, node)| node.clone()).collect()
        };
        let (before, now): (Vec<Node>, Vec<Node>) = (depth(&prior.files), depth(&state.files));
        if before != now {
            prior.tips.clear();
        }
        let settled: BTreeSet<Oid> = prior
            .refs
            .values()
            .filter_map(|target| match target {
                Target::Object(oid) if prior.tips.contains(oid) => Some(*oid),
                _ => None,
            })
            .collect();
        let mut wanted: BTreeSet<Oid> = named.difference(&prior.tips).copied().collect();
        wanted.extend(staged.iter().filter(|oid| known.find(oid).is_none()));
        let take = |wanted: &BTreeSet<Oid>| {
            bundles::take(place, wanted, &settled, &known, self.sink, self.request.cancel)
        };
        let mut passed_over: BTreeSet<Oid> = BTreeSet::new();
        let quickly = match needed.sparse {
            true => None,
            false => bundles::take_commits(place, &wanted, staged, &settled, &known, self.sink)?,
        };
        let taken = match quickly.map_or_else(|| take(&wanted), Ok) {
            // What is only in a log may have lost its ancestors.
            Err(Failure::Git(super::program::Trouble::Failed(_))) => {
                let is_firm = |oid: &Oid| own_refs.contains(oid) || staged.contains(oid);
                let (firm, loose): (BTreeSet<Oid>, BTreeSet<Oid>) =
                    wanted.iter().copied().partition(is_firm);
                passed_over = loose;
                take(&firm)?
            }
            other => other?,
        };
        let lost: Vec<&Oid> = taken.missing.iter().filter(|oid| own_refs.contains(*oid)).collect();
        if let Some(first) = lost.first() {
            let count = lost.len();
            // They may have been deleted since.
            self.moved = true;
            self.trouble(
                path,
                format!("{count} refs lead to objects that are missing, {first} first"),
            );
        }
        if !place.partial_clone
            && taken.missing.iter().any(|oid| !named.contains(oid) && !staged.contains(oid))
        {
            self.trouble(path, "some objects are missing in the repository".into());
        }
        if is_new {
            let mut at = 0;
            bundles.retain(|_| {
                at += 1;
                taken.used.contains(&(at - 1))
            });
        }
        let many = bundles.len();
        bundles = bundles::gather(place, bundles, self.sink)?;
        let gathered = bundles.len() != many;
        bundles.extend(taken.bundle);
        bundles.sort_by(|a, b| a.name.cmp(&b.name));
        bundles.dedup_by(|a, b| a.name == b.name);
        state.bundles = bundles;
        state.tips = named.difference(&taken.missing).copied().collect();
        state.tips.retain(|oid| !passed_over.contains(oid));
        if gathered {
            // What the repository did not have any more is not held any more.
            let known = Known::of(&state.bundles, place.hash.len_in_bytes(), self.sink);
            state.tips.retain(|oid| known.find(oid).is_some());
        }
        Ok(())
    }

    /// What the newest checkpoint holds of a repository.
    fn prior(&self, path: Option<&RelPath>) -> Option<State> {
        let states = self.prior.as_ref().map_or(&[][..], |states| states);
        states.iter().find(|state| state.path.as_ref() == path).cloned()
    }

    /// What a checkpoint says that holds what need not be stored again.
    fn prior_part(&self) -> Option<&'a GitPart> {
        self.request.memo.map(|memo| &memo.part).or(self.request.prior)
    }

    /// Bundles of other workspaces, whose repositories may be clones of this one.
    fn foreign_bundles(&self) -> Vec<Bundle> {
        let mut bundles: Vec<Bundle> = Vec::new();
        for part in (self.request.others)() {
            // One that cannot be read any more has nothing to give.
            let Ok(states) = State::load(self.sink, &part) else { continue };
            bundles.extend(states.into_iter().flat_map(|state| state.bundles));
        }
        bundles.sort_by(|a, b| a.name.cmp(&b.name));
        bundles.dedup_by(|a, b| a.name == b.name);
        bundles
    }

    /// The other work trees of the repository.
    fn worktrees(&mut self, place: &Place, done: &mut Done) -> Result<(), Failure> {
        let before = std::mem::take(&mut done.state.part.worktrees);
        let own = place.linked();
        let mut found = Vec::new();
        if own.is_some()
            && place.common_dir.file_name().is_some_and(|name| name == ".git")
            && let Some(folder) = place.common_dir.parent()
        {
            found.push(("main".to_owned(), Vec::new(), folder.to_owned()));
        }
        for (name, folder) in linked_worktrees(place) {
            if own.as_ref().is_some_and(|own| own.as_bytes() == name) {
                continue;
            }
            let prefix = [b"worktrees/", &*name, b"/"].concat();
            found.push((escape(&name), prefix, folder));
        }
        for (name, prefix, folder) in found {
            let known = before.iter().find(|known| known.name == name);
            let mut part = WorktreePart {
                name,
                branch: None,
                path: escape(folder.as_os_str().as_bytes()),
                commit: None,
                files: None,
            };
            if done.fresh {
                let head = RelPath::new([&*prefix, b"HEAD"].concat()).ok();
                if let Some(head) = &head {
                    part.branch = branch(done.state.refs.get(head));
                    part.commit = refs::resolve(&done.state.refs, head).map(ToString::to_string);
                }
            } else if let Some(known) = known {
                part.branch.clone_from(&known.branch);
                part.commit.clone_from(&known.commit);
            }
            if own.is_none() && folder.is_dir() {
                let taken = (self.request.worktree)(&folder)?;
                if let Some(files) = taken {
                    for mut reason in files.partial {
                        reason.reason = format!("work tree {}: {}", part.name, reason.reason);
                        reason.path = None;
                        reason.facet = Facet::Git;
                        self.partial.push(reason);
                    }
                    part.files = Some(files.part);
                }
            }
            done.state.part.worktrees.push(part);
        }
        Ok(())
    }
}

/// Where the repositories nested in one stand, by their path in it.
fn nested_in(path: Option<&RelPath>, inner: &[Done]) -> Vec<(RelPath, Option<Oid>)> {
    let nested = inner.iter().filter_map(|one| {
        let at = below(one.state.path.as_ref()?, path)?;
        let commit = one.state.part.commit.as_ref();
        Some((at, commit.and_then(|hex| Oid::from_hex(hex.as_bytes()).ok())))
    });
    nested.collect()
}

/// Opens a file without leaving a trace where that is permitted.
fn open_quietly(path: &Path) -> std::io::Result<File> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    #[cfg(target_os = "linux")]
    if let Ok(file) = rustix::fs::open(path, flags | OFlags::NOATIME, Mode::empty()) {
        return Ok(file.into());
    }
    Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
}

/// The linked work trees of a repository, by name, with their folders.
fn linked_worktrees(place: &Place) -> Vec<(Vec<u8>, PathBuf)> {
    let admin = place.common_dir.join("worktrees");
    let names = std::fs::read_dir(&admin).into_iter().flatten().flatten();
    let mut found: Vec<_> = names
        .filter_map(|entry| {
            let text = std::fs::read(entry.path().join("gitdir")).ok()?;
            let path = Path::new(std::ffi::OsStr::from_bytes(text.trim_ascii_end()));
            let folder = entry.path().join(path).parent()?.to_owned();
            Some((entry.file_name().as_bytes().to_vec(), folder))
        })
        .collect();
    found.sort_unstable();
    found
}

fn refs_of_files(items: &[Remembered], text: &mut dyn FnMut(&RelPath) -> Option<Vec<u8>>) -> Refs {
    let mut found = Refs::new();
    for item in items {
        if item.path.as_bytes() == b"packed-refs" {
            found
                .extend(text(&item.path).map(|text| refs::parse_packed(&text)).unwrap_or_default());
        }
    }
    for item in items {
        let role = folder::role(item.path.as_bytes());
        let target = match &item.node {
            _ if item.path.as_bytes() == b"packed-refs" => None,
            Node::File { .. } if matches!(role, Role::Head | Role::Refs) => {
                text(&item.path).and_then(|text| refs::parse_loose(&text))
            }
            // The oldest way of a symbolic ref.
            Node::Symlink { target } if matches!(role, Role::Head | Role::Refs) => {
                Some(Target::Symbolic(target.clone()))
            }
            _ => None,
        };
        if let Some(target) = target {
            found.insert(item.path.clone(), target);
        }
    }
    found
}

/// What every ref is right now.
pub fn current_refs(git_dir: &Path, common_dir: &Path) -> Result<Refs, Failure> {
    if common_dir.join("reftable").is_dir() {
        return refs_of_tables(git_dir, common_dir);
    }
    let node = Node::Directory { mode: 0 };
    let items = folder::list(common_dir)?.into_iter().map(|item| {
        let full = common_dir.join(std::ffi::OsStr::from_bytes(item.path.as_bytes()));
        let node = match item.stamp.kind() {
            Kind::Symlink => std::fs::read_link(full).map_or(node.clone(), |target| {
                Node::Symlink { target: target.as_os_str().as_bytes().to_vec() }
            }),
            Kind::File => {
                Node::File { mode: 0, size: 0, content: Content::Whole(ObjectId([0; 32])) }
            }
            _ => node.clone(),
        };
        Remembered { path: item.path, stamp: item.stamp, believed: false, node, base: None }
    });
    let items: Vec<Remembered> = items.collect();
    Ok(refs_of_files(&items, &mut |path| {
        std::fs::read(common_dir.join(std::ffi::OsStr::from_bytes(path.as_bytes()))).ok()
    }))
}

/// Refs that are kept in tables, as git tells them.
fn refs_of_tables(git_dir: &Path, common_dir: &Path) -> Result<Refs, Failure> {
    let git = Git::at(git_dir);
    let format = "--format=%(objectname) %(refname) %(symref)";
    let answer = git.ask(&["for-each-ref", format], b"")?;
    let mut found = Refs::new();
    for line in answer.split(|&b| b == b'\n') {
        let mut words = line.split(|&b| b == b' ');
        let (Some(oid), Some(name), symref) = (words.next(), words.next(), words.next()) else {
            continue;
        };
        let target = match symref {
            Some(target) if !target.is_empty() => Some(Target::Symbolic(target.to_vec())),
            _ => Oid::from_hex(oid).ok().map(Target::Object),
        };
        if let (Ok(name), Some(target)) = (RelPath::new(name), target) {
            found.insert(name, target);
        }
    }
    let admin = common_dir.join("worktrees");
    let linked = std::fs::read_dir(&admin).into_iter().flatten().flatten();
    let mut places = vec![(b"HEAD".to_vec(), common_dir.to_owned())];
    places.extend(linked.map(|entry| {
        let name = [b"worktrees/", entry.file_name().as_bytes(), b"/HEAD"].concat();
        (name, entry.path())
    }));
    for (name, dir) in places {
        let Ok(name) = RelPath::new(name) else { continue };
        let git = Git::at(&dir);
        let symbolic = git.try_ask(&["symbolic-ref", "-q", "HEAD"], b"")?;
        let detached = git.try_ask(&["rev-parse", "-q", "--verify", "HEAD"], b"")?;
        let target = match (symbolic.0.success(), detached.0.success()) {
            (true, _) => Some(Target::Symbolic(symbolic.1.trim_ascii_end().to_vec())),
            (false, true) => Oid::from_hex(detached.1.trim_ascii_end()).ok().map(Target::Object),
            _ => None,
        };
        found.extend(target.map(|target| (name, target)));
    }
    Ok(found)
}

fn branch(target: Option<&Target>) -> Option<String> {
    match target? {
        Target::Symbolic(name) => Some(escape(name.strip_prefix(b"refs/heads/").unwrap_or(name))),
        Target::Object(_) => None,
    }
}

/// Where HEAD of the work tree stands.
fn head(place: &Place, state: &mut State) {
    let Ok(name) = RelPath::new([&*place.own_prefix(), b"HEAD"].concat()) else { return };
    state.part.branch = branch(state.refs.get(&name));
    state.part.detached = matches!(state.refs.get(&name), Some(Target::Object(_)));
    state.part.commit = refs::resolve(&state.refs, &name).map(ToString::to_string);
}

/// Files that tell of an unfinished operation.
const SIGNS: [(&str, &str); 7] = [
    ("rebase-apply/applying", "am"),
    ("rebase-merge", "rebase"),
    ("rebase-apply", "rebase"),
    ("CHERRY_PICK_HEAD", "cherry-pick"),
    ("REVERT_HEAD", "revert"),
    ("MERGE_HEAD", "merge"),
    ("BISECT_LOG", "bisect"),
];

/// The operation that is under way in the work tree.
fn operation(place: &Place, files: &BTreeMap<RelPath, Node>) -> Option<&'static str> {
    let prefix = place.own_prefix();
    let has = |name: &str| {
        RelPath::new([&*prefix, name.as_bytes()].concat())
            .is_ok_and(|path| files.contains_key(&path))
    };
    SIGNS.into_iter().find(|(file, _)| has(file)).map(|(_, name)| name)
}

/// What stands at `.git`, where that is a file.
fn gitfile(place: &Place, sink: &dyn Sink) -> Result<Option<Node>> {
    let path = place.work_tree.join(".git");
    if !path.symlink_metadata().is_ok_and(|meta| meta.is_file()) {
        return Ok(None);
    }
    let bytes = std::fs::read(&path).map_err(Error::io("read", &path))?;
    let (content, size) = content::store(sink, &mut &*bytes, bytes.len() as u64, None)?;
    Ok(Some(Node::File { mode: 0o644, size, content }))
}

/// Where git's common folder is, if it is not `.git` in the work tree: below the workspace as a
/// relative path, elsewhere as an absolute one.
fn elsewhere(root: &Path, path: Option<&RelPath>, place: &Place) -> Option<String> {
    let usual = folder_of(root, path).join(".git");
    if usual.canonicalize().is_ok_and(|usual| usual == place.common_dir) {
        return None;
    }
    let real = root.canonicalize().unwrap_or_else(|_| root.to_owned());
    let shown = place.common_dir.strip_prefix(&real).unwrap_or(&place.common_dir);
    Some(escape(shown.as_os_str().as_bytes()))
}
