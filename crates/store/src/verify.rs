//! Checking everything: every byte of every pack against its checksum, every object against its
//! hash, every checkpoint against what it needs. Reads only; `repair` builds on it.

mod repair;
pub(crate) mod tally;

use std::collections::HashSet;

use rappel_types::{CheckpointId, ObjectId, RelPath};

use crate::error::{Error, Result};
use crate::index::CheckpointRow;
use crate::lock::Turn;
use crate::log;
use crate::losses::lost_checkpoints;
use crate::pack::{self, Line, PackId, PackReader};
use crate::record;
use crate::scan::{Depth, Scan};
use crate::sink::Source;
use crate::store::{Store, decode_manifest};
pub use repair::RepairReport;
use tally::Tally;

/// What is checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// The whole store.
    All,
    /// What one checkpoint needs.
    Checkpoint(CheckpointId),
}

/// How often everything is looked at while gc may take packs away; after that, gc has to wait.
const ATTEMPTS: usize = 4;

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// The packs are being read.
    Reading,
    /// So many objects of so many have been decoded.
    Objects {
        /// Decoded.
        done: usize,
        /// Of.
        total: usize,
    },
}

/// Told how far it is; an error, [`Error::Cancelled`] say, stops it.
pub type Watch<'a> = Option<&'a (dyn Fn(Progress) -> Result<()> + Sync)>;

/// A checkpoint that cannot be read as a whole.
#[derive(Debug, Clone, PartialEq, Eq, schemars::JsonSchema, serde::Serialize)]
pub struct Hurt {
    /// Which.
    pub checkpoint: CheckpointId,
    /// Files whose content is damaged or missing, in order.
    pub paths: Vec<RelPath>,
    /// Whether more is hurt than `paths` can say: its manifest, or a part of the tree itself.
    pub structure: bool,
    /// Whether nothing of it is left: it is not even listed any more.
    pub lost: bool,
}

impl Hurt {
    /// One whose manifest cannot be read.
    pub(crate) fn unreadable(checkpoint: CheckpointId) -> Self {
        Self { checkpoint, paths: Vec::new(), structure: true, lost: false }
    }
}

/// What a check has found.
#[derive(Debug, Clone, Default, PartialEq, Eq, schemars::JsonSchema, serde::Serialize)]
pub struct VerifyReport {
    /// Packs read.
    pub packs: u64,
    /// Objects decoded and compared with their hash.
    pub objects: u64,
    /// Checkpoints whose parts were all looked at.
    pub checkpoints: u64,
    /// Bytes of records read.
    pub bytes: u64,
    /// What is not as it was written, for people.
    pub damage: Vec<String>,
    /// Damage that a repair has seen before, and brought back what it hurt as far as that was
    /// possible.
    pub known: Vec<String>,
    /// Checkpoints that cannot be read as a whole.
    pub hurt: Vec<Hurt>,
    /// What a later version wrote and this one cannot check.
    pub unknown: Vec<String>,
}

impl VerifyReport {
    /// Whether nothing is wrong: every checkpoint is whole, and what damage there is is known.
    pub fn is_clean(&self) -> bool {
        self.damage.is_empty() && self.hurt.is_empty()
    }
}

/// What a full check knows, for a repair to go on with.
struct Findings<'s> {
    report: VerifyReport,
    scan: Scan<'s>,
    /// Objects that checkpoints need and that cannot be read.
    wanted: HashSet<ObjectId>,
    /// Whether the index does not agree with the packs.
    index_lags: bool,
    /// Whole bulk packs that a lost log named.
    forsaken: Vec<log::Named>,
}

impl Store {
    /// Reads and checks everything, or what one checkpoint needs. Finding damage is no error.
    pub fn verify(&self, scope: &Scope, watch: Watch<'_>) -> Result<VerifyReport> {
        match scope {
            Scope::All => {
                let report = self.verify_all(watch)?.report;
                let damaged = i64::from(!report.is_clean());
                self.with_index(|index| index.set_note("damage", damaged))?;
                Ok(report)
            }
            Scope::Checkpoint(id) => self.verify_one(id),
        }
    }

