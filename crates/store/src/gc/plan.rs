//! Which packs go, and what of them has to be copied before.

use std::collections::{BTreeMap, HashMap, HashSet};

use rappel_types::{CheckpointId, ObjectId, WorkspaceId};

use super::mark::Marks;
use crate::document::{ADOPTED_PACKS, KNOWN_DAMAGE, Tombstone};
use crate::losses::lost_checkpoints;
use crate::pack::PackId;
use crate::record::Kind;
use crate::scan::{Document, Scan};

/// Less garbage in a pack than this part of a full one is not worth copying what lives.
const GARBAGE_PART: u64 = 1 << 12;
/// In a home up to this size, this much garbage in a pack is.
const SMALL_HOME: u64 = 64 << 20;
const SMALL_HOME_GARBAGE: u64 = 64 << 10;
/// More small bulk packs than this are made into one.
const SMALL_PACKS: usize = 16;

/// What lives in a pack, as numbers into the scan's lists.
#[derive(Debug, Default, Clone)]
pub(super) struct Living {
    pub pieces: Vec<u32>,
    pub manifests: Vec<usize>,
    pub documents: Vec<usize>,
    pub bytes: u64,
}

impl Living {
    fn is_empty(&self) -> bool {
        self.pieces.is_empty() && self.manifests.is_empty() && self.documents.is_empty()
    }
}

/// What to do.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// Packs in which nothing lives.
    pub dead: Vec<PackId>,
    /// Packs to be copied out, in groups whose living parts fill about one pack.
    pub groups: Vec<Vec<PackId>>,
    pub live_objects: u64,
    pub dead_objects: u64,
    pub kept_for_damage: u64,
    /// What the packs to be retired take.
    pub retiring_bytes: u64,
    /// What lives in them.
    pub copied_bytes: u64,
}

/// What lives in each pack, if the packs of `going` go together.
pub(super) fn living(
    scan: &Scan<'_>,
    marks: &mut Marks,
    going: &HashSet<PackId>,
) -> BTreeMap<PackId, Living> {
    let mut found: BTreeMap<PackId, Living> =
        scan.packs.keys().map(|pack| (*pack, Living::default())).collect();
    let bases = bases_of_dead_manifests(scan, marks, going);
    let mut as_manifest = HashSet::new();
    for number in marks.kept.values() {
        let record = &scan.manifests[*number];
        as_manifest.insert((record.pack, record.offset));
        let living = found.entry(record.pack).or_default();
        living.manifests.push(*number);
        living.bytes += record.bytes;
    }
    for (number, piece) in scan.pieces.iter().enumerate() {
        let number = number as u32;
        let place = (piece.place.pack, piece.place.offset);
        let record_lives = piece.kind == Kind::Manifest && as_manifest.contains(&place);
        if !record_lives
            && (marks.live.contains(&piece.id) || bases.contains(&piece.id))
            && marks.choose(scan, &piece.id) == Some(number)
        {
            let living = found.entry(piece.place.pack).or_default();
            living.pieces.push(number);
            living.bytes += piece.bytes;
        }
    }
    let needed = needed_documents(scan, marks, going);
    for number in needed {
        let document = &scan.documents[number];
        let living = found.entry(document.pack).or_default();
        living.documents.push(number);
        living.bytes += document.bytes;
    }
    found
}

/// What the manifests of deleted checkpoints are stored against, where their packs stay. Nobody
/// could tell such a manifest from a damaged one if its base were gone.
fn bases_of_dead_manifests(
    scan: &Scan<'_>,
    marks: &mut Marks,
    going: &HashSet<PackId>,
) -> HashSet<ObjectId> {
    let mut found = HashSet::new();
    for record in scan.manifests.iter().filter(|record| !going.contains(&record.pack)) {
        let pieces = scan.pieces_of(&record.object);
        let mut pending: Vec<ObjectId> = pieces.filter_map(|(_, piece)| piece.base).collect();
        while let Some(id) = pending.pop() {
            if !marks.live.contains(&id) && found.insert(id) {
                let chosen = marks.choose(scan, &id);
                pending.extend(chosen.and_then(|number| scan.pieces[number as usize].base));
            }
        }
    }
    found
}

