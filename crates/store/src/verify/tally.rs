//! Decoding every object once, and walking every checkpoint without walking twice what they share.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rappel_types::{CheckpointId, Content, Node, ObjectId, RelPath};
use rayon::prelude::*;

use super::{Hurt, Progress, VerifyReport, Watch};
use crate::closure::{Closure, Reference, named_in};
use crate::content::ChunkList;
use crate::error::{Error, Result};
use crate::scan::{Piece, Scan};
use crate::sink::Source;
use crate::store::{Store, decode_manifest};
use crate::tree::{self, Edges};

/// How many bytes of decoded objects are kept, as bases of those that follow.
const CACHE: usize = 16 << 20;
/// How many records one thread takes at a time.
const SHARE_MAX: usize = 2048;

/// What one thread has found: good objects with their lengths, and what is wrong with others.
type Share = (Vec<(ObjectId, u64)>, Vec<String>);

/// Decodes every record of every object; returns the objects of which one at least is good, with
/// their lengths.
pub(super) fn decode_all(
    store: &Store,
    scan: &Scan<'_>,
    watch: Watch<'_>,
    report: &mut VerifyReport,
) -> Result<HashMap<ObjectId, u64>> {
    crate::threads::ready()?;
    let done = AtomicUsize::new(0);
    let total = scan.pieces.len();
    let parts: Vec<Share> = scan
        .pieces
        .par_chunks(SHARE_MAX)
        .map(|pieces| {
            let mut cache =
                Cache { store, scan, kept: HashMap::new(), order: VecDeque::new(), bytes: 0 };
            let mut good = Vec::with_capacity(pieces.len());
            let mut bad = Vec::new();
            for piece in pieces {
                match cache.read(piece) {
                    Ok(length) => good.push((piece.id, length)),
                    // Its base is gone: damage that is named where it is, or gc took it because
                    // nothing needs either.
                    Err(Error::Missing(_)) => {}
                    Err(error) => bad.push(format!("{}: {error}", piece.place.pack)),
                }
            }
            let done = done.fetch_add(pieces.len(), Ordering::Relaxed) + pieces.len();
            if let Some(watch) = watch {
                watch(Progress::Objects { done, total })?;
            }
            Ok((good, bad))
        })
        .collect::<Result<_>>()?;
    let mut good = HashMap::with_capacity(total);
    for (part, bad) in parts {
        good.extend(part);
        report.damage.extend(bad);
    }
    report.objects = good.len() as u64;
    Ok(good)
}

struct Cache<'a> {
    store: &'a Store,
    scan: &'a Scan<'a>,
    kept: HashMap<ObjectId, Arc<[u8]>>,
    order: VecDeque<ObjectId>,
    bytes: usize,
}

impl Cache<'_> {
    fn read(&mut self, piece: &Piece) -> Result<u64> {
        let (store, scan) = (self.store, self.scan);
        let kept = &self.kept;
        let (bytes, _) =
            store.read_against(&piece.id, &piece.place, &mut |base| match kept.get(base) {
                Some(bytes) => Ok((bytes.clone(), 0)),
                None => scan.get(base).map(|bytes| (bytes, 0)),
            })?;
        let length = bytes.len() as u64;
        self.bytes += bytes.len();
        if self.kept.insert(piece.id, bytes).is_none() {
            self.order.push_back(piece.id);
        }
        while self.bytes > CACHE
            && let Some(oldest) = self.order.pop_front()
        {
            let gone = self.kept.remove(&oldest).map_or(0, |bytes| bytes.len());
            self.bytes = self.bytes.saturating_sub(gone);
        }
        Ok(length)
    }
}

