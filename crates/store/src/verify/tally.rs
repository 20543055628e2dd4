//! Decoding every object once, and walking every checkpoint without walking twice what they share.

use std::collections::{HashMap, HashSet, VecDeque};
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
use crate::tree;

/// How many bytes of decoded objects are kept, as bases of those that follow.
const CACHE: usize = 16 << 20;
/// How many records one thread takes at a time.
const SHARE: usize = 2048;

/// Decodes every record of every object; returns the objects of which one at least is good.
pub(super) fn decode_all(
    store: &Store,
    scan: &Scan<'_>,
    watch: Watch<'_>,
    report: &mut VerifyReport,
) -> Result<HashSet<ObjectId>> {
    let done = AtomicUsize::new(0);
    let total = scan.pieces.len();
    let parts: Vec<(Vec<ObjectId>, Vec<String>)> = scan
        .pieces
        .par_chunks(SHARE)
        .map(|pieces| {
            let mut cache =
                Cache { store, scan, kept: HashMap::new(), order: VecDeque::new(), bytes: 0 };
            let mut good = Vec::with_capacity(pieces.len());
            let mut bad = Vec::new();
            for piece in pieces {
                match cache.read(piece) {
                    Ok(()) => good.push(piece.id),
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
    let mut good = HashSet::with_capacity(total);
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
    fn read(&mut self, piece: &Piece) -> Result<()> {
        let (store, scan) = (self.store, self.scan);
        let kept = &self.kept;
        let (bytes, _) =
            store.read_against(&piece.id, &piece.place, &mut |base| match kept.get(base) {
                Some(bytes) => Ok((bytes.clone(), 0)),
                None => scan.get(base).map(|bytes| (bytes, 0)),
            })?;
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
        Ok(())
    }
}

/// Looks at checkpoints one by one.
pub(super) struct Tally<'a> {
    source: &'a dyn Source,
    /// Objects that are known to be good; `None` if each has to be read to find out.
    good: Option<&'a HashSet<ObjectId>>,
    scan: Option<&'a Scan<'a>>,
    /// Nodes below which everything is good.
    sound: HashSet<ObjectId>,
    read: HashMap<ObjectId, bool>,
    /// Every object that a checkpoint needs.
    pub seen: HashSet<ObjectId>,
    /// Those that cannot be read.
    pub wanted: HashSet<ObjectId>,
    pub objects: u64,
    pub bytes: u64,
    pub errors: Vec<String>,
}

impl<'a> Tally<'a> {
    /// Reads every object that a checkpoint needs.
    pub fn new(source: &'a dyn Source) -> Self {
        Self {
            source,
            good: None,
            scan: None,
            sound: HashSet::new(),
            read: HashMap::new(),
            seen: HashSet::new(),
            wanted: HashSet::new(),
            objects: 0,
            bytes: 0,
            errors: Vec::new(),
        }
    }

    /// Goes by what is known about every object.
    pub fn of_known(scan: &'a Scan<'a>, good: &'a HashSet<ObjectId>) -> Self {
        Self { good: Some(good), scan: Some(scan), ..Self::new(scan) }
    }

    /// What is wrong with the checkpoint whose manifest is `json`.
    pub fn checkpoint(&mut self, id: &CheckpointId, json: &[u8]) -> Option<Hurt> {
        let mut hurt = Hurt { checkpoint: id.clone(), paths: Vec::new(), structure: false };
        let mut tree = None;
        match decode_manifest(json) {
            Ok(manifest) => {
                if let Some(files) = manifest.files {
                    self.node(&files.tree, 0, &mut hurt);
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

    fn follow(&mut self, object: ObjectId) -> bool {
        if self.sound.contains(&object) {
            return true;
        }
        let mut closure = Closure::default();
        closure.add(Reference::Unknown(object));
        let source = self.source;
        let whole = closure.follow(source, &mut |id| self.is_good(id));
        if whole {
            self.sound.insert(object);
        }
        whole
    }

    fn is_good(&mut self, id: &ObjectId) -> bool {
        self.seen.insert(*id);
        let good = match self.good {
            Some(good) => good.contains(id),
            None => match self.read.get(id) {
                Some(good) => *good,
                None => {
                    let found = self.source.get(id);
                    self.objects += 1;
                    match &found {
                        Ok(bytes) => self.bytes += bytes.len() as u64,
                        Err(error) => self.errors.push(error.to_string()),
                    }
                    self.read.insert(*id, found.is_ok());
                    found.is_ok()
                }
            },
        };
        if !good {
            self.wanted.insert(*id);
        }
        good
    }

    /// Whether everything at and below a node is good.
    fn node(&mut self, id: &ObjectId, depth: usize, hurt: &mut Hurt) -> bool {
        if self.sound.contains(id) {
            return true;
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
                let mut bad: Vec<RelPath> = Vec::new();
                for entry in entries {
                    if let Node::File { content, .. } = &entry.node
                        && !self.content(content)
                    {
                        bad.push(entry.path);
                    }
                }
                let whole = bad.is_empty();
                hurt.paths.extend(bad);
                whole
            }
            Err(_) => {
                hurt.structure = true;
                false
            }
        };
        if whole {
            self.sound.insert(*id);
        }
        whole
    }

    fn content(&mut self, content: &Content) -> bool {
        let id = *content.id();
        if !self.is_good(&id) {
            return false;
        }
        if matches!(content, Content::Whole(_)) || self.sound.contains(&id) {
            return true;
        }
        let Ok(list) = ChunkList::load(self.source, &id) else { return false };
        let mut whole = true;
        for chunk in &list.0 {
            whole &= self.is_good(&chunk.id);
        }
        if whole {
            self.sound.insert(id);
        }
        whole
    }
}
