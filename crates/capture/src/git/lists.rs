//! Which paths of a repository are staged, modified and untracked, found out again only where
//! something moved since the last capture.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use gix_index::hash::ObjectId as Oid;
use rappel_store::sink::Sink;
use rappel_store::threads;
use rappel_store::tree;
use rappel_types::{Node, ObjectId, RelPath};

use super::bundles::bytes_of;
use super::extra::{Databases, Extra};
use super::folder;
use super::memo::{Memo, Remembered};
use super::place::Place;
use super::program::Trouble;
use super::status::{Index, Lists, Question, staged};
use crate::error::Result;
use crate::files::git::IGNORE;

/// What to find out, and from what.
pub struct Ask<'a> {
    /// Where contents are.
    pub sink: &'a dyn Sink,
    /// What the last capture knew.
    pub memo: Option<&'a Memo>,
    /// The files that the changes are relative to.
    pub base: Option<ObjectId>,
    /// What changed in the workspace's files.
    pub changes: &'a [(RelPath, Option<Node>)],
    /// What git sees beside them, or not as they are.
    pub extra: &'a Extra<'a>,
    /// The repository.
    pub place: &'a Place,
    /// Where in the workspace it starts.
    pub path: Option<&'a RelPath>,
    /// The files of git's folder.
    pub items: &'a [Remembered],
    /// The commit that HEAD leads to.
    pub commit: Option<&'a str>,
    /// A hash of what is staged.
    pub digest: ObjectId,
    /// What is staged, if it was read already.
    pub index: Option<&'a Index>,
    /// The commits that nested repositories stand at, by their path in this one.
    pub nested: &'a [(RelPath, Option<Oid>)],
}

/// The lists, if they could be made, and what is wrong with them, for people.
pub type Found = (Option<Lists>, Option<String>);

/// A path that may be on another list than before, and whether a file or a link stands there.
type Moved = BTreeMap<RelPath, bool>;

