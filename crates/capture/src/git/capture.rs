//! Taking the state of all repositories of a workspace.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gix_index::hash::ObjectId as Oid;
use rappel_store::Cancel;
use rappel_store::held;
use rappel_store::sink::Sink;
use rappel_store::threads;
use rappel_store::tree;
use rappel_types::git::{GitPart, NestedPart, RepositoryPart, WorktreePart};
use rappel_types::manifest::{Facet, FacetState, FilesPart, PartialReason};
use rappel_types::path::escape;
use rappel_types::{Entry, Node, ObjectId, RelPath};

use super::apply::path_of;
use super::bundles::Failure;
use super::contents::Contents;
use super::extra::Extra;
use super::folder::{self, Item, Role};
use super::linked;
use super::lists::{self, Ask, below};
use super::live;
use super::memo::{Memo, RepositoryMemo};
use super::objects::{Indexes, LACKS, Needed};
use super::packs;
use super::place::Place;
use super::program::Trouble;
use super::refs::{self, Target};
use super::spoilt;
use super::stand_in::StandIn;
use super::state::{State, key_of};
use super::status::{self, Index};
use crate::error::{Error, Result};
use crate::files::Environment;

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
            let Some(place) = Place::find(&live::folder_of(root, path), environment) else {
                continue;
            };
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
    /// A checkpoint whose repositories are taken even if their work trees are gone, or not linked to
    /// them any more: it is about to be restored.
    pub wanted: Option<&'a GitPart>,
    /// The objects of the repository at the root, if they were taken already.
    pub early: Option<&'a State>,
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
    /// What git sees beside them, or not as they are.
    pub extra: &'a Extra<'a>,
    /// Whether objects are taken; a dry run does without.
    pub objects: bool,
    /// Takes the files of a linked work tree.
    pub worktree: &'a dyn Fn(&Path) -> Result<Option<WorktreeFiles>>,
    /// Set by whoever wants it to stop.
    pub cancel: &'a Cancel,
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

/// Captures all repositories of a workspace.
pub fn capture(request: &Request<'_>, sink: &dyn Sink) -> Result<Captured> {
    let mut paths: BTreeSet<Option<&RelPath>> =
        request.repositories.iter().map(Option::as_ref).collect();
    let wanted = request.wanted.into_iter().flat_map(GitPart::repositories);
    let astray: BTreeMap<Option<&RelPath>, Place> = wanted
        .filter(|(path, _)| !paths.contains(path))
        .filter_map(|(path, part)| {
            Some((path, Place::astray(request.root, path, part, request.environment)?))
        })
        .collect();
    paths.extend(astray.keys());
    if paths.is_empty() {
        return Ok(Captured::absent());
    }
    let mut work = Work::new(request, sink);
    let mut done: Vec<Done> = Vec::new();
    // The innermost first: a repository asks where its submodules stand.
    for path in paths.into_iter().rev() {
        match work.repository(path, astray.get(&path), &done) {
            Ok(one) => done.push(one),
            Err(Failure::Git(trouble)) => {
                let reason = match path {
                    Some(path) => format!("the repository {path}: {trouble}"),
                    None => trouble.to_string(),
                };
                let path = path.cloned();
                work.partial.push(PartialReason::new(Facet::Git, path, reason));
            }
            Err(Failure::Other(error)) => return Err(error),
        }
    }
    done.reverse();
    let Work { moved, mut partial, .. } = work;
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
    part.tree = Some(facet_tree(request, &done, &part, sink)?);
    let repositories = done.iter().map(|one| one.memo.clone()).collect();
    // The memo keeps the lists of paths whole, a manifest only so much of them.
    let memo = Memo::new(part.clone(), repositories, request.extra.databases.clone());
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
    /// Whether its work tree leads to it.
    linked: bool,
    /// Whether the state is complete; otherwise only its part is, and the rest is as it was.
    fresh: bool,
}

/// The tree of the facet: what is fresh, and of the others what was there.
fn facet_tree(
    request: &Request<'_>,
    done: &[Done],
    part: &GitPart,
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

pub(super) struct Work<'a> {
    pub(super) request: &'a Request<'a>,
    pub(super) sink: &'a dyn Sink,
    /// What the newest checkpoint holds, once it was asked for.
    pub(super) prior: Option<Vec<State>>,
    pub(super) moved: bool,
    pub(super) partial: Vec<PartialReason>,
}

impl<'a> Work<'a> {
    pub(super) fn new(request: &'a Request<'a>, sink: &'a dyn Sink) -> Self {
        Self { request, sink, prior: None, moved: false, partial: Vec::new() }
    }
}