/// Looks at checkpoints one by one.
pub(crate) struct Tally<'a> {
    source: &'a dyn Source,
    /// Objects that are known to be good, and how long they are; `None` if each has to be read to
    /// find out.
    good: Option<&'a HashMap<ObjectId, u64>>,
    scan: Option<&'a Scan<'a>>,
    /// Nodes below which everything is good.
    sound: HashSet<ObjectId>,
    /// The same of what other facets refer to; the edges of its leaves are not known.
    followed: HashSet<ObjectId>,
    /// Nodes of the checkpoint at hand that were looked at: a tree in which nodes come again and
    /// again is not walked as often.
    visited: HashSet<ObjectId>,
    /// Leaves that were read, as far as their neighbours care.
    edges: HashMap<ObjectId, Edges>,
    /// Lists of chunks that are all good, with the length of their file.
    lists: HashMap<ObjectId, u64>,
    read: HashMap<ObjectId, Option<u64>>,
    /// Every object that a checkpoint needs.
    pub seen: HashSet<ObjectId>,
    /// Those that cannot be read.
    pub wanted: HashSet<ObjectId>,
    pub objects: u64,
    pub bytes: u64,
    pub errors: Vec<String>,
    /// What a later version wrote, so that it cannot be told whether it is whole.
    pub newer: BTreeSet<String>,
    /// What is wrong with trees and files whose objects are all as they were written.
    pub misshapen: BTreeSet<String>,
}

impl<'a> Tally<'a> {
    /// Reads every object that a checkpoint needs.
    pub fn new(source: &'a dyn Source) -> Self {
        Self {
            source,
            good: None,
            scan: None,
            sound: HashSet::new(),
            followed: HashSet::new(),
            visited: HashSet::new(),
            edges: HashMap::new(),
            lists: HashMap::new(),
            read: HashMap::new(),
            seen: HashSet::new(),
            wanted: HashSet::new(),
            objects: 0,
            bytes: 0,
            errors: Vec::new(),
            newer: BTreeSet::new(),
            misshapen: BTreeSet::new(),
        }
    }

    /// Goes by what is known about every object.
    pub fn of_known(scan: &'a Scan<'a>, good: &'a HashMap<ObjectId, u64>) -> Self {
        Self { good: Some(good), scan: Some(scan), ..Self::new(scan) }
    }

    /// What is wrong with the checkpoint whose manifest is `json`.
    pub fn checkpoint(&mut self, id: &CheckpointId, json: &[u8]) -> Option<Hurt> {
        let mut hurt = Hurt { structure: false, ..Hurt::unreadable(id.clone()) };
        let mut tree = None;
        match decode_manifest(json) {
            Ok(manifest) => {
                if let Some(files) = manifest.files {
                    self.tree(&files.tree, &mut hurt);
                    tree = Some(files.tree);
                }
            }
            Err(error) => {
                self.errors.push(format!("the manifest of {id}: {error}"));
                hurt.structure = true;
            }
        }
        let mut named = Vec::new();
        if let Ok(json) = serde_json::from_slice(json) {
            named_in(&json, &mut named);
        }
        for object in named.into_iter().filter(|id| Some(*id) != tree) {
            // What other facets refer to; a text that only looks like an id is none of it.
            if self.scan.is_some_and(|scan| scan.holds(&object)) && !self.follow(object) {
                hurt.structure = true;
            }
        }
        hurt.paths.sort();
        (hurt.structure || !hurt.paths.is_empty()).then_some(hurt)
    }

    /// Looks at a tree: its nodes, how they fit together, and the contents of its files.
    pub fn tree(&mut self, tree: &ObjectId, hurt: &mut Hurt) {
        self.visited.clear();
        self.node(tree, 0, hurt);
        if !hurt.structure
            && self.newer.is_empty()
            && let Err(error) = tree::check_joints(self.source, tree, &self.edges)
        {
            self.misshapen.insert(format!("the tree of {}: {error}", hurt.checkpoint));
            hurt.structure = true;
        }
    }

    /// Whether an object, and all that it refers to, can be read.
    pub fn follow(&mut self, object: ObjectId) -> bool {
        if self.followed.contains(&object) {
            return true;
        }
        let mut closure = Closure::default();
        closure.add(Reference::Unknown(object));
        let source = self.source;
        let mut whole = closure.follow(source, &mut |id| self.is_good(id));
        // What is behind it may be whole; the rest is looked at.
        while let Some((_, error)) = closure.newer.pop() {
            self.newer.insert(error.to_string());
            whole = closure.follow(source, &mut |id| self.is_good(id));
        }
        if whole {
            self.followed.insert(object);
        }
        whole
    }

