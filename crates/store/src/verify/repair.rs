//! Repairing: what is damaged is put again from wherever it can be had. Nothing is removed; what
//! stays lost is written down, so that everybody can tell.

use std::collections::{BTreeMap, HashSet};

use rappel_types::{CheckpointId, ObjectId};

use super::{Findings, Hurt, VerifyReport, Watch};
use crate::append::{Change, Space};
use crate::document::{ADOPTED_PACKS, KNOWN_DAMAGE, Loss};
use crate::error::{Error, Result};
use crate::index::Index;
use crate::log::Named;
use crate::pack::PackId;
use crate::record::{self, Kind};
use crate::sink::id_of;
use crate::store::{Store, held};
use crate::writer::{NewRecord, Spool};

/// What a repair has done.
#[derive(Debug, Clone, Default, PartialEq, Eq, schemars::JsonSchema, serde::Serialize)]
pub struct RepairReport {
    /// What was wrong before.
    pub before: VerifyReport,
    /// Objects that were put again.
    pub restored_objects: u64,
    /// Records that were appended again because the commit that vouched for them is damaged.
    pub restored_records: u64,
    /// Packs that were named again for the same reason.
    pub adopted_packs: u64,
    /// Checkpoints that were hurt before and are whole now.
    pub healed: Vec<CheckpointId>,
    /// What is lost. It is written down beside the checkpoints.
    pub lost: Vec<Hurt>,
}

impl Store {
    /// Brings back what can be brought back. `fetch` is asked for the bytes of objects that no
    /// record gives any more; whoever calls looks for them in the workspace's files.
    pub fn repair(
        &self,
        fetch: &dyn Fn(&ObjectId) -> Option<Vec<u8>>,
        watch: Watch<'_>,
    ) -> Result<RepairReport> {
        self.require_writable()?;
        let findings = self.verify_all(watch)?;
        let mut report =
            RepairReport { before: findings.report.clone(), ..RepairReport::default() };
        let damaged: HashSet<PackId> = findings.scan.damage.iter().map(|d| d.pack).collect();
        if findings.index_lags {
            let mut lock = self.lock()?;
            self.with_index(Index::clear)?;
            self.catch_up(&mut lock)?;
        }
        self.append_again(&findings, &mut report)?;
        // What an adopted pack brings back need not be fetched.
        let mut findings = match report.adopted_packs > 0 {
            true => self.verify_all(watch)?,
            false => findings,
        };
        // A part of a tree that is back tells what else is missing.
        let after = loop {
            let restored = self.put_again(&findings, fetch)?;
            report.restored_objects += restored;
            findings = self.verify_all(watch)?;
            if restored == 0 || findings.wanted.is_empty() {
                break findings.report;
            }
        };
        let left: Vec<String> = after.damage.iter().chain(&after.known).cloned().collect();
        let still: HashSet<&CheckpointId> =
            after.hurt.iter().map(|hurt| &hurt.checkpoint).collect();
        let were = report.before.hurt.iter().map(|hurt| hurt.checkpoint.clone());
        report.healed = were.filter(|id| !still.contains(id)).collect();
        report.lost = after.hurt;
        self.write_down(&report, &damaged, left)?;
        let damaged = i64::from(!report.lost.is_empty());
        self.with_index(|index| index.set_note("damage", damaged))?;
        held(&self.damage).clear();
        Ok(report)
    }

    /// Appends the records of runs whose commit is damaged, each with its birth, and names the bulk
    /// packs that no readable commit names: it may have been the damaged one that did.
    fn append_again(&self, findings: &Findings<'_>, report: &mut RepairReport) -> Result<()> {
        let hurt_log =
            findings.scan.damage.iter().any(|damage| matches!(damage.pack, PackId::Log(_)));
        if !hurt_log && findings.forsaken.is_empty() {
            return Ok(());
        }
        // Those of a pack that a repair has looked at before have been appended then.
        let losses = self.with_index(|index| index.documents(Kind::Loss, None))?;
        let seen: HashSet<PackId> =
            losses.iter().filter_map(|row| PackId::from_name(&row.key)).collect();
        let mut lock = self.lock()?;
        let tail = self.catch_up(&mut lock)?;
        let mut spool = Spool::default();
        for orphan in findings.scan.orphans.iter().filter(|orphan| !seen.contains(&orphan.pack)) {
            let Ok(record) = self.pack(orphan.pack)?.record(orphan.offset, 4 << 10) else {
                continue;
            };
            let copy = record::reborn(&record, orphan.birth);
            if let Some(entry) = self.entry(orphan.pack, orphan.offset, &copy, orphan.birth)? {
                spool.add_born(self, entry.kind, &copy, entry.body, orphan.birth)?;
                report.restored_records += 1;
            }
        }
        let damage = findings.scan.damage.iter();
        let birth = damage.map(|damage| damage.birth).max().unwrap_or(tail.sequence.max(1));
        let forsaken = findings.forsaken.iter().cloned();
        let adopted: Vec<Named> =
            forsaken.map(|named| Named { birth: Some(birth), ..named }).collect();
        report.adopted_packs = adopted.len() as u64;
        if !adopted.is_empty() {
            let (kind, record, body) = self.encode_new(self.adoption(findings, &adopted)?)?;
            spool.add(self, kind, &record, body)?;
        }
        if spool.is_empty() && adopted.is_empty() {
            return Ok(());
        }
        let change = Change { generation: tail.generation, adopted, ..Change::default() };
        self.append(&mut lock, &tail, spool, change, Space::Ordinary)?;
        self.catch_up(&mut lock)?;
        Ok(())
    }