impl Work<'_> {
    fn repository(
        &mut self,
        path: Option<&RelPath>,
        astray: Option<&Place>,
        inner: &[Done],
    ) -> Result<Done, Failure> {
        let request = self.request;
        let folder = live::folder_of(request.root, path);
        let found = astray.cloned().or_else(|| Place::find(&folder, request.environment));
        let place =
            found.ok_or_else(|| Failure::Git(Trouble::Failed("it cannot be read".into())))?;
        let items = folder::list(&place.common_dir)?;
        if request.before.folders.get(&place.common_dir).is_some_and(|before| *before != items) {
            self.moved = true;
        }
        let known = request.memo.and_then(|memo| memo.repository(path));
        let before = known.map_or(&[][..], |known| &known.packs);
        let packs = packs::look(&place.common_dir, place.hash, before, packs::BUDGET);
        if !packs.spoilt.is_empty() {
            self.trouble(path, packs::told(&packs.spoilt));
        }
        let read = self.read(&place, items.clone(), known)?;
        let before = request.memo.and_then(|memo| memo.part.repository(path));
        let unchanged = known.zip(before).filter(|_| !read.changed && astray.is_none());
        let nested = nested_in(path, inner);
        let mut done = match unchanged {
            Some((known, part)) => {
                let mut part = part.clone();
                let commit = part.commit.clone();
                let ask = self.ask(path, &place, &read, &nested, commit.as_deref(), known.index);
                self.fill(path, ask.answer(), &mut part)?;
                Done {
                    linked: true,
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
        done.memo.packs = packs.known;
        if let Some(Ok(head)) =
            done.state.part.commit.as_ref().map(|hex| Oid::from_hex(hex.as_bytes()))
            && packs::is_torn(&place.common_dir, &head)
        {
            self.trouble(
                path,
                format!("git cannot read the commit of HEAD: its file is torn, {head}"),
            );
        }
        if astray.is_some() {
            // It is not there for the next capture, which has nothing to do with a restore.
            done.linked = false;
            done.memo.items.clear();
        }
        self.worktrees(&place, &mut done)?;
        Ok(done)
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
                held::read(full).ok()
            }
        };
        let listed = read.items.iter().map(|item| (&item.path, &item.node));
        let (refs, spoilt) = match place.reftable {
            true => (live::refs_of_tables(&place.git_dir, &place.common_dir)?, BTreeSet::new()),
            false => live::refs_of_files(listed.clone(), &mut text),
        };
        let troubles = self.partial.len();
        let spoilt = spoilt::unreadable(place, &listed, spoilt, &mut text);
        let readable;
        let place = match spoilt.is_empty() {
            true => place,
            false => {
                self.trouble(path, spoilt::told(&spoilt));
                let stand_in = StandIn::new(&place.git_dir, &place.common_dir, place.hash);
                let stand_in = stand_in.map_err(Error::io("stand in for", &place.git_dir))?;
                readable = Place { stand_in: Some(Arc::new(stand_in)), ..place.clone() };
                &readable
            }
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
            gitfile: live::gitfile(place, self.sink)?,
            refs,
            ..State::default()
        };
        state.part.linked = place.linked();
        state.part.git_dir = live::elsewhere(self.request.root, path, place);
        live::head(place, &mut state);
        state.part.operation = live::operation(place, &state.files).map(str::to_owned);
        let digest = ObjectId(index.as_ref().map_or([0; 32], Index::digest));
        let commit = state.part.commit.clone();
        let mut ask = self.ask(path, place, read, nested, commit.as_deref(), digest);
        ask.index = index.as_ref();
        // Both mostly wait for git.
        let sink = self.sink;
        let (objects, stored, lists) = std::thread::scope(|scope| {
            let lists = threads::beside(scope, || ask.answer());
            let stored = threads::beside(scope, || read.store(sink));
            let objects = match self.request.objects {
                true => {
                    let needed = Needed { refs: own_refs, named, staged, sparse };
                    self.objects(path, place, &mut state, &needed)
                }
                false => Ok(()),
            };
            (objects, stored.join(), lists.join())
        });
        match objects {
            // What the home has of them is still worth having.
            Err(Failure::Git(Trouble::Failed(words))) => {
                state.bundles = self.prior(path).unwrap_or_default().bundles;
                self.trouble(path, format!("{LACKS}: {words}"));
            }
            other => other?,
        }
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
            packs: Vec::new(),
        };
        Ok(Done { state, memo, fresh: true, linked: true })
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
        let Request { memo, base, changes, extra, .. } = *self.request;
        let (sink, items, index) = (self.sink, &*read.items, None);
        Ask { sink, memo, base, changes, extra, place, path, items, commit, digest, index, nested }
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

    pub(super) fn trouble(&mut self, path: Option<&RelPath>, reason: String) {
        self.partial.push(PartialReason::new(Facet::Git, path.cloned(), reason));
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
        for (name, folder) in live::linked_worktrees(place) {
            if own.as_ref().is_some_and(|own| own.as_bytes() == name) {
                continue;
            }
            let prefix = [b"worktrees/", &*name, b"/"].concat();
            found.push((escape(&name), prefix, folder));
        }
        let memo =
            self.request.memo.and_then(|memo| memo.part.repository(done.state.path.as_ref()));
        for part in memo.iter().flat_map(|part| &part.worktrees).filter(|_| own.is_none()) {
            let folder = path_of(&part.path);
            if linked::leads_to_nothing(&folder, &place.common_dir, &path_of(&part.name)) {
                let (name, path) = (&part.name, &part.path);
                let reason = format!("the work tree {name} in {path} has lost git's folder of it");
                self.trouble(done.state.path.as_ref(), reason);
            }
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
                    part.branch = live::branch(done.state.refs.get(head));
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
    let nested = inner.iter().filter(|one| one.linked).filter_map(|one| {
        let at = below(one.state.path.as_ref()?, path)?;
        let commit = one.state.part.commit.as_ref();
        Some((at, commit.and_then(|hex| Oid::from_hex(hex.as_bytes()).ok())))
    });
    nested.collect()
}