    fn is_good(&mut self, id: &ObjectId) -> bool {
        self.length_of(id).is_some()
    }

    /// How long a good object is.
    fn length_of(&mut self, id: &ObjectId) -> Option<u64> {
        self.seen.insert(*id);
        let length = match self.good {
            Some(good) => good.get(id).copied(),
            None => match self.read.get(id) {
                Some(length) => *length,
                None => {
                    let found = self.source.get(id);
                    self.objects += 1;
                    match &found {
                        Ok(bytes) => self.bytes += bytes.len() as u64,
                        Err(error) => self.errors.push(error.to_string()),
                    }
                    let length = found.ok().map(|bytes| bytes.len() as u64);
                    self.read.insert(*id, length);
                    length
                }
            },
        };
        if length.is_none() {
            self.wanted.insert(*id);
        }
        length
    }

    /// Whether everything at and below a node is good.
    fn node(&mut self, id: &ObjectId, depth: usize, hurt: &mut Hurt) -> bool {
        if self.sound.contains(id) {
            return true;
        }
        if !self.visited.insert(*id) {
            return false;
        }
        let part = match self.is_good(id) && depth < 32 {
            true => self.source.get(id).and_then(|bytes| tree::part(&bytes)),
            false => Err(Error::Missing(*id)),
        };
        let whole = match part {
            Ok(tree::Part::Nodes(nodes)) => {
                let mut whole = true;
                for node in &nodes {
                    whole &= self.node(node, depth + 1, hurt);
                }
                whole
            }
            Ok(tree::Part::Entries(entries)) => {
                self.edges.extend(Edges::of(&entries).map(|edges| (*id, edges)));
                let mut bad: Vec<RelPath> = Vec::new();
                for entry in entries {
                    if let Node::File { content, size, .. } = &entry.node
                        && !self.content(content, *size, &entry.path)
                    {
                        bad.push(entry.path);
                    }
                }
                let whole = bad.is_empty();
                hurt.paths.extend(bad);
                whole
            }
            Err(error @ Error::Newer { .. }) => {
                self.newer.insert(format!("the tree of {}: {error}", hurt.checkpoint));
                true
            }
            Err(error) => {
                if !matches!(error, Error::Missing(_)) {
                    self.misshapen.insert(format!("the tree of {}: {error}", hurt.checkpoint));
                }
                hurt.structure = true;
                false
            }
        };
        if whole {
            self.sound.insert(*id);
        }
        whole
    }

    fn content(&mut self, content: &Content, size: u64, path: &RelPath) -> bool {
        let length = match content {
            Content::Whole(id) => self.length_of(id),
            Content::Chunked(id) => self.length_of_list(id, path),
        };
        match length {
            Some(length) if length != size => {
                self.misshapen.insert(format!("{path}: it has {length} bytes instead of {size}"));
                false
            }
            Some(_) => true,
            None => false,
        }
    }

    /// The length of a file of chunks, if all of them are good.
    fn length_of_list(&mut self, id: &ObjectId, path: &RelPath) -> Option<u64> {
        if let Some(length) = self.lists.get(id) {
            return Some(*length);
        }
        if !self.is_good(id) {
            return None;
        }
        let list = match ChunkList::load(self.source, id) {
            Ok(list) => list,
            Err(error) => {
                self.misshapen.insert(format!("{path}: {error}"));
                return None;
            }
        };
        let mut whole = true;
        for chunk in &list.0 {
            match self.length_of(&chunk.id) {
                Some(length) if length != chunk.length => {
                    self.misshapen.insert(format!("{path}: chunk {} has another length", chunk.id));
                    whole = false;
                }
                Some(_) => {}
                None => whole = false,
            }
        }
        if whole {
            self.lists.insert(*id, list.size());
        }
        whole.then(|| list.size())
    }
}