fn needed_documents(scan: &Scan<'_>, marks: &mut Marks, going: &HashSet<PackId>) -> Vec<usize> {
    // The births of each checkpoint's manifests in packs that stay.
    let mut victims: HashMap<CheckpointId, u64> = HashMap::new();
    let mut found: HashSet<CheckpointId> = HashSet::new();
    let mut unread = false;
    for record in &scan.manifests {
        let Some(read) = marks.manifest(scan, &record.object) else {
            unread = true;
            continue;
        };
        found.insert(read.checkpoint.clone());
        if !going.contains(&record.pack) {
            let lowest = victims.entry(read.checkpoint.clone()).or_insert(record.birth);
            *lowest = record.birth.min(*lowest);
        }
    }
    // A tombstone also ends the mourning over what is lost.
    for document in scan.documents.iter().filter(|document| document.kind == Kind::Loss) {
        if let (false, Ok(id)) = (going.contains(&document.pack), document.key.parse()) {
            let lowest = victims.entry(id).or_insert(document.birth);
            *lowest = document.birth.min(*lowest);
        }
    }
    let lost: HashSet<CheckpointId> =
        lost_checkpoints(scan, |id| found.contains(id)).into_iter().collect();
    let mut highest: HashMap<WorkspaceId, (u64, usize)> = HashMap::new();
    let mut tombstones: HashMap<usize, Tombstone> = HashMap::new();
    for (number, document) in scan.documents.iter().enumerate() {
        if document.kind != Kind::Tombstone {
            continue;
        }
        if let Ok(tombstone) = serde_json::from_str::<Tombstone>(&document.json) {
            let top = highest.entry(tombstone.workspace).or_insert((tombstone.sequence, number));
            if top.0 < tombstone.sequence {
                *top = (tombstone.sequence, number);
            }
            tombstones.insert(number, tombstone);
        }
    }
    let something_hidden = unread || marks.keep_below > 0;
    let mut seen = HashSet::new();
    let mut needed = Vec::new();
    for (number, document) in scan.documents.iter().enumerate() {
        let about_kept = |document: &Document| {
            let id = document.key.parse::<CheckpointId>();
            something_hidden
                || id.is_ok_and(|id| marks.kept.contains_key(&id) || lost.contains(&id))
        };
        let stays = match document.kind {
            Kind::Tombstone => match tombstones.get(&number) {
                Some(tombstone) => {
                    something_hidden
                        || highest.get(&tombstone.workspace).is_some_and(|top| top.1 == number)
                        || victims
                            .get(&tombstone.checkpoint)
                            .is_some_and(|lowest| *lowest < document.birth)
                        || marks
                            .kept
                            .get(&tombstone.checkpoint)
                            .is_some_and(|kept| scan.manifests[*kept].birth < document.birth)
                }
                None => true,
            },
            Kind::Label => about_kept(document),
            Kind::Event | Kind::Session => !marks.is_parted(document),
            Kind::Loss => match PackId::from_name(&document.key) {
                Some(pack) => {
                    let damaged = || scan.damage.iter().any(|damage| damage.pack == pack);
                    !going.contains(&pack) && (scan.packs.contains_key(&pack) || damaged())
                }
                None => {
                    [KNOWN_DAMAGE, ADOPTED_PACKS].contains(&&*document.key) || about_kept(document)
                }
            },
            _ => true,
        };
        // Of two records of one document, one is enough.
        let first = || (document.kind, document.key.clone(), document.birth, document.id);
        if stays && seen.insert(first()) {
            needed.push(number);
        }
    }
    needed
}