impl Ask<'_> {
    /// Finds it out; git is asked what is staged meanwhile, if that may be something else than before.
    pub fn answer(&self) -> Result<Found> {
        let known = self.known();
        if known.as_ref().is_some_and(|known| known.same_staged) {
            return self.work_tree(known);
        }
        std::thread::scope(|scope| {
            let head = self.commit.and_then(|hex| Oid::from_hex(hex.as_bytes()).ok());
            let staged = threads::beside(scope, move || staged(self.place, head.as_ref()));
            let (mut lists, mut trouble) = self.work_tree(known)?;
            match staged.join().unwrap_or_else(|_| Err(Trouble::Failed("a thread died".into()))) {
                Ok(found) => {
                    if let Some(lists) = &mut lists {
                        lists.staged = found;
                    }
                }
                Err(words) => trouble = Some(format!("what is staged is not known: {words}")),
            }
            Ok((lists, trouble))
        })
    }

    /// Compares the index with the work tree; what is staged is as it was.
    fn work_tree(&self, known: Option<Known>) -> Result<Found> {
        let moved = match &known {
            Some(known) => self.moved(known)?,
            None => None,
        };
        if let (Some(known), Some(moved)) = (&known, &moved)
            && moved.is_empty()
        {
            return Ok((Some(known.lists.clone()), None));
        }
        let loaded;
        let index = match self.index {
            Some(index) => index,
            None => match Index::load(self.place) {
                Ok(index) => {
                    loaded = index;
                    &loaded
                }
                Err(reason) => return Ok((None, Some(reason))),
            },
        };
        let attributes = self.items.iter().any(|item| item.path.as_bytes() == b"info/attributes")
            || index.has_attributes();
        let (place, nested) = (self.place, self.nested);
        let ignored =
            |path: &RelPath| self.in_workspace(path).is_some_and(|at| self.extra.is_ignored(&at));
        let question = Question { place, index, attributes, nested, ignored: &ignored };
        let lists = match (known, moved) {
            (Some(known), Some(moved)) => {
                let mut lists = known.lists;
                question.update(&mut lists, moved);
                lists
            }
            (known, _) => {
                let staged = known.map(|known| known.lists.staged).unwrap_or_default();
                let all = self.all_files()?;
                let files = all.iter().filter(|(_, node)| is_file(node)).map(|(at, _)| at);
                let databases = self.extra.databases.keys();
                let own = files.chain(databases).filter_map(|at| self.own(at));
                let (modified, untracked) = question.all(own);
                Lists { staged, modified, untracked }
            }
        };
        Ok((Some(lists), None))
    }

    /// The lists of the last capture, if what decides about them is the same.
    fn known(&self) -> Option<Known> {
        let memo = self.memo?;
        let part = memo.part.repository(self.path)?;
        let before = memo.repository(self.path)?;
        let same_rules = rules(&before.items).eq(rules(self.items));
        let same_index = before.index == self.digest;
        Some(Known {
            lists: Lists::of(part).filter(|_| same_rules)?,
            files: memo.files?,
            same_index,
            same_staged: same_index && part.commit.as_deref() == self.commit,
            index: (!same_index).then(|| self.index_among(&before.items)).flatten(),
        })
    }

    fn index_among(&self, items: &[Remembered]) -> Option<Node> {
        let name = [&*self.place.own_prefix(), b"index"].concat();
        items.iter().find(|item| item.path.as_bytes() == name).map(|item| item.node.clone())
    }

    /// Every path that may be on another list than before; `None` where that cannot be told.
    fn moved(&self, known: &Known) -> Result<Option<Moved>> {
        let mut moved = Moved::new();
        let Some(base) = self.base else { return Ok(None) };
        if base != known.files {
            let between = tree::diff(self.sink, &known.files, &base)?;
            moved.extend(between.into_iter().filter_map(|one| {
                Some((self.own(&one.path)?, one.new.as_ref().is_some_and(is_file)))
            }));
        }
        let changes = self.changes.iter();
        if !self.extra.is_empty() && changes.clone().any(|(at, _)| at.name() == IGNORE) {
            // Of what git's rules did not bring in, any may be ignored now, or not any more.
            return Ok(None);
        }
        moved
            .extend(changes.filter_map(|(at, node)| {
                Some((self.own(at)?, node.as_ref().is_some_and(is_file)))
            }));
        moved.extend(self.nested.iter().map(|(at, _)| (at.clone(), false)));
        // A database that is a plain file by now is there, and so is a file that became a database.
        for (path, is_there) in self.moved_databases() {
            *moved.entry(path).or_default() |= is_there;
        }
        if known.same_index {
            return Ok(Some(moved));
        }
        let old = known.index.as_ref().and_then(|node| bytes_of(self.sink, node));
        let old = old.and_then(|bytes| Index::decode(&bytes, self.place.hash));
        let (Some(old), Some(new)) = (old, self.index) else { return Ok(None) };
        for path in new.differing(&old) {
            let Some(full) = self.in_workspace(&path) else { continue };
            if let Entry::Vacant(empty) = moved.entry(path) {
                let is_database = self.extra.databases.contains_key(&full);
                let node = tree::lookup(self.sink, &base, &full)?;
                empty.insert(is_database || node.as_ref().is_some_and(is_file));
            }
        }
        Ok(Some(moved))
    }

    /// The databases that are not as the last capture saw them.
    fn moved_databases(&self) -> Moved {
        let (none, now) = (Databases::new(), &self.extra.databases);
        let before = self.memo.map_or(&none, |memo| &memo.databases);
        let mut moved = Moved::new();
        for at in before.keys().chain(now.keys()).filter(|at| before.get(*at) != now.get(*at)) {
            moved.extend(self.own(at).map(|own| (own, now.contains_key(at))));
        }
        moved
    }

    /// A path of the workspace, seen from this repository, if it belongs to it.
    fn own(&self, at: &RelPath) -> Option<RelPath> {
        let at = below(at, self.path)?;
        self.nested.iter().all(|(inner, _)| !at.is_within(inner)).then_some(at)
    }

    fn in_workspace(&self, path: &RelPath) -> Option<RelPath> {
        match self.path {
            Some(folder) => folder.join(path.as_bytes()).ok(),
            None => Some(path.clone()),
        }
    }

    /// Every file that the checkpoint will hold.
    fn all_files(&self) -> Result<BTreeMap<RelPath, Node>> {
        let mut all = BTreeMap::new();
        if let Some(base) = &self.base {
            let entries = tree::read(self.sink, base)?;
            all.extend(entries.into_iter().map(|entry| (entry.path, entry.node)));
        }
        for (path, node) in self.changes {
            match node {
                Some(node) => drop(all.insert(path.clone(), node.clone())),
                None => drop(all.remove(path)),
            }
        }
        Ok(all)
    }
}

struct Known {
    lists: Lists,
    /// The files that the lists are about.
    files: ObjectId,
    same_index: bool,
    same_staged: bool,
    /// The index that they are about, if it is another one now.
    index: Option<Node>,
}

/// A path seen from the folder in which a repository starts.
pub fn below(path: &RelPath, folder: Option<&RelPath>) -> Option<RelPath> {
    match folder {
        None => Some(path.clone()),
        Some(folder) if path != folder && path.is_within(folder) => {
            RelPath::new(&path.as_bytes()[folder.as_bytes().len() + 1..]).ok()
        }
        Some(_) => None,
    }
}

/// Whether it is something that git would list.
fn is_file(node: &Node) -> bool {
    !matches!(node, Node::Directory { .. })
}

/// The files that decide what counts as a change.
fn rules(items: &[Remembered]) -> impl Iterator<Item = (&RelPath, &Node)> {
    let decides = |item: &&Remembered| {
        let (_, rest) = folder::split(item.path.as_bytes());
        matches!(rest, b"config" | b"config.worktree" | b"info/attributes")
    };
    items.iter().filter(decides).map(|item| (&item.path, &item.node))
}
