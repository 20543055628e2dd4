//! What lives: everything that can be reached from what must stay. Marking only ever adds, so what
//! was committed meanwhile is marked on top, and a checkpoint deleted meanwhile stays this time.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use rappel_types::{CheckpointId, ObjectId, Timestamp};

use crate::closure::{Closure, Reference, named_in};
use crate::document::{DOCUMENT_VERSION, SessionTombstone, Tombstone, Undo};
use crate::pack::PackId;
use crate::record::Kind;
use crate::scan::{Document, PackInfo, Scan};
use crate::sink::Source;
use crate::store::decode_manifest;

/// What a manifest says, as far as gc cares.
#[derive(Debug, Clone)]
pub(super) struct Read {
    pub checkpoint: CheckpointId,
    tree: Option<ObjectId>,
    named: Vec<ObjectId>,
}

/// The record of a checkpoint that counts, and whether something deleted it.
#[derive(Debug)]
struct Standing {
    record: usize,
    object: ObjectId,
    birth: u64,
    tombstone: Option<Tombstone>,
}

/// What came of following references.
struct Followed {
    /// Some of it could not be read through.
    unreadable: bool,
    /// Some of it is not there at all.
    missing: bool,
    /// Some of it was written by a later version.
    newer: bool,
}

/// What decides whether a deleted checkpoint stays.
#[derive(Debug, Clone)]
pub(super) struct Rules {
    pub now: Timestamp,
    pub grace: Duration,
    /// None of them does, but for the roots.
    pub deleted: bool,
    pub roots: HashSet<CheckpointId>,
    /// These count as deleted for good, to find out what that would free.
    pub without: HashSet<CheckpointId>,
    /// Likewise.
    pub without_sessions: HashSet<String>,
}

#[derive(Default)]
pub(super) struct Marks {
    closure: Closure,
    pub live: HashSet<ObjectId>,
    /// Manifests that could be read, by object.
    read: HashMap<ObjectId, Option<Read>>,
    /// The records of checkpoints that stay, as numbers into the scan's.
    pub kept: HashMap<CheckpointId, usize>,
    /// Which record of an object that has several is the one to keep.
    chosen: HashMap<ObjectId, u32>,
    /// Deleted checkpoints of which something has been collected before.
    hollow: HashSet<CheckpointId>,
    /// The commit before which each session that was let go for good has nothing left.
    parted: HashMap<String, u64>,
    /// Packs that a repair found without a log. They stay whole until a user frees them.
    adopted: HashSet<PackId>,
    /// When a repair last put something back.
    repaired: u64,
    /// Packs with anything born up to here are kept whole: something that could not be read may
    /// need what is in them.
    pub keep_below: u64,
}

impl Marks {
    /// Marks what must stay of what the scan holds by now.
    pub fn mark(&mut self, scan: &Scan<'_>, rules: &Rules) {
        self.chosen.clear();
        let losses = scan.documents.iter().filter(|document| document.kind == Kind::Loss);
        self.repaired = losses.map(|document| document.birth).max().unwrap_or(0);
        if !rules.deleted {
            self.adopted = scan.adopted();
        }
        let hidden = scan.unhealed().chain(&scan.unknown);
        let lost: Vec<u64> = hidden.map(|found| found.birth).collect();
        for birth in &lost {
            self.keep_for(*birth);
        }
        let hidden = !lost.is_empty();

        let standing = self.standing(scan);
        let undone = undone(scan, &mut self.keep_below);
        self.kept.clear();
        // Those that nobody deleted come first: what cannot be read must be put down to them.
        let (deleted, whole): (Vec<_>, Vec<_>) =
            standing.iter().partition(|(_, standing)| standing.tombstone.is_some());
        for (id, standing) in whole.into_iter().chain(deleted) {
            let stays = match &standing.tombstone {
                None => !rules.without.contains(id) || rules.roots.contains(id),
                Some(_) if self.hollow.contains(id) => false,
                Some(tombstone) => {
                    let for_good = rules.deleted || tombstone.now;
                    rules.roots.contains(id)
                        || (!for_good && (is_young(tombstone.at, rules) || undone.contains(id)))
                }
            };
            if !stays {
                continue;
            }
            if self.follow(scan, standing, hidden) {
                self.kept.insert(id.clone(), standing.record);
            } else {
                self.hollow.insert(id.clone());
            }
        }
        self.parted = parted(scan, rules);
        for document in &scan.documents {
            if self.is_parted(document) {
                continue;
            }
            let Ok(json) = serde_json::from_str(&document.json) else { continue };
            let mut named = Vec::new();
            named_in(&json, &mut named);
            for id in named.into_iter().filter(|id| scan.holds(id)) {
                self.closure.add(Reference::Unknown(id));
            }
            let followed = self.follow_all(scan);
            if followed.unreadable || followed.newer || is_newer(&json) {
                self.keep_for(document.birth);
            }
        }
        self.keep_whole_packs(scan);
        self.follow_bases(scan);
    }