    /// The document that says that these packs had no log, and those that had none before.
    fn adoption(&self, findings: &Findings<'_>, adopted: &[Named]) -> Result<NewRecord> {
        let mut packs: Vec<PackId> = findings.scan.adopted().into_iter().collect();
        packs.retain(|pack| findings.scan.packs.contains_key(pack));
        packs.extend(adopted.iter().map(|named| named.pack));
        packs.sort();
        let loss = Loss { adopted: packs, ..Loss::of_nothing(self.clock.now()) };
        let json = serde_json::to_string(&loss)
            .map_err(|error| Error::Damaged(format!("loss: {error}")))?;
        Ok(NewRecord::Document { kind: Kind::Loss, key: ADOPTED_PACKS.into(), json })
    }

    /// Puts what checkpoints need and nothing gives any more.
    fn put_again(
        &self,
        findings: &Findings<'_>,
        fetch: &dyn Fn(&ObjectId) -> Option<Vec<u8>>,
    ) -> Result<u64> {
        let mut pending: Vec<ObjectId> = findings.wanted.iter().copied().collect();
        pending.sort();
        let mut asked: HashSet<ObjectId> = pending.iter().copied().collect();
        let writer = self.begin()?;
        let mut count = 0;
        while let Some(id) = pending.pop() {
            match fetch(&id).filter(|bytes| id_of(bytes) == id) {
                Some(bytes) => {
                    writer.put_again(&bytes)?;
                    count += 1;
                }
                // Its own record may be good, and only the base be missing.
                None => {
                    let bases = findings.scan.pieces_of(&id).filter_map(|(_, piece)| piece.base);
                    pending.extend(bases.filter(|base| asked.insert(*base)));
                }
            }
        }
        if count > 0 {
            writer.commit(|_| Ok(Vec::new()))?;
        }
        Ok(count)
    }

    /// Writes down what is lost, that what was lost is not any more, and which packs' damage has
    /// been looked at.
    fn write_down(
        &self,
        report: &RepairReport,
        damaged: &HashSet<PackId>,
        left: Vec<String>,
    ) -> Result<()> {
        let mut known: BTreeMap<String, Loss> = BTreeMap::new();
        for row in self.with_index(|index| index.documents(Kind::Loss, None))? {
            if let Ok(loss) = serde_json::from_str(&row.json) {
                known.insert(row.key, loss);
            }
        }
        let at = self.clock.now();
        let mut now: BTreeMap<String, Loss> = BTreeMap::new();
        for hurt in &report.lost {
            let (paths, structure) = (hurt.paths.clone(), hurt.structure);
            let key = hurt.checkpoint.to_string();
            let row = self.with_index(|index| index.checkpoint(&hurt.checkpoint))?;
            let (workspace, sequence) = match (row, known.get(&key)) {
                (Some((row, _)), _) => (Some(row.workspace), Some(row.sequence)),
                (None, Some(loss)) => (loss.workspace, loss.sequence),
                (None, None) => (None, None),
            };
            let loss = Loss { paths, structure, workspace, sequence, ..Loss::of_nothing(at) };
            now.insert(key, loss);
        }
        for pack in damaged {
            now.insert(pack.to_string(), Loss::of_nothing(at));
        }
        for (key, loss) in &known {
            if loss.structure || !loss.paths.is_empty() {
                now.entry(key.clone()).or_insert(Loss::of_nothing(at));
            }
        }
        if !left.is_empty() || known.contains_key(KNOWN_DAMAGE) {
            let loss = Loss { known: left, ..Loss::of_nothing(at) };
            now.insert(KNOWN_DAMAGE.into(), loss);
        }
        now.retain(|key, loss| {
            known.get(key).is_none_or(|before| {
                before.paths != loss.paths
                    || before.structure != loss.structure
                    || before.workspace != loss.workspace
                    || before.known != loss.known
            })
        });
        if now.is_empty() {
            return Ok(());
        }
        let mut records = Vec::new();
        for (key, loss) in now {
            let json = serde_json::to_string(&loss)
                .map_err(|error| Error::Damaged(format!("loss: {error}")))?;
            records.push(NewRecord::Document { kind: Kind::Loss, key, json });
        }
        self.begin()?.commit(|_| Ok(records))?;
        Ok(())
    }

    /// Damage that a repair has left behind, in the words of `verify`.
    pub(super) fn known_damage(&self) -> Result<HashSet<String>> {
        let rows = self.look_up(|index| index.documents(Kind::Loss, Some(KNOWN_DAMAGE)))?;
        let last = rows.last().and_then(|row| serde_json::from_str::<Loss>(&row.json).ok());
        Ok(last.map(|loss| loss.known.into_iter().collect()).unwrap_or_default())
    }

    /// What a repair could not bring back of a checkpoint, if one was made.
    pub fn loss(&self, id: &CheckpointId) -> Result<Option<Loss>> {
        let rows = self.with_index(|index| index.documents(Kind::Loss, Some(id.as_str())))?;
        let last = rows.last().and_then(|row| serde_json::from_str::<Loss>(&row.json).ok());
        Ok(last.filter(|loss| loss.structure || !loss.paths.is_empty()))
    }
}