/// Decides what goes. `newest` is the log's newest pack, which can only go if another takes its
/// place; `eager` is for whoever wants the space now.
pub(super) fn plan(
    scan: &Scan<'_>,
    marks: &mut Marks,
    newest: Option<u64>,
    eager: bool,
    group_bytes: u64,
) -> Plan {
    let mut plan = Plan { live_objects: marks.live.len() as u64, ..Plan::default() };
    let mut all: HashSet<_> = scan.pieces.iter().map(|piece| piece.id).collect();
    all.retain(|id| !marks.live.contains(id));
    plan.dead_objects = all.len() as u64;
    let home: u64 = scan.packs.values().map(|info| info.length).sum();
    let small = |pack: &PackId, length: u64| {
        matches!(pack, PackId::Bulk(_)) && length < group_bytes / SMALL_PACKS as u64
    };
    let many_small = scan.packs.iter().filter(|(pack, info)| small(pack, info.length)).count();

    let none = HashSet::new();
    let apart = living(scan, marks, &none);
    let held = held(scan);
    let lived_in: HashSet<PackId> = scan
        .pieces
        .iter()
        .filter(|piece| marks.live.contains(&piece.id))
        .map(|piece| piece.place.pack)
        .collect();
    let unhealed: HashSet<PackId> = scan.unhealed().map(|damage| damage.pack).collect();
    let mut candidates: Vec<(PackId, u64, u64)> = Vec::new();
    for (pack, info) in &scan.packs {
        if let (PackId::Log(number), Some(newest)) = (pack, newest)
            && *number > newest
        {
            continue;
        }
        // Nothing may be left of a damaged one, and still it tells that something is lost.
        if marks.keeps_whole(scan, *pack) || unhealed.contains(pack) {
            plan.kept_for_damage += 1;
            continue;
        }
        let living = &apart[pack];
        let garbage = held.get(pack).map_or(0, |held| held.saturating_sub(living.bytes));
        let is_newest = newest.is_some_and(|newest| *pack == PackId::Log(newest));
        let dead =
            !lived_in.contains(pack) && (living.is_empty() || is_dead_alone(scan, marks, *pack));
        if dead && !is_newest {
            plan.dead.push(*pack);
            plan.retiring_bytes += info.length;
            continue;
        }
        let worth = if eager { 1 } else { group_bytes / GARBAGE_PART };
        let much = garbage * 10 >= info.length * 3
            || (home <= SMALL_HOME && (garbage > SMALL_HOME_GARBAGE || eager))
            || (eager && garbage * 20 >= info.length)
            || (many_small > SMALL_PACKS && small(pack, info.length));
        // Damage that a repair has looked at: the pack is left as soon as what lives is out of it.
        let hurt = scan.damage.iter().any(|damage| damage.pack == *pack);
        if hurt || (much && (garbage >= worth || many_small > SMALL_PACKS)) {
            candidates.push((*pack, garbage, living.bytes));
            plan.retiring_bytes += info.length;
            plan.copied_bytes += living.bytes;
        }
    }
    candidates.sort_by_key(|(pack, garbage, _)| (std::cmp::Reverse(*garbage), *pack));
    let mut room = 0;
    for (pack, _, bytes) in candidates {
        match plan.groups.last_mut() {
            Some(group) if bytes <= room => group.push(pack),
            _ => {
                plan.groups.push(vec![pack]);
                room = group_bytes;
            }
        }
        room = room.saturating_sub(bytes);
    }
    plan
}

/// Whether nothing of a pack is needed once the pack is gone.
fn is_dead_alone(scan: &Scan<'_>, marks: &mut Marks, pack: PackId) -> bool {
    let living = living(scan, marks, &HashSet::from([pack]));
    living.get(&pack).is_some_and(Living::is_empty)
}

/// What each pack holds, without what every pack has: its header, commits, footer.
fn held(scan: &Scan<'_>) -> HashMap<PackId, u64> {
    let mut held = HashMap::new();
    for piece in &scan.pieces {
        *held.entry(piece.place.pack).or_default() += piece.bytes;
    }
    for document in &scan.documents {
        *held.entry(document.pack).or_default() += document.bytes;
    }
    held
}