    /// Whether a document is part of a journal that was let go for good.
    pub fn is_parted(&self, document: &Document) -> bool {
        matches!(document.kind, Kind::Event | Kind::Session)
            && self.parted.get(&document.key).is_some_and(|birth| document.birth < *birth)
    }

    /// The manifest of an object that is one.
    pub fn manifest(&mut self, scan: &Scan<'_>, object: &ObjectId) -> Option<&Read> {
        let read = self.read.entry(*object).or_insert_with(|| {
            let bytes = scan.get(object).ok()?;
            let manifest = decode_manifest(&bytes).ok()?;
            let mut named = Vec::new();
            named_in(&serde_json::from_slice(&bytes).ok()?, &mut named);
            Some(Read {
                checkpoint: manifest.id,
                tree: manifest.files.map(|files| files.tree),
                named,
            })
        });
        read.as_ref()
    }

    /// The record of each checkpoint that counts: the one that was born last. A manifest that
    /// cannot be read hides which checkpoint it is of, so whatever is as old as it stays.
    fn standing(&mut self, scan: &Scan<'_>) -> HashMap<CheckpointId, Standing> {
        let mut found: HashMap<CheckpointId, Standing> = HashMap::new();
        for (number, record) in scan.manifests.iter().enumerate() {
            let Some(read) = self.manifest(scan, &record.object).cloned() else {
                self.keep_for(record.birth);
                continue;
            };
            let later = found.get(&read.checkpoint).is_none_or(|held| held.birth < record.birth);
            if later {
                let Read { checkpoint, .. } = read;
                let (object, birth) = (record.object, record.birth);
                let standing = Standing { record: number, object, birth, tombstone: None };
                found.insert(checkpoint, standing);
            }
        }
        let mut tombstones: Vec<_> =
            scan.documents.iter().filter(|document| document.kind == Kind::Tombstone).collect();
        tombstones.sort_by_key(|document| document.birth);
        for document in tombstones {
            // One that cannot be read, or is of a later version, kills nothing here: its checkpoint
            // stays.
            let Ok(tombstone) = serde_json::from_str::<Tombstone>(&document.json) else { continue };
            if tombstone.version > DOCUMENT_VERSION {
                continue;
            }
            if let Some(standing) = found.get_mut(&tombstone.checkpoint)
                && standing.birth < document.birth
            {
                standing.tombstone = Some(tombstone);
            }
        }
        found
    }

    /// Marks what a checkpoint needs; false if it turns out to be hollow: deleted, and collected in
    /// part before.
    fn follow(&mut self, scan: &Scan<'_>, standing: &Standing, hidden: bool) -> bool {
        let Some(read) = self.manifest(scan, &standing.object).cloned() else { return true };
        self.live.insert(standing.object);
        if let Some(tree) = read.tree {
            self.closure.add(Reference::Node(tree));
        }
        for id in read.named.iter().filter(|id| scan.holds(id)) {
            self.closure.add(Reference::Unknown(*id));
        }
        let Followed { unreadable, missing, newer } = self.follow_all(scan);
        if standing.tombstone.is_some() && !hidden && !newer && (missing || unreadable) {
            return false;
        }
        if unreadable || newer {
            self.keep_for(standing.birth);
        }
        true
    }

    /// Marks everything that was added to the closure.
    fn follow_all(&mut self, scan: &Scan<'_>) -> Followed {
        let live = &mut self.live;
        let mut missing = false;
        while !self.closure.follow(scan, &mut |id| {
            missing |= !scan.holds(id);
            live.insert(*id);
            true
        }) {}
        let unreadable = !std::mem::take(&mut self.closure.unreadable).is_empty();
        let newer = !std::mem::take(&mut self.closure.newer).is_empty();
        Followed { unreadable, missing, newer }
    }