    fn verify_one(&self, id: &CheckpointId) -> Result<VerifyReport> {
        let mut report = VerifyReport::default();
        let found = self.with_index(|index| index.checkpoint(id))?;
        let Some((row, _)) = found else {
            report.damage.push(format!("{id} is not known"));
            return Ok(report);
        };
        report.checkpoints = 1;
        let mut tally = Tally::new(self);
        match self.get(&row.manifest).and_then(|json| {
            decode_manifest(&json)?;
            Ok(json)
        }) {
            Ok(json) => report.hurt.extend(tally.checkpoint(id, &json)),
            Err(error @ Error::Newer { .. }) => report.unknown.push(format!("{id}: {error}")),
            Err(error) => {
                report.damage.push(format!("the manifest of {id}: {error}"));
                report.hurt.push(Hurt::unreadable(id.clone()));
            }
        }
        report.objects = tally.objects;
        report.bytes = tally.bytes;
        report.damage.extend(tally.errors);
        report.damage.extend(tally.misshapen);
        report.unknown.extend(tally.newer);
        Ok(report)
    }

    /// Looks at everything up to where the log ends now. Others go on meanwhile, and nothing they do
    /// may look like damage: what is committed or sealed later is behind that end and is not looked
    /// at; what gc takes away, it has retired before by a commit that moves the generation. So what
    /// was found wrong counts only if the generation is the same after the look as before it.
    fn verify_all(&self, watch: Watch<'_>) -> Result<Findings<'_>> {
        for _ in 0..ATTEMPTS {
            let (findings, disturbed) = self.verify_once(watch)?;
            if findings.report.is_clean() || !disturbed {
                return Ok(findings);
            }
        }
        let _turn = match self.read_only {
            // Where nothing can be written, gc cannot be kept waiting.
            Some(_) => None,
            None => Some(Turn::wait(&self.home.gc(), self.patience())?),
        };
        Ok(self.verify_once(watch)?.0)
    }

    /// One look, and whether gc has retired packs meanwhile.
    fn verify_once(&self, watch: Watch<'_>) -> Result<(Findings<'_>, bool)> {
        let tail = self.catch_up_to_read()?;
        self.forget_open_packs();
        let findings = self.look_through(&tail, watch)?;
        let disturbed = match findings.report.is_clean() {
            true => false,
            false => self.catch_up_to_read()?.generation != tail.generation,
        };
        Ok((findings, disturbed))
    }

    fn look_through(&self, tail: &log::Tail, watch: Watch<'_>) -> Result<Findings<'_>> {
        if let Some(watch) = watch {
            watch(Progress::Reading)?;
        }
        let scan = Scan::read(self, tail, Depth::Full)?;
        self.reconcile(&scan)?;
        let mut report = VerifyReport {
            packs: scan.packs.len() as u64,
            bytes: scan.bytes,
            damage: scan.damage.iter().map(ToString::to_string).collect(),
            unknown: scan.unknown.iter().map(ToString::to_string).collect(),
            ..VerifyReport::default()
        };
        check_chain(&scan, &mut report);
        self.check_log_footers(&scan, tail, &mut report)?;
        let forsaken = self.forsaken_packs(&scan)?;
        report.damage.extend(forsaken.iter().map(|named| {
            let what = "no commit names it: the log that did is lost, or a save did not end";
            format!("{}: {what}", named.pack)
        }));
        let good = tally::decode_all(self, &scan, watch, &mut report)?;

        let mut tally = Tally::of_known(&scan, &good);
        let rows = self.look_up(|index| index.checkpoints(None))?;
        let mut known = HashSet::new();
        let listed: HashSet<CheckpointId> = rows.iter().map(|row| row.id.clone()).collect();
        // What was saved since the packs were read is for the next time.
        for row in rows.into_iter().filter(|row| row.birth <= scan.sequence) {
            known.insert(row.manifest);
            report.checkpoints += 1;
            match scan.get(&row.manifest) {
                Ok(json) => match decode_manifest(&json) {
                    Err(error @ Error::Newer { .. }) => {
                        report.unknown.push(format!("{}: {error}", row.id));
                    }
                    _ => report.hurt.extend(tally.checkpoint(&row.id, &json)),
                },
                Err(_) => {
                    tally.wanted.insert(row.manifest);
                    report.hurt.push(Hurt::unreadable(row.id));
                }
            }
        }
        for checkpoint in lost_checkpoints(&scan, |id| listed.contains(id)) {
            report.hurt.push(Hurt { lost: true, ..Hurt::unreadable(checkpoint) });
        }
        let wanted = tally.wanted;
        report.damage.extend(tally.misshapen);
        report.unknown.extend(tally.newer);
        let needed = tally.seen.iter().filter(|id| good.contains_key(id));
        let absent: Vec<&ObjectId> = needed.filter(|id| !self.stands(id)).collect();
        let mut index_lags = false;
        if !absent.is_empty() {
            // Somebody may just be building the index anew, or taking in what gc moved.
            self.catch_up_to_read()?;
            index_lags = absent.into_iter().any(|id| !self.stands(id));
        }
        for record in &scan.manifests {
            match scan.get(&record.object).and_then(|json| decode_manifest(&json)) {
                Ok(manifest) => {
                    let row = self.look_up(|index| index.checkpoint(&manifest.id))?;
                    let agrees = |row: &CheckpointRow| {
                        row.birth > record.birth
                            || (row.birth == record.birth && row.manifest == record.object)
                    };
                    index_lags |= !row.is_some_and(|(row, _)| agrees(&row));
                }
                Err(Error::Newer { .. }) => {}
                Err(error) if known.contains(&record.object) => drop(error),
                Err(error) => report
                    .damage
                    .push(format!("{} at {}: a manifest: {error}", record.pack, record.offset)),
            }
        }
        if index_lags {
            report.damage.push("index.db does not agree with the packs".into());
        }
        let known = self.known_damage()?;
        let damage = std::mem::take(&mut report.damage);
        (report.known, report.damage) = damage.into_iter().partition(|one| known.contains(one));
        Ok(Findings { report, scan, wanted, index_lags, forsaken })
    }

    /// The footers of log packs that were closed at `tail`, which nobody needs for reading them.
    fn check_log_footers(
        &self,
        scan: &Scan<'_>,
        tail: &log::Tail,
        report: &mut VerifyReport,
    ) -> Result<()> {
        let packs = self.home.packs();
        for pack in scan.packs.keys() {
            let PackId::Log(number) = *pack else { continue };
            // One that was open then may be sealed by now, with runs that were not looked at.
            if tail.pack.is_none_or(|newest| number > newest || (number == newest && tail.open)) {
                continue;
            }
            let Ok(reader) = PackReader::open(&packs, *pack) else { continue };
            let commits = scan.commits.iter().filter(|commit| commit.position.pack == number);
            let end = commits.map(|commit| commit.position.end).max().unwrap_or(pack::HEADER);
            // Before it is read-only, a crash may have left half a footer.
            if !reader.is_read_only()? {
                continue;
            }
            let damaged = match reader.footer() {
                Ok(Some((lines, _))) => {
                    let bytes = reader.read(0, end)?;
                    let found = record::all(&bytes, pack::HEADER as usize).into_iter();
                    let real: Vec<Line> = found
                        .map(|found| Line::of(&bytes[found.at..found.end()], found.at as u64))
                        .collect();
                    lines != real
                }
                Ok(None) => true,
                Err(error) if error.is_damage() => true,
                Err(error) => return Err(error),
            };
            if damaged {
                report.damage.push(format!("{pack}: its footer"));
            }
        }
        Ok(())
    }
}

/// Commits follow each other without gaps, and each names the one before it. Only where a pack
/// between two was retired may some be missing.
fn check_chain(scan: &Scan<'_>, report: &mut VerifyReport) {
    let mut last: Option<&log::Position> = None;
    for commit in &scan.commits {
        let (position, pack) = (&commit.position, PackId::Log(commit.position.pack));
        let from = last.map_or(0, |last| last.pack);
        let gap = (from + 1..position.pack).any(|between| {
            let between = PackId::Log(between);
            !scan.packs.contains_key(&between) && !scan.damage.iter().any(|d| d.pack == between)
        });
        let expected = last.map_or(1, |last| last.sequence + 1);
        let follows = position.sequence == expected && commit.previous == last.map(|last| last.id);
        let jumps = gap && position.sequence > expected;
        if !follows && !jumps {
            report.damage.push(format!(
                "{pack}: commit {} does not follow what is before it",
                position.sequence
            ));
        }
        last = Some(position);
    }
}