    /// Keeps what something that was born then may refer to, and what a repair has put back later.
    fn keep_for(&mut self, birth: u64) {
        self.keep_below = self.keep_below.max(birth).max(self.repaired);
    }

    /// Whether a pack is kept because of what could not be read.
    pub fn keeps_whole(&self, scan: &Scan<'_>, pack: PackId) -> bool {
        let old = |info: &PackInfo| info.lowest <= self.keep_below;
        scan.packs.get(&pack).is_some_and(|info| old(info) || self.adopted.contains(&pack))
    }

    fn keep_whole_packs(&mut self, scan: &Scan<'_>) {
        if self.keep_below == 0 && self.adopted.is_empty() {
            return;
        }
        for piece in &scan.pieces {
            if self.keeps_whole(scan, piece.place.pack) {
                self.live.insert(piece.id);
            }
        }
    }

    fn follow_bases(&mut self, scan: &Scan<'_>) {
        let mut pending: Vec<ObjectId> = self.live.iter().copied().collect();
        while let Some(id) = pending.pop() {
            let base = self.choose(scan, &id).and_then(|number| scan.pieces[number as usize].base);
            // A pack that is kept whole keeps all its records readable, the others' bases too.
            let others = scan
                .pieces_of(&id)
                .filter(|(_, piece)| self.keeps_whole(scan, piece.place.pack))
                .filter_map(|(_, piece)| piece.base);
            let bases: Vec<ObjectId> = others.chain(base).collect();
            for base in bases {
                if self.live.insert(base) {
                    pending.push(base);
                }
            }
        }
    }

    /// The record to keep of an object: with several, one that has been read, whole if possible.
    pub fn choose(&mut self, scan: &Scan<'_>, id: &ObjectId) -> Option<u32> {
        let mut pieces = scan.pieces_of(id);
        let only = pieces.next()?.0;
        if pieces.next().is_none() {
            return Some(only);
        }
        if let Some(number) = self.chosen.get(id) {
            return Some(*number);
        }
        let mut all: Vec<u32> = scan.pieces_of(id).map(|(number, _)| number).collect();
        all.sort_by_key(|number| {
            let piece = &scan.pieces[*number as usize];
            (piece.base.is_some(), piece.birth, *number)
        });
        let good =
            all.iter().find(|number| scan.read_piece(&scan.pieces[**number as usize]).is_ok());
        let number = *good.or(all.first())?;
        self.chosen.insert(*id, number);
        Some(number)
    }
}

/// Whether a document is of a later version: nobody knows what it needs.
fn is_newer(json: &serde_json::Value) -> bool {
    let version = json.get("version").and_then(serde_json::Value::as_u64);
    version.is_some_and(|version| version > u64::from(DOCUMENT_VERSION))
}

/// The sessions that were let go for good, and the commit before which nothing of them counts.
fn parted(scan: &Scan<'_>, rules: &Rules) -> HashMap<String, u64> {
    let mut found: HashMap<String, u64> =
        rules.without_sessions.iter().map(|session| (session.clone(), u64::MAX)).collect();
    for document in scan.documents.iter().filter(|document| document.kind == Kind::Tombstone) {
        // One that cannot be read, or is of a later version, takes nothing.
        let Ok(gone) = serde_json::from_str::<SessionTombstone>(&document.json) else { continue };
        let for_good = rules.deleted || gone.now || !is_young(gone.at, rules);
        if for_good && gone.version <= DOCUMENT_VERSION {
            let birth = found.entry(gone.session).or_default();
            *birth = document.birth.max(*birth);
        }
    }
    found
}

fn is_young(deleted_at: Timestamp, rules: &Rules) -> bool {
    let age = rules.now.as_millis().saturating_sub(deleted_at.as_millis());
    age < i64::try_from(rules.grace.as_millis()).unwrap_or(i64::MAX)
}

/// The checkpoints that `undo` and `redo` go by.
fn undone(scan: &Scan<'_>, keep_below: &mut u64) -> HashSet<CheckpointId> {
    let mut found = HashSet::new();
    for document in scan.documents.iter().filter(|document| document.kind == Kind::Undo) {
        match serde_json::from_str::<Undo>(&document.json) {
            Ok(undo) => found.extend([undo.from, undo.to]),
            Err(_) => *keep_below = (*keep_below).max(document.birth),
        }
    }
    found
}
